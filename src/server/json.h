/* Reading members of JSON objects; defaults are given when absent or of another type. */
#ifndef SERVER_JSON_H
#define SERVER_JSON_H

#include <stddef.h>

struct json_object;

const char *json_text(struct json_object *o, const char *key, const char *otherwise);
int json_flag(struct json_object *o, const char *key);
long long json_number(struct json_object *o, const char *key, long long otherwise);
unsigned long long json_unsigned(struct json_object *o, const char *key); /* else 0 */
struct json_object *json_member(struct json_object *o, const char *key);  /* borrowed or NULL */

/* A member that is an array, else NULL; the number of its items (0 for NULL); an item's text ("" if
 * it is no string). */
struct json_object *json_array(struct json_object *o, const char *key);
size_t json_count(struct json_object *array);
const char *json_item(struct json_object *array, size_t i);

#endif
