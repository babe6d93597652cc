/* Where factories put tensors when nobody says: the default device, its scopes, and which device "cuda" without a number
 * means on this thread. */
#include "inside.h"

enum { DEEPEST = FAI_DEVICE_SCOPES };

static _Atomic uint32_t process_default = (uint32_t)FA_DEVICE_CPU << 16 | 0xffffu; /* type and index, packed */

static bool is_known(fa_device device, const char *op) {
    if (device.type == 0 || fai_type_name(device.type)) return true;
    return fai_fail(FA_ERR_RUNTIME, op, "device type %d is unknown; make devices with fa_device_parse(\"cuda\") or FA_CUDA(0)",
                    device.type);
}

fa_device fa_default_device(void) {
    if (fai_tls.default_device.type) return fai_tls.default_device;
    uint32_t packed = atomic_load_explicit(&process_default, memory_order_relaxed);
    return fa_device_of_type((int16_t)(packed >> 16), (int16_t)(packed & 0xffffu));
}

/* Not checked for being there, as in torch: the first tensor that is put there says so. */
void fa_set_default_device(fa_device device) {
    if (!is_known(device, "set_default_device")) return;
    if (!device.type) device = FA_CPU;
    atomic_store(&process_default, (uint32_t)device.type << 16 | (uint16_t)device.index);
}

void fa_device_scope_open(fa_device device) {
    int depth = fai_tls.device_depth++;
    if (depth >= DEEPEST) {
        fai_fail(FA_ERR_RUNTIME, "device_scope", "device scopes are nested more than %d deep; close some of them first", DEEPEST);
        return;
    }
    fai_cold_block()->outer[depth] = fai_tls.default_device;
    if (is_known(device, "device_scope") && device.type) fai_tls.default_device = device;
}

void fa_device_scope_close(void) {
    if (fai_tls.device_depth == 0) return; /* one close too many */
    int depth = --fai_tls.device_depth;
    if (depth < DEEPEST) fai_tls.default_device = fai_cold_block()->outer[depth];
}

int fa_current_device(int type) {
    if (type < 1 || type >= FAI_TYPES) return 0;
    return fai_tls.current_device[type];
}

bool fa_set_current_device(fa_device device) {
    if (device.type == FA_DEVICE_CPU || device.type == 0)
        return fai_fail(FA_ERR_VALUE, "set_current_device",
                        "Expected a cuda device, but got: %s; the CPU has no current device to choose", fa_device_text(device));
    fai_dev *dev = fai_dev_get(device, "set_current_device");
    if (!dev) return false;
    fai_tls.current_device[device.type] = dev->name.index;
    return true;
}
