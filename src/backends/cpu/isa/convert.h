/* Elements of any type, brought into a compute type and back, a run at a time; and elements gathered from a strided view in the
 * order of its indices. The same conversions as kernels/dialect.h, written for vectors. */
#ifndef FAI_CPU_CONVERT_H
#define FAI_CPU_CONVERT_H

#include "../cpu.h"

/* n elements of that type, side by side. */
void FAI_NAME(fai_cpu_load_f32)(float *to, const void *from, int dtype, int64_t n);
void FAI_NAME(fai_cpu_load_f64)(double *to, const void *from, int dtype, int64_t n);
void FAI_NAME(fai_cpu_load_i64)(fa_i64 *to, const void *from, int dtype, int64_t n);
void FAI_NAME(fai_cpu_store_f32)(void *to, int dtype, const float *from, int64_t n);
void FAI_NAME(fai_cpu_store_f64)(void *to, int dtype, const double *from, int64_t n);
void FAI_NAME(fai_cpu_store_i64)(void *to, int dtype, const fa_i64 *from, int64_t n);

/* A strided iteration space; strides in elements. dim[ndim-1] runs fastest. */
typedef struct fai_cpu_space {
    int ndim;
    int64_t size[FA_PLAN_DIMS];
} fai_cpu_space;
/* Elements begin .. begin+n-1 of the space, as they lie (of 1, 2, 4 or 8 bytes), to or from n places side by side. */
void FAI_NAME(fai_cpu_gather)(void *to, const void *from, int bytes, const fai_cpu_space *space, const fa_i64 *stride,
                              int64_t begin, int64_t n);
void FAI_NAME(fai_cpu_scatter)(void *to, const void *from, int bytes, const fai_cpu_space *space, const fa_i64 *stride,
                               int64_t begin, int64_t n);

static inline int fai_cpu_bytes(int dtype) {
    static const unsigned char bytes[] = {0, 1, 1, 1, 2, 4, 8, 2, 2, 4, 8};
    return bytes[dtype];
}

#endif
