/* Reductions: which dimensions, which types, one kernel. The order of additions is the kernel's (kernels/reduce.k.h). */
#include "ops.h"
#include <string.h>

/* The input's view with kept dimensions first, then the reduced ones, both in their old order. */
static int order_dims(fa_plan *plan, const fa_tensor *x, const bool reduced[FA_MAX_DIMS])
{
    fa_plan_view *v = &plan->view[1];
    int kept = 0, at = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < x->ndim; i++) {
            if (reduced[i] != (pass == 1)) continue;
            v->size[at] = x->size[i], v->stride[at++] = x->stride[i];
            kept += pass == 0;
        }
    return kept;
}

static void output_shape(const fa_tensor *x, const bool reduced[FA_MAX_DIMS], bool keepdim, int *ndim, int64_t *size)
{
    *ndim = 0;
    for (int i = 0; i < x->ndim; i++) {
        if (!reduced[i]) size[(*ndim)++] = x->size[i];
        else if (keepdim) size[(*ndim)++] = 1;
    }
}

static int64_t count_reduced(const fa_tensor *x, const bool reduced[FA_MAX_DIMS])
{
    int64_t n = 1;
    for (int i = 0; i < x->ndim; i++)
        if (reduced[i]) n *= x->size[i];
    return n;
}

static bool empty_allowed(const char *op, int reduction, const fa_tensor *x, const bool reduced[FA_MAX_DIMS])
{
    if (reduction != FAI_REDUCE_amax && reduction != FAI_REDUCE_amin) return true;
    for (int i = 0; i < x->ndim; i++)
        if (reduced[i] && x->size[i] == 0) {
            fai_fail(FA_ERR_INDEX, op, "%s(): Expected reduction dim %d to have non-zero size.", op, i);
            return false;
        }
    return true;
}

static void plan_reduction(fa_plan *plan, fa_tensor *out, fa_tensor *x, const bool reduced[FA_MAX_DIMS])
{
    fai_plan_begin(plan);
    fai_plan_view(plan, 0, out, true);
    fai_plan_view(plan, 1, x, false);
    plan->ndim = x->ndim;
    plan->n[0] = order_dims(plan, x, reduced);
    plan->n[1] = count_reduced(x, reduced);
    plan->numel = out->numel;
    plan->groups = out->numel;
    /* the output has no gaps, so its kept dimensions can be counted as one */
}

fa_tensor *fai_reduce_raw(const char *op, int reduction, fa_tensor *x, const bool reduced[FA_MAX_DIMS], bool keepdim, fa_dtype result)
{
    fa_plan plan;
    int64_t size[FA_MAX_DIMS];
    int ndim;
    if (!empty_allowed(op, reduction, x, reduced)) return NULL;
    output_shape(x, reduced, keepdim, &ndim, size);
    fa_tensor *out = fai_empty(op, result, x->device, ndim, size);
    if (!out || out->numel == 0) return out;
    plan_reduction(&plan, out, x, reduced);
    plan.row = reduction;
    int compute = fai_is_float(x->dtype) ? fai_compute(x->dtype) : fai_is_float(result) ? fai_compute(result) : FAI_I64;
    return fai_run(FAI_K_reduce_f32 + compute, &plan, (fa_tensor *[]){out, x}, 2, op) ? out : NULL;
}

/* The positions of the largest (or smallest) of each slice, and its values if wanted. dim -1: over everything. */
static fa_tensor *extreme(const char *op, fa_tensor *x, int64_t dim, bool all, bool keepdim, bool least, fa_tensor **values)
{
    bool reduced[FA_MAX_DIMS] = {false};
    fa_plan plan;
    int64_t size[FA_MAX_DIMS];
    int ndim, at = 0;
    if (!values && x->dtype == FA_BOOL)
        return fai_fail(FA_ERR_RUNTIME, op, "%s(): does not support bool input. Convert it first: fa_cast(x, FA_UINT8).", op);
    if (all && x->numel == 0)
        return fai_fail(FA_ERR_INDEX, op, "%s(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' argument.", op);
    if (!all && !fai_wrap_dim(op, dim, x->ndim, &at)) return NULL;
    for (int i = 0; i < x->ndim; i++) reduced[i] = all || i == at;
    if (!all && x->ndim > 0 && x->size[at] == 0) return fai_fail(FA_ERR_INDEX, op, "%s(): Expected reduction dim %d to have non-zero size.", op, at);
    output_shape(x, reduced, keepdim, &ndim, size);
    fa_tensor *out = fai_empty(op, FA_INT64, x->device, ndim, size);
    if (values) *values = fai_empty(op, (fa_dtype)x->dtype, x->device, ndim, size);
    if (!out || (values && !*values)) return NULL;
    if (out->numel == 0) return out;
    plan_reduction(&plan, out, x, reduced);
    plan.n[3] = least;
    if (values) fai_plan_view(&plan, 2, *values, true);
    fa_tensor *operands[] = {out, x, values ? *values : NULL};
    if (!fai_run(FAI_K_reduce_index_f32 + fai_compute(x->dtype), &plan, operands, 3, op)) return NULL;
    fai_note_bounds(out, 0, (all ? x->numel : x->ndim ? x->size[at] : 1) - 1);
    return out;
}

fa_tensor *fai_argmax_forward(fa_tensor *x) { return extreme("argmax", x, 0, true, false, false, NULL); }
fa_tensor *fai_argmin_forward(fa_tensor *x) { return extreme("argmin", x, 0, true, false, true, NULL); }
fa_tensor *fai_argmax_dim_forward(fa_tensor *x, int64_t dim, bool keepdim) { return extreme("argmax", x, dim, false, keepdim, false, NULL); }
fa_tensor *fai_argmin_dim_forward(fa_tensor *x, int64_t dim, bool keepdim) { return extreme("argmin", x, dim, false, keepdim, true, NULL); }

fa_tensor *fai_max_dim_forward(fa_tensor *x, int64_t dim, bool keepdim, fa_tensor **indices)
{
    fa_tensor *values;
    *indices = extreme("max", x, dim, false, keepdim, false, &values);
    return *indices ? values : NULL;
}

fa_tensor *fai_min_dim_forward(fa_tensor *x, int64_t dim, bool keepdim, fa_tensor **indices)
{
    fa_tensor *values;
    *indices = extreme("min", x, dim, false, keepdim, true, &values);
    return *indices ? values : NULL;
}

fa_tensor *fai_sum_to(const char *op, fa_tensor *t, int ndim, const int64_t *size)
{
    bool reduced[FA_MAX_DIMS] = {false}, any = false;
    int extra = t->ndim - ndim;
    if (extra < 0) return fai_fail(FA_ERR_RUNTIME, op, "a tensor of %d dimensions can't be summed to %d", t->ndim, ndim);
    for (int i = 0; i < t->ndim; i++) {
        reduced[i] = i < extra || (size[i - extra] == 1 && t->size[i] != 1);
        any |= reduced[i];
        if (!reduced[i] && size[i - extra] != t->size[i]) return fai_fail(FA_ERR_RUNTIME, op, "a size of %lld can't be summed to %lld", (long long)t->size[i], (long long)size[i - extra]);
    }
    if (!any) return t;
    fa_tensor *sum = fai_reduce_raw(op, FAI_REDUCE_sum, t, reduced, true, (fa_dtype)t->dtype);
    if (!sum || extra == 0) return sum;
    int64_t stride[FA_MAX_DIMS];
    fai_contiguous_strides(ndim, size, stride);
    return fai_view(op, sum, ndim, size, stride, sum->offset);
}
