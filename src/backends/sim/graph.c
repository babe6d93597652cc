/* Graphs of the simulated driver: what is put into a stream while it captures, kept as a list, and put into a stream again at each launch.
 *
 * Only what Facula captures is known: launches, copies and fills of one stream. A copy from pageable memory is refused, since a real
 * driver may read it at any launch; so are events, waits and copies between devices. Addresses are checked when the work runs, as always: a graph that outlives its memory is caught. */
#include "sim.h"
#include <stdlib.h>
#include <string.h>

struct CUgraph_st { /* a CUgraph, and, after instantiation, a CUgraphExec too */
    sim_device *device;
    int refs;
    bool invalid;
    sim_op *head, **end;
};

static void drop(struct CUgraph_st *g) {
    if (--g->refs) return;
    for (sim_op *op = g->head, *next; op; op = next) {
        next = op->next;
        free(op);
    }
    free(g);
}

void sim_capture_drop(CUstream stream) {
    if (stream->capture) drop(stream->capture);
    stream->capture = NULL;
}

static CUgraph graph_of(CUgraphExec exec) { return (CUgraph)(void *)exec; }

void sim_capture(CUstream stream, sim_op *op) {
    struct CUgraph_st *g = stream->capture;
    const bool pageable = op->kind == SIM_TO_DEVICE && !op->host;
    if (pageable || op->kind == SIM_BETWEEN || op->kind == SIM_RECORD || op->kind == SIM_WAIT) {
        g->invalid = true;
        sim_record_drop(op->record);
        free(op);
        return;
    }
    *g->end = op;
    g->end = &op->next;
}

SIM_API CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
    CUresult bad = sim_enter_stream(&stream);
    if (bad) return bad;
    if (mode != CU_STREAM_CAPTURE_MODE_RELAXED)
        return sim_leave(sim_fail(CUDA_ERROR_NOT_SUPPORTED, "the simulator captures in the relaxed mode only"));
    if (!stream->next) return sim_leave(sim_fail(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "the NULL stream can't be captured"));
    if (stream->capture)
        return sim_leave(sim_fail(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "the stream is being captured already"));
    struct CUgraph_st *g = calloc(1, sizeof *g);
    if (!g) return sim_leave(sim_fail(CUDA_ERROR_OUT_OF_MEMORY, "the host has no memory for a graph"));
    g->device = stream->device;
    g->refs = 1;
    g->end = &g->head;
    stream->capture = g;
    return sim_leave(CUDA_SUCCESS);
}

SIM_API CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
    *graph = NULL;
    CUresult bad = sim_enter_stream(&stream);
    if (bad) return bad;
    struct CUgraph_st *g = stream->capture;
    if (!g) return sim_leave(sim_fail(CUDA_ERROR_ILLEGAL_STATE, "the stream is not being captured"));
    stream->capture = NULL;
    if (g->invalid) {
        drop(g);
        return sim_leave(
            sim_fail(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "something was put into the stream that can't be captured"));
    }
    *graph = g;
    return sim_leave(CUDA_SUCCESS);
}

SIM_API CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
    *exec = NULL;
    CUresult bad = sim_enter_stream(NULL);
    if (bad) return bad;
    if (flags) return sim_leave(sim_fail(CUDA_ERROR_NOT_SUPPORTED, "the simulator instantiates without flags only"));
    graph->refs++;
    *exec = (CUgraphExec)(void *)graph;
    return sim_leave(CUDA_SUCCESS);
}

static sim_op *copy_of(const sim_op *op) {
    sim_op *copy = malloc(sizeof *op + op->data_bytes);
    if (copy) memcpy(copy, op, sizeof *op + op->data_bytes);
    if (copy) copy->next = NULL;
    return copy;
}

/* All of it or nothing. */
static sim_op *copy_all(const struct CUgraph_st *g) {
    sim_op *head = NULL, **end = &head;
    for (const sim_op *op = g->head; op; op = op->next) {
        sim_op *copy = copy_of(op);
        if (copy) {
            *end = copy;
            end = &copy->next;
            continue;
        }
        for (sim_op *next; head; head = next) {
            next = head->next;
            free(head);
        }
        return NULL;
    }
    return head;
}

SIM_API CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
    const struct CUgraph_st *g = graph_of(exec);
    int number;
    CUresult bad = sim_enter_stream(&stream);
    if (bad) return bad;
    if (stream->device != g->device)
        bad = sim_fail(CUDA_ERROR_INVALID_HANDLE, "the graph belongs to device %d", g->device->ordinal);
    if (!bad) bad = sim_maybe_lost();
    if (!bad && sim_fault_now(SIM_FAULT_LAUNCH, &number))
        bad = sim_fail(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "a graph: injected fault launch:%d", number);
    sim_op *op = bad ? NULL : copy_all(g);
    if (!bad && !op && g->head) bad = sim_fail(CUDA_ERROR_OUT_OF_MEMORY, "the host has no memory for a queued graph");
    for (sim_op *next; !bad && op; op = next) {
        next = op->next;
        op->next = NULL;
        if (op->kind == SIM_LAUNCH) sim_count_launch(op);
        sim_push(stream, op);
    }
    return sim_leave(bad);
}

static CUresult destroy(struct CUgraph_st *g) {
    pthread_mutex_lock(&sim.lock);
    drop(g);
    pthread_mutex_unlock(&sim.lock);
    return CUDA_SUCCESS;
}

SIM_API CUresult cuGraphExecDestroy(CUgraphExec exec) { return destroy(graph_of(exec)); }
SIM_API CUresult cuGraphDestroy(CUgraph graph) { return destroy(graph); }
