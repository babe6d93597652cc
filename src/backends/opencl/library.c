/* Finds and opens OpenCL at run time: the loader libOpenCL.so.1, which knows the drivers that are installed. */
#include "opencl.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

fai_opencl_api fai_opencl;

static const struct { const char *name; size_t offset; } symbols[] = {
#define ENTRY(member, result, name, arguments) {#name, offsetof(fai_opencl_api, member)},
    FAI_OPENCL_FUNCTIONS(ENTRY)
#undef ENTRY
};

bool fai_opencl_load(char *why, size_t n) {
    static const char *const names[] = {"libOpenCL.so.1", "libOpenCL.so", "/System/Library/Frameworks/OpenCL.framework/OpenCL"};
    const char *wanted = getenv("FACULA_OPENCL_LIBRARY"), *name = wanted && *wanted ? wanted : names[0];
    char first[256] = "";
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library) snprintf(first, sizeof first, "%s", dlerror());
    for (size_t i = 1; !library && name == names[0] && i < sizeof names / sizeof names[0]; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(why, n,
                 "OpenCL's loader could not be opened: %s. Install it (Debian: apt-get install ocl-icd-libopencl1) and the driver of "
                 "your device",
                 first);
        return false;
    }
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        void *found = dlsym(library, symbols[i].name);
        if (!found) {
            snprintf(why, n, "%s has no function %s: it is older than OpenCL 1.2", name, symbols[i].name);
            dlclose(library);
            return false;
        }
        memcpy((char *)&fai_opencl + symbols[i].offset, &found, sizeof found);
    }
    return true;
}
