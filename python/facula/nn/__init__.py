"""torch.nn: layers, containers, losses; nn.functional, nn.init, nn.utils."""
from .parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter
from . import parameter
from . import functional, init
from .modules import *
from .modules import Module
from . import modules, parallel, utils
from .parallel import DataParallel


def factory_kwargs(kwargs):
    """device, dtype and memory_format out of keywords.

    >>> nn.factory_kwargs({'dtype': torch.float64, 'device': 'cpu'})
    {'dtype': torch.float64, 'device': 'cpu'}
    """
    return {k: v for k, v in (kwargs or {}).items() if k in ("device", "dtype", "memory_format")}


from .. import _missing

__getattr__ = _missing.attribute_of(__name__, ("attention",))
