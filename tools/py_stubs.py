"""Type stubs for editors and type checkers: facula/_C.pyi, facula/nn/functional.pyi and facula/nn/__init__.pyi.

What the rows make is written from the rows; what stands in C by hand from the signatures in python/ext/*.c, whose arguments get
their types by name.
"""

import ast
import glob
import os
import re
from keyword import iskeyword

import gen_stubs

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
HEAD = "# Generated from python/torch.tab, python/nn.tab and the tables of rows by tools/gen_py.py and tools/gen_pynn.py.\n"
# The names int, float and bool are types of elements in torch, and methods of Tensor: Python's own have these names here.
NAMES = """import builtins
from typing import Any, Callable, Iterator, Literal, Sequence, Union, overload

_bool = builtins.bool
_int = builtins.int
_float = builtins.float
Number = Union[_int, _float, _bool]
_Size = Union[_int, Sequence[_int]]
"""
KINDS = {
    "T": "Tensor",
    "TN": "Tensor | Number",
    "Ts": "Sequence[Tensor]",
    "int": "_int",
    "float": "_float",
    "bool": "_bool",
    "num": "Number",
    "shape": "_Size",
    "dtype": "_dtype",
    "device": "_Device",
    "text": "str",
    "obj": "Any",
}
# What the functions return that do all of their call in C ("@name" in torch.tab), where it is no tensor.
MANY = "tuple[Tensor, ...]"
RETURNS = {"chunk": MANY, "split": MANY, "tensor_split": MANY, "unbind": MANY, "meshgrid": MANY, "broadcast_tensors": MANY}
# Functions whose result depends on how they are called: parameters and result of each way, after self or input.
EXTREME = [
    ("", "Tensor"),
    ("other: Tensor, *, out: Tensor | None = None", "Tensor"),
    ("dim: _int, keepdim: _bool = False, *, out: Any = None", "_Values"),
]
OVERLOADS = {
    "max": EXTREME,
    "min": EXTREME,
    "median": [("", "Tensor"), ("dim: _int, keepdim: _bool = False", "_Values")],
    "nanmedian": [("", "Tensor"), ("dim: _int, keepdim: _bool = False", "_Values")],
    "nonzero": [("*, as_tuple: Literal[False] = False", "Tensor"), ("*, as_tuple: Literal[True]", MANY)],
    "where": [("", MANY), ("input: Tensor | Number, other: Tensor | Number", "Tensor")],
    "unique": [
        ("sorted: _bool = True, *, dim: _int | None = None", "Tensor"),
        ("sorted: _bool = True, return_inverse: _bool = False, return_counts: _bool = False, dim: _int | None = None", "Any"),
    ],
    "unique_consecutive": [
        ("*, dim: _int | None = None", "Tensor"),
        ("return_inverse: _bool = False, return_counts: _bool = False, dim: _int | None = None", "Any"),
    ],
    "type": [("", "str"), ("dtype: Any, non_blocking: _bool = False", "Tensor")],
    "to": [
        (
            "device: _Device | None = None, dtype: _dtype | None = None, non_blocking: _bool = False, copy: _bool = False",
            "Tensor",
        ),
        ("dtype: _dtype, non_blocking: _bool = False, copy: _bool = False", "Tensor"),
        ("other: Tensor, non_blocking: _bool = False, copy: _bool = False", "Tensor"),
    ],
    "randint": [
        ("high: _int, size: Sequence[_int], **options: Any", "Tensor"),
        ("low: _int, high: _int, size: Sequence[_int], **options: Any", "Tensor"),
    ],
}
IN_PLACE = "relu elu selu celu leaky_relu hardtanh threshold rrelu".split()  # F.relu_ and so on
ARGUMENTS = {
    "dim": "_int | None",
    "dtype": "_dtype | None",
    "device": "_Device | None",
    "requires_grad": "_bool",
    "pin_memory": "_bool",
    "gradient": "Tensor | None",
    "retain_graph": "_bool | None",
    "create_graph": "_bool",
    "hook": "Callable[..., Any]",
    "n": "_int",
    "seed": "_int",
    "type1": "_dtype",
    "type2": "_dtype",
    "from_": "_dtype",
    "to": "_dtype",
    "d": "_dtype",
    "mode": "_bool",
    "tensor1": "Tensor | Number",
    "tensor2": "Tensor | Number",
    "new_state": "Tensor",
    "force": "_bool",
}
ANSWERS = {  # of functions and methods written by hand, where it is no tensor
    "size": "Any",
    "stride": "Any",
    "tolist": "Any",
    "item": "Number",
    "numpy": "Any",
    "backward": "None",
    "retain_grad": "None",
    "register_hook": "Any",
    "dim": "_int",
    "ndimension": "_int",
    "numel": "_int",
    "nelement": "_int",
    "element_size": "_int",
    "storage_offset": "_int",
    "data_ptr": "_int",
    "get_device": "_int",
    "storage": "Any",
    "untyped_storage": "Any",
    "get_default_device": "_device",
    "set_default_device": "None",
    "get_default_dtype": "_dtype",
    "set_default_dtype": "None",
    "get_num_threads": "_int",
    "set_num_threads": "None",
    "promote_types": "_dtype",
    "result_type": "_dtype",
    "can_cast": "_bool",
    "is_grad_enabled": "_bool",
    "is_inference_mode_enabled": "_bool",
    "register_post_accumulate_grad_hook": "Any",
}
ATTRIBUTES = {
    "shape": "Size",
    "dtype": "_dtype",
    "device": "_device",
    "ndim": "_int",
    "requires_grad": "_bool",
    "is_leaf": "_bool",
    "grad": "Tensor | None",
    "grad_fn": "Node | None",
    "data": "Tensor",
    "output_nr": "_int",
    "itemsize": "_int",
    "nbytes": "_int",
    "retains_grad": "_bool",
    "layout": "_layout",
}
CLASSES = '''class dtype:
    is_floating_point: _bool
    is_complex: _bool
    is_signed: _bool
    itemsize: _int

class device:
    type: str
    index: _int | None
    def __init__(self, type: device | str | _int, index: _int | None = None) -> None: ...
    def __enter__(self) -> device: ...
    def __exit__(self, *args: Any) -> None: ...

class layout: ...
class memory_format: ...

class Size(tuple[_int, ...]):
    def numel(self) -> _int: ...

class Generator:
    device: _device
    def __init__(self, device: _Device = "cpu") -> None: ...
    def manual_seed(self, seed: _int) -> Generator: ...
    def seed(self) -> _int: ...
    def initial_seed(self) -> _int: ...
    def get_state(self) -> Tensor: ...
    def set_state(self, new_state: Tensor) -> Generator: ...
    def get_offset(self) -> _int: ...
    def set_offset(self, offset: _int) -> Generator: ...
    def clone_state(self) -> Generator: ...

class _SequentialBase: ...
class _EntriesBase:
    def __getitem__(self, key: Any) -> Any: ...
    def __setitem__(self, key: Any, value: Any) -> None: ...
    def __delitem__(self, key: Any) -> None: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __len__(self) -> _int: ...
class _Rule: ...
class _FunctionBase:
    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any: ...

_names: str
_nn: Any

class Node:
    next_functions: tuple[tuple[Node | None, _int], ...]
    def name(self) -> str: ...

class FunctionCtx:
    saved_tensors: tuple[Tensor, ...]
    needs_input_grad: tuple[_bool, ...]
    def save_for_backward(self, *tensors: Tensor | None) -> None: ...
    def mark_dirty(self, *tensors: Tensor) -> None: ...
    def mark_non_differentiable(self, *tensors: Tensor) -> None: ...
    def set_materialize_grads(self, value: _bool) -> None: ...
    def __getattr__(self, name: str) -> Any: ...
    def __setattr__(self, name: str, value: Any) -> None: ...

class OutOfMemoryError(RuntimeError): ...
class AcceleratorError(RuntimeError): ...

class _Mode:
    def __init__(self, mode: Any = ...) -> None: ...
    def __enter__(self) -> None: ...
    def __exit__(self, *args: Any) -> None: ...
    def __call__(self, function: Any) -> Any: ...
    def clone(self) -> Any: ...

class no_grad(_Mode):
    def __init__(self, function: Any = ...) -> None: ...
class enable_grad(_Mode):
    def __init__(self, function: Any = ...) -> None: ...
class set_grad_enabled(_Mode): ...
class inference_mode(_Mode): ...

class _Values(tuple[Tensor, Tensor]):
    """A result of two tensors: values and indices."""
    values: Tensor
    indices: Tensor
    min: Tensor
    max: Tensor

'''
DTYPES = ("bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 short int long half float double").split()
BINARY = "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift".split()


def operators():
    out = []
    for name in BINARY:
        for form in (f"__{name}__", f"__r{name}__", f"__i{name}__"):
            out.append(f"    def {form}(self, other: Any) -> Tensor: ...\n")
    for name in ("lt", "le", "gt", "ge"):
        out.append(f"    def __{name}__(self, other: Any) -> Tensor: ...\n")
    for name in ("eq", "ne"):
        out.append(f"    def __{name}__(self, other: Any) -> Tensor: ...  # type: ignore[override]\n")
    out += [f"    def __{name}__(self) -> Tensor: ...\n" for name in ("neg", "pos", "abs", "invert")]
    out += [
        "    def __init__(self, *args: Any, **options: Any) -> None: ...\n",
        "    def __getitem__(self, key: Any) -> Tensor: ...\n",
        "    def __setitem__(self, key: Any, value: Any) -> None: ...\n",
        "    def __len__(self) -> _int: ...\n",
        "    def __iter__(self) -> Iterator[Tensor]: ...\n",
        "    def __contains__(self, value: Any) -> _bool: ...\n",
        "    def __hash__(self) -> _int: ...\n",
        "    def __bool__(self) -> _bool: ...\n",
        "    def __float__(self) -> _float: ...\n",
        "    def __int__(self) -> _int: ...\n",
        "    def __index__(self) -> _int: ...\n",
        "    def __format__(self, spec: str) -> str: ...\n",
    ]
    return out


def parameters(function, first):
    """first: how many parameters self stands for."""
    out, keyword = [], any(p.varargs for p in function.parameters[first:])
    for p in function.parameters[first:]:
        if p.keyword and not keyword:
            out.append("*")
            keyword = True
        kind = KINDS[p.kind] + (" | None" if p.default == "None" else "")
        if p.varargs:
            out.append(f"*{p.name}: {kind}")
        else:
            out.append(f"{p.name}{'_' * iskeyword(p.name)}: {kind}" + (f" = {default_of(p)}" if p.default else ""))
    return out


def default_of(p):
    return p.default if re.fullmatch(r"[-+.\w]+|\"[^\"]*\"", p.default) else "..."


def result_of(function):
    if function.name in RETURNS:
        return RETURNS[function.name]
    form = function.body.partition(": ")[0].split()
    return {"values": "_Values", "two": "tuple[Tensor, Tensor]", "bool": "_bool", "maybe": "Any"}.get(
        form[0] if form else "", "Tensor"
    )


def doc_of(text, indent):
    return f'{indent}    """{text}"""\n'


def of_row(function, name, method, in_place=False):
    indent, own = ("    ", ["self"]) if method else ("", [])
    ways = OVERLOADS.get(function.name) if not in_place else None
    if ways:
        first = [] if method or function.name == "randint" else parameters(function, 0)[:1]
        texts = [(", ".join(own + first + [w] if w else own + first), result) for w, result in ways]
    else:
        texts = [(", ".join(own + parameters(function, 1 if method else 0)), result_of(function))]
    out = ""
    for text, result in texts:
        line = f"def {name}({text}) -> {result}:"
        out += (f"{indent}@overload\n" if len(texts) > 1 else "") + f"{indent}{line}\n{doc_of(function.doc, indent)}"
    return out


def by_hand():
    """(file, table, name, signature, doc) of what the tables in python/ext have."""
    for path in sorted(glob.glob(os.path.join(HERE, "python", "ext", "*.c"))):
        text = open(path, encoding="utf-8").read()
        for table, methods in re.findall(r"PyMethodDef (\w+)\[\] = \{(.*?)\{0\}\};", text, re.S):
            joined = re.sub(r'"\s*\n\s*"', "", methods)
            for name, signature, doc in re.findall(
                r'\{"(\w+)",.*?"\w+\(((?:[^()"]|\([^()]*\))*)\)\\n--\\n\\n((?:[^"\\]|\\.)*)"\}', joined
            ):
                yield os.path.basename(path), table, name, signature, doc


def hand_line(name, signature, doc, method):
    out = []
    for part in (p.strip() for p in re.split(r",(?![^()]*\))", signature)):
        if part in ("", "*"):
            out += ["*"] if part else []
            continue
        argument, _, default = part.partition("=")
        kind = ARGUMENTS.get(argument.lstrip("*"), "Any")
        out.append(f"{argument}: {kind}" + (f" = {default}" if default else ""))
    result = ANSWERS.get(name, "_bool" if name.startswith("is_") else "Tensor")
    line = f"({', '.join((['self'] if method else []) + out)}) -> {result}:"
    indent = "    " if method else ""
    return f"{indent}def {name}{line}\n{doc_of(doc.replace(chr(92) + chr(34), chr(34)), indent)}"


def attributes():
    text = open(os.path.join(HERE, "python", "ext", "tensor.c"), encoding="utf-8").read()
    table = re.search(r"PyGetSetDef attributes\[\] = \{(.*?)\{0\}\};", text, re.S).group(1)
    usual = {"_version": "_int", "_base": "Tensor | None"}
    for name, doc in re.findall(r'\{"(\w+)", \w+, \w+, "([^"]*)"', table):
        kind = ATTRIBUTES.get(name) or usual.get(name) or ("_bool" if name.startswith("is_") else "Tensor")
        yield f"    {name}: {kind}\n{doc_of(doc, '')}"


def of_rows(functions):
    """Methods, functions."""
    methods, plain = [], []
    for f in functions:
        for name in f.names:
            methods += [of_row(f, name, True)] if "m" in f.where else []
            methods += [of_row(f, name + "_", True, True)] if "i" in f.where else []
            plain += [of_row(f, name, False)] if "f" in f.where else []
    return methods, plain


def written_by_hand():
    """Methods, functions."""
    methods, plain = {}, []
    for path, table, name, signature, doc in by_hand():
        if name.startswith("_"):
            continue
        if table in ("fapy_autograd_methods", "fapy_array_methods") or (table == "own_methods" and path == "tensor.c"):
            methods.setdefault(name, hand_line(name, signature, doc, True))
        elif table.startswith("fapy_") and table.endswith("_functions"):
            plain.append(hand_line(name, signature, doc, False))
    return list(methods.values()), plain


def module_base():
    """What nn.Module has from C."""
    out = "class _ModuleBase:\n    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...\n    def __getattr__(self, name: str) -> Any: ...\n"
    for path, table, name, signature, doc in by_hand():
        if table == "fapy_walk_methods" or (table == "own_methods" and path == "nn_module.c"):
            out += hand_line(name, signature, doc, True).replace(") -> Tensor:", ") -> Any:")
    return out + "\n"


def modules_of_layers(faces):
    """{file: text} of nn/modules/: the modules that PyTorch keeps its layers in; the layers themselves stand in nn/__init__.pyi."""
    places = {"distance": OTHERS[:2], "sparse": OTHERS[2:3], "loss": OTHERS[3:4] + ["NLLLoss2d"], "batchnorm": OTHERS[4:], "activation": ["MultiheadAttention"]}
    for f in faces:
        lazy_too = ["Lazy" + f.layer.name] if LAZY.fullmatch(f.layer.name) else []
        places[f.where] = places.get(f.where, []) + [f.layer.name] + lazy_too
    texts = {where: f"{HEAD}from .. import {', '.join(f'{n} as {n}' for n in names)}\n" for where, names in places.items()}
    own = "from . import {0} as {0}\n".format
    texts["__init__"] = (
        HEAD
        + "".join(own(m) for m in sorted([*places, "container", "lazy", "module", "others", "rnn", "transformer", "utils"]))
        + "from .container import *\nfrom .module import Module as Module\nfrom .rnn import *\nfrom .transformer import *\n"
        + "".join(t[len(HEAD) :] for where, t in texts.items())
    )
    return texts


def c_module(functions):
    """facula/_C.pyi"""
    rows, hand = of_rows(functions), written_by_hand()
    types = "_dtype = dtype\n_device = device\n_layout = layout\n_Device = Union[device, str, _int]\n\n"
    values = "".join(f"{d}: dtype\n" for d in DTYPES) + "strided: layout\n"
    values += (
        "".join(f"{name}: memory_format\n" for name in ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d"))
        + "__version__: str\n"
    )
    tensor = "class Tensor:\n" + "".join([*attributes(), *operators(), *rows[0], *hand[0]]) + "\n"
    constructor = "def __init__(self, data: Tensor | None = None, requires_grad: _bool = True) -> None: ..."
    parameter = f"class Parameter(Tensor):\n    {constructor}\n\n"
    return HEAD + NAMES + "\n" + CLASSES + types + tensor + parameter + module_base() + "".join(rows[1] + hand[1]) + "\n" + values


def functional(functions):
    """facula/nn/functional.pyi"""
    out = [
        HEAD,
        NAMES,
        "\nfrom .._C import Tensor, device, dtype\n\n_Device = Union[device, str, _int]\n_dtype = dtype\n_Values = Any\n\n",
    ]
    for f in functions:
        if "n" in f.where:
            out += [of_row(f, name, False) for name in f.names]
    out.append("".join(f"def {name}_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor: ...\n" for name in IN_PLACE))
    pools = (f"{a}max_pool{n}d" for a in ("", "adaptive_") for n in (1, 2, 3))
    way = "(input: Tensor, *args: Any, return_indices: _bool = False, **kwargs: Any) -> tuple[Tensor, Tensor]: ...\n"
    out.append("".join(f"def {name}_with_indices{way}" for name in pools))
    with open(os.path.join(HERE, "python", "facula", "nn", "functional.py"), encoding="utf-8") as f:
        source = ast.parse(f.read())
    done = {name for f in functions if "n" in f.where for name in f.names}
    for node in source.body:
        if isinstance(node, ast.FunctionDef) and node.name not in done and not node.name.startswith("_"):
            out.append(gen_stubs.of_function(node))
    return "".join(out)


# What a row's layer has beside its parameters, because Python puts it there.
MORE = {
    **{f"Conv{n}d": "    transposed: bool\n    output_padding: tuple[int, ...]\n" for n in (1, 2, 3)},
    **{f"ConvTranspose{n}d": "    transposed: bool\n" for n in (1, 2, 3)},
    "Embedding": "    @classmethod\n    def from_pretrained(cls, embeddings: Tensor, freeze: bool = True, padding_idx: int | None = None, "
    "max_norm: float | None = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False) -> Embedding: ...\n",
}
LAZY = re.compile(r"Linear|Conv(Transpose)?\dd|(Batch|Instance)Norm\dd")
OTHERS = "CosineSimilarity PairwiseDistance EmbeddingBag TripletMarginWithDistanceLoss SyncBatchNorm".split()
FACTORY = "def factory_kwargs(kwargs: Any) -> dict[str, Any]: ...\nNLLLoss2d = NLLLoss\n"


def lazy(name, arguments):
    """The lazy form of a layer, whose first argument comes from the input."""
    return (
        f"class Lazy{name}({name}, LazyModuleMixin):\n    def __init__({', '.join(arguments)}) -> None: ...\n"
        "    def initialize_parameters(self, input: Tensor) -> None: ...\n"
    )


def layers(faces):
    """facula/nn/__init__.pyi: the rows' layers; what Python makes is taken from there."""
    out = [
        HEAD,
        "from typing import Any, Sequence\n\nfrom .._C import Parameter as Parameter, Tensor, device, dtype\n"
        "from . import attention as attention, functional as functional, init as init, modules as modules, parallel as parallel, utils as utils\n"
        "from .modules.container import *\nfrom .modules.module import Module as Module\n"
        "from .modules.rnn import *\nfrom .modules.transformer import *\nfrom .parallel import DataParallel as DataParallel\n"
        "from .modules.lazy import LazyModuleMixin\n"
        f"from .modules.others import {', '.join(f'{n} as {n}' for n in OTHERS)}\n"
        "from .parameter import Buffer as Buffer, UninitializedBuffer as UninitializedBuffer, "
        "UninitializedParameter as UninitializedParameter\n\n",
    ]
    kinds = {"int": "int", "float": "float", "bool": "bool", "word": "str", "shape": "int | Sequence[int]"}
    for f in faces:
        arguments = ["self"]
        for i, (name, _, at, initial) in enumerate(f.parameters):
            if i == f.positional:
                arguments.append("*")
            kind = kinds.get(f.layer.args[at].type.rstrip("?0123456789"), "Any") if at >= 0 else "Any"
            kind += " | None" if initial == "None" and kind != "Any" else ""
            kind = "Any" if name == "padding" else kind
            arguments.append(f"{name}: {kind}" + (f" = {initial}" if initial is not None else ""))
        if f.layer.name == "Embedding":  # PyTorch's order, with two arguments that no row has
            arguments[8:8] = ["_weight: Tensor | None = None", "_freeze: bool = False"]
        inputs = ", ".join(f"{n.strip()}: Tensor" for n in f.inputs.split(","))
        out.append(
            f'class {f.layer.name}(Module):\n    """{f.layer.doc}"""\n    def __init__({", ".join(arguments)}) -> None: ...\n'
            f"    def forward(self, {inputs}) -> Tensor: ...\n    def __call__(self, {inputs}) -> Tensor: ...\n"
        )
        out += [f"    {name}: Parameter\n" for name in ("weight", "bias") if any(e[1] == name for e in f.layer.entries)]
        out.append(MORE.get(f.layer.name, ""))
        if LAZY.fullmatch(f.layer.name):
            out.append(lazy(f.layer.name, arguments[:1] + arguments[2:]))
    out.append(FACTORY)
    return "".join(out)
