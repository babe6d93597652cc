/* Writes in place that are no rows: copies, fills, random numbers, indices; memory that overlaps; masks; numbers for tensors.
 *
 * test-env: -
 * test-env: FACULA_SIM=cuda:1
 * test-env: FACULA_SIM=cuda:1 FACULA_FUSE=on
 * test-env-opencl: FACULA_OPENCL=cpu */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "support/device.h"
#include <facula.h>
#include <stdlib.h>
#include <string.h>

static fa_device device(void) { return test_device(); }
static fa_tensor *on_device(fa_tensor *t) { return fa_to(t, device()); }

static void holds(fa_tensor *t, int n, const double *expected)
{
    double got[16] = {0};
    assert_non_null(t);
    assert_int_equal(fa_numel(t), n);
    assert_true(fa_to_data(t, got, FA_FLOAT64));
    for (int i = 0; i < n; i++) assert_true(got[i] == expected[i]);
}
#define HOLDS(t, ...) holds((t), (int)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)), (double[]){__VA_ARGS__})

static void refused(void *result, fa_code code, const char *words)
{
    assert_null(result);
    fa_error e = fa_error_take();
    assert_int_equal(e.code, code);
    if (!strstr(e.text, words)) fail_msg("\"%s\" is not in \"%s\"", words, e.text);
}

static void copies_and_fills(void **state)
{
    (void)state;
    FA_SCOPE;
    fa_tensor *t = fa_zeros(FA_SHAPE(2, 3), .device = device());
    HOLDS(fa_copy_(t, on_device(fa_floats(1, 2, 3))), 1, 2, 3, 1, 2, 3);
    HOLDS(fa_copy_(t, fa_ints(4, 5, 6)), 4, 5, 6, 4, 5, 6); /* from the CPU, of another type */
    HOLDS(fa_copy_(fa_select(t, 0, 1), on_device(fa_floats(7, 8, 9))), 7, 8, 9);
    HOLDS(t, 4, 5, 6, 7, 8, 9);
    HOLDS(fa_fill_(t, 2), 2, 2, 2, 2, 2, 2);
    HOLDS(fa_zero_(fa_select(t, 1, 0)), 0, 0);
    HOLDS(t, 0, 2, 2, 0, 2, 2);
    const uint32_t version = fa_version_of(t);
    fa_zero_(t);
    assert_int_equal(fa_version_of(t), version + 1);
    refused(fa_copy_(t, fa_zeros(FA_SHAPE(4, 2, 3), .device = device())), FA_ERR_RUNTIME, "doesn't match the broadcast shape");
    refused(fa_copy_(fa_expand(fa_ones(FA_SHAPE(1), .device = device()), FA_SHAPE(3)), t), FA_ERR_RUNTIME, "more than one element");
    refused(fa_fill_(fa_ones(FA_SHAPE(1), .requires_grad = true, .device = device()), 2), FA_ERR_RUNTIME, "a leaf Variable that requires grad");
}

static void random_values(void **state)
{
    (void)state;
    FA_SCOPE;
    fa_tensor *t = fa_empty(FA_SHAPE(1000), .device = device());
    fa_manual_seed(3);
    assert_non_null(fa_uniform_(t, 2, 4));
    assert_true(fa_item(fa_min(t)) >= 2 && fa_item(fa_max(t)) <= 4);
    assert_non_null(fa_normal_(t, 5, 0.1));
    assert_true(fa_item(fa_mean(t)) > 4.9 && fa_item(fa_mean(t)) < 5.1);
    assert_non_null(fa_bernoulli_(t, 0.25));
    assert_true(fa_item(fa_mean(t)) > 0.15 && fa_item(fa_mean(t)) < 0.35);
    fa_manual_seed(0);
    if (!test_on_device()) assert_true(fa_item(fa_uniform_(fa_empty(FA_SHAPE(1)), 0, 1)) == fa_item((fa_manual_seed(0), fa_rand(FA_SHAPE(1)))));
}

static void at_indices(void **state)
{
    (void)state;
    FA_SCOPE;
    fa_tensor *t = fa_zeros(FA_SHAPE(4), .device = device()), *at = on_device(fa_ints(3, 0)), *values = on_device(fa_floats(5, 6));
    HOLDS(fa_index_put_(t, &at, 1, values, false), 6, 0, 0, 5);
    HOLDS(fa_index_put_(t, &at, 1, values, true), 12, 0, 0, 10);
    HOLDS(fa_scatter_(t, 0, at, values), 6, 0, 0, 5);
    HOLDS(fa_scatter_value_(t, 0, at, 1), 1, 0, 0, 1);
    HOLDS(fa_scatter_add_(t, 0, at, values), 7, 0, 0, 6);
    HOLDS(fa_index_add_(t, 0, at, values), 13, 0, 0, 11);
    if (!test_on_device()) {
        fa_tensor *bad = fa_ints(9);
        assert_null(fa_index_put_(t, &bad, 1, fa_floats(1), false));
        assert_int_equal(fa_error_take().code, FA_ERR_INDEX);
        HOLDS(t, 13, 0, 0, 11);
    }
}

/* d/dw of sum(t * t) after parts of t = w * w were overwritten by 3 v */
static void derivatives(void **state)
{
    (void)state;
    FA_SCOPE;
    fa_tensor *w = fa_requires_grad(on_device(fa_floats(1, 2, 3)), true), *v = fa_requires_grad(on_device(fa_floats(5)), true);
    fa_tensor *t = fa_mul(w, w);
    assert_non_null(fa_copy_(fa_narrow(t, 0, 1, 1), fa_mul_scalar(v, 3)));
    assert_non_null(fa_zero_(fa_narrow(t, 0, 2, 1)));
    HOLDS(fa_detach(t), 1, 15, 0);
    assert_true(fa_backward(fa_sum(fa_mul(t, t))));
    HOLDS(fa_grad(w), 4, 0, 0);
    HOLDS(fa_grad(v), 90);
    fa_tensor *u = fa_mul_scalar(w, 2), *at = on_device(fa_ints(0));
    fa_set_grad(w, NULL), fa_set_grad(v, NULL);
    assert_non_null(fa_index_put_(u, &at, 1, v, false));
    assert_true(fa_backward(fa_sum(u)));
    HOLDS(fa_grad(w), 0, 2, 2);
    HOLDS(fa_grad(v), 1);
}

static void overlapping_memory(void **state)
{
    (void)state;
    FA_SCOPE;
    fa_tensor *t = on_device(fa_floats(1, 2, 3, 4, 5));
    refused(fa_add_(fa_slice(t, 0, 1, 5, 1), fa_slice(t, 0, 0, 4, 1)), FA_ERR_RUNTIME,
            "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory location");
    refused(fa_copy_(fa_slice(t, 0, 1, 5, 1), fa_slice(t, 0, 0, 4, 1)), FA_ERR_RUNTIME, "refer to a single memory location");
    HOLDS(t, 1, 2, 3, 4, 5);
    HOLDS(fa_add_(t, t), 2, 4, 6, 8, 10);
    fa_tensor *square = fa_reshape(fa_arange(0, 4, 1, .dtype = FA_FLOAT32, .device = device()), FA_SHAPE(2, 2));
    HOLDS(fa_add_(square, fa_t(square)), 0, 3, 3, 6); /* read before it is written */
    fa_tensor *row = on_device(fa_floats(1, 2, 3, 4));
    HOLDS(fa_add_(fa_slice(row, 0, 0, 4, 2), fa_slice(row, 0, 1, 4, 2)), 3, 7);
    HOLDS(row, 3, 2, 7, 4);
}

static void masks_are_bools(void **state)
{
    (void)state;
    FA_SCOPE;
    fa_tensor *x = on_device(fa_floats(1, 2)), *numbers = on_device(fa_ints(0, 1));
    refused(fa_where(numbers, x, x), FA_ERR_RUNTIME, "where expected condition to be a boolean tensor, but got a tensor with dtype Long");
    refused(fa_masked_fill_scalar(x, numbers, 0), FA_ERR_RUNTIME, "masked_fill_ only supports boolean masks, but got mask with dtype int64");
    HOLDS(fa_masked_fill_scalar(x, fa_ne_scalar(numbers, 0), 0), 1, 0);
}

static void numbers_for_tensors(void **state)
{
    (void)state;
    FA_SCOPE;
    fa_tensor *x = on_device(fa_floats(1, 2, 4)), *i = on_device(fa_ints(1, 2, 4));
    HOLDS(fa_clamp_scalars(x, 1.5, 3), 1.5, 2, 3);
    HOLDS(fa_clamp_min(i, 2), 2, 2, 4);
    assert_int_equal(fa_dtype_of(fa_clamp_max(i, 2)), FA_INT64);
    HOLDS(fa_clamp_max(x, 2), 1, 2, 2);
    HOLDS(fa_rsub_scalar(x, 1), 0, -1, -3);
    HOLDS(fa_rdiv_scalar(x, 8), 8, 4, 2);
    HOLDS(fa_rpow_scalar(x, 2), 2, 4, 16);
    HOLDS(fa_clamp_scalars_(x, 0, 2), 1, 2, 2);
    fa_tensor *w = fa_requires_grad(on_device(fa_floats(1, 2, 4)), true);
    assert_true(fa_backward(fa_sum(fa_clamp_scalars(w, 1, 3))));
    HOLDS(fa_grad(w), 1, 1, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_and_fills), cmocka_unit_test(random_values),   cmocka_unit_test(at_indices),         cmocka_unit_test(derivatives),
        cmocka_unit_test(overlapping_memory), cmocka_unit_test(masks_are_bools), cmocka_unit_test(numbers_for_tensors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
