/* Attention: fa_scaled_dot_product_attention with torch's checks; the fused operator where it can serve, else the same in
 * steps, which dropout, masks that need a gradient and derivatives of higher order go through. */
#include "composite.h"
#include "ops/attention.h"
#include <math.h>

static const char *const OP = "scaled_dot_product_attention";

/* ---- in steps ---- */

/* Rows in which nothing may be looked at become 0, not NaN. */
static fa_tensor *safe_softmax(fa_tensor *scores, bool masked) {
    if (!masked) return fa_softmax(scores, -1);
    fa_tensor *empty = fa_all_dims(fai_equals(scores, -INFINITY), FA_DIMS(-1), true);
    return fai_choose(fa_logical_not(empty), fa_softmax(fai_choose(fa_logical_not(empty), scores, 0), -1), 0);
}

static fa_tensor *lower_triangle(int64_t l, int64_t s, fa_device device) {
    FA_NO_GRAD;
    return fa_tril(fa_ones(FA_SHAPE(l, s), .dtype = FA_BOOL, .device = device), 0);
}

/* weights, if wanted: after dropout, as they are multiplied. */
static fa_tensor *in_steps(fa_tensor *q, fa_tensor *k, fa_tensor *v, fa_tensor *mask, double dropout_p, bool is_causal,
                           double scale) {
    fa_tensor *scores = fa_matmul(fai_multiply(q, scale), fa_transpose(k, -2, -1));
    if (is_causal && scores)
        scores = fai_choose(lower_triangle(q->size[q->ndim - 2], k->size[k->ndim - 2], q->device), scores, -INFINITY);
    if (mask) scores = mask->dtype == FA_BOOL ? fai_choose(mask, scores, -INFINITY) : fa_add(scores, mask);
    fa_tensor *weights = scores ? safe_softmax(scores, mask != NULL) : NULL;
    return fa_matmul(fa_dropout(weights, dropout_p, true), v);
}

/* ---- the fused operator's derivative ---- */

bool fai_attention_backward(fai_node *node, fa_tensor *g, fa_tensor **grads) {
    enum { QUERY, KEY, VALUE, MASK, RESULT, LSE, KEPT };
    const fai_attention_params *p = node->params;
    fa_tensor *kept[KEPT], *made[3] = {NULL}, *towards[3];
    int which[3], n = 0;
    for (int i = 0; i < KEPT; i++) {
        kept[i] = fai_node_kept(node, i);
        if (!kept[i] && (i != MASK || fa_failed())) return false;
    }
    if (!fai_recording()) {
        if (!fai_attention_grads(g, kept[QUERY], kept[KEY], kept[VALUE], kept[MASK], kept[RESULT], kept[LSE], p->is_causal,
                                 p->scale, made))
            return false;
        for (int i = 0; i < 3; i++) grads[i] = fai_node_needs(node, i) ? made[i] : NULL;
        return true;
    }
    for (int i = 0; i < 3; i++) { /* aliases: what is asked for is the derivative towards each operand alone */
        if (!(kept[i] = fa_alias(kept[i]))) return false;
        if (fai_node_needs(node, i)) towards[n] = kept[i], which[n++] = i;
    }
    fa_tensor *again = in_steps(kept[QUERY], kept[KEY], kept[VALUE], kept[MASK], 0, p->is_causal, p->scale);
    if (!again || !fa_grad_of(&again, 1, towards, n, made, .grad_outputs = &g, .create_graph = true, .allow_unused = true))
        return false;
    for (int i = 0; i < n; i++) grads[which[i]] = made[i];
    return true;
}

/* ---- the public function ---- */

/* As torch's message names types. */
static const char *c_type(const fa_tensor *t) {
    static const char *const names[FA_DTYPE_COUNT] = {"",     "bool",      "unsigned char", "signed char", "short", "int",
                                                      "long", "c10::Half", "c10::BFloat16", "float",       "double"};
    return names[t->dtype];
}

static bool types_fit(const fa_tensor *q, const fa_tensor *k, const fa_tensor *v, const fa_tensor *mask) {
    if (q->dtype != k->dtype || q->dtype != v->dtype)
        return fai_fail(FA_ERR_RUNTIME, OP,
                        "Expected query, key, and value to have the same dtype, but got query.dtype: %s key.dtype: %s and "
                        "value.dtype: %s instead.",
                        c_type(q), c_type(k), c_type(v));
    if (q->ndim < 2 || k->ndim < 2 || v->ndim < 2)
        return fai_fail(FA_ERR_RUNTIME, OP,
                        "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: %d key.dim: %d and "
                        "value.dim: %d instead.",
                        q->ndim, k->ndim, v->ndim);
    if (!fai_is_float(q->dtype))
        return fai_fail(FA_ERR_RUNTIME, OP,
                        "expected scalar type Float but found %s. Attention takes floating tensors: fa_cast(query, FA_FLOAT32)",
                        fai_dtype_title((fa_dtype)q->dtype));
    if (mask && mask->dtype != FA_BOOL && mask->dtype != q->dtype && mask->dtype != FA_FLOAT32)
        return fai_fail(FA_ERR_RUNTIME, OP,
                        "Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: %s and  "
                        "query.dtype: %s instead.",
                        c_type(mask), c_type(q));
    return true;
}

static bool sizes_fit(const fa_tensor *q, const fa_tensor *k, const fa_tensor *v) {
    if (q->size[q->ndim - 1] != k->size[k->ndim - 1])
        return fai_fail(FA_ERR_RUNTIME, OP, "the last sizes of query and key must be the same, found %lld and %lld",
                        (long long)q->size[q->ndim - 1], (long long)k->size[k->ndim - 1]);
    return k->size[k->ndim - 2] == v->size[v->ndim - 2] ||
           fai_fail(FA_ERR_RUNTIME, OP, "key has %lld rows and value %lld: they must be as many", (long long)k->size[k->ndim - 2],
                    (long long)v->size[v->ndim - 2]);
}

/* Heads of key and value repeated to as many as query has. */
static bool repeat_heads(const fa_tensor *q, fa_tensor **k, fa_tensor **v) {
    if (q->ndim < 3 || (*k)->ndim < 3 || (*v)->ndim < 3)
        return fai_fail(
            FA_ERR_RUNTIME, OP,
            "enable_gqa needs a dimension of heads before the last two: query, key and value have %d, %d and %d dimensions",
            q->ndim, (*k)->ndim, (*v)->ndim);
    const int64_t heads = q->size[q->ndim - 3], of_k = (*k)->size[(*k)->ndim - 3], of_v = (*v)->size[(*v)->ndim - 3];
    if (of_k == 0 || of_v == 0 || heads % of_k || heads % of_v)
        return fai_fail(FA_ERR_RUNTIME, OP,
                        "Number of heads in key and value must divide the number of heads in query: found %lld and %lld for %lld",
                        (long long)of_k, (long long)of_v, (long long)heads);
    if (of_k != heads) *k = fa_repeat_interleave(*k, heads / of_k, -3);
    if (of_v != heads) *v = fa_repeat_interleave(*v, heads / of_v, -3);
    return *k && *v;
}

/* The leading dimensions of all three, broadcast. */
static bool leading_shape(const fa_tensor *q, const fa_tensor *k, const fa_tensor *v, fa_shape *lead) {
    fa_tensor parts[3] = {*q, *k, *v};
    for (int i = 0; i < 3; i++) parts[i].ndim -= 2;
    int ndim;
    if (!fai_broadcast(OP, 3, (const fa_tensor *const[]){&parts[0], &parts[1], &parts[2]}, &ndim, lead->dim)) return false;
    lead->ndim = ndim;
    return true;
}

/* [..., n, e] as [b, h, n, e] */
static fa_tensor *four_dims(fa_tensor *t, fa_shape lead) {
    fa_shape full = lead, four = {.ndim = 4, .dim = {1, 1, t->size[t->ndim - 2], t->size[t->ndim - 1]}};
    full.dim[full.ndim++] = four.dim[2], full.dim[full.ndim++] = four.dim[3];
    for (int d = 0; d < lead.ndim; d++) four.dim[d == lead.ndim - 1] *= lead.dim[d];
    t = fa_expand(t, full);
    return lead.ndim == 2 ? t : fa_reshape(t, four);
}

/* A mask of [..., l, s] as [b, h, l, s], not expanded where that needs no copy. */
static fa_tensor *mask_four(fa_tensor *mask, fa_shape lead, int64_t l, int64_t s) {
    if (mask->ndim <= 2 || lead.ndim == 2) return mask;
    fa_shape full = lead;
    full.dim[full.ndim++] = l, full.dim[full.ndim++] = s;
    mask = fa_expand(mask, full);
    return mask ? four_dims(mask, lead) : NULL;
}

static fa_tensor *fused(fa_tensor *q, fa_tensor *k, fa_tensor *v, fa_tensor *mask, bool is_causal, double scale, fa_shape lead) {
    fa_shape out = lead;
    const int64_t l = q->size[q->ndim - 2], s = k->size[k->ndim - 2];
    out.dim[out.ndim++] = l, out.dim[out.ndim++] = v->size[v->ndim - 1];
    fa_tensor *q4 = four_dims(q, lead), *k4 = four_dims(k, lead), *v4 = four_dims(v, lead);
    if (mask && !(mask = mask_four(mask, lead, l, s))) return NULL;
    fa_tensor *y = fa_attention(q4, k4, v4, mask, is_causal, scale);
    return lead.ndim == 2 ? y : fa_reshape(y, out);
}

/* What a mask may expand to: refused with torch's sentence. */
static bool mask_expands(const fa_tensor *mask, fa_shape lead, int64_t l, int64_t s) {
    fa_tensor scores = {.ndim = (uint8_t)(lead.ndim + 2)};
    int ndim;
    int64_t size[FA_MAX_DIMS];
    for (int d = 0; d < lead.ndim; d++) scores.size[d] = lead.dim[d];
    scores.size[lead.ndim] = l, scores.size[lead.ndim + 1] = s;
    if (!fai_broadcast(OP, 2, (const fa_tensor *const[]){&scores, mask}, &ndim, size)) return false;
    bool same = ndim == scores.ndim;
    for (int d = 0; same && d < ndim; d++) same = size[d] == scores.size[d];
    char found[96], needed[96];
    fai_text_shape(found, sizeof found, mask->ndim, mask->size);
    fai_text_shape(needed, sizeof needed, scores.ndim, scores.size);
    return same || fai_fail(FA_ERR_RUNTIME, OP, "attn_mask of shape %s does not expand to the scores' %s", found, needed);
}

fa_tensor *fai_plain_scaled_dot_product_attention(fa_tensor *query, fa_tensor *key, fa_tensor *value, fa_tensor *attn_mask,
                                            double dropout_p, bool is_causal, double scale, bool enable_gqa) {
    static const char *const names[] = {"query", "key", "value", "attn_mask"};
    FAI_CALLED(OP);
    if (!fai_op_begin(OP, 4, names, (fa_tensor *const[]){query, key, value, attn_mask}, 8) ||
        !types_fit(query, key, value, attn_mask))
        return NULL;
    if (!sizes_fit(query, key, value)) return NULL;
    if (!(dropout_p >= 0 && dropout_p <= 1))
        return fai_fail(FA_ERR_RUNTIME, OP, "dropout probability has to be between 0 and 1, but got %g", dropout_p);
    FA_SCOPE;
    fa_shape lead;
    const int64_t l = query->size[query->ndim - 2], s = key->size[key->ndim - 2], e = query->size[query->ndim - 1];
    if (enable_gqa && !repeat_heads(query, &key, &value)) return NULL;
    if (!leading_shape(query, key, value, &lead) || (attn_mask && !mask_expands(attn_mask, lead, l, s))) return NULL;
    if (isnan(scale)) scale = 1 / sqrt((double)e);
    if (e == 0) scale = 1; /* scores are 0 whatever they are multiplied by */
    if (attn_mask && attn_mask->dtype != FA_BOOL && !(attn_mask = fa_cast(attn_mask, (fa_dtype)query->dtype))) return NULL;
    const bool steps =
        dropout_p > 0 || (attn_mask && fai_recording() && fai_wants_grad(attn_mask)) || !fai_attention_fits(query, value);
    return fa_keep(steps ? in_steps(query, key, value, attn_mask, dropout_p, is_causal, scale)
                         : fused(query, key, value, attn_mask, is_causal, scale, lead));
}
