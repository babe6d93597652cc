/* Composite operators that write at an index or a mask and give a new tensor: index_fill, masked_scatter. */
#include "composite.h"
#include <fa_functional.h>

/* ---- index_fill: by a mask of the slices, so that a slice that is named twice counts once ---- */

/* A bool tensor that broadcasts over x: true at the indices of dim. */
static fa_tensor *mask_of_slices(const char *op, fa_tensor *x, int dim, fa_tensor *index) {
    fa_shape size = {.ndim = x->ndim ? x->ndim : 1};
    for (int d = 0; d < size.ndim; d++) size.dim[d] = d == dim && x->ndim ? x->size[d] : 1;
    fa_tensor *mask = fa_zeros(size, .dtype = FA_BOOL, .device = x->device), *indices[FA_MAX_DIMS] = {NULL};
    if (mask && index->numel) {
        indices[dim] = fa_reshape(index, FA_SHAPE(-1));
        fa_tensor *yes = fai_empty(op, FA_BOOL, x->device, 0, NULL);
        if (!indices[dim] || !yes || !fai_fill_scalar(op, yes, fa_scalar_of_bool(true))) return NULL;
        mask = fa_index_put(mask, indices, dim + 1, yes, false);
    }
    return mask ? fa_reshape(mask, x->ndim ? size : FA_SHAPE_0D) : NULL;
}

static fa_tensor *index_fill(fa_tensor *x, int64_t dim, fa_tensor *index, fai_operand value) {
    const char *op = "index_fill";
    FAI_CALLED(op);
    int at;
    if (!fai_begin2(op, "x", x, "index", index)) return NULL;
    if (index->dtype != FA_INT64)
        return fai_fail(FA_ERR_INDEX, op, "index_fill_(): Expected dtype int64 for index. Found %s: fa_cast(index, FA_INT64).",
                        fa_dtype_name((fa_dtype)index->dtype));
    if (index->ndim > 1)
        return fai_fail(FA_ERR_RUNTIME, op, "Index has to be a vector/scalar: it has %d dimensions", index->ndim);
    if (!fai_wrap_dim(op, dim, x->ndim, &at)) return NULL;
    FA_SCOPE;
    fa_tensor *mask = mask_of_slices(op, x, at, index);
    return mask ? fa_keep(fai_row3(FAI_ROW_masked_fill, fai_of(x), fai_of(mask), value)) : NULL;
}

fa_tensor *fa_index_fill(fa_tensor *x, int64_t dim, fa_tensor *index, fa_tensor *value) {
    if (!fai_check("index_fill", "value", value)) return NULL;
    if (value->ndim)
        return fai_fail(FA_ERR_RUNTIME, "index_fill",
                        "index_fill_ only supports a 0-dimensional value tensor, but got tensor with %d dimension(s).",
                        value->ndim);
    return index_fill(x, dim, index, fai_of(value));
}

#undef fa_index_fill_scalar
fa_tensor *fa_index_fill_scalar(fa_tensor *x, int64_t dim, fa_tensor *index, fa_scalar value) {
    return !x || fai_number_fits("index_fill", value, (fa_dtype)x->dtype) ? index_fill(x, dim, index, (fai_operand){.scalar = value}) : NULL;
}

/* ---- masked_scatter ---- */

static bool check_masked_scatter(const fa_tensor *x, const fa_tensor *mask, const fa_tensor *src) {
    const char *op = "masked_scatter";
    if (mask->dtype != FA_BOOL)
        return fai_fail(
            FA_ERR_RUNTIME, op,
            "masked_scatter_ only supports boolean masks, but got mask with dtype %s. Compare first: fa_ne_scalar(mask, 0).",
            fai_dtype_title((fa_dtype)mask->dtype));
    if (x->dtype != src->dtype)
        return fai_fail(FA_ERR_RUNTIME, op, "masked_scatter: expected self and source to have same dtypes but got %s and %s",
                        fai_dtype_title((fa_dtype)x->dtype), fai_dtype_title((fa_dtype)src->dtype));
    return true;
}

/* On the CPU too many places are an error at once; on a device the index kernel reports them at the next wait, as no operator but the
 * reading ones waits. An empty src has nothing to index and is asked about everywhere. */
static bool enough(fa_tensor *mask, const fa_tensor *src) {
    if (!fai_on_cpu(mask) && src->numel) return true;
    const int64_t places = fa_item_int(fa_count_nonzero(mask));
    if (fa_failed()) return false;
    if (places <= src->numel) return true;
    return fai_fail(FA_ERR_RUNTIME, "masked_scatter",
                    "Number of elements of source < number of ones in mask: there are %lld and %lld", (long long)src->numel,
                    (long long)places);
}

fa_tensor *fa_masked_scatter(fa_tensor *x, fa_tensor *mask, fa_tensor *src) {
    const char *op = "masked_scatter";
    FAI_CALLED(op);
    fa_shape shape = {.ndim = 0};
    int ndim;
    if (!fai_op_begin(op, 3, (const char *const[]){"x", "mask", "src"}, (fa_tensor *const[]){x, mask, src}, 0)) return NULL;
    if (!check_masked_scatter(x, mask, src) || !fai_broadcast(op, 2, (const fa_tensor *const[]){mask, x}, &ndim, shape.dim))
        return NULL;
    shape.ndim = ndim;
    FA_SCOPE;
    x = fa_expand(x, shape);
    mask = fa_contiguous(fa_expand(mask, shape));
    if (!x || !mask || !enough(mask, src)) return NULL;
    if (x->numel == 0 || src->numel == 0) return fa_keep(fa_clone(x));
    fa_tensor *which = fa_sub_scalar(fa_cumsum(fa_reshape(mask, FA_SHAPE(-1)), 0), FA_NUM(1)); /* the how-manieth true one */
    fa_tensor *picked = fa_index_select(fa_reshape(src, FA_SHAPE(-1)), 0, fa_clamp_min(which, FA_NUM(0)));
    return fa_keep(fa_where(mask, fa_reshape(picked, shape), x));
}
