/* The queues of a device: launches, copies, fills, waits, and what only a wait can tell (a kernel that failed, an index that was
 * out of bounds). All of it goes to the thread's current stream of the device.
 *
 * A copy from the host reads memory that the caller may change at once, so small ones are copied aside first and kept until a
 * wait; large ones are waited for. Each launch leaves its op's name in a ring, so that a late error can name its op. */
#include "inside.h"
#include "../../kernels/dialect.h"
#include "../../kernels/status.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define STAGE_MOST   ((size_t)4 << 20)  /* larger copies to the device are waited for instead of copied aside */
#define STAGED_BYTES ((size_t)32 << 20) /* with so much aside, the next copy waits and frees it */

struct fai_staged {
    fai_staged *next;
    size_t bytes;
};

enum { STATUS_BYTES = FA_STATUS_WORDS * sizeof(int64_t) };

static void *staged_data(fai_staged *s) { return (char *)s + 64; }

static void count(_Atomic uint64_t *counter) { atomic_fetch_add_explicit(counter, 1, memory_order_relaxed); }

/* ---- launches and late errors ---- */

int fai_queue_give(const fai_dev *dev, fa_stream_handle stream, const fai_work *work, const fa_plan *plan, const fa_address pointers[8]) {
    const fa_backend *b = dev->backend;
    if (FAI_UNLIKELY(work->library != NULL))
        return b->library->run(dev->ordinal, stream, work->library, plan, pointers, work->workspace);
    return b->launch(dev->ordinal, stream, work->handle, (uint64_t)plan->groups, work->group_size, plan, sizeof *plan, pointers);
}

static void count_launch(fai_stream *s, uint64_t place, const char *op, const fai_work *work, int code) {
    fai_dev *dev = s->dev;
    const int launches = work->library ? work->library->launches : code == 0;
    for (int i = 0; i < launches; i++) {
        uint64_t number = s->launched = ++dev->launched;
        if (!s->first) s->first = number;
        dev->log[number % FAI_LOG] = (fai_queued){op, work->kernel, number, fai_place_base(s) | place};
    }
    if (code == 0) count(&dev->count.launches);
}

void fai_queue_count_launch(fai_stream *s, const char *op, const fai_work *work, int code) {
    if (code == 0 || (work->library && work->library->launches)) s->place++;
    count_launch(s, s->place, op, work, code);
}

int fai_launch_held(fai_stream *s, const char *op, const fai_work *work, const fa_plan *plan, const fa_address pointers[8]) {
    pthread_mutex_lock(&s->dev->launch_lock);
    int code = fai_queue_give(s->dev, s->handle, work, plan, pointers);
    count_launch(s, s->place, op, work, code);
    pthread_mutex_unlock(&s->dev->launch_lock);
    return code;
}

static int launch_now(fai_stream *s, const char *op, const fai_work *work, const fa_plan *plan, const fa_address pointers[8]) {
    int code = fai_fuse_flush(s);
    if (code) return code;
    pthread_mutex_lock(&s->dev->launch_lock);
    code = fai_queue_give(s->dev, s->handle, work, plan, pointers);
    fai_queue_count_launch(s, op, work, code);
    pthread_mutex_unlock(&s->dev->launch_lock);
    return code;
}

int fai_queue_launch(fai_dev *dev, const char *op, const fai_work *work, const fa_plan *plan, fai_buffer *const buffers[8],
                     const fa_address pointers[8]) {
    fai_stream *s = fai_stream_now(dev);
    struct fa_graph *g = fai_capture_of(s);
    int code;
    if (FAI_UNLIKELY(g != NULL)) return fai_capture_launch(g, s, op, work, plan, buffers, pointers);
    pthread_mutex_lock(&s->lock);
    if (!fai_fuse_take(s, op, work, plan, buffers, pointers, &code) && !code) code = launch_now(s, op, work, plan, pointers);
    if (code == 0) fai_launch_wrote(s, work->kernel, plan, buffers);
    pthread_mutex_unlock(&s->lock);
    if (FAI_UNLIKELY(!atomic_load_explicit(&dev->touched, memory_order_relaxed))) atomic_store(&dev->touched, true);
    return code;
}

static const fai_queued *entry_of(const fai_dev *dev, uint64_t number, const char *text) {
    const fai_queued *entry = &dev->log[number % FAI_LOG];
    return number && entry->number == number && entry->kernel && strstr(text, entry->kernel) ? entry : NULL;
}

/* With the launch lock held: the launch that the driver's text speaks of. By its number, which the simulator gives; by its kernel,
 * if only one launch in this stream since its last wait was of that; else the only one since then; else none. */
static const fai_queued *find_culprit(const fai_stream *s, const fai_dev *dev, const char *text) {
    const char *told = strstr(text, "(launch ");
    const fai_queued *found = told ? entry_of(dev, strtoull(told + 8, NULL, 10), text) : NULL;
    uint64_t first = s->first;
    if (found || !first || dev != s->dev) return found;
    if (dev->launched >= FAI_LOG && first < dev->launched - FAI_LOG + 1) first = dev->launched - FAI_LOG + 1;
    int matches = 0;
    for (uint64_t number = first; number <= dev->launched; number++) {
        const fai_queued *entry = entry_of(dev, number, text);
        if (entry && entry->place >> FAI_PLACE_BITS == (uint64_t)s->id) found = entry, matches++;
    }
    if (matches == 1) return found;
    const fai_queued *only = &dev->log[s->first % FAI_LOG];
    return s->first == s->launched && only->number == s->first ? only : NULL;
}

static const char *name_of_last(const fai_stream *s) {
    const fai_queued *last = &s->dev->log[s->launched % FAI_LOG];
    return last->number == s->launched && last->op ? last->op : "an operator";
}

/* Whose launch the text speaks of: this stream's device's, or that of another one which it waited for. */
static fai_dev *device_of_culprit(const fai_stream *s, const char *text) {
    const char *told = strstr(text, "in a stream of device ");
    fai_dev *other = NULL;
    const int ordinal = told ? atoi(told + 22) : s->dev->ordinal;
    for (int i = 0; (other = fai_dev_number(i)) && (other->backend != s->dev->backend || other->ordinal != ordinal);) i++;
    return other ? other : s->dev;
}

/* queue: what was queued failed, not only the reading of the status words. */
static void fail_late(fai_stream *s, int code, bool queue, const char *op) {
    fai_dev *dev = s->dev;
    char doing[320];
    fai_dev *where = device_of_culprit(s, dev->backend->error_text());
    pthread_mutex_lock(&where->launch_lock);
    const fai_queued *found = find_culprit(s, where, dev->backend->error_text());
    fai_queued culprit = found ? *found : (fai_queued){0};
    pthread_mutex_unlock(&where->launch_lock);
    if (where != dev) culprit.place = UINT64_MAX; /* of no stream here */
    pthread_mutex_lock(&dev->launch_lock);
    const char *last = name_of_last(s);
    pthread_mutex_unlock(&dev->launch_lock);
    if (found)
        snprintf(doing, sizeof doing,
                 "running '%s', launch number %llu%s%s; it was seen by '%s', the first call that waited after it", culprit.op,
                 (unsigned long long)culprit.number, where == dev ? "" : " of ", where == dev ? "" : fa_device_text(where->name), op);
    else if (s->first)
        snprintf(doing, sizeof doing,
                 "running one of the launches %llu to %llu, the last of which was '%s'; it was seen by '%s', the first call that "
                 "waited after them",
                 (unsigned long long)s->first, (unsigned long long)s->launched, last, op);
    else
        snprintf(doing, sizeof doing, "waiting for copies in '%s'", op);
    if (queue) fai_spoil(s, found ? &culprit : NULL);
    fai_fail_backend(dev, code, found ? culprit.op : op, doing);
}

/* ---- waiting ---- */

static void free_staged(fai_stream *s) {
    for (fai_staged *piece = s->staged, *next; piece; piece = next) {
        next = piece->next;
        fai_free_aligned(FAI_TAG_DATA, piece, piece->bytes + 64);
    }
    s->staged = NULL;
    s->staged_bytes = 0;
}

/* Puts the stream's own mark behind all that is in it now, unless it lies there. */
static int mark(fai_stream *s) {
    const fa_backend *b = s->dev->backend;
    int code = fai_fuse_flush(s);
    if (!code && s->marker && s->marked == s->place) return 0;
    if (!code && !s->marker) code = b->event_create(s->dev->ordinal, &s->marker);
    if (!code) code = b->event_record(s->dev->ordinal, s->marker, s->handle);
    if (!code) s->marked = s->place;
    return code;
}

enum { HANGS = -1000 }; /* no backend's code */

/* FACULA_WATCHDOG=seconds: what takes longer than that is given up. 0: nothing is. */
static double watchdog(void) {
    static _Atomic double seconds = -1;
    double s = atomic_load_explicit(&seconds, memory_order_relaxed);
    if (FAI_LIKELY(s >= 0)) return s;
    const char *text = getenv("FACULA_WATCHDOG");
    s = text ? strtod(text, NULL) : 0;
    atomic_store(&seconds, s > 0 ? s : 0);
    return s > 0 ? s : 0;
}

/* Asks again and again, because a wait inside the driver can't be left. A stream that was given up once gets little time. */
static int watch(fai_stream *s, fa_event_handle event, double seconds) {
    struct timespec start, now, nap = {0, 20000};
    bool done = false;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (;;) {
        int code = s->dev->backend->event_query(s->dev->ordinal, event, &done);
        if (code || done) {
            s->hung = false;
            return code;
        }
        clock_gettime(CLOCK_MONOTONIC, &now);
        if ((double)(now.tv_sec - start.tv_sec) + (double)(now.tv_nsec - start.tv_nsec) / 1e9 > (s->hung ? 0.05 : seconds)) {
            s->hung = true;
            return HANGS;
        }
        nanosleep(&nap, NULL);
        if (nap.tv_nsec < 1000000) nap.tv_nsec *= 2;
    }
}

static int wait_for_driver(fai_stream *s) {
    const double seconds = watchdog();
    int code = seconds > 0 ? mark(s) : 0;
    if (seconds > 0 && !code) code = watch(s, s->marker, seconds);
    if (code == HANGS) return code;
    int waited = s->dev->backend->stream_wait(s->dev->ordinal, s->handle);
    return code ? code : waited;
}

static bool fail_hangs(const fai_stream *s, const char *op) {
    char upper[16];
    fai_type_upper(upper, s->dev->name.type);
    return fai_fail(FA_ERR_DEVICE, op,
                    "%s error: the launch timed out and was terminated. Stream %d of %s was not done after the %g s of "
                    "FACULA_WATCHDOG, and '%s' gave up waiting; the last launch in it was '%s'. What that stream was to make is "
                    "not there; other devices go on. A longer time is set by FACULA_WATCHDOG=60, none at all without it",
                    upper, s->id, fa_device_text(s->dev->name), watchdog(), op, s->launched ? name_of_last(s) : "none");
}

/* With the lock held. Reads the status words with the same wait if an index kernel was launched since the last one. */
static bool wait_locked(fai_stream *s, const char *op) {
    fai_dev *dev = s->dev;
    int64_t words[FA_STATUS_WORDS] = {0};
    bool asked = s->status && s->status_asked;
    int code = 0, held = fai_fuse_flush(s);
    if (asked && watchdog() > 0) {
        code = wait_for_driver(s); /* first: the words lie on this stack */
        if (code == HANGS) return fail_hangs(s, op);
    }
    if (asked && !code) code = dev->backend->copy(dev->ordinal, s->handle, FA_COPY_TO_HOST, s->status->address, words, 0, sizeof words);
    if (asked) s->place++;
    int waited = wait_for_driver(s);
    if (waited == HANGS) return fail_hangs(s, op);
    if (!code) code = waited;
    count(&dev->count.waits);
    const char *const caller = fai_tls.called;
    fai_tls.called = NULL; /* what failed is no part of the call that waits */
    if (code) fail_late(s, code, waited != 0, op);
    bool fine = code == 0 && held == 0;
    free_staged(s);
    if (fine && asked && words[0]) {
        fai_fail_status(NULL, words);
        dev->backend->fill(dev->ordinal, s->handle, s->status->address, 0, STATUS_BYTES); /* the next kernel may report again */
        s->place++;
        fine = false;
    }
    fai_tls.called = caller;
    s->status_asked = false;
    s->first = 0;
    s->foreign = 0;
    s->waited_place = s->place;
    return fine;
}

/* Whoever waits lets another language's threads run, and takes their lock again only when it has given the stream's back: somebody
 * who holds theirs may be waiting for it. */
void *fai_stream_lock(fai_stream *s) {
    void *state = fai_other_face.unlock ? fai_other_face.unlock() : NULL;
    pthread_mutex_lock(&s->lock);
    return state;
}

void fai_stream_unlock(fai_stream *s, void *state) {
    pthread_mutex_unlock(&s->lock);
    if (fai_other_face.lock) fai_other_face.lock(state);
}

static bool wait_for(fai_stream *s, const char *op) {
    void *state = fai_stream_lock(s);
    bool fine = wait_locked(s, op);
    fai_stream_unlock(s, state);
    return fine;
}

bool fai_stream_wait(fai_stream *s, const char *op) { return fai_capture_refuse(s, op) && wait_for(s, op); }

/* A captured stream is waited for as it was before: memory that goes back to the driver asks for that. */

bool fai_queue_wait(fai_dev *dev, const char *op) {
    bool fine = true;
    for (int id = 0; id < FAI_STREAMS; id++) {
        fai_stream *s = atomic_load(&dev->streams[id]);
        if (s && (id == 0 || s->place != s->waited_place || s->external)) fine &= wait_for(s, op);
    }
    return fine;
}

/* If the work before it failed, a wait for its stream tells which launch that was. */
bool fai_event_wait_for(fai_stream *s, fa_event_handle event, uint64_t place, const char *op) {
    fai_dev *dev = s->dev;
    const double seconds = watchdog();
    if (!fai_capture_refuse(s, op)) return false;
    if (seconds == 0 && s->place == place) return fai_stream_wait(s, op);
    void *state = fai_stream_lock(s);
    int code = seconds > 0 ? watch(s, event, seconds) : 0;
    if (code != HANGS && !code) code = dev->backend->event_wait(dev->ordinal, event);
    bool fine = code == 0;
    if (code == HANGS) fine = fail_hangs(s, op);
    else if (code) fail_late(s, code, true, op);
    fai_stream_unlock(s, state);
    return fine;
}

bool fai_queue_hangs(fai_dev *dev) {
    bool hangs = false;
    for (int id = 0; id < FAI_STREAMS; id++) {
        const fai_stream *s = atomic_load(&dev->streams[id]);
        hangs |= s && s->hung;
    }
    return hangs;
}

bool fai_stream_passed(fai_stream *s, const char *op, bool *done) {
    *done = s->place == s->waited_place && !s->external;
    if (!fai_capture_refuse(s, op)) return false;
    if (*done) return true;
    void *state = fai_stream_lock(s);
    int code = mark(s);
    if (!code) code = s->dev->backend->event_query(s->dev->ordinal, s->marker, done);
    bool fine = code == 0 && !*done;
    if (code || *done) fine = wait_locked(s, op); /* it costs nothing now, and tells how the work went */
    fai_stream_unlock(s, state);
    return fine;
}

bool fai_stream_came_to(fai_stream *s, uint64_t place) {
    bool done = place <= s->waited_place;
    if (done) return true;
    if (pthread_mutex_trylock(&s->lock)) return false; /* somebody waits for it */
    int code = s->marker && s->marked >= place ? 0 : mark(s);
    if (!code) code = s->dev->backend->event_query(s->dev->ordinal, s->marker, &done);
    pthread_mutex_unlock(&s->lock);
    return done && !code;
}

static void end_stream(fai_stream *s) {
    const fa_backend *b = s->dev->backend;
    pthread_mutex_lock(&s->lock);
    if (!s->hung) {
        free_staged(s);
        if (s->status) {
            b->stream_wait(s->dev->ordinal, s->handle); /* the words may have been set back just now */
            b->release(s->dev->ordinal, s->status->address);
            fai_buffer_unref(s->status);
            s->status = NULL;
        }
        if (s->marker) b->event_destroy(s->dev->ordinal, s->marker);
        s->marker = NULL;
    }
    pthread_mutex_unlock(&s->lock);
}

void fai_queue_end(fai_dev *dev) {
    for (int id = 0; id < FAI_STREAMS; id++) {
        fai_stream *s = atomic_load(&dev->streams[id]);
        if (s) end_stream(s);
    }
}

bool fa_synchronize(fa_device device) {
    if (!fai_device_resolve(&device, "synchronize")) return false;
    if (device.type == FA_DEVICE_CPU) return true;
    fai_dev *dev = fai_dev_find(device);
    return fai_capture_refuse(fai_stream_now(dev), "synchronize") && fai_queue_wait(dev, "synchronize");
}

/* ---- status words ---- */

static fai_buffer *new_status(fai_stream *s, const char *op) {
    fai_dev *dev = s->dev;
    fa_address address = 0;
    atomic_store(&dev->touched, true);
    int code = dev->backend->allocate(dev->ordinal, STATUS_BYTES, &address);
    if (!code) code = dev->backend->fill(dev->ordinal, s->handle, address, 0, STATUS_BYTES);
    if (code) {
        if (address) dev->backend->release(dev->ordinal, address);
        fai_fail_backend(dev, code, op, "allocating the status words of index kernels");
        return NULL;
    }
    s->place++;
    fai_buffer *b = fai_buffer_new(dev->name, 0, op);
    if (!b) {
        dev->backend->release(dev->ordinal, address);
        return NULL;
    }
    b->address = address;
    b->bytes = b->room = STATUS_BYTES;
    return b;
}

fai_buffer *fai_status_words(fai_stream *s, const char *op) {
    if (!s->status) s->status = new_status(s, op);
    s->status_asked = true;
    return s->status;
}

fai_buffer *fai_device_status(fa_device device, const char *op) {
    fai_dev *dev = fai_dev_get(device, op);
    if (!dev) return NULL;
    fai_stream *s = fai_stream_now(dev);
    struct fa_graph *g = fai_capture_of(s);
    if (FAI_UNLIKELY(g != NULL)) return fai_capture_status(g, op);
    pthread_mutex_lock(&s->lock);
    fai_buffer *status = fai_status_words(s, op);
    pthread_mutex_unlock(&s->lock);
    return status;
}

/* ---- copies and fills ---- */

static bool copy_aside(fai_stream *s, fa_address to, const void *host, size_t bytes, const char *op) {
    fai_dev *dev = s->dev;
    if (s->staged_bytes + bytes > STAGED_BYTES && !wait_locked(s, op)) return false;
    fai_staged *piece = fai_alloc_aligned(FAI_TAG_DATA, bytes + 64);
    if (!piece) return fai_fail_memory(op, bytes + 64);
    memcpy(staged_data(piece), host, bytes);
    int code = dev->backend->copy(dev->ordinal, s->handle, FA_COPY_TO_DEVICE, to, staged_data(piece), 0, bytes);
    piece->bytes = bytes;
    piece->next = s->staged;
    s->staged = piece;
    s->staged_bytes += bytes;
    return code == 0 || fai_fail_backend(dev, code, op, "copying to it");
}

static bool copy_and_wait(fai_stream *s, fa_copy_kind kind, fa_address address, void *host, size_t bytes, const char *op) {
    fai_dev *dev = s->dev;
    if (watchdog() > 0 && !wait_locked(s, op)) return false; /* what can't be reached must not be given the host's memory */
    int code = dev->backend->copy(dev->ordinal, s->handle, kind, address, host, 0, bytes);
    if (code) return fai_fail_backend(dev, code, op, kind == FA_COPY_TO_HOST ? "copying from it" : "copying to it");
    s->place++;
    return wait_locked(s, op);
}

static bool in_range(const fai_buffer *b, size_t offset, size_t bytes, const char *op) {
    if (offset <= b->bytes && bytes <= b->bytes - offset) return true;
    return fai_fail(FA_ERR_RUNTIME, op, "a copy of %zu bytes at byte %zu does not lie within its buffer of %zu bytes on %s",
                    bytes, offset, b->bytes, fa_device_text(b->device));
}

/* Host memory that may change or go at once can't be read at a replay. */
static bool may_copy_from(fai_stream *s, const char *op) {
    if (FAI_LIKELY(!fai_capture_of(s))) return true;
    fai_capture_invalidate(s, op);
    return fai_fail(FA_ERR_RUNTIME, op,
                    "Cannot copy between CPU and CUDA tensors during CUDA graph capture unless the CPU tensor is pinned. Please use tensor.pin_memory() or allocate "
                    "the tensor with pin_memory=True, and copy it with non_blocking=True; or make the tensor on the device before the capture, which is worth "
                    "nothing now");
}

/* Replays copy it from pinned memory, which the graph keeps. */
static bool capture_constant(fai_buffer *to, size_t offset, const void *host, size_t bytes, const char *op) {
    fai_buffer *own = fai_buffer_pinned(to->device, bytes, op);
    if (!own) return false;
    memcpy((void *)(uintptr_t)own->address, host, bytes);
    const bool fine = fai_copy_queued(to, offset, own, 0, bytes, op);
    fai_buffer_unref(own);
    return fine;
}

static atomic_int sync_debug_mode;

bool fa_set_sync_debug_mode(int mode) {
    if (mode < FA_SYNC_ALLOWED || mode > FA_SYNC_ERROR)
        return fai_fail(FA_ERR_RUNTIME, "set_sync_debug_mode", "invalid value of debug_mode, expected one of `default`, `warn`, `error`; in C FA_SYNC_ALLOWED, FA_SYNC_WARN or FA_SYNC_ERROR, and not %d", mode);
    atomic_store(&sync_debug_mode, mode);
    return true;
}

int fa_sync_debug_mode(void) { return atomic_load(&sync_debug_mode); }

/* Of a wait that nobody asked for. */
static bool may_wait(const fai_stream *s, const char *op) {
    const int mode = atomic_load_explicit(&sync_debug_mode, memory_order_relaxed);
    char site[160] = "", upper[16];
    if (FAI_LIKELY(mode == FA_SYNC_ALLOWED)) return true;
    const char *name = fai_tls.reader ? fai_tls.reader : fai_tls.called ? fai_tls.called : op;
    fai_type_upper(upper, s->dev->name.type);
    if (fai_other_face.site) fai_site_text(fai_other_face.site(), site, sizeof site);
    if (mode == FA_SYNC_ERROR)
        return fai_fail(FA_ERR_RUNTIME, name, "called a synchronizing %s operation: '%s'%s waits until %s has its numbers. fa_set_sync_debug_mode(FA_SYNC_ALLOWED) allows it", upper, name, site,
                        fa_device_text(s->dev->name));
    fai_warn(name, "called a synchronizing %s operation: '%s'%s waits until %s has its numbers", upper, name, site, fa_device_text(s->dev->name));
    return true;
}

bool fai_copy_to_device(fai_buffer *to, size_t offset, const void *host, size_t bytes, const char *op) {
    if (!in_range(to, offset, bytes, op)) return false;
    if (bytes == 0) return true;
    if (to->device.type == FA_DEVICE_CPU) return memmove((char *)fai_buffer_host(to) + offset, host, bytes) != NULL;
    fai_dev *dev = fai_dev_get(to->device, op);
    if (!dev) return false;
    fai_stream *s = fai_stream_now(dev);
    if (FAI_UNLIKELY(fai_tls.constants && fai_capture_of(s))) return capture_constant(to, offset, host, bytes, op);
    if (!may_copy_from(s, op) || (bytes > STAGE_MOST && !may_wait(s, op))) return false;
    count(&dev->count.to_device);
    void *state = fai_stream_lock(s);
    bool fine = fai_fuse_flush(s) ? false
                : bytes <= STAGE_MOST
                    ? copy_aside(s, to->address + offset, host, bytes, op)
                    : copy_and_wait(s, FA_COPY_TO_DEVICE, to->address + offset, (void *)(uintptr_t)host, bytes, op);
    if (fine) {
        s->place++;
        fai_wrote(s, to, bytes == to->bytes);
    }
    fai_stream_unlock(s, state);
    return fine;
}

bool fai_copy_to_host(void *host, fai_buffer *from, size_t offset, size_t bytes, const char *op) {
    if (!in_range(from, offset, bytes, op)) return false;
    if (bytes == 0) return true;
    if (from->device.type == FA_DEVICE_CPU) return memmove(host, (char *)fai_buffer_host(from) + offset, bytes) != NULL;
    fai_dev *dev = fai_dev_get(from->device, op);
    if (!dev) return false;
    fai_stream *s = fai_stream_now(dev);
    if (!fai_capture_refuse(s, op) || !may_wait(s, op)) return false;
    count(&dev->count.to_host);
    void *state = fai_stream_lock(s);
    bool fine = fai_fuse_flush(s) == 0 && fai_is_known(dev, from, op) && copy_and_wait(s, FA_COPY_TO_HOST, from->address + offset, host, bytes, op);
    fai_stream_unlock(s, state);
    return fine;
}

bool fai_copy_queued(fai_buffer *to, size_t to_offset, fai_buffer *from, size_t from_offset, size_t bytes, const char *op) {
    const bool down = to->device.type == FA_DEVICE_CPU;
    fai_buffer *host = down ? to : from, *there = down ? from : to;
    const size_t host_offset = down ? to_offset : from_offset, offset = down ? from_offset : to_offset;
    if (!in_range(to, to_offset, bytes, op) || !in_range(from, from_offset, bytes, op)) return false;
    fai_dev *dev = fai_dev_get(there->device, op);
    if (!dev || (down && !fai_is_known(dev, from, op))) return false;
    fai_stream *s = fai_stream_now(dev);
    struct fa_graph *g = fai_capture_of(s);
    if (FAI_UNLIKELY(g != NULL)) return fai_capture_copy(g, s, down ? FA_COPY_TO_HOST : FA_COPY_TO_DEVICE, to, to_offset, from, from_offset, bytes, op);
    void *state = fai_stream_lock(s);
    const bool ready = fai_fuse_flush(s) == 0 && (!down || fai_is_known(dev, from, op));
    if (!ready) fai_stream_unlock(s, state);
    if (!ready) return false;
    count(down ? &dev->count.to_host : &dev->count.to_device);
    int code = dev->backend->copy(dev->ordinal, s->handle, down ? FA_COPY_TO_HOST : FA_COPY_TO_DEVICE, there->address + offset,
                                  (char *)(uintptr_t)host->address + host_offset, 0, bytes);
    const uint64_t place = code ? s->place : ++s->place;
    if (!code && !down) fai_wrote(s, to, bytes == to->bytes);
    fai_stream_unlock(s, state);
    if (code) return fai_fail_backend(dev, code, op, down ? "copying from it" : "copying to it");
    return fai_pinned_busy(host, s, place) || fai_stream_wait(s, op);
}

static bool copy_on_device(fai_buffer *to, size_t to_offset, fai_buffer *from, size_t from_offset, size_t bytes, const char *op) {
    fai_dev *dev = fai_dev_get(to->device, op);
    if (!dev) return false;
    fai_stream *s = fai_stream_now(dev);
    struct fa_graph *g = fai_capture_of(s);
    if (FAI_UNLIKELY(g != NULL)) return fai_capture_copy(g, s, FA_COPY_WITHIN, to, to_offset, from, from_offset, bytes, op);
    count(&dev->count.within);
    pthread_mutex_lock(&s->lock);
    int code = fai_fuse_flush(s);
    if (!code)
        code = dev->backend->copy(dev->ordinal, s->handle, FA_COPY_WITHIN, to->address + to_offset, NULL, from->address + from_offset,
                                  bytes);
    s->place++;
    const uint64_t bad = fai_spoiled_at(dev, from, NULL);
    if (code == 0 && bad)
        to->written = bad, to->ranged = 0;
    else if (code == 0)
        fai_wrote(s, to, bytes == to->bytes);
    pthread_mutex_unlock(&s->lock);
    return code == 0 || fai_fail_backend(dev, code, op, "copying within it");
}

bool fai_copy_within(fai_buffer *to, size_t to_offset, fai_buffer *from, size_t from_offset, size_t bytes, const char *op) {
    if (!in_range(to, to_offset, bytes, op) || !in_range(from, from_offset, bytes, op)) return false;
    if (bytes == 0) return true;
    if (from->device.type == FA_DEVICE_CPU)
        return fai_copy_to_device(to, to_offset, (char *)fai_buffer_host(from) + from_offset, bytes, op);
    if (to->device.type == FA_DEVICE_CPU)
        return fai_copy_to_host((char *)fai_buffer_host(to) + to_offset, from, from_offset, bytes, op);
    if (fa_device_equal(to->device, from->device)) return copy_on_device(to, to_offset, from, from_offset, bytes, op);
    return fai_copy_between(to, to_offset, from, from_offset, bytes, op);
}

bool fai_fill(fai_buffer *to, size_t offset, int byte, size_t bytes, const char *op) {
    if (!in_range(to, offset, bytes, op)) return false;
    if (bytes == 0) return true;
    if (to->device.type == FA_DEVICE_CPU) return memset((char *)fai_buffer_host(to) + offset, byte, bytes) != NULL;
    fai_dev *dev = fai_dev_get(to->device, op);
    if (!dev) return false;
    fai_stream *s = fai_stream_now(dev);
    struct fa_graph *g = fai_capture_of(s);
    if (FAI_UNLIKELY(g != NULL)) return fai_capture_fill(g, s, to, offset, byte, bytes, op);
    pthread_mutex_lock(&s->lock);
    int code = fai_fuse_flush(s);
    if (!code) code = dev->backend->fill(dev->ordinal, s->handle, to->address + offset, byte, bytes);
    s->place++;
    if (code == 0) fai_wrote(s, to, bytes == to->bytes);
    pthread_mutex_unlock(&s->lock);
    return code == 0 || fai_fail_backend(dev, code, op, "filling memory");
}

/* ---- what users ask ---- */

fa_device_counts fa_device_get_counts(fa_device device) {
    fa_device_counts out = {0};
    fai_dev *dev = fai_dev_find(device);
    if (!dev) return out;
    fai_fuse_flush_all(dev);
    out.launches = atomic_load(&dev->count.launches);
    out.copies_to_device = atomic_load(&dev->count.to_device);
    out.copies_to_host = atomic_load(&dev->count.to_host);
    out.copies_within = atomic_load(&dev->count.within);
    out.waits = atomic_load(&dev->count.waits);
    out.fused = atomic_load(&dev->count.fused);
    return out;
}
