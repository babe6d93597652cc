/* Advanced indexing, x[indices]: index tensors that broadcast, each for a dimension of x (NULL: all of it), masks counted as the
 * positions where they hold. The dimensions of the indices stand in the result where the first indexed dimension was, or in front
 * if the indexed ones are not neighbours. Several indices are joined to one of offsets before anything is moved. */
#include "index.h"
#include "scan.h"
#include "ops_gen.h"
#include <stdio.h>
#include <string.h>

/* ---- positions of nonzero elements ---- */

fa_tensor *fai_nonzero_forward(fa_tensor *x) {
    const char *op = "nonzero";
    FA_SCOPE;
    int64_t blocks = fai_groups(x->numel, 1024), found[2] = {0, x->ndim};
    fa_tensor *counts = fai_empty(op, FA_INT64, x->device, 1, &blocks);
    fa_plan plan;
    if (!counts) return NULL;
    if (x->numel == 0) return fa_keep(fai_empty(op, FA_INT64, x->device, 2, found));
    fai_plan_begin(&plan);
    fai_plan_view(&plan, 0, counts, true);
    fai_plan_view(&plan, 1, x, false);
    plan.ndim = x->ndim;
    plan.numel = x->numel;
    plan.groups = blocks;
    if (!fai_run(FAI_K_nonzero_count, &plan, (fa_tensor *const[]){counts, x}, 2, op)) return NULL;
    if (!fai_scan(op, counts, counts, 0, false)) return NULL;
    if (!fai_copy_to_host(&found[0], counts->buffer, (size_t)(counts->offset + blocks - 1) * 8, 8, op)) return NULL;
    fa_tensor *out = fai_empty(op, FA_INT64, x->device, 2, found);
    if (!out || out->numel == 0) return fa_keep(out);
    fai_plan_view(&plan, 0, out, true);
    fai_plan_view(&plan, 2, counts, false);
    return fai_run(FAI_K_nonzero_write, &plan, (fa_tensor *const[]){out, x, counts}, 3, op) ? fa_keep(out) : NULL;
}

/* ---- what x[indices] means ---- */

typedef struct selection {
    int nindices;
    fa_tensor *index[FA_MAX_DIMS]; /* of each dimension of x; NULL: all of it */
    int ndim;                      /* of the broadcast indices */
    int64_t size[FA_MAX_DIMS];
    int first;       /* where their dimensions begin in the result */
    fai_space space; /* the result; `other` contiguous */
} selection;

/* A mask over dimensions d .. of x as index tensors, one a dimension. */
static bool add_mask(const char *op, selection *s, const fa_tensor *x, fa_tensor *mask) {
    char found[160], wanted[160];
    const int d = s->nindices;
    if (d + mask->ndim > x->ndim) return fai_fail(FA_ERR_INDEX, op, "too many indices for tensor of dimension %d", x->ndim);
    for (int i = 0; i < mask->ndim; i++) {
        if (mask->size[i] == x->size[d + i]) continue;
        fai_text_shape(found, sizeof found, mask->ndim, mask->size);
        fai_text_shape(wanted, sizeof wanted, x->ndim, x->size);
        return fai_fail(FA_ERR_INDEX, op,
                        "The shape of the mask %s at index %d does not match the shape of the indexed tensor %s at index %d",
                        found, i, wanted, d + i);
    }
    if (mask->ndim == 0)
        return fai_fail(FA_ERR_UNSUPPORTED, op,
                        "a mask of 0 dimensions is not supported as an index. Use fa_masked_select or give it a dimension.");
    fa_tensor *positions = fai_nonzero_forward(mask);
    if (!positions) return false;
    for (int i = 0; i < mask->ndim; i++) {
        const int64_t stride = mask->ndim;
        fa_tensor *column = fai_view(op, positions, 1, &positions->size[0], &stride, positions->offset + i);
        if (!column) return false;
        s->index[s->nindices++] = column;
    }
    return true;
}

/* Indices may lie on the CPU. */
static fa_tensor *beside(const char *op, const fa_tensor *x, fa_tensor *t) {
    if (fa_device_equal(t->device, x->device)) return t;
    if (!fai_on_cpu(t)) {
        fai_fail(FA_ERR_RUNTIME, op,
                 "indices should be either on cpu or on the same device as the indexed tensor (%s); found an index on %s. Move it: "
                 "fa_to(index, device)",
                 fa_device_text(x->device), fa_device_text(t->device));
        return NULL;
    }
    fa_tensor *there = fai_empty(op, (fa_dtype)t->dtype, x->device, t->ndim, t->size);
    return there && fai_copy(op, there, t) ? there : NULL;
}

static bool add_indices(const char *op, selection *s, const fa_tensor *x, fa_tensor *const *indices, int n) {
    for (int i = 0; i < n; i++) {
        fa_tensor *t = indices[i];
        if (t && !(t = beside(op, x, t))) return false;
        if (t && (t->dtype == FA_BOOL || t->dtype == FA_UINT8)) {
            if (!add_mask(op, s, x, t)) return false;
            continue;
        }
        if (t && t->dtype != FA_INT64 && t->dtype != FA_INT32)
            return fai_fail(FA_ERR_INDEX, op,
                            "tensors used as indices must be long, int, byte or bool tensors. Index %d is of dtype %s: "
                            "fa_cast(index, FA_INT64).",
                            i, fa_dtype_name((fa_dtype)t->dtype));
        if (s->nindices == x->ndim) return fai_fail(FA_ERR_INDEX, op, "too many indices for tensor of dimension %d", x->ndim);
        s->index[s->nindices++] = t;
    }
    return true;
}

static bool broadcast_indices(const char *op, selection *s) {
    char text[600] = "", one[160];
    bool fits = true;
    for (int i = 0; i < s->nindices; i++)
        if (s->index[i] && s->index[i]->ndim > s->ndim) s->ndim = s->index[i]->ndim;
    for (int d = 0; d < s->ndim; d++) s->size[d] = 1;
    for (int i = 0; i < s->nindices; i++) {
        const fa_tensor *t = s->index[i];
        for (int d = 0; t && d < t->ndim; d++) {
            int64_t *size = &s->size[s->ndim - t->ndim + d];
            if (t->size[d] != 1 && *size != 1 && t->size[d] != *size) fits = false;
            if (t->size[d] != 1) *size = t->size[d];
        }
    }
    if (fits) return true;
    for (int i = 0; i < s->nindices; i++) {
        if (!s->index[i]) continue;
        fai_text_shape(one, sizeof one, s->index[i]->ndim, s->index[i]->size);
        const size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s%s", used ? ", " : "", one);
    }
    return fai_fail(FA_ERR_INDEX, op, "shape mismatch: indexing tensors could not be broadcast together with shapes %s", text);
}

/* Where the indices' dimensions go, and the result's sizes and x's strides there. */
static bool lay_out(const char *op, selection *s, const fa_tensor *x) {
    int count = 0, first = -1, last = -1;
    for (int d = 0; d < s->nindices; d++)
        if (s->index[d]) {
            if (first < 0) first = d;
            last = d;
            count++;
        }
    s->first = count && last - first + 1 == count ? first : 0;
    fai_space *r = &s->space;
    if (x->ndim - count + s->ndim > FA_MAX_DIMS)
        return fai_fail(FA_ERR_RUNTIME, op, "the result would have %d dimensions; at most %d are possible",
                        x->ndim - count + s->ndim, FA_MAX_DIMS);
    for (int d = 0; d <= x->ndim; d++) {
        if (r->ndim == s->first && count) {
            for (int k = 0; k < s->ndim; k++) r->size[r->ndim + k] = s->size[k], r->indexed[r->ndim + k] = 0;
            r->ndim += s->ndim;
            count = 0;
        }
        if (d == x->ndim || (d < s->nindices && s->index[d])) continue;
        r->size[r->ndim] = x->size[d];
        r->indexed[r->ndim++] = x->stride[d];
    }
    fai_contiguous_strides(r->ndim, r->size, r->other);
    return true;
}

/* An index into nothing is bad also where the result has no elements for another reason, so that no kernel meets it. */
static bool check_empty(const char *op, const selection *s, const fa_tensor *x) {
    for (int d = 0; d < s->ndim; d++)
        if (s->size[d] == 0) return true;
    for (int d = 0; d < s->nindices; d++)
        if (s->index[d] && x->size[d] == 0) return fai_fail_nothing(op, d);
    return true;
}

static bool select_places(const char *op, selection *s, const fa_tensor *x, fa_tensor *const *indices, int n) {
    *s = (selection){0};
    return add_indices(op, s, x, indices, n) && broadcast_indices(op, s) && check_empty(op, s, x) && lay_out(op, s, x);
}

/* Strides of t over the broadcast sizes. */
static void broadcast_strides(const selection *s, const fa_tensor *t, int64_t *stride) {
    for (int d = 0; d < s->ndim; d++) {
        const int own = d - (s->ndim - t->ndim);
        stride[d] = own < 0 || t->size[own] == 1 ? 0 : t->stride[own];
    }
}

/* All indices as one tensor of checked offsets into x. */
static fa_tensor *joined_offsets(const char *op, const selection *s, const fa_tensor *x) {
    fa_tensor *out = fai_empty(op, FA_INT64, x->device, s->ndim, s->size);
    bool add = false;
    for (int d = 0; out && d < s->nindices; d++) {
        if (!s->index[d]) continue;
        const fai_place place = {x->size[d], x->stride[d], d, FA_STATUS_INDEX, false};
        int64_t stride[FA_MAX_DIMS];
        broadcast_strides(s, s->index[d], stride);
        if (!fai_index_offsets(op, out, s->index[d], stride, &place, add, NULL)) return NULL;
        add = true;
    }
    return out;
}

/* Reads or writes; one index is used as it is, several are joined. */
static bool run_selection(const char *op, bool writes, selection *s, fa_tensor *x, fa_tensor *other) {
    int count = 0, only = 0;
    for (int d = 0; d < s->nindices; d++)
        if (s->index[d]) only = d, count++;
    fa_tensor *index = count == 1 ? s->index[only] : joined_offsets(op, s, x);
    if (!index) return false;
    for (int d = 0; d < s->ndim; d++) s->space.index[s->first + d] = index->stride[d];
    const fai_place place = {x->size[only], x->stride[only], only, FA_STATUS_INDEX, false};
    return fai_index_run(op, writes, x, other, index, &s->space, count == 1 ? &place : NULL);
}

static bool selects_nothing(const selection *s) {
    for (int d = 0; d < s->nindices; d++)
        if (s->index[d]) return false;
    return true;
}

fa_tensor *fai_index_forward(fa_tensor *x, fa_tensor *const *indices, int nindices) {
    selection s;
    FA_SCOPE;
    if (!select_places("index", &s, x, indices, nindices)) return NULL;
    if (selects_nothing(&s)) return fa_keep(fai_copied("index", x));
    fa_tensor *out = fai_empty("index", (fa_dtype)x->dtype, x->device, s.space.ndim, s.space.size);
    return out && run_selection("index", false, &s, x, out) ? fa_keep(out) : NULL;
}

/* ---- writing ---- */

/* values seen in the result's shape; space.other takes its strides. */
static bool spread_values(selection *s, const fa_tensor *values) {
    char found[160], wanted[160];
    fai_space *r = &s->space;
    bool fits = true;
    for (int d = 0; fits && d < values->ndim - r->ndim; d++) fits = values->size[d] == 1;
    for (int d = 0; fits && d < r->ndim; d++) {
        const int own = d - (r->ndim - values->ndim);
        fits = own < 0 || values->size[own] == 1 || values->size[own] == r->size[d];
        r->other[d] = own < 0 || values->size[own] == 1 ? 0 : values->stride[own];
    }
    if (fits) return true;
    fai_text_shape(found, sizeof found, values->ndim, values->size);
    fai_text_shape(wanted, sizeof wanted, r->ndim, r->size);
    return fai_fail(FA_ERR_RUNTIME, "index_put",
                    "shape mismatch: value tensor of shape %s cannot be broadcast to indexing result of shape %s", found, wanted);
}

static bool accumulate_values(selection *s, fa_tensor *out, fa_tensor *values) {
    const char *op = "index_put";
    const fai_space *r = &s->space;
    fa_tensor *keys = joined_offsets(op, s, out), *spread = fai_view(op, values, r->ndim, r->size, r->other, values->offset);
    fai_columns columns = {.ndim = 0};
    int64_t step = 1;
    if (!keys || !spread || !(spread = fai_contiguous(op, spread))) return false;
    for (int d = 0; d < r->ndim; d++) {
        if (d >= s->first && d < s->first + s->ndim) continue;
        columns.size[columns.ndim] = r->size[d];
        columns.out[columns.ndim] = r->indexed[d], columns.src[columns.ndim] = spread->stride[d];
        columns.ndim++;
    }
    for (int d = s->first + s->ndim; d < r->ndim; d++) step *= r->size[d];
    return fai_accumulate(op, out, spread, keys, &columns, step, 1, -1, out->numel);
}

/* The only index if it is a mask where x is, seen in x's shape; else NULL. */
static fa_tensor *only_mask(const fa_tensor *x, fa_tensor *const *indices, int n) {
    fa_tensor *mask = NULL;
    int at = 0, first = 0;
    for (int i = 0; i < n; i++) {
        fa_tensor *t = indices[i];
        if (t && (mask || (t->dtype != FA_BOOL && t->dtype != FA_UINT8) || t->ndim == 0 || !fa_device_equal(t->device, x->device))) return NULL;
        if (t) mask = t, first = at;
        at += t ? t->ndim : 1;
    }
    if (!mask || at > x->ndim) return NULL;
    int64_t stride[FA_MAX_DIMS] = {0};
    for (int d = 0; d < mask->ndim; d++) {
        if (mask->size[d] != x->size[first + d]) return NULL;
        stride[first + d] = mask->stride[d];
    }
    return fai_view("index_put", mask, x->ndim, x->size, stride, mask->offset);
}

fa_tensor *fai_index_put_forward(fa_tensor *x, fa_tensor *const *indices, int nindices, fa_tensor *values, bool accumulate) {
    selection s;
    if (x->dtype != values->dtype)
        return fai_fail(
            FA_ERR_RUNTIME, "index_put",
            "Index put requires the source and destination dtypes match, got %s for the destination and %s for the source.",
            fai_dtype_title((fa_dtype)x->dtype), fai_dtype_title((fa_dtype)values->dtype));
    FA_SCOPE;
    fa_tensor *mask = values->numel == 1 && values->ndim == 0 && !accumulate ? only_mask(x, indices, nindices) : NULL;
    if (mask) { /* nobody has to know how many places it has */
        const fai_operand operands[3] = {{.tensor = x}, {.tensor = mask}, {.tensor = values}};
        return fa_keep(fai_row_raw("index_put", FAI_ROW_masked_fill, 3, operands, NULL, (fa_dtype)x->dtype));
    }
    if (fa_failed()) return NULL;
    fa_tensor *out = fai_copied("index_put", x);
    if (!out || !select_places("index_put", &s, out, indices, nindices) || !spread_values(&s, values)) return NULL;
    if (selects_nothing(&s)) {
        fa_tensor *whole = fai_view("index_put", values, s.space.ndim, s.space.size, s.space.other, values->offset);
        if (!whole) return NULL;
        if (!accumulate) return fai_copy("index_put", out, whole) ? fa_keep(out) : NULL;
        const fai_operand operands[2] = {{.tensor = out}, {.tensor = whole}};
        return fa_keep(fai_row_raw("index_put", FAI_ROW_add, 2, operands, NULL, (fa_dtype)x->dtype));
    }
    for (int d = 0; d < s.space.ndim; d++)
        if (s.space.size[d] == 0) return fa_keep(out);
    const bool done = accumulate ? accumulate_values(&s, out, values) : run_selection("index_put", true, &s, out, values);
    return done ? fa_keep(out) : NULL;
}
