"""torch.nn.parallel: one model on several devices."""

import copy
import warnings

from ... import _C
from ..._nested import leaves
from ..modules.module import Module

__all__ = ["replicate", "scatter", "parallel_apply", "gather", "data_parallel", "DataParallel", "DistributedDataParallel"]


def _device(d):
    """A device of what users name one by; a number is that of an accelerator."""
    if not isinstance(d, int):
        return _C.device(d)
    kind = _C._accelerator()
    return _C.device("cuda" if kind is None else kind.type, d)


def _index(d):
    """The number of an accelerator."""
    if isinstance(d, int):
        return d
    d = _C.device(d)
    if d.type == "cpu":
        raise ValueError(f"Expected a non cpu device, but got: {d}. Name an accelerator by its number: device_ids=[0, 1]")
    return d.index or 0


def _has_tensor(value):
    return any(isinstance(one, _C.Tensor) for one in leaves(value))


def replicate(network, devices, detach=False):
    """Copies of a network on several devices; their gradients come back to the network's parameters.

    >>> net = nn.Linear(2, 2).cuda()
    >>> [copy.weight.device.index for copy in nn.parallel.replicate(net, [0, 1])]
    [0, 1]
    """
    return [_replica(network, _device(d), detach, {}) for d in devices]


def _replica(module, device, detach, done):
    if id(module) in done:
        return done[id(module)]
    made = done[id(module)] = copy.copy(module)
    for name, child in module._modules.items():
        if child is not None:
            made._modules[name] = _replica(child, device, detach, done)
    for source, target in ((module._parameters, made._parameters), (module._buffers, made._buffers)):
        for name, t in source.items():
            if t is not None:
                target[name] = t.detach().to(device) if detach else t.to(device)
    return made


def scatter(inputs, target_gpus, dim=0):
    """Tensors cut into pieces along dim, one for each device; other things are given to all.

    >>> [piece.tolist() for piece in nn.parallel.scatter(torch.arange(4), [0, 1])]
    [[0, 1], [2, 3]]
    """
    devices = [_device(d) for d in target_gpus]

    def cut(x):
        if isinstance(x, _C.Tensor):
            return [piece.to(d) for piece, d in zip(x.chunk(len(devices), dim), devices)]
        if isinstance(x, tuple) and hasattr(x, "_fields"):
            return [type(x)(*parts) for parts in zip(*map(cut, x))]
        if isinstance(x, (tuple, list)) and x:
            return [type(x)(parts) for parts in zip(*map(cut, x))]
        if isinstance(x, dict) and x:
            return [type(x)(parts) for parts in zip(*map(cut, x.items()))]
        return [x for _ in devices]

    return cut(inputs)


def parallel_apply(modules, inputs, kwargs_tup=None, devices=None):
    """Each module on its inputs; devices work at the same time, since a call only hands work to its queue. Meanwhile the device of a module's
    inputs, or that of devices, is the current one. An exception tells which of the modules it comes from.

    >>> nn.parallel.parallel_apply([nn.ReLU(), nn.Identity()], [torch.tensor(-1.0), torch.tensor(-1.0)])
    [tensor(0.), tensor(-1.)]
    """
    kwargs_tup = kwargs_tup or [{}] * len(modules)
    if not len(modules) == len(inputs) == len(kwargs_tup) or len(devices or modules) != len(modules):
        raise AssertionError(f"The number of modules {len(modules)} is not equal to the number of inputs {len(inputs)}, of keyword arguments {len(kwargs_tup)}"
                             " or of devices")
    devices = [None if d is None else _device(d) for d in devices or [None] * len(modules)]
    return [_apply(i, *one) for i, one in enumerate(zip(modules, inputs, kwargs_tup, devices))]


def _apply(number, module, given, named, device):
    from ... import accelerator

    given = given if isinstance(given, (tuple, list)) else (given,)
    if device is None:
        device = next((t.device for t in leaves((given, named)) if isinstance(t, _C.Tensor)), None)
    here = None if device is None or device.type == "cpu" else device.index
    try:
        with accelerator.device_index(here):
            return module(*given, **named)
    except Exception as error:
        text = f"Caught {type(error).__name__} in replica {number} on device {here}.\n{error}"
        try:
            told = type(error)(text)
        except TypeError:  # one that is made of something else
            told = RuntimeError(text)
        raise told from error


def gather(outputs, target_device, dim=0):
    """Results of all devices as one, on one device.

    >>> nn.parallel.gather([torch.ones(1, device='cuda:0'), torch.zeros(1, device='cuda:1')], 'cpu')
    tensor([1., 0.])
    """
    device = _device(target_device)
    first = outputs[0]
    if isinstance(first, _C.Tensor):
        parts = [o.to(device) for o in outputs]
        if all(o.dim() == 0 for o in parts) and dim == 0:
            warnings.warn(
                "Was asked to gather along dimension 0, but all input tensors were scalars; will instead unsqueeze and return a"
                " vector.",
                stacklevel=2,
            )
            return _C.stack(parts)
        return _C.cat(parts, dim)
    if first is None:
        return None
    if isinstance(first, dict):
        if any(o.keys() != first.keys() for o in outputs):
            raise ValueError("All dicts must have the same number of keys, and the same ones")
        return type(first)((k, gather([o[k] for o in outputs], target_device, dim)) for k in first)
    if not isinstance(first, (tuple, list)):
        raise TypeError(f"'{type(first).__name__}' object is not iterable: what a module of several devices gives is put together, so it can only be tensors, None, "
                        "and tuples, lists and dicts of them")
    parts = [gather(list(o), target_device, dim) for o in zip(*outputs)]
    return type(first)(*parts) if hasattr(first, "_fields") else type(first)(parts)


_said = False


class DataParallel(Module):
    """DataParallel(module, device_ids=None, output_device=None, dim=0)

    Cuts the input into pieces, one for each device, and runs a copy of the module on each. device_ids: all accelerators, if not given.

    >>> net = nn.DataParallel(nn.Linear(3, 2).cuda())
    >>> net(torch.ones(4, 3, device='cuda')).shape
    torch.Size([4, 2])
    """

    def __init__(self, module, device_ids=None, output_device=None, dim=0):
        global _said
        super().__init__()
        kind = _C._accelerator()
        self.module, self.dim = module, dim
        if kind is None:
            self.device_ids = []
            return
        if device_ids is None:
            from ... import accelerator

            device_ids = list(range(accelerator.device_count()))
        if not device_ids:
            raise RuntimeError("no available devices were found")
        self.device_ids = [_index(d) for d in device_ids]
        self.kind = kind.type
        output_device = self.device_ids[0] if output_device is None else output_device
        self.output_device = _index(output_device)
        if len(self.device_ids) > 1 and not _said:
            _said = True
            warnings.warn(
                "DataParallel runs all devices from one Python thread; PyTorch recommends DistributedDataParallel, which is"
                " planned in Facula",
                stacklevel=2,
            )
        if len(self.device_ids) == 1:
            self.module.to(self._named(self.device_ids[0]))

    def _named(self, index):
        return _C.device(self.kind, index)

    def forward(self, *inputs, **kwargs):
        if not self.device_ids:
            return self.module(*inputs, **kwargs)
        first = self._named(self.device_ids[0])
        for t in [*self.module.parameters(), *self.module.buffers()]:
            if t.device != first:
                raise RuntimeError(
                    f"module must have its parameters and buffers on device {first} (device_ids[0]) but found one of them on"
                    f" device: {t.device}. Move it before the call: model.to('{first}')"
                )
        devices = [self._named(i) for i in self.device_ids]
        if len(devices) == 1:
            return self.module(*scatter(inputs, devices, self.dim)[0] if inputs else (), **(scatter(kwargs, devices, self.dim)[0] if kwargs else {}))
        pieces = scatter(inputs, devices, self.dim) if inputs else []
        named = scatter(kwargs, devices, self.dim) if kwargs else []
        cut = [len(parts) for parts, given in ((pieces, inputs), (named, kwargs)) if _has_tensor(given)]
        n = max(cut) if cut else max(len(pieces), len(named), 1)  # what is no tensor goes to each device, but makes no piece of its own
        pieces = (list(pieces) + [()] * n)[:n]
        named = (list(named) + [{}] * n)[:n]
        outputs = parallel_apply(replicate(self.module, devices[:n]), pieces, named, devices[:n])
        return gather(outputs, self._named(self.output_device), self.dim)


def data_parallel(module, inputs, device_ids=None, output_device=None, dim=0, module_kwargs=None):
    """One call of a module on several devices.

    >>> nn.parallel.data_parallel(nn.ReLU(), torch.tensor([-1.0, 2.0], device='cuda'))
    tensor([0., 2.], device='cuda:0')
    """
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    return DataParallel(module, device_ids, output_device, dim)(*inputs, **(module_kwargs or {}))


class DistributedDataParallel(Module):
    """Planned: training over several processes.

    >>> nn.parallel.DistributedDataParallel(nn.Linear(1, 1))
    NotImplementedError: DistributedDataParallel is planned; it is not in Facula yet. nn.DataParallel runs on several devices of one process.
    """

    def __init__(self, *args, **kwargs):
        raise NotImplementedError(
            "DistributedDataParallel is planned; it is not in Facula yet. nn.DataParallel runs on several devices of one"
            " process."
        )
