/* After a launch that failed late: what it and all behind it were to write has no contents, and whoever reads it is told by whom;
 * what was there before can be read. After a launch that was refused everything is as it was.
 *
 * test-env: FACULA_SIM=cuda:2 */
#include "support/faults.h"
#include <unistd.h>

static void told(const char *failed_op, const char *reader, int line) {
    const fa_error e = fa_error_take();
    char words[80];
    snprintf(words, sizeof words, "has no contents: '%s', which failed", failed_op);
    if (e.code != FA_ERR_DEVICE || strcmp(e.op, reader) != 0 || !strstr(e.text, words))
        fail_msg("line %d: expected %s: ...%s, found %d %s: %s", line, reader, words, e.code, e.op, e.text);
}
#define TOLD(call, reader)                                                                                                       \
    do {                                                                                                                         \
        (void)(call);                                                                                                            \
        told("mul", (reader), __LINE__);                                                                                         \
    } while (0)
#define HOLDS(t, value)                                                                                                          \
    do {                                                                                                                         \
        const double found = fa_item(t);                                                                                         \
        if (fa_failed() || found != (value))                                                                                     \
            fail_msg("line %d: %g: %s", __LINE__, found, fa_failed() ? fa_error_peek()->text : "");                              \
    } while (0)

/* y = mul(x, x) fails; z comes from it, late is a copy behind it. */
static void fail_late(fa_tensor *x, fa_tensor **y, fa_tensor **z, fa_tensor **late) {
    sim_faults("late:1");
    *y = fa_mul(x, x);
    *z = fa_add_scalar(*y, 1);
    *late = fa_to(fa_floats(4), device);
    assert_false(fa_synchronize(device));
    const fa_error e = fa_error_take();
    assert_int_equal(e.code, FA_ERR_DEVICE);
    assert_string_equal(e.op, "mul");
    sim_faults(NULL);
}

static void what_a_failed_launch_was_to_write(void **state) {
    (void)state;
    FA_SCOPE;
    char path[] = "/tmp/facula_spoiled_XXXXXX", text[64];
    fa_tensor *x = fa_to(fa_floats(3), device), *y, *z, *late;
    fail_late(x, &y, &z, &late);
    HOLDS(x, 3);
    TOLD(fa_item(y), "to_data");
    TOLD(fa_item(z), "to_data");
    TOLD(fa_item(late), "to_data");
    TOLD(fa_cpu(y), "to_device");
    TOLD(fa_to(y, FA_CUDA(1)), "to_device");
    const int file = mkstemp(path);
    TOLD(fa_save_npy(path, y), "to_data");
    close(file), unlink(path);
    TOLD(fa_to_text(y, text, sizeof text), "to_data");
    TOLD(fa_item(fa_sum(fa_exp(z))), "to_data"); /* made afterwards, of nothing */
    TOLD(fa_item(fa_add_(y, x)), "to_data");
    HOLDS(fa_mul(x, x), 9);
}

static void what_makes_it_good_again(void **state) {
    (void)state;
    FA_SCOPE;
    fa_tensor *x = fa_to(fa_floats(3), device), *y, *z, *late;
    fail_late(x, &y, &z, &late);
    HOLDS(fa_zero_(y), 0);
    HOLDS(fa_fill_(z, 2), 2);
    HOLDS(fa_copy_(late, fa_floats(7)), 7);
    HOLDS(fa_add_(y, z), 2);
    fail_late(x, &y, &z, &late);
    HOLDS(fa_copy_(y, fa_mul_scalar(x, 5)), 15);
    TOLD(fa_item(fa_copy_(y, z)), "to_data");
    fa_tensor *pair = fa_to(fa_floats(1, 2), device);
    fail_late(x, &y, &z, &late);
    fa_copy_(fa_narrow(pair, 0, 0, 1), z);
    HOLDS(fa_select(fa_mul_scalar(fa_to(fa_floats(1, 2), device), 1), 0, 1), 2);
    TOLD(fa_item(fa_select(pair, 0, 1)), "to_data"); /* by the buffer, not by the element */
}

static void a_refused_launch_changes_nothing(void **state) {
    (void)state;
    FA_SCOPE;
    fa_tensor *x = fa_to(fa_floats(3), device);
    sim_faults("launch:1");
    assert_null(fa_mul_scalar_(x, 2));
    sim_faults(NULL);
    const fa_error e = fa_error_take();
    assert_int_equal(e.code, FA_ERR_DEVICE);
    assert_string_equal(e.op, "mul_");
    HOLDS(x, 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_failed_launch_was_to_write),
        cmocka_unit_test(what_makes_it_good_again),
        cmocka_unit_test(a_refused_launch_changes_nothing),
    };
    find_simulator();
    if (!sim_faults) return 77;
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed + fa_finish("test_spoiled");
}
