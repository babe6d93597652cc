/* Inside the room: one fai_dev for each device that is there, one fai_stream for each of its queues, and what the room's files
 * call of each other.
 *
 * Locks, in the order in which a thread may take them: memory.lock of a device, lock of a stream, launch_lock of a device,
 * streams_lock of a device. */
#ifndef FAI_DEVICE_INSIDE_H
#define FAI_DEVICE_INSIDE_H

#include "device.h"
#include <fa_stream.h>
#include <pthread.h>

enum { FAI_TYPES = 32, FAI_DEVICES = 64, FAI_BINS = 600, FAI_LOG = 64, FAI_SPOILED = 8 };
enum { FAI_STREAM_POOL = 32, FAI_STREAMS = 96 }; /* of each priority; and of a device in all, with those of somebody else */

/* ---- arena.c: memory cut from segments ---- */
typedef struct fai_block {
    struct fai_block *left, *right;      /* neighbours in the segment */
    struct fai_block *before, *after;    /* in its bin while free, in dev->live while not */
    struct fai_block *segment_before, *segment_after; /* in the arena's segments: of a segment's first block */
    struct fai_heap *heap;               /* whose memory it is */
    fa_address address;
    size_t size, asked;                  /* asked: what the buffer wanted, of a live block */
    uint64_t since;                      /* of a free one: when it became free, in the arena's count */
    bool free, small;
    bool mapped;                         /* host.c: where the segment came from */
    /* From here on, of blocks of devices only. */
    uint8_t nuses;                       /* above 3: more than there is room for */
    uint32_t site;                       /* the line of the program that asked for it, as fai_other_face.site knows it; 0: unknown */
    char op[30];                         /* who made the buffer, for the report */
    struct { struct fai_stream *stream; uint64_t place; } use[3]; /* other streams that use it, and how far when it was freed */
    uint32_t step, number;               /* replay.c: when it was made */
} fai_block;
typedef struct fai_pool {
    fai_block *bin[FAI_BINS];            /* free blocks, each list by size */
    uint64_t filled[(FAI_BINS + 63) / 64]; /* which bins have any */
} fai_pool;
/* The free memory of one stream, or of one stream within a pool. What it has is used again by nobody else. */
typedef struct fai_heap {
    struct fai_heap *next;               /* of the same device */
    struct fai_stream *stream;           /* whose work uses it */
    struct fai_mempool *pool;            /* NULL: the stream's own, or that of a pool that is gone */
    int segments;
    bool ends;                           /* of a pool that is gone: it goes with its last segment */
    _Atomic uint64_t written;            /* as fai_buffer's: when a graph wrote to what lies in it last */
    fai_pool small, large;
} fai_heap;
struct fai_alloc_rules;
typedef struct fai_arena {
    pthread_mutex_t lock;
    unsigned unit_power;                 /* sizes of blocks are multiples of 1 << unit_power */
    size_t least;                        /* of a small block's rest: what is worth cutting off */
    size_t description;                  /* bytes of a description: all of fai_block, or its beginning */
    const struct fai_alloc_rules *rules;
    bool (*give_back)(struct fai_arena *arena, const fai_block *segment); /* to where it came from; false: it can't be */
    fai_block *spare, *segments;         /* unused descriptions; the first block of each segment */
    uint64_t calls;                      /* blocks that became free, ever */
    fa_memory_stats stats;
} fai_arena;
/* With the lock held, all of them. To make a block: describe what may be cut off, find one or add a segment, trim it. */
fai_block *fai_arena_describe(fai_arena *a);                  /* a description; NULL without an error */
void fai_arena_forget(fai_arena *a, fai_block *block);        /* of a description */
void fai_arena_drop_spare(fai_arena *a);
size_t fai_arena_segment(size_t size);                        /* how large a segment is made for a block of that size */
fai_block *fai_arena_find(fai_arena *a, fai_heap *heap, size_t size); /* the best free block, not free any more; NULL: none */
void fai_arena_add(fai_arena *a, fai_heap *heap, fai_block *block, fa_address address, size_t bytes, size_t size); /* a segment for a block of size */
void fai_arena_trim(fai_arena *a, fai_block *block, size_t size, fai_block *rest); /* rest: a description, used or forgotten */
fai_block *fai_arena_put(fai_arena *a, fai_block *block);     /* nobody uses it: it is free, and one with its free neighbours; returns that one */
uint64_t fai_arena_unused(const fai_heap *heap);              /* bytes in segments that nobody uses */
uint64_t fai_arena_release(fai_arena *a, fai_heap *heap);     /* gives these back; bytes */
uint64_t fai_arena_release_one(fai_arena *a, fai_block *block);
uint64_t fai_arena_release_oldest(fai_arena *a, uint64_t bytes, bool small); /* of the large ones, or all, that belong to no pool, until it was so much */
bool fai_arena_has_old(const fai_arena *a);                   /* whether that would find any */

/* ---- queue.c ---- */
typedef struct fai_staged fai_staged;    /* host memory that a queued copy still reads */
typedef struct fai_queued { const char *op, *kernel; uint64_t number, place; } fai_queued; /* of launches; of all operations */
typedef struct fai_spoiled { const char *op; uint64_t first, last; } fai_spoiled; /* operations that did not run, and whose failure it was */

/* A queue. Operations are numbered in it; a place is that number with the stream's id above it, so that one number tells of a
 * buffer when and by which stream it was written. */
typedef struct fai_stream {
    struct fai_dev *dev;
    fa_stream_handle handle;             /* the backend's; NULL for its default one */
    int id, priority;
    bool external;                       /* somebody else's: not ours to destroy */
    fai_heap heap;

    pthread_mutex_t lock;
    fai_staged *staged;
    size_t staged_bytes;
    _Atomic uint64_t place, waited_place; /* of the last operation; of the last one that a wait has passed */
    _Atomic uint64_t lost_place;         /* of the last operation when the device was lost */
    uint64_t foreign;                    /* place of the first wait for another stream since then; 0: none */
    uint64_t first, launched;            /* numbers on the device: of the first launch since the last wait (0: none), of the last */
    fai_buffer *status;
    bool status_asked;                   /* an index kernel may have written to it since the last wait */
    fa_event_handle marker;              /* behind place `marked`: how queries and the watchdog know how far it has come */
    uint64_t marked;
    bool hung;                           /* the watchdog gave it up */
    _Atomic(struct fa_graph *) capture;  /* work goes into this graph instead of the queue */
    int paused;                          /* above 0: for now it goes into the queue all the same */
    uint64_t captured;                   /* pieces of work that it put into the graph */
    bool forked;                         /* of one that joined the capture: nobody in it has waited for its last work yet */
    bool shown;                          /* somebody has the backend's handle of it */
    atomic_bool holds;                   /* the chain has steps */
    struct fai_chain *chain;             /* fuse.c: launches that are not with the driver yet; NULL until the first */
} fai_stream;
#define FAI_PLACE_BITS 48
static inline uint64_t fai_place_base(const fai_stream *s) { return (uint64_t)s->id << FAI_PLACE_BITS; }

/* ---- steps.c: what training steps needed ---- */
typedef struct fai_step_sort { uint64_t what; const void *optimizer; } fai_step_sort; /* steps of one kind can be compared */
typedef struct fai_trace {               /* replay.c: what was asked for and given back */
    uint64_t *event;
    uint32_t n, room, taken;
    bool broken, steady;                 /* it is not all of it; the step before went alike, so far as the counts tell */
} fai_trace;
typedef struct fai_steps {
    int64_t rows;                        /* of the step that runs, 0: not known yet */
    fai_step_sort kind;                  /* its; optimizer: of the step before, until it ends */
    uint32_t count, good, good_taken, good_n; /* steps and tries begun; the last one that ended as it should, its blocks and events */
    bool tried;                          /* a try of the step that runs ran out of memory */
    uint64_t begun_what;                 /* the kind.what that was called last, and when for the first time */
    uint32_t begun_step, begun_number;
    fai_trace now, trace[2];             /* of the step that runs; of two that ran through, of one kind, with the most rows */
    fai_step_sort trace_kind;
    int64_t trace_rows[2];
} fai_steps;

typedef struct fai_dev {
    const fa_backend *backend;
    int ordinal;                         /* the backend's own number of it */
    int number;                          /* its place among all devices */
    fa_device name;
    atomic_bool touched;                 /* has memory or was launched on: worth waiting for at the end */
    atomic_bool lost;                    /* the driver gave it up; lost_text says why */
    char lost_text[512];
    _Atomic(const char *) lost_op;       /* who found out */

    fai_arena memory;                    /* its lock guards the lines down to limit */
    fai_heap *heaps;                     /* all of them; the default stream's is the last */
    fai_block *live;                     /* allocated blocks */
    fai_block *waiting;                  /* freed, but another stream may not be done with them */
    struct fai_mempool *pools;
    atomic_int pools_in_use;             /* captures and scopes of pools that are open */
    fai_steps step;
    bool limited;
    uint64_t limit;                      /* if limited: bytes of it that this process may take */

    fai_stream main;                     /* the default stream */
    _Atomic(fai_stream *) streams[FAI_STREAMS]; /* by id; 0 is main */
    pthread_mutex_t streams_lock;        /* while one is made */
    unsigned turn[2];                    /* which of the pool is given next: priority 0, above */

    pthread_mutex_t launch_lock;         /* launches are numbered in the order in which the driver gets them */
    fai_queued log[FAI_LOG];             /* the last launches, a ring */
    uint64_t launched;                   /* number of the last one */
    fai_spoiled spoiled[FAI_SPOILED];    /* the last failures, a ring */
    atomic_uint failures;
    struct { _Atomic uint64_t launches, to_device, to_host, within, waits, fused; } count;

    pthread_mutex_t build_lock;
    bool no_float64;                     /* known from the first launch on */
    fa_program_handle *programs;         /* by text */
    fa_kernel_handle _Atomic *kernels;   /* by kernel number */
    struct fai_fused_table *fused;       /* chains that were sent; NULL until the first */
    atomic_int fuse_problem;             /* 1: no program of a chain could be made, for fuse_text; 2: it was told */
    char fuse_text[600];

    fa_generator *generator;
} fai_dev;

/* ---- stream.c ---- */
static inline fai_stream *fai_stream_now(fai_dev *dev) /* the thread's current one of a device */
{
    fai_stream *s = atomic_load_explicit(&dev->streams[fai_tls.stream_of[dev->number]], memory_order_acquire);
    return FAI_LIKELY(s != NULL) ? s : &dev->main;
}
static inline struct fa_graph *fai_capture_of(const fai_stream *s) /* the graph that its work goes into; NULL: none */
{
    struct fa_graph *g = atomic_load_explicit(&((fai_stream *)(uintptr_t)s)->capture, memory_order_acquire);
    return FAI_LIKELY(!g) || s->paused ? NULL : g;
}
fai_stream *fai_stream_find(fa_stream stream, const char *op); /* NULL and an error */
void fai_stream_init(fai_dev *dev, fai_stream *s, int id);
bool fai_stream_order(fai_stream *later, fai_stream *earlier, const char *op); /* what comes into later runs behind all of earlier */
int fai_stream_await(fai_stream *s, fa_event_handle event); /* what comes into s runs behind the event; 0 or the backend's code */

/* ---- registry.c ---- */
fai_dev *fai_dev_find(fa_device device);            /* NULL and no error if it is not there; index -1: the current one */
fai_dev *fai_dev_get(fa_device device, const char *op); /* as fai_device_resolve, which sets the error */
fai_dev *fai_dev_number(int n);                     /* the n-th of all devices, NULL after the last */
bool fai_forked_child(void);                        /* of a process that had opened a device */
bool fai_fail_forked(const char *op);
bool fai_fail_backend(fai_dev *dev, int code, const char *op, const char *doing); /* FA_ERR_DEVICE with the driver's words */

#define FAI_BACKEND_LEAST offsetof(fa_backend, library) /* where the first version of the contract ends */
const char *fai_why_none(int type);                 /* why it has no device, in the backend's words; "" */
const char *fai_sim_mistake(void);                  /* what is wrong with FACULA_SIM; "" */

/* ---- plugin.c ---- */
/* add: gives a backend's devices their places; returns how many, or 0 and why. */
void fai_plugins_open(int (*add)(const fa_backend *backend, char *why, size_t n));
void fai_plugins_warn(void);                        /* of those that can't be used */
void fai_plugins_add_problems(char *text, size_t n); /* the same, behind a text that asks for a device in vain */
void fai_open_backends(int type);                   /* registry.c: what may serve the type. 0: so that all names of devices are known */

/* ---- names.c ---- */
const char *fai_type_name(int type);                /* NULL if there is none */
int fai_type_of_name(const char *name, size_t n);   /* 0 if there is none */
int fai_type_add(const char *name);                 /* a plug-in's; 0 if the table is full or the name can't be one */
bool fai_fail_unserved(int type, const char *op);  /* an error, and true, if torch knows the type and nothing here serves it */
void fai_type_upper(char out[16], int type);        /* "CUDA" */

/* ---- allocator.c ---- */
void fai_allocator_init(fai_dev *dev);
fai_block *fai_block_new(fai_dev *dev, fai_heap *heap, size_t bytes, const char *op); /* NULL and an error */
void fai_block_free(fai_dev *dev, fai_block *block);
fa_address fai_block_address(const fai_block *block);
size_t fai_block_size(const fai_block *block);
fai_block *fai_block_try(fai_dev *dev, fai_heap *heap, size_t bytes); /* NULL without an error, if there is none; with unused descriptions at hand */
uint64_t fai_release_unused(fai_dev *dev);          /* bytes given back to the driver */
void fai_heap_drop(fai_dev *dev, fai_heap *heap);   /* with the lock held: of one without segments */
void fai_block_used_by(fai_dev *dev, fai_block *block, const fai_stream *s); /* freed, it waits until that stream is done with it */
void fai_heap_add(fai_dev *dev, fai_heap *heap);

/* ---- rules.c: what the environment changes of the allocator ---- */
enum { FAI_SIZES = 17 };                             /* below 2 MiB, below 4 MiB, ... */
typedef struct fai_alloc_rules {
    size_t max_split;                    /* blocks as large are not cut, and serve large requests only; SIZE_MAX: all are cut */
    double collects;                     /* part of the limit above which old blocks go before new memory is taken; 0: none */
    bool divides;
    uint8_t divisions[FAI_SIZES];        /* if so: into how many steps a doubling is divided; 0: no rounding but to 512 */
} fai_alloc_rules;
extern fai_alloc_rules fai_rules;
extern atomic_bool fai_rules_known;
void fai_rules_read(void);               /* warns: call it without locks */
size_t fai_rules_divided(size_t bytes, size_t unit);

/* ---- pool.c: memory of its own for graphs, or for whoever asks. Counts and lists are guarded by the memory lock. ---- */
typedef struct fai_mempool {
    struct fai_mempool *next;
    uint64_t id;
    int refs;                            /* graphs and fa_mempools that have it; with the last its unused memory is anybody's again */
} fai_mempool;
fai_mempool *fai_mempool_take(fai_dev *dev, uint64_t id, const char *op); /* made if it is not there; NULL and an error */
void fai_mempool_give(fai_dev *dev, fai_mempool *pool);
fai_heap *fai_mempool_heap(fai_dev *dev, fai_mempool *pool, fai_stream *s, const char *op); /* NULL and an error */
fai_heap *fai_heap_elsewhere(fai_dev *dev, const char *op);
static inline fai_heap *fai_heap_now(fai_dev *dev, const char *op) /* where new memory comes from; NULL and an error */
{
    if (FAI_UNLIKELY(atomic_load_explicit(&dev->pools_in_use, memory_order_relaxed))) return fai_heap_elsewhere(dev, op);
    return &fai_stream_now(dev)->heap;
}

/* ---- queue.c and library.c ---- */
/* What is launched: a kernel, or a library's call. */
typedef struct fai_work {
    const char *kernel;                  /* its name */
    int group_size;
    fa_kernel_handle handle;
    fa_library_call *library;            /* NULL: the kernel */
    fa_address workspace;
    int elementwise;                     /* 1 + the compute type of an elementwise kernel, which may be held back; else 0 */
} fai_work;

/* ---- capture.c: work that goes into a graph ---- */
/* Each takes the stream's lock itself, or is called with it, as its caller's twin that queues. */
bool fai_capture_refuse_between(fa_device to, fa_device from, const char *op); /* a copy between two accelerators */
bool fai_capture_refuse(fai_stream *s, const char *op); /* false and an error: not while capturing; the capture is worth nothing from now on */
bool fai_capture_refuse_inside(fai_stream *s, const char *op); /* the same, of a graph within a graph */
void fai_capture_invalidate(fai_stream *s, const char *op);
int fai_capture_launch(struct fa_graph *g, fai_stream *s, const char *op, const fai_work *work, const fa_plan *plan, fai_buffer *const buffers[8],
                       const fa_address pointers[8]); /* 0, or FAI_TOLD; a library's call is the graph's then */
bool fai_capture_copy(struct fa_graph *g, fai_stream *s, fa_copy_kind kind, fai_buffer *to, size_t to_offset, fai_buffer *from,
                      size_t from_offset, size_t bytes, const char *op);
bool fai_capture_fill(struct fa_graph *g, fai_stream *s, fai_buffer *to, size_t offset, int byte, size_t bytes, const char *op);
fai_buffer *fai_capture_status(struct fa_graph *g, const char *op);
bool fai_capture_order(fai_stream *later, fai_stream *earlier, const char *op); /* one of them is captured */
uint64_t fai_capture_mark(fai_stream *s, uint64_t *graph);  /* where it is, and in which capture: for events */
bool fai_capture_await(fai_stream *s, fai_stream *marked, uint64_t graph, uint64_t mark, const char *op);

/* ---- stats.c: with the lock held; a freed block that a queue still uses is not live, but active ---- */
static inline void fai_count(fa_memory_count *c, uint64_t amount, bool more)
{
    if (more) {
        c->current += amount;
        c->allocated += amount;
        if (c->current > c->peak) c->peak = c->current;
    } else {
        c->current -= amount;
        c->freed += amount;
    }
}
void fai_count_reset(fa_memory_count *c, bool peaks);                     /* else what was ever allocated and freed */
void fai_count_live(fai_arena *a, const fai_block *block, bool more);
void fai_count_active(fai_arena *a, const fai_block *block, bool more);
void fai_count_segment(fai_arena *a, const fai_block *block, bool more);
void fai_count_inactive(fai_arena *a, const fai_block *block, bool more); /* free, in a segment that others use too */

/* ---- summary.c ---- */
size_t fai_memory_table(const fa_memory_stats *stats, fa_device device, bool abbreviated, char *out, size_t n);

/* ---- library.c: 1: a library did it; 0: the own kernel is to do it; -1: an error ---- */
int fai_library_launch(fai_dev *dev, int kernel, const fa_plan *plan, fai_buffer *const buffers[8], const fa_address pointers[8],
                       const char *op);

/* ---- steps.c ---- */
void fai_tell_batch(fai_dev *dev, uint64_t capacity, size_t asked, fai_text *out);

/* ---- replay.c: the first five with the lock held ---- */
typedef struct fai_replayed { bool known; int64_t here, anew; uint64_t needed; } fai_replayed; /* rows that fit; bytes that are live at most */
void fai_trace_took(fai_dev *dev, fai_block *block);
void fai_trace_gave(fai_dev *dev, const fai_block *block);
void fai_trace_end(fai_steps *s);                   /* of a step */
bool fai_trace_has(const fai_steps *s, int64_t rows); /* a step of that kind and so many rows ran through */
void fai_trace_free(fai_trace *t);
void fai_trace_drop(fai_dev *dev);                  /* all of a device; takes the lock */
fai_replayed fai_replay(fai_dev *dev, uint64_t capacity, int64_t rows, size_t asked); /* of the step that ran out of memory when it asked for so much */

/* ---- report.c ---- */
typedef struct fai_free_pieces { uint64_t bytes, largest, whole; size_t count; } fai_free_pieces; /* whole: in segments that nobody uses */
fai_free_pieces fai_count_free(fai_dev *dev, int pool); /* FA_POOL_SMALL, FA_POOL_LARGE or FA_POOL_ALL */
void fai_tell_holders(fai_dev *dev, size_t most, fai_text *out); /* " 30.00 MiB made by 'add', ...": the largest */
/* Everything unused was given back before. Without the lock: it asks other rooms, which may free blocks. */
void *fai_fail_device_memory(fai_dev *dev, size_t bytes, uint64_t released, const char *op);

/* ---- pinned.c ---- */
bool fai_pinned_busy(fai_buffer *b, fai_stream *s, uint64_t place); /* until that place; false: too many streams use it */

/* ---- host.c: the CPU's memory. Of the buffer only address, room and block are set. ---- */
fai_buffer *fai_host_buffer(size_t bytes, const char *op);  /* with room for bytes */
void fai_host_buffer_free(fai_buffer *buffer);
fai_buffer *fai_host_header(const char *op);                /* of a buffer whose memory lies elsewhere: block is not its own */
void fai_host_header_free(fai_buffer *buffer);
void fai_host_stats(fa_memory_stats *out);
void fai_host_reset_stats(void (*reset)(fa_memory_stats *stats, bool peaks), bool peaks);
uint64_t fai_host_release(void);                            /* what this thread keeps, and what nobody uses, goes back to the system; bytes */

/* ---- spoiled.c: buffers whose contents nobody knows ---- */
uint64_t fai_spoiled_at(fai_dev *dev, const fai_buffer *b, fai_spoiled *out); /* the place that spoiled it, 0 if it is good */
bool fai_is_spoiled(fai_dev *dev, const fai_buffer *b, fai_spoiled *out); /* only after a failure; out may be NULL */
void fai_wrote(fai_stream *s, fai_buffer *b, bool whole);                /* by the operation that was queued last */
bool fai_launch_covers(const char *kernel, const fa_plan_view *v, const fai_buffer *b); /* all of the buffer is written anew */
void fai_launch_wrote(fai_stream *s, const char *kernel, const fa_plan *plan, fai_buffer *const buffers[8]);
void fai_spoil_lost(fai_dev *dev, const char *op); /* all that was ever written there */
void fai_spoil(fai_stream *s, const fai_queued *culprit);
bool fai_is_known(fai_dev *dev, const fai_buffer *b, const char *op);    /* false and an error */

/* ---- peer.c: between two devices; the ranges are checked ---- */
bool fai_copy_between(fai_buffer *to, size_t to_offset, fai_buffer *from, size_t from_offset, size_t bytes, const char *op);

/* ---- queue.c ---- */
bool fai_queue_wait(fai_dev *dev, const char *op);  /* for all streams */
bool fai_stream_wait(fai_stream *s, const char *op);
bool fai_stream_came_to(fai_stream *s, uint64_t place);     /* asks without waiting */
bool fai_stream_passed(fai_stream *s, const char *op, bool *done); /* asks without waiting; false and an error */
bool fai_event_wait_for(fai_stream *s, fa_event_handle event, uint64_t place, const char *op); /* at that place of it */
bool fai_queue_hangs(fai_dev *dev);                 /* the watchdog gave one of its streams up */
int fai_queue_launch(fai_dev *dev, const char *op, const fai_work *work, const fa_plan *plan, fai_buffer *const buffers[8],
                     const fa_address pointers[8]); /* 0, the backend's code, or FAI_TOLD: an error is set */
enum { FAI_TOLD = -1001 };
int fai_queue_give(const fai_dev *dev, fa_stream_handle stream, const fai_work *work, const fa_plan *plan, const fa_address pointers[8]);
void fai_queue_count_launch(fai_stream *s, const char *op, const fai_work *work, int code); /* with the locks of stream and launches: it was given to the driver */
fai_buffer *fai_status_words(fai_stream *s, const char *op); /* the stream's own, with its lock held; a wait will look at them. NULL and an error */
int fai_launch_held(fai_stream *s, const char *op, const fai_work *work, const fa_plan *plan, const fa_address pointers[8]); /* fuse.c's; its place is counted already */
void fai_queue_end(fai_dev *dev);                   /* gives back what the queues hold; nothing may be running */

/* ---- fuse.c: launches that a stream holds back. With its lock held, save for the last four ---- */
/* True: it is held. False: launch it now, or, where code is not 0, nothing: what was held failed, and the error is set. */
bool fai_fuse_take(fai_stream *s, const char *op, const fai_work *work, const fa_plan *plan, fai_buffer *const buffers[8],
                   const fa_address pointers[8], int *code);
int fai_fuse_flush(fai_stream *s);                  /* sends them; 0, or the backend's code with the error set */
void fai_fuse_flush_all(fai_dev *dev);
void fai_fuse_forget(fai_dev *dev, fai_buffer *b);  /* it is about to be freed */
void fai_fuse_tell(fai_dev *dev);                   /* warns, if there is something to warn of */

/* ---- launch.c ---- */
char *fai_family_text(const char *family, size_t *bytes); /* fai_free(FAI_TAG_OTHER, text, bytes); NULL, without an error, if there is no memory */

/* Around work with a stream's lock that may wait: another language's threads may run meanwhile. */
void *fai_stream_lock(fai_stream *s);
void fai_stream_unlock(fai_stream *s, void *state);

#endif
