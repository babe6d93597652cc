#!/usr/bin/env python3
"""The same work on PyTorch and on Facula by turns in one run: compare.py [--torch PYTHON] [--build build/release] [--rounds 3] [NAME...]

Each round runs one workload with PyTorch, then with Facula's C API (bench/workloads.c), in fresh processes on one thread; the
ratio is PyTorch / Facula on the best of all rounds (above 1: Facula is faster). PYTHON is an interpreter that has torch.
"""
import argparse
import math
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def run(command, env):
    p = subprocess.run(command, env=env, capture_output=True, text=True)
    try:
        return float(p.stdout.strip().splitlines()[-1].split()[1])
    except (IndexError, ValueError):
        sys.exit(f"{' '.join(command)} failed: {(p.stderr or p.stdout).strip()}")


def main():
    a = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    a.add_argument("--torch", default="python3")
    a.add_argument("--build", default=os.path.join(HERE, "..", "build", "release"))
    a.add_argument("--rounds", type=int, default=3)
    a.add_argument("names", nargs="*")
    a = a.parse_args()
    ours = os.path.join(a.build, "bench", "workloads")
    env = dict(os.environ, OMP_NUM_THREADS="1", FACULA_NUM_THREADS="1")
    names = a.names or subprocess.run([ours, "--list"], capture_output=True, text=True, check=True).stdout.split()
    logs = 0.0
    print(f"| {'workload':16s} | {'PyTorch us':>12s} | {'Facula us':>12s} | {'ratio':>6s} |\n|---|---|---|---|")
    for name in names:
        low = [math.inf, math.inf]
        for _ in range(a.rounds):
            low[0] = min(low[0], run([a.torch, os.path.join(HERE, "torch_workloads.py"), name], env))
            low[1] = min(low[1], run([ours, name], env))
        logs += math.log(low[0] / low[1])
        print(f"| {name:16s} | {low[0]:12.2f} | {low[1]:12.2f} | {low[0] / low[1]:6.2f} |", flush=True)
    print(f"\ngeometric mean of {len(names)}: {math.exp(logs / len(names)):.2f}")


if __name__ == "__main__":
    main()
