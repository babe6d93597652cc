#!/usr/bin/env python3
"""Runs every program of examples/ with and without simulated devices and compares what it prints with tests/examples/.

test-limit: 300
test-modes: release debug

(With a sanitizer nothing is cached, which examples/memory.c would show.)

tests/examples/NAME.txt is the output without an accelerator, NAME.cuda2.txt with FACULA_SIM=cuda:2. Text is compared letter by
letter, numbers to one part in 100,000 or one unit of the last printed digit. An example without expectations is a failure.
--write writes the expectations anew (read them before you commit them).
"""
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join(ROOT, os.environ.get("BUILD", "build/release"))
EXPECTED = os.path.join(ROOT, "tests", "examples")
WAYS = {"": None, ".cuda2": "cuda:2"}
REASON = re.compile(r"(?<=two simulated GPUs\.) \(.*\)$", re.M)  # why there is no driver: each machine has its own words
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d*)?(?:e[-+]?\d+)?(?![\w])")


def run(name, simulated):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("FACULA_SIM") and k != "CUDA_VISIBLE_DEVICES"}
    # a machine with a GPU must not be seen
    environment.update({"FACULA_SIM": simulated} if simulated else {"CUDA_VISIBLE_DEVICES": ""})
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(BUILD, "examples", name)
        done = subprocess.run([program], cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
    return done.returncode, REASON.sub("", done.stdout), done.stderr


def unit(text):
    """One unit of the last digit that the text shows."""
    digits, _, exponent = text.partition("e")
    return 10.0 ** (int(exponent or 0) - len(digits.partition(".")[2]))


def same_number(a, b):
    if a == b:
        return True
    if not re.search(r"[.e]", a + b):
        return False
    x, y = float(a), float(b)
    return abs(x - y) <= max(1e-5 * abs(y), 1.01 * max(unit(a), unit(b)))


def difference(got, wanted):
    """None, or the first line that differs."""
    got, wanted = got.splitlines(), wanted.splitlines()
    for i, (a, b) in enumerate(zip(got, wanted), 1):
        numbers_a, numbers_b = NUMBER.findall(a), NUMBER.findall(b)
        if NUMBER.sub("#", a) != NUMBER.sub("#", b) or not all(map(same_number, numbers_a, numbers_b)):
            return f"line {i}:\n  printed  {a}\n  expected {b}"
    if len(got) != len(wanted):
        return f"{len(got)} lines printed, {len(wanted)} expected"
    return None


def check(name, ending, simulated, write):
    path = os.path.join(EXPECTED, name + ending + ".txt")
    code, out, err = run(name, simulated)
    if code != 0 or err:
        return f"exit code {code}, stderr: {err.strip()}"
    if write:
        with open(path, "w", encoding="utf-8") as f:
            f.write(out)
    if not os.path.exists(path):
        return f"{os.path.relpath(path, ROOT)} is not there"
    return difference(out, open(path, encoding="utf-8").read())


def main():
    names = sorted(f[:-2] for f in os.listdir(os.path.join(ROOT, "examples")) if f.endswith(".c"))
    missing = [n for n in names if not os.path.exists(os.path.join(BUILD, "examples", n))]
    if missing:
        subprocess.run(["make", "-s", f"MODE={os.environ.get('MODE', 'release')}", "programs"], cwd=ROOT, check=True)
    os.makedirs(EXPECTED, exist_ok=True)
    passed = failed = 0
    for name in names:
        for ending, simulated in WAYS.items():
            problem = check(name, ending, simulated, "--write" in sys.argv)
            passed, failed = passed + (problem is None), failed + (problem is not None)
            if problem:
                print(f"FAILED: {name}, {'FACULA_SIM=' + simulated if simulated else 'no accelerator'}: {problem}")
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
