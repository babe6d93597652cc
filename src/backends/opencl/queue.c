/* Queues and events. A queue is one of the driver, in order; a contract's event is the driver's last marker in one.
 *
 * Where a plan is too large for an argument, a launch first writes it into memory of its queue, out of a ring here. The queue runs in
 * order, so that memory may be the same for all launches; the ring's half is used again only when the last write from it is done. */
#include "opencl.h"
#include <string.h>

typedef struct event {
    pthread_mutex_t lock;
    cl_event marker; /* NULL: never recorded */
} event;

int fai_opencl_queue_open(int device, fai_opencl_queue *queue) {
    fai_opencl_device *d = &fai_opencl_devices[device];
    cl_int code = CL_SUCCESS;
    cl_command_queue made = fai_opencl.queue_create(d->context, d->id, CL_QUEUE_PROFILING_ENABLE, &code);
    if (!made) return fai_opencl_failed(device, code, "making a queue of device %d", device);
    if (!d->by_value) {
        const size_t bytes = FAI_OPENCL_PLANS * sizeof(fai_opencl_block);
        queue->plan = fai_opencl.memory_create(d->context, CL_MEM_READ_ONLY, sizeof(fai_opencl_block), NULL, &code);
        if (queue->plan && !(queue->blocks = fai_alloc(FAI_TAG_OTHER, bytes))) code = CL_OUT_OF_HOST_MEMORY;
        if (!queue->plan || !queue->blocks) {
            if (queue->plan) fai_opencl.memory_release(queue->plan);
            queue->plan = NULL;
            fai_opencl.queue_release(made);
            return fai_opencl_failed(device, code, "making a queue of device %d", device);
        }
    }
    __atomic_store_n(&queue->queue, made, __ATOMIC_RELEASE);
    return 0;
}

void fai_opencl_queue_close(fai_opencl_queue *queue) {
    if (!queue->queue) return;
    fai_opencl.finish(queue->queue);
    for (int i = 0; i < 2; i++)
        if (queue->read[i]) fai_opencl.event_release(queue->read[i]);
    if (queue->plan) fai_opencl.memory_release(queue->plan);
    if (queue->blocks) fai_free(FAI_TAG_OTHER, queue->blocks, FAI_OPENCL_PLANS * sizeof(fai_opencl_block));
    fai_opencl.queue_release(queue->queue);
    memset(queue, 0, sizeof *queue);
}

/* OpenCL 1.2 has no priorities. */
int fai_opencl_stream_create(int device, int priority, fa_stream_handle *out) {
    (void)priority;
    *out = NULL;
    int bad = fai_opencl_enter(device);
    if (bad) return bad;
    fai_opencl_queue *queue = fai_calloc(FAI_TAG_OTHER, sizeof *queue);
    if (!queue) return fai_opencl_failed(device, CL_OUT_OF_HOST_MEMORY, "making a queue of device %d", device);
    bad = fai_opencl_queue_open(device, queue);
    if (bad) fai_free(FAI_TAG_OTHER, queue, sizeof *queue);
    else *out = (fa_stream_handle)(void *)queue;
    return bad;
}

int fai_opencl_stream_destroy(int device, fa_stream_handle stream) {
    (void)device;
    if (!stream) return 0;
    fai_opencl_queue_close((fai_opencl_queue *)(void *)stream);
    fai_free(FAI_TAG_OTHER, stream, sizeof(fai_opencl_queue));
    return 0;
}

int fai_opencl_stream_wait(int device, fa_stream_handle stream) {
    int bad = fai_opencl_enter(device);
    if (bad) return bad;
    cl_int code = fai_opencl.finish(fai_opencl_queue_of(device, stream)->queue);
    return code == CL_SUCCESS ? 0 : fai_opencl_failed(device, code, "waiting for device %d", device);
}

/* ---- events ---- */

int fai_opencl_event_create(int device, fa_event_handle *out) {
    *out = NULL;
    int bad = fai_opencl_enter(device);
    if (bad) return bad;
    event *e = fai_calloc(FAI_TAG_OTHER, sizeof *e);
    if (!e) return fai_opencl_failed(device, CL_OUT_OF_HOST_MEMORY, "making an event of device %d", device);
    pthread_mutex_init(&e->lock, NULL);
    *out = (fa_event_handle)(void *)e;
    return 0;
}

int fai_opencl_event_destroy(int device, fa_event_handle handle) {
    event *e = (event *)(void *)handle;
    (void)device;
    if (e->marker) fai_opencl.event_release(e->marker);
    pthread_mutex_destroy(&e->lock);
    fai_free(FAI_TAG_OTHER, e, sizeof *e);
    return 0;
}

int fai_opencl_event_record(int device, fa_event_handle handle, fa_stream_handle stream) {
    event *e = (event *)(void *)handle;
    cl_event marker = NULL;
    int bad = fai_opencl_enter(device);
    if (bad) return bad;
    cl_command_queue queue = fai_opencl_queue_of(device, stream)->queue;
    cl_int code = fai_opencl.marker(queue, 0, NULL, &marker);
    if (code == CL_SUCCESS) code = fai_opencl.flush(queue); /* another queue may wait for it: it must be on its way */
    if (code != CL_SUCCESS) return fai_opencl_failed(device, code, "recording an event on device %d", device);
    pthread_mutex_lock(&e->lock);
    cl_event before = e->marker;
    e->marker = marker;
    pthread_mutex_unlock(&e->lock);
    if (before) fai_opencl.event_release(before);
    return 0;
}

int fai_opencl_event_wait(int device, fa_event_handle handle) {
    event *e = (event *)(void *)handle;
    cl_int code = e->marker ? fai_opencl.event_wait(1, &e->marker) : CL_SUCCESS;
    return code == CL_SUCCESS ? 0 : fai_opencl_failed(device, code, "waiting for an event of device %d", device);
}

int fai_opencl_stream_wait_event(int device, fa_stream_handle stream, fa_event_handle handle) {
    event *e = (event *)(void *)handle;
    int bad = fai_opencl_enter(device);
    if (bad || !e->marker) return bad;
    cl_int code = fai_opencl.barrier(fai_opencl_queue_of(device, stream)->queue, 1, &e->marker, NULL);
    return code == CL_SUCCESS ? 0 : fai_opencl_failed(device, code, "making a stream of device %d wait for an event", device);
}

int fai_opencl_event_query(int device, fa_event_handle handle, bool *done) {
    event *e = (event *)(void *)handle;
    cl_int status = CL_COMPLETE;
    cl_int code = e->marker ? fai_opencl.event_info(e->marker, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL) : CL_SUCCESS;
    if (code == CL_SUCCESS && status < 0) code = status;
    *done = code == CL_SUCCESS && status == CL_COMPLETE;
    return code == CL_SUCCESS ? 0 : fai_opencl_failed(device, code, "asking for an event of device %d", device);
}

int fai_opencl_event_elapsed(int device, fa_event_handle start, fa_event_handle end, float *milliseconds) {
    event *e[2] = {(event *)(void *)start, (event *)(void *)end};
    cl_ulong at[2] = {0, 0};
    *milliseconds = 0;
    for (int i = 0; i < 2; i++) {
        if (!e[i]->marker) return fai_opencl_refused("OpenCL error: one of the two events was never recorded");
        cl_int code = fai_opencl.event_wait(1, &e[i]->marker);
        if (code == CL_SUCCESS) code = fai_opencl.event_profile(e[i]->marker, CL_PROFILING_COMMAND_END, sizeof at[i], &at[i], NULL);
        if (code != CL_SUCCESS) return fai_opencl_failed(device, code, "measuring the time between two events of device %d", device);
    }
    *milliseconds = (float)(((double)at[1] - (double)at[0]) * 1e-6);
    return 0;
}
