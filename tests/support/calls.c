/* Operators by name, and the inputs of the golden file's cases. */
#include "calls.h"
#include <fa_functional.h>
#include <fa_ops.h>
#include <stdlib.h>
#include <string.h>

#include <golden_calls.h>

/* ---- making tensors: by hand too, they are not rows ---- */

static fa_tensor *make_zeros(const golden_arg *a) { return fa_zeros(a[0].shape, .dtype = a[1].dtype); }
static fa_tensor *make_ones(const golden_arg *a) { return fa_ones(a[0].shape, .dtype = a[1].dtype); }
static fa_tensor *make_full(const golden_arg *a) { return fa_full(a[0].shape, a[1].scalar, .dtype = a[2].dtype); }
static fa_tensor *make_arange(const golden_arg *a) {
    return fa_arange(a[0].scalar, a[1].scalar, a[2].scalar, .dtype = a[3].dtype);
}
static fa_tensor *make_linspace(const golden_arg *a) { return fa_linspace(a[0].f, a[1].f, a[2].i, .dtype = a[3].dtype); }
static fa_tensor *make_eye(const golden_arg *a) { return fa_eye(a[0].i, a[1].i, .dtype = a[2].dtype); }
static fa_tensor *make_rand(const golden_arg *a) { return fa_rand(a[0].shape, .dtype = a[1].dtype); }
static fa_tensor *make_randn(const golden_arg *a) { return fa_randn(a[0].shape, .dtype = a[1].dtype); }
static fa_tensor *make_randint(const golden_arg *a) { return fa_randint(a[0].i, a[1].i, a[2].shape, .dtype = a[3].dtype); }
static fa_tensor *make_randperm(const golden_arg *a) { return fa_randperm(a[0].i, .dtype = a[1].dtype); }
static fa_tensor *make_zeros_like(const golden_arg *a) { return fa_zeros_like(a[0].tensor); }
static fa_tensor *make_ones_like(const golden_arg *a) { return fa_ones_like(a[0].tensor); }
static fa_tensor *make_full_like(const golden_arg *a) { return fa_full_like(a[0].tensor, a[1].scalar); }

static fa_tensor *draw_multinomial(const golden_arg *a) { return fa_multinomial(a[0].tensor, a[1].i, a[2].i != 0, NULL); }
static fa_tensor *draw_bernoulli(const golden_arg *a) { return fa_bernoulli(a[0].tensor, NULL); }
static fa_tensor *draw_normal(const golden_arg *a) { return fa_normal(a[0].tensor, a[1].tensor, NULL); }
static fa_tensor *draw_normal_mean(const golden_arg *a) { return fa_normal_mean(a[0].tensor, a[1].f, NULL); }
static fa_tensor *draw_normal_std(const golden_arg *a) { return fa_normal_std(a[0].f, a[1].tensor, NULL); }
static fa_tensor *draw_exponential(const golden_arg *a) { return fa_exponential_(a[0].tensor, a[1].f, NULL); }
static fa_tensor *draw_random(const golden_arg *a) { return fa_random_(a[0].tensor, NULL); }
static fa_tensor *draw_random_range(const golden_arg *a) { return fa_random_range_(a[0].tensor, a[1].i, a[2].i, NULL); }
static fa_tensor *put(const golden_arg *a) { return fa_put_(a[0].tensor, a[1].tensor, a[2].tensor, a[3].i != 0); }

/* The last argument, "*", is the case's element type. */
static const golden_call making_calls[] = {
    {"zeros", 2, {"shape", "*"}, make_zeros},
    {"ones", 2, {"shape", "*"}, make_ones},
    {"full", 3, {"shape", "value", "*"}, make_full},
    {"arange", 4, {"start", "end", "step", "*"}, make_arange},
    {"linspace", 4, {"start", "end", "steps", "*"}, make_linspace},
    {"eye", 3, {"rows", "columns", "*"}, make_eye},
    {"rand", 2, {"shape", "*"}, make_rand},
    {"randn", 2, {"shape", "*"}, make_randn},
    {"randint", 4, {"low", "high", "shape", "*"}, make_randint},
    {"randperm", 2, {"n", "*"}, make_randperm},
    {"zeros_like", 1, {"x"}, make_zeros_like},
    {"ones_like", 1, {"x"}, make_ones_like},
    {"full_like", 2, {"x", "value"}, make_full_like},
    {"multinomial", 3, {"p", "n", "replacement"}, draw_multinomial},
    {"bernoulli", 1, {"p"}, draw_bernoulli},
    {"normal", 2, {"mean", "std"}, draw_normal},
    {"normal_mean", 2, {"mean", "std"}, draw_normal_mean},
    {"normal_std", 2, {"mean", "std"}, draw_normal_std},
    {"exponential_", 2, {"t", "lambda"}, draw_exponential},
    {"random_", 1, {"t"}, draw_random},
    {"random_range_", 3, {"t", "low", "high"}, draw_random_range},
    {"put_", 4, {"t", "index", "src", "accumulate"}, put},
};

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))
const golden_call *golden_find_call(const char *name) {
    for (int i = 0; i < COUNT(golden_calls); i++) {
        if (strcmp(golden_calls[i].name, name) == 0) return &golden_calls[i];
    }
    for (int i = 0; i < COUNT(making_calls); i++) {
        if (strcmp(making_calls[i].name, name) == 0) return &making_calls[i];
    }
    return NULL;
}

int golden_call_count(void) { return COUNT(golden_calls) + COUNT(making_calls); }
const golden_call *golden_call_at(int i) {
    return i < COUNT(golden_calls) ? &golden_calls[i] : &making_calls[i - COUNT(golden_calls)];
}

/* ---- inputs ---- */

/* Strides, in elements, of a layout; returns how many elements the memory takes. s: every second, from 1 on; t: dimensions the
 * other way round; n: channels last; e: the first dimension repeated. */
static int64_t lay_out(char layout, fa_shape shape, int64_t *stride, int64_t *offset) {
    int order[FA_MAX_DIMS], n = shape.ndim;
    for (int i = 0; i < n; i++) order[i] = layout == 't' ? n - 1 - i : i;
    if (layout == 'n' && n == 4) order[1] = 2, order[2] = 3, order[3] = 1;
    int64_t step = layout == 's' ? 2 : 1;
    *offset = layout == 's' ? 1 : 0;
    for (int k = n - 1; k >= 0; k--) {
        stride[order[k]] = step;
        step *= shape.dim[order[k]];
    }
    if (layout == 'e') {
        stride[0] = 0;
        step = golden_numel(shape) / shape.dim[0];
    }
    return step + *offset;
}

/* Whether the call writes to the tensor: then its elements have memory of their own. */
static bool is_written(const golden_case *c, int index) {
    for (int i = 0; i < c->nchanges; i++) {
        if (c->args[c->changes[i].at].first == index) return true;
    }
    return false;
}

/* Values in C order, whatever the layout. */
static bool logical(const golden_tensor *t, bool expanded, double *out) {
    const int64_t n = golden_numel(t->shape), own = expanded && n ? n / t->shape.dim[0] : n;
    if (t->kind == 'v') {
        if (t->nvalues != n) return false;
        memcpy(out, t->values, (size_t)n * sizeof *out);
        return true;
    }
    if (golden_draw(t->kind, t->low, t->high, t->seed, own, out) != 0) return false;
    for (int64_t i = own; i < n; i++) out[i] = out[i % own];
    return true;
}

static void place(fa_shape shape, const int64_t *stride, int64_t offset, const double *values, double *memory) {
    const int64_t n = golden_numel(shape);
    for (int64_t i = 0; i < n; i++) {
        int64_t rest = i, at = offset;
        for (int d = shape.ndim - 1; d >= 0; d--) {
            at += rest % shape.dim[d] * stride[d];
            rest /= shape.dim[d];
        }
        memory[at] = values[i];
    }
}

fa_tensor *golden_input(const golden_case *c, int index, fa_dtype type, char layout, fa_device device) {
    const golden_tensor *t = &c->tensors[index];
    const int64_t n = golden_numel(t->shape);
    if (t->dtype) type = t->dtype;
    if (layout == 'M') layout = "tsfc"[index % 4];
    if (n == 0 || t->shape.ndim == 0 || (layout == 'n' && t->shape.ndim != 4)) layout = 'c';
    if (layout == 'e' && (t->kind == 'v' || is_written(c, index))) layout = 'c';
    double *values = malloc((size_t)(n * 3 + 8) * sizeof *values), *memory = values ? values + n : NULL;
    if (!values || !logical(t, layout == 'e', values)) return free(values), NULL;
    fa_tensor *made;
    if (layout == 'f') {
        for (int64_t i = 0; i < n; i++) memory[i] = values[n - 1 - i];
        fa_shape dims = {t->shape.ndim, {0, 1, 2, 3, 4, 5, 6, 7}};
        made = fa_flip(fa_from_data(memory, FA_FLOAT64, t->shape, .dtype = type, .device = device), dims);
    } else if (layout == 'c') {
        made = fa_from_data(values, FA_FLOAT64, t->shape, .dtype = type, .device = device);
    } else {
        fa_shape stride = {t->shape.ndim, {0}};
        int64_t offset;
        const int64_t room = lay_out(layout, t->shape, stride.dim, &offset);
        for (int64_t i = 0; i < room; i++) memory[i] = 1;
        place(t->shape, stride.dim, offset, values, memory);
        fa_tensor *flat = fa_from_data(memory, FA_FLOAT64, FA_SHAPE(room), .dtype = type, .device = device);
        made = fa_as_strided(flat, t->shape, stride, offset);
    }
    free(values);
    return made;
}

/* ---- calling ---- */

fa_tensor *golden_run(const golden_case *c, const golden_call *call, fa_dtype type, fa_device device, fa_tensor *const *inputs,
                      fa_tensor **second) {
    golden_arg args[GOLDEN_MAX_ARGS];
    memset(args, 0, sizeof args);
    int used = 0;
    for (int k = 0; k < call->nargs; k++) {
        if (strcmp(call->args[k], "*") == 0) args[k].dtype = type;
        for (int i = 0; i < c->nargs; i++) {
            const golden_spec *s = &c->args[i];
            if (strcmp(s->name, call->args[k]) != 0) continue;
            used++;
            args[k] = (golden_arg){.given = true,
                                   .i = s->i,
                                   .f = s->f,
                                   .scalar = s->scalar,
                                   .shape = s->shape,
                                   .factors = {1, {s->f}},
                                   .dtype = s->dtype,
                                   .text = s->text,
                                   .list = &inputs[s->first],
                                   .nlist = s->n};
            if (s->kind == 'T') args[k].tensor = inputs[s->first];
            if (s->kind == 'O') args[k].out = second;
        }
    }
    if (used != c->nargs) return NULL;
    if (c->seeded) fa_manual_seed(c->seed);
    FA_DEVICE_SCOPE(device);
    return call->call(args);
}

fa_tensor *golden_weights(const golden_case *c, fa_tensor *of, uint64_t seed) {
    const int64_t n = fa_numel(of);
    double *v = malloc((size_t)(n + 1) * sizeof *v);
    fa_tensor *w = NULL;
    if (v && golden_draw(c->gkind, c->glow, c->ghigh, seed, n, v) == 0)
        w = fa_from_data(v, FA_FLOAT64, fa_shape_of_tensor(of), .dtype = fa_dtype_of(of), .device = fa_device_of(of));
    free(v);
    return w;
}

bool golden_in_place(const golden_case *c, int type, char name[64]) {
    if (c->nout != 1 || !c->ntensors || c->tensors[0].null || c->nchanges) return false;
    const fa_dtype x = c->tensors[0].dtype ? c->tensors[0].dtype : c->types[type];
    if (x != c->results[type][0] || c->tensors[0].shape.ndim != c->out[0].shape.ndim) return false;
    for (int i = 0; i < c->out[0].shape.ndim; i++) {
        if (c->out[0].shape.dim[i] != c->tensors[0].shape.dim[i]) return false;
    }
    snprintf(name, 64, "%s_", c->op);
    return golden_find_call(name) != NULL;
}
