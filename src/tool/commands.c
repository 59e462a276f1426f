/* The table of tools, and running one. */
#include <json-c/json.h>
#include <string.h>
#include <unistd.h>

#include "device/device.h"
#include "tool/tool.h"
#include "tool/tool_impl.h"

const struct tool_command tool_commands[] = {
    {"ls", tool_ls, "[-1AFRSahilnrst] [--directory] TARGET...", "list files", false},
    {"stat", tool_stat, "[-c FORMAT] TARGET...", "show all about files", false},
    {"cat", tool_cat, "TARGET...", "print files, or volumes", false},
    {"cp", tool_cp, "[-aprv] TARGET... DESTINATION", "copy files out", false},
    {"find", tool_find,
     "TARGET... [-name PATTERN] [-iname PATTERN] [-path PATTERN] [-type LETTER] [-size "
     "[+-]N[ckMG]]\n"
     "                 [-uid N] [-gid N] [-inum N] [-links N] [-perm OCTAL] [-empty] [-maxdepth "
     "N]\n"
     "                 [-mindepth N] [! TEST] [-print | -print0 | -ls]",
     "search for files", false},
    {"tree", tool_tree, "[-ahps] [--directories] [-L DEPTH] TARGET...", "draw folders as a tree", false},
    {"du", tool_du, "[-abchs] [--max-depth=N] TARGET...", "sum up the space of files", false},
    {"diff", tool_diff, "[-q] TARGET TARGET", "compare snapshots, folders or files", false},
    {"extract", tool_extract,
     "[-Rv] [--resume] [--no-owner] [--no-xattrs] DATASET[@SNAPSHOT] FOLDER\n"
     "       tarn extract [-Rv] --tar DATASET[@SNAPSHOT] [FILE]",
     "rescue a whole dataset or snapshot", false},
    {"inspect", tool_inspect,
     "[-v] label|uberblocks IMAGE...\n"
     "       tarn inspect config|mos|spacemaps|history|features POOL\n"
     "       tarn inspect dataset POOL | DATASET\n"
     "       tarn inspect object [--mos] [--blocks] DATASET [OBJECT]\n"
     "       tarn inspect block POOL VDEV:OFFSET:SIZE\n"
     "       tarn inspect block [--mos] DATASET OBJECT LEVEL:BLOCK",
     "look at the structures of a pool", true},
    {"verify", tool_verify, "[-mqv] [-j THREADS] POOL", "check every block of a pool", true},
    {"mount", tool_mount, "--read-only [-f] DATASET[@SNAPSHOT] FOLDER",
     "mount a dataset of an image (no root needed)", false},
    {"stream", tool_stream, "[-v] [--data] [FILE]", "decode a send stream", true},
    {NULL, NULL, NULL, NULL, false},
};

static const struct tool_command *lookup(const char *name)
{
    const struct tool_command *c = tool_commands;
    while (c->name && strcmp(c->name, name) != 0)
        c++;
    return c->name ? c : NULL;
}

bool tool_exists(const char *name)
{
    return lookup(name) != NULL;
}

void tool_usage_all(FILE *to)
{
    for (const struct tool_command *c = tool_commands; c->name; c++)
        fprintf(to, "    %-8s %s\n", c->name, c->about);
}

int tool_main(int argc, char **argv)
{
    const struct tool_command *c = lookup(argv[0]);
    struct tool t = {.name = argv[0], .command = c, .terminal = isatty(STDOUT_FILENO)};
    device_look_only();
    int rc = c->run(&t, argc, argv);
    tool_device_errors(&t);
    tool_close(&t);
    if (t.json && rc != 2)
        tool_finish(&t);
    json_object_put(t.errors);
    json_object_put(t.devices);
    json_object_put(t.summary);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        perror("tarn: cannot write");
        return rc ? rc : 1;
    }
    return rc ? rc : t.status;
}
