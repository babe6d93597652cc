/* Adding by index: scatter_add, index_add, the derivative of embedding, and what index_put does with accumulation.
 *
 * Every element of the result takes what is added to it in the order of the positions (kernels/accumulate.k.h). On the CPU that
 * is a loop over the positions. On a device the keys are sorted first, stably, by a radix sort of three launches for 4 bits
 * (kernels/sort.k.h), and a run of equal keys is summed by whoever finds its beginning. */
#include "index.h"
#include "scan.h"
#include "ops_gen.h"

enum { FEW = 32 }; /* keys that are not worth sorting */

/* ---- sorting ---- */

typedef struct sorting {
    fa_tensor *keys[2], *order[2], *counts, *sums;
    int64_t n, blocks;
} sorting;

/* One digit: keys and order of `from` go to `to`. */
static bool sort_digit(const char *op, const sorting *s, fa_tensor *from_keys, fa_tensor *from_order, int to, int shift) {
    fa_plan plan;
    fa_tensor *counting[2] = {s->counts, from_keys};
    fai_plan_begin(&plan);
    fai_plan_view(&plan, 0, s->counts, true);
    fai_plan_view(&plan, 1, from_keys, false);
    plan.n[0] = s->n, plan.n[1] = shift;
    plan.groups = s->blocks;
    if (!fai_run(FAI_K_sort_count, &plan, counting, 2, op) || !fai_scan(op, s->sums, s->counts, 0, false)) return false;
    fa_tensor *moving[5] = {s->keys[to], s->order[to], from_keys, from_order, s->sums};
    for (int k = 0; k < 5; k++)
        if (moving[k]) fai_plan_view(&plan, k, moving[k], k < 2);
    plan.nviews = 5;
    return fai_run(FAI_K_sort_scatter, &plan, moving, 5, op);
}

/* Sorts the int64 vector of keys, all in [0, bound). */
static bool sort_keys(const char *op, fa_tensor *keys, int64_t bound, fa_tensor **sorted, fa_tensor **order) {
    sorting s = {.n = keys->numel, .blocks = fai_groups(keys->numel, 1024)};
    const int64_t cells = 16 * s.blocks;
    for (int i = 0; i < 2; i++) {
        s.keys[i] = fai_empty(op, FA_INT64, keys->device, 1, &s.n);
        s.order[i] = fai_empty(op, FA_INT64, keys->device, 1, &s.n);
        if (!s.keys[i] || !s.order[i]) return false;
    }
    s.counts = fai_empty(op, FA_INT64, keys->device, 1, &cells);
    s.sums = fai_empty(op, FA_INT64, keys->device, 1, &cells);
    if (!s.counts || !s.sums) return false;
    int shift = 0, to = 0;
    fa_tensor *from_keys = keys, *from_order = NULL;
    do {
        if (!sort_digit(op, &s, from_keys, from_order, to, shift)) return false;
        from_keys = s.keys[to], from_order = s.order[to];
        to = 1 - to, shift += 4;
    } while (shift < 63 && (bound - 1) >> shift > 0);
    *sorted = from_keys;
    *order = from_order;
    return true;
}

/* ---- accumulation ---- */

static bool accumulate(const char *op, fa_tensor *out, fa_tensor *src, fa_tensor *keys, fa_tensor *order, const fai_columns *c,
                       const int64_t numbers[4]) {
    fa_tensor *operands[4] = {out, src, keys, order};
    fa_plan plan;
    fai_plan_begin(&plan);
    for (int k = 0; k < 4; k++)
        if (operands[k]) fai_plan_view(&plan, k, operands[k], k == 0);
    plan.view[0].ndim = plan.view[1].ndim = c->ndim;
    plan.n[0] = keys->numel, plan.n[1] = 1;
    for (int d = 0; d < c->ndim; d++) {
        plan.view[0].size[d] = plan.view[1].size[d] = c->size[d];
        plan.view[0].stride[d] = c->out[d], plan.view[1].stride[d] = c->src[d];
        plan.n[1] *= c->size[d];
    }
    plan.n[2] = numbers[0], plan.n[3] = numbers[1], plan.n[4] = numbers[2], plan.n[5] = numbers[3];
    if (plan.n[1] == 0) return true;
    plan.numel = plan.n[0] * plan.n[1];
    plan.groups = fai_groups(order ? plan.numel : plan.n[1], 256);
    return fai_run(FAI_K_index_accumulate_f32 + fai_compute(out->dtype), &plan, operands, 4, op);
}

static bool accumulate_by(const char *op, fa_tensor *out, fa_tensor *src, fa_tensor *keys, const fai_columns *columns,
                          const int64_t numbers[4], int64_t bound) {
    const bool rounds = out->dtype == FA_FLOAT16 || out->dtype == FA_BFLOAT16; /* every sum is made in float32 and rounded once */
    fa_tensor *sorted, *order;
    if (keys->numel == 0) return true;
    if (fai_on_cpu(out)) {
        if (!rounds) return accumulate(op, out, src, keys, NULL, columns, numbers);
        fa_tensor *wide = fai_cast(op, out, FA_FLOAT32);
        return wide && accumulate(op, wide, src, keys, NULL, columns, numbers) && fai_copy(op, out, wide);
    }
    if (keys->numel <= FEW && !rounds) return accumulate(op, out, src, keys, NULL, columns, numbers);
    return sort_keys(op, keys, bound, &sorted, &order) && accumulate(op, out, src, sorted, order, columns, numbers);
}

bool fai_accumulate(const char *op, fa_tensor *out, fa_tensor *src, fa_tensor *keys, const fai_columns *columns, int64_t src_step,
                    int64_t out_step, int64_t skip, int64_t bound) {
    return accumulate_by(op, out, src, keys, columns, (const int64_t[4]){src_step, out_step, skip, 0}, bound);
}

/* ---- operators ---- */

/* how: 0 added, 1 multiplied, 2 the largest, 3 the smallest (kernels/accumulate.k.h). */
static fa_tensor *scatter_by(const char *op, fa_tensor *x, int64_t dim, fa_tensor *index, fa_tensor *src, int how) {
    int at;
    if (!fai_wrap_dim(op, dim, x->ndim, &at) || !fai_check_same_type(op, x, src)) return NULL;
    FA_SCOPE;
    fa_tensor *out = fai_copied(op, x), *line = fai_at_least_1d(op, out), *places = fai_at_least_1d(op, index),
              *from = fai_at_least_1d(op, src);
    if (!line || !places || !from || !fai_check_gather(op, line, at, places, from)) return NULL;
    if (index->numel == 0) return fa_keep(out);
    const fai_place place = {line->size[at], line->stride[at], at, FA_STATUS_PLACE, true};
    const fai_columns one = {.ndim = 0};
    int64_t base[FA_MAX_DIMS];
    for (int d = 0; d < line->ndim; d++) base[d] = d == at ? 0 : line->stride[d];
    fa_tensor *keys = fai_empty(op, FA_INT64, x->device, places->ndim, places->size);
    fa_tensor *part = fai_view(op, from, places->ndim, places->size, from->stride, from->offset);
    if (!keys || !part || !(part = fai_contiguous(op, part))) return NULL;
    if (!fai_index_offsets(op, keys, places, places->stride, &place, false, base)) return NULL;
    return accumulate_by(op, line, part, keys, &one, (const int64_t[4]){1, 1, -1, how}, line->numel) ? fa_keep(out) : NULL;
}

fa_tensor *fai_scatter_add_forward(fa_tensor *x, int64_t dim, fa_tensor *index, fa_tensor *src) {
    return scatter_by("scatter_add", x, dim, index, src, 0);
}
fa_tensor *fai_scatter_join_forward(fa_tensor *x, int64_t dim, fa_tensor *index, fa_tensor *src, int64_t how) {
    if (how < 1 || how > 3)
        return fai_fail(FA_ERR_VALUE, "scatter_join", "argument 'how' is %lld; 1 multiplies, 2 takes the largest, 3 the smallest", (long long)how);
    return scatter_by("scatter_reduce", x, dim, index, src, (int)how);
}

/* The checked rows that a vector or any index tensor names, as int64 without gaps. */
static fa_tensor *row_numbers(const char *op, fa_tensor *index, int64_t size, int dim, int kind) {
    const fai_place place = {size, 1, dim, kind, true};
    fa_tensor *keys = fai_empty(op, FA_INT64, index->device, index->ndim, index->size);
    return keys && fai_index_offsets(op, keys, index, index->stride, &place, false, NULL) ? keys : NULL;
}

static bool check_slices(const fa_tensor *x, int dim, const fa_tensor *index, const fa_tensor *src) {
    char found[160], wanted[160];
    bool fits = src->ndim == x->ndim && index->ndim <= 1;
    for (int d = 0; fits && d < x->ndim; d++) fits = src->size[d] == (d == dim ? index->numel : x->size[d]);
    if (fits) return true;
    fai_text_shape(found, sizeof found, src->ndim, src->size);
    fai_text_shape(wanted, sizeof wanted, x->ndim, x->size);
    return fai_fail(FA_ERR_RUNTIME, "index_add",
                    "source tensor shape must match self tensor shape, excluding the specified dimension. Got self.shape = %s "
                    "source.shape = %s, dimension %d and "
                    "an index of %d dimensions with %lld entries",
                    wanted, found, dim, index->ndim, (long long)index->numel);
}

fa_tensor *fai_index_add_forward(fa_tensor *x, int64_t dim, fa_tensor *index, fa_tensor *src) {
    const char *op = "index_add";
    int at;
    if (!fai_wrap_dim(op, dim, x->ndim, &at) || !fai_check_index(op, index) || !fai_check_same_type(op, x, src)) return NULL;
    FA_SCOPE;
    fa_tensor *out = fai_copied(op, x), *line = fai_at_least_1d(op, out), *from = fai_at_least_1d(op, src);
    if (!line || !from || !check_slices(line, at, index, from)) return NULL;
    fa_tensor *keys = row_numbers(op, index, line->size[at], at, line->ndim == 2 ? FA_STATUS_PLACE : FA_STATUS_SELF); /* torch's words */
    if (!keys) return NULL;
    fai_columns columns = {.ndim = 0};
    for (int d = 0; d < line->ndim; d++) {
        if (d == at) continue;
        columns.size[columns.ndim] = line->size[d];
        columns.out[columns.ndim] = line->stride[d], columns.src[columns.ndim] = from->stride[d];
        columns.ndim++;
    }
    return fai_accumulate(op, line, from, keys, &columns, from->stride[at], line->stride[at], -1, line->size[at]) ? fa_keep(out)
                                                                                                                  : NULL;
}

fa_tensor *fai_embedding_backward_forward(fa_tensor *g_out, fa_tensor *index, fa_shape shape, int64_t padding_idx) {
    const char *op = "embedding_backward";
    if (shape.ndim != 2 || g_out->numel != index->numel * shape.dim[1])
        return fai_fail(FA_ERR_RUNTIME, op, "the gradient has %lld elements; %lld indices into rows of %lld were expected",
                        (long long)g_out->numel, (long long)index->numel, shape.ndim == 2 ? (long long)shape.dim[1] : 0LL);
    FA_SCOPE;
    fa_tensor *out = fai_empty(op, (fa_dtype)g_out->dtype, g_out->device, 2, shape.dim);
    if (!out || !fai_zero(op, out)) return NULL;
    if (g_out->numel == 0) return fa_keep(out);
    fa_tensor *keys = row_numbers(op, index, shape.dim[0], 0, FA_STATUS_SELF), *g = fai_contiguous(op, g_out);
    const fai_columns columns = {.ndim = 1, .size = {shape.dim[1]}, .out = {1}, .src = {1}};
    if (!keys || !g) return NULL;
    return fai_accumulate(op, out, g, keys, &columns, shape.dim[1], shape.dim[1], padding_idx, shape.dim[0]) ? fa_keep(out)
                                                                                                             : NULL;
}
