/* Views: results that share the memory of x and differ in sizes, strides and offset only. Each function works out these three
 * and hands them to fai_view; nothing is copied and nothing is recorded here. */
#include "views.h"
#include <string.h>

enum { TEXT = 200 }; /* a shape in words */

static const char *shape_text(char out[TEXT], int ndim, const int64_t *size) {
    fai_text_shape(out, TEXT, ndim, size);
    return out;
}

bool fai_shape_ok(const char *op, const char *argument, fa_shape shape) {
    if (shape.ndim >= 0 && shape.ndim <= FA_MAX_DIMS) return true;
    return fai_fail(FA_ERR_RUNTIME, op, "argument '%s' has %d entries; a tensor has at most %d dimensions", argument,
                    (int)shape.ndim, FA_MAX_DIMS);
}

/* The sizes and strides of x, to be changed by the caller; one place more than a tensor may have, for those that add one. */
typedef struct geometry {
    int ndim;
    int64_t size[FA_MAX_DIMS + 1], stride[FA_MAX_DIMS + 1];
} geometry;

static geometry geometry_of(const fa_tensor *x) {
    geometry v = {.ndim = x->ndim};
    memcpy(v.size, x->size, sizeof x->size[0] * x->ndim);
    memcpy(v.stride, x->stride, sizeof x->stride[0] * x->ndim);
    return v;
}

static void remove_dim(geometry *v, int dim) {
    v->ndim--;
    for (int d = dim; d < v->ndim; d++) {
        v->size[d] = v->size[d + 1];
        v->stride[d] = v->stride[d + 1];
    }
}

static fa_tensor *make_view(const char *op, fa_tensor *x, const geometry *v, int64_t offset) {
    return fai_view(op, x, v->ndim, v->size, v->stride, offset);
}

/* ---- view ---- */

bool fai_infer_shape(const char *op, const fa_tensor *x, fa_shape shape, fa_shape *out) {
    char text[TEXT];
    int unknown = -1;
    int64_t numel = 1;
    if (!fai_shape_ok(op, "shape", shape)) return false;
    for (int d = 0; d < shape.ndim; d++) {
        if (shape.dim[d] == -1) {
            if (unknown >= 0)
                return fai_fail(FA_ERR_RUNTIME, op,
                                "only one dimension can be inferred; argument 'shape' is %s: give all sizes but one",
                                shape_text(text, shape.ndim, shape.dim));
            unknown = d;
        } else if (shape.dim[d] < 0) {
            return fai_fail(FA_ERR_RUNTIME, op,
                            "invalid shape dimension %lld at index %d of shape %s; sizes are 0 or more, one of them may be -1",
                            (long long)shape.dim[d], d, shape_text(text, shape.ndim, shape.dim));
        } else if (!fai_mul(numel, shape.dim[d], &numel)) {
            return fai_fail(FA_ERR_RUNTIME, op,
                            "shape '%s' is invalid for input of size %lld; it has more elements than a machine can count",
                            shape_text(text, shape.ndim, shape.dim), (long long)x->numel);
        }
    }
    const bool fits = unknown < 0 ? numel == x->numel : numel == 0 ? x->numel == 0 : x->numel % numel == 0;
    if (!fits) {
        char found[TEXT];
        return fai_fail(FA_ERR_RUNTIME, op,
                        "shape '%s' is invalid for input of size %lld; the input has shape %s, and a view has as many elements",
                        shape_text(text, shape.ndim, shape.dim), (long long)x->numel, shape_text(found, x->ndim, x->size));
    }
    if (unknown >= 0 && numel == 0)
        return fai_fail(
            FA_ERR_RUNTIME, op,
            "cannot reshape tensor of 0 elements into shape %s because the unspecified dimension size -1 can be any value "
            "and is ambiguous; write that size out",
            shape_text(text, shape.ndim, shape.dim));
    *out = shape;
    if (unknown >= 0) out->dim[unknown] = x->numel / numel;
    return true;
}

/* From the last dimension to the first: x's dimensions that lie evenly in memory form a run, and the new dimensions have to fill
 * each run exactly. */
bool fai_view_strides(const fa_tensor *x, fa_shape shape, int64_t stride[FA_MAX_DIMS]) {
    const size_t bytes = sizeof(int64_t) * (size_t)shape.ndim;
    if (x->numel == 0) {
        if (shape.ndim == x->ndim && !memcmp(shape.dim, x->size, bytes))
            memcpy(stride, x->stride, bytes);
        else
            fai_contiguous_strides(shape.ndim, shape.dim, stride);
        return true;
    }
    int old = x->ndim - 1, d = shape.ndim - 1;
    int64_t next = 1;
    while (old >= 0) {
        if (x->size[old] == 1) {
            old--;
            continue;
        }
        int64_t count = x->size[old], filled = 1;
        const int64_t step = x->stride[old];
        for (old--; old >= 0 && (x->size[old] == 1 || x->stride[old] == count * step); old--) count *= x->size[old];
        for (; d >= 0 && (filled < count || shape.dim[d] == 1); d--) {
            stride[d] = filled * step;
            filled *= shape.dim[d];
        }
        if (filled != count) return false;
        next = filled * step;
    }
    for (; d >= 0; d--) stride[d] = next; /* sizes of 1 in front */
    return true;
}

fa_tensor *fai_view_forward(fa_tensor *x, fa_shape shape) {
    fa_shape full;
    int64_t stride[FA_MAX_DIMS];
    if (!fai_infer_shape("view", x, shape, &full)) return NULL;
    if (fai_view_strides(x, full, stride)) return fai_view("view", x, full.ndim, full.dim, stride, x->offset);
    char from[TEXT], to[TEXT], strides[TEXT];
    return fai_fail(
        FA_ERR_RUNTIME, "view",
        "view size is not compatible with input tensor's size and stride (at least one dimension spans across two contiguous "
        "subspaces). Use .reshape(...) instead. (In C: fa_reshape. The input has shape %s and strides %s, the view would have "
        "shape %s.)",
        shape_text(from, x->ndim, x->size), shape_text(strides, x->ndim, x->stride), shape_text(to, full.ndim, full.dim));
}

fa_tensor *fai_alias_forward(fa_tensor *x) { return fai_view("alias", x, x->ndim, x->size, x->stride, x->offset); }

/* ---- order of dimensions ---- */

fa_tensor *fai_transpose_forward(fa_tensor *x, int64_t dim0, int64_t dim1) {
    int a, b;
    if (!fai_wrap_dim("transpose", dim0, x->ndim, &a) || !fai_wrap_dim("transpose", dim1, x->ndim, &b)) return NULL;
    geometry v = geometry_of(x);
    if (x->ndim > 0) {
        v.size[a] = x->size[b], v.stride[a] = x->stride[b];
        v.size[b] = x->size[a], v.stride[b] = x->stride[a];
    }
    return make_view("transpose", x, &v, x->offset);
}

fa_tensor *fai_permute_forward(fa_tensor *x, fa_shape dims) {
    if (dims.ndim != x->ndim)
        return fai_fail(
            FA_ERR_RUNTIME, "permute",
            "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired ordering "
            "of dimensions i.e. input.dim() = %d is not equal to len(dims) = %d",
            x->ndim, (int)dims.ndim);
    geometry v = {.ndim = x->ndim};
    bool taken[FA_MAX_DIMS] = {false};
    for (int d = 0; d < x->ndim; d++) {
        int from;
        if (!fai_wrap_dim("permute", dims.dim[d], x->ndim, &from)) return NULL;
        if (taken[from])
            return fai_fail(FA_ERR_RUNTIME, "permute", "permute(): duplicate dims are not allowed. Dimension %d is named twice.",
                            from);
        taken[from] = true;
        v.size[d] = x->size[from];
        v.stride[d] = x->stride[from];
    }
    return make_view("permute", x, &v, x->offset);
}

/* ---- sizes of 1 ---- */

static fa_tensor *expand_fails(const fa_tensor *x, fa_shape shape, int dim, int64_t old) {
    char to[TEXT], from[TEXT];
    return fai_fail(FA_ERR_RUNTIME, "expand",
                    "The expanded size of the tensor (%lld) must match the existing size (%lld) at non-singleton dimension %d.  "
                    "Target sizes: %s.  "
                    "Tensor sizes: %s",
                    (long long)shape.dim[dim], (long long)old, dim, shape_text(to, shape.ndim, shape.dim),
                    shape_text(from, x->ndim, x->size));
}

fa_tensor *fai_expand_forward(fa_tensor *x, fa_shape shape) {
    char to[TEXT], from[TEXT];
    if (!fai_shape_ok("expand", "shape", shape)) return NULL;
    if (shape.ndim < x->ndim)
        return fai_fail(
            FA_ERR_RUNTIME, "expand",
            "expand(torch.%sTensor{%s}, size=%s): the number of sizes provided (%d) must be greater or equal to the number of "
            "dimensions in the tensor (%d)",
            fai_dtype_title((fa_dtype)x->dtype), shape_text(from, x->ndim, x->size), shape_text(to, shape.ndim, shape.dim),
            (int)shape.ndim, x->ndim);
    geometry v = {.ndim = shape.ndim};
    const int more = shape.ndim - x->ndim;
    for (int d = shape.ndim - 1; d >= 0; d--) {
        const int64_t old = d >= more ? x->size[d - more] : 1;
        int64_t size = shape.dim[d];
        if (d < more && size < 0)
            return fai_fail(FA_ERR_RUNTIME, "expand",
                            "The expanded size of the tensor (%lld) isn't allowed in a leading, non-existing dimension %d; -1 "
                            "keeps the size of "
                            "a dimension that is there",
                            (long long)size, d);
        if (size == -1) size = old;
        if (size < 0 || (size != old && old != 1)) return expand_fails(x, shape, d, old);
        v.size[d] = size;
        /* a dimension that is new or repeated is walked without moving */
        if (d >= more && size == old)
            v.stride[d] = x->stride[d - more];
        else
            v.stride[d] = d < more && size == 1 && d + 1 < shape.ndim ? v.size[d + 1] * v.stride[d + 1] : 0;
    }
    return make_view("expand", x, &v, x->offset);
}

fa_tensor *fai_squeeze_forward(fa_tensor *x) {
    geometry v = geometry_of(x);
    for (int d = x->ndim - 1; d >= 0; d--)
        if (v.size[d] == 1) remove_dim(&v, d);
    return make_view("squeeze", x, &v, x->offset);
}

fa_tensor *fai_squeeze_dim_forward(fa_tensor *x, int64_t dim) {
    int at;
    if (!fai_wrap_dim("squeeze", dim, x->ndim, &at)) return NULL;
    geometry v = geometry_of(x);
    if (x->ndim > 0 && v.size[at] == 1) remove_dim(&v, at);
    return make_view("squeeze", x, &v, x->offset);
}

fa_tensor *fai_unsqueeze_forward(fa_tensor *x, int64_t dim) {
    int at;
    if (!fai_wrap_dim("unsqueeze", dim, x->ndim + 1, &at)) return NULL;
    geometry v = geometry_of(x);
    for (int d = x->ndim; d > at; d--) {
        v.size[d] = v.size[d - 1];
        v.stride[d] = v.stride[d - 1];
    }
    v.stride[at] = at < x->ndim ? x->size[at] * x->stride[at] : 1;
    v.size[at] = 1;
    v.ndim++;
    return make_view("unsqueeze", x, &v, x->offset);
}

/* ---- parts ---- */

fa_tensor *fai_select_forward(fa_tensor *x, int64_t dim, int64_t index) {
    int at;
    if (x->ndim == 0)
        return fai_fail(FA_ERR_INDEX, "select", "select() cannot be applied to a 0-dim tensor. Its only element is fa_item(x).");
    if (!fai_wrap_dim("select", dim, x->ndim, &at)) return NULL;
    const int64_t size = x->size[at];
    if (index < -size || index >= size) {
        char text[TEXT];
        return fai_fail(FA_ERR_INDEX, "select",
                        "select(): index %lld out of range for tensor of size %s at dimension %d; allowed is -%lld to %lld",
                        (long long)index, shape_text(text, x->ndim, x->size), at, (long long)size, (long long)size - 1);
    }
    geometry v = geometry_of(x);
    remove_dim(&v, at);
    return make_view("select", x, &v, x->offset + (index < 0 ? index + size : index) * x->stride[at]);
}

/* A position that may count from the end, held within [0, size]. */
static int64_t clamp_position(int64_t position, int64_t size) {
    if (position < 0) position = position < -size ? 0 : position + size;
    return position > size ? size : position;
}

/* A step too large to multiply by leaves at most one element, whose stride does not matter. */
static void scale_stride(geometry *v, int dim, int64_t step) {
    int64_t stride;
    if (fai_mul(v->stride[dim], step, &stride)) v->stride[dim] = stride;
}

fa_tensor *fai_slice_forward(fa_tensor *x, int64_t dim, int64_t start, int64_t stop, int64_t step) {
    int at;
    if (x->ndim == 0) return fai_fail(FA_ERR_INDEX, "slice", "slice() cannot be applied to a 0-dim tensor.");
    if (!fai_wrap_dim("slice", dim, x->ndim, &at)) return NULL;
    if (step <= 0)
        return fai_fail(FA_ERR_RUNTIME, "slice", "slice step must be positive, found %lld; fa_flip reverses a dimension",
                        (long long)step);
    geometry v = geometry_of(x);
    start = clamp_position(start, x->size[at]);
    stop = clamp_position(stop, x->size[at]);
    const int64_t length = stop > start ? stop - start : 0;
    v.size[at] = length / step + (length % step != 0);
    scale_stride(&v, at, step);
    return make_view("slice", x, &v, x->offset + (length ? start * x->stride[at] : 0));
}

fa_tensor *fai_unfold_forward(fa_tensor *x, int64_t dim, int64_t size, int64_t step) {
    int at;
    if (!fai_wrap_dim("unfold", dim, x->ndim, &at)) return NULL;
    const int64_t there = x->ndim > 0 ? x->size[at] : 1, stride = x->ndim > 0 ? x->stride[at] : 1;
    if (size < 0) return fai_fail(FA_ERR_RUNTIME, "unfold", "size is %lld but must be >= 0", (long long)size);
    if (size > there)
        return fai_fail(FA_ERR_RUNTIME, "unfold", "maximum size for tensor at dimension %d is %lld but size is %lld", at,
                        (long long)there, (long long)size);
    if (step <= 0) return fai_fail(FA_ERR_RUNTIME, "unfold", "step is %lld but must be > 0", (long long)step);
    geometry v = geometry_of(x);
    if (x->ndim > 0) {
        v.size[at] = (there - size) / step + 1;
        scale_stride(&v, at, step);
    }
    v.size[v.ndim] = size;
    v.stride[v.ndim++] = stride;
    return make_view("unfold", x, &v, x->offset);
}

fa_tensor *fai_diagonal_forward(fa_tensor *x, int64_t offset, int64_t dim0, int64_t dim1) {
    int a, b;
    if (!fai_wrap_dim("diagonal", dim0, x->ndim, &a) || !fai_wrap_dim("diagonal", dim1, x->ndim, &b)) return NULL;
    if (a == b)
        return fai_fail(FA_ERR_RUNTIME, "diagonal", "diagonal dimensions cannot be identical %lld, %lld", (long long)dim0,
                        (long long)dim1);
    const int64_t row = offset < 0 && offset > INT64_MIN ? -offset : 0, column = offset > 0 ? offset : 0;
    const int64_t rows = x->size[a] > row ? x->size[a] - row : 0, columns = x->size[b] > column ? x->size[b] - column : 0;
    const int64_t length = rows < columns ? rows : columns;
    geometry v = geometry_of(x);
    remove_dim(&v, a > b ? a : b);
    remove_dim(&v, a > b ? b : a);
    v.size[v.ndim] = length;
    v.stride[v.ndim++] = x->stride[a] + x->stride[b];
    return make_view("diagonal", x, &v, x->offset + (length ? row * x->stride[a] + column * x->stride[b] : 0));
}

/* ---- any strides ---- */

/* False if the last element of such a view lies behind the end of x's memory. */
static bool within_memory(const fa_tensor *x, fa_shape shape, fa_shape strides, int64_t offset) {
    const int64_t item = (int64_t)fa_dtype_size((fa_dtype)x->dtype);
    int64_t end = offset, reach, bytes = INT64_MAX;
    bool counted = true;
    for (int d = 0; d < shape.ndim && counted; d++) {
        if (shape.dim[d] == 0) return true;
        counted = fai_mul(shape.dim[d] - 1, strides.dim[d], &reach) && fai_add(end, reach, &end);
    }
    counted = counted && fai_add(end, 1, &end) && fai_mul(end, item, &bytes);
    if (counted && (uint64_t)bytes <= x->buffer->bytes) return true;
    char sizes[TEXT], steps[TEXT];
    return fai_fail(FA_ERR_RUNTIME, "as_strided",
                    "setStorage: sizes %s, strides %s, storage offset %lld, and itemsize %lld requiring a storage size of %lld "
                    "are out of bounds "
                    "for storage of size %zu",
                    shape_text(sizes, shape.ndim, shape.dim), shape_text(steps, strides.ndim, strides.dim), (long long)offset,
                    (long long)item, (long long)bytes, x->buffer->bytes);
}

fa_tensor *fai_as_strided_forward(fa_tensor *x, fa_shape shape, fa_shape strides, int64_t offset) {
    char sizes[TEXT], steps[TEXT];
    if (!fai_shape_ok("as_strided", "shape", shape) || !fai_shape_ok("as_strided", "strides", strides)) return NULL;
    if (shape.ndim != strides.ndim)
        return fai_fail(FA_ERR_RUNTIME, "as_strided", "mismatch in length of strides and shape: %d and %d", (int)strides.ndim,
                        (int)shape.ndim);
    for (int d = 0; d < shape.ndim; d++) {
        if (strides.dim[d] < 0)
            return fai_fail(FA_ERR_RUNTIME, "as_strided",
                            "as_strided: Negative strides are not supported at the moment, got strides: %s",
                            shape_text(steps, strides.ndim, strides.dim));
        if (shape.dim[d] < 0)
            return fai_fail(FA_ERR_RUNTIME, "as_strided",
                            "Storage size calculation overflowed with sizes=%s and strides=%s; sizes are 0 or more",
                            shape_text(sizes, shape.ndim, shape.dim), shape_text(steps, strides.ndim, strides.dim));
    }
    if (offset < 0) return fai_fail(FA_ERR_RUNTIME, "as_strided", "Tensor: invalid storage offset %lld", (long long)offset);
    if (!within_memory(x, shape, strides, offset)) return NULL;
    return fai_view("as_strided", x, shape.ndim, shape.dim, strides.dim, offset);
}
