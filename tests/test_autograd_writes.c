/* In-place operations and autograd: what is refused, and gradients through writes to tensors, views and their bases, against
 * values that PyTorch gives. */
/* test-env: - */
/* test-env: FACULA_SIM=cuda:1 */
/* test-env: FACULA_SIM=cuda:1 FACULA_FUSE=on */
/* test-env-opencl: FACULA_OPENCL=cpu */
/* test-tags: threads */
#include "support/check.h"
#include <fa_functional.h>

static fa_tensor *leaf_of(int n, const double *values) {
    fa_tensor *t = fa_from_data(values, FA_FLOAT64, FA_SHAPE(n), .device = device);
    return fa_requires_grad(t, true);
}
#define LEAF(...)                 leaf_of((int)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)), (double[]){__VA_ARGS__})
#define ON_DEVICE                 FA_TENSOR_OPTIONS(.device = device)
#define REFUSES(call, code, text) FAILS((call) ? "" : NULL, code, text)
static const char changed[] = "one of the variables needed for gradient computation has been modified by an inplace operation: ";

/* a = [[1, 2], [3, 4]], a leaf; b = 2 a. */
static fa_tensor *a, *b, *w;
static int set_up(void **state) {
    begin(state);
    a = fa_requires_grad(fa_from_data_with((double[]){1, 2, 3, 4}, FA_FLOAT64, FA_SHAPE(2, 2), ON_DEVICE), true);
    b = fa_mul_scalar(a, 2);
    w = LEAF(3, 5);
    return 0;
}
static fa_tensor *row(fa_tensor *t, int i) { return fa_select(t, 0, i); }
static fa_tensor *weights(void) { return fa_detach(a); }

/* ---- refused ---- */

static void leaves_are_refused(void **state) {
    (void)state;
    FAILS(fa_mul_scalar_(a, 2), RUNTIME, "a leaf Variable that requires grad is being used in an in-place operation.");
    FAILS(fa_mul_scalar_(row(a, 0), 2), RUNTIME,
          "a view of a leaf Variable that requires grad is being used in an in-place operation.");
    fa_tensor *later = fa_zeros(FA_SHAPE(2, 2), .device = device), *view = row(later, 0);
    fa_requires_grad(later, true);
    FAILS(fa_mul_scalar_(view, 2), RUNTIME,
          "a view of a leaf Variable that requires grad is being used in an in-place operation.");
    CHECK(a, FA_SHAPE(2, 2), 1, 2, 3, 4);
    assert_int_equal(fa_version_of(a), 0);
}

static void parts_are_refused(void **state) {
    (void)state;
    fa_tensor *parts[2];
    assert_int_equal(fa_split(b, 1, 0, parts, 2), 2);
    FAILS(
        fa_mul_scalar_(parts[0], 2), RUNTIME,
        "Output 0 of Split is a view and is being modified inplace. This view is the output of a function that returns multiple "
        "views. Such functions do not allow the output views to be modified inplace. You should replace the inplace operation by "
        "an "
        "out-of-place one.");
    assert_int_equal(fa_unbind(b, 0, parts, 2), 2);
    FAILS(fa_mul_scalar_(parts[1], 2), RUNTIME, "Output 0 of Unbind is a view and is being modified inplace.");
    FAILS(fa_mul_scalar_(fa_expand(fa_select(row(b, 0), 0, 0), FA_SHAPE(3)), 2), RUNTIME,
          "unsupported operation: more than one element of the written-to tensor refers to a single memory location.");
    fa_tensor *view;
    {
        FA_NO_GRAD;
        view = row(b, 0);
    }
    FAILS(fa_mul_scalar_(view, 2), RUNTIME,
          "A view was created in no_grad mode and is being modified inplace with grad mode enabled.");
    {
        FA_NO_GRAD;
        view = fa_select(weights(), 0, 0);
    }
    assert_non_null(fa_mul_scalar_(view, 2)); /* nothing is recorded */
    FAILS(fa_mul_(view, w), RUNTIME, "A view was created in no_grad mode and is being modified inplace with grad mode enabled.");
}

static void changed_text(int version, int expected, const char *maker) {
    fa_error e = fa_error_take();
    char text[300];
    assert_int_equal(e.code, FA_ERR_RUNTIME);
    assert_int_equal(strncmp(e.text, changed, strlen(changed)), 0);
    snprintf(text, sizeof text, "%s, is at version %d; expected version %d instead. Hint:", maker, version, expected);
    if (!strstr(e.text, text)) fail_msg("'%s' is not in '%s'", text, e.text);
}

static void versions(void **state) {
    (void)state;
    fa_tensor *c = fa_exp(b), *loss = fa_sum(c);
    fa_add_scalar_(c, 1);
    assert_false(fa_backward(loss));
    changed_text(1, 0, "[2, 2]], which is output 0 of Exp");
    fa_tensor *x = LEAF(1, 2), *y = fa_sum(fa_mul(x, w));
    {
        FA_NO_GRAD;
        fa_add_scalar_(fa_select(w, 0, 0), 1); /* through a view, without recording */
    }
    assert_int_equal(fa_version_of(w), 1);
    assert_false(fa_backward(y));
    changed_text(1, 0, "[2]]"); /* a leaf: no node is named */
    assert_null(fa_grad(x));
    y = fa_mul_scalar(x, 2); /* the chain's last write takes what the one before it reads */
    fa_relu_(y), fa_exp_(y), fa_sigmoid_(y);
    assert_false(fa_backward(fa_sum(y)));
    changed_text(3, 2, "which is output 0 of Exp");
    y = fa_mul_scalar(x, 2);
    fa_mul_(y, y);
    assert_false(fa_backward(fa_sum(y)));
    changed_text(1, 0, "which is output 0 of Mul");
}

/* ---- whole tensors ---- */

static fa_tensor *relu_(fa_tensor *t) { return fa_relu_(t); }
static fa_tensor *exp_(fa_tensor *t) { return fa_exp_(t); }
static fa_tensor *sigmoid_(fa_tensor *t) { return fa_sigmoid_(t); }
static fa_tensor *sin_(fa_tensor *t) { return fa_sin_(t); }

static void results_are_kept(void **state) {
    (void)state;
    static const struct {
        fa_tensor *(*call)(fa_tensor *);
        double d[2];
    } rows[] = {{relu_, {0, 2}},
                {exp_, {2 * 0.1353352832, 2 * 54.59815003}},
                {sigmoid_, {2 * 0.104993585, 2 * 0.01766270621}},
                {sin_, {2 * -0.4161468365, 2 * -0.6536436209}}};
    for (int i = 0; i < 4; i++) {
        fa_tensor *x = LEAF(-1, 2), *y = fa_mul_scalar(x, 2);
        assert_ptr_equal(rows[i].call(y), y);
        assert_true(fa_backward(fa_sum(y)));
        CHECK(fa_grad(x), FA_SHAPE(2), rows[i].d[0], rows[i].d[1]);
    }
}

static void chained(void **state) {
    (void)state;
    fa_tensor *x = LEAF(1, 2), *y = fa_mul_scalar(x, 2);
    fa_pow_scalar_(y, 2), fa_div_(y, x); /* 4 x */
    assert_string_equal(fa_grad_fn_name(y), "DivBackward0");
    assert_int_equal(fa_version_of(y), 2);
    assert_true(fa_backward(fa_sum(fa_mul(y, y))));
    CHECK(fa_grad(x), FA_SHAPE(2), 32, 64);
    fa_tensor *z = fa_mul_scalar(x, 2);
    fa_mul_(z, w);
    fa_set_grad(x, NULL);
    assert_true(fa_backward(fa_sum(z)));
    CHECK(fa_grad(x), FA_SHAPE(2), 6, 10);
    CHECK(fa_grad(w), FA_SHAPE(2), 2, 4);
    fa_tensor *plain = fa_zeros(FA_SHAPE(2), .dtype = FA_FLOAT64, .device = device); /* begins to need a gradient */
    fa_add_(plain, w);
    assert_true(fa_is_requires_grad(plain) && !fa_is_leaf(plain));
    fa_set_grad(w, NULL);
    assert_true(fa_backward(fa_sum(fa_square(plain))));
    CHECK(fa_grad(w), FA_SHAPE(2), 6, 10);
}

static void grad_and_hooks_of_what_is_written(void **state) {
    (void)state;
    fa_tensor *x = LEAF(1, 2), *y = fa_mul_scalar(x, 2);
    assert_true(fa_retain_grad(y));
    fa_mul_scalar_(y, 3);
    assert_true(fa_backward(fa_sum(y)));
    CHECK(fa_grad(y), FA_SHAPE(2), 1, 1); /* of the value that it has now */
    CHECK(fa_grad(x), FA_SHAPE(2), 6, 6);
}

static void detached_and_written(void **state) {
    (void)state;
    fa_tensor *d = fa_detach(b);
    fa_mul_scalar_(d, 0);
    assert_true(fa_backward(fa_sum(fa_mul(b, b)))); /* written before: the new value counts */
    CHECK(fa_grad(a), FA_SHAPE(2, 2), 0, 0, 0, 0);
    assert_int_equal(fa_version_of(b), 1);
}

/* ---- views and bases ---- */

static void view_written(void **state) {
    (void)state;
    fa_tensor *v = row(b, 0);
    fa_mul_(v, w);
    assert_string_equal(fa_grad_fn_name(b), "CopySlices");
    assert_string_equal(fa_grad_fn_name(v), "AsStridedBackward0");
    CHECK(b, FA_SHAPE(2, 2), 6, 20, 6, 8);
    assert_true(fa_backward(fa_sum(b)));
    CHECK(fa_grad(a), FA_SHAPE(2, 2), 6, 10, 2, 2);
    CHECK(fa_grad(w), FA_SHAPE(2), 2, 4);
}

static void view_of_view_written(void **state) {
    (void)state;
    fa_tensor *v = row(b, 0), *u = fa_slice(v, 0, 1, 2, 1);
    fa_mul_scalar_(u, 10), fa_add_scalar_(v, 1), fa_mul_scalar_(b, 2);
    CHECK(u, FA_SHAPE(1), 82);
    assert_true(fa_backward(fa_sum(fa_mul(b, b)), .retain_graph = true));
    CHECK(fa_grad(a), FA_SHAPE(2, 2), 48, 6560, 96, 128);
    fa_set_grad(a, NULL);
    assert_true(fa_backward(fa_sum(u)));
    CHECK(fa_grad(a), FA_SHAPE(2, 2), 0, 40, 0, 0);
}

static void base_written_after_the_view(void **state) {
    (void)state;
    fa_tensor *v = row(b, 0);
    fa_mul_scalar_(b, 3);
    assert_string_equal(fa_grad_fn_name(v), "AsStridedBackward0");
    assert_true(fa_backward(fa_sum(fa_mul(v, v))));
    CHECK(fa_grad(a), FA_SHAPE(2, 2), 72, 144, 0, 0);
}

static void other_view_written(void **state) {
    (void)state;
    fa_tensor *v = row(b, 0), *column = fa_select(b, 1, 0), *diagonal = fa_diagonal(b, 0, 0, 1);
    fa_mul_(column, w);
    fa_add_(diagonal, w); /* b = [[6 + 3, 4], [30, 8 + 5]] */
    CHECK(v, FA_SHAPE(2), 9, 4);
    assert_true(fa_backward(fa_sum(fa_mul(v, v))));
    CHECK(fa_grad(a), FA_SHAPE(2, 2), 108, 16, 0, 0);
    CHECK(fa_grad(w), FA_SHAPE(2), 54, 0);
}

static void transposed_written(void **state) {
    (void)state;
    fa_tensor *t = fa_t(b);
    fa_mul_scalar_(row(t, 0), 3), fa_mul_scalar_(t, .1), fa_exp_(t);
    assert_true(fa_backward(fa_sum(fa_mul(b, weights()))));
    const double e[] = {.6 * exp(.6), .4 * exp(.4), 1.8 * exp(1.8), .8 * exp(.8)};
    CHECK(fa_grad(a), FA_SHAPE(2, 2), e[0], e[1], e[2], e[3]);
}

static void plain_base_written(void **state) {
    (void)state;
    fa_tensor *base = fa_zeros(FA_SHAPE(2, 2), .dtype = FA_FLOAT64, .device = device), *v = row(base, 0), *u = row(base, 1);
    fa_add_(v, w);
    assert_true(fa_is_requires_grad(base) && fa_is_requires_grad(u) && fa_is_requires_grad(v));
    fa_add_scalar_(u, 2), fa_mul_(u, w);
    CHECK(base, FA_SHAPE(2, 2), 3, 5, 6, 10);
    assert_true(fa_backward(fa_sum(fa_mul(base, base))));
    CHECK(fa_grad(w), FA_SHAPE(2), 6 + 24, 10 + 40);
}

/* A base whose own memory is not in order. */
static void transposed_base(void **state) {
    (void)state;
    fa_tensor *x = fa_from_data_with((double[]){1, 2, 3, 4, 5, 6}, FA_FLOAT64, FA_SHAPE(2, 3), ON_DEVICE);
    fa_tensor *d = fa_detach(fa_t(x)), *v = row(d, 0);
    fa_mul_(v, w);
    assert_true(
        fa_backward(fa_sum(fa_mul(d, fa_reshape(fa_arange(1, 7, 1, .dtype = FA_FLOAT64, .device = device), FA_SHAPE(3, 2))))));
    CHECK(fa_grad(w), FA_SHAPE(2), 1, 8);
    CHECK(x, FA_SHAPE(2, 3), 3, 2, 3, 20, 5, 6);
    fa_tensor *wide = fa_zeros(FA_SHAPE(3, 4), .dtype = FA_FLOAT64, .device = device); /* with holes */
    d = fa_detach(fa_slice(wide, 1, 1, 4, 2));
    fa_add_(row(d, 2), w), fa_mul_(row(fa_t(d), 1), fa_full(FA_SHAPE(3), 2.0, .dtype = FA_FLOAT64, .device = device));
    fa_set_grad(w, NULL);
    assert_true(fa_backward(fa_sum(fa_mul(d, d))));
    CHECK(fa_grad(w), FA_SHAPE(2), 6, 40);
}

static void written_without_grad(void **state) {
    (void)state;
    fa_tensor *v = row(b, 0);
    {
        FA_NO_GRAD;
        fa_mul_scalar_(v, 3);
    }
    assert_true(fa_backward(fa_sum(b), .retain_graph = true));
    CHECK(fa_grad(a), FA_SHAPE(2, 2), 2, 2, 2, 2);
    CHECK(b, FA_SHAPE(2, 2), 6, 12, 6, 8);
    fa_set_grad(a, NULL);
    assert_true(fa_backward(fa_sum(v)));
    CHECK(fa_grad(a), FA_SHAPE(2, 2), 2, 2, 0, 0);
}

static void infinite_gradients_stay_in_place(void **state) {
    (void)state;
    fa_tensor *x = LEAF(0, 4, 9), *y = fa_mul_scalar(x, 1), *v = fa_slice(y, 0, 0, 1, 1);
    fa_mul_scalar_(v, 0); /* what flows into the region is infinite: it ends there */
    fa_add_scalar_(v, 1);
    assert_true(
        fa_backward(fa_sum(fa_mul(y, fa_from_data_with((double[]){INFINITY, 1, 2}, FA_FLOAT64, FA_SHAPE(3), ON_DEVICE)))));
    CHECK(fa_grad(x), FA_SHAPE(3), NAN, 1, 2); /* 0 * inf in the written element only */
    x = LEAF(0, 4, 9), y = fa_mul_scalar(x, 1), v = fa_slice(y, 0, 0, 1, 1);
    fa_sqrt_(v);
    assert_true(fa_backward(fa_sum(y)));
    CHECK(fa_grad(x), FA_SHAPE(3), INFINITY, 1, 1);
}

static void second_order(void **state) {
    (void)state;
    fa_mul_(row(b, 0), w);
    fa_tensor *loss = fa_sum(fa_mul(b, b)), *inputs[] = {a, w}, *g[2];
    assert_true(fa_grad_of(&loss, 1, inputs, 2, g, .create_graph = true));
    CHECK(g[0], FA_SHAPE(2, 2), 72, 400, 24, 32);
    CHECK(g[1], FA_SHAPE(2), 24, 160);
    assert_true(fa_backward(fa_add(fa_sum(fa_mul(g[0], g[0])), fa_sum(fa_mul(fa_mul(g[1], g[1]), w)))));
    CHECK(fa_grad(a), FA_SHAPE(2, 2), 17280, 416000, 384, 512);
    CHECK(fa_grad(w), FA_SHAPE(2), 8640, 204800);
}

static void second_time(void **state) {
    (void)state;
    fa_mul_(row(b, 0), w);
    fa_tensor *loss = fa_sum(b);
    assert_true(fa_backward(loss, .retain_graph = true) && fa_backward(loss));
    CHECK(fa_grad(a), FA_SHAPE(2, 2), 12, 20, 4, 4);
    REFUSES(fa_backward(loss), RUNTIME, "Trying to backward through the graph a second time");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, end)
int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(leaves_are_refused),
        TEST(parts_are_refused),
        TEST(versions),
        TEST(results_are_kept),
        TEST(chained),
        TEST(grad_and_hooks_of_what_is_written),
        TEST(detached_and_written),
        TEST(view_written),
        TEST(view_of_view_written),
        TEST(base_written_after_the_view),
        TEST(other_view_written),
        TEST(transposed_written),
        TEST(plain_base_written),
        TEST(transposed_base),
        TEST(written_without_grad),
        TEST(infinite_gradients_stay_in_place),
        TEST(second_order),
        TEST(second_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
