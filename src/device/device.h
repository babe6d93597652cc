/* Floor 1: device names, the registry of backends, the caching allocator, queues, launches, generators. */
#ifndef FAI_DEVICE_H
#define FAI_DEVICE_H

#include "../base/base.h"
#include <fa_memory.h>
#include <fa_stream.h>
#include <sys/fa_backend.h>
#include <sys/fa_plan.h>

/* Where all whole numbers of a buffer lie: in low .. high, those that are not low from low2 on, those that are not high up to high2. */
typedef struct fai_range { int64_t low, low2, high, high2; } fai_range;

/* One allocation on one device. Counts are atomic: queues and worker threads hold buffers, never tensors. */
typedef struct fai_buffer {
    atomic_int refs;
    uint32_t version;            /* raised by in-place ops; a tensor without a version cell of its own uses this one */
    fa_device device;            /* index always given for accelerators */
    bool pending;                /* pinned: a copy that nobody has waited for reads or writes it */
    _Atomic uint8_t held;        /* 1 + id of the stream that holds back a launch that writes it; 0: none */
    uint64_t address;            /* the host's pointer on the CPU, the device's address elsewhere */
    size_t bytes, room;          /* asked for; what the allocator gave (a multiple of 512 on devices, 64 on the CPU) */
    void (*release)(void *);     /* memory of somebody else */
    void *context;
    void *block;                 /* host.c's own */
    uint64_t written;            /* on devices: which stream's which operation wrote it last (spoiled.c); 0: none */
    uint8_t ranged;              /* the whole-number type whose values there are known to lie in range; 0: unknown (ops/known.c) */
    bool exported;               /* on devices, somebody has the address and may write there: nothing is known of it, or held back, any more */
    fai_range range;
} fai_buffer;
/* NULL and an error (with the report, on a device) if there is no memory. bytes may be 0. op of this and the functions below must
 * live on (a literal): late errors name it. */
fai_buffer *fai_buffer_new(fa_device device, size_t bytes, const char *op);
fai_buffer *fai_buffer_wrap(void *data, size_t bytes, void (*release)(void *), void *context, const char *op);
/* Pinned memory of the host for a device of its driver; and whether a buffer is such. */
fai_buffer *fai_buffer_pinned(fa_device device, size_t bytes, const char *op);
bool fai_buffer_is_pinned(const fai_buffer *b);
void fai_buffer_settle(fai_buffer *b); /* waits for copies under way */
static inline void *fai_buffer_host(const fai_buffer *b) {
    if (FAI_UNLIKELY(b->pending)) fai_buffer_settle((fai_buffer *)(uintptr_t)b);
    return (void *)(uintptr_t)b->address;
}
static inline fai_buffer *fai_buffer_ref(fai_buffer *b) { atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed); return b; }
void fai_buffer_unref(fai_buffer *b);
bool fai_may_range(const fai_buffer *b);    /* on a device, written by the library alone, and nobody captures: range may be set and used */
void fai_buffer_show(fai_buffer *b); /* before its address on a device is given to somebody who may use it himself */
bool fai_buffer_used_by(fai_buffer *b, fa_stream stream, const char *op); /* its memory is given to nobody before that stream is done with it */

/* ---- report.c: what the rooms above know of memory, for the out-of-memory report. Each is set once, at load. ---- */
typedef struct fai_holders fai_holders;
void fai_holder(fai_holders *all, const fai_buffer *buffer, const char *group, const char *name); /* "parameters of Net", "layers.0.weight" */
typedef struct fai_witness {
    void (*names)(fa_device device, fai_holders *all);
    /* What holds memory that could be free; live: bytes in use. Each adds its sentences, " ...", or nothing. */
    void (*graphs)(fa_device device, uint64_t live, fai_text *out);
    void (*evaluation)(fa_device device, uint64_t live, fai_text *out);
    void (*scopes)(fa_device device, uint64_t live, fai_text *out);
} fai_witness;
extern fai_witness fai_memory_witness;
void fai_site_text(uint32_t site, char *out, size_t n);   /* " at train.py:12"; empty if unknown */
uint32_t fai_buffer_site(const fai_buffer *b);            /* where its memory was asked for; 0 on the CPU */

/* steps.c: a training step has come to its end; the one that runs has so many rows (the first call of a step counts). */
void fai_memory_step(const void *optimizer);
void fai_memory_rows(fa_device device, int64_t rows, uint64_t what); /* what: a number of the model and of a row's sizes */
bool fai_memory_wants_rows(fa_device device); /* none are known yet */

/* Resolves "cuda" to the current index, checks that it is there (torch's sentences, then how to get a simulated one), opens the
 * driver. {0,0} means the default device. False and an error if it can't be had. */
bool fai_device_resolve(fa_device *device, const char *op);

/* For the rest of the block what is copied from the host are constants that the library has computed. A graph takes them along; whatever else
 * lies on the host it refuses, since its user would expect each replay to read it anew. */
static inline bool fai_constants_begin(void) { const bool was = fai_tls.constants; fai_tls.constants = true; return was; }
static inline void fai_constants_end(const bool *was) { fai_tls.constants = *was; }
#define FAI_CONSTANTS __attribute__((cleanup(fai_constants_end), unused)) const bool FA_JOIN(fai_constants_, __LINE__) = fai_constants_begin()

/* Copies between the host and a device, and within or between devices; queued on the device's current stream. */
bool fai_copy_to_device(fai_buffer *to, size_t offset, const void *host, size_t bytes, const char *op); /* host may be reused at once */
bool fai_copy_to_host(void *host, fai_buffer *from, size_t offset, size_t bytes, const char *op);       /* waits */
/* Between pinned memory and a device, queued: the host does not wait. */
bool fai_copy_queued(fai_buffer *to, size_t to_offset, fai_buffer *from, size_t from_offset, size_t bytes, const char *op);
bool fai_copy_within(fai_buffer *to, size_t to_offset, fai_buffer *from, size_t from_offset, size_t bytes, const char *op); /* any two devices */
bool fai_fill(fai_buffer *to, size_t offset, int byte, size_t bytes, const char *op);                   /* CPU too */

/* The text of a program of kernels_gen.h, for build(); NULL and an error if there is no memory. fai_free(FAI_TAG_OTHER, text,
 * bytes + 1). */
struct fai_program;
char *fai_program_text(const struct fai_program *program, const char *op);

/* ---- the thread's current streams, for rooms above (stream.c) ---- */
extern atomic_bool fai_streams_used;                /* somebody made a stream: until then nobody has to ask which one is current */
int fai_stream_id(fa_device device);                /* of the thread's current stream there; 0 on the CPU */
int fai_stream_swap(fa_device device, int id);      /* makes it the current one; returns the one before */
/* The current stream waits for what `from` has, and b's memory is kept until the current one is done with it too. */
bool fai_stream_take_over(fai_buffer *b, int from, const char *op);
bool fai_stream_join(fa_device device, int from, const char *op); /* the current stream waits for what `from` has */

/* Launches kernel `id` (an enum of kernels_gen.h) on a device that is not the CPU. buffers[i] with byte offset, NULL: none.
 * The queue keeps the buffers alive until the kernel has run. */
/* After a launch on this thread that failed: whether it was because the device has no such kernel or can't compute it, which is
 * then remembered and not tried again. For FACULA_FALLBACK. */
bool fai_device_lacks(fa_device device, int kernel);
bool fai_device_launch(fa_device device, int kernel, const fa_plan *plan, fai_buffer *const buffers[8], const int64_t offsets[8], const char *op);
/* How many memory objects the tables (FA_VIEW_TABLE) of one launch may lead to there: any number, INT_MAX, where kernels follow
 * addresses; FA_PLAN_OBJECTS in OpenCL, where the plan lists them (address >> FA_OBJECT_SHIFT); 0: the device has no tables. */
int fai_device_objects(fa_device device);
bool fai_device_has_library(fa_device device, int kernel); /* a library may do this kernel's work (library.c) */

/* ---- graphs, for rooms above (capture.c). Everything about a device here means the thread's current stream there. ---- */
bool fai_capturing(fa_device device);     /* work goes into a graph and is done later, again and again */
/* For the rest of the block work is done at once all the same, and memory is nobody's pool's: what a graph needs to be there
 * once. */
typedef struct fai_pause { void *stream; } fai_pause;
fai_pause fai_capture_pause(fa_device device);
void fai_capture_resume(const fai_pause *pause);
#define FAI_CAPTURE_PAUSE(device) __attribute__((cleanup(fai_capture_resume), unused)) const fai_pause FA_JOIN(fai_pause_, __LINE__) = fai_capture_pause(device)
/* The graph keeps the buffer, and counts as writing to it or not: for addresses that kernels find in memory. Launches do it by
 * themselves. */
bool fai_graph_hold(fa_device device, fai_buffer *b, bool writes, const char *op);
uint64_t fai_graph_number(fa_device device);                         /* of the capture under way there, among all; 0: none */
bool fai_graph_writes(fa_device device, const fai_buffer *b);        /* whether what was captured so far does */
/* What each replay needs to have told: before puts it into memory and may fail; after learns whether the replay was started; drop
 * ends the context, which is the graph's from the call on, whether it succeeds or not. */
typedef struct fai_feed {
    bool (*before)(void *context);
    void (*after)(void *context, bool started);
    void (*drop)(void *context);
    void *context;
} fai_feed;
bool fai_graph_feed(fa_device device, const fai_feed *feed, const char *op);
/* Of the generator in the graph: two words on the device, seed and place (a quarter of the offset) where a replay begins; used:
 * how far the graph has moved it. Borrowed. The lock of the generators is held. */
fai_buffer *fai_graph_generator(fa_device device, fa_generator *g, uint64_t **used, const char *op);

/* Six 64-bit words on the device that kernels set on a bad index (kernels/status.h). Waits look at them. Borrowed. */
fai_buffer *fai_device_status(fa_device device, const char *op);
int64_t fai_status_op(const char *op);                        /* op's number in such words; 0: too many have one */
bool fai_fail_status(const char *op, const int64_t words[6]); /* the error that such words stand for; returns false */
/* CUDA_LAUNCH_BLOCKING=1: each launch is waited for. FACULA_CHECK: "now" waits behind each kernel that may meet a bad index; "late" leaves all to the kernels; else what is known of an
 * index before its launch is looked at. */
typedef enum fai_checking { FAI_CHECK_KNOWN, FAI_CHECK_NOW, FAI_CHECK_LATE } fai_checking;
fai_checking fai_check_mode(void);
bool fai_launches_wait(void);
bool fai_stream_check(fa_device device, const char *op);      /* waits for the current stream, if nobody captures: errors come now */

/* Adds a backend at run time (plug-ins, tests). type_of names the type of each device where it differs from the backend's own
 * name; may be NULL. Returns the number of the backend's device type, 0 if its name is none. Strings `op` must live on. */
int fai_backend_add(const fa_backend *backend, const char *(*type_of)(int device));

/* Generators: the state behind fa_generator. random.c of the ops floor draws from it. */
typedef struct fai_mt19937 { uint64_t seed; int left; uint32_t next; uint32_t state[624]; double normal; bool has_normal; } fai_mt19937;
struct fa_generator {
    fai_object object;
    fa_device device;
    fai_mt19937 mt;            /* CPU */
    uint64_t seed, offset;     /* Philox */
};
void fai_generators_lock(void); /* a default generator is every thread's: held while numbers are drawn */
void fai_generators_unlock(void);
bool fai_generator_at_rest(const fa_generator *g, const char *op); /* false and an error where work of its device is captured: its state is not known */
void fai_mt19937_seed(fai_mt19937 *g, uint64_t seed);
uint32_t fai_mt19937_next(fai_mt19937 *g);
void fai_mt19937_fill(fai_mt19937 *g, uint32_t *out, int64_t n); /* the next n words, faster */
static inline uint64_t fai_mt19937_next64(fai_mt19937 *g) { uint64_t high = fai_mt19937_next(g); return high << 32 | fai_mt19937_next(g); }

#endif
