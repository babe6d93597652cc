/* Moving: to another device or element type, or nothing at all where a tensor is already what is asked for. */
#include "autograd.h"

fa_tensor *fa_to(fa_tensor *t, fa_device device) {
    if (!fai_check("to", "t", t) || !fai_device_resolve(&device, "to")) return NULL;
    return fa_device_equal(t->device, device) ? t : fa_to_device(t, device);
}

fa_tensor *fa_cpu(fa_tensor *t) {
    if (!fai_check("cpu", "t", t)) return NULL;
    return fai_on_cpu(t) ? t : fa_to_device(t, FA_CPU);
}

fa_tensor *fa_cast(fa_tensor *t, fa_dtype dtype) {
    if (!fai_check("cast", "t", t)) return NULL;
    if (dtype == FA_DTYPE_DEFAULT) dtype = fa_default_dtype();
    return t->dtype == dtype ? t : fa_to_dtype(t, dtype);
}
