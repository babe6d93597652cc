/* Capturing: work that would be queued becomes steps of a graph instead.
 *
 * The driver's own capture is not used for that. The library notes down the launches, copies and fills in the order in which they
 * come, so that it works on every backend, and so that what can't be noted down is refused here, with the operator's name, before
 * anything happens. Since nothing of the driver's is being captured meanwhile, whatever has to be done once (building kernels,
 * allocating, first states of optimizers) is just done.
 *
 * The order of coming is one order for all streams that take part, and every wait between them agrees with it: so a replay needs
 * no events. What is asked of waits is only what CUDA asks: streams join by waiting for a captured one, and are waited for before
 * the end. */
#include "graph.h"
#include "../../kernels/status.h"
#include <string.h>

/* ---- what is not allowed ---- */

static const char *upper_of(const fai_dev *dev, char out[16]) { return fai_type_upper(out, dev->name.type), out; }

static void invalidate(fa_graph *g, const char *op) {
    if (!g->invalid) snprintf(g->why, sizeof g->why, "%s", op);
    g->invalid = true;
}

void fai_capture_invalidate(fai_stream *s, const char *op) { invalidate(fai_capture_of(s), op); }

bool fai_capture_refuse(fai_stream *s, const char *op) {
    char upper[16];
    fa_graph *g = fai_capture_of(s);
    if (FAI_LIKELY(!g)) return true;
    if (fai_tls.reader)
        op = fai_tls.reader;
    else if (fai_tls.called)
        op = fai_tls.called;
    invalidate(g, op);
    return fai_fail(FA_ERR_DEVICE, op,
                    "%s error: operation not permitted when stream is capturing. '%s' needs the numbers of %s or waits for it, "
                    "but its work is being noted down for a "
                    "graph and not done: there are no numbers yet. Do it before the capture or after a replay; what the graph "
                    "shall work on is written into a tensor "
                    "that was there before the capture. This capture is worth nothing now",
                    upper_of(s->dev, upper), op, fa_device_text(s->dev->name));
}

bool fai_capture_refuse_inside(fai_stream *s, const char *op) {
    char upper[16];
    fa_graph *g = fai_capture_of(s);
    if (FAI_LIKELY(!g)) return true;
    invalidate(g, op);
    return fai_fail(FA_ERR_DEVICE, op,
                    "%s error: operation not permitted when stream is capturing. A graph is begun or replayed on %s while another one is captured there, and can't be a part of "
                    "it: end the capture first. This capture is worth nothing now",
                    upper_of(s->dev, upper), fa_device_text(s->dev->name));
}

bool fai_capture_refuse_between(fa_device to, fa_device from, const char *op) {
    char upper[16];
    const fa_device captured = fai_capturing(to) ? to : from;
    if (FAI_LIKELY(!fai_capturing(captured))) return true;
    fai_stream *s = fai_stream_now(fai_dev_find(captured));
    invalidate(fai_capture_of(s), op);
    return fai_fail(FA_ERR_DEVICE, op,
                    "%s error: operation not permitted when stream is capturing. Numbers of %s can't be copied to %s in a capture: a graph is of one "
                    "device. Copy before the capture, into a tensor that is there already, or between replays. This capture is worth nothing now",
                    upper_of(s->dev, upper), fa_device_text(from), fa_device_text(to));
}

static bool fail_memory(fa_graph *g, const char *op, size_t bytes) {
    invalidate(g, op);
    return fai_fail_memory(op, bytes);
}

bool fai_capturing(fa_device device) {
    fai_dev *dev = device.type == FA_DEVICE_CPU ? NULL : fai_dev_find(device);
    return dev && FAI_UNLIKELY(atomic_load_explicit(&dev->pools_in_use, memory_order_relaxed)) &&
           fai_capture_of(fai_stream_now(dev));
}

bool fa_is_capturing(fa_device device) { return fai_capturing(device); }

bool fa_stream_is_capturing(fa_stream stream) {
    if (stream.device.type == FA_DEVICE_CPU) return false;
    const fai_stream *s = fai_stream_find(stream, "stream_is_capturing");
    return s && fai_capture_of(s) != NULL;
}

fai_pause fai_capture_pause(fa_device device) {
    fai_dev *dev = device.type == FA_DEVICE_CPU ? NULL : fai_dev_find(device);
    fai_stream *s = dev && atomic_load(&dev->pools_in_use) ? fai_stream_now(dev) : NULL;
    if (s) s->paused++;
    return (fai_pause){s};
}

void fai_capture_resume(const fai_pause *pause) {
    if (pause->stream) ((fai_stream *)pause->stream)->paused--;
}

/* ---- what the graph keeps ---- */

bool fai_graph_is_its(const fa_graph *g, const fai_buffer *b) {
    const fai_block *block = b->release || b->device.type == FA_DEVICE_CPU ? NULL : b->context;
    return block && block->heap->pool == g->pool;
}

static fai_kept *find_kept(fai_kept *kept, size_t room, const fai_buffer *b) {
    size_t at = (size_t)((uintptr_t)b >> 6) * 0x9e3779b97f4a7c15u >> 20 & (room - 1);
    while (kept[at].buffer && kept[at].buffer != b) at = (at + 1) & (room - 1);
    return &kept[at];
}

static bool grow_kept(fa_graph *g, const char *op) {
    const size_t room = g->kept_room ? g->kept_room * 2 : 64;
    fai_kept *kept = fai_calloc(FAI_TAG_GRAPH, room * sizeof *kept);
    if (!kept) return fail_memory(g, op, room * sizeof *kept);
    for (size_t i = 0; i < g->kept_room; i++)
        if (g->kept[i].buffer) *find_kept(kept, room, g->kept[i].buffer) = g->kept[i];
    fai_free(FAI_TAG_GRAPH, g->kept, g->kept_room * sizeof *kept);
    g->kept = kept;
    g->kept_room = room;
    return true;
}

/* Contents that the graph writes before it reads any of them are its own affair. */
static bool keep(fa_graph *g, fai_buffer *b, fai_access access, const char *op) {
    if (fai_graph_is_its(g, b)) return true;
    if (g->nkept * 2 >= g->kept_room && !grow_kept(g, op)) return false;
    fai_kept *k = find_kept(g->kept, g->kept_room, b);
    if (!k->buffer) k->buffer = fai_buffer_ref(b), g->nkept++;
    if (access == FAI_READS)
        k->reads |= !k->whole;
    else
        k->writes = true;
    if (access == FAI_WRITES_ALL) k->whole |= !k->reads;
    return true;
}

/* The graph that the thread's work on the device goes into: of rooms above, which ask only while there is one. */
static fa_graph *graph_now(fa_device device) {
    fai_dev *dev = fai_dev_find(device);
    return dev ? atomic_load(&fai_stream_now(dev)->capture) : NULL;
}

bool fai_graph_hold(fa_device device, fai_buffer *b, bool writes, const char *op) {
    fa_graph *g = graph_now(device);
    if (!g) return true;
    pthread_mutex_lock(&g->lock);
    const bool fine = keep(g, b, writes ? FAI_WRITES : FAI_READS, op);
    pthread_mutex_unlock(&g->lock);
    return fine;
}

uint64_t fai_graph_number(fa_device device) { return fai_capturing(device) ? graph_now(device)->serial : 0; }

bool fai_graph_writes(fa_device device, const fai_buffer *b) {
    fa_graph *g = fai_capturing(device) ? graph_now(device) : NULL;
    if (!g) return false;
    pthread_mutex_lock(&g->lock);
    const fai_kept *k = g->kept_room ? find_kept(g->kept, g->kept_room, b) : NULL;
    const bool writes = fai_graph_is_its(g, b) || (k && k->buffer && k->writes);
    pthread_mutex_unlock(&g->lock);
    return writes;
}

bool fai_graph_feed(fa_device device, const fai_feed *feed, const char *op) {
    fa_graph *g = graph_now(device);
    fai_fed *f = g ? fai_calloc(FAI_TAG_GRAPH, sizeof *f) : NULL;
    if (!f) {
        feed->drop(feed->context);
        return g ? fail_memory(g, op, sizeof *f) : true;
    }
    f->feed = *feed;
    f->next = g->feeds;
    g->feeds = f;
    return true;
}

/* ---- steps ---- */

static fai_step *new_step(fa_graph *g, fai_step_kind kind, size_t plan_bytes, const char *op) {
    fai_step *step = fai_calloc(FAI_TAG_GRAPH, sizeof *step + plan_bytes);
    if (!step) {
        fail_memory(g, op, sizeof *step + plan_bytes);
        return NULL;
    }
    step->kind = kind;
    step->op = op;
    step->plan_bytes = plan_bytes;
    return step;
}

static void add_step(fa_graph *g, fai_stream *s, fai_step *step) {
    *g->end = step;
    g->end = &step->next;
    s->captured++;
    s->forked = s != g->origin;
}

static bool keep_operands(fa_graph *g, const char *kernel, const fa_plan *plan, fai_buffer *const buffers[8], const char *op) {
    for (int i = 0; i < 8; i++)
        if (buffers[i] && !plan->view[i].writes && !keep(g, buffers[i], FAI_READS, op)) return false;
    for (int i = 0; i < 8; i++)
        if (buffers[i] && plan->view[i].writes &&
            !keep(g, buffers[i], fai_launch_covers(kernel, &plan->view[i], buffers[i]) ? FAI_WRITES_ALL : FAI_WRITES, op))
            return false;
    return true;
}

int fai_capture_launch(fa_graph *g, fai_stream *s, const char *op, const fai_work *work, const fa_plan *plan,
                       fai_buffer *const buffers[8], const fa_address pointers[8]) {
    pthread_mutex_lock(&g->lock);
    fai_step *step = new_step(g, FAI_STEP_LAUNCH, sizeof *plan, op);
    if (step && !keep_operands(g, work->kernel, plan, buffers, op)) {
        fai_free(FAI_TAG_GRAPH, step, sizeof *step + step->plan_bytes);
        step = NULL;
    }
    if (step) {
        step->work = *work;
        if (work->library) step->call = *work->library, step->work.library = &step->call;
        memcpy(step->address, pointers, sizeof step->address);
        memcpy(step->plan, plan, sizeof *plan);
        add_step(g, s, step);
        g->launches++;
    }
    pthread_mutex_unlock(&g->lock);
    return step ? 0 : FAI_TOLD;
}

static bool add_copy(fa_graph *g, fai_stream *s, fa_copy_kind kind, fai_buffer *to, size_t to_offset, fai_buffer *from,
                     size_t from_offset, size_t bytes, const char *op) {
    fai_step *step = new_step(g, FAI_STEP_COPY, 0, op);
    if (!step || !keep(g, from, FAI_READS, op) || !keep(g, to, bytes == to->bytes ? FAI_WRITES_ALL : FAI_WRITES, op)) {
        if (step) fai_free(FAI_TAG_GRAPH, step, sizeof *step);
        return false;
    }
    fai_buffer *host = kind == FA_COPY_TO_HOST ? to : from;
    step->copy = kind;
    step->bytes = bytes;
    step->address[0] = kind == FA_COPY_TO_HOST ? from->address + from_offset : to->address + to_offset;
    if (kind == FA_COPY_WITHIN)
        step->address[1] = from->address + from_offset;
    else
        step->host = (char *)(uintptr_t)host->address + (kind == FA_COPY_TO_HOST ? to_offset : from_offset);
    add_step(g, s, step);
    g->copies++;
    return true;
}

bool fai_capture_copy(fa_graph *g, fai_stream *s, fa_copy_kind kind, fai_buffer *to, size_t to_offset, fai_buffer *from,
                      size_t from_offset, size_t bytes, const char *op) {
    pthread_mutex_lock(&g->lock);
    const bool fine = add_copy(g, s, kind, to, to_offset, from, from_offset, bytes, op);
    pthread_mutex_unlock(&g->lock);
    return fine;
}

bool fai_capture_fill(fa_graph *g, fai_stream *s, fai_buffer *to, size_t offset, int byte, size_t bytes, const char *op) {
    pthread_mutex_lock(&g->lock);
    fai_step *step = new_step(g, FAI_STEP_FILL, 0, op);
    if (step && !keep(g, to, bytes == to->bytes ? FAI_WRITES_ALL : FAI_WRITES, op)) {
        fai_free(FAI_TAG_GRAPH, step, sizeof *step);
        step = NULL;
    }
    if (step) {
        step->address[0] = to->address + offset;
        step->byte = byte;
        step->bytes = bytes;
        add_step(g, s, step);
        g->fills++;
    }
    pthread_mutex_unlock(&g->lock);
    return step != NULL;
}

/* ---- what is the graph's own: words that index kernels report to, and places of generators ---- */

static fai_buffer *new_words(fa_graph *g, size_t bytes, const char *op) {
    FAI_CAPTURE_PAUSE(g->dev->name);
    fai_buffer *b = fai_buffer_new(g->dev->name, bytes, op);
    if (b && !fai_fill(b, 0, 0, bytes, op)) {
        fai_buffer_unref(b);
        b = NULL;
    }
    if (!b) invalidate(g, op);
    return b;
}

fai_buffer *fai_capture_status(fa_graph *g, const char *op) {
    if (!g->status) g->status = new_words(g, FA_STATUS_WORDS * sizeof(int64_t), op);
    return g->status;
}

/* Draws of other threads between the two find the generator moved already. */
static bool before_drawing(void *context) {
    fai_drawn *d = context;
    fai_generators_lock();
    const int64_t words[2] = {(int64_t)d->generator->seed, (int64_t)(d->generator->offset / 4)};
    d->began = d->generator->offset;
    d->seed = d->generator->seed;
    d->generator->offset += d->used;
    fai_generators_unlock();
    return fai_copy_to_device(d->words, 0, words, sizeof words, "graph_replay");
}

static void after_drawing(void *context, bool started) {
    fai_drawn *d = context;
    fai_generators_lock();
    if (!started && d->generator->seed == d->seed && d->generator->offset == d->began + d->used) d->generator->offset = d->began;
    fai_generators_unlock();
}

static void drop_drawn(void *context) {
    fai_drawn *d = context;
    fai_buffer_unref(d->words);
    fai_unref(d->generator);
    fai_free(FAI_TAG_GRAPH, d, sizeof *d);
}

fai_buffer *fai_graph_generator(fa_device device, fa_generator *generator, uint64_t **used, const char *op) {
    fa_graph *g = graph_now(device);
    fai_drawn *d = g->drawn;
    while (d && d->generator != generator) d = d->next;
    if (!d) {
        d = fai_calloc(FAI_TAG_GRAPH, sizeof *d);
        if (!d) return fail_memory(g, op, sizeof *d), NULL;
        d->generator = fai_ref(generator);
        d->words = new_words(g, 2 * sizeof(int64_t), op);
        if (!d->words) return drop_drawn(d), NULL;
        if (!fai_graph_feed(device, &(fai_feed){before_drawing, after_drawing, drop_drawn, d}, op)) return NULL;
        d->next = g->drawn;
        g->drawn = d;
    }
    *used = &d->used;
    return d->words;
}

/* ---- streams and events ---- */

/* It is worth nothing now; for the message. */
static const char *ended(fa_graph *g, const char *op, char upper[16]) {
    invalidate(g, op);
    return upper_of(g->dev, upper);
}

static bool join(fai_stream *later, fa_graph *g, const char *op) {
    char upper[16];
    if (later->dev != g->dev)
        return fai_fail(FA_ERR_DEVICE, op,
                        "%s error: operation not permitted when stream is capturing. A stream of another device can't take part: "
                        "a graph is of one device. This capture "
                        "is worth nothing now",
                        ended(g, op, upper));
    if (later->id == 0)
        return fai_fail(FA_ERR_DEVICE, op,
                        "%s error: operation would make the legacy stream depend on a capturing blocking stream. The default "
                        "stream can't wait for work that is only "
                        "noted down: let it wait after the capture. This one is worth nothing now",
                        ended(g, op, upper));
    later->captured = 0;
    later->forked = false;
    atomic_store(&later->capture, g);
    return true;
}

/* later has waited for the mark: if nothing came behind it, that branch has come home. */
static bool take_in(fai_stream *later, fai_stream *earlier, fa_graph *g, uint64_t mark, const char *op) {
    char upper[16];
    fa_graph *its = fai_capture_of(later);
    if (its && its != g)
        return fai_fail(FA_ERR_DEVICE, op,
                        "%s error: operation would result in a merge of separate capture sequences. Two captures can't wait for "
                        "each other: end the one before the other "
                        "needs it. This capture is worth nothing now",
                        ended(its, op, upper));
    if (!its && !join(later, g, op)) return false;
    if (earlier->captured == mark) earlier->forked = false;
    later->forked = later != g->origin;
    return true;
}

bool fai_capture_order(fai_stream *later, fai_stream *earlier, const char *op) {
    char upper[16];
    fa_graph *g = fai_capture_of(earlier);
    if (g) return take_in(later, earlier, g, earlier->captured, op);
    return fai_fail(FA_ERR_DEVICE, op,
                    "%s error: dependency created on uncaptured work in another stream. A captured stream can only wait for what "
                    "is captured: let it wait for the other "
                    "stream before the capture begins. This capture is worth nothing now",
                    ended(fai_capture_of(later), op, upper));
}

uint64_t fai_capture_mark(fai_stream *s, uint64_t *graph) {
    *graph = fai_capture_of(s)->serial;
    return s->captured;
}

bool fai_capture_await(fai_stream *s, fai_stream *marked, uint64_t graph, uint64_t mark, const char *op) {
    fa_graph *g = graph ? fai_capture_of(marked) : NULL, *own = fai_capture_of(s);
    char upper[16];
    if (g && g->serial == graph) return take_in(s, marked, g, mark, op);
    if (!graph) return fai_capture_order(s, marked, op);
    if (own) invalidate(own, op);
    return fai_fail(FA_ERR_DEVICE, op,
                    "%s error: operation not permitted on an event last recorded in a capturing stream. That capture has ended, "
                    "and the event was noted down in it and "
                    "never recorded. Record it again",
                    upper_of(s->dev, upper));
}
