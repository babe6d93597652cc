"""Cases of the rows of elementwise.tab: made from the rows alone, so that a new row has them too."""

import torch
import torch.nn.functional as nnf
from cases import B, F, H, I, T, U, V, case

SPECIAL = [float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 1.0, -2.0, 0.5, 10.0]
ALL = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64")

# Rows whose name is not torch's, or whose numbers are passed in another way.
ELEMENTWISE = {
    "addcmul": lambda x, y, z, value: torch.addcmul(x, y, z, value=value if x.is_floating_point() else int(value)),
    "addcdiv": lambda x, y, z, value: torch.addcdiv(x, y, z, value=value),
    "clamp": lambda x, y, z: torch.minimum(torch.maximum(x, y), z),  # torch.clamp's derivative does not broadcast x
    "masked_fill": lambda x, y, z: torch.masked_fill(x, y, z) if z.dim() == 0 else torch.where(y, z, x),
    # torch's derivative takes 1/6 in float32
    "hardsigmoid": lambda x: nnf.relu6(x + 3) / 6 if x.is_floating_point() else nnf.hardsigmoid(x),
    "gelu_tanh": lambda x: nnf.gelu(x, approximate="tanh"),
    "log_sigmoid": nnf.logsigmoid,
    # torch.special.ndtr loses the digits of small shares in float64
    "ndtr": lambda x: torch.erfc(x * -0.7071067811865476) / 2 if x.is_floating_point() else torch.special.ndtr(x),
    "nan_to_num": lambda x, nan, posinf, neginf: torch.nan_to_num(x, nan, posinf, neginf),
    "mse_element": lambda x, y: nnf.mse_loss(x, y, reduction="none"),
    "l1_element": lambda x, y: nnf.l1_loss(x, y, reduction="none"),
    "smooth_l1_element": lambda x, y, beta: nnf.smooth_l1_loss(x, y, reduction="none", beta=beta),
    "huber_element": lambda x, y, delta: nnf.huber_loss(x, y, reduction="none", delta=delta),
    "bce_element": lambda x, y: nnf.binary_cross_entropy(x, y, reduction="none"),
    "bce_logits_element": lambda x, y: nnf.binary_cross_entropy_with_logits(x, y, reduction="none"),
    "kl_div_element": lambda x, y: nnf.kl_div(x, y, reduction="none"),
    "threshold": lambda x, threshold, value: nnf.threshold(x, threshold, value),
}

# Sums whose terms may cancel: besides the row's ulp, that many machine epsilons. The largest terms are about as large.
CANCELS = {"addcmul": 12.0, "addcdiv": 21.0, "kl_div_element": 4.0}


def torch_function(row):
    """A row is found in torch by its name, or by ELEMENTWISE."""
    if row.name in ELEMENTWISE:
        return ELEMENTWISE[row.name]
    f = getattr(torch, row.name, None) or getattr(nnf, row.name, None)
    if f is None:
        raise SystemExit(f"{row.at}: torch has no {row.name}: add it to ELEMENTWISE")
    names = row.args

    def call(**given):
        return f(*[given[n] for n in names], **{p: given[p] for p, _ in row.params})

    return call


def operand(row, i, shape, whole=False, **more):
    low, high = row.domain[i]
    if whole and row.name == "pow" and i == 1:
        low, high = 0, 3
    fixed = {"where": 0, "masked_fill": 1}.get(row.name) == i
    return T(*shape, low=low, high=high, **({"dtype": "bool", "grad": False} if fixed else more))


def groups(row):
    found = [] if row.types == "int" else [F, H]
    if row.types != "real":
        found += [I, U]
    if row.types in ("any", "float", "int") and not row.checks_zero:
        found += [B]
    return found


def row_cases(row):
    f, n = torch_function(row), len(row.args)
    numbers = {p: v for p, v in row.params}
    double = bool(row.backward)

    def add(shapes, types=F, params=numbers, **more):
        whole = types not in (F, H)
        args = {a: operand(row, i, shapes[i % len(shapes)], whole) for i, a in enumerate(row.args)}
        given = {p: int(v) if whole and v == int(v) else float(v) for p, v in params.items()}
        case(
            row.name,
            lambda **k: f(**{**k, **given}),
            types,
            ulp=row.ulp,
            near=CANCELS.get(row.name),
            **{"grad": double, **more},
            **args,
            **{p: float(v) for p, v in params.items()},
        )

    for types in groups(row):
        add([(2, 3, 4, 2)], types)
    types = I if row.types == "int" else F
    if n > 1 and not row.name.endswith("_element"):
        add([(3, 1, 2), (4, 1), ()], types)
    if row.params and row.name != "nan_to_num":
        add([(2, 3)], params={p: v * 1.5 + 0.25 for p, v in row.params})
    if row.types != "int":
        special(row, f, numbers)
    if n > 1:
        scalars(row, f, numbers)


def special(row, f, numbers):
    """NaN, infinities, both zeros, in every combination of two."""
    if len(row.args) > 2 or row.name.endswith("_element"):
        return
    shapes = [(9,)] if len(row.args) == 1 else [(9, 1), (9,)]
    args = {a: T(*shapes[i], values=SPECIAL) for i, a in enumerate(row.args)}
    case(row.name, lambda **k: f(**{**k, **numbers}), F, ulp=row.ulp, grad=False, **args, **numbers)


def scalars(row, f, numbers):
    """The last operand a number, of each category; in float64 one that float32 does not hold, with both derivatives."""
    last = row.args[-1]
    low, high = row.domain[-1]
    middle = (low + high) / 2
    wanted = [(value, types) for value in (True, 2, middle + 0.25) for types in groups(row)] + [(middle + 0.3, ("float64",))]
    for value, types in wanted:
        if row.types != "any" and (value is True or not low <= value <= high):
            continue
        if row.types == "int" and isinstance(value, float):
            continue
        args = {a: operand(row, i, (2, 2, 2, 2), types[0] not in F + H) for i, a in enumerate(row.args[:-1])}

        def call(last_value=value, **k):
            """Not every function takes a number: a tensor of the type that the result has with a number."""
            number = torch.tensor(last_value, dtype=torch.result_type(k["y" if row.name == "where" else "x"], last_value))
            return f(**{**k, **numbers, last: number.expand_as(k["x"]) if row.name.endswith("_element") else number})

        case(
            row.name + "_scalar",
            call,
            types,
            ulp=row.ulp,
            near=CANCELS.get(row.name),
            grad=types[0] in F and bool(row.backward),
            second=types[0] == "float64",
            **args,
            **{last: V(value)},
            **numbers,
        )


def promotion():
    """Every pair of element types: two tensors, and a tensor with a 0-d tensor."""
    for op, f in (("add", torch.add), ("div", torch.div), ("eq", torch.eq)):
        for a in ALL:
            for b in ALL:
                for shape in ((2,), ()):
                    if op != "add" and shape == ():
                        continue
                    x, y = T(2, low=0, high=4, dtype=a, grad=False), T(*shape, low=1, high=1, dtype=b, grad=False)
                    x.kind = y.kind = "i"
                    if a == "bool":
                        x.high = 1
                    case(op, lambda x, y, f=f: f(x, y), ("default",), ulp=1, grad=False, x=x, y=y)


def make(table):
    for row in table:
        row_cases(row)
