/* Pinned memory and copies that do not wait: they are under way until somebody needs them, whoever reads the host's side gets what
 * belongs there, and memory that a copy still uses is given to nobody.
 *
 *   test-env: FACULA_SIM=cuda:2
 *   test-env: FACULA_SIM=cuda:2 FACULA_PENDING=raise
 *   test-env: FACULA_SIM=cuda:2 FACULA_SIM_SEED=5 */
#include "tensor/tensor.h"
#include "support/faults.h"

static bool strict;

static fa_tensor *pinned_ones(int64_t n) { return fa_pin_memory(fa_ones(FA_SHAPE(n))); }

static void memory_is_pinned(void **state) {
    (void)state;
    FA_SCOPE;
    fa_tensor *x = fa_rand(FA_SHAPE(7, 5)), *p = fa_pin_memory(x);
    assert_false(fa_is_pinned(x));
    assert_true(fa_is_pinned(p) && fa_pin_memory(p) == p);
    assert_int_equal(fa_size(p, 1), 5);
    assert_true(fa_item(fa_sum(fa_abs(fa_sub(x, p)))) == 0);
    assert_false(fa_is_pinned(fa_to(x, device)));
    assert_null(fa_pin_memory(fa_to(x, device)));
    assert_non_null(strstr(fa_error_take().text, "cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned"));
}

/* .pin_memory of every way to make a tensor; the same values as without it. */
static void new_tensors_are_pinned(void **state) {
    (void)state;
    FA_SCOPE;
    fa_tensor *wide = fa_transpose(fa_rand(FA_SHAPE(3, 4)), 0, 1), *like = fa_clone(fa_ones(FA_SHAPE(3, 4)));
    for (int pin = 0; pin < 2; pin++) {
        fa_manual_seed(3);
#define PIN .pin_memory = pin == 1
        fa_tensor *const made[] = {
            fa_empty(FA_SHAPE(3), PIN), fa_zeros(FA_SHAPE(3), PIN), fa_ones(FA_SHAPE(2, 2), PIN, .requires_grad = true), fa_full(FA_SHAPE(3), 2.5, PIN),
            fa_eye(3, 3, PIN), fa_arange(0, 9, 2, PIN), fa_linspace(0, 1, 5, PIN), fa_rand(FA_SHAPE(4), PIN), fa_randn(FA_SHAPE(40), PIN),
            fa_randint(0, 9, FA_SHAPE(4), PIN), fa_randperm(6, PIN), fa_zeros_like(like, PIN), fa_rand_like(wide, PIN, .dtype = FA_FLOAT64),
            fa_from_data(((float[]){1, 2}), FA_FLOAT32, FA_SHAPE(2), PIN), fa_zeros(FA_SHAPE(0, 3), PIN)};
        static double sum[sizeof made / sizeof *made];
        for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
            assert_int_equal(fa_is_pinned(made[i]), pin);
            assert_int_equal(made[i]->device.type, FA_DEVICE_CPU);
            const double s = i ? fa_item(fa_sum(fa_cast(made[i], FA_FLOAT64))) : 0;
            if (pin) assert_true(s == sum[i]);
            sum[i] = s;
        }
        assert_int_equal(fa_stride(made[12], 0), fa_stride(wide, 0));
    }
    assert_null(fa_ones(FA_SHAPE(2), .pin_memory = true, .device = device));
    assert_int_equal(strncmp(fa_error_take().text, "Only dense CPU tensors can be pinned; this one is to lie on cuda:0", 66), 0);
}

static void a_copy_to_the_host_is_under_way(void **state) {
    (void)state;
    FA_SCOPE;
    fa_tensor *x = fa_full(FA_SHAPE(1000), 3.0, .device = device), *host;
    const uint64_t waits = fa_device_get_counts(device).waits;
    host = fa_to_async(fa_mul(x, x), FA_CPU);
    assert_true(fa_is_pinned(host) && host->buffer->pending);
    assert_int_equal(fa_device_get_counts(device).waits, waits); /* nobody waited */
    if (strict) { /* reading too early is told */
        fa_item(fa_sum(host));
        const fa_error e = fa_error_take();
        assert_int_equal(e.code, FA_ERR_RUNTIME);
        assert_non_null(strstr(e.text, "a tensor in pinned memory is used while a copy that does not wait is under way (non_blocking=True)"));
        assert_true(fa_synchronize(device));
    }
    assert_true(fa_item(fa_sum(host)) == 9000); /* reading waits */
    assert_false(host->buffer->pending);
    host = fa_to_async(fa_mul(x, x), FA_CPU);
    assert_true(fa_synchronize(device));
    assert_true(fa_item(fa_sum(host)) == 9000); /* allowed at any rate */
    assert_false(fa_failed());
}

static void a_copy_to_the_device_is_under_way(void **state) {
    (void)state;
    FA_SCOPE;
    fa_tensor *p = pinned_ones(2000000), *there; /* more than is copied aside */
    const uint64_t waits = fa_device_get_counts(device).waits;
    there = fa_to_async(p, device);
    assert_int_equal(fa_device_get_counts(device).waits, waits);
    assert_true(p->buffer->pending);
    if (strict) assert_true(fa_synchronize(device));
    fa_zero_(p); /* waits for the copy, and then overwrites */
    assert_true(fa_item(fa_sum(there)) == 2000000);
    fa_tensor *plain = fa_ones(FA_SHAPE(10)), *also = fa_to_async(plain, device);
    fa_zero_(plain); /* not pinned: staged */
    assert_true(fa_item(fa_sum(also)) == 10);
    fa_copy_async_(there, fa_pin_memory(fa_full(FA_SHAPE(2000000), 2.0)));
    assert_true(fa_item(fa_sum(there)) == 4000000);
    assert_false(fa_failed());
}

static void memory_in_use_is_given_to_nobody(void **state) {
    (void)state;
    FA_SCOPE;
    fa_test_caches(true);
    fa_tensor *p = pinned_ones(512), *there;
    const uint64_t first = p->buffer->address;
    fa_drop(p);
    p = pinned_ones(512);
    assert_true(p->buffer->address == first); /* used again */
    there = fa_to_async(p, device);
    fa_drop(p);
    fa_tensor *other = fa_pin_memory(fa_zeros(FA_SHAPE(512)));
    assert_true(other->buffer->address != first);
    assert_true(fa_item(fa_sum(there)) == 512);
    p = pinned_ones(512);
    assert_true(p->buffer->address == first);
}

static void many_streams_and_devices(void **state) {
    (void)state;
    FA_SCOPE;
    fa_tensor *p = pinned_ones(300), *there[12];
    for (int i = 0; i < 12; i++) {
        FA_STREAM_SCOPE(fa_stream_new(FA_CUDA(i % 2), 0));
        there[i] = fa_to_async(p, FA_CUDA(i % 2));
        fa_stream_wait_stream(fa_default_stream(FA_CUDA(i % 2)), fa_current_stream(FA_CUDA(i % 2)));
    }
    for (int i = 0; i < 12; i++) assert_true(fa_item(fa_sum(there[i])) == 300);
    assert_true(fa_synchronize(FA_CUDA(0)) && fa_synchronize(FA_CUDA(1)));
    fa_zero_(p);
    assert_false(fa_failed());
}

static void a_derivative_goes_through(void **state) {
    (void)state;
    FA_SCOPE;
    fa_tensor *x = fa_requires_grad(fa_full(FA_SHAPE(4), 2.0), true), *there = fa_to_async(fa_pin_memory(fa_ones(FA_SHAPE(4))), device);
    assert_true(fa_backward(fa_sum(fa_mul(fa_to_async(x, device), there))));
    assert_true(fa_item(fa_sum(fa_grad(x))) == 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_pinned), cmocka_unit_test(new_tensors_are_pinned), cmocka_unit_test(a_copy_to_the_host_is_under_way), cmocka_unit_test(a_copy_to_the_device_is_under_way),
        cmocka_unit_test(memory_in_use_is_given_to_nobody), cmocka_unit_test(many_streams_and_devices),        cmocka_unit_test(a_derivative_goes_through)};
    find_simulator();
    if (!sim_faults) return 77;
    strict = getenv("FACULA_PENDING") != NULL;
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    const int finished = fa_finish("test_pinned");
    return failed + finished;
}
