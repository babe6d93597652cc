/* What a simulated device tells of itself, and the nvml* functions that stand in place of NVIDIA's management library: the sensors
 * of a device that is not there always say the same. */
#include "sim.h"
#include <stdio.h>
#include <string.h>

static int fact(const sim_device *d, int attribute) {
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK: return SIM_THREADS;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: return 48 << 10;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE: return SIM_WARP;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE: return 1000000;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: return SIM_MULTIPROCESSORS;
    case CU_DEVICE_ATTRIBUTE_INTEGRATED: return 0;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID: return d->physical + 1;
    case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID: return 0;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE: return 1000000;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH: return 64;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: return 1 << 20;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR: return SIM_THREADS;
    case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID: return 0;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: return SIM_MAJOR;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: return SIM_MINOR;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR: return 48 << 10;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR: return 65536;
    case CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD: return 0;
    default: return -1;
    }
}

SIM_API CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
    CUresult bad = sim_check_device(device);
    if (bad) return bad;
    const int found = fact(&sim.device[device], attribute);
    if (found < 0) return sim_fail(CUDA_ERROR_INVALID_VALUE, "the simulator has no device attribute %d", attribute);
    *value = found;
    return CUDA_SUCCESS;
}

/* "Facula simulated", the last byte the device's number. */
SIM_API CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) {
    CUresult bad = sim_check_device(device);
    if (!bad) sim_uuid(uuid, sim.device[device].physical);
    return bad;
}

void sim_uuid(CUuuid *uuid, int physical) {
    memcpy(uuid->bytes, "Facula simulate", 15);
    uuid->bytes[15] = (char)physical;
}

/* ---- nvml ---- */

SIM_API nvmlReturn_t nvmlInit_v2(void) { return sim_nvml_fault() > 1 ? NVML_ERROR_INVALID_ARGUMENT : NVML_SUCCESS; }

SIM_API const char *nvmlErrorString(nvmlReturn_t error) { return error == NVML_SUCCESS ? "Success" : "Invalid Argument"; }

SIM_API nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, nvmlDevice_t *device) {
    unsigned domain, bus, slot;
    if (sscanf(bus_id, "%x:%x:%x.0", &domain, &bus, &slot) != 3 || domain || slot) return NVML_ERROR_INVALID_ARGUMENT;
    for (int i = 0; i < sim.ndevices; i++)
        if ((unsigned)sim.device[i].physical + 1 == bus) {
            *device = (nvmlDevice_t)&sim.device[i];
            return NVML_SUCCESS;
        }
    return NVML_ERROR_INVALID_ARGUMENT;
}

SIM_API nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *out) {
    (void)device;
    *out = (nvmlUtilization_t){.gpu = 50, .memory = 25};
    return NVML_SUCCESS;
}

SIM_API nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, int sensor, unsigned *celsius) {
    (void)device;
    *celsius = 40;
    return sensor == NVML_TEMPERATURE_GPU ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

SIM_API nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned *milliwatts) {
    (void)device;
    *milliwatts = 100000;
    return NVML_SUCCESS;
}

SIM_API nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, int type, unsigned *mhz) {
    (void)device;
    *mhz = 1000;
    return type == NVML_CLOCK_SM ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

/* The compiler's proof that these are the functions that the backend calls. */
const fai_nvml sim_nvml_check = {
    nvmlInit_v2,
    nvmlErrorString,
    nvmlDeviceGetHandleByPciBusId_v2,
    nvmlDeviceGetUtilizationRates,
    nvmlDeviceGetTemperature,
    nvmlDeviceGetPowerUsage,
    nvmlDeviceGetClockInfo,
};
