/* NVIDIA's libraries in place of own kernels: opening them, what they decline, and which kernel is whose.
 *
 * A library is opened when the first kernel that it might serve is wanted. If it is not there, or does not start, the own kernels
 * serve, and fai_library_get says why: that is no error. */
#define _GNU_SOURCE
#include "cuda.h"
#include "vendor.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static fai_cuda_vendor *const vendors[] = {&fai_cuda_cublaslt};
enum { VENDORS = sizeof vendors / sizeof vendors[0] };

static void open_vendor(fai_cuda_vendor *v) {
    const char *wish = getenv(v->variable);
    if (wish && !strcmp(wish, "off")) {
        snprintf(v->why, sizeof v->why, "%s=off", v->variable);
        return;
    }
    void *library = fai_cuda_open(v->which);
    if (!library) {
        snprintf(v->why, sizeof v->why, "not found");
        return;
    }
    const char *missing = fai_cuda_resolve(library, v->symbols, v->nsymbols, v->table);
    if (missing) {
        snprintf(v->why, sizeof v->why, "it has no function %s: it is too old", missing);
        return;
    }
    Dl_info info;
    if (dladdr(dlsym(library, v->symbols[0].name), &info) && info.dli_fname) snprintf(v->file, sizeof v->file, "%s", info.dli_fname);
    v->usable = true;
}

bool fai_cuda_vendor_ready(fai_cuda_vendor *v) {
    if (FAI_LIKELY(atomic_load_explicit(&v->opened, memory_order_acquire))) return v->usable;
    pthread_mutex_lock(&v->lock);
    if (!atomic_load(&v->opened)) open_vendor(v);
    atomic_store_explicit(&v->opened, true, memory_order_release);
    pthread_mutex_unlock(&v->lock);
    return v->usable;
}

int fai_cuda_decline(fai_cuda_vendor *v, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    pthread_mutex_lock(&v->lock);
    if (v->usable) vsnprintf(v->why, sizeof v->why, format, arguments);
    pthread_mutex_unlock(&v->lock);
    va_end(arguments);
    atomic_fetch_add_explicit(&v->declined, 1, memory_order_relaxed);
    return FA_BACKEND_DECLINED;
}

static bool is_product(const char *kernel) { return !strncmp(kernel, "gemm_f", 6); }

static bool knows(const char *kernel) { return is_product(kernel) && fai_cuda_vendor_ready(&fai_cuda_cublaslt); }

static int prepare(int device, const char *kernel, const void *plan, const fa_address pointers[8], unsigned modes,
                   fa_library_call *call) {
    (void)kernel;
    return fai_cuda_product_prepare(device, plan, pointers, modes, call);
}

static int run(int device, fa_stream_handle stream, fa_library_call *call, const void *plan, const fa_address pointers[8],
               fa_address workspace) {
    const int bad = fai_cuda_product_run(device, stream, call, plan, pointers, workspace);
    if (!bad) atomic_fetch_add_explicit(&fai_cuda_cublaslt.calls, 1, memory_order_relaxed);
    return bad;
}

static void drop(fa_library_call *call) { fai_cuda_product_drop(call); }

static bool get(int number, fa_library_info *out) {
    if (number >= VENDORS) return false;
    fai_cuda_vendor *v = vendors[number];
    const bool usable = fai_cuda_vendor_ready(v);
    *out = (fa_library_info){.usable = usable, .version = usable ? v->version() : 0};
    snprintf(out->name, sizeof out->name, "%s", v->name);
    pthread_mutex_lock(&v->lock);
    memcpy(out->file, v->file, sizeof out->file);
    memcpy(out->why, v->why, sizeof out->why);
    pthread_mutex_unlock(&v->lock);
    out->calls = atomic_load(&v->calls);
    out->declined = atomic_load(&v->declined);
    return true;
}

const fa_library fai_cuda_library = {.knows = knows, .prepare = prepare, .run = run, .drop = drop, .get = get};
