/* The memory of devices: what is taken, what is cached, who has it. All amounts are bytes. Devices are those of fa_device.h; index -1 is the
 * current one. Questions about a device that is not there answer 0 unless they say otherwise. FA_CPU's memory is counted too, by the same
 * rules (sizes are rounded to 64 there, and a peak includes small blocks that threads keep for their next tensors). */
#ifndef FA_MEMORY_H
#define FA_MEMORY_H

#include "fa_device.h"

#ifdef __cplusplus
extern "C" {
#endif

FA_API bool fa_empty_cache(fa_device device);       /* gives unused cached memory back to the driver */
/* Whether memory that tensors of devices give back is kept for the next ones (true at the start); false: it goes back to the driver,
 * each time. Returns what was set before. */
FA_API bool fa_memory_caching(bool on);
FA_API uint64_t fa_memory_allocated(fa_device device);     /* in live tensors, rounded to the allocator's 512 (CPU: 64) */
FA_API uint64_t fa_memory_reserved(fa_device device);      /* taken from the driver: in live tensors, or cached */
FA_API uint64_t fa_max_memory_allocated(fa_device device); /* the most there was, since the start or the last reset */
FA_API uint64_t fa_max_memory_reserved(fa_device device);
FA_API void fa_reset_peak_memory_stats(fa_device device);
FA_API void fa_reset_accumulated_memory_stats(fa_device device); /* what was ever allocated and freed counts from 0 again */
FA_API bool fa_memory_info(fa_device device, uint64_t *free_bytes, uint64_t *total_bytes); /* the driver's; false: an error */

/* This process takes no more than this part of the device's memory (0 to 1); what would need more is out of memory. 1 at first. */
FA_API bool fa_set_memory_fraction(fa_device device, double fraction);
FA_API double fa_memory_fraction(fa_device device);

/* ---- Statistics, with PyTorch's meanings and names: allocated_bytes.all.current is stats.allocated_bytes[FA_POOL_ALL].current ---- */
typedef struct fa_memory_count { uint64_t current, peak, allocated, freed; } fa_memory_count; /* allocated, freed: all that ever was */
enum { FA_POOL_ALL, FA_POOL_LARGE, FA_POOL_SMALL, FA_POOL_COUNT }; /* buffers up to 1 MiB are small */
typedef struct fa_memory_stats {
    fa_memory_count allocation[FA_POOL_COUNT];           /* live buffers */
    fa_memory_count segment[FA_POOL_COUNT];              /* pieces taken from the driver */
    fa_memory_count active[FA_POOL_COUNT];               /* live, or freed while a queue still uses them */
    fa_memory_count inactive_split[FA_POOL_COUNT];       /* free parts of segments that live buffers hold: they can't be given back */
    fa_memory_count allocated_bytes[FA_POOL_COUNT], reserved_bytes[FA_POOL_COUNT], active_bytes[FA_POOL_COUNT];
    fa_memory_count inactive_split_bytes[FA_POOL_COUNT];
    fa_memory_count requested_bytes[FA_POOL_COUNT];      /* what live buffers asked for, before rounding */
    fa_memory_count oversize_allocations, oversize_segments; /* as large as max_split_size or larger */
    uint64_t num_alloc_retries;    /* the driver had nothing more, and the cache was given back */
    uint64_t num_ooms;             /* and that did not help */
    uint64_t num_sync_all_streams, num_device_alloc, num_device_free, num_oom_rejections;
    int64_t max_split_size;        /* bytes; -1: none, all blocks may be cut */
} fa_memory_stats;
FA_API bool fa_memory_get_stats(fa_device device, fa_memory_stats *out); /* false and an error if the device is not there */
/* Calls visit with every number under PyTorch's name, "allocated_bytes.all.current", in the order of the struct. */
FA_API void fa_memory_visit_stats(const fa_memory_stats *stats, void (*visit)(void *context, const char *name, int64_t value), void *context);
/* The table that torch.cuda.memory_summary prints. Writes at most n bytes, ends with a 0; returns the length that the whole has. */
FA_API size_t fa_memory_summary(fa_device device, bool abbreviated, char *out, size_t n);

/* The same in words: what is live and who has it, what is cached, what the driver and other programs hold, what is free. Written as above. */
FA_API size_t fa_memory_explain(fa_device device, char *out, size_t n);

/* One piece of a segment. Pieces of a segment follow each other; address is the device's. */
typedef struct fa_memory_block {
    uint64_t segment, segment_bytes;    /* where the segment begins, and its size */
    uint64_t address, bytes, requested; /* requested: what the live buffer asked for */
    bool live, small;                   /* small: in the pool of buffers up to 1 MiB */
    char op[32];                        /* of a live one: the operator that made it, "linear" */
} fa_memory_block;
/* Fills at most room entries, in the order of addresses; returns how many there are. */
FA_API size_t fa_memory_blocks(fa_device device, fa_memory_block *out, size_t room);

/* ---- Pinned memory of the host: blocks that the allocator has (in use or cached), and those in use ---- */
typedef struct fa_pinned_stats { fa_memory_count allocations, allocated_bytes, active_requests, active_bytes; } fa_pinned_stats;
FA_API void fa_pinned_get_stats(fa_pinned_stats *out);
FA_API void fa_pinned_reset_peak(void);
FA_API void fa_pinned_reset_accumulated(void);
FA_API void fa_pinned_empty_cache(void); /* what no copy uses any more goes back to the driver */

/* Memory that is nobody's tensor: its address on the device; 0 and an error if there is none. What it was given is given back by address. */
FA_API uint64_t fa_memory_alloc(fa_device device, size_t bytes);
FA_API bool fa_memory_free(fa_device device, uint64_t address);

#ifdef __cplusplus
}
#endif
#endif
