/* The two loops of the generator that must be fast in float32: words to uniform numbers, and blocks of 16 uniform numbers to
 * 16 normal ones (Box and Muller, the first 8 as radius, the last 8 as angle).
 *
 * The logarithm, sine and cosine are short polynomials whose every step is written out, because PyTorch's result is that of
 * exactly these steps: fmaf where it rounds once, a product and a sum where it rounds twice. Each loop is compiled twice, for
 * processors with AVX2 and FMA and for all others; fmaf means the same on both, so the bits don't depend on the processor. */
#include "random.h"
#include <math.h>
#include <string.h>

#if defined(__x86_64__)
#define HAS_FAST_FORM 1
#define FAST_FORM __attribute__((target("avx2,fma")))
#else
#define HAS_FAST_FORM 0
#endif
#define INLINE static inline __attribute__((always_inline))

INLINE float bits_to_float(uint32_t bits) { float f; memcpy(&f, &bits, 4); return f; }
INLINE uint32_t float_to_bits(float f) { uint32_t bits; memcpy(&bits, &f, 4); return bits; }

/* 24 bits of a word, scaled. Rounding can reach `to`, which is not in the range. */
INLINE float word_to_uniform(uint32_t word, float from, float width, float to) {
    float u = (float)(int32_t)(word & 0xffffffu) * 0x1p-24f;
    float value = fmaf(u, width, from);
    return value == to ? from : value;
}

INLINE float natural_log(float x) {
    uint32_t bits = float_to_bits(x);
    float e = (float)((int32_t)(bits >> 23) - 126);
    float m = bits_to_float((bits & 0x007fffffu) | 0x3f000000u); /* x = m * 2^e, m in [0.5, 1) */
    float low = m < 0.707106781186547524f ? m : 0.0f;
    e -= m < 0.707106781186547524f ? 1.0f : 0.0f;
    m = m - 1.0f + low;
    float z = m * m, y = 7.0376836292E-2f;
    y = fmaf(y, m, -1.1514610310E-1f);
    y = fmaf(y, m, 1.1676998740E-1f);
    y = fmaf(y, m, -1.2420140846E-1f);
    y = fmaf(y, m, 1.4249322787E-1f);
    y = fmaf(y, m, -1.6668057665E-1f);
    y = fmaf(y, m, 2.0000714765E-1f);
    y = fmaf(y, m, -2.4999993993E-1f);
    y = fmaf(y, m, 3.3333331174E-1f);
    y = y * m;
    y = fmaf(y, z, e * -2.12194440e-4f);
    y = fmaf(z, -0.5f, y);
    m = m + y;
    return fmaf(e, 0.693359375f, m);
}

/* Of x >= 0. */
INLINE void sine_cosine(float x, float *sine, float *cosine) {
    int32_t j = ((int32_t)(x * 1.27323954473516f) + 1) & ~1; /* octants, made even */
    float octant = (float)j;
    x = fmaf(octant, -0.78515625f, x);
    x = fmaf(octant, -2.4187564849853515625e-4f, x);
    x = fmaf(octant, -3.77489497744594108e-8f, x);
    float z = x * x;
    float c = fmaf(2.443315711809948E-5f, z, -1.388731625493765E-3f);
    c = fmaf(c, z, 4.166664568298827E-2f);
    c = c * z;
    c = fmaf(c, z, -(z * 0.5f)) + 1.0f;
    float s = fmaf(-1.9515295891E-4f, z, 8.3321608736E-3f);
    s = fmaf(s, z, -1.6666654611E-1f);
    s = s * z;
    s = fmaf(s, x, x);
    /* Which polynomial and which sign, chosen by bits so that all lanes do the same. */
    uint32_t swap = 0u - (((uint32_t)j >> 1) & 1u), sb = float_to_bits(s), cb = float_to_bits(c);
    uint32_t sine_sign = ((uint32_t)j & 4u) << 29, cosine_sign = (~((uint32_t)j - 2u) & 4u) << 29;
    *sine = bits_to_float(((sb & ~swap) | (cb & swap)) ^ sine_sign);
    *cosine = bits_to_float(((cb & ~swap) | (sb & swap)) ^ cosine_sign);
}

INLINE void uniform_loop(float *restrict out, const uint32_t *restrict words, int64_t n, float from, float to) {
    float width = to - from;
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        for (int k = 0; k < 8; k++) out[i + k] = word_to_uniform(words[i + k], from, width, to);
    }
    for (; i < n; i++) out[i] = word_to_uniform(words[i], from, width, to);
}

INLINE void normal_loop(float *blocks, int64_t n, float mean, float std) {
    for (int64_t i = 0; i < n; i += 16) {
        float *d = blocks + i;
        for (int k = 0; k < 8; k++) {
            float radius = sqrtf(-2.0f * natural_log(1.0f - d[k])), sine, cosine;
            sine_cosine(6.28318530717958647692f * d[k + 8], &sine, &cosine);
            d[k] = fmaf(radius * cosine, std, mean);
            d[k + 8] = fmaf(radius * sine, std, mean);
        }
    }
}

static void uniform_any(float *out, const uint32_t *words, int64_t n, float from, float to) {
    uniform_loop(out, words, n, from, to);
}
static void normal_any(float *blocks, int64_t n, float mean, float std) { normal_loop(blocks, n, mean, std); }

#if HAS_FAST_FORM
FAST_FORM static void uniform_fast(float *out, const uint32_t *words, int64_t n, float from, float to) {
    uniform_loop(out, words, n, from, to);
}
FAST_FORM static void normal_fast(float *blocks, int64_t n, float mean, float std) { normal_loop(blocks, n, mean, std); }
static bool fast_form(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
#else
#define uniform_fast uniform_any
#define normal_fast normal_any
static bool fast_form(void) { return false; }
#endif

void fai_words_to_uniform(float *out, const uint32_t *words, int64_t n, float from, float to) {
    (fast_form() ? uniform_fast : uniform_any)(out, words, n, from, to);
}

void fai_uniform_to_normal_f32(float *blocks, int64_t n, float mean, float std) {
    (fast_form() ? normal_fast : normal_any)(blocks, n, mean, std);
}

/* Double precision calls the platform's functions, as PyTorch does. */
void fai_uniform_to_normal_f64(double *blocks, int64_t n, double mean, double std) {
    for (int64_t i = 0; i < n; i += 16) {
        for (double *d = blocks + i; d < blocks + i + 8; d++) {
            double radius = sqrt(-2.0 * log(1.0 - d[0])), angle = 2.0 * 3.14159265358979323846 * d[8];
            d[0] = fma(radius * cos(angle), std, mean);
            d[8] = fma(radius * sin(angle), std, mean);
        }
    }
}
