#!/usr/bin/env python3
"""What the cuda backend loads at run time: docs/cuda.md against the lists of the source, and each way in which a library can be
missing, too old or refuse, by the simulated driver and by made-up libraries of a few lines. Standard library only.

test-limit: 300
test-modes: release
"""
import os
import re
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from pages import BUILD, check, finish, read, run

FACULA = os.path.join(BUILD, "bin", "facula")
DEMO = FACULA + " demo --device cuda --epochs 1"
LIBRARIES = {"driver": "DRIVER", "NVRTC": "NVRTC", "cuBLASLt": "CUBLASLT", "cuDNN": "CUDNN", "NVML": "NVML"}
TOO_OLD = "The NVIDIA driver on your system is too old (found version %d). Please update your GPU driver by downloading and installing a new version"


def defined(name):
    """(files, functions) of a library in libraries.def"""
    text = read("src/backends/cuda/libraries.def").split("#endif")[-1]
    return (re.findall(r'(?m)^FAI_FILE\(%s, \d+, "([^"]+)"\)' % name, text),
            re.findall(r"(?m)^FAI_%s\([^,]+, \w+, (\w+),\s" % name, text))


def page():
    """Every library, file and function of the lists is on the page, in the same order, and nothing else."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in read("docs/cuda.md").splitlines() if line.startswith("| ")]
    for word, name in LIBRARIES.items():
        files, functions = defined(name)
        told = [row for row in rows if row[0] == word]
        check(len(told) == 2, "docs/cuda.md: %d rows for %s" % (len(told), word))
        if len(told) == 2:
            check(re.findall(r"`([^`]+)`", told[0][1]) == files, "docs/cuda.md: the files of %s are %s" % (word, files))
            check(re.findall(r"`(\w+)`", told[1][1]) == functions, "docs/cuda.md: the functions of %s are %s" % (word, functions))
        check(len(files) > 0 and len(functions) > 5, "libraries.def: nothing of %s was found" % word)


# ---- our declarations against NVIDIA's headers ----

HEADERS = {"DRIVER": "cuda.h", "NVRTC": "nvrtc.h", "CUBLASLT": "cublasLt.h", "CUDNN": "cudnn.h"}
DECLARATIONS = ["src/backends/cuda/driver.h", "src/backends/cuda/vendor.h"]


def toolkit():
    """The folder of NVIDIA's headers, if it is there."""
    for folder in (os.environ.get("CUDA_HOME"), "/usr/local/cuda"):
        if folder and os.path.exists(os.path.join(folder, "include", "cuda.h")):
            return os.path.join(folder, "include")


def comparison(include):
    """A C file that compiles only if all numbers, sizes and prototypes are NVIDIA's."""
    there = {name: header for name, header in HEADERS.items() if os.path.exists(os.path.join(include, header))}
    lines = ["#include <%s>" % header for header in there.values()]
    for path in DECLARATIONS:
        text = re.sub(r"/\*.*?\*/", "", read(path), flags=re.S)
        for name, value in re.findall(r"\b((?:CU|NVRTC|CUDNN)[A-Z0-9_]*_\w+) = (\w+)", text):
            known = "CUBLASLT" if name.startswith(("CUBLAS", "CUDA_R_")) else "CUDNN" if name.startswith("CUDNN") else "DRIVER"
            if known in there:
                lines.append('_Static_assert((int)%s == %s, "%s");' % (name, value, name))
        for struct, size in re.findall(r"_Static_assert\(sizeof\((\w+)\) == (\d+)", text):
            lines.append('_Static_assert(sizeof(%s) == %s, "%s");' % (struct, size, struct))
    for name in there:
        lines.append('#define FAI_%s(result, member, symbol, args) _Static_assert(__builtin_types_compatible_p(__typeof__(&symbol), '
                     '__typeof__(result(*) args)), #symbol);' % name)
    return there, "\n".join(lines + ['#include "src/backends/cuda/libraries.def"', ""])


def headers(scratch, cc):
    include = toolkit()
    if not include:
        return
    there, text = comparison(include)
    with open(os.path.join(scratch, "compare.c"), "w") as f:
        f.write(text)
    compile_it = [cc, "-std=gnu11", "-w", "-fsyntax-only", "-I" + include, "-I.", os.path.join(scratch, "compare.c")]
    code, said = run(compile_it)
    check(code == 0, "our declarations are not NVIDIA's:\n" + said[:3000])
    check(len(there) >= 2 and text.count("_Static_assert") > 50, "next to nothing was compared")
    with open(os.path.join(scratch, "compare.c"), "w") as f: # the comparison itself finds what is wrong
        f.write(text.replace("== 700,", "== 701,"))
    code, said = run(compile_it)
    check(code != 0 and "CUDA_ERROR_ILLEGAL_ADDRESS" in said, "a wrong number was not found")


# ---- operators by the libraries ----

GOLDEN = {"cublaslt": ["mm", "matmul", "bmm", "addmm", "baddbmm", "linear", "gemm", "mv", "dot", "einsum", "bilinear", "chain_matmul", "tensordot"],
          "cudnn": ["conv1d", "conv2d", "conv_transpose1d", "conv_transpose2d", "conv_same"]}


def fresh(program):
    """It was built with the simulator that is there now; the test is asked for alone otherwise."""
    simulator = os.path.join(BUILD, "libfacula_sim.so")
    return os.path.exists(program) and os.path.getmtime(program) >= os.path.getmtime(simulator) - 1


def golden():
    """PyTorch's results and derivatives, computed by the stand-ins of the libraries. cuDNN adds biases in a step of its own, so 16-bit
    results are rounded twice, as PyTorch's are on a GPU: these are left out here."""
    program = os.path.join(BUILD, "tests", "test_golden")
    for library, operators in GOLDEN.items() if fresh(program) else []:
        code, text = run([program] + operators, more={"FACULA_SIM": "cuda:1", "FACULA_SIM_LIBRARIES": library, "NVIDIA_TF32_OVERRIDE": "0"})
        wrong = [line for line in lines(text, "FAILED") if library != "cudnn" or not re.search(r" b?float16 layout . on cuda:0: result", line)]
        check(not wrong, "golden values by %s:\n%s" % (library, "\n".join(wrong[:10])))
        counts = re.findall(r"(\d+) passed, (\d+) failed", text)
        check(counts and int(counts[-1][0]) > 100 and int(counts[-1][1]) < 60, "golden values by %s: %d\n%s" % (library, code, text[-1000:]))


def lines(text, begin):
    return [line for line in text.splitlines() if begin in line]


def told(name, command, more, code, *wanted, unwanted=()):
    got, text = run(command, more=more)
    check(got == code, "%s: exit code %d:\n%s" % (name, got, text[-1500:]))
    for words in wanted:
        check(words in text, "%s: '%s' is not in:\n%s" % (name, words, text[-1500:]))
    for words in unwanted:
        check(words not in text, "%s: '%s' is in:\n%s" % (name, words, text[-1500:]))
    return text


def simulated():
    """Faults of the simulated driver."""
    old = {"FACULA_SIM": "cuda:2", "FACULA_SIM_FAULTS": "driver:11040"}
    text = told("old driver", DEMO, old, 1, "facula demo: " + TOO_OLD % 11040, "needs the driver of CUDA 12.0 or newer")
    check(len(lines(text, "warning: cuda: CUDA initialization: " + TOO_OLD % 11040)) == 1, "old driver: not one warning:\n" + text)
    told("old driver, info", FACULA + " info", old, 0, "no accelerator: " + TOO_OLD % 11040)
    told("oldest driver", FACULA + " info", dict(old, FACULA_SIM_FAULTS="driver:12000"), 0, "cuda:1 ", unwanted=["too old"])
    told("hidden", DEMO, {"FACULA_SIM": "cuda:2", "CUDA_VISIBLE_DEVICES": ""}, 1, "facula demo: No CUDA GPUs are available.",
         "CUDA_VISIBLE_DEVICES='' hides those", unwanted=["warning"])
    told("no NVRTC", DEMO, {"FACULA_SIM": "cuda:1", "FACULA_SIM_FAULTS": "nvrtc:1"}, 1, "facula demo: conv2d: CUDA error: NVRTC",
         "NVRTC, CUDA's run-time compiler, was not found (libnvrtc.so.13 or .12), and kernels are compiled with it: install the CUDA "
         "toolkit, or `pip install nvidia-cuda-nvrtc`, or set CUDA_HOME", "building the kernels of family 'conv' for 'conv2d'")
    told("refused", DEMO, {"FACULA_SIM": "cuda:1", "FACULA_SIM_FAULTS": "build:1"}, 1, "facula demo: conv2d: CUDA error: NVRTC failed",
         "for 'conv2d'. The compiler's first words:\nconv.k.h: injected fault build:1\n", "Another version of the compiler may take them")


PYTHON = """
import warnings
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    import facula as torch
    print("available", torch.cuda.is_available(), torch.cuda.device_count(), torch.cuda.is_available())
    print("told", [str(w.message)[:60] for w in seen])
try:
    torch.zeros(1, device="cuda")
except RuntimeError as error:
    print("error", error)
print((torch.ones(2) + 1).tolist())
"""
GOES_ON = """
import facula as torch
x = torch.ones(4, device="cuda")
try:
    x.cumsum(0)
except RuntimeError as error:
    print("error", error)
print((x + x).tolist(), x.cumsum(0).tolist())
"""


def python():
    """The same in Python: False and one warning; and a device that goes on after its compiler refused."""
    path = {"PYTHONPATH": os.path.join(BUILD, "python"), "FACULA_SIM": "cuda:1"}
    interpreter = os.environ.get("PYTHON_FOR_TESTS", sys.executable)
    text = told("Python, old driver", [interpreter, "-B", "-c", PYTHON], dict(path, FACULA_SIM_FAULTS="driver:11040"), 0, "available False 0 False",
                "error " + TOO_OLD % 11040, "[2.0, 2.0]")
    check(len(lines(text, "told ['CUDA initialization: The NVIDIA driver on your system is too")) == 1, "Python, old driver:\n" + text)
    told("Python, refused", [interpreter, "-B", "-c", GOES_ON], dict(path, FACULA_SIM_FAULTS="build:2"), 0, "error CUDA error: NVRTC failed",
         "injected fault build:2", "for 'cumsum'", "[2.0, 2.0, 2.0, 2.0] [1.0, 2.0, 3.0, 4.0]")


def doctor():
    """Each place where it can stop, by the simulator; what mends it."""
    ask = FACULA + " doctor --device "
    sim = {"FACULA_SIM": "cuda:2"}
    told("doctor, there", ask + "cuda", sim, 0, "cuda: 2 devices\n", "ok    kernels are compiled by NVRTC 13.0", "cudnn is not used (not found)", unwanted=["stop", "mend"])
    told("doctor, libraries", ask + "cuda", dict(sim, FACULA_SIM_LIBRARIES="cublaslt,cudnn"), 0, "ok    cublaslt 130000 is used", "ok    cudnn 90300 is used")
    told("doctor, hidden", ask + "cuda", dict(sim, CUDA_VISIBLE_DEVICES="9"), 1, "cuda: not there\n", "stop  it shows no device: CUDA_VISIBLE_DEVICES='9' hides",
         "mend  unset CUDA_VISIBLE_DEVICES")
    told("doctor, old", ask + "cuda", dict(sim, FACULA_SIM_FAULTS="driver:11040"), 1, "stop  it is of CUDA 11.4 (11040); 12.0 or newer is needed", "mend  update the driver")
    told("doctor, NVRTC", ask + "cuda", dict(sim, FACULA_SIM_FAULTS="nvrtc:1"), 0, "stop  NVRTC, CUDA's run-time compiler, was not found", "mend  pip install nvidia-cuda-nvrtc")
    told("doctor, other", ask + "cuda", {"FACULA_SIM": "xpu:1"}, 1, "and it names no cuda", "mend  FACULA_SIM=xpu:1,cuda:1")
    told("doctor, mistake", ask + "cuda", {"FACULA_SIM": "cuda"}, 1, "stop  FACULA_SIM='cuda' is not understood", "mend  FACULA_SIM=cuda:2 for two")
    told("doctor, xpu", ask + "xpu", {"FACULA_OPENCL": "off"}, 1, "xpu: not there\n  stop  FACULA_OPENCL=off hides", "mend  unset FACULA_OPENCL")
    told("doctor, loader", ask + "opencl", {"FACULA_OPENCL": "", "FACULA_OPENCL_LIBRARY": "/none.so"}, 1, "stop  OpenCL's loader could not be opened: /none.so", "FACULA_SIM=opencl:2")
    told("doctor, plug-in", ask + "npu", {"FACULA_PLUGINS": "/none.so"}, 1, "stop  the plug-in /none.so can't be used", "mend  FACULA_PLUGINS=/path/to/npu.so")
    told("doctor, no plug-in", ask + "npu", {}, 1, "stop  it comes by a plug-in, and FACULA_PLUGINS is not set")
    told("doctor, all", FACULA + " doctor", dict(sim, CUDA_VISIBLE_DEVICES=""), 0, "cuda: not there", "xpu: not there", "mps: not there", "There is no accelerator")
    told("doctor, all there", FACULA + " doctor", sim, 0, "The accelerator is cuda.")
    told("doctor, unknown", ask + "abacus", {}, 1, "abacus")
    path = {"PYTHONPATH": os.path.join(BUILD, "python")}
    interpreter = os.environ.get("PYTHON_FOR_TESTS", sys.executable)
    told("doctor, Python", [interpreter, "-B", "-m", "facula", "doctor", "cuda"], dict(path, FACULA_SIM="cuda:1", CUDA_VISIBLE_DEVICES=""), 1, "cuda: not there\n",
         "mend  unset CUDA_VISIBLE_DEVICES")
    told("why_not, Python", [interpreter, "-B", "-c", "import facula as torch; print(torch.cuda.why_not()); print(torch.xpu.why_not())"], dict(path, FACULA_SIM="cuda:1"),
         0, "cuda: 1 device\n", "xpu: not there\n  stop  FACULA_SIM=cuda:1: simulated devices in place of all real ones, and it names no xpu")


DRIVER = "int cuDriverGetVersion(int *v) { *v = %d; return 0; }\n"
WHOLE = DRIVER + """
int cuInit(unsigned flags) { return %d; }
int cuGetErrorString(int e, const char **t) { *t = "made up"; return 0; }
int cuGetErrorName(int e, const char **t) { *t = "CUDA_ERROR_MADE_UP"; return 0; }
int cuMemGetInfo_v2(void *a, void *b) { return 1; }
int cuDeviceGetCount(int *n) { *n = %d; return 0; }
"""


def made_up(scratch, cc):
    """A libcuda.so.1 of our own, in place of the real one."""
    functions = defined("DRIVER")[1]

    def driver(name, text, whole):
        folder = os.path.join(scratch, name)
        os.makedirs(folder)
        rest = "".join("int %s(void) { return 999; }\n" % f for f in functions if whole and " %s(" % f not in text)
        with open(os.path.join(folder, "cuda.c"), "w") as f:
            f.write(text + rest)
        code, said = run([cc, "-w", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", "libcuda.so.1", "cuda.c"], cwd=folder)
        check(code == 0, said)
        return {"LD_LIBRARY_PATH": folder}

    text = told("incomplete", DEMO, driver("incomplete", DRIVER % 12040, False), 1, TOO_OLD % 12040, "libcuda.so.1 here has no function cuInit",
                "or learn without a GPU: FACULA_SIM=cuda:2")
    check(len(lines(text, "warning: cuda: CUDA initialization")) == 1, "incomplete: not one warning:\n" + text)
    told("old", DEMO, driver("old", DRIVER % 11080, False), 1, TOO_OLD % 11080)
    told("no version", DEMO, driver("noversion", "int cuInit(unsigned f) { return 0; }\n", False), 1, TOO_OLD % 0)
    none = driver("none", WHOLE % (13000, 100, 0), True)
    told("no device", DEMO, none, 1, "facula demo: No CUDA GPUs are available. The driver is there, but shows no device", "nvidia-smi -L",
         unwanted=["warning"])
    told("none left", DEMO, dict(driver("left", WHOLE % (13000, 0, 0), True), CUDA_VISIBLE_DEVICES="7"), 1, "CUDA_VISIBLE_DEVICES='7' hides")
    told("broken", DEMO, driver("broken", WHOLE % (13000, 999, 0), True), 1, "facula demo: CUDA error: made up (CUDA_ERROR_MADE_UP) while opening",
         "warning: cuda: CUDA initialization: CUDA error: made up")
    ask = FACULA + " doctor --device cuda"
    told("doctor, incomplete", ask, {"LD_LIBRARY_PATH": os.path.join(scratch, "incomplete")}, 1, "ok    the driver's library is there: " + scratch,
         "stop  it is of CUDA 12.4 and has no function cuInit", "mend  update the driver", "mend  or learn without it: FACULA_SIM=cuda:2")
    told("doctor, broken", ask, {"LD_LIBRARY_PATH": os.path.join(scratch, "broken")}, 1, "stop  it does not start: CUDA error: made up", "mend  see whether `nvidia-smi`")
    told("doctor, none", ask, {"LD_LIBRARY_PATH": os.path.join(scratch, "none")}, 1, "stop  it shows no device\n", "mend  see whether `nvidia-smi -L` lists one")
    with open(os.path.join(scratch, "libcuda.so.1"), "w") as f:
        f.write("no library")
    told("doctor, no library", ask, {"LD_LIBRARY_PATH": scratch}, 1, "stop  libcuda.so.1, a part of NVIDIA's driver, can't be opened: ", "mend  install the driver of your GPU")
    told("broken, the CPU goes on", FACULA + " info", {"LD_LIBRARY_PATH": os.path.join(scratch, "broken")}, 0, "of memory, ready")


def main():
    page()
    simulated()
    python()
    golden()
    doctor()
    cc = shutil.which(os.environ.get("CC", "cc"))
    scratch = tempfile.mkdtemp()
    try:
        if cc:
            headers(scratch, cc)
            made_up(scratch, cc)
    finally:
        shutil.rmtree(scratch)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
