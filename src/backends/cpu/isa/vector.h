/* Vectors of one element type for the instruction set at hand. Included once per type, after FA_SUFFIX, REAL and FA_F32, FA_F64
 * or FA_I64 are defined as for the kernels' texts; N(vec) is then a full vector, N(mask) tells which lanes of one are used.
 * Arithmetic is GCC's vector arithmetic; only multiply-add, masked access and compaction need an intrinsic. */

#ifndef FAI_VECTOR_ONCE
#define FAI_VECTOR_ONCE
#include "../cpu.h"
#include "../../../../kernels/dialect.h"
#if FAI_VECTOR_BYTES > 16
#include <immintrin.h>
#endif
#define INLINE static inline __attribute__((always_inline, unused))
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif
#endif

#undef LANES
#undef TURN_WIDE
#define LANES (FAI_VECTOR_BYTES / (int)sizeof(REAL))

typedef REAL N(vec) __attribute__((vector_size(FAI_VECTOR_BYTES)));
typedef REAL N(loose) __attribute__((vector_size(FAI_VECTOR_BYTES), aligned(sizeof(REAL)), may_alias)); /* anywhere in memory */

INLINE N(vec) N(load)(const REAL *p) { return *(const N(loose) *)p; }
INLINE void N(put)(REAL *p, N(vec) v) { *(N(loose) *)p = v; }
INLINE N(vec) N(all)(REAL x) { return x - (N(vec)){0}; }

/* ---- multiply-add: fused where the hardware does it; integers wrap ---- */
#if defined(FA_I64)
typedef fa_u64 N(uvec) __attribute__((vector_size(FAI_VECTOR_BYTES)));
INLINE N(vec) N(fma)(N(vec) a, N(vec) b, N(vec) c) { return (N(vec))((N(uvec))a * (N(uvec))b + (N(uvec))c); }
INLINE REAL N(fma1)(REAL a, REAL b, REAL c) { return (REAL)((fa_u64)a * (fa_u64)b + (fa_u64)c); }
#else
INLINE N(vec) N(fma)(N(vec) a, N(vec) b, N(vec) c) {
#if defined(__AVX512F__) && defined(FA_F32)
    return (N(vec))_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__AVX512F__)
    return (N(vec))_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#elif defined(__FMA__) && defined(FA_F32)
    return (N(vec))_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__FMA__)
    return (N(vec))_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#else
    return a * b + c;
#endif
}
INLINE REAL N(fma1)(REAL a, REAL b, REAL c) {
#if defined(__FMA__)
    return N(fa_fma)(a, b, c);
#else
    return a * b + c;
#endif
}
#endif

/* ---- the first `count` lanes, 0 <= count <= LANES ---- */
#if defined(__AVX512F__)
typedef __mmask16 N(mask);
INLINE N(mask) N(first)(int count) { return (__mmask16)((1u << count) - 1u); }
#ifdef FA_F32
INLINE N(vec) N(load_some)(const REAL *p, N(mask) m) { return (N(vec))_mm512_maskz_loadu_ps(m, p); }
INLINE void N(put_some)(REAL *p, N(mask) m, N(vec) v) { _mm512_mask_storeu_ps(p, m, (__m512)v); }
#else
INLINE N(vec) N(load_some)(const REAL *p, N(mask) m) { return (N(vec))_mm512_maskz_loadu_epi64((__mmask8)m, p); }
INLINE void N(put_some)(REAL *p, N(mask) m, N(vec) v) { _mm512_mask_storeu_epi64(p, (__mmask8)m, (__m512i)v); }
#endif
#elif defined(__AVX2__)
typedef __m256i N(mask);
#ifdef FA_F32
INLINE N(mask) N(first)(int count) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
INLINE N(vec) N(load_some)(const REAL *p, N(mask) m) { return (N(vec))_mm256_maskload_ps(p, m); }
INLINE void N(put_some)(REAL *p, N(mask) m, N(vec) v) { _mm256_maskstore_ps(p, m, (__m256)v); }
#else
INLINE N(mask) N(first)(int count) { return _mm256_cmpgt_epi64(_mm256_set1_epi64x(count), _mm256_setr_epi64x(0, 1, 2, 3)); }
INLINE N(vec) N(load_some)(const REAL *p, N(mask) m) {
    return (N(vec))_mm256_maskload_epi64((const long long *)(const void *)p, m);
}
INLINE void N(put_some)(REAL *p, N(mask) m, N(vec) v) { _mm256_maskstore_epi64((long long *)(void *)p, m, (__m256i)v); }
#endif
#else
typedef int N(mask);
INLINE N(mask) N(first)(int count) { return count; }
INLINE N(vec) N(load_some)(const REAL *p, N(mask) m) {
    if (m == LANES) return N(load)(p);
    N(vec) v = {0};
    for (int i = 0; i < m; i++) v[i] = p[i];
    return v;
}
INLINE void N(put_some)(REAL *p, N(mask) m, N(vec) v) {
    if (m == LANES) N(put)(p, v);
    else for (int i = 0; i < m; i++) p[i] = v[i];
}
#endif

/* ---- lanes picked by the bits of a mask move to the front, in order ---- */
#if defined(__AVX512F__)
typedef __mmask16 N(picker);
INLINE N(picker) N(pick)(unsigned bits) { return (__mmask16)bits; }
#ifdef FA_F32
INLINE N(vec) N(squeeze)(N(vec) v, N(picker) p) { return (N(vec))_mm512_maskz_compress_ps(p, (__m512)v); }
#else
INLINE N(vec) N(squeeze)(N(vec) v, N(picker) p) { return (N(vec))_mm512_maskz_compress_epi64((__mmask8)p, (__m512i)v); }
#endif
#elif defined(__AVX2__)
typedef __m256i N(picker); /* eight numbers of 32-bit parts */
INLINE N(picker) N(pick)(unsigned bits) {
    int parts[16] = {0}, n = 0;
    for (int i = 0; i < LANES; i++)
        if (bits >> i & 1)
            for (int k = 0; k < 8 / LANES; k++) parts[n++] = i * (8 / LANES) + k;
    return _mm256_loadu_si256((const __m256i *)(const void *)parts);
}
INLINE N(vec) N(squeeze)(N(vec) v, N(picker) p) { return (N(vec))_mm256_permutevar8x32_epi32((__m256i)v, p); }
#else
typedef unsigned N(picker);
INLINE N(picker) N(pick)(unsigned bits) { return bits; }
INLINE N(vec) N(squeeze)(N(vec) v, N(picker) p) {
    N(vec) out = {0};
    for (int i = 0, n = 0; i < LANES; i++)
        if (p >> i & 1) out[n++] = v[i];
    return out;
}
#endif

/* The sum of all lanes, halves added to halves: the same order for every caller. */
INLINE REAL N(total)(N(vec) v) {
#if defined(__AVX512F__) && defined(FA_F32)
    const __m256 h = _mm256_add_ps(_mm512_castps512_ps256((__m512)v), _mm512_extractf32x8_ps((__m512)v, 1));
    __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    q = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
#elif defined(__AVX2__) && defined(FA_F32)
    __m128 q = _mm_add_ps(_mm256_castps256_ps128((__m256)v), _mm256_extractf128_ps((__m256)v, 1));
    q = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
#else
    REAL part[LANES];
    memcpy(part, &v, sizeof v);
    UNROLL
    for (int width = LANES / 2; width > 0; width /= 2)
        for (int i = 0; i < width; i++) part[i] += part[i + width];
    return part[0];
#endif
}

/* 4 rows of 4 become 4 columns; to and from may lie anywhere. */
INLINE void N(transpose4)(const REAL *const from[4], REAL *to, int64_t to_row) {
    typedef REAL quad __attribute__((vector_size(4 * sizeof(REAL))));
    typedef REAL loose_quad __attribute__((vector_size(4 * sizeof(REAL)), aligned(sizeof(REAL)), may_alias));
    quad r0 = *(const loose_quad *)from[0], r1 = *(const loose_quad *)from[1];
    quad r2 = *(const loose_quad *)from[2], r3 = *(const loose_quad *)from[3];
#if defined(__clang__) || __GNUC__ >= 12
    quad low01 = __builtin_shufflevector(r0, r1, 0, 4, 1, 5), high01 = __builtin_shufflevector(r0, r1, 2, 6, 3, 7);
    quad low23 = __builtin_shufflevector(r2, r3, 0, 4, 1, 5), high23 = __builtin_shufflevector(r2, r3, 2, 6, 3, 7);
    *(loose_quad *)to = __builtin_shufflevector(low01, low23, 0, 1, 4, 5);
    *(loose_quad *)(to + to_row) = __builtin_shufflevector(low01, low23, 2, 3, 6, 7);
    *(loose_quad *)(to + 2 * to_row) = __builtin_shufflevector(high01, high23, 0, 1, 4, 5);
    *(loose_quad *)(to + 3 * to_row) = __builtin_shufflevector(high01, high23, 2, 3, 6, 7);
#else
    for (int i = 0; i < 4; i++) *(loose_quad *)(to + i * to_row) = (quad){r0[i], r1[i], r2[i], r3[i]};
#endif
}

/* LANES lines of 4 numbers become 4 rows; only the masked lanes are stored. */
#if defined(FA_F32) && FAI_VECTOR_BYTES >= 32
#define TURN_WIDE 1
#if defined(__AVX512F__)
#define FOUR_LINES(i)                                                                                           \
    _mm512_insertf32x4(_mm512_insertf32x4(_mm512_insertf32x4(_mm512_castps128_ps512(_mm_loadu_ps(line[i] + k)), \
                                                             _mm_loadu_ps(line[i + 4] + k), 1),                 \
                                          _mm_loadu_ps(line[i + 8] + k), 2),                                    \
                       _mm_loadu_ps(line[i + 12] + k), 3)
#define WIDE(f) _mm512_##f
typedef __m512 fai_wide;
typedef __m512d fai_wide_pairs;
#else
#define FOUR_LINES(i) _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(line[i] + k)), _mm_loadu_ps(line[i + 4] + k), 1)
#define WIDE(f) _mm256_##f
typedef __m256 fai_wide;
typedef __m256d fai_wide_pairs;
#endif
INLINE void N(turn_wide)(const float *const line[LANES], int64_t k, float *to, int64_t to_row, N(mask) mask) {
    const fai_wide r0 = FOUR_LINES(0), r1 = FOUR_LINES(1), r2 = FOUR_LINES(2), r3 = FOUR_LINES(3);
    const fai_wide_pairs low01 = WIDE(castps_pd)(WIDE(unpacklo_ps)(r0, r1)), high01 = WIDE(castps_pd)(WIDE(unpackhi_ps)(r0, r1));
    const fai_wide_pairs low23 = WIDE(castps_pd)(WIDE(unpacklo_ps)(r2, r3)), high23 = WIDE(castps_pd)(WIDE(unpackhi_ps)(r2, r3));
    N(put_some)(to, mask, (N(vec))WIDE(castpd_ps)(WIDE(unpacklo_pd)(low01, low23)));
    N(put_some)(to + to_row, mask, (N(vec))WIDE(castpd_ps)(WIDE(unpackhi_pd)(low01, low23)));
    N(put_some)(to + 2 * to_row, mask, (N(vec))WIDE(castpd_ps)(WIDE(unpacklo_pd)(high01, high23)));
    N(put_some)(to + 3 * to_row, mask, (N(vec))WIDE(castpd_ps)(WIDE(unpackhi_pd)(high01, high23)));
}
#else
#define TURN_WIDE 0
#endif
