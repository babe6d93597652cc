/* The functions of the rows' language, fa_<name>_f32, _f64 and _i64, as one text for C, CUDA and OpenCL.
 *
 * float32 is our own and gives the same bits everywhere: + - * / sqrt, fa_fma_f32 where wanted, selects, bit patterns; no
 * branches, tables or calls of a libm, so that compilers can vectorise it. Special values are C99's. float64 is the platform's.
 * int64 wraps around; a division by zero gives 0 (the host refuses it before). Polynomials are minimax fits of our own.
 *
 * Some functions have a fast form for common arguments, fa_sin_near_f32, a test for those, fa_sin_is_near_f32, and the whole
 * function which also takes the others: the CPU's loops use the first when a block of arguments passes the test.
 *
 * Every function begins with FN at the start of a line and ends with "}" at the end of one: the build leaves out of a text what
 * it does not call. */
#ifndef FA_MATH_H
#define FA_MATH_H

#define FA_INFINITY fa_bits_f32(0x7f800000u)
#define FA_NAN fa_bits_f32(0x7fc00000u)
#define FA_I64_MAX ((fa_i64)0x7fffffffffffffff)
#define FA_I64_MIN (-FA_I64_MAX - 1)
#define FA_ROUNDER 12582912.0f /* 1.5 * 2^23: adding it rounds to a whole number, which then stands in the low bits */

#ifdef FA_IS_OPENCL
#define fa_floor_f32(x) floor((float)(x))
#define fa_ceil_f32(x) ceil((float)(x))
#define fa_trunc_f32(x) trunc((float)(x))
#define fa_round_f32(x) rint((float)(x))
#define fa_abs_f32(x) fabs((float)(x))
#define fa_fmod_far_f32(x, y) fmod((float)(x), (float)(y))
#elif defined(FA_IS_CUDA)
#define fa_floor_f32(x) floorf(x)
#define fa_ceil_f32(x) ceilf(x)
#define fa_trunc_f32(x) truncf(x)
#define fa_round_f32(x) rintf(x)
#define fa_abs_f32(x) fabsf(x)
#define fa_fmod_far_f32(x, y) fmodf(x, y)
#else
#define fa_floor_f32(x) __builtin_floorf(x)
#define fa_ceil_f32(x) __builtin_ceilf(x)
#define fa_trunc_f32(x) __builtin_truncf(x)
#define fa_round_f32(x) __builtin_rintf(x)
#define fa_abs_f32(x) __builtin_fabsf(x)
#define fa_fmod_far_f32(x, y) fmodf(x, y)
#endif

/* ---- signs, comparisons ---- */
FN float fa_sign_f32(float x) { return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : 0.0f; }
FN float fa_square_f32(float x) { return x * x; }
FN float fa_isnan_f32(float x) { return x != x ? 1.0f : 0.0f; }
FN float fa_isinf_f32(float x) { return fa_abs_f32(x) == FA_INFINITY ? 1.0f : 0.0f; }
FN float fa_isfinite_f32(float x) { return fa_abs_f32(x) < FA_INFINITY ? 1.0f : 0.0f; }
/* NaN wins; written so that a chain of maxima waits for one comparison and one select */
FN float fa_max_f32(float x, float y) { return y == y && !(x <= y) ? x : y; }
FN float fa_min_f32(float x, float y) { return y == y && !(x >= y) ? x : y; }
FN float fa_signbit_f32(float x) { return fa_f32_bits(x) >> 31 ? 1.0f : 0.0f; }
FN float fa_copysign_f32(float x, float s) {
    return fa_bits_f32((fa_f32_bits(x) & 0x7fffffffu) | (fa_f32_bits(s) & 0x80000000u));
}

/* ---- exponentials: x = n ln 2 + r, |r| <= ln 2 / 2 ---- */
/* e^r - 1 */
FN float fa_expm1_core_f32(float r) {
    float p = fa_fma_f32(0.001394139f, r, 0.008367015f);
    p = fa_fma_f32(p, r, 0.041666396f);
    p = fa_fma_f32(p, r, 0.1666654f);
    p = fa_fma_f32(p, r, 0.5f);
    return fa_fma_f32(r * r, p, r);
}
/* p * 2^n for -252 < n < 255, in two steps, so that a subnormal result is rounded once. n comes as the bits of n + FA_ROUNDER. */
FN float fa_scale_f32(float p, fa_u32 rounded) {
    fa_i32 n = (fa_i32)(rounded - 0x4b400000u), part = n >> 1;
    return p * fa_bits_f32((fa_u32)(part + 127) << 23) * fa_bits_f32((fa_u32)(n - part + 127) << 23);
}
/* e^x * 2^shift without overflow on the way */
FN float fa_exp_shifted_f32(float x, float shift) {
    float c = x > 90.0f ? 90.0f : x < -110.0f ? -110.0f : x;
    float t = fa_fma_f32(c, 1.442695f, FA_ROUNDER), n = t - FA_ROUNDER;
    float r = fa_fma_f32(n, 1.9046542e-09f, fa_fma_f32(n, -0.6931472f, c));
    return fa_scale_f32(1.0f + fa_expm1_core_f32(r), fa_f32_bits(t + shift));
}
/* The same where e^x * 2^shift is known to be a normal number: one step scales it. */
FN float fa_exp_normal_f32(float x, float shift) {
    float t = fa_fma_f32(x, 1.442695f, FA_ROUNDER), n = t - FA_ROUNDER;
    float r = fa_fma_f32(n, 1.9046542e-09f, fa_fma_f32(n, -0.6931472f, x));
    return (1.0f + fa_expm1_core_f32(r)) * fa_bits_f32((fa_f32_bits(t + shift) << 23) + 0x3f800000u);
}
FN float fa_exp_f32(float x) { return fa_exp_shifted_f32(x, 0.0f); }
FN float fa_expm1_f32(float x) {
    float c = x > 88.8f ? 88.8f : x < -20.0f ? -20.0f : x;
    float t = fa_fma_f32(c, 1.442695f, FA_ROUNDER), n = t - FA_ROUNDER;
    float r = fa_fma_f32(n, 1.9046542e-09f, fa_fma_f32(n, -0.6931472f, c));
    float s = fa_scale_f32(0.5f, fa_f32_bits(t)); /* 2^n / 2: 2^128 has no place */
    float y = fa_fma_f32(s, fa_expm1_core_f32(r), s - 0.5f);
    return fa_abs_f32(x) < 1e-20f ? x : y + y;
}
/* 2^r for |r| <= 1/2 */
FN float fa_exp2_core_f32(float r) {
    float p = fa_fma_f32(0.00015460685f, r, 0.0013388707f);
    p = fa_fma_f32(p, r, 0.009618068f);
    p = fa_fma_f32(p, r, 0.05550365f);
    p = fa_fma_f32(p, r, 0.2402265f);
    p = fa_fma_f32(p, r, 0.6931472f);
    return fa_fma_f32(p, r, 1.0f);
}
FN float fa_exp2_f32(float x) {
    float c = x > 130.0f ? 130.0f : x < -160.0f ? -160.0f : x;
    float t = c + FA_ROUNDER;
    return fa_scale_f32(fa_exp2_core_f32(c - (t - FA_ROUNDER)), fa_f32_bits(t));
}

/* ---- logarithms: x = 2^e (1 + f), 2/3 <= 1 + f < 4/3 ---- */
FN float fa_log_lift_f32(float x) { return x < 1.17549435e-38f ? x * 8388608.0f : x; } /* subnormal numbers times 2^23 */
FN fa_i32 fa_log_power_f32(float lifted) { return (fa_i32)(fa_f32_bits(lifted) - 0x3f2aaaabu) >> 23; }
FN float fa_log_e_f32(float x) { return (float)fa_log_power_f32(fa_log_lift_f32(x)) - (x < 1.17549435e-38f ? 23.0f : 0.0f); }
FN float fa_log_f_f32(float x) {
    float lifted = fa_log_lift_f32(x);
    return fa_bits_f32(fa_f32_bits(lifted) - ((fa_u32)fa_log_power_f32(lifted) << 23)) - 1.0f;
}
/* log(1 + f) - f */
FN float fa_log_rest_f32(float f) {
    float p = fa_fma_f32(-0.13193484f, f, 0.1396369f);
    p = fa_fma_f32(p, f, -0.121147744f);
    p = fa_fma_f32(p, f, 0.14010781f);
    p = fa_fma_f32(p, f, -0.16685484f);
    p = fa_fma_f32(p, f, 0.20010044f);
    p = fa_fma_f32(p, f, -0.24999689f);
    p = fa_fma_f32(p, f, 0.33333224f);
    return (f * f) * fa_fma_f32(p, f, -0.5f);
}
/* The logarithm y as it was found, or what it is at the ends */
FN float fa_log_ends_f32(float x, float y) {
    y = x < FA_INFINITY ? y : x; /* infinity, NaN */
    return x > 0.0f || x != x ? y : x == 0.0f ? -FA_INFINITY : FA_NAN;
}
FN float fa_log_f32(float x) {
    float e = fa_log_e_f32(x), f = fa_log_f_f32(x);
    float y = fa_fma_f32(e, 0.69314575f, f + fa_fma_f32(e, 1.4286068e-06f, fa_log_rest_f32(f)));
    return fa_log_ends_f32(x, y);
}
FN float fa_log2_f32(float x) {
    float e = fa_log_e_f32(x), f = fa_log_f_f32(x);
    float low = fa_fma_f32(f, 1.925963e-08f, fa_log_rest_f32(f) * 1.442695f);
    float high = f * 1.442695f;
    return fa_log_ends_f32(x, e + (high + (low + fa_fma_f32(f, 1.442695f, -high))));
}
FN float fa_log10_f32(float x) {
    float e = fa_log_e_f32(x), f = fa_log_f_f32(x), high = f * 0.4342945f;
    float low = fa_fma_f32(f, -1.010305e-08f, fa_log_rest_f32(f) * 0.4342945f) + fa_fma_f32(f, 0.4342945f, -high);
    return fa_log_ends_f32(x, fa_fma_f32(e, 0.3010254f, high + fa_fma_f32(e, 4.605039e-06f, low)));
}
FN float fa_log1p_f32(float x) {
    float u = 1.0f + x, lost = x > 1.0f ? 1.0f - (u - x) : x - (u - 1.0f); /* what u does not hold */
    float e = fa_log_e_f32(u), f = fa_log_f_f32(u);
    float down = fa_bits_f32((fa_u32)(127 - (fa_i32)(e > 64.0f ? 64.0f : e < -64.0f ? -64.0f : e)) << 23);
    f = fa_fma_f32(e > 64.0f ? 0.0f : lost, down, f);
    float y = fa_fma_f32(e, 0.69314575f, f + fa_fma_f32(e, 1.4286068e-06f, fa_log_rest_f32(f)));
    return fa_abs_f32(x) < 1e-8f ? x : fa_log_ends_f32(u, y);
}

/* ---- sine, cosine, tangent: x = q pi / 2 + r + low ---- */
FN float fa_sin_core_f32(float r, float low) {
    float z = r * r, p = fa_fma_f32(2.8078537e-06f, z, -0.00019851045f);
    p = fa_fma_f32(p, z, 0.008333376f);
    p = fa_fma_f32(p, z, -0.16666667f);
    return r + fa_fma_f32(r * z, p, low);
}
FN float fa_cos_core_f32(float r, float low) {
    float z = r * r, h = 0.5f * z, w = 1.0f - h, p = fa_fma_f32(2.440858e-05f, z, -0.0013887112f);
    p = fa_fma_f32(p, z, 0.04166664f);
    return w + (((1.0f - w) - h) + fa_fma_f32(z * z, p, -(r * low)));
}
/* Up to 131,072: pi / 2 in three parts. */
FN float fa_near_turns_f32(float x) { return fa_fma_f32(x, 0.63661975f, FA_ROUNDER); }
FN float fa_near_rest_f32(float x, float n) { return fa_fma_f32(n, -1.5707964f, x) + n * 4.371139e-08f; }
FN float fa_near_low_f32(float x, float n, float r) { /* what the sum and the product above lost, and the third part */
    float first = fa_fma_f32(n, -1.5707964f, x), second = n * 4.371139e-08f, back = r - first;
    float lost = (first - (r - back)) + (second - back) + fa_fma_f32(n, 4.371139e-08f, -second);
    return fa_fma_f32(n, 1.7151245e-15f, lost);
}
FN float fa_turned_f32(fa_u32 q, float s, float c) {
    return fa_bits_f32(fa_f32_bits(q & 1u ? c : s) ^ ((q & 2u) << 30));
}
FN float fa_tan_turned_f32(fa_u32 q, float s, float c) { return q & 1u ? -(c / s) : s / c; }
FN float fa_sin_near_f32(float x) {
    float t = fa_near_turns_f32(x), n = t - FA_ROUNDER, r = fa_near_rest_f32(x, n), low = fa_near_low_f32(x, n, r);
    float y = fa_turned_f32(fa_f32_bits(t), fa_sin_core_f32(r, low), fa_cos_core_f32(r, low));
    return x == 0.0f ? x : y;
}
FN float fa_cos_near_f32(float x) {
    float t = fa_near_turns_f32(x), n = t - FA_ROUNDER, r = fa_near_rest_f32(x, n), low = fa_near_low_f32(x, n, r);
    return fa_turned_f32(fa_f32_bits(t) + 1u, fa_sin_core_f32(r, low), fa_cos_core_f32(r, low));
}
FN float fa_tan_near_f32(float x) {
    float t = fa_near_turns_f32(x), n = t - FA_ROUNDER, r = fa_near_rest_f32(x, n), low = fa_near_low_f32(x, n, r);
    float y = fa_tan_turned_f32(fa_f32_bits(t), fa_sin_core_f32(r, low), fa_cos_core_f32(r, low));
    return x == 0.0f ? x : y;
}
FN int fa_sin_is_near_f32(float x) { return fa_abs_f32(x) <= 131072.0f; }
FN int fa_cos_is_near_f32(float x) { return fa_abs_f32(x) <= 131072.0f; }
FN int fa_tan_is_near_f32(float x) { return fa_abs_f32(x) <= 131072.0f; }
/* Any finite number from 131,072 on: its 24 bits times the 96 bits of 2 / pi that matter for it. The upper 64 bits of the product
 * are the quarter turn (2 bits) and the fraction of one. Returned is the fraction, minus a turn if it is above half; *q is the
 * quarter. */
FN fa_u32 fa_two_over_pi(int word) {
    return word == 0 ? 0u : word == 1 ? 0xa2f9836eu : word == 2 ? 0x4e441529u : word == 3 ? 0xfc2757d1u
         : word == 4 ? 0xf534ddc0u : word == 5 ? 0xdb629599u : word == 6 ? 0x3c439041u : 0xfe5163abu;
}
FN fa_u32 fa_two_over_pi_at(int bit) {
    fa_u64 both = (fa_u64)fa_two_over_pi(bit >> 5) << 32 | fa_two_over_pi((bit >> 5) + 1);
    return (fa_u32)(both << (bit & 31) >> 32);
}
FN fa_u64 fa_far_turns_f32(float x) {
    fa_u32 u = fa_f32_bits(x) & 0x7fffffffu, m = (u & 0x7fffffu) | 0x800000u;
    int bit = (int)(u >> 23) - 120;
    bit = bit < 0 ? 0 : bit > 134 ? 134 : bit; /* infinity and NaN come here too */
    fa_u64 low = (fa_u64)m * fa_two_over_pi_at(bit + 64);
    fa_u64 middle = (fa_u64)m * fa_two_over_pi_at(bit + 32) + (low >> 32);
    return ((fa_u64)(m * fa_two_over_pi_at(bit)) << 32) + middle;
}
/* The fraction of a quarter turn as a number around 0, in units of 2^-62 quarters; x's sign put in. */
FN fa_i64 fa_far_fraction_f32(fa_u64 turns, float x) {
    fa_i64 fraction = (fa_i64)(turns << 2) >> 2;
    return x < 0.0f ? -fraction : fraction;
}
FN fa_u32 fa_far_quarter_f32(fa_u64 turns, float x) {
    fa_u32 q = (fa_u32)(turns >> 62) + (fa_u32)(turns >> 61 & 1u);
    return x < 0.0f ? 0u - q : q;
}
FN float fa_far_rest_f32(fa_i64 fraction) { return (float)fraction * 3.40612167e-19f; } /* pi / 2 * 2^-62 */
FN float fa_far_low_f32(fa_i64 fraction, float r) {
    float high = (float)fraction, rest = (float)(fraction - (fa_i64)high);
    return fa_fma_f32(high, 3.40612167e-19f, -r) + fa_fma_f32(high, -9.4783968e-27f, rest * 3.40612167e-19f);
}
FN float fa_sin_far_f32(float x) {
    fa_u64 turns = fa_far_turns_f32(x);
    fa_i64 fraction = fa_far_fraction_f32(turns, x);
    float r = fa_far_rest_f32(fraction), low = fa_far_low_f32(fraction, r);
    float y = fa_turned_f32(fa_far_quarter_f32(turns, x), fa_sin_core_f32(r, low), fa_cos_core_f32(r, low));
    return fa_abs_f32(x) < FA_INFINITY ? y : FA_NAN;
}
FN float fa_cos_far_f32(float x) {
    fa_u64 turns = fa_far_turns_f32(x);
    fa_i64 fraction = fa_far_fraction_f32(turns, x);
    float r = fa_far_rest_f32(fraction), low = fa_far_low_f32(fraction, r);
    float y = fa_turned_f32(fa_far_quarter_f32(turns, x) + 1u, fa_sin_core_f32(r, low), fa_cos_core_f32(r, low));
    return fa_abs_f32(x) < FA_INFINITY ? y : FA_NAN;
}
FN float fa_tan_far_f32(float x) {
    fa_u64 turns = fa_far_turns_f32(x);
    fa_i64 fraction = fa_far_fraction_f32(turns, x);
    float r = fa_far_rest_f32(fraction), low = fa_far_low_f32(fraction, r);
    float y = fa_tan_turned_f32(fa_far_quarter_f32(turns, x), fa_sin_core_f32(r, low), fa_cos_core_f32(r, low));
    return fa_abs_f32(x) < FA_INFINITY ? y : FA_NAN;
}
FN float fa_sin_f32(float x) { return fa_sin_is_near_f32(x) ? fa_sin_near_f32(x) : fa_sin_far_f32(x); }
FN float fa_cos_f32(float x) { return fa_cos_is_near_f32(x) ? fa_cos_near_f32(x) : fa_cos_far_f32(x); }
FN float fa_tan_f32(float x) { return fa_tan_is_near_f32(x) ? fa_tan_near_f32(x) : fa_tan_far_f32(x); }

/* ---- their inverses ---- */
/* asin(s) for 0 <= s <= 1/2, z = s^2 */
FN float fa_asin_core_f32(float s, float z) {
    float p = fa_fma_f32(0.0378225f, z, 0.014232958f);
    p = fa_fma_f32(p, z, 0.031858046f);
    p = fa_fma_f32(p, z, 0.044511557f);
    p = fa_fma_f32(p, z, 0.07500528f);
    p = fa_fma_f32(p, z, 0.1666666f);
    return fa_fma_f32(s * z, p, s);
}
FN float fa_asin_f32(float x) {
    float a = fa_abs_f32(x), z = a > 0.5f ? 0.5f - 0.5f * a : a * a;
    float y = fa_asin_core_f32(a > 0.5f ? fa_sqrt_f32(z) : a, z);
    return fa_copysign_f32(a > 0.5f ? 1.5707964f - (fa_fma_f32(2.0f, y, 4.371139e-08f)) : y, x);
}
FN float fa_acos_f32(float x) {
    float a = fa_abs_f32(x), z = a > 0.5f ? 0.5f - 0.5f * a : a * a;
    float y = fa_asin_core_f32(a > 0.5f ? fa_sqrt_f32(z) : a, z), twice = y + y;
    float outer = x < 0.0f ? 3.1415927f - (twice + 8.742278e-08f) : twice;
    return a > 0.5f ? outer : 1.5707964f - (fa_copysign_f32(y, x) + 4.371139e-08f);
}
/* atan(t) for |t| <= tan(pi / 8) */
FN float fa_atan_core_f32(float t) {
    float z = t * t, p = fa_fma_f32(-0.060933493f, z, 0.10600434f);
    p = fa_fma_f32(p, z, -0.14244546f);
    p = fa_fma_f32(p, z, 0.19998534f);
    p = fa_fma_f32(p, z, -0.33333316f);
    return fa_fma_f32(t * z, p, t);
}
/* The angle of (x, y), both >= 0 */
FN float fa_angle_f32(float y, float x) {
    int steep = y > 2.4142135f * x, middle = y > 0.41421357f * x;
    float over = steep ? -x : middle ? y - x : y, under = steep ? y : middle ? y + x : x;
    float t = fa_atan_core_f32(over / under);
    return steep ? 1.5707964f + (t - 4.371139e-08f) : middle ? 0.7853982f + (t - 2.1855694e-08f) : t;
}
FN float fa_atan_f32(float x) { return fa_copysign_f32(fa_angle_f32(fa_abs_f32(x), 1.0f), x); }
FN float fa_atan2_f32(float y, float x) {
    float a = fa_abs_f32(y), b = fa_abs_f32(x), most = a > b ? a : b;
    float scale = most > 1e38f ? 0.25f : most < 1e-30f ? 1.6777216e7f : 1.0f;
    int both = a == FA_INFINITY && b == FA_INFINITY, none = most == 0.0f;
    a = both ? 1.0f : a * scale;
    b = both || none ? 1.0f : b * scale;
    float r = fa_angle_f32(a, b);
    r = fa_f32_bits(x) >> 31 ? 3.1415927f - (r + 8.742278e-08f) : r;
    return x != x || y != y ? x + y : fa_copysign_f32(r, y);
}

/* ---- hyperbolic functions and their inverses ---- */
FN float fa_sinh_f32(float x) {
    float a = fa_abs_f32(x), z = x * x, e = fa_exp_shifted_f32(a, -1.0f); /* e^a / 2 */
    float p = fa_fma_f32(2.783926e-06f, z, 0.00019842635f);
    p = fa_fma_f32(p, z, 0.008333311f);
    p = fa_fma_f32(p, z, 0.16666667f);
    return a < 1.0f ? fa_fma_f32(x * z, p, x) : fa_copysign_f32(e - 0.25f / e, x);
}
FN float fa_cosh_f32(float x) {
    float e = fa_exp_shifted_f32(fa_abs_f32(x), -1.0f);
    return e + 0.25f / e;
}
FN float fa_tanh_f32(float x) {
    float a = fa_abs_f32(x), z = x * x, p = fa_fma_f32(0.002145322f, z, -0.008182986f);
    p = fa_fma_f32(p, z, 0.021704534f);
    p = fa_fma_f32(p, z, -0.053947855f);
    p = fa_fma_f32(p, z, 0.1333322f);
    p = fa_fma_f32(p, z, -0.3333333f);
    float c = a > 10.0f ? 10.0f : a, outer = 1.0f - 2.0f / (fa_exp_normal_f32(c + c, 0.0f) + 1.0f);
    return a < 0.625f ? fa_fma_f32(x * z, p, x) : fa_copysign_f32(outer, x);
}
FN float fa_asinh_f32(float x) {
    float a = fa_abs_f32(x);
    float y = fa_log1p_f32(a > 1e9f ? a : a + a * a / (1.0f + fa_sqrt_f32(fa_fma_f32(a, a, 1.0f))));
    return fa_copysign_f32(a > 1e9f ? y + 0.6931472f : y, x);
}
FN float fa_acosh_f32(float x) {
    float t = x - 1.0f, y = fa_log1p_f32(x > 1e9f ? x : t + fa_sqrt_f32(fa_fma_f32(t, t, t + t)));
    return x < 1.0f ? FA_NAN : x > 1e9f ? y + 0.6931472f : y;
}
FN float fa_atanh_f32(float x) {
    float a = fa_abs_f32(x), y = 0.5f * fa_log1p_f32((a + a) / (1.0f - a));
    return a > 1.0f ? FA_NAN : a < 1e-5f ? x : fa_copysign_f32(y, x);
}

/* ---- error function ---- */
FN float fa_erf_near_f32(float x, float z) { /* of |x| < 0.92; z: x * x */
    float p = fa_fma_f32(7.9696634e-05f, z, -0.00080438395f);
    p = fa_fma_f32(p, z, 0.005191948f);
    p = fa_fma_f32(p, z, -0.026855588f);
    p = fa_fma_f32(p, z, 0.11283624f);
    p = fa_fma_f32(p, z, -0.3761263f);
    p = fa_fma_f32(p, z, 0.12837917f);
    return fa_fma_f32(x, p, x);
}
FN float fa_erf_f32(float x) {
    float a = fa_abs_f32(x), c = a > 4.0f ? 4.0f : a;
    float q = fa_fma_f32(5.151754e-06f, c, -4.820787e-05f); /* -log(1 - erf(c)) / c */
    q = fa_fma_f32(q, c, -3.605779e-05f);
    q = fa_fma_f32(q, c, 0.0028923322f);
    q = fa_fma_f32(q, c, -0.022612128f);
    q = fa_fma_f32(q, c, 0.10520308f);
    q = fa_fma_f32(q, c, 0.6356564f);
    q = fa_fma_f32(q, c, 1.1285449f);
    float outer = 1.0f - fa_exp_normal_f32(-(q * c), 0.0f);
    return a < 0.92f ? fa_erf_near_f32(x, x * x) : fa_copysign_f32(outer, x);
}
FN float fa_erfc_f32(float x) {
    float a = fa_abs_f32(x), c = a > 10.3f ? 10.3f : a, z = c * c, t = 1.0f / (1.0f + 0.5f * c);
    float p = fa_fma_f32(-0.065999754f, t, 0.32036334f); /* e^(c^2) erfc(c) */
    p = fa_fma_f32(p, t, -0.56193495f);
    p = fa_fma_f32(p, t, 0.36225593f);
    p = fa_fma_f32(p, t, -0.083375365f);
    p = fa_fma_f32(p, t, 0.22647029f);
    p = fa_fma_f32(p, t, 0.2369095f);
    p = fa_fma_f32(p, t, 0.28334054f);
    p = fa_fma_f32(p, t, 0.28200492f);
    p = fa_fma_f32(p, t, 2.833744e-06f);
    float low = fa_fma_f32(c, c, -z), e = fa_exp_normal_f32(-z, 60.0f);
    float y = fa_fma_f32(p, -low, p) * e * 8.67361738e-19f; /* 2^-60 */
    return a < 0.92f ? 1.0f - fa_erf_near_f32(x, x * x) : x < 0.0f ? 2.0f - y : y;
}

/* The share of a normal distribution below x. */
FN float fa_ndtr_f32(float x) {
    float a = fa_abs_f32(x), c = a > 14.5f ? 14.5f : a, h = 0.5f * c, z = h * c, t = 1.0f / fa_fma_f32(0.25f, c, 1.0f);
    float p = fa_fma_f32(0.0334258117f, t, -0.193379596f); /* e^(c^2 / 2) ndtr(-c) */
    p = fa_fma_f32(p, t, 0.388492316f);
    p = fa_fma_f32(p, t, -0.324873865f);
    p = fa_fma_f32(p, t, 0.297398955f);
    p = fa_fma_f32(p, t, -0.0166048035f);
    p = fa_fma_f32(p, t, 0.12026684f);
    p = fa_fma_f32(p, t, 0.0950988382f);
    p = fa_fma_f32(p, t, 0.100195348f);
    p = fa_fma_f32(p, t, -1.98546804e-05f);
    float low = fa_fma_f32(h, c, -z), e = fa_exp_normal_f32(-z, 60.0f);
    float y = fa_fma_f32(p, -low, p) * e * 8.67361738e-19f; /* 2^-60 */
    return x > 0.0f ? 1.0f - y : y;
}

/* A polynomial in -log(1 - x^2), for the middle and for the ends (M. Giles, Approximating the erfinv function). */
FN float fa_erfinv_f32(float x) {
    float a = fa_abs_f32(x), w = -fa_log_f32((1.0f - a) * (1.0f + a)), near = w - 2.5f, far = fa_sqrt_f32(w) - 3.0f;
    float p = fa_fma_f32(2.81022636e-08f, near, 3.43273939e-07f);
    p = fa_fma_f32(p, near, -3.5233877e-06f);
    p = fa_fma_f32(p, near, -4.39150654e-06f);
    p = fa_fma_f32(p, near, 0.00021858087f);
    p = fa_fma_f32(p, near, -0.00125372503f);
    p = fa_fma_f32(p, near, -0.00417768164f);
    p = fa_fma_f32(p, near, 0.246640727f);
    p = fa_fma_f32(p, near, 1.50140941f);
    float q = fa_fma_f32(-0.000200214257f, far, 0.000100950558f);
    q = fa_fma_f32(q, far, 0.00134934322f);
    q = fa_fma_f32(q, far, -0.00367342844f);
    q = fa_fma_f32(q, far, 0.00573950773f);
    q = fa_fma_f32(q, far, -0.0076224613f);
    q = fa_fma_f32(q, far, 0.00943887047f);
    q = fa_fma_f32(q, far, 1.00167406f);
    q = fa_fma_f32(q, far, 2.83297682f);
    return a < 1.0f ? (w < 5.0f ? p : q) * x : a == 1.0f ? fa_copysign_f32(FA_INFINITY, x) : FA_NAN;
}

/* ---- powers ---- */
/* log2(m) of m in [sqrt(1/2), sqrt(2)) as high + low, from s = (m - 1) / (m + 1); then y (e + log2 m) as high + low. */
FN float fa_pow_f32(float x, float y) {
    float a = fa_abs_f32(x), lifted = fa_log_lift_f32(a);
    fa_i32 power = (fa_i32)(fa_f32_bits(lifted) - 0x3f3504f3u) >> 23;
    float e = (float)power - (a < 1.17549435e-38f ? 23.0f : 0.0f), m = fa_bits_f32(fa_f32_bits(lifted) - ((fa_u32)power << 23));
    float f = m - 1.0f, d = m + 1.0f, part = 1.0f / d, s = f * part;
    float low = (fa_fma_f32(-s, d, f) - s * (m - (d - 1.0f))) * part, z = s * s;
    float p = fa_fma_f32(0.121455364f, z, 0.14249119f);
    p = fa_fma_f32(p, z, 0.20000489f);
    p = fa_fma_f32(p, z, 0.3333333f);
    low = fa_fma_f32(s * z, p, low);
    float high = s * 2.88539f;
    low = fa_fma_f32(s, 2.88539f, -high) + fa_fma_f32(low, 2.88539f, s * 3.851926e-08f);
    float sum = e + high;
    low = low + (high - (sum - e));
    high = sum + low;
    low = low - (high - sum);
    high = a == 0.0f ? -FA_INFINITY : a < FA_INFINITY ? high : a;
    float w = y * high, wide = fa_abs_f32(w);
    float extra = wide < 200.0f ? fa_fma_f32(y, high, -w) + y * low : 0.0f;
    w = w > 200.0f ? 200.0f : w < -200.0f ? -200.0f : w;
    float t = w + FA_ROUNDER;
    float r = fa_scale_f32(fa_exp2_core_f32((w - (t - FA_ROUNDER)) + extra), fa_f32_bits(t));
    float halved = 0.5f * y;
    int whole = fa_trunc_f32(y) == y, odd = whole && fa_trunc_f32(halved) != halved;
    r = x < 0.0f && !whole && a < FA_INFINITY ? FA_NAN : r;
    r = odd && fa_f32_bits(x) >> 31 ? -r : r;
    int one = y == 0.0f || x == 1.0f || (a == 1.0f && fa_abs_f32(y) == FA_INFINITY);
    return one ? 1.0f : x != x || y != y ? x + y : r;
}
FN float fa_hypot_f32(float x, float y) {
    float a = fa_abs_f32(x), b = fa_abs_f32(y), most = a > b ? a : b, least = a > b ? b : a;
    float scale = most > 1e18f ? 5.421011e-20f : most < 1e-18f ? 1.8446744e19f : 1.0f; /* 2^-64, 2^64 */
    float back = most > 1e18f ? 1.8446744e19f : most < 1e-18f ? 5.421011e-20f : 1.0f;
    float m = most * scale, l = least * scale, r = fa_sqrt_f32(fa_fma_f32(m, m, l * l)) * back;
    return a == FA_INFINITY || b == FA_INFINITY ? FA_INFINITY : x != x || y != y ? x + y : r;
}

/* ---- remainders: exact. Near: the quotient is below 2^22, so that its whole part is known. ---- */
FN int fa_fmod_is_near_f32(float x, float y) { return fa_abs_f32(x) < 4194304.0f * fa_abs_f32(y) && fa_abs_f32(y) < FA_INFINITY; }
FN int fa_mod_is_near_f32(float x, float y) { return fa_fmod_is_near_f32(x, y); }
FN int fa_floordiv_is_near_f32(float x, float y) { return fa_fmod_is_near_f32(x, y); }
FN float fa_fmod_near_f32(float x, float y) {
    float a = fa_abs_f32(x), b = fa_abs_f32(y), r = fa_fma_f32(-fa_trunc_f32(a / b), b, a);
    return fa_copysign_f32(r < 0.0f ? r + b : r, x); /* the quotient was rounded up to a whole number */
}
FN float fa_mod_of_fmod_f32(float r, float y) { return r != 0.0f && (r < 0.0f) != (y < 0.0f) ? r + y : r; }
FN float fa_floordiv_of_fmod_f32(float x, float y, float r) {
    float q = (x - r) / y;
    q = r != 0.0f && (r < 0.0f) != (y < 0.0f) ? q - 1.0f : q;
    float whole = fa_floor_f32(q);
    whole = q - whole > 0.5f ? whole + 1.0f : whole;
    whole = q == 0.0f ? fa_copysign_f32(0.0f, x / y) : whole;
    return y == 0.0f ? x / y : whole;
}
FN float fa_fmod_f32(float x, float y) { return fa_fmod_is_near_f32(x, y) ? fa_fmod_near_f32(x, y) : fa_fmod_far_f32(x, y); }
FN float fa_mod_near_f32(float x, float y) { return fa_mod_of_fmod_f32(fa_fmod_near_f32(x, y), y); }
FN float fa_mod_f32(float x, float y) { return fa_mod_of_fmod_f32(fa_fmod_f32(x, y), y); }
FN float fa_floordiv_near_f32(float x, float y) { return fa_floordiv_of_fmod_f32(x, y, fa_fmod_near_f32(x, y)); }
FN float fa_floordiv_f32(float x, float y) { return fa_floordiv_of_fmod_f32(x, y, fa_fmod_f32(x, y)); }

/* ---- float64: the platform's ---- */
#ifndef FA_NO_F64
#define fa_exp_f64(x) exp(x)
#define fa_exp2_f64(x) exp2(x)
#define fa_expm1_f64(x) expm1(x)
#define fa_log_f64(x) log(x)
#define fa_log2_f64(x) log2(x)
#define fa_log10_f64(x) log10(x)
#define fa_log1p_f64(x) log1p(x)
#define fa_sin_f64(x) sin(x)
#define fa_cos_f64(x) cos(x)
#define fa_tan_f64(x) tan(x)
#define fa_asin_f64(x) asin(x)
#define fa_acos_f64(x) acos(x)
#define fa_atan_f64(x) atan(x)
#define fa_atan2_f64(y, x) atan2(y, x)
#define fa_sinh_f64(x) sinh(x)
#define fa_cosh_f64(x) cosh(x)
#define fa_tanh_f64(x) tanh(x)
#define fa_asinh_f64(x) asinh(x)
#define fa_acosh_f64(x) acosh(x)
#define fa_atanh_f64(x) atanh(x)
#define fa_erf_f64(x) erf(x)
#define fa_erfc_f64(x) erfc(x)
#define fa_ndtr_f64(x) (0.5 * erfc((x) * -0.707106781186547524))
#define fa_pow_f64(x, y) pow(x, y)
#define fa_hypot_f64(x, y) hypot(x, y)
#define fa_fmod_f64(x, y) fmod(x, y)
#define fa_floor_f64(x) floor(x)
#define fa_ceil_f64(x) ceil(x)
#define fa_trunc_f64(x) trunc(x)
#define fa_round_f64(x) rint(x)
#define fa_abs_f64(x) fabs(x)
FN double fa_sign_f64(double x) { return x > 0.0 ? 1.0 : x < 0.0 ? -1.0 : 0.0; }
FN double fa_square_f64(double x) { return x * x; }
FN double fa_isnan_f64(double x) { return x != x ? 1.0 : 0.0; }
FN double fa_isinf_f64(double x) { return fabs(x) == (double)FA_INFINITY ? 1.0 : 0.0; }
FN double fa_isfinite_f64(double x) { return fabs(x) < (double)FA_INFINITY ? 1.0 : 0.0; }
FN double fa_max_f64(double x, double y) { return y == y && !(x <= y) ? x : y; }
FN double fa_min_f64(double x, double y) { return y == y && !(x >= y) ? x : y; }
FN double fa_signbit_f64(double x) { return fa_f64_bits(x) >> 63 ? 1.0 : 0.0; }
FN double fa_copysign_f64(double x, double s) {
    return fa_bits_f64((fa_f64_bits(x) & 0x7fffffffffffffff) | (fa_f64_bits(s) & 0x8000000000000000));
}
/* The float polynomial, then Newton's steps from the side where nothing cancels. */
FN double fa_erfinv_f64(double x) {
    const double a = fabs(x);
    if (!(a < 1.0)) return a == 1.0 ? fa_copysign_f64((double)FA_INFINITY, x) : (double)FA_NAN;
    double w = -log((1.0 - a) * (1.0 + a)), y;
    if (w < 5.0) {
        w -= 2.5;
        y = 2.81022636e-08 * w + 3.43273939e-07;
        y = (((y * w - 3.5233877e-06) * w - 4.39150654e-06) * w + 0.00021858087) * w - 0.00125372503;
        y = ((y * w - 0.00417768164) * w + 0.246640727) * w + 1.50140941;
    } else {
        w = sqrt(w) - 3.0;
        y = -0.000200214257 * w + 0.000100950558;
        y = (((y * w + 0.00134934322) * w - 0.00367342844) * w + 0.00573950773) * w - 0.0076224613;
        y = ((y * w + 0.00943887047) * w + 1.00167406) * w + 2.83297682;
    }
    y *= a;
    for (int step = 0; step < 2; ++step) {
        const double off = a < 0.5 ? a - erf(y) : erfc(y) - (1.0 - a);
        y += off * (0.886226925452758014 * exp(y * y));
    }
    return fa_copysign_f64(y, x);
}
FN double fa_mod_f64(double x, double y) {
    double r = fmod(x, y);
    return r != 0.0 && (r < 0.0) != (y < 0.0) ? r + y : r;
}
FN double fa_floordiv_f64(double x, double y) {
    double r = fmod(x, y), q = (x - r) / y;
    q = r != 0.0 && (r < 0.0) != (y < 0.0) ? q - 1.0 : q;
    double whole = floor(q);
    whole = q - whole > 0.5 ? whole + 1.0 : whole;
    whole = q == 0.0 ? 0.0 * (x / y) : whole;
    return y == 0.0 ? x / y : whole;
}
#endif /* FA_NO_F64 */

/* ---- int64 ---- */
FN fa_i64 fa_add_i64(fa_i64 x, fa_i64 y) { return (fa_i64)((fa_u64)x + (fa_u64)y); }
FN fa_i64 fa_sub_i64(fa_i64 x, fa_i64 y) { return (fa_i64)((fa_u64)x - (fa_u64)y); }
FN fa_i64 fa_mul_i64(fa_i64 x, fa_i64 y) { return (fa_i64)((fa_u64)x * (fa_u64)y); }
FN fa_i64 fa_neg_i64(fa_i64 x) { return (fa_i64)(0u - (fa_u64)x); }
FN fa_i64 fa_div_i64(fa_i64 x, fa_i64 y) { return y == 0 ? 0 : y == -1 ? fa_neg_i64(x) : x / y; }
FN fa_i64 fa_abs_i64(fa_i64 x) { return x < 0 ? fa_neg_i64(x) : x; }
FN fa_i64 fa_sign_i64(fa_i64 x) { return (fa_i64)(x > 0) - (fa_i64)(x < 0); }
FN fa_i64 fa_square_i64(fa_i64 x) { return fa_mul_i64(x, x); }
FN fa_i64 fa_floor_i64(fa_i64 x) { return x; }
FN fa_i64 fa_ceil_i64(fa_i64 x) { return x; }
FN fa_i64 fa_round_i64(fa_i64 x) { return x; }
FN fa_i64 fa_trunc_i64(fa_i64 x) { return x; }
FN fa_i64 fa_isnan_i64(fa_i64 x) { return 0 * x; }
FN fa_i64 fa_isinf_i64(fa_i64 x) { return 0 * x; }
FN fa_i64 fa_isfinite_i64(fa_i64 x) { return 0 * x + 1; }
FN fa_i64 fa_max_i64(fa_i64 x, fa_i64 y) { return x > y ? x : y; }
FN fa_i64 fa_min_i64(fa_i64 x, fa_i64 y) { return x < y ? x : y; }
FN fa_i64 fa_signbit_i64(fa_i64 x) { return x < 0; }
FN fa_i64 fa_gcd_i64(fa_i64 x, fa_i64 y) {
    fa_u64 a = (fa_u64)fa_abs_i64(x), b = (fa_u64)fa_abs_i64(y);
    while (b != 0) {
        const fa_u64 rest = a % b;
        a = b;
        b = rest;
    }
    return (fa_i64)a;
}
FN fa_i64 fa_lcm_i64(fa_i64 x, fa_i64 y) {
    const fa_i64 divisor = fa_gcd_i64(x, y);
    return divisor == 0 ? 0 : fa_abs_i64(fa_mul_i64(fa_div_i64(x, divisor), y));
}
FN fa_i64 fa_bit_and_i64(fa_i64 x, fa_i64 y) { return x & y; }
FN fa_i64 fa_bit_or_i64(fa_i64 x, fa_i64 y) { return x | y; }
FN fa_i64 fa_bit_xor_i64(fa_i64 x, fa_i64 y) { return x ^ y; }
FN fa_i64 fa_bit_not_i64(fa_i64 x) { return ~x; }
FN fa_i64 fa_shift_left_i64(fa_i64 x, fa_i64 y) { return (fa_u64)y > 63u ? 0 : (fa_i64)((fa_u64)x << y); }
FN fa_i64 fa_shift_right_i64(fa_i64 x, fa_i64 y) { return x >> ((fa_u64)y > 63u ? 63 : y); }
FN fa_i64 fa_fmod_i64(fa_i64 x, fa_i64 y) { return y == 0 || y == -1 ? 0 : x % y; }
FN fa_i64 fa_mod_i64(fa_i64 x, fa_i64 y) {
    fa_i64 r = fa_fmod_i64(x, y);
    return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}
FN fa_i64 fa_floordiv_i64(fa_i64 x, fa_i64 y) {
    fa_i64 r = fa_fmod_i64(x, y);
    return fa_div_i64(x, y) - (r != 0 && (r < 0) != (y < 0));
}
FN fa_i64 fa_pow_i64(fa_i64 x, fa_i64 y) {
    fa_u64 r = 1, b = (fa_u64)x;
    for (fa_u64 n = y < 0 ? 0 : (fa_u64)y; n; n >>= 1, b *= b) r = n & 1 ? r * b : r;
    return y >= 0 ? (fa_i64)r : x == 1 ? 1 : x == -1 ? (y & 1 ? -1 : 1) : 0;
}
#endif
