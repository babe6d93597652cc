/* How far apart two results may be. Whole numbers and truths are equal or wrong. Of floating numbers the distance is taken in
 * units of the last place of the element's type, at the element's size or, if that is more, at a part of the largest element:
 * what is small beside its neighbours came out of sums of numbers as large as those. Gradients may be small all together, out
 * of a softmax's for instance, where the numbers that cancelled were about as large as the weights, which go up to 1. */
#include "selftest.h"
#include <math.h>
#include <string.h>

/* Of a type: bits behind the point, exponent of the least number, how many units apart are near. */
typedef struct precision {
    int mantissa, least;
    double allowed;
} precision;
static precision precision_of(fa_dtype t) {
    switch (t) {
    case FA_FLOAT64: return (precision){52, -1074, 256};
    case FA_FLOAT32: return (precision){23, -149, 64};
    case FA_BFLOAT16: return (precision){7, -133, 2};
    default: return (precision){10, -24, 2};
    }
}

static double unit(const precision *p, double at) {
    const int e = at == 0 ? p->least : ilogb(at) - p->mantissa;
    return ldexp(1, e < p->least ? p->least : e);
}

static double peak_of(const double *values, int64_t n) {
    double peak = 0;
    for (int64_t i = 0; i < n; i++)
        if (isfinite(values[i])) peak = fmax(peak, fabs(values[i]));
    return peak;
}

/* Units of the last place between them; NAN where one is a number and the other none. */
static double distance(const precision *p, bool floating, double found, double expected, double smallest) {
    if (isnan(expected) || isnan(found)) return isnan(expected) && isnan(found) ? 0 : NAN;
    if (found == expected) return 0;
    if (!floating) return fabs(found - expected);
    if (isinf(expected) || isinf(found)) return NAN;
    return fabs(found - expected) / unit(p, fmax(fabs(expected), smallest));
}

static void find_worst(const double *found, const double *expected, int64_t n, fa_dtype type, bool sums, bool gradient,
                       fai_difference *out) {
    const precision p = precision_of(type);
    const bool floating = fa_dtype_is_floating(type);
    const double part = sums || p.mantissa < 20 ? 1.0 / 8 : 1.0 / 64,
                 smallest = fmax(peak_of(expected, n), sums && gradient ? 1 : 0) * part;
    *out = (fai_difference){.allowed = floating ? p.allowed : 0};
    for (int64_t i = 0; i < n; i++) {
        const double ulp = distance(&p, floating, found[i], expected[i], smallest);
        if (ulp <= out->ulp) continue;
        *out = (fai_difference){ulp, out->allowed, found[i], expected[i], i};
        if (isnan(ulp)) return;
    }
}

bool fai_compare(fa_tensor *found, fa_tensor *expected, bool sums, bool gradient, bool *near, fai_difference *out) {
    const size_t bytes = ((size_t)fa_numel(expected) + 1) * sizeof(double);
    double *values = fai_alloc(FAI_TAG_OTHER, 2 * bytes);
    if (!values) return fai_fail_memory("selftest", 2 * bytes);
    double *others = values + fa_numel(expected) + 1;
    const bool read = fa_to_data(found, values, FA_FLOAT64) && fa_to_data(expected, others, FA_FLOAT64);
    if (read) {
        find_worst(values, others, fa_numel(expected), fa_dtype_of(expected), sums, gradient, out);
        *near = out->ulp <= out->allowed;
    }
    fai_free(FAI_TAG_OTHER, values, 2 * bytes);
    return read;
}
