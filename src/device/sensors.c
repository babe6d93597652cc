/* What a device's sensors say, and how its uuid is written. */
#include "inside.h"
#include <string.h>

void fa_device_uuid_text(const fa_device_properties *properties, char *out, size_t n) {
    char text[40];
    size_t at = 0;
    for (int i = 0; i < 16; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", properties->uuid[i]);
    if (n) snprintf(out, n, "%s", text);
}

/* A simulated device has none: its driver makes numbers up. */
static void warn_simulated(const fai_dev *dev) {
    fa_device_properties properties = {0};
    if (dev->backend->properties(dev->ordinal, &properties) != 0 || !properties.simulated) return;
    fai_warn("get_sensors", "%s is simulated and has no sensors: its utilization, temperature, power and clock are made up, always the same",
             fa_device_text(dev->name));
}

bool fa_device_get_sensors(fa_device device, fa_device_sensors *out) {
    memset(out, 0, sizeof *out);
    if (!fai_device_resolve(&device, "get_sensors")) return false;
    fai_dev *dev = fai_dev_find(device);
    if (!dev || !dev->backend->sensors)
        return fai_fail(FA_ERR_UNSUPPORTED, "get_sensors", "%s has no sensors that can be asked: utilization, temperature, power and clock are told of CUDA devices",
                        fa_device_text(device));
    warn_simulated(dev);
    if (dev->backend->sensors(dev->ordinal, out) == 0) return true;
    return fai_fail(FA_ERR_UNSUPPORTED, "get_sensors", "the sensors of %s can't be asked: %s", fa_device_text(device), dev->backend->error_text());
}
