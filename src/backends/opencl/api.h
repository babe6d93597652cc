/* What the OpenCL backend needs of OpenCL 1.2, declared here, so that building Facula needs no OpenCL. Names, numbers and argument
 * lists are those of cl.h, which Khronos keeps stable. */
#ifndef FAI_OPENCL_API_H
#define FAI_OPENCL_API_H

#include <stddef.h>
#include <stdint.h>

typedef struct _cl_platform_id *cl_platform_id;
typedef struct _cl_device_id *cl_device_id;
typedef struct _cl_context *cl_context;
typedef struct _cl_command_queue *cl_command_queue;
typedef struct _cl_mem *cl_mem;
typedef struct _cl_program *cl_program;
typedef struct _cl_kernel *cl_kernel;
typedef struct _cl_event *cl_event;
typedef int32_t cl_int;
typedef uint32_t cl_uint, cl_bool;
typedef uint64_t cl_ulong, cl_bitfield;

enum {
    CL_SUCCESS = 0,
    CL_DEVICE_NOT_FOUND = -1,
    CL_DEVICE_NOT_AVAILABLE = -2,
    CL_MEM_OBJECT_ALLOCATION_FAILURE = -4,
    CL_OUT_OF_RESOURCES = -5,
    CL_OUT_OF_HOST_MEMORY = -6,
    CL_BUILD_PROGRAM_FAILURE = -11,
    CL_INVALID_DEVICE = -33,
    CL_INVALID_CONTEXT = -34,
    CL_INVALID_COMMAND_QUEUE = -36,
    CL_INVALID_BUFFER_SIZE = -61,
    CL_PLATFORM_NOT_FOUND_KHR = -1001
};

enum { CL_DEVICE_TYPE_CPU = 2, CL_DEVICE_TYPE_GPU = 4, CL_DEVICE_TYPE_ACCELERATOR = 8 };
enum { CL_PLATFORM_NAME = 0x0902 };
enum { /* cl_device_info */
       CL_DEVICE_TYPE = 0x1000,
       CL_DEVICE_MAX_COMPUTE_UNITS = 0x1002,
       CL_DEVICE_MAX_WORK_GROUP_SIZE = 0x1004,
       CL_DEVICE_MAX_MEM_ALLOC_SIZE = 0x1010,
       CL_DEVICE_MAX_PARAMETER_SIZE = 0x1017,
       CL_DEVICE_SINGLE_FP_CONFIG = 0x101B,
       CL_DEVICE_GLOBAL_MEM_SIZE = 0x101F,
       CL_DEVICE_AVAILABLE = 0x1027,
       CL_DEVICE_COMPILER_AVAILABLE = 0x1028,
       CL_DEVICE_NAME = 0x102B,
       CL_DEVICE_VENDOR = 0x102C,
       CL_DRIVER_VERSION = 0x102D,
       CL_DEVICE_VERSION = 0x102F,
       CL_DEVICE_EXTENSIONS = 0x1030,
       CL_DEVICE_DOUBLE_FP_CONFIG = 0x1032
};
enum { CL_FP_DENORM = 1, CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT = 128 };
enum { CL_QUEUE_PROFILING_ENABLE = 2, CL_MEM_READ_WRITE = 1, CL_MEM_READ_ONLY = 4, CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED = 2 };
enum { CL_PROGRAM_BINARY_SIZES = 0x1165, CL_PROGRAM_BINARIES = 0x1166 };
enum { CL_PROGRAM_BUILD_LOG = 0x1183, CL_EVENT_COMMAND_EXECUTION_STATUS = 0x11D3, CL_COMPLETE = 0, CL_PROFILING_COMMAND_END = 0x1283 };

/* Each function once: member of the struct, result, name, arguments. library.c fills the struct from it. */
#define FAI_OPENCL_FUNCTIONS(F)                                                                                                  \
    F(platforms, cl_int, clGetPlatformIDs, (cl_uint, cl_platform_id *, cl_uint *))                                               \
    F(platform_info, cl_int, clGetPlatformInfo, (cl_platform_id, cl_uint, size_t, void *, size_t *))                             \
    F(devices, cl_int, clGetDeviceIDs, (cl_platform_id, cl_bitfield, cl_uint, cl_device_id *, cl_uint *))                        \
    F(device_info, cl_int, clGetDeviceInfo, (cl_device_id, cl_uint, size_t, void *, size_t *))                                   \
    F(context_create, cl_context, clCreateContext,                                                                               \
      (const intptr_t *, cl_uint, const cl_device_id *, void (*)(const char *, const void *, size_t, void *), void *, cl_int *))  \
    F(context_release, cl_int, clReleaseContext, (cl_context))                                                                   \
    F(queue_create, cl_command_queue, clCreateCommandQueue, (cl_context, cl_device_id, cl_bitfield, cl_int *))                   \
    F(queue_release, cl_int, clReleaseCommandQueue, (cl_command_queue))                                                          \
    F(memory_create, cl_mem, clCreateBuffer, (cl_context, cl_bitfield, size_t, void *, cl_int *))                                \
    F(memory_release, cl_int, clReleaseMemObject, (cl_mem))                                                                      \
    F(memory_migrate, cl_int, clEnqueueMigrateMemObjects,                                                                        \
      (cl_command_queue, cl_uint, const cl_mem *, cl_bitfield, cl_uint, const cl_event *, cl_event *))                           \
    F(read, cl_int, clEnqueueReadBuffer,                                                                                         \
      (cl_command_queue, cl_mem, cl_bool, size_t, size_t, void *, cl_uint, const cl_event *, cl_event *))                        \
    F(write, cl_int, clEnqueueWriteBuffer,                                                                                       \
      (cl_command_queue, cl_mem, cl_bool, size_t, size_t, const void *, cl_uint, const cl_event *, cl_event *))                  \
    F(copy, cl_int, clEnqueueCopyBuffer,                                                                                         \
      (cl_command_queue, cl_mem, cl_mem, size_t, size_t, size_t, cl_uint, const cl_event *, cl_event *))                         \
    F(fill, cl_int, clEnqueueFillBuffer,                                                                                         \
      (cl_command_queue, cl_mem, const void *, size_t, size_t, size_t, cl_uint, const cl_event *, cl_event *))                   \
    F(program_create, cl_program, clCreateProgramWithSource, (cl_context, cl_uint, const char **, const size_t *, cl_int *))     \
    F(program_from_binary, cl_program, clCreateProgramWithBinary,                                                                \
      (cl_context, cl_uint, const cl_device_id *, const size_t *, const unsigned char **, cl_int *, cl_int *))                   \
    F(program_info, cl_int, clGetProgramInfo, (cl_program, cl_uint, size_t, void *, size_t *))                                   \
    F(program_build, cl_int, clBuildProgram,                                                                                     \
      (cl_program, cl_uint, const cl_device_id *, const char *, void (*)(cl_program, void *), void *))                           \
    F(program_log, cl_int, clGetProgramBuildInfo, (cl_program, cl_device_id, cl_uint, size_t, void *, size_t *))                 \
    F(program_release, cl_int, clReleaseProgram, (cl_program))                                                                   \
    F(kernel_create, cl_kernel, clCreateKernel, (cl_program, const char *, cl_int *))                                            \
    F(kernel_release, cl_int, clReleaseKernel, (cl_kernel))                                                                      \
    F(kernel_argument, cl_int, clSetKernelArg, (cl_kernel, cl_uint, size_t, const void *))                                       \
    F(launch, cl_int, clEnqueueNDRangeKernel,                                                                                    \
      (cl_command_queue, cl_kernel, cl_uint, const size_t *, const size_t *, const size_t *, cl_uint, const cl_event *,          \
       cl_event *))                                                                                                              \
    F(marker, cl_int, clEnqueueMarkerWithWaitList, (cl_command_queue, cl_uint, const cl_event *, cl_event *))                    \
    F(barrier, cl_int, clEnqueueBarrierWithWaitList, (cl_command_queue, cl_uint, const cl_event *, cl_event *))                  \
    F(flush, cl_int, clFlush, (cl_command_queue))                                                                                \
    F(finish, cl_int, clFinish, (cl_command_queue))                                                                              \
    F(event_wait, cl_int, clWaitForEvents, (cl_uint, const cl_event *))                                                          \
    F(event_info, cl_int, clGetEventInfo, (cl_event, cl_uint, size_t, void *, size_t *))                                         \
    F(event_profile, cl_int, clGetEventProfilingInfo, (cl_event, cl_uint, size_t, void *, size_t *))                             \
    F(event_release, cl_int, clReleaseEvent, (cl_event))

#define FAI_OPENCL_MEMBER(member, result, name, arguments) result(*member) arguments;
typedef struct fai_opencl_api {
    FAI_OPENCL_FUNCTIONS(FAI_OPENCL_MEMBER)
} fai_opencl_api;
#undef FAI_OPENCL_MEMBER

#endif
