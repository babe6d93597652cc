/* The contract of autograd: accumulation, graphs used once and more often, gradients of chosen inputs, modes, detach, hooks, and
 * what is refused, in torch's words. In-place operations are in test_autograd_writes.c, custom functions in
 * test_autograd_functions.c, deep and random graphs in test_autograd_deep.c. */
/* test-env: - */
/* test-env: FACULA_SIM=cuda:1 */
/* test-env: FACULA_SIM=cuda:1 FACULA_FUSE=on */
/* test-env: FACULA_OPENCL=cpu */
/* test-tags: threads */
#include "support/check.h"

static fa_tensor *leaf_of(int n, const double *values) {
    fa_tensor *t = fa_from_data(values, FA_FLOAT64, FA_SHAPE(n), .dtype = FA_FLOAT32, .device = device);
    return fa_requires_grad(t, true);
}
#define LEAF(...)                 leaf_of((int)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)), (double[]){__VA_ARGS__})
#define REFUSES(call, code, text) FAILS((call) ? "" : NULL, code, text)

/* ---- accumulation and graphs ---- */

static void accumulation(void **state) {
    (void)state;
    fa_tensor *x = LEAF(1, 2), *seed = fa_to(fa_floats(1, 10), device), *y = fa_square(x);
    assert_null(fa_grad(x));
    assert_true(fa_backward(y, .gradient = seed, .retain_graph = true));
    fa_tensor *grad = fa_grad(x);
    CHECK(grad, FA_SHAPE(2), 2, 40);
    assert_true(fa_backward(y, .gradient = seed));
    assert_ptr_equal(fa_grad(x), grad); /* added in place */
    CHECK(grad, FA_SHAPE(2), 4, 80);
    assert_true(fa_backward(fa_sum(fa_mul(x, x))));
    CHECK(grad, FA_SHAPE(2), 6, 84);
    assert_true(fa_set_grad(x, NULL));
    assert_null(fa_grad(x));
    assert_true(fa_backward(fa_alias(x), .gradient = seed)); /* the gradient given is not the one kept */
    assert_ptr_not_equal(fa_grad(x), seed);
    assert_true(fa_data(fa_cpu(fa_grad(x))) != fa_data(fa_cpu(seed)) || device.type != FA_DEVICE_CPU);
    CHECK(fa_mul_scalar_(fa_grad(x), 0), FA_SHAPE(2), 0, 0);
    CHECK(seed, FA_SHAPE(2), 1, 10);
}

static void reuse_of_a_tensor(void **state) {
    (void)state;
    fa_tensor *x = LEAF(2), *a = fa_mul_scalar(x, 3), *b = fa_add(fa_mul(a, a), fa_mul(a, x));
    assert_true(fa_backward(fa_sum(fa_add(b, fa_add(b, a))))); /* 2 (9 x^2 + 3 x^2) + 3 x */
    CHECK(fa_grad(x), FA_SHAPE(1), 99);
}

static void second_backward(void **state) {
    (void)state;
    fa_tensor *x = LEAF(1, 2), *y = fa_sum(fa_exp(x)), *linear = fa_sum(fa_add(x, x));
    assert_true(fa_backward(y));
    REFUSES(fa_backward(y), RUNTIME,
            "Trying to backward through the graph a second time (or directly access saved tensors after they have already been "
            "freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify "
            "retain_graph=True if you need to backward through the graph a second time or if you need to access saved tensors "
            "after calling backward.");
    assert_true(fa_backward(linear) && fa_backward(linear)); /* nothing was saved */
    fa_set_grad(x, NULL);
    y = fa_sum(fa_square(x));
    for (int i = 0; i < 3; i++) assert_true(fa_backward(y, .retain_graph = true));
    CHECK(fa_grad(x), FA_SHAPE(2), 6, 12);
}

static void create_graph(void **state) {
    (void)state;
    fa_tensor *x = LEAF(2), *y = fa_pow_scalar(x, 4), *g;
    const double expected[] = {32, 48, 48, 24, 0};
    for (int order = 0; order < 5; order++) {
        assert_true(fa_grad_of(&y, 1, &x, 1, &g, .create_graph = true));
        CHECK(g, FA_SHAPE(1), expected[order]);
        assert_true(fa_is_requires_grad(g));
        y = g;
    }
    assert_true(fa_backward(fa_pow_scalar(x, 3), .create_graph = true));
    fa_tensor *grad = fa_grad(x);
    assert_true(fa_is_requires_grad(grad) && fa_grad_fn_name(grad));
    assert_true(fa_grad_of(&grad, 1, &x, 1, &g));
    CHECK(g, FA_SHAPE(1), 12);
    fa_set_grad(x, NULL); /* the cycle */
    assert_true(fa_backward(fa_pow_scalar(x, 3)));
    assert_false(fa_is_requires_grad(fa_grad(x)));
}

static void roots(void **state) {
    (void)state;
    fa_tensor *x = LEAF(1, 2), *three = fa_ones(FA_SHAPE(3), .device = device);
    REFUSES(fa_backward(fa_square(x)), RUNTIME, "grad can be implicitly created only for scalar outputs");
    REFUSES(fa_backward(fa_square(x), .gradient = three), RUNTIME,
            "Mismatch in shape: grad_output[0] has a shape of torch.Size([3]) and output[0] has a shape of torch.Size([2]).");
    REFUSES(fa_backward(three), RUNTIME, "element 0 of tensors does not require grad and does not have a grad_fn");
    REFUSES(fa_backward(NULL), TYPE, "");
    assert_true(fa_backward(fa_reshape(fa_sum(x), FA_SHAPE(1, 1, 1)))); /* one element, of any shape */
    CHECK(fa_grad(x), FA_SHAPE(2), 1, 1);
    assert_true(fa_backward(fa_square(x), .gradient = fa_ones(FA_SHAPE(2), .dtype = FA_FLOAT64, .device = device)));
    assert_int_equal(fa_dtype_of(fa_grad(x)), FA_FLOAT32); /* the type of the gradient is not asked */
    CHECK(fa_grad(x), FA_SHAPE(2), 3, 5);
    fa_set_grad(x, NULL);
    assert_true(fa_backward(fa_sum(x)));
    assert_true(fa_backward(x, .gradient = fa_grad(x))); /* a leaf as the root, its own gradient as the seed */
    CHECK(fa_grad(x), FA_SHAPE(2), 2, 2);
    fa_error_set(FA_ERR_VALUE, "test", "pending");
    assert_false(fa_backward(fa_sum(x)));
    fa_error_take();
    CHECK(fa_grad(x), FA_SHAPE(2), 2, 2);
}

static void several_outputs(void **state) {
    (void)state;
    fa_tensor *x = LEAF(1, 2), *y = LEAF(3, 4), *g[2];
    fa_tensor *outputs[] = {fa_sum(fa_mul(x, y)), fa_square(x)}, *inputs[] = {y, x}, *seeds[] = {NULL, fa_detach(y)};
    assert_true(fa_grad_of(outputs, 2, inputs, 2, g, .grad_outputs = seeds));
    CHECK(g[0], FA_SHAPE(2), 1, 2);
    CHECK(g[1], FA_SHAPE(2), 9, 20);
    assert_null(fa_grad(x));
    REFUSES(fa_grad_of(outputs + 1, 1, inputs, 2, g), RUNTIME, "grad can be implicitly created only for scalar outputs");
    fa_tensor *twice[] = {x, x}, *out = fa_sum(fa_square(x)); /* the same input asked for twice */
    assert_true(fa_grad_of(&out, 1, twice, 2, g));
    CHECK(g[0], FA_SHAPE(2), 2, 4);
    CHECK(g[1], FA_SHAPE(2), 2, 4);
}

static void unused_inputs(void **state) {
    (void)state;
    fa_tensor *x = LEAF(1, 2), *unused = LEAF(1, 2, 3), *inputs[] = {x, unused}, *g[2];
    fa_tensor *y = fa_sum(fa_mul_scalar(x, 2));
    REFUSES(fa_grad_of(&y, 1, inputs, 2, g), RUNTIME,
            "The differentiated Tensor at index 1 appears to not have been used in the graph. Set allow_unused=True if this is "
            "the desired behavior.");
    assert_true(fa_grad_of(&y, 1, inputs, 2, g, .allow_unused = true));
    CHECK(g[0], FA_SHAPE(2), 2, 2);
    assert_null(g[1]);
    assert_true(fa_grad_of(&y, 1, inputs, 2, g, .materialize_grads = true));
    CHECK(g[1], FA_SHAPE(3), 0, 0, 0);
    inputs[1] = fa_detach(x);
    REFUSES(fa_grad_of(&y, 1, inputs, 2, g), RUNTIME, "One of the differentiated Tensors does not require grad");
}

/* Inputs in the middle of the graph, one below the other. */
static void inputs_inside(void **state) {
    (void)state;
    fa_tensor *x = LEAF(3), *w = LEAF(5), *a = fa_square(x), *b = fa_mul(a, w), *y = fa_square(b);
    fa_tensor *inputs[] = {a, b, x}, *g[3];
    assert_true(fa_grad_of(&y, 1, inputs, 3, g, .retain_graph = true));
    CHECK(g[0], FA_SHAPE(1), 450); /* 2 * 45 * 5 */
    CHECK(g[1], FA_SHAPE(1), 90);
    CHECK(g[2], FA_SHAPE(1), 2700);
    fa_tensor *only_b[] = {b}; /* .grad of these and of no others */
    assert_true(fa_backward(y, .inputs = only_b, .ninputs = 1, .retain_graph = true));
    assert_null(fa_grad(x));
    assert_null(fa_grad(w));
    CHECK(fa_grad(b), FA_SHAPE(1), 90);
    fa_tensor *only_w[] = {w};
    assert_true(fa_backward(y, .inputs = only_w, .ninputs = 1, .retain_graph = true));
    assert_true(fa_backward(y, .inputs = only_w, .ninputs = 1));
    CHECK(fa_grad(w), FA_SHAPE(1), 1620); /* twice 2 * 45 * 9 */
    assert_null(fa_grad(x));
    CHECK(fa_grad(b), FA_SHAPE(1), 90);
    REFUSES(fa_backward(y, .inputs = only_w), RUNTIME, "`inputs` argument to `backward()` cannot be empty.");
}

static void padded_embedding(void **state) {
    (void)state;
    fa_tensor *w = fa_requires_grad(fa_ones(FA_SHAPE(3, 1), .device = device), true);
    assert_true(fa_backward(fa_sum(fa_embedding(w, fa_to(fa_ints(0, 2, 2, 1), device), 1))));
    CHECK(fa_grad(w), FA_SHAPE(3, 1), 1, 0, 2);
}

/* ---- leaves ---- */

static void leaves(void **state) {
    (void)state;
    fa_tensor *x = LEAF(1, 2), *y = fa_square(x);
    assert_true(fa_is_leaf(x) && !fa_is_leaf(y) && fa_is_requires_grad(y));
    assert_null(fa_grad_fn_name(x));
    assert_string_equal(fa_grad_fn_name(fa_mul(x, y)), "MulBackward0");
    FAILS(fa_requires_grad(y, false), RUNTIME,
          "you can only change requires_grad flags of leaf variables. If you want to use a computed variable");
    FAILS(fa_requires_grad(fa_ints(1, 2), true), RUNTIME, "only Tensors of floating point dtype can require gradients");
    assert_ptr_equal(fa_requires_grad(y, true), y);
    REFUSES(
        fa_set_grad(x, fa_ones(FA_SHAPE(3), .device = device)), RUNTIME,
        "attempting to assign a gradient of size '[3]' to a tensor of size '[2]'. Please ensure that the gradient and the tensor "
        "are the same size");
    REFUSES(fa_set_grad(x, fa_ones(FA_SHAPE(2), .dtype = FA_FLOAT64, .device = device)), RUNTIME,
            "attempting to assign a gradient with dtype 'float64' to a tensor with grad_dtype 'Float'.");
    assert_true(fa_set_grad(x, fa_ones(FA_SHAPE(2), .device = device)));
    assert_true(fa_backward(fa_sum(y)));
    CHECK(fa_grad(x), FA_SHAPE(2), 3, 5);
    fa_tensor *used = fa_sum(fa_square(x));
    fa_requires_grad(x, false); /* frozen after it was used: it gets no more */
    assert_true(fa_backward(used));
    CHECK(fa_grad(x), FA_SHAPE(2), 3, 5);
    fa_requires_grad(x, true);
    fa_tensor *whole = fa_to(fa_ints(1, 2), device);
    assert_false(fa_is_requires_grad(fa_add(fa_cast(x, FA_INT64), whole)));
    assert_false(fa_is_requires_grad(fa_gt_scalar(x, 0)));
}

static void retain_grad(void **state) {
    (void)state;
    fa_tensor *x = LEAF(1, 2), *y = fa_mul_scalar(x, 3), *z = fa_sum(fa_add(fa_square(y), y));
    assert_true(fa_retain_grad(y) && fa_retain_grad(y));
    assert_true(fa_retain_grad(x));
    assert_true(fa_backward(z, .retain_graph = true) && fa_backward(z));
    CHECK(fa_grad(y), FA_SHAPE(2), 14, 26);
    CHECK(fa_grad(x), FA_SHAPE(2), 42, 78);
    REFUSES(fa_retain_grad(fa_detach(x)), RUNTIME, "can't retain_grad on Tensor that has requires_grad=False");
    fa_scope_open(); /* one that is gone when backward comes */
    fa_tensor *gone = fa_square(x), *sum = fa_keep(fa_sum(gone));
    assert_true(fa_retain_grad(gone));
    fa_scope_close();
    assert_true(fa_backward(sum));
    CHECK(fa_grad(x), FA_SHAPE(2), 44, 82);
}

/* ---- modes ---- */

static fa_tensor *squared_without_grad(fa_tensor *x) {
    FA_NO_GRAD;
    assert_false(fa_is_grad_enabled());
    return fa_square(x);
}

static void no_grad(void **state) {
    (void)state;
    fa_tensor *x = LEAF(1, 2), *y = squared_without_grad(x);
    assert_true(fa_is_grad_enabled());
    assert_false(fa_is_requires_grad(y));
    assert_true(fa_backward(fa_sum(fa_mul(y, x))));
    CHECK(fa_grad(x), FA_SHAPE(2), 1, 4);
    assert_true(fa_set_grad_enabled(false));
    assert_non_null(fa_mul_scalar_(x, 2)); /* a leaf may be written here */
    assert_false(fa_set_grad_enabled(true));
    CHECK(x, FA_SHAPE(2), 2, 4);
    assert_int_equal(fa_version_of(x), 1);
    fa_tensor *made;
    {
        FA_NO_GRAD;
        made = fa_requires_grad(fa_ones(FA_SHAPE(2), .device = device), true);
    }
    assert_true(fa_is_requires_grad(fa_square(made)));
}

static void inference_mode(void **state) {
    (void)state;
    fa_tensor *x = LEAF(1, 2), *made, *view;
    {
        FA_INFERENCE_MODE;
        assert_true(fa_is_inference_mode());
        made = fa_square(x);
        view = fa_select(made, 0, 0);
        assert_non_null(fa_add_scalar_(made, 1));
    }
    assert_false(fa_is_inference_mode());
    assert_false(fa_is_requires_grad(made));
    FAILS(fa_add_scalar_(made, 1), RUNTIME,
          "Inplace update to inference tensor outside InferenceMode is not allowed.You can make a clone to get a normal tensor "
          "before "
          "doing inplace update.");
    FAILS(fa_add_scalar_(view, 1), RUNTIME, "Inplace update to inference tensor outside InferenceMode is not allowed.");
    FAILS(fa_mul(x, made), RUNTIME,
          "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode");
    FAILS(fa_requires_grad(made, true), RUNTIME,
          "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.");
    CHECK(made, FA_SHAPE(2), 2, 5);
    assert_true(fa_backward(fa_sum(fa_mul(x, fa_clone(made)))));
    CHECK(fa_grad(x), FA_SHAPE(2), 2, 5);
    assert_true(fa_backward(fa_sum(fa_add(x, made)))); /* nothing is saved */
}

static void detach(void **state) {
    (void)state;
    fa_tensor *x = LEAF(1, 2), *y = fa_mul_scalar(x, 2), *d = fa_detach(y), *data = fa_data_of(y);
    assert_false(fa_is_requires_grad(d) || fa_is_requires_grad(data));
    assert_true(fa_is_leaf(d));
    fa_tensor *z = fa_sum(fa_mul(y, y));
    fa_add_scalar_(data, 1); /* its own version: unseen */
    assert_int_equal(fa_version_of(y), 0);
    assert_int_equal(fa_version_of(data), 1);
    assert_true(fa_backward(z));
    CHECK(fa_grad(x), FA_SHAPE(2), 12, 20); /* 2 * 2 * (y + 1): wrong without notice, as in torch */
    z = fa_sum(fa_mul(y, y));
    fa_add_scalar_(d, 1); /* shares the version */
    assert_int_equal(fa_version_of(y), 1);
    REFUSES(fa_backward(z), RUNTIME,
            "one of the variables needed for gradient computation has been modified by an inplace operation: [torch.");
}

static void anomaly(void **state) {
    (void)state;
    fa_tensor *x = LEAF(0, 1), *y = fa_sum(fa_mul_scalar(fa_sqrt(x), 0));
    assert_true(fa_backward(y, .retain_graph = true)); /* 0 * inf */
    assert_false(fa_set_detect_anomaly(true));
    REFUSES(fa_backward(y), RUNTIME, "Function 'SqrtBackward0' returned nan values in its 0th output.");
    assert_true(fa_backward(fa_sum(fa_square(x))));
    assert_true(fa_set_detect_anomaly(false));
}

/* ---- hooks ---- */

static char seen[64];
static int released;
static void note(const char *what) { strncat(seen, what, sizeof seen - strlen(seen) - 1); }
static fa_tensor *hook_keeps(fa_tensor *g, void *data) { return note(data), g; }
static fa_tensor *hook_times_ten(fa_tensor *g, void *data) { return note(data), fa_mul_scalar(g, 10); }
static fa_tensor *hook_shortens(fa_tensor *g, void *data) { return (void)data, fa_slice(g, 0, 0, 1, 1); }
static fa_tensor *hook_null(fa_tensor *g, void *data) { return (void)g, (void)data, NULL; }
static fa_tensor *hook_fails(fa_tensor *g, void *data) {
    (void)g, (void)data;
    fa_error_set(FA_ERR_FOREIGN, "hook", "on purpose");
    return NULL;
}
static void count_release(void *data) { (void)data, released++; }

static void hooks(void **state) {
    (void)state;
    fa_tensor *x = LEAF(1, 2), *y = fa_mul_scalar(x, 2);
    seen[0] = 0;
    const int first = fa_register_hook(y, hook_times_ten, "1", NULL);
    assert_true(fa_register_hook(y, hook_keeps, "2", NULL) > first && first > 0);
    assert_true(fa_retain_grad(y));
    const int on_leaf = fa_register_hook(x, hook_times_ten, "x", NULL);
    fa_tensor *z = fa_sum(fa_mul_scalar(y, 3));
    assert_true(fa_backward(z, .retain_graph = true));
    assert_string_equal(seen, "12x");
    CHECK(fa_grad(y), FA_SHAPE(2), 30, 30);
    CHECK(fa_grad(x), FA_SHAPE(2), 600, 600);
    assert_true(fa_remove_hook(y, first) && fa_remove_hook(x, on_leaf));
    REFUSES(fa_remove_hook(y, first), KEY, "the tensor has no hook of number");
    fa_set_grad(x, NULL);
    assert_true(fa_backward(z));
    CHECK(fa_grad(x), FA_SHAPE(2), 6, 6);
    assert_string_equal(seen, "12x2");
    REFUSES(fa_register_hook(fa_detach(x), hook_keeps, "", NULL), RUNTIME,
            "cannot register a hook on a tensor that doesn't require gradient");
    REFUSES(fa_register_hook(x, NULL, "", NULL), TYPE, "argument 'hook' is NULL");
}

static void hooks_that_fail(void **state) {
    (void)state;
    const fa_grad_hook bad[] = {hook_shortens, hook_null, hook_fails};
    const char *const texts[] = {"", "a gradient hook returned NULL without an error", "on purpose"};
    released = 0;
    for (int i = 0; i < 3; i++) {
        fa_tensor *x = LEAF(1, 2), *other = LEAF(3), *y = fa_square(x);
        fa_register_hook(y, bad[i], NULL, count_release);
        assert_false(fa_backward(fa_add(fa_sum(y), fa_sum(other))));
        assert_non_null(strstr(fa_error_peek()->text, i == 0 ? "has changed the size of value" : texts[i]));
        fa_error_take();
        assert_null(fa_grad(x));
        assert_null(fa_grad(other)); /* nothing is committed */
        fa_drop(y);
    }
}

static void hooks_are_released(void **state) {
    (void)state;
    released = 0;
    fa_scope_open();
    fa_tensor *x = LEAF(1), *y = fa_square(x);
    const int id = fa_register_hook(x, hook_keeps, "", count_release);
    fa_register_hook(x, hook_keeps, "", count_release);
    fa_register_hook(y, hook_keeps, "", count_release);
    fa_remove_hook(x, id);
    assert_int_equal(released, 1);
    fa_scope_close();
    assert_int_equal(released, 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(accumulation, begin, end),
        cmocka_unit_test_setup_teardown(reuse_of_a_tensor, begin, end),
        cmocka_unit_test_setup_teardown(second_backward, begin, end),
        cmocka_unit_test_setup_teardown(create_graph, begin, end),
        cmocka_unit_test_setup_teardown(roots, begin, end),
        cmocka_unit_test_setup_teardown(several_outputs, begin, end),
        cmocka_unit_test_setup_teardown(unused_inputs, begin, end),
        cmocka_unit_test_setup_teardown(inputs_inside, begin, end),
        cmocka_unit_test_setup_teardown(padded_embedding, begin, end),
        cmocka_unit_test_setup_teardown(leaves, begin, end),
        cmocka_unit_test_setup_teardown(retain_grad, begin, end),
        cmocka_unit_test_setup_teardown(no_grad, begin, end),
        cmocka_unit_test_setup_teardown(inference_mode, begin, end),
        cmocka_unit_test_setup_teardown(detach, begin, end),
        cmocka_unit_test_setup_teardown(anomaly, begin, end),
        cmocka_unit_test_setup_teardown(hooks, begin, end),
        cmocka_unit_test_setup_teardown(hooks_that_fail, begin, end),
        cmocka_unit_test_setup_teardown(hooks_are_released, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
