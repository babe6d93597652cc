/* Indexing, softmax, norms and nll through the public functions: values, torch's sentences, bad indices that a device tells at the call
 * or late, sums of many keys, which a device sorts, and every allocation failing in turn. */
/* test-env: - */
/* test-env: FACULA_SIM=cuda:1 */
/* test-env: FACULA_SIM=cuda:1 FACULA_CHECK=now */
/* test-env: FACULA_SIM=cuda:1 FACULA_CHECK=late */
/* test-env: FACULA_SIM=cuda:1 FACULA_CHECK=soon */
/* test-env: FACULA_SIM=cuda:1 CUDA_LAUNCH_BLOCKING=1 */
/* test-env-opencl: FACULA_OPENCL=cpu */
#include "support/check.h"
#include <fa_functional.h>

static fa_tensor *whole(fa_shape shape, const int64_t *values) { return fa_from_data(values, FA_INT64, shape, .device = device); }
#define WHOLE(shape, ...)   whole((shape), (int64_t[]){__VA_ARGS__})
#define NUMBERS(shape, ...) fa_from_data(((float[]){__VA_ARGS__}), FA_FLOAT32, (shape), .device = device)

/* An index that a device computed: nobody knows what is in it. */
#define COMPUTED(shape, ...) fa_mul_scalar(WHOLE(shape, __VA_ARGS__), FA_NUM(1))

static bool check_is(const char *mode) { return getenv("FACULA_CHECK") && !strcmp(getenv("FACULA_CHECK"), mode); }
static bool launches_wait(void) { return check_is("now") || getenv("CUDA_LAUNCH_BLOCKING"); }

/* The call meets a bad index that came from the host: the call itself says so. */
#define NOW(call, code, text) check_bad((call), FA_ERR_##code, (text), !check_is("late"), __LINE__)

/* It meets one that was computed: the CPU says so at once, a device when somebody waits. */
static void check_bad(fa_tensor *result, fa_code code, const char *text, bool known, int line) {
    if (device.type == FA_DEVICE_CPU || known || launches_wait()) {
        check_error(result, code, text, line);
        return;
    }
    if (!result || fa_synchronize(device)) fail_msg("line %d: no late error", line);
    check_error(NULL, code, text, line);
    assert_true(fa_synchronize(device)); /* it was told once, and the device works on */
}
#define LATE(call, code, text) check_bad((call), FA_ERR_##code, (text), false, __LINE__)

/* ---- along one dimension ---- */

static void gather_and_scatter(void **state) {
    (void)state;
    fa_tensor *x = counting(FA_SHAPE(2, 3)), *index = WHOLE(FA_SHAPE(2, 2), 2, 0, 1, 1);
    CHECK(fa_gather(x, 1, index), FA_SHAPE(2, 2), 2, 0, 4, 4);
    CHECK(fa_gather(fa_t(x), -2, fa_t(index)), FA_SHAPE(2, 2), 2, 4, 0, 4);
    CHECK(fa_gather(fa_select(fa_select(x, 0, 1), 0, 2), 0, WHOLE(FA_SHAPE_0D, 0)), FA_SHAPE_0D, 5);
    CHECK(fa_scatter(x, 1, index, fa_neg(x)), FA_SHAPE(2, 3), -1, 1, 0, 3, -4, 5);
    CHECK(fa_scatter_value(x, 1, index, FA_NUM(9)), FA_SHAPE(2, 3), 9, 1, 9, 3, 9, 5);
    CHECK(fa_scatter_add(x, 1, index, x), FA_SHAPE(2, 3), 1, 1, 2, 3, 11, 5);
    CHECK_EMPTY(fa_gather(x, 1, fa_empty(FA_SHAPE(2, 0), .dtype = FA_INT64, .device = device)), FA_SHAPE(2, 0));
    FAILS(fa_gather(x, 1, fa_cast(index, FA_FLOAT32)), RUNTIME, "gather(): Expected dtype int32/int64 for index");
    FAILS(fa_gather(x, 1, WHOLE(FA_SHAPE(2), 0, 1)), RUNTIME, "Index tensor must have the same number of dimensions as input");
    FAILS(fa_gather(x, 1, WHOLE(FA_SHAPE(3, 1), 0, 1, 2)), RUNTIME, "Size does not match at dimension 0 expected index [3, 1]");
    FAILS(fa_gather(x, 2, index), INDEX, "Dimension out of range (expected to be in range of [-2, 1], but got 2)");
    FAILS(fa_scatter(x, 1, index, index), RUNTIME, "scatter(): Expected self.dtype to be equal to src.dtype");
    NOW(fa_gather(x, 1, WHOLE(FA_SHAPE(1, 1), 3)), RUNTIME, "index 3 is out of bounds for dimension 1 with size 3");
    NOW(fa_gather(x, 1, WHOLE(FA_SHAPE(1, 1), -1)), RUNTIME, "index -1 is out of bounds for dimension 1 with size 3");
    NOW(fa_scatter_add(x, 0, WHOLE(FA_SHAPE(1, 1), 2), x), RUNTIME, "index 2 is out of bounds for dimension 0 with size 2");
    CHECK(x, FA_SHAPE(2, 3), 0, 1, 2, 3, 4, 5);
}

static void slices(void **state) {
    (void)state;
    fa_tensor *x = counting(FA_SHAPE(3, 2)), *index = WHOLE(FA_SHAPE(3), 2, 0, 2);
    CHECK(fa_index_select(x, 0, index), FA_SHAPE(3, 2), 4, 5, 0, 1, 4, 5);
    CHECK(fa_index_select(fa_t(x), 1, index), FA_SHAPE(2, 3), 4, 0, 4, 5, 1, 5);
    CHECK(fa_index_add(x, 0, index, fa_add(x, x)), FA_SHAPE(3, 2), 4, 7, 2, 3, 12, 17);
    CHECK(fa_embedding(x, WHOLE(FA_SHAPE(2, 1), 1, 2), -1), FA_SHAPE(2, 1, 2), 2, 3, 4, 5);
    CHECK(fa_embedding(x, fa_cast(index, FA_INT32), -1), FA_SHAPE(3, 2), 4, 5, 0, 1, 4, 5);
    CHECK(fa_embedding_backward(x, index, FA_SHAPE(3, 2), 0), FA_SHAPE(3, 2), 0, 0, 0, 0, 4, 6);
    FAILS(fa_index_select(x, 0, WHOLE(FA_SHAPE(1, 1), 0)), INDEX, "index_select(): Index is supposed to be a vector");
    FAILS(fa_embedding(x, fa_cast(index, FA_FLOAT32), -1), RUNTIME,
          "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got");
    NOW(fa_index_select(x, 0, WHOLE(FA_SHAPE(1), 3)), INDEX, "index out of range in self");
    NOW(fa_embedding(x, WHOLE(FA_SHAPE(1), -1), -1), INDEX, "index out of range in self");
    FAILS(fa_index_select(fa_empty(FA_SHAPE(0, 2), .device = device), 0, index), INDEX, "index is out of bounds for dimension 0");
}

/* ---- x[...] ---- */

#define INDEX(x, ...)                                                                                                            \
    fa_index((x), (fa_tensor *[]){__VA_ARGS__}, (int)(sizeof((fa_tensor *[]){__VA_ARGS__}) / sizeof(fa_tensor *)))
#define PUT(x, values, add, ...)                                                                                                 \
    fa_index_put((x), (fa_tensor *[]){__VA_ARGS__}, (int)(sizeof((fa_tensor *[]){__VA_ARGS__}) / sizeof(fa_tensor *)), (values), \
                 (add))

static void advanced_reading(void **state) {
    (void)state;
    fa_tensor *x = counting(FA_SHAPE(2, 3, 2)), *i = WHOLE(FA_SHAPE(2), 1, -2), *j = WHOLE(FA_SHAPE(2), 2, 0);
    fa_tensor *column = WHOLE(FA_SHAPE(2, 1), 0, 1);
    CHECK(INDEX(x, i), FA_SHAPE(2, 3, 2), 6, 7, 8, 9, 10, 11, 0, 1, 2, 3, 4, 5);
    CHECK(INDEX(x, i, j), FA_SHAPE(2, 2), 10, 11, 0, 1);
    CHECK(INDEX(x, NULL, j), FA_SHAPE(2, 2, 2), 4, 5, 0, 1, 10, 11, 6, 7);
    CHECK(INDEX(x, column, j), FA_SHAPE(2, 2, 2), 4, 5, 0, 1, 10, 11, 6, 7);
    CHECK(INDEX(x, i, NULL, i), FA_SHAPE(2, 3), 7, 9, 11, 0, 2, 4); /* not neighbours: in front */
    CHECK(INDEX(x, WHOLE(FA_SHAPE_0D, 1), WHOLE(FA_SHAPE_0D, 0)), FA_SHAPE(2), 6, 7);
    CHECK(INDEX(fa_transpose(x, 0, 2), i, j), FA_SHAPE(2, 2), 5, 11, 0, 6);
    fa_tensor *mask = fa_gt(fa_select(x, 2, 0), fa_full_like(fa_select(x, 2, 0), FA_NUM(5)));
    CHECK(INDEX(x, mask), FA_SHAPE(3, 2), 6, 7, 8, 9, 10, 11);
}

static void advanced_errors(void **state) {
    (void)state;
    fa_tensor *x = counting(FA_SHAPE(2, 3)), *i = WHOLE(FA_SHAPE(2), 0, 1);
    FAILS(INDEX(x, i, i, i), INDEX, "too many indices for tensor of dimension 2");
    fa_tensor *nothing = fa_empty(FA_SHAPE(0, 0, 2), .device = device); /* no elements, whatever the index */
    FAILS(INDEX(nothing, NULL, i), INDEX, "index is out of bounds for dimension 1 with size 0: there is nothing to index");
    CHECK_EMPTY(INDEX(nothing, NULL, WHOLE(FA_SHAPE(0))), FA_SHAPE(0, 0, 2));
    FAILS(INDEX(x, i, WHOLE(FA_SHAPE(3), 0, 1, 2)), INDEX,
          "shape mismatch: indexing tensors could not be broadcast together with shapes [2], [3]");
    FAILS(INDEX(x, fa_cast(i, FA_FLOAT32)), INDEX, "tensors used as indices must be long, int, byte or bool tensors");
    FAILS(INDEX(x, fa_cast(WHOLE(FA_SHAPE(3), 0, 1, 1), FA_BOOL)), INDEX,
          "The shape of the mask [3] at index 0 does not match the shape of the indexed tensor [2, 3] at index 0");
    NOW(INDEX(x, NULL, WHOLE(FA_SHAPE(1), 3)), INDEX, "index 3 is out of bounds for dimension 1 with size 3");
    NOW(INDEX(x, i, WHOLE(FA_SHAPE(1), -4)), INDEX, "index -4 is out of bounds for dimension 1 with size 3");
    FAILS(PUT(x, i, false, i), RUNTIME,
          "Index put requires the source and destination dtypes match, got Float for the destination");
    FAILS(PUT(x, NUMBERS(FA_SHAPE(2), 1, 2), false, i), RUNTIME,
          "shape mismatch: value tensor of shape [2] cannot be broadcast to indexing result of shape [2, 3]");
}

static void advanced_writing(void **state) {
    (void)state;
    fa_tensor *x = counting(FA_SHAPE(2, 3)), *i = WHOLE(FA_SHAPE(2), 1, 1), *j = WHOLE(FA_SHAPE(2), 2, -1);
    fa_tensor *one = NUMBERS(FA_SHAPE_0D, 10), *line = NUMBERS(FA_SHAPE(3), 10, 20, 30);
    CHECK(PUT(x, one, false, i, j), FA_SHAPE(2, 3), 0, 1, 2, 3, 4, 10);
    CHECK(PUT(x, one, true, i, j), FA_SHAPE(2, 3), 0, 1, 2, 3, 4, 25);
    CHECK(PUT(x, line, true, i), FA_SHAPE(2, 3), 0, 1, 2, 23, 44, 65);
    CHECK(PUT(x, fa_reshape(fa_narrow(line, 0, 0, 2), FA_SHAPE(2, 1)), true, NULL, j), FA_SHAPE(2, 3), 0, 1, 22, 3, 4, 45);
    CHECK(PUT(x, one, false, NULL, NULL), FA_SHAPE(2, 3), 10, 10, 10, 10, 10, 10);
    CHECK(PUT(x, one, true, NULL, NULL), FA_SHAPE(2, 3), 10, 11, 12, 13, 14, 15);
    CHECK(PUT(x, one, false, fa_gt(x, fa_full_like(x, FA_NUM(3)))), FA_SHAPE(2, 3), 0, 1, 2, 3, 10, 10);
    CHECK(x, FA_SHAPE(2, 3), 0, 1, 2, 3, 4, 5);
}

static void nonzeros(void **state) {
    (void)state;
    fa_tensor *x = NUMBERS(FA_SHAPE(2, 3), 0, 2, 0, -1, 0, 0.25f);
    CHECK(fa_nonzero(x), FA_SHAPE(3, 2), 0, 1, 1, 0, 1, 2);
    CHECK(fa_nonzero(fa_t(x)), FA_SHAPE(3, 2), 0, 1, 1, 0, 2, 1);
    CHECK_EMPTY(fa_nonzero(fa_zeros_like(x)), FA_SHAPE(0, 2));
    CHECK_EMPTY(fa_nonzero(fa_empty(FA_SHAPE(0, 3), .device = device)), FA_SHAPE(0, 2));
    CHECK_EMPTY(fa_nonzero(NUMBERS(FA_SHAPE_0D, 1)), FA_SHAPE(1, 0));
    fa_tensor *many = fa_nonzero(fa_ones(FA_SHAPE(3, 3000), .device = device));
    CHECK(fa_select(many, 0, 8999), FA_SHAPE(2), 2, 2999);
    CHECK(fa_sum(fa_select(many, 1, 0)), FA_SHAPE_0D, 9000);
}

/* ---- many keys ---- */

/* Positions p = 0 .. n-1 with key p * 7919 % rows: index_add's sums have known values. */
static void sums_of_many_keys(void **state) {
    (void)state;
    enum { N = 3000, ROWS = 700, WIDTH = 3 };
    int64_t keys[N];
    static double expected[ROWS * WIDTH], found[ROWS * WIDTH];
    memset(expected, 0, sizeof expected);
    for (int p = 0; p < N; p++) {
        keys[p] = (int64_t)p * 7919 % ROWS;
        for (int c = 0; c < WIDTH; c++) expected[keys[p] * WIDTH + c] += p * WIDTH + c;
    }
    fa_tensor *src = counting(FA_SHAPE(N, WIDTH)), *zeros = fa_zeros(FA_SHAPE(ROWS, WIDTH), .device = device);
    fa_tensor *index = whole(FA_SHAPE(N), keys);
    for (int dtype = FA_FLOAT32; dtype <= FA_FLOAT64; dtype++) {
        assert_true(fa_to_data(fa_index_add(fa_cast(zeros, dtype), 0, index, fa_cast(src, dtype)), found, FA_FLOAT64));
        assert_memory_equal(found, expected, sizeof found); /* whole numbers: exact */
    }
    fa_tensor *whole_sums = fa_index_add(fa_cast(zeros, FA_INT32), 0, index, fa_cast(src, FA_INT32));
    assert_true(fa_to_data(whole_sums, found, FA_FLOAT64));
    assert_memory_equal(found, expected, sizeof found);
    /* 1 + 1 + ... in float16 stays at 2048 if every step is rounded; a sum is rounded once */
    fa_tensor *ones = fa_ones(FA_SHAPE(4000, 1), .dtype = FA_FLOAT16, .device = device);
    fa_tensor *same = fa_zeros(FA_SHAPE(4000), .dtype = FA_INT64, .device = device);
    CHECK(fa_index_add(fa_zeros(FA_SHAPE(1, 1), .dtype = FA_FLOAT16, .device = device), 0, same, ones), FA_SHAPE(1, 1), 4000);
}

/* ---- softmax, norms, nll ---- */

static void softmax_forms(void **state) {
    (void)state;
    fa_tensor *x = NUMBERS(FA_SHAPE(2, 2), 0, logf(3), 1000, 1000);
    CHECK(fa_softmax(x, 1), FA_SHAPE(2, 2), 0.25, 0.75, 0.5, 0.5);
    CHECK(fa_softmax(fa_t(x), 0), FA_SHAPE(2, 2), 0.25, 0.5, 0.75, 0.5);
    CHECK(fa_log_softmax(x, -1), FA_SHAPE(2, 2), -1.3862944, -0.2876821, -0.6931472, -0.6931472);
    CHECK(fa_softmax(NUMBERS(FA_SHAPE_0D, 3), 0), FA_SHAPE_0D, 1);
    CHECK_EMPTY(fa_softmax(fa_empty(FA_SHAPE(2, 0), .device = device), 1), FA_SHAPE(2, 0));
    CHECK(fa_cumsum(WHOLE(FA_SHAPE(2, 2), 1, 2, 3, 4), 0), FA_SHAPE(2, 2), 1, 2, 4, 6);
    FAILS(fa_softmax(WHOLE(FA_SHAPE(1), 1), 0), UNSUPPORTED, "\"softmax_lastdim_kernel_impl\" not implemented for 'Long'");
    FAILS(fa_softmax(x, 2), INDEX, "Dimension out of range (expected to be in range of [-2, 1], but got 2)");
}

static void norms(void **state) {
    (void)state;
    fa_tensor *x = NUMBERS(FA_SHAPE(2, 2), 1, 3, -2, 4), *two = NUMBERS(FA_SHAPE(2), 2, 2),
              *three = NUMBERS(FA_SHAPE(3), 1, 1, 1);
    fa_tensor *mean = fa_zeros(FA_SHAPE(2), .device = device), *var = fa_ones(FA_SHAPE(2), .device = device);
    CHECK(fa_layer_norm(x, FA_SHAPE(2), .eps = 0), FA_SHAPE(2, 2), -1, 1, -1, 1);
    CHECK(fa_layer_norm(x, FA_SHAPE(2), .weight = two, .bias = two, .eps = 0), FA_SHAPE(2, 2), 0, 4, 0, 4);
    CHECK(fa_batch_norm(x, mean, var, .training = true, .eps = 0), FA_SHAPE(2, 2), 1, -1, -1, 1);
    CHECK(mean, FA_SHAPE(2), -0.05, 0.35);
    CHECK(var, FA_SHAPE(2), 1.35, 0.95);
    CHECK(fa_batch_norm(x, fa_zeros_like(mean), fa_ones_like(var), .weight = two, .eps = 0), FA_SHAPE(2, 2), 2, 6, -4, 8);
    FAILS(fa_layer_norm(x, FA_SHAPE(3)), RUNTIME,
          "Given normalized_shape=[3], expected input with shape [*, 3], but got input of size[2, 2]");
    FAILS(fa_layer_norm(x, FA_SHAPE(2), .weight = three), RUNTIME, "Expected weight to be of same shape as normalized_shape");
    FAILS(fa_batch_norm(x, three, var), RUNTIME, "running_mean should contain 2 elements not 3");
    FAILS(fa_batch_norm(x, NULL, NULL), RUNTIME, "Expected running_mean and running_var to be defined");
    FAILS(fa_batch_norm(fa_narrow(x, 0, 0, 1), mean, var, .training = true), VALUE,
          "Expected more than 1 value per channel when training, got input size torch.Size([1, 2])");
    CHECK(mean, FA_SHAPE(2), -0.05, 0.35);
}

static void nll(void **state) {
    (void)state;
    fa_tensor *x = NUMBERS(FA_SHAPE(2, 3), -1, -2, -3, -4, -5, -6), *t = WHOLE(FA_SHAPE(2), 2, 0);
    fa_tensor *weight = NUMBERS(FA_SHAPE(3), 1, 2, 3), *skip = WHOLE(FA_SHAPE(2), -100, -100);
    CHECK(fa_nll_loss(x, t), FA_SHAPE_0D, 3.5);
    CHECK(fa_nll_loss(x, t, .reduction = "sum", .weight = weight), FA_SHAPE_0D, 13);
    CHECK(fa_nll_loss(x, t, .weight = weight), FA_SHAPE_0D, 3.25);
    CHECK(fa_nll_loss(x, t, .reduction = "none"), FA_SHAPE(2), 3, 4);
    CHECK(fa_nll_loss(x, fa_cast(t, FA_UINT8), .ignore_index = 0), FA_SHAPE_0D, 3);
    CHECK(fa_nll_loss(x, skip), FA_SHAPE_0D, NAN);
    CHECK(fa_nll_loss(fa_select(x, 0, 1), WHOLE(FA_SHAPE_0D, 1)), FA_SHAPE_0D, 5);
    FAILS(fa_nll_loss(x, fa_cast(t, FA_INT32)), RUNTIME, "expected target dtype to be Long or Byte, but got Int");
    FAILS(fa_nll_loss(x, WHOLE(FA_SHAPE(1), 0)), VALUE, "Expected input batch_size (2) to match target batch_size (1).");
    FAILS(fa_nll_loss(x, WHOLE(FA_SHAPE(2, 1), 0, 0)), RUNTIME, "0D or 1D target tensor expected, multi-target not supported");
    FAILS(fa_nll_loss(x, t, .weight = NUMBERS(FA_SHAPE(4), 1, 1, 1, 1)), RUNTIME,
          "weight tensor should be defined either for all 3 classes or no classes but got weight tensor of shape: [4]");
    FAILS(fa_nll_loss(x, t, .reduction = "avg"), VALUE, "avg is not a valid value for reduction");
    NOW(fa_nll_loss(x, WHOLE(FA_SHAPE(2), 0, 3)), INDEX, "Target 3 is out of bounds.");
}

/* ---- no memory ---- */

/* Every operator once; NULL as soon as one fails. */
static bool all_of_them(void) {
    FA_SCOPE;
    fa_tensor *x = counting(FA_SHAPE(3, 40)), *i = WHOLE(FA_SHAPE(3), 2, 0, 2),
              *index = fa_reshape(fa_index_select(i, 0, i), FA_SHAPE(3, 1));
    fa_tensor *mask = fa_gt(x, fa_full_like(x, FA_NUM(50)));
    fa_tensor *many = fa_cast(fa_remainder_scalar(fa_reshape(x, FA_SHAPE(120)), FA_NUM(3)), FA_INT64);
    fa_tensor *wide = fa_cast(fa_expand(fa_unsqueeze(fa_select(x, 0, 0), 0), FA_SHAPE(120, 40)), FA_FLOAT16);
    fa_tensor *mean = fa_zeros(FA_SHAPE(40), .device = device), *var = fa_ones(FA_SHAPE(40), .device = device);
    fa_tensor *results[] = {fa_gather(x, 1, index),
                            fa_scatter(x, 1, index, x),
                            fa_scatter_value(x, 1, index, FA_NUM(1)),
                            fa_scatter_add(x, 1, index, x),
                            fa_index_add(x, 0, i, x),
                            INDEX(x, i, i),
                            INDEX(x, mask),
                            PUT(x, fa_select(x, 0, 0), true, i),
                            PUT(x, fa_select(x, 0, 0), false, i),
                            fa_nonzero(x),
                            fa_embedding(x, i, -1),
                            fa_index_add(fa_cast(x, FA_FLOAT16), 0, many, wide),
                            fa_cumsum(fa_t(x), 1),
                            fa_softmax(fa_t(x), 0),
                            fa_layer_norm(x, FA_SHAPE(40)),
                            fa_batch_norm(x, mean, var, .training = true),
                            fa_nll_loss(x, i)};
    for (size_t k = 0; k < sizeof results / sizeof *results; k++)
        if (!results[k]) return false;
    return fa_synchronize(device);
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    assert_true(all_of_them());
    fa_test_caches(false);
    assert_true(all_of_them());
    const uint64_t before = fa_host_memory_use().blocks;
    uint64_t failures = 0;
    for (uint64_t n = 1;; n++) {
        fa_test_fail_allocation(n, false);
        const bool done = all_of_them();
        fa_test_fail_allocation(0, false);
        if (done) break;
        const fa_error e = fa_error_take();
        if (e.code != FA_ERR_MEMORY && e.code != FA_ERR_DEVICE_MEMORY && e.code != FA_ERR_DEVICE)
            fail_msg("allocation %d: code %d, %s: %s", (int)n, e.code, e.op, e.text);
        fa_synchronize(device);
        fa_error_take();
        assert_int_equal(fa_host_memory_use().blocks, before);
        failures++;
    }
    assert_true(failures > 20);
    fa_test_caches(true);
}

/* ---- what is known before a launch ---- */

/* In this order the first bad element stands; its number counts in rows of the index as the caller sees it. */
static void the_place_of_a_bad_index(void **state) {
    (void)state;
    fa_tensor *x = counting(FA_SHAPE(4, 2)), *index = WHOLE(FA_SHAPE(2, 3), 0, 3, 1, 2, 4, 5);
    NOW(fa_embedding(x, index, -1), INDEX,
        "index out of range in self. Index 4 was found, and dimension 0 has size 4: indices go from 0 to 3. It is element 4 of 'index'");
    NOW(fa_embedding(x, fa_t(index), -1), INDEX, "index out of range in self. Index 4 was found, and dimension 0 has size 4: indices go "
                                                 "from 0 to 3. It is element 3 of 'index'");
    CHECK(fa_embedding(x, fa_select(index, 0, 0), -1), FA_SHAPE(3, 2), 0, 1, 6, 7, 2, 3); /* of a view, its own elements count */
    LATE(fa_index_select(x, 0, COMPUTED(FA_SHAPE(3), 0, 1, 9)), INDEX, "index out of range in self. Index 9 was found, and dimension 0 has "
                                                                       "size 4: indices go from 0 to 3. It is element 2 of 'index'");
    LATE(fa_gather(x, 0, COMPUTED(FA_SHAPE(2, 2), 0, 1, -1, 2)), RUNTIME,
         "index -1 is out of bounds for dimension 0 with size 4. Indices go from 0 to 3. It is element 2 of 'index'");
    LATE(INDEX(x, COMPUTED(FA_SHAPE(2), 0, 4), NULL), INDEX,
         "index 4 is out of bounds for dimension 0 with size 4. Indices go from -4 to 3. It is element 1 of 'indices'");
    LATE(fa_cross_entropy(x, COMPUTED(FA_SHAPE(4), 0, 1, 0, 2)), INDEX,
         "Target 2 is out of bounds. There are 2 classes: targets go from 0 to 1. It is element 3 of 'target'");
}

/* Some operators have sentences of their own. */
static void words_of_operators(void **state) {
    (void)state;
    fa_tensor *x = counting(FA_SHAPE(2, 3)), *bad = WHOLE(FA_SHAPE(2), 0, 9), *computed = COMPUTED(FA_SHAPE(2), 0, -7);
    NOW(fa_take(x, bad), INDEX, "out of range: tried to access index 9 on a tensor of 6 elements. Indices go from -6 to 5. It is element 1");
    LATE(fa_take(x, computed), INDEX, "out of range: tried to access index -7 on a tensor of 6 elements.");
    NOW(fa_put_(fa_clone(x), bad, NUMBERS(FA_SHAPE(2), 1, 2), false), INDEX, "out of range: tried to access index 9 on a tensor of 6 elements.");
    NOW(fa_multi_margin_loss(x, bad), RUNTIME, "target out of range. Target 9 was found, and there are 3 classes: targets go from 0 to 2.");
    LATE(fa_multi_margin_loss(x, computed), RUNTIME, "target out of range. Target -7 was found");
    NOW(fa_index_add(x, 0, bad, x), RUNTIME, "index 9 is out of bounds for dimension 0 with size 2.");
    NOW(fa_index_add(fa_select(x, 0, 0), 0, bad, fa_ones(FA_SHAPE(2), .device = device)), INDEX, "index out of range in self. Index 9");
    NOW(fa_gather(x, 0, fa_expand(fa_reshape(bad, FA_SHAPE(2, 1)), FA_SHAPE(2, 3))), RUNTIME,
        "index 9 is out of bounds for dimension 0 with size 2. Indices go from 0 to 1. It is element 1 of 'index'");
    if (device.type == FA_DEVICE_CPU) return;
    fa_tensor *here = fa_ints(1, 0); /* an index may stay on the CPU */
    CHECK(INDEX(x, here), FA_SHAPE(2, 3), 3, 4, 5, 0, 1, 2);
    CHECK(PUT(x, NUMBERS(FA_SHAPE(1), 7), false, here), FA_SHAPE(2, 3), 7, 7, 7, 7, 7, 7);
    FAILS(INDEX(fa_cpu(x), fa_to(here, device)), RUNTIME,
          "indices should be either on cpu or on the same device as the indexed tensor (cpu); found an index on ");
}

static int waits(void) { return device.type == FA_DEVICE_CPU ? 0 : (int)fa_device_get_counts(device).waits; }

/* Right ones cost no wait, also with a value that is ignored, above or below the classes. */
static void known_indices_cost_no_wait(void **state) {
    (void)state;
    fa_tensor *x = counting(FA_SHAPE(4, 2)), *plain = WHOLE(FA_SHAPE(4), 0, 1, 1, 0), *below = WHOLE(FA_SHAPE(4), 0, -100, 1, -100),
              *above = WHOLE(FA_SHAPE(4), 255, 1, 0, 255), *only = WHOLE(FA_SHAPE(4), -100, -100, -100, -100), *both = fa_clone(below);
    const int before = waits();
    assert_non_null(fa_cross_entropy(x, plain));
    assert_non_null(fa_cross_entropy(x, below));
    assert_non_null(fa_cross_entropy(x, both));
    assert_non_null(fa_cross_entropy(x, above, .ignore_index = 255));
    assert_non_null(fa_cross_entropy(x, only));
    assert_non_null(fa_embedding(x, plain, -1));
    assert_non_null(INDEX(x, plain, NULL));
    if (!launches_wait()) assert_int_equal(waits() - before, 0);
    NOW(fa_cross_entropy(x, above), INDEX, "Target 255 is out of bounds.");
    NOW(fa_cross_entropy(x, below, .ignore_index = 255), INDEX, "Target -100 is out of bounds.");
    assert_true(fa_synchronize(device));
}

static char warning[200];
static void keep_warning(const char *op, const char *text) { snprintf(warning, sizeof warning, "%s: %s", op, text); }

/* Of the first index on a device: this test is the first. */
static void a_mode_that_is_none(void **state) {
    (void)state;
    fai_set_warn(keep_warning);
    WHOLE(FA_SHAPE(1), 0);
    fai_set_warn(NULL);
    assert_string_equal(warning, check_is("soon") ? "FACULA_CHECK: 'soon' is none of now, late and known: known is taken" : "");
}

/* What is written after the copy counts, on whichever way; and nothing is written where a bad index points. */
static void what_is_known_is_forgotten(void **state) {
    (void)state;
    fa_tensor *x = counting(FA_SHAPE(4, 2)), *index = WHOLE(FA_SHAPE(2), 9, 9);
    fa_fill_(index, FA_NUM(3));
    CHECK(fa_embedding(x, index, -1), FA_SHAPE(2, 2), 6, 7, 6, 7);
    fa_copy_(index, WHOLE(FA_SHAPE(2), 1, 8));
    NOW(fa_embedding(x, index, -1), INDEX, "index out of range in self. Index 8 was found");
    fa_copy_(fa_slice(index, 0, 1, 2, 1), WHOLE(FA_SHAPE(1), 0));
    CHECK(fa_embedding(x, index, -1), FA_SHAPE(2, 2), 2, 3, 0, 1);
    fa_tensor *zeros = fa_zeros(FA_SHAPE(4), .device = device);
    LATE(fa_scatter_value_(zeros, 0, COMPUTED(FA_SHAPE(2), 5, 6), FA_NUM(7)), RUNTIME, "index 5 is out of bounds");
    CHECK(zeros, FA_SHAPE(4), 0, 0, 0, 0);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(a_mode_that_is_none),
        TEST(the_place_of_a_bad_index),
        TEST(words_of_operators),
        TEST(known_indices_cost_no_wait),
        TEST(what_is_known_is_forgotten),
        TEST(gather_and_scatter),
        TEST(slices),
        TEST(advanced_reading),
        TEST(advanced_errors),
        TEST(advanced_writing),
        TEST(nonzeros),
        TEST(sums_of_many_keys),
        TEST(softmax_forms),
        TEST(norms),
        TEST(nll),
        TEST(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : fa_finish("test_index");
}
