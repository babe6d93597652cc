/* A libOpenCL.so.1 with one device, for tests: FAKE_OPENCL names what is wrong with it. Memory is the host's, queues do all at once,
 * kernels do nothing. FAKE_OPENCL_LOG=file gets a letter for each program: T for a text that was compiled, B for a binary taken back. */
#include "backends/opencl/api.h"
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default")))
static bool is(const char *what) {
    const char *wrong = getenv("FAKE_OPENCL");
    return wrong && !strcmp(wrong, what);
}

static int one; /* platform, device, context, queue, kernel, event: there is one of each */
static cl_int lost(void) { return is("lost") && one ? CL_OUT_OF_RESOURCES : CL_SUCCESS; }

static cl_int answer(const void *value, size_t bytes, size_t n, void *out, size_t *size) {
    if (size) *size = bytes;
    if (out) memcpy(out, value, bytes < n ? bytes : n);
    return CL_SUCCESS;
}
static cl_int words(const char *text, size_t n, void *out, size_t *size) { return answer(text, strlen(text) + 1, n, out, size); }
static cl_int number(uint64_t value, size_t n, void *out, size_t *size) { return answer(&value, sizeof value, n, out, size); }

static void note(char letter) {
    const char *name = getenv("FAKE_OPENCL_LOG");
    FILE *file = name ? fopen(name, "a") : NULL;
    if (file) fputc(letter, file), fclose(file);
}

/* ---- what is there ---- */

API cl_int clGetPlatformIDs(cl_uint n, cl_platform_id *out, cl_uint *found) {
    if (is("no driver")) return CL_PLATFORM_NOT_FOUND_KHR;
    if (found) *found = !is("no platform");
    if (n && out) out[0] = (cl_platform_id)(void *)&one;
    return CL_SUCCESS;
}
API cl_int clGetPlatformInfo(cl_platform_id p, cl_uint what, size_t n, void *out, size_t *size) {
    (void)p, (void)what;
    return words("Fake platform", n, out, size);
}
API cl_int clGetDeviceIDs(cl_platform_id p, cl_bitfield type, cl_uint n, cl_device_id *out, cl_uint *found) {
    (void)p;
    if (is("no device") || !(type & CL_DEVICE_TYPE_GPU)) return CL_DEVICE_NOT_FOUND;
    if (found) *found = 1;
    if (n && out) out[0] = (cl_device_id)(void *)&one;
    return CL_SUCCESS;
}
API cl_int clGetDeviceInfo(cl_device_id d, cl_uint what, size_t n, void *out, size_t *size) {
    (void)d;
    switch (what) {
    case CL_DEVICE_TYPE: return number(CL_DEVICE_TYPE_GPU, n, out, size);
    case CL_DEVICE_MAX_COMPUTE_UNITS: return number(3, n, out, size);
    case CL_DEVICE_MAX_WORK_GROUP_SIZE: return number(is("small") ? 64 : 256, n, out, size);
    case CL_DEVICE_MAX_MEM_ALLOC_SIZE: return number(64 << 20, n, out, size);
    case CL_DEVICE_MAX_PARAMETER_SIZE: return number(1024, n, out, size);
    case CL_DEVICE_SINGLE_FP_CONFIG: return number(CL_FP_DENORM | CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT, n, out, size);
    case CL_DEVICE_DOUBLE_FP_CONFIG: return number(!is("no float64"), n, out, size);
    case CL_DEVICE_GLOBAL_MEM_SIZE: return number(256 << 20, n, out, size);
    case CL_DEVICE_AVAILABLE: return number(!is("not available"), n, out, size);
    case CL_DEVICE_COMPILER_AVAILABLE: return number(!is("no compiler"), n, out, size);
    case CL_DEVICE_NAME: return words("Fake GPU", n, out, size);
    case CL_DEVICE_VENDOR: return words(is("intel") ? "Intel(R) Corporation" : is("apple") ? "Apple" : "Fake", n, out, size);
    case CL_DEVICE_VERSION: return words(is("old") ? "OpenCL 1.1 fake" : "OpenCL 1.2 fake", n, out, size);
    case CL_DRIVER_VERSION: return words(is("newer driver") ? "2" : "1", n, out, size);
    default: return words("", n, out, size);
    }
}

/* ---- contexts, queues, events ---- */

API cl_context clCreateContext(const intptr_t *p, cl_uint n, const cl_device_id *d, void (*f)(const char *, const void *, size_t, void *),
                               void *user, cl_int *code) {
    (void)p, (void)n, (void)d, (void)f, (void)user;
    *code = is("no context") ? CL_OUT_OF_HOST_MEMORY : CL_SUCCESS;
    return *code ? NULL : (cl_context)(void *)&one;
}
API cl_int clReleaseContext(cl_context c) { return (void)c, CL_SUCCESS; }
API cl_command_queue clCreateCommandQueue(cl_context c, cl_device_id d, cl_bitfield what, cl_int *code) {
    (void)c, (void)d, (void)what;
    *code = is("no queue") ? CL_OUT_OF_RESOURCES : CL_SUCCESS;
    return *code ? NULL : (cl_command_queue)(void *)&one;
}
API cl_int clReleaseCommandQueue(cl_command_queue q) { return (void)q, CL_SUCCESS; }
API cl_int clFlush(cl_command_queue q) { return (void)q, lost(); }
API cl_int clFinish(cl_command_queue q) { return (void)q, lost(); }
static cl_int done(cl_event *event) {
    if (event) *event = (cl_event)(void *)&one;
    return lost();
}
API cl_int clEnqueueMarkerWithWaitList(cl_command_queue q, cl_uint n, const cl_event *list, cl_event *event) {
    return (void)q, (void)n, (void)list, done(event);
}
API cl_int clEnqueueBarrierWithWaitList(cl_command_queue q, cl_uint n, const cl_event *list, cl_event *event) {
    return (void)q, (void)n, (void)list, done(event);
}
API cl_int clWaitForEvents(cl_uint n, const cl_event *list) { return (void)n, (void)list, lost(); }
API cl_int clGetEventInfo(cl_event e, cl_uint what, size_t n, void *out, size_t *size) {
    (void)e, (void)what;
    const cl_int complete = CL_COMPLETE;
    return answer(&complete, sizeof complete, n, out, size);
}
API cl_int clGetEventProfilingInfo(cl_event e, cl_uint what, size_t n, void *out, size_t *size) {
    return (void)e, (void)what, number(0, n, out, size);
}
API cl_int clReleaseEvent(cl_event e) { return (void)e, CL_SUCCESS; }

/* ---- memory ---- */

API cl_mem clCreateBuffer(cl_context c, cl_bitfield how, size_t bytes, void *host, cl_int *code) {
    (void)c, (void)how, (void)host;
    const bool full = is("no memory") && bytes > 4096; /* a queue's plans find room */
    void *made = full ? NULL : calloc(1, bytes);
    *code = made ? CL_SUCCESS : CL_MEM_OBJECT_ALLOCATION_FAILURE;
    return (cl_mem)made;
}
API cl_int clReleaseMemObject(cl_mem m) { return free((void *)m), CL_SUCCESS; }
API cl_int clEnqueueMigrateMemObjects(cl_command_queue q, cl_uint n, const cl_mem *m, cl_bitfield how, cl_uint k, const cl_event *list,
                                      cl_event *event) {
    (void)q, (void)n, (void)m, (void)how, (void)k, (void)list;
    const cl_int code = done(event);
    return is("late memory") ? CL_OUT_OF_RESOURCES : code; /* found out when it is used */
}
API cl_int clEnqueueReadBuffer(cl_command_queue q, cl_mem m, cl_bool wait, size_t at, size_t n, void *out, cl_uint k, const cl_event *list,
                               cl_event *event) {
    (void)q, (void)wait, (void)k, (void)list;
    memcpy(out, (char *)(void *)m + at, n);
    return done(event);
}
API cl_int clEnqueueWriteBuffer(cl_command_queue q, cl_mem m, cl_bool wait, size_t at, size_t n, const void *in, cl_uint k,
                                const cl_event *list, cl_event *event) {
    (void)q, (void)wait, (void)k, (void)list;
    memcpy((char *)(void *)m + at, in, n);
    return done(event);
}
API cl_int clEnqueueCopyBuffer(cl_command_queue q, cl_mem from, cl_mem to, size_t a, size_t b, size_t n, cl_uint k, const cl_event *list,
                               cl_event *event) {
    (void)q, (void)k, (void)list;
    memmove((char *)(void *)to + b, (char *)(void *)from + a, n);
    return done(event);
}
API cl_int clEnqueueFillBuffer(cl_command_queue q, cl_mem m, const void *pattern, size_t size, size_t at, size_t n, cl_uint k,
                               const cl_event *list, cl_event *event) {
    (void)q, (void)size, (void)k, (void)list;
    memset((char *)(void *)m + at, *(const unsigned char *)pattern, n);
    return done(event);
}

/* ---- programs ---- */

static cl_program program(void) { return (cl_program)calloc(1, 1); }
API cl_program clCreateProgramWithSource(cl_context c, cl_uint n, const char **text, const size_t *bytes, cl_int *code) {
    (void)c, (void)n, (void)text, (void)bytes;
    note('T');
    return *code = CL_SUCCESS, program();
}
API cl_program clCreateProgramWithBinary(cl_context c, cl_uint n, const cl_device_id *d, const size_t *bytes, const unsigned char **image,
                                         cl_int *status, cl_int *code) {
    (void)c, (void)n, (void)d;
    const bool right = *bytes == 4 && !memcmp(*image, "fake", 4) && !is("no binaries");
    *status = *code = right ? CL_SUCCESS : -42;
    if (right) note('B');
    return right ? program() : NULL;
}
API cl_int clGetProgramInfo(cl_program p, cl_uint what, size_t n, void *out, size_t *size) {
    (void)p;
    if (what == CL_PROGRAM_BINARY_SIZES) return number(4, n, out, size);
    memcpy(*(unsigned char **)out, "fake", 4);
    return CL_SUCCESS;
}
API cl_int clBuildProgram(cl_program p, cl_uint n, const cl_device_id *d, const char *options, void (*f)(cl_program, void *), void *user) {
    (void)p, (void)n, (void)d, (void)options, (void)f, (void)user;
    return is("does not compile") ? CL_BUILD_PROGRAM_FAILURE : CL_SUCCESS;
}
API cl_int clGetProgramBuildInfo(cl_program p, cl_device_id d, cl_uint what, size_t n, void *out, size_t *size) {
    (void)p, (void)d, (void)what;
    return words("kernel.cl:7:3: error: this compiler knows nothing", n, out, size);
}
API cl_int clReleaseProgram(cl_program p) { return free((void *)p), CL_SUCCESS; }
API cl_kernel clCreateKernel(cl_program p, const char *name, cl_int *code) {
    (void)p, (void)name;
    *code = is("no kernel") ? -46 : CL_SUCCESS;
    return *code ? NULL : (cl_kernel)(void *)&one;
}
API cl_int clReleaseKernel(cl_kernel k) { return (void)k, CL_SUCCESS; }
API cl_int clSetKernelArg(cl_kernel k, cl_uint i, size_t n, const void *value) { return (void)k, (void)i, (void)n, (void)value, CL_SUCCESS; }
API cl_int clEnqueueNDRangeKernel(cl_command_queue q, cl_kernel k, cl_uint dims, const size_t *at, const size_t *global, const size_t *local,
                                  cl_uint n, const cl_event *list, cl_event *event) {
    (void)q, (void)k, (void)dims, (void)at, (void)global, (void)local, (void)n, (void)list;
    if (is("refuses")) return -54;
    one = 1; /* from the first launch on a lost device is lost */
    return done(event);
}
