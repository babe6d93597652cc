/* Which OpenCL devices are there, what they can do, and what their errors mean.
 *
 * GPUs and accelerators come first, devices of type CPU (PoCL) last: nothing chooses those by itself unless FACULA_OPENCL=cpu, with
 * which they are the only ones. FACULA_OPENCL=off opens nothing. */
#include "opencl.h"
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

fai_opencl_device fai_opencl_devices[FAI_OPENCL_DEVICES];
int fai_opencl_count;

/* ---- errors ---- */

static const char *name_of(cl_int code) {
    static const struct { int code; const char *name; } names[] = {
        {CL_DEVICE_NOT_FOUND, "device not found"},
        {CL_DEVICE_NOT_AVAILABLE, "device not available"},
        {-3, "compiler not available"},
        {CL_MEM_OBJECT_ALLOCATION_FAILURE, "out of memory"},
        {CL_OUT_OF_RESOURCES, "out of resources"},
        {CL_OUT_OF_HOST_MEMORY, "out of host memory"},
        {-7, "no profiling information"},
        {-8, "overlapping copy"},
        {CL_BUILD_PROGRAM_FAILURE, "the program does not compile"},
        {-14, "a command failed"},
        {-30, "invalid value"},
        {CL_INVALID_DEVICE, "invalid device"},
        {CL_INVALID_CONTEXT, "invalid context"},
        {CL_INVALID_COMMAND_QUEUE, "invalid command queue"},
        {-38, "invalid memory object"},
        {-43, "invalid build options"},
        {-46, "no such kernel"},
        {-51, "invalid size of an argument"},
        {-52, "an argument is missing"},
        {-54, "invalid size of work-groups"},
        {CL_INVALID_BUFFER_SIZE, "more than the device gives at once"},
        {CL_PLATFORM_NOT_FOUND_KHR, "no driver installed"},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (names[i].code == code) return names[i].name;
    return "unknown error";
}

int fai_opencl_refused(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(fai_cold_block()->backend_text, sizeof fai_cold_block()->backend_text, format, arguments);
    va_end(arguments);
    return FA_BACKEND_FAILED;
}

/* After these the device may be gone: it is, if its default queue can't even be waited for. */
static bool is_lost(int device, cl_int code) {
    fai_opencl_device *d = device >= 0 ? &fai_opencl_devices[device] : NULL;
    if (code == CL_DEVICE_NOT_AVAILABLE) return true;
    if (code != CL_OUT_OF_RESOURCES && code != CL_INVALID_COMMAND_QUEUE && code != CL_INVALID_CONTEXT && code != -14) return false;
    return d && d->queue.queue && fai_opencl.finish(d->queue.queue) != CL_SUCCESS;
}

int fai_opencl_failed(int device, cl_int code, const char *format, ...) {
    char doing[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(doing, sizeof doing, format, arguments);
    va_end(arguments);
    fai_opencl_refused("OpenCL error: %s (%d) while %s", name_of(code), code, doing);
    if (code == CL_MEM_OBJECT_ALLOCATION_FAILURE || code == CL_OUT_OF_HOST_MEMORY || code == CL_INVALID_BUFFER_SIZE)
        return FA_BACKEND_NO_MEMORY;
    return is_lost(device, code) ? FA_BACKEND_LOST : FA_BACKEND_FAILED;
}

/* ---- which are there ---- */

static uint64_t number(cl_device_id id, cl_uint what) { /* of 32 or 64 bits, by the driver's own size */
    unsigned char bytes[64] = {0};
    uint64_t value = 0;
    size_t size = 0;
    if (fai_opencl.device_info(id, what, sizeof bytes, bytes, &size) != CL_SUCCESS) return 0;
    memcpy(&value, bytes, size < sizeof value ? size : sizeof value); /* little-endian */
    return value;
}

void fai_opencl_words(cl_device_id id, cl_uint what, char *out, size_t n) {
    char *whole = NULL;
    size_t size = 0;
    out[0] = 0;
    if (fai_opencl.device_info(id, what, 0, NULL, &size) != CL_SUCCESS || !size || !(whole = fai_alloc(FAI_TAG_OTHER, size))) return;
    if (fai_opencl.device_info(id, what, size, whole, NULL) == CL_SUCCESS) snprintf(out, n, "%.*s", (int)size, whole);
    fai_free(FAI_TAG_OTHER, whole, size);
}

/* NULL, or what makes it useless. */
static const char *what_lacks(cl_device_id id) {
    char version[64];
    fai_opencl_words(id, CL_DEVICE_VERSION, version, sizeof version);
    if (!strncmp(version, "OpenCL 1.0", 10) || !strncmp(version, "OpenCL 1.1", 10)) return "is older than OpenCL 1.2";
    if (!number(id, CL_DEVICE_AVAILABLE)) return "is not available";
    if (!number(id, CL_DEVICE_COMPILER_AVAILABLE)) return "has no compiler";
    if (number(id, CL_DEVICE_MAX_WORK_GROUP_SIZE) < 256) return "has work-groups of fewer than 256 items";
    return NULL;
}

static void describe(fai_opencl_device *d, cl_device_id id) {
    char vendor[128], version[64];
    const char *as_if = getenv("FACULA_OPENCL_FLOAT64"), *plan = getenv("FACULA_OPENCL_PLAN");
    uint64_t type = number(id, CL_DEVICE_TYPE), single = number(id, CL_DEVICE_SINGLE_FP_CONFIG);
    fai_opencl_words(id, CL_DEVICE_VENDOR, vendor, sizeof vendor);
    fai_opencl_words(id, CL_DEVICE_VERSION, version, sizeof version);
    d->id = id;
    d->is_pocl = strstr(version, "PoCL") != NULL;
    d->is_cpu = type & CL_DEVICE_TYPE_CPU;
    d->has_float64 = number(id, CL_DEVICE_DOUBLE_FP_CONFIG) != 0 && !(as_if && !strcmp(as_if, "off"));
    d->by_value = plan ? !strcmp(plan, "value") : number(id, CL_DEVICE_MAX_PARAMETER_SIZE) >= sizeof(fai_opencl_block) + (8 + FA_PLAN_OBJECTS) * sizeof(cl_mem);
    d->total = number(id, CL_DEVICE_GLOBAL_MEM_SIZE);
    d->most = number(id, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
    d->exact = (single & CL_FP_DENORM) && (single & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT);
    const bool gpu = type & CL_DEVICE_TYPE_GPU;
    snprintf(d->type, sizeof d->type, "%s", gpu && strstr(vendor, "Intel") ? "xpu" : gpu && strstr(vendor, "Apple") ? "mps" : "opencl");
    pthread_mutex_init(&d->lock, NULL);
}

static void add_platform(cl_platform_id platform, uint64_t type, char *why, size_t n) {
    cl_device_id found[FAI_OPENCL_DEVICES];
    cl_uint count = 0;
    if (fai_opencl.devices(platform, type, FAI_OPENCL_DEVICES, found, &count) != CL_SUCCESS) return;
    for (cl_uint i = 0; i < count && i < FAI_OPENCL_DEVICES && fai_opencl_count < FAI_OPENCL_DEVICES; i++) {
        char name[128];
        const char *lacks = what_lacks(found[i]);
        if (!lacks) {
            describe(&fai_opencl_devices[fai_opencl_count++], found[i]);
            continue;
        }
        fai_opencl_words(found[i], CL_DEVICE_NAME, name, sizeof name);
        snprintf(why, n, "the OpenCL device '%s' %s", name, lacks);
    }
}

int fai_opencl_open(int *count, char *why, size_t n) {
    const char *choice = getenv("FACULA_OPENCL"), *sim = getenv("FACULA_SIM");
    cl_platform_id platforms[16];
    cl_uint found = 0;
    *count = fai_opencl_count = 0;
    if (n) why[0] = 0;
    const bool chosen = choice && *choice, cpu = chosen && !strcmp(choice, "cpu");
    if (chosen && !strcmp(choice, "off")) return snprintf(why, n, "FACULA_OPENCL=off hides OpenCL's devices"), 0;
    if (chosen && !cpu)
        return snprintf(why, n, "FACULA_OPENCL='%.40s' is not understood: cpu for devices of type CPU only, or off", choice), 0;
    if (!chosen && sim && *sim) return snprintf(why, n, "FACULA_SIM stands in place of all devices"), 0;
    if (!fai_opencl_load(why, n)) return 0;
    cl_int code = fai_opencl.platforms(16, platforms, &found);
    if (found > 16) found = 16;
    if (code != CL_SUCCESS || !found) {
        snprintf(why, n, "OpenCL's loader finds no driver (%s): install your device's", code ? name_of(code) : "an empty list");
        return 0;
    }
    for (int pass = cpu; pass < 2; pass++)
        for (cl_uint i = 0; i < found; i++)
            add_platform(platforms[i], pass ? CL_DEVICE_TYPE_CPU : CL_DEVICE_TYPE_GPU | CL_DEVICE_TYPE_ACCELERATOR, why, n);
    if (!fai_opencl_count && !why[0]) snprintf(why, n, "OpenCL's drivers show no device%s", cpu ? " of type CPU" : "");
    *count = fai_opencl_count;
    return 0;
}

const char *fai_opencl_type(int device) { return fai_opencl_devices[device].type; }

bool fai_opencl_counts(void) {
    const char *choice = getenv("FACULA_OPENCL");
    for (int i = 0; i < fai_opencl_count; i++)
        if (!strcmp(fai_opencl_devices[i].type, "opencl")) return !fai_opencl_devices[i].is_cpu || (choice && !strcmp(choice, "cpu"));
    return true;
}

int fai_opencl_properties(int device, fa_device_properties *out) {
    char version[44];
    memset(out, 0, sizeof *out);
    if (device < 0 || device >= fai_opencl_count)
        return fai_opencl_refused("OpenCL error: invalid device ordinal: device %d of %d", device, fai_opencl_count);
    const fai_opencl_device *d = &fai_opencl_devices[device];
    fai_opencl_words(d->id, CL_DEVICE_NAME, out->name, sizeof out->name);
    fai_opencl_words(d->id, CL_DEVICE_VERSION, version, sizeof version);
    out->total_memory = d->total;
    out->multiprocessors = (int)number(d->id, CL_DEVICE_MAX_COMPUTE_UNITS);
    out->threads_per_multiprocessor = (int)number(d->id, CL_DEVICE_MAX_WORK_GROUP_SIZE);
    out->warp_size = 1; /* OpenCL 1.2 has no word for it */
    out->has_float64 = d->has_float64;
    snprintf(out->driver, sizeof out->driver, "%s%s", d->exact ? "" : "inexact arithmetic, ", version);
    return 0;
}

int fai_opencl_enter(int device) {
    if (device < 0 || device >= fai_opencl_count)
        return fai_opencl_refused("OpenCL error: invalid device ordinal: device %d of %d", device, fai_opencl_count);
    fai_opencl_device *d = &fai_opencl_devices[device];
    if (FAI_LIKELY(__atomic_load_n(&d->queue.queue, __ATOMIC_ACQUIRE) != NULL)) return 0;
    cl_int code = CL_SUCCESS;
    int bad = 0;
    pthread_mutex_lock(&d->lock);
    if (!d->context) d->context = fai_opencl.context_create(NULL, 1, &d->id, NULL, NULL, &code);
    if (!d->context && (bad = fai_opencl_failed(device, code, "opening device %d", device)) == FA_BACKEND_NO_MEMORY)
        bad = FA_BACKEND_FAILED; /* no memory of the device, which could be given back */
    if (!bad && !d->queue.queue) bad = fai_opencl_queue_open(device, &d->queue);
    pthread_mutex_unlock(&d->lock);
    return bad;
}
