/* What golden values do not reach: functions of whole tensors, grids, and random choices, whose laws are looked at on every device. */
/* test-env: - */
/* test-env: FACULA_SIM=cuda:1 */
/* test-env-opencl: FACULA_OPENCL=cpu */
#include "support/check.h"
#include <facula.h>

static fa_tensor *vector(int n) { return fa_add_scalar(fa_arange(0, n, 1, .dtype = FA_FLOAT32, .device = device), 1); }

static void comparing(void **state) {
    (void)state;
    fa_tensor *a = vector(3), *b = fa_clone(a), *nan = fa_div(fa_sub(a, a), fa_sub(a, a));
    assert_true(fa_equal(a, b));
    assert_true(fa_equal(a, fa_cast(a, FA_INT64)));
    assert_false(fa_equal(a, vector(4)));
    assert_false(fa_equal(a, fa_add_scalar(a, 1)));
    assert_false(fa_equal(nan, nan));
    assert_true(fa_allclose(a, fa_add_scalar(a, 1e-9), 1e-5, 1e-8, false));
    assert_false(fa_allclose(a, fa_add_scalar(a, 0.1), 1e-5, 1e-8, false));
    assert_false(fa_allclose(nan, nan, 1e-5, 1e-8, false));
    assert_true(fa_allclose(nan, nan, 1e-5, 1e-8, true));
}

static void grids(void **state) {
    (void)state;
    fa_tensor *in[2] = {vector(2), vector(3)}, *parts[2] = {NULL};
    assert_int_equal(fa_meshgrid(in, 2, "ij", NULL, 0), 2);
    assert_int_equal(fa_meshgrid(in, 2, "ij", parts, 2), 2);
    CHECK(parts[0], FA_SHAPE(2, 3), 1, 1, 1, 2, 2, 2);
    CHECK(parts[1], FA_SHAPE(2, 3), 1, 2, 3, 1, 2, 3);
    assert_int_equal(fa_meshgrid(in, 2, "xy", parts, 2), 2);
    CHECK(parts[0], FA_SHAPE(3, 2), 1, 2, 1, 2, 1, 2);
    CHECK(parts[1], FA_SHAPE(3, 2), 1, 1, 2, 2, 3, 3);
    in[0] = fa_requires_grad(vector(2), true);
    assert_int_equal(fa_meshgrid(in, 2, "ij", parts, 2), 2);
    fa_backward(fa_sum(parts[0]));
    CHECK(fa_grad(in[0]), FA_SHAPE(2), 3, 3);
    in[0] = fa_reshape(vector(2), FA_SHAPE(2, 1));
    assert_int_equal(fa_broadcast_tensors(in, 2, parts, 2), 2);
    CHECK(parts[0], FA_SHAPE(2, 3), 1, 1, 1, 2, 2, 2);
    in[0] = vector(2);
    FAILS_COUNT(fa_broadcast_tensors(in, 2, parts, 2), RUNTIME, "The size of tensor a (2) must match the size of tensor b (3)");
}

/* Share of t's elements that are `value`. */
static double share(fa_tensor *t, double value) { return fa_item(fa_mean(fa_cast(fa_eq_scalar(t, value), FA_FLOAT64))); }

static void chances(void **state) {
    (void)state;
    FA_SCOPE;
    fa_manual_seed(5);
    fa_tensor *p = fa_to(fa_floats(1, 0, 3, 4, 0), device), *drawn = fa_multinomial(p, 8000, true, NULL);
    assert_int_equal(fa_numel(drawn), 8000);
    assert_true(share(drawn, 1) == 0 && share(drawn, 4) == 0);
    assert_true(fabs(share(drawn, 0) - 0.125) < 0.02 && fabs(share(drawn, 3) - 0.5) < 0.03);
    fa_tensor *rows = fa_expand(p, FA_SHAPE(4000, 5)), *three = fa_multinomial(rows, 3, false, NULL);
    assert_true(share(three, 1) == 0 && fabs(share(three, 0) - 1.0 / 3) < 1e-9); /* each of the possible ones once */
    assert_true(fabs(share(fa_multinomial(rows, 1, false, NULL), 3) - 0.5) < 0.03);
    assert_true(fabs(fa_item(fa_mean(fa_bernoulli(fa_full(FA_SHAPE(8000), 0.3, .device = device), NULL))) - 0.3) < 0.03);
    fa_tensor *far = fa_normal(fa_full(FA_SHAPE(8000), 5.0, .device = device), fa_full(FA_SHAPE(1), 2.0, .device = device), NULL);
    assert_true(fabs(fa_item(fa_mean(far)) - 5) < 0.1 && fabs(fa_item(fa_std(far)) - 2) < 0.1);
    assert_true(fabs(fa_item(fa_mean(fa_normal_std(1, fa_ones(FA_SHAPE(8000), .device = device), NULL))) - 1) < 0.1);
    fa_tensor *t = fa_exponential_(fa_empty(FA_SHAPE(8000), .device = device), 2, NULL);
    assert_true(fabs(fa_item(fa_mean(t)) - 0.5) < 0.05 && fa_item(fa_min(t)) >= 0);
    fa_random_range_(t, -3, 3, NULL);
    assert_true(fa_item(fa_min(t)) == -3 && fa_item(fa_max(t)) == 2);
    fa_generator *g = fa_generator_new(device);
    fa_generator_seed(g, 1);
    fa_tensor *first = fa_multinomial(p, 20, true, g);
    fa_generator_seed(g, 1);
    assert_true(fa_equal(first, fa_multinomial(p, 20, true, g)));
}

/* Long rows on a device, in blocks that are merged, come to what the CPU's radix sort gives. */
static void long_rows(void **state) {
    (void)state;
    static const fa_dtype types[] = {FA_FLOAT32, FA_FLOAT64, FA_BFLOAT16, FA_INT64, FA_INT16, FA_BOOL};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        FA_SCOPE;
        fa_manual_seed(9);
        fa_tensor *x = fa_cast(fa_round(fa_mul_scalar(fa_randn(FA_SHAPE(3, 1300), .device = FA_CPU), 20)), types[i]);
        for (int down = 0; down < 2; down++) {
            fa_tensor *here = NULL, *there = NULL, *a = fa_sort(x, 1, down, &here),
                      *b = fa_sort(fa_to(x, device), 1, down, &there);
            assert_true(fa_equal(a, fa_cpu(b)) && fa_equal(here, fa_cpu(there)));
            assert_true(fa_equal(a, fa_gather(x, 1, here)));
            if (types[i] == FA_BOOL) continue;
            b = fa_topk(fa_to(x, device), 40, 1, down, &there);
            assert_true(fa_equal(fa_slice(a, 1, 0, 40, 1), fa_cpu(b)) && fa_equal(fa_slice(here, 1, 0, 40, 1), fa_cpu(there)));
        }
    }
}

/* An allocation fails, each in turn: an error and no result, or a result. */
static void no_memory(void **state) {
    (void)state;
    fa_tensor *x = fa_randn(FA_SHAPE(2, 600), .device = FA_CPU), *m = fa_randn(FA_SHAPE(6, 4), .device = FA_CPU);
    for (int n = 1, failed = 1; failed && n < 4000; n++) {
        FA_SCOPE;
        fa_tensor *inverse = NULL, *counts = NULL, *places = NULL;
        fa_test_fail_allocation((uint64_t)n, false);
        fa_tensor *r[] = {fa_sort(x, 1, false, &places),
                          fa_unique(m, &inverse, &counts),
                          fa_mode(m, 0, false, &places),
                          fa_multinomial(fa_abs(m), 3, true, NULL),
                          fa_cdist(m, m),
                          fa_median(m)};
        failed = fa_test_failed_allocations() > 0;
        fa_test_fail_allocation(0, false);
        int missing = 0;
        for (size_t i = 0; i < sizeof r / sizeof *r; i++) missing += r[i] == NULL;
        const fa_error e = fa_error_take();
        assert_true(missing == 0 ? e.code == FA_OK : e.code == FA_ERR_MEMORY);
    }
}

#define T(f) cmocka_unit_test_setup_teardown(f, begin, end)
int main(void) {
    const struct CMUnitTest tests[] = {T(comparing), T(grids), T(chances), T(long_rows), T(no_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
