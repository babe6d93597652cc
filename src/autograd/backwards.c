/* Derivatives that the tables name as "@name": they need more than one expression. All are written in public operators, so that
 * they can be differentiated again. */
#include "composite.h"
#include "ops/norm.h"

/* In the dtype of input i: types of operands may have been promoted. */
static bool give(const fai_node *node, int i, fa_tensor **grads, fa_tensor *grad) {
    grads[i] = grad ? fa_cast(grad, (fa_dtype)node->metas[i].dtype) : NULL;
    return grads[i] != NULL;
}

/* ---- movement ---- */

bool fai_cat_backward(fai_node *node, fa_tensor *g, fa_tensor **grads) {
    const fai_cat_params *p = node->params;
    int64_t start = 0;
    const int dim = (int)(p->dim < 0 ? p->dim + g->ndim : p->dim);
    for (int i = 0; i < node->ninputs; i++) {
        const fai_meta *meta = &node->metas[i];
        const bool skipped = meta->ndim == 1 && meta->size[0] == 0;
        const int64_t length = skipped ? 0 : meta->size[dim];
        if (fai_node_needs(node, i)) {
            fa_tensor *part = skipped ? fai_zeros_of(g, FA_SHAPE(0)) : fa_slice(g, dim, start, start + length, 1);
            if (!give(node, i, grads, part)) return false;
        }
        start += length;
    }
    return true;
}

static bool is_mask(fa_tensor *const *indices, int n) {
    const fa_tensor *only = NULL;
    for (int i = 0; i < n; i++) {
        if (only && indices[i]) return false;
        if (indices[i]) only = indices[i];
    }
    return only && (only->dtype == FA_BOOL || only->dtype == FA_UINT8);
}

bool fai_index_put_backward(fai_node *node, fa_tensor *g, fa_tensor **grads) {
    const fai_index_put_params *p = node->params;
    fa_tensor *indices[FA_MAX_DIMS];
    if (!fai_node_kept_all(node, 0, indices)) return false;
    if (fai_node_needs(node, 0)) {
        fa_tensor *rest = p->accumulate ? g : fa_index_put(g, indices, node->nkept, fai_zeros_of(g, FA_SHAPE_0D), false);
        if (!give(node, 0, grads, rest)) return false;
    }
    if (!fai_node_needs(node, 1)) return true;
    const fa_shape shape = fai_meta_shape(&node->metas[1]);
    if (shape.ndim == 0 && is_mask(indices, node->nkept)) { /* nobody has to know how many places it has */
        fa_tensor *none = fa_zeros_like(g, .dtype = FA_BOOL), *yes = fa_full(FA_SHAPE_0D, true, .dtype = FA_BOOL, .device = g->device);
        fa_tensor *there = none && yes ? fa_index_put(none, indices, node->nkept, yes, false) : NULL;
        return give(node, 1, grads, there ? fa_sum(fai_choose(there, g, 0)) : NULL);
    }
    return give(node, 1, grads, fa_sum_to(fa_index(g, indices, node->nkept), shape));
}

/* Whether two index tuples may name the same element: false only where every stride steps over all that is below it. */
static bool may_overlap(fa_shape size, const int64_t *stride) {
    bool done[FA_MAX_DIMS] = {false};
    int64_t reach = 0; /* the last element that the dimensions seen so far get to */
    for (int k = 0; k < size.ndim; k++) {
        int least = -1;
        for (int d = 0; d < size.ndim; d++)
            if (!done[d] && (least < 0 || stride[d] < stride[least])) least = d;
        done[least] = true;
        if (size.dim[least] <= 1) continue;
        if (stride[least] <= reach) return true;
        reach += (size.dim[least] - 1) * stride[least];
    }
    return false;
}

/* Where a strided view's elements lie in memory that begins at the view's offset 0: a flat int64 tensor. */
static fa_tensor *positions(const fa_tensor *like, int64_t length, fa_shape size, fa_shape stride, int64_t offset) {
    FA_NO_GRAD;
    fa_tensor *places = fa_arange(0, length, 1, .dtype = FA_INT64, .device = like->device);
    return fa_reshape(fa_as_strided(places, size, stride, offset), FA_SHAPE(-1));
}

fa_tensor *fai_added_into(fa_tensor *g, fa_shape shape, fa_shape size, fa_shape stride, int64_t offset) {
    int64_t length = 1;
    if (!may_overlap(size, stride.dim)) return fa_as_strided_embed(g, shape, size, stride, offset);
    for (int d = 0; d < shape.ndim; d++) length *= shape.dim[d];
    return fa_reshape(fa_index_add(fai_zeros_of(g, FA_SHAPE(length)), 0, positions(g, length, size, stride, offset),
                                   fa_reshape(g, FA_SHAPE(-1))),
                      shape);
}

static int64_t last_element(fa_shape size, fa_shape stride, int64_t offset) {
    for (int d = 0; d < size.ndim; d++) {
        if (size.dim[d] == 0) return offset;
        offset += (size.dim[d] - 1) * stride.dim[d];
    }
    return offset;
}

/* The gradient goes into a picture of the memory, and x's is read out of it. Where x itself names an element more than once, each
 * of its names gets an equal share. */
bool fai_as_strided_backward(fai_node *node, fa_tensor *g, fa_tensor **grads) {
    const fai_as_strided_params *p = node->params;
    const fa_tensor *x = node->kept[0].tensor; /* for its strides, which in-place operations leave alone */
    if (!x || !fai_node_needs(node, 0)) return true;
    const fa_shape size = fa_shape_of(x->ndim, x->size), stride = fa_shape_of(x->ndim, x->stride);
    const int64_t base = x->offset < p->offset ? x->offset : p->offset;
    const int64_t end = last_element(size, stride, x->offset), view_end = last_element(p->shape, p->strides, p->offset);
    const int64_t length = (end > view_end ? end : view_end) + 1 - base;
    fa_tensor *memory = fai_added_into(g, FA_SHAPE(length), p->shape, p->strides, p->offset - base);
    if (memory && may_overlap(size, stride.dim)) {
        fa_tensor *ones = fa_ones(size, .dtype = (fa_dtype)g->dtype, .device = g->device);
        memory = fa_div(memory, fa_maximum_scalar(fai_added_into(ones, FA_SHAPE(length), size, stride, x->offset - base), 1));
    }
    grads[0] = fa_as_strided(memory, size, stride, x->offset - base);
    return grads[0] != NULL;
}

/* ---- reductions ---- */

/* fa_sum and fa_sum_dims share a derivative: the first has no parameters. */
static fa_shape reduced_dims(const fai_node *node, bool *keepdim) {
    const fai_prod_dims_params *p = node->params; /* the same struct for every reduction */
    *keepdim = node->params_bytes ? p->keepdim : false;
    return node->params_bytes ? p->dims : (fa_shape){0, {0}};
}

bool fai_split_equal_backward(fai_node *node, fa_tensor *g, fa_tensor **grads) {
    bool keepdim;
    const fa_shape dims = reduced_dims(node, &keepdim);
    fa_tensor *x = fai_node_kept(node, 0), *r = fai_node_kept(node, 1);
    if (!x || !r) return false;
    fa_tensor *equal = fa_cast(fa_eq(x, fai_expand_reduced(node, r, dims, keepdim)), (fa_dtype)x->dtype);
    fa_tensor *count = fa_sum_dims(equal, dims, true);
    return give(node, 0, grads, fa_mul(equal, fa_div(fai_expand_reduced(node, g, dims, keepdim), count)));
}

/* The product of all others, by a matrix of x without its diagonal: exact with zeros and differentiable again, but n times as
 * large. */
static fa_tensor *products_of_others(fa_tensor *x, fa_shape dims) {
    bool reduced[FA_MAX_DIMS];
    if (!fai_normalize_dims("prod", x, dims, reduced)) return NULL;
    fa_shape order = {.ndim = 0}, moved = {.ndim = x->ndim};
    int64_t n = 1;
    for (int pass = 0; pass < 2; pass++)
        for (int d = 0; d < x->ndim; d++) {
            if (reduced[d] != (pass == 1)) continue;
            order.dim[order.ndim++] = d;
            if (reduced[d]) n *= x->size[d];
        }
    for (int d = 0; d < x->ndim; d++) moved.dim[d] = x->size[order.dim[d]];
    const int64_t rows = n ? x->numel / n : 0;
    fa_tensor *flat = fa_reshape(fa_permute(x, order), FA_SHAPE(rows, 1, n));
    fa_tensor *diagonal = fa_eye(n, n, .dtype = FA_BOOL, .device = x->device);
    fa_tensor *others = fai_row3(FAI_ROW_where, fai_of(diagonal), fai_number(1), fai_of(fa_expand(flat, FA_SHAPE(rows, n, n))));
    fa_tensor *products = fa_reshape(fa_prod_dims(others, FA_DIMS(2), false), moved);
    return products ? fa_permute(products, fai_inverse_dims(products, order)) : NULL;
}

/* Without a division by zero: where one factor of a product is zero only that factor has a derivative, where two are, none
 * has. */
static fa_tensor *products_by_division(fa_tensor *x, fa_shape dims) {
    fa_tensor *zero = fai_equals(x, 0);
    fa_tensor *safe = fai_row3(FAI_ROW_where, fai_of(zero), fai_number(1), fai_of(x));
    fa_tensor *product = fa_prod_dims(safe, dims, true), *zeros = fa_sum_dims(zero, dims, true);
    fa_tensor *at_zero = fai_choose(fai_equals(zeros, 1), product, 0);
    fa_tensor *elsewhere = fai_choose(fai_equals(zeros, 0), fa_div(product, safe), 0);
    return fa_where(zero, at_zero, elsewhere);
}

bool fai_prod_backward(fai_node *node, fa_tensor *g, fa_tensor **grads) {
    bool keepdim;
    const fa_shape dims = reduced_dims(node, &keepdim);
    fa_tensor *x = fai_node_kept(node, 0);
    if (!x) return false;
    fa_tensor *others = fai_recording() && fai_wants_grad(x) ? products_of_others(x, dims) : products_by_division(x, dims);
    return give(node, 0, grads, fa_mul(fai_expand_reduced(node, g, dims, keepdim), others));
}

/* s[k] = g[k] + x[k + 1] * s[k + 1] along dim: in steps of 1, 2, 4, ... each with the product of the factors in between. */
static fa_tensor *weighted_suffix_sums(fa_tensor *g, fa_tensor *x, int dim, int64_t n) {
    fa_tensor *s = g, *between = fa_slice(x, dim, 1, n, 1);
    for (int64_t step = 1; step < n; step *= 2) {
        fa_tensor *more = fa_mul(between, fa_slice(s, dim, step, n, 1));
        fa_tensor *parts[] = {fa_add(fa_slice(s, dim, 0, n - step, 1), more), fa_slice(s, dim, n - step, n, 1)};
        if (!parts[0] || !parts[1] || !(s = fa_cat(parts, 2, dim))) return NULL;
        if (2 * step < n) between = fa_mul(fa_slice(between, dim, 0, n - 2 * step, 1), fa_slice(between, dim, step, n - step, 1));
    }
    return s;
}

/* Every factor's share without a division, so that zeros need no care and the result can be differentiated again: the product of
 * those before it, times the sum over the results after it without it. */
bool fai_cumprod_backward(fai_node *node, fa_tensor *g, fa_tensor **grads) {
    const fai_cumprod_params *p = node->params;
    fa_tensor *x = fai_node_kept(node, 0), *r = fai_node_kept(node, 1);
    int dim;
    if (!x || !r || !fai_wrap_dim("cumprod", p->dim, x->ndim, &dim)) return false;
    const int64_t n = x->ndim ? x->size[dim] : 1;
    if (n < 2) return give(node, 0, grads, fa_alias(g));
    fa_tensor *sums = weighted_suffix_sums(fai_widened(g), fai_widened(x), dim, n);
    fa_tensor *parts[] = {fa_ones_like(fa_slice(x, dim, 0, 1, 1)), fa_slice(r, dim, 0, n - 1, 1)};
    fa_tensor *before = sums && parts[0] && parts[1] ? fa_cat(parts, 2, dim) : NULL;
    return give(node, 0, grads, before ? fa_mul(before, sums) : NULL);
}

/* ---- linear with relu ---- */

/* g: of the product with its bias. */
static bool linear_grads(fai_node *node, fa_tensor *g, fa_tensor *input, fa_tensor *weight, fa_tensor **grads) {
    if (fai_node_needs(node, 0) && !give(node, 0, grads, fa_matmul(g, weight))) return false;
    if (fai_node_needs(node, 1) && !give(node, 1, grads, fai_recording() ? fa_gemm(fa_transpose(fai_as_rows(g), 0, 1), fai_as_rows(input))
                                                                         : fai_rows_product("linear", g, input)))
        return false;
    return !fai_node_needs(node, 2) || give(node, 2, grads, fa_sum_to(g, fai_meta_shape(&node->metas[2])));
}

bool fai_linear_backward(fai_node *node, fa_tensor *g, fa_tensor **grads) {
    fa_tensor *input = fai_node_kept(node, 0), *weight = fai_node_kept(node, 1);
    return input && weight && linear_grads(node, g, input, weight, grads);
}

bool fai_linear_relu_backward(fai_node *node, fa_tensor *g, fa_tensor **grads) {
    fa_tensor *input = fai_node_kept(node, 0), *weight = fai_node_kept(node, 1), *r = fai_node_kept(node, 2);
    if (!input || !weight || !r) return false;
    const fai_row_grad *relu = &fai_row_apis[FAI_ROW_relu].d[0];
    const fai_operand both[] = {fai_of(g), fai_of(r)};
    fa_tensor *inner = fai_recording() ? fai_choose(fai_row2(FAI_ROW_gt, fai_of(r), fai_number(0)), g, 0)
                                       : fai_row_raw("linear_relu", relu->loop, 2, both, NULL, (fa_dtype)g->dtype);
    if (!inner) return false;
    return linear_grads(node, inner, input, weight, grads);
}

/* ---- norms ---- */

/* What both norms have: x brought to mean 0 and variance 1 over dims, and the reciprocal of its deviation. */
typedef struct normed {
    fa_tensor *x, *rstd;
} normed;

static normed normalise(fa_tensor *x, fa_shape dims, double eps) {
    normed n = {NULL, NULL};
    fa_tensor *distance = fa_sub(x, fa_mean_dims(x, dims, true));
    n.rstd = fa_rsqrt(fai_add_number(fa_mean_dims(fa_square(distance), dims, true), eps));
    n.x = fa_mul(distance, n.rstd);
    return n;
}

/* rstd * (g - mean(g) - x * mean(g * x)), g already times the weight. */
static fa_tensor *through_statistics(normed n, fa_tensor *g, fa_shape dims) {
    fa_tensor *slope = fa_mul(n.x, fa_mean_dims(fa_mul(g, n.x), dims, true));
    return fa_mul(n.rstd, fa_sub(fa_sub(g, fa_mean_dims(g, dims, true)), slope));
}

/* Where the fused kernels write the gradient of input i: nowhere if nobody wants it. */
static fa_tensor **wanted(const fai_node *node, int i, fa_tensor **grads) { return fai_node_needs(node, i) ? &grads[i] : NULL; }

bool fai_layer_norm_backward(fai_node *node, fa_tensor *g, fa_tensor **grads) {
    const fai_layer_norm_params *p = node->params;
    fa_tensor *x = fai_node_kept(node, 0), *weight = fai_node_kept(node, 1);
    if (!x || (!weight && fa_failed())) return false;
    if (!fai_recording() && x->numel)
        return fai_layer_norm_grads(g, x, p->shape, weight, fai_node_kept(node, 2), fai_node_kept(node, 3),
                                    wanted(node, 0, grads), wanted(node, 1, grads), wanted(node, 2, grads));
    fa_shape dims = {.ndim = p->shape.ndim};
    for (int d = 0; d < dims.ndim; d++) dims.dim[d] = x->ndim - dims.ndim + d;
    g = fai_widened(g);
    const normed n = normalise(fai_widened(x), dims, p->eps);
    fa_tensor *weighted = weight ? fa_mul(g, fai_widened(weight)) : g;
    if (fai_node_needs(node, 0) && !give(node, 0, grads, through_statistics(n, weighted, dims))) return false;
    if (fai_node_needs(node, 1) && !give(node, 1, grads, fa_sum_to(fa_mul(g, n.x), p->shape))) return false;
    return !fai_node_needs(node, 2) || give(node, 2, grads, fa_sum_to(g, p->shape));
}

/* [c] as [1, c, 1, ...] of as many dimensions as x. */
static fa_tensor *along_channels(fa_tensor *t, const fa_tensor *x) {
    fa_shape shape = {.ndim = x->ndim};
    if (!t) return NULL;
    for (int d = 0; d < x->ndim; d++) shape.dim[d] = d == 1 ? t->numel : 1;
    return fa_reshape(fai_widened(t), shape);
}

bool fai_batch_norm_backward(fai_node *node, fa_tensor *g, fa_tensor **grads) {
    const fai_batch_norm_params *p = node->params;
    fa_tensor *x = fai_node_kept(node, 0), *weight = fai_node_kept(node, 1);
    if (!x || (!weight && fa_failed())) return false;
    const fa_shape dims = fai_channel_dims(x);
    normed n;
    if (!fai_recording() && x->numel) {
        fa_tensor *mean = fai_node_kept(node, p->training ? 4 : 2), *spread = fai_node_kept(node, p->training ? 5 : 3);
        return mean && spread &&
               fai_batch_norm_grads(g, x, weight, mean, spread, p->training, p->eps, wanted(node, 0, grads),
                                    wanted(node, 3, grads), wanted(node, 4, grads));
    }
    g = fai_widened(g);
    if (p->training) {
        n = normalise(fai_widened(x), dims, p->eps);
    } else {
        fa_tensor *mean = fai_node_kept(node, 2), *variance = fai_node_kept(node, 3);
        if (!mean || !variance) return false;
        n.rstd = along_channels(fa_rsqrt(fai_add_number(fai_widened(variance), p->eps)), x);
        n.x = fa_mul(fa_sub(fai_widened(x), along_channels(mean, x)), n.rstd);
    }
    fa_tensor *weighted = weight ? fa_mul(g, along_channels(weight, x)) : g;
    if (fai_node_needs(node, 0) &&
        !give(node, 0, grads, p->training ? through_statistics(n, weighted, dims) : fa_mul(weighted, n.rstd)))
        return false;
    if (fai_node_needs(node, 3) && !give(node, 3, grads, fa_sum_dims(fa_mul(g, n.x), dims, false))) return false;
    return !fai_node_needs(node, 4) || give(node, 4, grads, fa_sum_dims(g, dims, false));
}
