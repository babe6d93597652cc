/* out[key of p] += src[p] for every position p: the backward of reading by index, and index_add, scatter_add, index_put with
 * accumulation. Keys are checked already (index_offset). Every element of out takes its positions in their order, one after the
 * other, in the compute type, and is rounded once: so there are no atomics and the bits are the same on every backend.
 *
 *   index_accumulate   view[0] = out, view[1] = src; both have the columns' sizes and strides of their own
 *                      view[2] = keys, int64 [n[0]]; view[3] = positions, int64 [n[0]], or none
 *   n[0] = positions, n[1] = columns (elements for each position), n[2] = elements in src from one position to the next,
 *   n[3] = elements in out from one key to the next, n[4] = key to leave out, -1 for none,
 *   n[5] = 0: added, 1: multiplied, 2: the largest, 3: the smallest; NaN is both
 *
 * With positions the keys are sorted (sort.k.h): an item takes one column of a run of equal keys, if its place begins one;
 * groups = ceil(n[0] * n[1] / 256). Without, the keys are in any order, and an item walks through all of them for one column:
 * for few keys, and for a CPU; out then has to have the compute type, since it is where the sums grow; groups = ceil(n[1] /
 * 256). */

#ifndef FA_ACCUMULATE
#define FA_ACCUMULATE
enum { FA_ACCUMULATE_ADD = 0, FA_ACCUMULATE_MULTIPLY, FA_ACCUMULATE_LARGEST, FA_ACCUMULATE_SMALLEST };
#endif

FN REAL N(accumulate_join)(REAL a, REAL b, int how) {
    if (how == FA_ACCUMULATE_LARGEST) return N(fa_max)(a, b);
    if (how == FA_ACCUMULATE_SMALLEST) return N(fa_min)(a, b);
#ifdef FA_I64
    return how == FA_ACCUMULATE_MULTIPLY ? (fa_i64)((fa_u64)a * (fa_u64)b) : (fa_i64)((fa_u64)a + (fa_u64)b);
#else
    return how == FA_ACCUMULATE_MULTIPLY ? a * b : a + b;
#endif
}

FN fa_i64 N(accumulate_offset)(fa_i64 i, int ndim, PLAN_SPACE const fa_i64 *size, PLAN_SPACE const fa_i64 *stride) {
    fa_i64 offset = 0;
    for (int d = ndim - 1; d >= 0; --d) {
        offset += i % size[d] * stride[d];
        i /= size[d];
    }
    return offset;
}

KERNEL(N(index_accumulate), 256) {
    GLOBAL const fa_i64 *keys = ARG(const fa_i64, 2), *positions = ARG(const fa_i64, 3);
    const fa_i64 count = P.n[0], columns = P.n[1];
    const int sorted = P.view[3].kind != FA_VIEW_NONE, how = (int)P.n[5];
    ITEMS(256) {
        const fa_i64 i = GROUP * 256 + item, first = i / columns, column = i % columns;
        const fa_i64 to = N(accumulate_offset)(column, P.view[0].ndim, P.view[0].size, P.view[0].stride);
        const fa_i64 from = N(accumulate_offset)(column, P.view[1].ndim, P.view[1].size, P.view[1].stride);
        if (sorted) {
            if (first < count && keys[first] != P.n[4] && (first == 0 || keys[first] != keys[first - 1])) {
                REAL sum = LOAD_ARG(0, to + keys[first] * P.n[3]);
                for (fa_i64 p = first; p < count && keys[p] == keys[first]; ++p)
                    sum = N(accumulate_join)(sum, LOAD_ARG(1, from + positions[p] * P.n[2]), how);
                STORE_ARG(0, to + keys[first] * P.n[3], sum);
            }
        } else if (first == 0) {
            for (fa_i64 p = 0; p < count; ++p)
                if (keys[p] != P.n[4]) {
                    const fa_i64 at = to + keys[p] * P.n[3];
                    STORE_ARG(0, at, N(accumulate_join)(LOAD_ARG(0, at), LOAD_ARG(1, from + p * P.n[2]), how));
                }
        }
    }
}
