#!/usr/bin/env python3
"""Training steps on the CPU and on a simulated GPU by turns in one run: sim.py [--build build/release] [--rounds 3] [NAME...]

Each round runs a workload of bench/workloads.c on the CPU, then on cuda:0 of FACULA_SIM=cuda:1, in fresh processes, both on one
thread (the simulated device has one worker); the ratio is simulated / CPU on the best of all rounds.
"""
import argparse
import math
import os

from compare import HERE, run

STEPS = "template_step mlp_sgd mlp_adam mlp_adamw_500 lenet cnn_relu".split()


def main():
    a = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    a.add_argument("--build", default=os.path.join(HERE, "..", "build", "release"))
    a.add_argument("--rounds", type=int, default=3)
    a.add_argument("names", nargs="*")
    a = a.parse_args()
    names = a.names or STEPS
    program = os.path.join(a.build, "bench", "workloads")
    env = dict(os.environ, FACULA_NUM_THREADS="1", FACULA_SIM="cuda:1")
    logs = 0.0
    print(f"| {'workload':16s} | {'CPU us':>12s} | {'simulated us':>12s} | {'ratio':>6s} |\n|---|---|---|---|")
    for name in names:
        low = [math.inf, math.inf]
        for _ in range(a.rounds):
            low[0] = min(low[0], run([program, name], env))
            low[1] = min(low[1], run([program, "--device", "cuda:0", name], env))
        logs += math.log(low[1] / low[0])
        print(f"| {name:16s} | {low[0]:12.2f} | {low[1]:12.2f} | {low[1] / low[0]:6.2f} |", flush=True)
    print(f"\ngeometric mean of {len(names)}: {math.exp(logs / len(names)):.2f}")


if __name__ == "__main__":
    main()
