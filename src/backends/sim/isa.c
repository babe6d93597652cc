/* Which instruction set the kernels are taken from: the best that this machine has, or what FACULA_ISA asks for among those. */
#include "sim.h"
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>

static bool there(const char *isa) {
    unsigned a, b, c, d;
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
    if (!strcmp(isa, "avx2")) return avx2;
    if (strcmp(isa, "avx512")) return true;
    return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd")
        && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#else
static bool there(const char *isa) {
    (void)isa;
    return true;
}
#endif

const fa_kernel_build *sim_choose_build(void) {
    const char *wish = getenv("FACULA_ISA");
    const fa_kernel_build *best = NULL;
    for (int i = fa_kernel_builds_count - 1; i >= 0; i--) {
        if (!there(fa_kernel_builds[i].isa)) continue;
        best = &fa_kernel_builds[i];
        if (wish && !strcmp(wish, best->isa)) break;
    }
    return best;
}
