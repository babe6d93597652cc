/* Reductions on the CPU, in the order that kernels/reduce.k.h tells: the loops of all rows, and what brings tensors of any layout
 * and type to them (reduce_real.h). */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-thread-jumps", "no-tree-pre") /* as in elementwise.c */
#endif
#include "convert.h"
#include "../../../../kernels/dialect.h"
#undef FN
#define FN static inline __attribute__((always_inline, unused)) /* as in elementwise.c */
#include "../../../../kernels/math.h"

enum { BLOCK = 1024, LANES = 16, COLUMNS = 64, STACK = 48, RESULTS = 8192 };

/* block: up to 1,024 elements side by side. columns: n rows of w elements each, the first of them for partial 0, added to
 * the 16 partial results of each column. */
#define REDUCER_TYPE(t, T)                                                                             \
    struct reducer_##t {                                                                               \
        T (*start)(void);                                                                              \
        T (*block)(const T *p, int64_t n);                                                             \
        void (*columns)(const T *p, int64_t stride, int64_t n, int64_t w, T (*part)[COLUMNS]);         \
        void (*join)(T *a, const T *b, int64_t w); /* b behind a */                                    \
        T (*finish)(T a, T n);                                                                         \
    };
REDUCER_TYPE(f32, float)
REDUCER_TYPE(f64, double)
REDUCER_TYPE(i64, fa_i64)

/* Four rows of lanes a turn, so that the partial results are not stored and loaded for each. */
#define REDUCE(name, t, T, START, ELEMENT, JOIN, FINISH)                                               \
    static inline __attribute__((always_inline)) T element_##name##_##t(T x) { return ELEMENT; }       \
    static inline __attribute__((always_inline)) T join_##name##_##t(T a, T b) { return JOIN; }        \
    static T start_##name##_##t(void) { return START; }                                                \
    static T finish_##name##_##t(T a, __attribute__((unused)) T n) { return FINISH; }                  \
    static void joins_##name##_##t(T *a, const T *b, int64_t w) {                                      \
        for (int64_t i = 0; i < w; i++) a[i] = join_##name##_##t(a[i], b[i]);                          \
    }                                                                                                  \
    static T block_##name##_##t(const T *p, int64_t n) {                                               \
        T part[LANES];                                                                                 \
        int64_t k = 0;                                                                                 \
        for (int j = 0; j < LANES; j++) part[j] = START;                                               \
        for (; k + 4 * LANES <= n; k += 4 * LANES)                                                     \
            for (int j = 0; j < LANES; j++) {                                                          \
                T a = part[j];                                                                         \
                for (int u = 0; u < 4; u++) a = join_##name##_##t(a, element_##name##_##t(p[k + u * LANES + j])); \
                part[j] = a;                                                                           \
            }                                                                                          \
        for (; k + LANES <= n; k += LANES)                                                             \
            for (int j = 0; j < LANES; j++) part[j] = join_##name##_##t(part[j], element_##name##_##t(p[k + j])); \
        if (k < n) { /* what is left, as one row more: joining with a start changes nothing */          \
            T row[LANES] = {0};                                                                        \
            memcpy(row, p + k, (size_t)(n - k) * sizeof(T));                                           \
            for (int j = 0; j < LANES; j++) {                                                          \
                const T e = element_##name##_##t(row[j]);                                              \
                part[j] = join_##name##_##t(part[j], j < n - k ? e : START);                           \
            }                                                                                          \
        }                                                                                              \
        for (int j = 0; j < 8; j++) part[j] = join_##name##_##t(part[j], part[j + 8]);                 \
        for (int j = 0; j < 4; j++) part[j] = join_##name##_##t(part[j], part[j + 4]);                 \
        for (int j = 0; j < 2; j++) part[j] = join_##name##_##t(part[j], part[j + 2]);                 \
        return join_##name##_##t(part[0], part[1]);                                                    \
    }                                                                                                  \
    static void columns_##name##_##t(const T *p, int64_t stride, int64_t n, int64_t w, T (*part)[COLUMNS]) { \
        for (int64_t i = 0; i < n; i++) {                                                              \
            T *restrict a = part[i % LANES];                                                           \
            const T *restrict x = p + i * stride;                                                      \
            for (int64_t j = 0; j < w; j++) a[j] = join_##name##_##t(a[j], element_##name##_##t(x[j])); \
        }                                                                                              \
    }
#define REDUCER(name, t) {start_##name##_##t, block_##name##_##t, columns_##name##_##t, joins_##name##_##t, finish_##name##_##t}

#include <cpu_reduce_rows.h>

#define REAL float
#define FA_SUFFIX _f32
#define OWN_DTYPE FA_T_FLOAT32
#define PLACE int32_t
#include "reduce_real.h"

#define REAL double
#define FA_SUFFIX _f64
#define OWN_DTYPE FA_T_FLOAT64
#define PLACE int64_t
#include "reduce_real.h"

#define REAL fa_i64
#define FA_SUFFIX _i64
#define OWN_DTYPE FA_T_INT64
#define PLACE int64_t
#include "reduce_real.h"
