/* The fused derivatives of the norms, for the graph. Each result is asked for by a pointer that is not NULL. */
#ifndef FAI_NORM_H
#define FAI_NORM_H

#include "ops.h"

/* mean, rstd: what the forward gave; shape: the normalised dimensions; weight may be NULL. */
bool fai_layer_norm_grads(fa_tensor *g, fa_tensor *x, fa_shape shape, fa_tensor *weight, fa_tensor *mean, fa_tensor *rstd,
                          fa_tensor **x_grad, fa_tensor **weight_grad, fa_tensor **bias_grad);
/* training: mean and rstd as the forward gave them; else running_mean and running_var. */
bool fai_batch_norm_grads(fa_tensor *g, fa_tensor *x, fa_tensor *weight, fa_tensor *mean, fa_tensor *rstd_or_var, bool training,
                          double eps, fa_tensor **x_grad, fa_tensor **weight_grad, fa_tensor **bias_grad);

#endif
