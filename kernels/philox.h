/* Philox4x32-10, and torch's rule of which element gets which of its numbers.
 *
 * A launch has T threads, 256 in each of P.groups groups. Thread t draws four words a call from the counter (offset / 4 +
 * call, t) and the seed as the key. A trip of all threads fills `group` neighbours for each thread (1; dropout: 4 or 2), so
 * its number of draw q (4 a call, or 2 of 64 bits) belongs to element ((q / group) * T + t) * group + q % group.
 *
 *   n[0] = seed, n[1] = offset / 4, n[2] = group; numel = elements
 *   view[0] = the elements; its last dimension is walked fastest
 *   view[7] = nothing, or two words {seed, place}: of a launch that a graph repeats. Then they stand for n[0], and n[1] counts from place on */
#ifndef FA_PHILOX
#define FA_PHILOX

typedef struct fa_words { fa_u32 w[4]; } fa_words;

FN fa_words fa_philox(fa_u64 seed, fa_u64 call, fa_u64 thread) {
    fa_u32 c0 = (fa_u32)call, c1 = (fa_u32)(call >> 32), c2 = (fa_u32)thread, c3 = (fa_u32)(thread >> 32);
    fa_u32 k0 = (fa_u32)seed, k1 = (fa_u32)(seed >> 32);
    for (int round = 0; round < 10; ++round) {
        const fa_u64 a = (fa_u64)c0 * 0xD2511F53u, b = (fa_u64)c2 * 0xCD9E8D57u;
        c0 = (fa_u32)(b >> 32) ^ c1 ^ k0;
        c1 = (fa_u32)b;
        c2 = (fa_u32)(a >> 32) ^ c3 ^ k1;
        c3 = (fa_u32)a;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    fa_words r;
    r.w[0] = c0;
    r.w[1] = c1;
    r.w[2] = c2;
    r.w[3] = c3;
    return r;
}

/* A word of 64 bits from two of 32: pair 0 or 1 of a call. */
FN fa_u64 fa_wide_word(fa_words r, int pair) { return (fa_u64)r.w[2 * pair] << 32 | r.w[2 * pair + 1]; }

/* Of draw q: the element that gets it. */
FN fa_i64 fa_draw_element(fa_i64 q, fa_i64 threads, fa_i64 thread, fa_i64 group) {
    return (q / group * threads + thread) * group + q % group;
}

/* Where element i lies. */
FN fa_i64 fa_draw_place(PLAN_SPACE const fa_plan *plan, fa_i64 i) {
    fa_i64 at = 0;
    for (int d = plan->view[0].ndim - 1; d >= 0; --d) {
        at += i % plan->view[0].size[d] * plan->view[0].stride[d];
        i /= plan->view[0].size[d];
    }
    return at;
}

#define FA_THREAD (GROUP * 256 + item)
#define FA_THREADS (P.groups * 256)
#define FA_SEED (fa_u64)(P.view[7].kind == FA_VIEW_TENSOR ? ARG(fa_i64, 7)[0] : P.n[0])
#define FA_PLACE (P.view[7].kind == FA_VIEW_TENSOR ? ARG(fa_i64, 7)[1] + P.n[1] : P.n[1])
#define FA_DRAW(call) fa_philox(FA_SEED, (fa_u64)(FA_PLACE + (call)), (fa_u64)FA_THREAD)

#endif
