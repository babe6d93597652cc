"""Derivatives: backward, grad, modes, functions of your own, checks of gradients."""
from .. import _C
from .._C import Tensor, is_grad_enabled
from . import function, grad_mode
from .function import Function
from .grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled

__all__ = ["Function", "Variable", "backward", "detect_anomaly", "enable_grad", "functional", "grad", "gradcheck", "gradgradcheck",
           "inference_mode", "no_grad", "set_detect_anomaly", "set_grad_enabled"]


def _sequence(tensors):
    return (tensors,) if isinstance(tensors, Tensor) else tuple(tensors)


def backward(tensors, grad_tensors=None, retain_graph=None, create_graph=False, grad_variables=None, inputs=None):
    """Adds the derivatives of all tensors to the .grad of the leaves (or of inputs).

    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> torch.autograd.backward([x * x])
    >>> x.grad
    tensor(6.)
    """
    tensors = _sequence(tensors)
    grads = grad_variables if grad_tensors is None else grad_tensors
    grads = (None,) * len(tensors) if grads is None else _sequence(grads)
    if len(grads) != len(tensors):
        raise RuntimeError(f"got {len(tensors)} tensors and {len(grads)} gradients")
    keep = create_graph if retain_graph is None else retain_graph
    for i, (tensor, grad_) in enumerate(zip(tensors, grads)):
        tensor.backward(grad_, keep or i + 1 < len(tensors), create_graph, inputs)


def grad(outputs, inputs, grad_outputs=None, retain_graph=None, create_graph=False, only_inputs=True, allow_unused=None, is_grads_batched=False,
         materialize_grads=False):
    """The derivatives of outputs with respect to inputs, as a tuple; .grad stays as it is.

    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> torch.autograd.grad(x * x, x)
    (tensor(6.),)
    """
    if is_grads_batched:
        raise NotImplementedError("grad(): is_grads_batched is not in Facula; call grad for each")
    if not only_inputs:
        raise ValueError("grad(): only_inputs=False is no longer there; use backward")
    given = None if grad_outputs is None else _sequence(grad_outputs)
    return _C._grad(_sequence(outputs), _sequence(inputs), given, retain_graph, create_graph, allow_unused, materialize_grads)


class _Variable(type):
    def __instancecheck__(cls, instance):
        return isinstance(instance, Tensor)


class Variable(metaclass=_Variable):
    """Variable(tensor): what tensors are by themselves since long ago; it gives the tensor back.

    >>> x = torch.autograd.Variable(torch.ones(1), requires_grad=True)
    >>> x.requires_grad
    True
    """

    def __new__(cls, data, requires_grad=False, volatile=None):
        result = data.detach() if requires_grad and not data.requires_grad else data
        return result.requires_grad_() if requires_grad else result


class set_detect_anomaly:
    """Backward stops at the first NaN and names the operation; as a context, until its end.

    >>> x = torch.tensor(0.0, requires_grad=True)
    >>> with torch.autograd.set_detect_anomaly(True):
    ...     (x * 3).backward()
    >>> x.grad
    tensor(3.)
    """

    def __init__(self, mode, check_nan=True):
        self.was = _C._set_detect_anomaly(mode)

    def __enter__(self):
        return None

    def __exit__(self, *error):
        _C._set_detect_anomaly(self.was)


class detect_anomaly(set_detect_anomaly):
    """`with detect_anomaly():` backward stops at the first NaN and names the operation.

    >>> x = torch.tensor(0.0, requires_grad=True)
    >>> with torch.autograd.detect_anomaly():
    ...     (x * 3).backward()
    >>> x.grad
    tensor(3.)
    """

    def __init__(self, check_nan=True):
        super().__init__(True, check_nan)


from . import functional
from .gradcheck import gradcheck, gradgradcheck
