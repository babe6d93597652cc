/* Two devices: whether one can use the other's memory, and copies from one to the other. Such a copy lies in a stream of the device that
 * is read, and the lock is held while it runs, since the other device may be lost and its memory go. */
#include "sim.h"
#include <stdlib.h>

SIM_API CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer) {
    CUresult bad = sim_check_device(device);
    if (!bad) bad = sim_check_device(peer);
    *can = !bad && device != peer && !sim.strangers;
    return bad;
}

SIM_API CUresult cuCtxEnablePeerAccess(CUcontext context, unsigned flags) {
    const sim_device *peer = (sim_device *)(void *)context;
    CUstream stream = NULL;
    CUresult bad = sim_enter_stream(&stream);
    if (bad) return bad;
    sim_device *device = stream->device;
    if (flags || !peer || peer == device || sim.strangers)
        return sim_leave(sim_fail(CUDA_ERROR_INVALID_VALUE, "device %d can't reach that context's memory", device->ordinal));
    const uint64_t bit = (uint64_t)1 << peer->ordinal;
    bad = device->reaches & bit ? sim_fail(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "%s", "") : CUDA_SUCCESS;
    device->reaches |= bit;
    return sim_leave(bad);
}

static CUresult check_peer(const sim_device *there, CUdeviceptr to, size_t bytes) {
    if (there->dead) return sim_fail(there->dead, "%s", there->dead_text);
    if (sim_translate(there, to, bytes)) return CUDA_SUCCESS;
    return sim_fail(CUDA_ERROR_INVALID_VALUE, "bytes [0x%llx, 0x%llx) do not lie in one live allocation of device %d", to, to + bytes,
                    there->ordinal);
}

SIM_API CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes,
                                   CUstream stream) {
    sim_device *there = (sim_device *)(void *)to_context, *here = (sim_device *)(void *)from_context;
    sim_op *op;
    if (bytes == 0) return CUDA_SUCCESS;
    if (!to || !from || !there || !here) return sim_fail(CUDA_ERROR_INVALID_VALUE, "an address or a context is null");
    CUresult bad = sim_begin_copy(SIM_BETWEEN, 0, from, bytes, 0, &stream, &op);
    if (bad) return bad;
    bad = check_peer(there, to, bytes);
    if (!bad && here != stream->device)
        bad = sim_fail(CUDA_ERROR_INVALID_VALUE, "the simulator copies to another device in a stream of the device that is read only");
    if (bad) {
        free(op);
        return sim_leave(bad);
    }
    op->pointer[0] = to;
    op->peer = there;
    sim.counts.between++;
    sim_push(stream, op);
    return sim_leave(CUDA_SUCCESS);
}
