/* Functions of tensors that give several tensors back, which no row of a table does. */
#ifndef FA_FUNCTIONAL_H
#define FA_FUNCTIONAL_H

#include "fa_tensor.h"

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

#ifdef __cplusplus
}
#endif
#endif
