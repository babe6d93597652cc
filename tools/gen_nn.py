#!/usr/bin/env python3
"""Makes the layers from src/nn/layers.tab: fa_layers.h, their constructors, forward functions and texts, and docs.

gen_nn.py --out BUILD [--tables src]: writes BUILD/include/{fa_layers.h,layers_gen.h}, BUILD/gen/layers_gen.c and
BUILD/docs/layers.md.
"""
import argparse
import ast
import os
import re

import gen_ops
import rows
from rows import RowError

COLUMNS = "name args entries checks forward repr doc".split()
# shapes of a fixed number of sides, and whether one number is shown as that many
SIDES = {"single": (1, True), "pair": (2, True), "triple": (3, True), "window1": (1, False), "window": (2, False), "window3": (3, False),
         "padding1": (2, True), "padding2": (4, True), "padding3": (6, True)}
SHAPES = ("shape", *SIDES)
TYPES = {"int": "int64_t ", "float": "double ", "float?": "double ", "bool": "bool ", "word": "const char *", "factors": "fa_factors ",
         "tensor?": "fa_tensor *"} | {s: "fa_shape " for s in SHAPES}
INITS = ("zeros", "ones", "kaiming", "fan_in", "padded", "fill", "within")
INPUTS = ("x", "y", "z")
COMPARE = rows.COMPARE
BINARY = dict(rows.BINARY) | {ast.Mod: "%"}


def snake(name):
    """LeakyReLU -> leaky_relu, BatchNorm2d -> batch_norm2d, MSELoss -> mse_loss"""
    name = re.sub("([PR]?)ReLU", lambda m: (m.group(1) + "relu").capitalize(), name).replace("SiLU", "Silu")
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


class Arg:
    def __init__(self, text, at):
        spec, _, default = text.partition("=")
        self.name, _, self.type = (s.strip() for s in spec.partition(":"))
        self.default = default.strip()
        words = re.fullmatch(r"word\((.+)\)", self.type)
        self.words = words.group(1).split() if words else []
        self.type = "word" if words else self.type
        if self.type not in TYPES or (self.type == "word") != bool(words):
            raise RowError(f"{at}: argument {text!r}: types are {', '.join(TYPES)}; a word has its choices behind it: word(mean sum)")

    def declare(self):
        return TYPES[self.type] + self.name

    def differs(self):
        """C text: the argument is not what it is by default."""
        if self.type in SHAPES:
            return f"a->{self.name}.ndim" if self.default == "none" else f"!fai_layer_is(a->{self.name}, {self.default})"
        if self.type == "bool":
            return f"{'!' if self.default == 'true' else ''}a->{self.name}"
        if self.type == "word":
            return f'strcmp(a->{self.name}, "{self.default}") != 0'
        if self.type == "factors":
            return f"a->{self.name}.n > 0"
        if self.type == "float?":
            return f"a->{self.name} >= 0"
        return f"a->{self.name} != {self.default}"

    def initial(self):
        """C text: the default, of a shape that the caller leaves out."""
        given = {"word": f'"{self.default}"', "factors": "{0, {0}}", "float?": "-1", "tensor?": "NULL"} | {s: "{0, {0}}" for s in SHAPES}
        return given.get(self.type, self.default)


class Layer:
    """One row, parsed."""

    def __init__(self, row, ops):
        self.at, self.name, self.doc = row["at"], row["name"], row["doc"]
        self.snake = snake(self.name)
        self.args = [Arg(a, self.at) for a in row["args"].split(",") if a.strip()]
        self.required = [a for a in self.args if not a.default]
        self.options = [a for a in self.args if a.default]
        self.at_arg = {a.name: a for a in self.args}
        self.tensors = [a for a in self.args if a.type == "tensor?"]
        self.stored = [a for a in self.args if a.type != "tensor?"]  # what the module keeps besides its tensors
        self.entries = [self.entry(e.strip()) for e in row["entries"].split(";") if e.strip()]
        self.slots = [name for _, name, _, _, _ in self.entries]
        self.checks = [self.check(c) for c in row["checks"].split(";") if c.strip()]
        self.repr = row["repr"]
        custom = re.fullmatch(r"@(\w+)(?:\(([xyz, ]+)\))?", row["forward"])
        self.custom = custom.group(1) if custom else None
        names = re.findall(r"\b[xyz]\b", custom.group(2) or "x" if custom else row["forward"])
        self.inputs = INPUTS[:max(map(INPUTS.index, names)) + 1]
        self.forward = None if custom else self.call(row["forward"], ops)
        self.called = re.match(r"@?(\w+)", row["forward"]).group(1)  # what errors call its operator
        self.writes = self.in_place(row["forward"], ops)
        self.struct = f"fai_{self.custom or self.snake}_arguments"

    def entry(self, text):
        if re.fullmatch(r"B \w+ given", text):
            return "T", text.split()[1], "", "", "true"
        match = re.fullmatch(r"([PB]) (\w+)\[([^]]*(?:\[\d\][^]]*)*)\] (\w+(?:\(\w+\))?)(?: if (.*))?|I (\w+)(?: if (.*))?", text)
        if not match:
            raise RowError(f'{self.at}: entry {text!r} is none of "P name[sizes] init", "B name[sizes] init", "B name given", "I name"')
        kind, name, sizes, init, condition, counter, counter_condition = match.groups()
        if counter:
            return "I", counter, "", "", self.condition(counter_condition)
        if init.partition("(")[0] not in INITS or (kind == "B" and init not in ("zeros", "ones")):
            raise RowError(f"{self.at}: initial value {init!r}: {', '.join(INITS)}; of a buffer zeros or ones")
        return kind, name, sizes, init, self.condition(condition)

    def condition(self, text):
        return self.expression(text) if text else "true"

    def expression(self, text, local="a->"):
        """Arithmetic, comparisons and "and" over the arguments, as C. A comparison of a pair is about the smaller number."""
        try:
            tree = ast.parse(text.strip(), mode="eval").body
        except SyntaxError as e:
            raise RowError(f"{self.at}: {text!r}: {e.msg}")

        def go(n):
            if isinstance(n, ast.Name) and n.id in self.at_arg:
                return f"fai_layer_least({local}{n.id})" if self.at_arg[n.id].type in SHAPES else local + n.id
            if isinstance(n, ast.Constant):
                return repr(n.value)
            if isinstance(n, ast.UnaryOp) and isinstance(n.op, ast.USub):
                return f"-{go(n.operand)}"
            if isinstance(n, ast.Subscript):
                return f"{local}{n.value.id}.dim[{n.slice.value}]"
            if isinstance(n, ast.BinOp):
                return f"({go(n.left)} {BINARY[type(n.op)]} {go(n.right)})"
            if isinstance(n, ast.BoolOp) and isinstance(n.op, ast.And):
                return " && ".join(go(v) for v in n.values)
            if isinstance(n, ast.Compare):
                sides = [n.left] + n.comparators
                return " && ".join(f"{go(a)} {COMPARE[type(o)]} {go(b)}" for a, o, b in zip(sides, n.ops, sides[1:]))
            raise RowError(f"{self.at}: {text!r} is not arithmetic over the arguments")
        return go(tree)

    def check(self, text):
        condition, colon, message = text.partition(":")
        if re.fullmatch(r"@\w+", text.strip()):
            return f"fai_{text.strip()[1:]}_check(m)", "", []
        if not colon:
            raise RowError(f'{self.at}: check {text!r} is not "condition: message"')
        names = {n.id for n in ast.walk(ast.parse(condition.strip(), mode="eval")) if isinstance(n, ast.Name)}
        return self.expression(condition), message.strip(), [a for a in self.args if a.name in names]

    def call(self, text, ops):
        """The forward column as a C call of the operator's positional function."""
        tree = ast.parse(text, mode="eval").body
        op = ops.get(tree.func.id)
        if op is None:
            raise RowError(f"{self.at}: {tree.func.id!r} in the forward column is no operator of the tables")
        function = op.c_name if isinstance(op, gen_ops.Op) else f"fa_{op.name}"

        def go(n):
            if isinstance(n, ast.Name) and n.id in (*INPUTS, "none", "training", "true", "false"):
                return {"none": "NULL", "training": "self->training"}.get(n.id, n.id)
            if isinstance(n, ast.Name) and n.id in self.slots:
                return f"fai_slot(self, {self.slots.index(n.id)})"
            if isinstance(n, ast.Name) and n.id in self.at_arg:
                return f"a->{n.id}"
            if isinstance(n, ast.Constant):
                return f'"{n.value}"' if isinstance(n.value, str) else repr(n.value)
            if isinstance(n, ast.UnaryOp) and isinstance(n.op, ast.USub):
                return f"-{go(n.operand)}"
            if isinstance(n, ast.Tuple):
                return f"fa_shape_of({len(n.elts)}, (const int64_t[]){{{', '.join(go(e) for e in n.elts) or 0}}})"
            raise RowError(f"{self.at}: the forward column passes names, numbers, words and shapes, found {ast.unparse(n)!r}")
        return f"{function}({', '.join(go(n) for n in tree.args)})"

    def in_place(self, text, ops):
        """The forward column as the call that writes over its input, where torch's layer can: of elementwise rows and dropout."""
        op = None if self.custom else ops.get(text.partition("(")[0])
        if self.called.endswith("dropout") or self.called in ("dropout_channels", "rrelu"):
            return f"fa_copy_(x, {self.forward or f'fai_{self.custom}_layer(self, x)'})"
        if op is None or isinstance(op, gen_ops.Op) or op.result or len(op.args) != 1:
            return None
        return re.sub(r"^(\w+)\(", r"\1_(", self.forward)

    @property
    def positional(self):
        return ", ".join(a.declare() for a in self.required)


# ---- the public header ----

def comment(layer):
    args = [a.name for a in layer.required] + [f".{a.name} = {a.default}" for a in layer.options]
    return f"/* {layer.name}({', '.join(args)}): {layer.doc} */\n"


def options_macro(layer):
    """fa_nn_conv2d(1, 8, 3, .padding = FA_DIMS(1)): the defaults of the row, overridden by the caller's initialisers."""
    upper = f"FA_NN_{layer.snake.upper()}_DEFAULTS"
    defaults = ", ".join(f".{a.name} = {a.initial()}" for a in layer.options)
    front = "".join(f"{a.name}, " for a in layer.required)
    values = "".join(f"FA_DIMS_OF({a.name}), " if a.type in SHAPES else f"({a.name}), " for a in layer.required)
    return (f"#define {upper} {defaults}\n#define fa_nn_{layer.snake}({front}...) \\\n    fa_nn_{layer.snake}_with({values}"
            f"&FA_OPTIONS(fa_nn_{layer.snake}_options, {upper}, __VA_ARGS__))\n")


def public(layer):
    name, out = f"fa_nn_{layer.snake}", [comment(layer)]
    if not layer.options:
        plain = comment(layer) + f"FA_API fa_module *{name}({layer.positional or 'void'});\n"
        if not any(a.type in SHAPES for a in layer.required):
            return plain
        names = ", ".join(a.name for a in layer.required)
        values = ", ".join(f"FA_DIMS_OF({a.name})" if a.type in SHAPES else f"({a.name})" for a in layer.required)
        return plain + f"#ifndef __cplusplus\n#define {name}({names}) {name}({values})\n#endif\n"
    fields = "".join(f"    {a.declare()};\n" for a in layer.options)
    out.append(f"typedef struct {name}_options {{\n    size_t struct_size;\n{fields}}} {name}_options;\n")
    front = f"{layer.positional}, " if layer.required else ""
    out.append(f"FA_API {name}_options {name}_defaults(void);\n"
               f"FA_API fa_module *{name}_with({front}const {name}_options *options);\n")
    return "".join(out) + "#ifndef __cplusplus\n" + options_macro(layer) + "#endif\n"


HEAD = "/* Generated from src/nn/layers.tab by tools/gen_nn.py: change those. */\n"

PUBLIC_HEAD = HEAD + """#ifndef FA_LAYERS_H
#define FA_LAYERS_H

#include "fa_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A layer is a module that belongs to the scope. Options follow the required arguments: fa_nn_linear(10, 32, .bias = false).
 * Windows and their kind are one number or FA_DIMS(height, width); as options always FA_DIMS: .stride = FA_DIMS(2) means both. The
 * functions ending in _with take NULL for all defaults. Initial values are drawn as torch draws them. */
static inline fa_shape fa_dims_of_number(int64_t n) { fa_shape s = {1, {0}}; s.dim[0] = n; return s; }
static inline fa_shape fa_dims_of_dims(fa_shape dims) { return dims; }
#ifndef __cplusplus
#define FA_DIMS_OF(x) (_Generic((x), fa_shape: fa_dims_of_dims, default: fa_dims_of_number)(x))
#endif

"""


def header(layers):
    return PUBLIC_HEAD + "\n".join(public(x) for x in layers) + "\n#ifdef __cplusplus\n}\n#endif\n#endif\n"


# ---- inside ----

def internal_header(layers):
    out = [HEAD, "#ifndef FAI_LAYERS_GEN_H\n#define FAI_LAYERS_GEN_H\n\n#include <fa_nn.h>\n"]
    done = {}
    for x in layers:
        fields = "".join(f"    {a.declare()};\n" for a in x.stored)
        if x.struct in done and done[x.struct] != fields:
            raise RowError(f"{x.at}: layers with one forward function have the same arguments")
        if x.stored and x.struct not in done:
            out.append(f"\ntypedef struct {x.struct} {{\n{fields}}} {x.struct};\n")
        done[x.struct] = fields
    out.append("\n" + "".join(f"extern const fa_module_type fai_layer_{x.name};\n"
                             f"bool fai_layer_build_{x.name}(fa_module *m, fa_tensor *const *tensors);\n" for x in layers)
               + "\nenum {\n" + "".join(f"    FAI_LAYER_{x.name},\n" for x in layers) + "    FAI_LAYER_COUNT\n};\n\n#endif\n")
    return "".join(out)


def printed(layer, name):
    """-> (printf format, C value, C statements before)"""
    arg = layer.at_arg.get(name)
    if arg is None:
        raise RowError(f"{layer.at}: {{{name}}} in the repr column is no argument")
    if arg.type == "int":
        return "%lld", f"(long long)a->{name}", ""
    if arg.type == "bool":
        return "%s", f'a->{name} ? "True" : "False"', ""
    if arg.type == "word":
        return "%s", f"a->{name}", ""
    kind = {"float": "float", "float?": "optional", "factors": "factors"}.get(arg.type)
    kind = kind or ("window" if arg.type in SIDES and not SIDES[arg.type][1] else "tuple")
    room = 192 if arg.type in SHAPES else 96
    return "%s", name, f"    char {name}[{room}];\n    fai_text_{kind}({name}, sizeof {name}, a->{name});\n"


def describe(layer):
    if not layer.repr:
        return ""
    before, parts = "", []
    for optional, name, plain in re.findall(r"\[([^]]*)\]\?(\w+)|((?:(?!\[[^]]*\]\?).)+)", layer.repr):
        text = optional or plain
        values = re.findall(r"\{(\w+)\}", text)
        for v in values:
            fmt, value, prepare = printed(layer, v)
            text = text.replace(f"{{{v}}}", fmt, 1)
            before += prepare if prepare not in before else ""
        arguments = "".join(f", {printed(layer, v)[1]}" for v in values)
        condition = f"if ({layer.at_arg[name].differs()}) " if name else ""
        parts.append(f'    {condition}fai_layer_describe(text, n, "{text}"{arguments});\n')
    data = f"    const {layer.struct} *a = self->data;\n" if layer.stored else "    (void)self;\n"
    return (f"static void describe_{layer.snake}(const fa_module *self, char *text, size_t n)\n{{\n{data}{before}"
            + "    if (n) *text = 0;\n" + "".join(parts) + "}\n\n")


def forward(layer):
    data = f"    const {layer.struct} *a = self->data;\n" if layer.forward and "a->" in layer.forward else ""
    call = layer.forward or f"fai_{layer.custom}_layer(self, {', '.join(layer.inputs)})"
    if layer.writes:
        call = f"self->inplace ? {layer.writes} : {call}"
    names = ", ".join(f"*{name} = inputs[{i}]" for i, name in enumerate(layer.inputs))
    return (f"static fa_tensor *forward_{layer.snake}(fa_module *self, fa_tensor *const *inputs, int ninputs)\n{{\n{data}"
            f"    if (!fai_layer_inputs(self, inputs, ninputs, {len(layer.inputs)})) return NULL;\n"
            f"    fa_tensor {names};\n    return {call};\n}}\n\n")


def make_entry(layer, entry):
    """-> a C expression, false after an error"""
    kind, name, sizes, init, condition = entry
    if kind == "T":
        return f'fa_add_buffer(m, "{name}", tensors[{[a.name for a in layer.tensors].index(name)}], true)'
    if kind == "I":
        return f'fai_layer_counter(m, "{name}", {condition})'
    whole = layer.at_arg.get(sizes)
    if whole is not None and whole.type == "shape":
        ndim, size = f"a->{sizes}.ndim", f"a->{sizes}.dim"
    else:
        values = [layer.expression(s) for s in sizes.split(",")]
        ndim, size = str(len(values)), f"(const int64_t[]){{{', '.join(values)}}}"
    if kind == "B":
        return f'fai_layer_buffer(m, "{name}", {condition}, {ndim}, {size}, {1 if init == "ones" else 0})'
    init, _, number = init.rstrip(")").partition("(")
    number = f"(double)a->{number}" if number else "0"
    return f'fai_layer_parameter(m, "{name}", {condition}, {ndim}, {size}, "{init}", {number})'


def fill_arguments(layer):
    out = [f"    a->{a.name} = {a.name};\n" for a in layer.required]
    return "".join(out + [f"    a->{a.name} = options->{a.name};\n" for a in layer.options if a in layer.stored])


def checks(layer):
    """-> C conditions, each false after an error"""
    out = [f'{f"(!a->{a.name}.ndim || " if a.default == "none" else "("}fai_layer_sides("{layer.name}", "{a.name}", &a->{a.name}, {SIDES[a.type][0]}, {str(SIDES[a.type][1]).lower()}))'
           for a in layer.args if a.type in SIDES]
    for a in layer.args:
        if a.words:
            words = ", ".join(f'"{w}"' for w in a.words)
            out.append(f'fai_layer_word("{layer.name}", "{a.name}", &a->{a.name}, (const char *const[]){{{words}, NULL}})')
    for condition, message, args in layer.checks:
        if not message:
            out.append(condition)
            continue
        shown = {"int": ("%lld", "(long long)a->{}"), "float": ("%g", "a->{}"), "bool": ("%d", "a->{}")}
        fmt, values = [], []
        for a in args:
            f, v = shown.get(a.type, ("%lld", "(long long)fai_layer_least(a->{})"))
            fmt.append(f"{a.name} = {f}")
            values.append(v.format(a.name))
        text = f'"{message}: found {", ".join(fmt)}", {", ".join(values)}'
        out.append(f'(({condition}) || fai_layer_refuse("{layer.name}", {text}))')
    return out


def shape_defaults(layer):
    """C statements: the windows and their kind that were left out."""
    out = []
    for a in layer.options:
        if a.type in SHAPES and a.default != "none":
            value = f"a->{a.default}" if a.default in layer.at_arg else f"FA_DIMS({a.default})"
            out.append(f"    if (!a->{a.name}.ndim) a->{a.name} = {value};\n")
    return "".join(out)


def build(layer):
    """The function that gives a module, which has its arguments, its parameters and buffers."""
    name = f"bool fai_layer_build_{layer.name}(fa_module *m, fa_tensor *const *tensors)\n{{\n"
    steps = checks(layer) + [make_entry(layer, e) for e in layer.entries]
    if not steps:
        return name + "    (void)m, (void)tensors;\n    return true;\n}\n\n"
    joined = "\n        && ".join(steps)
    data = f"    {layer.struct} *a = m->data;\n{shape_defaults(layer)}" if "a->" in joined + shape_defaults(layer) else ""
    unused = "" if "tensors[" in joined else "    (void)tensors;\n"
    return name + data + unused + f"    return {joined};\n}}\n\n"


def constructor(layer):
    name = f"fa_nn_{layer.snake}"
    out = []
    if layer.options:
        fields = "".join(f", .{a.name} = {a.initial()}" for a in layer.options if a.type not in SHAPES)
        out.append(f"{name}_options {name}_defaults(void)\n{{\n"
                   f"    return ({name}_options){{.struct_size = sizeof({name}_options){fields}}};\n}}\n\n")
        front = f"{layer.positional}, " if layer.required else ""
        out.append(f"fa_module *{name}_with({front}const {name}_options *options)\n{{\n")
        out.append(f"    const {name}_options defaults = {name}_defaults();\n    if (!options) options = &defaults;\n"
                   f'    if (!fai_options_ok("{layer.name}", options->struct_size, sizeof *options)) return NULL;\n')
    else:
        out.append(f"fa_module *({name})({layer.positional or 'void'})\n{{\n")  # in brackets: it may be a macro too
    out.append(f"    fa_module *m = fai_layer_make(FAI_LAYER_{layer.name});\n    if (!m) return NULL;\n")
    if layer.stored:
        out.append(f"    {layer.struct} *a = m->data;\n{fill_arguments(layer)}")
    tensors = ", ".join(f"options->{a.name}" for a in layer.tensors) or "NULL"
    return "".join(out) + f"    return fai_layer_done(m, fai_layer_build_{layer.name}(m, (fa_tensor *const[]){{{tensors}}}));\n}}\n\n"


ARGUMENT = {"int": "INT", "float": "FLOAT", "float?": "OPTIONAL_FLOAT", "bool": "BOOL", "word": "WORD", "factors": "FACTORS", "tensor?": "TENSOR"}


def argument_row(layer, a):
    """One line of the table of arguments, for those who fill them by name."""
    kind = ARGUMENT.get(a.type, "SHAPE")
    sides, expand = SIDES.get(a.type, (0, False))
    place = f"offsetof({layer.struct}, {a.name})" if a in layer.stored else str(layer.tensors.index(a))
    number, text = "0", "NULL"
    words = ", ".join(f'"{w}"' for w in a.words)
    if kind in ("INT", "FLOAT", "BOOL") and a.default:
        number = {"true": "1", "false": "0"}.get(a.default, a.default)
    if kind == "OPTIONAL_FLOAT":
        number = "-1" if a.default in ("", "none") else a.default
    if kind == "WORD" and a.default:
        text = f'"{a.default}"'
    return (f'    {{"{a.name}", FAI_ARGUMENT_{kind}, {sides}, {str(expand).lower()}, {"false" if a.default else "true"}, '
            f"{place}, {number}, {text}, {f'(const char *const[]){{{words}, NULL}}' if words else 'NULL'}}},\n")


def descriptions(layers):
    out = ["/* ---- the layers by number: what makes and fills them by name leans on this ---- */\n\n"]
    for x in layers:
        if x.args:
            out.append(f"static const fai_layer_argument arguments_{x.snake}[] = {{\n{''.join(argument_row(x, a) for a in x.args)}}};\n")
    out.append(f"\nconst fai_layer fai_layers[FAI_LAYER_COUNT] = {{\n")
    for x in layers:
        bytes_ = f"sizeof({x.struct})" if x.stored else "0"
        arguments = f"arguments_{x.snake}" if x.args else "NULL"
        out.append(f'    {{&fai_layer_{x.name}, {bytes_}, {len(x.args)}, {len(x.inputs)}, {str(x.writes is not None).lower()}, {arguments}, '
                   f'fai_layer_build_{x.name}, "{x.called}"}},\n')
    return "".join(out) + "};\n"


def source(layers):
    out = [HEAD, '#include "nn/module.h"\n#include "autograd/generated.h"\n#include <stddef.h>\n#include <string.h>\n\n']
    for x in layers:
        described = f", .describe = describe_{x.snake}" if x.repr else ""
        kind = f'const fa_module_type fai_layer_{x.name} = {{.name = "{x.name}", .forward = forward_{x.snake}{described}}};\n\n'
        out.append(f"/* ---- {x.name} ---- */\n\n" + forward(x) + describe(x) + kind + build(x) + constructor(x))
    return "".join(out) + descriptions(layers)


def documentation(layers):
    out = ["# Layers\n\nMade from src/nn/layers.tab. Arguments with `=` are options: "
           "`fa_nn_conv2d(1, 8, 3, .padding = FA_DIMS(1))`.\n\n"
           "| function | what | parameters and buffers |\n|---|---|---|\n"]
    for x in layers:
        args = ", ".join([a.name for a in x.required] + [f".{a.name} = {a.default}" for a in x.options])
        entries = ", ".join(f"{n}[{s}]" if s else n for _, n, s, _, _ in x.entries)
        out.append(f"| `fa_nn_{x.snake}({args})` | {x.doc} | {entries} |\n")
    return "".join(out)


def load(tables):
    at = os.path.join(tables, "ops")
    ops = {r.name: r for r in rows.load(at)["elementwise"]}
    ops.update({r["name"]: gen_ops.Op(r, None) for r in rows.read_table(os.path.join(at, "tensor.tab"), gen_ops.TENSOR)})
    return [Layer(r, ops) for r in rows.read_table(os.path.join(tables, "nn", "layers.tab"), COLUMNS)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--tables", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "src"))
    a = parser.parse_args()
    layers = load(a.tables)
    gen_ops.write(os.path.join(a.out, "include", "fa_layers.h"), header(layers))
    gen_ops.write(os.path.join(a.out, "include", "layers_gen.h"), internal_header(layers))
    gen_ops.write(os.path.join(a.out, "gen", "layers_gen.c"), source(layers))
    gen_ops.write(os.path.join(a.out, "docs", "layers.md"), documentation(layers))


if __name__ == "__main__":
    main()
