#!/usr/bin/env python3
"""README.md, README.zh.md, CONTRIBUTING.md and docs/ against the house: commands run, the complete program compiles without a
warning and trains, both READMEs say the same, links lead somewhere, names exist. Standard library only.

test-limit: 300
test-modes: release debug
"""
import glob
import os
import re
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from pages import BUILD, ROOT, blocks, check, commands, finish, read, run

PAGES = ["README.md", "README.zh.md", "CONTRIBUTING.md"] + sorted(
    os.path.relpath(p, ROOT) for p in glob.glob(os.path.join(ROOT, "docs", "*.md")))


# ---- commands ----

def run_command(page, line, scratch):
    """Runs a line of a page with what is built already: long builds are asked of make -n, PREFIX is a scratch folder."""
    if line.startswith("make"):
        part = line.split("&&")[0]
        if re.search(r"\binstall\b", part):
            part = part.replace("$HOME", scratch)
        code, text = run(part.replace("make", "make -n", 1) + " B=" + BUILD)
        check(code == 0, "%s: make does not know `%s`:\n%s" % (page, part, text[-500:]))
        for rest in line.split("&&")[1:]:
            script = re.search(r"\S+\.(?:py|sh)", rest)
            check(script is None or os.path.exists(os.path.join(ROOT, script.group(0))), "%s: `%s`: no such file" % (page, rest))
            if script and script.group(0).endswith(".py"):
                code, text = run([sys.executable, "-B", script.group(0), "--help"])
                for option in re.findall(r"--\w[\w-]*", rest):
                    check(option in text, "%s: `%s` has no option %s" % (page, script.group(0), option))
    elif line.startswith("cc train.c") or "./train" in line:
        pass  # program() does these, in their order
    elif "build/release/bin/facula" in line:
        wants_error = "--device cuda" in line and "FACULA_SIM" not in line
        code, text = run(line.replace("build/release", BUILD))
        if wants_error and code == 0 and shutil.which("nvidia-smi"):
            check(True, "")
        else:
            check(code == (1 if wants_error else 0), "%s: `%s` ended with %d:\n%s" % (page, line, code, text[-800:]))
            check(not wants_error or "FACULA_SIM=cuda:2 facula demo --device cuda" in text,
                  "%s: `%s` does not tell how to get a simulated GPU" % (page, line))
    else:
        check(False, "%s: tests/test_docs.py does not know how to try `%s`" % (page, line))


# ---- the complete program ----

def program(page, scratch):
    """Installs what is built, compiles the program as the page says and with every compiler's warnings, and lets it train."""
    source = [b for b in blocks(read(page), "c") if "int main" in b]
    check(len(source) == 1, "%s: one complete program was expected, %d were found" % (page, len(source)))
    if len(source) != 1:
        return
    with open(os.path.join(scratch, "train.c"), "w", encoding="utf-8") as f:
        f.write(source[0])
    flags = ["-I" + os.path.join(ROOT, "include"), "-I" + os.path.join(BUILD, "include")]
    for compiler in ("gcc", "clang"):
        if not shutil.which(compiler):
            continue
        for standard in ("-std=c11", "-std=gnu17"):
            code, text = run([compiler, standard, "-Wall", "-Wextra", "-Werror", "-fsyntax-only"] + flags + ["train.c"], cwd=scratch)
            check(code == 0, "%s: %s %s warns about the program:\n%s" % (page, compiler, standard, text[-1500:]))
        with open(os.path.join(scratch, "include.cc"), "w", encoding="utf-8") as f:
            f.write("#include <facula.h>\nint main() { return fa_finish(\"c++\"); }\n")
        code, text = run([compiler, "-x", "c++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"] + flags +
                         ["include.cc"], cwd=scratch)
        check(code == 0, "include/facula.h as C++17 by %s:\n%s" % (compiler, text[-1500:]))


def installed_program(scratch):
    """The lines of README.md's second block, HOME being a scratch folder."""
    lines = [line for line in commands(read("README.md")) if "install PREFIX" in line or "train" in line]
    check(len(lines) == 4, "README.md: install, compile and two runs were expected, found %s" % lines)
    install = lines[0].replace("$HOME", scratch)
    code, text = run(install + " B=" + BUILD + " MODE=" + os.environ.get("MODE", "release"), limit=280)
    check(code == 0, "README.md: `%s` ended with %d:\n%s" % (lines[0], code, text[-800:]))
    code, text = run(lines[1], cwd=scratch, more={"HOME": scratch})
    check(code == 0, "README.md: `%s` ended with %d:\n%s" % (lines[1], code, text[-800:]))
    found = []
    for line in lines[2:]:
        code, text = run(line, cwd=scratch, more={"HOME": scratch})
        losses = [float(x) for x in re.findall(r"loss = ([-+.\w]+)", text)]
        check(code == 0 and len(losses) == 10 and losses[-1] < losses[0],
              "README.md: `%s` ended with %d:\n%s" % (line, code, text[-800:]))
        found.append(len(losses))


# ---- words ----

def same_in_both():
    one, two = read("README.md"), read("README.zh.md")
    shape = [re.findall(r"(?m)^(#+) ", t) for t in (one, two)]
    check(shape[0] == shape[1], "README.md and README.zh.md: headings of other levels or number")
    check(blocks(one, "c") == blocks(two, "c"), "README.md and README.zh.md: another C program")
    check(list(commands(one)) == list(commands(two)), "README.md and README.zh.md: other commands")
    links = [sorted(x for x in re.findall(r"\]\(([^)]+)\)", t) if not x.startswith("README")) for t in (one, two)]
    check(links[0] == links[1], "README.md and README.zh.md: other links: %s" % (set(links[0]) ^ set(links[1])))
    spans = [set(re.findall(r"`([^`\n]+)`", re.sub(r"(?s)```.*?```", "", t))) for t in (one, two)]
    check(spans[0] == spans[1], "README.md and README.zh.md: code in one and not in the other: %s" % sorted(spans[0] ^ spans[1]))


def links_lead_somewhere():
    for page in PAGES:
        for link in re.findall(r"\]\(([^)\s]+)\)", read(page)):
            if "://" in link:
                continue
            path = os.path.join(ROOT, os.path.dirname(page), link.split("#")[0])
            check(os.path.exists(path), "%s: the link to %s leads nowhere" % (page, link))


def known_names():
    """Every word of the headers, tables, sources and tools."""
    words = set()
    for pattern in ("include/*.h", "include/sys/*.h", "src/*/*", "src/backends/*/*", "kernels/*", "tests/*.h",
                    "tests/support/*.h", "tools/*"):
        for name in glob.glob(os.path.join(ROOT, pattern)):
            if os.path.isfile(name):
                with open(name, encoding="utf-8", errors="replace") as f:
                    words.update(re.findall(r"\w+", f.read()))
    for name in glob.glob(os.path.join(BUILD, "include", "*.h")) + glob.glob(os.path.join(BUILD, "gen", "*.h")):
        with open(name, encoding="utf-8") as f:
            words.update(re.findall(r"\w+", f.read()))
    return words


def names_exist():
    words = known_names()
    made_up = {"fa_softplus2", "fa_softplus2_"}  # the example of docs/add-an-operator.md
    for page in PAGES:
        text = read(page)
        for name in sorted(set(re.findall(r"\b(?:fa|fai|FA|FAI|FACULA)_\w+\b", text))):
            if name in made_up or name.endswith("_"):
                continue
            check(name in words or name.rstrip("_") in words, "%s: nothing is called %s" % (page, name))
        for name in sorted(set(re.findall(r"`((?:\.?[\w-]+/)+[\w.-]*)`", text))):
            place = name.replace("build/release", BUILD) if name.startswith("build/release") else os.path.join(ROOT, name)
            known = name.startswith(("build/debug", "build/asan")) or os.path.exists(place) or glob.glob(os.path.join(ROOT, "src", name))
            check(known, "%s: there is no %s" % (page, name))


def main():
    scratch = tempfile.mkdtemp(prefix="facula-docs-")
    try:
        same_in_both()
        links_lead_somewhere()
        names_exist()
        for page in ("README.md", "README.zh.md"):
            program(page, scratch)
        seen = set()
        for page in PAGES:
            for line in commands(read(page)):
                if page == "docs/backend.md":
                    continue  # tests/test_plugin.py follows it
                if line not in seen:
                    seen.add(line)
                    run_command(page, line, scratch)
        installed_program(scratch)
    finally:
        shutil.rmtree(scratch)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
