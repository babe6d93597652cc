/* Libraries of a device's maker in place of Facula's own kernels: an ordered list of two. The library is asked first, with the plan of
 * the kernel; what it declines, and why stands in fa_library_get, the own kernel does. */
#include "inside.h"
#include <kernels_gen.h>

/* ---- how they may compute ---- */

static _Atomic unsigned modes = FA_MATH_CONV_TF32 | FA_MATH_MATMUL_LIBRARY | FA_MATH_CONV_LIBRARY;

unsigned fa_math_modes(void) { return atomic_load_explicit(&modes, memory_order_relaxed); }

unsigned fa_set_math_modes(unsigned on, unsigned off) {
    unsigned before = fa_math_modes();
    while (!atomic_compare_exchange_weak(&modes, &before, (before & ~off) | on)) continue;
    return before;
}

/* ---- one launch ---- */

/* Memory for the time of the call. It is given back as soon as the call is queued: who gets it next writes through the same
 * stream, behind the call. */
static bool give_workspace(const fai_dev *dev, const fa_library_call *call, fai_buffer **out, const char *op) {
    *out = call->workspace ? fai_buffer_new(dev->name, call->workspace, op) : NULL;
    return *out || !call->workspace;
}

int fai_library_launch(fai_dev *dev, int kernel, const fa_plan *plan, fai_buffer *const buffers[8], const fa_address pointers[8],
                       const char *op) {
    const fa_library *library = dev->backend->library;
    const char *name = fai_kernels[kernel].name;
    if (!library || !library->knows(name)) return 0;
    fa_library_call call = {.name = name};
    fai_buffer *workspace = NULL;
    char doing[160];
    snprintf(doing, sizeof doing, "asking a library to do '%s' for '%s'", name, op);
    int code = library->prepare(dev->ordinal, name, plan, pointers, fa_math_modes(), &call);
    if (code == FA_BACKEND_DECLINED) return 0;
    if (code) return fai_fail_backend(dev, code, op, doing), -1;
    if (!give_workspace(dev, &call, &workspace, op)) {
        library->drop(&call);
        return -1;
    }
    const fai_work work = {.kernel = call.name, .library = &call, .workspace = workspace ? workspace->address : 0};
    code = fai_queue_launch(dev, op, &work, plan, buffers, pointers);
    if (workspace) fai_buffer_unref(workspace);
    if (code == 0 && fai_capturing(dev->name)) return 1; /* the call is the graph's */
    if (code && code != FAI_TOLD) {
        snprintf(doing, sizeof doing, "calling %s for '%s'", call.name, op);
        fai_fail_backend(dev, code, op, doing);
    }
    library->drop(&call);
    return code ? -1 : 1;
}

bool fai_device_has_library(fa_device device, int kernel) {
    const fai_dev *dev = fai_dev_find(device);
    return dev && dev->backend->library && dev->backend->library->knows(fai_kernels[kernel].name);
}

/* ---- what users ask ---- */

bool fa_library_get(int type, int number, fa_library_info *out) {
    *out = (fa_library_info){.usable = false};
    if (fa_device_count(type) < 1) return false;
    const fai_dev *dev = fai_dev_find(fa_device_of_type(type, 0));
    return dev && number >= 0 && dev->backend->library && dev->backend->library->get(number, out);
}
