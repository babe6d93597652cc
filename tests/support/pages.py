"""What the tests share that try the commands of pages: counting, running a command, the commands of a page."""
import os
import re
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("BUILD", os.path.join(ROOT, "build", "release")))
problems = []
_passed = 0


def check(ok, text):
    global _passed
    if ok:
        _passed += 1
    else:
        problems.append(text)


def finish():
    """The last line that the runner reads; the exit code."""
    for p in problems:
        print(p)
    print("%d passed, %d failed" % (_passed, len(problems)))
    return 1 if problems else 0


def read(name):
    with open(os.path.join(ROOT, name), encoding="utf-8") as f:
        return f.read()


def run(command, cwd=ROOT, more=(), limit=120, without=("FACULA_SIM", "MAKE", "MFLAGS")):
    """(exit code, what it printed); variables whose names begin with one of without are only set where more says so."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(without)}
    env.update(more)
    try:
        r = subprocess.run(command, cwd=cwd, env=env, shell=isinstance(command, str), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                           stdin=subprocess.DEVNULL, universal_newlines=True, errors="replace", timeout=limit)
    except subprocess.TimeoutExpired:
        return 124, "stopped after %d s" % limit
    return r.returncode, r.stdout


def blocks(text, language):
    """Fenced blocks of a language, also those indented within a list."""
    return [re.sub(r"(?m)^   ", "", b) if indent else b
            for indent, b in re.findall(r"(?ms)^( *)```%s\n(.*?)^\1```" % language, text)]


def commands(text):
    """Lines of the blocks of shell commands, without what a # says."""
    for block in blocks(text, "sh"):
        for line in block.splitlines():
            line = re.sub(r"\s+#.*", "", line).strip()
            if line:
                yield line
