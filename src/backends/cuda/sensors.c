/* Temperature, power and the like, by NVIDIA's management library (NVML), which is opened when somebody asks. It has an order of
 * devices of its own, so a device is found by its place on the PCI bus. */
#include "cuda.h"
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool ready;

/* A reason that keeps a thread's text, as fai_cuda_refused. */
static int refused(nvmlReturn_t code, const char *doing) {
    return fai_cuda_refused("NVML error: %s while %s", fai_cuda_nvml.error_string(code), doing);
}

static int open_library(void) {
    char why[600];
    if (ready) return 0;
    if (!fai_cuda_load_nvml(why, sizeof why)) return fai_cuda_refused("%s", why);
    nvmlReturn_t code = fai_cuda_nvml.init();
    if (code != NVML_SUCCESS) return refused(code, "opening the management library");
    ready = true;
    return 0;
}

static int read_all(nvmlDevice_t device, fa_device_sensors *out) {
    nvmlUtilization_t used = {0, 0};
    unsigned celsius = 0, milliwatts = 0, mhz = 0;
    nvmlReturn_t code = fai_cuda_nvml.utilization(device, &used);
    if (code != NVML_SUCCESS) return refused(code, "asking for the utilization");
    if ((code = fai_cuda_nvml.temperature(device, NVML_TEMPERATURE_GPU, &celsius)) != NVML_SUCCESS)
        return refused(code, "asking for the temperature");
    if ((code = fai_cuda_nvml.power(device, &milliwatts)) != NVML_SUCCESS) return refused(code, "asking for the power");
    if ((code = fai_cuda_nvml.clock(device, NVML_CLOCK_SM, &mhz)) != NVML_SUCCESS) return refused(code, "asking for the clock");
    *out = (fa_device_sensors){.utilization = (int)used.gpu,
                               .memory_utilization = (int)used.memory,
                               .temperature = (int)celsius,
                               .power = (int)milliwatts,
                               .clock = (int)mhz};
    return 0;
}

int fai_cuda_sensors(int device, fa_device_sensors *out) {
    char place[32];
    nvmlDevice_t found = NULL;
    snprintf(place, sizeof place, "%08x:%02x:%02x.0", (unsigned)fai_cuda_attribute(device, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID),
             (unsigned)fai_cuda_attribute(device, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID),
             (unsigned)fai_cuda_attribute(device, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID));
    pthread_mutex_lock(&lock);
    int bad = open_library();
    if (!bad) {
        nvmlReturn_t code = fai_cuda_nvml.by_pci(place, &found);
        bad = code == NVML_SUCCESS ? read_all(found, out) : refused(code, "looking for the device");
    }
    pthread_mutex_unlock(&lock);
    return bad;
}
