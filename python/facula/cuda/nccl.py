"""Collectives over tensors of several devices of one process, under the names of torch.cuda.nccl. NCCL itself is not used."""
from . import comm

__all__ = ["all_gather", "all_reduce", "broadcast", "is_available", "reduce", "reduce_scatter", "version"]

SUM = 0
_OPS = {0: "add", 1: "mul", 2: "maximum", 3: "minimum", 4: "add"}


def is_available(tensors):
    """Whether NCCL serves these tensors: no. The functions here copy between the devices themselves.

    >>> torch.cuda.nccl.is_available([torch.ones(2, device='cuda')])
    False
    """
    return False


def version():
    """The version of NCCL, which is not used: a NotImplementedError.

    >>> torch.cuda.nccl.version()
    NotImplementedError: NCCL is not used, so it has no version: collectives copy between the devices of one process. It is planned
    """
    raise NotImplementedError("NCCL is not used, so it has no version: collectives copy between the devices of one process. It is planned")


def _together(inputs, op, there):
    import facula
    if op not in _OPS:
        raise ValueError(f"op={op!r} is no reduction: 0 sum, 1 product, 2 maximum, 3 minimum, 4 mean")
    total = inputs[0].to(there)
    for t in inputs[1:]:
        total = getattr(facula, _OPS[op])(total, t.to(there))
    return total / len(inputs) if op == 4 else total


def _is_list(name, inputs):
    if isinstance(inputs, (list, tuple)) and inputs:
        return
    raise TypeError(f"{name}: inputs should be a collection of tensors, one for each device")


def all_reduce(inputs, outputs=None, op=SUM, streams=None, comms=None):
    """Fills each of outputs (inputs, if not given) with the sum of inputs.

    >>> a, b = torch.ones(2, device='cuda:0'), torch.ones(2, device='cuda:1')
    >>> torch.cuda.nccl.all_reduce([a, b])
    >>> b
    tensor([2., 2.], device='cuda:1')
    """
    _is_list("all_reduce", inputs)
    total = _together(inputs, op, inputs[0].device)
    for t in inputs if outputs is None else outputs:
        t.copy_(total)


def reduce(inputs, output=None, root=0, op=SUM, streams=None, comms=None, *, outputs=None):
    """Fills output (the input number root, if not given) with the sum of inputs.

    >>> a, b = torch.ones(2, device='cuda:0'), torch.ones(2, device='cuda:1')
    >>> torch.cuda.nccl.reduce([a, b], root=0)
    >>> a
    tensor([2., 2.], device='cuda:0')
    """
    _is_list("reduce", inputs)
    place = output if output is not None else (inputs if outputs is None else outputs)[root]
    place.copy_(_together(inputs, op, place.device))


def broadcast(inputs, root=0, streams=None, comms=None):
    """Fills all of inputs with the one number root.

    >>> a, b = torch.ones(2, device='cuda:0'), torch.ones(2, device='cuda:1')
    >>> torch.cuda.nccl.broadcast([a * 3, b])
    >>> b
    tensor([3., 3.], device='cuda:1')
    """
    _is_list("broadcast", inputs)
    comm.broadcast(inputs[root], out=[t for i, t in enumerate(inputs) if i != root])


def all_gather(inputs, outputs, streams=None, comms=None):
    """Fills each of outputs with all of inputs, one behind the other along the first dimension.

    >>> a, b = torch.ones(2, device='cuda:0'), torch.ones(2, device='cuda:1')
    >>> c = torch.zeros(4, device='cuda:1')
    >>> torch.cuda.nccl.all_gather([a, b], [c])
    >>> c
    tensor([1., 1., 1., 1.], device='cuda:1')
    """
    _is_list("all_gather", inputs)
    for place in outputs:
        comm.gather(inputs, 0, out=place)


def reduce_scatter(inputs, outputs, op=SUM, streams=None, comms=None):
    """The sum of inputs, cut along the first dimension into outputs.

    >>> a, b = torch.ones(2, device='cuda:0'), torch.ones(2, device='cuda:1')
    >>> c, d = torch.zeros(1, device='cuda:0'), torch.zeros(1, device='cuda:1')
    >>> torch.cuda.nccl.reduce_scatter([a, b], [c, d])
    >>> d
    tensor([2.], device='cuda:1')
    """
    _is_list("reduce_scatter", inputs)
    comm.scatter(_together(inputs, op, inputs[0].device), out=outputs)
