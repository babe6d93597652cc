/* Random numbers: PyTorch's bits on the CPU, Philox's on accelerators, order of draws, errors, no memory.
 *
 * test-env: -
 * test-env: FACULA_SIM=cuda:2
 * test-env-opencl: FACULA_OPENCL=cpu */
#include "ops/random.h"
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RAND, RANDN, NORMAL, UNIFORM, RANDINT, RANDPERM, RANDOM, BERNOULLI, EXPONENTIAL };
#include "golden/random_vectors.h"
#include "support/scope.h"

#define assert_error(want_code, want_text)                                          \
    do {                                                                            \
        fa_error e_ = fa_error_take();                                              \
        assert_int_equal(e_.code, (want_code));                                     \
        assert_memory_equal(e_.text, (want_text), strlen(want_text));               \
    } while (0)

static fa_tensor *draw(const struct random_vector *v) {
    fa_tensor *t;
    fa_shape shape = FA_SHAPE(v->n);
    switch (v->kind) {
    case RAND: return fa_rand(shape, .dtype = v->dtype);
    case RANDN: return fa_randn(shape, .dtype = v->dtype);
    case RANDINT: return fa_randint((int64_t)v->a, (int64_t)v->b, shape, .dtype = v->dtype);
    case RANDPERM: return fa_randperm(v->n, .dtype = v->dtype);
    default: break;
    }
    t = fa_empty(shape, .dtype = v->dtype);
    assert_non_null(t);
    if (v->kind == NORMAL) assert_true(fai_fill_normal("test", t, v->a, v->b, NULL));
    if (v->kind == UNIFORM) assert_true(fai_fill_uniform("test", t, v->a, v->b, NULL));
    if (v->kind == RANDOM) assert_true(fai_fill_random_full("test", t, NULL));
    if (v->kind == BERNOULLI) assert_true(fai_fill_bernoulli("test", t, v->a, NULL));
    if (v->kind == EXPONENTIAL) assert_true(fai_fill_exponential("test", t, 1.0, NULL));
    return t;
}

static void draws_are_torchs(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof random_vectors / sizeof *random_vectors; k++) {
        const struct random_vector *v = &random_vectors[k];
        FA_SCOPE;
        fa_manual_seed(v->seed);
        fa_tensor *t = draw(v);
        double *value = malloc((size_t)v->n * sizeof *value), sum = 0, size = 0;
        assert_true(fa_to_data(t, value, FA_FLOAT64));
        for (int64_t i = 0; i < v->n; i++) {
            if (i < 8 && value[i] != v->first[i])
                fail_msg("%s seed %llu: element %d is %a, torch's %a", v->call, (unsigned long long)v->seed, (int)i, value[i],
                         v->first[i]);
            sum += value[i];
            size += fabs(value[i]);
        }
        if (value[v->n - 1] != v->last) fail_msg("%s: the last element is %a, torch's %a", v->call, value[v->n - 1], v->last);
        if (fabs(sum - v->sum) > 1e-12 * size) fail_msg("%s: the sum is %a, torch's %a", v->call, sum, v->sum);
        free(value);
    }
}

static void bulk_words_are_the_single_ones(void **state) {
    (void)state;
    static fai_mt19937 a, b;
    static uint32_t words[3000];
    fai_mt19937_seed(&a, 5);
    fai_mt19937_seed(&b, 5);
    for (int64_t n = 0, total = 0; total < 20000; n = (n * 7 + 13) % 1500, total += n) {
        fai_mt19937_fill(&a, words, n);
        for (int64_t i = 0; i < n; i++) assert_int_equal(words[i], fai_mt19937_next(&b));
        assert_int_equal(fai_mt19937_next(&a), fai_mt19937_next(&b));
        assert_memory_equal(&a, &b, sizeof a);
    }
}

/* [:, ::2] of 12 x 16 is filled row by row; a transposed tensor as it lies in memory. */
static void order_is_that_of_memory(void **state) {
    (void)state;
    fa_tensor *straight = fa_empty(FA_SHAPE(96)), *whole = fa_empty(FA_SHAPE(12, 16)), *turned = fa_empty(FA_SHAPE(12, 8));
    float want[96], got[96];
    fa_manual_seed(3);
    assert_true(fai_fill_uniform("test", straight, -1, 1, NULL));
    assert_true(fa_to_data(straight, want, FA_FLOAT32));
    fa_tensor *columns = fai_view("test", whole, 2, (int64_t[]){12, 8}, (int64_t[]){16, 2}, 0);
    fa_manual_seed(3);
    assert_true(fai_fill_uniform("test", columns, -1, 1, NULL));
    assert_true(fa_to_data(columns, got, FA_FLOAT32));
    assert_memory_equal(got, want, sizeof got);
    fa_tensor *transposed = fai_view("test", turned, 2, (int64_t[]){8, 12}, (int64_t[]){1, 8}, 0);
    fa_manual_seed(3);
    assert_true(fai_fill_uniform("test", transposed, -1, 1, NULL));
    assert_true(fa_to_data(turned, got, FA_FLOAT32));
    assert_memory_equal(got, want, sizeof got);
    fa_tensor *like = fa_rand_like(transposed);
    assert_int_equal(fa_stride(like, 0), 1);
    assert_int_equal(fa_stride(like, 1), 8);
}

/* Small draws come in pairs, of which the second waits; a large one neither takes nor drops it. */
static void second_normal_waits(void **state) {
    (void)state;
    double pair[2], one, other;
    fa_manual_seed(11);
    assert_true(fa_to_data(fa_randn(FA_SHAPE(2), .dtype = FA_FLOAT64), pair, FA_FLOAT64));
    fa_manual_seed(11);
    one = fa_item(fa_randn(FA_SHAPE(1), .dtype = FA_FLOAT64));
    assert_non_null(fa_randn(FA_SHAPE(100)));
    other = fa_item(fa_randn(FA_SHAPE(1), .dtype = FA_FLOAT64));
    assert_true(one == pair[0] && other == pair[1]);
    fa_manual_seed(11);
    assert_true(fa_item(fa_randn(FA_SHAPE(1), .dtype = FA_FLOAT64)) == pair[0]);
    fa_manual_seed(11);
    assert_true(fa_item(fa_randn(FA_SHAPE(1), .dtype = FA_FLOAT64)) == pair[0]);
}

static void generators_are_independent(void **state) {
    (void)state;
    fa_generator *g = fa_generator_new(FA_CPU);
    assert_true(fa_generator_seed(g, 42));
    float own[20], common[20];
    assert_true(fa_to_data(fa_rand(FA_SHAPE(20), .generator = g), own, FA_FLOAT32));
    fa_manual_seed(42);
    assert_non_null(fa_rand(FA_SHAPE(0)));
    assert_true(fa_to_data(fa_rand(FA_SHAPE(20)), common, FA_FLOAT32));
    assert_memory_equal(own, common, sizeof own);
    fa_tensor *leaf = fa_randn(FA_SHAPE(2, 2), .requires_grad = true, .dtype = FA_FLOAT64);
    assert_int_equal(fa_dtype_of(leaf), FA_FLOAT64);
}

static void range_excludes_its_end(void **state) {
    (void)state;
    for (fa_dtype dtype = FA_FLOAT16; dtype <= FA_FLOAT64; dtype++) {
        fa_tensor *t = fa_empty(FA_SHAPE(20000), .dtype = dtype);
        double *value = malloc(20000 * sizeof *value), to = dtype == FA_FLOAT16    ? 1001
                                                            : dtype == FA_BFLOAT16 ? 129
                                                            : dtype == FA_FLOAT32  ? 1e7 + 1
                                                                                   : 1e16 + 2;
        double from = dtype == FA_FLOAT64 ? 1e16 : dtype == FA_FLOAT32 ? 1e7 : to - 1;
        assert_true(fai_fill_uniform("test", t, from, to, NULL));
        assert_true(fa_to_data(t, value, FA_FLOAT64));
        for (int i = 0; i < 20000; i++) assert_true(value[i] >= from && value[i] < to);
        free(value);
    }
}

static void refused_draws_leave_the_generator_alone(void **state) {
    (void)state;
    fa_generator *g = fa_default_generator(FA_CPU);
    fa_tensor *t = fa_empty(FA_SHAPE(3)), *ints = fa_empty(FA_SHAPE(3), .dtype = FA_INT64),
              *bytes = fa_empty(FA_SHAPE(3), .dtype = FA_UINT8);
    fai_mt19937 before = g->mt;
    assert_false(fai_fill_uniform("uniform_", t, 1, 0, NULL));
    assert_error(FA_ERR_RUNTIME, "uniform_ expects to return a [from, to) range, but found from=1 > to=0");
    assert_false(fai_fill_uniform("uniform_", t, NAN, 0, NULL));
    assert_error(FA_ERR_RUNTIME, "from is out of bounds for float");
    assert_false(fai_fill_uniform("uniform_", t, -3e38, 3e38, NULL));
    assert_error(FA_ERR_RUNTIME,
                 "uniform_ expects to-from <= std::numeric_limits<Float>::max(), but found to=3e+38 and from=-3e+38");
    assert_false(fai_fill_uniform("uniform_", ints, 0, 1, NULL));
    assert_error(FA_ERR_UNSUPPORTED, "\"check_uniform_bounds\" not implemented for 'Long'");
    assert_false(fai_fill_normal("normal_", t, 0, -1, NULL));
    assert_error(FA_ERR_RUNTIME, "normal expects std >= 0.0, but found std -1");
    assert_false(fai_fill_bernoulli("bernoulli_", t, 2, NULL));
    assert_error(FA_ERR_RUNTIME, "bernoulli_ expects p to be in [0, 1], but got p=2");
    assert_false(fai_fill_exponential("exponential_", t, 0, NULL));
    assert_error(FA_ERR_RUNTIME, "exponential_ expects lambda > 0.0, but found lambda=0");
    assert_false(fai_fill_randint("random_", ints, 5, 5, NULL));
    assert_error(FA_ERR_RUNTIME, "random_ expects 'from' to be less than 'to', but got from=5 >= to=5");
    assert_false(fai_fill_randint("random_", bytes, 0, 300, NULL));
    assert_error(FA_ERR_RUNTIME, "to - 1 is out of bounds for unsigned char");
    assert_null(fa_randperm(300, .dtype = FA_UINT8));
    assert_error(FA_ERR_RUNTIME, "value cannot be converted to type uint8_t without overflow");
    assert_null(fa_randperm(3000, .dtype = FA_FLOAT16));
    assert_error(FA_ERR_RUNTIME, "n cannot be greater than 2049 for Half type.");
    assert_null(fa_randperm(3, .dtype = FA_BOOL));
    assert_error(FA_ERR_UNSUPPORTED, "\"randperm\" not implemented for 'Bool'");
    assert_null(fa_randint(0, 9, FA_SHAPE(3), .requires_grad = true));
    assert_error(FA_ERR_RUNTIME, "Only Tensors of floating point");
    assert_null(fa_rand(FA_SHAPE(-1)));
    assert_error(FA_ERR_RUNTIME, "Trying to create tensor with negative dimension -1: [-1]");
    assert_memory_equal(&before, &g->mt, sizeof before);
    assert_null(fa_rand_like(NULL));
    fa_error_take();
}

static void any_allocation_may_fail(void **state) {
    (void)state;
    fa_test_caches(false);
    uint64_t live = fa_host_memory_use().bytes, failures = 0;
    for (uint64_t n = 1;; n++) {
        fa_scope_open();
        fa_test_fail_allocation(n, false);
        bool ok = fa_randn(FA_SHAPE(5, 5)) && fa_randperm(100, .dtype = FA_INT32) &&
                  fa_rand_like(fa_randint(0, 5, FA_SHAPE(3)), .dtype = FA_FLOAT16);
        uint64_t failed = fa_test_failed_allocations();
        fa_test_fail_allocation(0, false);
        fa_scope_close();
        fa_test_caches(false);
        if (failed == 0) {
            assert_true(ok);
            break;
        }
        failures += failed;
        assert_int_equal(fa_error_take().code, FA_ERR_MEMORY);
        if (n > 1) assert_true(fa_host_memory_use().bytes <= live + 4096);
    }
    assert_true(failures > 0);
    fa_test_caches(true);
}

/* ---- On an accelerator ---- */

static fa_device here(int index) { return fa_try_accelerator(index); }
static void need_device(void) {
    if (here(0).type == FA_DEVICE_CPU) skip();
}

static void philox_is_torchs(void **state) {
    (void)state;
    need_device();
    static const float uniform[2][8] = {{0.3990f, 0.5167f, 0.0249f, 0.9401f, 0.9459f, 0.7967f, 0.4150f, 0.8203f},
                                        {0.9722f, 0.7910f, 0.4690f, 0.3300f}};
    static const float normal[4] = {-0.9247f, -0.4253f, -2.6438f, 0.1452f};
    float got[8];
    fa_manual_seed(0);
    for (int call = 0; call < 2; call++) {
        assert_true(fa_to_data(fa_rand(FA_SHAPE(8), .device = here(0)), got, FA_FLOAT32));
        for (int i = 0; i < (call == 0 ? 8 : 4); i++) assert_true(fabsf(got[i] - uniform[call][i]) < 6e-5f);
    }
    fa_manual_seed(0);
    assert_true(fa_to_data(fa_randn(FA_SHAPE(4), .device = here(0)), got, FA_FLOAT32));
    for (int i = 0; i < 4; i++) assert_true(fabsf(got[i] - normal[i]) < 6e-5f);
}

static void device_draws_follow_their_law(void **state) {
    (void)state;
    need_device();
    enum { n = 200000 };
    double *x = malloc(n * sizeof *x);
    static const double mean[] = {0.5, 1, 0.3, 0.5, 4.5}, variance[] = {1.0 / 12, 4, 0.21, 0.25, 8.25};
    for (int law = 0; law < 5; law++) {
        for (fa_dtype dtype = FA_BFLOAT16; dtype <= FA_FLOAT64; dtype++) {
            FA_SCOPE;
            fa_tensor *t = fa_empty(FA_SHAPE(n), .dtype = dtype, .device = here(1));
            fa_manual_seed(1);
            bool ok = law == 0   ? fai_fill_uniform("test", t, 0, 1, NULL)
                      : law == 1 ? fai_fill_normal("test", t, 1, 2, NULL)
                      : law == 2 ? fai_fill_dropout_mask("test", t, 0.3, NULL)
                      : law == 3 ? fai_fill_exponential("test", t, 2, NULL)
                                 : fai_fill_randint("test", t, 0, 10, NULL);
            assert_true(ok && fa_to_data(t, x, FA_FLOAT64));
            double sum = 0, squares = 0;
            for (int i = 0; i < n; i++) sum += x[i];
            for (int i = 0; i < n; i++) squares += (x[i] - sum / n) * (x[i] - sum / n);
            assert_true(fabs(sum / n - mean[law]) < 0.02);
            assert_true(fabs(squares / n - variance[law]) < 0.03 * variance[law] + 0.01);
        }
    }
    free(x);
}

static void device_permutes(void **state) {
    (void)state;
    need_device();
    static const int64_t lengths[] = {1, 2, 5, 1000, 30000, 70000};
    for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
        FA_SCOPE;
        int64_t n = lengths[k], fixed = 0, *p = malloc((size_t)n * sizeof *p), *again = malloc((size_t)n * sizeof *p);
        char *seen = calloc((size_t)n, 1);
        fa_manual_seed(9);
        assert_true(fa_to_data(fa_randperm(n, .device = here(0)), p, FA_INT64));
        fa_manual_seed(9);
        assert_true(fa_to_data(fa_randperm(n, .device = here(0), .dtype = FA_INT32), again, FA_INT64));
        assert_memory_equal(p, again, (size_t)n * sizeof *p);
        for (int64_t i = 0; i < n; i++) {
            assert_true(p[i] >= 0 && p[i] < n && !seen[p[i]]);
            seen[p[i]] = 1;
            fixed += p[i] == i;
        }
        if (n >= 1000) assert_true(fixed < 10);
        free(p), free(again), free(seen);
    }
}

static void device_needs_its_own_generator(void **state) {
    (void)state;
    need_device();
    assert_null(fa_rand(FA_SHAPE(3), .device = here(0), .generator = fa_generator_new(FA_CPU)));
    char words[2][96];
    const char *name = fa_device_text(fa_accelerator());
    snprintf(words[0], sizeof words[0], "Expected a '%s' device type for generator but found 'cpu'", name);
    snprintf(words[1], sizeof words[1], "Expected a 'cpu' device type for generator but found '%s'", name);
    assert_error(FA_ERR_RUNTIME, words[0]);
    assert_null(fa_randn(FA_SHAPE(3), .generator = fa_generator_new(here(0))));
    assert_error(FA_ERR_RUNTIME, words[1]);
}

static void device_writes_by_strides(void **state) {
    (void)state;
    need_device();
    fa_tensor *whole = fa_zeros(FA_SHAPE(6, 8), .device = here(0)), *straight = fa_empty(FA_SHAPE(24), .device = here(0));
    fa_tensor *columns = fai_view("test", whole, 2, (int64_t[]){6, 4}, (int64_t[]){8, 2}, 1);
    float want[24], got[48];
    fa_manual_seed(2);
    assert_true(fai_fill_uniform("test", straight, 1, 2, NULL) && fa_to_data(straight, want, FA_FLOAT32));
    fa_manual_seed(2);
    assert_true(fai_fill_uniform("test", columns, 1, 2, NULL) && fa_to_data(whole, got, FA_FLOAT32));
    for (int i = 0; i < 48; i++) assert_true(got[i] == (i % 2 ? want[i / 8 * 4 + i % 8 / 2] : 0));
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(draws_are_torchs), TEST(bulk_words_are_the_single_ones), TEST(order_is_that_of_memory), TEST(second_normal_waits),
        TEST(generators_are_independent), TEST(range_excludes_its_end), TEST(refused_draws_leave_the_generator_alone),
        TEST(any_allocation_may_fail), TEST(philox_is_torchs), TEST(device_draws_follow_their_law), TEST(device_permutes),
        TEST(device_needs_its_own_generator), TEST(device_writes_by_strides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
