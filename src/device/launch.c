/* Launches: from a kernel's number to a running kernel. A family's text is built for a device when the first of its kernels is
 * wanted there; from then on a launch finds its kernel's handle in a table. */
#include "inside.h"
#include <kernels_gen.h>
#include <limits.h>
#include <string.h>
#include <zlib.h>

static bool make_tables(fai_dev *dev, const char *op) {
    if (dev->kernels) return true;
    size_t programs = (size_t)fai_program_count * sizeof *dev->programs, kernels = FAI_K_COUNT * sizeof *dev->kernels;
    if (!dev->programs) dev->programs = fai_calloc(FAI_TAG_OTHER, programs);
    if (!dev->programs) return fai_fail_memory(op, programs);
    fa_device_properties properties;
    int code = dev->backend->properties(dev->ordinal, &properties);
    if (code) return fai_fail_backend(dev, code, op, "asking for its properties");
    fa_kernel_handle _Atomic *table = fai_calloc(FAI_TAG_OTHER, kernels);
    if (!table) return fai_fail_memory(op, kernels);
    dev->no_float64 = !properties.has_float64;
    __atomic_store_n(&dev->kernels, table, __ATOMIC_RELEASE);
    return true;
}

static int program_of(const char *family) {
    for (int i = 0; i < fai_program_count; i++)
        if (strcmp(fai_programs[i].family, family) == 0) return i;
    return -1;
}

static char *unpack(const fai_program *program) {
    z_stream z = {.zalloc = fai_zlib_alloc, .zfree = fai_zlib_free};
    char *text = fai_alloc(FAI_TAG_OTHER, program->bytes + 1);
    if (!text) return NULL;
    z.next_in = (Bytef *)(uintptr_t)program->packed;
    z.avail_in = program->packed_bytes;
    z.next_out = (Bytef *)text;
    z.avail_out = program->bytes;
    text[program->bytes] = 0;
    int state = inflateInit(&z);
    if (state == Z_OK) {
        state = inflate(&z, Z_FINISH);
        inflateEnd(&z);
    }
    if (state == Z_STREAM_END && z.avail_out == 0) return text;
    fai_free(FAI_TAG_OTHER, text, program->bytes + 1);
    return NULL; /* there was no memory for the window; the data itself is the library's own */
}

char *fai_program_text(const fai_program *program, const char *op) {
    char *text = unpack(program);
    return text ? text : fai_fail_memory(op, program->bytes + 1);
}

char *fai_family_text(const char *family, size_t *bytes) {
    const fai_program *program = &fai_programs[program_of(family)];
    *bytes = program->bytes + 1;
    return unpack(program);
}

/* The compiler's first words are what counts, and the reader's screen is small. */
static void cut_lines(char *log, int lines) {
    for (char *at = log; *at; at++)
        if (*at == '\n' && (--lines == 0 || !at[1])) *at = 0, at--;
}

#define ON_CPU ". FACULA_FALLBACK=cpu in the environment lets the CPU do what a device can't, with copies there and back"

static bool build(fai_dev *dev, int text, const char *op) {
    if (dev->programs[text]) return true;
    char log[1200] = "";
    const fai_program *program = &fai_programs[text];
    char *source = fai_program_text(program, op);
    if (!source) return false;
    int code = dev->backend->build(dev->ordinal, program->family, source, "", &dev->programs[text], log, sizeof log);
    fai_free(FAI_TAG_OTHER, source, program->bytes + 1);
    if (code == 0) return true;
    dev->programs[text] = NULL;
    char doing[1700];
    cut_lines(log, 6);
    snprintf(doing, sizeof doing,
             "building the kernels of family '%s' for '%s'%s%s%s", program->family, op, log[0] ? ". The compiler's first words:\n" : "", log,
             log[0] ? "\nWhat needs none of these kernels goes on. Another version of the compiler may take them; please report it" : "");
    size_t end = strlen(doing);
    snprintf(doing + end, sizeof doing - end, "%s", ON_CPU);
    return fai_fail_backend(dev, code, op, doing);
}

/* With the lock held. */
static fa_kernel_handle find_locked(fai_dev *dev, int kernel, const char *op) {
    const fai_kernel_info *info = &fai_kernels[kernel];
    fa_kernel_handle handle = NULL;
    if (!make_tables(dev, op)) return NULL;
    if ((handle = atomic_load(&dev->kernels[kernel]))) return handle;
    int text = program_of(info->family);
    if (text < 0) return fai_fail(FA_ERR_UNSUPPORTED, op, "the kernel family '%s' has no program text", info->family);
    if (!build(dev, text, op)) return NULL;
    int code = dev->backend->find(dev->ordinal, dev->programs[text], info->name, &handle);
    if (code) {
        char doing[256];
        snprintf(doing, sizeof doing, "looking for the kernel '%s' for '%s'%s", info->name, op, ON_CPU);
        fai_fail_backend(dev, code, op, doing);
        return NULL;
    }
    atomic_store_explicit(&dev->kernels[kernel], handle, memory_order_release);
    return handle;
}

static fa_kernel_handle find_kernel(fai_dev *dev, int kernel, const char *op) {
    fa_kernel_handle _Atomic *table = __atomic_load_n(&dev->kernels, __ATOMIC_ACQUIRE);
    fa_kernel_handle handle = table ? atomic_load_explicit(&table[kernel], memory_order_acquire) : NULL;
    if (FAI_LIKELY(handle != NULL)) return handle;
    pthread_mutex_lock(&dev->build_lock);
    handle = find_locked(dev, kernel, op);
    pthread_mutex_unlock(&dev->build_lock);
    return handle;
}

/* What a device was found not to have is not looked for again once the CPU does it in its place. */
static char lacking;
#define LACKING ((fa_kernel_handle)(void *)&lacking)
static _Thread_local const fai_dev *lacks; /* whose kernel the last launch that failed wanted in vain */

static bool fail_lacking(fai_dev *dev, int kernel, const char *op) {
    lacks = dev;
    return fai_fail(FA_ERR_UNSUPPORTED, op, "%s has no kernel '%s' that works", fa_device_text(dev->name), fai_kernels[kernel].name);
}

bool fai_device_lacks(fa_device device, int kernel) {
    fai_dev *dev = fai_dev_find(device);
    const bool is = dev && dev == lacks && !atomic_load(&dev->lost);
    lacks = NULL;
    if (!is || !dev->kernels) return is;
    fa_kernel_handle none = NULL;
    if (!dev->no_float64) atomic_compare_exchange_strong(&dev->kernels[kernel], &none, LACKING);
    return true;
}

/* A kernel that computes in float64, or has an operand of it. */
static bool uses_float64(int kernel, const fa_plan *plan) {
    const char *name = fai_kernels[kernel].name;
    const size_t n = strlen(name);
    if (n > 4 && !strcmp(name + n - 4, "_f64")) return true;
    for (int i = 0; i < FA_PLAN_VIEWS; i++)
        if ((plan->view[i].kind == FA_VIEW_TENSOR || plan->view[i].kind == FA_VIEW_TABLE) && plan->view[i].dtype == FA_FLOAT64) return true;
    return false;
}

static bool has_float64(fai_dev *dev, int kernel, const fa_plan *plan, const char *op) {
    pthread_mutex_lock(&dev->build_lock);
    bool known = make_tables(dev, op);
    pthread_mutex_unlock(&dev->build_lock);
    if (!known) return false;
    if (!dev->no_float64 || !uses_float64(kernel, plan)) return true;
    lacks = dev;
    return fai_fail(FA_ERR_UNSUPPORTED, op,
                    "%s has no float64, and this needs it. Use float32 (fa_cast), or compute on the CPU "
                    "(FACULA_FALLBACK=cpu in the environment does so by itself, with copies there and back)",
                    fa_device_text(dev->name));
}

int fai_device_objects(fa_device device) {
    const fai_dev *dev = fai_dev_find(device);
    return !dev || strcmp(dev->backend->dialect, "opencl") != 0 ? INT_MAX : dev->backend->objects ? FA_PLAN_OBJECTS : 0;
}

/* Nothing has run: what it would have written is as it was. */
static bool fail_launch(fai_dev *dev, int code, int kernel, const char *op) {
    char doing[128];
    snprintf(doing, sizeof doing, "launching the kernel '%s' for '%s'", fai_kernels[kernel].name, op);
    return fai_fail_backend(dev, code, op, doing);
}

/* Fills in the addresses. What a plan says of an operand must be true of its buffer: a kernel trusts it. */
static bool find_pointers(const fai_dev *dev, const fa_plan *plan, fai_buffer *const buffers[8], const int64_t offsets[8],
                          fa_address pointers[8], const char *op) {
    for (int i = 0; i < 8; i++) {
        pointers[i] = 0;
        if (!buffers[i]) continue;
        if (!fa_device_equal(buffers[i]->device, dev->name))
            return fai_fail(FA_ERR_RUNTIME, op,
                            "Expected all tensors to be on the same device, but found at least two devices, %s and %s!",
                            fa_device_text(dev->name), fa_device_text(buffers[i]->device));
        const fa_plan_view *view = &plan->view[i];
        if (view->kind == FA_VIEW_TENSOR && view->high > view->low &&
            (offsets[i] + view->low < 0 || offsets[i] + view->high > (int64_t)buffers[i]->bytes))
            return fai_fail(FA_ERR_RUNTIME, op, "operand %d of the kernel covers bytes %lld to %lld of a buffer of %zu bytes", i,
                            (long long)(offsets[i] + view->low), (long long)(offsets[i] + view->high), buffers[i]->bytes);
        pointers[i] = buffers[i]->address + (uint64_t)offsets[i];
    }
    return true;
}

bool fai_device_launch(fa_device device, int kernel, const fa_plan *plan, fai_buffer *const buffers[8], const int64_t offsets[8],
                       const char *op) {
    fai_dev *dev = fai_dev_get(device, op);
    if (!dev) return false;
    if (kernel < 0 || kernel >= FAI_K_COUNT) return fai_fail(FA_ERR_UNSUPPORTED, op, "there is no kernel number %d", kernel);
    if (FAI_UNLIKELY(!dev->kernels || dev->no_float64) && !has_float64(dev, kernel, plan, op)) return false;
    fa_address pointers[8];
    if (!find_pointers(dev, plan, buffers, offsets, pointers, op)) return false;
    if (dev->backend->library) {
        const int done = fai_library_launch(dev, kernel, plan, buffers, pointers, op);
        if (done) return done > 0;
    }
    fa_kernel_handle handle = find_kernel(dev, kernel, op);
    if (FAI_UNLIKELY(!handle)) {
        lacks = dev;
        return false;
    }
    if (FAI_UNLIKELY(handle == LACKING)) return fail_lacking(dev, kernel, op);
    const fai_kernel_info *info = &fai_kernels[kernel];
    if (FAI_UNLIKELY(atomic_load_explicit(&dev->fuse_problem, memory_order_relaxed) == 1)) fai_fuse_tell(dev);
    const int elementwise = kernel >= FAI_K_ew_f32 && kernel <= FAI_K_ew_i64 ? 1 + kernel - FAI_K_ew_f32 : 0;
    const fai_work work = {.kernel = info->name, .group_size = info->group_size, .handle = handle, .elementwise = elementwise};
    int code = fai_queue_launch(dev, op, &work, plan, buffers, pointers);
    return code == 0 || (code != FAI_TOLD && fail_launch(dev, code, kernel, op));
}
