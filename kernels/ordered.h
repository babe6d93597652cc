/* Sums in the one order that every backend keeps, so that a CPU and a GPU get the same bits.
 *
 * The order: elements are cut into blocks of 1,024. In a block 16 partial sums, each starting from 0, take every 16th element
 * in turn; they are joined as a binary tree (0 + 8, 1 + 9, ... then by 4, 2, 1). The blocks' sums are joined as a tree of
 * neighbours, level by level, an odd one carried up.
 *
 * How a group does it: its 256 items are 16 slots of 16 lanes. It sums `per_group` rows at once (16, 8, 4, 2 or 1), each by
 * 16 / per_group slots, and a slot takes one block at a time: many short rows, or one long row. Blocks come in order, so the tree
 * over them is kept as a binary counter: place i of a row's stack holds the sum of 2^i blocks.
 *
 * A kernel declares ORDERED_MEMORY() once, at its top level, and has in scope `rows`, the number of rows, and `per_group`. */

#ifndef FA_ORDERED
#define FA_ORDERED
#define FA_BLOCK 1024
#define FA_LANES 16
#define FA_STACK 40 /* a row may have 1,024 * 2^40 elements */

#define ORDERED_MEMORY() LOCAL(REAL, ordered_part, 256); LOCAL(REAL, ordered_stack, FA_LANES * FA_STACK)
/* What an item works for. OWNER: its row, as a place 0 .. per_group-1 in the group. ROW: the same, of all rows. */
#define TEAM (256 / (int)per_group)
#define OWNER (item / TEAM)
#define ROW (GROUP * per_group + OWNER)

/* total[place] = sum of VALUE, an expression of k = 0 .. count-1 and of OWNER and ROW. The group waits at the end. */
#define ORDERED_SUM(total, count, VALUE)                                                                                       \
    for (fa_i64 first_ = 0; first_ * FA_BLOCK < (count); first_ += 16 / per_group) {                                           \
        ITEMS(256) {                                                                                                           \
            const fa_i64 begin_ = (first_ + item / FA_LANES % (16 / per_group)) * FA_BLOCK;                                    \
            const fa_i64 end_ = begin_ + FA_BLOCK < (count) ? begin_ + FA_BLOCK : (count);                                     \
            REAL sum_ = 0;                                                                                                     \
            if (ROW < rows)                                                                                                    \
                for (fa_i64 k = begin_ + item % FA_LANES; k < end_; k += FA_LANES) sum_ += (VALUE);                            \
            ordered_part[item] = sum_;                                                                                         \
        }                                                                                                                      \
        BARRIER();                                                                                                             \
        ITEMS(256) {                                                                                                           \
            if (item < per_group)                                                                                              \
                N(ordered_push)(ordered_stack + item * FA_STACK, ordered_part + item * TEAM, first_, (count),                  \
                                (int)(16 / per_group));                                                                        \
        }                                                                                                                      \
        BARRIER();                                                                                                             \
    }                                                                                                                          \
    ITEMS(256) {                                                                                                               \
        if (item < per_group) total[item] = N(ordered_total)(ordered_stack + item * FA_STACK, (count));                        \
    }                                                                                                                          \
    BARRIER()
#endif

/* Once for each compute type, however many families include this. */
#if (defined(FA_F32) && !defined(FA_ORDERED_F32)) || (defined(FA_F64) && !defined(FA_ORDERED_F64))
#ifdef FA_F32
#define FA_ORDERED_F32
#else
#define FA_ORDERED_F64
#endif

/* Takes the partial sums of up to `room` blocks, `first` being the number of the first one, into the row's counter. */
FN void N(ordered_push)(LOCAL_POINTER REAL *stack, LOCAL_POINTER REAL *part, fa_i64 first, fa_i64 count, int room) {
    for (int b = 0; b < room && (first + b) * FA_BLOCK < count; ++b) {
        LOCAL_POINTER REAL *p = part + b * FA_LANES;
        for (int step = FA_LANES / 2; step > 0; step /= 2)
            for (int lane = 0; lane < step; ++lane) p[lane] += p[lane + step];
        REAL sum = p[0];
        int place = 0;
        for (fa_i64 before = first + b; before & 1; before >>= 1) sum = stack[place++] + sum;
        stack[place] = sum;
    }
}

FN REAL N(ordered_total)(LOCAL_POINTER const REAL *stack, fa_i64 count) {
    const fa_i64 blocks = (count + FA_BLOCK - 1) / FA_BLOCK;
    REAL sum = 0;
    int some = 0;
    for (int place = 0; place < FA_STACK; ++place)
        if (blocks >> place & 1) {
            sum = some ? stack[place] + sum : stack[place];
            some = 1;
        }
    return sum;
}
#endif
