/* Statistics: both extremes, sums and means without NaN, quantiles, variance with its mean, covariance, close elements, differences. */
#include "composite.h"
#include <fa_functional.h>
#include <math.h>

static const fa_shape all_dims = {0, {0}};

/* ---- extremes ---- */

fa_tensor *fa_aminmax(fa_tensor *x, fa_tensor **largest) {
    const char *op = "aminmax";
    if (!fai_begin1(op, "x", x)) return NULL;
    if (x->numel == 0)
        return fai_fail(FA_ERR_RUNTIME, op,
                        "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity.");
    FAI_CALLED(op);
    fa_tensor *high = largest ? fa_amax(x) : NULL, *low = fa_amin(x);
    if (largest) *largest = high;
    return largest && !high ? NULL : low;
}

fa_tensor *fa_aminmax_dim(fa_tensor *x, int64_t dim, bool keepdim, fa_tensor **largest) {
    int at;
    if (!fai_begin1("aminmax", "x", x) || !fai_wrap_dim("aminmax", dim, x->ndim, &at)) return NULL;
    FAI_CALLED("aminmax");
    fa_tensor *high = largest ? fa_amax_dims(x, FA_DIMS(at), keepdim) : NULL, *low = fa_amin_dims(x, FA_DIMS(at), keepdim);
    if (largest) *largest = high;
    return largest && !high ? NULL : low;
}

/* ---- NaN left out ---- */

fa_tensor *fai_plain_nansum_dims(fa_tensor *x, fa_shape dims, bool keepdim) {
    if (!fai_begin1("nansum", "x", x)) return NULL;
    FAI_CALLED("nansum");
    FA_SCOPE;
    if (fai_is_float(x->dtype)) x = fai_row3(FAI_ROW_where, fai_of(fa_isnan(x)), fai_number(0), fai_of(x));
    return fa_keep(fa_sum_dims(x, dims, keepdim));
}
fa_tensor *fai_plain_nansum(fa_tensor *x) { return fa_nansum_dims(x, all_dims, false); }

fa_tensor *fai_plain_nanmean_dims(fa_tensor *x, fa_shape dims, bool keepdim) {
    if (!fai_begin1("nanmean", "x", x)) return NULL;
    if (!fai_is_float(x->dtype))
        return fai_fail(FA_ERR_RUNTIME, "nanmean",
                        "nanmean(): expected input to have floating point or complex dtype but got %s: fa_cast(x, FA_FLOAT32)",
                        fai_dtype_title((fa_dtype)x->dtype));
    FAI_CALLED("nanmean");
    FA_SCOPE;
    fa_tensor *counts = fa_sum_dims(fa_logical_not(fa_isnan(x)), dims, keepdim);
    return fa_keep(fa_div(fa_nansum_dims(x, dims, keepdim), counts));
}
fa_tensor *fai_plain_nanmean(fa_tensor *x) { return fa_nanmean_dims(x, all_dims, false); }

/* ---- quantiles ---- */

static bool check_quantile(const char *op, fa_tensor *x, fa_tensor *q, const char *interpolation) {
    static const char *const known[] = {"linear", "lower", "higher", "midpoint", "nearest"};
    if (!fai_begin2(op, "x", x, "q", q)) return false;
    if (x->dtype != FA_FLOAT32 && x->dtype != FA_FLOAT64)
        return fai_fail(FA_ERR_RUNTIME, op, "quantile() input tensor must be either float or double dtype; it is %s",
                        fa_dtype_name((fa_dtype)x->dtype));
    if (x->numel == 0) return fai_fail(FA_ERR_RUNTIME, op, "quantile() input tensor must be non-empty");
    if (q->ndim > 1)
        return fai_fail(FA_ERR_RUNTIME, op, "quantile() q must be a scalar or 1D tensor; it has %d dimensions", q->ndim);
    if (q->dtype != x->dtype)
        return fai_fail(FA_ERR_RUNTIME, op, "quantile() q tensor must be same dtype as the input tensor: %s and %s",
                        fa_dtype_name((fa_dtype)q->dtype), fa_dtype_name((fa_dtype)x->dtype));
    bool there = false;
    for (size_t i = 0; interpolation && i < sizeof known / sizeof *known; i++) there = there || !strcmp(interpolation, known[i]);
    if (!there)
        return fai_fail(FA_ERR_RUNTIME, op,
                        "quantile() interpolation must be one of linear, lower, higher, midpoint or nearest, but got %s",
                        interpolation ? interpolation : "NULL");
    if (q->numel == 0 || fai_capturing(q->device)) return true;
    FA_SCOPE;
    const double least = fa_item(fa_amin(q)), most = fa_item(fa_amax(q));
    if ((least >= 0 && most <= 1) || fa_failed()) return !fa_failed();
    return fai_fail(FA_ERR_RUNTIME, op, "quantile() q must be in the range [0, 1] but got %g", least < 0 ? least : most);
}

/* Where the quantiles lie in sorted rows [rows, n]: [rows, quantiles], whole or in between. A row with NaN has them all at its end. */
static fa_tensor *ranks(fa_tensor *sorted, fa_tensor *q, bool skip_nan) {
    FA_NO_GRAD;
    const int64_t rows = sorted->size[0], n = sorted->size[1];
    q = fa_expand(fa_reshape(fa_detach(q), FA_SHAPE(1, -1)), FA_SHAPE(rows, q->numel));
    if (!q) return NULL;
    if (skip_nan) {
        fa_tensor *there = fa_sum_dims(fa_logical_not(fa_isnan(sorted)), FA_DIMS(1), true);
        return fa_clamp_min(fa_mul(q, fa_sub_scalar(fa_cast(there, (fa_dtype)q->dtype), 1)), 0);
    }
    fa_tensor *bad = fa_isnan(fa_slice(sorted, 1, n - 1, n, 1));
    return fai_row3(FAI_ROW_masked_fill, fai_of(fai_multiply(q, (double)(n - 1))), fai_of(bad), fai_number((double)(n - 1)));
}

static fa_tensor *interpolated(fa_tensor *sorted, fa_tensor *rank, const char *how) {
    if (!strcmp(how, "lower"))
        rank = fa_floor(rank);
    else if (!strcmp(how, "higher"))
        rank = fa_ceil(rank);
    else if (!strcmp(how, "nearest"))
        rank = fa_round(rank);
    fa_tensor *below = fa_to_dtype(rank, FA_INT64), *low = fa_gather(sorted, 1, below);
    if (strcmp(how, "linear") && strcmp(how, "midpoint")) return low;
    fa_tensor *high = fa_gather(sorted, 1, fa_to_dtype(fa_ceil(rank), FA_INT64));
    if (!strcmp(how, "midpoint")) return fa_lerp_scalar(low, high, 0.5);
    return fa_lerp(low, high, fa_sub(rank, fa_to_dtype(below, (fa_dtype)rank->dtype)));
}

/* x [..., n, ...] along dim; the quantiles are the first dimension of the result if q has one. */
static fa_tensor *quantile_dim(const char *op, fa_tensor *x, fa_tensor *q, int64_t dim, bool keepdim, const char *how,
                               bool skip_nan) {
    int at;
    if (!check_quantile(op, x, q, how) || !fai_wrap_dim(op, dim, x->ndim, &at)) return NULL;
    FAI_CALLED(op);
    FA_SCOPE;
    fa_shape shape = {.ndim = 0}, rows = fa_shape_of_tensor(x);
    for (int d = 0; d < x->ndim; d++)
        if (d != at || keepdim) shape.dim[shape.ndim++] = d == at ? 1 : x->size[d];
    const int64_t n = x->ndim ? rows.dim[at] : 1;
    fa_tensor *last = x->ndim ? fa_movedim(x, FA_DIMS(at), FA_DIMS(-1)) : x;
    fa_tensor *sorted = fa_sort(fa_reshape(last, FA_SHAPE(-1, n)), 1, false, NULL);
    fa_tensor *rank = sorted ? ranks(sorted, q, skip_nan) : NULL;
    fa_tensor *r = rank ? interpolated(sorted, rank, how) : NULL;
    if (!r) return NULL;
    r = fa_t(r); /* [quantiles, rows] */
    if (q->ndim) {
        if (shape.ndim == FA_MAX_DIMS)
            return fai_fail(FA_ERR_RUNTIME, op, "the result has %d dimensions; a tensor has at most %d", FA_MAX_DIMS + 1,
                            FA_MAX_DIMS);
        for (int d = shape.ndim++; d > 0; d--) shape.dim[d] = shape.dim[d - 1];
        shape.dim[0] = q->numel;
    }
    return fa_keep(fa_reshape(r, shape));
}

static fa_tensor *quantile(const char *op, fa_tensor *x, fa_tensor *q, const char *how, bool skip_nan) {
    if (!fai_begin2(op, "x", x, "q", q)) return NULL;
    FA_SCOPE;
    return fa_keep(quantile_dim(op, fa_reshape(x, FA_SHAPE(-1)), q, 0, false, how, skip_nan));
}

fa_tensor *fai_plain_quantile(fa_tensor *x, fa_tensor *q, const char *interpolation) {
    return quantile("quantile", x, q, interpolation, false);
}
fa_tensor *fai_plain_nanquantile(fa_tensor *x, fa_tensor *q, const char *interpolation) {
    return quantile("nanquantile", x, q, interpolation, true);
}
fa_tensor *fai_plain_quantile_dim(fa_tensor *x, fa_tensor *q, int64_t dim, bool keepdim, const char *interpolation) {
    return quantile_dim("quantile", x, q, dim, keepdim, interpolation, false);
}
fa_tensor *fai_plain_nanquantile_dim(fa_tensor *x, fa_tensor *q, int64_t dim, bool keepdim, const char *interpolation) {
    return quantile_dim("nanquantile", x, q, dim, keepdim, interpolation, true);
}

/* ---- variance ---- */

fa_tensor *fai_plain_var_mean_dims(fa_tensor *x, fa_shape dims, int64_t correction, bool keepdim, fa_tensor **mean) {
    FAI_CALLED("var_mean");
    fa_tensor *r = fa_var_dims(x, dims, correction, keepdim), *middle = r && mean ? fa_mean_dims(x, dims, keepdim) : NULL;
    if (mean) *mean = middle;
    return mean && !middle ? NULL : r;
}

fa_tensor *fai_plain_std_mean_dims(fa_tensor *x, fa_shape dims, int64_t correction, bool keepdim, fa_tensor **mean) {
    FAI_CALLED("std_mean");
    fa_tensor *r = fa_std_dims(x, dims, correction, keepdim), *middle = r && mean ? fa_mean_dims(x, dims, keepdim) : NULL;
    if (mean) *mean = middle;
    return mean && !middle ? NULL : r;
}

static bool check_variables(const char *op, fa_tensor *x) {
    if (!fai_begin1(op, "x", x)) return false;
    if (x->dtype == FA_BOOL)
        return fai_fail(FA_ERR_RUNTIME, op, "cov(): bool dtype is not supported for input: fa_cast(x, FA_FLOAT32)");
    if (x->ndim <= 2) return true;
    return fai_fail(FA_ERR_RUNTIME, op,
                    "%s(): expected input to have two or fewer dimensions but got an input with %d dimensions", op, x->ndim);
}

fa_tensor *fai_plain_cov(fa_tensor *x, int64_t correction) {
    if (!check_variables("cov", x)) return NULL;
    FAI_CALLED("cov");
    FA_SCOPE;
    fa_tensor *rows = x->ndim == 2 ? x : fa_reshape(x, FA_SHAPE(1, -1));
    if (rows && !fai_is_float(x->dtype)) rows = fa_to_dtype(rows, fa_default_dtype());
    if (!rows) return NULL;
    const int64_t n = rows->size[1];
    if (n - correction <= 0)
        fai_warn("cov", "cov(): degrees of freedom is <= 0. Correction should be strictly less than the number of observations.");
    fa_tensor *wide = fai_widened(rows), *apart = fa_sub(wide, fa_mean_dims(wide, FA_DIMS(1), true));
    fa_tensor *r = fai_divide(fa_mm(apart, fa_t(apart)), n > correction ? (double)(n - correction) : 0);
    return fa_keep(fa_cast(x->ndim == 2 ? r : fa_reshape(r, FA_SHAPE_0D), (fa_dtype)rows->dtype));
}

fa_tensor *fai_plain_corrcoef(fa_tensor *x) {
    if (!check_variables("corrcoef", x)) return NULL;
    FAI_CALLED("corrcoef");
    FA_SCOPE;
    fa_tensor *c = fa_cov(fai_widened(x), 1);
    if (!c) return NULL;
    const fa_dtype dtype = fai_is_float(x->dtype) ? (fa_dtype)x->dtype : (fa_dtype)c->dtype;
    if (c->ndim == 0) return fa_keep(fa_cast(fa_div(c, c), dtype));
    fa_tensor *spread = fa_sqrt(fa_diagonal(c, 0, 0, 1));
    c = fa_div(fa_div(c, fa_unsqueeze(spread, 1)), fa_unsqueeze(spread, 0));
    return fa_keep(fa_cast(fa_clamp_scalars(c, -1, 1), dtype));
}

/* ---- close elements, differences ---- */

fa_tensor *fa_isclose(fa_tensor *x, fa_tensor *y, double rtol, double atol, bool equal_nan) {
    const char *op = "isclose";
    if (!fai_begin2(op, "x", x, "y", y)) return NULL;
    if (x->dtype != y->dtype)
        return fai_fail(FA_ERR_RUNTIME, op, "%s did not match %s: x and y have the same dtype, fa_cast one of them",
                        fai_dtype_title((fa_dtype)x->dtype), fai_dtype_title((fa_dtype)y->dtype));
    if (!(rtol >= 0)) return fai_fail(FA_ERR_RUNTIME, op, "rtol must be greater than or equal to zero, but got %g", rtol);
    if (!(atol >= 0)) return fai_fail(FA_ERR_RUNTIME, op, "atol must be greater than or equal to zero, but got %g", atol);
    FAI_CALLED(op);
    FA_NO_GRAD;
    FA_SCOPE;
    fa_tensor *close = fa_eq(x, y);
    if (equal_nan && fai_is_float(x->dtype)) close = fa_logical_or(close, fa_logical_and(fa_isnan(x), fa_isnan(y)));
    if ((rtol == 0 && atol == 0) || x->dtype == FA_BOOL) return fa_keep(close);
    if (!fai_is_float(y->dtype)) y = fa_to_dtype(y, fa_default_dtype());
    fa_tensor *allowed = fai_add_number(fa_abs(fai_multiply(y, rtol)), atol), *apart = fa_abs(fa_sub(x, y));
    return fa_keep(fa_logical_or(close, fa_logical_and(fa_isfinite(apart), fa_le(apart, allowed))));
}

fa_tensor *fai_plain_diff(fa_tensor *x, int64_t n, int64_t dim) {
    const char *op = "diff";
    int at;
    if (!fai_begin1(op, "x", x) || !fai_wrap_dim(op, dim, x->ndim, &at)) return NULL;
    if (x->ndim == 0) return fai_fail(FA_ERR_RUNTIME, op, "diff expects input to be at least one-dimensional");
    if (n < 0) return fai_fail(FA_ERR_RUNTIME, op, "order must be non-negative but got %lld", (long long)n);
    FAI_CALLED(op);
    FA_SCOPE;
    fa_tensor *r = n ? x : fa_clone(x);
    for (int64_t k = 0; r && k < n; k++) {
        const int64_t size = r->size[at];
        if (size == 0) break;
        fa_tensor *later = fa_slice(r, at, 1, size, 1), *sooner = fa_slice(r, at, 0, size - 1, 1);
        r = x->dtype == FA_BOOL ? fa_logical_xor(later, sooner) : fa_sub(later, sooner);
    }
    return fa_keep(r == x ? fa_clone(x) : r);
}
