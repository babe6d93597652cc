/* Contents that nobody knows.
 *
 * A launch that failed late took everything behind it along: no launch and no copy from it to the end of its stream has run, and
 * none in a stream that waited for it. A buffer remembers where in which stream it was last written, so that its contents are known
 * to be worth nothing when somebody reads them. What is computed from such a buffer is worth nothing either; what overwrites all of
 * it makes it good again.
 *
 * A device that was lost has nothing of what was written before, even if its driver brings it back. */
#include "inside.h"
#include <string.h>

/* When a graph wrote to what lies in the buffer's pool last; 0: never. */
static uint64_t written_by_graph(const fai_buffer *b) {
    const fai_block *block = b->release || b->device.type == FA_DEVICE_CPU ? NULL : b->context;
    return block ? atomic_load_explicit(&block->heap->written, memory_order_relaxed) : 0;
}

static bool find_spoiled(fai_dev *dev, uint64_t place, fai_spoiled *out) {
    const uint64_t id = place >> FAI_PLACE_BITS;
    const fai_stream *stream = place && id < FAI_STREAMS ? atomic_load_explicit(&dev->streams[id], memory_order_acquire) : NULL;
    bool found = stream && place - fai_place_base(stream) <= atomic_load_explicit(&stream->lost_place, memory_order_acquire);
    if (found && out) *out = (fai_spoiled){0};
    for (int i = 0; i < FAI_SPOILED && place && !found; i++) {
        const fai_spoiled *s = &dev->spoiled[i];
        if (place < s->first || place > s->last || !s->op) continue;
        found = true;
        if (out) *out = *s;
    }
    return found;
}

uint64_t fai_spoiled_at(fai_dev *dev, const fai_buffer *b, fai_spoiled *out) {
    if (FAI_LIKELY(atomic_load_explicit(&dev->failures, memory_order_acquire) == 0)) return 0;
    const uint64_t graph = written_by_graph(b);
    pthread_mutex_lock(&dev->launch_lock);
    const uint64_t at = find_spoiled(dev, b->written, out) ? b->written : find_spoiled(dev, graph, out) ? graph : 0;
    pthread_mutex_unlock(&dev->launch_lock);
    return at;
}

bool fai_is_spoiled(fai_dev *dev, const fai_buffer *b, fai_spoiled *out) { return fai_spoiled_at(dev, b, out) != 0; }

/* The memory of a graph's pool is written by replays, of which the buffer does not learn. */
bool fai_may_range(const fai_buffer *b) {
    if (b->device.type == FA_DEVICE_CPU || b->release || !b->context || b->exported) return false;
    const fai_heap *heap = ((const fai_block *)b->context)->heap;
    fai_dev *dev = heap->stream->dev;
    return !heap->pool && !fai_capture_of(fai_stream_now(dev)) && !fai_is_spoiled(dev, b, NULL);
}

void fai_wrote(fai_stream *s, fai_buffer *b, bool whole) {
    b->ranged = 0;
    if (whole || !fai_is_spoiled(s->dev, b, NULL)) b->written = fai_place_base(s) | s->place;
}

/* Elementwise kernels read nothing of what they write but by an operand of its own, so that they may make a buffer good. */
bool fai_launch_covers(const char *kernel, const fa_plan_view *v, const fai_buffer *b) {
    static const size_t bytes[] = {0, 1, 1, 1, 2, 4, 8, 2, 2, 4, 8};
    size_t elements = 1;
    for (int d = 0; d < v->ndim; d++) elements *= (size_t)v->size[d];
    return !strncmp(kernel, "ew_", 3) && v->kind == FA_VIEW_TENSOR && elements * bytes[v->dtype] >= b->bytes;
}

void fai_launch_wrote(fai_stream *s, const char *kernel, const fa_plan *plan, fai_buffer *const buffers[8]) {
    const bool failed = atomic_load_explicit(&s->dev->failures, memory_order_relaxed) != 0;
    uint64_t bad = 0;
    for (int i = 0; failed && i < 8; i++)
        if (buffers[i] && !plan->view[i].writes) bad = bad ? bad : fai_spoiled_at(s->dev, buffers[i], NULL);
    for (int i = 0; i < 8; i++) {
        if (!buffers[i] || !plan->view[i].writes) continue;
        if (bad)
            buffers[i]->written = bad, buffers[i]->ranged = 0;
        else
            fai_wrote(s, buffers[i], failed && fai_launch_covers(kernel, &plan->view[i], buffers[i]));
    }
}

/* The culprit may have run in another stream, which this one waited for: then all is lost from its first wait on. */
void fai_spoil(fai_stream *s, const fai_queued *culprit) {
    const uint64_t base = fai_place_base(s);
    uint64_t first = base | (s->waited_place + 1);
    if (s->place == s->waited_place) return;
    if (culprit && culprit->place >> FAI_PLACE_BITS == (uint64_t)s->id) first = culprit->place;
    else if (culprit && s->foreign) first = base | s->foreign;
    pthread_mutex_lock(&s->dev->launch_lock);
    s->dev->spoiled[atomic_fetch_add(&s->dev->failures, 1) % FAI_SPOILED] =
        (fai_spoiled){culprit ? culprit->op : "an operator", first, base | s->place};
    pthread_mutex_unlock(&s->dev->launch_lock);
}

/* Of operations that were queued when the device was lost. Called with any locks. */
void fai_spoil_lost(fai_dev *dev, const char *op) {
    atomic_store(&dev->lost_op, op);
    for (int id = 0; id < FAI_STREAMS; id++) {
        fai_stream *s = atomic_load(&dev->streams[id]);
        if (s) atomic_store(&s->lost_place, s->place);
    }
    atomic_fetch_add(&dev->failures, 1);
}

bool fai_is_known(fai_dev *dev, const fai_buffer *b, const char *op) {
    fai_spoiled s;
    if (!fai_is_spoiled(dev, b, &s)) return true;
    if (!s.op)
        return fai_fail(FA_ERR_DEVICE, op,
                        "the tensor on %s has no contents: the device was lost, as '%s' found, and what was in its memory with it. Make it again, "
                        "or copy it there from where it was saved",
                        fa_device_text(dev->name), atomic_load(&dev->lost_op));
    return fai_fail(FA_ERR_DEVICE, op,
                    "the tensor on %s has no contents: '%s', which failed, was to make it or something it was made from. "
                    "Compute it again from "
                    "what was there before",
                    fa_device_text(dev->name), s.op);
}
