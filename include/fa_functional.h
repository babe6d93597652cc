/* Functions of tensors that no row of a table makes: several results, writes in place that are more than elementwise, numbers where
 * the rows take tensors. */
#ifndef FA_FUNCTIONAL_H
#define FA_FUNCTIONAL_H

#include "fa_ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Views of x side by side along dim, written to parts[0 .. room). They return how many there are, or -1 after an error (more
 * parts than room is one). parts NULL: nothing is made, only counted. As torch has it, parts of a tensor that needs a gradient
 * may not be changed in place. */
/* size each; the last one may be smaller */
FA_API int fa_split(fa_tensor *x, int64_t size, int dim, fa_tensor **parts, int room);
/* at most that many, of equal size but the last */
FA_API int fa_chunk(fa_tensor *x, int64_t chunks, int dim, fa_tensor **parts, int room);
FA_API int fa_split_sizes(fa_tensor *x, const int64_t *sizes, int nsizes, int dim, fa_tensor **parts, int room);
/* the slices of dim, without it */
FA_API int fa_unbind(fa_tensor *x, int dim, fa_tensor **parts, int room);

/* ---- Writes in place. They return t, or NULL after an error. Recorded: what is overwritten gets no gradient. The rules are those of
 * fa_add_ and its kind: no leaf that needs a gradient, no overlapping memory. ---- */
FA_API fa_tensor *fa_copy_(fa_tensor *t, fa_tensor *from); /* from broadcasts, and may be of another type or on another device */
FA_API fa_tensor *fa_fill_(fa_tensor *t, fa_scalar value);
FA_API fa_tensor *fa_zero_(fa_tensor *t);
FA_API fa_tensor *fa_uniform_(fa_tensor *t, double low, double high); /* [low, high), by the device's default generator, as the next two */
FA_API fa_tensor *fa_normal_(fa_tensor *t, double mean, double std);
FA_API fa_tensor *fa_bernoulli_(fa_tensor *t, double p); /* 1 with probability p, else 0 */
FA_API fa_tensor *fa_scatter_(fa_tensor *t, int64_t dim, fa_tensor *index, fa_tensor *src);
FA_API fa_tensor *fa_scatter_value_(fa_tensor *t, int64_t dim, fa_tensor *index, fa_scalar value);
FA_API fa_tensor *fa_scatter_add_(fa_tensor *t, int64_t dim, fa_tensor *index, fa_tensor *src);
FA_API fa_tensor *fa_index_add_(fa_tensor *t, int64_t dim, fa_tensor *index, fa_tensor *src);
FA_API fa_tensor *fa_index_copy_(fa_tensor *t, int64_t dim, fa_tensor *index, fa_tensor *src);
FA_API fa_tensor *fa_index_fill_(fa_tensor *t, int64_t dim, fa_tensor *index, fa_tensor *value); /* value: 0-dimensional */
FA_API fa_tensor *fa_index_fill_scalar_(fa_tensor *t, int64_t dim, fa_tensor *index, fa_scalar value);
FA_API fa_tensor *fa_masked_scatter_(fa_tensor *t, fa_tensor *mask, fa_tensor *src);
FA_API fa_tensor *fa_cumsum_(fa_tensor *t, int64_t dim);
FA_API fa_tensor *fa_cumprod_(fa_tensor *t, int64_t dim);
/* t = beta * t + alpha * mat1 @ mat2; fa_addmm_(t, mat1, mat2, .alpha = 2) */
FA_API fa_tensor *fa_addmm_with_(fa_tensor *t, fa_tensor *mat1, fa_tensor *mat2, const fa_addmm_options *options);
/* t[indices] = values (or += values): int64 or bool tensors as fa_index takes them, NULL for a whole dimension */
FA_API fa_tensor *fa_index_put_(fa_tensor *t, fa_tensor *const *indices, int nindices, fa_tensor *values, bool accumulate);

/* ---- Sizes and strides changed in place, the elements stay where they are. Recorded by torch's rules; the version is raised. ---- */
FA_API fa_tensor *fa_transpose_(fa_tensor *t, int64_t dim0, int64_t dim1);
FA_API fa_tensor *fa_t_(fa_tensor *t);
FA_API fa_tensor *fa_squeeze_(fa_tensor *t);
FA_API fa_tensor *fa_squeeze_dim_(fa_tensor *t, int64_t dim);
FA_API fa_tensor *fa_unsqueeze_(fa_tensor *t, int64_t dim);

/* ---- Numbers where the rows take tensors ---- */
FA_API fa_tensor *fa_clamp_scalars(fa_tensor *x, fa_scalar low, fa_scalar high); /* x held within [low, high] */
FA_API fa_tensor *fa_clamp_scalars_(fa_tensor *x, fa_scalar low, fa_scalar high);
FA_API fa_tensor *fa_clamp_min(fa_tensor *x, fa_scalar low);
FA_API fa_tensor *fa_clamp_max(fa_tensor *x, fa_scalar high);
FA_API fa_tensor *fa_clamp_min_(fa_tensor *x, fa_scalar low);
FA_API fa_tensor *fa_clamp_max_(fa_tensor *x, fa_scalar high);
FA_API fa_tensor *fa_round_decimals(fa_tensor *x, int decimals); /* 2: to hundredths, -2: to hundreds; halves to even */
FA_API fa_tensor *fa_round_decimals_(fa_tensor *x, int decimals);
FA_API fa_tensor *fa_rsub_scalar(fa_tensor *x, fa_scalar s); /* s - x */
FA_API fa_tensor *fa_rdiv_scalar(fa_tensor *x, fa_scalar s); /* s / x */
FA_API fa_tensor *fa_rpow_scalar(fa_tensor *x, fa_scalar s); /* s to the power x */
#ifndef __cplusplus
#define fa_fill_(t, value) fa_fill_((t), FA_NUM(value))
#define fa_scatter_value_(t, dim, index, value) fa_scatter_value_((t), (dim), (index), FA_NUM(value))
#define fa_clamp_scalars(x, low, high) fa_clamp_scalars((x), FA_NUM(low), FA_NUM(high))
#define fa_clamp_scalars_(x, low, high) fa_clamp_scalars_((x), FA_NUM(low), FA_NUM(high))
#define fa_index_fill_scalar_(t, dim, index, value) fa_index_fill_scalar_((t), (dim), (index), FA_NUM(value))
#define fa_addmm_(t, mat1, mat2, ...) \
    fa_addmm_with_((t), (mat1), (mat2), &FA_OPTIONS(fa_addmm_options, FA_ADDMM_DEFAULTS, __VA_ARGS__))
#define fa_clamp_min(x, low) fa_clamp_min((x), FA_NUM(low))
#define fa_clamp_min_(x, low) fa_clamp_min_((x), FA_NUM(low))
#define fa_clamp_max_(x, high) fa_clamp_max_((x), FA_NUM(high))
#define fa_clamp_max(x, high) fa_clamp_max((x), FA_NUM(high))
#define fa_rsub_scalar(x, s) fa_rsub_scalar((x), FA_NUM(s))
#define fa_rdiv_scalar(x, s) fa_rdiv_scalar((x), FA_NUM(s))
#define fa_rpow_scalar(x, s) fa_rpow_scalar((x), FA_NUM(s))
#endif

/* ---- Random choices whose law is in tensors; generator NULL: the device's. On the CPU torch's numbers, bit for bit. No derivatives. ---- */
/* n places in each row of p [k] or [rows, k], as often as p says: int64 [n] or [rows, n]. p need not sum to 1. */
FA_API fa_tensor *fa_multinomial(fa_tensor *p, int64_t n, bool replacement, fa_generator *generator);
FA_API fa_tensor *fa_bernoulli(fa_tensor *p, fa_generator *generator); /* 1 with the probability that p gives for each element, else 0 */
FA_API fa_tensor *fa_normal(fa_tensor *mean, fa_tensor *std, fa_generator *generator); /* of their broadcast shape */
FA_API fa_tensor *fa_normal_mean(fa_tensor *mean, double std, fa_generator *generator);
FA_API fa_tensor *fa_normal_std(double mean, fa_tensor *std, fa_generator *generator);
FA_API fa_tensor *fa_exponential_(fa_tensor *t, double lambda, fa_generator *generator);
FA_API fa_tensor *fa_random_(fa_tensor *t, fa_generator *generator); /* 0 to the largest whole number that the type holds exactly */
FA_API fa_tensor *fa_random_range_(fa_tensor *t, int64_t low, int64_t high, fa_generator *generator); /* whole numbers in [low, high) */

/* ---- Comparing whole tensors: true, false, or false after an error ---- */
FA_API bool fa_equal(fa_tensor *a, fa_tensor *b);    /* the same shape and elements */
FA_API bool fa_allclose(fa_tensor *a, fa_tensor *b, double rtol, double atol, bool equal_nan); /* all elements by fa_isclose */

/* ---- Several tensors together ---- */
/* Each 1-d tensor spread over the grid of all; indexing "ij" or "xy" (the first two exchanged). Returns how many, -1 after an error. */
FA_API int fa_meshgrid(fa_tensor *const *tensors, int n, const char *indexing, fa_tensor **parts, int room);
/* All broadcast to one shape: views. Returns how many, -1 after an error. */
FA_API int fa_broadcast_tensors(fa_tensor *const *tensors, int n, fa_tensor **parts, int room);
/* t, as if it had one dimension, with src written (or added) at index */
FA_API fa_tensor *fa_put_(fa_tensor *t, fa_tensor *index, fa_tensor *src, bool accumulate);

#ifdef __cplusplus
}
#endif
#endif
