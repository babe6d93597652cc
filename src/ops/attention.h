/* The fused derivative of attention, for the autograd floor. */
#ifndef FAI_ATTENTION_H
#define FAI_ATTENTION_H

#include "ops.h"

/* Whether the kernels take these operands: all floating, of one type, not too wide for the device. */
bool fai_attention_fits(const fa_tensor *query, const fa_tensor *value);
/* grads: of query, key and value, all made at once. */
bool fai_attention_grads(fa_tensor *g, fa_tensor *query, fa_tensor *key, fa_tensor *value, fa_tensor *mask, fa_tensor *result,
                         fa_tensor *lse, bool is_causal, double scale, fa_tensor *grads[3]);

#endif
