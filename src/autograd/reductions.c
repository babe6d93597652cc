/* Composite reductions: variance, norms, logsumexp, the largest and smallest element. */
#include "composite.h"
#include <math.h>

static const fa_shape all_dims = {0, {0}};

/* A result computed in float32 for x's sake, in x's dtype again. */
static fa_tensor *narrowed(fa_tensor *r, const fa_tensor *x) {
    return r && r->dtype != x->dtype ? fa_to_dtype(r, (fa_dtype)x->dtype) : r;
}

/* ---- largest and smallest ---- */

static fa_tensor *extreme(const char *op, fa_tensor *x, bool largest) {
    if (!fai_begin1(op, "x", x)) return NULL;
    if (x->numel == 0)
        return fai_fail(FA_ERR_RUNTIME, op,
                        "%s(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the "
                        "'dim' argument.",
                        op);
    return largest ? fa_amax(x) : fa_amin(x);
}

fa_tensor *fa_max(fa_tensor *x) { return extreme("max", x, true); }
fa_tensor *fa_min(fa_tensor *x) { return extreme("min", x, false); }

fa_tensor *fa_dim_backward(fa_tensor *g_out, fa_shape shape, int64_t dim, bool keepdim, fa_tensor *indices) {
    int at;
    if (!fai_begin2("dim_backward", "g_out", g_out, "indices", indices) || !fai_wrap_dim("dim_backward", dim, shape.ndim, &at))
        return NULL;
    if (shape.ndim == 0) return fa_alias(g_out);
    FA_SCOPE;
    if (!keepdim) {
        g_out = fa_unsqueeze(g_out, at);
        indices = fa_unsqueeze(indices, at);
    }
    return fa_keep(fa_scatter_add(fai_zeros_of(g_out, shape), at, indices, g_out));
}

/* ---- variance ---- */

/* How many elements go into one result; false after an error. */
static bool count_reduced(const char *op, const fa_tensor *x, fa_shape dims, int64_t *n) {
    bool reduced[FA_MAX_DIMS];
    if (!fai_normalize_dims(op, x, dims, reduced)) return false;
    *n = 1;
    for (int d = 0; d < x->ndim; d++)
        if (reduced[d]) *n *= x->size[d];
    return true;
}

static bool check_variance(const char *op, fa_tensor *x, fa_shape dims, int64_t correction, int64_t *n) {
    if (!fai_begin1(op, "x", x)) return false;
    if (!fai_is_float(x->dtype))
        return fai_fail(FA_ERR_RUNTIME, op,
                        "std and var only support floating point and complex dtypes. Found %s: fa_cast(x, FA_FLOAT32).",
                        fa_dtype_name((fa_dtype)x->dtype));
    if (!count_reduced(op, x, dims, n)) return false;
    if (*n - correction <= 0)
        fai_warn(op,
                 "%s(): degrees of freedom is <= 0. Correction should be strictly less than the reduction factor (input numel "
                 "divided by output "
                 "numel).",
                 op);
    return true;
}

/* The mean first, then the squares of the distances from it, in float32 or better. */
static fa_tensor *variance(fa_tensor *x, fa_shape dims, int64_t n, int64_t correction, bool keepdim) {
    fa_tensor *distance = fa_sub(x, fa_mean_dims(x, dims, true));
    return fai_divide(fa_sum_square_dims(distance, dims, keepdim), n > correction ? (double)(n - correction) : 0);
}

static fa_tensor *var_named(const char *op, fa_tensor *x, fa_shape dims, int64_t correction, bool keepdim) {
    int64_t n;
    if (!check_variance(op, x, dims, correction, &n)) return NULL;
    FA_SCOPE;
    return fa_keep(narrowed(variance(fai_widened(x), dims, n, correction, keepdim), x));
}

/* sqrt with the derivative 0 at 0: of a constant x, as torch has it. */
static fa_tensor *root(fa_tensor *v) {
    if (!fai_recording() || !fai_wants_grad(v)) return fa_sqrt(v);
    fa_tensor *positive = fai_row2(FAI_ROW_ne, fai_of(v), fai_number(0));
    return fai_choose(positive, fa_sqrt(fai_choose(positive, v, 1)), 0);
}

static fa_tensor *std_named(const char *op, fa_tensor *x, fa_shape dims, int64_t correction, bool keepdim) {
    int64_t n;
    if (!check_variance(op, x, dims, correction, &n)) return NULL;
    FA_SCOPE;
    return fa_keep(narrowed(root(variance(fai_widened(x), dims, n, correction, keepdim)), x));
}

fa_tensor *fai_plain_var(fa_tensor *x) { return var_named("var", x, all_dims, 1, false); }
fa_tensor *fai_plain_var_dims(fa_tensor *x, fa_shape dims, int64_t correction, bool keepdim) {
    return var_named("var", x, dims, correction, keepdim);
}
fa_tensor *fai_plain_std(fa_tensor *x) { return std_named("std", x, all_dims, 1, false); }
fa_tensor *fai_plain_std_dims(fa_tensor *x, fa_shape dims, int64_t correction, bool keepdim) {
    return std_named("std", x, dims, correction, keepdim);
}

/* ---- norms ---- */

static bool check_norm(fa_tensor *x, double p, fa_shape dims) {
    int64_t n;
    if (!fai_begin1("norm", "x", x)) return false;
    if (!fai_is_float(x->dtype))
        return fai_fail(FA_ERR_RUNTIME, "norm",
                        "linalg.vector_norm: Expected a floating point or complex tensor as input. Got %s: fa_cast(x, "
                        "FA_FLOAT32).",
                        fai_dtype_title((fa_dtype)x->dtype));
    if (isnan(p)) return fai_fail(FA_ERR_VALUE, "norm", "argument 'p' is NaN; any other number is allowed, and infinity");
    if (!count_reduced("norm", x, dims, &n)) return false;
    if (n == 0 && (p < 0 || isinf(p)))
        return fai_fail(FA_ERR_RUNTIME, "norm",
                        "linalg.vector_norm cannot compute the %g norm on an empty tensor because the operation does not have "
                        "an identity",
                        p);
    return true;
}

/* (sum |x|^p)^(1/p). Where something is recorded, zeros are kept out of the powers: their derivative is 0, not 0 times
 * infinity. */
static fa_tensor *power_norm(fa_tensor *x, double p, fa_shape dims, bool keepdim) {
    const bool recorded = fai_recording() && fai_wants_grad(x);
    fa_tensor *size = fa_abs(x), *apart = NULL;
    if (recorded && p < 1) {
        apart = fai_row2(FAI_ROW_ne, fai_of(x), fai_number(0));
        size = fai_choose(apart, size, 1);
    }
    fa_tensor *powers = fai_row2(FAI_ROW_pow, fai_of(size), fai_number(p));
    if (apart) powers = fai_choose(apart, powers, p > 0 ? 0 : HUGE_VAL);
    fa_tensor *sum = fa_sum_dims(powers, dims, keepdim);
    if (!recorded) return fai_row2(FAI_ROW_pow, fai_of(sum), fai_number(1 / p));
    fa_tensor *positive = fai_row2(FAI_ROW_ne, fai_of(sum), fai_number(0));
    fa_tensor *rooted = fai_row2(FAI_ROW_pow, fai_of(fai_choose(positive, sum, 1)), fai_number(1 / p));
    return fai_choose(positive, rooted, p > 0 ? 0 : HUGE_VAL);
}

/* How many are not zero. Recorded, it has a derivative, which is 0. */
static fa_tensor *zero_norm(fa_tensor *x, fa_shape dims, bool keepdim) {
    if (!fai_recording() || !fai_wants_grad(x))
        return fa_to_dtype(fa_count_nonzero_dims(x, dims, keepdim), (fa_dtype)x->dtype);
    fa_tensor *counts = fai_row2(FAI_ROW_ne, fai_of(x), fai_number(0));
    return fa_sum_dims(fai_row3(FAI_ROW_where, fai_of(counts), fai_number(1), fai_of(fai_multiply(x, 0))), dims, keepdim);
}

fa_tensor *fai_plain_norm_dims(fa_tensor *x, double p, fa_shape dims, bool keepdim) {
    if (!check_norm(x, p, dims)) return NULL;
    if (p == 2) return fa_norm2_dims(x, dims, keepdim);
    if (p == 1) return fa_norm1_dims(x, dims, keepdim);
    FA_SCOPE;
    if (p == 0) return fa_keep(zero_norm(x, dims, keepdim));
    if (isinf(p)) return fa_keep(p > 0 ? fa_amax_dims(fa_abs(x), dims, keepdim) : fa_amin_dims(fa_abs(x), dims, keepdim));
    return fa_keep(narrowed(power_norm(fai_widened(x), p, dims, keepdim), x));
}

fa_tensor *fai_plain_norm(fa_tensor *x, double p) { return fa_norm_dims(x, p, all_dims, false); }

/* ---- logsumexp ---- */

/* The largest of each slice, 0 where that is infinite; a constant for the derivative. */
static fa_tensor *shift_of(fa_tensor *x, fa_shape dims) {
    FA_NO_GRAD;
    fa_tensor *largest = fa_amax_dims(x, dims, true);
    return fai_row3(FAI_ROW_where, fai_of(fa_isinf(largest)), fai_number(0), fai_of(largest));
}

fa_tensor *fai_plain_logsumexp(fa_tensor *x, fa_shape dims, bool keepdim) {
    int64_t n;
    if (!fai_begin1("logsumexp", "x", x) || !count_reduced("logsumexp", x, dims, &n)) return NULL;
    FA_SCOPE;
    if (!fai_is_float(x->dtype)) x = fa_to_dtype(x, fa_default_dtype());
    if (n == 0 || !x) return fa_keep(fa_log(fa_sum_dims(fa_exp(x), dims, keepdim)));
    fa_tensor *wide = fai_widened(x), *shift = shift_of(wide, dims);
    fa_tensor *sum = fa_log(fa_sum_dims(fa_exp(fa_sub(wide, shift)), dims, keepdim));
    if (!keepdim && sum) shift = fa_reshape(shift, fa_shape_of_tensor(sum));
    return fa_keep(narrowed(fa_add(sum, shift), x));
}
