"""torch.nn.utils.parametrize: a parameter computed by a module from another one (or several) whenever it is read."""

from contextlib import contextmanager

from ... import _C
from ..modules.container import ModuleDict, ModuleList
from ..modules.module import Module
from ..parameter import Parameter

__all__ = [
    "cached",
    "ParametrizationList",
    "register_parametrization",
    "is_parametrized",
    "remove_parametrizations",
    "type_before_parametrizations",
]

_cached, _cache = 0, {}


@contextmanager
def cached():
    """Within, each parametrized tensor is computed once.

    >>> layer = torch.nn.utils.parametrize.register_parametrization(nn.Linear(1, 1), 'bias', nn.Tanh())
    >>> with torch.nn.utils.parametrize.cached():
    ...     layer.bias is layer.bias
    True
    """
    global _cached
    _cached += 1
    try:
        yield
    finally:
        _cached -= 1
        if not _cached:
            _cache.clear()


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, and the tensor (original) or tensors (original0 ...) that it is computed from.

    >>> layer = torch.nn.utils.parametrize.register_parametrization(nn.Linear(1, 1), 'bias', nn.Identity())
    >>> type(layer.parametrizations.bias).__name__
    'ParametrizationList'
    """

    def __init__(self, modules, original, unsafe=False):
        super().__init__(modules)
        self.unsafe = unsafe
        value = original
        with _C.no_grad():
            for module in reversed(list(self)):
                if hasattr(module, "right_inverse"):
                    value = module.right_inverse(value)
        self.is_tensor = isinstance(value, _C.Tensor)
        if self.is_tensor:
            if isinstance(original, Parameter):
                if value is not original:
                    original.data = value.detach()
                self.original = original
            else:
                self.register_buffer("original", value)
        else:
            self.ntensors = len(value)
            for i, v in enumerate(value):
                if isinstance(original, Parameter):
                    setattr(self, f"original{i}", Parameter(v, original.requires_grad))
                else:
                    self.register_buffer(f"original{i}", v)

    def _originals(self):
        return [self.original] if self.is_tensor else [getattr(self, f"original{i}") for i in range(self.ntensors)]

    def right_inverse(self, value):
        """Sets the originals so that the parametrized tensor becomes value."""
        with _C.no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(f"parametrization {type(module).__name__} does not implement right_inverse.")
                value = module.right_inverse(value)
            for t, v in zip(self._originals(), [value] if self.is_tensor else value):
                t.data = v.detach()

    def forward(self):
        if not len(self):
            return self.original
        first, *rest = list(self)
        value = first(*self._originals())
        for module in rest:
            value = module(value)
        return value


def _read(name):
    def get(self):
        if not _cached:
            return self.parametrizations[name]()
        key = (id(self), name)
        if key not in _cache:
            _cache[key] = self.parametrizations[name]()
        return _cache[key]

    def put(self, value):
        self.parametrizations[name].right_inverse(value)

    return property(get, put)


def _own_class(module):
    """Properties stand in a class: the module gets one of its own."""
    cls = type(module)

    def no_state(self):
        raise RuntimeError(
            "Serialization of parametrized modules is only supported through state_dict(). See: "
            "https://pytorch.org/tutorials/beginner/saving_loading_models.html#saving-loading-a-general-checkpoint-for-inference-and-or-resuming-training"
        )

    module.__class__ = type(
        f"Parametrized{cls.__name__}", (cls,), {"__module__": cls.__module__, "__getstate__": no_state, "_before": cls}
    )


def register_parametrization(module, tensor_name, parametrization, *, unsafe=False):
    """The tensor becomes parametrization(tensor) from now on; the tensor itself is module.parametrizations.<name>.original.

    >>> class Double(nn.Module):
    ...     def forward(self, x):
    ...         return 2 * x
    ...
    >>> layer = nn.Linear(1, 1)
    >>> nn.init.ones_(layer.weight).shape
    torch.Size([1, 1])
    >>> net = torch.nn.utils.parametrize.register_parametrization(layer, 'weight', Double())
    >>> layer.weight.item()
    2.0
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        module.parametrizations[tensor_name].append(parametrization)
        return module
    if tensor_name not in module._parameters and tensor_name not in module._buffers:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name '{tensor_name}'"
        )
    original = getattr(module, tensor_name)
    entry = ParametrizationList([parametrization], original, unsafe=unsafe)
    if not unsafe:
        with _C.no_grad():
            result = entry()
        if isinstance(result, _C.Tensor) and result.shape != original.shape:
            raise ValueError(
                "Registering a parametrization may not change the shape of the parametrized tensor. To change the shape of the"
                f" parametrized tensor, use unsafe=True. Got: tensor.shape: {original.shape}, parametrized tensor shape:"
                f" {result.shape}"
            )
    delattr(module, tensor_name)
    if not is_parametrized(module):
        _own_class(module)
        module.parametrizations = ModuleDict()
    module.parametrizations[tensor_name] = entry
    setattr(type(module), tensor_name, _read(tensor_name))
    return module


def is_parametrized(module, tensor_name=None):
    """Whether the module, or that tensor of it, is parametrized.

    >>> torch.nn.utils.parametrize.is_parametrized(nn.Linear(1, 1))
    False
    """
    entries = module._modules.get("parametrizations") if isinstance(module, Module) else None
    if entries is None or not isinstance(entries, ModuleDict):
        return False
    return len(entries) > 0 if tensor_name is None else tensor_name in entries


def remove_parametrizations(module, tensor_name, leave_parametrized=True):
    """The tensor is a plain one again: what it was computed as, or (leave_parametrized=False) the original.

    >>> layer = torch.nn.utils.parametrize.register_parametrization(nn.Linear(1, 1), 'bias', nn.Tanh())
    >>> layer = torch.nn.utils.parametrize.remove_parametrizations(layer, 'bias')
    >>> type(layer)
    <class 'torch.nn.modules.linear.Linear'>
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    entry = module.parametrizations[tensor_name]
    original = entry.original if entry.is_tensor else None
    if leave_parametrized:
        with _C.no_grad():
            value = getattr(module, tensor_name)
        if entry.is_tensor:
            original.data = value.detach()
        else:
            original = Parameter(value)
    elif not entry.is_tensor:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms of a sequence of"
            " tensors."
        )
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    if not len(module.parametrizations):
        del module.parametrizations
        module.__class__ = type(module)._before
    if isinstance(original, Parameter):
        module.register_parameter(tensor_name, original)
    else:
        module.register_buffer(tensor_name, original)
    return module


def type_before_parametrizations(module):
    """The module's class before it was parametrized.

    >>> layer = torch.nn.utils.parametrize.register_parametrization(nn.Linear(1, 1), 'bias', nn.Tanh())
    >>> torch.nn.utils.parametrize.type_before_parametrizations(layer)
    <class 'torch.nn.modules.linear.Linear'>
    """
    return type(module)._before if is_parametrized(module) else type(module)
