"""What the golden files cover, read from the files: a table of operator, layout and element type. No torch here:
tests/test_golden_coverage.py uses it as well as make_ops.py.

Layouts of the table: c contiguous, t transposed, s every second element, f flipped, e expanded, n channels last, z empty,
d 0-dim."""

import glob
import gzip
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
TABLES = os.path.join(ROOT, "src", "ops")
sys.path.insert(0, os.path.join(ROOT, "tools"))
import gen_ops  # noqa: E402
import rows  # noqa: E402

LAYOUTS = "ctsfenzd"
TYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64")


def files(end):
    """-> [(room, path)]"""
    return sorted((os.path.basename(p)[: -len(end)], p) for p in glob.glob(os.path.join(HERE, "*" + end)))


def layouts_of(layouts, tensors):
    """The layouts that count for a case which runs in some; tensors: (shape, whether its values are given) of each. A transposed
    vector counts for nothing, nor does an expanded tensor of given values."""
    usual = [(shape, given) for shape, given in tensors if shape and 0 not in shape]
    found = {"z"} if any(0 in shape for shape, _ in tensors) else set()
    found |= {"d"} if any(shape == () for shape, _ in tensors) else set()
    matters = {
        "c": bool(usual),
        "t": any(len(shape) > 1 for shape, _ in usual),
        "s": bool(usual),
        "f": bool(usual),
        "e": any(not given for _, given in usual),
        "n": any(len(shape) == 4 for shape, _ in usual),
    }
    return found | {layout for layout in layouts if matters.get(layout)}


def cells(op, layouts, types, tensors, refused=False):
    """What a case covers; tensors: (shape, values given, element type) of each. Where nothing goes in, its result's shape counts.
    An ordinary input of a type that is refused stands for every layout."""
    if tensors and all(t[2] != "*" for t in tensors):
        types = [tensors[0][2]]
    found = layouts_of(layouts, [t[:2] for t in tensors])
    if refused and "c" in found:
        found = set(LAYOUTS)
    return {(op, layout, t) for layout in found for t in types}


def shape_of(word):
    return () if word == "-" else tuple(map(int, word.split(",")))


def cells_of(op, case):
    """-> cells of the lines of a case."""
    layouts, types, results, tensors, refused, out = "", [], [], [], False, []
    for line in case:
        words = line.split(" ", 6)
        if words[0] == "t":
            types, results = words[1].split(","), [r.split("+")[0] for r in words[2].split(",")]
        elif words[0] == "l":
            layouts = words[1]
        elif words[0] == "a" and words[2] == "T":
            tensors.append((shape_of(words[4]), words[5] == "v", words[3]))
        elif words[0] == "x":
            refused = True
        elif words[0] == "o" and not out:
            out.append((shape_of(words[1]), True, "*"))
    return cells(op, layouts, types if tensors else results, tensors or out, refused)


def read(but=None):
    """-> (cells with values, cells that PyTorch refuses, operators that have cases), in all rooms but one."""
    found, refused, names = set(), set(), set()
    for room, path in files(".golden.gz"):
        if room == but:
            continue
        case = []
        with gzip.open(path, "rt") as f:
            for line in f:
                line = line.rstrip("\n")
                if line.startswith("op "):
                    case = []
                    names.add(op := line[3:])
                elif line == ".":
                    (refused if "x" in case else found).update(cells_of(op, case))
                case.append(line)
    return found, refused, names


def operators():
    return read()[2]


def complete(but):
    """The operators that the other rooms have in every layout and element type."""
    values, refused, names = read(but)
    have = (values | refused).union(*(e.cells(op) for e in exceptions() for op in e.ops))
    return {op for op in names if all((op, layout, t) in have for layout in LAYOUTS for t in TYPES)}


def operators_of_tables():
    loaded = rows.load(TABLES)
    names = []
    for r in loaded["elementwise"]:
        names += [d[0][3:] for d in gen_ops.elementwise_declarations(r) if not d[0].endswith("_")]
    names += [r["name"] + end for r in loaded["reduce"] for end in ("", "_dims")]
    return names + [r["name"] for r in rows.read_table(os.path.join(TABLES, "tensor.tab"), "name args kind backward doc".split())]


class Excuse:
    """A row of a <room>.except file: operators, layouts and types that need no case, and why."""

    def __init__(self, at, line):
        columns = [c.strip() for c in line.split("|", 3)]
        if len(columns) != 4 or not columns[3]:
            raise rows.RowError(f"{at}: four columns: operators | layouts | types | reason")
        self.at, self.ops = at, columns[0].split()
        self.layouts = LAYOUTS if columns[1] == "*" else columns[1]
        self.types = TYPES if columns[2] == "*" else columns[2].split()
        if set(self.layouts) - set(LAYOUTS) or set(self.types) - set(TYPES):
            raise rows.RowError(f"{self.at}: layouts are letters of {LAYOUTS}, types are {', '.join(TYPES)}; or *")

    def cells(self, op):
        return {(op, layout, t) for layout in self.layouts for t in self.types}


def exceptions():
    """-> all rows of all <room>.except files"""
    found = []
    for room, path in files(".except"):
        with open(path, encoding="utf-8") as f:
            found += [Excuse(f"{room}.except:{n}", x) for n, x in enumerate(f, 1) if x.strip() and x[0] != "#"]
    return found


def without_a_case():
    """Operators of the tables that no golden file has and no exception excuses."""
    have = operators() | {op for e in exceptions() if len(e.cells("")) == len(LAYOUTS) * len(TYPES) for op in e.ops}
    return [n for n in operators_of_tables() if n not in have]
