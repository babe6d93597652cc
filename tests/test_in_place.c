/* In-place forms that change more than elements, or write a comparison's result; rounding, alpha; the names that errors carry.
 *
 * test-env: -
 * test-env: FACULA_SIM=cuda:1
 * test-env: FACULA_OPENCL=cpu
 * test-env-opencl: FACULA_OPENCL=cpu FACULA_OPENCL_FLOAT64=off */
#include "support/device.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <facula.h>
#include <stdlib.h>
#include <string.h>

static fa_device device(void) { return test_device(); }
static fa_tensor *on_device(fa_tensor *t) { return fa_to(t, device()); }
#define FLOATS(...) on_device(fa_floats(__VA_ARGS__))
#define INTS(...)   on_device(fa_ints(__VA_ARGS__))
#define BOOLS(...)  fa_ne_scalar(INTS(__VA_ARGS__), 0)

static void holds(fa_tensor *t, fa_dtype dtype, int n, const double *expected, int line) {
    double got[16] = {0};
    if (!t) fail_msg("line %d: %s", line, fa_failed() ? fa_error_peek()->text : "NULL");
    if (fa_dtype_of(t) != dtype) fail_msg("line %d: %s, expected %s", line, fa_dtype_name(fa_dtype_of(t)), fa_dtype_name(dtype));
    if (fa_numel(t) != n || !fa_to_data(t, got, FA_FLOAT64)) fail_msg("line %d: %lld elements", line, (long long)fa_numel(t));
    for (int i = 0; i < n; i++)
        if (got[i] != expected[i]) fail_msg("line %d: element %d is %g, expected %g", line, i, got[i], expected[i]);
}
#define HOLDS_AS(t, dtype, ...)                                                                                                  \
    holds((t), (dtype), (int)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)), (double[]){__VA_ARGS__}, __LINE__)
#define HOLDS(t, ...) HOLDS_AS(t, FA_FLOAT32, __VA_ARGS__)

/* Refused under the name of the function that was called, in torch's words. */
static void refused(const void *result, fa_code code, const char *op, const char *words, int line) {
    const fa_error e = fa_error_take();
    if (result || e.code != code || strcmp(e.op, op) != 0 || strncmp(e.text, words, strlen(words)) != 0)
        fail_msg("line %d: found %d %s: \"%s\", expected %d %s: \"%s\"", line, e.code, e.op, e.text, code, op, words);
}
#define REFUSED(result, code, op, words) refused((result), FA_ERR_##code, op, words, __LINE__)

static void has_shape(fa_tensor *t, fa_shape shape) {
    assert_non_null(t);
    assert_int_equal(fa_ndim(t), shape.ndim);
    for (int d = 0; d < shape.ndim; d++) assert_int_equal(fa_size(t, d), shape.dim[d]);
}

static void comparisons(void **state) {
    (void)state;
    FA_SCOPE;
    HOLDS(fa_lt_(FLOATS(1, 2, 3), FLOATS(2, 2, 2)), 1, 0, 0);
    HOLDS(fa_eq_scalar_(FLOATS(1, 2, 3), 2), 0, 1, 0);
    HOLDS_AS(fa_eq_(INTS(1, 2), FLOATS(1.5, 2)), FA_INT64, 0, 1);
    HOLDS_AS(fa_ge_scalar_(BOOLS(1, 0), 1), FA_BOOL, 1, 0);
    HOLDS(fa_logical_and_(FLOATS(0, 2, 3), INTS(1, 0, 1)), 0, 0, 1);
    HOLDS(fa_logical_or_(FLOATS(0, 2), INTS(0, 0)), 0, 1);
    HOLDS_AS(fa_logical_xor_(INTS(0, 2), INTS(3, 3)), FA_INT64, 1, 0);
    HOLDS(fa_logical_not_(FLOATS(0, 2)), 1, 0);
    HOLDS_AS(fa_ne_(fa_cast(FLOATS(0, 2), FA_FLOAT16), FLOATS(0, 1)), FA_FLOAT16, 0, 1);
    fa_tensor *t = FLOATS(1, 2, 3, 4);
    assert_non_null(fa_gt_scalar_(fa_slice(t, 0, 0, 4, 2), 2));
    HOLDS(t, 0, 2, 1, 4);
    REFUSED(fa_lt_(t, fa_zeros(FA_SHAPE(2, 4), .device = device())), RUNTIME, "lt_",
            "output with shape [4] doesn't match the broadcast shape [2, 4]");
    REFUSED(fa_eq_scalar_(fa_requires_grad(FLOATS(1), true), 1), RUNTIME, "eq_",
            "a leaf Variable that requires grad is being used in an in-place operation.");
}

/* What was compared and overwritten gets zeros, the rest of a base its own. */
static void comparisons_have_zero_derivatives(void **state) {
    (void)state;
    FA_SCOPE;
    fa_tensor *w = fa_requires_grad(FLOATS(1, 2, 3), true), *t = fa_mul_scalar(w, 2), *u = FLOATS(1, 5, 5);
    assert_non_null(fa_gt_(t, FLOATS(3, 3, 3)));
    assert_string_equal(fa_grad_fn_name(t), "GtBackward0");
    assert_true(fa_backward(fa_sum(t)));
    HOLDS(fa_grad(w), 0, 0, 0);
    assert_non_null(fa_lt_(u, w));
    assert_true(fa_is_requires_grad(u));
    fa_tensor *base = fa_mul_scalar(w, 3);
    assert_non_null(fa_le_scalar_(fa_narrow(base, 0, 1, 1), 4));
    HOLDS(fa_detach(base), 3, 0, 9);
    fa_set_grad(w, NULL);
    assert_true(fa_backward(fa_sum(base)));
    HOLDS(fa_grad(w), 3, 0, 3);
    fa_tensor *whole = INTS(1, 2, 3);
    assert_non_null(fa_lt_(whole, w)); /* integers take no derivative */
    assert_false(fa_is_requires_grad(whole));
}

static void sizes_and_strides(void **state) {
    (void)state;
    FA_SCOPE;
    fa_tensor *t = fa_reshape(FLOATS(1, 2, 3, 4, 5, 6), FA_SHAPE(2, 3)), *same = t;
    t = fa_clone(t), same = t;
    const uint32_t version = fa_version_of(t);
    assert_ptr_equal(fa_t_(t), same);
    has_shape(t, FA_SHAPE(3, 2));
    assert_false(fa_is_contiguous(t));
    assert_int_equal(fa_version_of(t), version + 1);
    HOLDS(t, 1, 4, 2, 5, 3, 6);
    has_shape(fa_transpose_(t, 0, -1), FA_SHAPE(2, 3));
    assert_true(fa_is_contiguous(t));
    has_shape(fa_unsqueeze_(t, -1), FA_SHAPE(2, 3, 1));
    has_shape(fa_unsqueeze_(t, 0), FA_SHAPE(1, 2, 3, 1));
    has_shape(fa_squeeze_dim_(t, 1), FA_SHAPE(1, 2, 3, 1));
    has_shape(fa_squeeze_dim_(t, 0), FA_SHAPE(2, 3, 1));
    has_shape(fa_squeeze_(t), FA_SHAPE(2, 3));
    HOLDS(fa_add_scalar_(t, 1), 2, 3, 4, 5, 6, 7);
    has_shape(fa_unsqueeze_(fa_expand(FLOATS(1), FA_SHAPE(3)), 0), FA_SHAPE(1, 3)); /* overlapping memory is no matter */
    REFUSED(fa_t_(fa_zeros(FA_SHAPE(2, 2, 2), .device = device())), RUNTIME, "t_",
            "t_() expects a tensor with <= 2 dimensions, but self is 3D");
    REFUSED(fa_transpose_(t, 0, 5), INDEX, "transpose_",
            "Dimension out of range (expected to be in range of [-2, 1], but got 5)");
    REFUSED(fa_squeeze_dim_(t, 5), INDEX, "squeeze_", "Dimension out of range (expected to be in range of [-2, 1], but got 5)");
    REFUSED(fa_unsqueeze_(t, 5), INDEX, "unsqueeze_", "Dimension out of range (expected to be in range of [-3, 2], but got 5)");
    REFUSED(fa_t_(fa_requires_grad(FLOATS(1), true)), RUNTIME, "t_",
            "a leaf Variable that requires grad is being used in an in-place operation.");
    has_shape(t, FA_SHAPE(2, 3));
}

static void sizes_and_derivatives(void **state) {
    (void)state;
    FA_SCOPE;
    fa_tensor *w = fa_requires_grad(fa_ones(FA_SHAPE(2, 2), .device = device()), true),
              *ramp = fa_reshape(FLOATS(1, 2, 3, 4), FA_SHAPE(2, 2));
    fa_tensor *y = fa_mul_scalar(w, 2);
    assert_non_null(fa_t_(y));
    assert_string_equal(fa_grad_fn_name(y), "TransposeBackward0");
    assert_true(fa_backward(fa_sum(fa_mul(y, ramp))));
    HOLDS(fa_grad(w), 2, 6, 4, 8);
    fa_set_grad(w, NULL);
    fa_tensor *base = fa_mul_scalar(w, 2), *view = fa_narrow(base, 0, 1, 1); /* a view, then a write through it */
    has_shape(fa_squeeze_(view), FA_SHAPE(2));
    assert_non_null(fa_mul_(view, FLOATS(5, 7)));
    HOLDS(fa_detach(base), 2, 2, 10, 14);
    assert_true(fa_backward(fa_add(fa_sum(base), fa_sum(fa_mul(view, FLOATS(1, 10))))));
    HOLDS(fa_grad(w), 2, 2, 20, 154);
    fa_set_grad(w, NULL);
    fa_tensor *other = fa_mul_scalar(w, 3), *row = fa_select(other, 0, 0); /* the base turned under its view */
    assert_non_null(fa_t_(other));
    assert_true(fa_backward(fa_add(fa_sum(fa_mul(row, FLOATS(1, 2))), fa_sum(fa_mul(other, ramp)))));
    HOLDS(fa_grad(w), 6, 15, 6, 12);
    fa_tensor *saved = fa_mul_scalar(w, 2), *square = fa_mul(saved, saved);
    assert_non_null(fa_t_(saved));
    REFUSED((void *)(intptr_t)fa_backward(fa_sum(square)), RUNTIME, "backward",
            "one of the variables needed for gradient computation has been modified by an inplace operation");
    fa_tensor *quiet = fa_mul_scalar(w, 2);
    {
        FA_NO_GRAD;
        assert_non_null(fa_t_(quiet)); /* its gradient would come in the wrong shape if this were not recorded */
    }
    fa_set_grad(w, NULL);
    assert_true(fa_backward(fa_sum(fa_mul(quiet, ramp))));
    HOLDS(fa_grad(w), 2, 6, 4, 8);
}

static void changes_refused(void **state) {
    (void)state;
    FA_SCOPE;
    fa_tensor *w = fa_requires_grad(fa_ones(FA_SHAPE(2, 3), .device = device()), true), *parts[3], *view;
    assert_int_equal(fa_unbind(fa_mul_scalar(w, 1), 0, parts, 3), 2);
    REFUSED(fa_unsqueeze_(parts[0], 0), RUNTIME, "unsqueeze_", "Output 0 of Unbind is a view and is being modified inplace.");
    REFUSED(fa_t_(fa_view(w, FA_SHAPE(3, 2))), RUNTIME, "t_",
            "a view of a leaf Variable that requires grad is being used in an in-place operation.");
    /* A leaf that is itself a view of something without a gradient, as randn(6).view(2, 3).requires_grad_() makes it. */
    fa_tensor *of_view = fa_requires_grad(fa_view(fa_ones(FA_SHAPE(6), .device = device()), FA_SHAPE(2, 3)), true);
    REFUSED(fa_mul_scalar_(of_view, 2), RUNTIME, "mul_",
            "a view of a leaf Variable that requires grad is being used in an in-place operation.");
    REFUSED(fa_mul_scalar_(fa_select(of_view, 0, 1), 2), RUNTIME, "mul_",
            "a view of a leaf Variable that requires grad is being used in an in-place operation.");
    {
        FA_NO_GRAD;
        view = fa_view(w, FA_SHAPE(3, 2));
    }
    REFUSED(fa_t_(view), RUNTIME, "t_",
            "A view was created in no_grad mode and is being modified inplace with grad mode enabled.");
    assert_true(fa_backward(fa_sum(w)));
    {
        FA_NO_GRAD;
        REFUSED(fa_t_(w), RUNTIME, "t_", "the tensor has a gradient, which would keep the old shape: clear it first");
        has_shape(w, FA_SHAPE(2, 3));
        fa_set_grad(w, NULL);
        has_shape(fa_t_(w), FA_SHAPE(3, 2));
    }
    assert_true(fa_backward(fa_sum(w)));
    has_shape(fa_grad(w), FA_SHAPE(3, 2));
    fa_set_grad(w, NULL);
    fa_tensor *before = fa_sum(fa_mul_scalar(w, 2));
    {
        FA_NO_GRAD;
        assert_non_null(fa_t_(w));
    }
    REFUSED((void *)(intptr_t)fa_backward(before), RUNTIME, "backward",
            "the gradient of a leaf came in shape [3, 2], but the leaf has shape [2, 3] now");
    assert_null(fa_grad(w));
    fa_error_set(FA_ERR_VALUE, "test", "pending");
    assert_null(fa_t_(w));
    assert_null(fa_detach_(w));
    (void)fa_error_take();
}

static void detaching(void **state) {
    (void)state;
    FA_SCOPE;
    fa_tensor *w = fa_requires_grad(FLOATS(1, 2), true), *y = fa_mul_scalar(w, 2);
    const uint32_t version = fa_version_of(y);
    assert_true(fa_retain_grad(y));
    assert_ptr_equal(fa_detach_(y), y);
    assert_false(fa_is_requires_grad(y));
    assert_true(fa_is_leaf(y));
    assert_int_equal(fa_version_of(y), version);
    assert_false(fa_is_requires_grad(fa_detach_(w)));
    REFUSED(fa_detach_(fa_view(y, FA_SHAPE(2, 1))), RUNTIME, "detach_", "Can't detach views in-place. Use detach() instead.");
}

static void writes(void **state) {
    (void)state;
    FA_SCOPE;
    HOLDS(fa_cumsum_(FLOATS(1, 2, 3), 0), 1, 3, 6);
    HOLDS_AS(fa_cumsum_(fa_cast(INTS(1, 2, 3), FA_INT32), -1), FA_INT32, 1, 3, 6);
    HOLDS_AS(fa_cumprod_(fa_cast(INTS(5, 6, 9), FA_INT8), 0), FA_INT8, 5, 30, 14); /* 270 wraps */
    HOLDS(fa_index_fill_scalar_(FLOATS(1, 2, 3), 0, INTS(0, -1), 9), 9, 2, 9);
    HOLDS(fa_index_fill_(FLOATS(1, 2, 3), 0, INTS(1), fa_full(FA_SHAPE_0D, 4)), 1, 4,
          3); /* a number on the CPU serves everywhere */
    HOLDS(fa_index_copy_(FLOATS(1, 2, 3), 0, INTS(2, 0), FLOATS(7, 8)), 8, 2, 7);
    HOLDS(fa_masked_scatter_(FLOATS(1, 2, 3), BOOLS(1, 0, 1), FLOATS(7, 8, 9)), 7, 2, 8);
    HOLDS(fa_masked_fill_(FLOATS(1, 2, 3), BOOLS(1, 0, 1), fa_full(FA_SHAPE_0D, 5, .dtype = FA_FLOAT64)), 5, 2, 5);
    HOLDS_AS(fa_masked_fill(INTS(1, 2), BOOLS(0, 1), fa_full(FA_SHAPE_0D, 5.5)), FA_INT64, 1, 5);
    HOLDS_AS(fa_index_fill_scalar(BOOLS(1, 0), 0, INTS(1), 2), FA_BOOL, 1, 1);
    fa_tensor *eye = fa_eye(2, 2, .device = device()), *ones = fa_ones(FA_SHAPE(2, 2), .device = device());
    HOLDS(fa_addmm_(fa_clone(ones), eye, ones, .beta = 2, .alpha = 3), 5, 5, 5, 5);
    HOLDS(fa_clamp_min_(FLOATS(1, 2, 3), 2), 2, 2, 3);
    HOLDS_AS(fa_clamp_max_(INTS(1, 2, 3), 2), FA_INT64, 1, 2, 2);
    HOLDS(fa_div_trunc_(FLOATS(-7, 7), FLOATS(2, 2)), -3, 3);
    HOLDS_AS(fa_div_floor_scalar(INTS(-7, 7), 2), FA_INT64, -4, 3);
    HOLDS(fa_add_alpha_(FLOATS(1, 2), FLOATS(3, 4), 0.5), 2.5, 4);
    HOLDS_AS(fa_sub_alpha_scalar(INTS(9, 8), 2, 3), FA_INT64, 3, 2);
    HOLDS(fa_round_decimals(FLOATS(0.126, -2.675), 1), (float)0.1, (float)-2.7);
    HOLDS(fa_round_decimals_(FLOATS(1234.5, -2650), -2), 1200, -2600);
    HOLDS(fa_round_decimals(FLOATS(2.5, 3.5), 0), 2, 4);
    fa_tensor *like = fa_empty(FA_SHAPE(200), .device = device()), *draws = fa_randint_like(like, -3, 4);
    assert_int_equal(fa_dtype_of(draws), FA_FLOAT32);
    assert_true(fa_item(fa_min(draws)) == -3 && fa_item(fa_max(draws)) == 3);
    fa_manual_seed(7);
    fa_tensor *first = fa_randint_like(like, 0, 9, .dtype = FA_INT32);
    fa_manual_seed(7);
    assert_true(fa_item(fa_all(fa_eq(first, fa_randint(0, 9, FA_SHAPE(200), .device = device())))) == 1);
}

static void writes_refused(void **state) {
    (void)state;
    FA_SCOPE;
    fa_tensor *t = FLOATS(1, 2, 3), *at = INTS(0), *ones = fa_ones(FA_SHAPE(2, 2), .device = device());
    fa_tensor *whole = INTS(1, 2, 3), *mask = BOOLS(1, 1, 1);
    REFUSED(fa_cumsum_(mask, 0), UNSUPPORTED, "cumsum_", "\"cumsum_\" not implemented for 'Bool'");
    REFUSED(fa_addmm_(t, ones, ones), RUNTIME, "addmm_",
            "Bad in-place call: input tensor size [3] and output tensor size [2, 2] should match");
    REFUSED(fa_index_copy_(t, 0, at, FLOATS(1, 2)), INDEX, "index_copy_",
            "index_copy_(): Number of indices (1) should be equal to source.size(dim) (2)");
    REFUSED(fa_index_copy(t, 0, fa_reshape(at, FA_SHAPE(1, 1)), t), INDEX, "index_copy",
            "index_copy_(): Index should have dimension 1 or 0 (got 2)");
    REFUSED(fa_index_copy(t, 0, fa_cast(at, FA_INT32), t), RUNTIME, "index_copy",
            "index_copy_(): Expected a long tensor for index, but got Int");
    REFUSED(fa_index_copy(t, 0, at, INTS(1)), RUNTIME, "index_copy",
            "index_copy_(): self and source expected to have the same dtype, but got (self) Float and (source) Long");
    REFUSED(fa_index_copy(t, 0, INTS(0, 1), on_device(fa_ones(FA_SHAPE_0D))), INDEX, "index_copy",
            "index_copy_(): When source is scalar, index should have one element (got 2)");
    REFUSED(fa_index_copy(ones, 0, at, t), INDEX, "index_copy",
            "index_copy_(): When source and destination are not scalars, their dimensionality must match. Source dimensionality "
            "(1), destination dimensionality (2)");
    REFUSED(fa_index_copy(ones, 0, at, fa_ones(FA_SHAPE(1, 3), .device = device())), RUNTIME, "index_copy",
            "index_copy_(): Source/destination tensor must have same slice shapes.");
    REFUSED(fa_index_fill_scalar_(t, 0, fa_cast(at, FA_INT32), 1), INDEX, "index_fill_",
            "index_fill_(): Expected dtype int64 for index.");
    REFUSED(fa_index_fill_scalar(t, 0, fa_reshape(at, FA_SHAPE(1, 1)), 1), RUNTIME, "index_fill",
            "Index has to be a vector/scalar");
    REFUSED(fa_index_fill(t, 0, at, FLOATS(1)), RUNTIME, "index_fill",
            "index_fill_ only supports a 0-dimensional value tensor, but got tensor with 1 dimension(s).");
    REFUSED(fa_masked_scatter_(t, whole, t), RUNTIME, "masked_scatter_",
            "masked_scatter_ only supports boolean masks, but got mask with dtype Long");
    REFUSED(fa_masked_scatter(t, mask, whole), RUNTIME, "masked_scatter",
            "masked_scatter: expected self and source to have same dtypes but got Float and Long");
    REFUSED(fa_masked_scatter_(t, fa_reshape(BOOLS(1, 1, 1, 0, 0, 0), FA_SHAPE(2, 3)), t), RUNTIME, "masked_scatter_",
            "output with shape [3] doesn't match the broadcast shape [2, 3]");
    REFUSED(fa_masked_scatter(t, mask, fa_empty(FA_SHAPE(0), .device = device())), RUNTIME, "masked_scatter",
            "Number of elements of source < number of ones in mask");
    REFUSED(fa_add_alpha(whole, whole, 0.5), RUNTIME, "add_alpha",
            "For integral input tensors, argument alpha must not be a floating point number.");
    REFUSED(fa_sub_alpha(mask, mask, 2), RUNTIME, "sub_alpha",
            "Subtraction, the `-` operator, with two bool tensors is not supported.");
    REFUSED(fa_clamp_min_(whole, 1.5), RUNTIME, "clamp_min_", "result type Float can't be cast to the desired output type Long");
    REFUSED(fa_round_decimals_(whole, 1), UNSUPPORTED, "round_decimals_", "");
    REFUSED(fa_add_(t, ones), RUNTIME, "add_",
            "The size of tensor a (3) must match the size of tensor b (2) at non-singleton dimension 1");
    REFUSED(fa_randint_like(t, 5, 5), RUNTIME, "randint_like",
            "random_ expects 'from' to be less than 'to', but got from=5 >= to=5");
    HOLDS(t, 1, 2, 3);
}

/* On the CPU at once, on a device at the next wait. */
static void places_that_are_not_there(void **state) {
    (void)state;
    FA_SCOPE;
    fa_tensor *t = FLOATS(1, 2, 3), *bad = INTS(3), *negative = INTS(-1), *one = FLOATS(1);
    const bool later = device().type != FA_DEVICE_CPU;
#define BAD(call, code, op, words)                                                                                               \
    do {                                                                                                                         \
        void *result = (call);                                                                                                   \
        if (later) result = fa_synchronize(device()) ? result : NULL;                                                            \
        REFUSED(result, code, op, words);                                                                                        \
    } while (0)
    BAD(fa_index_copy(t, 0, bad, one), INDEX, "index_copy",
        "index_copy_(): index 3 is out of bounds for dimension 0 with size 3");
    BAD(fa_index_copy(t, 0, negative, one), INDEX, "index_copy",
        "index_copy_(): index -1 is out of bounds for dimension 0 with size 3");
    BAD(fa_index_fill_scalar(fa_reshape(t, FA_SHAPE(1, 3)), 1, bad, 1), INDEX, "index_fill",
        "index 3 is out of bounds for dimension 1 with size 3");
    if (later)
        BAD(fa_masked_scatter(t, BOOLS(1, 1, 1), FLOATS(1, 2)), INDEX, "masked_scatter",
            "index out of range in self. Index 2 was found");
    else
        BAD(fa_masked_scatter(t, BOOLS(1, 1, 1), FLOATS(1, 2)), RUNTIME, "masked_scatter",
            "Number of elements of source < number of ones in mask");
}

/* The engine's errors under the function that was called. */
static void names_of_errors(void **state) {
    (void)state;
    FA_SCOPE;
    fa_tensor *w = fa_requires_grad(FLOATS(1, 2), true), *plain = FLOATS(1), *out = fa_mul(w, w), *grads[1];
    REFUSED((void *)(intptr_t)fa_grad_of(&out, 1, &w, 1, grads), RUNTIME, "grad",
            "grad can be implicitly created only for scalar outputs.");
    REFUSED((void *)(intptr_t)fa_grad_of(&plain, 1, &w, 1, grads), RUNTIME, "grad", "element 0 of tensors does not require grad");
    REFUSED((void *)(intptr_t)fa_backward(out), RUNTIME, "backward", "grad can be implicitly created only for scalar outputs.");
    REFUSED(fa_mul_(w, w), RUNTIME, "mul_", "a leaf Variable that requires grad is being used in an in-place operation.");
    REFUSED(fa_relu_(NULL), TYPE, "relu_", "argument 'x' is NULL");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comparisons),
        cmocka_unit_test(comparisons_have_zero_derivatives),
        cmocka_unit_test(sizes_and_strides),
        cmocka_unit_test(sizes_and_derivatives),
        cmocka_unit_test(changes_refused),
        cmocka_unit_test(detaching),
        cmocka_unit_test(writes),
        cmocka_unit_test(writes_refused),
        cmocka_unit_test(places_that_are_not_there),
        cmocka_unit_test(names_of_errors),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed + fa_finish("test_in_place");
}
