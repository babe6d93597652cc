/* Moving: to another device or element type, or nothing at all where a tensor is already what is asked for. */
#include "autograd.h"
#include <fa_functional.h>

fa_tensor *fa_to(fa_tensor *t, fa_device device) {
    FAI_READER("to");
    if (!fai_check("to", "t", t) || !fai_device_resolve(&device, "to")) return NULL;
    return fa_device_equal(t->device, device) ? t : fa_to_device(t, device);
}

fa_tensor *fa_cpu(fa_tensor *t) {
    FAI_READER("cpu");
    if (!fai_check("cpu", "t", t)) return NULL;
    return fai_on_cpu(t) ? t : fa_to_device(t, FA_CPU);
}

fa_tensor *fa_cast(fa_tensor *t, fa_dtype dtype) {
    if (!fai_check("cast", "t", t)) return NULL;
    if (dtype == FA_DTYPE_DEFAULT) dtype = fa_default_dtype();
    return t->dtype == dtype ? t : fa_to_dtype(t, dtype);
}

fa_tensor *fa_to_async(fa_tensor *t, fa_device device) {
    const bool before = fai_tls.non_blocking;
    fai_tls.non_blocking = true;
    fa_tensor *result = fa_to(t, device);
    fai_tls.non_blocking = before;
    return result;
}

fa_tensor *fa_copy_async_(fa_tensor *t, fa_tensor *from) {
    const bool before = fai_tls.non_blocking;
    fai_tls.non_blocking = true;
    fa_tensor *result = fa_copy_(t, from);
    fai_tls.non_blocking = before;
    return result;
}

bool fa_is_pinned(const fa_tensor *t) { return t && fai_buffer_is_pinned(t->buffer); }

fa_tensor *fa_pin_memory(fa_tensor *t) {
    if (!fai_check("pin_memory", "t", t) || fa_is_pinned(t)) return t;
    if (!fai_on_cpu(t))
        return fai_fail(FA_ERR_RUNTIME, "pin_memory", "cannot pin 'torch.%s.%sTensor' only dense CPU tensors can be pinned: it lies on the device already",
                        fa_device_text(fa_device_of_type(t->device.type, -1)), fai_dtype_title((fa_dtype)t->dtype));
    fa_tensor *pinned = fai_empty_pinned("pin_memory", (fa_dtype)t->dtype, (fa_device){0, 0}, t->ndim, t->size);
    return pinned && fai_copy("pin_memory", pinned, t) ? pinned : NULL;
}
