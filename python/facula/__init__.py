"""Facula: PyTorch's tensors, autograd, training and devices as a small library. `import facula as torch`."""
import math as _math

from ._C import *
from ._C import __version__, _nn
from . import _C, return_types

inf, nan, pi, e = _math.inf, _math.nan, _math.pi, _math.e


def manual_seed(seed):
    """manual_seed(seed) -> Generator

    Starts the random numbers of every device anew; returns the CPU's generator."""
    _C._manual_seed(seed)
    return _C._default_generator(None)
