"""The golden file's language: how a case is described here, computed by PyTorch and written down. tests/golden/README.md
describes the format; tests/test_golden.c reads it."""

import inspect
import zlib

import numpy
import torch

F = ("float32", "float64")
H = ("float16", "bfloat16")
I = ("int8", "int16", "int32", "int64")
U = ("uint8",)
B = ("bool",)
MOVE = F + H + I + U  # operators that only move elements: small whole numbers, the same in every type
LAYOUTS = "ctsfnM"

lines = []
seen = {}


def begin():
    """A new file."""
    lines.clear()
    seen.clear()


class Numbers:
    """The generator that the C test repeats: a 64-bit linear congruence, its upper 24 bits."""

    def __init__(self, seed):
        self.state = seed

    def next(self):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return self.state >> 40


def fill(kind, low, high, seed, n):
    """n values as Python numbers: u uniform, rounded to float32; g the same on a grid that float16 and bfloat16 hold exactly;
    i whole numbers; p a permutation around 0."""
    draw = Numbers(seed)
    if kind == "i":
        return [low + draw.next() * (high - low + 1) // 2**24 for _ in range(n)]
    if kind == "p":
        p = list(range(n))
        for i in range(n - 1, 0, -1):
            j = draw.next() * (i + 1) // 2**24
            p[i], p[j] = p[j], p[i]
        return [v - n // 2 for v in p]
    values = [low + (high - low) * (draw.next() / 2**24) for _ in range(n)]
    if kind == "u":
        return [float(numpy.float32(v)) for v in values]
    steps = 16 if max(abs(low), abs(high)) <= 15 else 1
    return [numpy.floor(v * steps + 0.5) / steps for v in values]


class T:
    """A tensor argument. dtype "*": that of the case; values: given ones instead of drawn ones."""

    def __init__(self, *shape, low=-3, high=3, dtype="*", values=None, kind=None, grad=True, seed=None):
        self.shape, self.low, self.high, self.dtype, self.values, self.kind = shape, low, high, dtype, values, kind
        self.grad, self.seed = grad, seed

    def spec(self, types):
        """-> (kind, low, high) for a group of element types."""
        if self.kind:
            return self.kind, self.low, self.high
        of = (self.dtype,) if self.dtype != "*" else types
        if of[0] in F:
            return "u", self.low, self.high
        if of[0] in H:
            return "g", self.low, self.high
        low, high = int(numpy.ceil(self.low)), int(numpy.floor(self.high))
        if low > high:
            low, high = -3, 3
        if of == B:
            low, high = 0, 1
        if "uint8" in of:
            low, high = max(low, 0), max(high, 1)
        return "i", low, high

    def numbers(self, types, seed, expanded):
        shape = self.shape[1:] if expanded and self.shape else self.shape
        n = int(numpy.prod(shape, dtype=int))
        values = self.values if self.values is not None else fill(*self.spec(types), seed, n)
        t = torch.tensor(values, dtype=torch.float64).reshape(shape)
        return t.expand(self.shape).clone() if expanded and self.shape else t

    def text(self, types, seed):
        shape = dims(self.shape)
        if self.values is not None:
            return f"T {self.dtype} {shape} v {' '.join(map(number, self.values))}"
        kind, low, high = self.spec(types)
        return f"T {self.dtype} {shape} {kind} {number(low)} {number(high)} {seed}"


def dims(shape):
    return ",".join(map(str, shape)) or "-"


def number(v):
    if isinstance(v, float):
        if v != v:
            return "nan"
        if v in (float("inf"), float("-inf")):
            return "inf" if v > 0 else "-inf"
        if v == int(v) and abs(v) < 2**53 and str(v) != "-0.0":
            return str(int(v))
        return repr(v)
    return str(int(v))


class V:
    """A number whose category (bool, int, float) decides promotion."""

    def __init__(self, value):
        self.value = value


class Lst:
    def __init__(self, *tensors):
        self.tensors = tensors


OUT = object()  # a second result


def argument(a, types, seed):
    """The text of an argument; tensors of a list follow on lines of their own."""
    if isinstance(a, T):
        return a.text(types, seed)
    if isinstance(a, V):
        return f"V {'b' if isinstance(a.value, bool) else 'i' if isinstance(a.value, int) else 'f'} {number(a.value)}"
    if isinstance(a, Lst):
        return f"L {len(a.tensors)}"
    if a is OUT:
        return "O"
    if a is None:
        return "N"
    if isinstance(a, bool):
        return f"B {int(a)}"
    if isinstance(a, int):
        return f"I {a}"
    if isinstance(a, float):
        return f"F {number(a)}"
    if isinstance(a, (tuple, list)):
        return f"S {dims(a)}"
    if isinstance(a, torch.dtype):
        return f"D {name_of(a)}"
    return f"X {a}"


def name_of(dtype):
    return str(dtype).replace("torch.", "")


def values_text(t):
    if t._is_zerotensor():
        t = torch.zeros(t.shape)
    return " ".join(number(v) for v in t.detach().flatten().tolist())


class Case:
    def __init__(self, op, fn, types, args, expanded):
        self.op, self.fn, self.types, self.args, self.expanded = op, fn, types, args, expanded
        self.seeds, count = {}, seen.setdefault(op, 0)
        for name, a in args.items():
            for k, t in enumerate(a.tensors if isinstance(a, Lst) else [a]):
                if isinstance(t, T):
                    self.seeds[name, k] = t.seed or zlib.crc32(f"{op} {count} {name} {k}".encode())
        self.gseed = zlib.crc32(f"{op} {count} g".encode())
        seen[op] += 1

    def tensor(self, name, k, a, dtype, grad):
        t = a.numbers(self.types, self.seeds[name, k], self.expanded)
        t = t.to(getattr(torch, dtype if a.dtype == "*" else a.dtype))
        if grad and a.dtype == "*" and a.grad:
            t.requires_grad_()
        return t

    def inputs(self, dtype, grad=False):
        made = {}
        for name, a in self.args.items():
            if isinstance(a, T):
                made[name] = self.tensor(name, 0, a, dtype, grad)
            elif isinstance(a, Lst):
                made[name] = [None if t is None else self.tensor(name, k, t, dtype, grad) for k, t in enumerate(a.tensors)]
            elif a is not OUT:
                made[name] = a.value if isinstance(a, V) else a
        return made

    def run(self, dtype, grad=False):
        """-> inputs, list of results"""
        made = self.inputs(dtype, grad)
        r = self.fn(**{k: v for k, v in made.items() if k in inspect.signature(self.fn).parameters or takes_all(self.fn)})
        return made, list(r) if isinstance(r, (tuple, list)) else [r]


def takes_all(fn):
    return any(p.kind is p.VAR_KEYWORD for p in inspect.signature(fn).parameters.values())


def differentiable(made):
    """The inputs that want a gradient, numbered over all tensor arguments of the case."""
    flat = [
        t
        for v in made.values()
        for t in (v if isinstance(v, list) else [v])
        if isinstance(v, list) or isinstance(t, torch.Tensor)
    ]
    return [(i, t) for i, t in enumerate(flat) if t is not None and t.requires_grad]


def weights(shape, seed, whole):
    n = int(numpy.prod(shape, dtype=int))
    return torch.tensor(fill("i", 1, 9, seed, n) if whole else fill("u", 0.5, 1.5, seed, n), dtype=torch.float64).reshape(shape)


def gradients(case, whole, second):
    """Lines g, d and h: derivatives in float64 of the sum of the first result times weights; h: those of the sum of the
    gradients times weights."""
    made, out = case.run("float64", grad=True)
    wanted = differentiable(made)
    if not wanted or not out[0].requires_grad:
        return []
    text = [f"g {'i 1 9' if whole else 'u 0.5 1.5'} {case.gseed}"]
    loss = (out[0] * weights(out[0].shape, case.gseed, whole)).sum()
    grads = torch.autograd.grad(loss, [t for _, t in wanted], create_graph=second, allow_unused=True)
    text += [f"d {i} {values_text(g)}" for (i, _), g in zip(wanted, grads) if g is not None]
    recorded = [(k, g) for k, g in enumerate(grads) if g is not None and g.requires_grad]
    if second and recorded:
        loss = sum((g * weights(g.shape, (case.gseed + 1 + k) % 2**32, whole)).sum() for k, g in recorded)
        try:
            grads = torch.autograd.grad(loss, [t for _, t in wanted], allow_unused=True)
        except RuntimeError as e:
            print(f"  {case.op}: {str(e).splitlines()[0]}")
            return text
        text += [f"h {i} {values_text(g)}" for (i, _), g in zip(wanted, grads) if g is not None]
    return text


def results(case, group):
    """-> [(types, result types, results)]: element types of the group whose values agree, together."""
    if group[0] in F + H or group == MOVE:
        _, out = case.run("float64")
        same = tuple(tuple(t if o.dtype == torch.float64 else name_of(o.dtype) for o in out) for t in group)
        return [(group, same, out)]
    found = []
    for t in group:
        try:
            _, out = case.run(t if t != "default" else "float32")
        except (RuntimeError, TypeError) as e:
            print(f"  {case.op}: PyTorch has no {t}: {str(e).splitlines()[0][:90]}")
            continue
        kinds = tuple(name_of(o.dtype) for o in out)
        if out[0].dtype.is_floating_point and t in I + U + B:
            out = case.run("float64")[1]
        for known in found:
            if all(torch.equal(a.double(), b.double()) for a, b in zip(known[2], out)):
                known[0].append(t), known[1].append(kinds)
                break
        else:
            found.append(([t], [kinds], out))
    return found


def case(
    op,
    fn,
    types=F,
    layouts="c",
    ulp=None,
    near=None,
    grad=True,
    second=True,
    bits=True,
    whole=None,
    changes=(),
    seed=None,
    **args,
):
    """Writes a case. types: element types "*" stands for; layouts: how inputs lie in memory; ulp: allowed distance in units of
    the result's last place; near: and besides, that many units of the last place of this number (in the type computed in);
    bits: the same bits on every device; changes: arguments written to; seed: fa_manual_seed before, CPU only."""
    made = Case(op, fn, types, args, layouts == "e")
    exact = types == MOVE or (types[0] not in F + H + ("default",))
    whole = types == MOVE if whole is None else whole
    for some, kinds, out in results(made, types):
        peak = max([float(o.double().abs().max()) for o in out if o.numel() and o.dtype.is_floating_point] or [0])
        floats = any(k[0] in F + H for k in kinds)
        u = (1 if types[0] in H else ulp if ulp is not None else 4) if floats and types != MOVE else 0
        n = (near if near is not None else 0 if ulp is not None else 8 * peak) if floats and types != MOVE else 0
        lines.append(f"op {op}")
        lines.append(f"t {','.join(some)} {','.join('+'.join(k) for k in kinds)}")
        lines.append(f"l {layouts}")
        for name, a in args.items():
            lines.append(f"a {name} {argument(a, types, made.seeds.get((name, 0)))}")
            for k, t in enumerate(a.tensors if isinstance(a, Lst) else []):
                lines.append("a . N" if t is None else f"a . {t.text(types, made.seeds[name, k])}")
        lines.append(f"k {number(float(u))} {number(float(n) if numpy.isfinite(n) else 0.0)}")
        if bits:
            lines.append("b")
        if seed is not None:
            lines.append(f"r {seed}")
        lines.extend(f"o {dims(o.shape)} {values_text(o)}" for o in out)
        if changes:
            after, _ = made.run("float64")
            lines.extend(f"m {name} {values_text(after[name])}" for name in changes)
        if grad and "float64" in some and not exact or (grad and types == MOVE):
            lines.extend(gradients(made, whole, second))
        lines.append(".")
