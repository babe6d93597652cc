/* Attention in one go: shapes, the plan (kernels/attention.k.h), float16 and bfloat16 by way of float32. Results and
 * gradients lie in memory as [b, l, h, e], so that what joins the heads again, transpose and reshape, moves nothing. */
#include "attention.h"
#include "ops_gen.h"
#include <math.h>

static const char *const OP = "attention";
enum { DEVICE_WIDTH = 256 };

bool fai_attention_fits(const fa_tensor *query, const fa_tensor *value) {
    if (fai_on_cpu(query)) return true;
    return query->size[query->ndim - 1] <= DEVICE_WIDTH && value->size[value->ndim - 1] <= DEVICE_WIDTH;
}

static bool shapes_fit(const fa_tensor *q, const fa_tensor *k, const fa_tensor *v) {
    char a[96], b[96], c[96];
    const bool four = q->ndim == 4 && k->ndim == 4 && v->ndim == 4;
    if (four && q->size[0] == k->size[0] && q->size[0] == v->size[0] && q->size[1] == k->size[1] && q->size[1] == v->size[1] &&
        q->size[3] == k->size[3] && k->size[2] == v->size[2])
        return true;
    fai_text_shape(a, sizeof a, q->ndim, q->size);
    fai_text_shape(b, sizeof b, k->ndim, k->size);
    fai_text_shape(c, sizeof c, v->ndim, v->size);
    return fai_fail(FA_ERR_RUNTIME, OP,
                    "query [b, h, l, e], key [b, h, s, e] and value [b, h, s, v] are needed, found %s, %s and %s", a, b, c);
}

/* Of the type that is computed in, the last dimension without gaps. */
static fa_tensor *readable(fa_tensor *t) {
    const bool narrow = t->dtype == FA_FLOAT16 || t->dtype == FA_BFLOAT16;
    t = fai_cast(OP, t, narrow ? FA_FLOAT32 : (fa_dtype)t->dtype);
    return t && t->stride[3] != 1 && t->size[3] > 1 ? fai_contiguous(OP, t) : t;
}

/* [b, h, l, e] with memory in the order b, l, h, e. */
static fa_tensor *by_rows(fa_dtype dtype, fa_device device, int64_t b, int64_t h, int64_t l, int64_t e) {
    const int64_t size[4] = {b, h, l, e}, stride[4] = {l * h * e, e, h * e, 1};
    return fai_empty_strided(OP, dtype, device, 4, size, stride);
}

static void sizes(fa_plan *plan, const fa_tensor *q, const fa_tensor *v, bool is_causal, double scale) {
    const int64_t n[7] = {q->size[0], q->size[1], q->size[2], v->size[2], q->size[3], v->size[3], is_causal};
    for (int i = 0; i < 7; i++) plan->n[i] = n[i];
    plan->f[0] = scale;
}

/* The mask as [b, h, l, s], expanded. */
static bool spread_mask(fa_tensor **mask, const fa_tensor *q, const fa_tensor *v) {
    const int64_t size[4] = {q->size[0], q->size[1], q->size[2], v->size[2]};
    fa_tensor *m = *mask;
    int64_t stride[4] = {0};
    if (!m) return true;
    bool fits = m->ndim <= 4;
    for (int d = 0; fits && d < m->ndim; d++) {
        const int at = 4 - m->ndim + d;
        fits = m->size[d] == 1 || m->size[d] == size[at];
        stride[at] = m->size[d] == 1 ? 0 : m->stride[d];
    }
    if (fits) return (*mask = fai_view(OP, m, 4, size, stride, m->offset)) != NULL;
    char found[96], needed[96];
    fai_text_shape(found, sizeof found, m->ndim, m->size);
    fai_text_shape(needed, sizeof needed, 4, size);
    return fai_fail(FA_ERR_RUNTIME, OP, "the mask's shape %s does not expand to %s", found, needed);
}

static bool launch(int kernel, fa_plan *plan, fa_tensor *const *operands, int n, int written) {
    for (int k = 0; k < n; k++)
        if (operands[k]) fai_plan_view(plan, k, operands[k], k < written);
    plan->nviews = n;
    return fai_run(kernel + fai_compute(operands[0]->dtype), plan, operands, n, OP);
}

fa_tensor *fai_attention_forward(fa_tensor *query, fa_tensor *key, fa_tensor *value, fa_tensor *mask, bool is_causal,
                                 double scale, fa_tensor **lse) {
    if (!fai_check_dtype(OP, "query", query, fai_is_float(query->dtype), "floating") || !shapes_fit(query, key, value))
        return NULL;
    if (query->dtype != key->dtype || query->dtype != value->dtype)
        return fai_fail(FA_ERR_RUNTIME, OP, "query, key and value must be of one type, found %s, %s and %s",
                        fa_dtype_name((fa_dtype)query->dtype), fa_dtype_name((fa_dtype)key->dtype),
                        fa_dtype_name((fa_dtype)value->dtype));
    if (!fai_attention_fits(query, value))
        return fai_fail(FA_ERR_UNSUPPORTED, OP, "on a device the last sizes are at most %d", DEVICE_WIDTH);
    FA_SCOPE;
    const fa_dtype dtype = (fa_dtype)query->dtype;
    fa_tensor *q = readable(query), *k = readable(key), *v = readable(value);
    if (!q || !k || !v || !spread_mask(&mask, q, v)) return NULL;
    const int64_t b = q->size[0], h = q->size[1], l = q->size[2], stat[3] = {b, h, l};
    fa_tensor *out = by_rows((fa_dtype)q->dtype, q->device, b, h, l, v->size[3]),
              *logs = fai_empty(OP, (fa_dtype)q->dtype, q->device, 3, stat);
    if (!out || !logs) return NULL;
    if (v->size[2] == 0 && (!fai_zero(OP, out) || !fai_fill_scalar(OP, logs, fa_scalar_of_float(INFINITY)))) return NULL;
    if (out->numel > 0 && v->size[2] > 0) {
        fa_plan plan;
        fai_plan_begin(&plan);
        sizes(&plan, q, v, is_causal, scale);
        plan.numel = out->numel;
        plan.groups = b * h * ((l + 15) / 16);
        if (!launch(FAI_K_attention_f32, &plan, (fa_tensor *const[]){out, logs, q, k, v, mask}, 6, 2)) return NULL;
    }
    *lse = fa_keep(logs);
    return fa_keep(fai_cast(OP, out, dtype));
}

bool fai_attention_grads(fa_tensor *g, fa_tensor *query, fa_tensor *key, fa_tensor *value, fa_tensor *mask, fa_tensor *result,
                         fa_tensor *lse, bool is_causal, double scale, fa_tensor *grads[3]) {
    FA_SCOPE;
    const fa_dtype dtype = (fa_dtype)query->dtype;
    fa_tensor *q = readable(query), *k = readable(key), *v = readable(value), *out = readable(result), *in = readable(g);
    if (!q || !k || !v || !out || !in || !spread_mask(&mask, q, v)) return false;
    const int64_t b = q->size[0], h = q->size[1], l = q->size[2], s = v->size[2], e = q->size[3], ev = v->size[3];
    const int64_t length[3] = {l, s, s}, width[3] = {e, e, ev}, numel = b * h * (l * e + s * e + s * ev);
    fa_tensor *all = fai_empty(OP, (fa_dtype)q->dtype, q->device, 1, &numel);
    if (!all) return false;
    if (b * h * l * s * ev == 0 && !fai_zero(OP, all)) return false;
    if (b * h * l * s * ev > 0) {
        fa_plan plan;
        fai_plan_begin(&plan);
        sizes(&plan, q, v, is_causal, scale);
        plan.numel = numel;
        plan.groups = b * h * ((l + 15) / 16 + (s + 15) / 16);
        if (!launch(FAI_K_attention_backward_f32, &plan, (fa_tensor *const[]){all, q, k, v, mask, in, out, lse}, 8, 1))
            return false;
    }
    int64_t at = 0;
    for (int i = 0; i < 3; i++) {
        const int64_t size[4] = {b, h, length[i], width[i]}, stride[4] = {length[i] * h * width[i], width[i], h * width[i], 1};
        fa_tensor *part = fai_view(OP, all, 4, size, stride, all->offset + at);
        if (!part || !(grads[i] = fai_cast(OP, part, dtype))) return false;
        at += b * h * length[i] * width[i];
    }
    for (int i = 0; i < 3; i++) fa_keep(grads[i]);
    return true;
}
