"""torch.nn.utils: gradients held within bounds, packed sequences, normalised weights."""

from . import clip_grad, convert_parameters, parametrizations, parametrize, rnn
from .clip_grad import clip_grad_norm, clip_grad_norm_, clip_grad_value_, clip_grads_with_norm_, get_total_norm
from .convert_parameters import parameters_to_vector, vector_to_parameters
from .spectral_norm import remove_spectral_norm, spectral_norm
from .weight_norm import remove_weight_norm, weight_norm

__all__ = [
    "clip_grad_norm",
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "get_total_norm",
    "parameters_to_vector",
    "vector_to_parameters",
    "remove_spectral_norm",
    "spectral_norm",
    "remove_weight_norm",
    "weight_norm",
    "skip_init",
    "parametrize",
    "parametrizations",
    "rnn",
]


def skip_init(module_cls, *args, **kwargs):
    """A module made without drawing initial values.

    >>> nn.utils.skip_init(nn.Linear, 2, 3).weight.shape
    torch.Size([3, 2])
    """
    from ... import _C

    _C._layer_blank(True)
    try:
        return module_cls(*args, **kwargs)
    finally:
        _C._layer_blank(False)
