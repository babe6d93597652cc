/* Operators made of sorting: medians, the most frequent value, the k-th smallest; the derivative of running sums of exponentials.
 * Where the places are known, values are gathered, so that their derivatives come for free. */
#include "composite.h"
#include <fa_functional.h>
#include <math.h>

/* Whether a bool has a place in it: torch has no such kernels. */
bool fai_no_bool(const char *op, const char *kernel, const fa_tensor *x) {
    if (x->dtype != FA_BOOL) return true;
    return fai_fail(FA_ERR_UNSUPPORTED, op, "\"%s\" not implemented for 'Bool': fa_cast(x, FA_UINT8)", kernel);
}

/* A dimension to go along, checked; a tensor without dimensions counts as one of size 1. */
static bool begin(const char *op, fa_tensor *x, int64_t dim, int *at, int64_t *size) {
    if (!fai_begin1(op, "x", x) || !fai_wrap_dim(op, dim, x->ndim, at)) return false;
    *size = x->ndim ? x->size[*at] : 1;
    return true;
}

static bool begin_filled(const char *op, fa_tensor *x, int64_t dim, int *at, int64_t *size) {
    if (!begin(op, x, dim, at, size)) return false;
    if (*size > 0) return true;
    return fai_fail(FA_ERR_INDEX, op, "%s(): Expected reduction dim %d to have non-zero size.", op, *at);
}

static fa_tensor *at_least_1d(fa_tensor *x) { return x->ndim ? x : fa_reshape(x, FA_SHAPE(1)); }

/* The elements of x, which has a dimension, at places that have size 1 along dim; the result and the places in the shape asked for. */
static fa_tensor *at_places(fa_tensor *x, fa_tensor *like, int dim, bool keepdim, fa_tensor *places, fa_tensor **indices) {
    fa_tensor *values = fa_gather(x, dim, places);
    if (like->ndim == 0) {
        values = fa_reshape(values, FA_SHAPE_0D), places = fa_reshape(places, FA_SHAPE_0D);
    } else if (!keepdim) {
        values = fa_squeeze_dim(values, dim), places = fa_squeeze_dim(places, dim);
    }
    if (!values || !places) return NULL;
    if (indices) *indices = fa_keep(places);
    return values;
}

fa_tensor *fa_argsort(fa_tensor *x, int64_t dim, bool descending) {
    fa_tensor *indices = NULL;
    FAI_CALLED("argsort");
    FA_SCOPE;
    FA_NO_GRAD;
    return fa_sort(x, dim, descending, &indices) ? fa_keep(indices) : NULL;
}

fa_tensor *fa_msort(fa_tensor *x) {
    FAI_CALLED("msort");
    return fa_sort(x, 0, false, NULL);
}

fa_tensor *fa_kthvalue(fa_tensor *x, int64_t k, int64_t dim, bool keepdim, fa_tensor **indices) {
    const char *op = "kthvalue";
    int at;
    int64_t size;
    fa_tensor *places = NULL;
    if (!begin_filled(op, x, dim, &at, &size) || !fai_no_bool(op, "kthvalue_cpu", x)) return NULL;
    if (k < 1 || k > size)
        return fai_fail(FA_ERR_RUNTIME, op,
                        "kthvalue(): selected number k out of range for dimension %d: k is %lld, there are %lld elements, and k "
                        "counts from 1",
                        at, (long long)k, (long long)size);
    FA_SCOPE;
    fa_tensor *line = at_least_1d(x), *values = fa_topk(line, k, at, false, &places);
    values = fa_narrow(values, at, k - 1, 1), places = fa_narrow(places, at, k - 1, 1);
    if (x->ndim == 0) {
        values = fa_reshape(values, FA_SHAPE_0D), places = fa_reshape(places, FA_SHAPE_0D);
    } else if (!keepdim) {
        values = fa_squeeze_dim(values, at), places = fa_squeeze_dim(places, at);
    }
    if (!values || !(places = fa_clone(places))) return NULL;
    if (indices) *indices = fa_keep(places);
    return fa_keep(values);
}

/* ---- medians ---- */

/* The place of each slice's median, of size 1 along dim. A NaN is the median if there is any, or counts for nothing. */
static fa_tensor *median_places(fa_tensor *x, int dim, bool skip_nan) {
    fa_tensor *places = NULL, *largest = NULL;
    const int64_t size = x->size[dim];
    if (!fai_is_float(x->dtype)) skip_nan = false;
    if (skip_nan) {
        fa_tensor *nans = fa_sum_dims(fa_isnan(x), FA_DIMS(dim), true);
        fa_tensor *middle = fa_floor_divide_scalar(fa_rsub_scalar(nans, size - 1), 2);
        return fa_sort(x, dim, false, &places) ? fa_gather(places, dim, fa_clamp_min(middle, 0)) : NULL;
    }
    if (!fa_topk(x, (size - 1) / 2 + 1, dim, false, &places)) return NULL;
    places = fa_narrow(places, dim, (size - 1) / 2, 1);
    if (!fai_is_float(x->dtype)) return places;
    fa_tensor *most = fa_max_dim(x, dim, true, &largest);
    return fa_where(fa_isnan(most), largest, places);
}

static fa_tensor *median_dim(const char *op, fa_tensor *x, int64_t dim, bool keepdim, bool skip_nan, fa_tensor **indices) {
    int at;
    int64_t size;
    if (!begin_filled(op, x, dim, &at, &size) || !fai_no_bool(op, "median_out", x)) return NULL;
    FAI_CALLED(op);
    FA_SCOPE;
    fa_tensor *line = at_least_1d(x), *places;
    {
        FA_NO_GRAD;
        places = line ? median_places(line, at, skip_nan) : NULL;
    }
    return places ? fa_keep(at_places(line, x, at, keepdim, places, indices)) : NULL;
}

fa_tensor *fa_median_dim(fa_tensor *x, int64_t dim, bool keepdim, fa_tensor **indices) {
    return median_dim("median", x, dim, keepdim, false, indices);
}
fa_tensor *fa_nanmedian_dim(fa_tensor *x, int64_t dim, bool keepdim, fa_tensor **indices) {
    return median_dim("nanmedian", x, dim, keepdim, true, indices);
}

/* Over all elements; of none it is NaN. */
static fa_tensor *median(const char *op, fa_tensor *x, bool skip_nan) {
    if (!fai_no_bool(op, "median_cpu", x)) return NULL;
    FAI_CALLED(op);
    FA_NO_GRAD;
    FA_SCOPE;
    if (x->numel == 0) return fa_keep(fa_cast(fa_full(FA_SHAPE_0D, (double)NAN, .device = x->device), (fa_dtype)x->dtype));
    return fa_keep(median_dim(op, fa_reshape(x, FA_SHAPE(-1)), 0, false, skip_nan, NULL));
}

fa_tensor *fai_median_forward(fa_tensor *x) { return median("median", x, false); }
fa_tensor *fai_nanmedian_forward(fa_tensor *x) { return median("nanmedian", x, true); }

/* ---- the most frequent value ---- */

/* In each sorted slice, how many equal elements end at each place. */
static fa_tensor *lengths_of_runs(fa_tensor *sorted, int dim) {
    const int64_t size = sorted->size[dim];
    fa_shape line = {.ndim = sorted->ndim};
    for (int d = 0; d < line.ndim; d++) line.dim[d] = d == dim ? size : 1;
    fa_tensor *place = fa_reshape(fa_arange(0, size, 1, .dtype = FA_INT64, .device = sorted->device), line);
    if (size == 1) return fa_zeros(fa_shape_of_tensor(sorted), .dtype = FA_INT64, .device = sorted->device);
    fa_tensor *differs = fa_ne(fa_slice(sorted, dim, 1, size, 1), fa_slice(sorted, dim, 0, size - 1, 1));
    fa_tensor *begins = fa_mul(differs, fa_slice(place, dim, 1, size, 1)), *first = fa_slice(begins, dim, 0, 1, 1);
    fa_tensor *starts = fa_cummax(fa_cat((fa_tensor *[]){fa_zeros_like(first), begins}, 2, dim), dim, NULL);
    return fa_sub(place, starts);
}

fa_tensor *fa_mode(fa_tensor *x, int64_t dim, bool keepdim, fa_tensor **indices) {
    const char *op = "mode";
    int at;
    int64_t size;
    if (!begin_filled(op, x, dim, &at, &size)) return NULL;
    FAI_CALLED(op);
    FA_SCOPE;
    fa_tensor *line = at_least_1d(x), *places = NULL;
    if (x->numel > 0) {
        FA_NO_GRAD;
        fa_tensor *order = NULL, *sorted = fa_sort(line, at, false, &order);
        places = sorted ? fa_gather(order, at, fa_argmax_dim(lengths_of_runs(sorted, at), at, true)) : NULL;
    } else {
        places = fa_zeros_like(fa_slice(line, at, 0, 1, 1), .dtype = FA_INT64);
    }
    return places ? fa_keep(at_places(line, x, at, keepdim, places, indices)) : NULL;
}

/* ---- searching ---- */

fa_tensor *fa_bucketize(fa_tensor *x, fa_tensor *boundaries, bool right, bool out_int32) {
    if (!fai_begin2("bucketize", "x", x, "boundaries", boundaries)) return NULL;
    if (!fai_no_bool("bucketize", "searchsorted_out_cpu", boundaries)) return NULL;
    FAI_CALLED("bucketize");
    if (boundaries->ndim != 1)
        return fai_fail(FA_ERR_RUNTIME, "bucketize", "boundaries tensor must be 1 dimension, but got dim(%d)", boundaries->ndim);
    return fa_searchsorted(boundaries, x, right, out_int32);
}

/* ---- logcumsumexp ---- */

/* The sum of what comes at and behind each place of dim, as a logarithm. */
static fa_tensor *log_sum_behind(fa_tensor *x, int64_t dim) {
    const fa_shape dims = fa_shape_of(1, &dim);
    return fa_flip(fa_logcumsumexp(fa_flip(x, dims), dim), dims);
}

/* Each element's share of a gradient that is nowhere negative: exp(x) * sum of g / exp(r) behind it, as logarithms. */
static fa_tensor *share(fa_tensor *x, fa_tensor *r, fa_tensor *g, int64_t dim) {
    fa_tensor *there = fa_gt_scalar(g, 0);
    fa_tensor *logs = fai_choose(there, fa_sub(fa_log(fai_choose(there, g, 1)), r), -HUGE_VAL);
    return fa_exp(fa_add(log_sum_behind(logs, dim), x));
}

bool fai_logcumsumexp_backward(fai_node *node, fa_tensor *g, fa_tensor **grads) {
    const fai_logcumsumexp_params *p = node->params;
    fa_tensor *x = fai_node_kept(node, 0), *r = fai_node_kept(node, 1);
    if (!x || !r) return false;
    grads[0] = fa_sub(share(x, r, g, p->dim), share(x, r, fa_neg(g), p->dim));
    return grads[0] != NULL;
}
