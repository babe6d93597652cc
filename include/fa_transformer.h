/* Multi-head attention and transformers as modules. fa_scaled_dot_product_attention itself is in fa_ops.h. */
#ifndef FA_TRANSFORMER_H
#define FA_TRANSFORMER_H

#include "fa_tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* MultiheadAttention: in_proj_weight [3 e, e] (q_proj_weight, k_proj_weight, v_proj_weight where kdim or vdim differ),
 * in_proj_bias, out_proj.weight, out_proj.bias, bias_k and bias_v with add_bias_kv. */
typedef struct fa_nn_multihead_attention_options {
    size_t struct_size;
    double dropout;
    bool bias; /* true */
    bool add_bias_kv, add_zero_attn;
    int64_t kdim, vdim; /* 0: embed_dim */
    bool batch_first;
} fa_nn_multihead_attention_options;
FA_API fa_module *fa_nn_multihead_attention_with(int64_t embed_dim, int64_t num_heads,
                                                 const fa_nn_multihead_attention_options *options);

/* query [l, b, e], key and value [s, b, ...], with batch_first [b, l, e] ..., or without b. In a bool mask true stands for
 * what may not be looked at; a floating one is added. fa_call(net, query, key, value) does it without masks. */
typedef struct fa_multihead_attention_options {
    size_t struct_size;
    fa_tensor *key_padding_mask; /* [b, s], or [s] */
    fa_tensor *attn_mask;        /* [l, s], or [b * heads, l, s] */
    bool is_causal;              /* attn_mask is that of fa_square_subsequent_mask: it may be computed without reading it */
    fa_tensor **weights;         /* where the weights go [b, l, s]; NULL: nowhere, which is faster */
    bool average_attn_weights;   /* true; else [b, heads, l, s] */
} fa_multihead_attention_options;
FA_API fa_tensor *fa_multihead_attention_call_with(fa_module *net, fa_tensor *query, fa_tensor *key, fa_tensor *value,
                                                   const fa_multihead_attention_options *options);

/* ---- Transformers ---- */

typedef struct fa_nn_transformer_options {
    size_t struct_size;
    int64_t num_encoder_layers, num_decoder_layers; /* 6; Transformer's only */
    int64_t dim_feedforward;                        /* 2048 */
    double dropout;                                 /* 0.1 */
    const char *activation;                         /* "relu" (NULL) or "gelu" */
    double layer_norm_eps;                          /* 1e-5 */
    bool batch_first, norm_first;
    bool bias; /* true */
} fa_nn_transformer_options;
#define FA_NN_TRANSFORMER_DEFAULTS                                                                                               \
    .num_encoder_layers = 6, .num_decoder_layers = 6, .dim_feedforward = 2048, .dropout = 0.1, .layer_norm_eps = 1e-5,           \
    .bias = true
FA_API fa_module *fa_nn_transformer_encoder_layer_with(int64_t d_model, int64_t nhead, const fa_nn_transformer_options *options);
FA_API fa_module *fa_nn_transformer_decoder_layer_with(int64_t d_model, int64_t nhead, const fa_nn_transformer_options *options);
FA_API fa_module *fa_nn_transformer_with(int64_t d_model, int64_t nhead, const fa_nn_transformer_options *options);
/* num_layers copies of a layer, all with its values; norm (NULL: none) comes after the last. */
FA_API fa_module *fa_nn_transformer_encoder(fa_module *layer, int64_t num_layers, fa_module *norm);
FA_API fa_module *fa_nn_transformer_decoder(fa_module *layer, int64_t num_layers, fa_module *norm);

/* All of them are called the same way: an encoder and its layers as (net, src, NULL), a decoder and its layers as (net, tgt,
 * memory), a whole transformer as (net, src, tgt). fa_call(net, ...) does it without masks, which are those of
 * MultiheadAttention. */
typedef struct fa_transformer_masks {
    size_t struct_size;
    fa_tensor *src_mask, *tgt_mask, *memory_mask;
    fa_tensor *src_key_padding_mask, *tgt_key_padding_mask, *memory_key_padding_mask;
    bool src_is_causal, tgt_is_causal, memory_is_causal;
} fa_transformer_masks;
FA_API fa_tensor *fa_transformer_call_with(fa_module *net, fa_tensor *first, fa_tensor *second,
                                           const fa_transformer_masks *masks);
/* [n, n]: 0 up to the diagonal, minus infinity above it. */
FA_API fa_tensor *fa_square_subsequent_mask_with(int64_t n, const fa_tensor_options *options);

#ifndef __cplusplus
#define fa_nn_multihead_attention(embed_dim, num_heads, ...)                                                                     \
    fa_nn_multihead_attention_with((embed_dim), (num_heads),                                                                     \
                                   &FA_OPTIONS(fa_nn_multihead_attention_options, .bias = true, __VA_ARGS__))
#define fa_multihead_attention_call(net, query, key, value, ...)                                                                 \
    fa_multihead_attention_call_with((net), (query), (key), (value),                                                             \
                                     &FA_OPTIONS(fa_multihead_attention_options, .average_attn_weights = true, __VA_ARGS__))
#define FA_NN_TRANSFORMER_OPTIONS(...) (&FA_OPTIONS(fa_nn_transformer_options, FA_NN_TRANSFORMER_DEFAULTS, __VA_ARGS__))
#define fa_nn_transformer_encoder_layer(d_model, nhead, ...)                                                                     \
    fa_nn_transformer_encoder_layer_with((d_model), (nhead), FA_NN_TRANSFORMER_OPTIONS(__VA_ARGS__))
#define fa_nn_transformer_decoder_layer(d_model, nhead, ...)                                                                     \
    fa_nn_transformer_decoder_layer_with((d_model), (nhead), FA_NN_TRANSFORMER_OPTIONS(__VA_ARGS__))
#define fa_nn_transformer(d_model, nhead, ...) fa_nn_transformer_with((d_model), (nhead), FA_NN_TRANSFORMER_OPTIONS(__VA_ARGS__))
#define fa_transformer_call(net, first, second, ...)                                                                             \
    fa_transformer_call_with((net), (first), (second),                                                                           \
                             &(fa_transformer_masks){.struct_size = sizeof(fa_transformer_masks), __VA_ARGS__})
#define fa_square_subsequent_mask(n, ...) fa_square_subsequent_mask_with((n), FA_TENSOR_OPTIONS(__VA_ARGS__))
#endif

#ifdef __cplusplus
}
#endif
#endif
