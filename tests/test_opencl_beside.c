/* Devices of different kinds in one process: the CPU, simulated GPUs through the cuda backend, and OpenCL's. Each pair copies in both
 * directions, gives the same bits, and is refused as operands of one operator; networks and optimizers move along.
 *
 * test-env-opencl: FACULA_SIM=cuda:2 FACULA_OPENCL=cpu
 * test-modes: release debug */
#include "support/scope.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <facula.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { KINDS = 5 };
static fa_device kinds[KINDS];


static void all_are_there(void **state) {
    (void)state;
    assert_int_equal(fa_device_count(FA_DEVICE_CUDA), 2);
    assert_true(fa_device_count(FA_DEVICE_OPENCL) >= 2);
    assert_true(fa_device_equal(fa_accelerator(), FA_CUDA(-1))); /* cuda comes before opencl */
    for (int i = 0; i < KINDS; i++) {
        fa_device_properties p;
        assert_true(fa_device_get_properties(kinds[i], &p));
        if (i) assert_int_equal(p.simulated, kinds[i].type == FA_DEVICE_CUDA);
    }
}

/* A transposed half, so that neither side is one run of memory, and a number, a type and an empty tensor. */
static void every_pair_copies(void **state) {
    (void)state;
    for (int from = 0; from < KINDS; from++) {
        for (int to = 0; to < KINDS; to++) {
            FA_SCOPE;
            fa_tensor *x = fa_to(fa_reshape(fa_arange(0, 24, 1, .dtype = FA_FLOAT32), FA_SHAPE(4, 6)), kinds[from]);
            fa_tensor *half = fa_slice(fa_t(x), 0, 1, 6, 2), *there = fa_to(half, kinds[to]);
            float got[12], want[12];
            assert_true(there && fa_device_equal(fa_device_of(there), fa_device_of(fa_zeros(FA_SHAPE(1), .device = kinds[to]))));
            assert_true(fa_to_data(there, got, FA_FLOAT32));
            for (int i = 0; i < 12; i++) want[i] = (float)(i % 4 * 6 + i / 4 * 2 + 1);
            assert_memory_equal(got, want, sizeof want);
            fa_tensor *target = fa_zeros(FA_SHAPE(6, 4), .device = kinds[to], .dtype = FA_INT32);
            int32_t rows[24];
            assert_non_null(fa_copy_(fa_slice(target, 0, 0, 6, 2), half));
            assert_true(fa_to_data(target, rows, FA_INT32));
            for (int i = 0; i < 24; i++) assert_int_equal(rows[i], i / 4 % 2 ? 0 : (int)want[i / 8 * 4 + i % 4]);
            assert_int_equal(fa_numel(fa_to(fa_empty(FA_SHAPE(0, 3), .device = kinds[from]), kinds[to])), 0);
        }
    }
}

static void same_bits_everywhere(void **state) {
    (void)state;
    float want[1000], got[1000];
    fa_manual_seed(1);
    fa_tensor *a = fa_randn(FA_SHAPE(1000)), *b = fa_randn(FA_SHAPE(1000));
    for (int i = 0; i < KINDS; i++) {
        FA_SCOPE;
        fa_tensor *x = fa_to(a, kinds[i]), *y = fa_to(b, kinds[i]);
        fa_tensor *z = fa_add(fa_div(fa_exp(x), y), fa_sum(fa_mul(x, fa_tanh(y))));
        assert_true(fa_to_data(z, i ? got : want, FA_FLOAT32));
        if (i) assert_memory_equal(got, want, sizeof want);
    }
}

static void operands_must_be_together(void **state) {
    (void)state;
    for (int i = 0; i < KINDS; i++) {
        for (int k = 0; k < KINDS; k++) {
            FA_SCOPE;
            fa_tensor *sum = fa_add(fa_ones(FA_SHAPE(2), .device = kinds[i]), fa_ones(FA_SHAPE(2), .device = kinds[k]));
            assert_int_equal(sum != NULL, i == k);
            if (i != k) {
                fa_error e = fa_error_take();
                assert_non_null(strstr(e.text, "Expected all tensors to be on the same device, but found at least two devices, "));
                assert_non_null(strstr(e.text, fa_device_text(kinds[i])));
                assert_non_null(strstr(e.text, fa_device_text(kinds[k])));
            }
        }
    }
}

/* One network, moved between all devices while it is trained, as if it had stayed. */
static float train(bool moves) {
    fa_manual_seed(5);
    FA_SCOPE;
    fa_module *net = fa_sequential(fa_nn_linear(6, 5), fa_nn_tanh(), fa_nn_linear(5, 2));
    fa_tensor *x = fa_randn(FA_SHAPE(7, 6)), *y = fa_randn(FA_SHAPE(7, 2));
    fa_optimizer *o = fa_adam(net, .lr = 1e-2);
    float loss = 0;
    for (int i = 0; i < 2 * KINDS; i++) {
        FA_SCOPE;
        const fa_device where = moves ? kinds[i % KINDS] : FA_CPU;
        assert_true(fa_module_to(net, where));
        fa_tensor *miss = fa_mse_loss(fa_call(net, fa_to(x, where)), fa_to(y, where));
        fa_zero_grad(o);
        assert_true(fa_backward(miss) && fa_step(o));
        loss = (float)fa_item(miss);
    }
    fa_drop(o);
    fa_drop(net);
    return loss;
}

static void training_moves_along(void **state) {
    (void)state;
    const float stayed = train(false), moved = train(true);
    assert_true(stayed > 0 && moved - stayed < 1e-5f && stayed - moved < 1e-5f);
}

static void *work(void *argument) {
    const fa_device where = *(const fa_device *)argument;
    bool good = true;
    for (int i = 0; i < 50 && good; i++) {
        FA_SCOPE;
        fa_tensor *x = fa_ones(FA_SHAPE(64, 64), .device = where);
        for (int k = 0; k < 4; k++) x = fa_mul_scalar(fa_add_scalar(x, 1), 0.5);
        fa_tensor *there = fa_to(x, kinds[(i + 1) % KINDS]);
        good = there && fa_item(fa_sum(there)) == 64 * 64;
    }
    return good ? NULL : argument;
}

static void threads_use_all_at_once(void **state) {
    (void)state;
    pthread_t thread[KINDS];
    for (int i = 0; i < KINDS; i++) assert_int_equal(pthread_create(&thread[i], NULL, work, &kinds[i]), 0);
    for (int i = 0; i < KINDS; i++) {
        void *bad;
        assert_int_equal(pthread_join(thread[i], &bad), 0);
        assert_null(bad);
    }
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {TEST(all_are_there), TEST(every_pair_copies), TEST(same_bits_everywhere),
                                       TEST(operands_must_be_together), TEST(training_moves_along), TEST(threads_use_all_at_once)};
    static const char *const names[KINDS] = {"cpu", "cuda:0", "opencl:0", "cuda:1", "opencl:1"};
    for (int i = 0; i < KINDS; i++) kinds[i] = fa_device_parse(names[i]);
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : fa_finish("test_opencl_beside");
}
