/* Events: marks in a stream that other streams, and the host, can wait for. The driver's event is made at the first record, on the
 * device of the stream that it is recorded in. */
#include "inside.h"
#include <math.h>
#include <string.h>

struct fa_event {
    fai_object object;
    fai_dev *dev; /* NULL: never recorded */
    fa_event_handle handle;
    fai_stream *stream; /* where it lies */
    uint64_t place;
    uint64_t graph;      /* recorded in that capture, which has no work to mark yet; 0: in a queue */
    bool timing;
};

static void destroy(void *object) {
    fa_event *e = object;
    if (e->handle && !fai_forked_child()) e->dev->backend->event_destroy(e->dev->ordinal, e->handle);
    fai_free(FAI_TAG_OBJECT, e, sizeof *e);
}

__attribute__((constructor)) static void set_up(void) { fai_set_destructor(FAI_EVENT, destroy); }

fa_event *fa_event_new(bool timing) {
    fa_event *e = fai_calloc(FAI_TAG_OBJECT, sizeof *e);
    if (!e) return fai_fail_memory("event", sizeof *e);
    fai_object_init(e, FAI_EVENT);
    e->timing = timing;
    return fai_scope_add(e, "event") ? e : NULL;
}

static bool check(const fa_event *e, const char *argument, const char *op) {
    if (e) return true;
    if (!fa_failed()) fai_fail(FA_ERR_TYPE, op, "argument '%s' is NULL: an event is needed, from fa_event_new", argument);
    return false;
}

bool fa_event_record(fa_event *event, fa_stream stream) {
    if (!check(event, "event", "event_record")) return false;
    if (stream.device.type == FA_DEVICE_CPU)
        return fai_fail(FA_ERR_VALUE, "event_record", "an event needs the stream of a device, but got the CPU's: its work is done at once");
    fai_stream *s = fai_stream_find(stream, "event_record");
    if (!s) return false;
    if (event->dev && event->dev != s->dev)
        return fai_fail(FA_ERR_RUNTIME, "event_record",
                        "Event device %s does not match recording stream's device %s. Make an event for each device: fa_event_new",
                        fa_device_text(event->dev->name), fa_device_text(s->dev->name));
    if (FAI_UNLIKELY(fai_capture_of(s) != NULL)) {
        event->dev = s->dev;
        event->stream = s;
        event->place = fai_capture_mark(s, &event->graph);
        return true;
    }
    const fa_backend *b = s->dev->backend;
    pthread_mutex_lock(&s->lock);
    int code = fai_fuse_flush(s);
    if (!code && !event->handle) code = b->event_create(s->dev->ordinal, &event->handle);
    if (!code) {
        event->dev = s->dev;
        code = b->event_record(s->dev->ordinal, event->handle, s->handle);
    }
    if (!code) {
        event->stream = s;
        event->place = ++s->place;
        event->graph = 0;
    }
    pthread_mutex_unlock(&s->lock);
    atomic_store(&s->dev->touched, true);
    return code == 0 || fai_fail_backend(s->dev, code, "event_record", "recording an event");
}

fa_event *fa_stream_record_event(fa_stream stream) {
    fa_event *e = fa_event_new(false);
    if (e && fa_event_record(e, stream)) return e;
    fa_drop(e);
    return NULL;
}

bool fa_event_wait(fa_event *event, fa_stream stream) {
    if (!check(event, "event", "event_wait")) return false;
    if (stream.device.type == FA_DEVICE_CPU) return fa_event_synchronize(event);
    fai_stream *s = fai_stream_find(stream, "event_wait");
    if (!s || !event->stream || event->stream == s) return s != NULL; /* its own stream is in order anyway */
    if (FAI_UNLIKELY(event->graph || fai_capture_of(s))) return fai_capture_await(s, event->stream, event->graph, event->place, "event_wait");
    if (s->dev->backend != event->dev->backend) return fa_event_synchronize(event);
    int code = fai_stream_await(s, event->handle);
    return code == 0 || fai_fail_backend(s->dev, code, "event_wait", "making a stream wait for an event");
}

/* ---- the host ---- */

static bool fail_captured(const fa_event *e, const char *op) {
    char upper[16];
    fai_type_upper(upper, e->dev->name.type);
    if (fai_capture_of(e->stream)) fai_capture_invalidate(e->stream, op);
    return fai_fail(FA_ERR_DEVICE, op,
                    "%s error: operation not permitted on an event last recorded in a capturing stream. It marks a place in a graph: work that is noted down has no time. "
                    "Record it outside of the capture, before and after a replay",
                    upper);
}

bool fa_event_query(fa_event *event) {
    bool done = true;
    if (!check(event, "event", "event_query")) return false;
    if (event->graph) return fail_captured(event, "event_query");
    if (!event->handle) return true;
    fai_dev *dev = fai_dev_get(event->dev->name, "event_query");
    if (!dev) return false;
    int code = dev->backend->event_query(dev->ordinal, event->handle, &done);
    if (code) return fai_fail_backend(dev, code, "event_query", "asking for an event");
    return done;
}

/* A failed launch before the event is told by a wait for its stream, which knows the launches. */
bool fa_event_synchronize(fa_event *event) {
    if (!check(event, "event", "event_synchronize")) return false;
    if (event->graph) return fail_captured(event, "event_synchronize");
    if (!event->handle) return true;
    fai_dev *dev = fai_dev_get(event->dev->name, "event_synchronize");
    return dev && fai_event_wait_for(event->stream, event->handle, event->place, "event_synchronize");
}

static bool completed(fa_event *e, bool *done) {
    int code = e->dev->backend->event_query(e->dev->ordinal, e->handle, done);
    return code == 0 || fai_fail_backend(e->dev, code, "event_elapsed", "asking for an event");
}

double fa_event_elapsed(fa_event *start, fa_event *end) {
    bool first = false, second = false;
    float milliseconds = 0;
    if (!check(start, "start", "event_elapsed") || !check(end, "end", "event_elapsed")) return NAN;
    if (!start->timing || !end->timing) {
        fai_fail(FA_ERR_VALUE, "event_elapsed", "Both events must be created with argument 'enable_timing=True'. In C: fa_event_new(true)");
        return NAN;
    }
    if (start->graph || end->graph) {
        fail_captured(start->graph ? start : end, "event_elapsed");
        return NAN;
    }
    if (!start->handle || !end->handle) {
        fai_fail(FA_ERR_VALUE, "event_elapsed", "Both events must be recorded before calculating elapsed time. Call fa_event_record first");
        return NAN;
    }
    fai_dev *dev = fai_dev_get(start->dev->name, "event_elapsed");
    if (!dev) return NAN;
    if (start->dev != end->dev) {
        fai_fail(FA_ERR_VALUE, "event_elapsed", "the events were recorded on %s and %s: time can be measured on one device only",
                 fa_device_text(start->dev->name), fa_device_text(end->dev->name));
        return NAN;
    }
    if (!completed(start, &first) || !completed(end, &second)) return NAN;
    if (!first || !second) {
        fai_fail(FA_ERR_RUNTIME, "event_elapsed",
                 "Both events must be completed before calculating elapsed time. Wait for them first: fa_event_synchronize");
        return NAN;
    }
    int code = dev->backend->event_elapsed(dev->ordinal, start->handle, end->handle, &milliseconds);
    if (code == 0) return (double)milliseconds;
    fai_fail_backend(dev, code, "event_elapsed", "measuring the time between two events");
    return NAN;
}

fa_device fa_event_device(const fa_event *event) { return event && event->dev ? event->dev->name : fa_device_of_type(0, 0); }
