/* Two hashes. fai_hash is for tables, caches and tests: fast, 64 bits, the same on every little-endian machine, not for
 * secrets. fai_crc32 is the one of zip and gzip files. */
#include "base.h"
#include <pthread.h>
#include <string.h>

/* Odd constants: the fraction bits of the square roots of 2, 3 and 5. */
#define K0 0x6a09e667f3bcc909u
#define K1 0xbb67ae8584caa73bu
#define K2 0x3c6ef372fe94f82bu

static uint64_t fold(uint64_t a, uint64_t b) {
    __extension__ unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t word(const unsigned char *p) {
    uint64_t w;
    memcpy(&w, p, sizeof w);
    return w;
}

uint64_t fai_hash(const void *data, size_t n, uint64_t seed) {
    const unsigned char *p = data;
    uint64_t h = seed ^ K0 ^ fold(n ^ K1, K2), other = h + K1;
    size_t left = n;
    for (; left >= 32; left -= 32, p += 32) { /* two chains that the processor runs side by side */
        h = fold(word(p) ^ K0, word(p + 8) ^ h);
        other = fold(word(p + 16) ^ K1, word(p + 24) ^ other);
    }
    h ^= other;
    for (; left >= 8; left -= 8, p += 8) h = fold(word(p) ^ K1, h ^ K2);
    uint64_t rest = 0;
    if (left) memcpy(&rest, p, left);
    return fold(fold(rest ^ K2, h ^ K0), h ^ K1);
}

/* Slicing by 4: table[k][b] is the checksum of byte b followed by k zero bytes. */
static uint32_t table[4][256];
static pthread_once_t table_once = PTHREAD_ONCE_INIT;

static void make_table(void) {
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t c = b;
        for (int bit = 0; bit < 8; bit++) c = c & 1 ? c >> 1 ^ 0xedb88320u : c >> 1;
        table[0][b] = c;
    }
    for (int k = 1; k < 4; k++)
        for (uint32_t b = 0; b < 256; b++) table[k][b] = table[k - 1][b] >> 8 ^ table[0][table[k - 1][b] & 255];
}

uint32_t fai_crc32(uint32_t crc, const void *data, size_t n) {
    pthread_once(&table_once, make_table);
    const unsigned char *p = data;
    uint32_t c = ~crc;
    for (; n >= 4; n -= 4, p += 4) {
        c ^= (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
        c = table[3][c & 255] ^ table[2][c >> 8 & 255] ^ table[1][c >> 16 & 255] ^ table[0][c >> 24];
    }
    while (n--) c = c >> 8 ^ table[0][(c ^ *p++) & 255];
    return ~c;
}
