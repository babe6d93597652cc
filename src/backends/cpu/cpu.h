/* The CPU backend's own kernels. Every file in isa/ is compiled once per instruction set with -DFAI_ISA=sse2, avx2 or avx512;
 * FAI_NAME(x) is then x_avx2, and a generated table per instruction set collects the kernels. Which table serves is decided
 * once, at start. The sse2 build needs no instruction beyond vectors of 16 bytes, so it is also the portable one. */
#ifndef FAI_CPU_H
#define FAI_CPU_H

#include "../../base/base.h"
#include <sys/fa_plan.h>
#include <kernels_gen.h>

/* One kernel: the plan, and eight pointers to which byte offsets have already been added. It spreads its work by fai_parallel. */
typedef void (*fai_cpu_kernel)(const fa_plan *plan, char *const *pointers);

#ifdef FAI_ISA
#define FAI_PASTE2_(a, b) a##_##b
#define FAI_PASTE2(a, b) FAI_PASTE2_(a, b)
#define FAI_NAME(x) FAI_PASTE2(x, FAI_ISA)
#if defined(__AVX512F__)
#define FAI_VECTOR_BYTES 64
#elif defined(__AVX2__)
#define FAI_VECTOR_BYTES 32
#else
#define FAI_VECTOR_BYTES 16
#endif
#endif

/* ---- cpu.c: the tables of the instruction set that serves: the best one that the machine has, or FACULA_ISA's. ---- */
const fai_cpu_kernel *fai_cpu_table(void); /* FAI_K_COUNT entries; NULL where a kernel is not there */
const char *fai_cpu_isa(void);             /* "avx2" */

/* Contiguous loops of the elementwise rows, [FAI_ROW_...]; NULL where a row has none of that compute type. out may be one of the
 * operands; operands that a row has not are NULL. params: the row's numbers. */
typedef void fai_cpu_row_f32(int64_t n, float *out, const float *a, const float *b, const float *c, const float *d, const double *params);
typedef void fai_cpu_row_f64(int64_t n, double *out, const double *a, const double *b, const double *c, const double *d, const double *params);
typedef void fai_cpu_row_i64(int64_t n, fa_i64 *out, const fa_i64 *a, const fa_i64 *b, const fa_i64 *c, const fa_i64 *d, const fa_i64 *params);
typedef struct fai_cpu_rows {
    fai_cpu_row_f32 *f32[FAI_ROW_COUNT];
    fai_cpu_row_f64 *f64[FAI_ROW_COUNT];
    fai_cpu_row_i64 *i64[FAI_ROW_COUNT];
} fai_cpu_rows;
const fai_cpu_rows *fai_cpu_rows_table(void);

/* ---- scratch.c: working memory of a kernel for the time of one call. NULL if there is none: the kernel must then do with a
 * small buffer on its stack. A few blocks are kept for the next call. ---- */
void *fai_cpu_scratch_take(size_t bytes);
void fai_cpu_scratch_give(void *block, size_t bytes);

#endif
