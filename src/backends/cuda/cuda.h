/* Shared by the files of the cuda backend, and its one door to the outside. */
#ifndef FAI_CUDA_H
#define FAI_CUDA_H

#include "../../base/base.h"
#include <sys/fa_backend.h>
#include <sys/fa_plan.h>
#include <pthread.h>
#include "driver.h"

#define FAI_CUDA_DEVICES 64

const fa_backend *fai_backend_cuda(void);
/* Under which name FACULA_SIM asked for this device ("cuda", "xpu", ...); NULL when the driver is a real one. */
const char *fai_cuda_simulated_type(int device);

/* ---- library.c: finding and opening the libraries. False and a reason in why; one that begins with '!' as fa_backend.open says. ---- */
enum { FAI_CUDA_DRIVER, FAI_CUDA_NVRTC, FAI_CUDA_CUBLASLT, FAI_CUDA_CUDNN, FAI_CUDA_NVML };
enum { FAI_CUDA_OLDEST = 12000 }; /* the oldest driver that serves, as cuDriverGetVersion counts: CUDA 12.0 */
typedef struct fai_cuda_symbol {
    const char *name;
    size_t offset; /* of the pointer in its struct */
} fai_cuda_symbol;
void *fai_cuda_open(int library); /* NULL: not found */
/* Fills table and returns NULL, or returns the first function that is missing and leaves table as it was found. */
const char *fai_cuda_resolve(void *library, const fai_cuda_symbol *symbols, size_t n, void *table);
extern fai_cuda_driver fai_cuda;
extern fai_cuda_simulator fai_cuda_sim; /* both NULL without the simulator */
extern fai_nvrtc fai_cuda_nvrtc;
extern fai_nvml fai_cuda_nvml;
bool fai_cuda_load_driver(char *why, size_t n);
bool fai_cuda_load_nvrtc(char *why, size_t n); /* again and again if it was not there: the user may install it meanwhile */

bool fai_cuda_load_nvml(char *why, size_t n);

/* ---- sensors.c ---- */
int fai_cuda_sensors(int device, fa_device_sensors *out);

/* ---- cuda.c ---- */
int fai_cuda_failed(CUresult error, const char *format, ...) FA_PRINTF(2, 3); /* keeps the text, returns the FA_BACKEND_ code */
int fai_cuda_refused(const char *format, ...) FA_PRINTF(1, 2); /* the same for errors that the driver did not see */
int fai_cuda_enter(int device);                                /* makes its context current; 0 or an error */
void fai_cuda_capability(int device, int *major, int *minor);
int fai_cuda_attribute(int device, int which);                 /* of CUdevice_attribute; 0 where the driver has none */

bool fai_cuda_is_lost(void);                                   /* whether the thread's context is dead */

/* ---- vendor.c: libraries in place of own kernels ---- */
extern const fa_library fai_cuda_library;
enum { FAI_CUDA_WHY = 256 };
/* One library: opened when first wanted, and then either usable or not for the rest of the process. */
typedef struct fai_cuda_vendor {
    const char *name, *variable; /* "cublaslt"; FACULA_CUBLAS=off */
    int which;                   /* FAI_CUDA_CUBLASLT */
    const fai_cuda_symbol *symbols;
    size_t nsymbols;
    void *table;
    uint64_t (*version)(void);
    pthread_mutex_t lock;        /* of why, and of what the library itself may not do twice at once; nothing is locked within it */
    atomic_bool opened;
    bool usable;                 /* fixed once it is opened */
    char file[256], why[FAI_CUDA_WHY];
    _Atomic uint64_t calls, declined;
} fai_cuda_vendor;
extern fai_cuda_vendor fai_cuda_cublaslt;
bool fai_cuda_vendor_ready(fai_cuda_vendor *vendor);
int fai_cuda_decline(fai_cuda_vendor *vendor, const char *format, ...) FA_PRINTF(2, 3); /* FA_BACKEND_DECLINED */

/* ---- cublaslt.c ---- */
int fai_cuda_product_prepare(int device, const fa_plan *plan, const fa_address pointers[8], unsigned modes, fa_library_call *call);
int fai_cuda_product_run(int device, fa_stream_handle stream, fa_library_call *call, const fa_plan *plan, const fa_address pointers[8],
                         fa_address workspace);
void fai_cuda_product_drop(fa_library_call *call);
void fai_cuda_product_close(void);

/* ---- build.c ---- */
int fai_cuda_build(int device, const char *name, const char *text, const char *options, fa_program_handle *out, char *log,
                   size_t n);
int fai_cuda_unload(int device, fa_program_handle program);
int fai_cuda_find(int device, fa_program_handle program, const char *kernel, fa_kernel_handle *out);

#endif
