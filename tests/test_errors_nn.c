/* Errors of the operators and layers of networks in all dimensions: convolution, padding, pooling and more of torch.nn. */
/* test-env: - */
/* test-env: FACULA_SIM=cuda:2 */
/* test-env-opencl: FACULA_OPENCL=cpu */
#include "support/check.h"
#include "support/refused.h"
#include <facula.h>

static fa_tensor *ones(fa_shape shape) { return fa_ones(shape, .device = device); }
static fa_tensor *index_of(fa_shape shape) { return fa_zeros(shape, .dtype = FA_INT64, .device = device); }

static void convolutions(void **state) {
    (void)state;
    fa_tensor *x = watch(ones(FA_SHAPE(2, 3, 5))), *w = watch(ones(FA_SHAPE(4, 3, 3)));
    REFUSED(fa_conv1d(ones(FA_SHAPE(2, 3, 5, 1)), w), RUNTIME,
            "Expected 2D (unbatched) or 3D (batched) input to conv1d, but got input of size: [2, 3, 5, 1]");
    REFUSED(fa_conv1d(ones(FA_SHAPE(2, 2, 5)), w), RUNTIME,
            "Given groups=1, weight of size [4, 3, 3], expected input[2, 2, 5] to have 3 channels, but got 2 channels instead");
    REFUSED(fa_conv1d(ones(FA_SHAPE(2, 3, 2)), w), RUNTIME, "Calculated padded input size per channel: (2). Kernel size: (3).");
    REFUSED(fa_conv1d(x, w, .stride = FA_DIMS(0)), RUNTIME, "non-positive stride is not supported: got 0, give 1 or more");
    REFUSED(fa_conv1d(x, w, .padding = FA_DIMS(-1)), RUNTIME, "negative padding is not supported");
    REFUSED(fa_conv1d(x, w, .stride = FA_DIMS(1, 1)), RUNTIME,
            "expected stride to be a single integer value or a list of 1 values, but got stride=[1, 1]");
    REFUSED(
        fa_conv1d(x, w, .bias = ones(FA_SHAPE(3))), RUNTIME,
        "Given weight of size [4, 3, 3], expected bias to be 1-dimensional with 4 elements, but got bias of size [3] instead");
    REFUSED(fa_conv1d(x, ones(FA_SHAPE(4, 3, 3, 3))), RUNTIME,
            "Expected 4-dimensional input for 4-dimensional weight [4, 3, 3, 3], but got 3-dimensional input of size [2, 3, 5] "
            "instead");
    REFUSED(fa_conv1d(x, w, .groups = 0), RUNTIME, "non-positive groups is not supported");
    REFUSED(fa_conv1d(x, w, .groups = 3), RUNTIME, "Given groups=3, expected weight to be divisible by 3 at dimension 0");
    REFUSED(fa_conv1d(x, fa_cast(w, FA_FLOAT64)), RUNTIME, "Input type (Float) and weight type (Double) should be the same.");
    REFUSED(fa_conv1d(fa_cast(x, FA_INT64), fa_cast(w, FA_INT64)), UNSUPPORTED, "\"conv2d\" not implemented for 'Long'.");
    REFUSED(fa_conv3d(ones(FA_SHAPE(2, 3, 4, 5, 1)), ones(FA_SHAPE(4, 3, 2, 2, 2))), RUNTIME,
            "Calculated padded input size per channel: (4 x 5 x 1). Kernel size: (2 x 2 x 2).");
    REFUSED(fa_conv_same(x, ones(FA_SHAPE(4, 3))), RUNTIME,
            "weight must have 3, 4 or 5 dimensions, for conv1d, conv2d or conv3d, but has 2");
    REFUSED(
        fa_conv_transpose1d(x, w), RUNTIME,
        "Given transposed=1, weight of size [4, 3, 3], expected input[2, 3, 5] to have 4 channels, but got 3 channels instead");
    fa_tensor *image = ones(FA_SHAPE(2, 3, 5, 5)), *turned = ones(FA_SHAPE(3, 4, 3, 3));
    REFUSED(fa_conv_transpose2d(image, turned, .output_padding = FA_DIMS(1)), RUNTIME,
            "output padding must be smaller than either stride or dilation, but got output_padding (1 x 1)");
    REFUSED(fa_conv_transpose2d(ones(FA_SHAPE(2, 3, 1, 1)), ones(FA_SHAPE(3, 4, 1, 1)), .padding = FA_DIMS(1)), RUNTIME,
            "Given input size per channel: 1. Calculated output size per channel: -1. Output size is too small");
    REFUSED(fa_nn_conv2d(2, 2, 3, .auto_padding = "same", .stride = FA_DIMS(2)), VALUE,
            "padding='same' is not supported for strided convolutions");
    REFUSED(fa_nn_conv1d(2, 2, 3, .padding_mode = "zero"), VALUE,
            "padding_mode must be one of {'zeros', 'reflect', 'replicate', 'circular'}, but got padding_mode='zero'");
}

static void padding(void **state) {
    (void)state;
    fa_tensor *x = watch(ones(FA_SHAPE(2, 3, 4)));
    REFUSED(fa_pad(x, FA_DIMS(1)), RUNTIME, "Padding length must be divisible by 2");
    REFUSED(fa_pad(x, FA_DIMS(1, 1, 1, 1, 1, 1, 1, 1)), RUNTIME,
            "Padding length should be less than or equal to two times the input dimension but got padding length 8 and input of "
            "dimension 3");
    REFUSED(fa_pad(x, FA_DIMS(1, 1), .mode = "mirror"), UNSUPPORTED, "Unrecognised padding mode mirror");
    REFUSED(fa_pad(x, FA_DIMS(-2, -3)), RUNTIME, "narrow(): length must be non-negative.");
    REFUSED(fa_pad(x, FA_DIMS(INT64_MAX, 0)), RUNTIME, "Storage size calculation overflowed: dimension 2 would have 4 + ");
    REFUSED(fa_pad(x, FA_DIMS(4, 0), .mode = "reflect"), RUNTIME,
            "Padding size should be less than the corresponding input dimension, but got: padding (4, 0) at dimension 2 of input "
            "[2, 3, 4]");
    REFUSED(fa_pad(x, FA_DIMS(5, 5), .mode = "circular"), RUNTIME, "Padding value causes wrapping around more than once.");
    REFUSED(fa_pad(x, FA_DIMS(-5, 0), .mode = "replicate"), RUNTIME,
            "input (4 at dimension 2) is too small. Calculated output: -1");
    REFUSED(fa_pad(ones(FA_SHAPE(2, 3, 0)), FA_DIMS(1, 1), .mode = "replicate"), RUNTIME,
            "Expected a tensor with possibly 0 batch size and other non-zero dimensions for input, but got: [2, 3, 0]");
    REFUSED(fa_pad(x, FA_DIMS(1, 1), .mode = "reflect", .value = 2), RUNTIME,
            "Padding mode \"reflect\" doesn't take in value argument");
    REFUSED(fa_pad(ones(FA_SHAPE(4)), FA_DIMS(1, 1), .mode = "replicate"), UNSUPPORTED,
            "Padding size 2 is not supported for 1D input tensor.");
}

static void pooling(void **state) {
    (void)state;
    fa_tensor *x = watch(ones(FA_SHAPE(2, 3, 5))), *image = watch(ones(FA_SHAPE(2, 2, 2)));
    REFUSED(fa_max_pool1d(ones(FA_SHAPE(5)), FA_DIMS(2)), RUNTIME,
            "max_pool1d: Expected 2D or 3D (batch mode) tensor with optional 0 dim batch size for input, but got:[5]");
    REFUSED(fa_max_pool1d(x, FA_DIMS(2, 2)), RUNTIME, "expected kernel_size to be a single integer value or a list of 1 values");
    REFUSED(fa_max_pool1d(x, FA_DIMS(0)), RUNTIME, "non-positive kernel_size is not supported");
    REFUSED(fa_max_pool1d(x, FA_DIMS(6)), RUNTIME,
            "Given input size: (3x1x5). Calculated output size: (3x1x0). Output size is too small");
    REFUSED(fa_adaptive_avg_pool2d(ones(FA_SHAPE(2, 5, 0)), FA_DIMS(2)), RUNTIME,
            "adaptive_avg_pool2d(): Expected input to have non-zero size for non-batch dimensions, but input has sizes [2, 5, 0] "
            "with dimension 2 being empty");
    REFUSED(fa_adaptive_max_pool2d(image, FA_DIMS(2, -2)), RUNTIME,
            "adaptive_max_pool2d: elements of output_size must be greater than or equal to 0 but received -2");
    REFUSED(fa_adaptive_avg_pool2d(image, FA_DIMS(1, 1, 1)), RUNTIME,
            "adaptive_avg_pool2d: output_size must be 2, but it has 3 numbers");
    REFUSED(fa_adaptive_avg_pool2d(fa_cast(image, FA_INT64), FA_DIMS(1)), UNSUPPORTED,
            "\"adaptive_avg_pool2d\" not implemented for 'Long'.");
    REFUSED(fa_max_unpool2d(image, image, FA_DIMS(2)), RUNTIME, "elements in indices should be type int64 but got: Float");
    REFUSED(fa_max_unpool2d(image, index_of(FA_SHAPE(2, 2, 1)), FA_DIMS(2)), RUNTIME,
            "Expected shape of indices to be same as that of the input tensor ([2, 2, 2]) but got indices tensor with shape: [2, "
            "2, 1]");
    fa_tensor *at = index_of(FA_SHAPE(2, 2, 2));
    REFUSED(fa_max_unpool2d(image, at, FA_DIMS(2), .output_size = FA_DIMS(9, 9)), VALUE,
            "invalid output_size: 9 (dim 0 must be between 2 and 6)");
    REFUSED(fa_max_unpool2d(image, at, FA_DIMS(2), .output_size = FA_DIMS(9)), VALUE,
            "output_size should be a sequence containing 2 or 4 elements, but it has a length of '1'");
}

static void normalisation(void **state) {
    (void)state;
    fa_tensor *x = watch(ones(FA_SHAPE(2, 4, 3)));
    REFUSED(
        fa_group_norm(x, 3), RUNTIME,
        "Expected number of channels in input to be divisible by num_groups, but got input of shape [2, 4, 3] and num_groups=3");
    REFUSED(fa_group_norm(x, 2, .weight = ones(FA_SHAPE(3))), RUNTIME,
            "Expected weight to be a vector of size equal to the number of channels in input, but got weight of shape [3] and "
            "input of shape [2, 4, 3]");
    REFUSED(fa_group_norm(ones(FA_SHAPE(4)), 2), RUNTIME, "Expected at least 2 dimensions for input tensor but received 1");
    REFUSED(fa_instance_norm(ones(FA_SHAPE(2, 3, 1)), NULL, NULL), VALUE,
            "Expected more than 1 spatial element when training, got input size torch.Size([2, 3, 1])");
    REFUSED(fa_instance_norm(x, NULL, NULL, .use_input_stats = false), RUNTIME,
            "Expected running_mean and running_var to be defined when use_input_stats is false");
    fa_tensor *four = ones(FA_SHAPE(4));
    REFUSED(fa_instance_norm(ones(FA_SHAPE(2, 4)), four, four, .use_input_stats = false), RUNTIME,
            "Expected at least 3 dimensions [n, c, sides], got input size [2, 4]");
    REFUSED(fa_rms_norm(x, FA_SHAPE(4)), RUNTIME,
            "Given normalized_shape=[4], expected input with shape [*, those sizes], but got input of size[2, 4, 3]");
    REFUSED(fa_rms_norm(x, FA_SHAPE(3), .weight = ones(FA_SHAPE(2))), RUNTIME,
            "Expected weight to be of same shape as normalized_shape, but got weight of shape [2] and normalized_shape = [3]");
    REFUSED(fa_local_response_norm(ones(FA_SHAPE(2)), 2), VALUE, "Expected 3D or higher dimensionality input (got 1 dimensions)");
    REFUSED(fa_local_response_norm(x, 0), VALUE, "argument 'size' is 0; give 1 or more channels");
    fa_module *norm = fa_nn_instance_norm1d(3, .affine = true);
    fa_module_to(norm, device);
    REFUSED(fa_call(norm, ones(FA_SHAPE(3))), VALUE, "expected 2D or 3D input (got 1D input)");
    REFUSED(fa_call(norm, x), VALUE, "expected input's size at dim=1 to match num_features (3), but got: 4.");
    REFUSED(fa_call(fa_module_to(norm = fa_nn_batch_norm3d(3), device) ? norm : NULL, x), VALUE,
            "expected 5D input (got 3D input)");
    REFUSED(fa_nn_group_norm(0, 4), VALUE, "num_groups must be positive: found num_groups = 0");
    REFUSED(fa_nn_group_norm(3, 4), VALUE, "num_channels must be divisible by num_groups: found");
    REFUSED(fa_nn_local_response_norm(0), VALUE, "size must be positive: found size = 0");
    REFUSED(fa_nn_softshrink(.lambd = -1), VALUE, "lambda must be 0 or more: found lambd = -1");
    REFUSED(fa_nn_bilinear(0, 2, 2), VALUE, "in1_features must be > 0: found in1_features = 0");
    (void)fa_call(fa_nn_instance_norm1d(3), x); /* warns */
    assert_false(fa_failed());
}

static void resizing(void **state) {
    (void)state;
    fa_tensor *x = watch(ones(FA_SHAPE(2, 3, 4))), *image = watch(ones(FA_SHAPE(1, 2, 4, 4)));
    REFUSED(fa_interpolate(x), VALUE, "either size or scale_factor should be defined");
    REFUSED(fa_interpolate(x, .size = FA_DIMS(3), .scale_factor = FA_FACTORS(2)), VALUE,
            "only one of size or scale_factor should be defined");
    REFUSED(fa_interpolate(ones(FA_SHAPE(2, 3)), .size = FA_DIMS(3)), UNSUPPORTED,
            "Input Error: Only 3D, 4D and 5D input Tensors supported (got 2D) for the modes: nearest | linear");
    REFUSED(fa_interpolate(image, .size = FA_DIMS(3, 3, 3)), VALUE,
            "Input and output must have the same number of spatial dimensions");
    REFUSED(fa_interpolate(x, .size = FA_DIMS(3), .mode = "bilinear"), UNSUPPORTED,
            "Got 3D input, but bilinear mode needs 4D input");
    REFUSED(fa_interpolate(x, .size = FA_DIMS(3), .align_corners = true), VALUE,
            "align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | trilinear");
    REFUSED(fa_interpolate(x, .scale_factor = FA_FACTORS(0.1)), RUNTIME,
            "Input and output sizes should be greater than 0, but got input 4 and output 0");
    REFUSED(fa_interpolate(fa_cast(x, FA_INT64), .scale_factor = FA_FACTORS(2)), UNSUPPORTED,
            "\"compute_indices_weights_nearest\" not implemented for 'Long'");
    REFUSED(fa_pixel_shuffle(ones(FA_SHAPE(2, 3)), 2), RUNTIME,
            "pixel_shuffle expects input to have at least 3 dimensions, but got input with 2 dimension(s)");
    REFUSED(fa_pixel_shuffle(ones(FA_SHAPE(1, 1, 1, 1, 1, 1, 1)), 1), RUNTIME,
            "x has 7 dimensions; pixel_shuffle takes at most 6");
    REFUSED(fa_pixel_shuffle(x, 2), RUNTIME,
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, but "
            "input.size(-3)=2 is not divisible by 2 * 2");
    REFUSED(fa_pixel_shuffle(x, 0), RUNTIME, "pixel_shuffle expects a positive upscale_factor, but got 0");
    REFUSED(fa_pixel_unshuffle(x, 2), RUNTIME,
            "pixel_unshuffle expects height to be divisible by downscale_factor, but input.size(-2)=3 is not divisible by 2");
    REFUSED(fa_channel_shuffle(x, 2), RUNTIME, "Number of channels must be divisible by groups. Got 3 channels and 2 groups.");
    REFUSED(fa_channel_shuffle(ones(FA_SHAPE(2, 2)), 2), RUNTIME,
            "channel_shuffle expects input with > 2 dims, but got input with 2 dimensions");
    REFUSED(fa_im2col(image, FA_DIMS(5)), RUNTIME,
            "Given input with spatial size (4, 4), kernel_size=(5, 5), dilation=(1, 1), padding=(0, 0), calculated shape of the "
            "array of sliding blocks as (0, 0)");
    REFUSED(fa_im2col(fa_cast(image, FA_INT64), FA_DIMS(2)), UNSUPPORTED, "\"im2col_out_cpu\" not implemented for 'Long'");
    REFUSED(fa_col2im(x, FA_DIMS(4), FA_DIMS(2)), RUNTIME,
            "Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got input.size(1)=3 and "
            "kernel_size=(2, 2).");
    REFUSED(fa_col2im(ones(FA_SHAPE(2, 12, 4)), FA_DIMS(4), FA_DIMS(2)), RUNTIME,
            "Given output_size and options, expected size of input's dimension 2 to match the calculated number of sliding "
            "blocks 3 * 3 = 9, but got input.size(2)=4.");
    REFUSED(fa_col2im(ones(FA_SHAPE(12)), FA_DIMS(4), FA_DIMS(2)), RUNTIME, "Expected 2D or 3D (batch mode) tensor for input");
}

static void activations(void **state) {
    (void)state;
    fa_tensor *v = watch(ones(FA_SHAPE(3))), *m = watch(ones(FA_SHAPE(2, 3))), *zero = ones(FA_SHAPE_0D);
    REFUSED(fa_glu(v), RUNTIME, "Halving dimension must be even, but dimension 0 is size 3");
    REFUSED(fa_glu(zero), RUNTIME, "glu does not support scalars because halving size must be even");
    REFUSED(fa_glu(fa_cast(m, FA_INT64), .dim = 0), UNSUPPORTED, "\"glu_cpu\" not implemented for 'Long'");
    REFUSED(fa_prelu(m, ones(FA_SHAPE(2))), RUNTIME,
            "Mismatch of parameter numbers and input channel size. Found parameter numbers = 2 and channel size = 3.");
    REFUSED(fa_prelu(m, ones(FA_SHAPE(3, 1))), RUNTIME,
            "prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = 2");
    REFUSED(fa_prelu(zero, ones(FA_SHAPE(2))), RUNTIME, "Not allow zero-dim input tensor.");
    REFUSED(fa_prelu(m, fa_cast(v, FA_FLOAT64)), RUNTIME, "prelu: Type promoting not supported. Got float32 and float64");
    REFUSED(fa_rrelu(v, .lower = 2, .upper = 1), RUNTIME, "Lower bound should be less than or equal to the upper bound");
    REFUSED(fa_rrelu(fa_cast(v, FA_INT64)), UNSUPPORTED, "\"rrelu_with_noise_out_cpu\" not implemented for 'Long'");
    REFUSED(fa_feature_dropout(m, 1.5, true), VALUE, "dropout probability has to be between 0 and 1, but got 1.5");
    REFUSED(fa_feature_dropout(fa_cast(m, FA_INT64), 0.5, true), RUNTIME,
            "result type Float can't be cast to the desired output type Long");
    REFUSED(fa_feature_alpha_dropout(v, 0.5, true), RUNTIME, "Feature dropout requires at least 2 dimensions in the input");
    REFUSED(fa_call(fa_nn_dropout1d(), v), RUNTIME, "dropout1d: Expected 2D or 3D input, but received a 1D input");
    REFUSED(fa_call(fa_nn_softmax2d(), m), VALUE, "Softmax2d: expected input to be 3D or 4D, got 2D instead");
    fa_tensor *w = ones(FA_SHAPE(5, 3, 3)), *four = ones(FA_SHAPE(2, 4));
    REFUSED(fa_bilinear(m, four, w), RUNTIME, "bilinear(): input2 size does not match weight size: got 4 but expected 3");
    REFUSED(fa_bilinear(m, ones(FA_SHAPE(4, 3)), w), RUNTIME,
            "bilinear(): input batch dimensions do not match at dim 0: got 2 and 4");
    REFUSED(fa_bilinear(m, m, w, .bias = v), RUNTIME, "bilinear(): bias size does not match weight size: got 3 but expected 5");
    REFUSED(fa_bilinear(m, v, w), RUNTIME, "bilinear(): input dimensions do not match: got 2 and 1");
}

static void losses(void **state) {
    (void)state;
    fa_tensor *v = watch(ones(FA_SHAPE(3))), *m = watch(ones(FA_SHAPE(2, 3))), *classes = index_of(FA_SHAPE(2));
    REFUSED(fa_triplet_margin_loss(m, m, v), RUNTIME,
            "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: anchor 2D, "
            "positive 2D, and negative 1D inputs");
    REFUSED(fa_triplet_margin_loss(m, m, m, .margin = 0), VALUE, "margin must be greater than 0, got 0");
    REFUSED(fa_soft_margin_loss(fa_cast(v, FA_INT64), v), UNSUPPORTED,
            "\"soft_margin_loss\" not implemented for 'Long'; a loss needs a floating tensor");
    REFUSED(fa_cosine_embedding_loss(m, m, m), RUNTIME,
            "2D target tensor expects 3D input tensors, but found inputs with 2 and 2 dimensions");
    REFUSED(fa_margin_ranking_loss(m, m, v), RUNTIME,
            "margin_ranking_loss : All input tensors should have same dimension but got sizes of 2, 2 and 1 dimensions");
    REFUSED(fa_multi_margin_loss(m, classes, .p = 3), VALUE, "only p == 1 and p == 2 supported, found 3");
    REFUSED(fa_multi_margin_loss(m, index_of(FA_SHAPE(3))), RUNTIME,
            "Expected non-empty vector or matrix with optional 0-dim batch size, but got: [2, 3]; and an int64 target of a class "
            "for each row");
    REFUSED(fa_multi_margin_loss(m, classes, .weight = ones(FA_SHAPE(2))), RUNTIME,
            "inconsistent weight size, expected 3 elements but got 2");
    REFUSED(fa_multilabel_soft_margin_loss(ones(FA_SHAPE_0D), ones(FA_SHAPE_0D)), RUNTIME, "a 0-dim input has no classes");
    REFUSED(fa_gaussian_nll_loss(m, m, v), VALUE, "var is of incorrect size");
    REFUSED(fa_gaussian_nll_loss(m, m, fa_neg(m)), VALUE, "var has negative entry/entries");
}

#define LIST(...) ((fa_tensor *[]){__VA_ARGS__})
static void einsum(void **state) {
    (void)state;
    fa_tensor *v = watch(ones(FA_SHAPE(3))), *m = watch(ones(FA_SHAPE(2, 3)));
    REFUSED(fa_einsum(NULL, LIST(v), 1), TYPE, "argument 'equation' is NULL");
    REFUSED(fa_einsum("i", NULL, 0), VALUE, "einsum(): must provide at least one operand");
    REFUSED(fa_einsum("i", LIST(v, v, v, v, v, v, v, v, v, v, v, v, v, v, v, v, v), 17), RUNTIME,
            "einsum(): 17 operands; at most 16 are possible");
    REFUSED(fa_einsum("ij", LIST(v), 1), RUNTIME,
            "einsum(): the number of subscripts in the equation (2) does not match the number of dimensions (1) for operand 0 "
            "and no ellipsis was given");
    REFUSED(fa_einsum("ij...", LIST(v), 1), RUNTIME,
            "einsum(): the number of subscripts in the equation (2) is more than the number of dimensions (1) for operand 0");
    REFUSED(fa_einsum("i", LIST(v, v), 2), RUNTIME, "einsum(): more operands were provided than specified in the equation");
    REFUSED(fa_einsum("i,i", LIST(v), 1), RUNTIME, "einsum(): fewer operands were provided than specified in the equation");
    REFUSED(fa_einsum("1", LIST(v), 1), RUNTIME,
            "einsum(): invalid subscript given at index 0 in the equation string, subscripts must be in [a-zA-Z]");
    REFUSED(fa_einsum("i->j", LIST(v), 1), RUNTIME,
            "einsum(): output subscript j does not appear in the equation for any input operand");
    REFUSED(fa_einsum("i->ii", LIST(v), 1), RUNTIME, "einsum(): output subscript i appears more than once in the output");
    REFUSED(fa_einsum("i->i,i", LIST(v), 1), RUNTIME, "einsum(): the result has one term, but \",i\" follows it");
    REFUSED(fa_einsum("abcdefghi", LIST(v), 1), RUNTIME, "einsum(): more than 8 subscripts in a row");
    REFUSED(fa_einsum("ij,j", LIST(m, ones(FA_SHAPE(4))), 2), RUNTIME,
            "einsum(): subscript j has size 4 for operand 1 which does not broadcast with previously seen size 3");
    REFUSED(fa_einsum("ii", LIST(ones(FA_SHAPE(1, 3))), 1), RUNTIME,
            "einsum(): subscript i is repeated for an operand but the sizes don't match, 1 != 3");
}

#define T(f) cmocka_unit_test_setup_teardown(f, begin_watching, end)
static int begin_watching(void **state) {
    unwatch();
    return begin(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {T(convolutions), T(padding),     T(pooling), T(normalisation),
                                       T(resizing),     T(activations), T(losses),  T(einsum)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
