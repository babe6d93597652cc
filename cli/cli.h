/* The command `facula`: what its files share. */
#ifndef FACULA_CLI_H
#define FACULA_CLI_H

#include <facula.h>

/* ---- options.c: "--name VALUE" or "--name=VALUE", in any order ---- */
typedef struct cli_option {
    const char *name;  /* "--device" */
    const char *value; /* what the value is called in help; NULL: the option takes none */
    const char *what;  /* one line for help */
    const char *given; /* filled in: the value, "" for an option without one; NULL: not given */
} cli_option;

typedef struct cli_command {
    const char *name, *what;                       /* "demo", one line */
    const char *more;                              /* the rest of its help */
    int (*run)(const struct cli_command *command); /* returns the exit code */
    cli_option *options;                           /* ends with a name that is NULL */
} cli_command;

/* Fills command->options from the arguments after its name. False after a message: exit code 2. *help: --help was among them. */
bool cli_parse(const cli_command *command, int argc, char **argv, bool *help);
const char *cli_get(const cli_command *command, const char *name);
/* A whole number in [low, high], or fallback if the option was not given. False after a message. */
bool cli_number(const cli_command *command, const char *name, int64_t low, int64_t high, int64_t fallback, int64_t *out);
/* The name in a list that word most likely stands for; NULL if none is near. */
const char *cli_nearest(const char *word, const char *const *names, int n);
void cli_command_help(const cli_command *command);

/* ---- progress.c: one line rewritten on a terminal, one line an epoch elsewhere ---- */
typedef struct cli_progress {
    int64_t total;      /* steps of an epoch */
    int epochs;
    bool terminal;
    double last_shown;  /* seconds */
} cli_progress;
double cli_seconds(void); /* a clock that only runs forward */
void cli_progress_begin(cli_progress *progress, int epochs, int64_t total);
void cli_progress_show(cli_progress *progress, int epoch, int64_t step, double loss, double accuracy);
void cli_progress_end(cli_progress *progress);

/* ---- the sub-commands ---- */
extern const cli_command cli_info, cli_demo, cli_selftest, cli_doctor;

#endif
