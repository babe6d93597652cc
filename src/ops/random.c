/* Random numbers: what may be asked for, and who draws. The CPU draws from its Mersenne Twister (random_cpu.c), accelerators
 * from Philox (random_device.c). Arguments are checked here, in torch's words, before any generator moves. */
#include "random.h"
#include "ops.h"
#include <math.h>
#include <string.h>

/* ---- The walk over a tensor ---- */

/* Torch's rule: a dimension with a smaller stride is walked faster, and of two with the same stride the later one. */
int fai_draw_order(const fa_tensor *t, int64_t size[FA_MAX_DIMS], int64_t stride[FA_MAX_DIMS]) {
    int64_t step[FA_MAX_DIMS], length[FA_MAX_DIMS];
    int n = 0;
    for (int d = 0; d < t->ndim; d++) {
        if (t->size[d] == 1) continue;
        int at = n++;
        int64_t s = t->stride[d] < 0 ? -t->stride[d] : t->stride[d];
        for (; at > 0 && (step[at - 1] < 0 ? -step[at - 1] : step[at - 1]) < s; at--) {
            step[at] = step[at - 1];
            length[at] = length[at - 1];
        }
        step[at] = t->stride[d];
        length[at] = t->size[d];
    }
    int merged = 0;
    for (int d = 0; d < n; d++) {
        if (merged > 0 && stride[merged - 1] == step[d] * length[d]) {
            size[merged - 1] *= length[d];
            stride[merged - 1] = step[d];
        } else {
            size[merged] = length[d];
            stride[merged++] = step[d];
        }
    }
    return merged;
}

/* The generator to draw from: g, or the device's own. */
static fa_generator *generator_for(const char *op, const fa_tensor *t, fa_generator *g) {
    if (g == NULL) g = fa_default_generator(t->device);
    if (g == NULL || g->device.type == t->device.type) return g;
    char found[32];
    snprintf(found, sizeof found, "%s", fa_device_text(fa_device_of_type(g->device.type, -1)));
    return fai_fail(FA_ERR_RUNTIME, op,
                    "Expected a '%s' device type for generator but found '%s'; make one by fa_generator_new on the "
                    "tensor's device, or leave .generator out",
                    fa_device_text(fa_device_of_type(t->device.type, -1)), found);
}

static bool draw_into(const char *op, const fai_draw *draw, fa_tensor *t, fa_generator *g) {
    g = generator_for(op, t, g);
    if (g == NULL) return false;
    if (t->numel == 0) return true;
    fai_generators_lock();
    const bool ok = fai_on_cpu(t) ? fai_draw_cpu(draw, t, &g->mt) : fai_draw_device(op, draw, t, g);
    fai_generators_unlock();
    return ok;
}

/* ---- Laws ---- */

static const char *c_name(int dtype) {
    static const char *const names[FA_DTYPE_COUNT] = {"", "bool", "unsigned char", "signed char", "short int", "int", "long int",
                                                      "c10::Half", "c10::BFloat16", "float", "double"};
    return names[dtype];
}

static double largest_float(int dtype) {
    return dtype == FA_FLOAT16    ? 65504.0
           : dtype == FA_BFLOAT16 ? 0x1.fep127
           : dtype == FA_FLOAT32  ? 0x1.fffffep127
                                  : 0x1.fffffffffffffp1023;
}

static bool needs_float(const char *op, const char *kernel, const fa_tensor *t) {
    if (fai_is_float(t->dtype)) return true;
    return fai_fail(FA_ERR_UNSUPPORTED, op, "\"%s\" not implemented for '%s'; random numbers of this law need a floating dtype: "
                    "float16, bfloat16, float32 or float64", kernel, fai_dtype_title((fa_dtype)t->dtype));
}

bool fai_fill_uniform(const char *op, fa_tensor *t, double from, double to, fa_generator *g) {
    if (!needs_float(op, "check_uniform_bounds", t)) return false;
    double largest = largest_float(t->dtype);
    if (!(fabs(from) <= largest))
        return fai_fail(FA_ERR_RUNTIME, op, "from is out of bounds for %s; found %g, the largest is %g", c_name(t->dtype), from,
                        largest);
    if (!(fabs(to) <= largest))
        return fai_fail(FA_ERR_RUNTIME, op, "to is out of bounds for %s; found %g, the largest is %g", c_name(t->dtype), to,
                        largest);
    if (!(from <= to))
        return fai_fail(FA_ERR_RUNTIME, op, "uniform_ expects to return a [from, to) range, but found from=%g > to=%g", from, to);
    if (!(to - from <= largest))
        return fai_fail(FA_ERR_RUNTIME, op,
                        "uniform_ expects to-from <= std::numeric_limits<%s>::max(), but found to=%g and from=%g which "
                        "result in to-from to exceed the limit",
                        fai_dtype_title((fa_dtype)t->dtype), to, from);
    return draw_into(op, &(fai_draw){.law = FAI_LAW_UNIFORM, .a = from, .b = to, .group = 1}, t, g);
}

bool fai_fill_normal(const char *op, fa_tensor *t, double mean, double std, fa_generator *g) {
    if (!(std >= 0.0)) return fai_fail(FA_ERR_RUNTIME, op, "normal expects std >= 0.0, but found std %g", std);
    if (!needs_float(op, "normal_kernel_cpu", t)) return false;
    return draw_into(op, &(fai_draw){.law = FAI_LAW_NORMAL, .a = mean, .b = std, .group = 1}, t, g);
}

bool fai_fill_exponential(const char *op, fa_tensor *t, double lambda, fa_generator *g) {
    if (!fai_is_float(t->dtype))
        return fai_fail(FA_ERR_RUNTIME, op,
                        "Exponential distribution is a continuous probability distribution. dtype must be a floating "
                        "point but you specified %s",
                        fai_dtype_title((fa_dtype)t->dtype));
    if (!(lambda > 0.0)) return fai_fail(FA_ERR_RUNTIME, op, "exponential_ expects lambda > 0.0, but found lambda=%g", lambda);
    return draw_into(op, &(fai_draw){.law = FAI_LAW_EXPONENTIAL, .a = lambda, .group = 1}, t, g);
}

static bool fill_bernoulli(const char *op, fa_tensor *t, double p, int group, fa_generator *g) {
    if (!(p >= 0.0 && p <= 1.0)) return fai_fail(FA_ERR_RUNTIME, op, "bernoulli_ expects p to be in [0, 1], but got p=%g", p);
    return draw_into(op, &(fai_draw){.law = FAI_LAW_BERNOULLI, .a = p, .group = group}, t, g);
}

bool fai_fill_bernoulli(const char *op, fa_tensor *t, double p, fa_generator *g) { return fill_bernoulli(op, t, p, 1, g); }

bool fai_fill_dropout_mask(const char *op, fa_tensor *t, double keep, fa_generator *g) {
    return fill_bernoulli(op, t, keep, t->numel % 4 == 0 ? 4 : t->numel % 2 == 0 ? 2 : 1, g);
}

/* The integers that a dtype holds; of floating ones those up to its largest number, as torch checks them. */
static bool holds(int dtype, int64_t value) {
    switch (dtype) {
    case FA_BOOL: return value == 0 || value == 1;
    case FA_UINT8: return value >= 0 && value <= UINT8_MAX;
    case FA_INT8: return value >= INT8_MIN && value <= INT8_MAX;
    case FA_INT16: return value >= INT16_MIN && value <= INT16_MAX;
    case FA_INT32: return value >= INT32_MIN && value <= INT32_MAX;
    case FA_FLOAT16: return value >= -65504 && value <= 65504;
    default: return true;
    }
}

bool fai_fill_randint(const char *op, fa_tensor *t, int64_t low, int64_t high, fa_generator *g) {
    if (low >= high)
        return fai_fail(FA_ERR_RUNTIME, op, "random_ expects 'from' to be less than 'to', but got from=%lld >= to=%lld",
                        (long long)low, (long long)high);
    if (!holds(t->dtype, low))
        return fai_fail(FA_ERR_RUNTIME, op, "from is out of bounds for %s; found from=%lld", c_name(t->dtype), (long long)low);
    if (!holds(t->dtype, high - 1))
        return fai_fail(FA_ERR_RUNTIME, op, "to - 1 is out of bounds for %s; found to=%lld", c_name(t->dtype), (long long)high);
    uint64_t range = (uint64_t)high - (uint64_t)low;
    fai_draw draw = {.law = FAI_LAW_INTEGER, .base = low, .range = range, .wide = range >= 1ull << 28, .group = 1};
    if (!draw_into(op, &draw, t, g)) return false;
    fai_note_bounds(t, low, high - 1);
    return true;
}

bool fai_fill_random_full(const char *op, fa_tensor *t, fa_generator *g) {
    static const uint64_t range[FA_DTYPE_COUNT] = {
        [FA_BOOL] = 2, [FA_UINT8] = 1 << 8, [FA_INT8] = 1 << 7, [FA_INT16] = 1 << 15, [FA_INT32] = 1ull << 31,
        [FA_INT64] = 1ull << 63, [FA_FLOAT16] = (1 << 11) + 1, [FA_BFLOAT16] = (1 << 8) + 1, [FA_FLOAT32] = (1 << 24) + 1,
        [FA_FLOAT64] = (1ull << 53) + 1};
    bool wide = t->dtype == FA_INT64 || t->dtype == FA_FLOAT64;
    return draw_into(op, &(fai_draw){.law = FAI_LAW_INTEGER, .range = range[t->dtype], .wide = wide, .group = 1}, t, g);
}

bool fai_fill_randperm(const char *op, fa_tensor *t, fa_generator *g) {
    static const int64_t exact[FA_DTYPE_COUNT] = {
        [FA_FLOAT16] = (1 << 11) + 1, [FA_BFLOAT16] = (1 << 8) + 1, [FA_FLOAT32] = (1 << 24) + 1, [FA_FLOAT64] = (1ll << 53) + 1};
    int64_t n = t->numel;
    const char *title = fai_dtype_title((fa_dtype)t->dtype);
    if (t->dtype == FA_BOOL)
        return fai_fail(FA_ERR_UNSUPPORTED, op, "\"randperm\" not implemented for 'Bool'; use an integer dtype");
    if (fai_is_float(t->dtype) && n > exact[t->dtype])
        return fai_fail(FA_ERR_RUNTIME, op, "n cannot be greater than %lld for %s type.", (long long)exact[t->dtype], title);
    if (n > 0 && !holds(t->dtype, n - 1))
        return fai_fail(FA_ERR_RUNTIME, op,
                        "value cannot be converted to type %s_t without overflow; n is %lld, use .dtype = FA_INT64",
                        fa_dtype_name((fa_dtype)t->dtype), (long long)n);
    g = generator_for(op, t, g);
    if (g == NULL) return false;
    fai_generators_lock();
    const bool ok = fai_on_cpu(t) ? fai_permute_cpu(op, t, &g->mt) : fai_permute_device(op, t, g);
    fai_generators_unlock();
    if (ok) fai_note_bounds(t, 0, n - 1);
    return ok;
}
