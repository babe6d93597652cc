"""torch.save and torch.load: PyTorch's checkpoints (.pt, .pth), in the zip format that PyTorch writes since version 1.6.

A checkpoint holds tensors, numbers, texts, containers of them, and objects. Reading never imports or calls what a file names: the
pickle in it is data for an interpreter with a closed list of instructions. Objects come back only if their class was listed by
`add_safe_globals`. There is no other way to read: `weights_only=False` uses the same reader.
"""
import copyreg
import os
import sys
from collections import Counter, OrderedDict

from . import _C

__all__ = ["save", "load", "add_safe_globals", "clear_safe_globals", "get_safe_globals", "safe_globals",
           "get_unsafe_globals_in_checkpoint", "set_load_limit", "get_load_limit"]

_ADVICE = ("Save its numbers instead: torch.save(model.state_dict(), path); later make the model and call "
           "model.load_state_dict(torch.load(path)).")
_NO_MODULES = ("weights_only=False changes nothing here: Facula reads a file as data and never imports or calls what it names, "
               "so a whole Module or another object cannot come back. In a program that has its class, load it in PyTorch and "
               "torch.save(model.state_dict(), path); then model.load_state_dict(torch.load(path)) reads it here.")


# ---- saving ----

def save(obj, f, pickle_module=None, pickle_protocol=2, _use_new_zipfile_serialization=True, _disable_byteorder_record=False):
    """save(obj, f, pickle_module=pickle, pickle_protocol=2)

    Writes obj into a checkpoint, which torch.load reads, PyTorch's too.

    obj: tensors, numbers, str, bytes, None, torch.Size, dtypes and devices, nested in lists, tuples, dicts and sets,
    as state_dict() gives them. Shared tensors stay shared. Objects of classes that can be imported are written as their class and
    attributes.
    f: a path, or an object with write(). A path is written in a safe way: whatever happens, the old file or the new one is there.

    Errors: RuntimeError if the path's folder is not there; pickle.PicklingError for functions without a name and for whole
    modules.

        >>> import io
        >>> f = io.BytesIO()
        >>> torch.save({"epoch": 3, "weight": torch.ones(2)}, f)
        >>> torch.load(io.BytesIO(f.getvalue()))
        {'epoch': 3, 'weight': tensor([1., 1.])}
    """
    if pickle_protocol != 2 or not _use_new_zipfile_serialization or _disable_byteorder_record:
        raise NotImplementedError("save: Facula writes the zip format with protocol 2 and the record byteorder; leave "
                                  "pickle_protocol, _use_new_zipfile_serialization and _disable_byteorder_record out")
    if hasattr(f, "write"):
        return _C._save_pt(obj, None, f, _describe)
    path = _path_of(f, "write")
    folder = os.path.dirname(path)
    if folder and not os.path.isdir(folder):
        raise RuntimeError(f"Parent directory {os.fsdecode(folder)} does not exist.")
    _C._save_pt(obj, path, None, _describe)


def _path_of(f, method):
    try:
        return os.fspath(f)
    except TypeError:
        raise AttributeError(f"'{type(f).__name__}' object has no attribute '{method}'. Give a path, or a file object that has "
                             f"{method}()") from None


def _pickling_error(text):
    import pickle
    return pickle.PicklingError(text)


def _unpickling_error(text):
    import pickle
    return pickle.UnpicklingError(text)


def _describe(obj):
    """(module, name) of a class or function; of another object what it is made of: (callable, arguments, state, is_new)."""
    if isinstance(obj, type) or callable(obj) and hasattr(obj, "__qualname__"):
        return _name_of(obj)
    if isinstance(obj, getattr(sys.modules.get(__package__ + ".nn"), "Module", ())):
        raise _pickling_error(f"Can't pickle {type(obj).__name__}: a whole Module is not saved, because reading it would run "
                              f"code that the file names. {_ADVICE}")
    kind = type(obj)
    if isinstance(obj, _C.Tensor):
        raise _pickling_error(f"Can't pickle a tensor of the class {kind.__name__}; save a plain one: "
                              "t.detach()")
    reduce = copyreg.dispatch_table.get(kind)
    made = reduce(obj) if reduce else obj.__reduce_ex__(2)
    if isinstance(made, str):
        return _name_of(obj, made)
    function, arguments, state, items, pairs = (*made, None, None, None)[:5]
    if any(part is not None and next(iter(part), None) is not None for part in (items, pairs)):
        raise _pickling_error(f"Can't pickle {kind.__module__}.{kind.__qualname__}: it is a container of its own kind; save it "
                              "as a plain list or dict: dict(x), list(x)")
    if function is getattr(copyreg, "__newobj__", None):
        _name_of(arguments[0])
        return arguments[0], tuple(arguments[1:]), state, True
    return function, tuple(arguments), state, False


def _name_of(obj, name=None):
    """Under which module and name Python finds a class or function again; Python 2's for what it had."""
    import _compat_pickle
    name = name or obj.__qualname__
    module = getattr(obj, "__module__", None) or "__main__"
    try:
        __import__(module)
        found = getattr(sys.modules[module], name)
    except (ImportError, AttributeError):
        raise _pickling_error(f"Can't pickle {obj!r}: attribute lookup {name} on {module} failed. Functions and classes "
                              "are saved by name, and this one is not found under its own: save what it computes, or for a "
                              "model its state_dict()") from None
    if found is not obj:
        raise _pickling_error(f"Can't pickle {obj!r}: it's not the same object as {module}.{name}")
    if (module + ".").startswith("facula."):
        module = "torch" + module[len("facula"):]
    if (module, name) in _compat_pickle.REVERSE_NAME_MAPPING:
        return _compat_pickle.REVERSE_NAME_MAPPING[module, name]
    return _compat_pickle.REVERSE_IMPORT_MAPPING.get(module, module), name


# ---- what may be made again ----

_safe = {}  # "module.name": class or function
_limit = 0
_known = {"collections.OrderedDict": OrderedDict, "collections.Counter": Counter, "torch.Tensor": _C.Tensor,
          "torch.nn.parameter.Parameter": _C.Parameter, "torch.Size": _C.Size, "torch.device": _C.device,
          **{f"{m}.{t.__name__}": t for t in (set, complex, bytes, bytearray) for m in ("builtins", "__builtin__")}}
_BLOCKED = ("sys", "os", "posix", "nt")


def _named(item):
    """The names under which a listed class or function may stand in a file."""
    import _compat_pickle
    given = None
    if isinstance(item, tuple):
        if len(item) != 2 or not isinstance(item[1], str):
            raise ValueError("Expected a tuple of (global, string path to the global), but got " + repr(item))
        item, given = item
    if not callable(item) or not hasattr(item, "__name__"):
        raise TypeError(f"add_safe_globals expects classes and functions, but got {item!r}")
    module, name = item.__module__, item.__qualname__
    full = given or f"{module}.{name}"
    names = [full]
    if given is None:
        old = _compat_pickle.REVERSE_NAME_MAPPING.get((module, name), (_compat_pickle.REVERSE_IMPORT_MAPPING.get(module), name))
        if old[0]:
            names.append(".".join(old))
        if (module + ".").startswith("facula."):
            names.append("torch" + full[len("facula"):])
    return item, names


def _add(table, items):
    for item in items:
        found, names = _named(item)
        for name in names:
            table[name] = (found, item)


def add_safe_globals(safe_globals):
    """add_safe_globals(safe_globals)

    Lists classes and functions that torch.load may use to make objects again: load then calls them with what the file says. List
    only those that you trust with any arguments. A pair (class, "module.name") lists one under another name.

    Errors: TypeError for what is neither a class nor a function.

        >>> import argparse
        >>> torch.serialization.add_safe_globals([argparse.Namespace])
    """
    _add(_safe, safe_globals)


def get_safe_globals():
    """get_safe_globals() -> list

    What add_safe_globals has listed.

        >>> torch.serialization.clear_safe_globals()
        >>> torch.serialization.get_safe_globals()
        []
    """
    seen = []
    for _, item in _safe.values():
        if not any(item is other for other in seen):
            seen.append(item)
    return seen


def clear_safe_globals():
    """clear_safe_globals()

    Forgets what add_safe_globals has listed.

        >>> torch.serialization.clear_safe_globals()
    """
    _safe.clear()


class safe_globals:
    """safe_globals(safe_globals)

    The same as add_safe_globals for the statements under `with`.

        >>> import argparse
        >>> with torch.serialization.safe_globals([argparse.Namespace]):
        ...     len(torch.serialization.get_safe_globals())
        1
    """

    def __init__(self, safe_globals):
        self.listed = safe_globals

    def __enter__(self):
        self.before = dict(_safe)
        _add(_safe, self.listed)
        return self

    def __exit__(self, *raised):
        _safe.clear()
        _safe.update(self.before)


def set_load_limit(limit):
    """set_load_limit(limit)

    How many bytes the values and tensors of one checkpoint may take; None: 256 MiB and 16 times the size of the file, which only
    files that are made to take memory go beyond.

        >>> torch.serialization.set_load_limit(2**40)
        >>> torch.serialization.set_load_limit(None)
    """
    global _limit
    if limit is not None and (not isinstance(limit, int) or limit <= 0):
        raise ValueError(f"set_load_limit: limit must be a number of bytes above 0, or None, but got {limit!r}")
    _limit = limit or 0


def get_load_limit():
    """get_load_limit() -> int or None

    What set_load_limit has set.

        >>> torch.serialization.get_load_limit()
    """
    return _limit or None


class _Builder:
    """Makes what a file describes, of listed classes and functions only."""

    @staticmethod
    def resolve(name):
        found = _safe.get(name, (None,))[0] or _known.get(name)
        if found is None:
            raise _unpickling_error(f"Weights only load failed. The file holds {name} itself, not an object of it, which has no "
                                    "counterpart here")
        return found

    @staticmethod
    def make(kind, arguments, is_new):
        return kind.__new__(kind, *arguments) if is_new else kind(*arguments)

    @staticmethod
    def build(obj, state):
        if hasattr(obj, "__setstate__"):
            obj.__setstate__(state)
            return
        slots = None
        if isinstance(state, tuple) and len(state) == 2:
            state, slots = state
        if state:
            obj.__dict__.update(state)
        for name, value in (slots or {}).items():
            setattr(obj, name, value)


# ---- loading ----

class _Place:
    """What a map_location function is given for a storage: it says where it goes by returning it, moved or not."""

    def __init__(self, device):
        self.device = _C.device(device)

    def cpu(self):
        return _Place("cpu")

    def cuda(self, device=None, non_blocking=False):
        return _Place(_accelerator("cuda", device))

    def xpu(self, device=None, non_blocking=False):
        return _Place(_accelerator("xpu", device))

    def to(self, device, non_blocking=False):
        return _Place(device)


# Where map_location="auto" leaves tensors: load_state_dict takes each from there to its parameter's device, one after the other, so
# that no device holds a checkpoint beside the model, and none has to be the one that saved it.
_HOST = "cpu"


def _accelerator(kind, device):
    if isinstance(device, int):
        return f"{kind}:{device}"
    return device if device is not None else kind


def _placer(map_location):
    """From a saved location to a device; None: the default rule."""
    if map_location is None:
        return None
    if isinstance(map_location, (str, _C.device)):
        device = _C.device(_HOST if map_location == "auto" else map_location)
        return lambda location: device
    if isinstance(map_location, dict):
        return lambda location: map_location.get(location)

    def call(location):
        result = map_location(_Place("cpu"), location)
        if result is None or isinstance(result, (str, _C.device)):
            return result
        if not hasattr(result, "device"):
            raise TypeError(f"map_location must return the storage, moved or not, or None, but got {type(result).__name__}")
        return result.device
    return call


def _open(f):
    """(path, file object, start, size): one of the first two is None."""
    if not hasattr(f, "read"):
        path = _path_of(f, "seek") if not isinstance(f, int) else _cannot_seek(f)
        with open(path, "rb") as opened:
            size = opened.seek(0, 2)
        source = path, None, 0, size
    else:
        if not hasattr(f, "seek") or not hasattr(f, "tell"):
            _cannot_seek(f)
        start = f.tell()
        f.seek(0, 2)
        size = f.tell() - start
        f.seek(start)
        source = None, f, start, size
    if size <= 0:
        raise EOFError("Ran out of input: the file is empty, or it was written and is now at its end: seek(0) first")
    return source


def _cannot_seek(f):
    raise AttributeError(f"'{type(f).__name__}' object has no attribute 'seek'. You can only torch.load from a file that is "
                         "seekable. Please pre-load the data into a buffer like io.BytesIO and try to load from it instead.")


def _read(source, place, builder, globals_only=False):
    try:
        return _C._load_pt(*source, place, tuple(_safe), _limit, builder, globals_only)
    except RuntimeError as error:
        if type(error) is RuntimeError and str(error).startswith("Weights only load failed"):
            raise _unpickling_error(str(error)) from None
        raise


def load(f, map_location=None, pickle_module=None, *, weights_only=None, mmap=None, **pickle_load_args):
    """load(f, map_location=None, pickle_module=None, *, weights_only=True, mmap=None)

    Reads a checkpoint that torch.save has written, here or in PyTorch.

    f: a path, or a file object with read(), seek() and tell(). A path that ends in .safetensors is read as such.
    map_location: where tensors go. None: each where it was saved, which must be there; "cpu" or a device: all of
    them; a dict from saved locations to new ones; a function of (storage, location) that returns the storage,
    moved or not, or None. "auto" is Facula's own: the host's memory, from where load_state_dict of modules and optimizers
    takes each tensor to the device of its parameter; no device needs memory for the file, or to be the one that saved it.
    weights_only: there is only the safe way to read, see torch.serialization.
    mmap: accepted for paths; the file is read.

    Errors: FileNotFoundError; EOFError for an empty file; RuntimeError for a damaged archive, and for devices that are not there;
    pickle.UnpicklingError, "Weights only load failed", for a file that names what is not allowed.

        >>> torch.save([torch.zeros(2), "text"], "list.pt")
        >>> torch.load("list.pt", map_location="cpu", weights_only=True)
        [tensor([0., 0.]), 'text']
    """
    if pickle_module is not None and weights_only in (None, True):
        raise RuntimeError("Can not safely load weights when explicit pickle_module is specified")
    if mmap and hasattr(f, "read"):
        raise ValueError("f must be a file path in order to use the mmap argument")
    if not hasattr(f, "read") and not isinstance(f, int) and os.fsdecode(_path_of(f, "seek")).endswith(".safetensors"):
        if not isinstance(map_location, (type(None), str, _C.device)):
            raise ValueError("Loading safetensors file with dict map_location is not supported. Use a device string or "
                             "torch.device instead.")
        from .io import load_safetensors
        return load_safetensors(f, _HOST if map_location in (None, "auto") else map_location)
    try:
        return _read(_open(f), _placer(map_location), _Builder)
    except Exception as error:
        if weights_only is False and type(error).__name__ == "UnpicklingError" and "Unsupported global" in str(error):
            raise _unpickling_error(f"{error} {_NO_MODULES}") from None
        raise


def get_unsafe_globals_in_checkpoint(f):
    """get_unsafe_globals_in_checkpoint(f) -> list of str

    The classes and functions that a checkpoint names and torch.load would refuse, as "module.name".

        >>> torch.save(torch.zeros(2), "plain.pt")
        >>> torch.serialization.get_unsafe_globals_in_checkpoint("plain.pt")
        []
    """
    return _read(_open(f), None, _Builder, True)
