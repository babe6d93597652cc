/* The rules that all operators share: broadcasting, promotion, one device, and the messages when they are broken. */
#include "ops.h"
#include <stdio.h>
#include <string.h>

bool fai_broadcast(const char *op, int n, const fa_tensor *const *tensors, int *ndim, int64_t *size)
{
    *ndim = 0;
    for (int k = 0; k < n; k++)
        if (tensors[k] && tensors[k]->ndim > *ndim) *ndim = tensors[k]->ndim;
    for (int i = 0; i < *ndim; i++) size[i] = 1;
    int from[FA_MAX_DIMS] = {0}; /* which tensor set the size, for the message */
    for (int k = 0; k < n; k++) {
        const fa_tensor *t = tensors[k];
        if (!t) continue;
        for (int j = 0; j < t->ndim; j++) {
            int i = *ndim - t->ndim + j;
            if (t->size[j] == size[i] || t->size[j] == 1) continue;
            if (size[i] == 1) {
                size[i] = t->size[j];
                from[i] = k;
                continue;
            }
            char a[160], b[160];
            fai_text_shape(a, sizeof a, tensors[from[i]]->ndim, tensors[from[i]]->size);
            fai_text_shape(b, sizeof b, t->ndim, t->size);
            fai_fail(FA_ERR_RUNTIME, op,
                     "The size of tensor a (%lld) must match the size of tensor b (%lld) at non-singleton dimension %d. The shapes are %s and %s: "
                     "counted from the last dimension, two sizes must be equal or one of them 1.",
                     (long long)size[i], (long long)t->size[j], i, a, b);
            return false;
        }
    }
    return true;
}

static int category(int dtype) { return dtype == FA_DTYPE_DEFAULT ? 0 : dtype == FA_BOOL ? 1 : dtype < FA_FLOAT16 ? 2 : 3; }

/* Of two groups the first decides unless the second is of a higher category. */
static int stronger(int first, int second) { return category(second) > category(first) ? second : first; }

fa_dtype fai_result_type(int noperands, const fai_operand *operands)
{
    int dims = FA_DTYPE_DEFAULT, zero = FA_DTYPE_DEFAULT, numbers = FA_DTYPE_DEFAULT;
    for (int k = 0; k < noperands; k++) {
        const fa_tensor *t = operands[k].tensor;
        if (t) {
            int *group = t->ndim > 0 ? &dims : &zero;
            *group = *group ? (int)fa_promote_types((fa_dtype)*group, (fa_dtype)t->dtype) : t->dtype;
        } else {
            int kind = operands[k].scalar.kind;
            int dtype = kind == FA_SCALAR_FLOAT ? fa_default_dtype() : kind == FA_SCALAR_BOOL ? FA_BOOL : FA_INT64;
            numbers = category(dtype) > category(numbers) ? dtype : numbers;
        }
    }
    return (fa_dtype)stronger(stronger(dims, zero), numbers);
}

/* The message that people meet first: which argument is where, and the line that mends it. */
static void *fail_devices(const char *op, int n, const char *const *names, fa_tensor *const *tensors, int odd, fa_device other)
{
    char text[1400], described[300];
    int told = 0;
    int length = snprintf(text, sizeof text, "Expected all tensors to be on the same device, but got %s is on %s, different from other tensors on %s.",
                          names[odd], fa_device_text(tensors[odd]->device), fa_device_text(other));
    for (int k = 0; k < n && length < 1000; k++) {
        if (!tensors[k]) continue;
        fai_describe(tensors[k], described, sizeof described);
        length += snprintf(text + length, sizeof text - (size_t)length, "%s %s is %s %s", told++ ? ";" : "", names[k],
                           described[0] == 'i' ? "an" : "a", described);
    }
    snprintf(text + length, sizeof text - (size_t)length, ". Move it first: %s = fa_to(%s, fa_device_parse(\"%s\")).", names[odd], names[odd], fa_device_text(other));
    return fai_fail(FA_ERR_RUNTIME, op, "%s", text);
}

bool fai_same_device(const char *op, int n, const char *const *names, fa_tensor *const *tensors, bool scalars_pass)
{
    int first = -1;
    for (int k = 0; k < n; k++) {
        if (!tensors[k] || (scalars_pass && tensors[k]->ndim == 0 && fai_on_cpu(tensors[k]))) continue;
        if (first < 0) {
            first = k;
        } else if (!fa_device_equal(tensors[k]->device, tensors[first]->device)) {
            /* the one on the CPU is the one that was forgotten */
            bool swap = fai_on_cpu(tensors[first]);
            fail_devices(op, n, names, tensors, swap ? first : k, tensors[swap ? k : first]->device);
            return false;
        }
    }
    return true;
}

bool fai_check_dtype(const char *op, const char *argument, const fa_tensor *t, bool ok, const char *allowed)
{
    if (ok) return true;
    fai_fail(FA_ERR_RUNTIME, op, "argument '%s' must be %s, but it is a tensor of dtype %s. Convert it with fa_cast.", argument, allowed,
             fa_dtype_name((fa_dtype)t->dtype));
    return false;
}

bool fai_check_writable(const char *op, const fa_tensor *t)
{
    if (t->numel <= 1) return true;
    for (int i = 0; i < t->ndim; i++)
        if (t->stride[i] == 0 && t->size[i] > 1) {
            fai_fail(FA_ERR_RUNTIME, op,
                     "unsupported operation: more than one element of the written-to tensor refers to a single memory location. Please clone() the "
                     "tensor before performing the operation.");
            return false;
        }
    return true;
}

bool fai_fits(const char *op, const fa_tensor *t, int n, const fa_tensor *const *tensors)
{
    const fa_tensor *all[4] = {t};
    int64_t size[FA_MAX_DIMS];
    int ndim;
    for (int i = 0; i < n; i++) all[i + 1] = tensors[i];
    if (!fai_broadcast(op, n + 1, all, &ndim, size)) return false;
    if (t->ndim == ndim && memcmp(t->size, size, (size_t)ndim * sizeof *size) == 0) return true;
    char a[160], b[160];
    fai_text_shape(a, sizeof a, t->ndim, t->size);
    fai_text_shape(b, sizeof b, ndim, size);
    fai_fail(FA_ERR_RUNTIME, op, "output with shape %s doesn't match the broadcast shape %s. An in-place op can't make its tensor larger.", a, b);
    return false;
}

static bool same_elements(const fa_tensor *a, const fa_tensor *b)
{
    bool same = a->offset == b->offset && a->ndim == b->ndim && a->dtype == b->dtype;
    for (int i = 0; same && i < a->ndim; i++) same = a->size[i] == b->size[i] && (a->stride[i] == b->stride[i] || a->size[i] == 1);
    return same;
}

bool fai_separate(const char *op, const fa_tensor *written, fa_tensor **operand)
{
    fa_tensor *t = *operand;
    int64_t low, high, from, to;
    if (!t || t->buffer != written->buffer || same_elements(t, written)) return true;
    fai_span(written, &low, &high);
    fai_span(t, &from, &to);
    const int64_t bytes = (int64_t)fa_dtype_size((fa_dtype)t->dtype), wide = (int64_t)fa_dtype_size((fa_dtype)written->dtype);
    if ((t->offset + from) * bytes >= (written->offset + high) * wide || (written->offset + low) * wide >= (t->offset + to) * bytes) return true;
    if (FAI_HAS(t, FAI_CONTIGUOUS) && FAI_HAS(written, FAI_CONTIGUOUS)) {
        fai_fail(FA_ERR_RUNTIME, op,
                 "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory location. Please clone() the "
                 "tensor before performing the operation. (In C: fa_clone.)");
        return false;
    }
    fa_tensor *copy = fai_empty_like(op, t);
    *operand = copy;
    return copy && fai_copy(op, copy, t);
}
