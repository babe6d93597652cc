#!/usr/bin/env python3
"""Makes the operators' public face from the tables: fa_ops.h, the functions behind it, their nodes and derivatives, docs.

gen_ops.py --out BUILD [--tables src/ops]: writes BUILD/include/{fa_ops.h,ops_gen.h,ops_list.h}, BUILD/gen/ops_gen.c and
BUILD/docs/ops.md.
"""
import argparse
import ast
import os
import re

import rows
from rows import RowError

TENSOR = "name args kind backward doc".split()
C_TYPES = {"tensor": "fa_tensor *", "tensor?": "fa_tensor *", "tensors": "fa_tensor *const *", "int": "int64_t ", "float": "double ",
           "bool": "bool ", "scalar": "fa_scalar ", "shape": "fa_shape ", "factors": "fa_factors ", "dtype": "fa_dtype ", "device": "fa_device ",
           "text": "const char *", "out": "fa_tensor **", "hidden": "fa_tensor **"}
# names under which torch prints a node, where they are not the op's own
NODE_NAMES = {"linear": "Addmm", "gemm": "Mm", "to_device": "ToCopy", "to_dtype": "ToCopy", "sum_dims": "Sum", "mean_dims": "Mean",
              "squeeze_dim": "Squeeze", "max_dim": "Max", "min_dim": "Min", "conv2d": "Convolution", "max_pool2d": "MaxPool2DWithIndices",
              "layer_norm": "NativeLayerNorm", "batch_norm": "NativeBatchNorm", "gelu_tanh": "Gelu", "mse_element": "MseLoss",
              "l1_element": "Abs", "smooth_l1_element": "SmoothL1Loss", "huber_element": "HuberLoss", "bce_element": "BinaryCrossEntropy",
              "bce_logits_element": "BinaryCrossEntropyWithLogits",
              "max_pool2d_backward": "MaxPool2DWithIndicesBackward", "linear_relu": "Relu",
              "add_alpha": "Add", "sub_alpha": "Sub", "div_floor": "Div", "div_trunc": "Div", "round_scaled": "Round", "index_fill_scalar": "IndexFill"}
CASTS = {"-": "NONE", "lower": "LOWER", "float32": "FLOAT32", "widest": "WIDEST", "own": "OWN", "refuse": "REFUSE"}  # autocast.tab
HELPERS = {"inverse": "fai_inverse_dims", "dims_of": "fai_dims_of", "channels_of": "fai_channel_dims"}  # give shapes
OPERATORS = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div"}


def camel(name):
    return NODE_NAMES.get(name, "".join(w.capitalize() for w in name.split("_")))


class Arg:
    def __init__(self, text, at):
        spec, _, default = text.partition("=")
        self.name, _, self.type = (s.strip() for s in spec.partition(":"))
        self.default = default.strip()
        if self.type not in C_TYPES:
            raise RowError(f"{at}: argument {text!r}: types are {', '.join(C_TYPES)}")

    def declare(self):
        return C_TYPES[self.type] + self.name + (f", int n{self.name}" if self.type == "tensors" else "")

    def call(self):
        return self.name + (f", n{self.name}" if self.type == "tensors" else "")


class Op:
    """One row of tensor.tab, or a reduction in one of its two forms."""

    def __init__(self, row, types):
        self.at, self.name, self.kind, self.doc, self.text = row["at"], row["name"], row["kind"], row["doc"], row["backward"]
        self.args = [Arg(a, self.at) for a in row["args"].split(",")]
        self.public = [a for a in self.args if a.type != "hidden"]
        self.has_options = any(a.default for a in self.args)
        self.tensors = [a for a in self.args if a.type in ("tensor", "tensor?")]
        self.types = types
        self.casts = None  # its line of autocast.tab
        self.kept, self.custom, self.backward = [], None, {}
        if self.kind not in ("view", "op", "composite"):
            raise RowError(f"{self.at}: kind {self.kind!r}: view, op or composite")

    @property
    def c_name(self):
        """The positional function: fa_x, or fai_x where the public face takes options."""
        return ("fai_" if self.has_options else "fa_") + self.name

    def parse_backward(self, ops):
        if self.text == "-":
            return
        match = re.fullmatch(r"@(\w+)\((.*)\)", self.text)
        if match:
            self.custom = match.group(1)
            self.kept = [k.strip() for k in match.group(2).split(",") if k.strip()]
            return
        for part in self.text.split(";"):
            arg, _, text = part.partition(":")
            self.backward[arg.strip()] = Graph(text.strip(), self, ops)
        names = set().union(*(b.values for b in self.backward.values()))
        order = [a.name for a in self.args] + ["r"]
        self.kept = [n for n in order if n in names and (n == "r" or self.arg(n).type in ("tensor", "tensor?", "tensors", "hidden", "out"))]

    def arg(self, name):
        return next(a for a in self.args if a.name == name)

    @property
    def own_name(self):
        """Where it is computed: behind the door of autocast, if it has one."""
        return f"fai_plain_{self.name}" if self.casts else self.c_name

    @property
    def params(self):
        return [a for a in self.args if a.type in ("int", "float", "bool", "scalar", "shape", "dtype", "device", "text")]


class Graph:
    """A tensor-level expression as C calls of public functions."""

    def __init__(self, text, op, ops):
        self.op, self.ops, self.values = op, ops, set()
        try:
            tree = ast.parse(text, mode="eval").body
        except SyntaxError as e:
            raise RowError(f"{op.at}: {text!r}: {e.msg}")
        self.fast = None
        if isinstance(tree, ast.Call) and getattr(tree.func, "id", "") == "fast":
            self.fast, tree = self.go(tree.args[0])[0], tree.args[1]
        self.c = self.go(tree)[0]

    def go(self, n):
        """-> (C text, kind): kind "t" tensor, "n" anything else."""
        if isinstance(n, ast.Name):
            if n.id == "g":
                return "g", "t"
            if n.id in ("true", "false"):
                return n.id, "n"
            if n.id == "none":
                return "NULL", "t"
            if n.id == "r":
                self.values.add("r")
                return "r", "t"
            arg = self.op.arg(n.id)
            if arg.type in ("tensor", "tensor?", "hidden", "out"):
                self.values.add(n.id)
                return n.id, "t"
            if arg.type == "tensors":
                self.values.add(n.id)
                return f"{n.id}, n{n.id}", "n"
            return f"p->{n.id}", "n"
        if isinstance(n, ast.Constant):
            return repr(n.value), "n"
        if isinstance(n, ast.UnaryOp):
            text, kind = self.go(n.operand)
            return (f"fa_neg({text})", "t") if kind == "t" else (f"-{text}", "n")
        if isinstance(n, ast.BinOp):
            (a, ka), (b, kb) = self.go(n.left), self.go(n.right)
            if ka == kb == "n":
                return f"({a} {rows.BINARY[type(n.op)]} {b})", "n"
            oa, ob = (f"fai_of({x})" if k == "t" else f"fai_number({x})" for x, k in ((a, ka), (b, kb)))
            return f"fai_row2(FAI_ROW_{OPERATORS[type(n.op)]}, {oa}, {ob})", "t"
        name = n.func.id
        if name in ("shape", "dtype", "device"):
            i = [a.name for a in self.op.tensors].index(n.args[0].id)
            return {"shape": f"fai_meta_shape(&node->metas[{i}])", "dtype": f"(fa_dtype)node->metas[{i}].dtype",
                    "device": f"node->metas[{i}].device"}[name], "n"
        args = [self.go(a)[0] for a in n.args]
        if name in HELPERS:
            return f"{HELPERS[name]}({', '.join(args if args[0] == 'g' else ['g'] + args)})", "n"
        if name in ("zeros_of", "rows"):
            return f"fai_{'as_rows' if name == 'rows' else name}({', '.join(args)})", "t"
        called = self.ops.get(name)
        if called is None:
            raise RowError(f"{self.op.at}: {name!r} in the backward column is no operator of the tables")
        if isinstance(called, Op):
            for i, a in enumerate(x for x in called.args if x.type != "hidden"):
                if a.type == "scalar" and i < len(args):
                    args[i] = f"FA_NUM({args[i]})"
            if any(a.type == "out" for a in called.args) and len(args) < len(called.public):
                args.append("NULL")
            return f"{called.c_name}({', '.join(args)})", "t"
        return f"fa_{name}({', '.join(args)})", "t"


def row_graph(expr):
    """An elementwise derivative as C that builds a graph: v[] holds the operands g, x, y, z, r; p the numbers."""
    at = {"g": "v[0]", "x": "v[1]", "y": "v[2]", "z": "v[3]", "r": "v[4]"}

    def operand(c, kind):
        return c if kind == "o" else f"fai_of({c})" if kind == "t" else f"fai_number({c})"

    def call(name, parts):
        return f"fai_row{len(parts)}(FAI_ROW_{name}, {', '.join(operand(*p) for p in parts)})", "t"

    def go(n):
        if isinstance(n, ast.Name):
            return (at[n.id], "o") if n.id in at else (f"p[{expr.param_at[n.id]}]", "n")
        if isinstance(n, ast.Constant):
            return repr(n.value), "n"
        if isinstance(n, ast.UnaryOp):
            c, k = go(n.operand)
            return (f"(-{c})", "n") if k == "n" else call("neg", [(c, k)])
        if isinstance(n, ast.BinOp):
            a, b = go(n.left), go(n.right)
            return (f"({a[0]} {rows.BINARY[type(n.op)]} {b[0]})", "n") if a[1] == b[1] == "n" else call(rows.BINARY_OP[type(n.op)], [a, b])
        if isinstance(n, ast.Compare):
            return call(rows.COMPARE_OP[type(n.ops[0])], [go(n.left), go(n.comparators[0])])
        return call(rows.GRAPH_NAMES.get(n.func.id, n.func.id), [go(a) for a in n.args])
    c, kind = go(expr.tree)
    return c if kind == "t" else f"fai_row1(FAI_ROW_positive, {operand(c, kind)})"


# ---- elementwise rows ----

def elementwise_declarations(row):
    tensors = ", ".join(f"fa_tensor *{a}" for a in row.args)
    params = "".join(f", double {p}" for p, _ in row.params)
    yield f"fa_{row.name}", f"{tensors}{params}", row.args, ""
    if row.in_place:
        yield f"fa_{row.name}_", f"{tensors}{params}", row.args, "_in_place"
    if len(row.args) > 1:
        front, last = row.args[:-1], row.args[-1]
        scalar = ", ".join(f"fa_tensor *{a}" for a in front) + f", fa_scalar {last}{params}"
        yield f"fa_{row.name}_scalar", scalar, front + [f"={last}"], ""
        if row.in_place:
            yield f"fa_{row.name}_scalar_", scalar, front + [f"={last}"], "_in_place"


def elementwise_code(row):
    out = []
    for name, signature, args, suffix in elementwise_declarations(row):
        operands = ", ".join(f"{{.scalar = {a[1:]}}}" if a[0] == "=" else f"{{.tensor = {a}}}" for a in args)
        params = f"(const double[]){{{', '.join(p for p, _ in row.params)}}}" if row.params else "NULL"
        out.append(f"fa_tensor *{name}({signature})\n{{\n    const fai_operand operands[] = {{{operands}}};\n"
                   f"    return fai_row{suffix}(FAI_ROW_{row.name}, {len(args)}, operands, {params});\n}}\n")
    return out


def elementwise_table(row):
    """The derivative's graph functions and the row's entry in fai_row_apis."""
    out, entries = [], []
    for i, arg in enumerate(row.args):
        expr = row.backward.get(arg)
        if not expr:
            continue
        expr.param_at = {p: k for k, (p, _) in enumerate(row.params)}
        reads = [n for n in ("x", "y", "z", "r") if n in row.reads(arg)]
        out.append(f"static FAI_COLD fa_tensor *{row.name}_d{arg}_graph(const fai_operand *v, const double *p)\n{{\n    (void)v, (void)p;\n"
                   f"    return {row_graph(expr)};\n}}\n")
        entries.append(f"[{i}] = {{FAI_ROW_{row.name}_d{arg}, {len(reads)}, {{{', '.join(str('gxyzr'.index(n)) for n in reads) or '0'}}}, "
                       f"{row.name}_d{arg}_graph, {'true' if expr.text == 'g' else 'false'}}}")
    kinds = {"float": "FAI_TYPES_FLOAT", "number": "FAI_TYPES_NUMBER", "any": "FAI_TYPES_ANY", "int": "FAI_TYPES_INT", "real": "FAI_TYPES_REAL"}
    defaults = ", ".join(repr(v) for _, v in row.params) or "0"
    entry = (f"    [FAI_ROW_{row.name}] = {{{{.name = \"{camel(row.name)}\", .backward = fai_row_backward, .row = &fai_row_apis[FAI_ROW_{row.name}]}}, \"{row.name}\", \"{row.name}_\", "
             f"FAI_ROW_{row.name}, {kinds[row.types]}, {'true' if row.result == 'bool' else 'false'}, {'true' if row.checks_zero else 'false'}, "
             f"{len(row.args)}, {len(row.params)}, {{{defaults}}}, {{{', '.join(entries)}}}}},\n")
    return out, entry


# ---- operators of tensor.tab and reductions ----

def reduction_ops(table):
    """Two Ops a row: over everything and over dims."""
    out = []
    special = {"prod_backward": "@prod(x, r)", "split_equal": "@split_equal(x, r)"}
    for r in table:
        for dims in (False, True):
            name = r["name"] + ("_dims" if dims else "")
            args = "x: tensor" + (", dims: shape, keepdim: bool" if dims else "")
            row = {"at": r["at"], "name": name, "args": args, "kind": "op", "backward": "-" if r["backward"] == "-" else "@", "doc":
                   r["doc"][:-1] + (" over dims (none: all)." if dims else " over all dimensions.")}
            op = Op(row, r)
            op.row, op.special = r, special.get(r["backward"])
            out.append(op)
    return out


def reduction_backward(op, ops):
    """Sets up the backward of a reduction: g and r expanded to x's shape first."""
    text = op.row["backward"]
    if text == "-":
        op.text = "-"
    elif op.special:
        op.text = op.special
        op.parse_backward(ops)
        op.custom = op.row["backward"] if op.row["backward"] == "split_equal" else "prod"
    else:
        expr = rows.Expr(text, ["g", "x", "r", "n"], op.at)
        op.kept = [n for n in ("x", "r") if n in expr.names]
        expr.param_at = {"n": 0}
        op.reduction = row_graph(expr)


def declaration(op, name=None):
    return f"fa_tensor *{name or op.c_name}({', '.join(a.declare() for a in op.public)})"


def options_struct(op):
    fields = "".join(f"    {a.declare()};\n" for a in op.public if a.default)
    return f"typedef struct fa_{op.name}_options {{\n    size_t struct_size;\n{fields}}} fa_{op.name}_options;\n"


def options_macro(op):
    """fa_conv2d(x, weight, .stride = ...): the defaults of the row, overridden by the caller's initialisers."""
    front = [a for a in op.public if not a.default]
    defaults = ", ".join(f".{a.name} = {'{0, {0}}' if a.type in ('shape', 'factors') else a.default}" for a in op.public if a.default)
    names = ", ".join(a.name for a in front)
    head = f"FA_API fa_tensor *fa_{op.name}_with({', '.join(a.declare() for a in front)}, const fa_{op.name}_options *options);\n"
    return (head + f"#ifndef __cplusplus\n#define FA_{op.name.upper()}_DEFAULTS {defaults}\n#define fa_{op.name}({names}, ...) "
            f"fa_{op.name}_with({', '.join(f'({a.name})' for a in front)}, \\\n    &FA_OPTIONS(fa_{op.name}_options, FA_{op.name.upper()}_DEFAULTS, __VA_ARGS__))\n#endif\n")


def options_code(op):
    """fa_<op>_with: shapes not given take their default for every dimension."""
    front = [a for a in op.public if not a.default]
    lines = [f"fa_tensor *fa_{op.name}_with({', '.join(a.declare() for a in front)}, const fa_{op.name}_options *options)\n{{\n"]
    values = []
    for a in op.public:
        if not a.default:
            values.append(a.call())
        elif a.type == "shape":
            value = f"(fa_shape){{1, {{{a.default}}}}}" if a.default.isdigit() else "(fa_shape){0, {0}}" if a.default == "none" else a.default
            values.append(f"options->{a.name}.ndim ? options->{a.name} : {value}")
        else:
            values.append(f"options->{a.name}")
    lines.append(f"    if (!fai_options_ok(\"{op.name}\", options ? options->struct_size : 0, sizeof *options)) return NULL;\n")
    lines.append(f"    return fai_{op.name}({', '.join(values)});\n}}\n")
    return "".join(lines)


def params_struct(op):
    if not op.params:
        return ""
    fields = "".join("    " + ("char " + a.name + "[16]" if a.type == "text" else a.declare()) + ";\n" for a in op.params)
    return f"typedef struct fai_{op.name}_params {{\n{fields}}} fai_{op.name}_params;\n"


def forward_declaration(op):
    return f"fa_tensor *fai_{op.name}_forward({', '.join(a.declare() for a in op.args)});\n"


def function_code(op):
    """The public function of an op or view: checks, forward, record."""
    second = [a for a in op.args if a.type in ("hidden", "out")]
    calls = ", ".join(f"&{a.name}_result" if a in second else a.call() for a in op.args)
    out = [f"{'static ' if op.casts else ''}{declaration(op, op.own_name)}\n{{\n"]
    out += [f"    fa_tensor *{a.name}_result = NULL;\n" for a in second]
    checked = [a for a in op.tensors]
    lists = [a for a in op.args if a.type == "tensors"]
    if checked:
        names = ", ".join(f'"{a.name}"' for a in checked)
        optional = sum(1 << i for i, a in enumerate(checked) if a.type == "tensor?")
        out.append(f"    static const char *const names[] = {{{names}}};\n    fa_tensor *const inputs[] = {{{', '.join(a.name for a in checked)}}};\n"
                   f"    if (!fai_op_begin(\"{op.name}\", {len(checked)}, names, inputs, {optional})) return NULL;\n")
    for a in lists:
        out.append(f"    if (!fai_list_begin(\"{op.name}\", \"{a.name}\", {a.call()}, {'true' if op.name != 'cat' else 'false'})) return NULL;\n")
    forward = f"fai_{op.name}_forward({calls})"
    if hasattr(op, "row"):
        dims = "dims, keepdim" if op.name.endswith("_dims") else "(fa_shape){0, {0}}, false"
        forward = f"fai_reduction_forward(\"{op.name}\", FAI_REDUCE_{op.row['name']}, x, {dims})"
    before, after = record_code(op) if op.custom or op.backward or hasattr(op, "reduction") else ("", "")
    out += [before, f"    fa_tensor *r = {forward};\n    if (!r) return {'fai_node_unref(node), ' if before else ''}NULL;\n", after]
    if op.kind == "view":
        out.append(f"    fai_mark_view(r, {op.tensors[0].name});\n")
    out += [f"    if ({a.name}) *{a.name} = {a.name}_result;\n" for a in second if a.type == "out"]
    out.append("    return r;\n}\n")
    return "".join(out)


def casts_code(casts):
    return "FAI_CASTS(" + ", ".join(f"FAI_CAST_{CASTS[c]}" for c in casts) + ")"


def door_code(op):
    """The public function of an op that autocast.tab names."""
    out = [f"{declaration(op)}\n{{\n"]
    lists = [a for a in op.public if a.type == "tensors"]
    calls = {a.name: a.call() for a in op.public}
    plain = f"{op.own_name}({', '.join(calls.values())})"
    out.append(f"    if (FAI_LIKELY(!fai_tls.autocast)) return {plain};\n    fai_casting c;\n")
    if lists and op.tensors == []:
        a = lists[0].name
        begin = f"fai_cast_begin_list(&c, \"{op.name}\", {casts_code(op.casts)}, &{a}, n{a})"
    else:
        out.append(f"    fa_tensor *cast[] = {{{', '.join(a.name for a in op.tensors)}}};\n")
        begin = f"fai_cast_begin(&c, \"{op.name}\", {casts_code(op.casts)}, cast, {len(op.tensors)})"
        calls.update({a.name: f"cast[{i}]" for i, a in enumerate(op.tensors)})
    out.append(f"    fa_tensor *r = {begin} ? {op.own_name}({', '.join(calls.values())}) : NULL;\n")
    for a in op.args:
        if a.type == "out":  # a second result leaves the scope of what was cast too
            out.append(f"    if (r && c.scoped && {a.name} && *{a.name} && !fa_keep(*{a.name})) r = NULL;\n")
    out.append("    return fai_cast_end(&c, r);\n}\n")
    return "".join(out)


def record_code(op):
    """The node is made before the forward function runs, so that one that can't be made leaves running statistics and the like
    as they were; the second text adds what only the results can tell."""
    differentiable = [a for a in op.tensors if op.custom or hasattr(op, "reduction") or a.name in op.backward]
    lists = [a for a in op.args if a.type == "tensors"] if op.custom == "cat" else []
    wants = " || ".join([f"fai_wants_grad({a.name})" for a in differentiable] + [f"fai_any_wants_grad({a.call()})" for a in lists])
    kept_lists = [k for k in op.kept if k != "r" and op.arg(k).type == "tensors"]
    nkept = f"{len(op.kept) - len(kept_lists)}" + "".join(f" + n{k}" for k in kept_lists)
    ninputs = f"{len(op.tensors)}" + "".join(f" + n{a.name}" for a in lists)
    size = f"sizeof(fai_{op.name}_params)" if op.params else "0"
    out = [f"    fai_node *node = NULL;\n    if (fai_recording() && ({wants})) {{\n",
           f"        node = fai_node_new(&{op.name}_node, {ninputs}, {nkept}, {size});\n        bool ok = node != NULL"]
    for i, a in enumerate(op.tensors):
        out.append(f" && fai_node_input(node, {i}, {a.name}, {'true' if a in differentiable else 'false'})")
    out += [f" && fai_node_inputs(node, {len(op.tensors)}, {a.call()})" for a in lists]
    results = []
    for position, k in enumerate([k for k in op.kept if k not in kept_lists]):
        if k == "r":
            results.append(f"fai_node_keep(node, {position}, r, true)")
        elif op.arg(k).type in ("hidden", "out"):
            results.append(f"(fai_node_keep_hidden(node, {position}, {k}_result), true)")
        else:
            out.append(f" && fai_node_keep(node, {position}, {k}, false)")
    position = len(op.kept) - len(kept_lists)
    out += [f" && fai_node_keep_all(node, {position}, {k}, n{k})" for k in kept_lists]
    out.append(";\n        if (!ok) return fai_node_unref(node), NULL;\n")
    if op.params:
        out.append(f"        fai_{op.name}_params *p = node->params;\n")
        for a in op.params:
            out.append(f"        fai_copy_word(p->{a.name}, {a.name}, sizeof p->{a.name});\n" if a.type == "text" else f"        p->{a.name} = {a.name};\n")
    out.append("    }\n")
    after = "    if (node && !fai_is_float(r->dtype)) fai_node_unref(node);\n"
    if results:
        after += f"    else if (node && !({' && '.join(results)})) return fai_node_unref(node), NULL;\n"
    return "".join(out), after + "    else if (node) fai_node_finish(node, r);\n"


def backward_code(op):
    """The node's backward function and its fai_node_op."""
    if not (op.custom or op.backward or hasattr(op, "reduction")):
        return ""
    function = f"fai_{op.custom}_backward" if op.custom else f"{op.name}_backward"
    entry = f"static const fai_node_op {op.name}_node = {{.name = \"{camel(op.name)}\", .backward = {function}}};\n"
    if op.custom:
        return f"bool {function}(fai_node *node, fa_tensor *g, fa_tensor **grads);\n" + entry
    out = [f"static bool {op.name}_backward(fai_node *node, fa_tensor *g, fa_tensor **grads)\n{{\n"]
    if op.params:
        out.append(f"    const fai_{op.name}_params *p = node->params;\n    (void)p;\n")
    if hasattr(op, "reduction"):
        dims = "p->dims, p->keepdim" if op.name.endswith("_dims") else "(fa_shape){0, {0}}, false"
        out.append(f"    fai_operand v[5] = {{{{0}}}};\n    const double n[1] = {{fai_reduced_count(node, {dims})}};\n    (void)n;\n"
                   f"    v[0] = fai_of(fai_expand_reduced(node, g, {dims}));\n")
        for i, k in enumerate(op.kept):
            value = f"fai_node_kept(node, {i})"
            out.append(f"    v[{'gxyzr'.index(k)}] = fai_of({value if k == 'x' else f'fai_expand_reduced(node, {value}, {dims})'});\n")
        out.append(f"    grads[0] = {op.reduction.replace('p[0]', 'n[0]')};\n    return grads[0] != NULL;\n}}\n")
        return "".join(out) + entry
    position = 0
    lists = [k for k in op.kept if k != "r" and op.arg(k).type == "tensors"]
    for k in [k for k in op.kept if k not in lists]:
        out.append(f"    fa_tensor *{k} = fai_node_kept(node, {position});\n    if (!{k} && fa_failed()) return false;\n")
        position += 1
    for k in lists:
        out.append(f"    fa_tensor *{k}[FA_MAX_DIMS];\n    const int n{k} = node->nkept - {position};\n    if (!fai_node_kept_all(node, {position}, {k})) return false;\n")
    for i, a in enumerate(op.tensors):
        graph = op.backward.get(a.name)
        if not graph:
            continue
        value = f"fai_recording() ? {graph.c} : {graph.fast}" if graph.fast else graph.c
        out.append(f"    if (fai_node_needs(node, {i}) && !(grads[{i}] = {value})) return false;\n")
    out.append("    return true;\n}\n")
    return "".join(out) + entry


# ---- files ----

OPS_GUIDE = """/* Operators. How to read their names and arguments:
 *
 *   fa_add(x, y)                   a new tensor of the innermost scope; x and y broadcast, and their dtypes promote as in torch
 *   fa_add_(x, y)                  in place: changes x and returns it
 *   fa_add_scalar(x, 2.5)          a plain number for the last tensor; an integer or a bool stays one
 *   fa_sum(x), fa_sum_dims(x, FA_DIMS(0, -1), keepdim)    over all elements, or over some dimensions
 *   fa_conv2d(x, w, .stride = FA_DIMS(2))                 options by name; fa_conv2d_with takes them as a struct
 *
 * Dimensions and indices count from 0, negative ones from the end. All tensors of a call lie on one device, but for plain numbers
 * in 0-dimensional CPU tensors. Names ending in _grad, _backward, _element and the like are what derivatives are made of: public, so
 * that they can be differentiated again, and rarely called by hand. After an error the result is NULL (see fa_base.h). */
"""
HEAD = "/* Generated from the tables in src/ops by tools/gen_ops.py: change those. */\n"


def header(elementwise, ops):
    out = [HEAD, OPS_GUIDE, "#ifndef FA_OPS_H\n#define FA_OPS_H\n\n#include \"fa_tensor.h\"\n#include <math.h> /* NAN: a number that was not given */\n\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n"]
    for row in elementwise:
        out.append(f"\n/* {row.doc} */\n")
        for name, signature, _, _ in elementwise_declarations(row):
            out.append(f"FA_API fa_tensor *{name}({signature});\n")
        if len(row.args) > 1:
            scalars = [n for n, _, a, _ in elementwise_declarations(row) if a[-1][0] == "="]
            args = row.args + [p for p, _ in row.params]
            values = ", ".join(f"FA_NUM({a})" if a == row.args[-1] else f"({a})" for a in args)
            out.append("#ifndef __cplusplus\n" + "".join(f"#define {n}({', '.join(args)}) {n}({values})\n" for n in scalars) + "#endif\n")
    for op in ops:
        out.append(f"\n/* {op.doc} */\n")
        if op.has_options:
            out.append(options_struct(op) + options_macro(op))
        else:
            out.append(f"FA_API {declaration(op)};\n")
            scalars = [a for a in op.public if a.type == "scalar"]
            if scalars:
                names = ", ".join(a.name for a in op.public)
                values = ", ".join(f"FA_NUM({a.name})" if a in scalars else f"({a.name})" for a in op.public)
                out.append(f"#ifndef __cplusplus\n#define fa_{op.name}({names}) fa_{op.name}({values})\n#endif\n")
    out.append("\n#ifdef __cplusplus\n}\n#endif\n#endif\n")
    return "".join(out)


def reduction_table(ops):
    """The types of each reduction, for the dtype rule."""
    kinds = {"any": "FAI_TYPES_ANY", "real": "FAI_TYPES_REAL", "number": "FAI_TYPES_NUMBER", "float": "FAI_TYPES_FLOAT"}
    out = ["const fai_reduction_api fai_reduction_apis[FAI_REDUCE_COUNT] = {\n"]
    for op in ops:
        if hasattr(op, "row") and not op.name.endswith("_dims"):
            types, _, result = op.row["types"].partition(">")
            out.append(f"    [FAI_REDUCE_{op.name}] = {{{kinds[types]}, {'FA_' + result.upper() if result else 'FA_DTYPE_DEFAULT'}}},\n")
    return "".join(out) + "};\n"


def internal_header(ops):
    out = [HEAD, "#ifndef FAI_OPS_GEN_H\n#define FAI_OPS_GEN_H\n\n#include <fa_ops.h>\n\n"]
    for op in ops:
        if op.has_options:
            out.append(declaration(op) + ";\n")
        if op.casts and op.kind == "composite":
            out.append(declaration(op, op.own_name) + ";\n")
        if op.kind != "composite" and not hasattr(op, "row"):
            out.append(forward_declaration(op))
        if op.custom or op.backward or hasattr(op, "reduction"):
            out.append(params_struct(op))
    out.append("\n#endif\n")
    return "".join(out)


def source(elementwise, ops):
    out = [HEAD, "#include \"autograd/autocast.h\"\n#include \"autograd/generated.h\"\n\n"]
    table = []
    for row in elementwise:
        functions, entry = elementwise_table(row)
        out += functions
        table.append(entry)
    out.append(reduction_table(ops))
    out.append("const fai_row_api fai_row_apis[FAI_ROW_COUNT] = {\n" + "".join(table) + "};\n\n")
    out.append("const uint8_t fai_row_casts[FAI_ROW_COUNT] = {\n" +
               "".join(f"    [FAI_ROW_{r.name}] = {casts_code(r.casts)},\n" for r in elementwise if r.casts) + "};\n\n")
    for row in elementwise:
        # the macros of the same name would expand their own definition
        out += [f"#undef {n}\n" for n, _, a, _ in elementwise_declarations(row) if a[-1][0] == "="]
    out += [f"#undef fa_{op.name}\n" for op in ops if any(a.type == "scalar" for a in op.public)]
    for row in elementwise:
        out += elementwise_code(row)
    for op in ops:
        if op.kind != "composite":
            out.append(backward_code(op) + function_code(op))
        if op.casts:
            out.append(door_code(op))
        if op.has_options:
            out.append(options_code(op))
    return "\n".join(out)


def documentation(elementwise, ops):
    out = ["# Operators\n\nMade from the tables in src/ops. `g` is the incoming gradient, `r` the result.\n\n| function | what | derivative |\n|---|---|---|\n"]
    escape = lambda t: t.replace("|", "\\|")
    for row in elementwise:
        signature = next(elementwise_declarations(row))[1]
        derivative = "; ".join(f"{a}: `{e.text}`" for a, e in row.backward.items()) or "none"
        out.append(f"| `fa_{row.name}({signature})` | {escape(row.doc)} `{escape(row.forward.text)}` | {escape(derivative)} |\n")
    for op in ops:
        text = op.row["backward"] if hasattr(op, "row") else op.text
        derivative = {"-": "through its parts" if op.kind == "composite" else "none"}.get(text, f"`{text}`")
        out.append(f"| `fa_{op.name}({', '.join(a.declare() for a in op.public)})` | {escape(op.doc)} | {escape(derivative)} |\n")
    return "".join(out)


def test_list(elementwise, ops):
    """What tests of derivatives go by: a new row is in it, so that it can't be forgotten there."""
    out = [HEAD, "#ifndef OPS_LIST_H\n#define OPS_LIST_H\n\n#include \"ops/ops.h\"\n\n",
           "/* derivatives: bit i says that operand i has one; low and high: where operand i is drawn from */\n",
           "static const struct listed_row {\n    const char *name;\n    int row, operands;\n    unsigned derivatives;\n"
           "    double low[3], high[3];\n} listed_rows[] __attribute__((unused)) = {\n"]
    for row in elementwise:
        mask = sum(1 << i for i, a in enumerate(row.args) if a in row.backward)
        low, high = (", ".join(repr(d[side]) for d in row.domain) for side in (0, 1))
        out.append(f"    {{\"{row.name}\", FAI_ROW_{row.name}, {len(row.args)}, {mask}, {{{low}}}, {{{high}}}}},\n")
    out.append("};\n\n/* Operators of the other tables that have a derivative, and all composites. */\nstatic const char *const listed_ops[] __attribute__((unused)) = {\n")
    derived = [op for op in ops if op.kind == "composite" or op.custom or op.backward or hasattr(op, "reduction")]
    out += [f"    \"{op.name}\",\n" for op in derived]
    out.append("};\n\n/* All others. */\nstatic const char *const listed_rest[] __attribute__((unused)) = {\n")
    out += [f"    \"{op.name}\",\n" for op in ops if op not in derived]
    return "".join(out) + "};\n\n#endif\n"


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if not os.path.exists(path) or open(path, encoding="utf-8").read() != text:
        open(path, "w", encoding="utf-8").write(text)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--tables", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "src", "ops"))
    a = parser.parse_args()
    tables = rows.load(a.tables)
    elementwise = tables["elementwise"]
    ops = reduction_ops(tables["reduce"])
    ops += [Op(r, None) for r in rows.read_table(os.path.join(a.tables, "tensor.tab"), TENSOR)]
    known = {r.name: r for r in elementwise}
    known.update({op.name: op for op in ops})
    for line in rows.read_table(os.path.join(a.tables, "autocast.tab"), ["op", "cpu", "other"]):
        casts = line["cpu"], line["other"]
        if line["op"] not in known or set(casts) - set(CASTS):
            raise RowError(f"{line['at']}: an operator of the other tables and {', '.join(CASTS)} are known")
        known[line["op"]].casts = casts
    for op in ops:
        reduction_backward(op, known) if hasattr(op, "row") else op.parse_backward(known)
    write(os.path.join(a.out, "include", "fa_ops.h"), header(elementwise, ops))
    write(os.path.join(a.out, "include", "ops_gen.h"), internal_header(ops))
    write(os.path.join(a.out, "include", "ops_list.h"), test_list(elementwise, ops))
    write(os.path.join(a.out, "gen", "ops_gen.c"), source(elementwise, ops))
    write(os.path.join(a.out, "docs", "ops.md"), documentation(elementwise, ops))


if __name__ == "__main__":
    main()
