/* Streams: which of a device's queues there are, which one this thread's work goes to, and how they wait for each other.
 *
 * As in torch, a device has a pool of streams for each priority that is given out in turn and lives as long as the process, so a
 * stream is a plain value, memory may remember which stream it belongs to, and the number of streams a program can make is not
 * bounded by the driver. */
#include "inside.h"
#include <string.h>

static const fa_stream none = {{0, 0}, 0};

static fa_stream name_of(const fai_stream *s) { return (fa_stream){s->dev->name, s->id}; }
static bool on_cpu(fa_stream s) { return s.device.type == FA_DEVICE_CPU; }

void fai_stream_init(fai_dev *dev, fai_stream *s, int id) {
    memset(s, 0, sizeof *s);
    s->dev = dev;
    s->id = id;
    pthread_mutex_init(&s->lock, NULL);
    s->heap.stream = s;
    fai_heap_add(dev, &s->heap);
    atomic_store_explicit(&dev->streams[id], s, memory_order_release);
}

fai_stream *fai_stream_find(fa_stream stream, const char *op) {
    if (!stream.device.type && !fa_failed())
        return fai_fail(FA_ERR_TYPE, op, "argument 'stream' is no stream: make one by fa_stream_new(device, 0)");
    fai_dev *dev = stream.device.type ? fai_dev_get(stream.device, op) : NULL;
    if (!dev) return NULL;
    fai_stream *s = stream.id >= 0 && stream.id < FAI_STREAMS ? atomic_load_explicit(&dev->streams[stream.id], memory_order_acquire) : NULL;
    if (s) return s;
    return fai_fail(FA_ERR_VALUE, op, "%s has no stream number %d: make streams by fa_stream_new(device, 0)", fa_device_text(dev->name),
                    stream.id);
}

atomic_bool fai_streams_used;

int fai_stream_id(fa_device device) {
    fai_dev *dev = fai_dev_find(device);
    return dev ? fai_stream_now(dev)->id : 0;
}

int fai_stream_swap(fa_device device, int id) {
    const fai_dev *dev = fai_dev_find(device);
    if (!dev) return 0;
    const int before = fai_tls.stream_of[dev->number];
    fai_tls.stream_of[dev->number] = (uint8_t)id;
    return before;
}

bool fai_stream_join(fa_device device, int from, const char *op) {
    fai_dev *dev = fai_dev_find(device);
    fai_stream *earlier = dev ? atomic_load_explicit(&dev->streams[from], memory_order_acquire) : NULL;
    return !earlier || fai_stream_order(fai_stream_now(dev), earlier, op);
}

bool fai_stream_take_over(fai_buffer *b, int from, const char *op) {
    fai_dev *dev = b->device.type == FA_DEVICE_CPU ? NULL : fai_dev_find(b->device);
    if (!dev || fai_stream_now(dev)->id == from) return true;
    if (b->context && !b->release) fai_block_used_by(dev, b->context, fai_stream_now(dev));
    return fai_stream_join(b->device, from, op);
}

/* ---- making them ---- */

/* Whether the driver knows a handle, asked without a wait: a wrong one would spoil every later wait for the device. */
static bool is_stream(fai_dev *dev, fa_stream_handle handle, const char *op) {
    fa_event_handle event;
    const char *const doing = "looking at a stream of another library";
    int code = dev->backend->event_create(dev->ordinal, &event);
    if (code) return fai_fail_backend(dev, code, op, doing);
    code = dev->backend->event_record(dev->ordinal, event, handle);
    if (code) fai_fail_backend(dev, code, op, doing); /* now: the text is of the last error */
    dev->backend->event_destroy(dev->ordinal, event);
    return code == 0;
}

/* With the lock held. handle: somebody else's stream; NULL: one is made. */
static fai_stream *make_stream(fai_dev *dev, int id, int priority, fa_stream_handle handle, const char *op) {
    const bool external = handle != NULL;
    if (external && !is_stream(dev, handle, op)) return NULL;
    int code = external ? 0 : dev->backend->stream_create(dev->ordinal, priority, &handle);
    if (code) {
        fai_fail_backend(dev, code, op, "making a stream");
        return NULL;
    }
    fai_stream *s = fai_calloc(FAI_TAG_OTHER, sizeof *s);
    if (!s) {
        if (!external) dev->backend->stream_destroy(dev->ordinal, handle);
        return fai_fail_memory(op, sizeof *s);
    }
    atomic_store(&dev->touched, true);
    fai_stream_init(dev, s, id);
    s->handle = handle;
    s->priority = priority;
    s->external = external;
    atomic_store(&fai_streams_used, true);
    return s;
}

fa_stream fa_stream_new(fa_device device, int priority) {
    if (!fai_device_resolve(&device, "stream")) return none;
    if (device.type == FA_DEVICE_CPU) return (fa_stream){device, 0};
    fai_dev *dev = fai_dev_find(device);
    const int high = priority < 0;
    pthread_mutex_lock(&dev->streams_lock);
    const int id = 1 + high * FAI_STREAM_POOL + (int)(dev->turn[high] % FAI_STREAM_POOL);
    fai_stream *s = atomic_load(&dev->streams[id]);
    if (!s) s = make_stream(dev, id, high ? -1 : 0, NULL, "stream");
    if (s) dev->turn[high]++;
    pthread_mutex_unlock(&dev->streams_lock);
    return s ? name_of(s) : none;
}

/* With the lock held: the one with that handle, or one more. */
static fai_stream *adopt(fai_dev *dev, fa_stream_handle handle) {
    for (int id = 0; id < FAI_STREAMS; id++) {
        fai_stream *s = atomic_load(&dev->streams[id]);
        if (s && s->handle == handle) return s;
        if (!s && id > 2 * FAI_STREAM_POOL) return make_stream(dev, id, 0, handle, "stream_external");
    }
    return fai_fail(FA_ERR_RUNTIME, "stream_external", "%s has %d streams of other libraries already, and there can be no more: use them again",
                    fa_device_text(dev->name), FAI_STREAMS - 2 * FAI_STREAM_POOL - 1);
}

fa_stream fa_stream_external(fa_device device, void *handle) {
    if (!fai_device_resolve(&device, "stream_external")) return none;
    if (device.type == FA_DEVICE_CPU) return (fa_stream){device, 0};
    fai_dev *dev = fai_dev_find(device);
    fa_stream_handle theirs;
    memcpy(&theirs, &handle, sizeof theirs);
    pthread_mutex_lock(&dev->streams_lock);
    fai_stream *s = adopt(dev, theirs);
    pthread_mutex_unlock(&dev->streams_lock);
    return s ? name_of(s) : none;
}

/* ---- the current one ---- */

fa_stream fa_default_stream(fa_device device) {
    return fai_device_resolve(&device, "default_stream") ? (fa_stream){device, 0} : none;
}

fa_stream fa_current_stream(fa_device device) {
    if (!fai_device_resolve(&device, "current_stream")) return none;
    if (device.type == FA_DEVICE_CPU) return (fa_stream){device, 0};
    return name_of(fai_stream_now(fai_dev_find(device)));
}

bool fa_set_current_stream(fa_stream stream) {
    if (on_cpu(stream)) return true;
    const fai_stream *s = fai_stream_find(stream, "set_stream");
    if (!s) return false;
    fai_tls.stream_of[s->dev->number] = (uint8_t)s->id;
    fai_tls.current_device[s->dev->name.type] = s->dev->name.index;
    return true;
}

fa_stream_before fa_stream_enter(fa_stream stream) {
    fa_stream_before before = {none, 0};
    if (on_cpu(stream)) return before;
    const fai_stream *s = fai_stream_find(stream, "stream_scope");
    if (!s) return before;
    before = (fa_stream_before){name_of(fai_stream_now(s->dev)), fai_tls.current_device[s->dev->name.type]};
    fa_set_current_stream(stream);
    return before;
}

void fa_stream_leave(const fa_stream_before *before) {
    const fai_dev *dev = before->stream.device.type ? fai_dev_find(before->stream.device) : NULL;
    if (!dev) return;
    fai_tls.stream_of[dev->number] = (uint8_t)before->stream.id;
    fai_tls.current_device[dev->name.type] = (int16_t)before->device_index;
}

/* ---- asking and waiting ---- */

int fa_stream_priority(fa_stream stream) {
    const fai_stream *s = on_cpu(stream) ? NULL : fai_stream_find(stream, "stream_priority");
    return s ? s->priority : 0;
}

void *fa_stream_native(fa_stream stream) {
    fai_stream *s = on_cpu(stream) ? NULL : fai_stream_find(stream, "stream_native");
    void *handle = NULL;
    if (!s) return NULL;
    pthread_mutex_lock(&s->lock);
    s->shown = true; /* nothing is held back from now on: somebody's own launches come between */
    fai_fuse_flush(s);
    memcpy(&handle, &s->handle, sizeof handle);
    pthread_mutex_unlock(&s->lock);
    return handle;
}

bool fa_stream_query(fa_stream stream) {
    bool done = true;
    if (on_cpu(stream)) return true;
    fai_stream *s = fai_stream_find(stream, "stream_query");
    return s && fai_stream_passed(s, "stream_query", &done) && done;
}

bool fa_stream_synchronize(fa_stream stream) {
    if (on_cpu(stream)) return true;
    fai_stream *s = fai_stream_find(stream, "stream_synchronize");
    return s && fai_stream_wait(s, "stream_synchronize");
}

bool fa_stream_wait_stream(fa_stream stream, fa_stream other) {
    if (on_cpu(stream)) return on_cpu(other) || fa_stream_synchronize(other);
    fai_stream *s = fai_stream_find(stream, "stream_wait_stream");
    if (!s || on_cpu(other)) return s != NULL;
    fai_stream *first = fai_stream_find(other, "stream_wait_stream");
    return first && fai_stream_order(s, first, "stream_wait_stream");
}

int fai_stream_await(fai_stream *s, fa_event_handle event) {
    pthread_mutex_lock(&s->lock);
    int code = fai_fuse_flush(s);
    if (!code) code = s->dev->backend->stream_wait_event(s->dev->ordinal, s->handle, event);
    s->place++;
    if (!s->foreign) s->foreign = s->place;
    pthread_mutex_unlock(&s->lock);
    return code;
}

/* Between devices too: a driver's streams may wait for events of its other devices. Where the backends differ, the host waits. */
bool fai_stream_order(fai_stream *later, fai_stream *earlier, const char *op) {
    if (later == earlier) return true;
    if (FAI_UNLIKELY(fai_capture_of(later) || fai_capture_of(earlier))) return fai_capture_order(later, earlier, op);
    if (later->dev->backend != earlier->dev->backend) return fai_stream_wait(earlier, op);
    fa_event_handle event = NULL;
    const fa_backend *b = earlier->dev->backend;
    int code = b->event_create(earlier->dev->ordinal, &event);
    if (code) return fai_fail_backend(earlier->dev, code, op, "making an event");
    pthread_mutex_lock(&earlier->lock);
    code = fai_fuse_flush(earlier);
    if (!code) code = b->event_record(earlier->dev->ordinal, event, earlier->handle);
    pthread_mutex_unlock(&earlier->lock);
    if (!code) code = fai_stream_await(later, event);
    b->event_destroy(earlier->dev->ordinal, event); /* a driver keeps what is queued of it */
    return code == 0 || fai_fail_backend(later->dev, code, op, "making one stream wait for another");
}
