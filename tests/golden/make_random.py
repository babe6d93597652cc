"""Writes tests/golden/random_vectors.h: what PyTorch 2.13 draws on the CPU, as bits.

    python3 tests/golden/make_random.py rng_vectors.json

The input is a list of entries {seed, call, shape, dtype, first8, last, sum_f64}; values are doubles in hexadecimal.
"""
import json
import os
import re
import sys

DTYPES = {"torch." + n: "FA_" + n.upper() for n in
          "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64".split()}
CALLS = [  # pattern, kind
    (r"torch\.rand\((\d+)(?:,dtype=.*)?\)", "RAND"),
    (r"torch\.randn\((\d+)(?:,dtype=.*)?\)", "RANDN"),
    (r"torch\.empty\((\d+)\)\.normal_\(([^,]+),([^)]+)\)", "NORMAL"),
    (r"torch\.empty\((\d+)\)\.uniform_\(([^,]+),([^)]+)\)", "UNIFORM"),
    (r"torch\.randint\(([^,]+),([^,]+),\((\d+),\)\)", "RANDINT"),
    (r"torch\.randperm\((\d+)\)", "RANDPERM"),
    (r"torch\.empty\((\d+)(?:,dtype=.*)?\)\.random_\(\)", "RANDOM"),
    (r"torch\.empty\((\d+)\)\.bernoulli_\(([^)]+)\)", "BERNOULLI"),
    (r"torch\.empty\((\d+)\)\.exponential_\(\)", "EXPONENTIAL"),
]


def numbers(kind, groups):
    """The two parameters of a law, as C constants."""
    if kind == "RANDINT":
        return ["0", "1000"] if groups[0] == "0" else ["-1099511627776", "1099511627776"]
    values = list(groups[1:]) + ["0", "0"]
    return values[:2]


def total(entry):
    return entry["sum_f64"] if "sum_f64" in entry else float(entry["sum"]).hex()


def row(entry):
    for pattern, kind in CALLS:
        m = re.fullmatch(pattern, entry["call"])
        if m and entry["dtype"] in DTYPES and len(entry["shape"]) == 1 and "complex" not in entry["call"]:
            a, b = numbers(kind, m.groups())
            first = ", ".join(str(v) for v in entry["first8"])
            return (f'    {{"{entry["call"]}", {entry["seed"]}u, {kind}, {DTYPES[entry["dtype"]]}, {entry["shape"][0]}, {a}, {b},\n'
                    f'     {{{first}}}, {entry["last"]}, {total(entry)}}},\n')
    return None


def main(path):
    with open(path, encoding="utf-8") as f:
        data = json.load(f)
    rows = [r for r in map(row, data["vectors"]) if r]
    out = os.path.join(os.path.dirname(os.path.abspath(__file__)), "random_vectors.h")
    with open(out, "w", encoding="utf-8") as f:
        f.write(f"/* Written by make_random.py from PyTorch {data['torch']}: the first eight values, the last and the exact sum of each draw. */\n"
                "static const struct random_vector {\n    const char *call;\n    uint64_t seed;\n    int kind;\n    fa_dtype dtype;\n"
                "    int64_t n;\n    double a, b;\n    double first[8], last, sum;\n} random_vectors[] = {\n")
        f.writelines(rows)
        f.write("};\n")
    print(f"{len(rows)} of {len(data['vectors'])} entries written to {out}")


if __name__ == "__main__":
    main(sys.argv[1])
