/* Streams, events and the worker of each device.
 *
 * A stream is a list of operations. An operation is ready when it is the first of its stream, somebody needs it (or the mode is
 * eager), and the event that it waits for, if any, has come. The worker takes one ready operation after the other; the seed
 * chooses among streams. In lazy mode "needed" is moved by waits only, so nothing runs that nobody has waited for; with a
 * seed other than 0 a wait also lets other streams of the device run on to a place drawn at random, as a
 * real device might.
 *
 * A launch that fails late stops its stream: what is queued behind it is not run, and the next wait for that stream returns
 * the error and drops the rest. Streams that wait for an event of it fail with it. A dead device drops everything. */
#include "sim.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

sim_op *sim_op_new(sim_kind kind, size_t data_bytes) {
    sim_op *op = malloc(sizeof *op + data_bytes);
    if (!op) return NULL;
    memset(op, 0, sizeof *op);
    op->kind = kind;
    op->data_bytes = data_bytes;
    return op;
}

void sim_record_drop(sim_record *record) {
    if (record && --record->refs == 0) free(record);
}

CUstream sim_stream_new(sim_device *device) {
    CUstream stream = calloc(1, sizeof *stream);
    if (!stream) return NULL;
    stream->device = device;
    stream->next = device->streams;
    stream->done = stream->last = sim.seq;
    device->streams = stream;
    return stream;
}

static void stream_forget(CUstream stream) {
    CUstream *link = &stream->device->streams;
    while (*link != stream) link = &(*link)->next;
    *link = stream->next;
    free(stream);
}

void sim_stream_release(CUstream stream) {
    stream->destroyed = true;
    sim_capture_drop(stream);
    if (stream->head)
        sim_demand(stream, stream->last);
    else
        stream_forget(stream);
}

/* ---- who is needed ---- */

/* Lets other streams of the device run on to a random place: only with a seed, which seed 0 is not. */
static void disturb(CUstream stream) {
    sim_device *device = stream->device;
    if (!sim.seed) return;
    for (CUstream s = device->streams; s; s = s->next) {
        if (s == stream || !s->head || sim_draw(&device->random) % 2) continue;
        uint64_t steps = sim_draw(&device->random) % (uint64_t)s->count;
        const sim_op *op = s->head;
        while (steps--) op = op->next;
        if (op->seq > s->needed) s->needed = op->seq;
    }
}

void sim_demand(CUstream stream, uint64_t seq) {
    if (seq <= stream->needed) return;
    stream->needed = seq;
    disturb(stream);
    pthread_cond_broadcast(&sim.work);
}

static bool is_ready(CUstream s, bool *changed) {
    const sim_op *op = s->head;
    if (!op) return false;
    if (s->device->dead) return true;
    if (op->hang) return false;
    if (!sim.eager && op->seq > s->needed && !s->destroyed) return false;
    if (op->kind != SIM_WAIT || op->record->done) return true;
    if (op->record->stream->needed < op->record->seq) {
        sim_demand(op->record->stream, op->record->seq);
        *changed = true;
    }
    return false;
}

static CUstream choose(sim_device *device) {
    CUstream chosen = NULL;
    bool changed;
    do {
        uint64_t ready = 0;
        changed = false;
        chosen = NULL;
        for (CUstream s = device->streams; s; s = s->next)
            if (is_ready(s, &changed) && sim_draw(&device->random) % ++ready == 0) chosen = s;
    } while (!chosen && changed);
    return chosen;
}

/* ---- the worker ---- */

static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Copies to it in the queues of other devices have nowhere to go from now on, even if it comes back. */
static void strand_copies(const sim_device *device) {
    for (int i = 0; i < sim.ndevices; i++)
        for (CUstream s = sim.device[i].streams; s; s = s->next)
            for (sim_op *op = s->head; op; op = op->next)
                if (op->peer == device) op->peer = NULL;
}

void sim_kill(sim_device *device, CUresult error, const char *text) {
    device->dead = error;
    snprintf(device->dead_text, sizeof device->dead_text, "%s", text);
    strand_copies(device);
    pthread_cond_broadcast(&sim.work);
}

static void fail_stream(CUstream stream, CUresult error) {
    stream->error = error;
    stream->failure = ++sim.failures;
    sim.told[stream->failure % SIM_FAILURES] = false;
}

static void take_failure(CUstream stream, const sim_record *record) {
    const bool own = record->device == stream->device->ordinal;
    if (record->error) {
        stream->error = record->error;
        stream->failure = record->failure;
    } else if (record->lost && !own) {
        fail_stream(stream, CUDA_ERROR_LAUNCH_FAILED);
    } else {
        return;
    }
    snprintf(stream->text, sizeof stream->text, "%.400s, in a stream ", record->text);
    const size_t n = strlen(stream->text);
    if (own) snprintf(stream->text + n, sizeof stream->text - n, "that this one waited for");
    else snprintf(stream->text + n, sizeof stream->text - n, "of device %d that this one waited for", record->device);
}

/* Events come and waits pass even in a stream that failed; they carry the error on. */
static void finish_marks(CUstream stream, const sim_op *op) {
    sim_record *record = op->record;
    if (op->kind == SIM_RECORD) {
        record->done = true;
        record->error = stream->error;
        record->failure = stream->failure;
        record->lost = stream->device->dead != CUDA_SUCCESS;
        if (stream->error) snprintf(record->text, sizeof record->text, "%s", stream->text);
        else if (record->lost) snprintf(record->text, sizeof record->text, "%s", stream->device->dead_text);
        record->nanoseconds = now();
        record->stream = NULL;
        if (record->awaited) pthread_cond_broadcast(&sim.done);
        pthread_cond_broadcast(&sim.work); /* other devices' streams may wait for it */
    } else if (op->kind == SIM_WAIT && !stream->error) {
        take_failure(stream, record);
    }
    sim_record_drop(record);
}

static void pop(CUstream stream) {
    sim_op *op = stream->head;
    stream->head = op->next;
    if (!op->next) stream->tail = NULL;
    stream->count--;
    stream->bytes -= op->data_bytes;
    stream->done = op->seq;
    free(op);
    if (!stream->head || (stream->awaited && stream->done >= stream->awaited)) { /* each wake-up that nobody needs costs more than a small kernel */
        stream->awaited = 0;
        pthread_cond_broadcast(&sim.done);
    }
    if (stream->destroyed && !stream->head) stream_forget(stream);
}

/* Runs the first operation of the stream; called with the lock, which is given up while the work is done. */
static void step(sim_device *device, CUstream stream) {
    const sim_op *op = stream->head;
    sim_prepared prepared;
    char why[SIM_TEXT] = "";
    bool dropped = device->dead || stream->error || op->seq <= stream->discard;
    CUresult bad = CUDA_SUCCESS;
    if (!dropped && op->fail_late) {
        snprintf(stream->text, sizeof stream->text, "kernel %s (launch %llu) failed: an injected fault", op->kernel->name,
                 (unsigned long long)op->number);
        fail_stream(stream, CUDA_ERROR_LAUNCH_FAILED);
    } else if (!dropped && op->kind == SIM_BETWEEN && !op->peer) {
        snprintf(stream->text, sizeof stream->text, "a copy of %zu bytes: the device that they were for was lost", op->bytes);
        fail_stream(stream, CUDA_ERROR_LAUNCH_FAILED);
    } else if (!dropped && (bad = sim_prepare(device, op, &prepared, why, sizeof why)) == CUDA_SUCCESS) {
        if (op->kind == SIM_LAUNCH) sim.counts.run++;
        const bool alone = op->kind != SIM_BETWEEN; /* memory of another device may go while the lock is not held */
        if (alone) pthread_mutex_unlock(&sim.lock);
        sim_run(op, &prepared);
        if (alone) pthread_mutex_lock(&sim.lock);
    }
    if (bad != CUDA_SUCCESS) sim_kill(device, bad, why);
    if (op->kind == SIM_RECORD || op->kind == SIM_WAIT) finish_marks(stream, op);
    pop(stream);
}

static void *worker(void *argument) {
    sim_device *device = argument;
    pthread_mutex_lock(&sim.lock);
    for (;;) {
        CUstream stream = choose(device);
        if (stream)
            step(device, stream);
        else if (device->stop)
            break;
        else
            pthread_cond_wait(&sim.work, &sim.lock);
    }
    pthread_mutex_unlock(&sim.lock);
    return NULL;
}

CUresult sim_start(sim_device *device) {
    enum { STACK = 16 << 20 }; /* kernels keep a work-group's values on it */
    pthread_attr_t attributes;
    sigset_t all, old;
    if (!sim_stream_new(device)) return sim_fail(CUDA_ERROR_OUT_OF_MEMORY, "the host has no memory for a stream");
    device->stop = false;
    if (!device->lost) device->dead = CUDA_SUCCESS;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old); /* signals are for the program's own threads */
    int bad = pthread_create(&device->worker, &attributes, worker, device);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attributes);
    if (!bad) return CUDA_SUCCESS;
    stream_forget(device->streams);
    return sim_fail(CUDA_ERROR_OUT_OF_MEMORY, "the host has no thread for device %d", device->ordinal);
}

void sim_stop(sim_device *device) {
    pthread_mutex_lock(&sim.lock);
    sim_drain(device);
    device->stop = true;
    pthread_cond_broadcast(&sim.work);
    pthread_mutex_unlock(&sim.lock);
    pthread_join(device->worker, NULL);
    pthread_mutex_lock(&sim.lock);
    while (device->streams) stream_forget(device->streams);
    sim_free_all(device);
    pthread_mutex_unlock(&sim.lock);
}

/* ---- queueing and waiting ---- */

static void wait_until(CUstream stream, uint64_t seq) {
    sim_demand(stream, seq);
    while (stream->done < seq) {
        if (!stream->awaited || seq < stream->awaited) stream->awaited = seq;
        pthread_cond_wait(&sim.done, &sim.lock);
    }
}

/* A full queue makes the caller wait, as a real driver's does. */
void sim_push(CUstream stream, sim_op *op) {
    if (stream->capture) {
        sim_capture(stream, op);
        return;
    }
    if (stream->count >= SIM_QUEUE_OPS) {
        const sim_op *half = stream->head;
        for (int i = 0; i < SIM_QUEUE_OPS / 2; i++) half = half->next;
        wait_until(stream, half->seq);
    }
    if (stream->bytes > SIM_QUEUE_BYTES) wait_until(stream, stream->last);
    op->seq = stream->last = ++sim.seq;
    if (op->kind == SIM_RECORD) {
        op->record->seq = op->seq;
        op->record->stream = op->record->owner = stream;
        op->record->device = stream->device->ordinal;
    }
    if (stream->tail)
        stream->tail->next = op;
    else
        stream->head = op;
    stream->tail = op;
    stream->count++;
    stream->bytes += op->data_bytes;
    if (sim.eager) pthread_cond_broadcast(&sim.work);
}

static CUresult take_error(CUstream stream) {
    CUresult error = stream->error;
    if (!error) return CUDA_SUCCESS;
    sim_fail(error, "%s", stream->text);
    sim.told[stream->failure % SIM_FAILURES] = true;
    stream->error = CUDA_SUCCESS;
    stream->discard = stream->last;
    return error;
}

CUresult sim_wait(CUstream stream) {
    sim_device *device = stream->device;
    wait_until(stream, stream->last);
    return device->dead ? sim_fail(device->dead, "%s", device->dead_text) : take_error(stream);
}

void sim_drain(sim_device *device) {
    for (CUstream s = device->streams; s; s = s->next) sim_demand(s, s->last);
    for (;;) {
        CUstream s = device->streams;
        while (s && !s->head) s = s->next;
        if (!s) return;
        pthread_cond_wait(&sim.done, &sim.lock);
    }
}

/* The caller holds a reference to the record. The host is told of a failure once: here, or by a wait for the stream. */
CUresult sim_wait_record(sim_record *record, sim_device *device) {
    if (!record->done) sim_demand(record->stream, record->seq);
    record->awaited = true;
    while (!record->done) pthread_cond_wait(&sim.done, &sim.lock);
    if (device->dead) return sim_fail(device->dead, "%s", device->dead_text);
    CUresult error = record->error;
    if (!error || sim.told[record->failure % SIM_FAILURES]) return CUDA_SUCCESS;
    sim.told[record->failure % SIM_FAILURES] = true;
    sim_fail(error, "%s", record->text);
    for (CUstream s = device->streams; s; s = s->next)
        if (s == record->owner && s->failure == record->failure) take_error(s);
    return error;
}
