"""Reads the tables (*.tab): rows of columns separated by "|", comments after "#" at the start of a line.

Expressions are parsed by Python's ast; Expr turns them into C for a compute type, or into calls that build a graph.
Standard library only; runs at build time and in tests.
"""
import ast
import os
import re

ELEMENTWISE = "name args types forward backward domain ulp doc".split()
REDUCE = "name types element identity join finish backward doc".split()
KERNELS = "family instances kernels".split()
OPTIM = "name state hyper update doc".split()


class RowError(Exception):
    pass


def read_table(path, columns, unique=1):
    """-> list of dicts with the columns, and where the row stands as row["at"] = "file:line". The first `unique` columns name a row."""
    rows = []
    for number, line in enumerate(open(path, encoding="utf-8"), 1):
        if not line.strip() or line.startswith("#"):
            continue
        at = f"{os.path.basename(path)}:{number}"
        cells = [c.strip() for c in re.split(r" ?\| ?|\|", line.rstrip("\n"), maxsplit=len(columns) - 1)]
        if len(cells) != len(columns):
            raise RowError(f"{at}: {len(cells)} columns, expected {len(columns)}: {' | '.join(columns)}")
        rows.append(dict(zip(columns, cells), at=at))
    names = [[r[c] for c in columns[:unique]] for r in rows]
    for r, name in zip(rows, names):
        if names.count(name) > 1:
            raise RowError(f"{r['at']}: the name {name[0]!r} stands in two rows")
    return rows


class Elementwise:
    """One row of elementwise.tab, parsed."""

    def __init__(self, row):
        self.at, self.name, self.doc, self.casts = row["at"], row["name"], row["doc"], None
        operands, _, params = row["args"].partition(";")
        self.args = [a.strip() for a in operands.split(",")]
        self.params = [(n.strip(), float(v)) for n, v in (p.split("=") for p in params.split(",") if p.strip())]
        self.types, _, self.result = row["types"].partition(">")
        self.in_place = self.result != "bool"  # whether there is fa_<name>_
        self.result = self.result.removesuffix("_")
        self.checks_zero = "!zero" in self.types
        self.types = self.types.replace("!zero", "")
        if self.types not in ("float", "number", "any", "int", "real") or self.result not in ("", "bool"):
            raise RowError(f"{self.at}: types {row['types']!r}: float, number, any, int or real, then >bool, >bool_ or nothing")
        if self.args != ["x", "y", "z"][:len(self.args)]:
            raise RowError(f"{self.at}: operands are x, y, z in this order, found {self.args}")
        names = self.args + [p for p, _ in self.params]
        self.forward = Expr(row["forward"], names, self.at)
        self.backward = {}
        if row["backward"] != "-":
            for part in row["backward"].split(";"):
                arg, _, text = part.partition(":")
                if arg.strip() not in self.args:
                    raise RowError(f"{self.at}: backward is for {arg.strip()!r}, which is no operand")
                self.backward[arg.strip()] = Expr(text.strip(), names + ["g", "r"], self.at)
        spans = [[float(v) for v in s.split(",")] for s in re.findall(r"\[([^]]*)\]", row["domain"])]
        self.domain = spans * len(self.args) if len(spans) == 1 else spans
        self.ulp = float(row["ulp"] or 2)

    @property
    def computes(self):
        """The compute types it has loops for: f32, f64, i64 (float16 and bfloat16 compute as f32, all integers as i64)."""
        return {"float": ["f32", "f64"], "real": ["f32", "f64"], "int": ["i64"]}.get(self.types, ["f32", "f64", "i64"])

    def reads(self, arg):
        """Which of x, y, z, r the derivative towards arg reads: only these are saved."""
        return self.backward[arg].names & {"x", "y", "z", "r"}


COMPARE = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}
COMPARE_OP = {ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne"}
BINARY = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
BINARY_OP = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div"}
# functions of the language whose row has another name
GRAPH_NAMES = {"sel": "where", "max": "maximum", "min": "minimum", "mod": "remainder", "floordiv": "floor_divide"}


class Expr:
    def __init__(self, text, names, at):
        self.text, self.at = text, at
        try:
            self.tree = ast.parse(text, mode="eval").body
        except SyntaxError as e:
            raise RowError(f"{at}: {text!r}: {e.msg}")
        self.names, self.functions = set(), set()
        self._check(self.tree, names)

    def _check(self, n, names):
        if isinstance(n, ast.Name):
            if n.id not in names:
                raise RowError(f"{self.at}: {n.id!r} in {self.text!r} is not one of {', '.join(names)}")
            self.names.add(n.id)
        elif isinstance(n, ast.Constant) and isinstance(n.value, (int, float)):
            pass
        elif isinstance(n, ast.UnaryOp) and isinstance(n.op, ast.USub):
            self._check(n.operand, names)
        elif isinstance(n, ast.BinOp) and type(n.op) in BINARY:
            self._check(n.left, names), self._check(n.right, names)
        elif isinstance(n, ast.Compare) and len(n.ops) == 1 and type(n.ops[0]) in COMPARE:
            self._check(n.left, names), self._check(n.comparators[0], names)
        elif isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and not n.keywords:
            self.functions.add(n.func.id)
            for a in n.args:
                self._check(a, names)
        else:
            raise RowError(f"{self.at}: {ast.unparse(n)!r} is outside the language: names, numbers, + - * /, comparisons, calls")

    def c(self, compute, rename=lambda name: name):
        """C text for a compute type: f32, f64 or i64. Functions get the type's suffix: fa_exp_f32."""
        return c_of(self.tree, compute, rename)

    def calls(self, function):
        """Where the function is called: nodes of the tree."""
        return [n for n in ast.walk(self.tree) if isinstance(n, ast.Call) and n.func.id == function]


def c_of(tree, compute, rename=lambda name: name):
    """A part of an expression as C. Integers wrap around: + - * are functions for them, and x / 0 is 0."""
    real = {"f32": "float", "f64": "double", "i64": "fa_i64"}[compute]

    def number(v):
        if compute == "i64":
            return f"((fa_i64){int(v)})"
        text = repr(float(v))
        return f"{text}f" if compute == "f32" else text

    def go(n):
        if isinstance(n, ast.Name):
            return rename(n.id)
        if isinstance(n, ast.Constant):
            return number(n.value)
        if isinstance(n, ast.UnaryOp):
            return f"fa_neg_i64({go(n.operand)})" if compute == "i64" else f"(-{go(n.operand)})"
        if isinstance(n, ast.BinOp):
            if compute == "i64":
                return f"fa_{BINARY_OP[type(n.op)]}_i64({go(n.left)}, {go(n.right)})"
            return f"({go(n.left)} {BINARY[type(n.op)]} {go(n.right)})"
        if isinstance(n, ast.Compare):
            return f"(({real})({go(n.left)} {COMPARE[type(n.ops[0])]} {go(n.comparators[0])}))"
        args = [go(a) for a in n.args]
        if n.func.id == "sel":
            condition = n.args[0]
            test = (f"{go(condition.left)} {COMPARE[type(condition.ops[0])]} {go(condition.comparators[0])}"
                    if isinstance(condition, ast.Compare) else f"{args[0]} != 0")
            return f"({test} ? {args[1]} : {args[2]})"
        return f"fa_{n.func.id}_{compute}({', '.join(args)})"
    return go(tree)


class Update:
    """One row of optim.tab: a list of assignments."""

    def __init__(self, row):
        self.at, self.name, self.doc = row["at"], row["name"], row["doc"]
        self.state = [] if row["state"] == "-" else [s.strip() for s in row["state"].split(",")]
        self.hyper = [h.strip() for h in row["hyper"].split(",")]
        if len(self.state) > 3 or len(self.hyper) > 8:
            raise RowError(f"{self.at}: at most 3 states and 8 numbers, found {len(self.state)} and {len(self.hyper)}")
        self.assigned, names = [], ["p", "g"] + self.state + self.hyper
        for part in row["update"].split(";"):
            target, equals, text = part.partition("=")
            target = target.strip()
            if not equals or not target.isidentifier() or target in ["g"] + self.hyper:
                raise RowError(f"{self.at}: {part.strip()!r} is no assignment to p, a state or a local name")
            self.assigned.append((target, Expr(text.strip(), names, self.at)))
            if target not in names:
                names.append(target)

    def rename(self, name):
        """The state's names as the kernels call them: s0, s1, s2."""
        return f"s{self.state.index(name)}" if name in self.state else name

    def steps(self):
        """-> (target as the kernels call it, whether it was declared before, expression), in order."""
        known, out = {"p"} | set(self.state), []
        for target, expr in self.assigned:
            out.append((self.rename(target), target in known, expr))
            known.add(target)
        return out


def load(tables):
    """All tables of a folder (src/ops and kernels): {"elementwise": [...], "reduce": [...]}"""
    elementwise = [Elementwise(r) for r in read_table(os.path.join(tables, "elementwise.tab"), ELEMENTWISE)]
    return {"elementwise": elementwise, "reduce": read_table(os.path.join(tables, "reduce.tab"), REDUCE)}


class Loop:
    """What a loop and a case of the device kernel are made from: a row's forward, or one of its derivatives."""

    def __init__(self, row, name, operands, expr):
        self.row, self.name, self.operands, self.expr = row, name, operands, expr
        self.params = row.params
        self.computes = row.computes if name == row.name else [c for c in row.computes if c != "i64"]


def loops(elementwise):
    """In the order of their ids (FAI_ROW_<name>): softplus, softplus_dx, ... A derivative's operands are g, then those of
    x, y, z, r that it reads."""
    out = []
    for row in elementwise:
        out.append(Loop(row, row.name, row.args, row.forward))
        for arg, expr in row.backward.items():
            reads = [n for n in ("x", "y", "z", "r") if n in row.reads(arg)]
            out.append(Loop(row, f"{row.name}_d{arg}", ["g"] + reads, expr))
    return out
