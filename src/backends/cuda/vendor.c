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

static fai_cuda_vendor *const vendors[] = {&fai_cuda_cublaslt, &fai_cuda_cudnn};
enum { VENDORS = sizeof vendors / sizeof vendors[0] };

static void open_vendor(fai_cuda_vendor *v) {
    const char *wish = getenv(v->variable);
    if (wish && !strcmp(wish, "off")) {
        snprintf(v->why, sizeof v->why, "%s=off", v->variable);
        return;
    }
    if (v->which == FAI_CUDA_CUDNN) fai_cuda_open(FAI_CUDA_CUBLASLT); /* it asks for it by name, and may not find it where we do */
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

int fai_cuda_vendor_failed(const char *library, const char *answer, const char *function) {
    const char *more = fai_cuda_sim.error_text ? fai_cuda_sim.error_text() : "";
    fai_cuda_refused("%s error: %s when calling `%s`%s%s", library, answer, function, *more ? ": " : "", more);
    return fai_cuda_is_lost() ? FA_BACKEND_LOST : FA_BACKEND_FAILED;
}

/* ---- entries ---- */

/* A place that an entry in use lies in is left to it. */
static fai_cuda_entry *find_entry(fai_cuda_vendor *v, const void *key, const fa_address pointers[8], int *answer) {
    *answer = 0;
    pthread_mutex_lock(&v->lock);
    fai_cuda_entry **place = &v->kept[fai_hash(key, v->key_bytes, 1) % FAI_CUDA_KEPT];
    fai_cuda_entry *e = *place && !memcmp((const char *)*place + v->key_at, key, v->key_bytes) ? *place : NULL;
    if (!e && (e = v->make(key, pointers, answer)) && (!*place || !(*place)->uses)) {
        if (*place) v->destroy(*place);
        *place = e;
        e->kept = true;
    }
    if (e) e->uses++;
    pthread_mutex_unlock(&v->lock);
    return e;
}

int fai_cuda_entry_prepare(fai_cuda_vendor *v, int device, const char *why, const void *key, const fa_address pointers[8],
                           const char *name, fa_library_call *call) {
    if (why) return fai_cuda_decline(v, "%s", why);
    int bad = fai_cuda_enter(device), answer;
    if (bad) return bad;
    fai_cuda_entry *e = find_entry(v, key, pointers, &answer);
    if (!e) return fai_cuda_decline(v, "it answered %s", v->answer(answer));
    call->name = name;
    call->workspace = e->workspace;
    call->state = e;
    return 0;
}

static void close_vendor(fai_cuda_vendor *v) {
    pthread_mutex_lock(&v->lock);
    for (int i = 0; i < FAI_CUDA_KEPT; i++) {
        if (v->kept[i]) v->destroy(v->kept[i]);
        v->kept[i] = NULL;
    }
    for (int i = 0; i < FAI_CUDA_DEVICES; i++) v->close(i);
    pthread_mutex_unlock(&v->lock);
}

void fai_cuda_vendors_close(void) {
    for (int i = 0; i < VENDORS; i++) close_vendor(vendors[i]);
}

/* ---- which kernel is whose ---- */

/* Whose work a kernel is; NULL: nobody's. Convolutions say their direction. */
static fai_cuda_vendor *owner(const char *kernel, int *direction) {
    static const char *const convolutions[] = {"conv2d_f", "conv2d_input_f", "conv2d_weight_f"};
    if (!strncmp(kernel, "gemm_f", 6)) return &fai_cuda_cublaslt;
    for (*direction = 0; *kernel == 'c' && *direction < 3; ++*direction)
        if (!strncmp(kernel, convolutions[*direction], strlen(convolutions[*direction]))) return &fai_cuda_cudnn;
    return NULL;
}

static bool knows(const char *kernel) {
    int direction;
    fai_cuda_vendor *v = owner(kernel, &direction);
    return v && fai_cuda_vendor_ready(v);
}

static int prepare(int device, const char *kernel, const void *plan, const fa_address pointers[8], unsigned modes,
                   fa_library_call *call) {
    int direction = 0;
    if (owner(kernel, &direction) == &fai_cuda_cudnn) return fai_cuda_conv_prepare(device, direction, plan, pointers, modes, call);
    return fai_cuda_product_prepare(device, plan, pointers, modes, call);
}

static fai_cuda_vendor *vendor_of(const fa_library_call *call) {
    return strncmp(call->name, "cublas", 6) ? &fai_cuda_cudnn : &fai_cuda_cublaslt;
}

static int run(int device, fa_stream_handle stream, fa_library_call *call, const void *plan, const fa_address pointers[8],
               fa_address workspace) {
    fai_cuda_vendor *v = vendor_of(call);
    const int bad = v == &fai_cuda_cudnn ? fai_cuda_conv_run(device, stream, call, pointers, workspace)
                                         : fai_cuda_product_run(device, stream, call, plan, pointers, workspace);
    if (!bad) atomic_fetch_add_explicit(&v->calls, 1, memory_order_relaxed);
    return bad;
}

static void drop(fa_library_call *call) {
    fai_cuda_vendor *v = vendor_of(call);
    fai_cuda_entry *entry = call->state;
    pthread_mutex_lock(&v->lock);
    if (--entry->uses == 0 && !entry->kept) v->destroy(entry);
    pthread_mutex_unlock(&v->lock);
}

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
