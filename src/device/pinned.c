/* Pinned memory of the host, and copies that do not wait.
 *
 * A device copies to and from pinned memory by itself, so such a copy can be queued and the program go on. What it reads or
 * writes meanwhile belongs to the copy: a buffer with a copy under way says so (`pending`), and whoever asks for its address on the
 * host waits for that copy first. With FACULA_PENDING=raise that is an error instead, which shows where a program would read
 * too early elsewhere.
 *
 * Blocks are kept for use again, in sizes that are powers of two; one that a copy still uses is given to nobody before that is done. */
#include "inside.h"
#include <stdlib.h>
#include <string.h>

enum { USES = 4, LEAST = 512 };

typedef struct pinned {
    struct pinned *next;
    fai_dev *dev; /* whose driver pinned it */
    void *data;
    size_t room;
    struct { fai_stream *stream; uint64_t place; } use[USES]; /* copies that were queued and may not be done */
    int nuses;
} pinned;

static pinned *spare;
static fa_pinned_stats stats; /* with the lock held */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* taken before a stream's */

/* With the lock held: forgets the copies that are done. */
static bool is_idle(pinned *p) {
    for (int i = p->nuses; i-- > 0;)
        if (fai_stream_came_to(p->use[i].stream, p->use[i].place)) p->use[i] = p->use[--p->nuses];
    return p->nuses == 0;
}

static void count_block(const pinned *p, bool more) {
    fai_count(&stats.allocations, 1, more);
    fai_count(&stats.allocated_bytes, p->room, more);
}

static void count_use(const pinned *p, bool more) {
    fai_count(&stats.active_requests, 1, more);
    fai_count(&stats.active_bytes, p->room, more);
}

static void give_back(pinned *p) {
    count_block(p, false);
    if (p->dev->backend->host_release) p->dev->backend->host_release(p->dev->ordinal, p->data);
    else fai_free_aligned(FAI_TAG_DATA, p->data, p->room);
    fai_free(FAI_TAG_OBJECT, p, sizeof *p);
}

static void drop_spare(void) {
    pthread_mutex_lock(&lock);
    for (pinned **link = &spare, *p; (p = *link);) {
        if (!fai_forked_child() && is_idle(p)) {
            *link = p->next;
            give_back(p);
        } else {
            link = &p->next;
        }
    }
    pthread_mutex_unlock(&lock);
}

static void released(void *context) {
    pinned *p = context;
    pthread_mutex_lock(&lock);
    p->next = spare;
    spare = p;
    count_use(p, false);
    pthread_mutex_unlock(&lock);
    if (!fai_caches_on()) drop_spare();
}

static pinned *take_spare(const fai_dev *dev, size_t room) {
    pthread_mutex_lock(&lock);
    pinned **link = &spare;
    while (*link && ((*link)->room != room || (*link)->dev->backend != dev->backend || !is_idle(*link))) link = &(*link)->next;
    pinned *found = *link;
    if (found) {
        *link = found->next;
        count_use(found, true);
    }
    pthread_mutex_unlock(&lock);
    return found;
}

static pinned *new_pinned(fai_dev *dev, size_t room, const char *op) {
    static atomic_bool hooked;
    if (!atomic_exchange(&hooked, true)) fai_on_cache_drop(drop_spare);
    pinned *p = fai_calloc(FAI_TAG_OBJECT, sizeof *p);
    if (!p) return fai_fail_memory(op, sizeof *p);
    p->dev = dev;
    p->room = room;
    const int code = dev->backend->host_allocate ? dev->backend->host_allocate(dev->ordinal, room, &p->data) : 0;
    if (!dev->backend->host_allocate) p->data = fai_alloc_aligned(FAI_TAG_DATA, room);
    if (!code && p->data) {
        pthread_mutex_lock(&lock);
        count_block(p, true);
        count_use(p, true);
        pthread_mutex_unlock(&lock);
        return p;
    }
    fai_free(FAI_TAG_OBJECT, p, sizeof *p);
    if (!code || code == FA_BACKEND_NO_MEMORY) return fai_fail_memory(op, room);
    fai_fail_backend(dev, code, op, "allocating pinned memory of the host");
    return NULL;
}

fai_buffer *fai_buffer_pinned(fa_device device, size_t bytes, const char *op) {
    fai_dev *dev = fai_dev_get(device, op);
    size_t room = LEAST;
    if (!dev) return NULL;
    if (bytes >> 46) return fai_fail_memory(op, bytes);
    while (room < bytes) room *= 2;
    pinned *p = take_spare(dev, room);
    if (!p) p = new_pinned(dev, room, op);
    fai_buffer *b = p ? fai_buffer_wrap(p->data, bytes, released, p, op) : NULL;
    if (p && !b) released(p);
    return b;
}

void fa_pinned_get_stats(fa_pinned_stats *out) {
    pthread_mutex_lock(&lock);
    *out = stats;
    pthread_mutex_unlock(&lock);
}

static void reset(bool peaks) {
    fa_memory_count *const count[] = {&stats.allocations, &stats.allocated_bytes, &stats.active_requests, &stats.active_bytes};
    pthread_mutex_lock(&lock);
    for (int i = 0; i < 4; i++) fai_count_reset(count[i], peaks);
    pthread_mutex_unlock(&lock);
}

void fa_pinned_reset_peak(void) { reset(true); }
void fa_pinned_reset_accumulated(void) { reset(false); }
void fa_pinned_empty_cache(void) { drop_spare(); }

bool fai_buffer_is_pinned(const fai_buffer *b) { return b->release == released; }

/* ---- copies under way ---- */

bool fai_pinned_busy(fai_buffer *b, fai_stream *s, uint64_t place) {
    pinned *p = b->context;
    pthread_mutex_lock(&lock);
    int i = 0;
    while (i < p->nuses && p->use[i].stream != s) i++;
    const bool room = i < USES;
    if (room) {
        p->use[i].stream = s;
        p->use[i].place = place;
        if (i == p->nuses) p->nuses++;
        b->pending = true;
    }
    pthread_mutex_unlock(&lock);
    return room;
}

static bool raises(void) {
    const char *text = getenv("FACULA_PENDING");
    return text && !strcmp(text, "raise");
}

void fai_buffer_settle(fai_buffer *b) {
    pinned *p = b->context;
    pthread_mutex_lock(&lock);
    bool idle = is_idle(p);
    if (!idle && raises()) {
        fai_fail(FA_ERR_RUNTIME, "host memory",
                 "a tensor in pinned memory is used while a copy that does not wait is under way (non_blocking=True): synchronize the "
                 "stream first. Without FACULA_PENDING=raise Facula waits for the copy here");
        idle = true; /* told; the caller goes on as elsewhere */
    }
    int n = p->nuses;
    fai_stream *stream[USES];
    for (int i = 0; i < n; i++) stream[i] = p->use[i].stream;
    pthread_mutex_unlock(&lock);
    for (int i = 0; !idle && i < n; i++) fai_stream_wait(stream[i], "copy");
    b->pending = false;
}
