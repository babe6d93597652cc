/* For tests that compare kernels bit by bit: the CPU's tables of all instruction sets, and plans over random layouts, element
 * types and values. Only text in a header: every test has its own copy. */
#ifndef TEST_PLANS_H
#define TEST_PLANS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>
#include "src/backends/cpu/cpu.h"
#include "kernels/dialect.h"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable" /* not every instance of a text uses all that it declares */
#pragma GCC diagnostic ignored "-Wunused-parameter"

typedef struct isa_tables {
    const char *name;
    const fai_cpu_kernel *kernels;
    const fai_cpu_rows *rows;
    bool (*there)(void);
} isa_tables;
#define ISA_EXTERN(name)                                                                                                         \
    extern const fai_cpu_kernel fai_cpu_kernels_##name[FAI_K_COUNT];                                                             \
    extern const fai_cpu_rows fai_cpu_rows_##name;
#define ISA_ENTRY(name, there) {#name, fai_cpu_kernels_##name, &fai_cpu_rows_##name, there}
static inline bool isa_always(void) { return true; }
#if defined(__x86_64__)
static inline bool isa_avx2(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
static inline bool isa_avx512(void) {
    return isa_avx2() && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}
ISA_EXTERN(sse2) ISA_EXTERN(avx2) ISA_EXTERN(avx512)
static const isa_tables isas[] = {ISA_ENTRY(sse2, isa_always), ISA_ENTRY(avx2, isa_avx2), ISA_ENTRY(avx512, isa_avx512)};
#else
ISA_EXTERN(generic)
static const isa_tables isas[] = {ISA_ENTRY(generic, isa_always)};
#endif
enum { nisas = sizeof isas / sizeof isas[0] };

/* ---- random numbers of the test ---- */
static uint64_t plans_state = 0x9e3779b97f4a7c15u;
static inline uint32_t any(uint32_t below) {
    plans_state = plans_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((plans_state >> 33) % below);
}

/* A value of the domain that rows work on, now and then a special one. */
static inline double any_value(int dtype) {
    static const double special[] = {0.0, -0.0, 1, -1, 0.5, 1e-40, -1e-45, 3e38, -1e30, 1e300, 88.5, -104, 65504, 1e6, -3e9};
    if (dtype < FA_T_FLOAT16) return any(20) == 0 ? (double)any(4000000) * 1000 - 2e9 : (double)any(19) - 9;
    if (any(16) == 0) return special[any(sizeof special / sizeof special[0])];
    if (any(40) == 0) return any(3) == 0 ? NAN : any(2) ? INFINITY : -INFINITY;
    return ((double)any(1 << 24) / (1 << 22) - 2) * (any(4) ? 1 : 3);
}

/* ---- operands of a plan: memory of their own, the first is the result ---- */
typedef struct operands {
    fa_plan plan;
    int n;
    char *memory[8], *kept;
    size_t bytes[8];
} operands;

static const int bytes_of[] = {0, 1, 1, 1, 2, 4, 8, 2, 2, 4, 8};

static inline void any_strides(fa_plan *plan, fa_plan_view *v, bool is_result) {
    int order[FA_PLAN_DIMS], kind = (int)any(7);
    for (int d = 0; d < plan->ndim; d++) order[d] = d;
    for (int d = 0; kind == 1 && d < plan->ndim; d++) {
        int e = (int)any((uint32_t)plan->ndim), t = order[d];
        order[d] = order[e], order[e] = t;
    }
    fa_i64 step = kind == 2 ? 2 : 1;
    for (int d = plan->ndim - 1; d >= 0; d--) {
        int at = order[d];
        bool dead = !is_result && kind >= 3 && kind <= 4 && any(2);
        v->stride[at] = dead ? 0 : kind == 5 && any(2) ? -step : step;
        if (!dead) step *= v->size[at] > 0 ? v->size[at] : 1;
    }
    v->kind = !is_result && kind == 6 && any(2) ? FA_VIEW_SCALAR : FA_VIEW_TENSOR;
}

static inline void layout_random(operands *o, int n, int round) {
    memset(o, 0, sizeof *o);
    o->n = n;
    o->plan.nviews = n;
    o->plan.ndim = round == 0 ? 1 : (int)any(5);
    o->plan.numel = 1;
    fa_i64 size[FA_PLAN_DIMS];
    for (int d = 0; d < o->plan.ndim; d++) {
        size[d] = round == 0 ? 777 : any(5) == 0 ? 1 + any(300) : 1 + any(12);
        if (o->plan.ndim == 1 && any(10) == 0) size[d] = 70000 + any(5000);
        if (o->plan.numel * size[d] > 80000) size[d] = 3;
        o->plan.numel *= size[d];
    }
    for (int k = 0; k < n; k++) {
        fa_plan_view *v = &o->plan.view[k];
        v->ndim = o->plan.ndim;
        v->writes = k == 0;
        for (int d = 0; d < o->plan.ndim; d++) v->size[d] = size[d];
        any_strides(&o->plan, v, k == 0);
    }
}

/* Element type, memory and values of operand k. */
static inline void operand_random(operands *o, int k, int compute, int round) {
    static const int own[] = {FA_T_FLOAT32, FA_T_FLOAT64, FA_T_INT64};
    fa_plan_view *v = &o->plan.view[k];
    v->dtype = round == 0 || any(2) ? own[compute] : 1 + (int)any(10);
    if (v->kind == FA_VIEW_SCALAR) {
        o->plan.n[k] = (fa_i64)any(9) - 4;
        o->plan.f[k] = (double)o->plan.n[k] * 0.75;
        return;
    }
    v->low = 0, v->high = 1;
    for (int d = 0; d < v->ndim; d++) *(v->stride[d] < 0 ? &v->low : &v->high) += (v->size[d] - 1) * v->stride[d];
    v->low *= bytes_of[v->dtype], v->high *= bytes_of[v->dtype];
    for (int d = 0; d < v->ndim; d++)
        if (v->size[d] == 0) v->low = 0, v->high = bytes_of[v->dtype]; /* nothing to touch */
    o->bytes[k] = (size_t)(v->high - v->low);
    o->memory[k] = malloc(o->bytes[k]);
    assert_non_null(o->memory[k]);
    for (fa_i64 i = 0; i < (fa_i64)o->bytes[k] / bytes_of[v->dtype]; i++)
        fa_store_f64(o->memory[k], v->dtype, i, any_value(v->dtype));
}

static inline void operand_pointers(const operands *o, char **pointers) {
    for (int k = 0; k < 8; k++) pointers[k] = o->memory[k] ? o->memory[k] - o->plan.view[k].low : NULL;
}
static inline void result_clear(operands *o) { memset(o->memory[0], 0x5a, o->bytes[0]); }
static inline void result_keep(operands *o) {
    o->kept = malloc(o->bytes[0]);
    assert_non_null(o->kept);
    memcpy(o->kept, o->memory[0], o->bytes[0]);
}
/* Place of the first element that is not the kept one, -1 if none; all NaN are one. */
static inline int64_t differs(const char *a, const char *b, int dtype, size_t bytes) {
    if (!memcmp(a, b, bytes)) return -1;
    for (int64_t i = 0; i < (int64_t)bytes / bytes_of[dtype]; i++) {
        if (!memcmp(a + i * bytes_of[dtype], b + i * bytes_of[dtype], (size_t)bytes_of[dtype])) continue;
        double x = fa_load_f64(a, dtype, i), y = fa_load_f64(b, dtype, i);
        if (dtype >= FA_T_FLOAT16 && x != x && y != y) continue;
        print_message("element %lld: %.17g, expected %.17g\n", (long long)i, x, y);
        return i * bytes_of[dtype];
    }
    return -1;
}
static inline int64_t result_differs(const operands *o) {
    return differs(o->memory[0], o->kept, o->plan.view[0].dtype, o->bytes[0]);
}
static inline void operands_free(operands *o) {
    for (int k = 0; k < 8; k++) free(o->memory[k]);
    free(o->kept);
}
static inline void print_plan(const fa_plan *plan) {
    for (int k = 0; k < plan->nviews; k++) {
        print_message("view %d: dtype %d kind %d", k, plan->view[k].dtype, plan->view[k].kind);
        for (int d = 0; d < plan->view[k].ndim; d++)
            print_message(" %lld/%lld", (long long)plan->view[k].size[d], (long long)plan->view[k].stride[d]);
        print_message("\n");
    }
}

#endif
