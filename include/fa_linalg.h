/* Linear algebra: factorisations and what is made of them, for matrices [..., m, n] of float32 or float64, batched over all
 * dimensions before the last two. LAPACK does the work, on the host, also for tensors on a device; it is loaded from the machine
 * when it is first needed, and FACULA_LAPACK may name its file. All can be differentiated, any number of times.
 *
 * Results belong to the scope; NULL (false) with an error: other dtypes, matrices that are not square or are singular,
 * LAPACK not there. */
#ifndef FA_LINALG_H
#define FA_LINALG_H

#include "fa_tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

FA_API fa_tensor *fa_linalg_inv(fa_tensor *a);                        /* [..., n, n] */
FA_API fa_tensor *fa_linalg_solve(fa_tensor *a, fa_tensor *b);        /* x of a x = b; b [..., n, k], or [..., n] */
FA_API fa_tensor *fa_linalg_det(fa_tensor *a);                        /* [...] */
FA_API fa_tensor *fa_linalg_slogdet(fa_tensor *a, fa_tensor **logabs); /* the determinant's sign, and the logarithm of its size */
FA_API fa_tensor *fa_linalg_cholesky(fa_tensor *a, bool upper);       /* lower l of a = l l^T, or upper u of a = u^T u */
/* a = q r. mode "reduced", "complete" or "r" (r alone, q NULL). Gives q; "r": an empty tensor. */
FA_API fa_tensor *fa_linalg_qr(fa_tensor *a, const char *mode, fa_tensor **r);
/* Of symmetric matrices, of which one triangle is read: eigenvalues in rising order; vectors (may be NULL): in columns. */
FA_API fa_tensor *fa_linalg_eigh(fa_tensor *a, bool upper, fa_tensor **vectors);
/* a = u diag(s) vh. Gives s, falling; u [..., m, k] and vh [..., k, n], k = min(m, n), or square with full. Both may be NULL. */
FA_API fa_tensor *fa_linalg_svd(fa_tensor *a, bool full, fa_tensor **u, fa_tensor **vh);
FA_API fa_tensor *fa_linalg_pinv(fa_tensor *a, double rtol);          /* of Moore and Penrose; rtol below 0: max(m, n) times the type's epsilon */
FA_API fa_tensor *fa_linalg_matrix_rank(fa_tensor *a, double rtol);   /* int64; singular values above rtol times the largest */
FA_API fa_tensor *fa_matrix_exp(fa_tensor *a);                        /* [..., n, n]; needs no LAPACK */

#ifdef __cplusplus
}
#endif
#endif
