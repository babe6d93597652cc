"""Runs examples of docstrings, by PyTorch and by Facula, and compares what is printed: numbers to 1e-4, the rest as it stands."""

import contextlib
import io
import re

NUMBER = re.compile(r"(?<![\w.])-?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?(?![\w])")


def names(torch):
    return {"torch": torch, "F": torch.nn.functional, "nn": torch.nn}


def printed(source, space):
    """What Python's prompt would print after one statement."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(source, "<example>", "single"), space)
    return out.getvalue().replace("facula.", "torch.").rstrip("\n")


def run(code, torch):
    """Statements separated by "; ", the last of which prints; lines joined by \\n as in the table."""
    space, (*first, last) = names(torch), code.split("; ")
    for statement in first:
        if printed(statement + "\n", space):
            raise ValueError(f"{code}: only the last statement may print")
    return printed(last + "\n", space).replace("\n", "\\n")


def same(expected, found):
    """Whether the texts are the same but for numbers that differ by less than 1e-4, of their size or absolutely."""
    if expected == found:
        return True
    if NUMBER.sub("#", " ".join(expected.split())) != NUMBER.sub("#", " ".join(found.split())):
        return False
    pairs = zip(NUMBER.findall(expected), NUMBER.findall(found))
    return all(abs(float(a) - float(b)) <= 1e-4 * max(1, abs(float(a))) for a, b in pairs)


def differences(statements, torch):
    """Of doctest's examples: what prints otherwise than it says."""
    space = names(torch)
    for example in statements:
        try:
            found = printed(example.source, space)
        except Exception as error:
            found = f"{type(error).__name__}: {error}"
        if not same(example.want.rstrip("\n"), found):
            yield f">>> {example.source.strip()}\nexpected {example.want.strip()}\nfound    {found}"
