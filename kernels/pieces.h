/* For the C build of the compute type's own elements (FA_OWN): a tensor's elements in row-major order, side by side, so that loops over
 * them are vectors. They are taken row by row, not one by one with an offset computed for each. */
#if defined(FA_IS_C) && defined(FA_OWN) && !defined(FA_PIECE_ROW)
#define FA_PIECE_ROW 8 /* rows of fewer elements are not worth it */

/* count elements from the first one on, of the dimensions from .. to-1: where they lie, or in room. */
FN const REAL *fa_piece(const fa_i64 *sizes, const fa_i64 *strides, int from, int to, const REAL *memory, fa_i64 first, int count, REAL *room) {
    const int last = to - 1;
    const fa_i64 size = sizes[last], step = strides[last];
    if (last == from && step == 1) return memory + first;
    for (int done = 0; done < count;) {
        const fa_i64 x = (first + done) % size;
        fa_i64 rest = (first + done) / size, at = x * step;
        const int n = size - x < count - done ? (int)(size - x) : count - done;
        for (int d = last - 1; d >= from; --d) {
            at += (d > from ? rest % sizes[d] : rest) * strides[d];
            rest /= sizes[d];
        }
        if (step == 1) memcpy(room + done, memory + at, (size_t)n * sizeof(REAL));
        else for (int j = 0; j < n; ++j) room[done + j] = memory[at + j * step];
        done += n;
    }
    return room;
}
#endif
