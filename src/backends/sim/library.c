/* What the stand-ins of NVIDIA's libraries share: numbers in memory, and the spans of operands. They compute in float64, one
 * element after the other, and round once, so they are right and slow. */
#include "sim.h"
#include <math.h>
#include <string.h>

static const int bytes_of[] = {[FA_T_FLOAT16] = 2, [FA_T_BFLOAT16] = 2, [FA_T_FLOAT32] = 4, [FA_T_FLOAT64] = 8};

fa_plan_view sim_span(int dtype, int64_t low, int64_t high, bool writes) {
    return (fa_plan_view){.kind = FA_VIEW_TENSOR, .dtype = dtype, .writes = writes, .low = low * bytes_of[dtype], .high = high * bytes_of[dtype]};
}

static double from_half(uint16_t h) {
    const int exponent = h >> 10 & 31, fraction = h & 1023;
    double v = exponent == 31 ? (fraction ? NAN : INFINITY) : exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
    return h >> 15 ? -v : v;
}

/* Rounds to so many bits of fraction, ties to even; numbers below 2^low are rounded to a multiple of 2^(low - bits). */
static double rounded(double v, int bits, int low) {
    int exponent;
    if (v == 0 || !isfinite(v)) return v;
    frexp(v, &exponent); /* v = f * 2^exponent with f in [0.5, 1) */
    const int unit = (exponent - 1 < low ? low : exponent - 1) - bits;
    return ldexp(nearbyint(ldexp(v, -unit)), unit);
}

double sim_tf32(double value) { return rounded(value, 10, -126); }

static uint16_t to_half(double v) {
    const uint16_t sign = signbit(v) ? 0x8000 : 0;
    int exponent;
    if (isnan(v)) return sign | 0x7e00;
    v = fabs(rounded(v, 10, -14));
    if (v >= 65520) return sign | 0x7c00;
    frexp(v, &exponent);
    if (v < ldexp(1, -14)) return sign | (uint16_t)ldexp(v, 24);
    return sign | (uint16_t)((exponent + 14) << 10 | ((int)ldexp(v, 11 - exponent) & 1023));
}

double sim_load(const char *memory, int dtype, int64_t i) {
    uint16_t h;
    uint32_t word;
    float f;
    double d;
    switch (dtype) {
    case FA_T_FLOAT16: memcpy(&h, memory + 2 * i, 2); return from_half(h);
    case FA_T_BFLOAT16: memcpy(&h, memory + 2 * i, 2), word = (uint32_t)h << 16, memcpy(&f, &word, 4); return (double)f;
    case FA_T_FLOAT32: memcpy(&f, memory + 4 * i, 4); return (double)f;
    default: memcpy(&d, memory + 8 * i, 8); return d;
    }
}

void sim_store(char *memory, int dtype, int64_t i, double value) {
    uint16_t h;
    uint32_t word;
    float f;
    switch (dtype) {
    case FA_T_FLOAT16: h = to_half(value), memcpy(memory + 2 * i, &h, 2); break;
    case FA_T_BFLOAT16:
        f = (float)rounded(value, 7, -126), memcpy(&word, &f, 4), h = (uint16_t)(word >> 16);
        if (isnan(value)) h = 0x7fc0;
        memcpy(memory + 2 * i, &h, 2);
        break;
    case FA_T_FLOAT32: f = (float)value, memcpy(memory + 4 * i, &f, 4); break;
    default: memcpy(memory + 8 * i, &value, 8);
    }
}
