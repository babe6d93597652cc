#!/usr/bin/env python3
"""Makes from the tables all that concerns kernels: ids, program texts, cases of device kernels, loops of the CPU, tables.

    gen_kernels.py --out BUILD [--strict]

    BUILD/include/kernels_gen.h   ids of kernels and rows, and what the host knows of them
    BUILD/gen/kernels_gen.c       those tables, and the program texts that backends build
    BUILD/gen/<family>_rows.h     cases of the device kernels ew, reduce and optim, one #ifdef for each compute type
    BUILD/gen/cpu_<family>_rows.h the same rows as loops of the CPU, and their tables
    BUILD/gen/sim_kernels_gen.c   the table of kernels for the simulated devices
    BUILD/gen/sim_any.c, sim_own.c  the C build of every kernel, and that for float32 alone, for each instruction set (FAI_ISA)
    BUILD/gen/cpu_text_isa.c      the CPU's table of kernels, compiled once for each instruction set (FAI_ISA)

A kernel whose family has no text yet is NULL in the tables, and a CPU kernel marked "own" that src/backends/cpu/isa does not
name runs the family's text; both are said on stderr, and are errors with --strict. A file is written only if it changes.
"""
import argparse
import os
import re
import sys
import zlib

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import rows

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TYPES = ["f32", "f64", "i64"]
REAL = {"f32": "float", "f64": "double", "i64": "fa_i64"}
OPERANDS = "abcd"
HEAD = "/* Written by tools/gen_kernels.py from the tables; change those. */\n"


class Kernel:
    def __init__(self, family, name, compute, group, cpu, apart):
        self.family, self.bare, self.compute, self.group, self.cpu = family, name, compute, int(group), cpu
        self.apart = sum(1 << int(k) for k in apart)
        self.name = f"{name}_{compute}" if compute else name


class Family:
    """A line of kernels.tab: one text, its instances and kernels."""

    def __init__(self, row):
        self.name = row["family"]
        self.instances = row["instances"].split() if row["instances"] != "-" else [""]
        self.path = os.path.join(ROOT, "kernels", f"{self.name}.k.h")
        self.exists = os.path.exists(self.path)
        if self.instances != [""] and self.instances != [t for t in TYPES if t in self.instances]:
            raise rows.RowError(f"{row['at']}: instances {row['instances']!r}: of f32, f64, i64, in this order, or -")
        self.kernels = []
        for word in row["kernels"].split():
            name, group, cpu, apart = (word + ":").split(":")[:4]
            if cpu not in ("own", "text", "none"):
                raise rows.RowError(f"{row['at']}: {word!r}: the CPU's part is 'own', 'text' or 'none'")
            self.kernels += [Kernel(self, name, t, group, cpu, apart) for t in self.instances]


class Build:
    """All tables, read once."""

    def __init__(self):
        tables = rows.load(os.path.join(ROOT, "src", "ops"))
        self.loops = rows.loops(tables["elementwise"])
        self.reduces = [Reduce(r) for r in tables["reduce"]]
        self.updates = [rows.Update(r) for r in rows.read_table(os.path.join(ROOT, "src", "optim", "optim.tab"), rows.OPTIM)]
        self.families = [Family(r) for r in rows.read_table(os.path.join(ROOT, "kernels", "kernels.tab"), rows.KERNELS)]
        self.kernels = [k for f in self.families for k in f.kernels]
        self.math = read(os.path.join(ROOT, "kernels", "math.h"))
        self.generated = {"ew_rows.h": ew_rows(self), "reduce_rows.h": reduce_rows(self), "optim_rows.h": optim_rows(self)}


class Reduce:
    def __init__(self, row):
        self.name, self.doc = row["name"], row["doc"]
        self.types, _, self.result = row["types"].partition(">")
        self.computes = {"real": ["f32", "f64"], "float": ["f32", "f64"], "int": ["i64"]}.get(self.types, TYPES)
        self.element = rows.Expr(row["element"], ["x"], row["at"])
        self.join = rows.Expr(row["join"], ["a", "b"], row["at"])
        self.finish = rows.Expr(row["finish"], ["a", "n"], row["at"])
        self.identity = row["identity"]

    def start(self, compute):
        """What a partial result starts from; where the row has none, the value that every element replaces."""
        if self.identity != "none":
            return rows.Expr(self.identity, [], self.name).c(compute)
        sign = "-" if "max" in self.join.functions else ""
        if compute == "i64":
            return "FA_I64_MIN" if sign else "FA_I64_MAX"
        return f"({sign}({REAL[compute]})FA_INFINITY)"


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def note(text):
    Notes.all.append(text)
    print(f"gen_kernels: {text}", file=sys.stderr)


class Notes:
    all = []


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if os.path.exists(path) and read(path) == text:
        return
    with open(path + ".part", "w", encoding="utf-8") as f:
        f.write(text)
    os.replace(path + ".part", path)


# ---- the header of ids and the tables of what the host knows -----------------------------------------------------------

def header(build):
    def enum(prefix, names):
        return "enum {\n" + "".join(f"    {prefix}_{n},\n" for n in names) + f"    {prefix}_COUNT\n}};\n"

    return HEAD + f"""#ifndef FAI_KERNELS_GEN_H
#define FAI_KERNELS_GEN_H

/* Compute types, in the order of a kernel's instances: FAI_K_ew_f32 + FAI_I64 is FAI_K_ew_i64. */
enum {{ FAI_F32, FAI_F64, FAI_I64, FAI_COMPUTE_COUNT }};

/* Kernels */
{enum("FAI_K", [k.name for k in build.kernels])}
/* Elementwise rows and their derivatives: add, add_dx, ... */
{enum("FAI_ROW", [l.name for l in build.loops])}
/* Reductions */
{enum("FAI_REDUCE", [r.name for r in build.reduces])}
/* Update rules of optimizers */
{enum("FAI_UPDATE", [u.name for u in build.updates])}
typedef struct fai_kernel_info {{
    const char *name, *family;
    int group_size;
    int text;          /* 1 if the CPU runs the C build of the text, too */
}} fai_kernel_info;
extern const fai_kernel_info fai_kernels[FAI_K_COUNT];

/* Whole programs, one a family, deflated: fai_program_text() in device.h gives the text. -DFA_ROW=<row> leaves the one case of that row in ew, reduce and optim, and
 * -DFA_INSTANCE=FAI_F32 (a number) the one instance: a small part of the time that the whole takes to build. */
typedef struct fai_program {{ const char *family; const unsigned char *packed; unsigned packed_bytes, bytes; }} fai_program;
extern const fai_program fai_programs[];
extern const int fai_program_count;

typedef struct fai_row_info {{
    const char *name;
    int noperands, nparams;
    int computes;      /* bits 1 << FAI_F32 ...: the compute types that it has */
    int bool_result;
    int cost;          /* 1: as cheap as an addition; else about how many times that */
    double params[3];  /* defaults */
}} fai_row_info;
extern const fai_row_info fai_rows[FAI_ROW_COUNT];

typedef struct fai_reduce_info {{
    const char *name;
    int computes;
    int empty;         /* 0: reducing nothing is an error */
}} fai_reduce_info;
extern const fai_reduce_info fai_reduces[FAI_REDUCE_COUNT];

typedef struct fai_update_info {{
    const char *name;
    int nstate, nhyper;
    const char *state[3], *hyper[8];
}} fai_update_info;
extern const fai_update_info fai_updates[FAI_UPDATE_COUNT];

#endif
"""


def cost(loop):
    """Additions that one element is worth: about 12 a function of the transcendental kind."""
    cheap = {"sel", "max", "min", "abs", "sign", "square", "isnan", "isinf", "isfinite", "floor", "ceil", "trunc", "round",
             "bit_and", "bit_or", "bit_xor", "bit_not", "shift_left", "shift_right"}
    calls = re.findall(r"([a-z_0-9]+)\(", loop.expr.text)
    return 1 + sum(12 for c in calls if c not in cheap) + loop.expr.text.count("/")


def mask(computes):
    return sum(1 << TYPES.index(c) for c in computes)


def strings(values, n):
    return "{" + ", ".join([f'"{v}"' for v in values] + ["NULL"] * (n - len(values))) + "}"


def tables(build):
    out = [HEAD, "#include <stddef.h>\n#include <kernels_gen.h>\n\n", "const fai_kernel_info fai_kernels[FAI_K_COUNT] = {\n"]
    for k in build.kernels:
        out.append(f'    {{"{k.name}", "{k.family.name}", {k.group}, {int(k.cpu == "text")}}},\n')
    out.append("};\n\nconst fai_row_info fai_rows[FAI_ROW_COUNT] = {\n")
    for l in build.loops:
        defaults = ", ".join(repr(v) for _, v in l.params) or "0"
        boolean = int(l.name == l.row.name and l.row.result == "bool")
        counts = f"{len(l.operands)}, {len(l.params)}, {mask(l.computes)}, {boolean}, {cost(l)}"
        out.append(f'    {{"{l.name}", {counts}, {{{defaults}}}}},\n')
    out.append("};\n\nconst fai_reduce_info fai_reduces[FAI_REDUCE_COUNT] = {\n")
    out += [f'    {{"{r.name}", {mask(r.computes)}, {int(r.identity != "none")}}},\n' for r in build.reduces]
    out.append("};\n\nconst fai_update_info fai_updates[FAI_UPDATE_COUNT] = {\n")
    for u in build.updates:
        out.append(f'    {{"{u.name}", {len(u.state)}, {len(u.hyper)}, {strings(u.state, 3)}, {strings(u.hyper, 8)}}},\n')
    out.append("};\n\n")
    present = [f for f in build.families if f.exists]
    for f in present:
        out.append(f"static const unsigned char {f.name}_packed[] = {{\n{packed(program(build, f))}}};\n\n")
    out.append("const fai_program fai_programs[] = {\n")
    out += [f'    {{"{f.name}", {f.name}_packed, sizeof {f.name}_packed, {len(program(build, f))}}},\n' for f in present]
    out.append("    {NULL, NULL, 0, 0}\n};\n" + f"const int fai_program_count = {len(present)};\n")
    return "".join(out)


def packed(text):
    """The texts are a seventh of the library when they stand there as they are, and a fifth of that deflated."""
    data = zlib.compress(text.encode("ascii"), 9)
    return "".join("    " + ",".join(map(str, data[i:i + 32])) + ",\n" for i in range(0, len(data), 32))


# ---- program texts -----------------------------------------------------------------------------------------------------

def bare(text):
    """Without comments and empty lines, lines joined at their backslashes."""
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    text = re.sub(r"//[^\n]*", "", text)
    text = re.sub(r"[ \t]*\\\n[ \t]*", " ", text)
    return "".join(re.sub(r"(?<=\S)  +", " ", l.rstrip()) + "\n" for l in text.splitlines() if l.strip())


def needed_math(math, text):
    """math.h without the functions that the text does not reach. Every function there begins with FN at a line's start and
    ends with } at a line's end or start."""
    parts = re.split(r"(?m)^(?=FN )", bare(math))
    functions = {}
    pieces = []
    for part in parts:
        if not part.startswith("FN "):
            pieces.append(("", part))
            continue
        lines = part.splitlines(keepends=True)
        end = 1 if lines[0].rstrip().endswith("}") else 1 + next(i for i, l in enumerate(lines) if l.startswith("}"))
        name = re.match(r"FN [\w \*]*?(\w+)\(", part).group(1)
        functions[name] = "".join(lines[:end])
        pieces += [(name, functions[name]), ("", "".join(lines[end:]))]
    words = set(re.findall(r"\w+", text))
    # N(fa_exp) is fa_exp_f32 or fa_exp_f64
    words |= {f"fa_{w}_{t}" for w in re.findall(r"\bN\(fa_(\w+)\)", text) for t in TYPES}
    words |= {w for name, piece in pieces if not name for w in re.findall(r"\w+", piece)}
    wanted, queue = set(), [n for n in functions if n in words]
    while queue:
        name = queue.pop()
        if name not in wanted:
            wanted.add(name)
            queue += [w for w in set(re.findall(r"\w+", functions[name])) if w in functions]
    return "".join(piece for name, piece in pieces if not name or name in wanted)


def expand(build, path, compute):
    """A family's text for one instance: rows put in, other local headers too, what every program begins with left out."""
    def include(m):
        name = os.path.basename(m.group(1))
        if name in ("dialect.h", "math.h"):
            return ""
        if name in build.generated:
            return instance_part(build.generated[name], compute)
        return expand(build, os.path.join(ROOT, "kernels", name), compute)
    return re.sub(r'(?m)^[ \t]*#include[ \t]*"([^"]+)"[^\n]*\n', include, read(path))


def instance_part(text, compute):
    return re.search(rf"#ifdef FA_{compute.upper()}\n(.*?)#endif /\* {compute} \*/\n", text, flags=re.S).group(1)


def instance_defines(compute):
    return f"#define FA_SUFFIX _{compute}\n#define REAL {REAL[compute]}\n#define FA_{compute.upper()} 1\n"


def instance_undefines(compute):
    return f"#undef FA_SUFFIX\n#undef REAL\n#undef FA_{compute.upper()}\n"


def program(build, family):
    body = []
    for number, t in enumerate(family.instances):
        text = bare(expand(build, family.path, t))
        if t:
            there = " && !defined(FA_NO_F64)" if t == "f64" else ""
            text = (f"#if (!defined(FA_INSTANCE) || FA_INSTANCE == {number}){there}\n" + instance_defines(t) + text
                    + instance_undefines(t) + "#endif\n")
        body.append(text)
    body = "".join(body)
    without = lambda text: re.sub(r'(?m)^#include[ \t]*".*\n', "", text)
    start = "".join(bare(without(read(os.path.join(ROOT, *n)))) for n in (("include", "sys", "fa_plan.h"), ("kernels", "dialect.h")))
    return start + needed_math(without(build.math), body) + body


def fnv(text):
    h = 14695981039346656037
    for byte in text.encode():
        h = ((h ^ byte) * 1099511628211) & 0xFFFFFFFFFFFFFFFF
    return h


# ---- rows as cases of device kernels -----------------------------------------------------------------------------------

def by_compute(make):
    return HEAD + "".join(f"#ifdef FA_{t.upper()}\n{make(t)}#endif /* {t} */\n" for t in TYPES)


def declare(compute, names, values):
    return f"const {REAL[compute]} " + ", ".join(f"{n} = {v}" for n, v in zip(names, values)) + ";"


def ew_rows(build):
    """Operands are MINE(a), MINE(b) ..., the result MINE(out); numbers of the row stand in EW_PARAM(0) ..."""
    def case(number, loop, t):
        used = [(name, f"MINE({OPERANDS[i]})") for i, name in enumerate(loop.operands) if name in loop.expr.names]
        used += [(name, f"EW_PARAM({i})") for i, (name, _) in enumerate(loop.params) if name in loop.expr.names]
        declared = declare(t, *zip(*used)) + " " if used else ""
        return (f"#if EW_HAS_ROW({number})\ncase {number}: /* {loop.name} */\n"
                f"    ITEMS(256) {{ {declared}MINE(out) = {loop.expr.c(t)}; }}\n    break;\n#endif\n")
    return by_compute(lambda t: "".join(case(i, l, t) for i, l in enumerate(build.loops) if t in l.computes))


def reduce_rows(build):
    """Three functions of the row number: how an element enters, how two values join, what is done at the end; and a start."""
    def part(t, name, args, pick):
        cases = "".join(f"    case {i}: return {pick(r)};\n" for i, r in enumerate(build.reduces) if t in r.computes)
        head = f"FN {REAL[t]} fa_reduce_{name}_{t}(int row{args})"
        return f"{head} {{\n    switch (row) {{\n{cases}    default: return 0;\n    }}\n}}\n"

    def functions(t):
        real = REAL[t]
        return (part(t, "start", "", lambda r: r.start(t)) + part(t, "element", f", {real} x", lambda r: r.element.c(t))
                + part(t, "join", f", {real} a, {real} b", lambda r: r.join.c(t))
                + part(t, "finish", f", {real} a, {real} n", lambda r: r.finish.c(t)))
    return by_compute(functions)


def statements(update, t):
    return [("" if known else f"const {REAL[t]} ") + f"{target} = {expr.c(t, update.rename)};"
            for target, known, expr in update.steps()]


def optim_rows(build):
    """Operands are p, g, s0, s1, s2 of one element, already loaded; those that change are set. OPTIM_HYPER(k) is a number."""
    def case(number, u, t):
        lines = [f"const {REAL[t]} " + ", ".join(f"{h} = OPTIM_HYPER({i})" for i, h in enumerate(u.hyper)) + ";"]
        body = "".join(f"        {line}\n" for line in lines + statements(u, t))
        return (f"#if !defined(FA_ROW) || FA_ROW == {number}\ncase {number}: {{ /* {u.name} */\n"
                f"{body}        break;\n    }}\n#endif\n")
    return by_compute(lambda t: "" if t == "i64" else "".join(case(i, u, t) for i, u in enumerate(build.updates)))


# ---- rows as loops of the CPU --------------------------------------------------------------------------------------------

def near_test(build, loop, t, rename):
    """Functions with a fast text for common arguments (fa_sin_near_f32) and a test for it (fa_sin_is_near_f32): -> the fast
    expression and the condition, or the expression and None."""
    text, tests = loop.expr.c(t, rename), []
    for name in sorted(loop.expr.functions):
        if f"fa_{name}_is_near_{t}(" in build.math:
            for call in loop.expr.calls(name):
                tests.append(f"fa_{name}_is_near_{t}({', '.join(rows.c_of(a, t, rename) for a in call.args)})")
            text = text.replace(f"fa_{name}_{t}(", f"fa_{name}_near_{t}(")
    return text, " & ".join(dict.fromkeys(tests)) or None


def cpu_loop(build, loop, t):
    """The body of a loop; equal bodies share one function."""
    place = {n: f"{OPERANDS[i]}[i]" for i, n in enumerate(loop.operands)}
    rename = lambda n: place.get(n, n)
    full = f"out[i] = {loop.expr.c(t, rename)};"
    fast, near = near_test(build, loop, t, rename)
    params = [f"const {REAL[t]} {n} = ({REAL[t]})params[{i}];" for i, (n, _) in enumerate(loop.params) if n in loop.expr.names]
    if near:
        lines = [f"NEAR_OR_FAR(row_far_THIS, near_ &= {near};, out[i] = {fast};)", "TAIL(row_THIS);"]
    elif t == "f32" and cost(loop) > 12:
        lines = [f"EACH_16({full})", "TAIL(row_THIS);"]
    else:
        lines = [f"EACH({full})"]
    body = "".join(f"    {line}\n" for line in params + lines)
    types = f"{REAL[t]}, {PARAM_TYPE[t]}"
    far = f"ROW(far_THIS_{t}, {types}) {{\n    EACH({full})\n}}\n" if near else ""
    body = body.replace("row_THIS", f"row_THIS_{t}").replace("row_far_THIS", f"row_far_THIS_{t}")
    return far + f"ROW(THIS_{t}, {types}) {{\n{body}}}\n"


def cpu_ew_rows(build):
    out, same = [HEAD], {}
    for t in TYPES:
        for l in build.loops:
            if t in l.computes:
                body = cpu_loop(build, l, t)
                if body not in same:
                    out.append(body.replace("THIS", l.name))
                same.setdefault(body, l.name)
    out.append("\nconst fai_cpu_rows FAI_NAME(fai_cpu_rows) = {\n")
    for t in TYPES:
        out.append(f"    .{t} = {{\n")
        out += [f"        [FAI_ROW_{l.name}] = row_{same[cpu_loop(build, l, t)]}_{t},\n" for l in build.loops if t in l.computes]
        out.append("    },\n")
    return "".join(out) + "};\n"


PARAM_TYPE = {"f32": "double", "f64": "double", "i64": "fa_i64"}


def cpu_reduce_rows(build):
    out = [HEAD]
    for t in TYPES:
        these = [r for r in build.reduces if t in r.computes]
        for r in these:
            out.append(f"REDUCE({r.name}, {t}, {REAL[t]}, {r.start(t)}, {r.element.c(t)}, {r.join.c(t)}, {r.finish.c(t)})\n")
        out.append(f"static const struct reducer_{t} reducers_{t}[FAI_REDUCE_COUNT] = {{\n")
        out += [f"    [FAI_REDUCE_{r.name}] = REDUCER({r.name}, {t}),\n" for r in these]
        out.append("};\n")
    return "".join(out)


def cpu_optim_rows(build):
    out = [HEAD]
    for t in ("f32", "f64"):
        for u in build.updates:
            hyper = "".join(f"const {REAL[t]} {h} = ({REAL[t]})hyper[{i}]; " for i, h in enumerate(u.hyper))
            steps = statements(u, t)
            out.append(f"UPDATE{len(u.state)}({u.name}_{t}, {REAL[t]},\n    {hyper},\n    " + "\n    ".join(steps) + ")\n")
        out.append(f"static const update_{t} updates_{t}[FAI_UPDATE_COUNT] = {{\n")
        out += [f"    [FAI_UPDATE_{u.name}] = update_{u.name}_{t},\n" for u in build.updates] + ["};\n"]
    return "".join(out)


# ---- C builds of the texts -----------------------------------------------------------------------------------------------

def c_build(families, types=None):
    """Includes the family files themselves, so that a debugger and a sanitizer name their lines."""
    out = ['#include <sys/fa_plan.h>\n#define FA_KERNEL_LINKAGE static __attribute__((unused))\n#include "kernels/dialect.h"\n'
           '#pragma GCC diagnostic ignored "-Wunused-parameter" /* not every instance of a text uses all that it declares */\n'
           '#pragma GCC diagnostic ignored "-Wunused-but-set-variable"\n']
    out.append('#include "kernels/math.h"\n')
    for f in families:
        for t in types or f.instances:
            before, after = (instance_defines(t), instance_undefines(t)) if t else ("", "")
            out.append(f'\n{before}#include "kernels/{f.name}.k.h"\n{after}')
    return "".join(out) + "\n"


# Switches over element types in loops would be copied for every combination of types: ten times the text and the time.
ONE_PATH = """#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-thread-jumps")
#endif
"""


def sim_kernels(build):
    present = [f for f in build.families if f.exists]
    out = [HEAD, '#include "kernels/table.h"\n', "const fa_kernel_entry fa_kernel_table[] = {\n"]
    out += [f'    {{"{k.name}", "{f.name}", {k.group}, 0, {k.apart}}},\n' for f in present for k in f.kernels]
    out.append(f"}};\nconst int fa_kernel_table_count = {sum(len(f.kernels) for f in present)};\n\n")
    out.append(SIM_BUILDS)
    out.append("const fa_program_entry fa_program_table[] = {\n")
    out += [f'    {{"{f.name}", {fnv(program(build, f))}u}},\n' for f in present]
    out.append(f"}};\nconst int fa_program_table_count = {len(present)};\n")
    return "".join(out)


# What is compiled for which instruction set (tools/flags.mk): enough for speed, and a small file.
SIM_BUILDS = """#if defined(__x86_64__) && !defined(FA_ONE_BUILD)
extern const fa_kernel_fn fa_kernels_any_sse2[], fa_kernels_any_avx2[], fa_kernels_own_avx2[], fa_kernels_own_avx512[];
const fa_kernel_build fa_kernel_builds[] = {
    {"avx512", fa_kernels_any_avx2, fa_kernels_own_avx512},
    {"avx2", fa_kernels_any_avx2, fa_kernels_own_avx2},
    {"sse2", fa_kernels_any_sse2, 0},
};
#else
extern const fa_kernel_fn fa_kernels_any_generic[], fa_kernels_own_generic[];
const fa_kernel_build fa_kernel_builds[] = {{"generic", fa_kernels_any_generic, fa_kernels_own_generic}};
#endif
const int fa_kernel_builds_count = sizeof fa_kernel_builds / sizeof fa_kernel_builds[0];

"""


def sim_any(build, own):
    present = [f for f in build.families if f.exists]
    built = [f for f in present if "f32" in f.instances] if own else present
    name = "own" if own else "any"
    out = [HEAD, "#define FA_OWN 1\n" if own else ONE_PATH, '#include "kernels/table.h"\n', c_build(built, ["f32"] if own else None)]
    out.append(f"#define TABLE_OF_(isa) fa_kernels_{name}_##isa\n#define TABLE_OF(isa) TABLE_OF_(isa)\n")
    out.append("extern const fa_kernel_fn TABLE_OF(FAI_ISA)[];\nconst fa_kernel_fn TABLE_OF(FAI_ISA)[] = {\n")
    out += [f"    {0 if own and k.compute != 'f32' else k.name},\n" for f in present for k in f.kernels]
    return "".join(out) + "};\n"


def cpu_text(build):
    folder = os.path.join(ROOT, "src", "backends", "cpu", "isa")
    files = [os.path.join(folder, n) for n in sorted(os.listdir(folder))] if os.path.isdir(folder) else []
    named = set(re.findall(r"\bfai_cpu_(\w+)", "".join(read(n) for n in files)))
    kernels = [k for k in build.kernels if k.cpu != "none"]
    own = [k for k in kernels if k.cpu == "own" and (k.name in named or k.bare in named)]
    text = [k for k in kernels if k not in own and k.family.exists]
    for f in build.families:
        if not f.exists:
            note(f"kernels/{f.name}.k.h is not there: {', '.join(k.name for k in f.kernels if k not in own)} left out")
    missing = [k.name for k in text if k.cpu == "own"]
    if missing:
        note(f"no function fai_cpu_<name> in src/backends/cpu/isa: the CPU runs the text of {', '.join(missing)}")
    families = [f for f in build.families if f.exists and any(k in text for k in f.kernels)]
    out = [HEAD, ONE_PATH, '#include "src/backends/cpu/cpu.h"\n', c_build(families)]
    out.append('#include "src/backends/cpu/text.h"\n\n')
    out += [f"TEXT_KERNEL({k.name})\n" for k in text]
    out += [f"void FAI_NAME(fai_cpu_{k.name})(const fa_plan *plan, char *const *pointers);\n" for k in own]
    out.append("\nconst fai_cpu_kernel FAI_NAME(fai_cpu_kernels)[FAI_K_COUNT] = {\n")
    out += [f"    [FAI_K_{k.name}] = FAI_NAME(fai_cpu_{k.name}),\n" for k in own]
    out += [f"    [FAI_K_{k.name}] = text_{k.name},\n" for k in text]
    return "".join(out) + "};\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", required=True, help="the build folder")
    parser.add_argument("--strict", action="store_true", help="fail if a kernel is missing")
    arguments = parser.parse_args()
    build = Build()
    outputs = {"include/kernels_gen.h": header(build), "gen/kernels_gen.c": tables(build),
               "gen/cpu_ew_rows.h": cpu_ew_rows(build), "gen/cpu_reduce_rows.h": cpu_reduce_rows(build),
               "gen/cpu_optim_rows.h": cpu_optim_rows(build),
               "gen/sim_kernels_gen.c": sim_kernels(build), "gen/sim_any.c": sim_any(build, False),
               "gen/sim_own.c": sim_any(build, True), "gen/cpu_text_isa.c": cpu_text(build)}
    outputs.update({f"gen/{name}": text for name, text in build.generated.items()})
    for name, text in outputs.items():
        write(os.path.join(arguments.out, name), text)
    return 1 if arguments.strict and Notes.all else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except rows.RowError as e:
        sys.exit(f"gen_kernels: {e}")
