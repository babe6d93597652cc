"""The golden file's language: how a case is described here, computed by PyTorch and written down. tests/golden/README.md
describes the format; tests/test_golden.c reads it.

Whoever writes a case thinks of values and shapes. Layouts are the machinery's: each case runs in all that its shapes allow, and
sweep() adds for each operator what its cases left out: other element types, an expanded, an empty and a 0-dim input. What PyTorch
refuses is a case too: Facula must refuse it."""

import inspect
import types as python_types
import zlib

import coverage
import numpy
import torch

F = ("float32", "float64")
H = ("float16", "bfloat16")
I = ("int8", "int16", "int32", "int64")
U = ("uint8",)
B = ("bool",)
MOVE = F + H + I + U  # operators that only move elements: small whole numbers, the same in every type
LAYOUTS = "ctsfnM"
GROUPS = (F, H, I, U, B)  # of types that one case holds the same values for
REFUSALS = (RuntimeError, TypeError, IndexError, ValueError, NotImplementedError)

lines = {}  # operator -> lines of its cases
seen = {}  # operator -> number of its cases
specs = {}  # operator -> its cases as described
covered = set()  # cells of the coverage table
excused = set()  # those that need no case


def begin():
    """A new file."""
    for kept in (lines, seen, specs, covered, excused):
        kept.clear()
    excused.update(cell for e in coverage.exceptions() for op in e.ops for cell in e.cells(op))


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
        if self.kind and types not in (U, B):
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

    def count(self):
        return int(numpy.prod(self.shape, dtype=int))

    def like(self, shape, values=None):
        """The same in another shape; of given values as many as it takes."""
        n = int(numpy.prod(shape, dtype=int))
        values = (list(values or self.values) * n)[:n] if values or self.values is not None else None
        return T(*shape, low=self.low, high=self.high, dtype=self.dtype, values=values, kind=self.kind, grad=self.grad)

    def numbers(self, types, seed, expanded):
        expanded = expanded and self.values is None
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


def values_text(t, types=F):
    if t._is_zerotensor():
        t = torch.zeros(t.shape)
    values = t.detach().flatten().tolist()
    if types[0] in H and t.dtype.is_floating_point:  # nobody asks for more digits of these
        values = [float(f"{v:.9g}") for v in values]
    return " ".join(number(v) for v in values)


def held(fn):
    """The function with what it sees of a loop's variables as they are now: it is called again after the loop."""
    if not fn.__closure__:
        return fn
    cells = tuple(python_types.CellType(c.cell_contents) for c in fn.__closure__)
    return python_types.FunctionType(fn.__code__, fn.__globals__, fn.__name__, fn.__defaults__, cells)


class Spec:
    """A case as it is described: see case()."""

    def __init__(self, op, fn, types, args, expanded=False, only=None, **options):
        self.op, self.fn, self.types, self.args, self.expanded, self.only = op, fn, types, args, expanded, only
        self.options = options
        self.changes = options.get("changes", ())

    def tensors(self):
        """-> [(argument, place in its list, T)]"""
        every = [(name, k, t) for name, a in self.args.items() for k, t in enumerate(a.tensors if isinstance(a, Lst) else [a])]
        return [(name, k, t) for name, k, t in every if isinstance(t, T)]

    def worth(self):
        """How well it serves to be varied: with drawn values, of four dimensions or as many as there are."""
        first = self.tensors()[0][2]
        return first.values is None, min(4, max(len(t.shape) for _, _, t in self.tensors())), 0 not in first.shape

    def but(self, **changed):
        given = {"types": self.types, "args": self.args, "expanded": self.expanded, "only": self.only, **self.options, **changed}
        return Spec(self.op, self.fn, **given)

    def each(self, change):
        """The case with each tensor replaced by change(name of the argument, tensor)."""

        def one(name, a):
            if isinstance(a, Lst):
                return Lst(*[t and change(name, t) for t in a.tensors])
            return change(name, a) if isinstance(a, T) else a

        return self.but(args={name: one(name, a) for name, a in self.args.items()})

    def layouts(self):
        """All layouts that make a difference for one of its tensors, unless the case wants only some."""
        if self.only:
            return self.only
        if self.expanded:
            return "e"
        ranks = [len(t.shape) for _, _, t in self.tensors() if 0 not in t.shape] or [0]
        several = sum(r > 0 for r in ranks) > 1
        return "c" + "t" * (max(ranks) > 1) + "sf" * (max(ranks) > 0) + "n" * (4 in ranks) + "M" * several

    def cells(self, types, layouts, refused=False):
        """What the case covers of the table."""
        tensors = [(t.shape, t.values is not None, t.dtype) for _, _, t in self.tensors()]
        return coverage.cells(self.op, layouts, types, tensors, refused) if tensors else set()


class Case:
    def __init__(self, spec):
        self.spec, self.op, self.fn, self.types, self.args = spec, spec.op, spec.fn, spec.types, spec.args
        count = seen.setdefault(self.op, 0)
        self.seeds = {(n, k): t.seed or zlib.crc32(f"{self.op} {count} {n} {k}".encode()) for n, k, t in spec.tensors()}
        self.gseed = zlib.crc32(f"{self.op} {count} g".encode())
        seen[self.op] += 1

    def tensor(self, name, k, a, dtype, grad):
        t = a.numbers(self.types, self.seeds[name, k], self.spec.expanded and name not in self.spec.changes)
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
    try:
        grads = torch.autograd.grad(loss, [t for _, t in wanted], create_graph=second, allow_unused=True)
    except RuntimeError as e:
        print(f"  {case.op}: no derivative: {str(e).splitlines()[0]}")
        return []
    text += [f"d {i} {values_text(g)}" for (i, _), g in zip(wanted, grads) if g is not None]
    recorded = [(k, g) for k, g in enumerate(grads) if g is not None and g.requires_grad]
    if second and recorded:
        loss = sum((g * weights(g.shape, (case.gseed + 1 + k) % 2**32, whole)).sum() for k, g in recorded)
        try:
            grads = torch.autograd.grad(loss, [t for _, t in wanted], allow_unused=True)
        except RuntimeError as e:
            print(f"  {case.op}: no second derivative: {str(e).splitlines()[0]}")
            return text
        text += [f"h {i} {values_text(g)}" for (i, _), g in zip(wanted, grads) if g is not None]
    return text


def results(case):
    """-> [(types, result types, results)], element types whose values agree together; types that PyTorch refuses."""
    kinds, outs, refused = {}, {}, []
    for t in case.types:
        try:
            _, outs[t] = case.run(t if t != "default" else "float32")
            made = not case.spec.tensors() and t in F  # a function of numbers alone, in float64: nothing tells it the type
            kinds[t] = tuple(t if made else name_of(o.dtype) for o in outs[t])
        except REFUSALS:
            refused.append(t)
    if not kinds:
        return [], refused
    if case.types[0] in F + H:
        return [(list(kinds), list(kinds.values()), case.run("float64")[1])], refused
    found = []
    for t, out in outs.items():
        if out[0].dtype.is_floating_point and t in I + U + B:
            out = case.run("float64")[1]
        for known in found:
            if all(torch.equal(a.double(), b.double()) for a, b in zip(known[2], out)):
                known[0].append(t), known[1].append(kinds[t])
                break
        else:
            found.append(([t], [kinds[t]], out))
    return found, refused


def write(spec, ulp=None, near=None, grad=True, second=True, bits=True, whole=None, changes=(), seed=None):
    """Computes a case and adds it to the file."""
    made, types = Case(spec), spec.types
    groups, refused = results(made)
    text = lines.setdefault(spec.op, [])
    layouts = spec.layouts()
    head = []
    for name, a in spec.args.items():
        head.append(f"a {name} {argument(a, types, made.seeds.get((name, 0)))}")
        for k, t in enumerate(a.tensors if isinstance(a, Lst) else []):
            head.append("a . N" if t is None else f"a . {t.text(types, made.seeds[name, k])}")
    head += ["b"] * bits + ([f"r {seed}"] if seed is not None else [])
    exact = types[0] not in F + H + ("default",)
    whole = types == MOVE if whole is None else whole
    for some, kinds, out in groups:
        text.extend([f"op {spec.op}", f"t {','.join(some)} {','.join('+'.join(k) for k in kinds)}", f"l {layouts}", *head])
        text.append(f"k {tolerance(types, kinds, out, ulp, near)}")
        text.extend(f"o {dims(o.shape)} {values_text(o, types)}" for o in out)
        if changes:
            after, _ = made.run("float64")
            text.extend(f"m {name} {values_text(after[name])}" for name in changes)
        if grad and "float64" in some and not exact:
            text.extend(gradients(made, whole, second))
        text.append(".")
        covered.update(spec.cells(some, layouts))
    if refused:
        text.extend([f"op {spec.op}", f"t {','.join(refused)} {','.join(refused)}", "l c", *head, "x", "."])
        covered.update(spec.cells(refused, "c", refused=True))


def tolerance(types, kinds, out, ulp, near):
    if types == MOVE or not any(k[0] in F + H for k in kinds):
        return "0 0"
    peak = max([float(o.double().abs().max()) for o in out if o.numel() and o.dtype.is_floating_point] or [0])
    u = 1 if types[0] in H else ulp if ulp is not None else 4
    n = near if near is not None else 0 if ulp is not None else 8 * peak
    return f"{number(float(u))} {number(float(n) if numpy.isfinite(n) else 0.0)}"


def case(
    op,
    fn,
    types=F,
    layouts=None,
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
    """Describes a case and writes it; fn gets the arguments by their names. types: element types "*" stands for; layouts: how
    inputs lie in memory, all that make sense unless given; ulp: allowed distance in units of the result's last place; near: and
    besides, that many units of the last place of this number (in the type computed in); bits: the same bits on every device;
    changes: arguments written to; seed: fa_manual_seed before, CPU only."""
    types = types if types == MOVE else tuple(t for t in types if (op, "c", t) not in excused)
    if not types:
        return
    options = dict(ulp=ulp, near=near, grad=grad, second=second, bits=bits, whole=whole, changes=changes, seed=seed)
    spec = Spec(op, held(fn), types, args, only=layouts, **options)
    specs.setdefault(op, []).append(spec)
    write(spec, **options)


# ---- what the cases of an operator left out ----


def emptied(spec):
    """The case with one size made 0 wherever it stands in a shape: several ways, the first that PyTorch takes is kept."""
    first = spec.tensors()[0][2].shape
    for size in dict.fromkeys(first[::-1] or (1,)):
        yield spec.each(lambda name, t: t.like(tuple(0 if n == size else n for n in t.shape) if first else (0,)))


def scalar(spec):
    """The case with 0-dim inputs: all, else the first alone. Its one element is at position 0."""
    zero = {"dim": 0, "dim0": 0, "dim1": 0, "dims": (0,)}
    args = {name: zero.get(name, a) for name, a in spec.args.items()}
    at_zero = spec.but(args=args).each(lambda name, t: t.like(t.shape, [0] * t.count()) if t.dtype == "int64" else t)
    yield at_zero.each(lambda name, t: t.like(()))
    first = spec.tensors()[0][0]
    yield at_zero.each(lambda name, t: t.like(()) if name == first else t)


def takes(spec, t):
    count = dict(seen)
    try:
        Case(spec).run(t)
        return True
    except REFUSALS:
        return False
    finally:
        seen.update(count)


def fill_in(spec, layouts, ways, types):
    """The cells of layouts that are still open, by the first way that PyTorch takes, else as a refusal."""
    for group in [types] + [tuple(t for t in g if t not in types) for g in GROUPS]:
        done = covered | excused
        group = tuple(t for t in group if any((spec.op, layout, t) not in done for layout in layouts))
        if not group:
            continue
        tried = [way.but(types=group) for way in ways]
        best = next((w for w in tried if any(takes(w, t) for t in group)), tried[0])
        options = {**best.options, "second": best.options["second"] and layouts != "e"}
        write(best, **options)


def sweep():
    """Every operator with a tensor of the case's type: all element types, then an expanded, an empty and a 0-dim input."""
    for op, described in list(specs.items()):
        usable = [s for s in described if any(t.dtype == "*" for _, _, t in s.tensors()) and s.types != ("default",)]
        if not usable:
            continue
        base = max(usable, key=Spec.worth)
        if base.only and "s" in base.only:  # it names few to be small; places in memory do not matter to it
            base = base.but(only=None)
        fill_in(base, base.layouts().replace("M", ""), [base], base.types)
        if not base.only:
            fill_in(base, "e", [base.but(expanded=True)], base.types)
        for layout, ways in (("z", emptied(base)), ("d", scalar(base))):
            own = [s for s in usable if any(cell[1] == layout for cell in s.cells(F, "c"))]
            fill_in(base, layout, own + list(ways), base.types)
