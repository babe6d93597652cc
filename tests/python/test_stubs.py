"""Type stubs: every public name of every module is in them, with the parameters that it has; a type checker understands a program."""

import ast
import importlib.util
import inspect
import os
import subprocess
import sys
import tempfile
import unittest

import facula
import test_help

HOME = os.path.dirname(os.path.abspath(facula.__file__))

PROGRAM = """\
import facula as torch
from facula import nn
import facula.nn.functional as F
from facula.utils.data import DataLoader, TensorDataset

x = torch.ones(2, 3, requires_grad=True)
y: torch.Tensor = torch.add(x, 1, alpha=2)
values, indices = torch.max(x, dim=1)
m: torch.Tensor = x.max()
s: torch.Tensor = x.sort().indices
n: int = x.numel()
p: torch.Tensor = x.chunk(2)[0]
t: str = x.type()
d: torch.device = x.to("cpu").to(torch.float64).device
z: torch.Tensor = (x * 2 + 1) @ x.t()
for row in x:
    row.sum().backward()
with torch.no_grad():
    x.add_(1)
net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
loss: torch.Tensor = F.mse_loss(net(x), torch.zeros(2, 1))
there: bool = torch.cuda.is_available()
count: int = torch.cuda.device_count()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
optimizer.step()
loader = DataLoader(TensorDataset(x, x), batch_size=2, shuffle=True)
normal = torch.distributions.Normal(0.0, 1.0)
normal.log_prob(x)


@torch.no_grad()
def count_up(t: torch.Tensor) -> torch.Tensor:
    return t + 1


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 1)

    def forward(self, t: torch.Tensor) -> torch.Tensor:
        return self.layer(t)


device: torch.device = next(Net().parameters()).device
"""


def parsed(path):
    with open(path, encoding="utf-8") as f:
        return ast.parse(f.read())


class Stub:
    """What a checker sees of a module: its .pyi, or its source where it has none."""

    loaded = {}

    def __init__(self, name):
        self.name, base = name, os.path.join(HOME, *name.split(".")[1:])
        paths = [base + "/__init__.pyi", base + ".pyi", base + "/__init__.py", base + ".py"]
        self.path = next((p for p in paths if os.path.exists(p)), None)
        self.package = os.path.basename(self.path or "").startswith("__init__")
        self.tree = parsed(self.path) if self.path else ast.Module([], [])

    @classmethod
    def of(cls, name):
        if name not in cls.loaded:
            cls.loaded[name] = cls(name)
        return cls.loaded[name]

    def absolute(self, node):
        """The module that an import names."""
        if not node.level:
            return node.module
        parts = self.name.split(".")[: None if self.package else -1]
        parts = parts[: len(parts) - node.level + 1]
        return ".".join(parts + ([node.module] if node.module else []))

    def find(self, name, visited=()):
        """All definitions of a name, here or where it is imported from; [] if there is none."""
        if self.name in visited:
            return []
        found = []
        for node in self.tree.body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == name:
                found.append((self, node))
            elif isinstance(node, ast.AnnAssign) and getattr(node.target, "id", None) == name:
                found.append((self, node))
            elif isinstance(node, ast.Assign) and any(getattr(t, "id", None) == name for t in node.targets):
                inside = isinstance(node.value, ast.Name) and node.value.id != name
                found += self.find(node.value.id) if inside else [(self, node)]
            elif isinstance(node, ast.ImportFrom) and (node.module or node.level):
                for alias in node.names:
                    if alias.name == "*" and self.absolute(node).startswith("facula"):
                        found += Stub.of(self.absolute(node)).find(name, (*visited, self.name))
                    elif (alias.asname or alias.name) == name:
                        origin = Stub.of(self.absolute(node)) if self.absolute(node).startswith("facula") else None
                        found += origin.find(alias.name, (*visited, self.name)) if origin and origin.path else []
                        below = Stub.of(f"{self.absolute(node)}.{alias.name}")
                        found += [(below, below.tree)] if below.path else []
        return found

    def member(self, node, name):
        """A method of a class or of what it inherits."""
        for part in node.body:
            if isinstance(part, (ast.FunctionDef, ast.ClassDef)) and part.name == name:
                return [p for p in node.body if isinstance(p, ast.FunctionDef) and p.name == name] or [part]
            targets = [part.target] if isinstance(part, ast.AnnAssign) else getattr(part, "targets", [])
            targets = [t for target in targets for t in getattr(target, "elts", [target])]
            if any(getattr(t, "id", None) == name for t in targets):
                return [part]
        for base in node.bases:
            text = ast.unparse(base).split(".")
            where = self
            if len(text) == 2:
                where = {"_C": Stub.of("facula._C"), "_streams": Stub.of("facula._streams"), "_amp": Stub.of("facula.amp")}.get(text[0], self)
            for origin, kind in where.find(text[-1]):
                found = origin.member(kind, name) if isinstance(kind, ast.ClassDef) else []
                if found:
                    return found
        return []


def told(node):
    """Names of a definition's parameters, stars included."""
    a = node.args
    names = [p.arg for p in (*a.posonlyargs, *a.args)] + (["*" + a.vararg.arg] if a.vararg else [])
    return names + [p.arg for p in a.kwonlyargs] + (["**" + a.kwarg.arg] if a.kwarg else [])


def real(value):
    """Those of a function or class as it runs, or None where Python can't tell."""
    try:
        signature = inspect.signature(value)
    except (ValueError, TypeError):
        return None
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    return [stars.get(p.kind, "") + p.name for p in signature.parameters.values()]


def same(stub, found):
    """Where the runtime passes on all that it is given, the stub may say more; self may be there or not."""
    def short(names):
        return [n.rstrip("_") for n in names if n not in ("self", "cls")]
    named = [n for n in short(found) if n[0] != "*"]
    return short(stub) == short(found) or (len(named) < len(found) and [n for n in short(stub) if n in named] == named)


class Names(unittest.TestCase):
    def check(self, full, nodes, value):
        if full.endswith(("enable_grad", "no_grad")):  # a checker must know that they may stand around functions without ()
            return []
        functions = [n for n in nodes if isinstance(n, ast.FunctionDef)]
        if not functions or value is None:
            return []
        found = real(value)
        if found is None or len(functions) > 1 or any(same(told(n), found) for n in functions):
            return []
        return [f"{full}: the stub has {told(functions[0])}, it has {found}"]

    def test_every_name_with_its_parameters(self):
        missing, wrong, count = [], [], 0
        for module in test_help.modules():
            if any(part.startswith("_") for part in module.__name__.split(".")) or module.__name__ in test_help.NO_EXAMPLE:
                continue
            for name in sorted(getattr(module, "__all__", None) or [n for n in dir(module) if not n.startswith("_")]):
                value, full = getattr(module, name), f"{module.__name__}.{name}"
                if not callable(value) or not test_help.own(value):
                    continue
                found, count = Stub.of(module.__name__).find(name), count + 1
                if not found:
                    missing.append(full)
                stub, node = (found or [(None, None)])[0]
                if inspect.isclass(value) and isinstance(node, ast.ClassDef):
                    wrong += self.check(full, stub.member(node, "__init__") or stub.member(node, "__new__"), value)
                    missing += self.members(full, value, stub, node, wrong)
                else:
                    wrong += self.check(full, [n for _, n in found], value)
        self.assertGreater(count, 1500)
        self.assertEqual((missing, wrong), ([], []))

    def members(self, full, kind, stub, node, wrong):
        """What of a class's own public methods and attributes the stub lacks."""
        missing = []
        for name in vars(kind):
            if name.startswith("_") or kind is facula.Tensor:
                continue
            found = stub.member(node, name)
            if not found:
                missing.append(f"{full}.{name}")
            elif inspect.isfunction(vars(kind)[name]):
                wrong += self.check(f"{full}.{name}", found, vars(kind)[name])
        return missing


class Stubs(unittest.TestCase):
    def stub(self, name):
        return parsed(os.path.join(HOME, name))

    def names(self, body):
        targets = [n.target.id for n in body if isinstance(n, ast.AnnAssign)]
        return {n.name for n in body if isinstance(n, (ast.FunctionDef, ast.ClassDef))} | set(targets)

    def test_stubs_name_all(self):
        tree = self.stub("_C.pyi")
        tensor = next(n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "Tensor")
        self.assertEqual({n for n in dir(facula._C) if not n.startswith("_")} - self.names(tree.body), set())
        self.assertEqual({n for n in dir(facula.Tensor) if not n.startswith("_")} - self.names(tensor.body), set())
        functional = self.names(self.stub("nn/functional.pyi").body)
        self.assertEqual({n for n in dir(facula._C._nn) if not n.startswith("_")} - functional, set())
        layers = {row[0] for row in facula._C._layer_rows()}
        self.assertEqual(layers - self.names(self.stub("nn/__init__.pyi").body), set())

    def test_all_stubs_and_sources_compile(self):
        for folder, _, files in os.walk(HOME):
            for name in files:
                if name.endswith((".py", ".pyi")):
                    with self.subTest(name=name), open(os.path.join(folder, name), encoding="utf-8") as f:
                        ast.parse(f.read())

    @unittest.skipUnless(importlib.util.find_spec("mypy"), "mypy is not installed")
    def test_a_type_checker_understands(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "program.py")
            for extra, code in (
                ("", 0),
                ("x.topk()\n", 1),
                ("torch.ones('a')\n", 1),
                ("torch.onse(1)\n", 1),
                ("torch.cuda.synchronise()\n", 1),
                ("torch.optim.SGD(net.parameters(), rate=0.1)\n", 1),
                ("nn.Linear(3)\n", 1),
            ):
                with open(path, "w", encoding="utf-8") as f:
                    f.write(PROGRAM + extra)
                done = subprocess.run(
                    [sys.executable, "-m", "mypy", "--follow-imports=silent", "--cache-dir", folder, path],
                    text=True,
                    capture_output=True,
                    env={**os.environ, "MYPYPATH": os.path.dirname(HOME)},
                )
                self.assertEqual(done.returncode, code, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
