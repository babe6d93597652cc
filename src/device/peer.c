/* Copies from one device to another.
 *
 * Within one backend the host does not wait. The copy lies in a stream of the device that is read, which waits for the other device's
 * stream first, since that may still use the memory that is written; and the other stream waits for the copy. So each allocator sees
 * the copy as work of its own stream, and gives the memory of neither side to somebody else before it is done. Devices that can't
 * reach each other have pinned memory between them, with the same waits. Only between two backends, or where a backend knows no pinned
 * memory, the host waits for each piece. */
#include "inside.h"

#define PIECE_MOST ((size_t)4 << 20) /* of what lies on the host at a time */

static void count(_Atomic uint64_t *counter) { atomic_fetch_add_explicit(counter, 1, memory_order_relaxed); }

typedef struct copy {
    fai_buffer *to, *from;
    size_t to_offset, from_offset, bytes;
    fai_stream *reads, *writes;
    const char *op;
} copy;

/* A piece at a time: pinned memory is used again when the other stream is done with the piece before. */
static bool copy_staged(const copy *c) {
    const size_t piece = c->bytes < PIECE_MOST ? c->bytes : PIECE_MOST;
    fai_buffer *host = fai_buffer_pinned(c->from->device, piece, c->op);
    bool fine = host != NULL;
    for (size_t done = 0; fine && done < c->bytes; done += piece) {
        const size_t now = c->bytes - done < piece ? c->bytes - done : piece;
        fine = (done == 0 || fai_stream_order(c->reads, c->writes, c->op)) && fai_copy_queued(host, 0, c->from, c->from_offset + done, now, c->op) &&
               fai_stream_order(c->writes, c->reads, c->op) && fai_copy_queued(c->to, c->to_offset + done, host, 0, now, c->op);
    }
    if (host) fai_buffer_unref(host);
    return fine;
}

static int ask_backend(const copy *c, size_t bytes) {
    const fai_dev *here = c->reads->dev;
    return here->backend->copy_between(here->ordinal, c->reads->handle, c->from->address + c->from_offset, c->writes->dev->ordinal,
                                       c->to->address + c->to_offset, bytes);
}

static bool copy_to_peer(const copy *c) {
    fai_dev *here = c->reads->dev, *there = c->writes->dev;
    int code = ask_backend(c, 0);
    if (code == FA_BACKEND_DECLINED) return copy_staged(c);
    if (!code && !fai_stream_order(c->reads, c->writes, c->op)) return false;
    pthread_mutex_lock(&c->reads->lock);
    if (!code) code = ask_backend(c, c->bytes);
    if (!code) c->reads->place++;
    pthread_mutex_unlock(&c->reads->lock);
    if (code) return fai_fail_backend(here, code, c->op, "copying from it to another device");
    count(&here->count.to_host), count(&there->count.to_device);
    if (!fai_stream_order(c->writes, c->reads, c->op)) {
        fai_stream_wait(c->reads, c->op); /* nobody is to have that memory before the copy is done */
        return false;
    }
    pthread_mutex_lock(&c->writes->lock);
    fai_wrote(c->writes, c->to, c->bytes == c->to->bytes);
    pthread_mutex_unlock(&c->writes->lock);
    return true;
}

static bool copy_through_host(const copy *c) {
    const size_t piece = c->bytes < PIECE_MOST ? c->bytes : PIECE_MOST;
    char *host = fai_alloc_aligned(FAI_TAG_DATA, piece);
    if (!host) return fai_fail_memory(c->op, piece);
    bool fine = true;
    for (size_t done = 0; fine && done < c->bytes; done += piece) {
        const size_t now = c->bytes - done < piece ? c->bytes - done : piece;
        fine = fai_copy_to_host(host, c->from, c->from_offset + done, now, c->op) &&
               fai_copy_to_device(c->to, c->to_offset + done, host, now, c->op);
    }
    fai_free_aligned(FAI_TAG_DATA, host, piece);
    return fine;
}

bool fai_copy_between(fai_buffer *to, size_t to_offset, fai_buffer *from, size_t from_offset, size_t bytes, const char *op) {
    fai_dev *here = fai_dev_get(from->device, op), *there = here ? fai_dev_get(to->device, op) : NULL;
    if (!there || !fai_capture_refuse_between(to->device, from->device, op)) return false;
    const copy c = {to, from, to_offset, from_offset, bytes, fai_stream_now(here), fai_stream_now(there), op};
    if (here->backend != there->backend || !here->backend->host_allocate) return copy_through_host(&c);
    if (!fai_is_known(here, from, op)) return false;
    return here->backend->copy_between ? copy_to_peer(&c) : copy_staged(&c);
}

bool fa_device_can_access_peer(fa_device device, fa_device peer) {
    const char *op = "device_can_access_peer";
    fai_dev *here = fai_dev_get(device, op), *there = here ? fai_dev_get(peer, op) : NULL;
    if (!there || here == there || here->backend != there->backend || !here->backend->copy_between) return false;
    return here->backend->copy_between(here->ordinal, 0, 0, there->ordinal, 0, 0) == 0;
}
