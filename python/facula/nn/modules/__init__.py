"""torch.nn.modules: the classes of layers and containers, and the modules (linear, conv, loss ...) that torch keeps them in."""

import importlib.machinery
import sys
import types

from ... import _C
from .module import Module
from . import container, layers, module, utils
from .container import *

places, _classes = layers.make()
_classes["_Entries"] = module._Entries
_classes.update({name: getattr(container, name) for name in container.__all__})
_C._set_layer_classes(_classes)
globals().update(_classes)

from . import lazy, others, rnn, transformer
from .rnn import *
from .transformer import *

_attention, _projection = transformer.make_attention(_classes["Linear"], __name__ + ".")
_more = [
    lazy.make_all(_classes),
    others.make_all(places),
    {"activation": {"MultiheadAttention": _attention}, "linear": {"NonDynamicallyQuantizableLinear": _projection}},
]
for _places in _more:
    for _where, _names in _places.items():
        places.setdefault(_where, {}).update(_names)


def _place(where, names):
    """A module below this one that holds these names."""
    full = f"{__name__}.{where}"
    place = types.ModuleType(full, f"torch.nn.modules.{where}")
    place.__spec__ = importlib.machinery.ModuleSpec(full, None)
    place.Module = Module
    sys.modules[full] = globals()[where] = place
    vars(place).update(names)


for _where, _names in places.items():
    _place(_where, _names)
    globals().update({n: c for n, c in _names.items() if not n.startswith("_")})

__all__ = [
    "Module",
    *container.__all__,
    *rnn.__all__,
    *transformer.__all__,
    *(n for names in places.values() for n in names if not n.startswith("_") and n != "NonDynamicallyQuantizableLinear"),
]
