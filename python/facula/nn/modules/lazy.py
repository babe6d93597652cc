"""Layers that take the size of their input from the first one that they see."""

from ... import _C
from ..parameter import is_lazy

__all__ = ["LazyModuleMixin"]


class LazyModuleMixin:
    """What lazy layers share.

    >>> layer = nn.LazyLinear(2)
    >>> layer.has_uninitialized_params()
    True
    """

    cls_to_become = None

    def has_uninitialized_params(self):
        """Whether the first input has not been seen yet."""
        return any(is_lazy(p) for p in self._parameters.values() if p is not None)


def _check_size(self, size):
    name = self._get_name()
    if size == 0:
        raise RuntimeError(f"{name}: the input has no features: its size at that dimension is 0")


def make(cls, at, place):
    """The lazy form of a layer; at: the dimension of the input whose size becomes the first argument."""

    class Lazy(cls, LazyModuleMixin):
        cls_to_become = cls

        def __init__(self, *args, **kwargs):
            _C._layer_blank(True)
            try:
                cls.__init__(self, 0, *args, **kwargs)
            finally:
                _C._layer_blank(False)
            self.__dict__["_lazy_arguments"] = (args, kwargs)
            for kind, entries in (("UninitializedParameter", self._parameters), ("UninitializedBuffer", self._buffers)):
                for name, t in entries.items():
                    if t is not None and name != "num_batches_tracked":
                        t._is_uninitialized = kind

        def initialize_parameters(self, input):
            """Makes the parameters for inputs of this size, and the layer what it is to be."""
            if not self.has_uninitialized_params() and "_lazy_arguments" not in self.__dict__:
                return
            size = input.shape[at]
            _check_size(self, size)
            args, kwargs = self.__dict__.pop("_lazy_arguments")
            old = [
                (entries, name, t)
                for entries in (self._parameters, self._buffers)
                for name, t in entries.items()
                if t is not None
            ]
            device = next((t.device for _, _, t in old), None)
            dtype = next((t.dtype for _, _, t in old if t.dtype.is_floating_point), None)
            wants = {name: t.requires_grad for _, name, t in old}
            self.__class__ = cls
            cls.__init__(self, size, *args, **kwargs)
            if any(t.device != device or (t.dtype != dtype and t.dtype.is_floating_point) for t in self.parameters()):
                self.to(device, dtype)
            for entries, name, t in old:
                new = entries[name]
                if new is not None:
                    t.data = new.data
                    t.__dict__.pop("_is_uninitialized", None)
                    entries[name] = t.requires_grad_(wants[name]) if wants[name] != t.requires_grad else t

        def forward(self, input, *args, **kwargs):
            self.initialize_parameters(input)
            return cls.forward(self, input, *args, **kwargs)

    Lazy.__name__ = Lazy.__qualname__ = "Lazy" + cls.__name__
    Lazy.__module__ = place
    sizes = ", ".join(["2", "3"] + ["5"] * (-at - 1 if at < 0 else int(cls.__name__[-2])))
    rest = {"L": "4", "C": "4, kernel_size=3"}.get(cls.__name__[0], "")
    Lazy.__doc__ = (
        f"{cls.__name__} whose first argument comes from the first input.\n\n"
        f">>> layer = nn.Lazy{cls.__name__}({rest})\n>>> y = layer(torch.ones({sizes}))\n"
        f">>> type(layer) is nn.{cls.__name__}, len(y)\n(True, 2)"
    )
    return Lazy


def make_all(classes):
    """-> {where: {name: class}}"""
    places = {}
    dims = {
        "Linear": -1,
        **{f"{kind}{n}d": -n - 1 for kind in ("Conv", "ConvTranspose") for n in (1, 2, 3)},
        **{f"{kind}Norm{n}d": 1 for kind in ("Batch", "Instance") for n in (1, 2, 3)},
    }
    for name, at in dims.items():
        if name in classes:
            cls = classes[name]
            where = cls.__module__.rpartition(".")[2]
            places.setdefault(where, {})["Lazy" + name] = make(cls, at, cls.__module__)
    return places
