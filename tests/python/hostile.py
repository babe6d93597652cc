"""Calls everything with wrong arguments, in a process of its own that test_bad_input.py starts: hostile.py GROUP LOG.

Whatever is given, a call ends with a result or with an exception of Python: no crash, no SystemError, no error left behind.
Each call is written to LOG before it is made, so that a crash can be told.
"""

import ast
import ctypes
import faulthandler
import importlib.util
import os
import random
import resource
import sys
import warnings

import facula as torch
import facula.nn as nn
import facula.nn.functional as F
import facula.optim.lr_scheduler
import facula.utils.data

TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python", "examples.tab")
NUMPY = importlib.util.find_spec("numpy") is not None
LONGEST = 60  # seconds for all calls of one function
left_behind = ctypes.pythonapi.PyErr_Occurred  # ctypes raises what it finds
left_behind.restype = ctypes.c_void_p


class Raises:
    """Asks for its number, length, truth or items end in an error."""

    def refuse(self, *args):
        raise ValueError("refused")

    __index__ = __float__ = __len__ = __getitem__ = __bool__ = __iter__ = __eq__ = refuse
    __hash__ = None


class Lies:
    """Five items, of which there are two; an index that is no number."""

    def __len__(self):
        return 5

    def __getitem__(self, i):
        if i > 1:
            raise IndexError
        return 1.0

    def __index__(self):
        return "one"


def cycle():
    items = []
    items.append(items)
    return items


def deep(n=10_000):
    items = []
    for _ in range(n):
        items = [items]
    return items


DEEP = deep()  # making one takes longer than all calls with it


def bad_values():
    """Fresh ones: calls may change them."""
    return [
        None,
        "",
        "x",
        "\ud800",
        b"x",
        True,
        0,
        -1,
        99,
        2**31,
        2**62,
        2**63,
        -(2**63),
        2**200,
        1.5,
        float("nan"),
        float("inf"),
        1j,
        object(),
        int,
        len,
        [],
        [1, 2, 3],
        [2**62, 2**62],
        [-5, -1],
        [None],
        ["a"],
        [1] * 70,
        (),
        (True,),
        {},
        {1},
        ...,
        slice(None),
        range(3),
        bytearray(8),
        cycle(),
        [DEEP],
        Raises(),
        Lies(),
        iter([1]),
        torch.float16,
        torch.bool,
        torch.device("cuda:5"),
        torch.Size([2, 3]),
        torch.strided,
        torch.channels_last,
        torch.tensor(2.0),
        torch.tensor(3),
        torch.tensor([1, 0]),
        torch.tensor([99, -99]),
        torch.tensor([True, False]),
        torch.tensor([1, 2], dtype=torch.uint8),
        torch.empty(0),
        torch.empty(0, 3),
        torch.ones(2, 3),
        torch.ones(2, 3, dtype=torch.float16),
        torch.ones(2, 2, 2),
        torch.ones(1, 2, 5, 5),
        torch.ones([1] * 8),
        torch.ones(3, 2).t(),
        torch.ones(1).expand(4),
        torch.tensor([float("nan"), float("inf")]),
        torch.ones(2, 3, requires_grad=True),
        torch.ones(2, requires_grad=True) * 2,
        *([torch.ones(2, 3, device="cuda:1")] if torch.cuda.is_available() else []),
        [torch.ones(2), None, torch.ones(3)],
        [torch.ones(2)] * 3,
    ]


def words_of(error):
    try:
        return str(error).strip()
    except Exception:  # what it quotes can't be printed
        return "?"


class Caller:
    def __init__(self, log):
        self.log, self.calls, self.wrong = open(log, "w", encoding="utf-8", errors="backslashreplace"), 0, 0

    def say(self, what, label, args, error):
        self.wrong += 1
        print(f"{what}: {label} with {[type(a).__name__ for a in args]}: {error!r:.200}", flush=True)

    def call(self, label, function, args, keywords):
        self.calls += 1
        self.log.seek(0)
        self.log.truncate()
        self.log.write(f"{label} with {[type(a).__name__ for a in args]} {list(keywords)}")
        self.log.flush()
        try:
            function(*args, **keywords)
        except SystemError as error:
            self.say("SystemError", label, args, error)
        except Exception as error:
            if not words_of(error) and not isinstance(error, (MemoryError, StopIteration)) and "__array__" not in label:  # NumPy's
                self.say("an error without words", label, args, error)
        try:
            left_behind()
        except BaseException as error:
            self.say("an error was left behind", label, args, error)

    def table(self, label, function, good, keywords=None):
        """Each argument replaced by each bad value; one too many; an unknown keyword; random ones."""
        faulthandler.dump_traceback_later(LONGEST, exit=True)
        keywords, draw = keywords or {}, random.Random(label)
        self.call(label, function, good, keywords)
        for i in range(len(good) + 1):
            for bad in bad_values():
                self.call(label, function, [*good[:i], bad, *good[i + 1 :]], keywords)
        for name in keywords:
            for bad in bad_values():
                self.call(label, function, good, {**keywords, name: bad})
        self.call(label, function, good, {**keywords, "no_such_name": 1})
        self.call(label, function, [], {})
        for _ in range(20):
            self.call(label, function, draw.sample(bad_values(), draw.randint(1, 6)), {})
        faulthandler.cancel_dump_traceback_later()


def find_call(code, name):
    """The call of name in an example: (function, arguments, keywords), or None."""
    space = {"torch": torch, "F": F, "nn": nn}
    *first, last = code.split("; ")
    for statement in first:
        exec(statement, space)
    for node in ast.walk(ast.parse(last)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == name:

            def value(n):
                return eval(compile(ast.Expression(n), "<example>", "eval"), space)

            return value(node.func), [value(a) for a in node.args], {k.arg: value(k.value) for k in node.keywords}
    return None


def examples_of(kind):
    """(label, function, arguments, keywords) of python/examples.tab."""
    for line in open(TABLE, encoding="utf-8"):
        if line.startswith("#") or not line.strip():
            continue
        full, code = line.split(" | ")[:2]
        owner, name = full.split(".")
        if owner != kind or name in ("set_num_threads", "set_default_device", "set_default_dtype"):
            continue
        found = None if "numpy" in code and not NUMPY else find_call(code.rstrip("\n |"), name)
        if found:
            yield full, *found


def special_methods():
    skipped = (
        "__init_subclass__",
        "__subclasshook__",
        "__class__",
        "__new__",
        "__init__",
        "__del__",
        "__dict__",
        "__reduce_ex__",
    )
    for name in dir(torch.Tensor):
        if name.startswith("_") and name not in skipped:
            for x in (torch.ones(2, 3), torch.tensor(3), torch.ones(2, requires_grad=True)):
                value = getattr(x, name)
                if callable(value):
                    yield f"Tensor.{name}", value, [], {}


def private_functions():
    skipped = ("_set_print", "_set_layer_classes", "_set_global_hooks")
    for name in dir(torch._C):
        value = getattr(torch._C, name)
        if name.startswith("_") and not name.startswith("__") and callable(value) and name not in skipped:
            yield f"_C.{name}", value, [], {}
    for name in (
        "Tensor",
        "Size",
        "Generator",
        "device",
        "no_grad",
        "enable_grad",
        "inference_mode",
        "dtype",
        "layout",
        "Parameter",
    ):
        yield name, getattr(torch, name), [], {}
    for name in ("device", "Size", "Generator"):
        made = {"device": torch.device("cpu"), "Size": torch.Size([2, 3]), "Generator": torch.Generator()}[name]
        for method in dir(made):
            if callable(getattr(made, method)) and method not in (
                "__init_subclass__",
                "__subclasshook__",
                "__class__",
                "__new__",
                "__mul__",
                "__rmul__",
            ):
                yield f"{name}.{method}", getattr(made, method), [], {}


def layers():
    for name in sorted(dir(nn)):
        value = getattr(nn, name)
        if isinstance(value, type):
            yield f"nn.{name}", value, [], {}
    skipped = (
        "__init__",
        "__new__",
        "__subclasshook__",
        "__init_subclass__",
        "__class__",
        "__getattribute__",
        "__reduce_ex__",
        "__del__",
        "__mul__",
        "__rmul__",
        "__imul__",
    )  # Sequential * 2**62 goes on as long as there is memory, as in PyTorch
    for module in (
        nn.Sequential(nn.Linear(3, 2), nn.ReLU()),
        nn.BatchNorm2d(2),
        nn.LSTM(3, 2),
        nn.ModuleList([nn.Linear(2, 2)]),
        nn.ModuleDict({"a": nn.Linear(2, 2)}),
        nn.ParameterList([torch.ones(2)]),
    ):
        for name in dir(module):
            value = getattr(module, name, None)
            if name not in skipped and callable(value):
                yield f"{type(module).__name__}.{name}", value, [], {}


def the_rest():
    for module in (
        torch.optim,
        torch.optim.lr_scheduler,
        torch.utils.data,
        torch.autograd,
        torch.linalg,
        torch.random,
        torch.cuda,
        torch.accelerator,
        torch.testing,
        torch.nn.utils,
        torch.nn.init,
    ):
        for name in sorted(getattr(module, "__all__", None) or dir(module)):
            value = getattr(module, name)
            if (
                not name.startswith("_")
                and callable(value)
                and (getattr(value, "__module__", None) or "").startswith(("facula", "torch"))
            ):
                yield f"{module.__name__}.{name}", value, [], {}
    optimizer = torch.optim.SGD([torch.ones(2, requires_grad=True)], lr=0.1)
    for name in ("add_param_group", "load_state_dict", "state_dict", "step", "zero_grad"):
        yield f"SGD.{name}", getattr(optimizer, name), [], {}


def of_modules():
    """What the tables of examples don't have, by the examples of docstrings."""
    import everything

    for label, make in everything.calls():
        yield label, *make()


def of_instances():
    import everything

    for label, make in everything.methods():
        yield label, *make()


class Changes:
    """A number that changes the list it stands in when it is asked for the n-th time."""

    def __init__(self, items, act, at):
        self.items, self.act, self.at = items, act, at

    def __index__(self):
        self.at -= 1
        if self.at == 0:
            self.items[:] = {"clear": [], "grow": [1] * 100_000, "deepen": [[[1] * 100] * 10] * 5}[self.act]
        return 1


def changing_lists():
    x = torch.ones(2, 3)
    return {
        "tensor": torch.tensor,
        "as float": lambda l: torch.tensor(l, dtype=torch.float32),
        "nested": lambda l: torch.tensor([l, l]),
        "Tensor": torch.Tensor,
        "zeros": torch.zeros,
        "view": x.view,
        "permute": x.permute,
        "split": x.split,
        "Size": torch.Size,
        "index": lambda l: x[l],
        "set": lambda l: x.__setitem__(0, l),
        "sum": x.sum,
        "tensor_split": x.tensor_split,
        "tensordot": lambda l: torch.tensordot(x, x, l),
        "conv padding": lambda l: F.conv2d(torch.ones(1, 1, 5, 5), torch.ones(1, 1, 3, 3), padding=l),
        "pool": lambda l: F.max_pool2d(torch.ones(1, 1, 5, 5), l),
        "AvgPool3d": nn.AvgPool3d,
        "AdaptiveAvgPool3d": nn.AdaptiveAvgPool3d,
        "scale": lambda l: F.interpolate(torch.ones(1, 1, 5, 5), scale_factor=l),
        "Upsample": lambda l: nn.Upsample(scale_factor=l),
    }


def change(caller):
    for label, function in changing_lists().items():
        for act in ("clear", "grow", "deepen"):
            for n in (1, 2, 4):
                for place in range(n):
                    for at in (1, 2, 3):
                        items = [1] * n
                        items[place] = Changes(items, act, at)
                        caller.call(f"{label}: a list of {n} that will {act}", function, [items], {})


GROUPS = {
    "functions": lambda: examples_of("torch"),
    "methods": lambda: examples_of("Tensor"),
    "functional": lambda: examples_of("F"),
    "special": special_methods,
    "private": private_functions,
    "layers": layers,
    "rest": the_rest,
    "modules": of_modules,
    "instances": of_instances,
}


def main():
    group, log = sys.argv[1:]
    faulthandler.enable()
    warnings.simplefilter("ignore")
    room = (16 if torch.cuda.is_available() else 6) << 30  # simulated devices reserve addresses
    resource.setrlimit(resource.RLIMIT_AS, (room, room))
    caller = Caller(log)
    if group == "lists":
        change(caller)
    else:
        for label, function, good, keywords in GROUPS[group]():
            caller.table(label, function, good, keywords)
    print(caller.calls, "calls", caller.wrong, "wrong")
    return 1 if caller.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
