/* Where values would be put into rows that are in order, smallest first: by a binary search each.
 *
 *   search   view[0] = places (int64 or int32), view[1] = rows in order, view[2] = values; all side by side
 *            n[0] = values, n[1] = elements of a row, n[2] = values for each row (all of them: there is one row),
 *            n[3] = 1: behind equal elements instead of before them; groups = ceil(n[0] / 256)
 * A value that is NaN is put at the end, as is every value behind a NaN. */
KERNEL(N(search), 256) {
    ITEMS(256) {
        const fa_i64 i = GROUP * 256 + item;
        if (i < P.n[0]) {
            const fa_i64 base = i / P.n[2] * P.n[1];
            const REAL v = LOAD_ARG(2, i);
            fa_i64 low = 0, high = P.n[1];
            while (low < high) {
                const fa_i64 probe = low + (high - low) / 2;
                const REAL there = LOAD_ARG(1, base + probe);
                if (P.n[3] ? !(there > v) : !(there >= v)) low = probe + 1;
                else high = probe;
            }
            fa_store_i64(ARG(char, 0), P.view[0].dtype, i, low);
        }
    }
}
