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
const char *fai_cuda_nvrtc_file(void); /* after it was loaded */
/* What opening found, for why.c. */
typedef struct fai_cuda_opening {
    bool found;             /* the driver's library */
    char error[512];        /* why not */
    char file[256];
    int version;            /* as cuDriverGetVersion counts */
    const char *missing;    /* the first function that it lacks */
    char problem[512];      /* why it does not start */
    int devices;
} fai_cuda_opening;
extern fai_cuda_opening fai_cuda_seen;
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
/* What a library needs for one kind of call, made once and kept. It lies at the start of the library's own struct. */
typedef struct fai_cuda_entry {
    int uses;
    bool kept;          /* in the table */
    size_t workspace;   /* bytes of the device's memory that a call wants */
} fai_cuda_entry;
enum { FAI_CUDA_KEPT = 256 };
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
    /* Entries by their key, which lies at key_at in them; make: with the lock held, on the device; NULL and an answer of the library */
    size_t key_at, key_bytes;
    fai_cuda_entry *(*make)(const void *key, const fa_address pointers[8], int *answer);
    void (*destroy)(fai_cuda_entry *entry);
    void (*close)(int device);   /* lets go of its handle there, if it has one; with the lock held */
    const char *(*answer)(int status);
    fai_cuda_entry *kept[FAI_CUDA_KEPT];
} fai_cuda_vendor;
extern fai_cuda_vendor fai_cuda_cublaslt, fai_cuda_cudnn;
bool fai_cuda_vendor_ready(fai_cuda_vendor *vendor);
int fai_cuda_decline(fai_cuda_vendor *vendor, const char *format, ...) FA_PRINTF(2, 3); /* FA_BACKEND_DECLINED */
/* The end of a prepare: why it is declined, or NULL; then call->state is the entry of the key, found or made. name: of the function. */
int fai_cuda_entry_prepare(fai_cuda_vendor *vendor, int device, const char *why, const void *key, const fa_address pointers[8],
                           const char *name, fa_library_call *call);
void fai_cuda_vendors_close(void);
int fai_cuda_vendor_failed(const char *library, const char *answer, const char *function); /* the FA_BACKEND_ code */

/* ---- cublaslt.c ---- */
int fai_cuda_product_prepare(int device, const fa_plan *plan, const fa_address pointers[8], unsigned modes, fa_library_call *call);
int fai_cuda_product_run(int device, fa_stream_handle stream, fa_library_call *call, const fa_plan *plan, const fa_address pointers[8],
                         fa_address workspace);
/* ---- graph.c: the contract's ---- */
int fai_cuda_graph_begin(int device, fa_stream_handle stream);
int fai_cuda_graph_end(int device, fa_stream_handle stream, fa_graph_handle *out);
int fai_cuda_graph_launch(int device, fa_graph_handle graph, fa_stream_handle stream);
int fai_cuda_graph_destroy(int device, fa_graph_handle graph);

/* ---- cudnn.c. direction: 0 forward, 1 the input's gradient, 2 the weight's ---- */
int fai_cuda_conv_prepare(int device, int direction, const fa_plan *plan, const fa_address pointers[8], unsigned modes,
                          fa_library_call *call);
int fai_cuda_conv_run(int device, fa_stream_handle stream, fa_library_call *call, const fa_address pointers[8], fa_address workspace);

/* ---- build.c ---- */
int fai_cuda_build(int device, const char *name, const char *text, const char *options, fa_program_handle *out, char *log,
                   size_t n);
int fai_cuda_unload(int device, fa_program_handle program);
int fai_cuda_find(int device, fa_program_handle program, const char *kernel, fa_kernel_handle *out);

#endif
