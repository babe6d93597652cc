/* Random integers and permutations on accelerators, by Philox (philox.h).
 *
 *   randint  n[3] = base, n[4] = range (0: all 2^64), n[5] = 1 if words have 64 bits: base + word % range, in view[0]'s dtype
 *   permute  one group. view[0] = result, view[1] = keys (int64, 2 * numel, the first half drawn by randint), view[2] = the same
 *            size for indices; n[3] = bits: the low bits of a key by which it is ordered.
 *            The numbers 0 .. numel-1 are sorted by their keys, then those with equal keys are shuffled: torch's way. */
#include "philox.h"

KERNEL(randint, 256) {
    ITEMS(256) {
        const fa_u64 range = (fa_u64)P.n[4];
        const int wide = (int)P.n[5], draws = wide ? 2 : 4;
        for (fa_i64 q = 0; fa_draw_element(q, FA_THREADS, FA_THREAD, P.n[2]) < P.numel; q += draws) {
            const fa_words r = FA_DRAW(q / draws);
            for (int k = 0; k < draws; ++k) {
                const fa_i64 i = fa_draw_element(q + k, FA_THREADS, FA_THREAD, P.n[2]);
                fa_u64 word = wide ? fa_wide_word(r, k) : r.w[k];
                if (range) word = wide ? word % range : (fa_u32)word % (fa_u32)range;
                if (i < P.numel)
                    fa_store_i64(ARG(char, 0), P.view[0].dtype, fa_draw_place(&P, i), (fa_i64)((fa_u64)P.n[3] + word));
            }
        }
    }
}

/* Digits of four bits, the lowest first. Every item has a chunk of its own; counts stand by digit, then by item, so that their
 * running sum is where an item puts its next key of that digit, and equal keys stay in order. */
#define KEY_DIGIT(i) ((int)(keys[from + (i)] >> shift & 15u & mask))
#define CHUNK_BEGIN ((fa_i64)item * chunk < n ? (fa_i64)item * chunk : n)
#define CHUNK_END (((fa_i64)item + 1) * chunk < n ? ((fa_i64)item + 1) * chunk : n)
#define KEY_USED(i) (keys[from + (i)] & used)

KERNEL(permute, 256) {
    LOCAL(fa_u32, count, 4096);
    LOCAL(fa_u32, part, 256);
    GLOBAL fa_u64 *keys = ARG(fa_u64, 1);
    GLOBAL fa_i64 *index = ARG(fa_i64, 2);
    const fa_i64 n = P.numel, chunk = (n + 255) / 256;
    const int bits = (int)P.n[3];
    fa_i64 from = 0, to = n;
    ITEMS(256) {
        for (fa_i64 i = CHUNK_BEGIN; i < CHUNK_END; ++i) index[i] = i;
    }
    BARRIER();
    for (int shift = 0; shift < bits; shift += 4) {
        const fa_u64 mask = bits - shift >= 4 ? 15u : (1u << (bits - shift)) - 1u;
        ITEMS(256) {
            for (int digit = 0; digit < 16; ++digit) count[digit * 256 + item] = 0;
            for (fa_i64 i = CHUNK_BEGIN; i < CHUNK_END; ++i) count[KEY_DIGIT(i) * 256 + item] += 1;
        }
        BARRIER();
        ITEMS(256) {
            fa_u32 sum = 0;
            for (int i = 0; i < 16; ++i) sum += count[item * 16 + i];
            part[item] = sum;
        }
        BARRIER();
        ITEMS(256) {
            fa_u32 before = 0;
            for (int i = 0; i < item; ++i) before += part[i];
            for (int i = 0; i < 16; ++i) {
                const fa_u32 here = count[item * 16 + i];
                count[item * 16 + i] = before;
                before += here;
            }
        }
        BARRIER();
        ITEMS(256) {
            for (fa_i64 i = CHUNK_BEGIN; i < CHUNK_END; ++i) {
                const fa_i64 place = count[KEY_DIGIT(i) * 256 + item]++;
                keys[to + place] = keys[from + i];
                index[to + place] = index[from + i];
            }
        }
        BARRIER();
        from = n - from;
        to = n - to;
    }
    const fa_u64 used = bits < 64 ? ((fa_u64)1 << bits) - 1 : ~(fa_u64)0;
    ITEMS(256) { /* the first of several equal keys shuffles them, with its place as its thread's number */
        for (fa_i64 i = item; i < n - 1; i += 256) {
            if (KEY_USED(i) == KEY_USED(i + 1) && (i == 0 || KEY_USED(i - 1) != KEY_USED(i))) {
                fa_i64 last = i + 1;
                while (last + 1 < n && KEY_USED(last + 1) == KEY_USED(i)) ++last;
                for (fa_i64 left = last - i, drawn = 0; left > 0; --left, ++drawn) {
                    const fa_words r = fa_philox(FA_SEED, (fa_u64)(FA_PLACE + drawn / 4), (fa_u64)i);
                    const fa_i64 other = (fa_i64)(r.w[drawn % 4] % (fa_u32)(left + 1)), moved = index[from + i + left];
                    index[from + i + left] = index[from + i + other];
                    index[from + i + other] = moved;
                }
            }
        }
    }
    BARRIER();
    ITEMS(256) {
        for (fa_i64 i = item; i < n; i += 256) fa_store_i64(ARG(char, 0), P.view[0].dtype, fa_draw_place(&P, i), index[from + i]);
    }
}

#undef KEY_DIGIT
#undef CHUNK_BEGIN
#undef CHUNK_END
#undef KEY_USED
