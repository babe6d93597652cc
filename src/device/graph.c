/* Graphs: begun, ended, replayed.
 *
 * At the end of a capture the noted steps become an object of the driver's, if the backend can make one: they are given to a
 * stream of their own between graph_begin and graph_end. Then a replay is one call. Without it a replay gives them to the device
 * one by one, which still leaves out everything above: Python, checks, allocation, autograd. Both leave the same log behind, so
 * that a launch that fails late is called by its operator's name. */
#include "graph.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static _Atomic uint64_t captures;

/* ---- the object ---- */

static void free_steps(fa_graph *g) {
    for (fai_step *step = g->first, *next; step; step = next) {
        next = step->next;
        if (step->work.library) g->dev->backend->library->drop(step->work.library);
        fai_free(FAI_TAG_GRAPH, step, sizeof *step + step->plan_bytes);
    }
    g->first = NULL;
    g->end = &g->first;
    g->launches = g->copies = g->fills = 0;
}

/* What is queued of it may still use them. */
static void free_kept(fa_graph *g, bool driver) {
    for (size_t i = 0; i < g->kept_room; i++) {
        fai_buffer *b = g->kept[i].buffer;
        if (!b) continue;
        if (driver && g->replays && b->context && !b->release && b->device.type != FA_DEVICE_CPU)
            fai_block_used_by(g->dev, b->context, g->last);
        fai_buffer_unref(b);
    }
    fai_free(FAI_TAG_GRAPH, g->kept, g->kept_room * sizeof *g->kept);
    g->kept = NULL;
    g->nkept = g->kept_room = 0;
}

static void make_empty(fa_graph *g) {
    const bool driver = !fai_forked_child();
    if (g->exec && driver) g->dev->backend->graph_destroy(g->dev->ordinal, g->exec);
    g->exec = NULL;
    free_steps(g);
    free_kept(g, driver);
    for (fai_fed *f = g->feeds, *next; f; f = next) {
        next = f->next;
        f->feed.drop(f->feed.context);
        fai_free(FAI_TAG_GRAPH, f, sizeof *f);
    }
    g->feeds = NULL;
    g->drawn = NULL;
    fai_buffer_unref(g->status);
    g->status = NULL;
    if (g->pool && driver) fai_mempool_give(g->dev, g->pool);
    g->pool = NULL;
    g->replays = 0;
    g->state = FAI_GRAPH_EMPTY;
}

/* All its streams are in the queue again; false if one of them was not waited for. */
static bool leave_capture(fa_graph *g) {
    bool joined = true;
    for (int id = 0; id < FAI_STREAMS; id++) {
        fai_stream *s = atomic_load(&g->dev->streams[id]);
        if (!s || atomic_load(&s->capture) != g) continue;
        joined &= !s->forked;
        atomic_store(&s->capture, NULL);
    }
    atomic_fetch_sub(&g->dev->pools_in_use, 1);
    if (g->thread == &fai_tls) fa_stream_leave(&g->before);
    g->state = FAI_GRAPH_EMPTY;
    return joined;
}

static void destroy(void *object) {
    fa_graph *g = object;
    if (g->state == FAI_GRAPH_CAPTURING) leave_capture(g);
    if (g->dev) make_empty(g);
    pthread_mutex_destroy(&g->lock);
    fai_free(FAI_TAG_GRAPH, g, sizeof *g);
}

__attribute__((constructor)) static void set_up(void) { fai_set_destructor(FAI_GRAPH, destroy); }

fa_graph *fa_graph_new(void) {
    fa_graph *g = fai_calloc(FAI_TAG_GRAPH, sizeof *g);
    if (!g) return fai_fail_memory("graph", sizeof *g);
    fai_object_init(g, FAI_GRAPH);
    pthread_mutex_init(&g->lock, NULL);
    g->end = &g->first;
    return fai_scope_add(g, "graph") ? g : NULL;
}

static bool check(const fa_graph *g, const char *op) {
    if (g) return true;
    if (!fa_failed()) fai_fail(FA_ERR_TYPE, op, "argument 'graph' is NULL: one from fa_graph_new() is needed");
    return false;
}

/* ---- capturing ---- */

static bool may_begin(fa_graph *g, fa_stream stream) {
    if (stream.device.type == FA_DEVICE_CPU)
        return fai_fail(FA_ERR_VALUE, "graph_begin",
                        "Expected a stream of an accelerator, but got the CPU's: its work is done when a call returns, so there "
                        "is nothing to note down. Run the "
                        "function itself there, or take a simulated device: FACULA_SIM=cuda:1 in the environment");
    if (g->state != FAI_GRAPH_EMPTY)
        return fai_fail(FA_ERR_RUNTIME, "graph_begin",
                        "This CUDAGraph instance already owns a captured graph. To capture a new graph, create a new instance. "
                        "fa_graph_reset empties this one");
    fai_stream *s = fai_stream_find(stream, "graph_begin");
    if (!s) return false;
    if (s->id == 0)
        return fai_fail(FA_ERR_RUNTIME, "graph_begin",
                        "CUDA graphs must be captured on a non-default stream. (However, after capture, it's ok to replay them "
                        "on the default stream.) Make "
                        "one: fa_stream_new(device, 0)");
    return fai_capture_refuse_inside(s, "graph_begin") && fai_capture_refuse_inside(fai_stream_now(s->dev), "graph_begin");
}

bool fa_graph_begin(fa_graph *g, fa_stream stream, uint64_t pool) {
    if (!check(g, "graph_begin") || fai_refuse_pending("graph_begin") || !may_begin(g, stream)) return false;
    fai_stream *s = fai_stream_find(stream, "graph_begin");
    fai_dev *dev = s->dev;
    if (!fai_stream_order(s, fai_stream_now(dev), "graph_begin")) return false;
    pthread_mutex_lock(&s->lock);
    const bool flushed = fai_fuse_flush(s) == 0;
    pthread_mutex_unlock(&s->lock);
    if (!flushed) return false;
    g->dev = dev;
    g->pool = fai_mempool_take(dev, pool ? pool : fa_graph_pool_new(), "graph_begin");
    if (!g->pool) return false;
    g->heap = fai_mempool_heap(dev, g->pool, s, "graph_begin");
    if (!g->heap) {
        make_empty(g);
        return false;
    }
    g->origin = g->last = s;
    g->serial = atomic_fetch_add(&captures, 1) + 1;
    g->invalid = false;
    g->thread = &fai_tls;
    g->state = FAI_GRAPH_CAPTURING;
    s->captured = 0;
    s->forked = false;
    g->before = fa_stream_enter(stream);
    atomic_fetch_add(&dev->pools_in_use, 1);
    atomic_store(&s->capture, g);
    return true;
}

static int give(const fai_dev *dev, fa_stream_handle stream, const fai_step *step) {
    const fa_backend *b = dev->backend;
    switch (step->kind) {
    case FAI_STEP_LAUNCH: return fai_queue_give(dev, stream, &step->work, step->plan, step->address);
    case FAI_STEP_COPY:
        return b->copy(dev->ordinal, stream, step->copy, step->address[0], step->host, step->address[1], step->bytes);
    case FAI_STEP_FILL: return b->fill(dev->ordinal, stream, step->address[0], step->byte, step->bytes);
    }
    return FA_BACKEND_FAILED;
}

static bool fail_making(fa_graph *g, int code) {
    return fai_fail_backend(g->dev, code, "graph_end", "making a graph of what was captured");
}

/* FACULA_GRAPHS=list: the library replays the list itself. */
static bool wants_list(void) {
    const char *text = getenv("FACULA_GRAPHS");
    return text && !strcmp(text, "list");
}

/* The driver's own object, captured in a stream that nobody else puts anything into. */
static bool make_exec(fa_graph *g) {
    const fai_dev *dev = g->dev;
    const fa_backend *b = dev->backend;
    fa_stream_handle stream = NULL;
    if (!b->graph_begin || !g->first || wants_list()) return true;
    int code = b->stream_create(dev->ordinal, 0, &stream);
    if (code) return fail_making(g, code);
    bool fine = (code = b->graph_begin(dev->ordinal, stream)) == 0 || fail_making(g, code);
    if (fine) {
        for (const fai_step *step = g->first; step && !code; step = step->next) code = give(dev, stream, step);
        if (code) fine = fail_making(g, code); /* now: the text is of the last error */
        code = b->graph_end(dev->ordinal, stream, &g->exec);
        if (code && fine) fine = fail_making(g, code);
    }
    b->stream_destroy(dev->ordinal, stream);
    return fine;
}

static bool is_whole(fa_graph *g, bool joined) {
    char upper[16];
    fai_type_upper(upper, g->dev->name.type);
    if (fa_failed()) return false;
    if (g->invalid)
        return fai_fail(
            FA_ERR_DEVICE, "graph_end",
            "%s error: operation failed due to a previous error during capture. It was '%s' that could not be noted down", upper,
            g->why);
    if (!joined)
        return fai_fail(FA_ERR_DEVICE, "graph_end",
                        "%s error: capturing stream has unjoined work. Another stream took part, and the captured one has not "
                        "waited for all of its work: "
                        "fa_stream_wait_stream(captured, other) before the end",
                        upper);
    return true;
}

bool fa_graph_end(fa_graph *g) {
    if (!check(g, "graph_end")) return false;
    if (g->state != FAI_GRAPH_CAPTURING)
        return fai_fail(FA_ERR_RUNTIME, "graph_end",
                        "The current stream is not currently capturing. A capture begins with fa_graph_begin");
    const bool same = g->thread == &fai_tls && fai_stream_now(g->dev) == g->origin;
    const bool joined = leave_capture(g);
    bool fine = is_whole(g, joined);
    if (fine && !same)
        fine = fai_fail(FA_ERR_RUNTIME, "graph_end",
                        "Capture must end on the same stream it began on. It has ended, and is worth nothing");
    if (fine && make_exec(g)) {
        g->state = FAI_GRAPH_READY;
        return true;
    }
    make_empty(g);
    return false;
}

bool fa_graph_reset(fa_graph *g) {
    if (!check(g, "graph_reset")) return false;
    if (g->state == FAI_GRAPH_CAPTURING) leave_capture(g);
    if (g->dev) make_empty(g);
    return true;
}

/* ---- replaying ---- */

static bool fail_step(fa_graph *g, int code, const fai_step *step, uint64_t number) {
    char doing[240];
    const uint64_t all = g->launches + g->copies + g->fills;
    if (step)
        snprintf(doing, sizeof doing,
                 "replaying a graph: step %llu of %llu, '%s' (%s); the steps before it were given to the device",
                 (unsigned long long)number, (unsigned long long)all, step->op,
                 step->kind == FAI_STEP_LAUNCH ? step->work.kernel
                 : step->kind == FAI_STEP_COPY ? "a copy"
                                               : "a fill");
    else
        snprintf(doing, sizeof doing, "replaying a graph of %llu steps; nothing of it has run", (unsigned long long)all);
    return fai_fail_backend(g->dev, code, step ? step->op : "graph_replay", doing);
}

static void count_step(fai_stream *s, const fai_step *step, int code) {
    if (step->kind == FAI_STEP_LAUNCH)
        fai_queue_count_launch(s, step->op, &step->work, code);
    else if (!code)
        s->place++;
}

/* With the stream's lock held. */
static bool run_steps(fa_graph *g, fai_stream *s) {
    fai_dev *dev = g->dev;
    uint64_t number = 0;
    int code = 0;
    const fai_step *step = g->first;
    pthread_mutex_lock(&dev->launch_lock);
    if (g->exec) {
        code = dev->backend->graph_launch(dev->ordinal, g->exec, s->handle);
        for (; step && !code; step = step->next) count_step(s, step, 0);
        step = NULL;
    }
    while (step) {
        number++;
        code = give(dev, s->handle, step);
        count_step(s, step, code);
        if (code) break;
        step = step->next;
    }
    pthread_mutex_unlock(&dev->launch_lock);
    return code == 0 || fail_step(g, code, step, number);
}

/* Index kernels of the graph report to its own words, and waits look at the stream's. What the stream has already goes there and
 * back, so that the first report counts. */
static bool carry_status(fa_graph *g, fai_stream *s, bool there) {
    fai_buffer *words = fai_status_words(s, "graph_replay");
    if (!words) return false;
    const uint64_t to = there ? g->status->address : words->address, from = there ? words->address : g->status->address;
    int code = g->dev->backend->copy(g->dev->ordinal, s->handle, FA_COPY_WITHIN, to, NULL, from, words->bytes);
    s->place++;
    return code == 0 || fai_fail_backend(g->dev, code, "graph_replay", "copying the status words of index kernels");
}

/* What was read may be worth nothing; then so is what was written. */
static void note_written(fa_graph *g, fai_stream *s) {
    uint64_t bad = 0;
    for (size_t i = 0; i < g->kept_room && !bad; i++)
        if (g->kept[i].reads && g->kept[i].buffer->device.type != FA_DEVICE_CPU)
            bad = fai_spoiled_at(g->dev, g->kept[i].buffer, NULL);
    for (size_t i = 0; i < g->kept_room; i++) {
        fai_buffer *b = g->kept[i].buffer;
        if (!b || !g->kept[i].writes || b->device.type == FA_DEVICE_CPU) continue;
        if (bad)
            b->written = bad, b->ranged = 0;
        else
            fai_wrote(s, b, g->kept[i].whole);
    }
    atomic_store(&g->heap->written, bad ? bad : fai_place_base(s) | s->place);
}

static bool queue_graph(fa_graph *g, fai_stream *s) {
    pthread_mutex_lock(&s->lock);
    bool fine = fai_fuse_flush(s) == 0 && (!g->status || carry_status(g, s, true)) && run_steps(g, s) && (!g->status || carry_status(g, s, false));
    const uint64_t place = s->place;
    note_written(g, s);
    pthread_mutex_unlock(&s->lock);
    for (size_t i = 0; i < g->kept_room && g->copies; i++) { /* pinned memory */
        fai_buffer *b = g->kept[i].buffer;
        if (b && b->device.type == FA_DEVICE_CPU && !fai_pinned_busy(b, s, place)) fine &= fai_stream_wait(s, "graph_replay");
    }
    return fine;
}

static bool replay(fa_graph *g, fai_stream *s) {
    bool fine = true;
    for (fai_fed *f = g->feeds; f && fine; f = f->next) f->ready = fine = f->feed.before(f->feed.context);
    fine = fine && queue_graph(g, s);
    for (fai_fed *f = g->feeds; f; f = f->next)
        if (f->ready || fine) f->feed.after(f->feed.context, fine);
    for (fai_fed *f = g->feeds; f; f = f->next) f->ready = false;
    return fine;
}

bool fa_graph_replay(fa_graph *g) {
    if (!check(g, "graph_replay") || fai_refuse_pending("graph_replay")) return false;
    if (g->state != FAI_GRAPH_READY)
        return fai_fail(FA_ERR_RUNTIME, "graph_replay",
                        "Called CUDAGraph::replay without a preceding successful capture. One is made between fa_graph_begin and "
                        "fa_graph_end");
    if (!fai_dev_get(g->dev->name, "graph_replay")) return false;
    fai_stream *s = fai_stream_now(g->dev);
    if (!fai_capture_refuse_inside(s, "graph_replay") || !fai_stream_order(s, g->last, "graph_replay")) return false;
    g->last = s;
    g->replays++;
    return replay(g, s);
}

/* ---- what users ask ---- */

uint64_t fa_graph_pool(const fa_graph *g) {
    if (!check(g, "graph_pool")) return 0;
    if (g->pool) return g->pool->id;
    fai_fail(
        FA_ERR_RUNTIME, "graph_pool",
        "Called CUDAGraph::pool() without a preceding successful capture. A pool beforehand is named by fa_graph_pool_new()");
    return 0;
}

fa_graph_facts fa_graph_get_facts(const fa_graph *g) {
    fa_graph_facts out = {0};
    if (!check(g, "graph_get_facts") || !g->dev) return out;
    out.capturing = g->state == FAI_GRAPH_CAPTURING;
    out.ready = g->state == FAI_GRAPH_READY;
    out.launches = g->launches, out.copies = g->copies, out.fills = g->fills;
    out.replays = g->replays, out.kept = g->nkept;
    memcpy(&out.native, &g->exec, sizeof out.native);
    if (g->origin) out.stream = (fa_stream){g->dev->name, g->origin->id};
    return out;
}

static void write_step(FILE *file, const fai_step *step, uint64_t number) {
    fprintf(file, "  step%llu [label=\"%llu: %s", (unsigned long long)number, (unsigned long long)number, step->op);
    if (step->kind == FAI_STEP_LAUNCH)
        fprintf(file, "\\n%s, %lld groups of %d", step->work.kernel, (long long)step->plan->groups, step->work.group_size);
    else
        fprintf(file, "\\n%s of %zu bytes",
                step->kind == FAI_STEP_FILL     ? "fill"
                : step->copy == FA_COPY_WITHIN  ? "copy"
                : step->copy == FA_COPY_TO_HOST ? "copy to the host"
                                                : "copy from the host",
                step->bytes);
    fprintf(file, "\"];\n");
    if (number > 1) fprintf(file, "  step%llu -> step%llu;\n", (unsigned long long)number - 1, (unsigned long long)number);
}

bool fa_graph_dump(const fa_graph *g, const char *path) {
    if (!check(g, "graph_dump")) return false;
    if (!path) return fai_fail(FA_ERR_TYPE, "graph_dump", "argument 'path' is NULL: the name of a file to write is needed");
    FILE *file = fopen(path, "we");
    if (!file) return fai_fail(FA_ERR_FILE, "graph_dump", "'%.200s' can't be written: %s", path, strerror(errno));
    uint64_t number = 0;
    fprintf(file, "digraph facula {\n  node [shape=box];\n");
    for (const fai_step *step = g->first; step; step = step->next) write_step(file, step, ++number);
    fprintf(file, "}\n");
    const bool fine = !ferror(file);
    if (fclose(file) == 0 && fine) return true;
    return fai_fail(FA_ERR_FILE, "graph_dump", "'%.200s' can't be written: %s", path, strerror(errno));
}
