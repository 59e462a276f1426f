/*
 * Errors for people. A function returns a negative errno; the sentence that explains it is kept
 * per thread until the next err_set() or err_clear() and is fetched by whoever reports the error.
 */
#ifndef UTIL_ERR_H
#define UTIL_ERR_H

#define ERR_TEXT_MAX 4096 /* a sentence, or a list of them; with NUL, what is longer is cut */
#define ERR_LINE_MAX 700  /* one line of a list with a name or two in it */

/* Stores the sentence and returns -err (err > 0), so that "return err_set(EIO, ...)" works. */
int err_set(int err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Puts "text: " in front of the present sentence (or makes one from strerror if there is none);
 * returns rc unchanged, rc being a negative errno. */
int err_prefix(int rc, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The sentence for rc: the stored one if it was stored with that errno, else strerror(-rc).
 * Valid until this thread's next err_* call. */
const char *err_text(int rc);

void err_clear(void);

#endif
