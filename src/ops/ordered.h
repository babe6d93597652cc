/* What the host needs to know of sums in the fixed order (kernels/ordered.h), and of tensors seen as [outer, dim, inner]. */
#ifndef FAI_OPS_ORDERED_H
#define FAI_OPS_ORDERED_H

#include "ops.h"

/* Rows of `count` elements that a group of a device sums at once: 16 short ones, or one long one. */
static inline int64_t fai_rows_per_group(int64_t count) {
    int64_t rows = 16;
    while (rows > 1 && count > 1024 * (16 / rows)) rows /= 2;
    return rows;
}

/* x seen as [outer, dim, inner]; a tensor without dimensions as one of size 1. */
typedef struct fai_lines {
    int64_t outer, dim, inner;
} fai_lines;
static inline fai_lines fai_lines_of(const fa_tensor *x, int dim) {
    fai_lines r = {1, x->ndim ? x->size[dim] : 1, 1};
    for (int d = 0; d < dim; d++) r.outer *= x->size[d];
    for (int d = dim + 1; d < x->ndim; d++) r.inner *= x->size[d];
    return r;
}

/* The floating type in which float16 and bfloat16 are computed and their statistics kept. */
static inline fa_dtype fai_wide_type(int dtype) { return dtype == FA_FLOAT64 ? FA_FLOAT64 : FA_FLOAT32; }

#endif
