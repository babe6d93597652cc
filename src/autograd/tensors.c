/* Composite operators that move, choose or repeat elements. */
#include "composite.h"
#include "ops/random.h"

/* ---- shapes ---- */

fa_tensor *fa_reshape(fa_tensor *x, fa_shape shape) {
    fa_shape full;
    int64_t stride[FA_MAX_DIMS];
    if (!fai_begin1("reshape", "x", x) || !fai_infer_shape("reshape", x, shape, &full)) return NULL;
    if (fai_view_strides(x, full, stride)) return fa_view(x, full);
    FA_SCOPE;
    return fa_keep(fa_view(fa_clone(x), full));
}

fa_tensor *fa_flatten(fa_tensor *x, int64_t start_dim, int64_t end_dim) {
    int start, end;
    if (!fai_begin1("flatten", "x", x)) return NULL;
    if (!fai_wrap_dim("flatten", start_dim, x->ndim, &start) || !fai_wrap_dim("flatten", end_dim, x->ndim, &end)) return NULL;
    if (start > end)
        return fai_fail(FA_ERR_RUNTIME, "flatten",
                        "flatten() has invalid args: start_dim cannot come after end_dim; found %d and %d", start, end);
    fa_shape shape = {.ndim = 0};
    for (int d = 0; d < start; d++) shape.dim[shape.ndim++] = x->size[d];
    int64_t joined = 1;
    for (int d = start; d <= end && d < x->ndim; d++) joined *= x->size[d];
    shape.dim[shape.ndim++] = joined;
    for (int d = end + 1; d < x->ndim; d++) shape.dim[shape.ndim++] = x->size[d];
    return fa_reshape(x, shape);
}

fa_tensor *fa_unflatten(fa_tensor *x, int64_t dim, fa_shape shape) {
    int at, unknown = -1;
    int64_t product = 1;
    const char *op = "unflatten";
    if (!fai_begin1(op, "x", x) || !fai_wrap_dim(op, dim, x->ndim, &at) || !fai_shape_ok(op, "shape", shape)) return NULL;
    if (shape.ndim == 0) return fai_fail(FA_ERR_RUNTIME, op, "unflatten: sizes must be non-empty");
    const int64_t size = x->ndim ? x->size[at] : 1;
    bool fits = true;
    for (int d = 0; d < shape.ndim; d++) {
        if (shape.dim[d] == -1) {
            if (unknown >= 0) return fai_fail(FA_ERR_RUNTIME, op, "only one dimension can be inferred");
            unknown = d;
        } else {
            fits = fits && shape.dim[d] >= 0 && fai_mul(product, shape.dim[d], &product);
        }
    }
    fits = fits && (unknown < 0 ? product == size : product != 0 && size % product == 0);
    if (!fits) {
        char sizes[200];
        fai_text_shape(sizes, sizeof sizes, shape.ndim, shape.dim);
        return fai_fail(FA_ERR_RUNTIME, op,
                        "unflatten: Provided sizes %s don't multiply up to the size of dim %d (%lld) in the input tensor", sizes,
                        at, (long long)size);
    }
    if (unknown >= 0) shape.dim[unknown] = size / product;
    if (x->ndim + shape.ndim - 1 > FA_MAX_DIMS)
        return fai_fail(FA_ERR_RUNTIME, op, "the result has %d dimensions; a tensor has at most %d", x->ndim + shape.ndim - 1,
                        FA_MAX_DIMS);
    fa_shape full = {.ndim = 0};
    for (int d = 0; d < at; d++) full.dim[full.ndim++] = x->size[d];
    for (int d = 0; d < shape.ndim; d++) full.dim[full.ndim++] = shape.dim[d];
    for (int d = at + 1; d < x->ndim; d++) full.dim[full.ndim++] = x->size[d];
    return fa_reshape(x, full);
}

fa_tensor *fa_t(fa_tensor *x) {
    if (!fai_begin1("t", "x", x)) return NULL;
    if (x->ndim > 2)
        return fai_fail(FA_ERR_RUNTIME, "t", "t() expects a tensor with <= 2 dimensions, but self is %dD; use fa_transpose",
                        x->ndim);
    return x->ndim == 2 ? fa_transpose(x, 0, 1) : fa_alias(x);
}

fa_tensor *fa_expand_as(fa_tensor *x, fa_tensor *like) {
    if (!fai_check("expand_as", "x", x) || !fai_check("expand_as", "like", like)) return NULL;
    return fa_expand(x, fa_shape_of_tensor(like));
}

fa_tensor *fa_contiguous(fa_tensor *x) {
    if (!fai_check("contiguous", "x", x)) return NULL;
    return FAI_HAS(x, FAI_CONTIGUOUS) ? x : fa_clone(x);
}

fa_tensor *fa_channels_last(fa_tensor *x) {
    if (!fai_check("channels_last", "x", x)) return NULL;
    if (x->ndim != 4 && x->ndim != 5)
        return fai_fail(FA_ERR_RUNTIME, "channels_last", "required rank 4 tensor to use channels_last format, or one of rank 5; x has %d dimensions", x->ndim);
    if (fa_is_channels_last(x)) return x;
    FAI_CALLED("channels_last");
    FA_SCOPE;
    return fa_keep(fa_movedim(fa_contiguous(fa_movedim(x, FA_SHAPE(1), FA_SHAPE(-1))), FA_SHAPE(-1), FA_SHAPE(1)));
}

fa_tensor *fa_narrow(fa_tensor *x, int64_t dim, int64_t start, int64_t length) {
    int at;
    if (!fai_begin1("narrow", "x", x)) return NULL;
    if (x->ndim == 0) return fai_fail(FA_ERR_RUNTIME, "narrow", "narrow() cannot be applied to a 0-dim tensor.");
    if (length < 0)
        return fai_fail(FA_ERR_RUNTIME, "narrow", "narrow(): length must be non-negative. Found %lld.", (long long)length);
    if (!fai_wrap_dim("narrow", dim, x->ndim, &at)) return NULL;
    const int64_t size = x->size[at];
    if (start < -size || start > size)
        return fai_fail(FA_ERR_INDEX, "narrow", "start out of range (expected to be in range of [-%lld, %lld], but got %lld)",
                        (long long)size, (long long)size, (long long)start);
    if (start < 0) start += size;
    if (length > size - start)
        return fai_fail(FA_ERR_RUNTIME, "narrow", "start (%lld) + length (%lld) exceeds dimension size (%lld).", (long long)start,
                        (long long)length, (long long)size);
    return fa_slice(x, at, start, start + length, 1);
}

/* ---- joining and repeating ---- */

fa_tensor *fa_roll(fa_tensor *x, int64_t shift, int64_t dim) {
    int at;
    if (!fai_begin1("roll", "x", x)) return NULL;
    if (x->ndim == 0)
        return fai_fail(FA_ERR_INDEX, "roll", "Dimension specified as %lld but tensor has no dimensions", (long long)dim);
    if (!fai_wrap_dim("roll", dim, x->ndim, &at)) return NULL;
    const int64_t size = x->size[at];
    const int64_t by = size ? (shift % size + size) % size : 0;
    if (by == 0) return fa_clone(x);
    FA_SCOPE;
    fa_tensor *parts[] = {fa_slice(x, at, size - by, size, 1), fa_slice(x, at, 0, size - by, 1)};
    return fa_keep(fa_cat(parts, 2, at));
}

static bool check_stack(fa_tensor *const *tensors, int n, int64_t dim, int *at) {
    if (!fai_list_begin("stack", "tensors", tensors, n, false)) return false;
    if (n == 0) return fai_fail(FA_ERR_RUNTIME, "stack", "stack expects a non-empty TensorList");
    for (int i = 1; i < n; i++) {
        if (fai_same_shape(tensors[0], tensors[i])) continue;
        char first[200], other[200];
        fai_text_shape(first, sizeof first, tensors[0]->ndim, tensors[0]->size);
        fai_text_shape(other, sizeof other, tensors[i]->ndim, tensors[i]->size);
        return fai_fail(FA_ERR_RUNTIME, "stack",
                        "stack expects each tensor to be equal size, but got %s at entry 0 and %s at entry %d", first, other, i);
    }
    return fai_wrap_dim("stack", dim, tensors[0]->ndim + 1, at);
}

fa_tensor *fai_plain_stack(fa_tensor *const *tensors, int n, int64_t dim) {
    int at;
    if (!check_stack(tensors, n, dim, &at)) return NULL;
    const size_t bytes = (size_t)n * sizeof(fa_tensor *);
    fa_tensor **rows = fai_alloc(FAI_TAG_OTHER, bytes), *r = NULL;
    if (!rows) return fai_fail_memory("stack", bytes);
    FA_SCOPE;
    bool ok = true;
    for (int i = 0; ok && i < n; i++) ok = (rows[i] = fa_unsqueeze(tensors[i], at)) != NULL;
    if (ok) r = fa_keep(fa_cat(rows, n, at));
    fai_free(FAI_TAG_OTHER, rows, bytes);
    return r;
}

/* Repeats along one dimension: the whole dimension over and over, or each element. In four dimensions, so that x may have any
 * number. */
static fa_tensor *repeat_dim(fa_tensor *x, int dim, int64_t times, bool each, fa_shape shape) {
    const fai_split s = fai_split_at(x, dim);
    fa_tensor *apart = fa_reshape(x, each ? FA_SHAPE(s.outer, s.size, 1, s.inner) : FA_SHAPE(s.outer, 1, s.size, s.inner));
    fa_tensor *wide =
        fa_expand(apart, each ? FA_SHAPE(s.outer, s.size, times, s.inner) : FA_SHAPE(s.outer, times, s.size, s.inner));
    return fa_reshape(wide, shape);
}

fa_tensor *fa_repeat(fa_tensor *x, fa_shape repeats) {
    if (!fai_begin1("repeat", "x", x) || !fai_shape_ok("repeat", "repeats", repeats)) return NULL;
    if (repeats.ndim < x->ndim)
        return fai_fail(FA_ERR_RUNTIME, "repeat",
                        "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor: "
                        "found %d for %d",
                        (int)repeats.ndim, x->ndim);
    fa_shape shape = {.ndim = repeats.ndim}, full = shape;
    const int more = repeats.ndim - x->ndim;
    bool ok = true;
    for (int d = 0; d < repeats.ndim; d++) {
        shape.dim[d] = d < more ? 1 : x->size[d - more];
        ok = fai_mul(shape.dim[d], repeats.dim[d], &full.dim[d]) && ok;
    }
    for (int d = 0; d < repeats.ndim; d++) {
        if (ok && full.dim[d] >= 0 && repeats.dim[d] >= 0) continue;
        char text[200];
        fai_text_shape(text, sizeof text, full.ndim, full.dim);
        return fai_fail(FA_ERR_RUNTIME, "repeat",
                        "Trying to create tensor with negative dimension %lld: %s. Repeats are 0 or more.",
                        (long long)full.dim[d], text);
    }
    FA_SCOPE;
    fa_tensor *r = fa_reshape(x, shape);
    for (int d = repeats.ndim - 1; r && d >= 0; d--) {
        shape.dim[d] = full.dim[d];
        if (repeats.dim[d] != 1) r = repeat_dim(r, d, repeats.dim[d], false, shape);
    }
    /* torch's result never shares x's memory */
    return r && r->buffer == x->buffer ? fa_keep(fa_clone(r)) : fa_keep(r);
}

fa_tensor *fa_repeat_interleave(fa_tensor *x, int64_t repeats, int64_t dim) {
    int at;
    const char *op = "repeat_interleave";
    if (!fai_begin1(op, "x", x)) return NULL;
    if (repeats < 0) return fai_fail(FA_ERR_RUNTIME, op, "Repeats must be non-negative, found %lld", (long long)repeats);
    if (!fai_wrap_dim(op, dim, x->ndim, &at)) return NULL;
    fa_shape shape = fa_shape_of_tensor(x);
    if (shape.ndim == 0) shape = FA_SHAPE(1);
    if (!fai_mul(shape.dim[at], repeats, &shape.dim[at]))
        return fai_fail(FA_ERR_RUNTIME, op, "argument 'repeats': %lld times the size of dimension %d overflows",
                        (long long)repeats, at);
    FA_SCOPE;
    fa_tensor *r = repeat_dim(x, at, repeats, true, shape);
    return r && r->buffer == x->buffer ? fa_keep(fa_clone(r)) : fa_keep(r);
}

/* ---- choosing ---- */

/* x where column - row >= diagonal (upper) or <= diagonal (lower), zero elsewhere. */
static fa_tensor *triangle(const char *op, fa_tensor *x, int64_t diagonal, bool upper) {
    if (!fai_begin1(op, "x", x)) return NULL;
    if (x->ndim < 2)
        return fai_fail(FA_ERR_RUNTIME, op, "%s: input tensor must have at least 2 dimensions; it has %d", op, x->ndim);
    FA_SCOPE;
    const int64_t rows = x->size[x->ndim - 2], columns = x->size[x->ndim - 1];
    if (diagonal > columns + 1) diagonal = columns + 1; /* beyond the corners nothing changes */
    if (diagonal < -rows - 1) diagonal = -rows - 1;
    fa_tensor *row = fa_arange(diagonal, diagonal + rows, 1, .dtype = FA_INT64, .device = x->device);
    fa_tensor *column = fa_arange(0, columns, 1, .dtype = FA_INT64, .device = x->device);
    row = fa_unsqueeze(row, 1);
    fa_tensor *inside = upper ? fa_ge(column, row) : fa_le(column, row);
    const fai_operand zero = {.scalar = fa_scalar_of_bool(false)}; /* the weakest kind: the result keeps x's dtype */
    return fa_keep(fai_row3(FAI_ROW_where, fai_of(inside), fai_of(x), zero));
}

fa_tensor *fa_tril(fa_tensor *x, int64_t diagonal) { return triangle("tril", x, diagonal, false); }
fa_tensor *fa_triu(fa_tensor *x, int64_t diagonal) { return triangle("triu", x, diagonal, true); }

fa_tensor *fa_masked_select(fa_tensor *x, fa_tensor *mask) {
    int ndim;
    fa_shape shape = {.ndim = 0};
    FAI_CALLED("masked_select");
    if (!fai_begin2("masked_select", "x", x, "mask", mask)) return NULL;
    if (mask->dtype != FA_BOOL)
        return fai_fail(FA_ERR_RUNTIME, "masked_select",
                        "masked_select: expected BoolTensor for mask, found %s; a comparison gives one",
                        fa_dtype_name((fa_dtype)mask->dtype));
    if (!fai_broadcast("masked_select", 2, (const fa_tensor *const[]){mask, x}, &ndim, shape.dim)) return NULL;
    shape.ndim = ndim;
    FA_SCOPE;
    const fa_shape flat = FA_SHAPE(-1);
    fa_tensor *places = fa_squeeze_dim(fa_nonzero(fa_reshape(fa_expand(mask, shape), flat)), 1);
    return fa_keep(fa_index_select(fa_reshape(fa_expand(x, shape), flat), 0, places));
}

static bool one_hot_classes(fa_tensor *index, int64_t *classes) {
    const char *op = "one_hot";
    if (index->dtype != FA_INT64)
        return fai_fail(FA_ERR_RUNTIME, op,
                        "one_hot is only applicable to index tensor of type LongTensor. Found %s: fa_cast(index, FA_INT64).",
                        fa_dtype_name((fa_dtype)index->dtype));
    if (index->numel == 0) {
        if (*classes > 0) return true;
        return fai_fail(FA_ERR_RUNTIME, op, "Can not infer total number of classes from empty tensor.");
    }
    if (*classes >= 0 && fai_capturing(index->device)) return true; /* there are no numbers yet; the kernel looks at each */
    FA_SCOPE;
    const int64_t least = fa_item_int(fa_amin(index)), most = fa_item_int(fa_amax(index));
    if (fa_failed()) return false;
    if (least < 0)
        return fai_fail(FA_ERR_RUNTIME, op, "Class values must be non-negative. The smallest is %lld.", (long long)least);
    if (*classes == -1) *classes = most + 1;
    if (most < *classes) return true;
    return fai_fail(FA_ERR_RUNTIME, op, "Class values must be smaller than num_classes. The largest is %lld, classes is %lld.",
                    (long long)most, (long long)*classes);
}

fa_tensor *fa_one_hot(fa_tensor *index, int64_t classes) {
    FAI_CALLED("one_hot");
    if (!fai_begin1("one_hot", "index", index) || !one_hot_classes(index, &classes)) return NULL;
    fa_shape shape = fa_shape_of_tensor(index);
    if (shape.ndim == FA_MAX_DIMS)
        return fai_fail(FA_ERR_RUNTIME, "one_hot", "the result has %d dimensions; a tensor has at most %d", FA_MAX_DIMS + 1,
                        FA_MAX_DIMS);
    shape.dim[shape.ndim++] = classes;
    FA_SCOPE;
    return fa_keep(fa_scatter_value(fai_zeros_of(index, shape), -1, fa_unsqueeze(index, -1), fa_scalar_of_int(1)));
}

fa_tensor *fa_pool_gather(fa_tensor *x, fa_tensor *indices) {
    if (!fai_begin2("pool_gather", "x", x, "indices", indices)) return NULL;
    if (x->ndim < 2 || x->ndim != indices->ndim)
        return fai_fail(FA_ERR_RUNTIME, "pool_gather",
                        "x has %d dimensions and indices %d; both have the same number, the last two of which are a "
                        "plane",
                        x->ndim, indices->ndim);
    FA_SCOPE;
    fa_tensor *picked = fa_gather(fa_flatten(x, -2, -1), -1, fa_flatten(indices, -2, -1));
    return fa_keep(fa_reshape(picked, fa_shape_of_tensor(indices)));
}

/* ---- dropout ---- */

/* What each element is multiplied by: 0 with probability p, else 1 / (1 - p). */
static fa_tensor *dropout_mask(const fa_tensor *x, double p) {
    FA_NO_GRAD;
    fa_tensor *mask = fai_empty_strided("dropout", (fa_dtype)x->dtype, x->device, x->ndim, x->size, x->stride);
    if (!mask || !fai_fill_dropout_mask("dropout", mask, 1 - p, NULL)) return NULL;
    return fa_div_scalar_(mask, 1 - p);
}

fa_tensor *fa_dropout(fa_tensor *x, double p, bool training) {
    if (!fai_begin1("dropout", "x", x)) return NULL;
    if (!(p >= 0 && p <= 1))
        return fai_fail(FA_ERR_VALUE, "dropout", "dropout probability has to be between 0 and 1, but got %g", p);
    if (!training || p == 0 || x->numel == 0) return x;
    if (!fai_is_float(x->dtype))
        return fai_fail(FA_ERR_RUNTIME, "dropout",
                        "result type Float can't be cast to the desired output type %s; convert x first: fa_cast(x, "
                        "FA_FLOAT32)",
                        fai_dtype_title((fa_dtype)x->dtype));
    if (p == 1) return fai_multiply(x, 0);
    FA_SCOPE;
    return fa_keep(fa_mul(x, dropout_mask(x, p)));
}
