/* Where an operator test runs: on the device that the environment brings (FACULA_SIM, FACULA_PLUGINS, FACULA_OPENCL), else on the
 * CPU. A device that was asked for and is not there ends the test. */
#ifndef TEST_DEVICE_H
#define TEST_DEVICE_H

#include <facula.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline bool test_on_opencl(void) { return getenv("FACULA_OPENCL") && !strcmp(getenv("FACULA_OPENCL"), "cpu"); } /* else it is off */
static inline bool test_on_device(void) { return getenv("FACULA_SIM") || getenv("FACULA_PLUGINS") || test_on_opencl(); }
static inline fa_device test_device(void) {
    const fa_device device = test_on_device() ? fa_try_accelerator(0) : FA_CPU;
    if (!test_on_device() || device.type != FA_DEVICE_CPU) return device;
    printf("the environment asks for a device, and there is none\n");
    exit(1);
}

#endif
