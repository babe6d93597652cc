"""What help() says of a function of the Python face: the row's line, types, errors, an example with PyTorch's result.

Types come from the rows, errors from docs/errors.md (those that name the function), examples from python/examples.tab.
"""

import os
import re

import rows

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
TYPES = {
    "float": "Integers and bools are computed in the default float type.",
    "number": "Takes integers and floats, no bools.",
    "any": "Takes all types.",
    "int": "Takes integers and bools, no floats.",
    "real": "Takes floats only.",
}
CLASSES = {
    "RUNTIME": "RuntimeError",
    "VALUE": "ValueError",
    "TYPE": "TypeError",
    "INDEX": "IndexError",
    "UNSUPPORTED": "NotImplementedError",
    "KEY": "KeyError",
    "ATTRIBUTE": "AttributeError",
    "MEMORY": "MemoryError",
}
MOST_ERRORS = 6
KINDS = {
    "T": "Tensor",
    "TN": "Tensor or number",
    "Ts": "Tensors",
    "num": "number",
    "shape": "int or ints",
    "int": "int",
    "float": "float",
}
NO_TENSORS = ("generator", "pin_memory")


def load_examples():
    """Full name ("torch.add", "Tensor.add_", "F.relu") -> the lines of its example."""
    examples = {}
    for row in rows.read_table(os.path.join(HERE, "python", "examples.tab"), "name code result".split()):
        statements = row["code"].split("; ")
        lines = [f">>> {s}" for s in statements] + [line for line in row["result"].split("\\n") if line]
        examples[row["name"]] = "Example:\n" + "\n".join("    " + line for line in lines)
    return examples


def load_errors():
    """[(class, message, names of the C functions in message and cause)]"""
    errors = []
    for line in open(os.path.join(HERE, "docs", "errors.md"), encoding="utf-8"):
        cells = [c.strip() for c in line.strip().strip("|").split(" | ")]
        if len(cells) != 5 or cells[0] not in CLASSES or not cells[1].startswith("`"):
            continue
        message = cells[1].strip("`").strip()
        names = set(re.findall(r"\bfa_(\w+)", cells[2])) | set(re.findall(r"^(?:torch\.)?(\w+?)_?(?:\(\))?:? ", message))
        text = re.sub(r"‹[^›]*›", "...", message).split(". ")[0].rstrip(".: ")
        errors.append((CLASSES[cells[0]], text, names))
    return errors


class Docs:
    def __init__(self):
        self.examples, self.errors = load_examples(), load_errors()

    def arguments(self, function, method):
        """Types of arguments that are not plain from their names."""
        words = [
            f"{p.name} ({KINDS[p.kind]})" for p in function.parameters[method:] if p.kind in KINDS and p.name not in NO_TENSORS
        ]
        return "Takes " + ", ".join(words) + "." if words else ""

    def types(self, function):
        row = function.described
        if not row:
            return ""
        words = [TYPES[row.types]]
        if len(row.args) > 1:
            words.append(
                "Tensors broadcast; the result has the type that both promote to."
                if row.result != "bool"
                else "Tensors broadcast."
            )
        if row.result == "bool":
            words.append("The result is bool.")
        return " ".join(words)

    def raises(self, function):
        row, words = function.described, []
        if row and row.types in ("number", "int", "real"):
            refused = {"number": "bools", "int": "floats", "real": "integers and bools"}[row.types]
            words.append(f'NotImplementedError: "{row.name}" not implemented for {refused}')
        if row and row.checks_zero:
            words.append("RuntimeError: ZeroDivisionError, for an integer divisor of 0 on the CPU")
        if row and len(row.args) > 1:
            words.append(
                "RuntimeError: The size of tensor a (...) must match the size of tensor b (...): shapes that do not broadcast"
            )
        called = set(re.findall(r"\bfa_(\w+?)(?:_with|_dims|_dim|_scalars|_scalar)?\(", function.body)) | {function.name}
        words += [f"{kind}: {text}" for kind, text, names in self.errors if names & called]
        return "Errors:\n" + "\n".join("    " + w for w in words[:MOST_ERRORS]) if words else ""

    def text(self, function, name, first):
        """name: the full name; first: the line that says what it does."""
        types = " ".join(part for part in (self.arguments(function, name.startswith("Tensor.")), self.types(function)) if part)
        return "\n\n".join(part for part in (first, types, self.raises(function), self.examples.get(name, "")) if part)


def c_text(text):
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def hand_written(docs, made):
    """C: the examples of functions and methods that no row makes, for fapy_add_examples."""
    entries = "".join(
        f'    {{"{name}", "{c_text(text)}"}},\n'
        for name, text in sorted(docs.examples.items())
        if name not in made and not name.startswith("nn.")
    )
    return f"const fapy_example fapy_examples[] = {{\n{entries}    {{0}}}};\n\n"
