/* Floating random numbers on accelerators, by Philox (philox.h). float16 and bfloat16 draw as float32 does and round at the end.
 *
 *   uniform      f[0] = from, f[1] = to
 *   normal       f[0] = mean, f[1] = std
 *   bernoulli    f[0] = p
 *   exponential  f[0] = lambda */
#include "philox.h"

#undef FA_DRAWS
#ifdef FA_F64
#define FA_DRAWS 2 /* numbers from one call */
#else
#define FA_DRAWS 4
#endif

/* Four uniform numbers (two in double precision) in (0, 1]. */
FN void N(fa_uniforms)(fa_words r, REAL *u) {
#ifdef FA_F64
    for (int i = 0; i < 2; ++i)
        u[i] = (double)(r.w[2 * i] ^ (fa_u64)r.w[2 * i + 1] << 21) * 1.1102230246251565e-16 + 5.5511151231257827e-17;
#else
    for (int i = 0; i < 4; ++i) u[i] = fa_fma_f32((float)r.w[i], 2.3283064e-10f, 2.3283064e-10f / 2.0f);
#endif
}

/* Box and Muller: each pair of uniform numbers makes a pair of normal ones. */
FN void N(fa_normals)(fa_words r, REAL *z) {
    REAL u[FA_DRAWS];
    N(fa_uniforms)(r, u);
    for (int i = 0; i < FA_DRAWS; i += 2) {
#ifdef FA_F64
        const double angle = u[i + 1] * 6.283185307179586;
#else
        const float angle = fa_fma_f32((float)r.w[i + 1], 2.3283064e-10f * 6.2831855f, 2.3283064e-10f * 6.2831855f / 2.0f);
#endif
        const REAL radius = N(fa_sqrt)((REAL)-2 * N(fa_log)(u[i]));
        z[i] = radius * N(fa_sin)(angle);
        z[i + 1] = radius * N(fa_cos)(angle);
    }
}

/* A value as its dtype will hold it. */
FN REAL N(fa_rounded)(REAL value, int dtype) {
    if (dtype == FA_T_FLOAT16) return (REAL)fa_half_to_f32(fa_f32_to_half((float)value));
    if (dtype == FA_T_BFLOAT16) return (REAL)fa_bf16_to_f32(fa_f32_to_bf16((float)value));
    return value;
}

KERNEL(N(uniform), 256) {
    ITEMS(256) {
        const REAL from = (REAL)P.f[0], to = (REAL)P.f[1], last = N(fa_rounded)(to, P.view[0].dtype);
        for (fa_i64 q = 0; fa_draw_element(q, FA_THREADS, FA_THREAD, P.n[2]) < P.numel; q += FA_DRAWS) {
            REAL u[FA_DRAWS];
            N(fa_uniforms)(FA_DRAW(q / FA_DRAWS), u);
            for (int k = 0; k < FA_DRAWS; ++k) {
                const fa_i64 i = fa_draw_element(q + k, FA_THREADS, FA_THREAD, P.n[2]);
                const REAL value = N(fa_rounded)(N(fa_fma)(u[k], to - from, from), P.view[0].dtype);
                if (i < P.numel) STORE_ARG(0, fa_draw_place(&P, i), value == last ? from : value);
            }
        }
    }
}

KERNEL(N(normal), 256) {
    ITEMS(256) {
        for (fa_i64 q = 0; fa_draw_element(q, FA_THREADS, FA_THREAD, P.n[2]) < P.numel; q += FA_DRAWS) {
            REAL z[FA_DRAWS];
            N(fa_normals)(FA_DRAW(q / FA_DRAWS), z);
            for (int k = 0; k < FA_DRAWS; ++k) {
                const fa_i64 i = fa_draw_element(q + k, FA_THREADS, FA_THREAD, P.n[2]);
                if (i < P.numel) STORE_ARG(0, fa_draw_place(&P, i), N(fa_fma)(z[k], (REAL)P.f[1], (REAL)P.f[0]));
            }
        }
    }
}

KERNEL(N(bernoulli), 256) {
    ITEMS(256) {
        for (fa_i64 q = 0; fa_draw_element(q, FA_THREADS, FA_THREAD, P.n[2]) < P.numel; q += FA_DRAWS) {
            REAL u[FA_DRAWS];
            N(fa_uniforms)(FA_DRAW(q / FA_DRAWS), u);
            for (int k = 0; k < FA_DRAWS; ++k) {
                const fa_i64 i = fa_draw_element(q + k, FA_THREADS, FA_THREAD, P.n[2]);
                if (i < P.numel) STORE_ARG(0, fa_draw_place(&P, i), u[k] < (REAL)P.f[0] ? (REAL)1 : (REAL)0);
            }
        }
    }
}

/* Close to 1 the logarithm would be 0, which the law does not contain: half the distance to 1 stands for it. */
KERNEL(N(exponential), 256) {
    ITEMS(256) {
#ifdef FA_F64
        const REAL least = 1.1102230246251565e-16;
#else
        const REAL least = 5.9604645e-8f;
#endif
        for (fa_i64 q = 0; fa_draw_element(q, FA_THREADS, FA_THREAD, P.n[2]) < P.numel; q += FA_DRAWS) {
            REAL u[FA_DRAWS];
            N(fa_uniforms)(FA_DRAW(q / FA_DRAWS), u);
            for (int k = 0; k < FA_DRAWS; ++k) {
                const fa_i64 i = fa_draw_element(q + k, FA_THREADS, FA_THREAD, P.n[2]);
                const REAL value = u[k] >= 1 - least ? least : -N(fa_log)(u[k]);
                if (i < P.numel) STORE_ARG(0, fa_draw_place(&P, i), value / (REAL)P.f[0]);
            }
        }
    }
}
