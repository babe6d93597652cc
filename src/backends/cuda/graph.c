/* Graphs of the cuda backend: the contract's four functions over the driver's stream capture. The library captures in a stream of its own that
 * nothing else goes into, so the relaxed mode is right: no call of another thread can spoil the capture, and none is forbidden. */
#include "cuda.h"

int fai_cuda_graph_begin(int device, fa_stream_handle stream) {
    int bad = fai_cuda_enter(device);
    if (bad) return bad;
    CUresult code = fai_cuda.capture_begin((CUstream)stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    return code == CUDA_SUCCESS ? 0 : fai_cuda_failed(code, "capturing a stream of device %d", device);
}

/* The graph itself is needed only until there is something that can be launched. */
int fai_cuda_graph_end(int device, fa_stream_handle stream, fa_graph_handle *out) {
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    *out = NULL;
    int bad = fai_cuda_enter(device);
    if (bad) return bad;
    CUresult code = fai_cuda.capture_end((CUstream)stream, &graph);
    if (code == CUDA_SUCCESS) code = fai_cuda.graph_instantiate(&exec, graph, 0);
    if (graph) fai_cuda.graph_destroy(graph);
    if (code != CUDA_SUCCESS) return fai_cuda_failed(code, "making a graph on device %d", device);
    *out = (fa_graph_handle)exec;
    return 0;
}

int fai_cuda_graph_launch(int device, fa_graph_handle graph, fa_stream_handle stream) {
    int bad = fai_cuda_enter(device);
    if (bad) return bad;
    CUresult code = fai_cuda.graph_launch((CUgraphExec)graph, (CUstream)stream);
    return code == CUDA_SUCCESS ? 0 : fai_cuda_failed(code, "launching a graph on device %d", device);
}

int fai_cuda_graph_destroy(int device, fa_graph_handle graph) {
    int bad = fai_cuda_enter(device);
    if (bad) return bad;
    CUresult code = fai_cuda.graph_exec_destroy((CUgraphExec)graph);
    return code == CUDA_SUCCESS ? 0 : fai_cuda_failed(code, "destroying a graph of device %d", device);
}
