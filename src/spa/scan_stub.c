/* Stands in for the scan until it is there: nothing is resilvered. */
#include "spa/scan.h"

void spa_resilver_request(struct spa *spa)
{
}
