/* What the code made from tensor.tab and reduce.tab leans on. */
#ifndef FAI_GENERATED_H
#define FAI_GENERATED_H

#include "autograd.h"
#include "ops_gen.h"

/* The start of a public op: false if an input is NULL (an error unless one is pending, then silence) or devices differ. optional:
 * bit i set where inputs[i] may be NULL. */
bool fai_op_begin(const char *op, int n, const char *const *names, fa_tensor *const *inputs, uint32_t optional);
bool fai_list_begin(const char *op, const char *name, fa_tensor *const *tensors, int n, bool null_allowed);
bool fai_options_ok(const char *op, size_t given, size_t known);
bool fai_any_wants_grad(fa_tensor *const *tensors, int n);
bool fai_node_inputs(fai_node *node, int first, fa_tensor *const *tensors, int n);
bool fai_node_keep_all(fai_node *node, int first, fa_tensor *const *tensors, int n);
bool fai_node_kept_all(fai_node *node, int first, fa_tensor **tensors);
void fai_copy_word(char *to, const char *word, size_t n);

fa_shape fai_meta_shape(const fai_meta *meta);
fa_shape fai_inverse_dims(fa_tensor *g, fa_shape dims);   /* of a permutation */
fa_shape fai_dims_of(fa_tensor *g, int64_t dim);
fa_shape fai_channel_dims(fa_tensor *g);                  /* all but dimension 1 */
fa_tensor *fai_zeros_of(fa_tensor *like, fa_shape shape); /* zeros of like's dtype and device */
fa_tensor *fai_as_rows(fa_tensor *t);                        /* [..., n] as a matrix */

/* Reductions: forward with its dtype rule; backward's g and r brought to x's shape; how many elements were reduced. */
fa_tensor *fai_reduction_forward(const char *op, int reduction, fa_tensor *x, fa_shape dims, bool keepdim);
fa_tensor *fai_expand_reduced(fai_node *node, fa_tensor *t, fa_shape dims, bool keepdim);
double fai_reduced_count(const fai_node *node, fa_shape dims, bool keepdim);

/* Zeros of shape, which lies in memory in order, with g added at the elements of a strided view of it; they may be named twice. */
fa_tensor *fai_added_into(fa_tensor *g, fa_shape shape, fa_shape size, fa_shape stride, int64_t offset);

#endif
