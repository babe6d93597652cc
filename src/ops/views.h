/* Shapes and strides of views: what reshape and the composite operators need of views.c. */
#ifndef FAI_VIEWS_H
#define FAI_VIEWS_H

#include "ops.h"
#include "ops_gen.h"

bool fai_shape_ok(const char *op, const char *argument, fa_shape shape); /* not more entries than a tensor has dimensions */
/* shape with its -1, if there is one, replaced by what is left of x; torch's sentences where the sizes do not fit. */
bool fai_infer_shape(const char *op, const fa_tensor *x, fa_shape shape, fa_shape *out);
/* The strides under which x's memory has the shape (as many elements as x); false if there are none. */
bool fai_view_strides(const fa_tensor *x, fa_shape shape, int64_t stride[FA_MAX_DIMS]);

#endif
