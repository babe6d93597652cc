/* What a device tells of itself: properties, uuid, sensors; and caching that is turned off. On the CPU, two simulated devices, the
 * same without NVML or with one that refuses. */
/* test-env: - */
/* test-env: FACULA_SIM=cuda:2 */
/* test-env: FACULA_SIM=cuda:1 FACULA_SIM_FAULTS=nvml:1 */
/* test-env: FACULA_SIM=cuda:1 FACULA_SIM_FAULTS=nvml:2 */
#include "support/device.h"
#include "base/base.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static bool faulty(const char *fault) { return getenv("FACULA_SIM_FAULTS") && !strcmp(getenv("FACULA_SIM_FAULTS"), fault); }

static void properties(void **state) {
    (void)state;
    fa_device_properties p;
    char uuid[40], other[40];
    assert_true(fa_device_get_properties(test_device(), &p));
    assert_true(p.name[0] && p.total_memory > 0);
    if (!p.simulated) return;
    assert_int_equal(p.threads_per_block, p.threads_per_multiprocessor);
    assert_true(p.registers_per_multiprocessor > 0 && p.l2_cache > 0 && p.shared_memory_per_block <= p.shared_memory_per_multiprocessor);
    assert_true(p.clock_rate > 0 && p.memory_clock_rate > 0 && p.memory_bus_width > 0 && !p.integrated && !p.multi_board);
    fa_device_uuid_text(&p, uuid, sizeof uuid);
    assert_string_equal(uuid, "46616375-6c61-2073-696d-756c61746500");
    fa_device_uuid_text(&p, other, 9);
    assert_string_equal(other, "46616375");
    if (fa_device_count(FA_DEVICE_CUDA) < 2) return;
    fa_device_properties second;
    assert_true(fa_device_get_properties(FA_CUDA(1), &second));
    fa_device_uuid_text(&second, other, sizeof other);
    assert_string_not_equal(uuid, other);
    assert_int_not_equal(p.pci_bus, second.pci_bus);
}

static char warned[300];
static void keep(const char *op, const char *text) { snprintf(warned, sizeof warned, "%s: %s", op, text); }

static void sensors(void **state) {
    (void)state;
    fa_device_sensors s;
    const fa_device device = test_device();
    const bool simulated = device.type == FA_DEVICE_CUDA;
    if (simulated && !faulty("nvml:1") && !faulty("nvml:2")) {
        fai_set_warn(keep);
        assert_true(fa_device_get_sensors(device, &s));
        fai_set_warn(NULL);
        assert_string_equal(warned, "get_sensors: cuda:0 is simulated and has no sensors: its utilization, temperature, power and clock "
                                    "are made up, always the same");
        assert_true(s.utilization == 50 && s.memory_utilization == 25 && s.temperature == 40 && s.power == 100000 && s.clock == 1000);
        return;
    }
    assert_false(fa_device_get_sensors(device, &s));
    assert_int_equal(s.power, 0);
    const char *wanted = faulty("nvml:1") ? "the sensors of cuda:0 can't be asked: NVML, NVIDIA's management library, can't be used: "
                                            "libnvidia-ml.so.1, which comes with the driver, was not found"
                         : faulty("nvml:2") ? "the sensors of cuda:0 can't be asked: NVML error: Invalid Argument while opening the management library"
                                            : " has no sensors that can be asked: utilization, temperature, power and clock are told of CUDA devices";
    const fa_error error = fa_error_take();
    assert_int_equal(error.code, FA_ERR_UNSUPPORTED);
    assert_non_null(strstr(error.text, wanted));
}

static void caching(void **state) {
    (void)state;
    const fa_device device = test_device();
    if (device.type == FA_DEVICE_CPU) return;
    fa_test_caches(true); /* off at start under a sanitizer */
    fa_empty_cache(device);
    const uint64_t before = fa_memory_reserved(device);
    assert_true(fa_memory_caching(false));
    fa_drop(fa_ones(FA_SHAPE(1000), .device = device));
    fa_synchronize(device);
    fa_drop(fa_ones(FA_SHAPE(1000), .device = device));
    assert_int_equal(fa_memory_reserved(device), before);
    assert_false(fa_memory_caching(true));
    fa_drop(fa_ones(FA_SHAPE(1000), .device = device));
    assert_true(fa_memory_reserved(device) > before);
    fa_test_caches(false); /* gives all back */
    assert_false(fa_failed());
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(properties), cmocka_unit_test(sensors), cmocka_unit_test(caching)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
