"""What PyTorch leaves to its users: finding what a model does not move or train, moving optimizers and nested data, choosing a device."""
import sys

from . import _C


def _places(value, path, seen):
    """(path, thing) for the tensors and modules in lists, tuples, sets and dicts below value."""
    from .nn import Module
    if isinstance(value, (_C.Tensor, Module)):
        yield path, value
    elif isinstance(value, (list, tuple, set, frozenset, dict)) and id(value) not in seen:
        seen.add(id(value))
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, one in list(items):
            yield from _places(one, f"{path}[{key!r}]", seen)


def _finding(path, thing, known):
    from .nn import Module, Parameter
    name = path.rpartition(".")[2].partition("[")[0]
    loose = "[" in path
    if isinstance(thing, Module):
        n = sum(p.numel() for p in thing.parameters())
        return (f"{path} is a {type(thing).__name__} in a plain list or dict: its {n} parameters are not trained, moved or saved with the model. "
                f"Write self.{name} = nn.ModuleList(...) or nn.ModuleDict(...).")
    if isinstance(thing, Parameter):
        return (f"{path} is a Parameter in a plain list or dict: it is not trained, moved or saved with the model. "
                f"Write self.{name} = nn.ParameterList(...) or nn.ParameterDict(...).")
    base = thing._base
    if base is not None and id(base) in known:
        return (f"{path} is a view of {known[id(base)]}: after .to() it still shows the memory of before. Take it in forward().")
    shape = list(thing.shape)
    cure = "register each of them as a buffer" if loose else f'write self.register_buffer("{name}", ...)'
    return f"{path} is a tensor of shape {shape} on {thing.device} as a plain attribute: .to() leaves it there, state_dict() leaves it out. In __init__, {cure}."


def check(model):
    """check(model) -> list of str

    What .to(), optimizers and state_dict() of a model leave out, a sentence with its cure for each: modules and parameters in plain
    lists and dicts, tensors that are plain attributes, views of parameters, parameters on several devices. [] if all is well.

    >>> class Net(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.layers = [torch.nn.Linear(2, 2)]
    >>> print(torch.check(Net())[0])
    layers[0] is a Linear in a plain list or dict: its 6 parameters are not trained, moved or saved with the model. Write self.layers = nn.ModuleList(...) or nn.ModuleDict(...).
    """
    from .nn import Module
    if not isinstance(model, Module):
        raise TypeError(f"check(): argument 'model' must be a Module, not {type(model).__name__}")
    named = [*model.named_parameters(), *model.named_buffers()]
    known = {id(t): name for name, t in named}
    known.update((id(m), name) for name, m in model.named_modules())
    found, seen = [], set()
    for prefix, module in model.named_modules():
        for name, value in list(vars(module).items()):
            if name.startswith("_") or name in module._parameters or name in module._buffers or name in module._modules:
                continue
            for path, thing in _places(value, f"{prefix}.{name}" if prefix else name, set()):
                if id(thing) not in known and id(thing) not in seen:
                    seen.add(id(thing))
                    found.append(_finding(path, thing, known))
    where = device_of(model)
    if isinstance(where, str):
        found.append(f"parameters and buffers are {where}. Move all of them at once: model.to(device).")
    return found


def _tensors_of(obj):
    from .nn import Module
    if isinstance(obj, Module):
        return [*obj.named_parameters(), *obj.named_buffers()]
    if hasattr(obj, "param_groups"):
        return [(f"parameter {i}", p) for i, p in enumerate(p for g in obj.param_groups for p in g["params"])]
    return list(_places(obj, "object", set()))


def device_of(obj):
    """device_of(obj) -> torch.device, str or None

    Where a model, an optimizer's parameters or the tensors of a list or dict are: the device if there is one, "mixed: ..." with what
    is where if there are several, None if obj has no tensors.

    >>> torch.device_of(torch.nn.Linear(2, 2))
    device(type='cpu')
    """
    by_device = {}
    for name, t in _tensors_of(obj):
        if isinstance(t, _C.Tensor):
            by_device.setdefault(t.device, []).append(name)
    if len(by_device) < 2:
        return next(iter(by_device), None)
    return "mixed: " + "; ".join(f"{len(names)} on {device} ({', '.join(names[:3])}{', ...' if len(names) > 3 else ''})" for device, names in by_device.items())


def to_device(obj, device, non_blocking=False):
    """to_device(obj, device, non_blocking=False) -> object

    The same nested lists, tuples, named tuples and dicts with every tensor on device; modules, and whatever else has a to method, are
    moved by it. Anything else stays what it is.

    >>> torch.to_device({'x': torch.ones(2), 'n': [3]}, 'cpu')
    {'x': tensor([1., 1.]), 'n': [3]}
    """
    return _moved(obj, _C.device(device), non_blocking, set())


def _moved(obj, device, non_blocking, above):
    from .nn import Module
    if isinstance(obj, _C.Tensor):
        return obj.to(device, non_blocking=non_blocking)
    if isinstance(obj, Module):
        return obj.to(device)
    if not isinstance(obj, (list, tuple, dict)):
        return obj.to(device) if callable(getattr(obj, "to", None)) and not isinstance(obj, type) else obj
    if id(obj) in above:
        raise ValueError("to_device(): the object contains itself")
    above.add(id(obj))
    if isinstance(obj, dict):
        pairs = [(k, _moved(v, device, non_blocking, above)) for k, v in obj.items()]
        if type(obj) is dict:
            result = dict(pairs)
        else:
            import copy
            result = copy.copy(obj)
            result.update(pairs)
    else:
        parts = [_moved(v, device, non_blocking, above) for v in obj]
        result = type(obj)(*parts) if hasattr(obj, "_fields") else type(obj)(parts)
    above.discard(id(obj))
    return result


def move(obj, device):
    """move(obj, device) -> obj

    Moves a model, or an optimizer with its parameters and all that it keeps for them, so that training goes on there. Parameters stay
    the same objects. The optimizers of torch.optim also follow by themselves when the model was moved.

    >>> model = torch.nn.Linear(2, 2)
    >>> optimizer = torch.move(torch.optim.Adam(model.parameters()), 'cpu')
    """
    from .nn import Module
    device = _C.device(device)
    if isinstance(obj, Module):
        return obj.to(device)
    if not hasattr(obj, "param_groups"):
        raise TypeError(f"move(): argument 'obj' must be a Module or an Optimizer, not {type(obj).__name__}. Tensors: x = x.to(device); nested ones: to_device(obj, device).")
    from .optim.optimizer import _moved_to
    for group in obj.param_groups:
        for p in group["params"]:
            p.data = p.data.to(device)
            if p.grad is not None:
                p.grad = p.grad.to(device)
            state = obj.state.get(p) if hasattr(obj.state, "get") else None
            if state:
                obj.state[p] = {key: _moved_to(p, value, key) for key, value in state.items()}
    return obj


def fallbacks():
    """fallbacks() -> list of dict

    Operations that a device could not compute and the CPU did, because FACULA_FALLBACK=cpu stands in the environment: "op", "device",
    "count" of kernels, and the "reason". [] where all ran where they should.

    >>> torch.fallbacks()
    []
    """
    return [dict(zip(("op", "device", "count", "reason"), row)) for row in _C._fallbacks()]


def _why_none(kind):
    try:
        _C._current_device(_C.device(kind))
    except RuntimeError as error:
        return str(error).partition("\n")[0]
    return ""


def pick_device(require=None, verbose=True):
    """pick_device(require=None, verbose=True) -> torch.device

    The accelerator if there is one, else the CPU; one line on stderr says what was chosen and why. require: "gpu", any accelerator, or a
    kind such as "cuda": where it is missing a RuntimeError says why, instead of hours on the CPU.

    >>> torch.pick_device(require='cpu', verbose=False)
    device(type='cpu')
    """
    kind = None if require in (None, "gpu") else _C.device(require).type
    found = _C._accelerator()
    device = _C.device("cpu")
    if kind is None and found is not None:
        device = _C.device(found.type, _C._current_device(found))
    elif kind not in (None, "cpu") and _C._device_is_available(_C.device(kind)):
        index = _C.device(require).index
        device = _C.device(kind, _C._current_device(_C.device(kind)) if index is None else index)
    elif require not in (None, "cpu"):
        raise RuntimeError(f"pick_device(): require={require!r}, but there is none. {_why_none(kind or 'cuda')}")
    if verbose:
        why = _C._device_properties(device)["name"] if device.type != "cpu" else "asked for" if require == "cpu" else f"no accelerator: {_why_none('cuda')}"
        print(f"device: {device} ({why})", file=sys.stderr)
    return device


def doctor(device=None):
    """doctor(device=None) -> bool

    Prints, for each type of device or for one, what was tried to open it, where that stopped, and how to mend it: True if the device (or any
    accelerator) is there. In a shell: ``python -m facula doctor``, or ``facula doctor``.

    >>> torch.doctor('cpu')
    cpu: 1 device
      ok    the processor is always there
    True
    """
    kinds = ["cuda", "xpu", "mps", "opencl"] if device is None else [_C.device(device).type]
    print("\n".join(_C._why_not(_C.device(kind)) for kind in kinds), end="")
    return any(_C._device_is_available(_C.device(kind)) for kind in kinds)


def selftest(device=None, op=None, verbose=True):
    """selftest(device=None, op=None, verbose=True) -> bool

    Checks every operator of a device (the accelerator if there is none given) against the CPU, forward and backward, in every element
    type, and prints what it finds: True if nothing is wrong. op names one operator alone, such as "softmax". In a shell:
    ``python -m facula selftest --device cuda:0``.

    >>> torch.selftest('cpu', op='softmax', verbose=False)
    True
    """
    device = pick_device(verbose=False) if device is None else _C.device(device)
    return _C._selftest(device, op, (lambda line: print(line, flush=True)) if verbose else None)
