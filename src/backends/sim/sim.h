/* The simulated CUDA driver: a device that needs no hardware and forgives nothing. Shared by the files of this folder.
 *
 * libfacula_sim.so exports the cu* and nvrtc* functions that the cuda backend calls, and is opened in place of libcuda.so.1
 * and libnvrtc when FACULA_SIM is set. Kernels are the C builds of kernels/ (kernels/table.h). It knows nothing of Facula's other
 * code and is not linked with it.
 *
 *   config.c   FACULA_SIM and its companions; faults and counts
 *   memory.c   addresses that the host can't touch, the memory behind them, the table of live allocations
 *   queue.c    streams, events, and the one worker of each device
 *   isa.c      which build of the kernels
 *   run.c      what the worker does: checks every pointer of a launch, runs kernels and copies
 *   driver.c   the cu* functions
 *   peer.c     those of two devices
 *   facts.c    those that tell of a device, and the nvml* functions: its sensors
 *   nvrtc.c    the nvrtc* functions
 *   library.c, cublaslt.c, cudnn.c   stand-ins of NVIDIA's libraries, which only FACULA_SIM_LIBRARIES brings
 *   graph.c    captured work and its launches
 *
 * A device has 4 multiprocessors of 1,024 threads, warps of 32, compute capability 8.0 and FACULA_SIM_MEMORY bytes (1 GiB).
 * One mutex guards all state; kernels and copies run outside it. */
#ifndef FACULA_SIM_H
#define FACULA_SIM_H

#include "../cuda/driver.h"
#include "../../../kernels/table.h"
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define SIM_API                         __attribute__((visibility("default")))
#define SIM_PRINTF(format_at, first_at) __attribute__((format(printf, format_at, first_at)))

enum { SIM_DEVICES = 64, SIM_MULTIPROCESSORS = 4, SIM_THREADS = 1024, SIM_WARP = 32, SIM_MAJOR = 8, SIM_MINOR = 0 };
enum { SIM_POINTERS = 8, SIM_QUEUE_OPS = 1024, SIM_TEXT = 512, SIM_FAILURES = 1024 };
#define SIM_QUEUE_BYTES ((size_t)64 << 20) /* of host data that waits in one stream */

typedef struct sim_block {   /* a live allocation */
    uint64_t address, bytes; /* exactly what was asked for */
    char *memory;            /* what stands behind the address */
    char *mapping;
    size_t mapped;
} sim_block;

typedef struct sim_device {
    int ordinal, index; /* among all, and among those of its type */
    int physical;       /* among all before CUDA_VISIBLE_DEVICES hid some */
    char type[16];      /* "cuda": FACULA_SIM's word */
    uint64_t base, room, limit, used, cursor;
    sim_block *blocks; /* sorted by address */
    size_t nblocks, blocks_room;
    struct CUstream_st *streams; /* the NULL stream is the last of the list */
    pthread_t worker;
    int retained;    /* guarded by driver.c's own lock */
    bool stop, lost; /* lost: dead until facula_sim_faults */
    uint64_t random, launches, reaches; /* reaches: a bit for each device whose memory it may use */
    CUresult dead; /* the error that every later call gets */
    char dead_text[SIM_TEXT];
} sim_device;

/* One completion that events and waits share: an event points to its latest, waits keep the one that they were given. */
typedef struct sim_record {
    int refs, queries, device;
    bool done, awaited; /* awaited: the host sleeps until it is done */
    CUresult error;
    bool lost;        /* its device is gone, and with it what came before: streams of other devices fail that wait for it */
    uint64_t failure; /* which late failure it carries on */
    uint64_t seq, nanoseconds;
    struct CUstream_st *stream, *owner; /* stream: NULL when done; owner: the same, only to be compared */
    char text[SIM_TEXT];                /* of the error */
} sim_record;

typedef enum sim_kind { SIM_LAUNCH, SIM_TO_DEVICE, SIM_TO_HOST, SIM_WITHIN, SIM_BETWEEN, SIM_FILL, SIM_RECORD, SIM_WAIT } sim_kind;

typedef struct sim_op {
    struct sim_op *next;
    sim_kind kind;
    uint64_t seq;
    const fa_kernel_entry *kernel;
    uint64_t number; /* of the launch, on its device, since the start */
    unsigned groups;
    bool fail_late, flip, hang; /* hang: it never comes, until facula_sim_faults */
    int byte;
    CUdeviceptr pointer[SIM_POINTERS]; /* copies: to, from */
    sim_device *peer; /* SIM_BETWEEN: where `to` is; NULL: it was lost meanwhile */
    void *host;
    size_t bytes;
    sim_record *record;
    size_t data_bytes;
    _Alignas(16) char data[]; /* the plan, or the host's bytes at the time of the call */
} sim_op;

struct CUstream_st {
    struct CUstream_st *next;
    sim_device *device;
    sim_op *head, *tail;
    int count;
    size_t bytes;
    uint64_t needed, done, last; /* run up to here; has run; was asked for */
    uint64_t awaited;            /* the first place that the host sleeps for; 0: none */
    uint64_t discard;            /* queued up to here: not run, because the host was told of an error */
    bool destroyed;
    struct CUgraph_st *capture; /* what is put into it goes there */
    CUresult error;   /* of a launch that failed late, until a wait returns it */
    uint64_t failure; /* its number */
    char text[SIM_TEXT];
};

struct CUevent_st {
    sim_device *device;
    sim_record *record; /* NULL before the first record */
};

/* A program built with -DFA_ROW=n or -DFA_INSTANCE=n holds only that row or instance; -1: all. One with -DFA_CHAIN=n is for chains of
 * these steps (kernels/ew.k.h) only, and holds no other kernel; 0: no chain. */
typedef struct sim_image {
    char magic[8];
    unsigned long long hash; /* of the text */
    int row, instance, chain;
    fa_i64 step[8], views;
} sim_image;

struct CUfunc_st {
    const fa_kernel_entry *kernel;
    sim_device *device;
    int row;
    const sim_image *image; /* of its module */
};

struct CUmod_st {
    sim_device *device;
    const char *family;
    sim_image image;
    int nfunctions;
    struct CUfunc_st functions[];
};

/* ---- config.c ---- */
typedef enum sim_fault {
    SIM_FAULT_ALLOC,
    SIM_FAULT_LAUNCH,
    SIM_FAULT_LATE,
    SIM_FAULT_COPY,
    SIM_FAULT_LOST,
    SIM_FAULT_BUILD,
    SIM_FAULT_FLIP,
    SIM_FAULT_HANG,
    SIM_FAULT_DRIVER, /* its number is the driver's version */
    SIM_FAULT_NVRTC,
    SIM_FAULT_NVML,
    SIM_FAULT_KINDS
} sim_fault;
typedef struct sim_counts {
    uint64_t alloc, free, launch, run, to_device, to_host, within, between, fill, wait, build, injected;
} sim_counts;
typedef struct sim_state {
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    bool forked, eager, strangers; /* strangers: no device reaches another one's memory */
    int ndevices;
    uint64_t seed, seq, failures;
    bool told[SIM_FAILURES]; /* the host knows of late failure number n % SIM_FAILURES */
    sim_counts counts;
    const fa_kernel_build *build;
    sim_device device[SIM_DEVICES];
} sim_state;
extern sim_state sim;
CUresult sim_open(void); /* reads the environment once */
CUresult sim_fail(CUresult error, const char *format, ...) SIM_PRINTF(2, 3);
bool sim_fault_now(sim_fault kind, int *number); /* counts one; true: it shall fail */
uint64_t sim_draw(uint64_t *state);
SIM_API int
facula_sim_faults(const char *spec); /* "alloc:5,late:7+"; NULL or "": none. Revives lost and hanging devices. 0, or -1 if not understood */
SIM_API uint64_t facula_sim_count(const char *kind);
SIM_API void facula_sim_seed(uint64_t seed); /* as FACULA_SIM_SEED, from now on */
SIM_API const char *facula_sim_error_text(void);
SIM_API const char *facula_sim_device_type(int ordinal);
SIM_API int facula_sim_has(const char *library); /* "nvrtc", "nvml", "cublaslt", "cudnn" */
int sim_driver_version(void);

/* ---- memory.c (all under the lock) ---- */
bool sim_reserve(sim_device *device);
CUresult sim_allocate(sim_device *device, size_t bytes, uint64_t *address);
bool sim_free(sim_device *device, uint64_t address);
void sim_free_all(sim_device *device);
const sim_block *sim_find(const sim_device *device, uint64_t address);           /* the live allocation that holds this byte */
char *sim_translate(const sim_device *device, uint64_t address, uint64_t bytes); /* NULL unless all lie in one live allocation */

/* ---- driver.c ---- */
/* The part that all copies share; on success the lock is held, *stream is no more NULL, and the operation made and not yet queued. */
CUresult sim_begin_copy(sim_kind kind, CUdeviceptr to, CUdeviceptr from, size_t bytes, size_t data_bytes, struct CUstream_st **stream,
                        sim_op **out);

/* ---- queue.c (all under the lock, save the worker) ---- */
CUresult sim_start(sim_device *device); /* the first context: worker and NULL stream */
void sim_stop(sim_device *device);      /* runs what is queued, joins the worker; takes and gives the lock itself */
struct CUstream_st *sim_stream_new(sim_device *device);
void sim_stream_release(struct CUstream_st *stream);  /* what is queued still runs */
sim_op *sim_op_new(sim_kind kind, size_t data_bytes); /* NULL: no memory */
void sim_push(struct CUstream_st *stream, sim_op *op);
CUresult sim_wait(struct CUstream_st *stream); /* runs and waits; returns and forgets a late error */
void sim_drain(sim_device *device);            /* runs and waits, forgets nothing */
CUresult sim_wait_record(sim_record *record, sim_device *device);
void sim_demand(struct CUstream_st *stream, uint64_t seq);
void sim_record_drop(sim_record *record);
void sim_kill(sim_device *device, CUresult error, const char *text);

/* ---- isa.c ---- */
const fa_kernel_build *sim_choose_build(void);

/* ---- run.c ---- */
typedef struct sim_prepared {
    char *pointer[SIM_POINTERS];
    fa_table_entry *table[SIM_POINTERS];
} sim_prepared;
CUresult sim_prepare(sim_device *device, const sim_op *op, sim_prepared *out, char *why, size_t n); /* under the lock */
void sim_run(const sim_op *op, sim_prepared *prepared);                                             /* outside it */

/* ---- library.c, cublaslt.c, cudnn.c: libraries that FACULA_SIM_LIBRARIES names. Each call is one launch of one group, so all that the
 * simulator checks of a launch it checks of them: live allocations by the plan's spans, order, faults. ---- */
CUresult sim_call(const fa_kernel_entry *kernel, struct CUstream_st *stream, const fa_plan *plan, const CUdeviceptr *pointers);
sim_device *sim_current(void); /* of the thread's context; NULL and a text if there is none that lives */
fa_plan_view sim_span(int dtype, int64_t low, int64_t high, bool writes); /* elements [low, high) of an operand */
double sim_load(const char *memory, int dtype, int64_t i);
void sim_store(char *memory, int dtype, int64_t i, double value);
double sim_tf32(double value); /* rounded as tensor cores do */
/* ---- graph.c (under the lock) ---- */
SIM_API CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode);
SIM_API CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph);
SIM_API CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags);
SIM_API CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream);
SIM_API CUresult cuGraphExecDestroy(CUgraphExec exec);
SIM_API CUresult cuGraphDestroy(CUgraph graph);
void sim_capture_drop(struct CUstream_st *stream);     /* a capture that nobody ends */
void sim_capture(struct CUstream_st *stream, sim_op *op);

/* ---- driver.c, nvrtc.c ---- */
CUresult sim_enter_stream(CUstream *stream); /* takes the lock, checks the context and the stream; NULL: no stream. An error: no lock is held */
CUresult sim_leave(CUresult result);
CUresult sim_maybe_lost(void);
void sim_count_launch(sim_op *op);
const char *sim_read_image(const void *data, sim_image *out); /* the family; NULL: no image of this simulator */
extern const fai_cuda_driver sim_driver_check;
extern const fai_nvrtc sim_nvrtc_check;
CUresult sim_check_device(CUdevice device);

/* ---- peer.c ---- */
SIM_API CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer);
SIM_API CUresult cuCtxEnablePeerAccess(CUcontext context, unsigned flags);
SIM_API CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes,
                                   CUstream stream);

int sim_nvml_fault(void); /* nvml:1: the library is not there, nvml:2: it answers with errors; else 0 */

/* ---- facts.c ---- */
void sim_uuid(CUuuid *uuid, int physical);
SIM_API CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device);
SIM_API CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device);
extern const fai_nvml sim_nvml_check;

#endif
