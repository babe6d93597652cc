/* What the layers made from layers.tab lean on: parameters with their initial values, arguments as torch prints them. */
#include "module.h"
#include "../ops/random.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static __thread fa_dtype build_dtype;
static __thread bool build_blank;

void fai_layer_dtype(fa_dtype dtype) { build_dtype = dtype; }
void fai_layer_blank(bool on) { build_blank = on; }
bool fai_layer_is_blank(void) { return build_blank; }

static bool fill(fa_module *m, fa_tensor *t, const char *init, double number)
{
    const char *op = m->type->name;
    if (strcmp(init, "zeros") == 0) return fai_zero(op, t);
    if (strcmp(init, "ones") == 0) return fai_fill_scalar(op, t, fa_scalar_of_float(1));
    if (strcmp(init, "kaiming") == 0) return fa_init_kaiming_uniform(t, sqrt(5), "fan_in", "leaky_relu") != NULL;
    if (strcmp(init, "padded") == 0) {
        if (!fai_fill_normal(op, t, 0, 1, NULL)) return false;
        fa_tensor *row = number >= 0 ? fa_select(t, 0, (int64_t)number) : NULL;
        return number < 0 || (row && fai_zero(op, row));
    }
    if (strcmp(init, "fill") == 0) return fai_fill_scalar(op, t, fa_scalar_of_float(number));
    if (strcmp(init, "within") == 0) return fai_fill_uniform(op, t, -1 / sqrt(number), 1 / sqrt(number), NULL);
    /* fan_in: within 1 / sqrt of what reaches one output of the first parameter */
    const fa_tensor *weight = fai_slot(m, 0);
    double fan_in = weight->size[0] ? (double)(weight->numel / weight->size[0]) : 0;
    double bound = fan_in > 0 ? 1 / sqrt(fan_in) : 0;
    return fai_fill_uniform(op, t, -bound, bound, NULL);
}

/* Named here, so that the error speaks of the layer and not of the tensor inside it. */
static bool sizes_ok(const fa_module *m, const char *name, int ndim, const int64_t *size)
{
    for (int i = 0; i < ndim; i++) {
        if (size[i] >= 0) continue;
        char text[160];
        fai_text_shape(text, sizeof text, ndim, size);
        return fai_fail(FA_ERR_RUNTIME, m->type->name,
                        "Trying to create tensor with negative dimension %lld: %s. That would be '%s': sizes of a layer are 0 or more",
                        (long long)size[i], text, name), false;
    }
    return true;
}

bool fai_layer_parameter(fa_module *m, const char *name, bool wanted, int ndim, const int64_t *size, const char *init, double number)
{
    FA_SCOPE;
    FA_NO_GRAD;
    if (!wanted) return fa_add_parameter(m, name, NULL);
    if (!sizes_ok(m, name, ndim, size)) return false;
    fa_tensor *t = fa_empty_with(fa_shape_of(ndim, size), &(fa_tensor_options){.struct_size = sizeof(fa_tensor_options), .dtype = build_dtype});
    return t && (build_blank || fill(m, t, init, number)) && fa_add_parameter(m, name, t);
}

bool fai_layer_buffer(fa_module *m, const char *name, bool wanted, int ndim, const int64_t *size, double value)
{
    FA_SCOPE;
    if (!wanted) return fa_add_buffer(m, name, NULL, true);
    if (!sizes_ok(m, name, ndim, size)) return false;
    fa_tensor *t = fa_empty_with(fa_shape_of(ndim, size), &(fa_tensor_options){.struct_size = sizeof(fa_tensor_options), .dtype = build_dtype});
    return t && fai_fill_scalar(m->type->name, t, fa_scalar_of_float(value)) && fa_add_buffer(m, name, t, true);
}

bool fai_layer_counter(fa_module *m, const char *name, bool wanted)
{
    FA_SCOPE;
    if (!wanted) return fa_add_buffer(m, name, NULL, true);
    fa_tensor *t = fa_zeros_with(fa_shape_of(0, NULL), &(fa_tensor_options){.struct_size = sizeof(fa_tensor_options), .dtype = FA_INT64});
    return t && fa_add_buffer(m, name, t, true);
}

bool fai_layer_inputs(const fa_module *m, fa_tensor *const *inputs, int ninputs, int wanted)
{
    static const char *const names[] = {"input", "input 2", "input 3"};
    if (ninputs != wanted)
        return !fa_failed() && fai_fail(FA_ERR_TYPE, m->type->name, "%s.forward() takes %d input%s but %d were given", m->type->name,
                                        wanted, wanted == 1 ? "" : "s", ninputs);
    for (int i = 0; i < wanted; i++)
        if (!inputs[i]) return fai_check(m->type->name, names[i], NULL);
    return true;
}

fa_module *fai_layer_make(int layer)
{
    fa_module *m = fai_module_make(fai_layers[layer].type, fai_layers[layer].bytes);
    if (m) m->layer = &fai_layers[layer];
    return m;
}

fa_module *fai_layer_done(fa_module *m, bool ok)
{
    m->nslots = m->nentries;
    if (ok && m->object.type) ok = fai_other_face.built(m);
    if (!ok) fa_drop(m);
    return ok ? m : NULL;
}

bool fai_layer_refuse(const char *layer, const char *format, ...)
{
    char text[500];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    return fai_fail(FA_ERR_VALUE, layer, "%s", text), false;
}

/* ---- what arguments may be ---- */

bool fai_layer_sides(const char *layer, const char *argument, fa_shape *given, int sides, bool expand)
{
    static const char *const wanted[] = {"", "one number", "one number or two (FA_DIMS(h, w))", "one number or three (FA_DIMS(d, h, w))",
                                         "one number or four (FA_DIMS(left, right, top, bottom))", "",
                                         "one number or six (FA_DIMS(left, right, top, bottom, front, back))"};
    if (given->ndim != 1 && given->ndim != sides)
        return fai_fail(FA_ERR_VALUE, layer, "argument '%s' must be %s, but %d were given", argument, wanted[sides], given->ndim);
    while (expand && given->ndim < sides) given->dim[given->ndim] = given->dim[0], given->ndim++;
    return true;
}

bool fai_layer_word(const char *layer, const char *argument, const char **word, const char *const *words)
{
    char choices[200] = "";
    for (int i = 0; words[i]; i++) {
        if (*word && strcmp(*word, words[i]) == 0) return *word = words[i], true;
        fai_layer_describe(choices, sizeof choices, "%s'%s'", i ? ", " : "", words[i]);
    }
    return fai_fail(FA_ERR_VALUE, layer, "%s must be one of {%s}, but got %s='%s'", argument, choices, argument, *word ? *word : "NULL");
}

int64_t fai_layer_least(fa_shape shape)
{
    int64_t least = INT64_MAX;
    for (int i = 0; i < shape.ndim && i < FA_MAX_DIMS; i++)
        if (shape.dim[i] < least) least = shape.dim[i];
    return least;
}

bool fai_layer_is(fa_shape shape, int64_t value)
{
    for (int i = 0; i < shape.ndim && i < FA_MAX_DIMS; i++)
        if (shape.dim[i] != value) return false;
    return true;
}

/* ---- batch normalisation: the statistics' shape and the counter ---- */

/* The sides that a layer's name ends with, "InstanceNorm2d": 2. */
static int sides_of(const fa_module *m) { return m->type->name[strlen(m->type->name) - 2] - '0'; }

fa_tensor *fai_batch_norm_layer(fa_module *m, fa_tensor *x)
{
    enum { WEIGHT, BIAS, MEAN, VAR, BATCHES };
    const fai_batch_norm_arguments *a = m->data;
    fa_tensor *mean = fai_slot(m, MEAN), *var = fai_slot(m, VAR), *batches = fai_slot(m, BATCHES);
    const int sides = sides_of(m);
    if (sides == 1 ? x->ndim != 2 && x->ndim != 3 : x->ndim != sides + 2)
        return fai_fail(FA_ERR_VALUE, m->type->name, "expected %s input (got %dD input)", sides == 1 ? "2D or 3D" : sides == 2 ? "4D" : "5D", x->ndim);
    const bool training = m->training || !mean;
    fa_tensor *r = fai_batch_norm(x, mean, var, fai_slot(m, WEIGHT), fai_slot(m, BIAS), training, a->momentum, a->eps);
    if (r && m->training && batches && !fai_row_into(m->type->name, FAI_ROW_add, batches, 2, (fai_operand[]){{.tensor = batches}, {.scalar = fa_scalar_of_int(1)}}, NULL)) return NULL;
    return r;
}

/* ---- layers whose input may lack its batch ---- */

fa_tensor *fai_instance_norm_layer(fa_module *m, fa_tensor *x)
{
    enum { WEIGHT, BIAS, MEAN, VAR };
    const fai_instance_norm_arguments *a = m->data;
    fa_tensor *mean = fai_slot(m, MEAN), *var = fai_slot(m, VAR);
    const int sides = sides_of(m), channels = x->ndim - sides - 1;
    if (channels != 0 && channels != 1)
        return fai_fail(FA_ERR_VALUE, m->type->name, "expected %dD or %dD input (got %dD input)", sides + 1, sides + 2, x->ndim);
    if (x->size[channels] != a->num_features && (a->affine || mean))
        return fai_fail(FA_ERR_VALUE, m->type->name, "expected input's size at dim=%d to match num_features (%lld), but got: %lld.",
                        channels, (long long)a->num_features, (long long)x->size[channels]);
    if (x->size[channels] != a->num_features)
        fai_warn(m->type->name, "input's size at dim=%d does not match num_features. You can silence this warning by not passing in "
                 "num_features, which is not used because affine=False", channels);
    FA_SCOPE;
    fa_tensor *r = fai_instance_norm(channels ? x : fa_unsqueeze(x, 0), mean, var, fai_slot(m, WEIGHT), fai_slot(m, BIAS),
                                     m->training || !mean, a->momentum, a->eps);
    return fa_keep(channels ? r : fa_squeeze_dim(r, 0));
}

fa_tensor *fai_dropout_channels_layer(fa_module *m, fa_tensor *x)
{
    const fai_dropout_channels_arguments *a = m->data;
    const int sides = sides_of(m);
    if (sides == 1 && x->ndim != 2 && x->ndim != 3)
        return fai_fail(FA_ERR_RUNTIME, m->type->name, "dropout1d: Expected 2D or 3D input, but received a %dD input: [n, c, l] or [c, l]", x->ndim);
    const bool unbatched = x->ndim == sides + 1 && sides != 2; /* torch takes [n, c, l] for two sides */
    FA_SCOPE;
    fa_tensor *r = fa_feature_dropout(unbatched ? fa_unsqueeze(x, 0) : x, a->p, m->training);
    return unbatched ? fa_keep(fa_squeeze_dim(r, 0)) : r == x ? x : fa_keep(r);
}

fa_tensor *fai_softmax2d_layer(fa_module *m, fa_tensor *x)
{
    if (x->ndim == 3 || x->ndim == 4) return fa_softmax(x, -3);
    return fai_fail(FA_ERR_VALUE, m->type->name, "Softmax2d: expected input to be 3D or 4D, got %dD instead", x->ndim);
}

/* ---- text ---- */

/* The shortest digits that read back as v, as Python prints a float: 0.1, 20.0, 1e-05. */
void fai_text_float(char *out, size_t n, double v)
{
    char shortest[32] = "";
    int digits = 0;
    double back = 0;
    if (!isfinite(v)) {
        snprintf(out, n, isnan(v) ? "nan" : v < 0 ? "-inf" : "inf");
        return;
    }
    do snprintf(shortest, sizeof shortest, "%.*e", digits, v);
    while (digits++ < 16 && (sscanf(shortest, "%lf", &back) != 1 || back != v));
    const int exponent = atoi(strchr(shortest, 'e') + 1), decimals = digits - 1 - exponent;
    if (exponent < -4 || exponent >= 16) snprintf(out, n, "%s", shortest);
    else snprintf(out, n, "%.*f", decimals > 0 ? decimals : 1, v);
}

void fai_text_tuple(char *out, size_t n, fa_shape shape)
{
    size_t at = (size_t)snprintf(out, n, "(");
    for (int i = 0; i < shape.ndim && at < n; i++) at += (size_t)snprintf(out + at, n - at, "%s%lld", i ? ", " : "", (long long)shape.dim[i]);
    if (at < n) snprintf(out + at, n - at, shape.ndim == 1 ? ",)" : ")");
}

void fai_text_window(char *out, size_t n, fa_shape shape)
{
    snprintf(out, n, "%s", shape.ndim ? "" : "None");
    for (int i = 0; i < shape.ndim; i++) {
        fai_layer_describe(out, n, "%s", shape.ndim == 1 ? "" : i ? ", " : "(");
        if (shape.dim[i] < 0) fai_layer_describe(out, n, "None");
        else fai_layer_describe(out, n, "%lld", (long long)shape.dim[i]);
    }
    if (shape.ndim > 1) fai_layer_describe(out, n, ")");
}

void fai_text_optional(char *out, size_t n, double v)
{
    if (v < 0) snprintf(out, n, "None");
    else fai_text_float(out, n, v);
}

void fai_text_factors(char *out, size_t n, fa_factors factors)
{
    *out = 0;
    for (int i = 0; i < factors.n; i++) {
        char one[32];
        fai_text_float(one, sizeof one, factors.factor[i]);
        fai_layer_describe(out, n, "%s%s", factors.n == 1 ? "" : i ? ", " : "(", one);
    }
    if (factors.n > 1) fai_layer_describe(out, n, ")");
}

void fai_layer_describe(char *text, size_t n, const char *format, ...)
{
    size_t used = strnlen(text, n);
    va_list values;
    va_start(values, format);
    if (used < n) vsnprintf(text + used, n - used, format, values);
    va_end(values);
}
