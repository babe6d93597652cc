/* Random numbers: torch's, bit for bit. Filling of tensors that exist; the factories (fa_rand, fa_randperm, ...) stand on it.
 *
 * All of these write every element of t (any strides, dtype and device) without recording anything and without raising its
 * version. Draws go to the elements in memory order, as torch's do: the dimension with the smallest stride first. g NULL is
 * the default generator of t's device. A refused argument leaves generator and tensor as they were. op is for errors. */
#ifndef FAI_RANDOM_H
#define FAI_RANDOM_H

#include "../tensor/tensor.h"

bool fai_fill_uniform(const char *op, fa_tensor *t, double from, double to, fa_generator *g); /* [from, to); floating */
bool fai_fill_normal(const char *op, fa_tensor *t, double mean, double std, fa_generator *g); /* floating */
bool fai_fill_randint(const char *op, fa_tensor *t, int64_t low, int64_t high, fa_generator *g); /* [low, high) */
bool fai_fill_random_full(const char *op, fa_tensor *t, fa_generator *g); /* 0 to the dtype's largest (exact) integer */
bool fai_fill_bernoulli(const char *op, fa_tensor *t, double p, fa_generator *g); /* 1 with probability p, else 0 */
bool fai_fill_exponential(const char *op, fa_tensor *t, double lambda, fa_generator *g); /* floating */
bool fai_fill_randperm(const char *op, fa_tensor *t, fa_generator *g); /* a permutation of 0 .. numel-1 */
/* 1 where dropout keeps an element. On the CPU this is bernoulli; accelerators draw for 4 or 2 neighbours at a time. */
bool fai_fill_dropout_mask(const char *op, fa_tensor *t, double keep, fa_generator *g);

/* ---- Inside the room ---- */

typedef enum fai_law { FAI_LAW_UNIFORM, FAI_LAW_NORMAL, FAI_LAW_BERNOULLI, FAI_LAW_EXPONENTIAL, FAI_LAW_INTEGER } fai_law;

/* What is drawn: one element after the other. */
typedef struct fai_draw {
    fai_law law;
    double a, b;      /* from, to; mean, std; p; lambda */
    int64_t base;     /* INTEGER: base + word % range; */
    uint64_t range;   /* 0 stands for 2^64 */
    bool wide;        /* INTEGER: a word has 64 bits, else 32 */
    int group;        /* on accelerators: this many neighbours come from one draw of four (1, 2 or 4) */
} fai_draw;

/* The dimensions of t as draws walk them: outermost first, neighbours merged, none of size 1. Returns how many. */
int fai_draw_order(const fa_tensor *t, int64_t size[FA_MAX_DIMS], int64_t stride[FA_MAX_DIMS]);
bool fai_draw_cpu(const fai_draw *draw, fa_tensor *t, fai_mt19937 *g);
bool fai_permute_cpu(const char *op, fa_tensor *t, fai_mt19937 *g);
bool fai_draw_device(const char *op, const fai_draw *draw, fa_tensor *t, fa_generator *g);
bool fai_permute_device(const char *op, fa_tensor *t, fa_generator *g);

/* random_blocks.c: the loops that run eight lanes at a time, with the same bits on every instruction set. */
void fai_words_to_uniform(float *out, const uint32_t *words, int64_t n, float from, float to); /* [from, to) */
void fai_uniform_to_normal_f32(float *blocks, int64_t n, float mean, float std);    /* in place, n a multiple of 16 */
void fai_uniform_to_normal_f64(double *blocks, int64_t n, double mean, double std);

#endif
