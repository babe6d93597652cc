"""Gradients held within bounds."""

import warnings

from ... import _C

__all__ = ["clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm", "clip_grad_norm"]


def _gradients(parameters):
    parameters = [parameters] if isinstance(parameters, _C.Tensor) else list(parameters)
    return [p.grad for p in parameters if p.grad is not None]


def get_total_norm(tensors, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """The norm of all tensors as one.

    >>> nn.utils.get_total_norm([torch.tensor([3., 4.])])
    tensor(5.)
    """
    tensors = [tensors] if isinstance(tensors, _C.Tensor) else list(tensors)
    norm_type = float(norm_type)
    if not tensors:
        return _C.tensor(0.0)
    device = tensors[0].device
    with _C.no_grad():
        norms = [_C.norm(t.detach(), norm_type) for t in tensors]
        total = _C.norm(_C.stack([n if n.device == device else n.to(device) for n in norms]), norm_type)
    if error_if_nonfinite and not bool(_C.isfinite(total)):
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it cannot be clipped. To"
            " disable this error and scale the gradients by the non-finite norm anyway, set `error_if_nonfinite=False`"
        )
    return total


def clip_grads_with_norm_(parameters, max_norm, total_norm, foreach=None):
    """Gradients times max_norm / total_norm where that is below 1.

    >>> p = nn.Parameter(torch.zeros(2))
    >>> p.grad = torch.tensor([3., 4.])
    >>> nn.utils.clip_grads_with_norm_([p], 1.0, torch.tensor(5.0))
    >>> p.grad
    tensor([0.6000, 0.8000])
    """
    with _C.no_grad():
        factor = _C.clamp(float(max_norm) / (total_norm + 1e-6), max=1.0)
        for g in _gradients(parameters):
            g.mul_(factor if factor.device == g.device else factor.to(g.device))


def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """Scales the gradients of all parameters so that their norm as one is at most max_norm; returns the norm before.

    >>> p = nn.Parameter(torch.zeros(2))
    >>> p.grad = torch.tensor([3., 4.])
    >>> nn.utils.clip_grad_norm_([p], max_norm=1.0)
    tensor(5.)
    >>> p.grad
    tensor([0.6000, 0.8000])
    """
    if not isinstance(parameters, _C.Tensor):
        parameters = list(parameters)
        if not parameters:
            warnings.warn("`parameters` is an empty generator, no gradient clipping will occur.", stacklevel=2)
    total = get_total_norm(_gradients(parameters), norm_type, error_if_nonfinite)
    clip_grads_with_norm_(parameters, max_norm, total)
    return total


def clip_grad_norm(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """The older name of clip_grad_norm_.

    >>> p = nn.Parameter(torch.zeros(2))
    >>> p.grad = torch.tensor([3., 4.])
    >>> nn.utils.clip_grad_norm([p], 1.0)
    tensor(5.)
    """
    warnings.warn(
        "torch.nn.utils.clip_grad_norm is now deprecated in favor of torch.nn.utils.clip_grad_norm_.",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite)


def clip_grad_value_(parameters, clip_value, foreach=None):
    """Holds every element of the gradients within [-clip_value, clip_value].

    >>> p = nn.Parameter(torch.zeros(2))
    >>> p.grad = torch.tensor([3., -4.])
    >>> nn.utils.clip_grad_value_([p], 1.0)
    >>> p.grad
    tensor([ 1., -1.])
    """
    clip_value = float(clip_value)
    with _C.no_grad():
        for g in _gradients(parameters):
            g.clamp_(min=-clip_value, max=clip_value)
