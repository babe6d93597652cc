/* A device that never answers: with FACULA_WATCHDOG a wait gives it up and says which launch was the last, other streams and devices
 * go on, and when the device answers again it is used again.
 *
 *   test-env: FACULA_SIM=cuda:2 FACULA_WATCHDOG=0.2
 *   test-limit: 60 */
#include "support/faults.h"
#include <time.h>

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void an_event_that_never_comes(void **state) {
    (void)state;
    FA_SCOPE;
    const fa_stream side = fa_stream_new(FA_CUDA(0), 0);
    fa_tensor *x = fa_full(FA_SHAPE(4), 3.0, .device = FA_CUDA(0)), *y;
    assert_true(fa_synchronize(FA_CUDA(0)));
    sim_faults("hang:1");
    {
        FA_STREAM_SCOPE(side);
        fa_event *never = fa_stream_record_event(side);
        y = fa_exp(x);
        const double start = seconds();
        assert_true(fa_item(fa_sum(y)) == 0);
        fa_error e = fa_error_take();
        assert_int_equal(e.code, FA_ERR_DEVICE);
        assert_non_null(strstr(e.text, "error: the launch timed out and was terminated. Stream "));
        assert_non_null(strstr(e.text, "'sum'"));
        assert_true(seconds() - start >= 0.2 && seconds() - start < 5);
        assert_false(fa_event_synchronize(never));
        assert_int_equal(fa_error_take().code, FA_ERR_DEVICE);
        assert_false(fa_event_query(never));
    }
    assert_true(fa_item(fa_sum(fa_mul(x, x))) == 36); /* the default stream */
    assert_true(fa_item(fa_sum(fa_ones(FA_SHAPE(5), .device = FA_CUDA(1)))) == 5);
    const uint64_t reserved = fa_memory_reserved(FA_CUDA(0));
    fa_drop(fa_ones(FA_SHAPE(1 << 20), .device = FA_CUDA(0)));
    fa_empty_cache(FA_CUDA(0)); /* gives nothing back that the stream may still use */
    assert_int_equal(fa_error_take().code, FA_ERR_DEVICE);
    assert_true(fa_memory_reserved(FA_CUDA(0)) >= reserved);
    sim_faults(NULL); /* it answers again */
    FA_STREAM_SCOPE(side);
    assert_true(fa_stream_synchronize(side));
    const double sum = fa_item(fa_sum(y));
    assert_true(sum > 80.3 && sum < 80.4);
    assert_true(fa_empty_cache(FA_CUDA(0)));
    assert_false(fa_failed());
}

static void work_in_time_is_not_disturbed(void **state) {
    (void)state;
    for (int i = 0; i < 20; i++) {
        FA_SCOPE;
        fa_tensor *x = fa_rand(FA_SHAPE(50, 50), .device = FA_CUDA(0));
        assert_true(fa_item(fa_sum(fa_matmul(x, x))) > 0);
        fa_index_select(x, 0, fa_mul_scalar(fa_to(fa_ints(70), FA_CUDA(0)), 1)); /* made there: no call knows it */
        assert_false(fa_synchronize(FA_CUDA(0)));
        assert_int_equal(fa_error_take().code, FA_ERR_INDEX);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(an_event_that_never_comes), cmocka_unit_test(work_in_time_is_not_disturbed)};
    find_simulator();
    if (!sim_faults) return 77;
    return cmocka_run_group_tests(tests, NULL, NULL) + fa_finish("test_hang");
}
