/* What the cuda backend needs of the CUDA driver API and of NVRTC, declared here, so that building Facula needs no CUDA.
 *
 * Names, numbers and argument lists are those of cuda.h and nvrtc.h, which NVIDIA keeps stable; functions with a second form are
 * asked for under its name (cuMemAlloc_v2), as the real library exports them. The simulator (backends/sim) defines the same
 * functions and is checked against these two structs by the compiler. */
#ifndef FAI_CUDA_DRIVER_H
#define FAI_CUDA_DRIVER_H

#include <stddef.h>

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef int nvrtcResult;
typedef struct _nvrtcProgram *nvrtcProgram;

enum {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_INVALID_VALUE = 1,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_NOT_INITIALIZED = 3,
    CUDA_ERROR_DEVICE_UNAVAILABLE = 46,
    CUDA_ERROR_NO_DEVICE = 100,
    CUDA_ERROR_INVALID_DEVICE = 101,
    CUDA_ERROR_INVALID_IMAGE = 200,
    CUDA_ERROR_INVALID_CONTEXT = 201,
    CUDA_ERROR_OPERATING_SYSTEM = 304,
    CUDA_ERROR_INVALID_HANDLE = 400,
    CUDA_ERROR_NOT_FOUND = 500,
    CUDA_ERROR_NOT_READY = 600,
    CUDA_ERROR_ILLEGAL_ADDRESS = 700,
    CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701,
    CUDA_ERROR_LAUNCH_FAILED = 719,
    CUDA_ERROR_NOT_SUPPORTED = 801
};

enum { /* CUdevice_attribute */
       CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1,
       CU_DEVICE_ATTRIBUTE_WARP_SIZE = 10,
       CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
       CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR = 39,
       CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
       CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76
};

enum { CU_STREAM_NON_BLOCKING = 1, CU_EVENT_DEFAULT = 0, CU_MEMHOSTALLOC_PORTABLE = 1 };
enum {
    NVRTC_SUCCESS = 0,
    NVRTC_ERROR_OUT_OF_MEMORY = 1,
    NVRTC_ERROR_INVALID_INPUT = 3,
    NVRTC_ERROR_INVALID_PROGRAM = 4,
    NVRTC_ERROR_COMPILATION = 6
};

typedef struct fai_cuda_driver {
    CUresult (*init)(unsigned flags);
    CUresult (*driver_version)(int *version);
    CUresult (*error_name)(CUresult error, const char **name);
    CUresult (*error_string)(CUresult error, const char **text);
    CUresult (*device_count)(int *count);
    CUresult (*device_get)(CUdevice *device, int ordinal);
    CUresult (*device_name)(char *name, int room, CUdevice device);
    CUresult (*device_memory)(size_t *bytes, CUdevice device);
    CUresult (*device_attribute)(int *value, int attribute, CUdevice device);
    CUresult (*context_retain)(CUcontext *context, CUdevice device);
    CUresult (*context_release)(CUdevice device);
    CUresult (*context_set)(CUcontext context);
    CUresult (*context_synchronize)(void);
    CUresult (*memory_allocate)(CUdeviceptr *address, size_t bytes);
    CUresult (*memory_free)(CUdeviceptr address);
    CUresult (*host_allocate)(void **memory, size_t bytes, unsigned flags);
    CUresult (*host_free)(void *memory);
    CUresult (*memory_info)(size_t *free_bytes, size_t *total_bytes);
    CUresult (*copy_to_device)(CUdeviceptr to, const void *from, size_t bytes, CUstream stream);
    CUresult (*copy_to_host)(void *to, CUdeviceptr from, size_t bytes, CUstream stream);
    CUresult (*copy_within)(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream);
    CUresult (*fill)(CUdeviceptr to, unsigned char byte, size_t bytes, CUstream stream);
    CUresult (*stream_create)(CUstream *stream, unsigned flags, int priority);
    CUresult (*stream_destroy)(CUstream stream);
    CUresult (*stream_synchronize)(CUstream stream);
    CUresult (*stream_wait_event)(CUstream stream, CUevent event, unsigned flags);
    CUresult (*event_create)(CUevent *event, unsigned flags);
    CUresult (*event_destroy)(CUevent event);
    CUresult (*event_record)(CUevent event, CUstream stream);
    CUresult (*event_synchronize)(CUevent event);
    CUresult (*event_query)(CUevent event);
    CUresult (*event_elapsed)(float *milliseconds, CUevent start, CUevent end);
    CUresult (*module_load)(CUmodule *module, const void *image);
    CUresult (*module_unload)(CUmodule module);
    CUresult (*module_function)(CUfunction *function, CUmodule module, const char *name);
    CUresult (*launch)(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                       unsigned block_z, unsigned shared_bytes, CUstream stream, void **arguments, void **extra);
} fai_cuda_driver;

typedef struct fai_nvrtc {
    nvrtcResult (*version)(int *major, int *minor);
    const char *(*error_string)(nvrtcResult error);
    nvrtcResult (*arch_count)(int *count);
    nvrtcResult (*archs)(int *archs);
    nvrtcResult (*create)(nvrtcProgram *program, const char *text, const char *name, int nheaders, const char *const *headers,
                          const char *const *header_names);
    nvrtcResult (*destroy)(nvrtcProgram *program);
    nvrtcResult (*compile)(nvrtcProgram program, int noptions, const char *const *options);
    nvrtcResult (*log_size)(nvrtcProgram program, size_t *bytes);
    nvrtcResult (*log)(nvrtcProgram program, char *log);
    nvrtcResult (*cubin_size)(nvrtcProgram program, size_t *bytes);
    nvrtcResult (*cubin)(nvrtcProgram program, char *cubin);
    nvrtcResult (*ptx_size)(nvrtcProgram program, size_t *bytes);
    nvrtcResult (*ptx)(nvrtcProgram program, char *ptx);
} fai_nvrtc;

/* What the simulator exports beside them; absent from a real driver. */
typedef struct fai_cuda_simulator {
    const char *(*error_text)(void);         /* more about the error last returned to this thread; "" if there is no more */
    const char *(*device_type)(int ordinal); /* "cuda", "xpu": under which name FACULA_SIM asked for this device */
} fai_cuda_simulator;

#endif
