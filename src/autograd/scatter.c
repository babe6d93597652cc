/* Reducing by index: scatter_reduce and its kind, and the derivative of products and extremes made so. */
#include "composite.h"
#include <math.h>

enum { MULTIPLIED = 1, LARGEST, SMALLEST }; /* what fa_scatter_join takes as how */

/* ---- the derivative of fa_scatter_join ---- */

static fa_tensor *as(fa_tensor *condition, fa_tensor *like) {
    return condition ? fa_to_dtype(condition, (fa_dtype)like->dtype) : NULL;
}

/* Of a product towards one factor: the product of the others. One zero leaves only its own factor a derivative, two leave none. */
static fa_tensor *of_factor(fa_tensor *factor, fa_tensor *product, fa_tensor *nonzero_product, fa_tensor *zeros) {
    fa_tensor *is_zero = fai_equals(factor, 0);
    fa_tensor *alone = fa_where(fai_equals(zeros, 1), nonzero_product, fai_multiply(product, 0));
    return fa_where(is_zero, alone,
                    fa_div(product, fai_row3(FAI_ROW_masked_fill, fai_of(factor), fai_of(is_zero), fai_number(1))));
}

static bool product_backward(fai_node *node, fa_tensor *g, fa_tensor **grads, int64_t dim, fa_tensor *const kept[4]) {
    fa_tensor *x = kept[0], *index = kept[1], *src = kept[2];
    fa_tensor *x_zero = fai_equals(x, 0), *src_zero = fai_equals(src, 0);
    fa_tensor *zeros = fa_scatter_add(as(x_zero, g), dim, index, as(src_zero, g));
    fa_tensor *filled_x = fai_row3(FAI_ROW_masked_fill, fai_of(x), fai_of(x_zero), fai_number(1));
    fa_tensor *filled_src = fai_row3(FAI_ROW_masked_fill, fai_of(src), fai_of(src_zero), fai_number(1));
    fa_tensor *nonzero = fa_scatter_join(filled_x, dim, index, filled_src, MULTIPLIED);
    if (!zeros || !nonzero) return false;
    fa_tensor *whole = fa_where(fai_equals(zeros, 0), nonzero, fai_multiply(nonzero, 0)); /* the result, differentiable again */
    if (fai_node_needs(node, 0) && !(grads[0] = fa_mul(g, of_factor(x, whole, nonzero, zeros)))) return false;
    if (!fai_node_needs(node, 2)) return true;
    fa_tensor *of_src =
        of_factor(src, fa_gather(whole, dim, index), fa_gather(nonzero, dim, index), fa_gather(zeros, dim, index));
    return (grads[2] = fa_mul(fa_gather(g, dim, index), of_src)) != NULL;
}

/* Of an extreme: shared out among all that are equal to it. */
static bool extreme_backward(fai_node *node, fa_tensor *g, fa_tensor **grads, int64_t dim, fa_tensor *const kept[4]) {
    fa_tensor *x = kept[0], *index = kept[1], *src = kept[2], *r = kept[3];
    fa_tensor *x_is = as(fa_eq(x, r), g), *src_is = as(fa_eq(src, fa_gather(r, dim, index)), g);
    fa_tensor *share = fa_div(g, fa_scatter_add(x_is, dim, index, src_is));
    if (!share) return false;
    if (fai_node_needs(node, 0) && !(grads[0] = fa_mul(share, x_is))) return false;
    return !fai_node_needs(node, 2) || (grads[2] = fa_mul(fa_gather(share, dim, index), src_is)) != NULL;
}

bool fai_scatter_join_backward(fai_node *node, fa_tensor *g, fa_tensor **grads) {
    const fai_scatter_join_params *p = node->params;
    fa_tensor *kept[4];
    for (int i = 0; i < 4; i++)
        if (!(kept[i] = fai_node_kept(node, i))) return false;
    return (p->how == MULTIPLIED ? product_backward : extreme_backward)(node, g, grads, p->dim, kept);
}

/* ---- scatter_reduce ---- */

static int kind_of(const char *reduce, const char *const *names, int n) {
    for (int i = 0; reduce && i < n; i++)
        if (!strcmp(reduce, names[i])) return i;
    return -1;
}

/* What changes nothing when it is reduced with another number of the type. */
static fa_scalar neutral(int dtype, int how) {
    static const int64_t least[FA_DTYPE_COUNT] = {
        [FA_INT8] = INT8_MIN, [FA_INT16] = INT16_MIN, [FA_INT32] = INT32_MIN, [FA_INT64] = INT64_MIN};
    static const int64_t most[FA_DTYPE_COUNT] = {[FA_BOOL] = 1,          [FA_UINT8] = UINT8_MAX, [FA_INT8] = INT8_MAX,
                                                 [FA_INT16] = INT16_MAX, [FA_INT32] = INT32_MAX, [FA_INT64] = INT64_MAX};
    if (how < LARGEST) return fa_scalar_of_int(how);
    if (fai_is_float(dtype)) return fa_scalar_of_float(how == LARGEST ? -HUGE_VAL : HUGE_VAL);
    return fa_scalar_of_int(how == LARGEST ? least[dtype] : most[dtype]);
}

/* Sums over how many there are; whole numbers are divided downwards. */
static fa_tensor *mean_of(fa_tensor *sums, int64_t dim, fa_tensor *index, bool include_self) {
    fa_tensor *ones = fa_ones(fa_shape_of_tensor(index), .dtype = (fa_dtype)sums->dtype, .device = sums->device);
    fa_tensor *counts = fa_ones_like(sums);
    if (!include_self) counts = fa_scatter_value(counts, dim, index, 0);
    counts = fa_scatter_add(counts, dim, index, ones);
    return fai_is_float(sums->dtype) ? fa_div(sums, counts) : fa_floor_divide(sums, counts);
}

static fa_tensor *reduced(fa_tensor *x, int64_t dim, fa_tensor *index, fa_tensor *src, const char *reduce, bool include_self) {
    static const char *const names[] = {"sum", "prod", "amax", "amin", "mean"};
    const int kind = kind_of(reduce, names, 5), how = kind == 4 ? 0 : kind;
    if (!include_self) x = (fa_scatter_value)(x, dim, index, neutral(x->dtype, how));
    fa_tensor *r = how == 0 ? fa_scatter_add(x, dim, index, src) : fa_scatter_join(x, dim, index, src, how);
    return kind == 4 && r ? mean_of(r, dim, index, include_self) : r;
}

fa_tensor *fa_scatter_reduce(fa_tensor *x, int64_t dim, fa_tensor *index, fa_tensor *src, const char *reduce, bool include_self) {
    static const char *const allowed[] = {"sum", "prod", "mean", "amax", "amin"};
    static const char *const names[] = {"x", "index", "src"};
    const char *op = "scatter_reduce";
    if (!fai_op_begin(op, 3, names, (fa_tensor *const[]){x, index, src}, 0)) return NULL;
    if (kind_of(reduce, allowed, 5) < 0)
        return fai_fail(FA_ERR_RUNTIME, op, "reduce argument must be either sum, prod, mean, amax or amin, got %s",
                        reduce ? reduce : "NULL");
    FAI_CALLED(op);
    FA_SCOPE;
    return fa_keep(reduced(x, dim, index, src, reduce, include_self));
}

fa_tensor *fa_index_reduce(fa_tensor *x, int64_t dim, fa_tensor *index, fa_tensor *src, const char *reduce, bool include_self) {
    static const char *const allowed[] = {"prod", "mean", "amax", "amin"};
    static const char *const names[] = {"x", "index", "src"};
    const char *op = "index_reduce";
    int at;
    if (!fai_op_begin(op, 3, names, (fa_tensor *const[]){x, index, src}, 0) || !fai_wrap_dim(op, dim, x->ndim, &at)) return NULL;
    if (kind_of(reduce, allowed, 4) < 0)
        return fai_fail(FA_ERR_RUNTIME, op, "index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got %s.",
                        reduce ? reduce : "NULL");
    if (!fai_no_bool(op, "index_func_", x)) return NULL;
    const int64_t slices = src->ndim ? (at < src->ndim ? src->size[at] : -1) : 1;
    if (index->ndim > 1 || index->numel != slices)
        return fai_fail(
            FA_ERR_RUNTIME, op,
            "index_reduce_(): Number of indices (%lld) should be equal to source.size(dim): (%lld), for dim: %d; the index is "
            "a vector",
            (long long)index->numel, (long long)slices, at);
    FAI_CALLED(op);
    FA_SCOPE;
    fa_shape line = {.ndim = src->ndim};
    for (int d = 0; d < src->ndim; d++) line.dim[d] = d == at ? index->numel : 1;
    return fa_keep(reduced(x, at, fa_expand(fa_reshape(index, line), fa_shape_of_tensor(src)), src, reduce, include_self));
}
