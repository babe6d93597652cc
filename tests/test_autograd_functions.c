/* Custom functions in C: saved tensors, derivatives of any order, what backward may get wrong, release exactly once; backward
 * inside backward; a backward that fails gives no leaf its gradient. */
/* test-env: - */
/* test-env: FACULA_SIM=cuda:1 */
/* test-env-opencl: FACULA_OPENCL=cpu */
/* test-tags: threads */
#include "support/check.h"

static fa_tensor *leaf_of(int n, const double *values) {
    fa_tensor *t = fa_from_data(values, FA_FLOAT64, FA_SHAPE(n), .dtype = FA_FLOAT32, .device = device);
    return fa_requires_grad(t, true);
}
#define LEAF(...)                 leaf_of((int)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)), (double[]){__VA_ARGS__})
#define REFUSES(call, code, text) FAILS((call) ? "" : NULL, code, text)

/* What the functions' data points to. */
typedef struct counts {
    int forward, backward, release;
    bool needs[2];
    int fail; /* what goes wrong in backward */
} counts;
static void count_release(void *data) { ((counts *)data)->release++; }

/* ---- x^2 y ---- */

static fa_tensor *product(fa_context *context, fa_tensor *const *inputs, int n, void *data) {
    counts *c = data;
    c->forward++;
    assert_int_equal(n, 2);
    assert_false(fa_is_grad_enabled());
    c->needs[0] = fa_needs_grad(context, 0), c->needs[1] = fa_needs_grad(context, 1);
    assert_false(fa_needs_grad(context, 2));
    fa_save_for_backward(context, inputs[0]);
    fa_save_for_backward(context, inputs[1]);
    return fa_mul(fa_mul(inputs[0], inputs[0]), inputs[1]);
}
static bool product_backward(fa_context *context, fa_tensor *grad, fa_tensor **grads, int n, void *data) {
    counts *c = data;
    (void)n;
    c->backward++;
    fa_tensor *x = fa_saved(context, 0), *y = fa_saved(context, 1);
    if (!x || !y) return false;
    if (fa_needs_grad(context, 0)) grads[0] = fa_mul(grad, fa_mul_scalar(fa_mul(x, y), 2));
    if (fa_needs_grad(context, 1)) grads[1] = fa_mul(grad, fa_mul(x, x));
    return true;
}
static const fa_function product_function = {"Product", product, product_backward, count_release};

static void values_and_derivatives(void **state) {
    (void)state;
    counts c = {0};
    fa_scope_open();
    fa_tensor *x = LEAF(1, 2), *y = LEAF(3, 4), *both[] = {x, y}, *g[2], *gg[2];
    fa_tensor *r = fa_apply(&product_function, both, 2, &c), *sum = fa_sum(r);
    CHECK(r, FA_SHAPE(2), 3, 16);
    assert_string_equal(fa_grad_fn_name(r), "ProductBackward");
    assert_true(c.needs[0] && c.needs[1]);
    assert_true(fa_grad_of(&sum, 1, both, 2, g, .create_graph = true));
    CHECK(g[0], FA_SHAPE(2), 6, 16);
    CHECK(g[1], FA_SHAPE(2), 1, 4);
    fa_tensor *first = fa_sum(fa_mul(g[0], g[0])); /* sum 4 x^2 y^2 */
    assert_true(fa_grad_of(&first, 1, both, 2, gg));
    CHECK(gg[0], FA_SHAPE(2), 72, 256);
    CHECK(gg[1], FA_SHAPE(2), 24, 128);
    fa_tensor *half[] = {x, fa_detach(y)}; /* only one input needs a gradient */
    counts one = {0};
    assert_true(fa_backward(fa_sum(fa_apply(&product_function, half, 2, &one))));
    assert_true(one.needs[0] && !one.needs[1]);
    CHECK(fa_grad(x), FA_SHAPE(2), 6, 16);
    assert_int_equal(c.release, 0);
    fa_scope_close();
    assert_int_equal(c.release, 1);
    assert_int_equal(one.release, 1);
}

static void released_once(void **state) {
    (void)state;
    counts c = {0};
    fa_tensor *x = LEAF(1, 2), *plain[] = {fa_detach(x), fa_detach(x)}, *both[] = {x, x};
    assert_false(fa_is_requires_grad(fa_apply(&product_function, plain, 2, &c))); /* nothing to record */
    assert_int_equal(c.release, 1);
    {
        FA_NO_GRAD;
        fa_apply(&product_function, both, 2, &c);
    }
    assert_int_equal(c.release, 2);
    fa_scope_open();
    fa_tensor *sum = fa_sum(fa_apply(&product_function, both, 2, &c));
    assert_true(fa_backward(sum, .retain_graph = true) && fa_backward(sum));
    REFUSES(fa_backward(sum), RUNTIME, "Trying to backward through the graph a second time");
    assert_int_equal(c.release, 2);
    fa_scope_close();
    assert_int_equal(c.release, 3);
    for (int n = 1; n < 40; n++) { /* without memory it is released too */
        fa_scope_open();
        const int before = c.release;
        fa_test_caches(false);
        fa_test_fail_allocation((uint64_t)n, true);
        fa_tensor *r = fa_apply(&product_function, both, 2, &c);
        fa_test_fail_allocation(0, false);
        fa_test_caches(true);
        if (!r) assert_int_equal(fa_error_take().code, FA_ERR_MEMORY);
        fa_scope_close();
        assert_int_equal(c.release, before + 1);
    }
}

/* ---- what goes wrong ---- */

enum { WRONG_SHAPE = 1, SILENT, ERROR, SAVED_TOO_FAR, SAVES_LATE, OTHER_TYPE };

static fa_tensor *doubled(fa_context *context, fa_tensor *const *inputs, int n, void *data) {
    (void)n, (void)data;
    fa_tensor *r = fa_mul_scalar(inputs[0], 2);
    fa_save_for_backward(context, r);
    return r;
}
static bool doubled_backward(fa_context *context, fa_tensor *grad, fa_tensor **grads, int n, void *data) {
    (void)n;
    switch (((counts *)data)->fail) {
    case WRONG_SHAPE: grads[0] = fa_sum_dims(grad, FA_DIMS(0), true); return grads[0] != NULL;
    case SILENT: return false;
    case ERROR: return fa_error_set(FA_ERR_FOREIGN, "Doubled", "on purpose: %d", 7), false;
    case SAVED_TOO_FAR: return fa_saved(context, 1) != NULL;
    case SAVES_LATE: return fa_save_for_backward(context, grad);
    case OTHER_TYPE: grads[0] = fa_cast(grad, FA_FLOAT64); return true;
    default: grads[0] = fa_mul_scalar(grad, 2); return fa_saved(context, 0) != NULL;
    }
}
static const fa_function doubled_function = {"Doubled", doubled, doubled_backward, count_release};

static void mistakes_in_backward(void **state) {
    (void)state;
    static const struct {
        int fail;
        fa_code code;
        const char *text;
    } rows[] = {
        {WRONG_SHAPE, FA_ERR_RUNTIME,
         "Function DoubledBackward returned an invalid gradient at index 0 - got [1] but expected shape compatible with [2]"},
        {SILENT, FA_ERR_FOREIGN, "the backward function failed without saying why"},
        {ERROR, FA_ERR_FOREIGN, "on purpose: 7"},
        {SAVED_TOO_FAR, FA_ERR_INDEX, "saved tensor 1 was asked for, but forward saved 1"},
        {SAVES_LATE, FA_ERR_RUNTIME, "fa_save_for_backward is for forward; this is backward"},
    };
    fa_tensor *x = LEAF(1, 2), *other = LEAF(1, 2);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        counts c = {.fail = rows[i].fail};
        fa_scope_open();
        fa_tensor *y = fa_apply(&doubled_function, &x, 1, &c);
        /* other's gradient is there first; it is not given when the function fails */
        assert_false(fa_backward(fa_add(fa_sum(fa_square(fa_exp(y))), fa_sum(other))));
        check_error(NULL, rows[i].code, rows[i].text, __LINE__);
        assert_null(fa_grad(x));
        assert_null(fa_grad(other));
        c.fail = 0; /* the next call works */
        assert_true(fa_backward(fa_sum(fa_apply(&doubled_function, &other, 1, &c))));
        CHECK(fa_grad(other), FA_SHAPE(2), 2, 2);
        fa_set_grad(other, NULL);
        fa_scope_close();
        assert_int_equal(c.release, 2);
    }
    counts c = {.fail = OTHER_TYPE};
    assert_true(fa_backward(fa_sum(fa_apply(&doubled_function, &x, 1, &c))));
    assert_int_equal(fa_dtype_of(fa_grad(x)), FA_FLOAT32);
    fa_tensor *y = fa_apply(&doubled_function, &x, 1, &c); /* its saved result is written */
    fa_add_scalar_(y, 1);
    c.fail = 0;
    REFUSES(fa_backward(fa_sum(y)), RUNTIME,
            "one of the variables needed for gradient computation has been modified by an inplace operation");
}

static fa_tensor *null_forward(fa_context *context, fa_tensor *const *inputs, int n, void *data) {
    (void)context, (void)inputs, (void)n, (void)data;
    return NULL;
}
static fa_tensor *handed_through(fa_context *context, fa_tensor *const *inputs, int n, void *data) {
    (void)context, (void)n, (void)data;
    return inputs[0];
}
static bool triples(fa_context *context, fa_tensor *grad, fa_tensor **grads, int n, void *data) {
    (void)context, (void)n, (void)data;
    grads[0] = fa_mul_scalar(grad, 3);
    return true;
}

static void mistakes_in_forward(void **state) {
    (void)state;
    counts c = {0};
    fa_tensor *x = LEAF(1, 2), *many[17];
    const fa_function nothing = {"Nothing", null_forward, NULL, count_release}, one_way = {"OneWay", handed_through, NULL, NULL};
    const fa_function through = {"Through", handed_through, triples, NULL};
    FAILS(fa_apply(&nothing, &x, 1, &c), FOREIGN, "forward returned NULL without saying why");
    assert_int_equal(c.release, 1);
    FAILS(fa_apply(NULL, &x, 1, &c), TYPE, "argument 'function' needs a forward");
    for (int i = 0; i < 17; i++) many[i] = x;
    FAILS(fa_apply(&through, many, 17, NULL), VALUE, "17 inputs were given, at most 16 are possible");
    REFUSES(fa_backward(fa_sum(fa_apply(&one_way, &x, 1, NULL))), UNSUPPORTED,
            "You must implement either the backward or vjp method");
    fa_tensor *y = fa_apply(&through, &x, 1, NULL); /* the input itself is no result: it stays a leaf */
    assert_true(y != x && fa_is_leaf(x));
    assert_true(fa_backward(fa_sum(y)));
    CHECK(fa_grad(x), FA_SHAPE(2), 3, 3);
}

/* ---- backward inside backward ---- */

/* The derivative of f(x) = sum(x^3) found by a backward of its own. */
static fa_tensor *cubes(fa_context *context, fa_tensor *const *inputs, int n, void *data) {
    (void)n, (void)data;
    fa_save_for_backward(context, inputs[0]);
    return fa_sum(fa_pow_scalar(inputs[0], 3));
}
static bool cubes_backward(fa_context *context, fa_tensor *grad, fa_tensor **grads, int n, void *data) {
    (void)n;
    counts *c = data;
    fa_tensor *x = fa_saved(context, 0);
    const bool was = fa_set_grad_enabled(true);
    fa_tensor *leaf = fa_requires_grad(fa_detach(x), true);
    fa_tensor *inner = fa_sum(fa_pow_scalar(leaf, 3));
    if (c->backward++ < 3)
        inner = fa_add(inner, fa_mul_scalar(fa_apply(&(fa_function){"Cubes", cubes, cubes_backward, NULL}, &leaf, 1, c), 0));
    const bool ok = fa_backward(inner, .gradient = fa_detach(grad));
    fa_set_grad_enabled(was);
    grads[0] = fa_grad(leaf);
    return ok;
}

static void nested(void **state) {
    (void)state;
    counts c = {0};
    const fa_function cubed = {"Cubes", cubes, cubes_backward, NULL};
    fa_tensor *x = LEAF(1, 2), *y = fa_mul_scalar(x, 1);
    fa_tensor *z = fa_add(fa_apply(&cubed, &y, 1, &c), fa_sum(fa_mul(y, y)));
    assert_true(fa_backward(z));
    CHECK(fa_grad(x), FA_SHAPE(2), 3 + 2, 12 + 4);
    assert_int_equal(c.backward, 4);
    assert_true(fa_is_grad_enabled());
}

/* ---- nothing stays ---- */

static void no_leak(void **state) {
    (void)state;
    counts c = {0};
    fa_test_caches(false);
    for (int round = 0; round < 3; round++) {
        const uint64_t before = fa_host_memory_use().bytes;
        fa_scope_open();
        c.fail = round; /* 0 works, the others fail in backward */
        fa_tensor *x = LEAF(1, 2), *y = fa_apply(&doubled_function, &x, 1, &c), *both[] = {y, x};
        fa_tensor *z = fa_sum(fa_apply(&product_function, both, 2, &c));
        assert_true(fa_backward(z) == (round == 0));
        fa_error_take();
        fa_scope_close();
        if (round) assert_int_equal(fa_host_memory_use().bytes, before);
    }
    fa_test_caches(true);
    assert_int_equal(c.release, 6);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(values_and_derivatives), TEST(released_once), TEST(mistakes_in_backward),
        TEST(mistakes_in_forward),    TEST(nested),        TEST(no_leak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
