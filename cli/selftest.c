/* facula selftest: every operator on a device against the CPU (fa_selftest.h). */
#include "cli.h"

static void print_line(void *context, const char *text)
{
    (void)context;
    puts(text);
    fflush(stdout);
}

static int run(const cli_command *command)
{
    const char *name = cli_get(command, "--device");
    const fa_device device = name ? fa_device_parse(name) : fa_try_accelerator(0);
    const bool fine = !fa_failed() && fa_selftest(device, NULL, .op = cli_get(command, "--op"), .line = print_line);
    return fa_finish("facula selftest") || !fine;
}

static cli_option options[] = {
    {"--device", "NAME", "cuda, cuda:1, npu, ... (the best there is)", NULL},
    {"--op", "NAME", "one operator alone, as softmax or conv2d", NULL},
    {0},
};
const cli_command cli_selftest = {
    .name = "selftest",
    .what = "checks every operator of a device against the CPU",
    .more = "Exit code 0: all right, 1: something is wrong, and the operators are named.\n",
    .run = run,
    .options = options,
};
