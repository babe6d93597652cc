/* MultiheadAttention: projections, heads, masks in torch's sense; attention itself is fa_scaled_dot_product_attention, or
 * steps where the weights are wanted. */
#include "../autograd/composite.h"
#include "module.h"
#include <fa_transformer.h>
#include <math.h>

static const char *const NAME = "MultiheadAttention";
/* bias_k and bias_v are only there if they were asked for, as in torch */
enum { IN_WEIGHT, Q_WEIGHT, K_WEIGHT, V_WEIGHT, IN_BIAS, OUT, BIAS_K, BIAS_V };

typedef struct layer {
    int64_t embed, heads, kdim, vdim;
    double dropout;
    bool bias, add_bias_kv, add_zero_attn, batch_first, same;
} layer;

/* ---- making it ---- */

static fa_tensor *attention_forward(fa_module *m, fa_tensor *const *inputs, int ninputs);
static const fa_module_type attention_type = {.name = "MultiheadAttention", .forward = attention_forward};

/* torch gives the last projection a class of its own, and prints it so. */
static fa_module_type projection_type;
__attribute__((constructor)) static void set_up(void) {
    projection_type = fai_layer_Linear;
    projection_type.name = "NonDynamicallyQuantizableLinear";
}

static fa_module *output_projection(int64_t embed, bool bias) {
    fa_module *linear = fa_nn_linear(embed, embed, .bias = bias);
    if (linear) linear->type = &projection_type;
    return linear;
}

static bool add_weight(fa_module *m, const char *name, bool wanted, int64_t rows, int64_t cols) {
    return fai_layer_parameter(m, name, wanted, 2, (const int64_t[]){rows, cols}, "zeros", -1);
}

static bool draw(fa_module *m, const layer *a) {
    FA_NO_GRAD;
    if (fai_layer_is_blank()) return true;
    for (int i = IN_WEIGHT; i <= V_WEIGHT; i++)
        if (fai_slot(m, i) && !fa_init_xavier_uniform(fai_slot(m, i), 1)) return false;
    fa_tensor *out_bias = a->bias ? fa_get_parameter(m, "out_proj.bias") : NULL;
    if (a->bias && (!out_bias || !fa_init_constant(out_bias, 0))) return false;
    for (int i = BIAS_K; i <= BIAS_V && a->add_bias_kv; i++)
        if (!fa_init_xavier_normal(fai_slot(m, i), 1)) return false;
    return true;
}

static bool build(fa_module *m, const layer *a) {
    const int64_t e = a->embed, kv[3] = {1, 1, e};
    fa_module *out = output_projection(e, a->bias); /* its draws come first */
    return out && add_weight(m, "in_proj_weight", a->same, 3 * e, e) && add_weight(m, "q_proj_weight", !a->same, e, e) &&
           add_weight(m, "k_proj_weight", !a->same, e, a->kdim) && add_weight(m, "v_proj_weight", !a->same, e, a->vdim) &&
           fai_layer_parameter(m, "in_proj_bias", a->bias, 1, (const int64_t[]){3 * e}, "zeros", -1) &&
           fa_add_module(m, "out_proj", out) &&
           (!a->add_bias_kv || (fai_layer_parameter(m, "bias_k", true, 3, kv, "zeros", -1) &&
                                fai_layer_parameter(m, "bias_v", true, 3, kv, "zeros", -1))) &&
           draw(m, a);
}

bool fai_is_multihead_attention(const fa_module *m) { return m->type == &attention_type; }

static bool options_fit(int64_t embed_dim, int64_t num_heads, const fa_nn_multihead_attention_options *o) {
    if (!fai_options_ok(NAME, o->struct_size, sizeof *o)) return false;
    if (embed_dim <= 0 || num_heads <= 0)
        return fai_fail(FA_ERR_VALUE, NAME,
                        "embed_dim and num_heads must be greater than 0, got embed_dim=%lld and num_heads=%lld instead",
                        (long long)embed_dim, (long long)num_heads);
    if (embed_dim % num_heads)
        return fai_fail(FA_ERR_VALUE, NAME, "embed_dim must be divisible by num_heads: found %lld and %lld", (long long)embed_dim,
                        (long long)num_heads);
    return (o->kdim >= 0 && o->vdim >= 0) ||
           fai_fail(FA_ERR_VALUE, NAME, "kdim and vdim must not be negative: found %lld and %lld", (long long)o->kdim,
                    (long long)o->vdim);
}

bool fai_multihead_attention_build(fa_module *m, int64_t embed_dim, int64_t num_heads,
                                   const fa_nn_multihead_attention_options *o) {
    if (!options_fit(embed_dim, num_heads, o) || !fai_module_init(m, &attention_type, sizeof(layer))) return false;
    layer *a = m->data;
    *a = (layer){embed_dim,
                 num_heads,
                 o->kdim ? o->kdim : embed_dim,
                 o->vdim ? o->vdim : embed_dim,
                 o->dropout,
                 o->bias,
                 o->add_bias_kv,
                 o->add_zero_attn,
                 o->batch_first,
                 false};
    a->same = a->kdim == embed_dim && a->vdim == embed_dim;
    const bool ok = build(m, a);
    m->nslots = m->nentries;
    return ok;
}

fa_module *fa_nn_multihead_attention_with(int64_t embed_dim, int64_t num_heads,
                                          const fa_nn_multihead_attention_options *options) {
    const fa_nn_multihead_attention_options defaults = {.struct_size = sizeof defaults, .bias = true},
                                            *o = options ? options : &defaults;
    if (!options_fit(embed_dim, num_heads, o)) return NULL;
    fa_module *m = fai_module_make(&attention_type, sizeof(layer));
    if (!m) return NULL;
    fai_module_clear(m);
    return fai_layer_done(m, fai_multihead_attention_build(m, embed_dim, num_heads, o));
}

/* ---- checks: torch's sentences ---- */

typedef struct call {
    fa_module *m;
    const layer *a;
    const fa_multihead_attention_options *o;
    fa_tensor *in[3]; /* query, key, value; batched */
    int64_t l, s, b;
    int seq, batch; /* which dimension is time, which the batch */
    bool single;
} call;

static bool dims_ok(const call *c) {
    const fa_tensor *q = c->in[0], *k = c->in[1], *v = c->in[2], *pad = c->o->key_padding_mask, *mask = c->o->attn_mask;
    if (q->ndim != 2 && q->ndim != 3)
        return fai_fail(FA_ERR_VALUE, NAME, "query should be unbatched 2D or batched 3D tensor but received %d-D query tensor",
                        q->ndim);
    const char *kind = q->ndim == 3 ? "batched (3-D)" : "unbatched (2-D)";
    if (k->ndim != q->ndim || v->ndim != q->ndim)
        return fai_fail(FA_ERR_VALUE, NAME,
                        "For %s `query`, expected `key` and `value` to be %d-D but found %d-D and %d-D tensors respectively",
                        kind, q->ndim, k->ndim, v->ndim);
    if (pad && pad->ndim != q->ndim - 1)
        return fai_fail(FA_ERR_VALUE, NAME,
                        "For %s `query`, expected `key_padding_mask` to be `None` or %d-D but found %d-D tensor instead", kind,
                        q->ndim - 1, pad->ndim);
    if (mask && mask->ndim != 2 && mask->ndim != 3)
        return fai_fail(FA_ERR_VALUE, NAME,
                        "For %s `query`, expected `attn_mask` to be `None`, 2-D or 3-D but found %d-D tensor instead", kind,
                        mask->ndim);
    for (int i = 0; i < 2; i++) {
        const fa_tensor *t = i ? mask : pad;
        if (t && t->dtype != FA_BOOL && !fai_is_float(t->dtype))
            return fai_fail(FA_ERR_VALUE, NAME, "only bool and floating types of %s are supported",
                            i ? "attn_mask" : "key_padding_mask");
    }
    return !c->o->is_causal || mask ||
           fai_fail(FA_ERR_RUNTIME, NAME,
                    "Need attn_mask if specifying the is_causal hint. You may use the Transformer module method "
                    "`generate_square_subsequent_mask` to create this mask: fa_square_subsequent_mask(n)");
}

static bool sizes_ok(const call *c) {
    const fa_tensor *q = c->in[0], *k = c->in[1], *v = c->in[2], *pad = c->o->key_padding_mask, *mask = c->o->attn_mask;
    char of_k[96], of_v[96];
    if (q->size[2] != c->a->embed)
        return fai_fail(FA_ERR_VALUE, NAME, "was expecting embedding dimension of %lld, but got %lld", (long long)c->a->embed,
                        (long long)q->size[2]);
    fai_text_shape(of_k, sizeof of_k, k->ndim, k->size);
    fai_text_shape(of_v, sizeof of_v, v->ndim, v->size);
    if (k->size[0] != v->size[0] || k->size[1] != v->size[1] || (c->a->same && k->size[2] != v->size[2]))
        return fai_fail(FA_ERR_VALUE, NAME, "key shape torch.Size(%s) does not match value shape torch.Size(%s)", of_k, of_v);
    if (k->size[c->batch] != c->b)
        return fai_fail(FA_ERR_VALUE, NAME, "query has a batch of %lld, key one of %lld", (long long)c->b,
                        (long long)k->size[c->batch]);
    if (pad && !c->single && pad->size[0] != c->b)
        return fai_fail(FA_ERR_VALUE, NAME, "Expected key_padded_mask.shape[0] to be %lld, but got %lld", (long long)c->b,
                        (long long)pad->size[0]);
    if (pad && pad->size[pad->ndim - 1] != c->s)
        return fai_fail(FA_ERR_VALUE, NAME, "Expected key_padded_mask.shape[1] to be %lld, but got %lld", (long long)c->s,
                        (long long)pad->size[pad->ndim - 1]);
    if (!mask) return true;
    const int64_t needed[3] = {c->b * c->a->heads, c->l, c->s};
    fai_text_shape(of_k, sizeof of_k, mask->ndim, mask->size);
    bool fits = mask->ndim == 2 || mask->size[0] == needed[0];
    fits = fits && mask->size[mask->ndim - 2] == c->l && mask->size[mask->ndim - 1] == c->s;
    if (fits) return true;
    if (mask->ndim == 2)
        return fai_fail(FA_ERR_RUNTIME, NAME, "The shape of the 2D attn_mask is torch.Size(%s), but should be (%lld, %lld).",
                        of_k, (long long)c->l, (long long)c->s);
    return fai_fail(FA_ERR_RUNTIME, NAME, "The shape of the 3D attn_mask is torch.Size(%s), but should be (%lld, %lld, %lld).",
                    of_k, (long long)needed[0], (long long)c->l, (long long)c->s);
}

/* ---- projections ---- */

static fa_tensor *rows_of(fa_tensor *t, int64_t from, int64_t to) { return t ? fa_slice(t, 0, from, to, 1) : NULL; }

/* Query, key and value by their weights; where they are one tensor, by one product. */
static bool project(const call *c, fa_tensor *out[3]) {
    const int64_t e = c->a->embed;
    fa_tensor *w = fai_slot(c->m, IN_WEIGHT), *bias = fai_slot(c->m, IN_BIAS);
    if (c->a->same && c->in[0] == c->in[1] && c->in[1] == c->in[2]) {
        fa_tensor *all = fa_linear(c->in[0], w, bias);
        for (int i = 0; i < 3; i++)
            if (!(out[i] = fa_slice(all, 2, i * e, (i + 1) * e, 1))) return false;
        return true;
    }
    for (int i = 0; i < 3; i++) {
        fa_tensor *own = c->a->same ? rows_of(w, i * e, (i + 1) * e) : fai_slot(c->m, Q_WEIGHT + i);
        if (!(out[i] = fa_linear(c->in[i], own, rows_of(bias, i * e, (i + 1) * e)))) return false;
    }
    return true;
}

/* One more row of key and value: a learned one, or zeros. */
static fa_tensor *longer(const call *c, fa_tensor *t, fa_tensor *row) {
    fa_shape shape = fa_shape_of_tensor(t);
    shape.dim[c->seq] = 1;
    fa_tensor *more = row ? fa_expand(row, shape) : fai_zeros_of(t, shape);
    return fa_cat((fa_tensor *const[]){t, more}, 2, c->seq);
}

static bool lengthen(const call *c, fa_tensor *t[3], int *more) {
    for (int kind = 0; kind < 2; kind++) {
        if (kind == 0 ? !c->a->add_bias_kv : !c->a->add_zero_attn) continue;
        for (int i = 1; i < 3; i++)
            if (!(t[i] = longer(c, t[i], kind == 0 ? fai_slot(c->m, BIAS_K + i - 1) : NULL))) return false;
        ++*more;
    }
    return true;
}

/* [l, b, e] or [b, l, e] as [b, heads, l, e / heads] */
static fa_tensor *heads_of(const call *c, fa_tensor *t) {
    const int64_t h = c->a->heads;
    t = t ? fa_view(t, FA_SHAPE(t->size[0], t->size[1], h, c->a->embed / h)) : NULL;
    return c->seq == 1 ? fa_permute(t, FA_DIMS(0, 2, 1, 3)) : fa_permute(t, FA_DIMS(1, 2, 0, 3));
}

/* And back, all heads side by side, through the last projection. torch always has time first in memory here, which shows in
 * the numbers that a dropout after it draws; without dropout the other order is as good, and moves nothing. */
static fa_tensor *joined(const call *c, fa_tensor *t) {
    const bool time_first = c->seq == 0 || (c->m->training && c->a->dropout > 0);
    t = time_first ? fa_permute(t, FA_DIMS(2, 0, 1, 3)) : fa_permute(t, FA_DIMS(0, 2, 1, 3));
    t = t ? fa_reshape(t, FA_SHAPE(t->size[0], t->size[1], c->a->embed)) : NULL;
    t = fa_call(c->m->entries[OUT].object, t);
    return time_first && c->seq == 1 ? fa_transpose(t, 0, 1) : t;
}

/* ---- masks ---- */

/* As something to add: true becomes minus infinity. */
static fa_tensor *additive(fa_tensor *mask, const fa_tensor *like) {
    if (!mask || mask->dtype != FA_BOOL) return mask ? fa_cast(mask, (fa_dtype)like->dtype) : NULL;
    fa_tensor *zeros = fa_zeros(fa_shape_of_tensor(mask), .dtype = (fa_dtype)like->dtype, .device = mask->device);
    return fai_choose(fa_logical_not(mask), zeros, -INFINITY);
}

/* Both masks as one that expands to [b, heads, l, s + more]. */
static bool merge_masks(const call *c, int more, fa_tensor **out) {
    fa_tensor *mask = additive(c->o->attn_mask, c->in[0]), *pad = additive(c->o->key_padding_mask, c->in[0]);
    if ((c->o->attn_mask && !mask) || (c->o->key_padding_mask && !pad)) return false;
    if (mask) mask = fa_reshape(mask, mask->ndim == 3 ? FA_SHAPE(c->b, c->a->heads, c->l, c->s) : FA_SHAPE(1, 1, c->l, c->s));
    if (pad) pad = fa_reshape(pad, FA_SHAPE(c->b, 1, 1, c->s));
    *out = mask && pad ? fa_add(mask, pad) : mask ? mask : pad;
    if (more > 0 && *out) {
        fa_shape shape = fa_shape_of_tensor(*out);
        shape.dim[3] = more;
        *out = fa_cat((fa_tensor *const[]){*out, fai_zeros_of(*out, shape)}, 2, 3);
    }
    return *out || !fa_failed();
}

/* ---- the call ---- */

/* Weights are wanted: the steps one by one. */
static fa_tensor *with_weights(const call *c, fa_tensor *const t[3], fa_tensor *mask, double dropout, fa_tensor **weights) {
    const double scale = sqrt((double)c->a->heads / (double)c->a->embed);
    fa_tensor *scores = fa_matmul(fai_multiply(t[0], scale), fa_transpose(t[1], -2, -1));
    if (mask) scores = fa_add(scores, mask);
    *weights = fa_dropout(fa_softmax(scores, -1), dropout, true);
    return fa_matmul(*weights, t[2]);
}

static fa_tensor *attend(const call *c, fa_tensor **weights) {
    fa_tensor *t[3], *mask = NULL, *y;
    int more = 0;
    const double dropout = c->m->training ? c->a->dropout : 0;
    if (!project(c, t) || !lengthen(c, t, &more)) return NULL;
    for (int i = 0; i < 3; i++)
        if (!(t[i] = heads_of(c, t[i]))) return NULL;
    const bool causal = c->o->is_causal && !c->o->key_padding_mask && !weights && more == 0;
    if (!causal && !merge_masks(c, more, &mask)) return NULL;
    y = weights ? with_weights(c, t, mask, dropout, weights)
                : fa_scaled_dot_product_attention(t[0], t[1], t[2], .attn_mask = mask, .dropout_p = dropout, .is_causal = causal);
    return joined(c, y);
}

static bool begin_call(call *c) {
    static const char *const names[] = {"query", "key", "value", "key_padding_mask", "attn_mask"};
    fa_tensor *const all[] = {c->in[0], c->in[1], c->in[2], c->o->key_padding_mask, c->o->attn_mask};
    if (!fai_op_begin(NAME, 5, names, all, 24) || !dims_ok(c)) return false;
    c->single = c->in[0]->ndim == 2;
    c->seq = c->a->batch_first ? 1 : 0, c->batch = 1 - c->seq;
    if (c->single) {
        fa_tensor *q = c->in[0], *k = c->in[1];
        const bool k_is_q = k == q, v_is_k = c->in[2] == k;
        c->in[0] = fa_unsqueeze(q, c->batch);
        c->in[1] = k_is_q ? c->in[0] : fa_unsqueeze(k, c->batch);
        c->in[2] = v_is_k ? c->in[1] : fa_unsqueeze(c->in[2], c->batch);
        if (!c->in[0] || !c->in[1] || !c->in[2]) return false;
    }
    c->l = c->in[0]->size[c->seq], c->b = c->in[0]->size[c->batch], c->s = c->in[1]->size[c->seq];
    return sizes_ok(c);
}

fa_tensor *fa_multihead_attention_call_with(fa_module *m, fa_tensor *query, fa_tensor *key, fa_tensor *value,
                                            const fa_multihead_attention_options *options) {
    const fa_multihead_attention_options defaults = {.struct_size = sizeof defaults, .average_attn_weights = true};
    if (!fai_module_check(NAME, m)) return NULL;
    if (m->type != &attention_type)
        return fai_fail(FA_ERR_TYPE, NAME, "argument 'module' is a %s: MultiheadAttention is needed", m->type->name);
    call c = {.m = m, .a = m->data, .o = options ? options : &defaults, .in = {query, key, value}};
    if (!fai_options_ok(NAME, c.o->struct_size, sizeof *c.o)) return NULL;
    FA_SCOPE;
    FAI_CALLED(NAME);
    if (!begin_call(&c)) return NULL;
    fa_tensor *weights = NULL, *y = attend(&c, c.o->weights ? &weights : NULL);
    if (y && c.single) y = fa_squeeze_dim(y, c.batch);
    if (!y) return NULL;
    if (c.o->weights) {
        if (c.o->average_attn_weights) weights = fa_mean_dims(weights, FA_DIMS(1), false);
        if (c.single) weights = fa_squeeze_dim(weights, 0);
        if (!weights) return NULL;
        *c.o->weights = fa_keep(weights);
    }
    return fa_keep(y);
}

static fa_tensor *attention_forward(fa_module *m, fa_tensor *const *inputs, int ninputs) {
    if (ninputs != 3)
        return fai_fail(FA_ERR_TYPE, NAME, "MultiheadAttention.forward() takes query, key and value, but %d tensors were given",
                        ninputs);
    return fa_multihead_attention_call_with(m, inputs[0], inputs[1], inputs[2], NULL);
}
