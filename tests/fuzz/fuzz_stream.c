/* Decodes the input as a send stream to its end. Memory stays bounded by the payload limit, and
 * every record advances. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "tool/stream_decode.h"

struct input {
    const uint8_t *data;
    size_t n, at;
};

static int64_t read_input(void *arg, void *data, size_t n)
{
    struct input *in = arg;
    size_t got = n < in->n - in->at ? n : in->n - in->at;
    memcpy(data, in->data + in->at, got);
    in->at += got;
    return (int64_t)got;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct input in = {data, n, 0};
    struct stream s;
    struct stream_record r;
    uint64_t last = 0;
    bool first = true;

    stream_open(&s, read_input, &in);
    while (stream_next(&s, &r) == 0) {
        if ((!first && r.at <= last) || r.type >= STREAM_TYPES || r.payload > STREAM_PAYLOAD_MAX ||
            s.capacity > STREAM_PAYLOAD_MAX || s.at != in.at ||
            memchr(r.to_name, '\0', sizeof r.to_name) == NULL)
            abort();
        last = r.at;
        first = false;
    }
    stream_close(&s);
    return 0;
}
