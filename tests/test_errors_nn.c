/* Errors of the operators and layers of networks in all dimensions: convolution, padding, pooling and more of torch.nn. */
/* test-env: - */
/* test-env: FACULA_SIM=cuda:2 */
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
    REFUSED(fa_conv1d(x, w, .bias = ones(FA_SHAPE(3))), RUNTIME,
            "Given weight of size [4, 3, 3], expected bias to be 1-dimensional with 4 elements, but got bias of size [3] instead");
    REFUSED(fa_conv1d(x, ones(FA_SHAPE(4, 3, 3, 3))), RUNTIME,
            "Expected 4-dimensional input for 4-dimensional weight [4, 3, 3, 3], but got 3-dimensional input of size [2, 3, 5] instead");
    REFUSED(fa_conv1d(x, w, .groups = 0), RUNTIME, "non-positive groups is not supported");
    REFUSED(fa_conv1d(x, w, .groups = 3), RUNTIME, "Given groups=3, expected weight to be divisible by 3 at dimension 0");
    REFUSED(fa_conv1d(x, fa_cast(w, FA_FLOAT64)), RUNTIME, "Input type (Float) and weight type (Double) should be the same.");
    REFUSED(fa_conv1d(fa_cast(x, FA_INT64), fa_cast(w, FA_INT64)), UNSUPPORTED, "\"conv2d\" not implemented for 'Long'.");
    REFUSED(fa_conv3d(ones(FA_SHAPE(2, 3, 4, 5, 1)), ones(FA_SHAPE(4, 3, 2, 2, 2))), RUNTIME,
            "Calculated padded input size per channel: (4 x 5 x 1). Kernel size: (2 x 2 x 2).");
    REFUSED(fa_conv_same(x, ones(FA_SHAPE(4, 3))), RUNTIME, "weight must have 3, 4 or 5 dimensions, for conv1d, conv2d or conv3d, but has 2");
    REFUSED(fa_conv_transpose1d(x, w), RUNTIME,
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
            "Padding length should be less than or equal to two times the input dimension but got padding length 8 and input of dimension 3");
    REFUSED(fa_pad(x, FA_DIMS(1, 1), .mode = "mirror"), UNSUPPORTED, "Unrecognised padding mode mirror");
    REFUSED(fa_pad(x, FA_DIMS(-2, -3)), RUNTIME, "narrow(): length must be non-negative.");
    REFUSED(fa_pad(x, FA_DIMS(INT64_MAX, 0)), RUNTIME, "Storage size calculation overflowed: dimension 2 would have 4 + ");
    REFUSED(fa_pad(x, FA_DIMS(4, 0), .mode = "reflect"), RUNTIME,
            "Padding size should be less than the corresponding input dimension, but got: padding (4, 0) at dimension 2 of input [2, 3, 4]");
    REFUSED(fa_pad(x, FA_DIMS(5, 5), .mode = "circular"), RUNTIME, "Padding value causes wrapping around more than once.");
    REFUSED(fa_pad(x, FA_DIMS(-5, 0), .mode = "replicate"), RUNTIME, "input (4 at dimension 2) is too small. Calculated output: -1");
    REFUSED(fa_pad(ones(FA_SHAPE(2, 3, 0)), FA_DIMS(1, 1), .mode = "replicate"), RUNTIME,
            "Expected a tensor with possibly 0 batch size and other non-zero dimensions for input, but got: [2, 3, 0]");
    REFUSED(fa_pad(x, FA_DIMS(1, 1), .mode = "reflect", .value = 2), RUNTIME, "Padding mode \"reflect\" doesn't take in value argument");
    REFUSED(fa_pad(ones(FA_SHAPE(4)), FA_DIMS(1, 1), .mode = "replicate"), UNSUPPORTED, "Padding size 2 is not supported for 1D input tensor.");
}

static void pooling(void **state) {
    (void)state;
    fa_tensor *x = watch(ones(FA_SHAPE(2, 3, 5))), *image = watch(ones(FA_SHAPE(2, 2, 2)));
    REFUSED(fa_max_pool1d(ones(FA_SHAPE(5)), FA_DIMS(2)), RUNTIME,
            "max_pool1d: Expected 2D or 3D (batch mode) tensor with optional 0 dim batch size for input, but got:[5]");
    REFUSED(fa_max_pool1d(x, FA_DIMS(2, 2)), RUNTIME, "expected kernel_size to be a single integer value or a list of 1 values");
    REFUSED(fa_max_pool1d(x, FA_DIMS(0)), RUNTIME, "non-positive kernel_size is not supported");
    REFUSED(fa_max_pool1d(x, FA_DIMS(6)), RUNTIME, "Given input size: (3x1x5). Calculated output size: (3x1x0). Output size is too small");
    REFUSED(fa_adaptive_avg_pool2d(ones(FA_SHAPE(2, 5, 0)), FA_DIMS(2)), RUNTIME,
            "adaptive_avg_pool2d(): Expected input to have non-zero size for non-batch dimensions, but input has sizes [2, 5, 0] with dimension 2 being empty");
    REFUSED(fa_adaptive_max_pool2d(image, FA_DIMS(2, -2)), RUNTIME,
            "adaptive_max_pool2d: elements of output_size must be greater than or equal to 0 but received -2");
    REFUSED(fa_adaptive_avg_pool2d(image, FA_DIMS(1, 1, 1)), RUNTIME, "adaptive_avg_pool2d: output_size must be 2, but it has 3 numbers");
    REFUSED(fa_adaptive_avg_pool2d(fa_cast(image, FA_INT64), FA_DIMS(1)), UNSUPPORTED, "\"adaptive_avg_pool2d\" not implemented for 'Long'.");
    REFUSED(fa_max_unpool2d(image, image, FA_DIMS(2)), RUNTIME, "elements in indices should be type int64 but got: Float");
    REFUSED(fa_max_unpool2d(image, index_of(FA_SHAPE(2, 2, 1)), FA_DIMS(2)), RUNTIME,
            "Expected shape of indices to be same as that of the input tensor ([2, 2, 2]) but got indices tensor with shape: [2, 2, 1]");
    fa_tensor *at = index_of(FA_SHAPE(2, 2, 2));
    REFUSED(fa_max_unpool2d(image, at, FA_DIMS(2), .output_size = FA_DIMS(9, 9)), VALUE,
            "invalid output_size: 9 (dim 0 must be between 2 and 6)");
    REFUSED(fa_max_unpool2d(image, at, FA_DIMS(2), .output_size = FA_DIMS(9)), VALUE,
            "output_size should be a sequence containing 2 or 4 elements, but it has a length of '1'");
}

#define T(f) cmocka_unit_test_setup_teardown(f, begin_watching, end)
static int begin_watching(void **state) {
    unwatch();
    return begin(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {T(convolutions), T(padding), T(pooling)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
