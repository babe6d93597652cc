/* The command `facula`: chooses the sub-command. Exit codes: 0 done, 1 it failed, 2 it was called wrongly. */
#include "cli.h"
#include <string.h>

static const cli_command *const commands[] = {&cli_info, &cli_demo, &cli_selftest, &cli_doctor};
enum { COMMANDS = sizeof commands / sizeof commands[0] };

static void help(void)
{
    printf("facula %s: tensors, networks and their training on any device\n\n", fa_version());
    printf("Usage: facula <command> [options]\n\nCommands:\n");
    for (int i = 0; i < COMMANDS; i++) printf("  %-18s %s\n", commands[i]->name, commands[i]->what);
    printf("  %-18s %s\n", "help [command]", "this text, or a command's");
    printf("\nOptions:\n  %-18s %s\n", "--version", "the version");
    printf("  %-18s %s\n", "--help", "this text; after a command, that command's");
    printf("\nWithout a GPU: FACULA_SIM=cuda:2 facula info   shows two simulated ones, and every program can use them.\n");
}

static const cli_command *find(const char *name)
{
    for (int i = 0; i < COMMANDS; i++)
        if (strcmp(commands[i]->name, name) == 0) return commands[i];
    return NULL;
}

static int refuse(const char *word)
{
    const char *names[COMMANDS + 3];
    for (int i = 0; i < COMMANDS; i++) names[i] = commands[i]->name;
    names[COMMANDS] = "help", names[COMMANDS + 1] = "--help", names[COMMANDS + 2] = "--version";
    const char *nearest = cli_nearest(word, names, COMMANDS + 3);
    fprintf(stderr, "facula: unknown %s '%s'", word[0] == '-' ? "option" : "command", word);
    if (nearest) fprintf(stderr, "; did you mean %s?", nearest);
    fprintf(stderr, "\nCommands are listed by: facula --help\n");
    return 2;
}

/* What FACULA_FALLBACK=cpu did for a device, told at the end. */
static void tell_fallbacks(void)
{
    fa_fallback_info f;
    for (int i = 0; fa_fallback_get(i, &f); i++)
        printf("%sFACULA_FALLBACK=cpu: the CPU ran %llu kernels for %s of %s (%s)\n", i ? "" : "\n", (unsigned long long)f.count, f.op,
               fa_device_text(f.device), f.reason);
}

/* What was printed may not have arrived: a full disk, a closed pipe. */
static int finish(int code)
{
    if (fflush(stdout) == 0 && !ferror(stdout)) return code;
    perror("facula: writing the output");
    return code ? code : 1;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        help();
        return 2;
    }
    const char *word = argv[1];
    if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0) {
        printf("facula %s\n", fa_version());
        return finish(0);
    }
    const bool asks = strcmp(word, "help") == 0;
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || (asks && argc == 2)) {
        help();
        return finish(0);
    }
    if (asks) word = argv[2];
    const cli_command *command = find(word);
    if (!command) return refuse(word);
    bool wants_help = asks;
    if (!asks && !cli_parse(command, argc - 2, argv + 2, &wants_help)) return 2;
    int code = 0;
    if (wants_help) cli_command_help(command);
    else code = command->run(command), tell_fallbacks();
    return finish(code);
}
