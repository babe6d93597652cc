/* Elements between files and tensors, wherever the tensors lie. */
#include "io.h"
#include <string.h>

bool fai_load_device(const char *op, const fa_load_options *options, fa_device *device) {
    fa_load_options o = {0};
    if (options != NULL) memcpy(&o, options, options->struct_size < sizeof o ? options->struct_size : sizeof o);
    *device = o.device;
    return fai_device_resolve(device, op);
}

bool fai_count_bytes(fa_dtype dtype, const fa_shape *shape, uint64_t *bytes) {
    int64_t n = (int64_t)fa_dtype_size(dtype);
    bool empty = false;
    for (int d = 0; d < shape->ndim; d++) {
        if (shape->dim[d] < 0) return false;
        if (shape->dim[d] == 0) empty = true;
        else if (!fai_mul(n, shape->dim[d], &n)) return false;
    }
    *bytes = empty ? 0 : (uint64_t)n;
    return true;
}

/* Swaps bytes where the file has them the other way round, and makes every truth value 0 or 1. */
static void tidy(void *data, fa_dtype dtype, uint64_t bytes, bool big_endian) {
    uint8_t *p = data;
    size_t width = fa_dtype_size(dtype);
    if (dtype == FA_BOOL) {
        for (uint64_t i = 0; i < bytes; i++) p[i] = p[i] != 0;
    }
    if (!big_endian) return;
    for (uint64_t i = 0; i + width <= bytes; i += width) {
        for (size_t k = 0; k < width / 2; k++) {
            uint8_t first = p[i + k];
            p[i + k] = p[i + width - 1 - k];
            p[i + width - 1 - k] = first;
        }
    }
}

fa_tensor *fai_read_tensor(const char *op, fa_dtype dtype, fa_device device, const fa_shape *shape, bool column_major,
                           bool big_endian, bool (*read)(void *context, void *out, uint64_t bytes), void *context) {
    int64_t stride[FA_MAX_DIMS], step = 1;
    for (int k = 0; k < shape->ndim; k++) {
        int d = column_major ? k : shape->ndim - 1 - k;
        stride[d] = step;
        step *= shape->dim[d] > 0 ? shape->dim[d] : 1; /* the caller has checked that the size fits */
    }
    fa_tensor *t = fai_empty_strided(op, dtype, device, shape->ndim, shape->dim, stride);
    if (t == NULL) return NULL;
    size_t bytes = (size_t)t->numel * fa_dtype_size(dtype);
    bool direct = fai_on_cpu(t), ok = true;
    void *host = direct || bytes == 0 ? fai_host(t) : fai_alloc(FAI_TAG_FILE, bytes);
    if (bytes > 0) {
        if (host == NULL) ok = fai_fail_memory(op, bytes);
        ok = ok && read(context, host, bytes);
        if (ok) tidy(host, dtype, bytes, big_endian);
        if (ok && !direct) ok = fai_copy_to_device(t->buffer, (size_t)t->offset * fa_dtype_size(dtype), host, bytes, op);
        if (!direct) fai_free(FAI_TAG_FILE, host, bytes);
    }
    if (ok) return t;
    fa_drop(t);
    return NULL;
}

bool fai_borrow_bytes(const char *op, fa_tensor *t, const void **bytes) {
    size_t n = (size_t)t->numel * fa_dtype_size((fa_dtype)t->dtype);
    *bytes = NULL;
    if (n == 0) return true;
    if (fai_on_cpu(t) && FAI_HAS(t, FAI_CONTIGUOUS)) {
        *bytes = fai_host(t);
        return true;
    }
    void *copy = fai_alloc(FAI_TAG_FILE, n);
    if (copy == NULL) return fai_fail_memory(op, n);
    *bytes = copy;
    if (fa_to_data(t, copy, (fa_dtype)t->dtype)) return true;
    fai_free(FAI_TAG_FILE, copy, n);
    return false;
}

void fai_return_bytes(fa_tensor *t, const void *bytes) {
    if (fai_on_cpu(t) && FAI_HAS(t, FAI_CONTIGUOUS)) return;
    fai_free(FAI_TAG_FILE, (void *)(uintptr_t)bytes, (size_t)t->numel * fa_dtype_size((fa_dtype)t->dtype));
}
