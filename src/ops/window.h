/* Options of convolution and pooling: two numbers, for height and width, from a shape of one or two. */
#ifndef FAI_WINDOW_H
#define FAI_WINDOW_H

#include "ops.h"

/* [channels, h, w] or [n, channels, h, w]: planes in order. */
typedef struct fai_planes {
    int64_t images, channels, height, width;
} fai_planes;

static inline fai_planes fai_planes_of(int ndim, const int64_t *size)
{
    const bool batched = ndim == 4;
    return (fai_planes){batched ? size[0] : 1, size[ndim - 3], size[ndim - 2], size[ndim - 1]};
}

/* pool.c. One number stands for both sides. False and torch's sentence if it is neither, or one is below `least`. */
bool fai_pair(const char *op, const char *argument, fa_shape given, int64_t least, int64_t out[2]);
bool fai_pool_input(const char *op, const fa_tensor *x);

#endif
