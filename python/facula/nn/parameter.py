"""Parameter and its kin."""
from .._C import Parameter, Tensor, empty

__all__ = ["Parameter", "Buffer", "UninitializedParameter", "UninitializedBuffer", "is_lazy"]


class _IsBuffer(type):
    def __instancecheck__(self, instance):
        return isinstance(instance, Tensor) and getattr(instance, "_is_buffer", False)


class Buffer(metaclass=_IsBuffer):
    """Buffer(data=None, *, persistent=True): a tensor that a module takes as a buffer when it is assigned.

    >>> class Net(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.mask = nn.Buffer(torch.ones(2))
    ...
    >>> list(Net().state_dict())
    ['mask']
    """

    def __new__(cls, data=None, *, persistent=True):
        t = empty(0) if data is None else data.detach().requires_grad_(data.requires_grad)
        t.persistent = persistent
        t._is_buffer = True
        return t


class _Lazy(type(Tensor)):
    def __instancecheck__(self, instance):
        return getattr(instance, "_is_uninitialized", None) == self.__name__


class UninitializedParameter(metaclass=_Lazy):
    """A parameter whose size comes with the first input: nn.LazyLinear and its kin make it.

    >>> isinstance(nn.LazyLinear(3).weight, nn.UninitializedParameter)
    True
    """

    def __new__(cls, requires_grad=True, device=None, dtype=None):
        return _lazy(Parameter(empty(0, device=device, dtype=dtype), requires_grad), cls.__name__)


class UninitializedBuffer(metaclass=_Lazy):
    """A buffer whose size comes with the first input.

    >>> isinstance(nn.LazyBatchNorm1d().running_mean, nn.UninitializedBuffer)
    True
    """

    def __new__(cls, requires_grad=False, device=None, dtype=None, persistent=True):
        return _lazy(empty(0, device=device, dtype=dtype), cls.__name__)


def _lazy(tensor, kind):
    tensor._is_uninitialized = kind
    return tensor


def is_lazy(tensor):
    """Its size is not known yet.

    >>> torch.nn.parameter.is_lazy(nn.LazyLinear(2).weight)
    True
    """
    return getattr(tensor, "_is_uninitialized", None) is not None
