/* Sorting pairs of one form; order.c includes this once for each, with PAIR, PAIRS, PAIR_OF, KEY and PLACE defined. */

/* Insertion, for runs of 8, then merging from one half of the memory to the other. Returns where the result lies. */
static PAIR *PAIRS(merge_sort)(PAIR *a, PAIR *b, int64_t n) {
    for (int64_t begin = 0; begin < n; begin += 8)
        for (int64_t i = begin + 1; i < n && i < begin + 8; i++) {
            const PAIR p = a[i];
            int64_t at = i;
            for (; at > begin && KEY(a[at - 1]) > KEY(p); at--) a[at] = a[at - 1];
            a[at] = p;
        }
    for (int64_t run = 8; run < n; run *= 2) {
        for (int64_t begin = 0; begin < n; begin += 2 * run) {
            const int64_t middle = begin + run < n ? begin + run : n, end = begin + 2 * run < n ? begin + 2 * run : n;
            int64_t i = begin, j = middle, to = begin;
            while (i < middle && j < end) {
                const bool second = KEY(a[j]) < KEY(a[i]);
                b[to++] = second ? a[j] : a[i];
                j += second, i += !second;
            }
            while (i < middle) b[to++] = a[i++];
            while (j < end) b[to++] = a[j++];
        }
        PAIR *other = a;
        a = b, b = other;
    }
    return a;
}

/* One pass for each byte of the key in which not all keys agree. */
static PAIR *PAIRS(radix_sort)(PAIR *a, PAIR *b, int64_t n, int bits) {
    int64_t count[8][256];
    const int digits = (bits + 7) / 8;
    memset(count, 0, sizeof count);
    for (int64_t i = 0; i < n; i++) {
        const uint64_t key = KEY(a[i]);
        for (int d = 0; d < digits; d++) count[d][key >> (8 * d) & 255]++;
    }
    for (int d = 0; d < digits; d++) {
        int64_t *at = count[d], sum = 0;
        if (at[KEY(a[0]) >> (8 * d) & 255] == n) continue;
        for (int k = 0; k < 256; k++) {
            const int64_t some = at[k];
            at[k] = sum;
            sum += some;
        }
        for (int64_t i = 0; i < n; i++) b[at[KEY(a[i]) >> (8 * d) & 255]++] = a[i];
        PAIR *other = a;
        a = b, b = other;
    }
    return a;
}

ALWAYS_INLINE int64_t PAIRS(take_below)(const order_job *job, const char *x, int64_t n, uint64_t last, PAIR *a, int dtype) {
    const int shift = job->bits > HEAD_BITS ? job->bits - HEAD_BITS : 0;
    int64_t taken = 0;
    for (int64_t i = 0; i < n; i++) {
        const uint64_t key = key_of(x, dtype, i) ^ job->flip;
        a[taken] = PAIR_OF(key, i);
        taken += key >> shift <= last;
    }
    return taken;
}

/* The pairs of a row that may be among the first `wanted` ones; returns how many there are. */
static int64_t PAIRS(take_pairs)(const order_job *job, const char *x, int64_t n, int64_t wanted, PAIR *a) {
    const uint64_t last = n <= SHORT || wanted == n ? UINT64_MAX : last_head(job, x, n, wanted);
#define TAKE(dtype) PAIRS(take_below)(job, x, n, last, a, dtype)
    return FOR_DTYPE(job, TAKE);
#undef TAKE
}

/* work has room for two pairs an element. */
static void PAIRS(order_row)(const order_job *job, int64_t row, uint64_t *work) {
    const fa_plan *plan = job->plan;
    const int64_t n = plan->n[1], wanted = plan->n[3];
    const size_t bytes = (size_t)(job->bits + 7) / 8;
    const char *x = job->x + row * n * (int64_t)bytes;
    PAIR *a = (PAIR *)(void *)work, *b = a + n;
    const int64_t some = PAIRS(take_pairs)(job, x, n, wanted, a);
    a = some <= SHORT ? PAIRS(merge_sort)(a, b, some) : PAIRS(radix_sort)(a, b, some, job->bits);
    for (int64_t k = 0; k < wanted; k++) {
        job->places[row * wanted + k] = PLACE(a[k]);
        copy_element(job->values, row * wanted + k, x, PLACE(a[k]), bytes);
    }
}

#undef PAIR
#undef PAIRS
#undef PAIR_OF
#undef KEY
#undef PLACE
