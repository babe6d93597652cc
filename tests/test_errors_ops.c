/* Errors of operators, as docs/errors.md lists them: shapes, element types and options that a row or a forward function refuses. */
/* test-env: - */
/* test-env: FACULA_SIM=cuda:2 */
/* test-env-opencl: FACULA_OPENCL=cpu */
#include "support/check.h"
#include "support/refused.h"
#include "ops/random.h"
#include <facula.h>

static fa_tensor *ones(fa_shape shape) { return fa_ones(shape, .device = device); }
static fa_tensor *vector(void) { return watch(counting(FA_SHAPE(3))); }
static fa_tensor *matrix(void) { return watch(counting(FA_SHAPE(2, 3))); }
static fa_tensor *cube(void) { return watch(counting(FA_SHAPE(2, 2, 3))); }
static fa_tensor *number(void) { return watch(fa_full(FA_SHAPE_0D, 2.0, .device = device)); }
static fa_tensor *index_of(fa_shape shape) { return fa_zeros(shape, .dtype = FA_INT64, .device = device); }

static void products(void **state) {
    (void)state;
    fa_tensor *v = vector(), *m = matrix(), *c = cube(), *zero = number(), *flags = fa_gt_scalar(m, 1);
    REFUSED(fa_mm(v, m), RUNTIME, "self must be a matrix; argument 'a' has 1 dimensions.");
    REFUSED(fa_mm(m, v), RUNTIME, "mat2 must be a matrix; argument 'b' has 1 dimensions.");
    REFUSED(fa_bmm(m, c), RUNTIME, "batch1 must be a 3D tensor; argument 'a' has 2 dimensions");
    REFUSED(fa_bmm(c, m), RUNTIME, "batch2 must be a 3D tensor; argument 'b' has 2 dimensions");
    REFUSED(fa_bmm(c, c), RUNTIME, "Expected size for first two dimensions of batch2 tensor to be: [2, 3] but got: [2, 2].");
    REFUSED(fa_mv(v, v), RUNTIME, "vector + matrix @ vector expected, got 1, 1, 1 dimensions");
    REFUSED(fa_mv(m, counting(FA_SHAPE(4))), RUNTIME, "size mismatch, got input (2), mat (2x3), vec (4)");
    REFUSED(fa_dot(m, v), RUNTIME, "1D tensors expected, but got 2D and 1D tensors");
    REFUSED(fa_dot(v, counting(FA_SHAPE(4))), RUNTIME,
            "inconsistent tensor size, expected tensor [3] and src [4] to have the same number of elements");
    REFUSED(fa_outer(m, v), RUNTIME, "outer: Expected 1-D argument self, but got 2-D");
    REFUSED(fa_outer(v, m), RUNTIME, "outer: Expected 1-D argument vec2, but got 2-D");
    REFUSED(fa_matmul(zero, v), RUNTIME, "both arguments to matmul need to be at least 1D, but they are 0D and 1D");
    REFUSED(fa_addmm(m, v, m), RUNTIME, "mat1 must be a matrix, got 1-D tensor");
    REFUSED(fa_addmm(m, m, v), RUNTIME, "mat2 must be a matrix, got 1-D tensor");
    REFUSED(fa_gemm(v, m), RUNTIME, "self must be a matrix, but it has 1 dimensions.");
    REFUSED(fa_mm(flags, fa_t(flags)), UNSUPPORTED, "\"addmm_impl_");
    REFUSED(fa_linear(v, v, NULL), RUNTIME, "weight must be a matrix [out, in], but it has 1 dimensions");
    REFUSED(fa_linear(zero, m, NULL), RUNTIME, "both arguments to linear need to be at least 1D, but they are 0D and 2D");
    REFUSED(fa_linear(v, m, v), RUNTIME,
            "The expanded size of the tensor (2) must match the existing size (3) at non-singleton dimension 1. bias has one "
            "element");
    REFUSED(fa_linear(v, fa_cast(m, FA_FLOAT64), NULL), RUNTIME,
            "mat1 and mat2 must have the same dtype, but got Float and Double");
    REFUSED(fa_linear(m, counting(FA_SHAPE(5, 4)), NULL), RUNTIME, "mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5).");
}

static void images(void **state) {
    (void)state;
    fa_tensor *x = watch(ones(FA_SHAPE(1, 2, 4, 4))), *w = watch(ones(FA_SHAPE(3, 2, 3, 3))), *v = vector();
    const fa_shape one = FA_DIMS(1, 1), none = FA_DIMS(0, 0), two = FA_DIMS(2, 2);
    fa_tensor *indices = index_of(FA_SHAPE(1, 2, 2, 2));
    REFUSED(fa_conv2d(x, w, .groups = 0), RUNTIME, "non-positive groups is not supported: groups is 0, it must be 1 or more");
    REFUSED(
        fa_conv2d(ones(FA_SHAPE(1, 4, 4, 4)), w), RUNTIME,
        "Given groups=1, weight of size [3, 2, 3, 3], expected input[1, 4, 4, 4] to have 2 channels, but got 4 channels instead");
    REFUSED(
        fa_conv2d(x, w, .bias = ones(FA_SHAPE(2))), RUNTIME,
        "Given weight of size [3, 2, 3, 3], expected bias to be 1-dimensional with 3 elements, but got bias of size [2] instead");
    REFUSED(fa_conv2d_input(x, w, FA_SHAPE(1, 2, 4, 4), one, none, one, 1), RUNTIME,
            "the gradient of the output has shape [1, 2, 4, 4], but with these options the output is [1, 3, 2, 2]");
    REFUSED(
        fa_conv2d(x, w, .padding = FA_DIMS(1 << 30)), UNSUPPORTED,
        "a padded plane of 2147483652 x 2147483652, a filter of 2 x 3 x 3, a stride of 1 x 1: planes, filters and strides");
    REFUSED(fa_conv2d(x, w, .stride = FA_DIMS(INT64_C(1) << 40)), RUNTIME,
            "integer out of range: stride of [1099511627776, 1099511627776], at most 2147483647 is possible");
    REFUSED(fa_avg_pool1d(cube(), FA_DIMS(INT64_C(1) << 40)), RUNTIME,
            "integer out of range: kernel_size of 1099511627776, at most 2147483647 is possible");
    REFUSED(fa_avg_pool2d(x, FA_DIMS(131072), .padding = FA_DIMS(65536)), UNSUPPORTED,
            "a padded plane of 131076 x 131076: planes of more than 1073741824 elements are not supported. Cut the input into");
    REFUSED(fa_max_pool2d(x, two, .padding = FA_DIMS(-1)), RUNTIME, "negative padding is not supported: got [-1, -1]");
    REFUSED(fa_max_pool2d(x, FA_DIMS(2, 2, 2)), RUNTIME,
            "expected kernel_size to be a single integer value or a list of 2 values");
    REFUSED(fa_avg_pool2d(x, two, .padding = FA_DIMS(2)), RUNTIME,
            "pad should be at most half of effective kernel size, but got pad=2, kernel_size=2");
    REFUSED(fa_avg_pool2d_backward(cube(), FA_SHAPE(1, 2, 4, 4), two, two, none, false, true), RUNTIME,
            "shape has 4 dimensions, the gradient 3: they must agree");
    REFUSED(fa_max_pool2d_backward(ones(FA_SHAPE(1, 2, 2, 2)), ones(FA_SHAPE(1, 2, 2, 2)), FA_SHAPE(1, 2, 4, 4), two, two, none,
                                   one, false),
            RUNTIME,
            "argument 'indices' must be an int64 tensor, as fa_max_pool2d gives it, but it is a tensor of dtype float32.");
    REFUSED(fa_pool_gather(v, indices), RUNTIME, "x has 1 dimensions and indices 4; both have the same number");
    REFUSED(fa_layer_norm(v, FA_SHAPE(3), .weight = fa_ones(FA_SHAPE(3), .dtype = FA_INT64, .device = device)), RUNTIME,
            "argument 'weight' must be floating, but it is a tensor of dtype int64.");
    REFUSED(fa_layer_norm(v, FA_SHAPE(4)), RUNTIME,
            "Given normalized_shape=[4], expected input with shape [*, 4], but got input of size[3]");
    REFUSED(fa_layer_norm(v, FA_SHAPE(3), .weight = ones(FA_SHAPE(2))), RUNTIME,
            "Expected weight to be of same shape as normalized_shape, but got weight of shape [2]");
    REFUSED(fa_batch_norm(x, v, v), RUNTIME, "running_mean should contain 2 elements not 3.");
    REFUSED(fa_batch_norm(x, NULL, NULL), RUNTIME, "Expected running_mean and running_var to be defined when training is false");
    REFUSED(fa_batch_norm(ones(FA_SHAPE(1, 3)), NULL, NULL, .training = true), VALUE,
            "Expected more than 1 value per channel when training, got input size torch.Size([1, 3])");
    REFUSED(fa_group_norm(ones(FA_SHAPE(1, 4)), 4), VALUE,
            "Expected more than 1 value per channel when training, got input size [1, 4]: each of the 4 groups has one value");
}

static void losses(void **state) {
    (void)state;
    fa_tensor *x = matrix(), *zero = number(), *labels = watch(index_of(FA_SHAPE(2))), *one = number();
    const fa_shape shape = FA_SHAPE(2, 3);
    REFUSED(fa_cross_entropy(zero, zero), RUNTIME, "Expected floating point type for target with class probabilities");
    REFUSED(fa_cross_entropy(zero, index_of(FA_SHAPE_0D)), RUNTIME,
            "Expected floating point type for target with class probabilities, got Long; a 0-dim input has no classes");
    REFUSED(fa_cross_entropy(x, index_of(shape)), RUNTIME,
            "Expected floating point type for target with class probabilities, got Long.");
    REFUSED(fa_nll_loss(zero, labels), RUNTIME,
            "input tensor should be 1D or 2D, or have more dimensions after the classes; it has none");
    REFUSED(fa_nll_loss(x, index_of(FA_SHAPE(2, 1))), RUNTIME, "0D or 1D target tensor expected, multi-target not supported");
    REFUSED(fa_nll_loss(x, index_of(FA_SHAPE(4))), VALUE, "Expected input batch_size (2) to match target batch_size (4).");
    REFUSED(fa_nll_loss(ones(FA_SHAPE(2, 3, 4)), index_of(FA_SHAPE(2, 5))), RUNTIME,
            "size mismatch (got input: targets of shape [2, 5], expected [2, 4]");
    REFUSED(fa_nll_loss(x, labels, .weight = ones(FA_SHAPE(2))), RUNTIME,
            "weight tensor should be defined either for all 3 classes or no classes but got weight tensor of shape: [2]");
    REFUSED(fa_nll_loss(x, labels, .reduction = "average"), VALUE, "average is not a valid value for reduction.");
    REFUSED(fa_nll_loss_backward(x, labels, NULL, shape, "mean", -100, one), RUNTIME,
            "the gradient has 6 elements; with reduction \"mean\" the loss has 1");
    REFUSED(fa_softmax_grad(ones(FA_SHAPE(2)), x, 1), RUNTIME,
            "the gradient has 2 elements, the result 6: their shapes must be the same");
    REFUSED(fa_cross_entropy(x, fa_softmax(x, 1), .ignore_index = 1), RUNTIME,
            "ignore_index is not supported for floating point target");
    REFUSED(fa_cross_entropy(x, labels, .label_smoothing = 2), RUNTIME, "label_smoothing must be between 0.0 and 1.0.");
    REFUSED(fa_bce_loss(x, x), RUNTIME, "all elements of input should be between 0 and 1.");
    REFUSED(fa_bce_loss(fa_sigmoid(x), ones(FA_SHAPE(3))), VALUE,
            "Using a target size (torch.Size([3])) that is different to the input size (torch.Size([2, 3])) is deprecated.");
    REFUSED(fa_bce_with_logits_loss(x, ones(FA_SHAPE(3))), VALUE,
            "Target size (torch.Size([3])) must be the same as input size (torch.Size([2, 3]))");
    REFUSED(fa_mse_loss(labels, labels), UNSUPPORTED, "\"mse_loss\" not implemented for 'Long'; a loss needs a floating tensor");
    REFUSED(fa_smooth_l1_loss(x, x, .beta = -1), RUNTIME, "smooth_l1_loss does not support negative values for beta.");
    REFUSED(fa_mse_loss(x, x, .weight = ones(FA_SHAPE(7))), VALUE, "Weights and input must have the same size.");
    REFUSED(fa_huber_loss(x, x, .delta = 0), RUNTIME, "huber_loss does not support non-positive values for delta.");
}

static void movement(void **state) {
    (void)state;
    fa_tensor *x = matrix(), *v = vector(), *huge = fa_zeros(FA_SHAPE(INT64_C(1) << 62, 0), .dtype = FA_UINT8, .device = device);
    char room[8];
    REFUSED(fa_cat((fa_tensor *[]){huge, huge}, 2, 0), RUNTIME,
            "Storage size calculation overflowed: the sizes of dimension 0 sum to more than a machine can count");
    REFUSED(fa_from_memory(room, FA_FLOAT64, FA_SHAPE(INT64_C(1) << 61), NULL, NULL), RUNTIME,
            "argument 'shape': more bytes than a machine can count");
    REFUSED(fa_from_memory(room, FA_FLOAT32, FA_SHAPE(2, -3), NULL, NULL), RUNTIME,
            "argument 'shape': size -3 of dimension 1 is negative or too large");
    REFUSED(fa_arange(0.0, 1e300, 1e-5), RUNTIME, "invalid size, possible overflow? ");
    REFUSED(fa_split_sizes(x, (int64_t[]){3, -1}, 2, 0, NULL, 0), RUNTIME,
            "split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes=[3, -1]");
    REFUSED(fa_slice_backward(v, FA_SHAPE(2, 3), 0, 0, 1, 1), RUNTIME,
            "argument 'x' has shape [3], but the place it goes to has shape [1, 3]");
    REFUSED(fa_unfold_backward(v, FA_SHAPE(4), 0, 2, 1), RUNTIME,
            "argument 'x' does not have the shape of the windows of size 2 every 1");
    REFUSED(fa_embedding(v, index_of(FA_SHAPE(1)), -1), RUNTIME, "'weight' must be 2-D, rows of numbers; it has 1 dimensions");
    REFUSED(fa_embedding(x, index_of(FA_SHAPE(1, 1, 1, 1, 1, 1, 1, 1)), -1), RUNTIME,
            "the index has 8 dimensions and the result would have one more; at most 8 are possible");
    REFUSED(fa_embedding_backward(v, index_of(FA_SHAPE(2)), FA_SHAPE(4, 3), -1), RUNTIME,
            "the gradient has 3 elements; 2 indices into rows of 3 were expected");
    REFUSED(
        fa_embedding(x, v, -1), RUNTIME,
        "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got Float instead");
    REFUSED(fa_sum_to(x, FA_SHAPE(2)), RUNTIME,
            "size [2] is not expandable to size [2, 3], so that the latter can't be summed to it");
    REFUSED(fa_max_dim(ones(FA_SHAPE(0, 3)), 0, false, NULL), INDEX, "max(): Expected reduction dim 0 to have non-zero size.");
    REFUSED(fa_amax_dims(ones(FA_SHAPE(0, 3)), FA_DIMS(0), false), INDEX,
            "amax_dims(): Expected reduction dim 0 to have non-zero size.");
    REFUSED(fa_argmax(ones(FA_SHAPE(0))), INDEX, "argmax(): Expected reduction dim to be specified for input.numel() == 0.");
    REFUSED(fa_masked_select(x, x), RUNTIME, "masked_select: expected BoolTensor for mask, found float32");
    REFUSED(fa_index_select(x, 0, index_of(FA_SHAPE(1, 1))), INDEX,
            "index_select(): Index is supposed to be a vector, but it has 2 dimensions");
    REFUSED(fa_index_select(number(), 0, index_of(FA_SHAPE(2))), RUNTIME,
            "index_select(): Index to scalar can have only 1 value, got 2 value(s)");
    REFUSED(fa_index_select(number(), 0, index_of(FA_SHAPE(0))), RUNTIME,
            "index_select(): Index to scalar can have only 1 value, got 0 value(s)");
    REFUSED(fa_scatter(x, 0, index_of(FA_SHAPE(1, 3)), fa_cast(x, FA_FLOAT64)), RUNTIME,
            "scatter(): Expected self.dtype to be equal to src.dtype.");
    REFUSED(fa_gather(x, 0, index_of(FA_SHAPE(1))), RUNTIME,
            "Index tensor must have the same number of dimensions as input tensor.");
    REFUSED(fa_gather(x, 0, index_of(FA_SHAPE(1, 4))), RUNTIME,
            "Size does not match at dimension 1 expected index [1, 4] to be no larger than self [2, 3]");
    REFUSED(fa_view(fa_t(x), FA_SHAPE(6)), RUNTIME, "view size is not compatible with input tensor's size and stride");
    REFUSED(fa_reshape(x, FA_SHAPE(4)), RUNTIME, "shape '[4]' is invalid for input of size 6; the input has shape [2, 3]");
    REFUSED(fa_reshape(x, FA_SHAPE(-1, -1)), RUNTIME, "only one dimension can be inferred; argument 'shape' is [-1, -1]");
}

static void random_numbers(void **state) {
    (void)state;
    fa_tensor *x = matrix(), *whole = watch(index_of(FA_SHAPE(2)));
    REFUSED(fa_init_uniform(x, 0, 1e300), RUNTIME, "to is out of bounds for float; found 1e+300, the largest is ");
    REFUSED(fa_init_uniform(x, 1, 0), RUNTIME, "uniform_ expects to return a [from, to) range, but found from=1 > to=0");
    REFUSED(fa_init_normal(x, 0, -1), RUNTIME, "normal expects std >= 0.0, but found std -1");
    REFUSED(fa_randint(-5, 3, FA_SHAPE(2), .dtype = FA_UINT8, .device = device), RUNTIME,
            "from is out of bounds for unsigned char; found from=-5");
    REFUSED(fa_randint(3, 3, FA_SHAPE(2), .device = device), RUNTIME,
            "random_ expects 'from' to be less than 'to', but got from=3 >= to=3");
    REFUSED(fai_fill_exponential("exponential", whole, 1, NULL), RUNTIME,
            "Exponential distribution is a continuous probability distribution.");
    REFUSED(fai_fill_exponential("exponential", x, 0, NULL), RUNTIME, "exponential_ expects lambda > 0.0, but found lambda=0");
    REFUSED(fai_fill_bernoulli("bernoulli", x, 2, NULL), RUNTIME, "bernoulli_ expects p to be in [0, 1], but got p=2");
    REFUSED(fa_rand(FA_SHAPE(2), .dtype = FA_INT64, .device = device), UNSUPPORTED, "\"");
}

/* Copies of an optimizer's state with one entry changed. */
static fa_tensors *changed(fa_tensors *good, const char *name, fa_tensor *t, const char *more) {
    fa_tensors *bad = fa_tensors_new();
    for (int64_t i = 0; i < fa_tensors_count(good); i++) {
        const char *at = fa_tensors_name_at(good, i);
        fa_tensor *entry = strcmp(at, name) ? fa_tensors_at(good, i) : t;
        if (entry) assert_true(fa_tensors_add(bad, at, entry));
    }
    if (more) assert_true(fa_tensors_add(bad, more, t ? t : fa_ints(0)));
    return bad;
}

static void optimizer_states(void **state) {
    (void)state;
    fa_tensor *p = fa_requires_grad(ones(FA_SHAPE(3)), true), *g = ones(FA_SHAPE(3));
    fa_optimizer *adam = fa_adam_of(&p, 1), *sgd = fa_sgd_of(&p, 1);
    assert_true(fa_set_grad(p, g) && fa_step(adam));
    fa_tensors *good = fa_optimizer_state(adam);
    watch(p);
    REFUSED(fa_load_optimizer_state(adam, NULL), TYPE,
            "argument 'state' is NULL: named tensors are needed, as fa_optimizer_state gives them");
    REFUSED(fa_load_optimizer_state(adam, changed(good, "group.0.lr", ones(FA_SHAPE(2)), NULL)), VALUE,
            "\"group.0.lr\" must be one number, but it has 2 elements");
    REFUSED(fa_load_optimizer_state(adam, changed(good, "group.0.lr", NULL, NULL)), KEY,
            "\"group.0.lr\" is missing: the state is not one of Adam");
    REFUSED(fa_load_optimizer_state(adam, changed(good, "group.0.params", NULL, NULL)), VALUE,
            "loaded state dict has a different number of parameter groups: \"group.0.params\" is missing");
    REFUSED(fa_load_optimizer_state(adam, changed(good, "group.0.params", fa_ints(0, 1), NULL)), VALUE,
            "loaded state dict contains a parameter group that doesn't match the size of optimizer's group");
    REFUSED(fa_load_optimizer_state(adam, changed(good, "0.exp_avg", ones(FA_SHAPE(2)), NULL)), VALUE,
            "\"0.exp_avg\" has shape [2], but its parameter has shape [3]: the state belongs to another model");
    REFUSED(fa_load_optimizer_state(adam, changed(good, "0.exp_avg", NULL, NULL)), KEY,
            "\"0.exp_avg\" is missing: a part of the state was lost");
    REFUSED(fa_load_optimizer_state(adam, changed(good, "", NULL, "group.1.params")), VALUE,
            "loaded state dict has a different number of parameter groups: the optimizer has 1, the state more");
    REFUSED(fa_load_optimizer_state(adam, changed(good, "", NULL, "0.momentum_buffer")), KEY,
            "the state holds 1 names that Adam of 1 parameters does not know: it is another optimizer's");
    assert_true(fa_load_optimizer_state(adam, good));
    p->grad->dtype = FA_INT32; /* what only a mistake elsewhere could make of it */
    REFUSED(fa_step(sgd), RUNTIME,
            "Expected all tensors to be on the same device, of the same dtype and shape: parameter 0 is a");
    p->grad->dtype = FA_FLOAT32;
    assert_true(fa_step(sgd));
}

static bool never(void *data, int64_t i, fa_tensor **fields) { return (void)data, (void)i, (void)fields, false; }
static bool forgets(void *data, int64_t i, fa_tensor **fields) { return (void)data, (void)i, fields[0] = NULL, true; }

static void data(void **state) {
    (void)state;
    fa_tensor *x = matrix(), *fields[2];
    fa_dataset *rows = fa_tensor_dataset(x), *empty = fa_tensor_dataset(ones(FA_SHAPE(0, 3)));
    REFUSED(fa_dataset_from(-1, 1, never, NULL, NULL), VALUE, "length must not be negative, but got -1");
    REFUSED(fa_dataset_from(1, 9, never, NULL, NULL), VALUE, "a sample has 1 to 8 fields, but got nfields = 9");
    REFUSED(fa_tensor_dataset(x, ones(FA_SHAPE(3))), VALUE,
            "Size mismatch between tensors: tensor 0 has shape [2, 3], tensor 1 [3]");
    REFUSED(fa_tensor_dataset(number()), INDEX, "tensor 0 has no dimension that could count samples: its shape is []");
    REFUSED(fa_dataset_get(rows, 2, fields), INDEX, "index 2 is out of bounds for dimension 0 with size 2");
    REFUSED(fa_dataset_get(fa_dataset_from(1, 1, never, NULL, NULL), 0, fields), FOREIGN,
            "the dataset's callback failed on sample 0 without saying why (fa_error_set)");
    REFUSED(fa_dataset_get(fa_dataset_from(1, 1, forgets, NULL, NULL), 0, fields), TYPE,
            "the dataset's callback left field 0 of sample 0 empty; it has 1 fields");
    REFUSED(fa_dataset_subset(rows, x), TYPE, "argument 'indices' must be a 1-d int64 tensor, but got a");
    REFUSED(fa_dataset_subset(rows, fa_ints(0, 2)), INDEX,
            "argument 'indices' holds 2, but the dataset has 2 samples, counted from 0");
    REFUSED(fa_loader(rows, .batch_size = 0), VALUE, "batch_size should be a positive integer value, but got batch_size=0");
    REFUSED(fa_loader(empty, .shuffle = true), VALUE, "num_samples should be a positive integer value, but got num_samples=0");
    if (device.type != FA_DEVICE_CPU)
        REFUSED(fa_loader(rows, .shuffle = true, .generator = fa_generator_new(device)), RUNTIME,
                "Expected a 'cpu' device type for generator but found 'cuda'; make one by fa_generator_new(FA_CPU)");
}

#define T(f) cmocka_unit_test_setup_teardown(f, begin_watching, end)
static int begin_watching(void **state) {
    unwatch();
    const int failed = begin(state);
    if (!getenv("FACULA_SIM")) device = FA_CPU; /* a real GPU has other sizes and errors of its own */
    return failed;
}

int main(void) {
    const struct CMUnitTest tests[] = {T(products),       T(images),           T(losses), T(movement),
                                       T(random_numbers), T(optimizer_states), T(data)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
