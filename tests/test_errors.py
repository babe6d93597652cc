#!/usr/bin/env python3
"""docs/errors.md against the sources: every message that the library can give has its row, every row its message, and the
test that a row names holds the words of the message. Standard library only.

    test_errors.py            compares
    test_errors.py --missing  prints a row to fill in for each message that has none
"""
import ctypes.util
import functools
import glob
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TABLE = os.path.join(ROOT, "docs", "errors.md")
# Functions that give an error, and which of their arguments is the format. What begins with ", " is added to a sentence.
SPEAKERS = {"fai_fail": 2, "fa_error_set": 2, "fai_warn": 1, "fai_file_bad": 2, "fai_file_foreign": 2, "fai_layer_refuse": 1, "bad": 1,
            "file_error": 2, "sim_fail": 1, "fai_cuda_refused": 0, "fai_opencl_refused": 0,
            "snprintf": 2}
# The format is only a frame here: the text comes from another call that is looked at.
FRAMES = {"…", "…: …", "…: \"…\": …", "…: … (…)", "…: \"…\": … (…)"}
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
SLOT = re.compile(r"%[-+ #0]*(?:\*|\d+)?(?:\.(?:\*|\d+))?(?:hh|h|ll|l|z|j|t)?[a-zA-Z]")
ESCAPES = {"\\n": "\n", "\\\"": '"', "\\\\": "\\", "\\t": "\t"}


def unescape(text):
    return re.sub(r"\\.", lambda m: ESCAPES.get(m.group(0), m.group(0)), text)


def plain(text):
    """A format with every slot as one character, and %% as %."""
    return "%".join(SLOT.sub("…", part) for part in text.split("%%"))


def strip_comments(text):
    """Comments become blanks; strings stay."""
    pattern = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|/\*.*?\*/|//[^\n]*', re.S)
    return pattern.sub(lambda m: m.group(0) if m.group(0)[0] in "\"'" else re.sub(r"[^\n]", " ", m.group(0)), text)


def joined_literals(text):
    """All strings of a C text, neighbours joined as the compiler does, each with where it begins."""
    found, at = [], None
    for m in re.finditer(r'"(?:[^"\\\n]|\\.)*"|\S', text):
        token = m.group(0)
        if token[0] == '"' and len(token) > 1:
            if at is None:
                at, parts = m.start(), []
            parts.append(unescape(token[1:-1]))
        elif at is not None:
            found.append((at, "".join(parts)))
            at = None
    if at is not None:
        found.append((at, "".join(parts)))
    return found


def arguments(text, at):
    """The arguments of a call whose opening bracket is just before at."""
    depth, start, out, i = 0, at, [], at
    while i < len(text):
        c = text[i]
        if c == '"':
            i = LITERAL.match(text, i).end()
            continue
        if c == "'":
            i = re.compile(r"'(?:[^'\\]|\\.)*'").match(text, i).end()
            continue
        if c in "([{":
            depth += 1
        elif c in ")]}":
            if depth == 0:
                out.append(text[start:i].strip())
                return out
            depth -= 1
        elif c == "," and depth == 0:
            out.append(text[start:i].strip())
            start = i + 1
        i += 1
    return out


def sources():
    names = []
    for pattern in ("src/*/*.[ch]", "src/backends/*/*.[ch]", "src/backends/*/*/*.[ch]"):
        names += glob.glob(os.path.join(ROOT, pattern))
    for name in sorted(names):
        with open(name, encoding="utf-8") as f:
            yield os.path.relpath(name, ROOT), strip_comments(f.read())


def constants(text):
    """Macros and arrays that hold a text: what a speaker may be given by name."""
    out = {}
    for m in re.finditer(r'#define\s+(\w+)\s+\\?\s*((?:"(?:[^"\\\n]|\\.)*"\s*\\?\s*)+)', text):
        out[m.group(1)] = "".join(unescape(x) for x in LITERAL.findall(m.group(2)))
    for m in re.finditer(r'\bchar\s+(\w+)\[\]\s*=\s*((?:"(?:[^"\\\n]|\\.)*"\s*)+);', text):
        out[m.group(1)] = "".join(unescape(x) for x in LITERAL.findall(m.group(2)))
    return out


def quoted(text):
    return '"%s"' % text.replace("\\", "\\\\").replace('"', '\\"')


def messages():
    """(file, line, speaker, arguments, format): one for each message; a format that is chosen by ?: counts as several."""
    for name, text in sources():
        known = constants(text)
        for m in re.finditer(r"\b(%s)\s*\(" % "|".join(SPEAKERS), text):
            args = arguments(text, m.end())
            which = SPEAKERS[m.group(1)]
            if len(args) <= which or re.match(r"(const\s+)?(char|fa_code|CUresult)\b", args[0]):
                continue  # a declaration
            if m.group(1) == "snprintf" and ("backends/sim" in name or not re.match("why|sim_mistake", args[0])):
                continue  # of texts, only those that say why something is not there
            if m.group(1) == "sim_fail" and not name.endswith("config.c"):
                continue  # what a driver says to a backend that misuses it: part of "CUDA error: ..."
            given = args[which]
            given = re.sub(r'"(?:[^"\\\n]|\\.)*"|\b[A-Za-z_]\w*\b',
                           lambda t: quoted(known[t.group(0)]) if t.group(0) in known else t.group(0), given)
            for _, literal in joined_literals(given):
                if len(literal) > 1 or given.count('"') == 2:
                    yield name, text.count("\n", 0, m.start()) + 1, m.group(1), args, literal


def layer_checks():
    """The same for the checks of src/nn/layers.tab, to which the generator adds what was found."""
    with open(os.path.join(ROOT, "src/nn/layers.tab"), encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            cells = [c.strip() for c in line.split("|")]
            if line.startswith("#") or len(cells) < 4 or not cells[3] or cells[3] == "checks":
                continue
            for check in (c for c in cells[3].split(";") if ":" in c):  # "@name" is a function, looked at like all others
                message = check.split(":", 1)[1].strip()
                yield "src/nn/layers.tab", number, "fai_layer_refuse", ["", ""], message + ": found %s"


def rows():
    """(line, code, sentence, cause, mend, test) of the table."""
    with open(TABLE, encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            cells = [c.strip().replace("\\|", "|") for c in re.split(r"(?<!\\)\|", line.strip())[1:-1]]
            if len(cells) == 5 and cells[0] not in ("code", "---") and not set(cells[0]) <= {"-", ":"}:
                yield (number, *cells)


def sentence(cell):
    """The words of a row's second cell: what stands between the outer backquotes, slots as one character."""
    words = cell.strip()
    ticks = re.match(r"`+", words)
    if ticks:
        n = len(ticks.group(0))
        words = words[n:-n].strip()
    return re.sub(r"‹[^›]*›", "…", words)


@functools.lru_cache(maxsize=None)
def pattern(words):
    return re.compile("(?:.{1,150}?)".join(re.escape(part) for part in words.split("…")), re.S)


def matches(words, text):
    """A slot of a row stands for any few words of a message."""
    return pattern(words).match(text) is not None


def pieces(words):
    """The parts of a sentence between its slots, the longest first: what a test that provokes it is likely to hold."""
    return sorted((p.strip(" .:;,") for p in words.split("…")), key=len, reverse=True)


def test_words():
    out = {}
    for name in glob.glob(os.path.join(ROOT, "tests", "test_*")) + glob.glob(os.path.join(ROOT, "tests", "examples", "*.txt")):
        with open(name, encoding="utf-8") as f:
            text = f.read()
        if name.endswith("test_errors.py"):  # only what it provokes
            text = "\n".join([wanted for _, _, wanted in ENVIRONMENT] + ["no NVIDIA driver: "])
        if name.endswith(".c"):
            text = "\n".join(literal for _, literal in joined_literals(strip_comments(text)))
        out[os.path.relpath(name, os.path.join(ROOT, "tests"))] = text
    return out


def holds(text, words):
    """A test's text has one of the two longest parts of the sentence, or its first 24 letters."""
    return any(len(piece) > 5 and piece[:24] in text for piece in pieces(words)[:2])


CODES = {"VALUE", "TYPE", "INDEX", "RUNTIME", "MEMORY", "DEVICE_MEMORY", "DEVICE", "FILE", "FORMAT", "UNSUPPORTED", "KEY", "ATTRIBUTE",
         "INTERRUPTED", "FOREIGN", "ASSERTION", "warning", "why"}


def code_of(speaker, args):
    if speaker in ("fai_fail", "fa_error_set"):
        m = re.match(r"FA_ERR_(\w+)$", args[0])
        return m.group(1) if m else None
    return {"sim_fail": "why", "fai_cuda_refused": "why", "snprintf": "why", "fai_file_bad": "FORMAT", "fai_file_foreign": "UNSUPPORTED",
            "fai_layer_refuse": "VALUE", "bad": "FORMAT",
            "file_error": "FILE", "fai_warn": "warning"}.get(speaker)


def slot_name(spec, argument):
    if spec[-1] in "diux":
        return "n"
    if spec[-1] == "g":
        return "number"
    for pattern, word in (("dtype|c_name|title", "dtype"), ("device_text", "device"), ("shape|size_text|found|wanted|\\ba\\b|\\bb\\b", "shape"),
                          ("path", "path"), ("^(op|kernel)$", "function"), ("amount|tried", "bytes"),
                          ("got|want|\\bhave\\b", "shape"), ("name|argument|upper|kind|nonlinearity|mode", "name")):
        if re.search(pattern, argument):
            return word
    return "text"


def template(message):
    """Place, code and the first sentence as a row would have them."""
    name, line, speaker, args, literal = message
    values = iter(args[SPEAKERS[speaker] + 1:])
    text = SLOT.sub(lambda m: "‹%s›" % slot_name(m.group(0), next(values, "")), literal.replace("%%", "\0")).replace("\0", "%")
    cut = re.search(r"[.:;] (?=[A-Z]|fa_)", text[25:])
    return "%s:%d | %s | %s" % (name, line, code_of(speaker, args), text[:25 + cut.start() + 1].rstrip(";") if cut else text)


# What only another environment shows: variables, arguments of the command, and what its error holds.
ENVIRONMENT = [
    ("CUDA_VISIBLE_DEVICES=", "demo --device cuda", "Found no NVIDIA driver on your system."),
    ("FACULA_SIM=cuda", "demo --device cuda", "FACULA_SIM='cuda' is not understood. Write a device type"),
    ("FACULA_SIM=xpu:1", "demo --device cuda", "Found no cuda device: FACULA_SIM=xpu:1 names none. Add one: FACULA_SIM=xpu:1,cuda:1"),
    ("FACULA_SIM=cuda:1", "demo --device cuda:1",
     "CUDA error: invalid device ordinal. cuda:1 was asked for, but there is 1 device of this type: cuda:0"),
    ("FACULA_SIM=cuda:1", "demo --device xpu", "Found no xpu device"),
    ("FACULA_SIM=cuda:1 FACULA_SIM_MEMORY=lots", "demo --device cuda",
     "the simulated devices of FACULA_SIM=cuda:1 could not be opened: CUDA error: invalid argument (CUDA_ERROR_INVALID_VALUE) while "
     "opening the driver: FACULA_SIM_MEMORY='lots' is not understood: write bytes"),
    ("FACULA_SIM=cuda:1 FACULA_SIM_PEER=yes", "demo --device cuda", "FACULA_SIM_PEER='yes' is not understood: write on or off"),
    ("FACULA_SIM=cuda:1 FACULA_SIM_MODE=fast", "demo --device cuda", "FACULA_SIM_MODE='fast' is not understood: write lazy or eager"),
    ("FACULA_SIM=cuda:1 FACULA_SIM_SEED=x", "demo --device cuda", "FACULA_SIM_SEED='x' is not understood: write a whole number"),
    ("FACULA_SIM=cuda:1 FACULA_SIM_FAULTS=x", "demo --device cuda", "FACULA_SIM_FAULTS='x' is not understood: write kinds"),
    ("FACULA_SIM=cuda:1 FACULA_SIM_FAULTS=build:1", "demo --device cuda --epochs 1", "CUDA error: NVRTC failed while compiling '"),
]


if not ctypes.util.find_library("cuda"):
    ENVIRONMENT.append(("", "demo --device cuda", "(no NVIDIA driver: "))


def check_environment():
    """(checked, problems)"""
    command = os.path.join(os.environ.get("BUILD", os.path.join(ROOT, "build", "release")), "bin", "facula")
    problems = []
    for variables, arguments_, wanted in ENVIRONMENT:
        env = {k: v for k, v in os.environ.items() if not k.startswith("FACULA_SIM")}
        env.update(v.split("=", 1) for v in variables.split())
        r = subprocess.run([command] + arguments_.split(), env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=ROOT,
                           universal_newlines=True, errors="replace", timeout=100, stdin=subprocess.DEVNULL)
        if r.returncode != 1 or wanted not in r.stdout:
            problems.append("%s facula %s: exit code %d, expected '%s' in:\n%s" % (variables, arguments_, r.returncode, wanted, r.stdout))
    return len(ENVIRONMENT), problems


def main():
    found = [m for m in messages() if plain(m[4]) not in FRAMES] + list(layer_checks())
    table = list(rows()) if os.path.exists(TABLE) else []
    words_of = [sentence(r[2]) for r in table]
    problems, used, checked = [], set(), 0
    for m in found:
        fits = [i for i, words in enumerate(words_of) if words and matches(words, plain(m[4]))]
        code = code_of(m[2], m[3])
        fits_code = [i for i in fits if code is None or table[i][1] == code]
        used.update(fits)
        checked += 1
        if "--missing" in sys.argv:
            if not fits_code:
                print(template(m))
        elif not fits:
            problems.append("%s:%d: no row of docs/errors.md has the message \"%s\"" % (m[0], m[1], plain(m[4])))
        elif not fits_code:
            problems.append("%s:%d: the row in line %d says %s, the source %s" % (m[0], m[1], table[fits[0]][0], table[fits[0]][1], code))
    if "--missing" in sys.argv:
        return 0
    everything = [plain(m[4]) for m in found] + [plain(literal) for _, text in sources() for _, literal in joined_literals(text)]
    tests = test_words()
    for i, (line, code, cell, cause, mend, test) in enumerate(table):
        words = words_of[i]
        checked += 1
        if code not in CODES:
            problems.append("docs/errors.md:%d: there is no code %s" % (line, code))
        if len(re.sub("…", "", words)) < 6 or not cause or not mend:
            problems.append("docs/errors.md:%d: a row needs a sentence, a cause and what mends it" % line)
        if i not in used and not any(matches(words, text) for text in everything):
            problems.append("docs/errors.md:%d: no source has the message \"%s\"" % (line, words))
        named = re.findall(r"(?:examples/)?\w+(?:\.\w+)*\.(?:c|py|sh|txt)\b", test)
        if not named and not test.startswith("none: "):
            problems.append("docs/errors.md:%d: name a test, or say why there is none (none: ...)" % line)
        for name in named:
            if name not in tests:
                problems.append("docs/errors.md:%d: there is no tests/%s" % (line, name))
            elif not holds(tests[name], words):
                problems.append("docs/errors.md:%d: tests/%s does not hold the words \"%s\"" % (line, name, words))
    ran, more = check_environment()
    checked += ran
    problems += more
    for p in problems:
        print(p)
    print("%d passed, %d failed" % (checked - len(problems), len(problems)))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
