/* Conversions between storage types and compute types, and strided gathering. Each loop is short and plain, so that the compiler
 * makes vectors of it; only float16 needs the processor's own instruction, with the one difference in NaN mended. */
#include "convert.h"
#include "../../../../kernels/dialect.h"
#if defined(__F16C__)
#include <immintrin.h>
#endif

#define EACH(type, expr)                       \
    {                                          \
        const type *p = from;                  \
        for (int64_t i = 0; i < n; i++) to[i] = (expr); \
        return;                                \
    }

static void half_to_float(float *to, const fa_u16 *p, int64_t n) {
    int64_t i = 0;
#if defined(__F16C__)
    for (; i + 8 <= n; i += 8) _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(p + i))));
#endif
    for (; i < n; i++) to[i] = fa_half_to_f32(p[i]);
}

static void float_to_half(fa_u16 *to, const float *p, int64_t n) {
    int64_t i = 0;
#if defined(__F16C__)
    for (; i + 8 <= n; i += 8) {
        __m256 x = _mm256_loadu_ps(p + i);
        __m128i h = _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
        /* fa_f32_to_half has one NaN, the instruction keeps the upper bits of each */
        int nan = _mm256_movemask_ps(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
        _mm_storeu_si128((__m128i *)(void *)(to + i), h);
        for (; nan; nan &= nan - 1) to[i + __builtin_ctz((unsigned)nan)] = fa_f32_to_half(p[i + __builtin_ctz((unsigned)nan)]);
    }
#endif
    for (; i < n; i++) to[i] = fa_f32_to_half(p[i]);
}

#define LOAD_CASES(real)                                 \
    case FA_T_BOOL: EACH(fa_u8, (real)(p[i] != 0))       \
    case FA_T_UINT8: EACH(fa_u8, (real)p[i])             \
    case FA_T_INT8: EACH(fa_i8, (real)p[i])              \
    case FA_T_INT16: EACH(fa_i16, (real)p[i])            \
    case FA_T_INT32: EACH(fa_i32, (real)p[i])            \
    case FA_T_INT64: EACH(fa_i64, (real)p[i])

void FAI_NAME(fai_cpu_load_f32)(float *restrict to, const void *restrict from, int dtype, int64_t n) {
    switch (dtype) {
    LOAD_CASES(float)
    case FA_T_FLOAT16: half_to_float(to, from, n); return;
    case FA_T_BFLOAT16: EACH(fa_u16, fa_bf16_to_f32(p[i]))
    case FA_T_FLOAT32: memcpy(to, from, (size_t)n * sizeof(float)); return;
    default: EACH(double, (float)p[i])
    }
}

void FAI_NAME(fai_cpu_load_f64)(double *restrict to, const void *restrict from, int dtype, int64_t n) {
    switch (dtype) {
    LOAD_CASES(double)
    case FA_T_FLOAT16: EACH(fa_u16, (double)fa_half_to_f32(p[i]))
    case FA_T_BFLOAT16: EACH(fa_u16, (double)fa_bf16_to_f32(p[i]))
    case FA_T_FLOAT32: EACH(float, (double)p[i])
    default: memcpy(to, from, (size_t)n * sizeof(double)); return;
    }
}

void FAI_NAME(fai_cpu_load_i64)(fa_i64 *restrict to, const void *restrict from, int dtype, int64_t n) {
    switch (dtype) {
    LOAD_CASES(fa_i64)
    case FA_T_FLOAT16: EACH(fa_u16, fa_f64_to_i64((double)fa_half_to_f32(p[i])))
    case FA_T_BFLOAT16: EACH(fa_u16, fa_f64_to_i64((double)fa_bf16_to_f32(p[i])))
    case FA_T_FLOAT32: EACH(float, fa_f64_to_i64((double)p[i]))
    default: EACH(double, fa_f64_to_i64(p[i]))
    }
}

#undef EACH
#define EACH(type, expr)                       \
    {                                          \
        type *p = to;                          \
        for (int64_t i = 0; i < n; i++) p[i] = (type)(expr); \
        return;                                \
    }
#define STORE_CASES(to_i64, to_i32)                \
    case FA_T_BOOL: EACH(fa_u8, from[i] != 0)      \
    case FA_T_UINT8: EACH(fa_u8, to_i32)           \
    case FA_T_INT8: EACH(fa_i8, to_i32)            \
    case FA_T_INT16: EACH(fa_i16, to_i32)          \
    case FA_T_INT32: EACH(fa_i32, to_i32)

void FAI_NAME(fai_cpu_store_f32)(void *restrict to, int dtype, const float *restrict from, int64_t n) {
    switch (dtype) {
    STORE_CASES(fa_f64_to_i64(from[i]), fa_f64_to_i32(from[i]))
    case FA_T_INT64: EACH(fa_i64, fa_f64_to_i64(from[i]))
    case FA_T_FLOAT16: float_to_half(to, from, n); return;
    case FA_T_BFLOAT16: EACH(fa_u16, fa_f32_to_bf16(from[i]))
    case FA_T_FLOAT32: memcpy(to, from, (size_t)n * sizeof(float)); return;
    default: EACH(double, from[i])
    }
}

void FAI_NAME(fai_cpu_store_f64)(void *restrict to, int dtype, const double *restrict from, int64_t n) {
    switch (dtype) {
    STORE_CASES(fa_f64_to_i64(from[i]), fa_f64_to_i32(from[i]))
    case FA_T_INT64: EACH(fa_i64, fa_f64_to_i64(from[i]))
    case FA_T_FLOAT16: EACH(fa_u16, fa_f32_to_half((float)from[i]))
    case FA_T_BFLOAT16: EACH(fa_u16, fa_f32_to_bf16((float)from[i]))
    case FA_T_FLOAT32: EACH(float, from[i])
    default: memcpy(to, from, (size_t)n * sizeof(double)); return;
    }
}

void FAI_NAME(fai_cpu_store_i64)(void *restrict to, int dtype, const fa_i64 *restrict from, int64_t n) {
    switch (dtype) {
    case FA_T_INT64: memcpy(to, from, (size_t)n * sizeof(fa_i64)); return;
    STORE_CASES(from[i], from[i])
    case FA_T_FLOAT16: EACH(fa_u16, fa_f32_to_half((float)from[i]))
    case FA_T_BFLOAT16: EACH(fa_u16, fa_f32_to_bf16((float)from[i]))
    case FA_T_FLOAT32: EACH(float, from[i])
    default: EACH(double, from[i])
    }
}

/* ---- strided ---- */

/* Where in the space element `begin` is, and its offset. */
typedef struct place { int64_t at[FA_PLAN_DIMS], offset; } place;

static place find(const fai_cpu_space *space, const fa_i64 *stride, int64_t begin) {
    place here = {.offset = 0};
    for (int d = space->ndim - 1; d >= 0; d--) {
        here.at[d] = begin % space->size[d];
        begin /= space->size[d];
        here.offset += here.at[d] * stride[d];
    }
    return here;
}

/* The next row: the outer dimensions counted up by one. */
static void next_row(place *here, const fai_cpu_space *space, const fa_i64 *stride) {
    int d = space->ndim - 1;
    here->offset -= here->at[d] * stride[d];
    here->at[d] = 0;
    for (d--; d >= 0; d--) {
        here->offset += stride[d];
        if (++here->at[d] < space->size[d]) return;
        here->offset -= space->size[d] * stride[d];
        here->at[d] = 0;
    }
}

/* to_place and from_place are where a run begins on either side, to_step and from_step its strides. */
#define WALK(type, to_place, to_step, from_place, from_step)                                                    \
    {                                                                                                           \
        type *a = to;                                                                                           \
        const type *b = from;                                                                                   \
        for (int64_t k = 0, run; k < n; k += run) {                                                             \
            run = size - here.at[last] < n - k ? size - here.at[last] : n - k;                                  \
            if (step == 1 && run >= 16) memcpy(a + (to_place), b + (from_place), (size_t)run * sizeof(type));   \
            else for (int64_t i = 0; i < run; i++) a[(to_place) + i * (to_step)] = b[(from_place) + i * (from_step)]; \
            here.at[last] += run;                                                                               \
            here.offset += run * step;                                                                          \
            if (k + run < n) next_row(&here, space, stride);                                                    \
        }                                                                                                       \
        return;                                                                                                 \
    }
#define GATHER(type) WALK(type, k, 1, here.offset, step)
#define SCATTER(type) WALK(type, here.offset, step, k, 1)

void FAI_NAME(fai_cpu_gather)(void *restrict to, const void *restrict from, int bytes, const fai_cpu_space *space,
                              const fa_i64 *stride, int64_t begin, int64_t n) {
    const int last = space->ndim - 1;
    const int64_t size = space->size[last], step = stride[last];
    place here = find(space, stride, begin);
    switch (bytes) {
    case 1: GATHER(fa_u8)
    case 2: GATHER(fa_u16)
    case 4: GATHER(fa_u32)
    default: GATHER(fa_u64)
    }
}

void FAI_NAME(fai_cpu_scatter)(void *restrict to, const void *restrict from, int bytes, const fai_cpu_space *space,
                               const fa_i64 *stride, int64_t begin, int64_t n) {
    const int last = space->ndim - 1;
    const int64_t size = space->size[last], step = stride[last];
    place here = find(space, stride, begin);
    switch (bytes) {
    case 1: SCATTER(fa_u8)
    case 2: SCATTER(fa_u16)
    case 4: SCATTER(fa_u32)
    default: SCATTER(fa_u64)
    }
}
