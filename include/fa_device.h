/* Devices: names, what is there, memory, queues, random generators. */
#ifndef FA_DEVICE_H
#define FA_DEVICE_H

#include "fa_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A device's name as a value: "cpu", "cuda" (the current one) or "cuda:1". All zero means "not given". Making one needs no
 * such device to be there. Compare with fa_device_equal. */
typedef struct fa_device {
    int16_t type;  /* 0 not given, FA_DEVICE_CPU, FA_DEVICE_CUDA, ... or a registered plug-in's number */
    int16_t index; /* -1: none given, i.e. the current device of that type; tensors on the CPU always have -1 */
} fa_device;

enum { FA_DEVICE_CPU = 1, FA_DEVICE_CUDA = 2, FA_DEVICE_XPU = 3, FA_DEVICE_MPS = 4, FA_DEVICE_OPENCL = 5, FA_DEVICE_NPU = 6 };

static inline fa_device fa_device_of_type(int type, int index) { fa_device d; d.type = (int16_t)type; d.index = (int16_t)index; return d; }
#define FA_CPU fa_device_of_type(FA_DEVICE_CPU, -1)
#define FA_CUDA(i) fa_device_of_type(FA_DEVICE_CUDA, (i))
static inline bool fa_device_equal(fa_device a, fa_device b) { return a.type == b.type && a.index == b.index; }

/* "cuda:1" -> {2, 1}. A bad text is an error in torch's words; returns {0, 0}. */
FA_API fa_device fa_device_parse(const char *text);
/* "cuda:1": the text stays valid until the thread's 8th next call. */
FA_API const char *fa_device_text(fa_device device);

FA_API int fa_device_count(int type);           /* 0 where there is none; never an error */
FA_API bool fa_device_is_available(int type);
FA_API fa_device fa_accelerator(void);          /* the first type with a device, index -1; all zero if there is none */
FA_API fa_device fa_try_accelerator(int index); /* cuda:index or the like if there, else cpu */

typedef struct fa_device_properties {
    char name[128];             /* "Facula simulated GPU 0" */
    uint64_t total_memory;      /* bytes */
    int multiprocessors, threads_per_multiprocessor, warp_size, major, minor;
    bool simulated, has_float64;
    char driver[64];            /* "CUDA 13.0", "simulator" */
    /* From here on: 0 where the driver does not tell. */
    int threads_per_block, registers_per_multiprocessor;
    uint64_t l2_cache;          /* bytes */
    uint64_t shared_memory_per_block, shared_memory_per_multiprocessor; /* bytes */
    int clock_rate, memory_clock_rate; /* kHz, the highest */
    int memory_bus_width;       /* bits */
    int pci_domain, pci_bus, pci_device;
    bool integrated, multi_board; /* shares the host's memory; one of several on one board */
    unsigned char uuid[16];     /* names this device among all */
} fa_device_properties;
FA_API bool fa_device_get_properties(fa_device device, fa_device_properties *out);
/* The uuid as people write it: "df10a1e7-0c4b-...", without "GPU-" before it; n bytes, 37 are enough. */
FA_API void fa_device_uuid_text(const fa_device_properties *properties, char *out, size_t n);

/* What a device's sensors say now. Drivers average over the last fraction of a second. */
/* Whether copies from device to peer need not go through the host's memory: both are of one backend, which reaches one from the other. false for a
 * device and itself; and, with an error, where one of them is not there (FA_ERR_RUNTIME, FA_ERR_DEVICE). Copies work either way. */
FA_API bool fa_device_can_access_peer(fa_device device, fa_device peer);

typedef struct fa_device_sensors {
    int utilization;            /* per cent of the time in which a kernel ran */
    int memory_utilization;     /* per cent of the time in which memory was read or written */
    int temperature;            /* degrees Celsius */
    int power;                  /* milliwatts */
    int clock;                  /* MHz, of the multiprocessors */
} fa_device_sensors;
/* Of CUDA devices, through libnvidia-ml.so.1, which comes with the driver. Simulated devices answer with made-up numbers, and a warning
 * says so once. false: FA_ERR_UNSUPPORTED where the device or the machine has none. */
FA_API bool fa_device_get_sensors(fa_device device, fa_device_sensors *out);

/* A plug-in of FACULA_PLUGINS=path[:path]: a shared library that brings a kind of device (docs/backend.md). */
typedef struct fa_plugin_info {
    char path[512];
    char name[16];              /* the type of its devices; empty if it can't be used */
    int devices;
    char problem[512];          /* why it can't be used; empty if it can */
} fa_plugin_info;
FA_API bool fa_plugin_get(int number, fa_plugin_info *out); /* counted from 0, false after the last one */

/* Why a device of this type (FA_DEVICE_CUDA) is not there, or what it has: a line for each thing that was tried ("ok", "stop"), and for what
 * stopped it, how to mend it. Writes at most n bytes; returns how long the text is, 0 and an error for a type that is unknown. */
FA_API size_t fa_device_why_not(int type, char *out, size_t n);

/* A library of a device's maker that is used in place of some of Facula's kernels: "cublaslt", "cudnn" (docs/cuda.md). */
typedef struct fa_library_info {
    char name[32];
    char file[256];             /* that was opened; empty if none was */
    uint64_t version;           /* as the library counts it */
    bool usable;
    char why[256];              /* why it is not usable; else why it declined last; empty if it did not */
    uint64_t calls, declined;   /* how often it did the work, and how often it left it to Facula's own kernel */
} fa_library_info;
FA_API bool fa_library_get(int type, int number, fa_library_info *out); /* of a device type, counted from 0, false after the last one */

/* How such libraries may compute. All processes start with CONV_TF32 | MATMUL_LIBRARY | CONV_LIBRARY, as PyTorch does. */
enum {
    FA_MATH_MATMUL_TF32 = 1,        /* float32 products may be rounded to TF32 first (10 bits): faster, less exact */
    FA_MATH_CONV_TF32 = 2,          /* float32 convolutions may */
    FA_MATH_CONV_BENCHMARK = 4,     /* the first convolution of each shape tries all ways and keeps the fastest */
    FA_MATH_CONV_DETERMINISTIC = 8, /* only ways that give the same bits each time */
    FA_MATH_MATMUL_LIBRARY = 16,    /* off: products by Facula's own kernels */
    FA_MATH_CONV_LIBRARY = 32,      /* off: convolutions by Facula's own kernels */
    FA_MATH_DETERMINISTIC = 64      /* only ways that give the same bits each time, in everything */
};
FA_API unsigned fa_math_modes(void);
FA_API unsigned fa_set_math_modes(unsigned on, unsigned off); /* turns modes on and off, for all threads; returns those before */

/* The instruction set whose kernels serve the CPU, "avx2"; and the names of all that this machine and build have, best first. */
FA_API const char *fa_instruction_set(void);
FA_API const char *fa_instruction_sets(void);

/* Where factories put tensors when no .device is given: the innermost FA_DEVICE_SCOPE, else this. Default: cpu. */
FA_API fa_device fa_default_device(void);
FA_API void fa_set_default_device(fa_device device);
FA_API void fa_device_scope_open(fa_device device);
FA_API void fa_device_scope_close(void);
FA_API int fa_current_device(int type);             /* the index that "cuda" without one means on this thread */
FA_API bool fa_set_current_device(fa_device device);
#if defined(__GNUC__)
static inline void fa_device_scope_close_cleanup(const int *unused) { (void)unused; fa_device_scope_close(); }
#define FA_DEVICE_SCOPE(device) \
    __attribute__((cleanup(fa_device_scope_close_cleanup), unused)) const int FA_JOIN(fa_device_scope_, __LINE__) = (fa_device_scope_open(device), 0)
#endif

FA_API bool fa_synchronize(fa_device device);       /* waits; returns false with the first late error of that device */

/* For tests and lessons: how many copies and launches the device has seen since start. fused: launches that were spared, because an
 * elementwise operator ran as part of another's launch. */
typedef struct fa_device_counts { uint64_t launches, copies_to_device, copies_to_host, copies_within, waits, fused; } fa_device_counts;
FA_API fa_device_counts fa_device_get_counts(fa_device device);

/* FACULA_FALLBACK=cpu in the environment: what a device can't compute (its plug-in lacks the kernel, its compiler refuses it, it has no
 * float64) runs on the CPU, with copies there and back, and is counted here. Without it such an operation is an error. */
typedef struct fa_fallback_info {
    char op[48];                /* the function that was called, "cumsum" */
    fa_device device;           /* which device could not */
    uint64_t count;             /* kernels that the CPU ran for it */
    char reason[400];           /* why not */
} fa_fallback_info;
FA_API bool fa_fallback_get(int number, fa_fallback_info *out); /* counted from 0, in the order of their first time; false after the last */
FA_API uint64_t fa_fallback_count(void);                        /* all of them together */

/* Elementwise operators that follow each other on a device may run as one launch, which keeps what they hand to each other in
 * registers: the same bits, and temporaries that nobody holds any more are not even stored. They are held back until anything else
 * comes to their stream or somebody asks for it, at most eight; an error of such a launch is late and names all its operators. The program
 * of a chain is made when it comes for the second time (FA_FUSE_FIRST: at once). Begins as FACULA_FUSE=off, on or first says. */
typedef enum fa_fusing { FA_FUSE_OFF, FA_FUSE_ON, FA_FUSE_FIRST } fa_fusing;
FA_API void fa_set_fusing(fa_fusing fusing);        /* all threads, all devices; what is held is launched */
FA_API fa_fusing fa_get_fusing(void);

/* ---- Random numbers: torch's, bit for bit (mt19937 on the CPU, Philox on accelerators) ---- */
FA_API void fa_manual_seed(uint64_t seed); /* every device's default generator */
typedef struct fa_generator fa_generator;
FA_API fa_generator *fa_generator_new(fa_device device); /* torch's default seed 67280421310721; belongs to the scope */
FA_API bool fa_generator_seed(fa_generator *generator, uint64_t seed);
FA_API fa_generator *fa_default_generator(fa_device device);
FA_API uint64_t fa_initial_seed(fa_generator *generator);

#ifdef __cplusplus
}
#endif
#endif
