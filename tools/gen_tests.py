#!/usr/bin/env python3
"""Makes golden_calls.h: one small function for every operator of the tables, which calls it with arguments given by name.

The golden test calls operators by name; this table comes from the same rows, so that a new row is tested without a line of C."""
import argparse
import os

import gen_ops
import rows

HEAD = "/* Generated from the tables in src/ops by tools/gen_tests.py: change those. */\n"
FIELD = {"tensor": "tensor", "tensor?": "tensor", "int": "i", "float": "f", "bool": "i != 0", "scalar": "scalar", "shape": "shape", "factors": "factors",
         "dtype": "dtype", "device": "device", "text": "text", "out": "out"}


def value(a, i):
    if a.type == "tensors":
        return f"a[{i}].list, a[{i}].nlist"
    return f"a[{i}].{FIELD[a.type]}"


def function(name, body):
    return f"static fa_tensor *call_{name}(const golden_arg *a)\n{{\n{body}}}\n"


def elementwise_calls(row):
    for c_name, _, args, _ in gen_ops.elementwise_declarations(row):
        names = [a.lstrip("=") for a in args] + [p for p, _ in row.params]
        values = [f"a[{i}].scalar" if a[0] == "=" else f"a[{i}].tensor" for i, a in enumerate(args)]
        values += [f"a[{len(args) + i}].f" for i in range(len(row.params))]
        yield c_name[3:], names, f"    return ({c_name})({', '.join(values)});\n"


def op_call(op):
    names = [a.name for a in op.public]
    if not op.has_options:
        return op.name, names, f"    return ({op.c_name})({', '.join(value(a, i) for i, a in enumerate(op.public))});\n"
    lines = [f"    fa_{op.name}_options o = FA_OPTIONS(fa_{op.name}_options, FA_{op.name.upper()}_DEFAULTS);\n"]
    lines += [f"    if (a[{i}].given) o.{a.name} = {value(a, i)};\n" for i, a in enumerate(op.public) if a.default]
    front = ", ".join(value(a, i) for i, a in enumerate(op.public) if not a.default)
    return op.name, names, "".join(lines) + f"    return fa_{op.name}_with({front}, &o);\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--tables", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "src", "ops"))
    a = parser.parse_args()
    tables = rows.load(a.tables)
    calls = [c for row in tables["elementwise"] for c in elementwise_calls(row)]
    calls += [op_call(op) for op in gen_ops.reduction_ops(tables["reduce"])]
    calls += [op_call(gen_ops.Op(r, None)) for r in rows.read_table(os.path.join(a.tables, "tensor.tab"), gen_ops.TENSOR)]
    text = HEAD + "\n".join(function(name, body) for name, _, body in calls)
    text += "\nstatic const golden_call golden_calls[] = {\n"
    text += "".join(f"    {{\"{name}\", {len(names)}, {{{', '.join(chr(34) + n + chr(34) for n in names)}}}, call_{name}}},\n"
                    for name, names, _ in calls) + "};\n"
    os.makedirs(os.path.join(a.out, "include"), exist_ok=True)
    gen_ops.write(os.path.join(a.out, "include", "golden_calls.h"), text)


if __name__ == "__main__":
    main()
