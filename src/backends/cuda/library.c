/* Finds and opens NVIDIA's libraries at run time, so that one binary serves machines with and without CUDA. What is loaded is in
 * libraries.def.
 *
 * With FACULA_SIM set, libfacula_sim.so is opened in place of all of them, from the folder that holds this code and from nowhere
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
fai_nvml fai_cuda_nvml;

static void *simulator;    /* the handle of libfacula_sim.so, when that is what was opened */
static int driver_version; /* 13000; 0: there is no driver */

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
static const fai_cuda_symbol driver_symbols[] = {
#define FAI_DRIVER(result, member, symbol, args) {#symbol, offsetof(fai_cuda_driver, member)},
#include "libraries.def"
};
static const fai_cuda_symbol nvrtc_symbols[] = {
#define FAI_NVRTC(result, member, symbol, args) {#symbol, offsetof(fai_nvrtc, member)},
#include "libraries.def"
};
static const fai_cuda_symbol nvml_symbols[] = {
#define FAI_NVML(result, member, symbol, args) {#symbol, offsetof(fai_nvml, member)},
#include "libraries.def"
};
static const fai_cuda_symbol simulator_symbols[] = {
    {"facula_sim_error_text", offsetof(fai_cuda_simulator, error_text)},
    {"facula_sim_device_type", offsetof(fai_cuda_simulator, device_type)},
    {"facula_sim_has", offsetof(fai_cuda_simulator, has)},
};
static const struct {
    int library, major;
    const char *name;
} files[] = {
#define FAI_FILE(library, major, file) {FAI_CUDA_##library, major, file},
#include "libraries.def"
};

/* ---- functions ---- */

const char *fai_cuda_resolve(void *library, const fai_cuda_symbol *symbols, size_t n, void *table) {
    for (size_t i = 0; i < n; i++)
        if (!dlsym(library, symbols[i].name)) return symbols[i].name;
    for (size_t i = 0; i < n; i++) {
        void *found = dlsym(library, symbols[i].name);
        memcpy((char *)table + symbols[i].offset, &found, sizeof found);
    }
    return NULL;
}

/* ---- files ---- */

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

/* Where the system looks, then where CUDA's installers and pip put their libraries. */
static void *open_file(const char *name) {
    static const struct {
        const char *variable, *folder; /* the folder below what the variable says; no variable: the folder itself */
    } places[] = {{"CUDA_HOME", "/lib64/"},
                  {"CUDA_PATH", "/lib64/"},
                  {NULL, "/usr/local/cuda/lib64/"},
                  {"", "../nvidia/*/lib/"}, /* below our own folder: pip's site-packages */
                  {"VIRTUAL_ENV", "/lib/python3*/site-packages/nvidia/*/lib/"},
                  {"CONDA_PREFIX", "/lib/python3*/site-packages/nvidia/*/lib/"},
                  {"CONDA_PREFIX", "/lib/"},
                  {NULL, "~/.local/lib/python3*/site-packages/nvidia/*/lib/"},
                  {NULL, "/usr/local/lib/python3*/*-packages/nvidia/*/lib/"}};
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; i < COUNT(places) && !library; i++) {
        char own[PATH_MAX] = "", pattern[PATH_MAX];
        const char *variable = places[i].variable, *root = variable && *variable ? getenv(variable) : "";
        if (variable && !*variable) root = own_folder(own, sizeof own) ? own : NULL;
        if (!root || (variable && !*root)) continue;
        if ((size_t)snprintf(pattern, sizeof pattern, "%s%s%s", root, places[i].folder, name) < sizeof pattern)
            library = open_matching(pattern);
    }
    return library;
}

void *fai_cuda_open(int library) {
    if (simulator) {
        static const char *const names[] = {"driver", "nvrtc", "cublaslt", "cudnn", "nvml"};
        return fai_cuda_sim.has(names[library]) ? simulator : NULL;
    }
    /* Those of the driver's own CUDA first: what a newer one makes or needs may be beyond it. */
    const int driver_major = driver_version / 1000;
    void *found = NULL;
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < COUNT(files) && !found; i++) {
            const bool fits = !files[i].major || !driver_major || files[i].major <= driver_major;
            if (files[i].library == library && fits == (pass == 0)) found = open_file(files[i].name);
        }
    return found;
}

static void note_file(void *library, const char *function, char *out, size_t n) {
    Dl_info info;
    void *at = dlsym(library, function);
    snprintf(out, n, "%s", at && dladdr(at, &info) && info.dli_fname ? info.dli_fname : "");
}

const char *fai_cuda_nvrtc_file(void) {
    static char file[256];
    Dl_info info;
    void *at = NULL;
    memcpy(&at, &fai_cuda_nvrtc.compile, sizeof at);
    snprintf(file, sizeof file, "%s", at && dladdr(at, &info) && info.dli_fname ? info.dli_fname : "");
    return file;
}

/* ---- the driver ---- */

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
    const char *missing = fai_cuda_resolve(simulator, simulator_symbols, COUNT(simulator_symbols), &fai_cuda_sim);
    if (!missing) missing = fai_cuda_resolve(simulator, driver_symbols, COUNT(driver_symbols), &fai_cuda);
    if (missing) snprintf(why, n, "%s has no function %s: it is of another build", file, missing);
    return !missing;
}

/* A driver that is too old is told before anything else of it is used. The mark says that what is there can't be used. */
static bool new_enough(void *library, const char *missing, char *why, size_t n) {
    CUresult (*ask)(int *version) = NULL;
    void *found = dlsym(library, "cuDriverGetVersion");
    memcpy(&ask, &found, sizeof ask);
    if (!ask || ask(&driver_version) != CUDA_SUCCESS) driver_version = 0;
    fai_cuda_seen.found = true;
    fai_cuda_seen.version = driver_version;
    fai_cuda_seen.missing = missing;
    note_file(library, ask ? "cuDriverGetVersion" : "cuInit", fai_cuda_seen.file, sizeof fai_cuda_seen.file);
    if (driver_version >= FAI_CUDA_OLDEST && !missing) return true;
    if (n > 1) *why++ = '!', n--;
    snprintf(why, n,
             "The NVIDIA driver on your system is too old (found version %d). Please update your GPU driver by downloading and "
             "installing a new version from the URL: http://www.nvidia.com/Download/index.aspx. Facula needs the driver of CUDA "
             "%d.%d or newer%s%s",
             driver_version, FAI_CUDA_OLDEST / 1000, FAI_CUDA_OLDEST % 1000 / 10,
             missing ? ", and libcuda.so.1 here has no function " : "", missing ? missing : "");
    return false;
}

bool fai_cuda_load_driver(char *why, size_t n) {
    const char *wanted = getenv("FACULA_SIM");
    if (wanted && *wanted) {
        const bool loaded = load_simulator(why, n);
        if (!loaded) snprintf(fai_cuda_seen.error, sizeof fai_cuda_seen.error, "%s", why);
        return loaded && new_enough(simulator, NULL, why, n);
    }
    void *library = dlopen(files[0].name, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(fai_cuda_seen.error, sizeof fai_cuda_seen.error, "%s", dlerror());
        snprintf(why, n, "no NVIDIA driver: %s", fai_cuda_seen.error);
        return false;
    }
    const char *missing = fai_cuda_resolve(library, driver_symbols, COUNT(driver_symbols), &fai_cuda);
    if (new_enough(library, missing, why, n)) return true;
    dlclose(library);
    return false;
}

/* ---- NVRTC ---- */

bool fai_cuda_load_nvrtc(char *why, size_t n) {
    if (fai_cuda_nvrtc.compile && !simulator) return true;
    void *library = fai_cuda_open(FAI_CUDA_NVRTC);
    if (!library) {
        snprintf(why, n,
                 "NVRTC, CUDA's run-time compiler, was not found (libnvrtc.so.13 or .12), and kernels are compiled with it: "
                 "install the CUDA toolkit, or `pip install nvidia-cuda-nvrtc`, or set CUDA_HOME");
        return false;
    }
    const char *missing = fai_cuda_resolve(library, nvrtc_symbols, COUNT(nvrtc_symbols), &fai_cuda_nvrtc);
    if (missing) snprintf(why, n, "NVRTC, CUDA's run-time compiler, has no function %s: it is too old, install that of CUDA 12 or 13", missing);
    return !missing;
}

/* ---- NVML ---- */

bool fai_cuda_load_nvml(char *why, size_t n) {
    if (fai_cuda_nvml.init) return true;
    void *library = fai_cuda_open(FAI_CUDA_NVML);
    const char *missing = library ? fai_cuda_resolve(library, nvml_symbols, COUNT(nvml_symbols), &fai_cuda_nvml) : NULL;
    if (library && !missing) return true;
    snprintf(why, n, "NVML, NVIDIA's management library, can't be used: libnvidia-ml.so.1, which comes with the driver, %s%s",
             missing ? "has no function " : "was not found", missing ? missing : "");
    return false;
}
