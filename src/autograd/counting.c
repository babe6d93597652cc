/* What is there, and how often: different elements, bins, membership. Whole numbers come out, so nothing has a derivative but weights. */
#include "composite.h"
#include <fa_functional.h>
#include <math.h>

static fa_tensor *whole_zeros(fa_device device, fa_shape shape) { return fa_zeros(shape, .dtype = FA_INT64, .device = device); }
static fa_tensor *count_to(fa_device device, int64_t n) { return fa_arange(0, n, 1, .dtype = FA_INT64, .device = device); }

/* ---- different elements ---- */

/* What a caller asked for besides the values. */
typedef struct wish {
    fa_tensor **inverse, **counts;
} wish;

/* begins: of n slices in their order, whether one differs from the one before. Gives the places where runs begin, and, where wished,
 * the run of each slice (at the place `order` gives it, NULL: its own) and their lengths. */
static fa_tensor *runs(fa_tensor *begins, fa_tensor *order, const wish *w) {
    if (!begins) return NULL;
    const int64_t n = begins->numel;
    fa_tensor *places = fa_squeeze_dim(fa_nonzero(begins), 1);
    if (!places) return NULL;
    if (w->inverse) {
        fa_tensor *run = fa_sub_scalar(fa_cumsum(begins, 0), 1);
        if (order) run = fa_scatter(whole_zeros(begins->device, FA_SHAPE(n)), 0, order, run);
        if (!(*w->inverse = run)) return NULL;
    }
    if (w->counts) {
        fa_tensor *end = fa_full(FA_SHAPE(n ? 1 : 0), n, .dtype = FA_INT64, .device = begins->device);
        fa_tensor *next = n ? fa_cat((fa_tensor *[]){fa_slice(places, 0, 1, INT64_MAX, 1), end}, 2, 0) : places;
        if (!(*w->counts = fa_sub(next, places))) return NULL;
    }
    return places;
}

/* Of n slices, n >= 1, each row of which says whether it differs from the one before: the first one always does. */
static fa_tensor *with_first(fa_tensor *differs, fa_device device) {
    return fa_cat((fa_tensor *[]){fa_ones(FA_SHAPE(1), .dtype = FA_BOOL, .device = device), differs}, 2, 0);
}

static fa_tensor *begins_of_elements(fa_tensor *line) {
    if (line->numel == 0) return fa_zeros(FA_SHAPE(0), .dtype = FA_BOOL, .device = line->device);
    return with_first(fa_ne(fa_slice(line, 0, 1, INT64_MAX, 1), fa_slice(line, 0, 0, line->numel - 1, 1)), line->device);
}

static void give(const wish *w) {
    if (w->inverse) *w->inverse = fa_keep(*w->inverse);
    if (w->counts) *w->counts = fa_keep(*w->counts);
}

static fa_tensor *unique_elements(const char *op, fa_tensor *x, bool sorts, const wish *w) {
    if (!fai_begin1(op, "x", x)) return NULL;
    FAI_CALLED(op);
    FA_NO_GRAD;
    FA_SCOPE;
    fa_tensor *line = fa_reshape(x, FA_SHAPE(-1)), *order = NULL;
    if (sorts) line = fa_sort(line, 0, false, &order);
    fa_tensor *places = line ? runs(begins_of_elements(line), order, w) : NULL;
    fa_tensor *values = places ? fa_index_select(line, 0, places) : NULL;
    if (values && w->inverse) *w->inverse = fa_reshape(*w->inverse, fa_shape_of_tensor(x));
    if (!values || (w->inverse && !*w->inverse)) return NULL;
    give(w);
    return fa_keep(values);
}

fa_tensor *fa_unique(fa_tensor *x, fa_tensor **inverse, fa_tensor **counts) {
    return unique_elements("unique", x, true, &(wish){inverse, counts});
}
fa_tensor *fa_unique_consecutive(fa_tensor *x, fa_tensor **inverse, fa_tensor **counts) {
    return unique_elements("unique_consecutive", x, false, &(wish){inverse, counts});
}

/* Rows in dictionary order: sorted by their columns from the last to the first, each time stably. */
static fa_tensor *order_of_rows(fa_tensor *rows) {
    fa_tensor *order = count_to(rows->device, rows->size[0]);
    for (int64_t column = rows->size[1] - 1; order && column >= 0; column--) {
        fa_tensor *keys = fa_index_select(fa_select(rows, 1, column), 0, order);
        order = fa_index_select(order, 0, fa_argsort(keys, 0, false));
    }
    return order;
}

/* Of no slices none is different; slices without elements can't be told apart. */
static fa_tensor *no_slices(const char *op, fa_tensor *x, int dim, const wish *w) {
    for (int d = 0; d < x->ndim; d++)
        if (x->size[d] == 0 && d != dim)
            return fai_fail(FA_ERR_RUNTIME, op,
                            "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied: "
                            "dimension %d",
                            d);
    if (w->inverse) *w->inverse = whole_zeros(x->device, FA_SHAPE(0));
    if (w->counts) *w->counts = whole_zeros(x->device, FA_SHAPE(0));
    fa_tensor *none = fa_clone(x);
    if (!none || (w->inverse && !*w->inverse) || (w->counts && !*w->counts)) return NULL;
    give(w);
    return fa_keep(none);
}

static fa_tensor *unique_slices(const char *op, fa_tensor *x, int64_t dim, bool sorts, const wish *w) {
    int at;
    if (!fai_begin1(op, "x", x) || !fai_wrap_dim(op, dim, x->ndim, &at)) return NULL;
    if (x->ndim == 0)
        return fai_fail(FA_ERR_INDEX, op, "Dimension specified as %lld but tensor has no dimensions", (long long)dim);
    FAI_CALLED(op);
    FA_NO_GRAD;
    FA_SCOPE;
    if (x->numel == 0) return no_slices(op, x, at, w);
    const int64_t n = x->size[at];
    fa_tensor *rows = fa_reshape(fa_movedim(x, FA_DIMS(at), FA_DIMS(0)), FA_SHAPE(n, -1)), *order = NULL;
    if (sorts && rows) rows = (order = order_of_rows(rows)) ? fa_index_select(rows, 0, order) : NULL;
    if (!rows) return NULL;
    fa_tensor *differs =
        fa_any_dims(fa_ne(fa_slice(rows, 0, 1, INT64_MAX, 1), fa_slice(rows, 0, 0, n - 1, 1)), FA_DIMS(1), false);
    fa_tensor *places = runs(with_first(differs, x->device), order, w);
    if (places && order) places = fa_index_select(order, 0, places);
    fa_tensor *values = places ? fa_index_select(x, at, places) : NULL;
    if (!values) return NULL;
    give(w);
    return fa_keep(values);
}

fa_tensor *fa_unique_dim(fa_tensor *x, int64_t dim, fa_tensor **inverse, fa_tensor **counts) {
    return unique_slices("unique_dim", x, dim, true, &(wish){inverse, counts});
}
fa_tensor *fa_unique_consecutive_dim(fa_tensor *x, int64_t dim, fa_tensor **inverse, fa_tensor **counts) {
    return unique_slices("unique_consecutive", x, dim, false, &(wish){inverse, counts});
}

/* ---- bins ---- */

static bool check_bincount(fa_tensor *x, fa_tensor *weights, int64_t minlength) {
    const char *op = "bincount";
    if (!fai_op_begin(op, 2, (const char *const[]){"x", "weights"}, (fa_tensor *const[]){x, weights}, 2)) return false;
    if (fai_is_float(x->dtype) || x->dtype == FA_BOOL)
        return fai_fail(FA_ERR_UNSUPPORTED, op,
                        "\"bincount_cpu\" not implemented for '%s': x holds whole numbers, fa_cast(x, FA_INT64)",
                        fai_dtype_title((fa_dtype)x->dtype));
    if (x->ndim != 1 && x->numel > 0)
        return fai_fail(FA_ERR_RUNTIME, op, "bincount only supports 1-d non-negative integral inputs. x has %d dimensions.",
                        x->ndim);
    if (minlength < 0) return fai_fail(FA_ERR_RUNTIME, op, "minlength should be >= 0, but it is %lld", (long long)minlength);
    if (!weights || (weights->ndim == 1 && weights->numel == x->numel)) return true;
    return fai_fail(FA_ERR_RUNTIME, op, "weights should be 1-d and have the same length as input: %lld and %lld elements",
                    (long long)weights->numel, (long long)x->numel);
}

fa_tensor *fa_bincount(fa_tensor *x, fa_tensor *weights, int64_t minlength) {
    FAI_CALLED("bincount");
    if (!check_bincount(x, weights, minlength)) return NULL;
    FA_SCOPE;
    int64_t n = minlength;
    if (x->numel > 0) {
        const int64_t least = fa_item_int(fa_amin(x)), most = fa_item_int(fa_amax(x));
        if (fa_failed()) return NULL;
        if (least < 0)
            return fai_fail(FA_ERR_RUNTIME, "bincount",
                            "bincount only supports 1-d non-negative integral inputs. The smallest is %lld.", (long long)least);
        if (most + 1 > n) n = most + 1;
    }
    fa_tensor *index = fa_cast(fa_reshape(x, FA_SHAPE(-1)), FA_INT64);
    if (weights && weights->dtype != FA_FLOAT32) weights = fa_cast(weights, FA_FLOAT64);
    if (!weights && index)
        weights = fa_expand(fa_ones(FA_SHAPE(1), .dtype = FA_INT64, .device = x->device), FA_SHAPE(index->numel));
    if (!weights) return NULL;
    return fa_keep(fa_index_add(fai_zeros_of(weights, FA_SHAPE(n)), 0, index, weights));
}

static bool check_range(fa_tensor *x, int64_t bins, double *low, double *high) {
    const char *op = "histc";
    if (!fai_begin1(op, "x", x)) return false;
    if (!fai_is_float(x->dtype))
        return fai_fail(FA_ERR_UNSUPPORTED, op,
                        "\"histogram_cpu\" not implemented for '%s'. It takes floating tensors: "
                        "fa_cast(x, FA_FLOAT32).",
                        fai_dtype_title((fa_dtype)x->dtype));
    if (bins <= 0)
        return fai_fail(FA_ERR_RUNTIME, op, "torch.histogram(): bins must be > 0, but got %lld for dimension 0", (long long)bins);
    if (*low > *high)
        return fai_fail(FA_ERR_RUNTIME, op, "torch.histc: max must be larger than min; low is %g, high %g", *low, *high);
    if (*low == *high && x->numel > 0) {
        FA_SCOPE;
        *low = fa_item(fa_amin(x)), *high = fa_item(fa_amax(x));
        if (fa_failed()) return false;
    }
    if (*low == *high) *low -= 1, *high += 1;
    if (isfinite(*low) && isfinite(*high)) return true;
    return fai_fail(FA_ERR_RUNTIME, op, "torch.histc: range of [%g, %g] is not finite: give low and high", *low, *high);
}

fa_tensor *fa_histc(fa_tensor *x, int64_t bins, double low, double high) {
    FAI_CALLED("histc");
    if (!check_range(x, bins, &low, &high)) return NULL;
    FA_NO_GRAD;
    FA_SCOPE;
    fa_tensor *line = fai_widened(fa_reshape(x, FA_SHAPE(-1))), *zeros = fai_zeros_of(line, FA_SHAPE(bins + 1)); /* the last: outside */
    fa_tensor *inside = fa_logical_and(fa_ge_scalar(line, low), fa_le_scalar(line, high));
    line = fai_choose(inside, line, low);
    fa_tensor *part = fai_divide(fai_multiply(fai_add_number(line, -low), (double)bins), high - low);
    fa_tensor *bin = fai_row3(FAI_ROW_where, fai_of(inside), fai_of(fa_clamp_max(fa_to_dtype(part, FA_INT64), bins - 1)), (fai_operand){.scalar = fa_scalar_of_int(bins)});
    fa_tensor *counts = line ? fa_index_add(zeros, 0, bin, fa_ones_like(line)) : NULL;
    return fa_keep(fa_cast(fa_narrow(counts, 0, 0, bins), (fa_dtype)x->dtype));
}

/* ---- membership ---- */

fa_tensor *fa_isin(fa_tensor *x, fa_tensor *among, bool invert) {
    if (!fai_begin2("isin", "x", x, "among", among)) return NULL;
    if (x->dtype == FA_BOOL && among->dtype == FA_BOOL)
        return fai_fail(FA_ERR_RUNTIME, "isin", "Unsupported input type encountered for isin(): Bool. fa_cast(x, FA_UINT8)");
    FAI_CALLED("isin");
    FA_NO_GRAD;
    FA_SCOPE;
    if (among->numel == 0) return fa_keep(fa_full(fa_shape_of_tensor(x), invert, .dtype = FA_BOOL, .device = x->device));
    const fa_dtype common = fa_promote_types((fa_dtype)x->dtype, (fa_dtype)among->dtype);
    fa_tensor *wanted = fa_cast(x, common), *sorted = fa_sort(fa_cast(fa_reshape(among, FA_SHAPE(-1)), common), 0, false, NULL);
    fa_tensor *places = fa_clamp_max(fa_searchsorted(sorted, wanted, false, false), among->numel - 1);
    fa_tensor *nearest =
        places ? fa_reshape(fa_index_select(sorted, 0, fa_reshape(places, FA_SHAPE(-1))), fa_shape_of_tensor(x)) : NULL;
    return fa_keep(invert ? fa_ne(wanted, nearest) : fa_eq(wanted, nearest));
}
