/*
 * The offline tools: tarn ls, stat, cat, cp, find, tree, du, diff, extract, inspect, verify, mount
 * and stream. They open a pool in their own process, read-only: no pool process, no root, no lock,
 * nothing is ever written to a device (docs/tools.md).
 */
#ifndef TOOL_TOOL_H
#define TOOL_TOOL_H

#include <stdbool.h>
#include <stdio.h>

bool tool_exists(const char *name);
/* argv[0] is the command. Returns the exit status: 0 done, 1 something could not be read (diff:
 * there are differences), 2 wrong usage (diff: trouble). */
int tool_main(int argc, char **argv);
void tool_usage_all(FILE *to);

#endif
