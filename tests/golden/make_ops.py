#!/usr/bin/env python3
"""Makes ops.golden.gz: for every operator of the tables, results and derivatives as PyTorch (2.13, float64) computes them.

Run by hand, with a Python that has torch, when an operator is added or its meaning changes:  make_ops.py [--list]
A row of elementwise.tab is found in torch by its name, or by ELEMENTWISE below."""

import gzip
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "..", "tools")]
import cases  # noqa: E402
import elementwise_cases  # noqa: E402
import network_cases  # noqa: E402
import rows  # noqa: E402
import tensor_cases  # noqa: E402

# Only reached through the derivatives of others, or helpers of theirs.
INNER = {
    "slice_backward",
    "select_backward",
    "unfold_backward",
    "diagonal_backward",
    "embedding_backward",
    "dim_backward",
    "softmax_grad",
    "log_softmax_grad",
    "conv2d_input",
    "conv2d_weight",
    "max_pool2d_backward",
    "pool_gather",
    "avg_pool2d_backward",
    "nll_loss_backward",
    "nll_loss_double",
    "to_device",
    "gemm",
    "as_strided_embed",
}
HEAD = "# Made by tests/golden/make_ops.py with PyTorch; tests/golden/README.md tells the format.\n"


def main():
    tables = os.path.join(HERE, "..", "..", "src", "ops")
    loaded = rows.load(tables)
    elementwise_cases.make(loaded["elementwise"])
    tensor_cases.make()
    network_cases.make()
    names = [r.name for r in loaded["elementwise"]]
    names += [r["name"] + end for r in loaded["reduce"] for end in ("", "_dims")]
    names += [r["name"] for r in rows.read_table(os.path.join(tables, "tensor.tab"), "name args kind backward doc".split())]
    missing = [n for n in names if n not in cases.seen and n not in INNER]
    text = HEAD + "\n".join(cases.lines) + "\n"
    with gzip.GzipFile(os.path.join(HERE, "ops.golden.gz"), "wb", 9, mtime=0) as f:
        f.write(text.encode())
    size = os.path.getsize(os.path.join(HERE, "ops.golden.gz"))
    print(f"{sum(cases.seen.values())} cases of {len(cases.seen)} operators, {len(text)} bytes, {size} packed")
    if missing:
        sys.exit("operators without a case: " + ", ".join(missing))


if __name__ == "__main__":
    main()
