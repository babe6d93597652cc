#!/usr/bin/env python3
"""Type stubs of the modules that are written in Python: python/facula/x.py -> gen/py/x.pyi, for editors and type checkers.

gen_stubs.py --out BUILD [--package python/facula]. Names, parameters and defaults come from the sources by ast, results from the
first lines of docstrings ("name(...) -> Tensor"). What a module makes when it is imported made() below knows: its sources don't
show it to a checker. _C, nn and nn.functional have stubs from the tables (py_stubs.py).
"""

import argparse
import ast
import os
import re

import gen_ops

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
HEAD = "# Generated from python/facula by tools/gen_stubs.py.\n# mypy: disable-error-code=override\n"
OWN = ("nn/__init__", "nn/functional", "nn/modules/__init__")  # py_stubs.py has them
RESULTS = {"bool": "_bool", "int": "_int", "float": "_float", "str": "_str", "list": "_list", "set": "_set", "dict": "_dict"}
RESULTS.update({name: f"_C.{name}" for name in ("Tensor", "Size", "Generator", "dtype", "device")})
# Functions that make public classes.
MAKERS = {"nn/modules/others": ["make", "make_sync"], "nn/modules/transformer": ["make_attention"]}
OLD = "Float Double Half BFloat16 Long Int Short Char Byte Bool".split()
OLD_TYPES = "".join(f"class {name}Tensor(_C.Tensor): ...\n" for name in OLD)
ANY = "(*args: Any, **kwargs: Any) -> Any: ...\n"
SCALER = "init_scale: Any = 65536.0, growth_factor: Any = 2.0, backoff_factor: Any = 0.5, growth_interval: Any = 2000, enabled: Any = True"
OLD_AMP = (
    "class autocast(_amp.autocast):\n    def __init__(self, enabled: Any = True, dtype: Any = None, cache_enabled: Any = True) -> None: ...\n"
    f"class GradScaler(_amp.GradScaler):\n    def __init__(self, {SCALER}) -> None: ...\n"
)


def read(package, name):
    with open(os.path.join(package, name + ".py"), encoding="utf-8") as f:
        return ast.parse(f.read())


def public(name):
    return not name.startswith("_")


def default(value):
    """A default as it stands, if it is a constant; ... else."""
    try:
        ast.literal_eval(value)
    except ValueError:
        return "..."
    return ast.unparse(value)


def parameters(function):
    a, out = function.args, []
    plain = [*a.posonlyargs, *a.args]
    defaults = [None] * (len(plain) - len(a.defaults)) + a.defaults
    method = plain and plain[0].arg in ("self", "cls")
    for i, (p, value) in enumerate(zip(plain, defaults)):
        out.append(p.arg if method and i == 0 else f"{p.arg}: Any" + (f" = {default(value)}" if value else ""))
        if a.posonlyargs and i + 1 == len(a.posonlyargs):
            out.append("/")
    if a.vararg:
        out.append(f"*{a.vararg.arg}: Any")
    elif a.kwonlyargs:
        out.append("*")
    out += [f"{p.arg}: Any" + (f" = {default(v)}" if v else "") for p, v in zip(a.kwonlyargs, a.kw_defaults)]
    return ", ".join(out + ([f"**{a.kwarg.arg}: Any"] if a.kwarg else []))


def result(function):
    found = re.match(rf"{function.name}\(.*\) -> (\w+)$", (ast.get_docstring(function) or "").split("\n")[0])
    if function.name in ("__init__", "__setattr__", "__delattr__", "__setitem__", "__delitem__"):
        return "None"
    if function.name.startswith("is_"):
        return "_bool"
    if re.search(r"(memory_(allocated|reserved|used)|device_count|current_device|element_size|nbytes)$", function.name):
        return "_int"
    own = {"__len__": "_int", "__bool__": "_bool", "__repr__": "_str", "__str__": "_str", "__hash__": "_int"}.get(function.name)
    return own or RESULTS.get(found.group(1) if found else "", "Any")


def of_function(function, indent="", doc=False):
    kinds = [ast.unparse(d) for d in function.decorator_list]
    kept = [k for k in kinds if k in ("staticmethod", "classmethod", "property", "contextmanager") or k.endswith(".setter")]
    text = "".join(f"{indent}@{k}\n" for k in kept)
    line = f"{indent}def {function.name}({parameters(function)}) -> {result(function)}:"
    said = (ast.get_docstring(function) or "").split("\n\n")[0] if doc else ""
    return text + (f'{line}\n{indent}    """{said}"""\n' if said else f"{line} ...\n")


def of_assignment(node, names, indent="", enum=False, hidden=(), shown=()):
    """Attributes and other names of what there is: a name that stands for a class or function of this module stays one."""
    target, value = node.targets[0], node.value
    if isinstance(target, ast.Tuple):
        values = value.elts if isinstance(value, ast.Tuple) else [None] * len(target.elts)
        pairs = list(zip(target.elts, values))
    else:
        pairs = [(t, value) for t in node.targets]
    out = ""
    for t, v in pairs:
        if isinstance(t, ast.Name) and (public(t.id) or t.id in shown) and t.id not in hidden:
            if isinstance(v, ast.Name) and v.id in names or enum:
                out += f"{indent}{t.id} = {ast.unparse(v)}\n"
            elif isinstance(v, ast.Call) and isinstance(v.func, ast.Name) and v.func.id == "property":
                out += f"{indent}@property\n{indent}def {t.id}(self) -> Any: ...\n"
            else:
                out += f"{indent}{t.id}: Any\n"
    return out


def of_class(node, indent="", doc=False, base=None):
    bases = [base] if base else [re.sub(r"^type\(.*\)$", "type", ast.unparse(b)) for b in node.bases] + [f"metaclass={ast.unparse(k.value)}" for k in node.keywords]
    bases = [f"_streams.{b}" if b == node.name else b for b in bases]  # a kind's own Event, made of the one that make() gave
    out = f"{indent}class {node.name}{'(' + ', '.join(bases) + ')' if bases else ''}:\n"
    inside, names = "", set()
    if doc and ast.get_docstring(node):
        inside += f'{indent}    """{ast.get_docstring(node).split(chr(10) * 2)[0]}"""\n'
    for part in node.body:
        if isinstance(part, ast.FunctionDef) and (public(part.name) or part.name.startswith("__")):
            inside += of_function(part, indent + "    ", doc)
            names.add(part.name)
        elif isinstance(part, ast.AnnAssign) and public(part.target.id):
            inside += f"{indent}    {part.target.id}: Any\n"
        elif isinstance(part, ast.Assign):
            inside += of_assignment(part, names, indent + "    ", any(b.endswith("Enum") for b in bases))
    asks = any(isinstance(p, ast.FunctionDef) and p.name == "__getattr__" for p in node.body)
    sets = any(isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store) for n in ast.walk(node))
    if sets and not asks:  # attributes that __init__ sets
        inside += f"{indent}    def __getattr__(self, name: _str) -> Any: ...\n"
    return out + inside if inside else out.rstrip("\n") + " ...\n"


def imports(node):
    """An import as a stub wants it: each name under "as", which makes it one of the module's own."""
    if isinstance(node, ast.Import):
        return "".join(f"import {a.name}" + (f" as {a.asname}" if a.asname else "") + "\n" for a in node.names if a.name != "sys")
    where = "." * node.level + (node.module or "")
    if [a.name for a in node.names] == ["*"]:
        return f"from {where} import *\n"
    if where == "__future__":
        return ""
    names = ", ".join(f"{a.name} as {a.asname or a.name}" for a in node.names if a.name != "_C")
    return f"from {where} import {names}\n" if names else ""


def of_kind(package, name, kind, own):
    """The functions and classes for devices of a kind: what the makers of _device_module, _memory, _streams and _graphs define."""
    above = "." + "." * name.count("/")
    out = f"from {above} import _graphs, _streams\n"
    out += f"from {above}_C import AcceleratorError as AcceleratorError, OutOfMemoryError as OutOfMemoryError\n"
    for source in ("_device_module", "_memory", "_streams", "_graphs"):
        make = next(n for n in read(package, source).body if isinstance(n, ast.FunctionDef) and n.name == "make")
        for node in make.body:
            if getattr(node, "name", "where") in own or getattr(node, "name", "") in ("where", "generators"):
                continue
            if isinstance(node, ast.FunctionDef):
                out += of_function(node, doc=True)
            elif isinstance(node, ast.ClassDef):
                base = {"base_stream": "_streams.Stream", "base_event": "_streams.Event", "Context": "_streams.StreamContext", "base_graph": "_graphs.Graph"}
                if node.name == "Graphs":
                    node.name = "CUDAGraph" if kind == "cuda" else f"{kind.upper()}Graph"
                named = ast.unparse(node.bases[0]) if node.bases else ""
                out += of_class(node, doc=True, base=base.get(named))
                if node.name in ("Stream", "Event"):
                    out += f"    {kind}_{node.name.lower()}: _int\n"
    return out


def made(package, name):
    """The stub's text of what module `name` makes when it is imported."""
    tree = read(package, name)
    text = ast.unparse(tree)
    kind = re.search(r"\b_make\('(\w+)'\)", text)
    if kind:
        own = {n.name for n in tree.body if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
        return of_kind(package, name, kind.group(1), own) + (OLD_TYPES if "old_types" in text else "")
    other = re.search(r"globals\(\).update\({name: getattr\((\w+), name\) for name in __all__}\)", text)
    if other:
        words = next(ast.literal_eval(n.value) for n in tree.body if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "__all__")
        return f"from . import {', '.join(f'{w} as {w}' for w in words)}\n"
    if name == "__init__":
        words = next(n.value.value for n in tree.body if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "_IN_PLACE")
        return OLD_TYPES + "".join(f"{w} = _C.Tensor.{w}\n" for w in words.split())
    if name in ("cuda/amp", "cpu/amp"):
        return "from .. import amp as _amp\n" + OLD_AMP
    if name == "nn/init":
        loop = next(n for n in tree.body if isinstance(n, ast.For))
        return "".join(f"def {w}{ANY}" for w in ast.literal_eval(loop.iter))
    if name == "return_types":
        found = re.findall(r'^(\w+) = _make\("\w+", (.*)\)$', "\n".join(ast.unparse(n).replace("'", '"') for n in tree.body), re.M)
        loop = next(n for n in tree.body if isinstance(n, ast.For))
        found += [(w, '"values", "indices"') for w in ast.literal_eval(loop.iter)]
        return "".join(f"class {w}(_Result):\n" + "".join(f"    {p}: _C.Tensor\n" for p in re.findall(r'"(\w+)"', parts)) for w, parts in found)
    return ""


def later(package, name, tree):
    """The modules that _missing.attribute_of imports when they are asked for."""
    folder = os.path.join(package, os.path.dirname(name))
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__getattr__" and len(node.value.args) > 1:
            for word in ast.literal_eval(node.value.args[1]):
                if os.path.exists(os.path.join(folder, word)) or os.path.exists(os.path.join(folder, word + ".py")):
                    yield f"from . import {word} as {word}\n"


def needed(header, body):
    """Of imports, those whose names are public or used."""
    kept = []
    for line in "".join(header).splitlines():
        names = line.partition("import ")[2].split(", ")
        bound = {n: n.split(" as ")[-1] for n in names}
        own = line.startswith("from .")
        used = [n for n, b in bound.items() if b == "*" or own and public(b) or re.search(rf"\b{b}\b", body)]
        if used:
            kept.append(line.partition("import ")[0] + "import " + ", ".join(used) + "\n")
    return "".join(kept)


def stub(package, name):
    tree, out = read(package, name), HEAD + "import builtins\nfrom typing import Any\n\n"
    out += "".join(f"_{t} = builtins.{t}\n" for t in "bool int float str list set dict".split())
    out += f"from {'.' * (name.count('/') + 1)} import _C\n"
    defined, body, header = set(), "", []
    more = made(package, name)
    taken = set(re.findall(r"^(?:class|def) (\w+)", more, re.M))
    bases = {ast.unparse(b) for n in ast.walk(tree) if isinstance(n, ast.ClassDef) for b in n.bases}
    nodes = list(tree.body)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name in MAKERS.get(name, ()):
            nodes += [n for n in node.body if isinstance(n, ast.ClassDef)]
    for node in nodes:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            header.append(imports(node))
        elif isinstance(node, ast.FunctionDef) and public(node.name) and node.name not in MAKERS.get(name, ()):
            body += of_function(node)
            defined.add(node.name)
        elif isinstance(node, ast.ClassDef):
            outer = node in tree.body
            body += of_class(node, base=None if outer else "Module")
            defined.add(node.name)
        elif isinstance(node, ast.Assign):
            body += of_assignment(node, defined, hidden=taken, shown=bases)
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            header += [imports(n) for n in node.body if isinstance(n, ast.ImportFrom)]
    body += more
    return out + needed([*header, *later(package, name, tree)], body) + "\n" + body


def names(package):
    for folder, _, files in sorted(os.walk(package)):
        for file in sorted(files):
            name = os.path.relpath(os.path.join(folder, file), package)[:-3].replace(os.sep, "/")
            hidden = any(part.startswith("_") and part != "__init__" for part in name.split("/"))
            if file.endswith(".py") and not hidden and name not in OWN:
                yield name


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--package", default=os.path.join(HERE, "python", "facula"))
    a = parser.parse_args()
    for name in names(a.package):
        path = os.path.join(a.out, "gen", "py", name + ".pyi")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        gen_ops.write(path, stub(a.package, name))


if __name__ == "__main__":
    main()
