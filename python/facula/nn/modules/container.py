"""Containers of modules and parameters."""

import operator
from collections import OrderedDict
from itertools import islice

from ... import _C
from ..parameter import Parameter
from .module import Module, _add_indent

__all__ = ["Container", "Sequential", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict"]


class Container(Module):
    """Container(**modules): the oldest form of a module with children, by name.

    >>> from warnings import catch_warnings
    >>> with catch_warnings(record=True):
    ...     print(type(nn.Container(first=nn.ReLU()).first).__name__)
    ReLU
    """

    def __init__(self, **kwargs):
        super().__init__()
        for key, value in kwargs.items():
            self.add_module(key, value)


class Sequential(Module, _C._SequentialBase):
    """Sequential(*modules) or Sequential(OrderedDict): the modules one after the other.

    >>> net = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    >>> net(torch.ones(4, 2)).shape
    torch.Size([4, 3])
    """

    def __init__(self, *args):
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            for key, module in args[0].items():
                self.add_module(key, module)
        else:
            for i, module in enumerate(args):
                self.add_module(str(i), module)

    def _name_at(self, index):
        size = len(self)
        index = operator.index(index)
        if not -size <= index < size:
            raise IndexError(f"index {index} is out of range")
        return self._modules.keys()[index % size]

    def __getitem__(self, index):
        if isinstance(index, slice):
            return self.__class__(OrderedDict(self._modules.items()[index]))
        return self._modules[self._name_at(index)]

    def __setitem__(self, index, module):
        setattr(self, self._name_at(index), module)

    def __delitem__(self, index):
        names = self._modules.keys()[index] if isinstance(index, slice) else [self._name_at(index)]
        for name in names:
            delattr(self, name)
        self._renumber(self._modules.values())

    def _renumber(self, modules):
        self._modules = OrderedDict((str(i), m) for i, m in enumerate(modules))

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules.values())

    def __dir__(self):
        return [k for k in super().__dir__() if not k.isdigit()]

    def __add__(self, other):
        if not isinstance(other, Sequential):
            raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")
        return Sequential(*self, *other)

    def __iadd__(self, other):
        if not isinstance(other, Sequential):
            raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")
        return self.extend(other)

    def __mul__(self, n):
        if not isinstance(n, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(n)}")
        if n <= 0:
            raise ValueError(f"Non-positive multiplication factor {n} for {type(self)}")
        return Sequential(*(m for _ in range(n) for m in self))

    __rmul__ = __mul__

    def __imul__(self, n):
        modules = list(self)
        for _ in range(n - 1):
            self.extend(modules)
        return self

    def append(self, module):
        """Adds a module at the end; returns the container."""
        self.add_module(str(len(self)), module)
        return self

    def insert(self, index, module):
        """Adds a module before index."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        modules, n = list(self), len(self)
        if not -n <= index <= n:
            raise IndexError(f"Index out of range: {index}")
        modules.insert(index, module)
        self._renumber(modules)
        return self

    def extend(self, sequential):
        """Adds modules at the end."""
        for module in list(sequential):
            self.append(module)
        return self

    def pop(self, key):
        """Takes a module out."""
        module = self[key]
        del self[key]
        return module


class ModuleList(Module):
    """ModuleList(modules=None): modules in a list; whoever has the list calls them.

    >>> layers = nn.ModuleList([nn.Linear(2, 2) for _ in range(3)])
    >>> len(list(layers.parameters()))
    6
    """

    def __init__(self, modules=None):
        super().__init__()
        if modules is not None:
            self += modules

    def _name_at(self, index):
        index = operator.index(index)
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} is out of range")
        return str(index % len(self) if index < 0 else index)

    def __getitem__(self, index):
        if isinstance(index, slice):
            return self.__class__(self._modules.values()[index])
        return self._modules[self._name_at(index)]

    def __setitem__(self, index, module):
        setattr(self, self._name_at(index), module)

    def __delitem__(self, index):
        modules = list(self)
        del modules[index]
        self._modules = OrderedDict((str(i), m) for i, m in enumerate(modules))

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules.values())

    def __iadd__(self, modules):
        return self.extend(modules)

    def __add__(self, other):
        return self.__class__([*self, *other])

    def __dir__(self):
        return [k for k in super().__dir__() if not k.isdigit()]

    def insert(self, index, module):
        """Adds a module before index."""
        modules = list(self)
        modules.insert(index, module)
        self._modules = OrderedDict((str(i), m) for i, m in enumerate(modules))

    def append(self, module):
        """Adds a module at the end; returns the list."""
        self.add_module(str(len(self)), module)
        return self

    def pop(self, key):
        """Takes a module out."""
        module = self[key]
        del self[key]
        return module

    def extend(self, modules):
        """Adds modules at the end."""
        if not hasattr(modules, "__iter__"):
            raise TypeError(f"ModuleList.extend should be called with an iterable, but got {type(modules).__name__}")
        at = len(self)
        for i, module in enumerate(list(modules)):
            self.add_module(str(at + i), module)
        return self

    def __repr__(self):
        texts = [repr(m) for m in self]
        if not texts:
            return self._get_name() + "()"
        lines, start = [], 0
        for i, text in enumerate(texts):
            if i + 1 < len(texts) and texts[i + 1] == text:
                continue
            count = i - start + 1
            lines.append(
                f"({start}): {_add_indent(text, 2)}" if count == 1 else f"({start}-{i}): {count} x {_add_indent(text, 2)}"
            )
            start = i + 1
        return self._get_name() + "(\n  " + "\n  ".join(lines) + "\n)"


class ModuleDict(Module):
    """ModuleDict(modules=None): modules by name.

    >>> layers = nn.ModuleDict({'a': nn.Linear(2, 2), 'b': nn.ReLU()})
    >>> list(layers.keys())
    ['a', 'b']
    """

    def __init__(self, modules=None):
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key):
        return self._modules[key]

    def __setitem__(self, key, module):
        self.add_module(key, module)

    def __delitem__(self, key):
        del self._modules[key]

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules)

    def __contains__(self, key):
        return key in self._modules

    def clear(self):
        """Takes all modules out."""
        self._modules.clear()

    def pop(self, key):
        """Takes a module out."""
        return self._modules.pop(key)

    def keys(self):
        """The names."""
        return self._modules.keys()

    def items(self):
        """Names and modules."""
        return self._modules.items()

    def values(self):
        """The modules."""
        return self._modules.values()

    def update(self, modules):
        """Adds modules from a mapping or from pairs."""
        if not hasattr(modules, "__iter__"):
            raise TypeError(
                f"ModuleDict.update should be called with an iterable of key/value pairs, but got {type(modules).__name__}"
            )
        if hasattr(modules, "items"):
            for key, module in modules.items():
                self[key] = module
            return
        for i, pair in enumerate(modules):
            if not hasattr(pair, "__iter__"):
                raise TypeError(f"ModuleDict update sequence element #{i} should be Iterable; is {type(pair).__name__}")
            if len(pair) != 2:
                raise ValueError(f"ModuleDict update sequence element #{i} has length {len(pair)}; 2 is required")
            self[pair[0]] = pair[1]


def _as_parameter(value):
    return Parameter(value) if isinstance(value, _C.Tensor) and not isinstance(value, Parameter) else value


def _line(key, p, kind_of=lambda p: p.dtype):
    if not isinstance(p, _C.Tensor):
        return f"  ({key}): Object of type: {type(p).__name__}"
    where = "" if p.device.type == "cpu" else f" ({p.device})"
    kind = "Parameter" if isinstance(p, Parameter) else "Tensor"
    return f"  ({key}): {kind} containing: [{kind_of(p)} of size {'x'.join(map(str, p.shape))}{where}]"


class ParameterList(Module):
    """ParameterList(values=None): parameters in a list; tensors become parameters.

    >>> parameters = nn.ParameterList([torch.ones(2), torch.ones(3)])
    >>> [tuple(p.shape) for p in parameters]
    [(2,), (3,)]
    """

    def __init__(self, values=None):
        super().__init__()
        self._size = 0
        if values is not None:
            self += values

    def _name_at(self, index):
        index = operator.index(index)
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} is out of range")
        return str(index % len(self))

    def __getitem__(self, index):
        if isinstance(index, slice):
            return self.__class__([self[i] for i in range(*index.indices(len(self)))])
        return getattr(self, self._name_at(index))

    def __setitem__(self, index, value):
        setattr(self, self._name_at(index), _as_parameter(value))

    def __len__(self):
        return self._size

    def __iter__(self):
        return iter(self[i] for i in range(len(self)))

    def __iadd__(self, values):
        return self.extend(values)

    def __dir__(self):
        return [k for k in super().__dir__() if not k.isdigit()]

    def append(self, value):
        """Adds a value at the end; returns the list."""
        self._size += 1
        self[len(self) - 1] = value
        return self

    def extend(self, values):
        """Adds values at the end."""
        if not hasattr(values, "__iter__") or isinstance(values, _C.Tensor):
            raise TypeError(f"ParameterList.extend should be called with an iterable, but got {type(values).__name__}")
        for value in values:
            self.append(value)
        return self

    def extra_repr(self):
        return "\n".join(_line(i, p) for i, p in enumerate(self))

    def __call__(self, *args, **kwargs):
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(Module):
    """ParameterDict(parameters=None): parameters by name; tensors become parameters.

    >>> parameters = nn.ParameterDict({'a': torch.ones(2)})
    >>> parameters['a'].requires_grad
    True
    """

    def __init__(self, parameters=None):
        super().__init__()
        self._keys = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key):
        if key not in self._keys:
            raise KeyError(key)
        return getattr(self, key)

    def __setitem__(self, key, value):
        if not isinstance(key, str):
            raise TypeError(
                f"Index given to ParameterDict cannot be used as a key as it is not a string (type is '{type(key).__name__}')."
                " Open an issue on github if you need non-string keys."
            )
        self._keys[key] = None
        setattr(self, key, _as_parameter(value))

    def __delitem__(self, key):
        del self._keys[key]
        delattr(self, key)

    def __len__(self):
        return len(self._keys)

    def __iter__(self):
        return iter(self._keys)

    def __reversed__(self):
        return reversed(list(self._keys))

    def __contains__(self, key):
        return key in self._keys

    def copy(self):
        """Another one with the same parameters."""
        return ParameterDict(OrderedDict(self.items()))

    def setdefault(self, key, default=None):
        """The parameter of that name; default becomes it if there is none."""
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self):
        """Takes all out."""
        for key in list(self._keys):
            del self[key]

    def pop(self, key):
        """Takes one out."""
        value = self[key]
        del self[key]
        return value

    def popitem(self):
        """Takes the last out, with its name."""
        key = next(reversed(list(self._keys)))
        return key, self.pop(key)

    def get(self, key, default=None):
        """The parameter of that name, or default."""
        return self[key] if key in self else default

    def fromkeys(self, keys, default=None):
        """One with these names."""
        return ParameterDict((k, default) for k in keys)

    def keys(self):
        """The names."""
        return self._keys.keys()

    def items(self):
        """Names and parameters."""
        return ((k, self[k]) for k in self._keys)

    def values(self):
        """The parameters."""
        return (self[k] for k in self._keys)

    def update(self, parameters):
        """Adds parameters from a mapping or from pairs."""
        items = parameters.items() if hasattr(parameters, "items") else parameters
        for key, value in items:
            self[key] = value

    def __or__(self, other):
        copy = self.copy()
        copy.update(other)
        return copy

    def __ior__(self, other):
        self.update(other)
        return self

    def extra_repr(self):
        return "\n".join(_line(k, p, lambda t: t.type()) for k, p in self.items())

    def __call__(self, *args, **kwargs):
        raise RuntimeError("ParameterDict should not be called.")
