/* The multi-call binary: tarn, zpool, zfs, mount.tarn. */
#include "cli/cli.h"

int main(int argc, char **argv)
{
    return cli_main(argc, argv);
}
