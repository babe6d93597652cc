#!/usr/bin/env python3
"""The row oracle: every elementwise row's text, read as Python in float64, against itself. The derivative of each operand is
compared with differences of the forward text over the row's domain; C text for every compute type can be made. Reductions'
rows: joining with the identity changes nothing.
"""
import ast
import math
import operator
import os
import random
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tools"))
import rows  # noqa: E402

POINTS = 40


def whole(f):
    return lambda *a: float(f(*map(int, a)))


def inverse(f, y, low, high):
    """Of a function that grows, by halving."""
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if f(middle) < y else (low, middle)
    return (low + high) / 2


FUNCTIONS = {
    "max": max, "min": min, "abs": abs, "floor": lambda x: float(math.floor(x)), "ceil": lambda x: float(math.ceil(x)),
    "round": lambda x: float(round(x)), "trunc": lambda x: float(math.trunc(x)), "sign": lambda x: float((x > 0) - (x < 0)),
    "square": lambda x: x * x, "pow": math.pow, "fmod": math.fmod, "mod": lambda x, y: x - y * math.floor(x / y),
    "floordiv": lambda x, y: float(math.floor(x / y)), "exp2": lambda x: 2.0 ** x, "isnan": math.isnan, "isinf": math.isinf,
    "isfinite": math.isfinite, "bit_and": whole(operator.and_), "bit_or": whole(operator.or_), "bit_xor": whole(operator.xor),
    "signbit": lambda x: float(math.copysign(1, x) < 0), "ndtr": lambda x: 0.5 * math.erfc(x * -0.70710678118654752440), "erfinv": lambda x: inverse(math.erf, x, -6.0, 6.0),
    "gcd": whole(math.gcd), "lcm": whole(math.lcm),
    "bit_not": whole(operator.invert), "shift_left": whole(operator.lshift), "shift_right": whole(operator.rshift),
}


def value(n, names):
    """An expression's value, in floats."""
    if isinstance(n, ast.Name):
        return names[n.id]
    if isinstance(n, ast.Constant):
        return float(n.value)
    if isinstance(n, ast.UnaryOp):
        return -value(n.operand, names)
    if isinstance(n, ast.BinOp):
        f = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}[type(n.op)]
        return f(value(n.left, names), value(n.right, names))
    if isinstance(n, ast.Compare):
        f = {ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Eq: operator.eq, ast.NotEq: operator.ne}
        return float(f[type(n.ops[0])](value(n.left, names), value(n.comparators[0], names)))
    if n.func.id == "sel":
        return value(n.args[1 if value(n.args[0], names) else 2], names)
    f = FUNCTIONS.get(n.func.id) or getattr(math, n.func.id)
    return float(f(*[value(a, names) for a in n.args]))


def point(row, draw):
    names = {a: draw.uniform(*row.domain[i]) for i, a in enumerate(row.args)}
    if row.types == "int":
        names = {a: float(round(v)) for a, v in names.items()}
    if row.name in ("where", "masked_fill"):
        condition = row.args[0 if row.name == "where" else 1]
        names[condition] = float(names[condition] > 0.5)
    return {**names, **dict(row.params)}


def derivative(row, arg, names):
    """The row's derivative text towards arg, with g = 1."""
    r = value(row.forward.tree, names)
    return value(row.backward[arg].tree, {**names, "g": 1.0, "r": r})


def difference(row, names, arg, step):
    """Central difference of fourth order."""
    h = step * max(0.1, abs(names[arg]))

    def at(k):
        return value(row.forward.tree, {**names, arg: names[arg] + k * h})
    return (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * h)


def check_row(row):
    draw = random.Random(row.name)
    problems = []
    for compute in row.computes:
        row.forward.c(compute)
    value(row.forward.tree, point(row, draw))
    for arg in row.backward:
        tried = 0
        for _ in range(POINTS * 20):
            if tried == POINTS:
                break
            names = point(row, draw)
            low, high = row.domain[row.args.index(arg)]
            want, nearer = difference(row, names, arg, 4e-4), difference(row, names, arg, 2e-4)
            margin = 0.02 * max(0.1, abs(names[arg]))
            # a jump or a kink within reach: the two differ
            if not low + margin < names[arg] < high - margin or abs(want - nearer) > 1e-7 * (1 + abs(want)):
                continue
            tried += 1
            got = derivative(row, arg, names)
            if abs(got - want) > 1e-6 * (1 + abs(want)):
                return [f"{row.at}: {row.name}: derivative towards {arg} is {got!r}, differences give {want!r} at {names}"]
        if tried < POINTS // 4:
            problems.append(f"{row.at}: {row.name}: only {tried} points of the domain can be tried for {arg}")
    return problems


def check_reduction(row):
    join = rows.Expr(row["join"], ["a", "b"], row["at"])
    if row["identity"] == "none":
        return []
    identity = float(row["identity"])
    logical = row["types"].endswith(">bool")
    problems = []
    for v in (0.0, 1.0) if logical else (0.0, 1.0, -2.5, 3.25):
        for a, b in ((identity, v), (v, identity)):
            if value(join.tree, {"a": a, "b": b}) != v:
                problems.append(f"{row['at']}: {row['name']}: joining {a} and {b} does not give {v}")
    return problems


def main():
    tables = rows.load(os.path.join(ROOT, "src", "ops"))
    passed = failed = 0
    for check, table in ((check_row, tables["elementwise"]), (check_reduction, tables["reduce"])):
        for row in table:
            problems = check(row)
            print("".join(f"FAILED {p}\n" for p in problems), end="")
            failed += bool(problems)
            passed += not problems
    print(f"{passed} passed, {failed} failed, 0 skipped")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
