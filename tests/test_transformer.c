/* Multi-head attention and transformers against PyTorch: initial values, outputs, weights, masks, dropout's draws,
 * derivatives; how they print; what they refuse; attention's refusals. tests/golden/make_recurrent.py draws the same numbers
 * from the same seeds.
 *
 * test-env: -
 * test-env: FACULA_SIM=cuda:1
 * test-env-opencl: FACULA_OPENCL=cpu
 * test-env-opencl: FACULA_OPENCL=cpu FACULA_OPENCL_PLAN=value */
#include "golden/transformer.h"
#include "support/recurrent.h"

static fa_tensor *bools(fa_shape shape, const uint8_t *values) {
    return fa_from_data(values, FA_BOOL, shape, .device = device());
}
static fa_tensor *swapped(fa_tensor *t) { return fa_transpose(t, 0, 1); }

static fa_module *attention_of(int i) {
    switch (i) {
    case 0: return fa_nn_multihead_attention(8, 2);
    case 1: return fa_nn_multihead_attention(8, 4, .batch_first = true, .bias = false);
    case 2: return fa_nn_multihead_attention(8, 2, .kdim = 3, .vdim = 5);
    case 3: return fa_nn_multihead_attention(8, 2, .add_bias_kv = true, .add_zero_attn = true);
    default: return fa_nn_multihead_attention(8, 2, .dropout = 0.5);
    }
}

static void attention_is_torchs(void **state) {
    static const char *const names[] = {"same", "batch first", "other sizes", "longer", "dropout"};
    (void)state;
    for (int i = 0; i < 5; i++) {
        FA_SCOPE;
        if (i == 4 && on_device()) continue; /* a device draws otherwise */
        fa_manual_seed(300 + (uint64_t)i);
        fa_module *net = ready(attention_of(i));
        fa_tensor *q = draw(FA_SHAPE(3, 2, 8)), *k = draw(FA_SHAPE(4, 2, i == 2 ? 3 : 8)),
                  *v = draw(FA_SHAPE(4, 2, i == 2 ? 5 : 8)), *w, *y;
        if (i == 1) q = swapped(q), k = swapped(k), v = swapped(v);
        fa_tensor *mask = bools(FA_SHAPE(3, 4), (uint8_t[]){0, 1, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0});
        fa_tensor *pad = bools(FA_SHAPE(2, 4), (uint8_t[]){0, 0, 0, 1, 0, 0, 0, 0});
        y = fa_multihead_attention_call(net, q, k, v, .attn_mask = mask, .key_padding_mask = pad, .weights = &w);
        matches(names[i], "y", 0, y);
        matches(names[i], "w", 0, w);
        derivatives(names[i], fa_add(weighted(y), weighted(w)), net, NULL, 0, true);
        y = fa_call(net, q, k, v);
        matches(names[i], "y", 1, y);
        if (i != 2 && i != 4) {
            y = fa_multihead_attention_call(net, q, q, q, .average_attn_weights = false, .weights = &w);
            matches(names[i], "y", 2, y);
            matches(names[i], "w", 2, w);
        }
    }
}

static void one_sequence_needs_no_batch(void **state) {
    (void)state;
    FA_SCOPE;
    fa_manual_seed(320);
    fa_module *net = ready(fa_nn_multihead_attention(8, 2));
    fa_tensor *x = draw(FA_SHAPE(3, 8)), *w, *mask = fa_square_subsequent_mask(3, .dtype = FA_FLOAT64, .device = device());
    holds(mask, 9, (double[]){0, -INFINITY, -INFINITY, 0, 0, -INFINITY, 0, 0, 0});
    matches("one", "y", -1, fa_multihead_attention_call(net, x, x, x, .attn_mask = mask, .is_causal = true, .weights = &w));
    matches("one", "w", -1, w);
    matches("one", "y", -1, fa_multihead_attention_call(net, x, x, x, .attn_mask = mask, .is_causal = true));
}

static fa_module *transformer_of(int i) {
    switch (i) {
    case 0: return fa_nn_transformer_encoder_layer(8, 2, .dim_feedforward = 16, .dropout = 0);
    case 1:
        return fa_nn_transformer_encoder_layer(8, 2, .dim_feedforward = 16, .dropout = 0, .activation = "gelu",
                                               .batch_first = true, .norm_first = true, .bias = false);
    case 2: return fa_nn_transformer_decoder_layer(8, 2, .dim_feedforward = 16, .dropout = 0);
    case 3:
        return fa_nn_transformer_decoder_layer(8, 2, .dim_feedforward = 16, .dropout = 0, .activation = "gelu",
                                               .norm_first = true);
    case 4: return fa_nn_transformer(8, 2, .num_encoder_layers = 2, .num_decoder_layers = 2, .dim_feedforward = 16, .dropout = 0);
    default:
        return fa_nn_transformer(8, 2, .num_encoder_layers = 1, .num_decoder_layers = 1, .dim_feedforward = 16, .dropout = 0.3,
                                 .batch_first = true);
    }
}

static void transformers_are_torchs(void **state) {
    static const char *const names[] = {"encoder layer", "encoder first", "decoder layer",
                                        "decoder first", "transformer",   "with dropout"};
    (void)state;
    for (int i = 0; i < 6; i++) {
        FA_SCOPE;
        if (i == 5 && on_device()) continue;
        fa_manual_seed(400 + (uint64_t)i);
        fa_module *net = ready(transformer_of(i));
        fa_tensor *x = draw(FA_SHAPE(3, 3, 8)), *other = draw(FA_SHAPE(3, 3, 8)), *y;
        fa_tensor *causal = fa_square_subsequent_mask(3, .dtype = FA_FLOAT64, .device = device());
        fa_tensor *pad = bools(FA_SHAPE(3, 3), (uint8_t[]){0, 0, 1, 0, 0, 0, 0, 1, 1});
        if (i < 2)
            y = fa_transformer_call(net, x, NULL, .src_mask = causal, .src_key_padding_mask = pad);
        else if (i < 4)
            y = fa_transformer_call(net, x, other, .tgt_mask = causal, .memory_key_padding_mask = pad);
        else
            y = fa_transformer_call(net, x, other, .tgt_mask = causal, .src_key_padding_mask = pad,
                                    .memory_key_padding_mask = pad);
        matches(names[i], "y", -1, y);
        derivatives(names[i], weighted(y), net, (fa_tensor *const[]){x, other}, i < 2 ? 1 : 2, i == 0 || i == 2);
    }
}

/* The layers of a stack begin alike and are their own. */
static void stacks_copy_their_layer(void **state) {
    (void)state;
    FA_SCOPE;
    fa_module *layer = fa_nn_transformer_encoder_layer(4, 2, .dim_feedforward = 4, .dropout = 0);
    fa_module *stack = fa_nn_transformer_encoder(layer, 3, fa_nn_layer_norm(4));
    fa_module *plain = fa_nn_transformer_decoder(fa_nn_transformer_decoder_layer(4, 2, .dim_feedforward = 4), 1, NULL);
    no_error("stacks");
    fa_tensor *a = fa_get_parameter(stack, "layers.0.linear1.weight"), *b = fa_get_parameter(stack, "layers.2.linear1.weight");
    assert_ptr_not_equal(a, b);
    assert_true(fa_item(fa_max(fa_abs(fa_sub(a, b)))) == 0 && fa_is_requires_grad(b) && fa_is_leaf(b));
    assert_int_equal(fa_parameters(stack, NULL, NULL, 0), 3 * fa_parameters(layer, NULL, NULL, 0) + 2);
    fa_tensor *x = fa_rand(FA_SHAPE(3, 2, 4));
    assert_true(fa_backward(fa_sum(fa_square(fa_call(stack, x)))) && fa_grad(a) && fa_grad(b));
    assert_non_null(fa_call(plain, x, x));
    assert_true(fa_load_state_dict(stack, fa_state_dict(stack), true));
}

/* ---- text and refusals ---- */

static void they_print_as_torch_prints_them(void **state) {
    (void)state;
    FA_SCOPE;
    prints_as(fa_nn_multihead_attention(8, 2),
              "MultiheadAttention(\n  (out_proj): NonDynamicallyQuantizableLinear(in_features=8, out_features=8, bias=True)\n)");
    prints_as(
        fa_nn_transformer_encoder_layer(8, 2),
        "TransformerEncoderLayer(\n  (self_attn): MultiheadAttention(\n    (out_proj): "
        "NonDynamicallyQuantizableLinear(in_features=8, out_features=8, bias=True)\n  )\n"
        "  (linear1): Linear(in_features=8, out_features=2048, bias=True)\n  (dropout): Dropout(p=0.1, inplace=False)\n"
        "  (linear2): Linear(in_features=2048, out_features=8, bias=True)\n  (norm1): LayerNorm((8,), eps=1e-05, "
        "elementwise_affine=True, bias=True)\n"
        "  (norm2): LayerNorm((8,), eps=1e-05, elementwise_affine=True, bias=True)\n  (dropout1): Dropout(p=0.1, inplace=False)\n"
        "  (dropout2): Dropout(p=0.1, inplace=False)\n)");
}

static fa_tensor *own_forward(fa_module *self, fa_tensor *const *inputs, int ninputs) {
    (void)self, (void)ninputs;
    return inputs[0];
}

static void constructors_refuse(void **state) {
    (void)state;
    FA_SCOPE;
    refuses(fa_nn_multihead_attention(8, 3), FA_ERR_VALUE, "embed_dim must be divisible by num_heads");
    refuses(fa_nn_multihead_attention(0, 3), FA_ERR_VALUE,
            "embed_dim and num_heads must be greater than 0, got embed_dim=0 and num_heads=3 instead");
    refuses(fa_nn_multihead_attention(8, 2, .kdim = -1), FA_ERR_VALUE, "kdim and vdim must not be negative: found -1 and 0");
    refuses(fa_nn_transformer_encoder_layer(8, 2, .activation = "x"), FA_ERR_RUNTIME, "activation should be relu/gelu, not x");
    refuses(fa_nn_transformer_encoder(fa_nn_relu(), 2, NULL), FA_ERR_TYPE,
            "argument 'layer' is a ReLU: TransformerEncoderLayer is needed");
    fa_module *layer = fa_nn_transformer_encoder_layer(4, 2, .dim_feedforward = 4);
    static int data;
    assert_true(fa_add_module(fa_get_module(layer, "self_attn"), "own",
                              fa_module_new(&(fa_module_type){.name = "Own", .forward = own_forward}, &data)));
    refuses(fa_nn_transformer_encoder(layer, 2, NULL), FA_ERR_UNSUPPORTED,
            "a module with data of the program's own can't be copied: make each layer and use fa_module_list");
    refuses(fa_nn_transformer_encoder(layer, -1, NULL), FA_ERR_VALUE, "num_layers is -1: 0 to 4096 are possible");
}

static fa_tensor *r(int a, int b, int c) {
    fa_shape s = {.ndim = c ? 3 : b ? 2 : 1, .dim = {a, b, c}};
    return fa_rand(s, .device = device());
}
static fa_tensor *z(int a, int b, int c, fa_dtype dtype) {
    fa_shape s = {.ndim = c ? 3 : b ? 2 : 1, .dim = {a, b, c}};
    return fa_zeros(s, .device = device(), .dtype = dtype);
}

static void attention_modules_refuse(void **state) {
    (void)state;
    FA_SCOPE;
    fa_module *m = fa_nn_multihead_attention(8, 2);
    fa_module_to(m, device());
    fa_tensor *x = r(3, 2, 8), *one = r(3, 8, 0), *flat = r(8, 0, 0);
#define CALL(q, k, v, ...) fa_multihead_attention_call(m, q, k, v, __VA_ARGS__)
    refuses(fa_call(m, x, x, r(4, 2, 8)), FA_ERR_VALUE,
            "key shape torch.Size([3, 2, 8]) does not match value shape torch.Size([4, 2, 8])");
    refuses(fa_call(m, r(3, 2, 6), x, x), FA_ERR_VALUE, "was expecting embedding dimension of 8, but got 6");
    refuses(fa_call(m, x, r(3, 1, 8), r(3, 1, 8)), FA_ERR_VALUE, "query has a batch of 2, key one of 1");
    refuses(fa_call(m, flat, x, x), FA_ERR_VALUE,
            "query should be unbatched 2D or batched 3D tensor but received 1-D query tensor");
    refuses(fa_call(m, x, one, x), FA_ERR_VALUE,
            "For batched (3-D) `query`, expected `key` and `value` to be 3-D but found 2-D and 3-D tensors respectively");
    refuses(fa_call(m, x, x), FA_ERR_TYPE, "MultiheadAttention.forward() takes query, key and value, but 2 tensors were given");
    refuses(CALL(x, x, x, .key_padding_mask = z(3, 2, 0, FA_BOOL)), FA_ERR_VALUE,
            "Expected key_padded_mask.shape[0] to be 2, but got 3");
    refuses(CALL(x, x, x, .key_padding_mask = z(2, 2, 0, FA_BOOL)), FA_ERR_VALUE,
            "Expected key_padded_mask.shape[1] to be 3, but got 2");
    refuses(CALL(x, x, x, .key_padding_mask = r(3, 0, 0)), FA_ERR_VALUE,
            "For batched (3-D) `query`, expected `key_padding_mask` to be `None` or 2-D but found 1-D tensor instead");
    refuses(CALL(x, x, x, .key_padding_mask = z(2, 3, 0, FA_INT32)), FA_ERR_VALUE,
            "only bool and floating types of key_padding_mask are supported");
    refuses(CALL(x, x, x, .attn_mask = z(2, 3, 0, FA_BOOL)), FA_ERR_RUNTIME,
            "The shape of the 2D attn_mask is torch.Size([2, 3]), but should be (3, 3).");
    refuses(CALL(x, x, x, .attn_mask = z(3, 3, 3, FA_BOOL)), FA_ERR_RUNTIME,
            "The shape of the 3D attn_mask is torch.Size([3, 3, 3]), but should be (4, 3, 3).");
    refuses(CALL(one, one, one, .attn_mask = r(3, 0, 0)), FA_ERR_VALUE,
            "For unbatched (2-D) `query`, expected `attn_mask` to be `None`, 2-D or 3-D but found 1-D tensor instead");
    refuses(CALL(x, x, x, .is_causal = true), FA_ERR_RUNTIME,
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module method "
            "`generate_square_subsequent_mask` to create this mask");
    refuses(fa_multihead_attention_call(fa_nn_relu(), x, x, x), FA_ERR_TYPE,
            "argument 'module' is a ReLU: MultiheadAttention is needed");
}

static void transformer_calls_refuse(void **state) {
    (void)state;
    FA_SCOPE;
    fa_module *t = fa_nn_transformer(8, 2, .num_encoder_layers = 1, .num_decoder_layers = 1, .dim_feedforward = 16);
    fa_module *e = fa_nn_transformer_encoder_layer(8, 2, .dim_feedforward = 16);
    fa_module_to(t, device()), fa_module_to(e, device());
    fa_tensor *x = r(3, 2, 8);
    refuses(fa_call(t, x, r(3, 1, 8)), FA_ERR_RUNTIME, "the batch number of src and tgt must be equal");
    refuses(fa_call(t, r(3, 2, 7), x), FA_ERR_RUNTIME, "the feature number of src and tgt must be equal to d_model");
    refuses(fa_call(t, x), FA_ERR_TYPE, "Transformer.forward() takes 2 inputs but 1 were given");
    refuses(fa_call(e, x, x, x), FA_ERR_TYPE, "TransformerEncoderLayer.forward() takes src and a mask, but 3 tensors were given");
    refuses(fa_transformer_call(e, x, x), FA_ERR_TYPE, "TransformerEncoderLayer takes one input: the second must be NULL");
    refuses(fa_transformer_call(fa_nn_relu(), x, NULL), FA_ERR_TYPE,
            "argument 'module' is a ReLU: a transformer, or a part of one, is needed");
}

static void attention_refuses(void **state) {
    (void)state;
    FA_SCOPE;
    fa_tensor *q = r(2, 4, 5), *wide = fa_cast(q, FA_FLOAT64);
#define SDPA(q, k, v, ...) fa_scaled_dot_product_attention(q, k, v, __VA_ARGS__)
    refuses(SDPA(q, wide, q, .scale = 1), FA_ERR_RUNTIME,
            "Expected query, key, and value to have the same dtype, but got query.dtype: float key.dtype: double and "
            "value.dtype: float instead.");
    refuses(SDPA(r(5, 0, 0), q, q, .scale = 1), FA_ERR_RUNTIME,
            "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: 1 key.dim: 3 and value.dim: 3 "
            "instead.");
    refuses(SDPA(q, r(2, 4, 6), q, .scale = 1), FA_ERR_RUNTIME,
            "the last sizes of query and key must be the same, found 5 and 6");
    refuses(SDPA(q, r(2, 3, 5), q, .scale = 1), FA_ERR_RUNTIME, "key has 3 rows and value 4: they must be as many");
    refuses(SDPA(q, q, q, .attn_mask = z(4, 4, 0, FA_INT32)), FA_ERR_RUNTIME,
            "Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: int and  "
            "query.dtype: float instead.");
    refuses(SDPA(q, q, q, .attn_mask = r(3, 4, 0)), FA_ERR_RUNTIME,
            "The size of tensor a (4) must match the size of tensor b (3) at non-singleton dimension 1");
    refuses(SDPA(q, q, q, .attn_mask = fa_unsqueeze(fa_unsqueeze(r(4, 4, 0), 0), 0)), FA_ERR_RUNTIME,
            "attn_mask of shape [1, 1, 4, 4] does not expand to the scores' [2, 4, 4]");
    refuses(SDPA(q, q, q, .dropout_p = 2), FA_ERR_RUNTIME, "dropout probability has to be between 0 and 1, but got 2");
    refuses(SDPA(q, r(3, 4, 5), r(3, 4, 5), .scale = 1), FA_ERR_RUNTIME,
            "The size of tensor a (2) must match the size of tensor b (3) at non-singleton dimension 0");
    refuses(SDPA(q, r(3, 4, 5), r(3, 4, 5), .enable_gqa = true), FA_ERR_RUNTIME,
            "Number of heads in key and value must divide the number of heads in query: found 3 and 3 for 2");
    refuses(SDPA(r(4, 5, 0), q, q, .enable_gqa = true), FA_ERR_RUNTIME,
            "enable_gqa needs a dimension of heads before the last two");
    refuses(SDPA(z(2, 3, 4, FA_INT64), z(2, 3, 4, FA_INT64), z(2, 3, 4, FA_INT64), .scale = 1), FA_ERR_RUNTIME,
            "expected scalar type Float but found Long");
    fa_tensor *q4 = fa_unsqueeze(q, 0), *wide4 = fa_unsqueeze(wide, 0);
    refuses(fa_attention(q, q, q, NULL, false, 1), FA_ERR_RUNTIME,
            "query [b, h, l, e], key [b, h, s, e] and value [b, h, s, v] are needed, found [2, 4, 5], [2, 4, 5] and [2, 4, 5]");
    refuses(fa_attention(q4, wide4, q4, NULL, false, 1), FA_ERR_RUNTIME,
            "query, key and value must be of one type, found float32, float64 and float32");
    refuses(fa_attention(q4, q4, q4, r(3, 4, 0), false, 1), FA_ERR_RUNTIME,
            "the mask's shape [3, 4] does not expand to [1, 2, 4, 4]");
    fa_tensor *broad = fa_zeros(FA_SHAPE(1, 1, 2, 300), .device = device());
    if (on_device())
        refuses(fa_attention(broad, broad, broad, NULL, false, 1), FA_ERR_UNSUPPORTED,
                "on a device the last sizes are at most 256");
    assert_non_null(SDPA(broad, broad, broad, .scale = 1)); /* goes by steps there */
    no_error("wide");
}

/* Rows that may look at nothing are 0, not NaN, and so are their derivatives. */
static void empty_rows_are_zero(void **state) {
    (void)state;
    FA_SCOPE;
    fa_tensor *q = fa_requires_grad(fa_rand(FA_SHAPE(1, 1, 2, 3), .device = device()), true);
    fa_tensor *mask = bools(FA_SHAPE(2, 2), (uint8_t[]){1, 1, 0, 0}),
              *y = fa_scaled_dot_product_attention(q, q, q, .attn_mask = mask);
    holds(fa_select(fa_select(fa_select(y, 0, 0), 0, 0), 0, 1), 3, (double[]){0, 0, 0});
    assert_true(fa_backward(fa_sum(fa_square(y))));
    assert_false(fa_item(fa_any(fa_isnan(fa_grad(q)))) != 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_is_torchs),
        cmocka_unit_test(one_sequence_needs_no_batch),
        cmocka_unit_test(transformers_are_torchs),
        cmocka_unit_test(stacks_copy_their_layer),
        cmocka_unit_test(they_print_as_torch_prints_them),
        cmocka_unit_test(constructors_refuse),
        cmocka_unit_test(attention_modules_refuse),
        cmocka_unit_test(transformer_calls_refuse),
        cmocka_unit_test(attention_refuses),
        cmocka_unit_test(empty_rows_are_zero),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed + fa_finish("test_transformer");
}
