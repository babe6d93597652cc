/* A stable sort of int64 keys with their positions: one pass of a radix sort over a digit of 4 bits. Keys are not negative.
 *
 * A block is 1,024 keys, cut into 16 chunks of 64. Item (digit, chunk) alone counts and places the keys of its chunk that have
 * its digit: no atomics, and the order within a digit is kept. Between the two kernels `scan` turns the counts into running sums.
 *
 *   sort_count    view[0] = int64 [16, blocks], how many keys of each digit are in each block; view[1] = keys
 *   sort_scatter  view[0] = keys, placed; view[1] = positions, placed; view[2] = keys; view[3] = positions, none: 0, 1, 2, ...;
 *                 view[4] = int64 [16, blocks], running sums of the counts
 *   n[0] = number of keys, n[1] = shift of the digit; groups = blocks = ceil(n[0] / 1024) */

#define DIGIT(k) ((int)(keys[k] >> P.n[1] & 15))

KERNEL(sort_count, 256) {
    LOCAL(int, found, 256); /* [chunk][digit] */
    GLOBAL const fa_i64 *keys = ARG(const fa_i64, 1);
    const fa_i64 count = P.n[0];
    ITEMS(256) {
        const fa_i64 begin = GROUP * 1024 + item / 16 * 64;
        found[item] = 0;
        for (fa_i64 k = begin; k < begin + 64 && k < count; ++k) found[item] += DIGIT(k) == item % 16;
    }
    BARRIER();
    ITEMS(256) {
        if (item < 16) {
            fa_i64 sum = 0;
            for (int chunk = 0; chunk < 16; ++chunk) sum += found[chunk * 16 + item];
            ARG(fa_i64, 0)[item * P.groups + GROUP] = sum;
        }
    }
}

KERNEL(sort_scatter, 256) {
    LOCAL(int, found, 256);
    GLOBAL const fa_i64 *keys = ARG(const fa_i64, 2);
    const fa_i64 count = P.n[0];
    ITEMS(256) {
        const fa_i64 begin = GROUP * 1024 + item / 16 * 64;
        found[item] = 0;
        for (fa_i64 k = begin; k < begin + 64 && k < count; ++k) found[item] += DIGIT(k) == item % 16;
    }
    BARRIER();
    ITEMS(256) {
        const fa_i64 begin = GROUP * 1024 + item / 16 * 64, cell = item % 16 * P.groups + GROUP;
        fa_i64 at = cell > 0 ? ARG(const fa_i64, 4)[cell - 1] : 0;
        for (int chunk = 0; chunk < item / 16; ++chunk) at += found[chunk * 16 + item % 16];
        for (fa_i64 k = begin; k < begin + 64 && k < count; ++k)
            if (DIGIT(k) == item % 16) {
                ARG(fa_i64, 0)[at] = keys[k];
                ARG(fa_i64, 1)[at] = P.view[3].kind ? ARG(const fa_i64, 3)[k] : k;
                ++at;
            }
    }
}

#undef DIGIT
