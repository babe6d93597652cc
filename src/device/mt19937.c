/* The Mersenne Twister behind every random number on the CPU: 624 words, refilled as a block ("twist"), each word
 * tempered when it is handed out. Seeding takes the low 32 bits of the seed, as torch's does.
 *
 * left counts down to the next refill: 1 right after seeding, 624 - k + 1 after k draws from a block; next is the index of
 * the next word. Both are part of the state that torch saves, so they are kept exactly as it keeps them. */
#include "device.h"

enum { WORDS = 624, SHIFT = 397 };

void fai_mt19937_seed(fai_mt19937 *g, uint64_t seed) {
    g->seed = seed;
    g->state[0] = (uint32_t)seed;
    for (uint32_t j = 1; j < WORDS; j++) g->state[j] = 1812433253u * (g->state[j - 1] ^ g->state[j - 1] >> 30) + j;
    g->left = 1;
    g->next = 0;
    g->normal = 0.0;
    g->has_normal = false;
}

static inline uint32_t mix(uint32_t u, uint32_t v) {
    return ((u & 0x80000000u) | (v & 0x7fffffffu)) >> 1 ^ ((0u - (v & 1u)) & 0x9908b0dfu);
}

static inline uint32_t temper(uint32_t y) {
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ y >> 18;
}

/* The loops over multiples of four are for the vectoriser: word i needs words that are at least 227 away, or not yet new. */
static void twist(fai_mt19937 *g) {
    uint32_t *s = g->state;
    for (int i = 0; i < 224; i++) s[i] = s[i + SHIFT] ^ mix(s[i], s[i + 1]);
    for (int i = 224; i < 227; i++) s[i] = s[i + SHIFT] ^ mix(s[i], s[i + 1]);
    for (int i = 227; i < 623; i++) s[i] = s[i - 227] ^ mix(s[i], s[i + 1]);
    s[623] = s[396] ^ mix(s[623], s[0]);
    g->left = WORDS;
    g->next = 0;
}

uint32_t fai_mt19937_next(fai_mt19937 *g) {
    if (--g->left == 0) twist(g);
    return temper(g->state[g->next++]);
}

static void temper_all(uint32_t *restrict out, const uint32_t *restrict words, int64_t n) {
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        for (int k = 0; k < 8; k++) out[i + k] = temper(words[i + k]);
    }
    for (; i < n; i++) out[i] = temper(words[i]);
}

void fai_mt19937_fill(fai_mt19937 *g, uint32_t *out, int64_t n) {
    while (n > 0) {
        if (g->left == 1) {
            twist(g);
            g->left = WORDS + 1; /* none of this block is drawn yet */
        }
        int64_t some = g->left - 1 < n ? g->left - 1 : n;
        temper_all(out, g->state + g->next, some);
        g->next += (uint32_t)some;
        g->left -= (int)some;
        out += some;
        n -= some;
    }
}
