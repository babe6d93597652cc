/* Errors as docs/errors.md lists them: each is provoked, its code and first sentence are those of the table, what the call was
 * given is as it was, and the next call works. Files are in test_errors_files.c; rows that other tests provoke name those. */
/* test-env: - */
/* test-env: FACULA_SIM=cuda:2 */
#include "support/check.h"
#include "support/refused.h"
#include <dlfcn.h>
#include <facula.h>
#include <fcntl.h>
#include <unistd.h>

static fa_tensor *numbers(void) { return watch(counting(FA_SHAPE(2, 3))); }
static fa_tensor *ints(void) { return watch(fa_to(fa_ints(0, 1, 2), device)); }
static fa_tensor *leaf(void) { return fa_requires_grad(fa_ones(FA_SHAPE(3), .device = device), true); }

/* ---- arguments that any function may get wrong ---- */

static void nulls(void **state) {
    (void)state;
    fa_tensor *x = numbers();
    REFUSED(fa_add(x, NULL), TYPE, "argument 'y' is NULL: a tensor is needed.");
    REFUSED(fa_matmul(NULL, x), TYPE, "argument 'a' is NULL: a tensor is needed.");
    REFUSED(fa_cat(NULL, 2, 0), TYPE, "argument 'tensors' is a list of 2 tensors at NULL");
    REFUSED(fa_item(NULL), TYPE, "argument 't' is NULL: a tensor is needed.");
    REFUSED(fa_to_data(x, NULL, FA_FLOAT32), VALUE, "argument 'data' is NULL: there is no place for 6 elements");
    REFUSED(fa_from_data(NULL, FA_FLOAT32, FA_SHAPE(2)), VALUE, "argument 'data' is NULL, but the shape has 2 elements");
    REFUSED(fa_split_sizes(x, NULL, 2, 0, NULL, 0), VALUE, "argument 'sizes' is a list of 2 sizes at NULL");
    REFUSED(fa_generator_seed(NULL, 1), TYPE, "generator must not be NULL");
    REFUSED(fa_module_to(NULL, device), TYPE, "argument 'module' is NULL: a module is needed");
    REFUSED(fa_call_with(NULL, &x, 1), TYPE, "argument 'module' is NULL: a module is needed");
    REFUSED(fa_step(NULL), TYPE, "argument 'optimizer' is NULL: an optimizer is needed");
    REFUSED(fa_sgd_of(NULL, 2), TYPE, "argument 'parameters' is NULL: a list of 2 tensors is needed");
    REFUSED(fa_sgd(NULL), TYPE, "argument 'module' is NULL: a module is needed; for a list of tensors there is fa_sgd_of");
    REFUSED(fa_schedule_step(NULL), TYPE, "argument 'scheduler' is NULL: a scheduler is needed");
    REFUSED(fa_next(NULL, NULL), TYPE, "argument 'loader' is NULL: a loader is needed");
    REFUSED(fa_loader(NULL), TYPE, "argument 'dataset' is NULL: a dataset is needed");
    REFUSED(fa_tensors_get(NULL, "a"), VALUE, "tensors is NULL");
    REFUSED(fa_load_state_dict(fa_nn_relu(), NULL, true), TYPE, "argument 'state' is NULL: named tensors are needed");
    fa_device_parse(NULL);
    REFUSED_VOID((void)0, TYPE, "device must be a text such as \"cpu\" or \"cuda:1\", but got NULL");
}

static void sizes_and_dimensions(void **state) {
    (void)state;
    fa_tensor *x = numbers(), *eight = counting(FA_SHAPE(1, 1, 1, 1, 1, 1, 1, 2)), *index = ints();
    const fa_shape nine = fa_shape_of(9, (int64_t[]){1, 1, 1, 1, 1, 1, 1, 1, 1});
    REFUSED(fa_zeros(nine, .device = device), RUNTIME, "argument 'shape' has 9 entries; a tensor has at most 8 dimensions");
    REFUSED(fa_reshape(x, nine), RUNTIME, "argument 'shape' has 9 entries; a tensor has at most 8 dimensions");
    REFUSED(fa_unsqueeze(eight, 0), RUNTIME, "a tensor can have at most 8 dimensions here, but 9 were asked for.");
    REFUSED(fa_unflatten(eight, -1, FA_SHAPE(1, 2)), RUNTIME, "the result has 9 dimensions; a tensor has at most 8");
    REFUSED(fa_one_hot(fa_cast(eight, FA_INT64), 2), RUNTIME, "the result has 9 dimensions; a tensor has at most 8");
    REFUSED(fa_index(eight, (fa_tensor *[]){fa_zeros(FA_SHAPE(1, 1), .dtype = FA_INT64, .device = device)}, 1), RUNTIME,
            "the result would have 9 dimensions; at most 8 are possible");
    REFUSED(fa_rand(nine), RUNTIME, "argument 'shape' has 9 entries; a tensor has at most 8 dimensions");
    REFUSED(fa_sum_dims(x, nine, false), VALUE, "a list of 9 dimensions was given, at most 8 are possible");
    REFUSED(fa_zeros(FA_SHAPE(2, -1), .device = device), RUNTIME, "Trying to create tensor with negative dimension -1: [2, -1]");
    REFUSED(fa_zeros(FA_SHAPE(INT64_MAX, 2), .device = device), RUNTIME, "Storage size calculation overflowed with sizes=");
    REFUSED(fa_as_strided(x, FA_SHAPE(-1, 2), FA_DIMS(2, 1), 0), RUNTIME, "Storage size calculation overflowed with sizes=");
    REFUSED(fa_repeat(x, FA_SHAPE(2, -1)), RUNTIME, "Trying to create tensor with negative dimension -3");
    REFUSED(fa_repeat_interleave(x, INT64_MAX, 0), RUNTIME,
            "argument 'repeats': 9223372036854775807 times the size of dimension 0 overflows");
    REFUSED(fa_eye(2, -1), RUNTIME, "m must be greater or equal to 0, got -1");
    REFUSED(fa_size(x, 2) ? x : NULL, INDEX, "Dimension out of range (expected to be in range of [-2, 1], but got 2)");
    REFUSED(fa_sum_dims(x, FA_DIMS(0, 0), false), RUNTIME, "dim 0 appears multiple times in the list of dims");
    REFUSED(fa_unbind(fa_zeros(FA_SHAPE_0D), 0, NULL, 0), INDEX, "Dimension specified as 0 but tensor has no dimensions");
    REFUSED(fa_chunk(fa_zeros(FA_SHAPE_0D), 2, 0, NULL, 0), RUNTIME, "chunk expects at least a 1-dimensional tensor");
    REFUSED(fa_index_add(x, 0, index, x), RUNTIME,
            "source tensor shape must match self tensor shape, excluding the specified dimension.");
    REFUSED(fa_index(x, (fa_tensor *[]){fa_ones(FA_SHAPE_0D, .dtype = FA_BOOL, .device = device)}, 1), UNSUPPORTED,
            "a mask of 0 dimensions is not supported as an index.");
    REFUSED(fa_add(x, fa_ones(FA_SHAPE(4), .device = device)), RUNTIME,
            "The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1.");
    REFUSED(fa_item(x), RUNTIME, "a Tensor with 6 elements cannot be converted to Scalar");
    REFUSED(fa_select(x, 0, 2), INDEX, "select(): index 2 out of range for tensor of size [2, 3] at dimension 0");
}

static void dtypes(void **state) {
    (void)state;
    fa_tensor *x = numbers(), *index = ints(), *flags = watch(fa_gt_scalar(index, 0));
    const fa_dtype none = (fa_dtype)99;
    char room[64];
    REFUSED(fa_zeros(FA_SHAPE(2), .dtype = none), TYPE,
            ".dtype: there is no element type number 99; give one of FA_BOOL to FA_FLOAT64");
    REFUSED(fa_from_data("", none, FA_SHAPE(1)), TYPE, "argument 'from': there is no element type number 99");
    REFUSED(fa_from_memory(room, none, FA_SHAPE(1), NULL, NULL), TYPE, "argument 'dtype': there is no element type number 99");
    REFUSED(fa_to_data(x, room, none), TYPE, "argument 'as': there is no element type number 99");
    REFUSED_VOID(fa_set_default_dtype(FA_INT32), TYPE,
                 "only floating-point types are supported as the default type, but got int32");
    REFUSED(fa_mean(index), RUNTIME, "mean(): could not infer output dtype.");
    REFUSED(fa_sub_scalar(flags, 2), RUNTIME, "Subtraction, the `-` operator, with a bool tensor is not supported.");
    REFUSED(fa_argmax(flags), RUNTIME, "argmax(): does not support bool input.");
    REFUSED(fa_sub(flags, flags), RUNTIME, "Subtraction, the `-` operator, with two bool tensors is not supported.");
    REFUSED(fa_neg(flags), RUNTIME, "Negation, the `-` operator, on a bool tensor is not supported.");
    REFUSED(fa_bitwise_and(x, x), UNSUPPORTED, "\"bitwise_and\" not implemented for 'Float': it takes");
    REFUSED(fa_floor_divide_scalar(index, 0), RUNTIME, "ZeroDivisionError: an element of the integer divisor is 0");
    REFUSED(fa_pow_scalar(index, -1), RUNTIME, "Integers to negative integer powers are not allowed.");
    REFUSED(fa_zeros(FA_SHAPE(2), .dtype = FA_INT64, .requires_grad = true), RUNTIME,
            "Only Tensors of floating point and complex dtype can require gradients; found int64.");
    REFUSED(fa_arange(0, 1, 1, .dtype = FA_BOOL), UNSUPPORTED, "\"arange_cpu\" not implemented for 'Bool'");
    REFUSED(fa_linspace(0, 1, 2, .dtype = FA_BOOL), UNSUPPORTED, "\"linspace_cpu\" not implemented for 'Bool'");
    REFUSED(fa_dot(index, fa_cast(index, FA_FLOAT32)), RUNTIME,
            "dot : expected both vectors to have same dtype, but found Long and Float");
    fa_tensor *square = counting(FA_SHAPE(3, 3)), *wide = fa_cast(square, FA_FLOAT64);
    REFUSED(fa_addmm(wide, square, square), RUNTIME, "self and mat2 must have the same dtype, but got Double and Float");
    REFUSED(fa_linear(square, square, fa_cast(index, FA_FLOAT64)), RUNTIME,
            "self and mat2 must have the same dtype, but got Double and Float: bias and weight are of one type");
    REFUSED(fa_mm(square, wide), RUNTIME, "expected m1 and m2 to have the same dtype, but got: float != double.");
    REFUSED(fa_softmax(index, 0), UNSUPPORTED, "\"softmax_lastdim_kernel_impl\" not implemented for 'Long'.");
    REFUSED(fa_cross_entropy(fa_cast(square, FA_INT64), index), UNSUPPORTED,
            "\"log_softmax_lastdim_kernel_impl\" not implemented for 'Long'");
    REFUSED(fa_nll_loss(fa_cast(square, FA_INT64), index), UNSUPPORTED, "\"nll_loss_out_frame\" not implemented for 'Long'.");
    REFUSED(fa_nll_loss_backward(index, index, NULL, FA_SHAPE(3, 4), "none", -100, index), UNSUPPORTED,
            "\"nll_loss_backward\" not implemented for 'Long'.");
    REFUSED(fa_nll_loss(square, index, .weight = fa_cast(index, FA_FLOAT64)), RUNTIME,
            "expected scalar type Float but found Double.");
    REFUSED(fa_cross_entropy(square, fa_cast(index, FA_FLOAT32)), RUNTIME,
            "expected target dtype to be Long or Byte, but got Float.");
    REFUSED(fa_gather(x, 0, x), RUNTIME, "gather(): Expected dtype int32/int64 for index, but found float32.");
}

/* ---- values ---- */

static void values(void **state) {
    (void)state;
    fa_tensor *x = numbers();
    fa_tensor *image = counting(FA_SHAPE(1, 2, 4, 4)), *filter = fa_ones(FA_SHAPE(3, 2, 3, 3), .device = device);
    REFUSED(fa_norm(x, NAN), VALUE, "argument 'p' is NaN; any other number is allowed, and infinity");
    REFUSED(fa_softmax(x, 2), INDEX, "Dimension out of range (expected to be in range of [-2, 1], but got 2)");
    REFUSED(fa_mse_loss(x, x, .reduction = "average"), VALUE, "average is not a valid value for reduction");
    REFUSED(fa_conv2d(x, filter), RUNTIME,
            "Expected 3D (unbatched) or 4D (batched) input to conv2d, but got input of size: [2, 3].");
    REFUSED(fa_conv2d(image, x), RUNTIME,
            "weight must have 4 dimensions [out channels, in channels / groups, height, width], but has shape [2, 3]");
    REFUSED(fa_conv2d(image, fa_ones(FA_SHAPE(3, 2, 5, 5), .device = device)), RUNTIME,
            "Calculated padded input size per channel: (4 x 4).");
    REFUSED(fa_conv2d(image, fa_cast(filter, FA_FLOAT64)), RUNTIME,
            "Input type (float) and weight type (double) should be the same.");
    REFUSED(fa_conv2d(fa_cast(image, FA_INT64), filter), UNSUPPORTED, "\"conv2d\" not implemented for 'Long'.");
    REFUSED(fa_conv2d(image, filter, .groups = 2), RUNTIME,
            "Given groups=2, expected weight to be divisible by 2 at dimension 0");
    REFUSED(fa_conv2d(image, filter, .stride = FA_DIMS(0)), RUNTIME, "stride should be greater than zero, but got [0, 0]");
    REFUSED(fa_max_pool2d(image, FA_DIMS(0)), RUNTIME, "kernel_size should be greater than zero, but got [0, 0]");
    REFUSED(fa_max_pool2d(x, FA_DIMS(2)), RUNTIME,
            "Expected 3D or 4D (batch mode) tensor with optional 0 dim batch size for input, but got:[2, 3].");
    REFUSED(fa_max_pool2d(image, FA_DIMS(5)), RUNTIME, "Given input size: (2x4x4).");
    REFUSED(fa_batch_norm(fa_ones(FA_SHAPE(3), .device = device), NULL, NULL, .training = true), RUNTIME,
            "Expected an input of shape [batch, channels, ...], but got input of size[3]");
    REFUSED(fa_randint(0, INT64_MAX, FA_SHAPE(1), .dtype = FA_UINT8, .device = device), RUNTIME,
            "to - 1 is out of bounds for unsigned char; found to=9223372036854775807");
    REFUSED_VOID(fa_set_num_threads(0), RUNTIME, "set_num_threads expects a positive integer, but got 0");
    REFUSED(fa_init_xavier_uniform(leaf(), 1), VALUE,
            "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions");
    REFUSED(fa_init_gain("rleu", 0), VALUE, "Unsupported nonlinearity rleu: use linear");
    REFUSED(fa_init_kaiming_uniform(x, 0, "fan", "relu"), VALUE,
            "Mode fan not supported, please use one of ['fan_in', 'fan_out']");
    REFUSED(fa_tensor_dataset(), VALUE, "a dataset is made of 1 to 8 tensors, but got 0");
    REFUSED(fa_dataset_from(3, 1, NULL, NULL, NULL), TYPE, "argument 'get' is NULL: a function is needed that gives a sample");
}

/* ---- autograd ---- */

static fa_tensor *twice(fa_context *c, fa_tensor *const *inputs, int n, void *data) {
    (void)n, (void)data;
    fa_save_for_backward(c, inputs[0]);
    return fa_mul_scalar(inputs[0], 2.0);
}
static fa_tensor *greedy(fa_context *c, fa_tensor *const *inputs, int n, void *data) {
    (void)n, (void)data;
    for (int i = 0; i < 9; i++)
        if (!fa_save_for_backward(c, inputs[0])) return NULL;
    return inputs[0];
}
static fa_tensor *silent_forward(fa_context *c, fa_tensor *const *inputs, int n, void *data) {
    return (void)c, (void)inputs, (void)n, (void)data, NULL;
}
static bool silent_backward(fa_context *c, fa_tensor *g, fa_tensor **grads, int n, void *data) {
    return (void)c, (void)g, (void)grads, (void)n, (void)data, false;
}
static bool saves_late(fa_context *c, fa_tensor *g, fa_tensor **grads, int n, void *data) {
    return (void)grads, (void)n, (void)data, fa_save_for_backward(c, g);
}
static bool asks_too_much(fa_context *c, fa_tensor *g, fa_tensor **grads, int n, void *data) {
    return (void)g, (void)n, (void)data, (grads[0] = fa_saved(c, 1)) != NULL;
}
static bool wrong_shape(fa_context *c, fa_tensor *g, fa_tensor **grads, int n, void *data) {
    return (void)c, (void)g, (void)n, (void)data, (grads[0] = fa_ones(FA_SHAPE(2), .device = device)) != NULL;
}

static bool wrong_place(fa_context *c, fa_tensor *g, fa_tensor **grads, int n, void *data) {
    return (void)c, (void)g, (void)n, (void)data, (grads[0] = fa_ones(FA_SHAPE(3))) != NULL;
}

static void custom_functions(void **state) {
    (void)state;
    fa_tensor *x = watch(leaf()), *many[17];
    for (int i = 0; i < 17; i++) many[i] = x;
    const fa_function none = {.name = "None"}, big = {.name = "Greedy", .forward = greedy},
                      quiet = {.name = "Quiet", .forward = silent_forward};
    fa_function f = {.name = "Twice", .forward = twice};
    REFUSED(fa_apply(&none, &x, 1, NULL), TYPE, "argument 'function' needs a forward");
    REFUSED(fa_apply(&f, many, 17, NULL), VALUE, "17 inputs were given, at most 16 are possible");
    REFUSED(fa_apply(&big, &x, 1, NULL), VALUE, "at most 8 tensors can be saved for backward");
    REFUSED(fa_apply(&quiet, &x, 1, NULL), FOREIGN, "forward returned NULL without saying why (fa_error_set)");
    REFUSED(fa_backward(fa_sum(fa_apply(&f, &x, 1, NULL))), UNSUPPORTED, "You must implement either the backward or vjp method");
    f.backward = silent_backward;
    REFUSED(fa_backward(fa_sum(fa_apply(&f, &x, 1, NULL))), FOREIGN,
            "the backward function failed without saying why (fa_error_set)");
    f.backward = saves_late;
    REFUSED(fa_backward(fa_sum(fa_apply(&f, &x, 1, NULL))), RUNTIME, "fa_save_for_backward is for forward; this is backward");
    f.backward = asks_too_much;
    REFUSED(fa_backward(fa_sum(fa_apply(&f, &x, 1, NULL))), INDEX, "saved tensor 1 was asked for, but forward saved 1");
    f.backward = wrong_shape;
    REFUSED(fa_backward(fa_sum(fa_apply(&f, &x, 1, NULL))), RUNTIME,
            "Function TwiceBackward returned an invalid gradient at index 0 - got [2] but expected shape compatible with [3]");
    f.backward = wrong_place;
    if (device.type != FA_DEVICE_CPU)
        REFUSED(fa_backward(fa_sum(fa_apply(&f, &x, 1, NULL))), RUNTIME,
                "Function TwiceBackward returned an invalid gradient at index 0 - expected device cuda:0 but got cpu");
    assert_null(fa_grad(x));
}

static void backward_and_grad(void **state) {
    (void)state;
    fa_tensor *x = watch(leaf()), *plain = watch(fa_ones(FA_SHAPE(3), .device = device)), *grads[1];
    fa_tensor *y = fa_exp(x);
    REFUSED(fa_backward(y), RUNTIME, "grad can be implicitly created only for scalar outputs.");
    REFUSED(fa_backward(fa_sum(plain)), RUNTIME, "element 0 of tensors does not require grad and does not have a grad_fn.");
    REFUSED(fa_backward(y, .gradient = fa_ones(FA_SHAPE(2), .device = device)), RUNTIME,
            "Mismatch in shape: grad_output[0] has a shape of torch.Size([2]) and output[0] has a shape of torch.Size([3]).");
    REFUSED(fa_backward(fa_sum(y), .inputs = &x, .ninputs = 0), RUNTIME, "`inputs` argument to `backward()` cannot be empty.");
    REFUSED(fa_grad_of((fa_tensor *[]){fa_sum(y)}, 1, &plain, 1, grads), RUNTIME,
            "One of the differentiated Tensors does not require grad: input 0");
    fa_tensor *apart = leaf();
    REFUSED(fa_grad_of((fa_tensor *[]){fa_sum(y)}, 1, &apart, 1, grads), RUNTIME,
            "The differentiated Tensor at index 0 appears to not have been used in the graph.");
    assert_null(fa_grad(x));
    fa_tensor *loss = fa_sum(fa_exp(x));
    assert_true(fa_backward(loss));
    REFUSED(fa_backward(loss), RUNTIME, "Trying to backward through the graph a second time");
    const bool was = fa_set_detect_anomaly(true);
    fa_tensor *zero = fa_requires_grad(fa_zeros(FA_SHAPE(1), .device = device), true);
    fa_tensor *root = fa_sqrt(zero);
    REFUSED(fa_backward(fa_sum(fa_mul_scalar(fa_mul(root, fa_detach(root)), 1.0))), RUNTIME,
            "Function 'SqrtBackward0' returned nan values in its 0th output.");
    fa_set_detect_anomaly(was);
}

static fa_tensor *no_hook(fa_tensor *g, void *data) { return (void)g, (void)data, NULL; }
static fa_tensor *leaving_hook(fa_tensor *g, void *data) { return (void)data, fa_to(g, FA_CPU); }
static fa_tensor *shrinking_hook(fa_tensor *g, void *data) { return (void)data, fa_sum(g); }

static void hooks_and_leaves(void **state) {
    (void)state;
    fa_tensor *x = watch(leaf()), *plain = watch(fa_ones(FA_SHAPE(3), .device = device)), *whole = ints();
    REFUSED(fa_register_hook(x, NULL, NULL, NULL), TYPE, "argument 'hook' is NULL: a function is needed");
    REFUSED(fa_register_hook(plain, no_hook, NULL, NULL), RUNTIME,
            "cannot register a hook on a tensor that doesn't require gradient");
    REFUSED(fa_remove_hook(x, 99), KEY, "the tensor has no hook of number 99");
    fa_tensor *y = fa_exp(x);
    fa_register_hook(y, no_hook, NULL, NULL);
    REFUSED(fa_backward(fa_sum(y)), FOREIGN, "a gradient hook returned NULL without an error");
    y = fa_exp(x);
    fa_register_hook(y, shrinking_hook, NULL, NULL);
    REFUSED(fa_backward(fa_sum(y)), RUNTIME, "a gradient hook has changed the size of value");
    assert_null(fa_grad(x));
    REFUSED(fa_requires_grad(y, false), RUNTIME, "you can only change requires_grad flags of leaf variables.");
    REFUSED(fa_requires_grad(whole, true), RUNTIME,
            "only Tensors of floating point dtype can require gradients, this one is int64");
    REFUSED(fa_set_grad(x, fa_ones(FA_SHAPE(2), .device = device)), RUNTIME,
            "attempting to assign a gradient of size '[2]' to a tensor of size '[3]'.");
    REFUSED(fa_set_grad(x, fa_ones(FA_SHAPE(3), .dtype = FA_FLOAT64, .device = device)), RUNTIME,
            "attempting to assign a gradient with dtype 'float64' to a tensor with grad_dtype 'Float'.");
    REFUSED(fa_retain_grad(plain), RUNTIME, "can't retain_grad on Tensor that has requires_grad=False");
}

static void in_place(void **state) {
    (void)state;
    fa_tensor *x = watch(leaf()), *parts[3], *y = fa_exp(x), *e;
    REFUSED(fa_add_scalar_(x, 1.0), RUNTIME, "a leaf Variable that requires grad is being used in an in-place operation.");
    REFUSED(fa_zero_grad(NULL), TYPE, "argument 'optimizer' is NULL");
    REFUSED(fa_mul_scalar_(fa_select(x, 0, 0), 2.0), RUNTIME,
            "a view of a leaf Variable that requires grad is being used in an in-place operation.");
    assert_int_equal(fa_unbind(y, 0, parts, 3), 3);
    REFUSED(fa_add_scalar_(parts[0], 1.0), RUNTIME, "Output 0 of Unbind is a view and is being modified inplace.");
    e = fa_exp(x);
    fa_mul_scalar_(e, 2.0);
    REFUSED(fa_backward(fa_sum(e)), RUNTIME,
            "one of the variables needed for gradient computation has been modified by an inplace operation");
    REFUSED(fa_add_(fa_select(counting(FA_SHAPE(2, 3)), 0, 0), counting(FA_SHAPE(2, 3))), RUNTIME,
            "output with shape [3] doesn't match the broadcast shape [2, 3].");
    fa_tensor *hidden;
    e = fa_exp(x);
    {
        FA_NO_GRAD;
        hidden = fa_select(e, 0, 0);
    }
    REFUSED(fa_mul_(hidden, fa_select(x, 0, 0)), RUNTIME,
            "A view was created in no_grad mode and is being modified inplace with grad mode enabled.");
    REFUSED(fa_add_scalar_(ints(), 0.5), RUNTIME, "result type Float can't be cast to the desired output type Long");
    REFUSED(fa_add_scalar_(fa_expand(fa_ones(FA_SHAPE(1), .device = device), FA_SHAPE(3)), 1.0), RUNTIME,
            "unsupported operation: more than one element of the written-to tensor refers to a single memory location.");
}

static void inference(void **state) {
    (void)state;
    fa_tensor *x = watch(leaf()), *made;
    {
        FA_INFERENCE_MODE;
        made = fa_ones(FA_SHAPE(3), .device = device);
    }
    REFUSED(fa_requires_grad(made, true), RUNTIME,
            "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.");
    REFUSED(fa_add_scalar_(made, 1.0), RUNTIME, "Inplace update to inference tensor outside InferenceMode is not allowed.");
    REFUSED(fa_mul(x, made), RUNTIME, "Inference tensors cannot be saved for backward.");
}

/* ---- modules and optimizers ---- */

static fa_tensor *mute(fa_module *self, fa_tensor *const *inputs, int n) { return (void)self, (void)inputs, (void)n, NULL; }

static void modules(void **state) {
    (void)state;
    fa_tensor *x = watch(fa_ones(FA_SHAPE(2, 3), .device = device)), *p = leaf();
    fa_module *linear = fa_nn_linear(3, 2, .bias = false), *net = fa_sequential(linear, fa_nn_relu()),
              *list = fa_module_list(fa_nn_relu());
    static const fa_module_type nameless = {.name = "Nameless"}, silent = {.name = "Mute", .forward = mute};
    assert_true(fa_module_to(net, device));
    char long_name[128];
    memset(long_name, 'a', 120);
    long_name[120] = 0;
    REFUSED(fa_module_new(&nameless, NULL), TYPE, "argument 'type' needs a name and a forward");
    REFUSED(fa_call(fa_module_new(&silent, NULL), x), FOREIGN, "forward returned NULL without an error");
    REFUSED(fa_call(list, x), UNSUPPORTED, "Module [ModuleList] is missing the required \"forward\" function");
    REFUSED(fa_sequential(linear, NULL), TYPE, "child 1 is NULL: a module is needed");
    REFUSED(fa_call(linear, x, x), TYPE, "Linear.forward() takes 1 input but 2 were given");
    REFUSED(fa_call(net, fa_ones(FA_SHAPE(2, 4), .device = device)), RUNTIME,
            "mat1 and mat2 shapes cannot be multiplied (2x4 and 3x2).");
    REFUSED(fa_add_parameter(net, NULL, p), TYPE, "argument 'name' is NULL: a name is needed");
    REFUSED(fa_add_parameter(net, "", p), KEY, "parameter name can't be empty string \"\"");
    REFUSED(fa_add_buffer(net, "a.b", x, true), KEY, "buffer name can't contain \".\", got: a.b");
    REFUSED(fa_add_module(net, long_name, list), VALUE, "module name is 120 bytes long, at most 100 are allowed");
    REFUSED(fa_add_parameter(net, "0", p), KEY, "attribute '0' already exists, as a module");
    REFUSED(fa_add_parameter(net, "p", fa_exp(p)), VALUE, "Cannot assign non-leaf Tensor to parameter 'p'.");
    REFUSED(fa_add_module(linear, "loop", net), VALUE, "module 'loop' would contain itself");
    REFUSED(fa_child(net, 2), INDEX, "index 2 is out of range: Sequential has 2 children");
    REFUSED(fa_get_parameter(net, "0.wieght"), ATTRIBUTE, "Linear has no attribute `wieght` (path 0.wieght).");
    REFUSED(fa_get_parameter(net, NULL), TYPE, "argument 'path' is NULL: a path is needed, such as \"0.weight\"");
    REFUSED(fa_get_parameter(net, "0"), ATTRIBUTE, "`0` is a module, not a parameter or buffer");
    REFUSED(fa_get_parameter(net, "0.bias"), ATTRIBUTE, "`0.bias` is empty: the layer was made without it");
    REFUSED(fa_get_module(net, "0.weight"), ATTRIBUTE, "`0.weight` is a tensor, not a module");
    REFUSED(fa_module_to_dtype(net, FA_INT32), TYPE,
            "nn.Module.to only accepts floating point or complex dtypes, but got desired dtype=torch.int32");
    REFUSED(fa_save_module("net.bin", net), VALUE,
            "argument 'path' is \"net.bin\": the ending must be .pt, .pth, .safetensors or .npz");
    REFUSED(fa_nn_linear(-1, 2), RUNTIME, "Trying to create tensor with negative dimension -1");
    REFUSED(fa_nn_conv2d(1, 2, FA_DIMS(1, 2, 3)), VALUE,
            "argument 'kernel_size' must be one number or two (FA_DIMS(h, w)), but 3 were given");
    REFUSED(fa_call(fa_nn_batch_norm2d(3), x), VALUE, "expected 4D input (got 2D input)");
    REFUSED(fa_nn_dropout(2), VALUE, "dropout probability has to be between 0 and 1: found p = 2");
    REFUSED(fa_nn_conv2d(1, 2, 3, .groups = 0), VALUE, "groups must be a positive integer: found groups = 0");
    REFUSED(fa_nn_conv2d(3, 2, 3, .groups = 2), VALUE, "in_channels must be divisible by groups: found");
    REFUSED(fa_nn_conv2d(2, 3, 3, .groups = 2), VALUE, "out_channels must be divisible by groups: found");
    REFUSED(fa_nn_conv2d(1, 2, 0), VALUE, "kernel_size must be positive: found");
    REFUSED(fa_nn_conv2d(1, 2, 3, .stride = FA_DIMS(0)), VALUE, "stride must be positive: found");
    REFUSED(fa_nn_conv2d(1, 2, 3, .padding = FA_DIMS(-1)), VALUE, "padding must not be negative: found");
    REFUSED(fa_nn_conv2d(1, 2, 3, .dilation = FA_DIMS(0)), VALUE, "dilation must be positive: found");
    REFUSED(fa_nn_embedding(3, 2, .padding_idx = 3), VALUE, "Padding_idx must be within num_embeddings: found");
    REFUSED(fa_nn_hardtanh(.min_val = 1, .max_val = 0), VALUE, "max_val must not be below min_val: found");
    fa_tensors *empty = fa_tensors_new();
    REFUSED(fa_load_state_dict(net, empty, true), RUNTIME,
            "Error(s) in loading state_dict for Sequential:\n\tMissing key(s) in state_dict: \"0.weight\".");
    assert_non_null(fa_call(net, x));
}

static void optimizers(void **state) {
    (void)state;
    fa_tensor *p = watch(leaf()), *list[2] = {p, p};
    fa_optimizer *o = fa_sgd_of(&p, 1, .lr = 0.1);
    REFUSED(fa_clip_grad_norm(NULL, 2, 1, 2), TYPE, "argument 'parameters' must be a list of tensors; found NULL with n = 2");
    REFUSED(fa_clip_grad_norm(&p, 1, NAN, 2), VALUE, "max_norm and norm_type must be numbers; found nan and 2");
    REFUSED(fa_set_option(o, 0, NULL, 1), TYPE, "argument 'name' is NULL: the name of an option is needed");
    REFUSED(fa_set_option(o, 0, "learning_rate", 1), KEY, "'learning_rate' is no option of SGD, which has lr, momentum");
    REFUSED(fa_set_option(o, 1, "lr", 1), INDEX, "group 1 is out of range: there are 1, counted from 0; -1 stands for all");
    REFUSED(fa_set_option(o, 0, "lr", -1), VALUE,
            "Invalid learning rate: -1. The option lr must be a number that is not negative.");
    REFUSED(fa_sgd_of(&p, 1, .nesterov = true), VALUE, "Nesterov momentum requires a momentum and zero dampening.");
    REFUSED(fa_adam_of(&p, 1, .beta1 = 1.0), VALUE, "Invalid beta parameter at index 0: 1.0.");
    REFUSED(fa_step_lr(o, 0, 0.1), VALUE, "step_size must be a positive number of epochs, but got 0");
    REFUSED(fa_cosine_lr(o, 0, 0), VALUE, "t_max must be a positive number of epochs, but got 0");
    REFUSED(fa_lambda_lr(o, NULL, NULL), TYPE,
            "argument 'factor' is NULL: a function is needed that gives the factor of an epoch");
    REFUSED(fa_schedule_resume(fa_step_lr(o, 1, 0.1), -1), VALUE, "epoch must not be negative, but got -1");
    REFUSED(fa_add_group(o, list, 2), VALUE,
            "some parameters appear in more than one parameter group: parameter 0 of the new group is in group 0");
    fa_optimizer *adam = fa_adam_of(&p, 1);
    assert_true(fa_set_grad(p, fa_ones(FA_SHAPE(3), .device = device)));
    unwatch();
    assert_true(fa_step(adam));
    fa_tensors *good = fa_optimizer_state(adam), *bad = fa_tensors_new();
    for (int64_t i = 0; i < fa_tensors_count(good); i++) {
        const char *name = fa_tensors_name_at(good, i);
        fa_tensor *t = fa_tensors_at(good, i);
        assert_true(fa_tensors_add(bad, name, strcmp(name, "0.step") ? t : fa_zeros_like(t)));
    }
    REFUSED(fa_load_optimizer_state(adam, bad), VALUE, "\"0.step\" is 0, but 2 states of that parameter are there");
    assert_true(fa_load_optimizer_state(adam, good));
}

/* ---- warnings: allowed, and most likely a mistake ---- */

static char warned[400];
static void hear(const char *op, const char *text) { (void)op, snprintf(warned, sizeof warned, "%s", text); }
#define WARNS(call, text)                                                                                                        \
    do {                                                                                                                         \
        warned[0] = 0;                                                                                                           \
        assert_true((call) ? 1 : 0);                                                                                             \
        if (strncmp(warned, (text), strlen(text))) fail_msg("line %d: warned \"%s\"", __LINE__, warned);                         \
    } while (0)

static void warnings(void **state) {
    (void)state;
    fa_tensor *x = fa_rand(FA_SHAPE(2, 3), .device = device), *one = fa_rand(FA_SHAPE(3), .device = device), *p = leaf();
    fa_tensor *twofold[2] = {p, p};
    fai_set_warn(hear);
    WARNS(fa_mse_loss(x, one), "Using a target size (torch.Size([3])) that is different to the input size (torch.Size([2, 3])).");
    WARNS(fa_kl_div_loss(x, x), "reduction: 'mean' divides the total loss by both the batch size and the support size.");
    WARNS(fa_var(fa_ones(FA_SHAPE(1), .device = device)), "var(): degrees of freedom is <= 0.");
    WARNS(fa_sgd_of(twofold, 2), "optimizer contains a parameter group with duplicate parameters");
    WARNS(fa_schedule_step(fa_step_lr(fa_sgd_of(&p, 1), 1, 0.1)),
          "Detected call of `lr_scheduler.step()` before `optimizer.step()`.");
    fai_set_warn(NULL);
}

/* ---- devices ---- */

static void wrong_device(void **state) {
    (void)state;
    if (device.type == FA_DEVICE_CPU) skip();
    fa_tensor *x = numbers(), *here = watch(fa_ones(FA_SHAPE(3))), *p = watch(leaf());
    fa_module *net = fa_nn_linear(3, 1);
    REFUSED(fa_add(x, here), RUNTIME,
            "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!");
    REFUSED(fa_call(net, x), RUNTIME, "Expected all tensors to be on the same device, but got");
    REFUSED(fa_cat((fa_tensor *[]){x, fa_ones(FA_SHAPE(2, 3))}, 2, 0), RUNTIME,
            "Expected all tensors to be on the same device, but got tensors is on cpu");
    fa_tensor *total = watch(fa_full(FA_SHAPE_0D, 0.0)), *grown = watch(fa_exp(p));
    REFUSED(fa_add_(total, fa_sum(x)), RUNTIME, "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!");
    REFUSED(fa_masked_fill_scalar_(total, fa_isfinite(fa_sum(x)), 2), RUNTIME, "Expected all tensors to be on the same device");
    fa_register_hook(grown, leaving_hook, NULL, NULL);
    REFUSED(fa_backward(fa_sum(grown)), RUNTIME, "a gradient hook has changed the device of value (was cuda:0, got cpu)");
    REFUSED(fa_add(x, fa_to(x, FA_CUDA(1))), RUNTIME, "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cuda:1!");
    REFUSED(fa_data(x), TYPE, "can't convert cuda:0 device type tensor to host memory.");
    REFUSED(fa_set_grad(p, here), RUNTIME,
            "attempting to assign a gradient located on device 'cpu' to a tensor located on device 'cuda:0'.");
    REFUSED(fa_backward(fa_exp(p), .gradient = here), RUNTIME,
            "the gradient is on cpu but the tensor it belongs to is on cuda:0");
    REFUSED(fa_to(here, FA_CUDA(2)), DEVICE, "CUDA error: invalid device ordinal.");
    REFUSED(fa_rand(FA_SHAPE(1), .device = device, .generator = fa_default_generator(FA_CPU)), RUNTIME,
            "Expected a 'cuda' device type for generator but found 'cpu'");
    REFUSED(fa_randint(0, 3, FA_SHAPE(2), .generator = fa_default_generator(device)), RUNTIME,
            "Expected a 'cpu' device type for generator but found 'cuda'");
    REFUSED(fa_embedding(counting(FA_SHAPE(2, 3)), fa_to(fa_ints(0, 5), device), -1) && fa_synchronize(device), INDEX,
            "index out of range in self.");
    REFUSED(fa_cross_entropy(counting(FA_SHAPE(2, 3)), fa_to(fa_ints(0, 3), device)) && fa_synchronize(device), INDEX,
            "Target 3 is out of bounds.");
}

static void device_names(void **state) {
    (void)state;
    fa_device_parse("gpu");
    REFUSED_VOID((void)0, RUNTIME, "Expected one of cpu, cuda, ipu");
    fa_device_parse("cuda:01");
    REFUSED_VOID((void)0, RUNTIME, "Invalid device string: 'cuda:01'.");
    fa_device_parse("");
    REFUSED_VOID((void)0, RUNTIME, "Device string must not be empty.");
    fa_device_parse("cuda:99999999999");
    REFUSED_VOID((void)0, RUNTIME, "Could not parse device index '99999999999' in device string 'cuda:99999999999'.");
    REFUSED(fa_set_current_device(FA_CPU), VALUE, "Expected a cuda device, but got: cpu");
    REFUSED(fa_zeros(FA_SHAPE(1), .device = fa_device_of_type(40, 0)), RUNTIME, "device type 40 is unknown");
    int open = 0;
    for (; open < 1000 && !fa_failed(); open++) fa_device_scope_open(FA_CPU);
    for (int i = 0; i < open; i++) fa_device_scope_close();
    REFUSED_VOID((void)0, RUNTIME, "device scopes are nested more than");
    if (!fa_device_is_available(FA_DEVICE_CUDA))
        REFUSED(fa_zeros(FA_SHAPE(1), .device = FA_CUDA(0)), RUNTIME, "Found no NVIDIA driver on your system.");
}

static void full_output(void **state) {
    (void)state;
    fa_tensor *x = numbers();
    const int full = open("/dev/full", O_WRONLY), kept = dup(1);
    if (full < 0) skip();
    fflush(stdout);
    setvbuf(stdout, NULL, _IONBF, 0); /* else it would only be known at the program's end */
    dup2(full, 1);
    fa_print(x);
    dup2(kept, 1);
    close(kept), close(full);
    clearerr(stdout);
    REFUSED_VOID((void)0, FILE, "could not write to stdout");
}

/* ---- no memory ---- */

static void no_memory(void **state) {
    (void)state;
    fa_tensor *x = numbers();
    fa_test_caches(false);
    fa_test_fail_allocation(1, true);
    fa_tensor *r = fa_exp(x);
    fa_test_fail_allocation(0, false);
    fa_test_caches(true);
    REFUSED(r, MEMORY, "not enough memory: tried to allocate ");
    if (device.type == FA_DEVICE_CPU) return;
    REFUSED(fa_zeros(FA_SHAPE(1 << 20, 1 << 12), .device = device), DEVICE_MEMORY,
            "CUDA out of memory. Tried to allocate 16.00 GiB.");
    REFUSED(fa_empty(FA_SHAPE(INT64_C(1) << 52), .dtype = FA_UINT8, .device = device), DEVICE_MEMORY,
            "CUDA out of memory. Tried to allocate more than 1EB memory.");
}

/* ---- a device that fails ---- */

static void failing_device(void **state) {
    (void)state;
    if (device.type == FA_DEVICE_CPU) skip();
    int (*faults)(const char *) = NULL;
    void *simulator = dlopen("libfacula_sim.so", RTLD_NOW | RTLD_NOLOAD);
    if (simulator) *(void **)&faults = dlsym(simulator, "facula_sim_faults");
    if (!faults) skip();
    fa_tensor *x = numbers();
    assert_true(fa_synchronize(device));
    assert_int_equal(faults("launch:1"), 0);
    fa_tensor *r = fa_exp(x);
    faults(NULL);
    REFUSED(r, DEVICE, "CUDA error: too many resources requested for launch (CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES) while ");
    assert_int_equal(faults("copy:1"), 0);
    r = fa_to(fa_ones(FA_SHAPE(1000)), device);
    const bool read = r && fa_synchronize(device);
    faults(NULL);
    REFUSED(read, DEVICE, "CUDA error: ");
    assert_int_equal(faults("late:1"), 0);
    r = fa_exp(x);
    assert_false(fa_failed()); /* the launch was accepted */
    const bool fine = fa_synchronize(device);
    faults(NULL);
    assert_non_null(strstr(fa_error_peek()->text, "This happened on cuda:0 while "));
    assert_string_equal(fa_error_peek()->op, "exp"); /* the culprit, not the one who waited */
    REFUSED(fine, DEVICE, "CUDA error: ");
    assert_int_equal(faults("lost:1"), 0);
    r = fa_exp(x);
    const bool there = r && fa_synchronize(device);
    fa_error first = fa_error_take();
    fa_tensor *next = fa_ones(FA_SHAPE(2), .device = device);
    fa_error second = fa_error_take();
    faults(NULL);
    assert_false(there);
    assert_null(next);
    assert_int_equal(first.code, FA_ERR_DEVICE);
    assert_int_equal(second.code, FA_ERR_DEVICE);
    assert_non_null(
        strstr(second.text, ". The driver gave up cuda:0 after this error: nothing more can be done on it in this process"));
    assert_true(fa_synchronize(FA_CUDA(1))); /* the other one is not concerned */
}

#define T(f) cmocka_unit_test_setup_teardown(f, begin_watching, end)
static int begin_watching(void **state) {
    unwatch();
    const int failed = begin(state);
    if (!getenv("FACULA_SIM")) device = FA_CPU; /* a real GPU has other sizes and errors of its own */
    return failed;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        T(nulls),
        T(sizes_and_dimensions),
        T(dtypes),
        T(values),
        T(custom_functions),
        T(backward_and_grad),
        T(hooks_and_leaves),
        T(in_place),
        T(inference),
        T(modules),
        T(optimizers),
        T(warnings),
        T(wrong_device),
        T(device_names),
        T(full_output),
        T(no_memory),
        T(failing_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
