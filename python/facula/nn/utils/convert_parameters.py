"""Parameters as one vector, and back."""
from ... import _C

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def _same_device(p, device):
    if device is not None and p.device != device:
        raise TypeError("Found two parameters on different devices, this is currently not supported.")
    return p.device


def parameters_to_vector(parameters):
    """All parameters, flattened, one after the other.

    >>> nn.utils.parameters_to_vector([torch.ones(2), torch.zeros(1)])
    tensor([1., 1., 0.])
    """
    device, parts = None, []
    for p in parameters:
        device = _same_device(p, device)
        parts.append(p.view(-1))
    return _C.cat(parts)


def vector_to_parameters(vec, parameters):
    """Gives the parameters the elements of a vector.

    >>> p = nn.Parameter(torch.zeros(2))
    >>> nn.utils.vector_to_parameters(torch.tensor([1., 2.]), [p])
    >>> p.data
    tensor([1., 2.])
    """
    if not isinstance(vec, _C.Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {_C.Tensor if vec is None else type(vec).__name__}")
    device, at = None, 0
    for p in parameters:
        device = _same_device(p, device)
        n = p.numel()
        p.data = vec[at:at + n].view_as(p).data
        at += n
