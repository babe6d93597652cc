/* Inside the room: one fai_dev for each device that is there, and what the room's files call of each other.
 *
 * Locks: memory_lock may be held while queue_lock is taken, never the other way round. */
#ifndef FAI_DEVICE_INSIDE_H
#define FAI_DEVICE_INSIDE_H

#include "device.h"
#include <pthread.h>

enum { FAI_TYPES = 16, FAI_DEVICES = 64, FAI_BINS = 600, FAI_LOG = 64, FAI_SPOILED = 8 };

/* ---- allocator.c ---- */
typedef struct fai_block {
    struct fai_block *left, *right;      /* neighbours in the segment */
    struct fai_block *before, *after;    /* in its bin while free, in dev->live while not */
    struct fai_block *segment_before, *segment_after; /* in dev->segments: of a segment's first block */
    fa_address address;
    size_t size, asked;                  /* asked: what the buffer wanted, of a live block */
    uint32_t site;                       /* the line of the program that asked for it, as fai_other_face.site knows it; 0: unknown */
    bool free, small;
    char op[30];                         /* who made the buffer, for the report */
} fai_block;
typedef struct fai_pool {
    fai_block *bin[FAI_BINS];            /* free blocks, each list by size */
    uint64_t filled[(FAI_BINS + 63) / 64]; /* which bins have any */
} fai_pool;

/* ---- queue.c ---- */
typedef struct fai_staged fai_staged;    /* host memory that a queued copy still reads */
typedef struct fai_queued { const char *op, *kernel; uint64_t number, place; } fai_queued; /* of launches; of all operations */
typedef struct fai_spoiled { const char *op; uint64_t first, last; } fai_spoiled; /* operations that did not run, and whose failure it was */

typedef struct fai_dev {
    const fa_backend *backend;
    int ordinal;                         /* the backend's own number of it */
    fa_device name;
    atomic_bool touched;                 /* has memory or was launched on: worth waiting for at the end */
    atomic_bool lost;                    /* the driver gave it up; lost_text says why */
    char lost_text[512];

    pthread_mutex_t memory_lock;
    fai_pool small, large;
    fai_block *live, *spare;             /* allocated blocks; unused descriptions */
    fai_block *segments;                 /* the first block of each */
    fa_memory_stats stats;
    bool limited;
    uint64_t limit;                      /* if limited: bytes of it that this process may take */

    pthread_mutex_t queue_lock;
    fai_staged *staged;
    size_t staged_bytes;
    fai_queued log[FAI_LOG];             /* the last launches, a ring */
    fai_spoiled spoiled[FAI_SPOILED];    /* the last failures, a ring */
    unsigned failures;
    uint64_t place, waited_place;        /* number of the last operation; of the last one that a wait has passed */
    uint64_t launched, waited;           /* number of the last launch; of the last one that a wait has passed */
    fai_buffer *status;
    bool status_asked;                   /* an index kernel may have written to it since the last wait */
    const char *status_op;
    struct { _Atomic uint64_t launches, to_device, to_host, within, waits; } count;

    pthread_mutex_t build_lock;
    fa_program_handle *programs;         /* by text */
    fa_kernel_handle _Atomic *kernels;   /* by kernel number */

    fa_generator *generator;
} fai_dev;

/* ---- registry.c ---- */
fai_dev *fai_dev_find(fa_device device);            /* NULL and no error if it is not there; index -1: the current one */
fai_dev *fai_dev_get(fa_device device, const char *op); /* as fai_device_resolve, which sets the error */
fai_dev *fai_dev_number(int n);                     /* the n-th of all devices, NULL after the last */
bool fai_forked_child(void);                        /* of a process that had opened a device */
bool fai_fail_forked(const char *op);
bool fai_fail_backend(fai_dev *dev, int code, const char *op, const char *doing); /* FA_ERR_DEVICE with the driver's words */

/* ---- names.c ---- */
const char *fai_type_name(int type);                /* NULL if there is none */
int fai_type_of_name(const char *name, size_t n);   /* 0 if there is none */
int fai_type_add(const char *name);                 /* a plug-in's; 0 if the table is full or the name can't be one */
void fai_type_upper(char out[16], int type);        /* "CUDA" */

/* ---- allocator.c ---- */
fai_block *fai_block_new(fai_dev *dev, size_t bytes, const char *op); /* NULL and an error */
void fai_block_free(fai_dev *dev, fai_block *block);
fa_address fai_block_address(const fai_block *block);
size_t fai_block_size(const fai_block *block);
uint64_t fai_release_unused(fai_dev *dev);          /* bytes given back to the driver */

/* ---- stats.c: with the lock held; a freed block that a queue still uses is not live, but active ---- */
void fai_count_live(fai_dev *dev, const fai_block *block, bool more);
void fai_count_active(fai_dev *dev, const fai_block *block, bool more);
void fai_count_segment(fai_dev *dev, const fai_block *block, bool more);
void fai_count_inactive(fai_dev *dev, const fai_block *block, bool more); /* free, in a segment that others use too */

/* ---- summary.c ---- */
size_t fai_memory_table(const fa_memory_stats *stats, int index, bool abbreviated, char *out, size_t n);

/* ---- report.c ---- */
/* Everything unused was given back before. Without the lock: it asks other rooms, which may free blocks. */
void *fai_fail_device_memory(fai_dev *dev, size_t bytes, uint64_t released, const char *op);

/* ---- host.c: the CPU's memory ---- */
enum { FAI_HEADER_ROOM = 64 };                      /* room of a buffer whose memory lies elsewhere, while host.c has it */
fai_buffer *fai_host_buffer(size_t bytes, const char *op);  /* with room for bytes; only address, room, block are set */
void fai_host_buffer_free(fai_buffer *buffer);

/* ---- queue.c ---- */
bool fai_queue_wait(fai_dev *dev, const char *op);
int fai_queue_launch(fai_dev *dev, const char *op, const char *kernel, int group_size, fa_kernel_handle handle, const fa_plan *plan,
                     fai_buffer *const buffers[8], const fa_address pointers[8]); /* 0 or the backend's code */
void fai_queue_end(fai_dev *dev);                   /* gives back what the queue holds; nothing may be running */

#endif
