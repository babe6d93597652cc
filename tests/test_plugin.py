#!/usr/bin/env python3
"""Plug-ins. The commands of docs/backend.md are followed, the operator tests run on the npu that they make, and each way in which a
plug-in can be wrong is told. Standard library only.

test-limit: 300
test-modes: release
"""
import os
import re
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
import pages
from pages import BUILD, ROOT, check, finish

INFO = os.path.join(BUILD, "bin", "facula") + " info"

# What NPU_CC names here: cc, which compiles a text once for all of the tests.
COMPILER = """#!/bin/sh
kept={scratch}/$(sha256sum k.c | cut -c1-64).so
[ -f "$kept" ] && exec cp "$kept" k.so
cc "$@" && cp k.so "$kept.$$" && mv "$kept.$$" "$kept"
"""
BROKEN = """#include <sys/fa_backend.h>
#include <string.h>
#define fa_plugin good_plugin
#include "%s/examples/plugin/npu.c"
#undef fa_plugin
static int none(int *count, char *why, size_t n) { *count = 0; return snprintf(why, n, "no board in any slot"), 0; }
const fa_backend *%s(void) {
    static fa_backend b;
    b = *good_plugin();
    %s;
    return &b;
}
"""
# what goes wrong: (name of the function, the mistake, what is told)
FAULTS = [
    ("other_name", "(void)none", "it has no function 'fa_plugin': export"),
    ("fa_plugin", "(void)none; return NULL", "its function 'fa_plugin' gave NULL"),
    ("fa_plugin", "(void)none, b.abi = 77", "it was built for version 77 of the contract (fa_backend of "),
    ("fa_plugin", "(void)none, b.struct_size = 8", " bytes): build it anew with this library's headers"),
    ("fa_plugin", "(void)none, b.dialect = \"wgsl\"", "its backend 'npu' names the dialect 'wgsl'"),
    ("fa_plugin", "(void)none, b.event_query = NULL", "its backend 'npu' leaves out the function 'event_query'"),
    ("fa_plugin", "(void)none, b.name = \"cpu\"", "the name 'cpu' is taken"),
    ("fa_plugin", "(void)none, b.name = \"n p u\"", "'n p u' can't be a device's name"),
    ("fa_plugin", "b.open = none", "it finds no device: no board in any slot"),
]


def run(command, limit=200, **more):
    """(exit code, what it printed)"""
    return pages.run(command, more=more, limit=limit, without="FACULA_")


def follow_page(scratch):
    """Every command of docs/backend.md; what it makes goes to the scratch folder."""
    lines = list(pages.commands(pages.read("docs/backend.md")))
    check(len(lines) == 7, "docs/backend.md: 7 commands were expected, not %d" % len(lines))
    for line in lines:
        if line.startswith("make"):
            wanted = [os.path.join(BUILD, "tests", name) for name in re.findall(r"tests/(\w+)", line)]
            if all(os.path.exists(w) for w in wanted):
                continue
        line = line.replace("-o npu.so", "-o %s/npu.so" % scratch).replace("./npu.so", scratch + "/npu.so").replace("build/release", BUILD)
        code, text = run(line, NPU_CC=scratch + "/cc")
        check(code == 0, "docs/backend.md: `%s` ended with %d:\n%s" % (line, code, text[-1500:]))
        if "selftest" in line:
            check(": all right (" in text, line + "\n" + text)
        if line.endswith("info"):
            check("npu:0    Example NPU 0" in text and "npu:1    Example NPU 1" in text, "facula info shows no npu:\n" + text)


def other_tests(scratch):
    for name in ("test_heavy", "test_properties", "test_composite", "test_index", "test_known"):
        program = os.path.join(BUILD, "tests", name)
        if os.path.exists(program):
            code, text = run(program, NPU_CC=scratch + "/cc", FACULA_PLUGINS=scratch + "/npu.so")
            check(code == 0, "%s on npu ended with %d:\n%s" % (name, code, text[-1500:]))


def faults(scratch):
    told = lambda library, sim="": run(INFO, FACULA_PLUGINS=library, FACULA_SIM=sim)
    for i, (function, mistake, expected) in enumerate(FAULTS):
        source, library = "%s/fault%d.c" % (scratch, i), "%s/fault%d.so" % (scratch, i)
        with open(source, "w", encoding="utf-8") as f:
            f.write(BROKEN % (ROOT, function, mistake))
        # the file's own door must not be seen when it has another name
        code, text = run("cc -w -shared -fPIC -O0 -pthread -Iinclude -o %s %s" % (library, source))
        check(code == 0, "%s: %s" % (source, text))
        code, text = told(library)
        check(code == 0 and text.count(expected) >= 2 and "a plug-in can't be used: " + library in text, "%s: %r is not told as warning and in the list:\n%s" % (mistake, expected, text))
    good = scratch + "/npu.so"
    code, text = told("/nowhere/npu.so:" + good)
    check("/nowhere/npu.so" in text and "it can't be opened: " in text and "npu:1 " in text, "a missing file:\n" + text)
    for library, sim in ((good + ":" + good, ""), (good, "npu:1")):
        code, text = told(library, sim)
        check("the name 'npu' is taken: there are devices of that name already" in text and "npu:0 " in text, "a name twice:\n" + text)
    code, text = told(":".join([good] * 9))
    check("names more than 8 plug-ins" in text, "nine plug-ins:\n" + text)
    code, text = told("/" + "x" * 600)
    check("its path is longer than" in text, "a long path:\n" + text)
    with open(scratch + "/cc-broken", "w") as f:
        f.write("#!/bin/sh\necho 'k.c:7: no such chip' >&2; exit 1\n")
    os.chmod(scratch + "/cc-broken", 0o755)
    with open(scratch + "/one.c", "w") as f:
        f.write('#include <facula.h>\nint main(void) { fa_neg(fa_ones(FA_SHAPE(2), .device = fa_device_parse("npu:1"))); return fa_finish("one"); }\n')
    code, text = run("cc -Iinclude -I%s/include -o %s/one %s/one.c -L%s -lfacula -Wl,-rpath,%s" % (BUILD, scratch, scratch, BUILD, BUILD))
    check(code == 0, "one.c: " + text)
    code, text = run(scratch + "/one", FACULA_PLUGINS=good, NPU_CC=scratch + "/cc-broken")
    check(code == 1 and "can't compile the kernels" in text and "no such chip" in text, "a compiler that fails:\n" + text)
    check("FACULA_FALLBACK=cpu in the environment" in text, "a compiler that fails, without the way out:\n" + text)
    code, text = run(scratch + "/one", FACULA_PLUGINS=good, NPU_CC=scratch + "/cc-broken", FACULA_FALLBACK="cpu")
    check(code == 0 and "warning: neg: npu:1 can't compute this (NPU error: " in text, "a compiler that fails, with the CPU's help:\n" + text)
    code, text = run(scratch + "/one", FACULA_PLUGINS="/nowhere/npu.so")
    check(code == 1 and "Found no npu device" in text and "The plug-in /nowhere/npu.so can't be used: it can't be opened" in text,
          "an error without the plug-in's reason:\n" + text)


# Plug-ins that can't do all: each mistake comes with what a sum along the rows and a double's root then tell.
LESS = {
    "sum": "b.find = no_cumsum",
    "float64": "b.properties = no_float64",
}
FEW = """#include <stdio.h>
static int no_cumsum(int device, fa_program_handle p, const char *name, fa_kernel_handle *out) {
    return strstr(name, "cumulate") || strstr(name, "scan") ? FA_BACKEND_FAILED : good_plugin()->find(device, p, name, out);
}
static int no_float64(int device, fa_device_properties *out) {
    int code = good_plugin()->properties(device, out);
    return out->has_float64 = false, code;
}
"""


def lean_ones(scratch):
    """A plug-in whose compiler fails, that lacks a kernel or float64: without FACULA_FALLBACK an error, with it the CPU's results."""
    program, broken = os.path.join(BUILD, "tests", "test_fallback"), {"NPU_CC": scratch + "/cc-broken", "FACULA_PLUGINS": scratch + "/npu.so"}
    libraries = {}
    for name, mistake in LESS.items():
        source, libraries[name] = "%s/less_%s.c" % (scratch, name), "%s/less_%s.so" % (scratch, name)
        text = BROKEN % (ROOT, "fa_plugin", "(void)none, " + mistake)
        with open(source, "w", encoding="utf-8") as f:
            f.write(text.replace("static int none", FEW + "static int none"))
        code, said = run("cc -w -shared -fPIC -O0 -pthread -Iinclude -o %s %s" % (libraries[name], source))
        check(code == 0, "%s: %s" % (source, said))
    if os.path.exists(program):
        for more in (dict(broken), dict(broken, FACULA_FALLBACK="cpu"), dict(broken, FACULA_FALLBACK="yes"),
                     {"FACULA_PLUGINS": libraries["float64"], "FACULA_FALLBACK": "cpu", "NPU_CC": scratch + "/cc"}):
            code, text = run(program, **more)
            check(code == 0, "test_fallback on npu with %s ended with %d:\n%s" % (more, code, text[-1500:]))
    with open(scratch + "/less.c", "w") as f:
        f.write('#include <facula.h>\nint main(void) { fa_tensor *x = fa_ones(FA_SHAPE(4), .dtype = FA_FLOAT64, .device = fa_device_parse("npu"));'
                ' fa_print(fa_sqrt(x)); fa_print(fa_cumsum(x, 0)); return fa_finish("less"); }\n')
    code, text = run("cc -Iinclude -I%s/include -o %s/less %s/less.c -L%s -lfacula -Wl,-rpath,%s" % (BUILD, scratch, scratch, BUILD, BUILD))
    check(code == 0, "less.c: " + text)
    for library, refused, told in (("sum", "looking for the kernel '", "warning: cumsum: npu:0 can't compute this ("),
                                   ("float64", "npu:0 has no float64, and this needs it", "warning: sqrt: npu:0 can't compute this (npu:0 has no float64")):
        more = {"FACULA_PLUGINS": libraries[library], "NPU_CC": scratch + "/cc"}
        code, text = run(scratch + "/less", **more)
        check(code == 1 and refused in text and "FACULA_FALLBACK=cpu" in text, "a plug-in without %s:\n%s" % (library, text))
        code, text = run(scratch + "/less", FACULA_FALLBACK="cpu", **more)
        check(code == 0 and told in text and "[1., 2., 3., 4.]" in text, "a plug-in without %s, with the CPU's help:\n%s" % (library, text))
    code, text = run(INFO.replace(" info", " selftest --device npu:0 --op cumsum"), FACULA_FALLBACK="cpu", FACULA_PLUGINS=libraries["sum"], NPU_CC=scratch + "/cc")
    check(code == 0 and re.search(r"\nFACULA_FALLBACK=cpu: the CPU ran \d+ kernels for .*'?npu:0", text), "the count of fallbacks:\n" + text)


def python_face(scratch):
    python = os.environ.get("PYTHON_FOR_TESTS", sys.executable)
    program = """
import facula as torch
x = torch.ones(3, device="npu:1", requires_grad=True)
(x * 2).sum().backward()
assert torch.npu.device_count() == 2 and torch.npu.get_device_name(1) == "Example NPU 1"
assert x.grad.tolist() == [2, 2, 2] and x.grad.device == torch.device("npu:1") and torch.npu.memory_allocated(1) > 0
assert torch.accelerator.current_accelerator().type == "npu" and torch.get_device_module("npu") is torch.npu
torch.npu.synchronize(1)
"""
    simulated = """
import facula as torch
assert torch.foo.device_count() == 2 and (torch.ones(2, device="foo:1") + 1).tolist() == [2, 2]
import facula.foo
from facula.foo import memory_allocated
assert facula.foo is torch.foo is torch.get_device_module("foo") and memory_allocated(1) == 0 and not hasattr(torch, "bar")
"""
    if not os.path.isdir(os.path.join(BUILD, "python", "facula")):
        return
    for text, more in ((program, {"FACULA_PLUGINS": scratch + "/npu.so", "NPU_CC": scratch + "/cc"}), (simulated, {"FACULA_SIM": "foo:2"})):
        with open(scratch + "/face.py", "w", encoding="utf-8") as f:
            f.write(text)
        code, said = run("%s -B %s/face.py" % (python, scratch), PYTHONPATH=os.path.join(BUILD, "python"), **more)
        check(code == 0, "Python:\n" + said)


def main():
    scratch = tempfile.mkdtemp(prefix="facula-plugin-")
    with open(scratch + "/cc", "w") as f:
        f.write(COMPILER.format(scratch=scratch))
    os.chmod(scratch + "/cc", 0o755)
    try:
        follow_page(scratch)
        other_tests(scratch)
        faults(scratch)
        lean_ones(scratch)
        python_face(scratch)
    finally:
        shutil.rmtree(scratch)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
