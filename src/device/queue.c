/* The queue of a device: copies, fills, waits, and what only a wait can tell (a kernel that failed, an index that was out of
 * bounds). There is one queue per device now, the backend's default one.
 *
 * A copy from the host reads memory that the caller may change at once, so small ones are copied aside first and kept until a
 * wait; large ones are waited for. Each launch leaves its op's name in a ring, so that a late error can name its op. */
#include "inside.h"
#include "../../kernels/dialect.h"
#include "../../kernels/status.h"
#include <stdlib.h>
#include <string.h>

#define STAGE_MOST   ((size_t)4 << 20)  /* larger copies to the device are waited for instead of copied aside */
#define STAGED_BYTES ((size_t)32 << 20) /* with so much aside, the next copy waits and frees it */
#define QUEUE        NULL               /* the backend's default queue */

struct fai_staged {
    fai_staged *next;
    size_t bytes;
};

enum { STATUS_WORDS = 4, STATUS_BYTES = STATUS_WORDS * sizeof(int64_t) }; /* kernels/status.h */

static void *staged_data(fai_staged *s) { return (char *)s + 64; }

static void count(_Atomic uint64_t *counter) { atomic_fetch_add_explicit(counter, 1, memory_order_relaxed); }

/* ---- contents that nobody knows ----
 *
 * A launch that failed late took everything behind it along: no launch and no copy from it to the end of the queue has run. A
 * buffer remembers where in the queue it was last written, so that its contents are known to be worth nothing when somebody reads
 * them. What is computed from such a buffer is worth nothing either; what overwrites all of it makes it good again. */

static const fai_spoiled *spoiled(const fai_dev *dev, const fai_buffer *b) {
    for (int i = 0; i < FAI_SPOILED; i++) {
        const fai_spoiled *s = &dev->spoiled[i];
        if (b->written >= s->first && b->written <= s->last && s->op) return s;
    }
    return NULL;
}

/* With the lock held: the operation that was queued last. */
static void wrote(fai_dev *dev, fai_buffer *b, bool whole) {
    if (whole || !dev->failures || !spoiled(dev, b)) b->written = dev->place;
}

static bool covers(const fa_plan_view *v, const fai_buffer *b) {
    static const size_t bytes[] = {0, 1, 1, 1, 2, 4, 8, 2, 2, 4, 8};
    size_t elements = 1;
    for (int d = 0; d < v->ndim; d++) elements *= (size_t)v->size[d];
    return v->kind == FA_VIEW_TENSOR && elements * bytes[v->dtype] >= b->bytes;
}

/* Elementwise kernels read nothing of what they write but by an operand of its own, so that they may make a buffer good. */
static void launch_wrote(fai_dev *dev, const char *kernel, const fa_plan *plan, fai_buffer *const buffers[8]) {
    uint64_t bad = 0;
    for (int i = 0; dev->failures && i < 8; i++)
        if (buffers[i] && !plan->view[i].writes && spoiled(dev, buffers[i])) bad = buffers[i]->written;
    for (int i = 0; i < 8; i++) {
        if (!buffers[i] || !plan->view[i].writes) continue;
        if (bad)
            buffers[i]->written = bad;
        else
            wrote(dev, buffers[i], dev->failures && !strncmp(kernel, "ew_", 3) && covers(&plan->view[i], buffers[i]));
    }
}

static void spoil(fai_dev *dev, const fai_queued *culprit) {
    if (dev->place == dev->waited_place) return;
    dev->spoiled[dev->failures++ % FAI_SPOILED] =
        (fai_spoiled){culprit ? culprit->op : "an operator", culprit ? culprit->place : dev->waited_place + 1, dev->place};
}

/* With the lock held. */
static bool is_known(const fai_dev *dev, const fai_buffer *b, const char *op) {
    const fai_spoiled *s = dev->failures ? spoiled(dev, b) : NULL;
    return !s || fai_fail(FA_ERR_DEVICE, op,
                          "the tensor on %s has no contents: '%s', which failed, was to make it or something it was made from. "
                          "Compute it again from "
                          "what was there before",
                          fa_device_text(dev->name), s->op);
}

/* ---- late errors ---- */

int fai_queue_launch(fai_dev *dev, const char *op, const char *kernel, int group_size, fa_kernel_handle handle,
                     const fa_plan *plan, fai_buffer *const buffers[8], const fa_address pointers[8]) {
    pthread_mutex_lock(&dev->queue_lock); /* launches are numbered in the order in which the driver got them */
    int code =
        dev->backend->launch(dev->ordinal, QUEUE, handle, (uint64_t)plan->groups, group_size, plan, sizeof *plan, pointers);
    if (code == 0) {
        uint64_t number = ++dev->launched;
        dev->log[number % FAI_LOG] = (fai_queued){op, kernel, number, ++dev->place};
        launch_wrote(dev, kernel, plan, buffers);
        count(&dev->count.launches);
    }
    pthread_mutex_unlock(&dev->queue_lock);
    if (FAI_UNLIKELY(!atomic_load_explicit(&dev->touched, memory_order_relaxed))) atomic_store(&dev->touched, true);
    return code;
}

static const fai_queued *entry_of(const fai_dev *dev, uint64_t number, const char *text) {
    const fai_queued *entry = &dev->log[number % FAI_LOG];
    return number && entry->number == number && entry->kernel && strstr(text, entry->kernel) ? entry : NULL;
}

/* The launch that the driver's text speaks of: by its number, which the simulator gives; by its kernel, if only one launch since
 * the last wait was of that; else the only one since then; else none. */
static const fai_queued *find_culprit(const fai_dev *dev, const char *text) {
    const char *told = strstr(text, "(launch ");
    const fai_queued *found = told ? entry_of(dev, strtoull(told + 8, NULL, 10), text) : NULL;
    uint64_t first = dev->waited + 1;
    if (dev->launched >= FAI_LOG && first < dev->launched - FAI_LOG + 1) first = dev->launched - FAI_LOG + 1;
    if (found) return found;
    int matches = 0;
    for (uint64_t number = first; number <= dev->launched; number++) {
        const fai_queued *entry = entry_of(dev, number, text);
        if (entry) found = entry, matches++;
    }
    if (matches == 1) return found;
    return dev->launched == dev->waited + 1 ? &dev->log[dev->launched % FAI_LOG] : NULL;
}

/* queue: what was queued failed, not only the reading of the status words. */
static void fail_late(fai_dev *dev, int code, bool queue, const char *op) {
    char doing[320];
    const fai_queued *culprit = find_culprit(dev, dev->backend->error_text());
    if (culprit)
        snprintf(doing, sizeof doing,
                 "running '%s', launch number %llu; it was seen by '%s', the first call that waited after it", culprit->op,
                 (unsigned long long)culprit->number, op);
    else if (dev->launched > dev->waited)
        snprintf(doing, sizeof doing,
                 "running one of the launches %llu to %llu, the last of which was '%s'; it was seen by '%s', the first call that "
                 "waited after them",
                 (unsigned long long)dev->waited + 1, (unsigned long long)dev->launched, dev->log[dev->launched % FAI_LOG].op,
                 op);
    else
        snprintf(doing, sizeof doing, "waiting for copies in '%s'", op);
    if (queue) spoil(dev, culprit);
    fai_fail_backend(dev, code, culprit ? culprit->op : op, doing);
}

/* ---- waiting ---- */

static void free_staged(fai_dev *dev) {
    for (fai_staged *s = dev->staged, *next; s; s = next) {
        next = s->next;
        fai_free_aligned(FAI_TAG_DATA, s, s->bytes + 64);
    }
    dev->staged = NULL;
    dev->staged_bytes = 0;
}

bool fai_fail_status(const char *op, const int64_t words[4]) {
    long long index = words[1], dim = words[2], size = words[3];
    switch (words[0]) {
    case FA_STATUS_TARGET:
        return fai_fail(FA_ERR_INDEX, op, "Target %lld is out of bounds. There are %lld classes: targets go from 0 to %lld",
                        index, size, size - 1);
    case FA_STATUS_SELF:
        return fai_fail(
            FA_ERR_INDEX, op,
            "index out of range in self. Index %lld was found, and dimension %lld has size %lld: indices go from 0 to %lld",
            index, dim, size, size - 1);
    case FA_STATUS_PLACE:
        return fai_fail(FA_ERR_RUNTIME, op,
                        "index %lld is out of bounds for dimension %lld with size %lld. Indices go from 0 to %lld", index, dim,
                        size, size - 1);
    case FA_STATUS_COPY:
        return fai_fail(FA_ERR_INDEX, op,
                        "index_copy_(): index %lld is out of bounds for dimension %lld with size %lld. Indices go from 0 to %lld",
                        index, dim, size, size - 1);
    default:
        return fai_fail(FA_ERR_INDEX, op,
                        "index %lld is out of bounds for dimension %lld with size %lld. Indices go from %lld to %lld", index, dim,
                        size, -size, size - 1);
    }
}

/* With the lock held. Reads the status words with the same wait if an index kernel was launched since the last one. */
static bool wait_locked(fai_dev *dev, const char *op) {
    int64_t words[STATUS_WORDS] = {0};
    bool asked = dev->status && dev->status_asked;
    int code = 0;
    if (asked) code = dev->backend->copy(dev->ordinal, QUEUE, FA_COPY_TO_HOST, dev->status->address, words, 0, sizeof words);
    int waited = dev->backend->stream_wait(dev->ordinal, QUEUE);
    if (!code) code = waited;
    count(&dev->count.waits);
    if (code) fail_late(dev, code, waited != 0, op);
    bool fine = code == 0;
    free_staged(dev);
    if (fine && asked && words[0]) {
        fai_fail_status(dev->status_op ? dev->status_op : "index", words);
        dev->backend->fill(dev->ordinal, QUEUE, dev->status->address, 0, STATUS_BYTES); /* the next kernel may report again */
        fine = false;
    }
    dev->status_asked = false;
    dev->waited = dev->launched;
    dev->waited_place = dev->place;
    return fine;
}

/* Whoever waits lets another language's threads run, and takes their lock again only when it has given the queue's back: somebody
 * who holds theirs may be waiting for it. */
static void *lock_queue(fai_dev *dev) {
    void *state = fai_other_face.unlock ? fai_other_face.unlock() : NULL;
    pthread_mutex_lock(&dev->queue_lock);
    return state;
}

static void unlock_queue(fai_dev *dev, void *state) {
    pthread_mutex_unlock(&dev->queue_lock);
    if (fai_other_face.lock) fai_other_face.lock(state);
}

bool fai_queue_wait(fai_dev *dev, const char *op) {
    void *state = lock_queue(dev);
    bool fine = wait_locked(dev, op);
    unlock_queue(dev, state);
    return fine;
}

void fai_queue_end(fai_dev *dev) {
    pthread_mutex_lock(&dev->queue_lock);
    free_staged(dev);
    if (dev->status) {
        dev->backend->stream_wait(dev->ordinal, QUEUE); /* the words may have been set back just now */
        dev->backend->release(dev->ordinal, dev->status->address);
        fai_buffer_unref(dev->status);
        dev->status = NULL;
    }
    pthread_mutex_unlock(&dev->queue_lock);
}

bool fa_synchronize(fa_device device) {
    if (!fai_device_resolve(&device, "synchronize")) return false;
    return device.type == FA_DEVICE_CPU || fai_queue_wait(fai_dev_find(device), "synchronize");
}

/* ---- status words ---- */

static fai_buffer *new_status(fai_dev *dev, const char *op) {
    fa_address address = 0;
    atomic_store(&dev->touched, true);
    int code = dev->backend->allocate(dev->ordinal, STATUS_BYTES, &address);
    if (!code) code = dev->backend->fill(dev->ordinal, QUEUE, address, 0, STATUS_BYTES);
    if (code) {
        if (address) dev->backend->release(dev->ordinal, address);
        fai_fail_backend(dev, code, op, "allocating the status words of index kernels");
        return NULL;
    }
    fai_buffer *b = fai_buffer_new(dev->name, 0, op);
    if (!b) {
        dev->backend->release(dev->ordinal, address);
        return NULL;
    }
    b->address = address;
    b->bytes = b->room = STATUS_BYTES;
    return b;
}

fai_buffer *fai_device_status(fa_device device, const char *op) {
    fai_dev *dev = fai_dev_get(device, op);
    if (!dev) return NULL;
    pthread_mutex_lock(&dev->queue_lock);
    if (!dev->status) dev->status = new_status(dev, op);
    if (dev->status_asked && dev->status_op && strcmp(dev->status_op, op) != 0)
        dev->status_op = NULL; /* one of several ops */
    else if (!dev->status_asked)
        dev->status_op = op;
    dev->status_asked = true;
    fai_buffer *status = dev->status;
    pthread_mutex_unlock(&dev->queue_lock);
    return status;
}

/* ---- copies and fills ---- */

static bool copy_aside(fai_dev *dev, fa_address to, const void *host, size_t bytes, const char *op) {
    if (dev->staged_bytes + bytes > STAGED_BYTES && !wait_locked(dev, op)) return false;
    fai_staged *s = fai_alloc_aligned(FAI_TAG_DATA, bytes + 64);
    if (!s) return fai_fail_memory(op, bytes + 64);
    memcpy(staged_data(s), host, bytes);
    int code = dev->backend->copy(dev->ordinal, QUEUE, FA_COPY_TO_DEVICE, to, staged_data(s), 0, bytes);
    s->bytes = bytes;
    s->next = dev->staged;
    dev->staged = s;
    dev->staged_bytes += bytes;
    return code == 0 || fai_fail_backend(dev, code, op, "copying to it");
}

static bool copy_and_wait(fai_dev *dev, fa_copy_kind kind, fa_address address, void *host, size_t bytes, const char *op) {
    int code = dev->backend->copy(dev->ordinal, QUEUE, kind, address, host, 0, bytes);
    if (code) return fai_fail_backend(dev, code, op, kind == FA_COPY_TO_HOST ? "copying from it" : "copying to it");
    return wait_locked(dev, op);
}

static bool in_range(const fai_buffer *b, size_t offset, size_t bytes, const char *op) {
    if (offset <= b->bytes && bytes <= b->bytes - offset) return true;
    return fai_fail(FA_ERR_RUNTIME, op, "a copy of %zu bytes at byte %zu does not lie within its buffer of %zu bytes on %s",
                    bytes, offset, b->bytes, fa_device_text(b->device));
}

bool fai_copy_to_device(fai_buffer *to, size_t offset, const void *host, size_t bytes, const char *op) {
    if (!in_range(to, offset, bytes, op)) return false;
    if (bytes == 0) return true;
    if (to->device.type == FA_DEVICE_CPU) return memmove((char *)fai_buffer_host(to) + offset, host, bytes) != NULL;
    fai_dev *dev = fai_dev_get(to->device, op);
    if (!dev) return false;
    count(&dev->count.to_device);
    void *state = lock_queue(dev);
    bool fine = bytes <= STAGE_MOST
                    ? copy_aside(dev, to->address + offset, host, bytes, op)
                    : copy_and_wait(dev, FA_COPY_TO_DEVICE, to->address + offset, (void *)(uintptr_t)host, bytes, op);
    if (fine) {
        dev->place++;
        wrote(dev, to, bytes == to->bytes);
    }
    unlock_queue(dev, state);
    return fine;
}

bool fai_copy_to_host(void *host, fai_buffer *from, size_t offset, size_t bytes, const char *op) {
    if (!in_range(from, offset, bytes, op)) return false;
    if (bytes == 0) return true;
    if (from->device.type == FA_DEVICE_CPU) return memmove(host, (char *)fai_buffer_host(from) + offset, bytes) != NULL;
    fai_dev *dev = fai_dev_get(from->device, op);
    if (!dev) return false;
    count(&dev->count.to_host);
    void *state = lock_queue(dev);
    bool fine = is_known(dev, from, op) && copy_and_wait(dev, FA_COPY_TO_HOST, from->address + offset, host, bytes, op);
    unlock_queue(dev, state);
    return fine;
}

static bool copy_on_device(fai_buffer *to, size_t to_offset, fai_buffer *from, size_t from_offset, size_t bytes, const char *op) {
    fai_dev *dev = fai_dev_get(to->device, op);
    if (!dev) return false;
    count(&dev->count.within);
    pthread_mutex_lock(&dev->queue_lock);
    int code = dev->backend->copy(dev->ordinal, QUEUE, FA_COPY_WITHIN, to->address + to_offset, NULL, from->address + from_offset,
                                  bytes);
    dev->place++;
    if (code == 0 && dev->failures && spoiled(dev, from))
        to->written = from->written;
    else if (code == 0)
        wrote(dev, to, bytes == to->bytes);
    pthread_mutex_unlock(&dev->queue_lock);
    return code == 0 || fai_fail_backend(dev, code, op, "copying within it");
}

/* Between two devices: through the host, in pieces, so that a large copy needs little memory there. */
static bool copy_through_host(fai_buffer *to, size_t to_offset, fai_buffer *from, size_t from_offset, size_t bytes,
                              const char *op) {
    size_t piece = bytes < STAGE_MOST ? bytes : STAGE_MOST;
    char *host = fai_alloc_aligned(FAI_TAG_DATA, piece);
    if (!host) return fai_fail_memory(op, piece);
    bool fine = true;
    for (size_t done = 0; fine && done < bytes; done += piece) {
        size_t now = bytes - done < piece ? bytes - done : piece;
        fine =
            fai_copy_to_host(host, from, from_offset + done, now, op) && fai_copy_to_device(to, to_offset + done, host, now, op);
    }
    fai_free_aligned(FAI_TAG_DATA, host, piece);
    return fine;
}

bool fai_copy_within(fai_buffer *to, size_t to_offset, fai_buffer *from, size_t from_offset, size_t bytes, const char *op) {
    if (!in_range(to, to_offset, bytes, op) || !in_range(from, from_offset, bytes, op)) return false;
    if (bytes == 0) return true;
    if (from->device.type == FA_DEVICE_CPU)
        return fai_copy_to_device(to, to_offset, (char *)fai_buffer_host(from) + from_offset, bytes, op);
    if (to->device.type == FA_DEVICE_CPU)
        return fai_copy_to_host((char *)fai_buffer_host(to) + to_offset, from, from_offset, bytes, op);
    if (fa_device_equal(to->device, from->device)) return copy_on_device(to, to_offset, from, from_offset, bytes, op);
    return copy_through_host(to, to_offset, from, from_offset, bytes, op);
}

bool fai_fill(fai_buffer *to, size_t offset, int byte, size_t bytes, const char *op) {
    if (!in_range(to, offset, bytes, op)) return false;
    if (bytes == 0) return true;
    if (to->device.type == FA_DEVICE_CPU) return memset((char *)fai_buffer_host(to) + offset, byte, bytes) != NULL;
    fai_dev *dev = fai_dev_get(to->device, op);
    if (!dev) return false;
    pthread_mutex_lock(&dev->queue_lock);
    int code = dev->backend->fill(dev->ordinal, QUEUE, to->address + offset, byte, bytes);
    dev->place++;
    if (code == 0) wrote(dev, to, bytes == to->bytes);
    pthread_mutex_unlock(&dev->queue_lock);
    return code == 0 || fai_fail_backend(dev, code, op, "filling memory");
}

/* ---- what users ask ---- */

fa_device_counts fa_device_get_counts(fa_device device) {
    fa_device_counts out = {0};
    fai_dev *dev = fai_dev_find(device);
    if (!dev) return out;
    out.launches = atomic_load(&dev->count.launches);
    out.copies_to_device = atomic_load(&dev->count.to_device);
    out.copies_to_host = atomic_load(&dev->count.to_host);
    out.copies_within = atomic_load(&dev->count.within);
    out.waits = atomic_load(&dev->count.waits);
    return out;
}
