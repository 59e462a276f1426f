/* zfs allow. */
#ifndef CLI_ALLOW_IMPL_H
#define CLI_ALLOW_IMPL_H

/* What is delegated on a dataset and above it; the command's exit status. */
int allow_print(const char *name);

#endif
