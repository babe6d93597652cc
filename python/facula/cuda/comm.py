"""Copies between devices of one process: broadcast, scatter, gather and sums. Gradients go back the way the copies came."""
import warnings

from .. import _C
from .._device_module import device_or_index as _device

__all__ = ["broadcast", "broadcast_coalesced", "gather", "reduce_add", "reduce_add_coalesced", "scatter"]


def _placed(d):
    """The device with its index: what a tensor there would say."""
    d = _device(d)
    return _C.device(d.type, _C._current_device(d)) if d.index is None and d.type != "cpu" else d


def _one_of(devices, out):
    if (devices is None) == (out is None):
        raise RuntimeError(f"Exactly one of 'devices' and 'out' must be specified, but got devices={devices} and out={out}")


def _fill(parts, out):
    for part, place in zip(parts, out):
        if part.shape != place.shape:
            raise RuntimeError(f"Expected out tensors to have the shapes of the results: {list(place.shape)} was given for {list(part.shape)}")
        place.copy_(part)
    return tuple(out)


def broadcast(tensor, devices=None, *, out=None):
    """The tensor on each of several devices, as a tuple; where it is on one of them already, it is that one's result.

    devices: indices or devices. out: tensors to be filled instead.

    >>> torch.cuda.comm.broadcast(torch.ones(2), [0, 1])
    (tensor([1., 1.], device='cuda:0'), tensor([1., 1.], device='cuda:1'))
    """
    _one_of(devices, out)
    if out is not None:
        return _fill([tensor] * len(out), out)
    return tuple(tensor.to(_device(d)) for d in devices)


def broadcast_coalesced(tensors, devices, buffer_size=10485760):
    """broadcast of many tensors: for each device a list of them. buffer_size is for PyTorch's sake: nothing is packed together.

    >>> torch.cuda.comm.broadcast_coalesced([torch.ones(1)], [0, 1])
    ([tensor([1.], device='cuda:0')], [tensor([1.], device='cuda:1')])
    """
    return tuple([t.to(_device(d)) for t in tensors] for d in devices)


def reduce_add(inputs, destination=None):
    """The sum of tensors that lie on several devices, in their order, on one of these; destination: its index, the current one if not given.

    >>> torch.cuda.comm.reduce_add([torch.ones(2, device='cuda:0'), torch.ones(2, device='cuda:1')], 1)
    tensor([2., 2.], device='cuda:1')
    """
    inputs = list(inputs)
    if not inputs:
        raise ValueError("reduce_add(): argument 'inputs' must be tensors, but got none")
    for i, t in enumerate(inputs):
        if t.device.type == "cpu":
            raise AssertionError("reduce_add expects all inputs to be on GPUs")
        if t.shape != inputs[0].shape:
            got, expected = "x".join(map(str, t.shape)), "x".join(map(str, inputs[0].shape))
            raise ValueError(f"input {i} has invalid size: got {got}, but expected {expected}")
    there = _placed(inputs[0].device.type if destination is None else destination)
    if there not in [t.device for t in inputs]:
        raise RuntimeError(f"reduce_add expects destination to be on the same GPU with one of the tensors: {there} has none of them")
    total = inputs[0].to(there)
    for t in inputs[1:]:
        total = total + t.to(there)
    return total


def reduce_add_coalesced(inputs, destination=None, buffer_size=10485760):
    """reduce_add of the first tensors of every list, of the second ones, and so on, as a tuple.

    >>> there = [[torch.ones(2, device=d)] for d in ('cuda:0', 'cuda:1')]
    >>> torch.cuda.comm.reduce_add_coalesced(there, 0)
    (tensor([2., 2.], device='cuda:0'),)
    """
    return tuple(reduce_add(same, destination) for same in zip(*inputs))


def scatter(tensor, devices=None, chunk_sizes=None, dim=0, streams=None, *, out=None):
    """The tensor cut along dim into a piece for each device, as a tuple. chunk_sizes: the sizes of the pieces, equal ones if not given.

    streams: for each device the stream that does the copy. out: tensors to be filled instead; their sizes along dim are the pieces'.

    >>> torch.cuda.comm.scatter(torch.arange(4.), [0, 1])
    (tensor([0., 1.], device='cuda:0'), tensor([2., 3.], device='cuda:1'))
    """
    _one_of(devices, out)
    if out is not None:
        if chunk_sizes is not None:
            raise RuntimeError(f"'chunk_sizes' must not be specified when 'out' is specified, but got chunk_sizes={chunk_sizes}")
        return _fill(tensor.split([t.shape[dim] for t in out], dim), out)
    places = [_device(d) for d in devices]
    if chunk_sizes is None:
        parts = tensor.chunk(len(places), dim)
    elif len(chunk_sizes) != len(places):
        raise RuntimeError(f"Expected devices and chunk_sizes to be of same length, but got len(devices) = {len(places)} and "
                           f"len(chunk_sizes) = {len(chunk_sizes)}")
    else:
        parts = tensor.split(list(chunk_sizes), dim)
    results = []
    for i, (part, place) in enumerate(zip(parts, places)):
        if streams is None or streams[i] is None:
            results.append(part.to(place))
        else:
            with streams[i]:
                results.append(part.to(place, non_blocking=True))
    return tuple(results)


def gather(tensors, dim=0, destination=None, *, out=None):
    """Tensors of several devices in one, side by side along dim, on destination: an index, a device or "cpu"; the current device if not given.

    >>> torch.cuda.comm.gather([torch.ones(1, device='cuda:0'), torch.zeros(1, device='cuda:1')], destination='cpu')
    tensor([1., 0.])
    """
    if out is not None:
        if destination is not None:
            raise RuntimeError(f"'destination' must not be specified when 'out' is specified, but got destination={destination}")
        return _fill([_C.cat([t.to(out.device) for t in tensors], dim)], [out])[0]
    if destination == -1:
        warnings.warn('Using -1 to represent CPU tensor is deprecated. Please use a device object or string instead, e.g., "cpu".',
                      FutureWarning, stacklevel=2)
        destination = "cpu"
    there = _placed("cuda" if destination is None else destination)
    return _C.cat([t.to(there) for t in tensors], dim)
