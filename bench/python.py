#!/usr/bin/env python3
"""The Python package beside PyTorch, by turns in one run: python.py [--torch PYTHON] [--facula PYTHON] [--rounds 3] [NAME...]

Both run bench/torch_workloads.py, Facula under `python -m facula`, on one thread, in fresh processes; the ratio is PyTorch / Facula on
the best of all rounds. Then what `import` costs, above a bare interpreter, and how large the package is. PYTHON: interpreters that have
torch and facula (PYTHONPATH=build/release/python); NumPy is not needed.
"""

import argparse
import math
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
WORK = os.path.join(HERE, "torch_workloads.py")
IMPORT = """import time
start = time.perf_counter()
{}
seconds = time.perf_counter() - start
print("seconds", seconds, next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def last_line(command, env):
    p = subprocess.run(command, env=env, capture_output=True, text=True)
    words = (p.stdout.strip().splitlines() or [""])[-1].split()
    if p.returncode or len(words) < 2:
        sys.exit(f"{' '.join(command)} failed: {(p.stderr or p.stdout).strip()[-2000:]}")
    return [float(w) for w in words[1:]]


def workloads(a, env):
    names = a.names or subprocess.run([a.torch, WORK, "--list"], capture_output=True, text=True, check=True).stdout.split()
    logs = 0.0
    print(f"| {'workload':16s} | {'PyTorch us':>12s} | {'Facula us':>12s} | {'ratio':>6s} |\n|---|---|---|---|")
    for name in names:
        low = [math.inf, math.inf]
        for _ in range(a.rounds):
            low[0] = min(low[0], last_line([a.torch, WORK, name], env)[0])
            low[1] = min(low[1], last_line([a.facula, "-m", "facula", WORK, name], env)[0])
        logs += math.log(low[0] / low[1])
        print(f"| {name:16s} | {low[0]:12.2f} | {low[1]:12.2f} | {low[0] / low[1]:6.2f} |", flush=True)
    print(f"\ngeometric mean of {len(names)}: {math.exp(logs / len(names)):.2f}\n")


def imports(a, env):
    """Best time and least memory of five imports, less those of an interpreter that imports nothing more."""
    print(f"| {'import':16s} | {'ms':>8s} | {'MB':>8s} |\n|---|---|---|")
    for title, python, module in (("PyTorch", a.torch, "torch"), ("Facula", a.facula, "facula")):
        runs = [last_line([python, "-c", IMPORT.format(f"import {module}")], env) for _ in range(5)]
        bare = [last_line([python, "-c", IMPORT.format("pass")], env) for _ in range(5)]
        ms, mb = ((min(r[i] for r in runs) - min(r[i] for r in bare)) * s for i, s in ((0, 1000), (1, 1 / 1024)))
        print(f"| {title:16s} | {ms:8.1f} | {mb:8.1f} |", flush=True)


def main():
    a = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    a.add_argument("--torch", default="python3")
    a.add_argument("--facula", default="python3")
    a.add_argument("--rounds", type=int, default=3)
    a.add_argument("names", nargs="*")
    a = a.parse_args()
    env = dict(os.environ, OMP_NUM_THREADS="1", FACULA_NUM_THREADS="1")
    workloads(a, env)
    imports(a, env)


if __name__ == "__main__":
    main()
