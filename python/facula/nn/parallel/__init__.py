"""torch.nn.parallel: one model on several devices."""

import copy
import warnings

from ... import _C
from ..._device_module import device_or_index as _device
from ..modules.module import Module

__all__ = ["replicate", "scatter", "parallel_apply", "gather", "data_parallel", "DataParallel", "DistributedDataParallel"]


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
    """Each module on its inputs; devices work at the same time, since a call only hands work to its queue.

    >>> nn.parallel.parallel_apply([nn.ReLU(), nn.Identity()], [torch.tensor(-1.0), torch.tensor(-1.0)])
    [tensor(0.), tensor(-1.)]
    """
    kwargs_tup = kwargs_tup or [{}] * len(modules)
    return [m(*(x if isinstance(x, (tuple, list)) else (x,)), **k) for m, x, k in zip(modules, inputs, kwargs_tup)]


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
        return type(first)((k, gather([o[k] for o in outputs], target_device, dim)) for k in first)
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
        self.device_ids = [d if isinstance(d, int) else _C.device(d).index or 0 for d in device_ids]
        self.kind = kind.type
        output_device = self.device_ids[0] if output_device is None else output_device
        self.output_device = output_device if isinstance(output_device, int) else _C.device(output_device).index or 0
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
        pieces = scatter(inputs, devices, self.dim) if inputs else []
        named = scatter(kwargs, devices, self.dim) if kwargs else []
        n = max(len(pieces), len(named), 1)
        pieces = list(pieces) + [()] * (n - len(pieces))
        named = list(named) + [{}] * (n - len(named))
        if n == 1:
            return self.module(*pieces[0], **named[0])
        outputs = parallel_apply(replicate(self.module, devices[:n]), pieces, named)
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
