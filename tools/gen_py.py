#!/usr/bin/env python3
"""Makes the Python face of the operators: parsers, methods, docstrings, from python/torch.tab and the tables of rows.

gen_py.py --out BUILD [--tables src]: writes BUILD/gen/py/: functions_gen.c, _C.pyi, nn/functional.pyi.
"""
import argparse
import os
import re
from keyword import iskeyword

import gen_ops
import py_docs
import py_stubs
import rows
from rows import RowError

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
COLUMNS = "name where signature body doc".split()
KINDS = {"T": ("FAPY_T", "t", "fa_tensor *"), "TN": ("FAPY_TN", "operand", "fai_operand "), "Ts": ("FAPY_TS", "ts", "fapy_tensors "),
         "int": ("FAPY_INT", "i", "int64_t "), "float": ("FAPY_FLOAT", "f", "double "), "bool": ("FAPY_BOOL", "b", "bool "),
         "num": ("FAPY_NUM", "num", "fa_scalar "), "shape": ("FAPY_SHAPE", "shape", "fa_shape "), "dtype": ("FAPY_DTYPE", "dtype", "fa_dtype "),
         "device": ("FAPY_DEVICE", "device", "fa_device "), "text": ("FAPY_TEXT", "text", "const char *"), "obj": ("FAPY_OBJ", "o", "PyObject *")}
NOTHING = {"T": "NULL", "TN": "(fai_operand){0}", "Ts": "(fapy_tensors){0}", "int": "0", "float": "0", "bool": "false", "num": "(fa_scalar){0}",
           "shape": "(fa_shape){0}", "dtype": "FA_DTYPE_DEFAULT", "device": "(fa_device){0}", "text": "NULL", "obj": "NULL"}
OPTIONS = "dtype: dtype = None, layout: obj = None, device: device = None, pin_memory: bool = False, requires_grad: bool = False"
MACROS = {"$options": f"*, out: obj = None, {OPTIONS}", "$random": f"*, generator: obj = None, out: obj = None, {OPTIONS}",
          "$like": f"*, {OPTIONS}, memory_format: obj = None", "$out": "out: obj = None"}
HIDDEN = ("_element",)  # rows that are parts of others
DOCS = py_docs.Docs()


class Parameter:
    def __init__(self, text, keyword, at):
        spec, _, default = text.partition("=")
        name, _, kind = (s.strip() for s in spec.partition(":"))
        self.varargs, self.name, self.kind, self.default, self.keyword = name.startswith("*"), name.lstrip("*"), kind, default.strip(), keyword
        if kind not in KINDS:
            raise RowError(f"{at}: argument {text!r}: kinds are {', '.join(KINDS)}")

    @property
    def flags(self):
        flags = [f for f, on in (("FAPY_OPTIONAL", self.default), ("FAPY_NONE", self.default == "None" or self.kind == "shape" and self.default),
                                 ("FAPY_KEYWORD", self.keyword), ("FAPY_VARARGS", self.varargs)) if on]
        return " | ".join(flags) or "0"

    def local(self, i):
        """The C statement that gives it its name in the body."""
        _, field, c_type = KINDS[self.kind]
        if not self.default:
            return f"    {c_type}{self.name} = v[{i}].as.{field};\n"
        value = {"None": NOTHING[self.kind], "True": "true", "False": "false"}.get(self.default, self.default)
        if self.kind == "num" and self.default != "None":
            value = f"FA_NUM({value})"
        if self.kind == "shape" and self.default != "None":
            value = f"FA_DIMS({value})"
        if self.kind == "obj" and self.default not in ("None",):
            value = "NULL"
        return f"    {c_type}{self.name} = v[{i}].given ? v[{i}].as.{field} : {value};\n"


class Function:
    def __init__(self, row, docs, elementwise):
        self.at, self.where, self.body = row["at"], row["where"], row["body"]
        self.names = [n.strip() for n in row["name"].split(",")]
        self.name = self.names[0]
        text = row["signature"]
        for macro, meaning in MACROS.items():
            text = text.replace(macro, meaning)
        keyword, self.parameters = False, []
        for part in (p.strip() for p in text.split(",")):
            if part == "*":
                keyword = True
            elif part:
                self.parameters.append(Parameter(part, keyword, self.at))
        self.row = self.body[4:].strip() if self.body.startswith("row ") else None
        if self.row and self.row not in elementwise:
            raise RowError(f"{self.at}: {self.row!r} is no elementwise row")
        self.elementwise = elementwise.get(self.row)
        self.described = elementwise.get(self.row or self.name)  # whose types and errors help() tells
        self.doc = row["doc"] or docs.get(self.row or self.name, "")
        if not self.doc:
            raise RowError(f"{self.at}: {self.name} needs a doc: no row has that name")
        self.id = re.sub(r"_$", "_in_place", self.name) + ("_nn" if self.where == "n" else "")

    @property
    def signature(self):
        out, keyword = [], False
        for p in self.parameters:
            if p.keyword and not keyword:
                out.append("*")
                keyword = True
            name = p.name + "_" * iskeyword(p.name)  # from: only to be given by position
            default = "" if p.varargs else f"={p.default}" if p.default else ""
            out.append(f"{'*' if p.varargs and not keyword else ''}{name}{default}")
            keyword = keyword or p.varargs
        return ", ".join(out)

    def docstring(self, name, kind, in_place):
        """kind: function, method or nn."""
        text = self.signature
        if kind == "method":  # methods of PyTorch have no out
            text = re.sub(r"(, \*)?, out=None$", "", text)
            text = text.partition(", ")[2] if ", " in text else ""
        full = {"function": "torch.", "method": "Tensor.", "nn": "F."}[kind] + name
        first = self.doc if not in_place or "in place" in self.doc else self.doc.rstrip(".") + ", in place."
        return py_docs.c_text(f"{name}({text})\n--\n\n" + DOCS.text(self, full, first))

    def has(self, name):
        return next((i for i, p in enumerate(self.parameters) if p.name == name), None)

    # ---- C ----

    def options(self):
        given = {}
        for name, value in (("dtype", "v[{}].as.dtype"), ("device", "v[{}].as.device"), ("requires_grad", "v[{}].as.b"), ("pin_memory", "v[{}].as.b")):
            i = self.has(name)
            default = {"dtype": "FA_DTYPE_DEFAULT", "device": "(fa_device){0}", "requires_grad": "false", "pin_memory": "false"}[name]
            given[name] = f"v[{i}].given ? {value.format(i)} : {default}"
        g = self.has("generator")
        new = [given["dtype"].replace("FA_DTYPE_DEFAULT", "(fa_dtype)v[0].as.t->dtype"), given["device"].replace("(fa_device){0}", "v[0].as.t->device")]
        rest = f".requires_grad = {given['requires_grad']}, .pin_memory = {given['pin_memory']}"
        if g is not None:
            rest += f", .generator = generator_of(&v[{g}])"
        text = "FA_TENSOR_OPTIONS(.dtype = {}, .device = {}, {})"
        return text.format(given["dtype"], given["device"], rest), text.format(*new, rest)

    def call(self, in_place=False):
        """C statements that end in `result`."""
        if self.body.startswith("@"):
            return f"    PyObject *result = fapy_do_{self.body[1:]}{'_in_place' if in_place else ''}(v);\n"
        if self.elementwise:
            row = self.elementwise
            operands = []
            for i in range(len(row.args)):
                operands.append(f"v[{i}].as.operand" if self.parameters[i].kind == "TN" else f"{{.tensor = v[{i}].as.t}}")
            params = [self.parameters[self.has(p)] for p, _ in row.params if self.has(p) is not None]
            if len(params) != len(row.params):
                missing = [p for p, _ in row.params if self.has(p) is None]
                raise RowError(f"{self.at}: the row {row.name} has numbers that the signature lacks: {', '.join(missing)}")
            values = [f"v[{self.has(p.name)}].given ? v[{self.has(p.name)}].as.f : {p.default}" if p.default else f"v[{self.has(p.name)}].as.f" for p in params]
            numbers = f"(const double[]){{{', '.join(values)}}}" if values else "NULL"
            inplace = self.has("inplace")
            call = "fai_row_in_place" if in_place else "fai_row"
            text = f"    const fai_operand operands[] = {{{', '.join(operands)}}};\n"
            if inplace is not None and not in_place:
                text += f"    const bool writes = v[{inplace}].given && v[{inplace}].as.b;\n"
                call = "(writes ? fai_row_in_place : fai_row)"
            return text + f"    PyObject *result = fapy_take({call}(FAI_ROW_{row.name}, {len(operands)}, operands, {numbers}), mark);\n"
        body, out = self.body, []
        if "OPTIONS" in body or "NEW" in body:
            options, new = self.options()
            body = re.sub(r"\bOPTIONS\b", lambda m: options, re.sub(r"\bNEW\b", lambda m: new, body))
        body = re.sub(r"\bGENERATOR\b", lambda m: f"generator_of(&v[{self.has('generator')}])", body)
        if in_place:
            raise RowError(f"{self.at}: {self.name}: 'i' is for elementwise rows and @functions")
        for i, p in enumerate(self.parameters):
            if re.search(rf"(?<![.\w]){p.name}\b(?! =)", re.sub(r"^maybe \w+:", "", self.body)):
                out.append(p.local(i))
            if f"has_{p.name}" in self.body:
                out.append(f"    const bool has_{p.name} = v[{i}].given;\n")
        form, colon, rest = body.partition(": ")
        words = form.split()
        if not colon or not words or words[0] not in ("values", "two", "bool", "maybe"):
            return "".join(out) + f"    PyObject *result = fapy_take({body}, mark);\n"
        if words[0] == "bool":
            return "".join(out) + f"    PyObject *result = answer({rest}, mark);\n"
        if words[0] == "maybe":
            i = self.has(words[1])
            out.append(f"    fa_tensor *indices = NULL, **wanted = v[{i}].given && v[{i}].as.b ? &indices : NULL;\n    fa_tensor *values = {rest};\n")
            return "".join(out) + "    PyObject *result = wanted ? values_and_indices(NULL, values, indices, mark) : fapy_take(values, mark);\n"
        name = f'"{words[1]}"' if words[0] == "values" else "NULL"
        out.append(f"    fa_tensor *indices = NULL, *values = {rest};\n")
        return "".join(out) + f"    PyObject *result = values_and_indices({name}, values, indices, mark);\n"

    def code(self, in_place=False):
        own = self.id + ("_in_place" if in_place else "")
        n, uses_mark = len(self.parameters), not self.body.startswith("@")
        done = any(p.kind == "Ts" or p.kind == "obj" and p.varargs for p in self.parameters)
        out = self.has("out")
        parts = [f"static PyObject *call_{own}(fapy_value *v)\n{{\n"]
        if uses_mark:
            parts.append("    const uint32_t mark = FAPY_MARK;\n")
        given = self.has("dtype")
        named = given is not None and self.parameters[0].kind == "T" and ("cast_if" in self.body or "reduce(" in self.body or self.body in ("@sum", "@norm"))
        if named:  # a type that is named holds under autocast too
            parts.append(f"    const uint16_t autocast = fai_tls.autocast;\n    if (v[{given}].given) fai_tls.autocast = 0;\n")
        parts.append(self.call(in_place))
        if named:
            parts.append("    fai_tls.autocast = autocast;\n")
        if done:
            parts.append(f"    fapy_done(&signature_{self.id}, v);\n")
        if out is not None and not in_place:
            parts.append(f"    return v[{out}].given ? fapy_to_out(\"{self.name}\", result, v[{out}].as.o) : result;\n}}\n")
        else:
            parts.append("    return result;\n}\n")
        method = in_place or "m" in self.where
        if not in_place and ("f" in self.where or "n" in self.where):
            parts.append(f"static PyObject *function_{own}(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)\n{{\n"
                         f"    fapy_value v[{max(n, 1)}];\n    (void)self;\n"
                         f"    return fapy_parse(&signature_{self.id}, args, n, names, 0, v) ? call_{own}(v) : NULL;\n}}\n")
        if method:
            tensor = "v[0].as.operand.tensor = (fa_tensor *)self" if self.parameters[0].kind == "TN" else "v[0].as.t = (fa_tensor *)self"
            if n == 1:
                parts.append(f"static PyObject *method_{own}(PyObject *self, PyObject *unused)\n{{\n    fapy_value v[1] = {{{{.given = true}}}};\n"
                             f"    (void)unused;\n    {tensor};\n    return call_{own}(v);\n}}\n")
            else:
                parts.append(f"static PyObject *method_{own}(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)\n{{\n"
                             f"    fapy_value v[{n}];\n    v[0].given = true;\n    {tensor};\n"
                             f"    return fapy_parse(&signature_{self.id}, args, n, names, 1, v) ? call_{own}(v) : NULL;\n}}\n")
        return "".join(parts)

    @property
    def uses_signature(self):
        """A method without arguments parses nothing."""
        return len(self.parameters) > 1 or "f" in self.where or "n" in self.where

    def table(self):
        """The signature, which all forms of a function share."""
        entries = ", ".join(f'{{"{p.name}", {KINDS[p.kind][0]}, {p.flags}}}' for p in self.parameters) or "{0}"
        return (f"static const fapy_parameter parameters_{self.id}[] = {{{entries}}};\n"
                f'static const fapy_signature signature_{self.id} = {{"{self.name}", {len(self.parameters)}, parameters_{self.id}}};\n')

    def entry(self, kind, name, in_place=False):
        """kind: function, method or nn (torch.nn.functional)."""
        method = kind == "method"
        own = self.id + ("_in_place" if in_place else "")
        one = method and len(self.parameters) == 1
        function, flags = f"{'method' if method else 'function'}_{own}", "METH_NOARGS" if one else "METH_FASTCALL | METH_KEYWORDS"
        cast = function if one else f"(PyCFunction)(void (*)(void)){function}"
        doc = self.docstring(name, kind, in_place)
        return f'    {{"{name}", {cast}, {flags}, "{doc}"}},\n'


def usual(row):
    """The face of an elementwise row that torch.tab does not mention."""
    names = ["input", "other"] if len(row.args) > 1 else ["input"]
    if len(row.args) > 2:
        raise RowError(f"{row.at}: {row.name} has three operands: give it a row in python/torch.tab")
    signature = ", ".join(f"{n}: {'TN' if len(names) > 1 else 'T'}" for n in names)
    signature += "".join(f", {p}: float = {d!r}" for p, d in row.params) + ", *, $out"
    return {"at": row.at, "name": row.name, "where": "fm" + ("i" if not row.result else ""), "signature": signature, "body": f"row {row.name}", "doc": row.doc}


def load(tables):
    elementwise = {r.name: r for r in rows.load(os.path.join(tables, "ops"))["elementwise"]}
    docs = {r.name: r.doc for r in elementwise.values()}
    for table, columns in (("tensor.tab", gen_ops.TENSOR), ("reduce.tab", rows.REDUCE)):
        docs.update({r["name"]: r["doc"] for r in rows.read_table(os.path.join(tables, "ops", table), columns)})
    docs.update({face: docs[row] for face, row in (("binary_cross_entropy", "bce_loss"), ("binary_cross_entropy_with_logits", "bce_with_logits_loss"),
                                                   ("kl_div", "kl_div_loss"), ("var_mean", "var_mean_dims"), ("roll", "roll_dims")) if row in docs})
    table = rows.read_table(os.path.join(HERE, "python", "torch.tab"), COLUMNS, unique=2)
    hidden = {n.strip() for r in table if r["where"] == "-" for n in r["name"].split(",")}  # parts of others: no face of their own
    functions = [Function(r, docs, elementwise) for r in table if r["where"] != "-"]
    mentioned = {f.name for f in functions} | {f.row for f in functions} | hidden
    functions += [Function(usual(r), docs, elementwise) for r in elementwise.values()
                  if r.name not in mentioned and not r.name.endswith(HIDDEN) and r.name not in ("gelu_tanh", "log_sigmoid", "ndtr")]
    return functions


def source(functions):
    out = ["/* Generated from python/torch.tab and the tables of rows by tools/gen_py.py: change those. */\n",
           '#include "python/ext/bind.h"\n\n']
    tables = {"fapy_functions": [], "fapy_methods": [], "fapy_nn_functions": []}
    for f in functions:
        out += [f.table() if f.uses_signature else "", f.code()]
        if "i" in f.where:
            out.append(f.code(in_place=True))
        for name in f.names:
            if "f" in f.where:
                tables["fapy_functions"].append(f.entry("function", name))
            if "n" in f.where:
                tables["fapy_nn_functions"].append(f.entry("nn", name))
            if "m" in f.where:
                tables["fapy_methods"].append(f.entry("method", name))
            if "i" in f.where:
                tables["fapy_methods"].append(f.entry("method", name + "_", in_place=True))
                if "f" in f.where and len(f.parameters) == 1:
                    continue
        out.append("\n")
    made = {prefix + e[1] for prefix, table in (("torch.", "fapy_functions"), ("Tensor.", "fapy_methods"), ("F.", "fapy_nn_functions"))
            for e in (entry.split('"') for entry in tables[table])}
    out.append(py_docs.hand_written(DOCS, made))
    for name, entries in tables.items():
        out.append(f"PyMethodDef {name}[] = {{\n{''.join(entries)}    {{0}}}};\n\n")
    return "".join(out)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--tables", default=os.path.join(HERE, "src"))
    a = parser.parse_args()
    functions = load(a.tables)
    os.makedirs(os.path.join(a.out, "gen", "py", "nn"), exist_ok=True)
    gen_ops.write(os.path.join(a.out, "gen", "py", "functions_gen.c"), source(functions))
    gen_ops.write(os.path.join(a.out, "gen", "py", "_C.pyi"), py_stubs.c_module(functions))
    gen_ops.write(os.path.join(a.out, "gen", "py", "nn", "functional.pyi"), py_stubs.functional(functions))


if __name__ == "__main__":
    main()
