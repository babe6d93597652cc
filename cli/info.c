/* facula info: the devices, the instruction set, the libraries, and how to get what is missing. */
#include "cli.h"
#include <dlfcn.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { TYPES = 16 };

static void text_of_bytes(char *out, size_t n, uint64_t bytes)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    int unit = 0;
    while (value >= 1024 && unit < 4) value /= 1024, unit++;
    snprintf(out, n, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
}

/* A device that can't be asked is part of the answer, and no reason to stop. */
static void print_unusable(fa_device device)
{
    fa_error error = fa_error_take();
    printf("  %-8s not usable: %s\n", fa_device_text(device), error.text);
}

static void print_device(fa_device device)
{
    fa_device_properties p;
    uint64_t free_bytes = 0, total_bytes = 0;
    char memory[32], available[32];
    if (!fa_device_get_properties(device, &p)) {
        print_unusable(device);
        return;
    }
    text_of_bytes(memory, sizeof memory, p.total_memory);
    if (device.type == FA_DEVICE_CPU) {
        printf("  %-8s %s, %s of memory, ready\n", fa_device_text(device), p.name, memory);
        return;
    }
    if (!fa_memory_info(device, &free_bytes, &total_bytes)) {
        print_unusable(device);
        return;
    }
    text_of_bytes(available, sizeof available, free_bytes);
    printf("  %-8s %s, %s of memory, %s free, ", fa_device_text(device), p.name, memory, available);
    if (p.multiprocessors) printf("%d multiprocessors, ", p.multiprocessors);
    printf("%s%sready\n", p.driver, p.driver[0] ? ", " : "");
}

static int print_devices(void)
{
    int accelerators = 0;
    printf("Devices\n");
    print_device(FA_CPU);
    for (int type = FA_DEVICE_CUDA; type < TYPES; type++)
        for (int i = 0; i < fa_device_count(type); i++, accelerators++) print_device(fa_device_of_type(type, i));
    if (!accelerators) {
        fa_device_properties p;
        fa_device_get_properties(FA_CUDA(0), &p); /* for the reason */
        printf("  no accelerator: %s\n", fa_error_take().text);
    }
    return accelerators;
}

static void print_plugins(void)
{
    fa_plugin_info plugin;
    for (int i = 0; fa_plugin_get(i, &plugin); i++) {
        if (i == 0) printf("\nPlug-ins\n");
        const char *many = plugin.devices == 1 ? "" : "s";
        if (plugin.devices) printf("  %s  %d device%s of the type %s", plugin.path, plugin.devices, many, plugin.name);
        else printf("  %s  can't be used", plugin.path);
        if (plugin.problem[0]) printf(": %s", plugin.problem);
        printf("\n");
    }
}

static bool opens(const char *name)
{
    void *library = dlopen(name, RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
    if (library) dlclose(library);
    return library != NULL;
}

/* Where the toolkit and pip put NVRTC; the library itself looks in more places. */
static bool nvrtc_is_there(void)
{
    static const char *const patterns[] = {"/usr/local/cuda/lib64/libnvrtc.so.1[23]",
                                           "/usr/local/lib/python3*/*-packages/nvidia/*/lib/libnvrtc.so.1[23]",
                                           "~/.local/lib/python3*/site-packages/nvidia/*/lib/libnvrtc.so.1[23]"};
    bool there = opens("libnvrtc.so.13") || opens("libnvrtc.so.12");
    for (int i = 0; i < 3 && !there; i++) {
        glob_t found;
        there = glob(patterns[i], GLOB_TILDE, NULL, &found) == 0;
        if (there) globfree(&found);
    }
    return there;
}

static void print_library(const char *name, const char *state, const char *brings)
{
    printf("  %-12s %-12s %s\n", name, state, brings);
}

static void print_libraries(void)
{
    printf("\nLibraries\n");
    print_library("CUDA driver", opens("libcuda.so.1") ? "found" : "not found",
                  "NVIDIA GPUs as cuda:0, cuda:1, ... (libcuda.so.1, part of the driver)");
    print_library("NVRTC", nvrtc_is_there() ? "found" : "not found",
                  "compiles the kernels for NVIDIA GPUs (libnvrtc.so.13 or .12: "
                  "the CUDA toolkit, or pip install nvidia-cuda-nvrtc)");
    fa_library_info library;
    for (int i = 0; fa_library_get(FA_DEVICE_CUDA, i, &library); i++)
        if (library.usable) printf("  %-12s %-12llu in place of own kernels: %s\n", library.name, (unsigned long long)library.version, library.file);
        else printf("  %-12s %-12s %s; own kernels do its work\n", library.name, "not used", library.why);
    print_library("OpenCL", opens("libOpenCL.so.1") ? "found" : "not found",
                  "other GPUs as opencl:0, Intel's as xpu:0 (libOpenCL.so.1, and the device's driver)");
    print_library("zlib", zlibVersion(), "compressed .npz and .csv.gz files");
}

static void print_fallback(void)
{
    const char *fallback = getenv("FACULA_FALLBACK");
    if (!fallback || !*fallback) return;
    if (strcmp(fallback, "cpu")) printf("\nFACULA_FALLBACK=%s is not understood, and nothing falls back: write FACULA_FALLBACK=cpu\n", fallback);
    else printf("\nFACULA_FALLBACK=cpu is set: what a device can't compute runs on the CPU, with copies there and back; each operation is told of\n"
                "once and counted (fa_fallback_get, torch.fallbacks(); facula selftest and demo list them).\n");
}

static int run(const cli_command *command)
{
    (void)command;
    printf("facula %s\n\n", fa_version());
    const int accelerators = print_devices();
    printf("\nProcessor\n  instruction set %s, of those that this machine has: %s (FACULA_ISA chooses another)\n",
           fa_instruction_set(), fa_instruction_sets());
    printf("  threads %d (OMP_NUM_THREADS or FACULA_NUM_THREADS sets it; results do not depend on it)\n", fa_num_threads());
    print_plugins();
    print_libraries();
    const char *sim = getenv("FACULA_SIM");
    print_fallback();
    if (sim && *sim) printf("\nSimulated devices: FACULA_SIM=%s is set; unset it to use real ones.\n", sim);
    else if (accelerators) printf("\nSimulated devices, in place of the real ones: FACULA_SIM=cuda:2 facula info\n");
    else printf("\nSimulated devices, to learn and to test without a GPU: FACULA_SIM=cuda:2 facula info\n");
    if (!accelerators) printf("Why there is no accelerator, step by step: facula doctor\n");
    return fa_finish("facula info");
}

static cli_option options[] = {{0}};
const cli_command cli_info = {
    .name = "info",
    .what = "devices, instruction sets, libraries",
    .more = "FACULA_SIM=cuda:2 facula info         with two simulated GPUs; FACULA_SIM_MEMORY=256MiB sets their size\n"
            "CUDA_VISIBLE_DEVICES=1 facula info    with some of the GPUs only\n",
    .run = run,
    .options = options,
};
