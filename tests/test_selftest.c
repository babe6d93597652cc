/* fa_selftest: every operator of the tables has a call in it; on a device that is right nothing is wrong; of a device with one wrong
 * operator, one that lacks a kernel and one that is lost, exactly that is told. The wrong devices are the cuda backend with a shim
 * before it, registered as kinds of their own.
 *
 * test-env: -
 * test-env: FACULA_SIM=cuda:2
 * test-limit: 300 */
#include "backends/cuda/cuda.h"
#include "device/inside.h"
#include "selftest/selftest.h"
#include "support/device.h"
#include <dlfcn.h>
#include <ops_list.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

static char report[1 << 16];
static size_t length;
static int failures;
static fa_selftest_failure last;
static char last_text[1400];

static void line(void *context, const char *text) {
    (void)context;
    length += (size_t)snprintf(report + length, sizeof report - length, "%s\n", text);
    assert_true(length < sizeof report);
}

static void failure(void *context, const fa_selftest_failure *f) {
    (void)context;
    failures++;
    last = *f;
    snprintf(last_text, sizeof last_text, "%s", f->text);
}

static bool run(fa_device device, const char *op, fa_selftest_result *result) {
    length = 0;
    report[0] = 0;
    failures = 0;
    return fa_selftest(device, result, .op = op, .line = line, .failure = failure);
}

static void expect(const char *words) {
    if (!strstr(report, words)) fail_msg("'%s' is not in the report:\n%s", words, report);
}

static bool has_call(const char *op) {
    for (int i = 0; i < fai_case_count; i++)
        if (fai_cases[i].op && !strcmp(fai_cases[i].op, op)) return true;
    return false;
}

static void every_operator_has_a_call(void **state) {
    (void)state;
    int missing = 0;
    for (size_t k = 0; k < sizeof listed_ops / sizeof *listed_ops; k++)
        if (!has_call(listed_ops[k])) missing++, print_error("no case in src/selftest/cases.h: %s\n", listed_ops[k]);
    for (size_t k = 0; k < sizeof listed_rest / sizeof *listed_rest; k++)
        if (!has_call(listed_rest[k])) missing++, print_error("no case in src/selftest/cases_fixed.h: %s\n", listed_rest[k]);
    assert_int_equal(missing, 0);
}

static void a_right_device_is_right(void **state) {
    (void)state;
    fa_selftest_result r;
    const bool fine = run(test_device(), NULL, &r);
    if (!fine) fail_msg("%s", report);
    assert_true(r.operators > 380 && r.checks > 12000 && r.failed == 0 && r.wrong == 0 && failures == 0);
    assert_int_equal(r.absent, 0);
    expect(": all right (");
    expect("  elementwise ");
    expect("  random numbers ");
    assert_false(fa_failed());
}

static void one_operator_alone(void **state) {
    (void)state;
    fa_selftest_result r;
    assert_true(run(test_device(), "softmax", &r));
    assert_true(r.operators == 1 && r.checks > 20);
    assert_true(run(test_device(), "tanh", &r));
    assert_true(r.operators == 1 && r.checks > 20);
    assert_false(run(test_device(), "softmx", &r));
    const fa_error e = fa_error_take();
    assert_int_equal(e.code, FA_ERR_VALUE);
    assert_non_null(strstr(e.text, "there is no operator 'softmx' in the tables"));
    assert_false(run(fa_device_of_type(FA_DEVICE_MPS, 0), NULL, &r));
    assert_int_equal(fa_error_take().code, FA_ERR_RUNTIME);
}

/* ---- wrong devices ---- */

static fa_backend shim;
static const fa_backend *real;
static fa_kernel_handle softmax_kernel;

static int shim_open(int *count, char *why, size_t n) {
    (void)why, (void)n;
    *count = 1; /* the real one is open */
    return 0;
}

/* tanh gives sin, in every element type. */
static int wrong_row(int device, fa_stream_handle stream, fa_kernel_handle kernel, uint64_t groups, int group_size,
                     const void *plan, size_t plan_bytes, const fa_address pointers[8]) {
    fa_plan other;
    memcpy(&other, plan, plan_bytes);
    if (other.row == FAI_ROW_tanh) other.row = FAI_ROW_sin;
    return real->launch(device, stream, kernel, groups, group_size, &other, plan_bytes, pointers);
}

static int no_softmax(int device, fa_program_handle program, const char *kernel, fa_kernel_handle *out) {
    const int code = real->find(device, program, kernel, out);
    if (!strncmp(kernel, "softmax", 7)) softmax_kernel = *out;
    return code;
}

static int refuse_softmax(int device, fa_stream_handle stream, fa_kernel_handle kernel, uint64_t groups, int group_size,
                          const void *plan, size_t plan_bytes, const fa_address pointers[8]) {
    if (kernel == softmax_kernel) return FA_BACKEND_FAILED;
    return real->launch(device, stream, kernel, groups, group_size, plan, plan_bytes, pointers);
}

static fa_device add(const char *name, int (*launch)(int, fa_stream_handle, fa_kernel_handle, uint64_t, int, const void *, size_t,
                                                     const fa_address[8])) {
    static fa_backend kinds[3];
    static int n;
    fa_device_properties open_it;
    assert_true(fa_device_get_properties(FA_CUDA(0), &open_it));
    real = fai_backend_cuda();
    shim = *real;
    shim.name = name;
    shim.open = shim_open;
    shim.launch = launch;
    shim.find = no_softmax;
    kinds[n] = shim;
    const int type = fai_backend_add(&kinds[n++], NULL);
    assert_true(type != 0);
    return fa_device_of_type(type, 0);
}

static void a_wrong_operator_is_found(void **state) {
    (void)state;
    fa_selftest_result r;
    if (!fa_device_count(FA_DEVICE_CUDA)) skip();
    const fa_device device = add("wrong", wrong_row);
    assert_false(run(device, "exp", &r) == false);
    assert_false(run(device, "tanh", &r));
    assert_false(fa_failed());
    assert_true(r.failed == 1 && r.operators == 1 && failures == 1 && r.wrong > 5);
    assert_string_equal(last.op, "tanh");
    assert_string_equal(last.family, "elementwise");
    assert_true(!last.backward && last.ulp > 1000 && last.allowed < 100 && last.dtype == FA_FLOAT32);
    expect("  WRONG  tanh: result of float32, contiguous, inputs 7x333: element ");
    expect("units of the last place apart, and 64 are allowed. The call was tanh");
    expect("wrong:0: 1 of 1 operators are WRONG");
    expect("facula selftest --device wrong:0 --op NAME");
}

static void a_refusal_is_told(void **state) {
    (void)state;
    fa_selftest_result r;
    if (!fa_device_count(FA_DEVICE_CUDA)) skip();
    const fa_device device = add("poor", refuse_softmax);
    assert_false(run(device, "softmax", &r));
    expect("the device says: ");
    expect("launching the kernel 'softmax");
    assert_true(run(device, "sum", &r));
}

static void a_lost_device_ends_it(void **state) {
    (void)state;
    fa_selftest_result r;
    void *simulator = dlopen("libfacula_sim.so", RTLD_NOW | RTLD_NOLOAD);
    if (!simulator) skip();
    int (*faults)(const char *) = NULL;
    *(void **)&faults = dlsym(simulator, "facula_sim_faults");
    fa_test_caches(true); /* off at start under a sanitizer; a dead device takes memory back and says that it could not */
    assert_int_equal(faults("lost:300"), 0);
    assert_false(run(FA_CUDA(0), NULL, &r));
    assert_int_equal(fa_error_take().code, FA_ERR_DEVICE);
    assert_true(r.operators < 50);
    assert_int_equal(faults(NULL), 0);
    assert_true(run(FA_CUDA(0), "softmax", &r));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operator_has_a_call), cmocka_unit_test(a_right_device_is_right),
        cmocka_unit_test(one_operator_alone),        cmocka_unit_test(a_wrong_operator_is_found),
        cmocka_unit_test(a_refusal_is_told),         cmocka_unit_test(a_lost_device_ends_it),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    fa_error_take();
    fa_finish("test_selftest");
    return failed;
}
