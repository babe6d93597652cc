"""Random programs of tensors: written by seed, run on any device and by PyTorch, compared line by line.

    PYTHONPATH=build/release/python FACULA_SIM=cuda:2 python3 tests/python/fuzz.py --seeds 0-999 --on cuda,cuda:1 [--torch PYTHON]
    ... --seeds 17 --show      writes program 17

A program is a list of lines: v0 = make(...) are the first tensors, later lines are the TEMPLATES with what fits filled in. Programs are written while
they run on Facula's CPU, since what fits a tensor depends on its shape and type; lines that fail stay, as the others must fail too.

What must agree: which lines fail, and the class of the error; type, shape and elements of each line's result (of all tensors after a line that
writes). Elements: the same bits on each of Facula's devices, but for what sums in another order there (LOOSE); within a tolerance of PyTorch. A line whose operands
already differ by rounding says nothing: it is not compared, nor is what comes of it.
"""

import argparse
import json
import math
import pickle
import random
import re
import struct
import subprocess
import sys
import warnings
from collections import Counter

FLOATS = ("float32", "float64", "float16", "bfloat16")
WHOLE = ("int64", "int32", "int16", "int8", "uint8")
TYPES = ("float32",) * 9 + ("float64",) * 3 + FLOATS[2:] + ("int64",) * 3 + WHOLE[1:] + ("bool",) * 2
EPSILON = {"float64": 1e-11, "float32": 2e-5, "float16": 6e-3, "bfloat16": 4e-2}

# {x} a tensor, {f} a floating one, {i} a whole one, {q} a square or any matrix; {y} one that broadcasts with x; {d}, {e} dimensions of x; {n}, {m} numbers;
# {mask} a mask of x's shape; {like} floats of x's shape; {index} what may stand in x[...]; {k} a small whole number;
# {picks}, {places}: indices along d, in one dimension or of x's shape; {keep} True or False. A line that begins with ! is a statement.
TEMPLATES = """
{x} + {y} | {x} - {y} | {x} * {y} | {x} / {y} | {x} // {y} | {x} % {y} | {x} ** {k} | {n} - {x} | {n} / {x} | -{x} | abs({x}) | {f} ** {y} | {n} ** {f}
torch.add({x}, {y}, alpha={k}) | torch.sub({x}, {y}, alpha={k}) | torch.maximum({x}, {y}) | torch.fmod({x}, {y}) | torch.atan2({f}, {y})
torch.div({x}, {y}, rounding_mode='floor') | torch.div({x}, {y}, rounding_mode='trunc') | torch.remainder({x}, {n}) | torch.floor_divide({x}, {n})
{x} == {y} | {x} < {y} | {x} >= {n} | {x} != {n} | ~{i} | {i} & {i} | {i} | {k} | {i} ^ {k} | {i} << {k} | {i} >> {k} | torch.gcd({i}, {i})
torch.where({mask}, {x}, {y}) | torch.where({x} > {n}, {x}, {n}) | torch.lerp({f}, {like}.to({f}.dtype), {n}) | torch.addcmul({f}, {like}, {like}, value={n})
{f}.exp() | {f}.log() | {f}.sqrt() | {f}.sin() | {f}.tanh() | {f}.sigmoid() | {f}.erf() | {f}.rsqrt() | {f}.log1p() | {f}.expm1() | {f}.reciprocal()
{x}.exp() | {x}.floor() | {x}.round() | {x}.trunc() | {x}.sign() | {f}.square() | {x}.abs() | {x}.frac() | {x}.isnan() | {x}.logical_not()
F.relu({f}) | F.gelu({f}) | F.silu({f}) | F.elu({f}) | F.softplus({f}) | F.hardtanh({f}) | F.leaky_relu({f}, {n}) | F.logsigmoid({f}) | F.mish({f})
{x}.clamp({n}, {m}) | {x}.clamp(min={n}) | {f}.clamp({like}, None) | {f}.nan_to_num({n}) | {x}.masked_fill({mask}, {n}) | {f}.logit(0.1)
{x}.sum() | {x}.sum({d}) | {x}.sum({d}, keepdim={keep}) | {x}.sum(({d}, {e})) | {x}.mean({d}) | {x}.prod({d}) | {x}.prod() | {f}.mean() | {x}.sum(dtype=torch.float64)
{x}.amax({d}) | {x}.amin(({d}, {e}), keepdim={keep}) | {x}.max() | {x}.max({d})[0] | {x}.max({d})[1] | {x}.min({d})[0] | {x}.argmax({d}) | {x}.argmin()
{x}.any({d}) | {x}.all() | {f}.var({d}) | {f}.std() | {f}.std({d}, correction={k}) | {f}.norm() | {f}.norm({k}, {d}) | {f}.logsumexp({d}) | {x}.count_nonzero({d})
{x}.cumsum({d}) | {x}.cumprod({d}) | {x}.cummax({d})[0] | {x}.cummax({d})[1] | {f}.logcumsumexp({d}) | {f}.softmax({d}) | {f}.log_softmax({d})
{x}.sort({d})[0] | {x}.sort(dim={d}, descending={keep}, stable=True)[1] | {x}.topk({k}, {d})[0] | {x}.kthvalue({k}, {d})[0] | {x}.median({d})[0] | {x}.unique() | {x}.flatten().mode()[0].detach()
{x}.transpose({d}, {e}) | {x}.permute({order}) | {x}[{index}] | {x}[{index}] | {x}[{index}] | {x}[{index}] | {x}.unsqueeze({d}) | {x}.squeeze() | {x}.squeeze({d})
{x}.reshape({shape}) | {x}.reshape(-1) | {x}.flatten() | {x}.narrow({d}, 0, {k}) | {x}.select({d}, {k}) | {x}.expand({wider}) | {x}.flip({d}) | {x}.roll({k}, {d}) | {x}.diagonal(0, {d}, {e})
{x}.unfold({d}, {k}, {k}) | {x}.repeat({wider}) | {x}.tile(({k}, {k})) | {x}.repeat_interleave({k}, {d}) | {x}.tril() | {x}.triu({k}) | {x}.diag_embed() | {x}.movedim({d}, {e}) | {x}.contiguous() | {x}.clone()
torch.cat([{x}, {x}], {d}) | torch.stack([{x}, {x}], {d}) | torch.cat([{x}, {x}[{index}]], {d}) | {x}.split({k}, {d})[0] | {x}.chunk({k}, {d})[-1] | {x}.unbind({d})[0] | {x}.tensor_split({k}, {d})[1]
{x}.gather({d}, {places}) | {x}.scatter({d}, {places}.sort(dim={d}, stable=True)[1], {like}.to({x}.dtype)) | {x}.scatter_add({d}, {places}, {like}.to({x}.dtype)) | {x}.scatter({d}, {places}, {n})
{x}.index_select({d}, {picks}) | {x}.index_add({d}, {picks}, {x}.index_select({d}, {picks})) | {x}.index_fill({d}, {picks}, {k}) | {x}.index_copy({d}, {picks}, {x}.index_select({d}, {picks}))
{f}.scatter_reduce({d}, {places}, {like}.to({f}.dtype), 'amax') | {f}.scatter_reduce({d}, {places}, {like}.to({f}.dtype), 'mean', include_self={keep})
{x}.masked_select({mask}) | {x}.nonzero() | {x}.take({picks}) | {x}.diff() | torch.searchsorted({x}.flatten().sort()[0], {x}.flatten()) | F.one_hot({i}.abs() % 5, 5) | torch.isin({x}, {y})
{x}.to(torch.{dtype}) | {x}.to(torch.{dtype}) | {x}.to(torch.{dtype}) | {x}.float() | {x}.detach() | torch.zeros_like({x}) | torch.full_like({x}, {k}) | {x}.new_ones({shape})
{f} @ {f}.mT | {f} @ {right} | torch.matmul({f}, {right}) | F.linear({f}, {right}.mT) | torch.addmm({n} * {q}.sum(0), {q}, {q}.mT) | torch.outer({f}.flatten(), {f}.flatten()[:3]) | {x} @ {x}.mT | torch.einsum('...i,...i->...', {f}, {like}.to({f}.dtype))
F.layer_norm({f}, {f}.shape[-1:]) | F.mse_loss({f}, {like}) | F.l1_loss({f}, {like}, reduction='sum') | F.smooth_l1_loss({f}, {like}) | F.normalize({f}.float(), dim={d}) | F.pad({x}, ({k}, {k})) | F.pad({f}, (1, 0), mode='replicate') | F.glu({f}, {d}) | F.cosine_similarity({f}.float(), {like}.float(), {d})
F.cross_entropy({q}, make({seed}, {q}.shape[:1], 'int64', 0, {q}.shape[1])) | F.embedding({i}.abs() % 4, make({seed}, (4, 3), 'float32')) | F.binary_cross_entropy_with_logits({f}, {mask}.to({f}.dtype)) | F.kl_div({f}.log_softmax(-1), {like}.to({f}.dtype).softmax(-1), reduction='batchmean')
F.conv1d({image1}, make({seed}, (2, 3, 2), 'float32', -4, 5), stride={k}) | F.conv2d({image2}, make({seed}, (4, 3, 2, 3), 'float32', -4, 5), padding={k}) | F.max_pool2d({image2}, 2, {k}) | F.avg_pool2d({image2}, 2) | F.conv_transpose2d({image2}, make({seed}, (3, 2, 2, 2), 'float32', -4, 5), stride={k}) | F.interpolate({image2}, scale_factor={k}) | F.adaptive_avg_pool2d({image2}, {k}) | F.batch_norm({image2}, None, None, training=True) | F.group_norm({image2}, 1)
! {x}.add_({y}) | ! {x}.mul_({n}) | ! {x}.sub_({y}) | ! {f}.div_({n}) | ! {f}.exp_() | ! {f}.relu_() | ! {x}.clamp_({n}, {m}) | ! {x}.fill_({n}) | ! {x}.zero_() | ! {x}.copy_({y}) | ! {x}.masked_fill_({mask}, {n}) | ! {x}.neg_() | ! {f}.sigmoid_() | ! {x} += {n} | ! {x} *= {y} | ! {x} -= {x} | ! {x} //= {k}
! {x}[{index}] = {n} | ! {x}[{index}] = {n} | ! {x}[{index}] = {x}[{index}].clone() | ! {x}[{index}] += {n} | ! {x}[{index}] *= {n} | ! {x}[{index}].zero_() | ! {x}.transpose({d}, {e}).mul_({k}) | ! {x}.flatten().add_({n}) | ! {x}.select({d}, 0).fill_({n}) | ! {x}.T.add_({n}) | ! {x}.diagonal().add_({n})
! {x}.scatter_({d}, {places}, {n}) | ! {x}.index_add_({d}, {picks}, {x}.index_select({d}, {picks})) | ! {x}.index_fill_({d}, {picks}, {k}) | ! {x}.scatter_add_({d}, {places}, {like}.to({x}.dtype)) | ! {x}.index_put_(({picks},), {x}.sum(), accumulate={keep}) | ! {x}.masked_scatter_({mask}, {x}.flatten().clone()) | ! {x}.put_(make({seed}, (2,), 'int64', 0, {x}.numel()), {x}.flatten()[:2].clone()) | ! {x}.squeeze_() | ! {x}.t_() | ! {x}.unsqueeze_({d}) | ! {x}.requires_grad_({keep})
"""
BACKWARD = """
! ({f} * {like}).sum().backward() | ! {f}.sum().backward() | torch.autograd.grad(({f} * {like}).sum(), {leaf}, allow_unused=True)[0]
! torch.autograd.grad(({f} * {f}).sum(), {leaf}, create_graph=True)[0].square().sum().backward() | {f}.pow(3).sum().backward() or {leaf}.grad
"""
# What differs on purpose, by the text of PyTorch's error, or of a device's.
ACCEPTED = re.compile(
    "ZeroDivisionError"  # a device that divides by 0 says nothing, as in PyTorch
    "|modified by an inplace operation|does not require grad and does not have"  # fewer operators here need what was overwritten
    "|repeat_interleave"  # PyTorch refuses a dimension of 0-d tensors
    "|derivative for aten::.* is not implemented|appears to not have been used|INTERNAL ASSERT"  # PyTorch's gaps
    "|isin\\(\\): Bool|topk\\(0|mode='replicate'|cummax|cummin|_impl_cpu_\" not implemented"  # of bools, and of nothing
    "|self indexing axis dim|setStorage"  # an index into nothing: IndexError here
    "|too many indices for tensor of dimension 0|could not infer output dtype|greater than 0, got: 0"
    "|Dimension specified as 0 but"
    "|dim \\d+ appears multiple times|cpu\" not implemented for 'Bool'"  # which of two mistakes is told
)
# What devices may sum in another order than the CPU.
LOOSE = re.compile(r" @ |matmul|linear|addmm|einsum|conv|outer|layer_norm|batch_norm|group_norm|cdist|normalize|backward|autograd|cosine")


def lines_of(text):
    """`i | k` is Python's, so templates are parted where no operand of it stands before."""
    return [part.strip() for row in text.strip().split("\n") for part in row.replace("{i} | {k}", "{i} \0 {k}").split("|")]


TEMPLATES, BACKWARD = ([line.replace("\0", "|") for line in lines_of(text)] for text in (TEMPLATES, BACKWARD))


# ---- Running ---------------------------------------------------------------------------------------------------------------


def world(torch, device):
    """The names that programs use."""

    def make(seed, shape, dtype, low=None, high=None, grad=False):
        rng = random.Random(seed)
        kind, n = rng.random(), math.prod(shape)
        if low is not None:
            values = [rng.randrange(low, max(high, low + 1)) for _ in range(n)]
        elif dtype == "bool":
            values = [rng.random() < 0.5 for _ in range(n)]
        elif dtype not in FLOATS:
            values = [rng.randrange(0 if dtype == "uint8" else -5, 10) for _ in range(n)]
        elif kind < 0.8:
            values = [rng.randrange(-12, 13) / 4 for _ in range(n)]
        elif kind < 0.9:
            values = [rng.gauss(0, 2) for _ in range(n)]
        else:
            values = [rng.choice((0.0, -0.0, 1.0, -2.5, 0.5, math.inf, -math.inf, math.nan)) for _ in range(n)]
        return torch.tensor(values, dtype=getattr(torch, dtype), device=device).reshape(shape).requires_grad_(grad)

    return {"torch": torch, "F": torch.nn.functional, "nn": torch.nn, "make": make, "device": torch.device(device)}


def elements(x):
    """Type, shape and elements; those as bytes of doubles (or whole numbers), every NaN the same."""
    flat = x.detach().cpu().reshape(-1).tolist()
    name = str(x.dtype).split(".")[-1]
    if name in FLOATS:
        data = struct.pack(f"{len(flat)}d", *[math.nan if v != v else v for v in flat])
    else:
        data = struct.pack(f"{len(flat)}q", *[int(v) for v in flat])
    return name, tuple(x.shape), data


def step(line, names, torch):
    """Runs a line; what came of it: {name: elements}, or the class of the error and its text."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(line, names)
        target = re.match(r"(\w+) = ", line)
        seen = [target[1]] if target else sorted(n for n in names if re.fullmatch(r"v\d+", n))
        out = {n: elements(names[n]) if isinstance(names[n], torch.Tensor) else repr(names[n]) for n in seen}
        for n in [] if target else seen:
            if isinstance(names[n], torch.Tensor) and names[n].is_leaf and names[n].grad is not None:
                out[n + ".grad"] = elements(names[n].grad)
        return out
    except Exception as e:
        return type(e).__name__, str(e)


def run(program, torch, device):
    names, results = world(torch, device), []
    for line in program:
        results.append(step(line, names, torch))
    return results


# ---- Writing ---------------------------------------------------------------------------------------------------------------


class Writer:
    """Fills templates in: what stands in braces is an attribute or method; each is asked once for a line."""

    def __init__(self, seed, torch):
        self.rng, self.torch = random.Random(seed), torch
        self.names, self.lines, self.results = world(torch, "cpu"), [], []
        self.large = self.rng.random() < 0.02
        for _ in range(self.rng.randrange(1, 4)):
            self.add(self.new(self.some_shape(), self.rng.choice(TYPES), may_grad=True))
        for _ in range(self.rng.randrange(2, 10)):
            self.add(self.filled(self.rng.choice(TEMPLATES)))
        if any(x.requires_grad for x in self.tensors().values()):
            for _ in range(self.rng.randrange(1, 3)):
                self.add(self.filled(self.rng.choice(BACKWARD)))

    def add(self, text):
        text = text[2:] if text.startswith("! ") else f"v{len(self.lines)} = {text}"
        self.lines.append(text)
        self.results.append(step(text, self.names, self.torch))
        for name, x in self.tensors().items():
            if x.numel() > 60000:
                del self.names[name]

    def tensors(self):
        return {n: x for n, x in self.names.items() if re.fullmatch(r"v\d+", n) and isinstance(x, self.torch.Tensor)}

    def filled(self, template):
        self.chosen, self.x = {}, None
        return template.format_map(self)

    def __getitem__(self, key):
        if key in ("f", "i", "q", "x"):
            self.chosen.setdefault(key, self.pick(key))
            self.x = self.chosen[key]
        elif key not in self.chosen or key in ("like", "mask", "picks", "k", "n", "seed"):
            self.chosen[key] = str(getattr(self, key)())
        return self.chosen[key]

    def pick(self, key):
        fits = {
            "x": lambda t: True,
            "f": lambda t: t.is_floating_point(),
            "i": lambda t: str(t.dtype)[6:] in WHOLE or str(t.dtype).split(".")[-1] in WHOLE,
            "q": lambda t: t.is_floating_point() and t.ndim == 2,
        }[key]
        found = [n for n, t in self.tensors().items() if fits(t)]
        if found and self.rng.random() < 0.95:
            return self.rng.choice(found)
        shape = self.some_shape() if key != "q" else (self.rng.randrange(1, 5), self.rng.randrange(1, 5))
        return self.new(shape, self.rng.choice({"x": TYPES, "i": WHOLE}.get(key, FLOATS)))

    def value(self):
        self.x = self.x or self["x"]
        return self.names[self.x] if self.x in self.names else eval(self.x, self.names)

    def seed(self):
        return self.rng.randrange(10000)

    def new(self, shape, dtype, low=None, high=None, may_grad=False):
        more = "" if low is None else f", {low}, {high}"
        if may_grad and dtype in FLOATS and self.rng.random() < 0.6:
            more = ", grad=True"
        return f"make({self.seed()}, {tuple(shape)}, '{dtype}'{more})"

    def some_shape(self):
        size = lambda: self.rng.choice((0, 1, 1, 2, 2, 3, 3, 4, 5, 7))
        shape = [size() for _ in range(self.rng.choice((0, 1, 1, 2, 2, 2, 3, 3, 4)))]
        if self.large and shape:
            shape[self.rng.randrange(len(shape))] = self.rng.choice((1000, 1023, 2049))
        return tuple(shape)

    def y(self):
        shape = list(self.value().shape)
        fits = [n for n, t in self.tensors().items() if all(1 in (a, b) or a == b for a, b in zip(reversed(shape), reversed(t.shape)))]
        if fits and self.rng.random() < 0.6:
            return self.rng.choice(fits)
        shape = [1 if self.rng.random() < 0.2 else s for s in shape][self.rng.choice((0, 0, 0, 1)):]
        return self.new(shape, self.rng.choice(TYPES))

    def like(self):
        return self.new(self.value().shape, self.rng.choice(("float32", "float32", str(self.value().dtype).split(".")[-1])) if self.value().is_floating_point() else "float32")

    def mask(self):
        return self.new(self.value().shape, "bool")

    def leaf(self):
        return self.rng.choice([n for n, t in self.tensors().items() if t.requires_grad and t.is_leaf] or list(self.tensors()) or ["v0"])

    def d(self):
        ndim = self.value().ndim
        if self.rng.random() < 0.03:
            return self.rng.choice((ndim, -ndim - 1, 5))
        return self.rng.randrange(-ndim, ndim) if ndim else self.rng.choice((0, -1))

    e = d

    def n(self):
        return self.rng.choice((0, 1, 2, -1, 3, 0.5, -0.25, 2.5, -3.75, 1.0, 0.0, True))

    m = n

    def k(self):
        return self.rng.choice((0, 1, 1, 2, 2, 3))

    def keep(self):
        return self.rng.random() < 0.5

    def dtype(self):
        return self.rng.choice(TYPES)

    def order(self):
        order = list(range(self.value().ndim))
        self.rng.shuffle(order)
        return tuple(order)

    def shape(self):
        sizes = list(self.value().shape)
        self.rng.shuffle(sizes)
        if len(sizes) > 1 and self.rng.random() < 0.5:
            sizes[:2] = [sizes[0] * sizes[1]]
        elif self.rng.random() < 0.3:
            sizes.insert(0, 1)
        if 0 not in sizes and sizes and self.rng.random() < 0.3:
            sizes[self.rng.randrange(len(sizes))] = -1
        return tuple(sizes)

    def wider(self):
        sizes = [self.rng.randrange(0, 4) if s == 1 else self.rng.choice((s, -1)) for s in self.value().shape]
        return tuple([2] * self.rng.choice((0, 0, 1)) + [abs(s) if s >= -1 else s for s in sizes])

    def size(self, dim):
        shape = self.value().shape
        return shape[int(dim)] if shape and -len(shape) <= int(dim) < len(shape) else 1

    def picks(self):
        size = self.size(self["d"])
        return self.new((self.rng.randrange(0, 4),), self.rng.choice(("int64", "int64", "int32")), 0, size + (self.rng.random() < 0.02))

    def places(self):
        shape, size = list(self.value().shape), self.size(self["d"])
        return self.new([self.rng.randrange(0, s + 1) if self.rng.random() < 0.3 else s for s in shape], "int64", 0, size)

    def right(self):
        sizes = self.value().shape[-1:] or (1,)
        return self.new(tuple(sizes) + (self.rng.randrange(1, 4),), str(self.value().dtype).split(".")[-1])

    def image1(self):
        return self.new((2, 3, self.rng.randrange(1, 8)), "float32", -9, 10)

    def image2(self):
        return self.new((self.rng.randrange(0, 3), 3, self.rng.randrange(1, 8), self.rng.randrange(1, 8)), "float32", -9, 10)

    def index(self):
        items, shape = [], list(self.value().shape)
        while shape and self.rng.random() < 0.8:
            items.append(self.item(shape))
        if self.rng.random() < 0.2:
            items.insert(self.rng.randrange(len(items) + 1), "None")
        if self.rng.random() < 0.2 or not items:
            items.append("...")
        return ", ".join(items)

    def item(self, shape):
        size = shape.pop(0)
        kind = self.rng.randrange(9)
        at = lambda: self.rng.randrange(-size, size) if size else 0
        if kind < 2:
            return str(at() if self.rng.random() < 0.97 else size)
        if kind < 5:
            part = lambda values: self.rng.choice(("",) + values)
            return f"{part((at(), 1))}:{part((at(), size))}:{part((1, 2))}"
        if kind == 5:
            return str([at() for _ in range(self.rng.randrange(1, 4))])
        if kind == 6:
            return self.new(self.rng.choice(((2,), (1,), (2, 1), (), (3,))), "int64", -size, size)
        if kind == 7 and shape:
            return self.new((size, shape.pop(0)), "bool")
        return self.new((size,), "bool")


def write(seed, torch):
    """The program of a seed and what Facula's CPU makes of it."""
    writer = Writer(seed, torch)
    return writer.lines, writer.results


# ---- Comparing -------------------------------------------------------------------------------------------------------------


def close(a, b, exact):
    """None, or how two results differ."""
    if a == b:
        return None
    if isinstance(a, str) or isinstance(b, str) or a[:2] != b[:2]:
        return f"{a[:2]} and {b[:2]}"
    n = len(a[2]) // 8
    kind = "d" if a[0] in FLOATS else "q"
    x, y = struct.unpack(f"{n}{kind}", a[2]), struct.unpack(f"{n}{kind}", b[2])
    scale = max([1.0] + [abs(v) for v in x + y if math.isfinite(v)])
    limit = 0 if exact or kind == "q" else EPSILON[a[0]]
    for at, (p, q) in enumerate(zip(x, y)):
        if exact and struct.pack(kind, p) != struct.pack(kind, q) or not (p == q or p != p and q != q or abs(p - q) <= limit * scale):
            return f"element {at} of {a[0]}{list(a[1])}: {p!r} and {q!r}"
    return None


def compare(program, ours, theirs, exact):
    """Lines at which two runs differ: [(number, how)]."""
    unequal, wrong = set(), []
    for k, (line, a, b) in enumerate(zip(program, ours, theirs)):
        used = set(re.findall(r"\bv\d+\b", line.split(" = ", 1)[-1])) | (set() if re.match(r"v\d+ = ", line) else unequal)
        if re.search("backward|autograd", line):
            used |= unequal
        if isinstance(a, tuple) or isinstance(b, tuple):
            if isinstance(a, dict) or isinstance(b, dict) or a[0] != b[0]:
                told = " ".join(r[1] for r in (a, b) if isinstance(r, tuple))
                if not used & unequal and not ACCEPTED.search(told + line):
                    wrong.append((k, f"{a if isinstance(a, tuple) else 'no error'} and {b if isinstance(b, tuple) else 'no error'}"))
                break  # they went different ways
            continue
        for name in sorted(n for n in set(a) | set(b) if n.endswith("grad") or n in a and n in b):
            how = close(a.get(name, "None"), b.get(name, "None"), exact and not LOOSE.search(line))
            if how and not used & unequal and name not in unequal:
                wrong.append((k, f"{name}: {how}"))
            if a.get(name) != b.get(name):
                unequal.add(name)
    return wrong


def by_torch(programs, python):
    """The programs' results by PyTorch, in a process of its own."""
    done = subprocess.run([python, "-B", __file__, "--serve"], input=json.dumps(programs).encode(), stdout=subprocess.PIPE, check=True)
    return pickle.loads(done.stdout)


def serve():
    import torch

    torch.set_num_threads(1)
    programs = json.load(sys.stdin)
    sys.stdout.buffer.write(pickle.dumps([run(program, torch, "cpu") for program in programs]))


def seeds_of(text):
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0-99", type=seeds_of)
    parser.add_argument("--on", default="", help="devices, with commas between")
    parser.add_argument("--torch", help="a Python that has PyTorch")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--serve", action="store_true")
    options = parser.parse_args(arguments)
    if options.serve:
        return serve()
    import facula

    counts = Counter()
    for first in range(options.seeds.start, options.seeds.stop, 250):
        seeds = options.seeds[first - options.seeds.start :][:250]
        programs = [write(seed, facula) for seed in seeds]
        counts.update(programs=len(programs), lines=sum(len(p) for p, _ in programs))
        counts.update(errors=sum(isinstance(r, tuple) for _, results in programs for r in results))
        for line, result in zip(*programs[0]) if options.show else ():
            print(line, "  #", result if isinstance(result, tuple) else "")
        runs = [(device, [run(p, facula, device) for p, _ in programs], True) for device in options.on.split(",") if device]
        if options.torch:
            runs.append(("PyTorch", by_torch([p for p, _ in programs], options.torch), False))
        for where, results, exact in runs:
            for seed, (program, ours), theirs in zip(seeds, programs, results):
                for k, how in compare(program, ours, theirs, exact)[:1]:
                    counts["differences"] += 1
                    print(f"seed {seed}, line {k}: {program[k]}\n    cpu and {where}: {how}", flush=True)
    print(", ".join(f"{counts[name]} {name}" for name in ("programs", "lines", "errors", "differences")))
    return bool(counts["differences"])


if __name__ == "__main__":
    sys.exit(main())
