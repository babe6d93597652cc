"""The last line of the message that tensors are on several devices: what to write, in the words of the program that made the mistake.

Only an error that is being told comes here: it looks through the callers' variables for the tensor, and for the module it belongs to."""
import sys

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


def variable_of(thing):
    """The name of a variable that holds thing; of all frames the innermost that is no module's own method, where the tensor is only
    passing through. None: there is none."""
    fallback = None
    for frame in _frames():
        inside = isinstance(frame.f_locals.get("self"), _module())
        for variables in (frame.f_locals, frame.f_globals):
            for name, value in list(variables.items()):
                if value is not thing or name.startswith("_") or name == "self":
                    continue
                if not inside:
                    return name
                fallback = fallback or name
    return fallback


def _attribute_of(tensor):
    """(module, name) where a tensor is a plain attribute of a module that runs: .to() leaves it behind."""
    for frame in _frames():
        for value in list(frame.f_locals.values()):
            if isinstance(value, _module()):
                for owner in value.modules():
                    for name, held in vars(owner).items():
                        if held is tensor and name not in owner._parameters and name not in owner._buffers:
                            return owner, name
    return None


def _unregistered(root):
    """The running module that calls root without having it among its modules: it keeps it in a plain list, or the like."""
    for frame in _frames():
        value = frame.f_locals.get("self")
        if isinstance(value, _module()) and value is not root and all(m is not root for m in value.modules()):
            return value
    return None


def cure(argument, tensor, device):
    """The line that mends it: tensor, which was given as argument, is to be on device."""
    where = _C._path_of(tensor)
    if where:
        root, path, owner, name, is_parameter = where
        outer = _unregistered(root)
        if outer is not None:
            kind = type(outer).__name__
            return (f"{type(owner).__name__} is not registered in {kind}, so {kind}.to() leaves it behind. Keep modules in nn.ModuleList or nn.ModuleDict, not in a plain "
                    f"list or dict; {_C._names}.check(model) finds all such places.")
        model = variable_of(root) or "model"
        return f'{model}.to("{device}") before it is called: a module and what it is given must be on one device.'
    held = _attribute_of(tensor)
    if held:
        owner, name = held
        return (f'self.register_buffer("{name}", ...) in {type(owner).__name__}.__init__ instead of self.{name} = ...: a plain attribute is left behind by .to(), a buffer '
                f"moves with the module.")
    name = variable_of(tensor)
    if name:
        return f'{name} = {name}.to("{device}"). Tensor.to() gives a new tensor, {name} itself stays where it is.'
    name = argument if argument.partition("[")[0].isidentifier() else "t"
    return f'{name} = {name}.to("{device}"), before the call.'


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
    where = ""
    while trace is not None:
        frame = trace.tb_frame
        if frame.f_locals.get("self") is dataset and dataset is not None:
            where = f" in {type(dataset).__name__}.{frame.f_code.co_name}, line {trace.tb_lineno} of {frame.f_code.co_filename}"
        trace = trace.tb_next
    return (f"\nThe device was used in a DataLoader worker{where}. Return CPU tensors from the data set and move each batch in the training loop: "
            f"batch = batch.to(device). Or start the workers anew: DataLoader(..., multiprocessing_context='spawn').")
