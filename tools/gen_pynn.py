#!/usr/bin/env python3
"""Makes the table of layers' classes for Python from src/nn/layers.tab and python/nn.tab: signatures, defaults, names of inputs, repr.

gen_pynn.py --out BUILD [--tables src]: writes BUILD/gen/py/: layers_gen.c, nn/__init__.pyi.
"""

import argparse
import os
import re

import gen_nn
import gen_ops
import py_docs
import py_stubs
import rows
from rows import RowError

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
COLUMNS = "name where bases signature inputs repr".split()
HOW = {"other": "FAPY_OTHER", "kept": "FAPY_KEPT", "drop": "FAPY_DROP"}
NO_ROW = {"inplace": ("FAPY_INPLACE", "False"), "size_average": ("FAPY_LEGACY", "None"), "reduce": ("FAPY_LEGACY", "None")}
EXAMPLES = py_docs.load_examples()
INPUTS = ("input", "input, target", "input, target, other")


def literal(arg):
    """The row's default as a Python literal; None: required."""
    if not arg.default:
        return None
    if arg.default == "none" or not re.fullmatch(r"[-+.e\d]+|true|false", arg.default):
        return f"'{arg.default}'" if arg.type == "word" else "None"  # another argument's name: None stands for it
    if arg.type == "bool":
        return arg.default.capitalize()
    return repr(float(arg.default)) if arg.type.startswith("float") else arg.default


class Face:
    def __init__(self, layer, row):
        self.layer, self.at = layer, row["at"]
        self.where, self.bases = row["where"], row["bases"]
        self.inputs = row["inputs"] or INPUTS[len(layer.inputs) - 1]
        if len(self.inputs.split(",")) != len(layer.inputs):
            raise RowError(f"{self.at}: {layer.name} has {len(layer.inputs)} inputs")
        self.repr = row["repr"] or layer.repr
        self.parameters, self.positional = [], None
        index = {a.name: i for i, a in enumerate(layer.args)}
        for text in row["signature"].split(",") if row["signature"] else [a.name for a in layer.args]:
            if text.strip() == "*":
                self.positional = len(self.parameters)
                continue
            self.parameters.append(self.parameter(text, index))
        placed = [(n, h, -1, "None") for n, h in (("device", "FAPY_DEVICE_OF"), ("dtype", "FAPY_DTYPE_OF"))]
        if any(kind in "PB" and sizes for kind, _, sizes, _, _ in layer.entries):
            at = len(self.parameters) if self.positional is None else self.positional
            self.parameters[at:at] = placed
            self.positional = None if self.positional is None else at + 2
        if self.positional is None:
            self.positional = len(self.parameters)

    def parameter(self, text, index):
        spec, _, default = (s.strip() for s in text.partition("="))
        name, _, how = (s.strip() for s in spec.partition(":"))
        if how:
            if how not in HOW or not default:
                raise RowError(f"{self.at}: {text!r}: {', '.join(HOW)}, with a default")
            return name, HOW[how], -1, default
        if name in NO_ROW and name not in index:
            return (name, NO_ROW[name][0], -1, NO_ROW[name][1])
        if name not in index:
            raise RowError(f"{self.at}: {name!r} is no argument of {self.layer.name}")
        return name, "FAPY_ARGUMENT", index[name], default or literal(self.layer.at_arg[name])

    @property
    def doc(self):
        parts = []
        for i, (name, _, _, initial) in enumerate(self.parameters):
            if i == self.positional:
                parts.append("*")
            parts.append(name if initial is None else f"{name}={initial}")
        words = [f"{self.layer.name}({', '.join(parts)})", self.layer.doc, EXAMPLES.get("nn." + self.layer.name, "")]
        return py_docs.c_text("\n\n".join(w for w in words if w))

    def table(self):
        if not self.parameters:
            return ""
        lines = "".join(
            f'    {{"{n}", {how}, {at}, {"NULL" if d is None else chr(34) + d + chr(34)}}},\n'
            for n, how, at, d in self.parameters
        )
        return f"static const fapy_layer_parameter parameters_{self.layer.snake}[] = {{\n{lines}}};\n"

    def row(self):
        name = f"parameters_{self.layer.snake}" if self.parameters else "NULL"
        return (
            f'    {{"{self.layer.name}", "{self.where}", "{self.bases}", "{self.inputs}", "{self.repr}", "{self.doc}",\n'
            f"     FAI_LAYER_{self.layer.name}, {len(self.parameters)}, {self.positional}, {name}}},\n"
        )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--tables", default=os.path.join(HERE, "src"))
    a = parser.parse_args()
    layers = gen_nn.load(a.tables)
    given = {r["name"]: r for r in rows.read_table(os.path.join(HERE, "python", "nn.tab"), COLUMNS)}
    usual = {"at": "python/nn.tab", "where": "activation", "bases": "", "signature": "", "inputs": "", "repr": ""}
    faces = [Face(x, given.get(x.name, usual)) for x in layers]
    out = [
        "/* Generated from src/nn/layers.tab and python/nn.tab by tools/gen_pynn.py: change those. */\n",
        '#include "python/ext/nn.h"\n\n',
    ]
    out += [f.table() for f in faces]
    out.append(
        "\nconst fapy_layer fapy_layers[] = {\n"
        + "".join(f.row() for f in faces)
        + "};\nconst int fapy_nlayers = sizeof fapy_layers / sizeof *fapy_layers;\n"
    )
    os.makedirs(os.path.join(a.out, "gen", "py", "nn", "modules"), exist_ok=True)
    gen_ops.write(os.path.join(a.out, "gen", "py", "layers_gen.c"), "".join(out))
    gen_ops.write(os.path.join(a.out, "gen", "py", "nn", "__init__.pyi"), py_stubs.layers(faces))
    for where, text in py_stubs.modules_of_layers(faces).items():
        gen_ops.write(os.path.join(a.out, "gen", "py", "nn", "modules", where + ".pyi"), text)


if __name__ == "__main__":
    main()
