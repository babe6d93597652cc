#!/usr/bin/env python3
"""What compiled kernels cost at a program's start, on the CPU and on OpenCL's first device: start.py [--rounds 5] [--device opencl:0]

The program trains a small convolutional network for two steps and ends. By turns, in fresh processes: on the CPU; on the device with
nothing kept; again with what the driver kept itself; and with programs that Facula kept in FACULA_CACHE. Seconds from start to end, and
seconds of processor time, which other programs disturb less (a start uses one core): medians of all rounds, what is kept is made once.
Run it with PYTHONPATH=build/release/python.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

PROGRAM = """import sys, facula as torch
from facula import nn
device = sys.argv[1]
torch.manual_seed(0)
net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 10)).to(device)
optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
x, y = torch.rand(8, 1, 8, 8).to(device), torch.randint(0, 10, (8,)).to(device)
for _ in range(2):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
print(loss.item())
"""


def seconds(device, **changes):
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    p = subprocess.run([sys.executable, "-c", PROGRAM, device], env={**os.environ, **changes}, capture_output=True, text=True)
    if p.returncode:
        sys.exit(p.stderr.strip())
    end, after = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    return end - start, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device", default="opencl:0")
    a = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        own = {"POCL_CACHE_DIR": os.path.join(folder, "own"), "FACULA_CACHE": "off"}
        kept = {"POCL_CACHE_DIR": os.path.join(folder, "kept"), "FACULA_CACHE": os.path.join(folder, "facula")}
        for place in (own["POCL_CACHE_DIR"], kept["POCL_CACHE_DIR"]):
            os.mkdir(place)
        lines = {"cpu": ("cpu", {}), f"{a.device}, kept by the driver": (a.device, own),
                 f"{a.device}, FACULA_CACHE=folder": (a.device, kept)}
        first = {line: seconds(device, **changes) for line, (device, changes) in lines.items()}
        times = {line: [] for line in lines}
        for _ in range(a.rounds):
            for line, (device, changes) in lines.items():
                times[line].append(seconds(device, **changes))
        print("| start | first, s | processor | later, s | processor | above the CPU |\n|---|---|---|---|---|---|")
        for line in lines:
            (wall, work), low = map(statistics.median, zip(*times[line])), statistics.median(t[1] for t in times["cpu"])
            print(f"| {line} | {first[line][0]:.2f} | {first[line][1]:.2f} | {wall:.2f} | {work:.2f} | {work - low:.2f} |")


if __name__ == "__main__":
    main()
