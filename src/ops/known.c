/* What is known of an index before its launch. A bad index on a device is met by a kernel, and the error can come at the next wait only,
 * far from the line that is wrong. But most labels and indices came from the host, where their elements were looked at on the way: a
 * buffer keeps the range of what was copied into it until something else is written there. If that range fits, nothing is to be done;
 * if it does not, the tensor is read back, the one wait that this costs, because a view of it may be right all the same. What a device
 * computed itself has no range and is left to its kernels. The next to least and largest are kept too: one value may be told to be
 * ignored (-100, or 255), and that must not cost a wait in every step. */
#include "ops.h"

enum { LOOKED_AT = 4 << 20 }; /* bytes; more is copied without passing the processor's caches anyway */

static bool is_whole(int dtype) { return dtype == FA_INT64 || dtype == FA_INT32 || dtype == FA_UINT8; }

#define FIND(type)                                                                                                               \
    for (int64_t i = 0; i < n; i++) {                                                                                            \
        const int64_t x = ((const type *)host)[i];                                                                               \
        r.low = x < r.low ? x : r.low;                                                                                           \
        r.high = x > r.high ? x : r.high;                                                                                        \
    }
#define FIND_NEXT(type)                                                                                                          \
    for (int64_t i = 0; i < n; i++) {                                                                                            \
        const int64_t x = ((const type *)host)[i];                                                                               \
        if (x > r.low && x < r.low2) r.low2 = x;                                                                                 \
        if (x < r.high && x > r.high2) r.high2 = x;                                                                              \
    }

/* What is ignored is below 0, or 255: only there the next ones are looked for. */
static fai_range look_at(const void *host, int dtype, int64_t n) {
    fai_range r = {INT64_MAX, INT64_MAX, INT64_MIN, INT64_MIN};
    if (dtype == FA_INT64) FIND(int64_t) else if (dtype == FA_INT32) FIND(int32_t) else FIND(uint8_t)
    if (r.low == r.high || (r.low >= 0 && r.high != UINT8_MAX)) return (fai_range){r.low, r.low, r.high, r.high};
    if (dtype == FA_INT64) FIND_NEXT(int64_t) else if (dtype == FA_INT32) FIND_NEXT(int32_t) else FIND_NEXT(uint8_t)
    return r;
}

/* A write has to fill the buffer for that: what was there before is forgotten with any. */
static bool may_note(const fa_tensor *t) {
    const fai_buffer *b = t->buffer;
    return b->device.type != FA_DEVICE_CPU && is_whole(t->dtype) && t->numel > 0 && FAI_HAS(t, FAI_CONTIGUOUS) &&
           (size_t)t->numel * fa_dtype_size((fa_dtype)t->dtype) == b->bytes && fai_may_range(b) && fai_check_mode() != FAI_CHECK_LATE;
}

static bool holds(int dtype, int64_t x) {
    return dtype == FA_INT64 || (dtype == FA_INT32 ? x >= INT32_MIN && x <= INT32_MAX : x >= 0 && x <= UINT8_MAX);
}

static void note(fa_tensor *t, fai_range range) {
    if (!holds(t->dtype, range.low) || !holds(t->dtype, range.high)) return; /* it wrapped around */
    t->buffer->range = range;
    t->buffer->ranged = (uint8_t)t->dtype;
}

void fai_note_range(fa_tensor *t, const void *host) {
    if (!may_note(t) || t->buffer->bytes > LOOKED_AT) return;
    note(t, look_at(host, t->dtype, t->numel));
}

void fai_note_bounds(fa_tensor *t, int64_t low, int64_t high) {
    if (!may_note(t)) return;
    note(t, (fai_range){low, low < high ? low + 1 : low, high, low < high ? high - 1 : high});
}

static bool is_known(const fa_tensor *t) {
    return t->buffer->ranged == t->dtype && t->buffer->ranged != 0 && fai_may_range(t->buffer);
}

void fai_pass_range(fa_tensor *to, const fa_tensor *from) {
    if (from->buffer->ranged && is_known(from) && may_note(to)) note(to, from->buffer->range);
}

/* The first element that does not fit, counted as the kernels do: dimensions in which the index is repeated have one place. */
static bool look_back(const char *op, fa_tensor *index, int64_t low, int64_t high, int64_t ignored, int64_t words[6]) {
    FA_SCOPE;
    int64_t size[FA_MAX_DIMS];
    for (int d = 0; d < index->ndim; d++) size[d] = index->stride[d] ? index->size[d] : 1;
    fa_tensor *once = fai_view(op, index, index->ndim, size, index->stride, index->offset);
    fa_tensor *here = fai_empty(op, FA_INT64, FA_CPU, index->ndim, size);
    if (!once || !here || !fai_copy(op, here, once)) return false;
    const int64_t *x = fai_host(here);
    for (int64_t i = 0; i < here->numel; i++) {
        if ((x[i] >= low && x[i] <= high) || x[i] == ignored) continue;
        words[1] = x[i], words[4] = i;
        return fai_fail_status(op, words);
    }
    return true;
}

bool fai_indices_fit(const char *op, fa_tensor *index, int64_t low, int64_t high, int64_t ignored, int kind, int dim, int64_t size) {
    const fai_range *r = &index->buffer->range;
    if (!index->buffer->ranged || !is_known(index)) return true;
    /* where the end is ignored and what comes next was not looked for, the kernel tells */
    const bool fits_below = r->low != ignored ? r->low >= low : r->low2 == r->low || r->low2 >= low;
    const bool fits_above = r->high != ignored ? r->high <= high : r->high2 == r->high || r->high2 <= high;
    if (FAI_LIKELY(fits_below && fits_above)) return true;
    if (fa_sync_debug_mode() != FA_SYNC_ALLOWED) return true; /* nobody wants waits: the kernel tells */
    int64_t words[6] = {kind, 0, dim, size, 0, 0};
    return look_back(op, index, low, high, ignored, words);
}
