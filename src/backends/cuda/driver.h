/* What the cuda backend needs of the CUDA driver API and of NVRTC, declared here, so that building Facula needs no CUDA.
 *
 * Names, numbers and argument lists are those of cuda.h and nvrtc.h, which NVIDIA keeps stable; the functions stand in
 * libraries.def. The simulator (backends/sim) defines the same functions and is checked against these structs by the compiler. */
#ifndef FAI_CUDA_DRIVER_H
#define FAI_CUDA_DRIVER_H

#include <stddef.h>

typedef int CUresult;
typedef int CUdevice;
typedef int CUdevice_attribute;
typedef struct CUuuid_st { char bytes[16]; } CUuuid;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;
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
    CUDA_ERROR_ILLEGAL_STATE = 401,
    CUDA_ERROR_NOT_FOUND = 500,
    CUDA_ERROR_NOT_READY = 600,
    CUDA_ERROR_ILLEGAL_ADDRESS = 700,
    CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701,
    CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED = 704,
    CUDA_ERROR_LAUNCH_FAILED = 719,
    CUDA_ERROR_NOT_SUPPORTED = 801,
    CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
    CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901
};

enum { /* CUdevice_attribute */
       CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1,
       CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK = 8,
       CU_DEVICE_ATTRIBUTE_WARP_SIZE = 10,
       CU_DEVICE_ATTRIBUTE_CLOCK_RATE = 13,
       CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
       CU_DEVICE_ATTRIBUTE_INTEGRATED = 18,
       CU_DEVICE_ATTRIBUTE_PCI_BUS_ID = 33,
       CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID = 34,
       CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE = 36,
       CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH = 37,
       CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE = 38,
       CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR = 39,
       CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID = 50,
       CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
       CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
       CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR = 81,
       CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR = 82,
       CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD = 84
};

enum { CU_STREAM_NON_BLOCKING = 1, CU_EVENT_DEFAULT = 0, CU_MEMHOSTALLOC_PORTABLE = 1 };
typedef enum CUstreamCaptureMode { CU_STREAM_CAPTURE_MODE_RELAXED = 2 } CUstreamCaptureMode;
enum {
    NVRTC_SUCCESS = 0,
    NVRTC_ERROR_OUT_OF_MEMORY = 1,
    NVRTC_ERROR_INVALID_INPUT = 3,
    NVRTC_ERROR_INVALID_PROGRAM = 4,
    NVRTC_ERROR_COMPILATION = 6
};

typedef struct fai_cuda_driver {
#define FAI_DRIVER(result, member, symbol, args) result(*member) args;
#include "libraries.def"
} fai_cuda_driver;

typedef struct fai_nvrtc {
#define FAI_NVRTC(result, member, symbol, args) result(*member) args;
#include "libraries.def"
} fai_nvrtc;

/* NVIDIA's management library: what a device's sensors say. */
typedef int nvmlReturn_t;
typedef struct nvmlDevice_st *nvmlDevice_t;
typedef struct nvmlUtilization_t { unsigned gpu, memory; } nvmlUtilization_t; /* per cent */
enum { NVML_SUCCESS = 0, NVML_ERROR_INVALID_ARGUMENT = 2, NVML_TEMPERATURE_GPU = 0, NVML_CLOCK_SM = 1 };
typedef struct fai_nvml {
#define FAI_NVML(result, member, symbol, args) result(*member) args;
#include "libraries.def"
} fai_nvml;

/* What the simulator exports beside them; absent from a real driver. */
typedef struct fai_cuda_simulator {
    const char *(*error_text)(void);         /* more about the error last returned to this thread; "" if there is no more */
    const char *(*device_type)(int ordinal); /* "cuda", "xpu": under which name FACULA_SIM asked for this device */
    int (*has)(const char *library);         /* "nvrtc": 0 where a fault or FACULA_SIM_LIBRARIES says that it is not there */
} fai_cuda_simulator;

#endif
