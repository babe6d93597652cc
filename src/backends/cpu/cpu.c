/* Which instruction set serves. The kernels are there once for each; the choice is made at the first use and then stays, so
 * that one process sees one set of functions. Results are the same bits whichever it is. */
#include "cpu.h"
#include <stdlib.h>
#include <string.h>

typedef struct build {
    const char *name;
    const fai_cpu_kernel *kernels;
    const fai_cpu_rows *rows;
    bool (*there)(void);
} build;

static bool always(void) { return true; }

#if defined(__x86_64__)
#include <cpuid.h>
static bool has_f16c(void) { /* clang 14's __builtin_cpu_supports does not know it */
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}
static bool has_avx2(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
}
static bool has_avx512(void) {
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd")
        && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#define BUILD(isa, test)                                              \
    extern const fai_cpu_kernel fai_cpu_kernels_##isa[FAI_K_COUNT]; \
    extern const fai_cpu_rows fai_cpu_rows_##isa;
BUILD(avx512, has_avx512) BUILD(avx2, has_avx2) BUILD(sse2, always)
static const build builds[] = { /* best first */
    {"avx512", fai_cpu_kernels_avx512, &fai_cpu_rows_avx512, has_avx512},
    {"avx2", fai_cpu_kernels_avx2, &fai_cpu_rows_avx2, has_avx2},
    {"sse2", fai_cpu_kernels_sse2, &fai_cpu_rows_sse2, always},
};
#else
extern const fai_cpu_kernel fai_cpu_kernels_generic[FAI_K_COUNT];
extern const fai_cpu_rows fai_cpu_rows_generic;
static const build builds[] = {{"generic", fai_cpu_kernels_generic, &fai_cpu_rows_generic, always}};
#endif

enum { BUILDS = sizeof builds / sizeof builds[0] };
static _Atomic(const build *) chosen;

/* FACULA_ISA asks for one; a name that is unknown or that the machine can't run is said once and passed over. */
static const build *choose(void) {
    const char *wish = getenv("FACULA_ISA");
    const build *best = NULL;
    for (int i = BUILDS - 1; i >= 0; i--) {
        if (!builds[i].there()) continue;
        best = &builds[i];
        if (wish && !strcmp(wish, best->name)) break;
    }
    if (wish && *wish && strcmp(wish, best->name))
        fprintf(stderr, "facula: FACULA_ISA=%s is not among the instruction sets of this machine and build; %s serves. Names: sse2, avx2, "
                "avx512 (generic where the processor is no x86-64)\n", wish, best->name);
    atomic_store(&chosen, best);
    return best;
}

static inline const build *serving(void) {
    const build *now = atomic_load_explicit(&chosen, memory_order_relaxed);
    return FAI_LIKELY(now != NULL) ? now : choose();
}

const fai_cpu_kernel *fai_cpu_table(void) { return serving()->kernels; }
const fai_cpu_rows *fai_cpu_rows_table(void) { return serving()->rows; }
const char *fai_cpu_isa(void) { return serving()->name; }

const char *fa_instruction_set(void) { return fai_cpu_isa(); }

const char *fa_instruction_sets(void) {
    static __thread char text[64]; /* the same text whoever writes it */
    text[0] = 0;
    for (int i = 0; i < BUILDS; i++)
        if (builds[i].there()) strcat(strcat(text, text[0] ? ", " : ""), builds[i].name);
    return text;
}
