/* Tests of the layers made from layers.tab: how they print, what they refuse, initial values as torch draws them, and that a
 * layer that can't be made leaves nothing behind. */
#include <facula.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

static int clean(void **state)
{
    (void)state;
    fa_test_fail_allocation(0, false);
    fa_error_take();
    return 0;
}

/* ---- text ---- */

static void prints_as(fa_module *m, const char *wanted)
{
    char text[400];
    fa_module_to_text(m, text, sizeof text);
    assert_false(fa_failed());
    assert_string_equal(text, wanted);
}

static void layers_print_as_torch_prints_them(void **state)
{
    (void)state;
    FA_SCOPE;
    prints_as(fa_nn_linear(2, 3), "Linear(in_features=2, out_features=3, bias=True)");
    prints_as(fa_nn_linear(2, 3, .bias = false), "Linear(in_features=2, out_features=3, bias=False)");
    prints_as(fa_nn_conv2d(1, 2, 3), "Conv2d(1, 2, kernel_size=(3, 3), stride=(1, 1))");
    prints_as(fa_nn_conv2d(4, 8, FA_DIMS(3, 5), .stride = FA_DIMS(2), .padding = FA_DIMS(1), .dilation = FA_DIMS(2), .groups = 2,
                           .bias = false),
              "Conv2d(4, 8, kernel_size=(3, 5), stride=(2, 2), padding=(1, 1), dilation=(2, 2), groups=2, bias=False)");
    prints_as(fa_nn_batch_norm2d(4), "BatchNorm2d(4, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)");
    prints_as(fa_nn_layer_norm(4), "LayerNorm((4,), eps=1e-05, elementwise_affine=True, bias=True)");
    prints_as(fa_nn_layer_norm(FA_DIMS(2, 3), .bias = false),
              "LayerNorm((2, 3), eps=1e-05, elementwise_affine=True, bias=False)");
    prints_as(fa_nn_embedding(10, 3), "Embedding(10, 3)");
    prints_as(fa_nn_embedding(10, 3, .padding_idx = 1), "Embedding(10, 3, padding_idx=1)");
    prints_as(fa_nn_dropout(0.1), "Dropout(p=0.1, inplace=False)");
    prints_as(fa_nn_max_pool2d(2), "MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)");
    prints_as(fa_nn_max_pool2d(FA_DIMS(2, 3), .stride = FA_DIMS(1)),
              "MaxPool2d(kernel_size=(2, 3), stride=1, padding=0, dilation=1, ceil_mode=False)");
    prints_as(fa_nn_avg_pool2d(2), "AvgPool2d(kernel_size=2, stride=2, padding=0)");
    prints_as(fa_nn_flatten(), "Flatten(start_dim=1, end_dim=-1)");
    prints_as(fa_nn_identity(), "Identity()");
    prints_as(fa_nn_relu(), "ReLU()");
    prints_as(fa_nn_leaky_relu(.negative_slope = 0.1), "LeakyReLU(negative_slope=0.1)");
    prints_as(fa_nn_leaky_relu(.negative_slope = 1.0 / 3), "LeakyReLU(negative_slope=0.3333333333333333)");
    prints_as(fa_nn_elu(.alpha = 1234567), "ELU(alpha=1234567.0)");
    prints_as(fa_nn_elu(.alpha = 1.5e-7), "ELU(alpha=1.5e-07)");
    prints_as(fa_nn_elu(.alpha = 0.00025), "ELU(alpha=0.00025)");
    prints_as(fa_nn_elu(.alpha = 1e16), "ELU(alpha=1e+16)");
    prints_as(fa_nn_elu(), "ELU(alpha=1.0)");
    prints_as(fa_nn_gelu(), "GELU(approximate='none')");
    prints_as(fa_nn_softplus(), "Softplus(beta=1.0, threshold=20.0)");
    prints_as(fa_nn_hardtanh(), "Hardtanh(min_val=-1.0, max_val=1.0)");
    prints_as(fa_nn_softmax(1), "Softmax(dim=1)");
    prints_as(fa_nn_log_softmax(-1), "LogSoftmax(dim=-1)");
    prints_as(fa_nn_conv1d(4, 4, 3, .dilation = FA_DIMS(2), .groups = 2, .bias = false, .padding_mode = "reflect", .auto_padding = "same"),
              "Conv1d(4, 4, kernel_size=(3,), stride=(1,), padding=same, dilation=(2,), groups=2, bias=False, padding_mode=reflect)");
    prints_as(fa_nn_conv3d(1, 2, 3), "Conv3d(1, 2, kernel_size=(3, 3, 3), stride=(1, 1, 1))");
    prints_as(fa_nn_conv_transpose2d(4, 2, 3, .stride = FA_DIMS(2), .output_padding = FA_DIMS(1), .padding = FA_DIMS(1), .groups = 2),
              "ConvTranspose2d(4, 2, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1), output_padding=(1, 1), groups=2)");
    prints_as(fa_nn_max_pool1d(2), "MaxPool1d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)");
    prints_as(fa_nn_avg_pool1d(2), "AvgPool1d(kernel_size=(2,), stride=(2,), padding=(0,))");
    prints_as(fa_nn_avg_pool3d(FA_DIMS(1, 2, 2)), "AvgPool3d(kernel_size=(1, 2, 2), stride=(1, 2, 2), padding=0)");
    prints_as(fa_nn_adaptive_avg_pool2d(FA_DIMS(-1, 2)), "AdaptiveAvgPool2d(output_size=(None, 2))");
    prints_as(fa_nn_adaptive_max_pool2d(1), "AdaptiveMaxPool2d(output_size=1)");
    prints_as(fa_nn_max_unpool2d(2), "MaxUnpool2d(kernel_size=(2, 2), stride=(2, 2), padding=(0, 0))");
    prints_as(fa_nn_zero_pad2d(1), "ZeroPad2d((1, 1, 1, 1))");
    prints_as(fa_nn_constant_pad1d(1, 2.5), "ConstantPad1d(padding=(1, 1), value=2.5)");
    prints_as(fa_nn_reflection_pad2d(FA_DIMS(1, 1, 2, 2)), "ReflectionPad2d((1, 1, 2, 2))");
    prints_as(fa_nn_group_norm(2, 4), "GroupNorm(2, 4, eps=1e-05, affine=True, bias=True)");
    prints_as(fa_nn_instance_norm1d(3), "InstanceNorm1d(3, eps=1e-05, momentum=0.1, affine=False, bias=False, track_running_stats=False)");
    prints_as(fa_nn_rms_norm(4), "RMSNorm((4,), eps=None, elementwise_affine=True)");
    prints_as(fa_nn_rms_norm(FA_DIMS(2, 3), .eps = 1e-6, .elementwise_affine = false), "RMSNorm((2, 3), eps=1e-06, elementwise_affine=False)");
    prints_as(fa_nn_local_response_norm(2), "LocalResponseNorm(2, alpha=0.0001, beta=0.75, k=1.0)");
    prints_as(fa_nn_upsample(.scale_factor = FA_FACTORS(2)), "Upsample(scale_factor=2.0, mode='nearest')");
    prints_as(fa_nn_upsample(.size = FA_DIMS(3, 4), .mode = "bilinear"), "Upsample(size=(3, 4), mode='bilinear')");
    prints_as(fa_nn_upsample(.scale_factor = FA_FACTORS(2, 3)), "Upsample(scale_factor=(2.0, 3.0), mode='nearest')");
    prints_as(fa_nn_upsampling_bilinear2d(.size = FA_DIMS(4)), "UpsamplingBilinear2d(size=4, mode='bilinear')");
    prints_as(fa_nn_fold(FA_DIMS(4, 5), 2), "Fold(output_size=(4, 5), kernel_size=2, dilation=1, padding=0, stride=1)");
    prints_as(fa_nn_unflatten(1, FA_DIMS(2, 3)), "Unflatten(dim=1, unflattened_size=(2, 3))");
    prints_as(fa_nn_dropout2d(.p = 0.2), "Dropout2d(p=0.2, inplace=False)");
    prints_as(fa_nn_prelu(), "PReLU(num_parameters=1)");
    prints_as(fa_nn_rrelu(), "RReLU(lower=0.125, upper=0.3333333333333333)");
    prints_as(fa_nn_hardshrink(), "Hardshrink(0.5)");
    prints_as(fa_nn_bilinear(2, 3, 4), "Bilinear(in1_features=2, in2_features=3, out_features=4, bias=True)");
    prints_as(fa_nn_lp_pool2d(2, 3), "LPPool2d(norm_type=2.0, kernel_size=3, stride=None, ceil_mode=False)");
    prints_as(fa_nn_mse_loss(), "MSELoss()");
    prints_as(fa_nn_bce_with_logits_loss(.reduction = "sum"), "BCEWithLogitsLoss()");
    prints_as(fa_sequential(fa_nn_linear(1, 2), fa_nn_relu(), fa_sequential(fa_nn_linear(2, 1))),
              "Sequential(\n  (0): Linear(in_features=1, out_features=2, bias=True)\n  (1): ReLU()\n  (2): Sequential(\n"
              "    (0): Linear(in_features=2, out_features=1, bias=True)\n  )\n)");
}

/* ---- what they refuse ---- */

static void refused(fa_module *m, fa_code code, const char *op, const char *begins)
{
    assert_null(m);
    const fa_error e = fa_error_take();
    assert_int_equal(e.code, code);
    assert_string_equal(e.op, op);
    assert_memory_equal(e.text, begins, strlen(begins));
}

static void arguments_are_checked(void **state)
{
    (void)state;
    FA_SCOPE;
    refused(fa_nn_linear(-1, 2), FA_ERR_RUNTIME, "Linear", "Trying to create tensor with negative dimension -1: [2, -1]");
    refused(fa_nn_conv2d(3, 4, 3, .groups = 2), FA_ERR_VALUE, "Conv2d",
            "in_channels must be divisible by groups: found in_channels = 3, groups = 2");
    refused(fa_nn_conv2d(4, 3, 3, .groups = 2), FA_ERR_VALUE, "Conv2d", "out_channels must be divisible by groups");
    refused(fa_nn_conv2d(4, 4, 3, .groups = 0), FA_ERR_VALUE, "Conv2d", "groups must be a positive integer");
    refused(fa_nn_conv2d(4, 4, FA_DIMS(3, 0)), FA_ERR_VALUE, "Conv2d", "kernel_size must be positive: found kernel_size = 0");
    refused(fa_nn_conv2d(4, 4, FA_DIMS(1, 2, 3)), FA_ERR_VALUE, "Conv2d", "argument 'kernel_size' must be one number or two");
    refused(fa_nn_max_pool2d(2, .stride = FA_DIMS(0)), FA_ERR_VALUE, "MaxPool2d", "stride must be positive");
    refused(fa_nn_dropout(1.5), FA_ERR_VALUE, "Dropout", "dropout probability has to be between 0 and 1: found p = 1.5");
    refused(fa_nn_dropout(NAN), FA_ERR_VALUE, "Dropout", "dropout probability has to be between 0 and 1");
    refused(fa_nn_embedding(3, 2, .padding_idx = 3), FA_ERR_VALUE, "Embedding", "Padding_idx must be within num_embeddings");
    refused(fa_nn_batch_norm1d(-4), FA_ERR_RUNTIME, "BatchNorm1d", "Trying to create tensor with negative dimension -4");
    refused(fa_nn_linear_with(1, 2, &(fa_nn_linear_options){.struct_size = 4}), FA_ERR_VALUE, "Linear",
            "the options have struct_size 4");
    fa_module *net = fa_nn_relu();
    fa_tensor *x = fa_ones(FA_SHAPE(2));
    assert_null(fa_call(net, x, x));
    assert_int_equal(fa_error_take().code, FA_ERR_TYPE);
    assert_null(fa_call(fa_nn_batch_norm2d(2), fa_ones(FA_SHAPE(3, 2))));
    assert_string_equal(fa_error_take().text, "expected 4D input (got 2D input)");
}

/* ---- parameters ---- */

static void parameter_is(fa_module *m, const char *name, int n, const double *first)
{
    float values[64] = {0};
    fa_tensor *t = fa_get_parameter(m, name);
    assert_non_null(t);
    assert_true(fa_numel(t) <= 64 && n <= fa_numel(t));
    assert_true(fa_to_data(t, values, FA_FLOAT32));
    for (int i = 0; i < n; i++) assert_true(fabs(values[i] - first[i]) < 1e-6);
}

/* torch.manual_seed(0), then the layer: its first values. */
static void initial_values_are_torchs(void **state)
{
    (void)state;
    FA_SCOPE;
    fa_manual_seed(0);
    fa_module *linear = fa_nn_linear(3, 2);
    parameter_is(linear, "weight", 3, (const double[]){-0.0043225177, 0.3097158372, -0.4751853347});
    parameter_is(linear, "bias", 2, (const double[]){-0.0114391446, 0.4577749372});
    fa_manual_seed(0);
    fa_module *conv = fa_nn_conv2d(1, 2, 2);
    parameter_is(conv, "weight", 3, (const double[]){-0.0037434101, 0.2682217956, -0.4115225971});
    parameter_is(conv, "bias", 2, (const double[]){-0.0443720222, 0.1323062778});
    fa_manual_seed(0);
    fa_module *embedding = fa_nn_embedding(3, 2, .padding_idx = 1);
    parameter_is(embedding, "weight", 6, (const double[]){1.5409960747, -0.2934289277, 0, 0, -1.0845223665, -1.3985954523});
    fa_module *norm = fa_nn_batch_norm1d(2);
    parameter_is(norm, "weight", 2, (const double[]){1, 1});
    parameter_is(norm, "running_mean", 2, (const double[]){0, 0});
    assert_int_equal(fa_item_int(fa_get_parameter(norm, "num_batches_tracked")), 0);
    assert_null(fa_get_parameter(fa_nn_linear(2, 2, .bias = false), "bias"));
    fa_error_take();
}

static void a_batch_is_counted_and_averaged(void **state)
{
    (void)state;
    FA_SCOPE;
    fa_module *norm = fa_nn_batch_norm1d(1);
    fa_tensor *x = fa_reshape(fa_floats(1, 3), FA_SHAPE(2, 1));
    fa_tensor *y = fa_call(norm, x);
    assert_true(fabs(fa_item(fa_select(fa_reshape(y, FA_SHAPE(2)), 0, 1)) - 1) < 1e-4);
    parameter_is(norm, "running_mean", 1, (const double[]){0.2});
    parameter_is(norm, "running_var", 1, (const double[]){1.1});
    assert_int_equal(fa_item_int(fa_get_parameter(norm, "num_batches_tracked")), 1);
    fa_train(norm, false);
    fa_call(norm, x);
    assert_int_equal(fa_item_int(fa_get_parameter(norm, "num_batches_tracked")), 1);
    assert_false(fa_failed());
}

/* torch.manual_seed(0), the layer, then torch.arange over its input: the sum of its output times 1, 2, 3, ... */
static void gives(fa_module *layer, fa_shape shape, double sum)
{
    int64_t n = 1;
    for (int d = 0; d < shape.ndim; d++) n *= shape.dim[d];
    fa_tensor *x = fa_reshape(fa_div_scalar(fa_arange(0, n, 1, .dtype = FA_FLOAT32), n), shape), *y = fa_call(layer, x);
    fa_tensor *weights = fa_arange(1, fa_numel(y) + 1, 1, .dtype = FA_FLOAT32);
    const double found = fa_item(fa_sum(fa_mul(fa_flatten(y, 0, -1), weights)));
    if (fa_failed()) fail_msg("%s: %s", fa_module_name(layer), fa_error_peek()->text);
    if (fabs(found - sum) > 2e-5 * fmax(1, fabs(sum))) fail_msg("%s gives %.9g, torch %.9g", fa_module_name(layer), found, sum);
}

#include "golden/layers.h"

/* ---- layers of two inputs ---- */

static void losses_are_layers(void **state)
{
    (void)state;
    FA_SCOPE;
    fa_tensor *x = fa_floats(1, 2), *y = fa_floats(0, 4);
    assert_true(fa_item(fa_call(fa_nn_mse_loss(), x, y)) == 2.5);
    assert_true(fa_item(fa_call(fa_nn_l1_loss(.reduction = "sum"), x, y)) == 3);
    assert_int_equal(fa_numel(fa_call(fa_nn_huber_loss(.reduction = "none"), x, y)), 2);
    fa_tensor *a = fa_full(FA_SHAPE(2, 2), 1.0), *b = fa_full(FA_SHAPE(2, 2), 3.0), *signs = fa_ints(1, -1);
    assert_true(fabs(fa_item(fa_call(fa_nn_triplet_margin_loss(), a, b, b)) - 1) < 1e-6);
    assert_true(fabs(fa_item(fa_call(fa_nn_cosine_embedding_loss(), a, b, signs)) - 0.5) < 1e-6);
    assert_true(fa_item(fa_call(fa_nn_margin_ranking_loss(.margin = 0.5), x, y, fa_floats(1, 1))) == 1.25);
    assert_true(fa_item(fa_call(fa_nn_gaussian_nll_loss(), x, x, fa_floats(1, 1))) == 0);
    assert_true(fabs(fa_item(fa_call(fa_nn_poisson_nll_loss(.log_input = false), x, x)) - (3 - 2 * log(2)) / 2) < 1e-6);
    assert_true(fa_item(fa_call(fa_nn_multi_margin_loss(), a, fa_ints(0, 1))) == 0.5);
    fa_tensor *weight = fa_floats(1, 3);
    fa_module *loss = fa_nn_cross_entropy_loss(.weight = weight, .reduction = "sum");
    assert_ptr_equal(fa_get_parameter(loss, "weight"), weight);
    fa_tensor *logits = fa_zeros(FA_SHAPE(2, 2)), *classes = fa_ints(0, 1);
    assert_true(fabs(fa_item(fa_call(loss, logits, classes)) - 4 * log(2)) < 1e-6);
    assert_false(fa_failed());
    assert_null(fa_call(loss, logits));
    assert_string_equal(fa_error_take().text, "CrossEntropyLoss.forward() takes 2 inputs but 1 were given");
    refused(fa_nn_mse_loss(.reduction = "average"), FA_ERR_VALUE, "MSELoss",
            "reduction must be one of {'mean', 'sum', 'none'}, but got reduction='average'");
}

/* ---- no memory ---- */

static bool make_some(void)
{
    FA_SCOPE;
    return fa_sequential(fa_nn_conv2d(2, 2, 3), fa_nn_batch_norm2d(2), fa_nn_layer_norm(FA_DIMS(2, 2)), fa_nn_relu(),
                         fa_nn_max_pool2d(2), fa_nn_dropout(0.5), fa_nn_embedding(3, 2, .padding_idx = 0),
                         fa_nn_linear(4, 2)) != NULL;
}

static void a_layer_that_cannot_be_made_leaves_nothing(void **state)
{
    (void)state;
    fa_test_caches(false);
    assert_true(make_some());
    const uint64_t bytes = fa_host_memory_use().bytes;
    int failures = 0;
    bool done = false;
    for (int sticky = 0; sticky < 2; sticky++) {
        done = false;
        for (uint64_t n = 1; n < 1000 && !done; n++) {
            fa_test_fail_allocation(n, sticky);
            const bool made = make_some();
            fa_test_fail_allocation(0, false);
            const fa_error e = fa_error_take();
            assert_int_equal(made ? FA_OK : FA_ERR_MEMORY, e.code);
            assert_int_equal(fa_host_memory_use().bytes, bytes);
            failures += !made;
            done = made;
        }
        assert_true(done);
    }
    assert_true(failures > 10);
    fa_test_caches(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(layers_print_as_torch_prints_them, clean),
        cmocka_unit_test_teardown(arguments_are_checked, clean),
        cmocka_unit_test_teardown(initial_values_are_torchs, clean),
        cmocka_unit_test_teardown(a_batch_is_counted_and_averaged, clean),
        cmocka_unit_test_teardown(layers_give_what_torchs_give, clean),
        cmocka_unit_test_teardown(losses_are_layers, clean),
        cmocka_unit_test_teardown(a_layer_that_cannot_be_made_leaves_nothing, clean),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return fa_finish("test_layers") || failed;
}
