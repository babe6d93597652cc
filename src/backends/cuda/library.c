/* Finds and opens the driver and NVRTC at run time, so that one binary serves machines with and without CUDA.
 *
 * With FACULA_SIM set, libfacula_sim.so is opened in place of both, from the folder that holds this code and from nowhere
 * else: a process is either simulated or real, never a mix. */
#define _GNU_SOURCE
#include "cuda.h"
#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

fai_cuda_driver fai_cuda;
fai_cuda_simulator fai_cuda_sim;
fai_nvrtc fai_cuda_nvrtc;

static void *simulator; /* the handle of libfacula_sim.so, when that is what was opened */

typedef struct symbol {
    const char *name;
    size_t offset; /* of the pointer in its struct */
} symbol;

#define ENTRY(member, name)                                                                                                      \
    { name, offsetof(fai_cuda_driver, member) }
static const symbol driver_symbols[] = {
    ENTRY(init, "cuInit"),
    ENTRY(driver_version, "cuDriverGetVersion"),
    ENTRY(error_name, "cuGetErrorName"),
    ENTRY(error_string, "cuGetErrorString"),
    ENTRY(device_count, "cuDeviceGetCount"),
    ENTRY(device_get, "cuDeviceGet"),
    ENTRY(device_name, "cuDeviceGetName"),
    ENTRY(device_memory, "cuDeviceTotalMem_v2"),
    ENTRY(device_attribute, "cuDeviceGetAttribute"),
    ENTRY(context_retain, "cuDevicePrimaryCtxRetain"),
    ENTRY(context_release, "cuDevicePrimaryCtxRelease_v2"),
    ENTRY(context_set, "cuCtxSetCurrent"),
    ENTRY(context_synchronize, "cuCtxSynchronize"),
    ENTRY(memory_allocate, "cuMemAlloc_v2"),
    ENTRY(memory_free, "cuMemFree_v2"),
    ENTRY(host_allocate, "cuMemHostAlloc"),
    ENTRY(host_free, "cuMemFreeHost"),
    ENTRY(memory_info, "cuMemGetInfo_v2"),
    ENTRY(copy_to_device, "cuMemcpyHtoDAsync_v2"),
    ENTRY(copy_to_host, "cuMemcpyDtoHAsync_v2"),
    ENTRY(copy_within, "cuMemcpyDtoDAsync_v2"),
    ENTRY(fill, "cuMemsetD8Async"),
    ENTRY(stream_create, "cuStreamCreateWithPriority"),
    ENTRY(stream_destroy, "cuStreamDestroy_v2"),
    ENTRY(stream_synchronize, "cuStreamSynchronize"),
    ENTRY(stream_wait_event, "cuStreamWaitEvent"),
    ENTRY(event_create, "cuEventCreate"),
    ENTRY(event_destroy, "cuEventDestroy_v2"),
    ENTRY(event_record, "cuEventRecord"),
    ENTRY(event_synchronize, "cuEventSynchronize"),
    ENTRY(event_query, "cuEventQuery"),
    ENTRY(event_elapsed, "cuEventElapsedTime"),
    ENTRY(module_load, "cuModuleLoadData"),
    ENTRY(module_unload, "cuModuleUnload"),
    ENTRY(module_function, "cuModuleGetFunction"),
    ENTRY(launch, "cuLaunchKernel"),
};
#undef ENTRY

#define ENTRY(member, name)                                                                                                      \
    { name, offsetof(fai_nvrtc, member) }
static const symbol nvrtc_symbols[] = {
    ENTRY(version, "nvrtcVersion"),
    ENTRY(error_string, "nvrtcGetErrorString"),
    ENTRY(arch_count, "nvrtcGetNumSupportedArchs"),
    ENTRY(archs, "nvrtcGetSupportedArchs"),
    ENTRY(create, "nvrtcCreateProgram"),
    ENTRY(destroy, "nvrtcDestroyProgram"),
    ENTRY(compile, "nvrtcCompileProgram"),
    ENTRY(log_size, "nvrtcGetProgramLogSize"),
    ENTRY(log, "nvrtcGetProgramLog"),
    ENTRY(cubin_size, "nvrtcGetCUBINSize"),
    ENTRY(cubin, "nvrtcGetCUBIN"),
    ENTRY(ptx_size, "nvrtcGetPTXSize"),
    ENTRY(ptx, "nvrtcGetPTX"),
};
#undef ENTRY

static const symbol simulator_symbols[] = {
    {"facula_sim_error_text", offsetof(fai_cuda_simulator, error_text)},
    {"facula_sim_device_type", offsetof(fai_cuda_simulator, device_type)},
};
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Fills table, or names the first function that is missing and leaves table as it was found. */
static bool resolve(void *library, const char *file, const symbol *symbols, size_t n, void *table, char *why, size_t room) {
    for (size_t i = 0; i < n; i++) {
        if (!dlsym(library, symbols[i].name)) {
            snprintf(why, room, "%s has no function %s: it is too old", file, symbols[i].name);
            return false;
        }
    }
    for (size_t i = 0; i < n; i++) {
        void *found = dlsym(library, symbols[i].name);
        memcpy((char *)table + symbols[i].offset, &found, sizeof found);
    }
    return true;
}

/* The folder of the file that this code was loaded from, with a slash at its end. */
static bool own_folder(char *out, size_t n) {
    static const char here = 0;
    Dl_info info;
    char path[PATH_MAX];
    if (!dladdr(&here, &info) || !info.dli_fname || !realpath(info.dli_fname, path))
        if (!realpath("/proc/self/exe", path)) return false;
    char *slash = strrchr(path, '/');
    if (!slash) return false;
    slash[1] = 0;
    return (size_t)snprintf(out, n, "%s", path) < n;
}

static bool load_simulator(char *why, size_t n) {
    char folder[PATH_MAX], file[PATH_MAX + 32];
    if (!own_folder(folder, sizeof folder)) {
        snprintf(why, n, "FACULA_SIM is set, but the folder of the library can't be told, so libfacula_sim.so can't be found");
        return false;
    }
    snprintf(file, sizeof file, "%slibfacula_sim.so", folder);
    simulator = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!simulator) {
        snprintf(why, n,
                 "FACULA_SIM is set, but the simulated driver can't be opened: %s. It is installed beside the library; "
                 "unset FACULA_SIM to use real devices",
                 dlerror());
        return false;
    }
    return resolve(simulator, file, simulator_symbols, COUNT(simulator_symbols), &fai_cuda_sim, why, n) &&
           resolve(simulator, file, driver_symbols, COUNT(driver_symbols), &fai_cuda, why, n);
}

bool fai_cuda_load_driver(char *why, size_t n) {
    const char *wanted = getenv("FACULA_SIM");
    if (wanted && *wanted) return load_simulator(why, n);
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(why, n, "no NVIDIA driver: %s", dlerror());
        return false;
    }
    if (resolve(library, "libcuda.so.1", driver_symbols, COUNT(driver_symbols), &fai_cuda, why, n)) return true;
    dlclose(library);
    return false;
}

/* The first file that matches the pattern and opens. */
static void *open_matching(const char *pattern) {
    glob_t found;
    void *library = NULL;
    if (glob(pattern, GLOB_TILDE, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc && !library; i++) library = dlopen(found.gl_pathv[i], RTLD_NOW | RTLD_LOCAL);
        globfree(&found);
    }
    return library;
}

/* Where CUDA's installers and pip put NVRTC. root may be NULL: an environment variable that is not set. */
static void *open_under(const char *root, const char *rest) {
    char pattern[PATH_MAX];
    if (!root || !*root || (size_t)snprintf(pattern, sizeof pattern, "%s%s", root, rest) >= sizeof pattern) return NULL;
    return open_matching(pattern);
}

static void *open_nvrtc(void) {
    static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12"};
    static const char pip[] = "/lib/python3*/site-packages/nvidia/*/lib/libnvrtc.so.1[23]";
    char folder[PATH_MAX];
    void *library = NULL;
    for (size_t i = 0; i < COUNT(names) && !library; i++) library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!library) library = open_under(getenv("CUDA_HOME"), "/lib64/libnvrtc.so.1[23]");
    if (!library) library = open_under(getenv("CUDA_PATH"), "/lib64/libnvrtc.so.1[23]");
    if (!library) library = open_matching("/usr/local/cuda/lib64/libnvrtc.so.1[23]");
    if (!library && own_folder(folder, sizeof folder)) library = open_under(folder, "../nvidia/*/lib/libnvrtc.so.1[23]");
    if (!library) library = open_under(getenv("VIRTUAL_ENV"), pip);
    if (!library) library = open_under(getenv("CONDA_PREFIX"), pip);
    if (!library) library = open_matching("~/.local/lib/python3*/site-packages/nvidia/*/lib/libnvrtc.so.1[23]");
    if (!library) library = open_matching("/usr/local/lib/python3*/*-packages/nvidia/*/lib/libnvrtc.so.1[23]");
    return library;
}

bool fai_cuda_load_nvrtc(char *why, size_t n) {
    if (fai_cuda_nvrtc.compile) return true;
    void *library = simulator ? simulator : open_nvrtc();
    if (!library) {
        snprintf(why, n,
                 "NVRTC, CUDA's run-time compiler, was not found (libnvrtc.so.13 or .12), and kernels are compiled with it: "
                 "install the CUDA toolkit, or `pip install nvidia-cuda-nvrtc`, or set CUDA_HOME");
        return false;
    }
    return resolve(library, "libnvrtc", nvrtc_symbols, COUNT(nvrtc_symbols), &fai_cuda_nvrtc, why, n);
}
