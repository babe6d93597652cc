/* Options of the command line, their help, and the word that a mistyped one was meant to be. */
#include "cli.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES = 32, WORD = 32 };

/* How many letters must be changed, added, left out or exchanged with a neighbour to make a into b; long words are cut. */
static int distance(const char *a, const char *b)
{
    int rows[3][WORD + 1], *before = rows[0], *last = rows[1], *now = rows[2];
    const int n = (int)strnlen(a, WORD), m = (int)strnlen(b, WORD);
    for (int j = 0; j <= m; j++) last[j] = j;
    for (int i = 1; i <= n; i++) {
        now[0] = i;
        for (int j = 1; j <= m; j++) {
            int best = last[j - 1] + (a[i - 1] != b[j - 1]);
            if (last[j] + 1 < best) best = last[j] + 1;
            if (now[j - 1] + 1 < best) best = now[j - 1] + 1;
            const bool exchanged = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (exchanged && before[j - 2] + 1 < best) best = before[j - 2] + 1;
            now[j] = best;
        }
        int *oldest = before;
        before = last, last = now, now = oldest;
    }
    return last[m];
}

const char *cli_nearest(const char *word, const char *const *names, int n)
{
    const char *nearest = NULL;
    int best = (int)strlen(word) / 2 + 1;
    for (int i = 0; i < n; i++) {
        const size_t prefix = strlen(word);
        const int d = prefix > 2 && strncmp(names[i], word, prefix) == 0 ? 0 : distance(word, names[i]);
        if (d < best) nearest = names[i], best = d;
    }
    return nearest;
}

static bool refuse_option(const cli_command *command, const char *word)
{
    const char *names[NAMES] = {"--help"};
    int n = 1;
    for (const cli_option *o = command->options; o->name && n < NAMES; o++) names[n++] = o->name;
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
    const char *nearest = word[0] == '-' ? cli_nearest(name, names, n) : NULL;
    fprintf(stderr, "facula %s: %s '%s'", command->name, word[0] == '-' ? "unknown option" : "unexpected argument", word);
    if (nearest) fprintf(stderr, "; did you mean %s?", nearest);
    fprintf(stderr, "\nOptions are listed by: facula %s --help\n", command->name);
    return false;
}

static cli_option *find(const cli_command *command, const char *word, size_t length)
{
    for (cli_option *o = command->options; o->name; o++)
        if (strlen(o->name) == length && strncmp(o->name, word, length) == 0) return o;
    return NULL;
}

bool cli_parse(const cli_command *command, int argc, char **argv, bool *help)
{
    *help = false;
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            *help = true;
            continue;
        }
        const char *equals = strchr(argv[i], '=');
        cli_option *o = find(command, argv[i], equals ? (size_t)(equals - argv[i]) : strlen(argv[i]));
        if (!o || (equals && !o->value)) return refuse_option(command, argv[i]);
        if (!o->value) o->given = "";
        else if (equals) o->given = equals + 1;
        else if (i + 1 < argc) o->given = argv[++i];
        else {
            fprintf(stderr, "facula %s: option %s needs a value: %s %s\n", command->name, o->name, o->name, o->value);
            return false;
        }
    }
    return true;
}

const char *cli_get(const cli_command *command, const char *name)
{
    const cli_option *o = find(command, name, strlen(name));
    return o ? o->given : NULL;
}

bool cli_number(const cli_command *command, const char *name, int64_t low, int64_t high, int64_t fallback, int64_t *out)
{
    const char *text = cli_get(command, name);
    *out = fallback;
    if (!text) return true;
    char *end;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    if (*text && !*end && !errno && value >= low && value <= high) {
        *out = value;
        return true;
    }
    fprintf(stderr, "facula %s: option %s is '%s': a whole number from %lld to %lld is needed\n", command->name, name, text,
            (long long)low, (long long)high);
    return false;
}

void cli_command_help(const cli_command *command)
{
    printf("facula %s: %s\n\nUsage: facula %s [options]\n\nOptions:\n", command->name, command->what, command->name);
    for (const cli_option *o = command->options; o->name; o++) {
        char both[48];
        snprintf(both, sizeof both, "%s%s%s", o->name, o->value ? " " : "", o->value ? o->value : "");
        printf("  %-18s %s\n", both, o->what);
    }
    printf("  %-18s %s\n", "--help", "this text");
    if (command->more) printf("\n%s", command->more);
}
