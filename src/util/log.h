/* The program's log: one line per call to a file descriptor (standard error at first). */
#ifndef UTIL_LOG_H
#define UTIL_LOG_H

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

void log_set(int fd, enum log_level most); /* the descriptor stays the caller's */
void log_line(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...) log_line(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warn(...)  log_line(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_info(...)  log_line(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_line(LOG_LEVEL_DEBUG, __VA_ARGS__)

#endif
