/* What convolution, pooling and resizing of one, two and three dimensions share: numbers for each side of the window, and the
 * batch that an input may lack. */
#ifndef FAI_SIDES_H
#define FAI_SIDES_H

#include "composite.h"

enum { FAI_MAX_SIDES = 3 };

/* One number for all sides or one for each: torch's sentences for other counts and for numbers below least. */
bool fai_sides(const char *op, const char *argument, fa_shape given, int sides, int64_t least, int64_t out[FAI_MAX_SIDES]);
/* x has a channel dimension and sides, with or without a batch before them. */
bool fai_batch_or_not(const char *op, const fa_tensor *x, int sides);
/* A dimension of size 1 before the last, and a number for it: how an operator of one side is that of two. */
static inline fa_tensor *fai_raised(fa_tensor *x) { return fa_unsqueeze(x, -2); }
static inline fa_shape fai_raised_sides(int64_t first, int64_t only) { return FA_SHAPE(first, only); }

#endif
