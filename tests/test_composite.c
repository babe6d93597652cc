/* Composite operators, losses and hand-written derivatives: values and sentences of torch, and derivatives of the first and
 * second order against differences in float64. */
/* test-env: - */
/* test-env: FACULA_SIM=cuda:1 */
/* test-env: FACULA_SIM=cuda:1 FACULA_FUSE=on */
/* test-env-opencl: FACULA_OPENCL=cpu */
#include "support/check.h"

static fa_tensor *matrix(void) { return fa_to(fa_reshape(fa_floats(1, -2, 3, 0, 5, -1), FA_SHAPE(2, 3)), device); }
static fa_tensor *targets(void) { return fa_to(fa_ints(0, 2), device); }
static fa_tensor *weights(void) { return fa_to(fa_floats(1, 2, 3), device); }

/* ---- choosing ---- */

static void triangles(void **state) {
    (void)state;
    fa_tensor *b = fa_sub_scalar(counting(FA_SHAPE(3, 4)), 5);
    CHECK(fa_tril(b, -1), FA_SHAPE(3, 4), 0, 0, 0, 0, -1, 0, 0, 0, 3, 4, 0, 0);
    CHECK(fa_triu(b, 1), FA_SHAPE(3, 4), 0, -4, -3, -2, 0, 0, 1, 2, 0, 0, 0, 6);
    CHECK(fa_tril(fa_ones(FA_SHAPE(1, 2, 2), .dtype = FA_BOOL, .device = device), INT64_MIN), FA_SHAPE(1, 2, 2), 0, 0, 0, 0);
    assert_int_equal(fa_dtype_of(fa_triu(fa_ones(FA_SHAPE(2, 2), .dtype = FA_BOOL, .device = device), 0)), FA_BOOL);
    CHECK(fa_tril(fa_full(FA_SHAPE(2, 2), NAN, .device = device), 0), FA_SHAPE(2, 2), NAN, 0, NAN, NAN);
    FAILS(fa_tril(fa_ones(FA_SHAPE(3)), 0), RUNTIME, "tril: input tensor must have at least 2 dimensions");
}

static void choosing(void **state) {
    (void)state;
    fa_tensor *x = counting(FA_SHAPE(2, 3)), *even = fa_eq_scalar(fa_remainder_scalar(x, 2), 0), *index = targets();
    CHECK(fa_masked_select(x, even), FA_SHAPE(3), 0, 2, 4);
    CHECK(fa_masked_select(x, fa_select(even, 0, 0)), FA_SHAPE(4), 0, 2, 3, 5);
    CHECK_EMPTY(fa_masked_select(x, fa_zeros(FA_SHAPE_0D, .dtype = FA_BOOL, .device = device)), FA_SHAPE(0));
    FAILS(fa_masked_select(x, x), RUNTIME, "masked_select: expected BoolTensor for mask");
    CHECK(fa_one_hot(index, -1), FA_SHAPE(2, 3), 1, 0, 0, 0, 0, 1);
    CHECK(fa_one_hot(index, 4), FA_SHAPE(2, 4), 1, 0, 0, 0, 0, 0, 1, 0);
    FAILS(fa_one_hot(index, 2), RUNTIME, "Class values must be smaller than num_classes.");
    FAILS(fa_one_hot(fa_neg(index), 2), RUNTIME, "Class values must be non-negative.");
    FAILS(fa_one_hot(x, 2), RUNTIME, "one_hot is only applicable to index tensor of type LongTensor.");
    FAILS(fa_one_hot(fa_empty(FA_SHAPE(0), .dtype = FA_INT64), -1), RUNTIME,
          "Can not infer total number of classes from empty tensor.");
}

static void dropout(void **state) {
    (void)state;
    fa_tensor *x = fa_ones(FA_SHAPE(1000), .device = device);
    assert_ptr_equal(fa_dropout(x, .5, false), x);
    assert_ptr_equal(fa_dropout(x, 0, true), x);
    CHECK(fa_dropout(fa_ones(FA_SHAPE(2), .device = device), 1, true), FA_SHAPE(2), 0, 0);
    fa_tensor *y = fa_dropout(x, .2, true), *kept = fa_gt_scalar(y, 0);
    double n = fa_item(fa_sum(kept));
    assert_true(n > 720 && n < 880);
    assert_true(fabs(fa_item(fa_amax(y)) - 1.25) < 1e-6);
    FAILS(fa_dropout(x, 1.5, true), VALUE, "dropout probability has to be between 0 and 1, but got 1.5");
    FAILS(fa_dropout(targets(), .5, true), RUNTIME, "result type Float can't be cast to the desired output type Long");
    if (device.type != FA_DEVICE_CPU) return;
    fa_manual_seed(0);
    CHECK(fa_dropout(fa_ones(FA_SHAPE(8)), .5, true), FA_SHAPE(8), 0, 0, 2, 0, 0, 0, 2, 2);
}

/* ---- reductions ---- */

static void variance(void **state) {
    (void)state;
    fa_tensor *x = matrix();
    CHECK(fa_var_dims(x, FA_DIMS(1), 1, false), FA_SHAPE(2), 6.333333, 10.33333);
    CHECK(fa_var(x), FA_SHAPE_0D, 6.8);
    CHECK(fa_var_dims(x, FA_DIMS(0, 1), 0, true), FA_SHAPE(1, 1), 5.666667);
    CHECK(fa_std_dims(x, FA_DIMS(0), 1, false), FA_SHAPE(3), 0.7071068, 4.949748, 2.828427);
    CHECK(fa_std(fa_cast(x, FA_FLOAT16)), FA_SHAPE_0D, 2.607422); /* 2.6076 to the nearest float16 */
    FAILS(fa_var(targets()), RUNTIME, "std and var only support floating point and complex dtypes");
    FAILS(fa_var_dims(x, FA_DIMS(5), 1, false), INDEX, "Dimension out of range (expected to be in range of [-2, 1], but got 5)");
    CHECK(fa_max(x), FA_SHAPE_0D, 5);
    CHECK(fa_min(x), FA_SHAPE_0D, -2);
    FAILS(fa_max(fa_empty(FA_SHAPE(0))), RUNTIME,
          "max(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim");
}

static void norms(void **state) {
    (void)state;
    fa_tensor *x = matrix();
    static const struct {
        double p, a, b;
    } rows[] = {{0, 3, 2},         {1, 6, 6},        {2, 3.741657, 5.09902}, {3, 3.301927, 5.013298}, {.5, 17.19151, 10.47214},
                {-1, .5454546, 0}, {INFINITY, 3, 5}, {-INFINITY, 1, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK(fa_norm_dims(x, rows[i].p, FA_DIMS(1), false), FA_SHAPE(2), rows[i].a, rows[i].b);
        fa_tensor *leaf = fa_requires_grad(matrix(), true); /* the recorded form has the same values */
        CHECK(fa_norm_dims(leaf, rows[i].p, FA_DIMS(-1), true), FA_SHAPE(2, 1), rows[i].a, rows[i].b);
    }
    CHECK(fa_norm(x, 2), FA_SHAPE_0D, sqrt(40));
    FAILS(fa_norm(targets(), 2), RUNTIME, "linalg.vector_norm: Expected a floating point or complex tensor as input. Got Long");
    FAILS(fa_norm(fa_empty(FA_SHAPE(0)), INFINITY), RUNTIME,
          "linalg.vector_norm cannot compute the inf norm on an empty tensor because the operation does not have an identity");
    CHECK(fa_logsumexp(x, FA_DIMS(1), false), FA_SHAPE(2), 3.132845, 5.009174);
    CHECK(fa_logsumexp(fa_to(fa_floats(INFINITY, 1), device), FA_DIMS(0), true), FA_SHAPE(1), INFINITY);
    CHECK(fa_logsumexp(fa_to(fa_floats(-INFINITY, -INFINITY), device), FA_DIMS(0), false), FA_SHAPE_0D, -INFINITY);
    CHECK(fa_logsumexp(fa_empty(FA_SHAPE(0, 2), .device = device), FA_DIMS(0), false), FA_SHAPE(2), -INFINITY, -INFINITY);
    CHECK(fa_logsumexp(fa_to(fa_floats(1000, 1000), device), FA_DIMS(0), false), FA_SHAPE_0D, 1000.693147);
}

/* ---- products ---- */

static void products(void **state) {
    (void)state;
    fa_tensor *a = counting(FA_SHAPE(2, 3)), *b = fa_sub_scalar(counting(FA_SHAPE(3, 4)), 5), *v = weights();
    fa_tensor *batch = counting(FA_SHAPE(2, 2, 3));
    CHECK(fa_mm(a, b), FA_SHAPE(2, 4), 5, 8, 11, 14, -4, 8, 20, 32);
    CHECK(fa_matmul(a, b), FA_SHAPE(2, 4), 5, 8, 11, 14, -4, 8, 20, 32);
    CHECK(fa_matmul(batch, b), FA_SHAPE(2, 2, 4), 5, 8, 11, 14, -4, 8, 20, 32, -13, 8, 29, 50, -22, 8, 38, 68);
    CHECK(fa_matmul(batch, counting(FA_SHAPE(1, 3, 2))), FA_SHAPE(2, 2, 2), 10, 13, 28, 40, 46, 67, 64, 94);
    CHECK(fa_bmm(batch, fa_expand(counting(FA_SHAPE(1, 3, 2)), FA_SHAPE(2, 3, 2))), FA_SHAPE(2, 2, 2), 10, 13, 28, 40, 46, 67, 64,
          94);
    CHECK(fa_matmul(batch, v), FA_SHAPE(2, 2), 8, 26, 44, 62);
    CHECK(fa_matmul(fa_slice(v, 0, 0, 2, 1), batch), FA_SHAPE(2, 3), 6, 9, 12, 24, 27, 30);
    CHECK(fa_matmul(counting(FA_SHAPE(2, 1, 1, 3)), counting(FA_SHAPE(1, 1, 3, 3))), FA_SHAPE(2, 1, 1, 3), 15, 18, 21, 42, 54,
          66);
    CHECK(fa_matmul(v, fa_t(a)), FA_SHAPE(2), 8, 26);
    CHECK(fa_mv(a, v), FA_SHAPE(2), 8, 26);
    CHECK(fa_dot(v, v), FA_SHAPE_0D, 14);
    CHECK(fa_matmul(v, v), FA_SHAPE_0D, 14);
    CHECK(fa_outer(v, fa_slice(v, 0, 0, 2, 1)), FA_SHAPE(3, 2), 1, 2, 2, 4, 3, 6);
    CHECK(fa_addmm(fa_to(fa_floats(1, 2, 3, 4), device), a, b, .beta = 2, .alpha = .5), FA_SHAPE(2, 4), 4.5, 8, 11.5, 15, 0, 8,
          16, 24);
    CHECK(fa_addmm(fa_full(FA_SHAPE_0D, NAN, .device = device), a, b, .beta = 0), FA_SHAPE(2, 4), 5, 8, 11, 14, -4, 8, 20, 32);
    CHECK_EMPTY(fa_matmul(counting(FA_SHAPE(2, 0, 3)), b), FA_SHAPE(2, 0, 4));
    CHECK(fa_matmul(counting(FA_SHAPE(1, 2, 0)), counting(FA_SHAPE(0, 1))), FA_SHAPE(1, 2, 1), 0, 0);
}

static void product_errors(void **state) {
    (void)state;
    fa_tensor *x = counting(FA_SHAPE(2, 3)), *v3 = counting(FA_SHAPE(3)), *v4 = counting(FA_SHAPE(4)),
              *s = fa_ones(FA_SHAPE_0D, .device = device);
    fa_tensor *b234 = counting(FA_SHAPE(2, 3, 4)), *wide = fa_cast(fa_t(x), FA_FLOAT64);
    FAILS(fa_matmul(s, v3), RUNTIME, "both arguments to matmul need to be at least 1D, but they are 0D and 1D");
    FAILS(fa_matmul(v3, v4), RUNTIME,
          "inconsistent tensor size, expected tensor [3] and src [4] to have the same number of elements, but got 3 and 4 "
          "elements respectively");
    FAILS(fa_matmul(x, v4), RUNTIME, "size mismatch, got input (2), mat (2x3), vec (4)");
    FAILS(fa_matmul(v3, x), RUNTIME, "mat1 and mat2 shapes cannot be multiplied (1x3 and 2x3)");
    FAILS(fa_matmul(x, x), RUNTIME, "mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)");
    FAILS(fa_matmul(b234, counting(FA_SHAPE(2, 5, 6))), RUNTIME,
          "Expected size for first two dimensions of batch2 tensor to be: [2, 4] but got: [2, 5].");
    FAILS(fa_matmul(b234, counting(FA_SHAPE(3, 4, 6))), RUNTIME,
          "The size of tensor a (2) must match the size of tensor b (3) at non-singleton dimension 0");
    FAILS(fa_matmul(b234, v3), RUNTIME, "size mismatch, got input (6), mat (6x4), vec (3)");
    FAILS(fa_matmul(v3, counting(FA_SHAPE(2, 4, 5))), RUNTIME,
          "Expected size for first two dimensions of batch2 tensor to be: [2, 3] but got: [2, 4].");
    FAILS(fa_matmul(b234, x), RUNTIME, "mat1 and mat2 shapes cannot be multiplied (6x4 and 2x3)");
    FAILS(fa_mm(x, wide), RUNTIME, "expected m1 and m2 to have the same dtype, but got: float != double");
    FAILS(fa_mm(x, v3), RUNTIME, "mat2 must be a matrix");
    FAILS(fa_mm(v3, x), RUNTIME, "self must be a matrix");
    FAILS(fa_bmm(x, x), RUNTIME, "batch1 must be a 3D tensor");
    FAILS(fa_bmm(b234, b234), RUNTIME, "Expected size for first two dimensions of batch2 tensor to be: [2, 4] but got: [2, 3].");
    FAILS(fa_dot(x, v3), RUNTIME, "1D tensors expected, but got 2D and 1D tensors");
    FAILS(fa_outer(x, v3), RUNTIME, "outer: Expected 1-D argument self, but got 2-D");
    FAILS(fa_addmm(s, v3, x), RUNTIME, "mat1 must be a matrix, got 1-D tensor");
    FAILS(fa_addmm(v4, x, fa_t(x)), RUNTIME,
          "The expanded size of the tensor (2) must match the existing size (4) at non-singleton dimension 1.");
    FAILS(fa_addmm(s, wide, x), RUNTIME, "mat1 and mat2 must have the same dtype, but got Double and Float");
    if (device.type != FA_DEVICE_CPU) FAILS(fa_matmul(x, fa_cpu(v3)), RUNTIME, "Expected all tensors to be on the same device");
}

/* ---- losses ---- */

static void cross_entropy(void **state) {
    (void)state;
    fa_tensor *x = matrix(), *t = targets(), *w = weights(), *ignored = fa_to(fa_ints(0, -100), device);
    fa_tensor *q = fa_to(fa_reshape(fa_floats(.2, .3, .5, .1, .1, .8), FA_SHAPE(2, 3)), device);
    CHECK(fa_cross_entropy(x, t), FA_SHAPE_0D, 4.07101);
    CHECK(fa_cross_entropy(x, t, .reduction = "sum"), FA_SHAPE_0D, 8.142019);
    CHECK(fa_cross_entropy(x, t, .reduction = "none"), FA_SHAPE(2), 2.132845, 6.009174);
    CHECK(fa_cross_entropy(x, t, .weight = w), FA_SHAPE_0D, 5.040092);
    CHECK(fa_cross_entropy(x, fa_cast(t, FA_UINT8), .weight = w, .label_smoothing = .1), FA_SHAPE_0D, 4.83485);
    CHECK(fa_cross_entropy(x, t, .weight = w, .label_smoothing = .1, .reduction = "none"), FA_SHAPE(2), 2.34613, 16.99327);
    CHECK(fa_cross_entropy(x, ignored, .label_smoothing = .1), FA_SHAPE_0D, 2.166178);
    CHECK(fa_cross_entropy(x, ignored, .label_smoothing = .1, .weight = w, .reduction = "sum"), FA_SHAPE_0D, 2.34613);
    CHECK(fa_cross_entropy(x, q), FA_SHAPE_0D, 3.67101);
    CHECK(fa_cross_entropy(x, q, .weight = w, .label_smoothing = .1), FA_SHAPE_0D, 8.981176);
    CHECK(fa_cross_entropy(x, q, .reduction = "none"), FA_SHAPE(2), 2.032845, 5.309175);
    CHECK(fa_cross_entropy(fa_select(x, 0, 0), fa_full(FA_SHAPE_0D, 1, .device = device)), FA_SHAPE_0D, 5.132845);
    fa_tensor *x3 = fa_sin(counting(FA_SHAPE(2, 3, 2))), *t3 = fa_reshape(fa_to(fa_ints(0, 1, 2, 0), device), FA_SHAPE(2, 2));
    CHECK(fa_cross_entropy(x3, t3), FA_SHAPE_0D, 1.299741);
    CHECK(fa_cross_entropy(x3, t3, .weight = w, .label_smoothing = .2), FA_SHAPE_0D, 1.521372);
    CHECK(fa_cross_entropy(x3, fa_softmax(x3, 1)), FA_SHAPE_0D, .8971798);
    FAILS(fa_cross_entropy(x, fa_to(fa_ints(0), device)), VALUE, "Expected input batch_size (2) to match target batch_size (1).");
    FAILS(fa_cross_entropy(x, fa_cast(t, FA_INT32)), RUNTIME, "expected target dtype to be Long or Byte, but got Int");
    FAILS(fa_cross_entropy(x, fa_zeros(FA_SHAPE(2, 3), .dtype = FA_INT64, .device = device)), RUNTIME,
          "Expected floating point type for target with class probabilities, got Long");
    FAILS(fa_cross_entropy(x, q, .ignore_index = 1), RUNTIME, "ignore_index is not supported for floating point target");
    FAILS(fa_cross_entropy(x, t, .weight = fa_ones(FA_SHAPE(4), .device = device)), RUNTIME,
          "weight tensor should be defined either for all 3 classes or no classes but got weight tensor of shape: [4]");
    FAILS(fa_cross_entropy(x, t, .label_smoothing = 2), RUNTIME, "label_smoothing must be between 0.0 and 1.0. Got: 2");
    FAILS(fa_cross_entropy(x, t, .reduction = "foo"), VALUE, "foo is not a valid value for reduction");
    if (device.type == FA_DEVICE_CPU) FAILS(fa_cross_entropy(x, fa_ints(0, 3)), INDEX, "Target 3 is out of bounds.");
}

static int warnings;
static char warning[600];
static void count_warning(const char *op, const char *text) {
    warnings++;
    snprintf(warning, sizeof warning, "%s: %s", op, text);
}

static void distances(void **state) {
    (void)state;
    fa_tensor *x = matrix(), *y = fa_to(fa_reshape(fa_floats(1.5, -2, 1, 2, 4.5, 1), FA_SHAPE(2, 3)), device);
    CHECK(fa_mse_loss(x, y), FA_SHAPE_0D, 2.083333);
    CHECK(fa_l1_loss(x, y, .reduction = "sum"), FA_SHAPE_0D, 7);
    CHECK(fa_smooth_l1_loss(x, y, .beta = .7), FA_SHAPE_0D, .8845238);
    CHECK(fa_smooth_l1_loss(x, y, .beta = 0), FA_SHAPE_0D, 1.166667);
    CHECK(fa_huber_loss(x, y, .delta = 1.2), FA_SHAPE_0D, .8816667);
    CHECK(fa_mse_loss(x, y, .reduction = "none"), FA_SHAPE(2, 3), .25, 0, 4, 4, .25, 4);
    warnings = 0;
    fai_set_warn(count_warning);
    assert_non_null(fa_mse_loss(x, fa_select(y, 0, 0)));
    FAILS(fa_mse_loss(x, counting(FA_SHAPE(4))), RUNTIME,
          "The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1");
    fai_set_warn(NULL);
    assert_int_equal(warnings, 2);
    assert_string_equal(
        warning,
        "mse_loss: Using a target size (torch.Size([4])) that is different to the input size (torch.Size([2, 3])). This will "
        "likely lead to incorrect results due to broadcasting. Please ensure they have the same size.");
    FAILS(fa_smooth_l1_loss(x, y, .beta = -1), RUNTIME, "smooth_l1_loss does not support negative values for beta.");
    FAILS(fa_huber_loss(x, y, .delta = 0), RUNTIME, "huber_loss does not support non-positive values for delta.");
    FAILS(fa_mse_loss(x, y, .reduction = "foo"), VALUE, "foo is not a valid value for reduction");
    FAILS(fa_mse_loss(targets(), targets()), UNSUPPORTED, "\"mse_loss\" not implemented for 'Long'");
}

static void binary_losses(void **state) {
    (void)state;
    fa_tensor *p = fa_to(fa_floats(.2, .8, 0), device), *z = fa_to(fa_floats(1, .5, 1), device), *w = weights(), *x = matrix();
    fa_tensor *y = fa_sigmoid(fa_to(fa_reshape(fa_floats(1.5, -2, 1, 2, 4.5, 1), FA_SHAPE(2, 3)), device));
    CHECK(fa_bce_loss(p, z), FA_SHAPE_0D, 34.17524);
    CHECK(fa_bce_loss(p, z, .weight = w, .reduction = "none"), FA_SHAPE(3), 1.609438, 1.832582, 300);
    CHECK(fa_bce_with_logits_loss(x, y), FA_SHAPE_0D, .585925);
    CHECK(fa_bce_with_logits_loss(x, y, .weight = w, .pos_weight = w, .reduction = "sum"), FA_SHAPE_0D, 14.2359);
    FAILS(fa_bce_loss(p, fa_slice(z, 0, 0, 2, 1)), VALUE,
          "Using a target size (torch.Size([2])) that is different to the input size (torch.Size([3])) is deprecated. Please "
          "ensure they have the same size.");
    FAILS(fa_bce_loss(fa_add_scalar(p, 1), z), RUNTIME, "all elements of input should be between 0 and 1");
    FAILS(fa_bce_loss(p, fa_add_scalar(z, 1)), RUNTIME, "all elements of target should be between 0 and 1");
    FAILS(fa_bce_loss(p, fa_cast(z, FA_FLOAT64)), RUNTIME, "Found dtype Double but expected Float");
    FAILS(fa_bce_with_logits_loss(p, fa_slice(z, 0, 0, 2, 1)), VALUE,
          "Target size (torch.Size([2])) must be the same as input size (torch.Size([3]))");
    fa_tensor *q = fa_to(fa_reshape(fa_floats(.2, .3, .5, .1, .1, .8), FA_SHAPE(2, 3)), device), *r = fa_flip(q, FA_DIMS(1));
    CHECK(fa_kl_div_loss(fa_log(q), r, .reduction = "batchmean"), FA_SHAPE_0D, .8652481);
    CHECK(fa_kl_div_loss(fa_log(q), fa_log(r), .reduction = "sum", .log_target = true), FA_SHAPE_0D, 1.730496);
    warnings = 0;
    fai_set_warn(count_warning);
    CHECK(fa_kl_div_loss(fa_log(q), r), FA_SHAPE_0D, .2884161);
    fai_set_warn(NULL);
    assert_int_equal(warnings, 1);
}

/* ---- derivatives ---- */

typedef fa_tensor *(*function)(fa_tensor *x);

/* sum(w * f(x)) for weights that make every element count differently. */
static fa_tensor *weighted_sum(function f, fa_tensor *x) {
    fa_tensor *y = f(x);
    if (!y) return NULL;
    fa_tensor *w = fa_reshape(fa_linspace(.3, 1.7, y->numel, .dtype = FA_FLOAT64, .device = device), fa_shape_of_tensor(y));
    return fa_sum(fa_mul(y, w));
}

/* The gradient of weighted_sum, and a function of x again. */
static function inner;
static fa_tensor *gradient(fa_tensor *x) {
    fa_tensor *sum = weighted_sum(inner, x), *grads[1];
    return fa_grad_of(&sum, 1, &x, 1, grads, .create_graph = true) ? grads[0] : NULL;
}

/* dw f / dx by the engine against central differences at x. */
static void compare_with_differences(const char *name, function f, const double *values, int n, fa_shape shape) {
    double point[32], grad[32];
    FA_SCOPE;
    fa_tensor *x = fa_requires_grad(fa_from_data(values, FA_FLOAT64, shape, .device = device), true), *grads[1];
    fa_tensor *sum = weighted_sum(f, x);
    memset(grad, 0, sizeof grad); /* of a function that is constant here */
    if (!sum || (fa_is_requires_grad(sum) && (!fa_grad_of(&sum, 1, &x, 1, grads) || !fa_to_data(grads[0], grad, FA_FLOAT64))))
        fail_msg("%s: %s", name, fa_error_peek()->text);
    for (int i = 0; i < n; i++) {
        FA_SCOPE;
        double side[2];
        for (int s = 0; s < 2; s++) {
            memcpy(point, values, (size_t)n * sizeof *point);
            point[i] += s ? -1e-5 : 1e-5;
            side[s] = fa_item(weighted_sum(f, fa_requires_grad(fa_from_data(point, FA_FLOAT64, shape, .device = device), true)));
        }
        const double expected = (side[0] - side[1]) / 2e-5;
        if (!(fabs(grad[i] - expected) <= 1e-4 * (1 + fabs(expected))))
            fail_msg("%s: derivative %d is %g, by differences %g", name, i, grad[i], expected);
    }
}

static fa_tensor *constant(fa_shape shape, double from, double to) {
    int64_t n = 1;
    for (int d = 0; d < shape.ndim; d++) n *= shape.dim[d];
    return fa_reshape(fa_linspace(from, to, n, .dtype = FA_FLOAT64, .device = device), shape);
}

static fa_tensor *as_2x3(fa_tensor *x) { return fa_reshape(x, FA_SHAPE(2, 3)); }
static fa_tensor *f_var(fa_tensor *x) { return fa_var_dims(as_2x3(x), FA_DIMS(1), 1, false); }
static fa_tensor *f_std(fa_tensor *x) { return fa_std_dims(as_2x3(x), FA_DIMS(0), 0, true); }
static fa_tensor *f_norm(fa_tensor *x) { return fa_norm_dims(as_2x3(x), 2, FA_DIMS(1), false); }
static fa_tensor *f_norm3(fa_tensor *x) { return fa_norm_dims(as_2x3(x), 3, FA_DIMS(1), false); }
static fa_tensor *f_norm_half(fa_tensor *x) { return fa_norm(x, .5); }
static fa_tensor *f_norm_inf(fa_tensor *x) { return fa_norm(x, INFINITY); }
static fa_tensor *f_logsumexp(fa_tensor *x) { return fa_logsumexp(as_2x3(x), FA_DIMS(0), false); }
static fa_tensor *f_prod(fa_tensor *x) { return fa_prod_dims(as_2x3(x), FA_DIMS(1), false); }
static fa_tensor *f_prod_all(fa_tensor *x) { return fa_prod(x); }
static fa_tensor *f_amax(fa_tensor *x) { return fa_amax_dims(as_2x3(x), FA_DIMS(1), true); }
static fa_tensor *f_max_dim(fa_tensor *x) {
    fa_tensor *at;
    return fa_max_dim(as_2x3(x), 1, false, &at);
}
static fa_tensor *f_tril(fa_tensor *x) { return fa_mul(fa_tril(as_2x3(x), 0), as_2x3(x)); }
static fa_tensor *f_matmul(fa_tensor *x) {
    fa_tensor *m = as_2x3(x);
    return fa_matmul(fa_matmul(m, fa_t(m)), m);
}
static fa_tensor *f_batched(fa_tensor *x) {
    return fa_matmul(fa_reshape(x, FA_SHAPE(2, 1, 3)), fa_matmul(constant(FA_SHAPE(3, 2), -1, 1), as_2x3(x)));
}
static fa_tensor *f_matmul_vector(fa_tensor *x) { return fa_matmul(as_2x3(x), fa_slice(x, 0, 0, 3, 1)); }
static fa_tensor *f_dot(fa_tensor *x) { return fa_dot(x, fa_flip(x, FA_DIMS(0))); }
static fa_tensor *f_outer(fa_tensor *x) { return fa_outer(fa_slice(x, 0, 0, 2, 1), x); }
static fa_tensor *f_addmm(fa_tensor *x) {
    return fa_addmm(fa_slice(x, 0, 0, 2, 1), as_2x3(x), fa_reshape(x, FA_SHAPE(3, 2)), .beta = .5, .alpha = 2);
}
static fa_tensor *f_linear_relu(fa_tensor *x) { return fa_linear_relu(as_2x3(x), as_2x3(fa_square(x)), fa_slice(x, 0, 0, 2, 1)); }
static fa_tensor *f_cat(fa_tensor *x) { return fa_cat((fa_tensor *[]){fa_square(x), x}, 2, -1); }
static fa_tensor *f_as_strided(fa_tensor *x) { return fa_square(fa_as_strided(x, FA_SHAPE(2, 3), FA_DIMS(1, 2), 0)); }
static fa_tensor *f_as_strided_overlap(fa_tensor *x) {
    return fa_square(fa_as_strided(fa_mul_scalar(x, 1), FA_SHAPE(3, 3), FA_DIMS(1, 1), 1));
}
static fa_tensor *f_unfold(fa_tensor *x) { return fa_square(fa_unfold(x, 0, 3, 1)); }
static fa_tensor *f_index_put(fa_tensor *x) {
    fa_tensor *places[] = {fa_to(fa_ints(0, 3, 5), device)};
    return fa_square(fa_index_put(x, places, 1, fa_square(fa_slice(x, 0, 1, 4, 1)), false));
}
static fa_tensor *f_index_add(fa_tensor *x) {
    fa_tensor *places[] = {fa_to(fa_ints(0, 3, 3), device)};
    return fa_square(fa_index_put(x, places, 1, fa_square(fa_slice(x, 0, 1, 4, 1)), true));
}
static fa_tensor *f_masked_select(fa_tensor *x) { return fa_square(fa_masked_select(x, fa_gt_scalar(x, .5))); }
static fa_tensor *f_layer_norm(fa_tensor *x) {
    return fa_layer_norm(as_2x3(x), FA_SHAPE(3), .weight = fa_slice(x, 0, 0, 3, 1), .bias = fa_slice(x, 0, 3, 6, 1));
}
static fa_tensor *f_batch_norm(fa_tensor *x) {
    fa_tensor *data = fa_reshape(fa_cat((fa_tensor *[]){x, fa_square(x)}, 2, 0), FA_SHAPE(2, 2, 3));
    return fa_batch_norm(data, NULL, NULL, .weight = fa_slice(x, 0, 0, 2, 1), .bias = fa_slice(x, 0, 2, 4, 1), .training = true);
}
static fa_tensor *f_batch_norm_eval(fa_tensor *x) {
    return fa_batch_norm(as_2x3(x), constant(FA_SHAPE(3), 0, 1), constant(FA_SHAPE(3), 1, 2), .weight = fa_slice(x, 0, 0, 3, 1),
                         .bias = fa_slice(x, 0, 3, 6, 1));
}
static fa_tensor *f_cross_entropy(fa_tensor *x) {
    return fa_cross_entropy(as_2x3(x), targets(), .weight = fa_cast(weights(), FA_FLOAT64), .label_smoothing = .1);
}
static fa_tensor *f_probabilities(fa_tensor *x) {
    return fa_cross_entropy(as_2x3(x), fa_softmax(as_2x3(fa_square(x)), 1), .reduction = "none");
}
static fa_tensor *f_mse(fa_tensor *x) { return fa_mse_loss(x, fa_square(x)); }
static fa_tensor *f_smooth_l1(fa_tensor *x) { return fa_smooth_l1_loss(x, fa_mul_scalar(x, 2.), .beta = .6); }
static fa_tensor *f_huber(fa_tensor *x) { return fa_huber_loss(x, fa_mul_scalar(x, 2.), .delta = .6); }
static fa_tensor *f_bce(fa_tensor *x) { return fa_bce_loss(fa_sigmoid(x), fa_sigmoid(fa_square(x)), .reduction = "sum"); }
static fa_tensor *f_bce_logits(fa_tensor *x) {
    return fa_bce_with_logits_loss(x, fa_sigmoid(fa_square(x)), .pos_weight = constant(FA_SHAPE(6), .5, 2));
}
static fa_tensor *f_kl(fa_tensor *x) {
    return fa_kl_div_loss(fa_log_softmax(as_2x3(x), 1), fa_softmax(as_2x3(fa_square(x)), 1), .reduction = "batchmean");
}
static fa_tensor *f_kl_log(fa_tensor *x) { return fa_kl_div_loss(x, fa_square(x), .reduction = "sum", .log_target = true); }

static const struct {
    const char *name;
    function f;
} functions[] = {{"var", f_var},
                 {"std", f_std},
                 {"norm 2", f_norm},
                 {"norm 3", f_norm3},
                 {"norm 1/2", f_norm_half},
                 {"norm inf", f_norm_inf},
                 {"logsumexp", f_logsumexp},
                 {"prod_dims", f_prod},
                 {"prod", f_prod_all},
                 {"amax", f_amax},
                 {"max_dim", f_max_dim},
                 {"tril", f_tril},
                 {"matmul", f_matmul},
                 {"matmul in batches", f_batched},
                 {"matmul with a vector", f_matmul_vector},
                 {"dot", f_dot},
                 {"outer", f_outer},
                 {"addmm", f_addmm},
                 {"linear_relu", f_linear_relu},
                 {"cat", f_cat},
                 {"as_strided", f_as_strided},
                 {"as_strided, overlapping", f_as_strided_overlap},
                 {"unfold", f_unfold},
                 {"index_put", f_index_put},
                 {"index_put, accumulating", f_index_add},
                 {"masked_select", f_masked_select},
                 {"layer_norm", f_layer_norm},
                 {"batch_norm", f_batch_norm},
                 {"batch_norm, eval", f_batch_norm_eval},
                 {"cross_entropy", f_cross_entropy},
                 {"cross_entropy of probabilities", f_probabilities},
                 {"mse_loss", f_mse},
                 {"smooth_l1_loss", f_smooth_l1},
                 {"huber_loss", f_huber},
                 {"bce_loss", f_bce},
                 {"bce_with_logits_loss", f_bce_logits},
                 {"kl_div_loss", f_kl},
                 {"kl_div_loss of logarithms", f_kl_log}};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

static const double point[6] = {.83, -.37, 1.21, .64, -1.13, .29};

static void first_derivatives(void **state) {
    (void)state;
    for (int i = 0; i < FUNCTIONS; i++) compare_with_differences(functions[i].name, functions[i].f, point, 6, FA_SHAPE(6));
}

static void second_derivatives(void **state) {
    (void)state;
    for (int i = 0; i < FUNCTIONS; i++) {
        inner = functions[i].f;
        compare_with_differences(functions[i].name, gradient, point, 6, FA_SHAPE(6));
    }
}

static void derivatives_at_special_points(void **state) {
    (void)state;
    static const double one_zero[6] = {.83, 0, 1.21, .64, -1.13, .29}, two_zeros[6] = {.83, 0, 0, .64, -1.13, .29};
    compare_with_differences("prod, one zero", f_prod, one_zero, 6, FA_SHAPE(6));
    compare_with_differences("prod, two zeros", f_prod, two_zeros, 6, FA_SHAPE(6));
    inner = f_prod;
    compare_with_differences("prod, one zero, twice", gradient, one_zero, 6, FA_SHAPE(6));
    compare_with_differences("prod, two zeros, twice", gradient, two_zeros, 6, FA_SHAPE(6));
    fa_tensor *x = fa_requires_grad(fa_to(fa_floats(1, 2, 2), device), true),
              *zero = fa_requires_grad(fa_zeros(FA_SHAPE(3), .device = device), true), *g[1];
#define GRADIENT(y, leaf, ...)                                                                                                   \
    do {                                                                                                                         \
        fa_tensor *y_ = (y);                                                                                                     \
        assert_true(fa_grad_of(&y_, 1, &leaf, 1, g));                                                                            \
        CHECK(g[0], FA_SHAPE(3), __VA_ARGS__);                                                                                   \
    } while (0)
    GRADIENT(fa_max(x), x, 0, .5, .5);
    GRADIENT(fa_amax(x), x, 0, .5, .5);
    GRADIENT(fa_norm(x, INFINITY), x, 0, .5, .5);
    GRADIENT(fa_norm(zero, 2), zero, 0, 0, 0);
    GRADIENT(fa_norm(zero, 3), zero, 0, 0, 0);
    GRADIENT(fa_std(zero), zero, 0, 0, 0);
#undef GRADIENT
}

/* Nothing stays behind when any one allocation fails. */
static void failed_allocations_leave_nothing(void **state) {
    (void)state;
    fa_tensor *x = fa_requires_grad(matrix(), true), *t = targets();
    fa_test_caches(false);
    for (int n = 1; n < 400; n++) {
        const uint64_t before = fa_host_memory_use().bytes;
        fa_test_fail_allocation((uint64_t)n, false);
        fa_scope_open();
        fa_tensor *loss = fa_cross_entropy(fa_matmul(fa_std_dims(x, FA_DIMS(1), 1, true), x), t, .label_smoothing = .1);
        const bool made = loss != NULL;
        fa_scope_close();
        const uint64_t failed = fa_test_failed_allocations();
        fa_test_fail_allocation(0, false);
        const fa_error e = fa_error_take();
        if (failed == 0) break;
        if (made) continue; /* a cache went without */
        assert_true(e.code == FA_ERR_MEMORY || e.code == FA_ERR_DEVICE_MEMORY);
        if (fa_host_memory_use().bytes != before)
            fail_msg("allocation %d: %lld bytes stay", n, (long long)(fa_host_memory_use().bytes - before));
    }
    fa_test_caches(true);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {TEST(triangles),
                                       TEST(choosing),
                                       TEST(dropout),
                                       TEST(variance),
                                       TEST(norms),
                                       TEST(products),
                                       TEST(product_errors),
                                       TEST(cross_entropy),
                                       TEST(distances),
                                       TEST(binary_losses),
                                       TEST(first_derivatives),
                                       TEST(second_derivatives),
                                       TEST(derivatives_at_special_points),
                                       TEST(failed_allocations_leave_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : fa_finish("test_composite");
}
