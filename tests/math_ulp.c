/* How far the float32 functions of kernels/math.h are from the truth, in units in the last place, over a stride of all bit
 * patterns; special values against C99's; and one hash over all results, which must not depend on how this was compiled.
 *
 *     math_ulp [stride]     default 4099: a million arguments a function; prints one line each, "hash" last; 1 on a failure */
#include <sys/fa_plan.h>
#include "kernels/dialect.h"
#include "kernels/math.h"
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum { BATCH = 4096 };
static uint64_t hash = 14695981039346656037u;

static void hash_add(const float *y, int n) {
    for (int i = 0; i < n; i++) {
        uint32_t u = y[i] != y[i] ? 0x7fc00000u : fa_f32_bits(y[i]); /* which NaN is not promised */
        hash = (hash ^ u) * 1099511628211u;
    }
}

/* Distance in units of the last place of the exact value t. */
static double ulps(float y, double t) {
    if (isnan(t)) return isnan(y) ? 0 : 1e30;
    if (isnan(y)) return 1e30;
    if (isinf(y) || isinf((float)t)) {
        if (y == (float)t) return 0;
        double edge = isinf(y) ? copysign(0x1p128, y) : y;
        double to = isinf(t) ? copysign(0x1p128, t) : t;
        return fabs(edge - to) / 0x1p104;
    }
    int e;
    frexp(t, &e);
    double unit = ldexp(1.0, (t == 0 || e < -125 ? -125 : e) - 24);
    if (t == 0 && y == 0 && !signbit(t) != !signbit(y)) return 1e30;
    return fabs(y - t) / unit;
}

static double ndtr(double x) { return 0.5 * erfc(x * -0.70710678118654752440); }

typedef void batch1(const float *x, float *y);
typedef void batch2(const float *x, const float *z, float *y);
#define ONE(name)                                                                 \
    static __attribute__((noinline)) void run_##name(const float *x, float *y) { \
        for (int i = 0; i < BATCH; i++) y[i] = fa_##name##_f32(x[i]);            \
    }
#define TWO(name)                                                                                 \
    static __attribute__((noinline)) void run_##name(const float *x, const float *z, float *y) { \
        for (int i = 0; i < BATCH; i++) y[i] = fa_##name##_f32(x[i], z[i]);                      \
    }
ONE(exp) ONE(exp2) ONE(expm1) ONE(log) ONE(log2) ONE(log10) ONE(log1p) ONE(sin) ONE(cos) ONE(tan) ONE(asin) ONE(acos) ONE(atan)
ONE(sinh) ONE(cosh) ONE(tanh) ONE(asinh) ONE(acosh) ONE(atanh) ONE(erf) ONE(erfc) ONE(ndtr) ONE(floor) ONE(ceil) ONE(round) ONE(trunc)
TWO(atan2) TWO(pow) TWO(hypot) TWO(fmod) TWO(mod) TWO(floordiv)

static double true_mod(double x, double y) {
    double r = fmod(x, y);
    return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

static const struct { const char *name; batch1 *run; double (*truth)(double); double allowed; } ones[] = {
    {"exp", run_exp, exp, 2}, {"exp2", run_exp2, exp2, 2}, {"expm1", run_expm1, expm1, 3}, {"log", run_log, log, 2},
    {"log2", run_log2, log2, 2}, {"log10", run_log10, log10, 2}, {"log1p", run_log1p, log1p, 2}, {"sin", run_sin, sin, 2},
    {"cos", run_cos, cos, 2}, {"tan", run_tan, tan, 4}, {"asin", run_asin, asin, 4}, {"acos", run_acos, acos, 4},
    {"atan", run_atan, atan, 4}, {"sinh", run_sinh, sinh, 4}, {"cosh", run_cosh, cosh, 4}, {"tanh", run_tanh, tanh, 3},
    {"asinh", run_asinh, asinh, 4}, {"acosh", run_acosh, acosh, 4}, {"atanh", run_atanh, atanh, 4}, {"erf", run_erf, erf, 4},
    {"erfc", run_erfc, erfc, 16}, {"ndtr", run_ndtr, ndtr, 16}, {"floor", run_floor, floor, 0}, {"ceil", run_ceil, ceil, 0}, {"round", run_round, rint, 0},
    {"trunc", run_trunc, trunc, 0},
};
static const struct { const char *name; batch2 *run; double (*truth)(double, double); double allowed; } twos[] = {
    {"atan2", run_atan2, atan2, 4}, {"pow", run_pow, pow, 4}, {"hypot", run_hypot, hypot, 4}, {"fmod", run_fmod, fmod, 0},
    {"mod", run_mod, true_mod, 1}, {"floordiv", run_floordiv, NULL, 0},
};

static int failures;

static void report(const char *name, double worst, float x, float z, float y, double allowed) {
    bool bad = worst > allowed;
    failures += bad;
    printf("%-9s %8.3f ulp of %g at %.9g %.9g -> %.9g%s\n", name, worst, allowed, x, z, y, bad ? "  TOO FAR" : "");
}

static void check_one(int k, uint64_t stride) {
    static float x[BATCH], y[BATCH];
    double worst = -1;
    float at = 0, got = 0;
    for (uint64_t u = 0; u < (1ull << 32);) {
        for (int i = 0; i < BATCH; i++, u += stride) x[i] = fa_bits_f32((uint32_t)u);
        ones[k].run(x, y);
        hash_add(y, BATCH);
        for (int i = 0; i < BATCH; i++) {
            double d = ulps(y[i], ones[k].truth(x[i]));
            if (d > worst) worst = d, at = x[i], got = y[i];
        }
    }
    report(ones[k].name, worst, at, 0, got, ones[k].allowed);
}

static const float special[] = {0.0f,   -0.0f,    1,        -1,        2,           -2,         3,        -3,
                                0.5f,   -0.5f,    1e-45f,   -1e-45f,   3e38f,       -3e38f,     INFINITY, -INFINITY,
                                NAN,    16777215, 16777216, -16777218, 0.99999994f, 1.0000001f, 88.7f,    -103.9f,
                                1e-38f, 7.5f,     -7.5f,    65536,     1e10f};
enum { SPECIAL = sizeof special / sizeof special[0] };

static uint64_t state = 88172645463325252u;
static uint32_t random32(void) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (uint32_t)(state >> 16);
}

/* Special values in pairs first; then any bit patterns; then moderate numbers, where powers and quotients are of use. */
static void arguments(int batch, float *x, float *z) {
    for (int i = 0; i < BATCH; i++) {
        uint32_t a = random32(), b = random32();
        bool moderate = batch & 1;
        x[i] = moderate ? fa_bits_f32((a & 0x87ffffffu) + 0x3c000000u) : fa_bits_f32(a);
        z[i] = moderate ? ((float)(int)(b >> 8) - 8388608.0f) / 65536.0f : fa_bits_f32(b);
        if (batch % 4 == 3) x[i] = 0.9f + (float)(a >> 8) * 1.2e-8f, z[i] *= 8.0f; /* powers of numbers near 1 */
        if (batch == 0 && i < SPECIAL * SPECIAL) x[i] = special[i / SPECIAL], z[i] = special[i % SPECIAL];
    }
}

static void check_two(int k, uint64_t stride) {
    static float x[BATCH], z[BATCH], y[BATCH];
    double worst = -1;
    float ax = 0, az = 0, got = 0;
    int batches = (int)((1ull << 32) / stride / BATCH) + 1;
    state = 88172645463325252u;
    for (int b = 0; b < batches; b++) {
        arguments(b, x, z);
        twos[k].run(x, z, y);
        hash_add(y, BATCH);
        for (int i = 0; i < BATCH && twos[k].truth; i++) {
            double d = ulps(y[i], twos[k].truth(x[i], z[i]));
            if (d > worst) worst = d, ax = x[i], az = z[i], got = y[i];
        }
    }
    report(twos[k].name, worst, ax, az, got, twos[k].allowed);
}

int main(int argc, char **argv) {
    uint64_t stride = argc > 1 ? strtoull(argv[1], NULL, 10) : 4099;
    for (int k = 0; k < (int)(sizeof ones / sizeof ones[0]); k++) check_one(k, stride);
    for (int k = 0; k < (int)(sizeof twos / sizeof twos[0]); k++) check_two(k, stride);
    printf("hash %016llx\n", (unsigned long long)hash);
    return failures != 0;
}
