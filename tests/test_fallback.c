/* FACULA_FALLBACK=cpu: on a device whose compiler refuses every kernel, operations run on the CPU, with the CPU's results, are told of
 * once and counted; without the variable they are errors that say how. A device without float64 computes float32 itself. A plug-in is one
 * of these devices in tests/test_plugin.py, with a compiler that fails (NPU_CC) or without float64. */
/* test-env: FACULA_SIM=cuda:1 FACULA_SIM_FAULTS=build:1+ FACULA_FALLBACK=cpu FACULA_CACHE=off
 * test-env: FACULA_SIM=cuda:1 FACULA_SIM_FAULTS=build:1+ FACULA_CACHE=off
 * test-env: FACULA_SIM=cuda:1 FACULA_SIM_FAULTS=build:1+ FACULA_FALLBACK=yes FACULA_CACHE=off
 * test-env: FACULA_OPENCL=cpu FACULA_OPENCL_FLOAT64=off FACULA_FALLBACK=cpu
 * test-env: FACULA_SIM=cuda:1 FACULA_FALLBACK=cpu */
#include "base/base.h"
#include <facula.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static fa_device device;
static const char *wanted; /* FACULA_FALLBACK */
static bool broken;        /* the device has no kernel at all */
static const char *reason; /* why not: a part of the error's text */

static char warned[16][600];
static int nwarned;
static void keep(const char *op, const char *text) {
    if (nwarned < 16) snprintf(warned[nwarned++], sizeof warned[0], "%s: %s", op, text);
}

static int begin(void **state) {
    (void)state;
    fa_scope_open();
    nwarned = 0;
    return 0;
}

static int end(void **state) {
    (void)state;
    const bool clean = !fa_failed();
    if (!clean) fprintf(stderr, "%s\n", fa_error_peek()->text);
    fa_error_take();
    fa_scope_close();
    return clean ? 0 : -1;
}

static uint64_t count_of(const char *op, fa_fallback_info *out) {
    for (int i = 0; fa_fallback_get(i, out); i++)
        if (!strcmp(out->op, op)) return out->count;
    return 0;
}

static void refused(fa_tensor *t) {
    const fa_error e = fa_error_take();
    assert_null(t);
    assert_int_equal(e.code, FA_ERR_DEVICE);
    assert_non_null(strstr(e.text, reason));
    assert_non_null(strstr(e.text, "FACULA_FALLBACK=cpu in the environment lets the CPU do what a device can't, with copies there and back"));
}

/* The same as on the CPU, strides and all; told of once, counted each time. */
static void an_operation(void **state) {
    (void)state;
    if (!broken) return;
    fa_tensor *x = fa_from_data(((float[]){1, 2, 3, 4, 5, 6}), FA_FLOAT32, FA_SHAPE(2, 3), .device = device);
    fa_tensor *y = fa_cumsum(fa_t(x), 0);
    if (strcmp(wanted, "cpu") != 0) {
        refused(y);
        return;
    }
    float got[6], sums[] = {1, 4, 3, 9, 6, 15};
    fa_fallback_info info;
    assert_true(fa_to_data(y, got, FA_FLOAT32));
    assert_memory_equal(got, sums, sizeof sums);
    assert_true(fa_device_equal(fa_device_of(y), device));
    const uint64_t before = count_of("cumsum", &info), all = fa_fallback_count();
    assert_true(before > 0 && all >= before);
    assert_true(fa_device_equal(info.device, device));
    assert_non_null(strstr(info.reason, reason));
    fa_cumsum(x, 0);
    assert_int_equal(count_of("cumsum", &info), before + 1);
    char start[100];
    int told = 0;
    snprintf(start, sizeof start, "cumsum: %s can't compute this (%s error: ", fa_device_text(device), device.type == FA_DEVICE_CUDA ? "CUDA" : "NPU");
    for (int i = 0; i < nwarned; i++) told += strstr(warned[i], start) == warned[i] && strstr(warned[i], reason);
    assert_int_equal(told, 1);
    assert_non_null(strstr(warned[0], "FACULA_FALLBACK=cpu lets the CPU do it, with copies there and back, which is slow"));
    fa_relu(x), fa_neg(x); /* of one kernel, which is not asked for again */
    assert_true(count_of("neg", &info) > 0);
    snprintf(start, sizeof start, "%s has no kernel 'ew_f32' that works", fa_device_text(device));
    assert_string_equal(info.reason, start);
    assert_false(fa_fallback_get(-1, &info));
    assert_false(fa_fallback_get(1000, &info));
}

/* A variable that is not understood is told, and nothing falls back. */
static void another_word(void **state) {
    (void)state;
    if (strcmp(wanted, "yes") != 0) return;
    fa_tensor *x = fa_zeros(FA_SHAPE(3), .device = device);
    refused(fa_relu(x));
    assert_string_equal(warned[0], "fallback: FACULA_FALLBACK='yes' is not understood, and nothing falls back: write FACULA_FALLBACK=cpu");
    assert_int_equal(fa_fallback_count(), 0);
}

/* What a device can, it does itself; a bad index is told at once, and nothing is written. */
static void indices(void **state) {
    (void)state;
    if (!broken || strcmp(wanted, "cpu") != 0) return;
    fa_tensor *x = fa_zeros(FA_SHAPE(3, 2), .device = device), *index = fa_to(fa_ints(0, 7), device);
    fa_tensor *got = fa_index_select(x, 0, index);
    const fa_error e = fa_error_take();
    assert_null(got);
    assert_int_equal(e.code, FA_ERR_INDEX);
    assert_non_null(fa_index_select(x, 0, fa_to(fa_ints(0, 2), device)));
    assert_true(fa_synchronize(device));
}

/* Training: gradients, and the update of many tensors by a table of addresses. */
static void training(void **state) {
    (void)state;
    if (device.type == FA_DEVICE_OPENCL || (broken && strcmp(wanted, "cpu") != 0)) return;
    float weight[2][6];
    for (int pass = 0; pass < 2; pass++) {
        const fa_device there = pass ? device : FA_CPU;
        fa_tensor *w = fa_to(fa_reshape(fa_arange(0, 6, 1, .dtype = FA_FLOAT32), FA_SHAPE(2, 3)), there);
        fa_tensor *x = fa_to(fa_reshape(fa_arange(0, 12, 1, .dtype = FA_FLOAT32), FA_SHAPE(4, 3)), there);
        w = fa_requires_grad(fa_detach(w), true);
        fa_optimizer *o = fa_adam_of(&w, 1, .lr = 0.1);
        for (int step = 0; step < 3; step++) {
            fa_zero_grad(o);
            fa_backward(fa_mean(fa_tanh(fa_linear(x, w, NULL))));
            fa_step(o);
        }
        assert_true(fa_to_data(w, weight[pass], FA_FLOAT32));
    }
    for (int i = 0; i < 6; i++) assert_float_equal(weight[0][i], weight[1][i], 1e-5);
    if (broken) assert_true(fa_fallback_count() > 10);
}

/* A device without float64 lets the CPU do only that. */
static void float64(void **state) {
    (void)state;
    fa_device_properties p;
    assert_true(fa_device_get_properties(device, &p));
    if (broken || p.has_float64) {
        if (!broken) assert_int_equal(fa_fallback_count(), 0);
        return;
    }
    const uint64_t before = fa_fallback_count();
    double got[3], roots[] = {0, 1, 1.4142135623730951};
    fa_tensor *x = fa_from_data(((double[]){0, 1, 2}), FA_FLOAT64, FA_SHAPE(3), .device = device);
    assert_true(fa_to_data(fa_sqrt(x), got, FA_FLOAT64));
    assert_memory_equal(got, roots, sizeof roots);
    const uint64_t after = fa_fallback_count();
    assert_true(after > before);
    fa_sqrt(fa_ones(FA_SHAPE(3), .device = device));
    fa_sqrt(fa_ones(FA_SHAPE(3), .device = device));
    assert_int_equal(fa_fallback_count(), after);
}

/* Every allocation on the way fails in turn: an error, and the next call works. */
static void faults(void **state) {
    (void)state;
    if (!broken || strcmp(wanted, "cpu") != 0) return;
    fa_tensor *x = fa_ones(FA_SHAPE(2, 3), .device = device);
    int n = 0;
    for (bool done = false; !done; n++) {
        assert_true(n < 100);
        fa_test_fail_allocation(n + 1, false);
        fa_tensor *y = fa_cumsum(x, 1);
        done = fa_test_failed_allocations() == 0;
        fa_test_fail_allocation(0, false);
        if (y) fa_drop(y);
        else assert_int_equal(fa_error_take().code, FA_ERR_MEMORY);
    }
    assert_true(n > 2);
    float got[6], sums[] = {1, 2, 3, 1, 2, 3};
    assert_true(fa_to_data(fa_cumsum(x, 1), got, FA_FLOAT32));
    assert_memory_equal(got, sums, sizeof sums);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(another_word, begin, end), cmocka_unit_test_setup_teardown(an_operation, begin, end),
        cmocka_unit_test_setup_teardown(indices, begin, end),      cmocka_unit_test_setup_teardown(float64, begin, end),
        cmocka_unit_test_setup_teardown(training, begin, end),     cmocka_unit_test_setup_teardown(faults, begin, end)};
    device = fa_try_accelerator(0);
    wanted = getenv("FACULA_FALLBACK") ? getenv("FACULA_FALLBACK") : "";
    broken = getenv("FACULA_SIM_FAULTS") || (getenv("NPU_CC") && strstr(getenv("NPU_CC"), "broken"));
    reason = getenv("NPU_CC") ? "can't compile the kernels" : "injected fault build";
    if (device.type == FA_DEVICE_CPU) device = fa_device_parse("opencl:0");
    if (!fa_device_is_available(device.type)) return 77;
    fai_set_warn(keep);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
