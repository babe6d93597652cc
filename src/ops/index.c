/* Reading and writing by an index along one dimension: gather, scatter, index_select, embedding. Which places are visited is a
 * matter of strides; the kernels (kernels/index.k.h) are one for reading and one for writing. */
#include "index.h"
#include "ops_gen.h"
#include <string.h>

/* ---- running the kernels ---- */

static void set_strides(fa_plan_view *view, int ndim, const int64_t *size, const int64_t *stride) {
    view->ndim = ndim;
    for (int d = 0; d < ndim; d++) view->size[d] = size[d], view->stride[d] = stride[d];
}

bool fai_fail_nothing(const char *op, int dim) {
    return fai_fail(FA_ERR_INDEX, op, "index is out of bounds for dimension %d with size 0: there is nothing to index", dim);
}

static bool set_place(const char *op, fa_plan *plan, const fai_place *place, fa_tensor *index) {
    if (place->size == 0) return fai_fail_nothing(op, place->dim);
    plan->n[1] = place->step, plan->n[2] = place->size, plan->n[3] = place->dim, plan->n[4] = place->kind,
    plan->n[5] = place->not_negative, plan->n[7] = fai_on_cpu(index) ? 0 : fai_status_number(op);
    return fai_indices_fit(op, index, place->not_negative ? 0 : -place->size, place->size - 1, 0, place->kind, place->dim,
                           place->size);
}

static int64_t elements(int ndim, const int64_t *size) {
    int64_t n = 1;
    for (int d = 0; d < ndim; d++) n *= size[d];
    return n;
}

bool fai_index_run(const char *op, bool writes, fa_tensor *indexed, fa_tensor *other, fa_tensor *index, const fai_space *space,
                   const fai_place *place) {
    fa_tensor *operands[4] = {writes ? indexed : other, writes ? other : indexed, index, NULL};
    fa_plan plan;
    fai_plan_begin(&plan);
    plan.numel = elements(space->ndim, space->size);
    if (plan.numel == 0) return true;
    plan.ndim = space->ndim;
    plan.groups = fai_groups(plan.numel, 1024);
    plan.n[0] = (fa_i64)fa_dtype_size((fa_dtype)indexed->dtype), plan.n[1] = 1;
    if (place && (!set_place(op, &plan, place, index) || !(operands[3] = fai_status(op, indexed->device)))) return false;
    for (int k = 0; k < 4; k++)
        if (operands[k]) fai_plan_view(&plan, k, operands[k], k == 0 || k == 3);
    set_strides(&plan.view[writes ? 0 : 1], space->ndim, space->size, space->indexed);
    set_strides(&plan.view[writes ? 1 : 0], space->ndim, space->size, space->other);
    set_strides(&plan.view[2], space->ndim, space->size, space->index);
    if (!fai_run(writes ? FAI_K_index_write : FAI_K_index_read, &plan, operands, 4, op) || (place && !fai_status_ok(op, operands[3])))
        return false;
    if (!writes) fai_pass_range(other, indexed);
    return true;
}

bool fai_index_offsets(const char *op, fa_tensor *out, fa_tensor *index, const int64_t *stride, const fai_place *place, bool add,
                       const int64_t *base) {
    fa_plan plan;
    fai_plan_begin(&plan);
    if (out->numel == 0) return true;
    if (!set_place(op, &plan, place, index)) return false;
    fa_tensor *operands[3] = {out, index, fai_status(op, out->device)};
    if (!operands[2]) return false;
    for (int k = 0; k < 3; k++) fai_plan_view(&plan, k, operands[k], k != 1);
    set_strides(&plan.view[1], out->ndim, out->size, stride);
    plan.ndim = out->ndim;
    plan.numel = out->numel;
    plan.groups = fai_groups(plan.numel, 1024);
    plan.n[6] = add;
    for (int d = 0; base && d < out->ndim; d++) plan.n[8 + d] = base[d];
    return fai_run(FAI_K_index_offset, &plan, operands, 3, op) && fai_status_ok(op, operands[2]);
}

/* ---- checks ---- */

bool fai_check_index(const char *op, const fa_tensor *index) {
    if (index->dtype == FA_INT64 || index->dtype == FA_INT32) return true;
    if (!strcmp(op, "index_select")) /* torch's words, which differ */
        return fai_fail(FA_ERR_RUNTIME, op, "%s(): Expected dtype int32 or int64 for index, but found %s. Convert it: fa_cast(index, FA_INT64).", op,
                        fa_dtype_name((fa_dtype)index->dtype));
    if (!strcmp(op, "index_add"))
        return fai_fail(FA_ERR_RUNTIME, op, "index_add_(): Expected dtype int32/int64 for index but got: %s. Convert it: fa_cast(index, FA_INT64).",
                        fai_dtype_title((fa_dtype)index->dtype));
    return fai_fail(FA_ERR_RUNTIME, op,
                    "%s(): Expected dtype int32/int64 for index, but found %s. Convert it: fa_cast(index, FA_INT64).", op,
                    fa_dtype_name((fa_dtype)index->dtype));
}

bool fai_check_same_type(const char *op, const fa_tensor *x, const fa_tensor *src) {
    if (x->dtype == src->dtype) return true;
    return fai_fail(FA_ERR_RUNTIME, op,
                    "%s(): Expected self.dtype to be equal to src.dtype. They are %s and %s: convert one with fa_cast.", op,
                    fa_dtype_name((fa_dtype)x->dtype), fa_dtype_name((fa_dtype)src->dtype));
}

bool fai_check_gather(const char *op, const fa_tensor *x, int dim, const fa_tensor *index, const fa_tensor *src) {
    char wanted[160], found[160];
    if (!fai_check_index(op, index)) return false;
    if (index->numel == 0) return true;
    if (index->ndim != x->ndim || (src && src->ndim != x->ndim))
        return fai_fail(FA_ERR_RUNTIME, op,
                        "Index tensor must have the same number of dimensions as %s tensor. They have %d and %d.",
                        index->ndim != x->ndim ? "input" : "src", index->ndim, index->ndim != x->ndim ? x->ndim : src->ndim);
    for (int d = 0; d < x->ndim; d++) {
        const bool too_large = (d != dim && index->size[d] > x->size[d]) || (src && index->size[d] > src->size[d]);
        if (!too_large) continue;
        const fa_tensor *limit = d != dim && index->size[d] > x->size[d] ? x : src;
        fai_text_shape(found, sizeof found, index->ndim, index->size);
        fai_text_shape(wanted, sizeof wanted, limit->ndim, limit->size);
        return fai_fail(FA_ERR_RUNTIME, op, "Size does not match at dimension %d expected index %s to be no larger than %s %s%s",
                        d, found, limit == x ? "self" : "src", wanted,
                        limit == x ? " apart from the dimension that is indexed" : "");
    }
    return true;
}

fa_tensor *fai_copied(const char *op, fa_tensor *x) {
    fa_tensor *r = fai_empty(op, (fa_dtype)x->dtype, x->device, x->ndim, x->size);
    return r && fai_copy(op, r, x) ? r : NULL;
}

fa_tensor *fai_at_least_1d(const char *op, fa_tensor *t) {
    const int64_t one = 1;
    return !t || t->ndim > 0 ? t : fai_view(op, t, 1, &one, &one, t->offset);
}

/* ---- gather and scatter ---- */

/* The space of gather's kind: index's sizes; along dim the index decides. */
static fai_space gather_space(const fa_tensor *x, int dim, const fa_tensor *index, const fa_tensor *other) {
    fai_space s = {.ndim = index->ndim};
    for (int d = 0; d < s.ndim; d++) {
        s.size[d] = index->size[d];
        s.index[d] = index->stride[d];
        s.indexed[d] = d == dim ? 0 : x->stride[d];
        s.other[d] = other->stride[d];
    }
    return s;
}

static fai_place place_of(const fa_tensor *x, int dim, int kind) {
    return (fai_place){x->size[dim], x->stride[dim], dim, kind, true};
}

fa_tensor *fai_gather_forward(fa_tensor *x, int64_t dim, fa_tensor *index) {
    int at;
    if (!fai_wrap_dim("gather", dim, x->ndim, &at)) return NULL;
    FA_SCOPE;
    fa_tensor *source = fai_at_least_1d("gather", x), *places = fai_at_least_1d("gather", index);
    if (!source || !places || !fai_check_gather("gather", source, at, places, NULL)) return NULL;
    fa_tensor *out = fai_empty("gather", (fa_dtype)x->dtype, x->device, index->ndim, index->size),
              *line = fai_at_least_1d("gather", out);
    if (!line) return NULL;
    if (out->numel == 0) return fa_keep(out);
    const fai_space space = gather_space(source, at, places, line);
    const fai_place place = place_of(source, at, FA_STATUS_PLACE);
    return fai_index_run("gather", false, source, line, places, &space, &place) ? fa_keep(out) : NULL;
}

/* x's copy with src, whose strides over index's sizes are given by `other`, written at index. */
static fa_tensor *scatter(const char *op, fa_tensor *x, int dim, fa_tensor *index, fa_tensor *src, const fa_tensor *other) {
    fa_tensor *out = fai_copied(op, x), *line = fai_at_least_1d(op, out);
    if (!line) return NULL;
    if (index->numel == 0) return out;
    const fai_space space = gather_space(line, dim, index, other);
    const fai_place place = place_of(line, dim, FA_STATUS_PLACE);
    return fai_index_run(op, true, line, src, index, &space, &place) ? out : NULL;
}

fa_tensor *fai_scatter_forward(fa_tensor *x, int64_t dim, fa_tensor *index, fa_tensor *src) {
    int at;
    if (!fai_wrap_dim("scatter", dim, x->ndim, &at) || !fai_check_same_type("scatter", x, src)) return NULL;
    FA_SCOPE;
    fa_tensor *places = fai_at_least_1d("scatter", index), *from = fai_at_least_1d("scatter", src),
              *line = fai_at_least_1d("scatter", x);
    if (!places || !from || !line || !fai_check_gather("scatter", line, at, places, from)) return NULL;
    return fa_keep(scatter("scatter", x, at, places, from, from));
}

fa_tensor *fai_scatter_value_forward(fa_tensor *x, int64_t dim, fa_tensor *index, fa_scalar value) {
    int at;
    if (!fai_wrap_dim("scatter", dim, x->ndim, &at) || !fai_number_fits("scatter", value, (fa_dtype)x->dtype)) return NULL;
    FA_SCOPE;
    fa_tensor *places = fai_at_least_1d("scatter", index), *line = fai_at_least_1d("scatter", x);
    if (!places || !line || !fai_check_gather("scatter", line, at, places, NULL)) return NULL;
    fa_tensor *number = fai_empty("scatter", (fa_dtype)x->dtype, x->device, 0, NULL);
    if (!number || !fai_fill_scalar("scatter", number, value)) return NULL;
    const fa_tensor repeated = {.ndim = places->ndim}; /* strides of 0 */
    return fa_keep(scatter("scatter", x, at, places, number, &repeated));
}

/* ---- whole slices ---- */

static bool check_vector(const char *op, const fa_tensor *index) {
    if (!fai_check_index(op, index)) return false;
    if (index->ndim <= 1) return true;
    return fai_fail(FA_ERR_INDEX, op, "%s(): Index is supposed to be a vector, but it has %d dimensions", op, index->ndim);
}

fa_tensor *fai_index_select_forward(fa_tensor *x, int64_t dim, fa_tensor *index) {
    const char *op = "index_select";
    int at;
    if (!fai_wrap_dim(op, dim, x->ndim, &at) || !check_vector(op, index)) return NULL;
    if (x->ndim == 0 && index->numel != 1)
        return fai_fail(FA_ERR_RUNTIME, op, "index_select(): Index to scalar can have only 1 value, got %lld value(s)",
                        (long long)index->numel);
    FA_SCOPE;
    fa_tensor *source = fai_at_least_1d(op, x);
    if (!source) return NULL;
    fai_space s = {.ndim = source->ndim};
    for (int d = 0; d < s.ndim; d++) {
        s.size[d] = d == at ? index->numel : source->size[d];
        s.indexed[d] = d == at ? 0 : source->stride[d];
    }
    s.index[at] = index->ndim ? index->stride[0] : 0;
    fai_contiguous_strides(s.ndim, s.size, s.other);
    fa_tensor *out = fai_empty(op, (fa_dtype)x->dtype, x->device, x->ndim, s.size);
    const fai_place place = place_of(source, at, FA_STATUS_SELF);
    return out && fai_index_run(op, false, source, out, index, &s, &place) ? fa_keep(out) : NULL;
}

/* torch's sentences; src without dimensions counts as one element of a line. */
static bool check_index_copy(const fa_tensor *x, int dim, const fa_tensor *index, const fa_tensor *src) {
    const char *op = "index_copy";
    if (index->ndim > 1)
        return fai_fail(FA_ERR_INDEX, op, "index_copy_(): Index should have dimension 1 or 0 (got %d)", index->ndim);
    if (index->dtype != FA_INT64)
        return fai_fail(FA_ERR_RUNTIME, op,
                        "index_copy_(): Expected a long tensor for index, but got %s. Convert it: fa_cast(index, FA_INT64).",
                        fai_dtype_title((fa_dtype)index->dtype));
    if (x->dtype != src->dtype)
        return fai_fail(FA_ERR_RUNTIME, op,
                        "index_copy_(): self and source expected to have the same dtype, but got (self) %s and (source) %s",
                        fai_dtype_title((fa_dtype)x->dtype), fai_dtype_title((fa_dtype)src->dtype));
    if (src->ndim == 0 && index->numel != 1)
        return fai_fail(FA_ERR_INDEX, op, "index_copy_(): When source is scalar, index should have one element (got %lld)",
                        (long long)index->numel);
    if (src->ndim != x->ndim && src->ndim && x->ndim)
        return fai_fail(FA_ERR_INDEX, op,
                        "index_copy_(): When source and destination are not scalars, their dimensionality must match. Source "
                        "dimensionality (%d), "
                        "destination dimensionality (%d)",
                        src->ndim, x->ndim);
    bool fits = src->ndim || x->ndim < 2;
    for (int d = 0; fits && d < x->ndim && d < src->ndim; d++) fits = d == dim || x->size[d] == src->size[d];
    char wanted[160], found[160];
    fai_text_shape(wanted, sizeof wanted, x->ndim, x->size);
    fai_text_shape(found, sizeof found, src->ndim, src->size);
    if (!fits)
        return fai_fail(FA_ERR_RUNTIME, op,
                        "index_copy_(): Source/destination tensor must have same slice shapes. The destination has shape %s and "
                        "the source %s; they may "
                        "differ at dimension %d only.",
                        wanted, found, dim);
    if (index->numel != (src->ndim ? src->size[dim] : 1))
        return fai_fail(FA_ERR_INDEX, op, "index_copy_(): Number of indices (%lld) should be equal to source.size(dim) (%lld)",
                        (long long)index->numel, (long long)src->size[dim]);
    return true;
}

fa_tensor *fai_index_copy_forward(fa_tensor *x, int64_t dim, fa_tensor *index, fa_tensor *src) {
    const char *op = "index_copy";
    int at;
    if (!fai_wrap_dim(op, dim, x->ndim, &at) || !check_index_copy(x, at, index, src)) return NULL;
    FA_SCOPE;
    fa_tensor *out = fai_copied(op, x), *line = fai_at_least_1d(op, out), *from = fai_at_least_1d(op, src);
    if (!line || !from) return NULL;
    if (index->numel == 0) return fa_keep(out);
    fai_space s = {.ndim = line->ndim};
    for (int d = 0; d < s.ndim; d++) {
        s.size[d] = d == at ? index->numel : line->size[d];
        s.indexed[d] = d == at ? 0 : line->stride[d];
        s.other[d] = from->stride[d];
    }
    s.index[at] = index->ndim ? index->stride[0] : 0;
    const fai_place place = place_of(line, at, FA_STATUS_COPY);
    return fai_index_run(op, true, line, from, index, &s, &place) ? fa_keep(out) : NULL;
}

fa_tensor *fai_embedding_forward(fa_tensor *weight, fa_tensor *index, int64_t padding_idx) {
    const char *op = "embedding";
    (void)padding_idx; /* matters to the derivative only */
    if (weight->ndim != 2)
        return fai_fail(FA_ERR_RUNTIME, op, "'weight' must be 2-D, rows of numbers; it has %d dimensions", weight->ndim);
    if (index->dtype != FA_INT64 && index->dtype != FA_INT32)
        return fai_fail(
            FA_ERR_RUNTIME, op,
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got %s instead",
            fai_dtype_title((fa_dtype)index->dtype));
    if (index->ndim >= FA_MAX_DIMS)
        return fai_fail(FA_ERR_RUNTIME, op,
                        "the index has %d dimensions and the result would have one more; at most %d are possible", index->ndim,
                        FA_MAX_DIMS);
    FA_SCOPE;
    fai_space s = {.ndim = index->ndim + 1};
    for (int d = 0; d < index->ndim; d++) s.size[d] = index->size[d], s.index[d] = index->stride[d];
    s.size[index->ndim] = weight->size[1];
    s.indexed[index->ndim] = weight->stride[1];
    fai_contiguous_strides(s.ndim, s.size, s.other);
    fa_tensor *out = fai_empty(op, (fa_dtype)weight->dtype, weight->device, s.ndim, s.size);
    const fai_place place = place_of(weight, 0, FA_STATUS_SELF);
    return out && fai_index_run(op, false, weight, out, index, &s, &place) ? fa_keep(out) : NULL;
}
