/* The commands: tarn, zpool, zfs, mount.tarn, chosen by the name they are called by. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

/* argv[0] decides; "tarn zpool ..." is the same as "zpool ...". Returns the exit status: 0 done, 1
 * an error, 2 wrong usage. */
int cli_main(int argc, char **argv);

#endif
