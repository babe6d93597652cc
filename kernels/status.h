/* A bad index, kept for the host: six 64-bit words {kind, index, dim, size, position, op}, all zero while nothing happened.
 * position: which element of the index tensor, counted in rows; op: the host's number of the operator. The first item that meets
 * one writes them. Which one is first is open on a GPU; in C it is the first in order. */

#ifndef FA_STATUS
#define FA_STATUS
enum { FA_STATUS_WORDS = 6 };
enum {
    FA_STATUS_INDEX = 1,    /* "index 5 is out of bounds for dimension 0 with size 3" */
    FA_STATUS_TARGET = 2,   /* "Target 3 is out of bounds." */
    FA_STATUS_SELF = 3,     /* "index out of range in self" */
    FA_STATUS_PLACE = 4,    /* as FA_STATUS_INDEX, but a RuntimeError in torch: gather, scatter */
    FA_STATUS_COPY = 5      /* as FA_STATUS_INDEX, but not counted from the end: index_copy */
};

#ifdef FA_DIALECT_H /* the host needs the kinds only */
FN void report_index(GLOBAL fa_i64 *status, int kind, fa_i64 index, fa_i64 dim, fa_i64 size, fa_i64 position, fa_i64 op) {
    if (fa_atomic_cas_u32((GLOBAL fa_u32 *)status, 0, (fa_u32)kind) == 0) {
        status[1] = index;
        status[2] = dim;
        status[3] = size;
        status[4] = position;
        status[5] = op;
    }
}
#endif
#endif
