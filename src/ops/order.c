/* Sorting along a dimension, its first few, running extremes, and searching in what is sorted (kernels/order.k.h, running.k.h,
 * search.k.h). Rows are sorted side by side: another dimension is brought to the end and back. */
#include "ordered.h"
#include "ops_gen.h"
#include <string.h>

enum { BLOCK = 256, SHORT = 256 }; /* sorted at once by a group of a device; rows that the CPU sorts without working memory */

/* ---- sorting ---- */

typedef struct sorted_rows {
    fa_tensor *values, *places;
} sorted_rows;

/* x with dim as its last dimension: a view. */
static fa_tensor *with_last(const char *op, fa_tensor *x, int dim) {
    int64_t size[FA_MAX_DIMS], stride[FA_MAX_DIMS];
    memcpy(size, x->size, sizeof size), memcpy(stride, x->stride, sizeof stride);
    if (x->ndim == 0 || dim == x->ndim - 1) return x;
    const int last = x->ndim - 1;
    memmove(size + dim, size + dim + 1, sizeof *size * (size_t)(last - dim));
    memmove(stride + dim, stride + dim + 1, sizeof *stride * (size_t)(last - dim));
    size[last] = x->size[dim], stride[last] = x->stride[dim];
    return fai_view(op, x, x->ndim, size, stride, x->offset);
}

/* The same the other way round, as memory in order. */
static fa_tensor *with_last_back(const char *op, fa_tensor *t, int dim) {
    int64_t size[FA_MAX_DIMS], stride[FA_MAX_DIMS];
    if (t->ndim == 0 || dim == t->ndim - 1) return t;
    for (int d = 0; d < t->ndim; d++) {
        const int from = d < dim ? d : d == dim ? t->ndim - 1 : d - 1;
        size[d] = t->size[from], stride[d] = t->stride[from];
    }
    fa_tensor *view = fai_view(op, t, t->ndim, size, stride, t->offset);
    return view ? fai_contiguous(op, view) : NULL;
}

static bool make_rows(const char *op, const fa_tensor *like, int64_t length, sorted_rows *r) {
    int64_t size[FA_MAX_DIMS];
    memcpy(size, like->size, sizeof size);
    if (like->ndim) size[like->ndim - 1] = length;
    r->values = fai_empty(op, (fa_dtype)like->dtype, like->device, like->ndim, size);
    r->places = r->values ? fai_empty(op, FA_INT64, like->device, like->ndim, size) : NULL;
    return r->places != NULL;
}

static bool order_rows(const char *op, fa_tensor *x, fa_tensor *work, fa_plan *plan, const sorted_rows *to) {
    fa_tensor *operands[4] = {to->values, to->places, x, work};
    for (int k = 0; k < 4; k++)
        if (operands[k]) fai_plan_view(plan, k, operands[k], k != 2);
    return fai_run(FAI_K_order_rows_f32 + fai_compute(x->dtype), plan, operands, 4, op);
}

/* On a device: blocks first, then runs joined in pairs, from one pair of tensors to the other. */
static bool sort_by_merging(const char *op, fa_tensor *x, fa_plan *plan, sorted_rows *r) {
    sorted_rows other = {NULL, NULL};
    const int64_t n = plan->n[1];
    plan->n[4] = BLOCK;
    plan->groups = plan->n[0] * fai_groups(n, BLOCK);
    if (!make_rows(op, x, n, r) || !order_rows(op, x, NULL, plan, r)) return false;
    if (n > BLOCK && !make_rows(op, x, n, &other)) return false;
    for (int64_t run = BLOCK; run < n; run *= 2) {
        const sorted_rows from = *r;
        fa_tensor *operands[4] = {other.values, other.places, from.values, from.places};
        for (int k = 0; k < 4; k++) fai_plan_view(plan, k, operands[k], k < 2);
        plan->n[4] = run;
        plan->groups = fai_groups(x->numel, 256);
        if (!fai_run(FAI_K_order_merge_f32 + fai_compute(x->dtype), plan, operands, 4, op)) return false;
        *r = other;
        other = from;
    }
    return true;
}

/* The first `wanted` of each row; a device sorts whole rows. */
static bool sort_rows(const char *op, fa_tensor *x, int64_t wanted, bool largest, sorted_rows *r) {
    fa_plan plan;
    const int64_t n = x->ndim ? x->size[x->ndim - 1] : 1;
    fa_tensor *work = NULL;
    fai_plan_begin(&plan);
    plan.numel = x->numel;
    plan.n[0] = x->numel / n, plan.n[1] = n, plan.n[2] = largest, plan.n[3] = n;
    if (!fai_on_cpu(x)) return sort_by_merging(op, x, &plan, r);
    plan.n[3] = wanted, plan.n[4] = n;
    if (n > SHORT) { /* two pairs of a key and a place for each element */
        plan.n[5] = 2 * n * (fa_dtype_size((fa_dtype)x->dtype) == 8 || n > UINT32_MAX ? 2 : 1);
        const int64_t words = plan.n[0] * plan.n[5];
        if (!(work = fai_empty(op, FA_INT64, x->device, 1, &words))) return false;
    }
    return make_rows(op, x, wanted, r) && order_rows(op, x, work, &plan, r);
}

/* What a row's first places are, in the shape that x gives them. */
static fa_tensor *sorted(const char *op, fa_tensor *x, int dim, int64_t wanted, bool largest, fa_tensor **indices) {
    sorted_rows r;
    fa_tensor *rows = with_last(op, x, dim);
    if (!rows || !(rows = fai_contiguous(op, rows))) return NULL;
    if (x->numel == 0 || wanted == 0) {
        if (!make_rows(op, rows, wanted, &r)) return NULL;
    } else if (!sort_rows(op, rows, wanted, largest, &r)) {
        return NULL;
    }
    if (x->numel) fai_note_bounds(r.places, 0, (x->ndim ? x->size[dim] : 1) - 1);
    if (x->ndim && r.values->size[x->ndim - 1] > wanted) {
        const fa_shape whole = fa_shape_of(r.values->ndim, r.values->size);
        int64_t size[FA_MAX_DIMS];
        memcpy(size, whole.dim, sizeof size);
        size[x->ndim - 1] = wanted;
        r.values = fai_view(op, r.values, x->ndim, size, r.values->stride, 0);
        r.places = fai_view(op, r.places, x->ndim, size, r.places->stride, 0);
        if (!r.values || !r.places || !(r.values = fai_contiguous(op, r.values)) || !(r.places = fai_contiguous(op, r.places)))
            return NULL;
    }
    *indices = with_last_back(op, r.places, dim);
    return *indices ? with_last_back(op, r.values, dim) : NULL;
}

fa_tensor *fai_sort_forward(fa_tensor *x, int64_t dim, bool descending, fa_tensor **indices) {
    int at;
    if (!fai_wrap_dim("sort", dim, x->ndim, &at)) return NULL;
    FA_SCOPE;
    fa_tensor *values = sorted("sort", x, at, x->ndim ? x->size[at] : 1, descending, indices);
    if (!values) return NULL;
    fa_keep(*indices);
    return fa_keep(values);
}

fa_tensor *fai_topk_forward(fa_tensor *x, int64_t k, int64_t dim, bool largest, fa_tensor **indices) {
    int at;
    if (!fai_wrap_dim("topk", dim, x->ndim, &at)) return NULL;
    if (x->dtype == FA_BOOL)
        return fai_fail(FA_ERR_RUNTIME, "topk",
                        "topk does not support bool dtypes on CPU, nor on other devices: fa_cast(x, FA_UINT8)");
    const int64_t size = x->ndim ? x->size[at] : 1;
    if (k < 0 || k > size)
        return fai_fail(FA_ERR_RUNTIME, "topk",
                        "selected index k out of range: k is %lld, dimension %d has %lld elements. k is 0 to that many.",
                        (long long)k, at, (long long)size);
    FA_SCOPE;
    fa_tensor *source = x->ndim ? x : fai_view("topk", x, 1, &size, &size, x->offset);
    fa_tensor *values = source ? sorted("topk", source, at, k, largest, indices) : NULL;
    if (values && x->ndim == 0 && k == 1) {
        values = fai_view("topk", values, 0, NULL, NULL, 0);
        *indices = values ? fai_view("topk", *indices, 0, NULL, NULL, 0) : NULL;
    }
    if (!values || !*indices) return NULL;
    fa_keep(*indices);
    return fa_keep(values);
}

/* ---- running extremes and sums of exponentials ---- */

enum { LARGEST, SMALLEST, LOG_SUM };

static fa_tensor *running(const char *op, fa_tensor *x, int64_t dim, int kind, fa_tensor **indices) {
    int at;
    if (!fai_wrap_dim(op, dim, x->ndim, &at)) return NULL;
    FA_SCOPE;
    fa_tensor *source = fai_contiguous(op, x), *out = source ? fai_empty_like(op, source) : NULL;
    fa_tensor *places = out && indices ? fai_empty(op, FA_INT64, x->device, x->ndim, x->size) : NULL;
    if (!out || (indices && !places)) return NULL;
    const fai_lines rows = fai_lines_of(x, at);
    fa_tensor *operands[3] = {out, source, places};
    fa_plan plan;
    fai_plan_begin(&plan);
    for (int k = 0; k < 3; k++)
        if (operands[k]) fai_plan_view(&plan, k, operands[k], k != 1);
    plan.numel = x->numel;
    plan.n[0] = rows.outer * rows.inner, plan.n[1] = rows.dim, plan.n[2] = rows.inner, plan.n[3] = kind;
    plan.n[5] = 256; /* rows at once: as many as leave an item a chunk of 16 */
    while (plan.n[5] > 1 && rows.dim > 256 / plan.n[5] * 16) plan.n[5] /= 2;
    plan.groups = fai_groups(plan.n[0], plan.n[5]);
    if (x->numel && !fai_run(FAI_K_running_f32 + fai_compute(x->dtype), &plan, operands, 3, op)) return NULL;
    if (indices) fai_note_bounds(places, 0, rows.dim - 1);
    if (indices) *indices = fa_keep(places);
    return fa_keep(out);
}

fa_tensor *fai_cummax_forward(fa_tensor *x, int64_t dim, fa_tensor **indices) {
    return running("cummax", x, dim, LARGEST, indices);
}
fa_tensor *fai_cummin_forward(fa_tensor *x, int64_t dim, fa_tensor **indices) {
    return running("cummin", x, dim, SMALLEST, indices);
}
fa_tensor *fai_logcumsumexp_forward(fa_tensor *x, int64_t dim) {
    if (!fai_is_float(x->dtype))
        return fai_fail(FA_ERR_UNSUPPORTED, "logcumsumexp",
                        "\"logcumsumexp_out_cpu\" not implemented for '%s'. It takes floating tensors: fa_cast(x, FA_FLOAT32).",
                        fai_dtype_title((fa_dtype)x->dtype));
    return running("logcumsumexp", x, dim, LOG_SUM, NULL);
}

/* ---- searching ---- */

static bool check_search(const fa_tensor *sorted, const fa_tensor *values) {
    const char *op = "searchsorted";
    char there[160], wanted[160];
    if (sorted->dtype == FA_BOOL && values->dtype == FA_BOOL)
        return fai_fail(FA_ERR_UNSUPPORTED, op, "\"searchsorted_out_cpu\" not implemented for 'Bool': fa_cast(values, FA_UINT8)");
    if (sorted->ndim == 0)
        return fai_fail(FA_ERR_RUNTIME, op,
                        "torch.searchsorted(): boundaries tensor should have positive dimension, but got 0 dimension");
    bool fits = sorted->ndim == 1 || sorted->ndim == values->ndim;
    for (int d = 0; fits && d < sorted->ndim - 1; d++) fits = sorted->size[d] == values->size[d];
    if (fits) return true;
    fai_text_shape(there, sizeof there, sorted->ndim, sorted->size);
    fai_text_shape(wanted, sizeof wanted, values->ndim, values->size);
    return fai_fail(FA_ERR_RUNTIME, op,
                    "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries "
                    "tensor and input value tensor must match, but we got boundaries tensor %s and input value tensor %s",
                    there, wanted);
}

fa_tensor *fai_searchsorted_forward(fa_tensor *sorted, fa_tensor *values, bool right, bool out_int32) {
    const char *op = "searchsorted";
    if (!check_search(sorted, values)) return NULL;
    FA_SCOPE;
    const fa_dtype common = fa_promote_types((fa_dtype)sorted->dtype, (fa_dtype)values->dtype);
    fa_tensor *rows = fai_cast(op, sorted, common), *wanted = fai_cast(op, values, common);
    rows = rows ? fai_contiguous(op, rows) : NULL, wanted = wanted ? fai_contiguous(op, wanted) : NULL;
    fa_tensor *out =
        rows && wanted ? fai_empty(op, out_int32 ? FA_INT32 : FA_INT64, values->device, values->ndim, values->size) : NULL;
    if (!out || out->numel == 0) return fa_keep(out);
    fa_tensor *operands[3] = {out, rows, wanted};
    fa_plan plan;
    fai_plan_begin(&plan);
    for (int k = 0; k < 3; k++) fai_plan_view(&plan, k, operands[k], k == 0);
    plan.numel = out->numel;
    plan.n[0] = out->numel, plan.n[1] = sorted->size[sorted->ndim - 1], plan.n[3] = right;
    plan.n[2] = sorted->ndim == 1 ? out->numel : values->size[values->ndim - 1];
    plan.groups = fai_groups(out->numel, 256);
    return fai_run(FAI_K_search_f32 + fai_compute(common), &plan, operands, 3, op) ? fa_keep(out) : NULL;
}
