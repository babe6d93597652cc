/* facula doctor: why a device is not there, step by step (fa_device_why_not). */
#include "cli.h"
#include <stdlib.h>

enum { TYPES = 16, ROOM = 8192 };

static void tell(int type)
{
    char text[ROOM];
    if (fa_device_why_not(type, text, sizeof text)) printf("%s\n", text);
}

/* Of the types that come by plug-ins only those that somebody asked for. */
static bool is_wanted(int type)
{
    return type <= FA_DEVICE_OPENCL || fa_device_count(type) > 0 || (type == FA_DEVICE_NPU && getenv("FACULA_PLUGINS"));
}

static int run(const cli_command *command)
{
    const char *name = cli_get(command, "--device");
    if (name) {
        const fa_device device = fa_device_parse(name);
        if (!fa_failed()) tell(device.type);
        const bool there = !fa_failed() && fa_device_count(device.type) > 0;
        return fa_finish("facula doctor") || !there;
    }
    for (int type = FA_DEVICE_CUDA; type < TYPES; type++)
        if (is_wanted(type)) tell(type);
    const fa_device best = fa_accelerator();
    if (best.type) printf("The accelerator is %s.\n", fa_device_text(best));
    else printf("There is no accelerator; FACULA_SIM=cuda:2 gives two simulated ones.\n");
    return fa_finish("facula doctor");
}

static cli_option options[] = {
    {"--device", "NAME", "cuda, xpu, npu, ... (all of them)", NULL},
    {0},
};
const cli_command cli_doctor = {
    .name = "doctor",
    .what = "why a device is not there, and how to mend it",
    .more = "With --device the exit code is 0 if it is there, 1 if not.\n",
    .run = run,
    .options = options,
};
