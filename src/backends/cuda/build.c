/* From a kernel text to something that can be launched: NVRTC compiles it for the device at hand, the driver loads the result.
 *
 * Where NVRTC is older than the device it can't name it: then the text is compiled to PTX for the newest architecture that
 * it knows, and the driver finishes the work. Contraction and fast division are off, because results shall have the same
 * bits on every device. Results are kept on disk (base/disk_cache.c), so that a later process needs neither the time nor NVRTC. */
#include "cuda.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_OPTIONS = 32, MAX_ARCHS = 64 };

typedef struct target {
    int arch;
    bool ptx;
} target; /* 90: sm_90, or compute_90 */

typedef struct option_list {
    const char *option[MAX_OPTIONS];
    int count;
    char arch[32], extra[512]; /* what two of them point into */
} option_list;

static int nvrtc_failed(nvrtcResult code, const char *name, const char *doing) {
    const char *more = fai_cuda_sim.error_text ? fai_cuda_sim.error_text() : "";
    fai_cuda_refused("CUDA error: NVRTC failed while %s '%s': %s%s%s", doing, name, fai_cuda_nvrtc.error_string(code),
                     *more ? ": " : "", more);
    return code == NVRTC_ERROR_OUT_OF_MEMORY ? FA_BACKEND_NO_MEMORY : FA_BACKEND_FAILED;
}

static target choose_target(int device) {
    int known[MAX_ARCHS], n = 0, major, minor;
    fai_cuda_capability(device, &major, &minor);
    target best = {major * 10 + minor, false};
    if (fai_cuda_nvrtc.arch_count(&n) != NVRTC_SUCCESS || n < 1 || n > MAX_ARCHS || fai_cuda_nvrtc.archs(known) != NVRTC_SUCCESS)
        return best;
    int newest = 0;
    for (int i = 0; i < n; i++) {
        if (known[i] == best.arch) return best;
        if (known[i] < best.arch && known[i] > newest) newest = known[i];
    }
    if (newest) best = (target){newest, true};
    return best;
}

/* The caller's options are words with blanks between them: "-DFA_X=1 -DFA_Y=2". */
static bool fill_options(option_list *list, target to, const char *more) {
    static const char *const always[] = {"--std=c++17", "--fmad=false", "--prec-div=true", "--prec-sqrt=true",
                                         "--diag-suppress=177"};
    list->count = 0;
    for (size_t i = 0; i < sizeof always / sizeof always[0]; i++) list->option[list->count++] = always[i];
    snprintf(list->arch, sizeof list->arch, "-arch=%s_%d", to.ptx ? "compute" : "sm", to.arch);
    list->option[list->count++] = list->arch;
    if ((size_t)snprintf(list->extra, sizeof list->extra, "%s", more ? more : "") >= sizeof list->extra) return false;
    char *rest = NULL;
    for (char *word = strtok_r(list->extra, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        if (list->count == MAX_OPTIONS) return false;
        list->option[list->count++] = word;
    }
    return true;
}

/* From the first line that speaks of an error on; warnings before it would fill the room. */
static void read_log(nvrtcProgram program, char *log, size_t n) {
    size_t bytes = 0;
    if (!n) return;
    log[0] = 0;
    if (fai_cuda_nvrtc.log_size(program, &bytes) != NVRTC_SUCCESS || bytes < 2) return;
    char *whole = fai_alloc(FAI_TAG_OTHER, bytes);
    if (!whole) return;
    if (fai_cuda_nvrtc.log(program, whole) == NVRTC_SUCCESS) {
        whole[bytes - 1] = 0;
        const char *from = strstr(whole, "error");
        while (from && from > whole && from[-1] != '\n') from--;
        snprintf(log, n, "%s", from ? from : whole);
    }
    fai_free(FAI_TAG_OTHER, whole, bytes);
}

/* What the compiler made depends on nothing else; what an older NVRTC made is as right as what a newer one makes. */
static fai_cache_key key_of(int device, const char *text, const char *options) {
    int capability[2], driver = 0;
    fai_cache_key key = {{0}};
    fai_cuda_capability(device, &capability[0], &capability[1]);
    fai_cuda.driver_version(&driver);
    key = fai_cache_key_add(key, "cuda 1", 7); /* raise it when the options that are always there change */
    key = fai_cache_key_add(key, "simulated", fai_cuda_sim.error_text ? 9 : 0);
    key = fai_cache_key_add(key, capability, sizeof capability);
    key = fai_cache_key_add(key, &driver, sizeof driver);
    key = fai_cache_key_add(key, options ? options : "", options ? strlen(options) : 0);
    return fai_cache_key_add(key, text, strlen(text));
}

/* The simulator's images cost nothing to make: they are kept only where somebody asks for it. */
static bool is_cached(void) { return !fai_cuda_sim.error_text || fai_cache_is_named(); }

static CUmodule load_cached(fai_cache_key key) {
    void *image;
    size_t bytes;
    CUmodule module = NULL;
    if (!is_cached() || !fai_cache_read(key, &image, &bytes)) return NULL;
    if (fai_cuda.module_load(&module, image) != CUDA_SUCCESS) {
        module = NULL;
        fai_cache_forget(key);
    }
    fai_free(FAI_TAG_OTHER, image, bytes);
    return module;
}

static int load_image(nvrtcProgram program, const char *name, target to, fai_cache_key key, CUmodule *out) {
    size_t bytes = 0;
    nvrtcResult code = to.ptx ? fai_cuda_nvrtc.ptx_size(program, &bytes) : fai_cuda_nvrtc.cubin_size(program, &bytes);
    if (code != NVRTC_SUCCESS) return nvrtc_failed(code, name, "reading");
    char *image = fai_alloc(FAI_TAG_OTHER, bytes);
    if (!image) {
        fai_cuda_refused("no host memory for the compiled program '%s' (%zu bytes)", name, bytes);
        return FA_BACKEND_NO_MEMORY;
    }
    code = to.ptx ? fai_cuda_nvrtc.ptx(program, image) : fai_cuda_nvrtc.cubin(program, image);
    int bad = code == NVRTC_SUCCESS ? 0 : nvrtc_failed(code, name, "reading");
    if (!bad) {
        CUresult loaded = fai_cuda.module_load(out, image);
        if (loaded != CUDA_SUCCESS) bad = fai_cuda_failed(loaded, "loading the program '%s'", name);
        else if (is_cached()) fai_cache_write(key, image, bytes);
    }
    fai_free(FAI_TAG_OTHER, image, bytes);
    return bad;
}

static bool compiler_ready(char *why, size_t n) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    bool ready = fai_cuda_load_nvrtc(why, n);
    pthread_mutex_unlock(&lock);
    return ready;
}

int fai_cuda_build(int device, const char *name, const char *text, const char *options, fa_program_handle *out, char *log,
                   size_t n) {
    char why[512], file[128];
    nvrtcProgram program = NULL;
    CUmodule module = NULL;
    option_list list;
    *out = NULL;
    if (n) log[0] = 0;
    int bad = fai_cuda_enter(device);
    if (bad) return bad;
    fai_cache_key key = key_of(device, text, options);
    if ((*out = (fa_program_handle)load_cached(key))) return 0;
    if (!compiler_ready(why, sizeof why)) return fai_cuda_refused("CUDA error: %s", why);
    target to = choose_target(device);
    if (!fill_options(&list, to, options)) return fai_cuda_refused("CUDA error: too many options for the program '%s'", name);
    snprintf(file, sizeof file, "%s.k.h", name);
    nvrtcResult code = fai_cuda_nvrtc.create(&program, text, file, 0, NULL, NULL);
    if (code != NVRTC_SUCCESS) return nvrtc_failed(code, name, "opening");
    code = fai_cuda_nvrtc.compile(program, list.count, list.option);
    read_log(program, log, n);
    bad = code == NVRTC_SUCCESS ? load_image(program, name, to, key, &module) : nvrtc_failed(code, name, "compiling");
    fai_cuda_nvrtc.destroy(&program);
    *out = (fa_program_handle)module;
    return bad;
}

int fai_cuda_unload(int device, fa_program_handle program) {
    int bad = fai_cuda_enter(device);
    if (bad) return bad;
    CUresult code = fai_cuda.module_unload((CUmodule)program);
    return code == CUDA_SUCCESS ? 0 : fai_cuda_failed(code, "unloading a program of device %d", device);
}

int fai_cuda_find(int device, fa_program_handle program, const char *kernel, fa_kernel_handle *out) {
    CUfunction function = NULL;
    int bad = fai_cuda_enter(device);
    *out = NULL;
    if (bad) return bad;
    CUresult code = fai_cuda.module_function(&function, (CUmodule)program, kernel);
    if (code != CUDA_SUCCESS) return fai_cuda_failed(code, "looking for the kernel '%s'", kernel);
    *out = (fa_kernel_handle)function;
    return 0;
}
