/* Elementwise rows on the CPU: the contiguous loops of all rows, one for each compute type, and what walks the tensors for them
 * (ew_walk.h). The plan is described in kernels/ew.k.h. */
#if defined(__GNUC__) && !defined(__clang__)
/* Both turn selects into paths of their own, and a loop with paths does not become vectors. */
#pragma GCC optimize("no-thread-jumps", "no-tree-pre")
#endif
#include "convert.h"
#include "copy.h"
#include "../../../../kernels/dialect.h"
/* A loop with a call in it does not become vectors: every function of the language goes into its loops. */
#undef FN
#define FN static inline __attribute__((always_inline, unused))
#include "../../../../kernels/math.h"

#define UNUSED __attribute__((unused))
#define ROW(name, T, N_)                                                                                                         \
    static void row_##name(UNUSED int64_t n, T *out, UNUSED const T *a, UNUSED const T *b, UNUSED const T *c, UNUSED const T *d, \
                           UNUSED const N_ *params)

/* out may be an operand, so nothing is "restrict"; but no element depends on another, which is what the pragma says. */
#if defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#pragma clang diagnostic ignored "-Wpass-failed" /* float64's functions are libm's: those loops stay as they are */
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif
#define EACH(statement) INDEPENDENT for (int64_t i = 0; i < n; i++) { statement }

/* Long bodies: only blocks of 16, as vectors; what is left over goes through a padded block. That keeps one body a row, where
 * a plain loop would have a second one for single elements, which is slower too. */
enum { STEP = 16 };
#define EACH_16(statement)                                                             \
    int64_t k = 0;                                                                     \
    for (; k + STEP <= n; k += STEP) {                                                 \
        INDEPENDENT for (int64_t i = k; i < k + STEP; i++) { statement }               \
    }
#define TAIL(row) if (k < n) tail(row, n - k, k, out, a, b, c, d, params)
/* A block whose arguments are all common ones takes the fast text. */
#define NEAR_OR_FAR(far, test, statement)                                              \
    int64_t k = 0;                                                                     \
    for (; k + STEP <= n; k += STEP) {                                                 \
        int near_ = 1;                                                                 \
        for (int64_t i = k; i < k + STEP; i++) { test }                                \
        if (near_) {                                                                   \
            INDEPENDENT for (int64_t i = k; i < k + STEP; i++) { statement }           \
        } else {                                                                       \
            far(STEP, out + k, PLUS(a, k), PLUS(b, k), PLUS(c, k), PLUS(d, k), params); \
        }                                                                              \
    }
#define PLUS(p, k) ((p) ? (p) + (k) : NULL)

static void __attribute__((noinline)) tail(fai_cpu_row_f32 *row, int64_t n, int64_t from, float *out, const float *a,
                                           const float *b, const float *c, const float *d, const double *params) {
    float pad[5][STEP];
    const float *operand[4] = {a, b, c, d};
    for (int k = 0; k < 4; k++) {
        if (!operand[k]) continue;
        for (int i = 0; i < STEP; i++) pad[k][i] = operand[k][from + (i < n ? i : 0)];
        operand[k] = pad[k];
    }
    row(STEP, pad[4], operand[0], operand[1], operand[2], operand[3], params);
    memcpy(out + from, pad[4], (size_t)n * sizeof(float));
}

#include <cpu_ew_rows.h>

/* ---- the kernels. KEEPS: the compute type holds every value of that type, so that a copy needs no look at them. ---- */
#define REAL float
#define FA_SUFFIX _f32
#define OWN_DTYPE FA_T_FLOAT32
#define SCALARS(plan) ((plan)->f)
#define PARAM const double
#define ROWS FAI_NAME(fai_cpu_rows).f32
#define KEEPS(dtype) ((dtype) != FA_T_INT32 && (dtype) != FA_T_INT64 && (dtype) != FA_T_FLOAT64)
#include "ew_walk.h"

#define REAL double
#define FA_SUFFIX _f64
#define OWN_DTYPE FA_T_FLOAT64
#define SCALARS(plan) ((plan)->f)
#define PARAM const double
#define ROWS FAI_NAME(fai_cpu_rows).f64
#define KEEPS(dtype) ((dtype) != FA_T_INT64)
#include "ew_walk.h"

#define REAL fa_i64
#define FA_SUFFIX _i64
#define OWN_DTYPE FA_T_INT64
#define SCALARS(plan) ((plan)->n)
#define PARAM const fa_i64
#define ROWS FAI_NAME(fai_cpu_rows).i64
#define KEEPS(dtype) ((dtype) < FA_T_FLOAT16)
#include "ew_walk.h"
