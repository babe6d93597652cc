/* Optimizer steps on the CPU: one loop for each row of optim.tab and type, over all parameters of a launch. The plan is
 * described in kernels/optim.k.h. */
#include "convert.h"
#include "../../../../kernels/dialect.h"
#undef FN
#define FN static inline __attribute__((always_inline, unused)) /* as in elementwise.c */
#include "../../../../kernels/math.h"

enum { CHUNK = 16384, TILE = 512, WORTH_A_THREAD = 16384 /* elements: fewer are done before another thread has woken */ };

#define UNUSED __attribute__((unused))
#if defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

typedef void (*update_f32)(int64_t n, float *at_p, const float *at_g, float *at_0, float *at_1, float *at_2, const double *hyper);
typedef void (*update_f64)(int64_t n, double *at_p, const double *at_g, double *at_0, double *at_1, double *at_2,
                           const double *hyper);

#define UPDATE(name, T, HYPER, READ, STEPS, WRITE)                                                                               \
    static void update_##name(int64_t n, T *at_p, const T *at_g, UNUSED T *at_0, UNUSED T *at_1, UNUSED T *at_2,                 \
                              const double *hyper) {                                                                             \
        HYPER                                                                                                                    \
        INDEPENDENT for (int64_t i = 0; i < n; i++) {                                                                            \
            T p = at_p[i];                                                                                                       \
            const T g = at_g[i];                                                                                                 \
            READ STEPS WRITE                                                                                                     \
            at_p[i] = p;                                                                                                         \
        }                                                                                                                        \
    }
#define UPDATE0(name, T, HYPER, STEPS) UPDATE(name, T, HYPER, , STEPS, )
#define UPDATE1(name, T, HYPER, STEPS) UPDATE(name, T, HYPER, T s0 = at_0[i];, STEPS, at_0[i] = s0;)
#define UPDATE2(name, T, HYPER, STEPS) UPDATE(name, T, HYPER, T s0 = at_0[i]; T s1 = at_1[i];, STEPS, at_0[i] = s0; at_1[i] = s1;)
#define UPDATE3(name, T, HYPER, STEPS) \
    UPDATE(name, T, HYPER, T s0 = at_0[i]; T s1 = at_1[i]; T s2 = at_2[i];, STEPS, at_0[i] = s0; at_1[i] = s1; at_2[i] = s2;)

#include <cpu_optim_rows.h>

/* One operand of one parameter: k = 0 the parameter, 1 its gradient, 2 ... states. */
typedef struct update_call { const fa_plan *plan; char *const *pointers; int bytes; } update_call;

static char *update_pointer(const update_call *c, int k, int64_t parameter) {
    if (k >= c->plan->nviews || c->plan->view[k].kind == FA_VIEW_NONE) return NULL;
    if (c->plan->view[k].kind != FA_VIEW_TABLE) return c->pointers[k];
    return (char *)(uintptr_t)((const fa_table_entry *)(const void *)c->pointers[k])[parameter].address;
}

static int64_t update_parameters(const update_call *c) {
    return c->plan->view[0].kind == FA_VIEW_TABLE ? c->plan->view[0].size[0] : 1;
}

static int64_t update_elements(const update_call *c, int64_t parameter) {
    if (c->plan->view[0].kind != FA_VIEW_TABLE) return c->plan->n[1];
    return ((const fa_table_entry *)(const void *)c->pointers[0])[parameter].bytes / c->bytes;
}

static int64_t update_chunks(const update_call *c, int64_t parameter) {
    return (update_elements(c, parameter) + CHUNK - 1) / CHUNK;
}

#define REAL float
#define FA_SUFFIX _f32
#define OWN_DTYPE FA_T_FLOAT32
#include "update_real.h"

#define REAL double
#define FA_SUFFIX _f64
#define OWN_DTYPE FA_T_FLOAT64
#include "update_real.h"
