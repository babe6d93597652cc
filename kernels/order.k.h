/* Rows in order, with the places that their elements had: smallest or largest first. Stable; NaN comes after all numbers, and
 * before them where the largest is first. All operands are rows side by side.
 *
 *   order_rows    view[0] = values, view[1] = places (int64), n[3] of each row; view[2] = x;
 *                 view[3] = working memory of the CPU's own form, n[5] int64 words for each row; or none
 *                 Blocks of n[4] elements are put in order, each for itself. Here n[4] is at most 256 and n[3] = n[1]; the CPU's
 *                 own form takes whole rows only, and may be asked for the first n[3] places of them.
 *                 groups = n[0] * ceil(n[1] / n[4])
 *   order_merge   view[0] = values, view[1] = places, view[2] = values, view[3] = places: runs of n[4] elements that are in order
 *                 are joined in pairs. An element finds its place by a binary search in the other run.
 *                 groups = ceil(n[0] * n[1] / 256)
 *   n[0] = rows, n[1] = elements of a row, n[2] = 1: largest first */

/* Whether a comes before b whatever their places are. */
FN int N(order_before)(REAL a, REAL b, int largest) {
    const int a_nan = N(fa_isnan)(a) != 0, b_nan = N(fa_isnan)(b) != 0;
    if (largest) return a > b || (a_nan && !b_nan);
    return a < b || (b_nan && !a_nan);
}

KERNEL(N(order_rows), 256) {
    LOCAL(REAL, value, 256);
    const fa_i64 blocks = (P.n[1] + P.n[4] - 1) / P.n[4], row = GROUP / blocks, begin = GROUP % blocks * P.n[4];
    const fa_i64 left = P.n[1] - begin, base = row * P.n[1] + begin;
    const int count = (int)(left < P.n[4] ? left : P.n[4]), largest = (int)P.n[2];
    ITEMS(256) {
        if (item < count) value[item] = LOAD_ARG(2, base + item);
    }
    BARRIER();
    ITEMS(256) {
        if (item < count) {
            const REAL mine = value[item];
            int rank = 0;
            for (int k = 0; k < item; ++k) rank += !N(order_before)(mine, value[k], largest);
            for (int k = item + 1; k < count; ++k) rank += N(order_before)(value[k], mine, largest);
            STORE_ARG(0, base + rank, mine);
            ARG(fa_i64, 1)[base + rank] = begin + item;
        }
    }
}

KERNEL(N(order_merge), 256) {
    const fa_i64 count = P.n[1], run = P.n[4];
    const int largest = (int)P.n[2];
    ITEMS(256) {
        const fa_i64 i = GROUP * 256 + item, row = i / count, at = i % count;
        if (row < P.n[0]) {
            const fa_i64 begin = at / (2 * run) * (2 * run), base = row * count;
            const fa_i64 middle = begin + run < count ? begin + run : count;
            const fa_i64 end = begin + 2 * run < count ? begin + 2 * run : count;
            const int second = at >= middle;
            const REAL mine = LOAD_ARG(2, base + at);
            fa_i64 low = second ? begin : middle, high = second ? middle : end;
            const fa_i64 first = low;
            while (low < high) { /* how many of the other run come before: equal ones of the first run do */
                const fa_i64 probe = low + (high - low) / 2;
                const REAL other = LOAD_ARG(2, base + probe);
                const int before = second ? !N(order_before)(mine, other, largest) : N(order_before)(other, mine, largest);
                if (before) low = probe + 1;
                else high = probe;
            }
            const fa_i64 to = base + begin + (at - (second ? middle : begin)) + (low - first);
            STORE_ARG(0, to, mine);
            ARG(fa_i64, 1)[to] = ARG(const fa_i64, 3)[base + at];
        }
    }
}
