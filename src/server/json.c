/* Reading JSON that came from outside: any member may be missing or of another type. */
#include <json-c/json.h>
#include <string.h>

#include "server/json.h"

struct json_object *json_member(struct json_object *o, const char *key)
{
    struct json_object *v = NULL;
    if (!o || !json_object_is_type(o, json_type_object))
        return NULL;
    json_object_object_get_ex(o, key, &v);
    return v;
}

const char *json_text(struct json_object *o, const char *key, const char *otherwise)
{
    struct json_object *v = json_member(o, key);
    return v && json_object_is_type(v, json_type_string) ? json_object_get_string(v) : otherwise;
}

int json_flag(struct json_object *o, const char *key)
{
    struct json_object *v = json_member(o, key);
    return v && json_object_is_type(v, json_type_boolean) && json_object_get_boolean(v);
}

long long json_number(struct json_object *o, const char *key, long long otherwise)
{
    struct json_object *v = json_member(o, key);
    return v && json_object_is_type(v, json_type_int) ? json_object_get_int64(v) : otherwise;
}

unsigned long long json_unsigned(struct json_object *o, const char *key)
{
    struct json_object *v = json_member(o, key);
    return v && json_object_is_type(v, json_type_int) ? json_object_get_uint64(v) : 0;
}

struct json_object *json_array(struct json_object *o, const char *key)
{
    struct json_object *v = json_member(o, key);
    return v && json_object_is_type(v, json_type_array) ? v : NULL;
}

size_t json_count(struct json_object *array)
{
    return array ? json_object_array_length(array) : 0;
}

const char *json_item(struct json_object *array, size_t i)
{
    struct json_object *v = json_object_array_get_idx(array, i);
    return v && json_object_is_type(v, json_type_string) ? json_object_get_string(v) : "";
}
