/* Printing: every row is what torch prints for the same tensor. The same tensors on an accelerator print the same, with device=.
 *
 * test-env: -
 * test-env: FACULA_SIM=cuda:2 */
#include <facula.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int begin(void **state) {
    (void)state;
    fa_scope_open();
    fa_set_print_options(NULL);
    return 0;
}

static int end(void **state) {
    (void)state;
    fa_scope_close();
    fa_set_print_options(NULL);
    if (fa_failed()) fprintf(stderr, "left over: %s\n", fa_error_peek()->text);
    return fa_error_take().code == FA_OK ? 0 : -1;
}

static void prints(fa_tensor *t, const char *want) {
    char text[8192];
    size_t n = fa_to_text(t, text, sizeof text);
    assert_string_equal(text, want);
    assert_int_equal(n, strlen(want));
}

#define COUNT(type, ...) FA_SHAPE((int64_t)(sizeof((type[]){__VA_ARGS__}) / sizeof(type)))
#define VALUES(as, ...) \
    fa_from_data_with((double[]){__VA_ARGS__}, FA_FLOAT64, COUNT(double, __VA_ARGS__), FA_TENSOR_OPTIONS(.dtype = as))
#define FLOATS(...) VALUES(FA_FLOAT32, __VA_ARGS__)
#define INTS(...) fa_from_data_with((int64_t[]){__VA_ARGS__}, FA_INT64, COUNT(int64_t, __VA_ARGS__), NULL)

static void whole_numbers(void **state) {
    (void)state;
    prints(INTS(1, 2, 3), "tensor([1, 2, 3])");
    prints(INTS(1, -20, 300), "tensor([  1, -20, 300])");
    prints(fa_full(FA_SHAPE_0D, 5), "tensor(5)");
    prints(fa_full(FA_SHAPE_0D, (bool)true), "tensor(True)");
    prints(VALUES(FA_BOOL, 1, 0), "tensor([ True, False])");
    prints(INTS(1ll << 40, 1), "tensor([1099511627776,             1])");
    prints(INTS(INT64_MIN), "tensor([-9223372036854775808])");
    prints(VALUES(FA_UINT8, 1, 2), "tensor([1, 2], dtype=torch.uint8)");
    prints(VALUES(FA_INT8, 1, 2), "tensor([1, 2], dtype=torch.int8)");
    prints(VALUES(FA_INT16, 1, 2), "tensor([1, 2], dtype=torch.int16)");
    prints(VALUES(FA_INT32, 1, 2), "tensor([1, 2], dtype=torch.int32)");
}

static void empty_tensors(void **state) {
    (void)state;
    prints(fa_zeros(FA_SHAPE(0)), "tensor([])");
    prints(fa_zeros(FA_SHAPE(0, 3)), "tensor([], size=(0, 3))");
    prints(fa_zeros(FA_SHAPE(0), .dtype = FA_INT64), "tensor([], dtype=torch.int64)");
    prints(fa_zeros(FA_SHAPE(2, 0), .dtype = FA_INT32), "tensor([], size=(2, 0), dtype=torch.int32)");
}

static void fractions(void **state) {
    (void)state;
    prints(fa_full(FA_SHAPE_0D, 5.0), "tensor(5.)");
    prints(fa_full(FA_SHAPE_0D, 3.14159265), "tensor(3.1416)");
    prints(fa_full(FA_SHAPE_0D, 1e-8), "tensor(1.0000e-08)");
    prints(fa_full(FA_SHAPE_0D, 1234567.0), "tensor(1234567.)");
    prints(fa_full(FA_SHAPE_0D, 1e9), "tensor(1.0000e+09)");
    prints(FLOATS(1, 2, 3), "tensor([1., 2., 3.])");
    prints(FLOATS(1, 2.5), "tensor([1.0000, 2.5000])");
    prints(FLOATS(-1.5, 2.25), "tensor([-1.5000,  2.2500])");
    prints(FLOATS(1e-5, 1), "tensor([1.0000e-05, 1.0000e+00])");
    prints(FLOATS(1e-4, 1), "tensor([1.0000e-04, 1.0000e+00])");
    prints(FLOATS(1e-3, 1), "tensor([0.0010, 1.0000])");
    prints(FLOATS(99999, 1), "tensor([9.9999e+04, 1.0000e+00])");
    prints(FLOATS(1e8), "tensor([100000000.])");
    prints(FLOATS(123456789), "tensor([1.2346e+08])");
    prints(FLOATS(1, 1000), "tensor([   1., 1000.])");
    prints(FLOATS(1, 1001.5), "tensor([1.0000e+00, 1.0015e+03])");
    prints(FLOATS(0, 0), "tensor([0., 0.])");
    prints(FLOATS(-0.0), "tensor([-0.])");
    prints(FLOATS(0.99999), "tensor([1.0000])");
    prints(FLOATS(1.99999999), "tensor([2.])");
    prints(FLOATS(12345.678), "tensor([12345.6777])");
    prints(FLOATS(1e38, 1e-38, -1), "tensor([ 1.0000e+38,  1.0000e-38, -1.0000e+00])");
}

static void numbers_that_are_none(void **state) {
    (void)state;
    prints(FLOATS(NAN, 1), "tensor([nan, 1.])");
    prints(FLOATS(-NAN), "tensor([nan])");
    prints(FLOATS(INFINITY, -INFINITY, NAN), "tensor([inf, -inf, nan])");
    prints(FLOATS(INFINITY, 1.5), "tensor([   inf, 1.5000])");
    prints(FLOATS(NAN, 100000, 3), "tensor([       nan, 1.0000e+05, 3.0000e+00])");
}

static void other_precisions(void **state) {
    (void)state;
    prints(VALUES(FA_FLOAT64, 1, 2), "tensor([1., 2.], dtype=torch.float64)");
    prints(VALUES(FA_FLOAT16, .1, .2), "tensor([0.1000, 0.2000], dtype=torch.float16)");
    prints(VALUES(FA_BFLOAT16, .1, .2), "tensor([0.1001, 0.2002], dtype=torch.bfloat16)");
    prints(VALUES(FA_BFLOAT16, 1000.5, 2.25), "tensor([1000.0000,    2.2500], dtype=torch.bfloat16)");
}

static void several_dimensions(void **state) {
    (void)state;
    prints(fa_reshape(fa_arange(0.0, 6.0, 1.0), FA_SHAPE(2, 3)), "tensor([[0., 1., 2.],\n        [3., 4., 5.]])");
    fa_tensor *cube = fa_div_scalar(fa_reshape(fa_arange(0.0, 8.0, 1.0), FA_SHAPE(2, 2, 2)), FA_NUM(3));
    prints(cube,
           "tensor([[[0.0000, 0.3333],\n         [0.6667, 1.0000]],\n\n        [[1.3333, 1.6667],\n         [2.0000, 2.3333]]])");
    prints(fa_arange(0, 40, 1),
           "tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,\n"
           "        18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35,\n        36, 37, 38, 39])");
    fa_tensor *matrix = fa_reshape(fa_arange(0, 4, 1), FA_SHAPE(2, 2));
    prints(fa_transpose(matrix, 0, 1), "tensor([[0, 2],\n        [1, 3]])");
}

static void long_tensors_show_their_edges(void **state) {
    (void)state;
    prints(fa_arange(0, 1001, 1), "tensor([   0,    1,    2,  ...,  998,  999, 1000])");
    prints(fa_zeros(FA_SHAPE(1001, 2)),
           "tensor([[0., 0.],\n        [0., 0.],\n        [0., 0.],\n        ...,\n        [0., 0.],\n"
           "        [0., 0.],\n        [0., 0.]])");
    char text[4096];
    static const char first_rows[] = "tensor([[0.0000e+00, 1.0000e+00, 2.0000e+00,  ..., 4.7000e+01, 4.8000e+01,\n"
                                     "         4.9000e+01],\n        [5.0000e+01, 5.1000e+01, 5.2000e+01,  ..., 9.7000e+01, "
                                     "9.8000e+01,\n         9.9000e+01],\n";
    fa_to_text(fa_reshape(fa_arange(0.0, 2000.0, 1.0), FA_SHAPE(40, 50)), text, sizeof text);
    assert_memory_equal(text, first_rows, sizeof first_rows - 1);
}

static void options_change_it(void **state) {
    (void)state;
    fa_print_options o = {sizeof o, 2, 1000, 3, 80, -1};
    fa_set_print_options(&o);
    prints(FLOATS(1, 2.345678), "tensor([1.00, 2.35])");
    o.sci_mode = 1;
    fa_set_print_options(&o);
    prints(FLOATS(1, 2.345678), "tensor([1.00e+00, 2.35e+00])");
    o.sci_mode = 0;
    fa_set_print_options(&o);
    prints(FLOATS(1e-8, 1), "tensor([0.00, 1.00])");
    o = (fa_print_options){sizeof o, 4, 5, 1, 80, -1};
    fa_set_print_options(&o);
    prints(fa_arange(0, 6, 1), "tensor([0,  ..., 5])");
    prints(fa_reshape(fa_arange(0, 12, 1), FA_SHAPE(3, 4)), "tensor([[ 0,  ...,  3],\n        ...,\n        [ 8,  ..., 11]])");
    o = (fa_print_options){sizeof o, 2, 1000, 2, 80, -1};
    fa_set_print_options(&o);
    prints(fa_arange(0, 1001, 1), "tensor([   0,    1,  ...,  999, 1000])");
    o = (fa_print_options){sizeof o, 4, 1000, 0, 80, -1};
    fa_set_print_options(&o);
    prints(fa_arange(0, 2000, 1), "tensor([...], size=(2000,))");
    o = (fa_print_options){sizeof o, 4, 1000, 3, 10, -1};
    fa_set_print_options(&o);
    prints(VALUES(FA_INT32, 1, 2, 3), "tensor([1,\n        2,\n        3],\n       dtype=torch.int32)");
}

static void gradients_show(void **state) {
    (void)state;
    fa_tensor *x = fa_requires_grad(FLOATS(1, 2), true);
    prints(x, "tensor([1., 2.], requires_grad=True)");
    fa_tensor *y = fa_mul_scalar(x, FA_NUM(2));
    prints(y, "tensor([2., 4.], grad_fn=<MulBackward0>)");
    prints(fa_sum(y), "tensor(6., grad_fn=<SumBackward0>)");
    fa_tensor *d = fa_requires_grad(VALUES(FA_FLOAT64, 1, 2), true);
    prints(fa_exp(d), "tensor([2.7183, 7.3891], dtype=torch.float64, grad_fn=<ExpBackward0>)");
}

static void text_is_cut_to_its_room(void **state) {
    (void)state;
    char text[8] = "xxxxxxx";
    assert_int_equal(fa_to_text(INTS(1, 2, 3), text, sizeof text), 17);
    assert_string_equal(text, "tensor(");
    assert_int_equal(fa_to_text(INTS(1, 2, 3), NULL, 0), 17);
    assert_int_equal(fa_to_text(NULL, text, sizeof text), 0);
    assert_string_equal(text, "");
    assert_true(fa_failed());
    fa_error_take();
}

static void any_allocation_may_fail(void **state) {
    (void)state;
    char text[4096];
    fa_tensor *t = fa_arange(0, 2000, 1);
    fa_test_caches(false);
    uint64_t live = fa_host_memory_use().bytes, failures = 0;
    for (uint64_t n = 1;; n++) {
        fa_test_fail_allocation(n, false);
        size_t length = fa_to_text(t, text, sizeof text);
        uint64_t failed = fa_test_failed_allocations();
        fa_test_fail_allocation(0, false);
        if (failed == 0) {
            assert_true(length > 0);
            break;
        }
        failures += failed;
        assert_int_equal(length, 0);
        assert_int_equal(fa_error_take().code, FA_ERR_MEMORY);
        assert_int_equal(fa_host_memory_use().bytes, live);
    }
    assert_true(failures > 0);
    fa_test_caches(true);
}

static void devices_show(void **state) {
    (void)state;
    if (!fa_device_is_available(FA_DEVICE_CUDA)) skip();
    prints(fa_to(FLOATS(1, 2.5), FA_CUDA(0)), "tensor([1.0000, 2.5000], device='cuda:0')");
    prints(fa_to(VALUES(FA_FLOAT16, .1), FA_CUDA(1)), "tensor([0.1000], device='cuda:1', dtype=torch.float16)");
    prints(fa_zeros(FA_SHAPE(0), .device = FA_CUDA(0)), "tensor([], device='cuda:0')");
    fa_tensor *large = fa_reshape(fa_arange(0, 4000000, 1, .device = FA_CUDA(0)), FA_SHAPE(2000, 2000));
    fa_device_counts before = fa_device_get_counts(FA_CUDA(0));
    char text[4096];
    fa_to_text(large, text, sizeof text);
    assert_memory_equal(text, "tensor([[      0,       1,       2,  ...,    1997,    1998,    1999],\n", 68);
    assert_true(fa_device_get_counts(FA_CUDA(0)).copies_to_host - before.copies_to_host <= 4);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(whole_numbers), TEST(empty_tensors), TEST(fractions), TEST(numbers_that_are_none), TEST(other_precisions),
        TEST(several_dimensions), TEST(long_tensors_show_their_edges), TEST(options_change_it), TEST(gradients_show),
        TEST(text_is_cut_to_its_room), TEST(any_allocation_may_fail), TEST(devices_show),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
