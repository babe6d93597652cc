"""The last line of the message that tensors are on several devices: what to write, in the words of the program that made the mistake.

Only an error that is being told comes here: it looks through the callers' variables for the tensor, and for the module it belongs to."""
import sys
from itertools import islice

from . import _C


def _frames():
    """The frames of the program, innermost first: none of Facula's own."""
    frame = sys._getframe(1)
    while frame is not None:
        if not str(frame.f_globals.get("__name__", "")).startswith(f"{__package__}."):
            yield frame
        frame = frame.f_back


def _module():
    from .nn import Module
    return Module


def _self(frame):
    """What a frame's function is a method of: its first argument."""
    code = frame.f_code
    return frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None


def _assigns(frame, name):
    """Whether a frame's function has an assignment to an attribute of this name."""
    from dis import get_instructions
    return any(i.opname == "STORE_ATTR" and i.argval == name for i in get_instructions(frame.f_code))


def _is(value, thing):
    """value is thing, or thing is a view of it: what moves value moves thing."""
    return value is thing or (isinstance(thing, _C.Tensor) and value is not None and value is thing._base)


def _attributes(value):
    return list(getattr(value, "__dict__", {}).items())


def variable_of(thing):
    """The name of a variable that holds thing; of all frames the innermost that is no module's own method, where the tensor is only
    passing through. None: there is none."""
    fallback = None
    for frame in _frames():
        inside = isinstance(_self(frame), _module())
        for variables in (frame.f_locals, frame.f_globals):
            for name, value in list(variables.items()):
                if not _is(value, thing) or name.startswith("_") or value is _self(frame):
                    continue
                if not inside:
                    return name
                fallback = fallback or name
    return fallback


def _kept_in(thing):
    """(list or dict, its name) where no variable holds thing, but one that holds it within: "batch", or "self.batch" of what is no module."""
    from ._helpers import _places
    for frame in _frames():
        owner, first = _self(frame), frame.f_code.co_varnames[:1]
        held = [] if isinstance(owner, _module()) else [(f"{first[0]}.{name}", value) for name, value in _attributes(owner)] if first else []
        for name, value in [*held, *frame.f_locals.items(), *frame.f_globals.items()]:
            if name.startswith("_") or not (isinstance(value, (list, tuple, dict)) or (_is(value, thing) and "." in name)):
                continue
            for _, one in islice(_places(value, name, set()), 1000):
                if _is(one, thing):
                    return value, name
    return None


def _attribute_of(tensor):
    """(module, name, thing) where a tensor is in a plain attribute of a module that runs: .to() leaves it behind."""
    from ._helpers import _places
    for frame in _frames():
        for value in list(frame.f_locals.values()):
            for owner in value.modules() if isinstance(value, _module()) else ():
                for name, held in _attributes(owner):
                    if name.startswith("_") or name in owner._parameters or name in owner._buffers:
                        continue
                    if any(_is(one, tensor) for _, one in islice(_places(held, name, set()), 1000)):
                        return owner, name, held
    return None


def _unregistered(root):
    """(the running module that calls root without having it among its modules, where it keeps it or None)."""
    from ._helpers import _places
    for frame in _frames():
        user = _self(frame)
        if not isinstance(user, _module()) or any(m is root for m in user.modules()):
            continue
        for owner in user.modules():
            for name, held in _attributes(owner):
                for path, one in () if name.startswith("_") else islice(_places(held, name, set()), 1000):
                    if one is root or (isinstance(one, _module()) and any(m is root for m in one.modules())):
                        return owner, path
        return user, None
    return None


def _of_module(where, device):
    """The cure for a tensor that a module has: it is to be moved as a whole, or to be part of the one that is."""
    root, path, owner, name, _ = where
    kind = type(owner).__name__
    for frame in _frames():
        if _self(frame) is owner and frame.f_code.co_name != "__init__" and _assigns(frame, name):
            me = frame.f_code.co_varnames[0]
            return f'{me}.{name} = {me}.{name}.to("{device}") after the line in {kind}.{frame.f_code.co_name} that assigns it: what a module gets after it was moved stays where it is.'
    outer, variable = _unregistered(root), variable_of(root)
    if outer is not None and outer[1]:
        user = type(outer[0]).__name__
        return (f"{type(root).__name__} is not registered in {user}, so {user}.to() leaves it behind: it is self.{outer[1]}. Keep modules in nn.ModuleList or nn.ModuleDict, not in a "
                f"plain list or dict; {_C._names}.check(model) finds all such places.")
    if not variable:
        kept = _kept_in(root)
        variable = f"{kept[1]}[...]" if kept and kept[0] is not root else kept[1] if kept else f"{type(root).__name__}(...)"
    if outer is not None:
        user = type(outer[0]).__name__
        return f'{variable}.to("{device}") before it is called, or make it an attribute of {user} in {user}.__init__: {user}.to() moves what is registered there.'
    return f'{variable}.to("{device}") before it is called: a module and what it is given must be on one device.'


def _of_attribute(held, device):
    owner, name, thing = held
    kind = type(owner).__name__
    if not isinstance(thing, _C.Tensor):
        plain = type(thing).__name__
        from .nn import Parameter
        if any(isinstance(one, Parameter) for one in (thing.values() if isinstance(thing, dict) else thing)):
            return f"nn.ParameterList or nn.ParameterDict for self.{name} in {kind}.__init__: a plain {plain} of parameters is left behind by .to(), and not trained."
        return f"self.register_buffer(...) in {kind}.__init__ for each tensor of self.{name}: a plain {plain} is left behind by .to(), a buffer moves with the module."
    for frame in _frames():
        if _self(frame) is owner and frame.f_code.co_name != "__init__" and _assigns(frame, name):
            me = frame.f_code.co_varnames[0]
            return f'{me}.{name} = {me}.{name}.to("{device}") in {kind}.{frame.f_code.co_name} before it is used: a plain attribute is left behind by .to().'
    return (f'self.register_buffer("{name}", ...) in {kind}.__init__ instead of self.{name} = ...: a plain attribute is left behind by .to(), a buffer '
            f"moves with the module.")


def _given(tensor):
    """Whether the program has the tensor in a variable outside of its modules' methods: it came in, and the module only passes it on."""
    for frame in _frames():
        if not isinstance(_self(frame), _module()) and any(_is(value, tensor) for value in list(frame.f_locals.values())):
            return True
    return False


def name_of(module):
    """What a program calls a module: a variable, or an attribute of its own object such as self.model."""
    name = variable_of(module)
    kept = None if name else _kept_in(module)
    return kept[1] if kept and kept[0] is module else name


def cure(argument, tensor, device):
    """The line that mends it: tensor, which was given as argument, is to be on device."""
    where = _C._path_of(tensor)
    if where:
        return _of_module(where, device)
    held = _attribute_of(tensor)
    if held and not (_given(tensor) and any(_self(f) is held[0] and _assigns(f, held[1]) for f in _frames())):
        return _of_attribute(held, device)
    name = variable_of(tensor)
    if name:
        return f'{name} = {name}.to("{device}"). Tensor.to() gives a new tensor, {name} itself stays where it is.'
    kept = _kept_in(tensor)
    if kept and isinstance(kept[0], _C.Tensor):
        return f'{kept[1]} = {kept[1]}.to("{device}"). Tensor.to() gives a new tensor.'
    if kept:
        return f'{kept[1]} = {_C._names}.to_device({kept[1]}, "{device}"), which moves every tensor in it.'
    return f'write .to("{device}") after the tensor that is given as {argument}.'


def of_no_parameters(given):
    """Why an optimizer may have got an empty list: a model of the program that has no parameters, and what is wrong with it."""
    from ._helpers import check
    empty = {}
    for frame in () if isinstance(given, (list, tuple)) else _frames():
        models = {name: value for name, value in list(frame.f_locals.items()) if isinstance(value, _module()) and name.isidentifier()}
        empty = {name: value for name, value in models.items() if next(value.parameters(), None) is None}
        if models:
            break  # those of the innermost frame that has any
    for name, value in empty.items():
        for found in check(value):
            return f". {name} has none, but {name}.{found}"
    return (f". model.parameters() is a generator: it is empty the second time. A model finds what its attributes are, not modules in plain lists: "
            f"{_C._names}.check(model) finds these.")


def of_fork(error, trace, dataset):
    """Where a data set uses a device in a forked worker: the class, the method and the line; "" for other errors."""
    if "forked subprocess" not in str(error):
        return ""
    own = other = ""
    while trace is not None:
        frame, code = trace.tb_frame, trace.tb_frame.f_code
        place = f"{code.co_name}, line {trace.tb_lineno} of {code.co_filename}"
        if dataset is not None and _self(frame) is dataset:
            own = f" in {type(dataset).__name__}.{place}"
        elif not str(frame.f_globals.get("__name__", "")).startswith(f"{__package__}."):
            other = f" in {place}"  # a collate_fn, a worker_init_fn
        trace = trace.tb_next
    where = own or other
    return (f"\nThe device was used in a DataLoader worker{where}. Return CPU tensors from the data set and what collates it, and move each batch in the training loop: "
            f"batch = batch.to(device). Or start the workers anew: DataLoader(..., multiprocessing_context='spawn').")
