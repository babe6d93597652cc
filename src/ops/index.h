/* What indexing and accumulation share: where an index points, and the space that a kernel of kernels/index.k.h runs over. */
#ifndef FAI_INDEX_H
#define FAI_INDEX_H

#include "ops.h"
#include "../../kernels/status.h"

/* The dimension that an index tensor points into: its number and size, elements from one index to the next, how a bad index is
 * reported. */
typedef struct fai_place {
    int64_t size, step;
    int dim, kind;
    bool not_negative;
} fai_place;

/* The elements that a kernel visits, and the strides there of the indexed tensor, the other one and the index. */
typedef struct fai_space {
    int ndim;
    int64_t size[FA_MAX_DIMS], indexed[FA_MAX_DIMS], other[FA_MAX_DIMS], index[FA_MAX_DIMS];
} fai_space;

/* Columns that every key of an accumulation has, with their strides. */
typedef struct fai_columns {
    int ndim;
    int64_t size[FA_MAX_DIMS], out[FA_MAX_DIMS], src[FA_MAX_DIMS];
} fai_columns;

/* other = indexed[index], or the reverse. place NULL: index holds checked offsets. Errors of the CPU are there on return. */
bool fai_fail_nothing(const char *op, int dim); /* an index along a dimension of size 0 */
bool fai_index_run(const char *op, bool writes, fa_tensor *indexed, fa_tensor *other, fa_tensor *index, const fai_space *space,
                   const fai_place *place);
/* out = checked index * place->step, added to what is there if add, plus the place's offset by the strides base (may be NULL).
 * out is int64 and contiguous; stride: index's over out's sizes. */
bool fai_index_offsets(const char *op, fa_tensor *out, fa_tensor *index, const int64_t *stride, const fai_place *place, bool add,
                       const int64_t *base);
/* out[key * out_step] += src[position * src_step] for all columns, key by key of the int64 vector keys, each below bound and none
 * negative; the key `skip` is left out (-1: none). */
bool fai_accumulate(const char *op, fa_tensor *out, fa_tensor *src, fa_tensor *keys, const fai_columns *columns, int64_t src_step,
                    int64_t out_step, int64_t skip, int64_t bound);

bool fai_check_index(const char *op, const fa_tensor *index); /* int32 or int64 */
bool fai_check_same_type(const char *op, const fa_tensor *x,
                         const fa_tensor *src);           /* "Expected self.dtype to be equal to src.dtype" */
fa_tensor *fai_copied(const char *op, fa_tensor *x);      /* a contiguous copy */
fa_tensor *fai_at_least_1d(const char *op, fa_tensor *t); /* a view of one dimension for a tensor of none */
/* The shapes of gather and its kind: the index has x's dimensions and is no larger, dim apart; nor larger than src (may be
 * NULL). */
bool fai_check_gather(const char *op, const fa_tensor *x, int dim, const fa_tensor *index, const fa_tensor *src);

#endif
