"""torch.nn.modules: the classes of layers and containers, and the modules (linear, conv, loss ...) that torch keeps them in."""
import importlib.machinery
import sys
import types

from ... import _C
from .module import Module
from . import container, layers, module
from .container import *

places, _classes = layers.make()
_classes["_Entries"] = module._Entries
_classes.update({name: getattr(container, name) for name in container.__all__})
_C._set_layer_classes(_classes)


def _place(where, names):
    """A module below this one that holds these names."""
    full = f"{__name__}.{where}"
    module = sys.modules.get(full)
    if module is None:
        module = types.ModuleType(full, f"torch.nn.modules.{where}")
        module.__spec__ = importlib.machinery.ModuleSpec(full, None)
        module.Module = Module
        sys.modules[full] = module
        globals()[where] = module
    vars(module).update(names)


for _where, _names in places.items():
    _place(_where, _names)
    globals().update({n: c for n, c in _names.items() if not n.startswith("_")})

__all__ = ["Module", *container.__all__, *(n for names in places.values() for n in names if not n.startswith("_"))]
