/* Transformers: encoder and decoder layers, stacks of copies of them, and both together. */
#include "../autograd/composite.h"
#include "module.h"
#include <fa_transformer.h>
#include <math.h>

typedef struct layer {
    int64_t d_model;
    bool gelu, norm_first, batch_first;
} layer;

/* Places of a layer's children, in torch's order. */
enum { SELF, E_LINEAR1, E_DROPOUT, E_LINEAR2, E_NORM1, E_NORM2, E_DROPOUT1, E_DROPOUT2 };
enum { CROSS = 1, D_LINEAR1, D_DROPOUT, D_LINEAR2, D_NORM1, D_NORM2, D_NORM3, D_DROPOUT1, D_DROPOUT2, D_DROPOUT3 };
enum { LAYERS, NORM };     /* of an encoder or decoder */
enum { ENCODER, DECODER }; /* of a transformer */

static fa_module *part(const fa_module *m, int i) { return m->entries[i].object; }

static fa_tensor *encoder_layer_forward(fa_module *m, fa_tensor *const *inputs, int ninputs);
static fa_tensor *decoder_layer_forward(fa_module *m, fa_tensor *const *inputs, int ninputs);
static const fa_module_type encoder_layer_type = {.name = "TransformerEncoderLayer", .forward = encoder_layer_forward};
static const fa_module_type decoder_layer_type = {.name = "TransformerDecoderLayer", .forward = decoder_layer_forward};
static const fa_module_type encoder_type = {.name = "TransformerEncoder", .forward = encoder_layer_forward};
static const fa_module_type decoder_type = {.name = "TransformerDecoder", .forward = decoder_layer_forward};
static const fa_module_type transformer_type = {.name = "Transformer", .forward = decoder_layer_forward};

/* ---- layers ---- */

static bool add(fa_module *m, const char *name, fa_module *child) { return child && fa_add_module(m, name, child); }

static fa_module *norm_of(int64_t d, const fa_nn_transformer_options *o) {
    return fa_nn_layer_norm(d, .eps = o->layer_norm_eps, .bias = o->bias);
}

static fa_module *attention_of(int64_t d, int64_t heads, const fa_nn_transformer_options *o) {
    return fa_nn_multihead_attention(d, heads, .dropout = o->dropout, .bias = o->bias, .batch_first = o->batch_first);
}

static bool add_numbered(fa_module *m, const char *name, int n, int64_t d, const fa_nn_transformer_options *o) {
    for (int i = 1; i <= n; i++) {
        char full[16];
        snprintf(full, sizeof full, "%s%d", name, i);
        if (!add(m, full, *name == 'n' ? norm_of(d, o) : fa_nn_dropout(o->dropout))) return false;
    }
    return true;
}

static fa_module *make_layer(const fa_module_type *type, int64_t d, int64_t heads, const fa_nn_transformer_options *options) {
    const fa_nn_transformer_options defaults = {.struct_size = sizeof defaults, FA_NN_TRANSFORMER_DEFAULTS},
                                    *o = options ? options : &defaults;
    const bool decoder = type == &decoder_layer_type, gelu = o->activation && strcmp(o->activation, "gelu") == 0;
    if (!fai_options_ok(type->name, o->struct_size, sizeof *o)) return NULL;
    if (o->activation && !gelu && strcmp(o->activation, "relu"))
        return fai_fail(FA_ERR_RUNTIME, type->name, "activation should be relu/gelu, not %s", o->activation);
    fa_module *m = fai_module_make(type, sizeof(layer));
    if (!m) return NULL;
    FA_SCOPE;
    *(layer *)m->data = (layer){d, gelu, o->norm_first, o->batch_first};
    const bool ok =
        add(m, "self_attn", attention_of(d, heads, o)) && (!decoder || add(m, "multihead_attn", attention_of(d, heads, o))) &&
        add(m, "linear1", fa_nn_linear(d, o->dim_feedforward, .bias = o->bias)) && add(m, "dropout", fa_nn_dropout(o->dropout)) &&
        add(m, "linear2", fa_nn_linear(o->dim_feedforward, d, .bias = o->bias)) && add_numbered(m, "norm", 2 + decoder, d, o) &&
        add_numbered(m, "dropout", 2 + decoder, d, o);
    return fai_layer_done(m, ok);
}

fa_module *fa_nn_transformer_encoder_layer_with(int64_t d_model, int64_t nhead, const fa_nn_transformer_options *options) {
    return make_layer(&encoder_layer_type, d_model, nhead, options);
}
fa_module *fa_nn_transformer_decoder_layer_with(int64_t d_model, int64_t nhead, const fa_nn_transformer_options *options) {
    return make_layer(&decoder_layer_type, d_model, nhead, options);
}

/* ---- stacks: copies of one layer ---- */

static bool copy_entry(fa_module *to, const fai_entry *e);

/* A module of this library with all below it; its values are copies. */
static fa_module *copy_of(const fa_module *m) {
    if (m->data && !m->data_bytes)
        return fai_fail(FA_ERR_UNSUPPORTED, m->type->name,
                        "a module with data of the program's own can't be copied: make each layer and use fa_module_list");
    fa_module *copy = fai_module_make(m->type, m->data_bytes);
    bool ok = copy != NULL;
    if (ok && m->data_bytes) memcpy(copy->data, m->data, m->data_bytes);
    if (ok) copy->training = m->training;
    for (int i = 0; ok && i < m->nentries; i++) ok = copy_entry(copy, &m->entries[i]);
    return ok ? copy : NULL;
}

static bool copy_entry(fa_module *to, const fai_entry *e) {
    FA_SCOPE;
    FA_NO_GRAD;
    if (e->kind == FAI_ENTRY_MODULE) {
        fa_module *child = e->object ? copy_of(e->object) : NULL;
        return (child || !e->object) && fa_add_module(to, e->name, child);
    }
    fa_tensor *from = e->object, *t = from ? fa_clone(from) : NULL;
    if (from && !t) return false;
    if (e->kind == FAI_ENTRY_BUFFER) return fa_add_buffer(to, e->name, t, e->persistent);
    return fa_add_parameter(to, e->name, t) && (!t || fa_requires_grad(t, FAI_HAS(from, FAI_REQUIRES_GRAD)));
}

static fa_module *make_stack(const fa_module_type *type, const fa_module_type *of, fa_module *prototype, int64_t n,
                             fa_module *norm) {
    if (!fai_module_check(type->name, prototype)) return NULL;
    if (prototype->type != of)
        return fai_fail(FA_ERR_TYPE, type->name, "argument 'layer' is a %s: %s is needed", prototype->type->name, of->name);
    if (n < 0 || n > 4096) return fai_fail(FA_ERR_VALUE, type->name, "num_layers is %lld: 0 to 4096 are possible", (long long)n);
    fa_module *m = fai_module_make(type, sizeof(layer));
    if (!m) return NULL;
    FA_SCOPE;
    *(layer *)m->data = *(const layer *)prototype->data;
    fa_module *list = fa_module_list_of(NULL, 0);
    bool ok = list != NULL;
    for (int64_t i = 0; ok && i < n; i++) {
        char name[16];
        snprintf(name, sizeof name, "%lld", (long long)i);
        ok = add(list, name, copy_of(prototype));
    }
    ok = ok && add(m, "layers", list) && fa_add_module(m, "norm", norm);
    return fai_layer_done(m, ok);
}

fa_module *fa_nn_transformer_encoder(fa_module *prototype, int64_t num_layers, fa_module *norm) {
    return make_stack(&encoder_type, &encoder_layer_type, prototype, num_layers, norm);
}
fa_module *fa_nn_transformer_decoder(fa_module *prototype, int64_t num_layers, fa_module *norm) {
    return make_stack(&decoder_type, &decoder_layer_type, prototype, num_layers, norm);
}

/* torch draws all matrices once more. */
static bool draw_matrices(void *context, const char *path, fa_module *owner, fai_entry *entry) {
    (void)context, (void)path, (void)owner;
    fa_tensor *t = entry->object;
    return entry->kind != FAI_ENTRY_PARAMETER || !t || t->ndim < 2 || fa_init_xavier_uniform(t, 1) != NULL;
}

fa_module *fa_nn_transformer_with(int64_t d, int64_t heads, const fa_nn_transformer_options *options) {
    const fa_nn_transformer_options defaults = {.struct_size = sizeof defaults, FA_NN_TRANSFORMER_DEFAULTS},
                                    *o = options ? options : &defaults;
    fa_module *m = fai_module_make(&transformer_type, sizeof(layer));
    if (!m) return NULL;
    FA_SCOPE;
    fa_module *of_encoder = make_layer(&encoder_layer_type, d, heads, o), *encoder_norm = of_encoder ? norm_of(d, o) : NULL;
    bool ok = encoder_norm && add(m, "encoder", fa_nn_transformer_encoder(of_encoder, o->num_encoder_layers, encoder_norm));
    fa_module *of_decoder = ok ? make_layer(&decoder_layer_type, d, heads, o) : NULL,
              *decoder_norm = of_decoder ? norm_of(d, o) : NULL;
    ok = decoder_norm && add(m, "decoder", fa_nn_transformer_decoder(of_decoder, o->num_decoder_layers, decoder_norm));
    if (ok) *(layer *)m->data = *(const layer *)of_decoder->data;
    return fai_layer_done(m, ok && fai_walk(m, draw_matrices, NULL));
}

/* ---- calls ---- */

typedef struct attention_masks {
    fa_tensor *mask, *padding;
    bool causal;
} attention_masks;

static fa_tensor *self_attention(fa_module *attention, fa_tensor *x, fa_tensor *memory, attention_masks k, fa_module *dropout) {
    fa_tensor *y = fa_multihead_attention_call(attention, x, memory, memory, .attn_mask = k.mask, .key_padding_mask = k.padding,
                                               .is_causal = k.causal);
    return fa_call(dropout, y);
}

static fa_tensor *feed_forward(const fa_module *m, fa_tensor *x, int linear1, fa_module *last_dropout) {
    const layer *a = m->data;
    x = fa_call(part(m, linear1), x);
    x = a->gelu ? fa_gelu(x) : fa_relu(x);
    x = fa_call(part(m, linear1 + 1), x);
    return fa_call(last_dropout, fa_call(part(m, linear1 + 2), x));
}

static fa_tensor *run_encoder_layer(fa_module *m, fa_tensor *x, attention_masks k) {
    const layer *a = m->data;
    fa_module *norm1 = part(m, E_NORM1), *norm2 = part(m, E_NORM2), *drop1 = part(m, E_DROPOUT1), *drop2 = part(m, E_DROPOUT2);
    FA_SCOPE;
    if (a->norm_first) {
        fa_tensor *in = fa_call(norm1, x);
        x = fa_add(x, self_attention(part(m, SELF), in, in, k, drop1));
        return fa_keep(fa_add(x, feed_forward(m, fa_call(norm2, x), E_LINEAR1, drop2)));
    }
    x = fa_call(norm1, fa_add(x, self_attention(part(m, SELF), x, x, k, drop1)));
    return fa_keep(fa_call(norm2, fa_add(x, feed_forward(m, x, E_LINEAR1, drop2))));
}

static fa_tensor *run_decoder_layer(fa_module *m, fa_tensor *x, fa_tensor *memory, attention_masks own, attention_masks k) {
    const layer *a = m->data;
    fa_module *norm[3], *drop[3];
    FA_SCOPE;
    for (int i = 0; i < 3; i++) norm[i] = part(m, D_NORM1 + i), drop[i] = part(m, D_DROPOUT1 + i);
    if (a->norm_first) {
        fa_tensor *in = fa_call(norm[0], x);
        x = fa_add(x, self_attention(part(m, SELF), in, in, own, drop[0]));
        x = fa_add(x, self_attention(part(m, CROSS), fa_call(norm[1], x), memory, k, drop[1]));
        return fa_keep(fa_add(x, feed_forward(m, fa_call(norm[2], x), D_LINEAR1, drop[2])));
    }
    x = fa_call(norm[0], fa_add(x, self_attention(part(m, SELF), x, x, own, drop[0])));
    x = fa_call(norm[1], fa_add(x, self_attention(part(m, CROSS), x, memory, k, drop[1])));
    return fa_keep(fa_call(norm[2], fa_add(x, feed_forward(m, x, D_LINEAR1, drop[2]))));
}

static fa_tensor *run_stack(fa_module *m, fa_tensor *x, fa_tensor *memory, const fa_transformer_masks *k) {
    fa_module *list = part(m, LAYERS), *norm = part(m, NORM);
    const attention_masks src = {k->src_mask, k->src_key_padding_mask, k->src_is_causal},
                          tgt = {k->tgt_mask, k->tgt_key_padding_mask, k->tgt_is_causal};
    const attention_masks mem = {k->memory_mask, k->memory_key_padding_mask, k->memory_is_causal};
    for (int i = 0; x && i < list->nentries; i++)
        x = m->type == &encoder_type ? run_encoder_layer(part(list, i), x, src)
                                     : run_decoder_layer(part(list, i), x, memory, tgt, mem);
    return norm ? fa_call(norm, x) : x;
}

static fa_tensor *run_transformer(fa_module *m, fa_tensor *src, fa_tensor *tgt, const fa_transformer_masks *k) {
    const layer *a = m->data;
    const char *name = m->type->name;
    const int batch = a->batch_first ? 0 : 1;
    if (src->ndim != tgt->ndim || (src->ndim == 3 && src->size[batch] != tgt->size[batch]))
        return fai_fail(FA_ERR_RUNTIME, name, "the batch number of src and tgt must be equal");
    if (src->ndim < 1 || src->size[src->ndim - 1] != a->d_model || tgt->size[tgt->ndim - 1] != a->d_model)
        return fai_fail(FA_ERR_RUNTIME, name, "the feature number of src and tgt must be equal to d_model");
    fa_tensor *memory = run_stack(part(m, ENCODER), src, NULL, k);
    return run_stack(part(m, DECODER), tgt, memory, k);
}

fa_tensor *fa_transformer_call_with(fa_module *m, fa_tensor *first, fa_tensor *second, const fa_transformer_masks *masks) {
    const fa_transformer_masks none = {.struct_size = sizeof none}, *k = masks ? masks : &none;
    const char *op = "transformer_call";
    if (!fai_module_check(op, m) || !fai_options_ok(op, k->struct_size, sizeof *k)) return NULL;
    const fa_module_type *type = m->type;
    const bool encodes = type == &encoder_type || type == &encoder_layer_type;
    if (!encodes && type != &decoder_type && type != &decoder_layer_type && type != &transformer_type)
        return fai_fail(FA_ERR_TYPE, op, "argument 'module' is a %s: a transformer, or a part of one, is needed", type->name);
    if (encodes && second) return fai_fail(FA_ERR_TYPE, op, "%s takes one input: the second must be NULL", type->name);
    if (!fai_check(type->name, type == &decoder_type || type == &decoder_layer_type ? "tgt" : "src", first)) return NULL;
    if (!encodes && !fai_check(type->name, type == &transformer_type ? "tgt" : "memory", second)) return NULL;
    FA_SCOPE;
    fa_tensor *y;
    if (type == &transformer_type)
        y = run_transformer(m, first, second, k);
    else if (type == &encoder_layer_type)
        y = run_encoder_layer(m, first, (attention_masks){k->src_mask, k->src_key_padding_mask, k->src_is_causal});
    else if (type == &decoder_layer_type)
        y = run_decoder_layer(m, first, second, (attention_masks){k->tgt_mask, k->tgt_key_padding_mask, k->tgt_is_causal},
                              (attention_masks){k->memory_mask, k->memory_key_padding_mask, k->memory_is_causal});
    else
        y = run_stack(m, first, second, k);
    return fai_return(y);
}

static fa_tensor *encoder_layer_forward(fa_module *m, fa_tensor *const *inputs, int ninputs) {
    if (ninputs < 1 || ninputs > 2)
        return fai_fail(FA_ERR_TYPE, m->type->name, "%s.forward() takes src and a mask, but %d tensors were given", m->type->name,
                        ninputs);
    return fa_transformer_call(m, inputs[0], NULL, .src_mask = ninputs > 1 ? inputs[1] : NULL);
}

static fa_tensor *decoder_layer_forward(fa_module *m, fa_tensor *const *inputs, int ninputs) {
    if (ninputs != 2)
        return fai_fail(FA_ERR_TYPE, m->type->name, "%s.forward() takes 2 inputs but %d were given", m->type->name, ninputs);
    return fa_transformer_call_with(m, inputs[0], inputs[1], NULL);
}

fa_tensor *fa_square_subsequent_mask_with(int64_t n, const fa_tensor_options *options) {
    FA_SCOPE;
    FA_NO_GRAD;
    fa_tensor *zeros = fa_zeros_with(FA_SHAPE(n, n), options);
    fa_tensor *seen = zeros ? fa_tril(fa_ones(FA_SHAPE(n, n), .dtype = FA_BOOL, .device = zeros->device), 0) : NULL;
    return seen ? fa_keep(fai_choose(seen, zeros, -INFINITY)) : NULL;
}
