/* LAPACK's routines, in the machine's own library: loaded when the first is needed. Matrices lie column by column, as Fortran
 * has them. */
#ifndef FAI_LAPACK_H
#define FAI_LAPACK_H

#include "ops.h"

/* All give false with an error where LAPACK or memory is not there. info: 0, or the number by which LAPACK says that the matrix is
 * singular (its pivot), not positive definite, or that it did not converge. dtype: FA_FLOAT32 or FA_FLOAT64. */
bool fai_lapack_lu(const char *op, fa_dtype dtype, int n, void *a, int *pivots, int *info);             /* getrf, in place */
bool fai_lapack_solve(const char *op, fa_dtype dtype, int n, int columns, void *a, void *b, int *info); /* gesv: b becomes the solution */
bool fai_lapack_cholesky(const char *op, fa_dtype dtype, int n, void *a, int *info);                    /* potrf, lower triangle */
bool fai_lapack_qr(const char *op, fa_dtype dtype, int m, int n, void *a, void *r, int columns);
bool fai_lapack_eigh(const char *op, fa_dtype dtype, int n, void *a, void *values, bool lower, int *info); /* syevd: a becomes the vectors */
/* gesdd; job 'N' (values alone), 'S' or 'A'. u: [m, m or k], vt: [n or k, n]. */
bool fai_lapack_svd(const char *op, fa_dtype dtype, char job, int m, int n, void *a, void *s, void *u, void *vt, int *info);

#endif
