/* Movement: results of their own memory that hold x's elements in other places, in another type or on another device, and the
 * inverse movements that views need for their derivatives. All of it is fai_copy between the right views. */
#include "views.h"
#include <string.h>

/* A contiguous copy under another dtype or on another device. */
static fa_tensor *copy_of(const char *op, fa_tensor *x, fa_dtype dtype, fa_device device) {
    const bool pin = FAI_UNLIKELY(fai_tls.non_blocking) && device.type == FA_DEVICE_CPU && !fai_on_cpu(x); /* else it would have to wait */
    fa_tensor *r = pin ? fai_empty_pinned(op, dtype, x->device, x->ndim, x->size) : fai_empty(op, dtype, device, x->ndim, x->size);
    return r && fai_copy(op, r, x) ? r : NULL;
}

fa_tensor *fai_clone_forward(fa_tensor *x) { return copy_of("clone", x, (fa_dtype)x->dtype, x->device); }

fa_tensor *fai_to_device_forward(fa_tensor *x, fa_device device) {
    if (!fai_device_resolve(&device, "to_device")) return NULL;
    return copy_of("to_device", x, (fa_dtype)x->dtype, device);
}

fa_tensor *fai_to_dtype_forward(fa_tensor *x, fa_dtype dtype) {
    if (dtype < FA_BOOL || dtype >= FA_DTYPE_COUNT)
        return fai_fail(FA_ERR_TYPE, "to_dtype",
                        "argument 'dtype': there is no element type number %d; give one of FA_BOOL to FA_FLOAT64", (int)dtype);
    return copy_of("to_dtype", x, dtype, x->device);
}

/* A view where there is nothing to sum: the derivative of a matrix product asks for every operand. */
fa_tensor *fai_sum_to_forward(fa_tensor *x, fa_shape shape) {
    if (!fai_shape_ok("sum_to", "shape", shape)) return NULL;
    bool fits = shape.ndim <= x->ndim;
    for (int d = 0; fits && d < shape.ndim; d++) fits = shape.dim[d] == 1 || shape.dim[d] == x->size[x->ndim - shape.ndim + d];
    if (!fits) {
        char from[200], to[200];
        fai_text_shape(from, sizeof from, x->ndim, x->size);
        fai_text_shape(to, sizeof to, shape.ndim, shape.dim);
        return fai_fail(FA_ERR_RUNTIME, "sum_to",
                        "size %s is not expandable to size %s, so that the latter can't be summed to it", to, from);
    }
    fa_tensor *r = fai_sum_to("sum_to", x, shape.ndim, shape.dim);
    return r == x ? fai_alias_forward(x) : r;
}

/* Reads x through a view that runs backwards. */
fa_tensor *fai_flip_forward(fa_tensor *x, fa_shape dims) {
    bool flipped[FA_MAX_DIMS] = {false};
    if (dims.ndim && !fai_normalize_dims("flip", x, dims, flipped)) return NULL;
    int64_t stride[FA_MAX_DIMS], offset = x->offset;
    for (int d = 0; d < x->ndim; d++) {
        stride[d] = x->stride[d];
        if (!flipped[d] || x->size[d] < 2) continue;
        offset += (x->size[d] - 1) * x->stride[d];
        stride[d] = -x->stride[d];
    }
    if (x->numel == 0) return fai_empty_like("flip", x);
    fa_tensor *r = fai_empty_like("flip", x), *backwards = r ? fai_view("flip", x, x->ndim, x->size, stride, offset) : NULL;
    const bool copied = backwards && fai_copy("flip", r, backwards);
    fa_drop(backwards);
    return copied ? r : NULL;
}

/* ---- cat ---- */

/* torch passes over 1-d tensors without elements, whatever the others look like. */
static bool is_skipped(const fa_tensor *t) { return t->ndim == 1 && t->numel == 0; }

static bool check_piece(const fa_tensor *first, const fa_tensor *t, int at, int dim) {
    if (t->ndim != first->ndim)
        return fai_fail(FA_ERR_RUNTIME, "cat",
                        "Tensors must have same number of dimensions: got %d and %d (tensor number %d in the list)", first->ndim,
                        t->ndim, at);
    for (int d = 0; d < t->ndim; d++)
        if (d != dim && t->size[d] != first->size[d])
            return fai_fail(FA_ERR_RUNTIME, "cat",
                            "Sizes of tensors must match except in dimension %d. Expected size %lld but got size %lld for tensor "
                            "number %d in the list.",
                            dim, (long long)first->size[d], (long long)t->size[d], at);
    return true;
}

/* Checks the list and finds the result's dtype and sizes. first is NULL where all are passed over. */
static bool plan_cat(fa_tensor *const *tensors, int n, int64_t dim, fa_tensor **first, int *at, fa_dtype *dtype,
                     int64_t size[FA_MAX_DIMS]) {
    *first = NULL;
    *dtype = (fa_dtype)tensors[0]->dtype;
    for (int i = 0; i < n; i++) {
        if (tensors[i]->ndim == 0)
            return fai_fail(FA_ERR_RUNTIME, "cat",
                            "zero-dimensional tensor (at position %d) cannot be concatenated; fa_stack joins them", i);
        if (!*first && !is_skipped(tensors[i])) *first = tensors[i];
        *dtype = fa_promote_types(*dtype, (fa_dtype)tensors[i]->dtype);
    }
    if (!*first) return true;
    if (!fai_wrap_dim("cat", dim, (*first)->ndim, at)) return false;
    memcpy(size, (*first)->size, sizeof(int64_t) * FA_MAX_DIMS);
    size[*at] = 0;
    for (int i = 0; i < n; i++) {
        if (is_skipped(tensors[i])) continue;
        if (!check_piece(*first, tensors[i], i, *at)) return false;
        if (!fai_add(size[*at], tensors[i]->size[*at], &size[*at]))
            return fai_fail(FA_ERR_RUNTIME, "cat",
                            "Storage size calculation overflowed: the sizes of dimension %d sum to more than a machine can count",
                            *at);
    }
    return true;
}

fa_tensor *fai_cat_forward(fa_tensor *const *tensors, int ntensors, int64_t dim) {
    if (ntensors < 1) return fai_fail(FA_ERR_VALUE, "cat", "torch.cat(): expected a non-empty list of Tensors");
    fa_tensor *first;
    fa_dtype dtype;
    int at = 0;
    int64_t size[FA_MAX_DIMS] = {0}, start = 0;
    if (!plan_cat(tensors, ntensors, dim, &first, &at, &dtype, size)) return NULL;
    fa_tensor *r = fai_empty("cat", dtype, tensors[0]->device, first ? first->ndim : 1, size);
    if (!first) return r;
    for (int i = 0; r && i < ntensors; i++) {
        if (is_skipped(tensors[i]) || tensors[i]->numel == 0) continue;
        const int64_t length = tensors[i]->size[at];
        fa_tensor *part = fai_slice_forward(r, at, start, start + length, 1);
        const bool copied = part && fai_copy("cat", part, tensors[i]);
        fa_drop(part);
        if (!copied) return NULL;
        start += length;
    }
    return r;
}

/* ---- the inverse of a view: zeros with g in the view's place ---- */

static fa_tensor *zeros(const char *op, const fa_tensor *like, fa_shape shape) {
    if (!fai_shape_ok(op, "shape", shape)) return NULL;
    fa_tensor *r = fai_empty(op, (fa_dtype)like->dtype, like->device, shape.ndim, shape.dim);
    return r && fai_zero(op, r) ? r : NULL;
}

/* Copies x into place, a view of r, which is given up; r or NULL. */
static fa_tensor *put(const char *op, fa_tensor *r, fa_tensor *place, fa_tensor *x) {
    bool ok = place != NULL;
    if (ok && (place->ndim != x->ndim || memcmp(place->size, x->size, sizeof(int64_t) * x->ndim))) {
        char found[200], needed[200];
        fai_text_shape(found, sizeof found, x->ndim, x->size);
        fai_text_shape(needed, sizeof needed, place->ndim, place->size);
        ok = fai_fail(FA_ERR_RUNTIME, op, "argument 'x' has shape %s, but the place it goes to has shape %s", found, needed);
    }
    ok = ok && (x->numel == 0 || fai_copy(op, place, x));
    fa_drop(place);
    return ok ? r : NULL;
}

fa_tensor *fai_slice_backward_forward(fa_tensor *x, fa_shape shape, int64_t dim, int64_t start, int64_t stop, int64_t step) {
    fa_tensor *r = zeros("slice_backward", x, shape);
    return r ? put("slice_backward", r, fai_slice_forward(r, dim, start, stop, step), x) : NULL;
}

fa_tensor *fai_select_backward_forward(fa_tensor *x, fa_shape shape, int64_t dim, int64_t index) {
    fa_tensor *r = zeros("select_backward", x, shape);
    return r ? put("select_backward", r, fai_select_forward(r, dim, index), x) : NULL;
}

fa_tensor *fai_diagonal_backward_forward(fa_tensor *x, fa_shape shape, int64_t offset, int64_t dim0, int64_t dim1) {
    fa_tensor *r = zeros("diagonal_backward", x, shape);
    return r ? put("diagonal_backward", r, fai_diagonal_forward(r, offset, dim0, dim1), x) : NULL;
}

/* Windows that overlap are added one position within the window after the other: no two of them write to the same element. */
fa_tensor *fai_unfold_backward_forward(fa_tensor *x, fa_shape shape, int64_t dim, int64_t size, int64_t step) {
    const char *op = "unfold_backward";
    fa_tensor *r = zeros(op, x, shape), *windows = r ? fai_unfold_forward(r, dim, size, step) : NULL;
    if (!windows) return NULL;
    if (step >= size) return put(op, r, windows, x);
    bool ok = windows->ndim == x->ndim && !memcmp(windows->size, x->size, sizeof(int64_t) * x->ndim);
    if (!ok)
        fai_fail(FA_ERR_RUNTIME, op, "argument 'x' does not have the shape of the windows of size %lld every %lld",
                 (long long)size, (long long)step);
    for (int64_t k = 0; ok && k < size && x->numel; k++) {
        fa_tensor *to = fai_select_forward(windows, -1, k), *from = to ? fai_select_forward(x, -1, k) : NULL;
        const fai_operand sum[2] = {{.tensor = to}, {.tensor = from}};
        ok = from && fai_row_into(op, FAI_ROW_add, to, 2, sum, NULL);
        fa_drop(from);
        fa_drop(to);
    }
    fa_drop(windows);
    return ok ? r : NULL;
}
