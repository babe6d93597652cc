/* Reading: elements of a tensor into the caller's memory. From a device the touched memory comes in one copy, which waits. */
#include "tensor.h"
#include <string.h>

/* Copies the elements that lie in memory at first (element zero of t) into to, in C order, without converting. */
static void gather(const fa_tensor *t, const char *first, char *to, int dim) {
    const int64_t item = (int64_t)fa_dtype_size((fa_dtype)t->dtype), step = t->stride[dim] * item, size = t->size[dim];
    int64_t inner = item;
    for (int d = dim + 1; d < t->ndim; d++) inner *= t->size[d];
    for (int64_t i = 0; i < size; i++, first += step, to += inner) {
        if (dim + 1 < t->ndim)
            gather(t, first, to, dim + 1);
        else
            memcpy(to, first, (size_t)item);
    }
}

/* Puts t's elements in order, contiguous and unconverted, into `to`; first is where element zero lies on the host. */
static void put_in_order(const fa_tensor *t, const char *first, char *to) {
    const size_t bytes = (size_t)t->numel * fa_dtype_size((fa_dtype)t->dtype);
    if (FAI_HAS(t, FAI_CONTIGUOUS))
        memcpy(to, first, bytes);
    else
        gather(t, first, to, 0);
}

/* Converts t, whose element zero lies at first on the host, into data. */
static bool write_out(const fa_tensor *t, const char *first, void *data, fa_dtype as) {
    const size_t bytes = (size_t)t->numel * fa_dtype_size((fa_dtype)t->dtype);
    if (FAI_HAS(t, FAI_CONTIGUOUS)) {
        fai_convert(data, as, first, (fa_dtype)t->dtype, t->numel);
        return true;
    }
    if (t->dtype == as) {
        put_in_order(t, first, data);
        return true;
    }
    char *ordered = fai_alloc_aligned(FAI_TAG_DATA, bytes);
    if (!ordered) return fai_fail_memory("to_data", bytes);
    put_in_order(t, first, ordered);
    fai_convert(data, as, ordered, (fa_dtype)t->dtype, t->numel);
    fai_free_aligned(FAI_TAG_DATA, ordered, bytes);
    return true;
}

bool fa_to_data(fa_tensor *t, void *data, fa_dtype as) {
    if (!fai_check("to_data", "t", t)) return false;
    if (as <= FA_DTYPE_DEFAULT || as >= FA_DTYPE_COUNT)
        return fai_fail(FA_ERR_TYPE, "to_data",
                        "argument 'as': there is no element type number %d; give one of FA_BOOL to FA_FLOAT64", (int)as);
    if (t->numel == 0) return true;
    if (!data)
        return fai_fail(FA_ERR_VALUE, "to_data", "argument 'data' is NULL: there is no place for %lld elements",
                        (long long)t->numel);
    if (fai_on_cpu(t)) return write_out(t, fai_host(t), data, as);
    int64_t low, high;
    fai_span(t, &low, &high);
    const int64_t item = (int64_t)fa_dtype_size((fa_dtype)t->dtype);
    const size_t bytes = (size_t)((high - low) * item), offset = (size_t)((t->offset + low) * item);
    if (t->dtype == as && FAI_HAS(t, FAI_CONTIGUOUS)) return fai_copy_to_host(data, t->buffer, offset, bytes, "to_data");
    char *there = fai_alloc_aligned(FAI_TAG_DATA, bytes);
    if (!there) return fai_fail_memory("to_data", bytes);
    const bool ok = fai_copy_to_host(there, t->buffer, offset, bytes, "to_data") && write_out(t, there - low * item, data, as);
    fai_free_aligned(FAI_TAG_DATA, there, bytes);
    return ok;
}

static bool read_one(const char *op, fa_tensor *t, void *value, fa_dtype as) {
    if (!fai_check(op, "t", t)) return false;
    if (t->numel != 1)
        return fai_fail(FA_ERR_RUNTIME, op,
                        "a Tensor with %lld elements cannot be converted to Scalar; fa_to_data reads more than one",
                        (long long)t->numel);
    FAI_READER(op);
    return fa_to_data(t, value, as);
}

double fa_item(fa_tensor *t) {
    double value = 0;
    return read_one("item", t, &value, FA_FLOAT64) ? value : 0;
}

int64_t fa_item_int(fa_tensor *t) {
    int64_t value = 0;
    return read_one("item", t, &value, FA_INT64) ? value : 0;
}

void *fa_data(fa_tensor *t) {
    if (!fai_check("data", "t", t)) return NULL;
    if (fai_on_cpu(t)) return fai_host(t);
    return fai_fail(FA_ERR_TYPE, "data",
                    "can't convert %s device type tensor to host memory. Use fa_cpu(t) to copy the tensor to host memory first: "
                    "fa_data(fa_cpu(t))",
                    fa_device_text(t->device));
}
