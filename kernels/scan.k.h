/* Running sums and products along the middle one of [outer, dim, inner], both operands contiguous.
 *
 * The order: a row is cut into chunks of 16. In a chunk results run from the first element; the chunk's last one joins what came
 * before, chunk after chunk; an element is (what came before its chunk) joined with (its result in the chunk). So the sum over
 * 256 chunks costs a group two phases, and a CPU loop gets the same bits.
 *
 *   scan   view[0] = y, view[1] = x; n[0] = rows = outer * inner, n[1] = dim, n[2] = inner, n[3] = 0 sum, 1 product,
 *          n[4] = 1: from the last element to the first; n[5] = rows that a group does at once, a power of two up to 256
 *          groups = ceil(n[0] / n[5]) */

#ifndef FA_SCAN_CHUNK
#define FA_SCAN_CHUNK 16
#endif

#ifdef FA_I64
FN REAL N(scan_join)(REAL a, REAL b, int product) { return (fa_i64)(product ? (fa_u64)a * (fa_u64)b : (fa_u64)a + (fa_u64)b); }
#else
FN REAL N(scan_join)(REAL a, REAL b, int product) { return product ? a * b : a + b; }
#endif

KERNEL(N(scan), 256) {
    LOCAL(REAL, last, 256);   /* of each chunk: its own last result, then what came before it */
    LOCAL(REAL, before, 256); /* of each row: what came before the chunks at hand */
    const fa_i64 rows = P.n[0], dim = P.n[1], inner = P.n[2];
    const int product = (int)P.n[3], per_group = (int)P.n[5], chunks = 256 / per_group;
    ITEMS(256) { before[item] = (REAL)product; }
    for (fa_i64 first = 0; first * FA_SCAN_CHUNK < dim; first += chunks) {
        ITEMS(256) { /* neighbours are rows side by side in memory */
            const fa_i64 row = GROUP * per_group + item % per_group, base = row / inner * dim * inner + row % inner;
            const fa_i64 begin = (first + item / per_group) * FA_SCAN_CHUNK;
            REAL run = (REAL)product;
            if (row < rows)
                for (fa_i64 k = begin; k < begin + FA_SCAN_CHUNK && k < dim; ++k)
                    run = N(scan_join)(run, LOAD_ARG(1, base + (P.n[4] ? dim - 1 - k : k) * inner), product);
            last[item] = run;
        }
        BARRIER();
        ITEMS(256) {
            if (item < per_group) {
                REAL sum = before[item];
                for (int chunk = 0; chunk < chunks; ++chunk) {
                    const REAL next = N(scan_join)(sum, last[chunk * per_group + item], product);
                    last[chunk * per_group + item] = sum;
                    sum = next;
                }
                before[item] = sum;
            }
        }
        BARRIER();
        ITEMS(256) {
            const fa_i64 row = GROUP * per_group + item % per_group, base = row / inner * dim * inner + row % inner;
            const fa_i64 begin = (first + item / per_group) * FA_SCAN_CHUNK;
            REAL run = (REAL)product;
            if (row < rows)
                for (fa_i64 k = begin; k < begin + FA_SCAN_CHUNK && k < dim; ++k) {
                    const fa_i64 at = base + (P.n[4] ? dim - 1 - k : k) * inner;
                    run = N(scan_join)(run, LOAD_ARG(1, at), product);
                    STORE_ARG(0, at, N(scan_join)(last[item], run, product));
                }
        }
        BARRIER();
    }
}
