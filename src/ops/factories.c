/* Factories: tensors of given contents. Constants are filled on the device; sequences are computed here on the host, in the
 * formulas of PyTorch, and copied. */
#include "random.h"
#include "views.h"
#include <fa_autograd.h>
#include <float.h>
#include <math.h>
#include <string.h>

/* ---- options ---- */

/* What the caller gave, with defaults filled in; a program built with an older header gives fewer of them. */
static bool read_options(const char *op, const fa_tensor_options *given, fa_dtype dtype, fa_device device,
                         fa_tensor_options *out) {
    memset(out, 0, sizeof *out);
    if (given) memcpy(out, given, given->struct_size < sizeof *out ? given->struct_size : sizeof *out);
    if (out->dtype == FA_DTYPE_DEFAULT) out->dtype = dtype;
    if (out->device.type == 0) out->device = device;
    if (out->dtype < FA_BOOL || out->dtype >= FA_DTYPE_COUNT)
        return fai_fail(FA_ERR_TYPE, op, ".dtype: there is no element type number %d; give one of FA_BOOL to FA_FLOAT64",
                        (int)out->dtype);
    if (out->requires_grad && !fai_is_float(out->dtype))
        return fai_fail(
            FA_ERR_RUNTIME, op,
            "Only Tensors of floating point and complex dtype can require gradients; found %s. Give .dtype = FA_FLOAT32, "
            "or leave .requires_grad out.",
            fa_dtype_name(out->dtype));
    if (!fai_device_resolve(&out->device, op)) return false;
    if (!out->pin_memory || out->device.type == FA_DEVICE_CPU) return true;
    return fai_fail(FA_ERR_RUNTIME, op, "Only dense CPU tensors can be pinned; this one is to lie on %s, which needs none. Leave .pin_memory out",
                    fa_device_text(out->device));
}

static fa_tensor *new_memory(const char *op, int ndim, const int64_t *size, const fa_tensor_options *o) {
    if (o->pin_memory) return fai_empty_pinned(op, o->dtype, (fa_device){0, 0}, ndim, size);
    return fai_empty(op, o->dtype, o->device, ndim, size);
}

static fa_tensor *make(const char *op, fa_shape shape, const fa_tensor_options *o) {
    return fai_shape_ok(op, "shape", shape) ? new_memory(op, shape.ndim, shape.dim, o) : NULL;
}

/* The end of every factory: t if it was filled, else nothing. */
static fa_tensor *finish(fa_tensor *t, bool filled, const fa_tensor_options *o) {
    if (t && filled && (!o->requires_grad || fa_requires_grad(t, true))) return t;
    fa_drop(t);
    return NULL;
}

static const fa_device anywhere = {0, 0};

/* ---- constants ---- */

static fa_dtype dtype_of_scalar(fa_scalar value) {
    return value.kind == FA_SCALAR_BOOL ? FA_BOOL : value.kind == FA_SCALAR_INT ? FA_INT64 : fa_default_dtype();
}

static fa_tensor *filled(const char *op, fa_tensor *t, fa_scalar value, const fa_tensor_options *o) {
    return finish(t, t && fai_number_fits(op, value, o->dtype) && fai_fill_scalar(op, t, value), o);
}

fa_tensor *fa_empty_with(fa_shape shape, const fa_tensor_options *options) {
    fa_tensor_options o;
    if (!read_options("empty", options, fa_default_dtype(), anywhere, &o)) return NULL;
    return finish(make("empty", shape, &o), true, &o);
}

fa_tensor *fa_zeros_with(fa_shape shape, const fa_tensor_options *options) {
    fa_tensor_options o;
    if (!read_options("zeros", options, fa_default_dtype(), anywhere, &o)) return NULL;
    fa_tensor *t = make("zeros", shape, &o);
    return finish(t, t && fai_zero("zeros", t), &o);
}

fa_tensor *fa_ones_with(fa_shape shape, const fa_tensor_options *options) {
    fa_tensor_options o;
    if (!read_options("ones", options, fa_default_dtype(), anywhere, &o)) return NULL;
    return filled("ones", make("ones", shape, &o), fa_scalar_of_int(1), &o);
}

fa_tensor *fa_full_with(fa_shape shape, fa_scalar value, const fa_tensor_options *options) {
    fa_tensor_options o;
    if (!read_options("full", options, dtype_of_scalar(value), anywhere, &o)) return NULL;
    return filled("full", make("full", shape, &o), value, &o);
}

fa_tensor *fa_eye_with(int64_t rows, int64_t columns, const fa_tensor_options *options) {
    fa_tensor_options o;
    if (rows < 0) return fai_fail(FA_ERR_RUNTIME, "eye", "n must be greater or equal to 0, got %lld", (long long)rows);
    if (columns < 0) return fai_fail(FA_ERR_RUNTIME, "eye", "m must be greater or equal to 0, got %lld", (long long)columns);
    if (!read_options("eye", options, fa_default_dtype(), anywhere, &o)) return NULL;
    fa_tensor *t = make("eye", FA_SHAPE(rows, columns), &o);
    fa_tensor *diagonal = t && fai_zero("eye", t) ? fai_diagonal_forward(t, 0, 0, 1) : NULL;
    const bool ok = diagonal && (diagonal->numel == 0 || fai_fill_scalar("eye", diagonal, fa_scalar_of_int(1)));
    fa_drop(diagonal);
    return finish(t, ok, &o);
}

/* ---- the same for the shape of another tensor; the order of its dimensions in memory is kept, as torch does ---- */

static fa_tensor *make_like(const char *op, fa_tensor *like, const fa_tensor_options *given, fa_tensor_options *o) {
    if (!fai_check(op, "like", like) || !read_options(op, given, (fa_dtype)like->dtype, like->device, o)) return NULL;
    fa_tensor *t = new_memory(op, like->ndim, like->size, o);
    if (t) fai_order_like(t, like->stride);
    return t;
}

fa_tensor *fa_empty_like_with(fa_tensor *like, const fa_tensor_options *options) {
    fa_tensor_options o;
    fa_tensor *t = make_like("empty_like", like, options, &o);
    return t ? finish(t, true, &o) : NULL;
}

fa_tensor *fa_zeros_like_with(fa_tensor *like, const fa_tensor_options *options) {
    fa_tensor_options o;
    fa_tensor *t = make_like("zeros_like", like, options, &o);
    return t ? finish(t, fai_zero("zeros_like", t), &o) : NULL;
}

fa_tensor *fa_ones_like_with(fa_tensor *like, const fa_tensor_options *options) {
    fa_tensor_options o;
    fa_tensor *t = make_like("ones_like", like, options, &o);
    return t ? filled("ones_like", t, fa_scalar_of_int(1), &o) : NULL;
}

fa_tensor *fa_full_like_with(fa_tensor *like, fa_scalar value, const fa_tensor_options *options) {
    fa_tensor_options o;
    fa_tensor *t = make_like("full_like", like, options, &o);
    return t ? filled("full_like", t, value, &o) : NULL;
}

/* ---- data of the caller ---- */

/* Writes numel elements of type `from` at data into t, a new and contiguous tensor. */
static bool write_data(const char *op, fa_tensor *t, const void *data, fa_dtype from) {
    const size_t bytes = (size_t)t->numel * fa_dtype_size((fa_dtype)t->dtype);
    if (t->numel == 0) return true;
    if (fai_on_cpu(t)) {
        fai_convert(fai_host(t), (fa_dtype)t->dtype, data, from, t->numel);
        return true;
    }
    if (t->dtype == from) {
        if (!fai_copy_to_device(t->buffer, 0, data, bytes, op)) return false;
        fai_note_range(t, data);
        return true;
    }
    void *converted = fai_alloc_aligned(FAI_TAG_DATA, bytes);
    if (!converted) return fai_fail_memory(op, bytes);
    fai_convert(converted, (fa_dtype)t->dtype, data, from, t->numel);
    const bool ok = fai_copy_to_device(t->buffer, 0, converted, bytes, op);
    if (ok) fai_note_range(t, converted);
    fai_free_aligned(FAI_TAG_DATA, converted, bytes);
    return ok;
}

fa_tensor *fa_from_data_with(const void *data, fa_dtype from, fa_shape shape, const fa_tensor_options *options) {
    fa_tensor_options o;
    if (from <= FA_DTYPE_DEFAULT || from >= FA_DTYPE_COUNT)
        return fai_fail(FA_ERR_TYPE, "from_data",
                        "argument 'from': there is no element type number %d; give one of FA_BOOL to FA_FLOAT64", (int)from);
    if (!read_options("from_data", options, from, anywhere, &o)) return NULL;
    fa_tensor *t = make("from_data", shape, &o);
    if (!t) return NULL;
    bool ok = true;
    if (!data && t->numel)
        ok = fai_fail(FA_ERR_VALUE, "from_data", "argument 'data' is NULL, but the shape has %lld elements", (long long)t->numel);
    return finish(t, ok && write_data("from_data", t, data, from), &o);
}

fa_tensor *fa_from_memory(void *data, fa_dtype dtype, fa_shape shape, void (*release)(void *context), void *context) {
    const char *op = "from_memory";
    if (dtype <= FA_DTYPE_DEFAULT || dtype >= FA_DTYPE_COUNT)
        return fai_fail(FA_ERR_TYPE, op,
                        "argument 'dtype': there is no element type number %d; give one of FA_BOOL to FA_FLOAT64", (int)dtype);
    if (!fai_shape_ok(op, "shape", shape)) return NULL;
    int64_t numel = 1, bytes;
    for (int d = 0; d < shape.ndim; d++)
        if (shape.dim[d] < 0 || !fai_mul(numel, shape.dim[d], &numel))
            return fai_fail(FA_ERR_RUNTIME, op, "argument 'shape': size %lld of dimension %d is negative or too large",
                            (long long)shape.dim[d], d);
    if (!fai_mul(numel, (int64_t)fa_dtype_size(dtype), &bytes))
        return fai_fail(FA_ERR_RUNTIME, op, "argument 'shape': more bytes than a machine can count");
    if (!data && numel)
        return fai_fail(FA_ERR_VALUE, op, "argument 'data' is NULL, but the shape has %lld elements", (long long)numel);
    fa_tensor *t = fai_empty(op, dtype, FA_CPU, 1, &(int64_t){0});
    fai_buffer *memory = t ? fai_buffer_wrap(data, (size_t)bytes, release, context, op) : NULL;
    if (!memory) {
        fa_drop(t);
        return NULL;
    }
    fai_buffer_unref(t->buffer);
    t->buffer = memory;
    t->numel = numel;
    t->ndim = (uint8_t)shape.ndim;
    memcpy(t->size, shape.dim, sizeof(int64_t) * (size_t)shape.ndim);
    fai_contiguous_strides(shape.ndim, shape.dim, t->stride);
    return t;
}

/* ---- sequences ---- */

/* A host array of n values, double or int64_t, given to t in its own type. */
static fa_tensor *from_values(const char *op, const void *values, fa_dtype type, int64_t n, const fa_tensor_options *o) {
    FAI_CONSTANTS;
    fa_tensor *t = make(op, FA_SHAPE(n), o);
    return finish(t, t && write_data(op, t, values, type), o);
}

static bool can_step(const char *op, double from, double to, double by) {
    if (by == 0) return fai_fail(FA_ERR_RUNTIME, op, "step must be nonzero");
    if (!isfinite(from) || !isfinite(to)) return fai_fail(FA_ERR_RUNTIME, op, "unsupported range: %g -> %g", from, to);
    if (by > 0 ? to >= from : to <= from) return true;
    return fai_fail(FA_ERR_RUNTIME, op, "upper bound and lower bound inconsistent with step sign; start %g, end %g, step %g",
                    from, to, by);
}

/* How many values arange has; -1 after an error. */
static int64_t count_arange(fa_scalar start, fa_scalar end, fa_scalar step, bool whole) {
    const char *op = "arange";
    double count;
    const double from = fa_scalar_float(start), to = fa_scalar_float(end), by = fa_scalar_float(step);
    if (!can_step(op, from, to, whole ? (double)fa_scalar_int(step) : by)) return -1;
    if (whole) {
        const int64_t a = fa_scalar_int(start), b = fa_scalar_int(end), s = fa_scalar_int(step);
        const uint64_t distance = s > 0 ? (uint64_t)b - (uint64_t)a : (uint64_t)a - (uint64_t)b,
                       size = s > 0 ? (uint64_t)s : 0 - (uint64_t)s;
        count = (double)(distance / size + (distance % size != 0));
    } else {
        count = ceil((to - from) / by);
    }
    if (!(count >= 0 && count < 0x1p60))
        return fai_fail(FA_ERR_RUNTIME, op, "invalid size, possible overflow? %g values", count), -1;
    return (int64_t)count;
}

fa_tensor *fa_arange_with(fa_scalar start, fa_scalar end, fa_scalar step, const fa_tensor_options *options) {
    fa_tensor_options o;
    const bool integers = start.kind != FA_SCALAR_FLOAT && end.kind != FA_SCALAR_FLOAT && step.kind != FA_SCALAR_FLOAT;
    if (!read_options("arange", options, integers ? FA_INT64 : fa_default_dtype(), anywhere, &o)) return NULL;
    if (o.dtype == FA_BOOL)
        return fai_fail(FA_ERR_UNSUPPORTED, "arange", "\"arange_cpu\" not implemented for 'Bool'; use an integer dtype");
    const int64_t n = count_arange(start, end, step, integers || o.dtype == FA_INT64);
    if (n < 0) return NULL;
    union {
        double f;
        int64_t i;
    } *values = fai_alloc_aligned(FAI_TAG_DATA, (size_t)n * sizeof *values);
    if (!values) return fai_fail_memory("arange", (size_t)n * sizeof *values);
    const bool floats = fai_is_float(o.dtype);
    const double f0 = fa_scalar_float(start), fs = fa_scalar_float(step);
    const uint64_t i0 = (uint64_t)fa_scalar_int(start), is = (uint64_t)fa_scalar_int(step);
    for (int64_t i = 0; i < n; i++) {
        if (floats)
            values[i].f = f0 + fs * (double)i;
        else
            values[i].i = (int64_t)(i0 + is * (uint64_t)i);
    }
    fa_tensor *t = from_values("arange", values, floats ? FA_FLOAT64 : FA_INT64, n, &o);
    fai_free_aligned(FAI_TAG_DATA, values, (size_t)n * sizeof *values);
    return t;
}

/* v as the dtype holds it. */
static double rounded(double v, fa_dtype dtype) {
    uint64_t held;
    fai_convert(&held, dtype, &v, FA_FLOAT64, 1);
    fai_convert(&v, FA_FLOAT64, &held, dtype, 1);
    return v;
}

/* From both ends to the middle, in the arithmetic of the dtype: so the sequence is symmetric and its last value is end. */
static void fill_linspace(double *values, int64_t n, double start, double end, fa_dtype dtype) {
    const bool floats = fai_is_float(dtype), narrow = floats && dtype != FA_FLOAT64;
    const double from = rounded(start, dtype), to = rounded(end, dtype);
    double step = n > 1 ? (narrow ? (double)(((float)to - (float)from) / (float)(n - 1)) : (to - from) / (double)(n - 1)) : 0;
    if (floats) step = rounded(step, dtype);
    for (int64_t i = 0; i < n; i++) {
        const bool first_half = n == 1 || i < n / 2;
        const double base = first_half ? from : to, count = first_half ? (double)i : -(double)(n - 1 - i);
        values[i] = narrow ? (double)((float)base + (float)step * (float)count) : base + step * count;
    }
}

fa_tensor *fa_linspace_with(double start, double end, int64_t steps, const fa_tensor_options *options) {
    fa_tensor_options o;
    if (steps < 0)
        return fai_fail(FA_ERR_RUNTIME, "linspace", "number of steps must be non-negative, found %lld", (long long)steps);
    if (!read_options("linspace", options, fa_default_dtype(), anywhere, &o)) return NULL;
    if (o.dtype == FA_BOOL)
        return fai_fail(FA_ERR_UNSUPPORTED, "linspace",
                        "\"linspace_cpu\" not implemented for 'Bool'; use a floating or integer dtype");
    size_t bytes;
    if (__builtin_mul_overflow((size_t)steps, sizeof(double), &bytes)) return fai_fail_memory("linspace", SIZE_MAX);
    double *values = fai_alloc_aligned(FAI_TAG_DATA, bytes);
    if (!values) return fai_fail_memory("linspace", bytes);
    fill_linspace(values, steps, start, end, o.dtype);
    fa_tensor *t = from_values("linspace", values, FA_FLOAT64, steps, &o);
    fai_free_aligned(FAI_TAG_DATA, values, bytes);
    return t;
}

typedef struct sequence {
    double a, b, c; /* what value() needs */
    double (*value)(const struct sequence *s, int64_t i);
} sequence;

/* n values of a formula, computed in float64. */
static fa_tensor *from_formula(const char *op, const sequence *s, int64_t n, const fa_tensor_options *o) {
    size_t bytes;
    if (__builtin_mul_overflow((size_t)n, sizeof(double), &bytes)) return fai_fail_memory(op, SIZE_MAX);
    double *values = fai_alloc_aligned(FAI_TAG_DATA, bytes);
    if (!values) return fai_fail_memory(op, bytes);
    for (int64_t i = 0; i < n; i++) values[i] = s->value(s, i);
    fa_tensor *t = from_values(op, values, FA_FLOAT64, n, o);
    fai_free_aligned(FAI_TAG_DATA, values, bytes);
    return t;
}

static bool no_truths(const char *op, fa_dtype dtype) {
    if (dtype != FA_BOOL) return true;
    return fai_fail(FA_ERR_UNSUPPORTED, op, "\"%s_cpu\" not implemented for 'Bool'; use a floating or integer dtype", op);
}

static double step_value(const sequence *s, int64_t i) { return s->a + s->b * (double)i; }

fa_tensor *fa_range_with(double start, double end, double step, const fa_tensor_options *options) {
    fa_tensor_options o;
    if (!can_step("range", start, end, step) || !read_options("range", options, fa_default_dtype(), anywhere, &o)) return NULL;
    const double count = floor((end - start) / step) + 1;
    if (!no_truths("range", o.dtype)) return NULL;
    if (!(count < 0x1p60)) return fai_fail(FA_ERR_RUNTIME, "range", "invalid size, possible overflow? %g values", count);
    return from_formula("range", &(sequence){start, step, 0, step_value}, (int64_t)count, &o);
}

static double power_value(const sequence *s, int64_t i) { return pow(s->a, s->b + s->c * (double)i); }

fa_tensor *fa_logspace_with(double start, double end, int64_t steps, double base, const fa_tensor_options *options) {
    fa_tensor_options o;
    if (steps < 0)
        return fai_fail(FA_ERR_RUNTIME, "logspace", "number of steps must be non-negative, found %lld", (long long)steps);
    if (!read_options("logspace", options, fa_default_dtype(), anywhere, &o) || !no_truths("logspace", o.dtype)) return NULL;
    const double step = steps > 1 ? (end - start) / (double)(steps - 1) : 0;
    return from_formula("logspace", &(sequence){base, start, step, power_value}, steps, &o);
}

/* ---- windows: c is the length of a period, a and b are the window's own numbers ---- */

#define PI 3.14159265358979323846
static double place(const sequence *s, int64_t i) { return (double)i / s->c; }
static double bartlett(const sequence *s, int64_t i) { return 1 - fabs(2 * place(s, i) - 1); }
static double hamming(const sequence *s, int64_t i) { return s->a - s->b * cos(2 * PI * place(s, i)); }
static double blackman(const sequence *s, int64_t i) {
    return 0.42 - 0.5 * cos(2 * PI * place(s, i)) + 0.08 * cos(4 * PI * place(s, i));
}

/* The modified Bessel function of order 0, by its series: all terms are positive. */
static double bessel0(double x) {
    double term = 1, sum = 1;
    for (int k = 1; k < 10000 && term > sum * 1e-17; k++) term *= (x / 2 / k) * (x / 2 / k), sum += term;
    return sum;
}
static double kaiser(const sequence *s, int64_t i) {
    const double x = 2 * place(s, i) - 1;
    return bessel0(s->a * sqrt(fmax(0, 1 - x * x))) / bessel0(s->a);
}

fa_tensor *fa_window_with(const char *kind, int64_t n, bool periodic, double a, double b, const fa_tensor_options *options) {
    static const struct {
        const char *name;
        double (*value)(const sequence *s, int64_t i);
    } kinds[] = {{"hann", hamming}, {"hamming", hamming}, {"blackman", blackman}, {"bartlett", bartlett}, {"kaiser", kaiser}};
    sequence s = {a, b, fmax(1, (double)(periodic ? n : n - 1)), NULL};
    fa_tensor_options o;
    for (size_t i = 0; kind && i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kind, kinds[i].name) == 0) s.value = kinds[i].value;
    if (!s.value)
        return fai_fail(FA_ERR_VALUE, "window", "argument 'kind': there is no window '%s'; give hann, hamming, blackman, bartlett or kaiser",
                        kind ? kind : "NULL");
    if (n < 0)
        return fai_fail(FA_ERR_RUNTIME, "window", "%s_window requires non-negative window_length, got window_length=%lld. Give 0 or more",
                        kind, (long long)n);
    if (!read_options("window", options, fa_default_dtype(), anywhere, &o)) return NULL;
    if (!fai_is_float(o.dtype))
        return fai_fail(FA_ERR_RUNTIME, "window", "%s_window expects floating point dtypes, got: %s. Give .dtype = FA_FLOAT32",
                        kind, fa_dtype_name(o.dtype));
    if (n == 1) return fa_ones_with(FA_SHAPE(1), &o);
    if (strcmp(kind, "hann") == 0) s.a = s.b = 0.5;
    return from_formula("window", &s, n, &o);
}

/* ---- random numbers ---- */

fa_tensor *fa_rand_with(fa_shape shape, const fa_tensor_options *options) {
    fa_tensor_options o;
    if (!read_options("rand", options, fa_default_dtype(), anywhere, &o)) return NULL;
    fa_tensor *t = make("rand", shape, &o);
    return finish(t, t && fai_fill_uniform("rand", t, 0.0, 1.0, o.generator), &o);
}

fa_tensor *fa_randn_with(fa_shape shape, const fa_tensor_options *options) {
    fa_tensor_options o;
    if (!read_options("randn", options, fa_default_dtype(), anywhere, &o)) return NULL;
    fa_tensor *t = make("randn", shape, &o);
    return finish(t, t && fai_fill_normal("randn", t, 0.0, 1.0, o.generator), &o);
}

fa_tensor *fa_randint_with(int64_t low, int64_t high, fa_shape shape, const fa_tensor_options *options) {
    fa_tensor_options o;
    if (!read_options("randint", options, FA_INT64, anywhere, &o)) return NULL;
    fa_tensor *t = make("randint", shape, &o);
    return finish(t, t && fai_fill_randint("randint", t, low, high, o.generator), &o);
}

fa_tensor *fa_randperm_with(int64_t n, const fa_tensor_options *options) {
    fa_tensor_options o;
    if (!read_options("randperm", options, FA_INT64, anywhere, &o)) return NULL;
    fa_tensor *t = make("randperm", FA_SHAPE(n), &o);
    return finish(t, t && fai_fill_randperm("randperm", t, o.generator), &o);
}

fa_tensor *fa_rand_like_with(fa_tensor *like, const fa_tensor_options *options) {
    fa_tensor_options o;
    fa_tensor *t = make_like("rand_like", like, options, &o);
    return t ? finish(t, fai_fill_uniform("rand_like", t, 0.0, 1.0, o.generator), &o) : NULL;
}

fa_tensor *fa_randn_like_with(fa_tensor *like, const fa_tensor_options *options) {
    fa_tensor_options o;
    fa_tensor *t = make_like("randn_like", like, options, &o);
    return t ? finish(t, fai_fill_normal("randn_like", t, 0.0, 1.0, o.generator), &o) : NULL;
}

fa_tensor *fa_randint_like_with(fa_tensor *like, int64_t low, int64_t high, const fa_tensor_options *options) {
    fa_tensor_options o;
    fa_tensor *t = make_like("randint_like", like, options, &o);
    return t ? finish(t, fai_fill_randint("randint_like", t, low, high, o.generator), &o) : NULL;
}
