/* Padding: a number around x, or x reflected, its edges repeated, or x wrapped around; negative sides cut off. A number is put
 * around x by one copy into a larger tensor; the other kinds pick elements of each dimension by an index. */
#include "autocast.h"
#include "composite.h"
#include <math.h>

/* How many elements stand before and behind each dimension of x. */
typedef struct frame {
    int64_t before[FA_MAX_DIMS], after[FA_MAX_DIMS];
} frame;

/* pads holds pairs, the last dimension's first. */
static bool frame_of(const fa_tensor *x, fa_shape pads, frame *f) {
    const char *op = "pad";
    if (!fai_shape_ok(op, "pads", pads)) return false;
    if (pads.ndim % 2)
        return fai_fail(FA_ERR_RUNTIME, op, "Padding length must be divisible by 2: found %d numbers, two for each dimension",
                        (int)pads.ndim);
    if (pads.ndim > 2 * x->ndim)
        return fai_fail(FA_ERR_RUNTIME, op,
                        "Padding length should be less than or equal to two times the input dimension but got padding length %d "
                        "and input of dimension %d",
                        (int)pads.ndim, x->ndim);
    memset(f, 0, sizeof *f);
    for (int k = 0; k < pads.ndim / 2; k++) {
        f->before[x->ndim - 1 - k] = pads.dim[2 * k];
        f->after[x->ndim - 1 - k] = pads.dim[2 * k + 1];
    }
    return true;
}

/* ---- a number around ---- */

/* x without what negative sides cut off. */
static fa_tensor *cut(fa_tensor *x, const frame *f) {
    fa_tensor *r = x;
    for (int d = 0; r && d < x->ndim; d++) {
        const int64_t start = f->before[d] < 0 ? -f->before[d] : 0, end = x->size[d] + (f->after[d] < 0 ? f->after[d] : 0);
        if (start > end)
            return fai_fail(
                FA_ERR_RUNTIME, "pad",
                "narrow(): length must be non-negative. Sides %lld and %lld cut more than the %lld elements of dimension %d",
                (long long)f->before[d], (long long)f->after[d], (long long)x->size[d], d);
        if (start > 0 || end < x->size[d]) r = fa_slice(r, d, start, end, 1);
    }
    return r;
}

/* Zeros with x in the middle, in one copy. */
static fa_tensor *embed(fa_tensor *x, const frame *f, fa_shape shape) {
    if (!x) return NULL;
    fa_shape stride = shape, inner = fa_shape_of_tensor(x);
    int64_t step = 1, offset = 0;
    for (int d = x->ndim - 1; d >= 0; d--) {
        stride.dim[d] = step;
        offset += f->before[d] > 0 ? f->before[d] * step : 0;
        step *= shape.dim[d];
    }
    return fa_as_strided_embed(x, shape, inner, stride, x->numel ? offset : 0);
}

static fa_tensor *constant(fa_tensor *x, const frame *f, double value) {
    bool grows = false;
    FA_SCOPE;
    x = cut(x, f);
    if (!x) return NULL;
    const fa_scalar number = x->dtype == FA_BOOL                             ? fa_scalar_of_bool(value != 0)
                             : !fai_is_float(x->dtype) && fabs(value) < 0x1p62 ? fa_scalar_of_int((int64_t)value)
                                                                             : fa_scalar_of_float(value);
    if (!fai_number_fits("pad", number, (fa_dtype)x->dtype)) return NULL;
    fa_shape shape = fa_shape_of_tensor(x);
    int64_t numel = 1;
    for (int d = 0; d < x->ndim; d++) {
        int64_t more;
        if (!fai_add(f->before[d] > 0 ? f->before[d] : 0, f->after[d] > 0 ? f->after[d] : 0, &more)) more = INT64_MAX;
        grows |= more > 0;
        if (more > INT64_MAX - shape.dim[d] || !fai_mul(numel, shape.dim[d] + more, &numel))
            return fai_fail(FA_ERR_RUNTIME, "pad",
                            "Storage size calculation overflowed: dimension %d would have %lld + %lld elements", d,
                            (long long)shape.dim[d], (long long)more);
        shape.dim[d] += more;
    }
    if (!grows) return fa_keep(fa_clone(x)); /* torch's result never shares x's memory */
    fa_tensor *r = embed(x, f, shape);
    if (value == 0 || !r) return fa_keep(r);
    fa_tensor *inside = embed(fa_ones(fa_shape_of_tensor(x), .dtype = FA_BOOL, .device = x->device), f, shape);
    return fa_keep(fai_row3(FAI_ROW_where, fai_of(inside), fai_of(r), (fai_operand){.scalar = number}));
}

/* ---- elements of x again ---- */

typedef enum kind { REFLECT, REPLICATE, CIRCULAR } kind;

/* Where position i of the padded dimension comes from, i counted from the first element of x. */
static int64_t origin(kind k, int64_t i, int64_t size) {
    if (k == REPLICATE) return i < 0 ? 0 : i >= size ? size - 1 : i;
    if (k == CIRCULAR) return i < 0 ? i + size : i >= size ? i - size : i;
    return i < 0 ? -i : i >= size ? 2 * (size - 1) - i : i;
}

static bool sides_fit(const fa_tensor *x, int d, kind k, int64_t before, int64_t after) {
    const char *op = "pad";
    char shape[160];
    const int64_t size = x->size[d];
    fai_text_shape(shape, sizeof shape, x->ndim, x->size);
    if (size == 0)
        return fai_fail(FA_ERR_RUNTIME, op,
                        "Expected a tensor with possibly 0 batch size and other non-zero dimensions for input, but got: %s",
                        shape);
    if (k == REFLECT && (before >= size || after >= size))
        return fai_fail(FA_ERR_RUNTIME, op,
                        "Padding size should be less than the corresponding input dimension, but got: padding (%lld, %lld) at "
                        "dimension %d of input %s",
                        (long long)before, (long long)after, d, shape);
    if (k == CIRCULAR && (before > size || after > size))
        return fai_fail(FA_ERR_RUNTIME, op,
                        "Padding value causes wrapping around more than once. Sides of %lld and %lld at dimension %d of input %s",
                        (long long)before, (long long)after, d, shape);
    if (before + size + after > 0) return true;
    return fai_fail(FA_ERR_RUNTIME, op, "input (%lld at dimension %d) is too small. Calculated output: %lld", (long long)size, d,
                    (long long)(before + size + after));
}

static fa_tensor *again(fa_tensor *x, int d, kind k, int64_t before, int64_t after) {
    if (k == CIRCULAR && (before < 0 || after < 0)) { /* what is cut off is not wrapped around */
        frame ends = {.before = {0}};
        ends.before[d] = before < 0 ? before : 0, ends.after[d] = after < 0 ? after : 0;
        x = cut(x, &ends);
        before = before > 0 ? before : 0, after = after > 0 ? after : 0;
    }
    if (!x || !sides_fit(x, d, k, before, after)) return NULL;
    const int64_t size = x->size[d], n = before + size + after;
    FA_SCOPE;
    fa_tensor *from = fai_empty("pad", FA_INT64, FA_CPU, 1, &n);
    if (!from) return NULL;
    int64_t *index = fa_data(from);
    for (int64_t i = 0; i < n; i++) index[i] = origin(k, i - before, size);
    return fa_keep(fa_index_select(x, d, fai_constant(from, x->device)));
}

static bool dims_fit(const fa_tensor *x, int sides) {
    if (sides >= 1 && sides <= 3 && (x->ndim == sides + 1 || x->ndim == sides + 2)) return true;
    return fai_fail(
        FA_ERR_UNSUPPORTED, "pad",
        "Padding size %d is not supported for %dD input tensor. Supported combinations for non-constant padding: 2D or 3D "
        "input: padding size = 2 (pads last dimension); 3D or 4D input: padding size = 4 (pads last 2 dimensions); 4D or 5D "
        "input: padding size = 6 (pads last 3 dimensions)",
        2 * sides, x->ndim);
}

static fa_tensor *pad(fa_tensor *x, fa_shape pads, const char *mode, double value) {
    static const char *const kinds[] = {"reflect", "replicate", "circular"};
    frame f;
    if (!fai_begin1("pad", "x", x) || !frame_of(x, pads, &f)) return NULL;
    if (mode && !strcmp(mode, "constant")) return constant(x, &f, value);
    int k = 0;
    while (k < 3 && (!mode || strcmp(mode, kinds[k]) != 0)) k++;
    if (k == 3)
        return fai_fail(FA_ERR_UNSUPPORTED, "pad",
                        "Unrecognised padding mode %s: give \"constant\", \"reflect\", \"replicate\" or \"circular\"",
                        mode ? mode : "NULL");
    if (value != 0) return fai_fail(FA_ERR_RUNTIME, "pad", "Padding mode \"%s\" doesn't take in value argument", mode);
    if (!dims_fit(x, pads.ndim / 2)) return NULL;
    FA_SCOPE;
    fa_tensor *r = x;
    for (int d = x->ndim - pads.ndim / 2; r && d < x->ndim; d++)
        if (f.before[d] != 0 || f.after[d] != 0) r = again(r, d, (kind)k, f.before[d], f.after[d]);
    return r == x ? fa_keep(fa_clone(x)) : fa_keep(r);
}

/* On the CPU torch has two kinds of padding among what is computed in float32: replicate, and reflect in one or two dimensions. */
fa_tensor *fai_pad(fa_tensor *x, fa_shape pads, const char *mode, double value) {
    const bool wide = mode && (!strcmp(mode, "replicate") || (!strcmp(mode, "reflect") && pads.ndim < 6));
    fai_casting c;
    if (FAI_LIKELY(!fai_tls.autocast) || !wide) return pad(x, pads, mode, value);
    const bool fine = fai_cast_begin(&c, "pad", FAI_CASTS(FAI_CAST_FLOAT32, FAI_CAST_NONE), &x, 1);
    return fai_cast_end(&c, fine ? pad(x, pads, mode, value) : NULL);
}
