#!/usr/bin/env python3
"""What the opencl backend loads at run time: docs/opencl.md against the source, each way in which a loader, a driver or a device can be
missing, unfit or refuse, by a made-up libOpenCL (support/fake_opencl.c), and compiled programs that are kept. Standard library only.

test-limit: 300
test-modes: release
"""
import os
import re
import shlex
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from pages import BUILD, ROOT, check, finish, read, run

FACULA = os.path.join(BUILD, "bin", "facula")
DEMO = FACULA + " demo --epochs 1 --device "
NONE = "Found no opencl device on your system: "
LEARN = "To learn without a GPU, run with FACULA_SIM=opencl:2"
COMMON = {"FACULA_CACHE": "off", "FACULA_OPENCL": ""}

# what is wrong | command | exit code | what is printed
CASES = [
    ("", FACULA + " info", 0, ["opencl:0 Fake GPU, 256.0 MiB of memory, 256.0 MiB free, 3 multiprocessors, OpenCL 1.2 fake, ready"]),
    ("", DEMO + "opencl", 0, ["device: opencl:0 (Fake GPU)", "held-out accuracy"]),
    ("intel", DEMO + "xpu", 0, ["device: xpu:0 (Fake GPU)"]),
    ("intel", DEMO + "opencl", 1, ["Found no opencl device on your system", LEARN]),
    ("apple", DEMO + "mps", 0, ["device: mps:0 (Fake GPU)"]),
    ("no driver", DEMO + "opencl", 1, [NONE + "OpenCL's loader finds no driver (no driver installed): install your device's", LEARN]),
    ("no platform", DEMO + "opencl", 1, [NONE + "OpenCL's loader finds no driver (an empty list): install your device's"]),
    ("no driver", DEMO + "xpu", 1, ["Found no xpu device on your system: OpenCL's loader finds no driver"]),
    ("no device", DEMO + "opencl", 1, [NONE + "OpenCL's drivers show no device"]),
    ("old", DEMO + "opencl", 1, [NONE + "the OpenCL device 'Fake GPU' is older than OpenCL 1.2"]),
    ("not available", DEMO + "opencl", 1, [NONE + "the OpenCL device 'Fake GPU' is not available"]),
    ("no compiler", DEMO + "opencl", 1, [NONE + "the OpenCL device 'Fake GPU' has no compiler"]),
    ("small", DEMO + "opencl", 1, [NONE + "the OpenCL device 'Fake GPU' has work-groups of fewer than 256 items"]),
    ("no context", DEMO + "opencl", 1, ["OpenCL error: out of host memory (-6) while opening device 0. This happened on opencl:0 while"]),
    ("no queue", FACULA + " info", 0, ["opencl:0 not usable: OpenCL error: out of resources (-5) while making a queue of device 0"]),
    ("no memory", DEMO + "opencl", 1, ["OPENCL out of memory. Tried to allocate ", "has a total capacity of 256.00 MiB"]),
    ("late memory", DEMO + "opencl", 1, ["OPENCL out of memory. Tried to allocate "]),
    ("does not compile", DEMO + "opencl", 1, ["conv2d: OpenCL error: the program does not compile (-11) while compiling the program 'conv'",
                                              "The compiler's first words:\nkernel.cl:7:3: error: this compiler knows nothing\n"]),
    ("no kernel", DEMO + "opencl", 1, ["conv2d: OpenCL error: no such kernel (-46) while looking for the kernel 'conv2d_f32'"]),
    ("refuses", DEMO + "opencl", 1, ["conv2d: OpenCL error: invalid size of work-groups (-54) while launching a kernel on device 0"]),
    ("lost", DEMO + "opencl", 1, ["OpenCL error: out of resources (-5) while "]),
]


def page():
    """The files and the functions that are loaded are on the page, in the same order."""
    text, source = read("docs/opencl.md"), read("src/backends/opencl/library.c")
    files = re.findall(r'"([^"]+)"', re.search(r"names\[\] = \{(.*?)\};", source, re.S).group(1))
    functions = re.findall(r"\b(cl[A-Z]\w+),", read("src/backends/opencl/api.h"))
    check(", ".join("`%s`" % name for name in files) in text, "docs/opencl.md: the files are %s" % files)
    check(re.findall(r"`(\w+)`", text[text.index("## Functions"):]) == functions, "docs/opencl.md: the functions are %s" % functions)
    check(len(files) == 3 and len(functions) > 30, "the lists of the source were not found: %s, %s" % (files, functions))
    for name in set(re.findall(r"FACULA_OPENCL\w*", source + read("src/backends/opencl/devices.c"))):
        check("`%s=" % name in text, "docs/opencl.md does not tell of %s" % name)


def faults(library):
    for wrong, command, code, wanted in CASES:
        got, text = run(command, more=dict(COMMON, FACULA_OPENCL_LIBRARY=library, FAKE_OPENCL=wrong))
        check(got == code, "%s, %s: exit code %d:\n%s" % (wrong, command, got, text[-1500:]))
        for words in wanted:
            check(words in text, "%s, %s: '%s' is not in:\n%s" % (wrong, command, words, text[-1500:]))
    got, text = run(DEMO + "opencl", more=dict(COMMON, FACULA_OPENCL_LIBRARY=library, FACULA_SIM="cuda:1"))
    check(got == 1 and "FACULA_SIM=cuda:1 names none" in text, "beside a simulator:\n" + text)
    got, text = run(DEMO + "cuda", more=dict(COMMON, FACULA_OPENCL_LIBRARY=library, FACULA_SIM="cuda:1", FAKE_OPENCL="no driver"))
    check(got == 0 and "OpenCL" not in text, "OpenCL disturbs a simulator:\n" + text)
    got, text = run(FACULA + " info", more=dict(COMMON, FACULA_OPENCL_LIBRARY="/nowhere/libOpenCL.so.1"))
    check(got == 0 and "cpu " in text, "without a loader:\n" + text)


PYTHON = """
import facula as torch
print(torch.opencl.is_available(), torch.opencl.device_count(), torch.xpu.is_available(), torch.accelerator.current_accelerator())
x = torch.ones(2, 3, device="opencl")
for make in (lambda: torch.ones(2, dtype=torch.float64, device="opencl"), lambda: x.double(), lambda: x * torch.tensor(2.0, dtype=torch.float64)):
    try:
        print(make().dtype)
    except RuntimeError as error:
        print(type(error).__name__, error)
try:
    torch.empty(10**10, device="opencl")
except torch.OutOfMemoryError as error:
    print(str(error)[:60])
"""


def python(library):
    """A device without float64, as Python sees it; what needs none goes on."""
    more = dict(COMMON, FACULA_OPENCL_LIBRARY=library, FAKE_OPENCL="no float64", PYTHONPATH=os.path.join(BUILD, "python"))
    got, text = run([os.environ.get("PYTHON_FOR_TESTS", sys.executable), "-B", "-c", PYTHON], more=more)
    for words in ("True 1 False opencl\n", "opencl:0 has no float64, and this needs it. Use float32 (.to(dtype)), or", "torch.float32\n",
                  "OPENCL out of memory. Tried to allocate 37.25 GiB."):
        check(words in text.replace("facula.", "torch."), "Python, no float64: '%s' is not in:\n%s" % (words, text))
    check(got == 0, "Python, no float64: exit code %d" % got)


def kept(library, scratch):
    """The second start compiles nothing; another driver, and one that takes no binary, get the texts again."""
    log = os.path.join(scratch, "log")

    def letters(wrong="", cache=os.path.join(scratch, "cache")):
        open(log, "w").close()
        got, text = run(DEMO + "opencl", more=dict(COMMON, FACULA_OPENCL_LIBRARY=library, FACULA_CACHE=cache, FAKE_OPENCL=wrong, FAKE_OPENCL_LOG=log))
        check(got == 0, "kept, %s: exit code %d:\n%s" % (wrong, got, text[-1500:]))
        return open(log).read()

    first = letters()
    check(len(first) > 4 and set(first) == {"T"}, "the first start: " + first)
    check(letters() == "B" * len(first), "the second start compiles")
    check(letters("newer driver") == first, "a newer driver got what an older one compiled")
    check(letters("no binaries") == first, "a driver that takes no binary")
    check(letters("no binaries") == first, "a driver that takes no binary, again")
    check(letters() == "B" * len(first), "what was refused is not kept again")
    check(letters(cache="off") == first, "FACULA_CACHE=off")


def main():
    cc = shlex.split(os.environ.get("CC") or "cc")
    page()
    with tempfile.TemporaryDirectory() as scratch:
        library = os.path.join(scratch, "fake.so")
        code, text = run(cc + ["-std=gnu11", "-Wall", "-Wextra", "-O1", "-shared", "-fPIC", "-Isrc", "-o", library,
                               os.path.join(ROOT, "tests", "support", "fake_opencl.c")])
        check(code == 0 and not text, "the made-up library does not compile:\n" + text)
        faults(library)
        kept(library, scratch)
        if os.path.exists(os.path.join(BUILD, "python", "facula")):
            python(library)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
