/* Random numbers on the CPU: words of the Mersenne Twister become elements, one after the other, in the order and with the
 * roundings of torch 2.13. How many words an element takes is part of the promise: what is drawn next depends on it. */
#include "random.h"
#include <math.h>
#include <string.h>

enum { PIECE = 1024 }; /* elements drawn at a time; a multiple of 16 */

static inline double uniform_double(fai_mt19937 *g) {
    return (double)(fai_mt19937_next64(g) & ((1ull << 53) - 1)) * 0x1p-53;
}

static void uniform_doubles(double *out, int64_t n, fai_mt19937 *g) {
    for (int64_t i = 0; i < n; i++) out[i] = uniform_double(g);
}

static void uniform_floats(float *out, int64_t n, float from, float to, fai_mt19937 *g) {
    uint32_t words[PIECE];
    for (int64_t i = 0; i < n; i += PIECE) {
        int64_t some = n - i < PIECE ? n - i : PIECE;
        fai_mt19937_fill(g, words, some);
        fai_words_to_uniform(out + i, words, some, from, to);
    }
}

/* The value that a dtype of 16 bits can hold. */
static float narrow(float value, fa_dtype dtype) {
    if (dtype == FA_FLOAT16) return fai_half_to_float(fai_float_to_half(value));
    return dtype == FA_BFLOAT16 ? fai_bfloat16_to_float(fai_float_to_bfloat16(value)) : value;
}

/* ---- At most PIECE elements of one law, contiguous ---- */

static void draw_uniform(const fai_draw *draw, void *out, fa_dtype dtype, int64_t n, fai_mt19937 *g) {
    if (dtype == FA_FLOAT64) {
        double *d = out, width = draw->b - draw->a;
        uniform_doubles(d, n, g);
        for (int64_t i = 0; i < n; i++) {
            d[i] = fma(d[i], width, draw->a);
            if (d[i] == draw->b) d[i] = draw->a;
        }
    } else if (dtype == FA_FLOAT32) {
        uniform_floats(out, n, (float)draw->a, (float)draw->b, g);
    } else {
        float f[PIECE], from = (float)draw->a, to = (float)draw->b, last = narrow(to, dtype);
        uniform_floats(f, n, from, to, g);
        for (int64_t i = 0; i < n; i++) f[i] = narrow(f[i], dtype) == last ? from : f[i];
        fai_convert(out, dtype, f, FA_FLOAT32, n);
    }
}

/* Pairs, of which the second waits in the generator for the next call, whatever its dtype. */
static double next_normal(fai_mt19937 *g) {
    if (g->has_normal) {
        g->has_normal = false;
        return g->normal;
    }
    double u1 = uniform_double(g), u2 = uniform_double(g);
    double radius = sqrt(-2.0 * log1p(-u2)), angle = 2.0 * 3.14159265358979323846 * u1;
    g->normal = radius * sin(angle);
    g->has_normal = true;
    return radius * cos(angle);
}

/* Doubles are rounded to float first and from there to 16 bits, as a C cast to those types does. */
static void store_doubles(void *out, fa_dtype dtype, const double *d, int64_t n) {
    if (dtype == FA_FLOAT64 || dtype == FA_FLOAT32) {
        fai_convert(out, dtype, d, FA_FLOAT64, n);
        return;
    }
    float f[PIECE];
    for (int64_t i = 0; i < n; i++) f[i] = (float)d[i];
    fai_convert(out, dtype, f, FA_FLOAT32, n);
}

static void draw_normal(const fai_draw *draw, void *out, fa_dtype dtype, int64_t n, fai_mt19937 *g) {
    double d[PIECE];
    for (int64_t i = 0; i < n; i++) d[i] = fma(next_normal(g), draw->b, draw->a);
    store_doubles(out, dtype, d, n);
}

static void draw_exponential(const fai_draw *draw, void *out, fa_dtype dtype, int64_t n, fai_mt19937 *g) {
    double d[PIECE];
    for (int64_t i = 0; i < n; i++) d[i] = -1.0 / draw->a * log1p(-uniform_double(g));
    store_doubles(out, dtype, d, n);
}

static void draw_bernoulli(const fai_draw *draw, void *out, fa_dtype dtype, int64_t n, fai_mt19937 *g) {
    uint8_t hit[PIECE];
    for (int64_t i = 0; i < n; i++) hit[i] = uniform_double(g) < draw->a;
    fai_convert(out, dtype, hit, FA_BOOL, n);
}

static void draw_integer(const fai_draw *draw, void *out, fa_dtype dtype, int64_t n, fai_mt19937 *g) {
    int64_t value[PIECE];
    for (int64_t i = 0; i < n; i++) {
        uint64_t word = draw->wide ? fai_mt19937_next64(g) : fai_mt19937_next(g);
        if (draw->range != 0) word = draw->wide ? word % draw->range : (uint32_t)word % (uint32_t)draw->range;
        value[i] = (int64_t)((uint64_t)draw->base + word);
    }
    fai_convert(out, dtype, value, FA_INT64, n);
}

static void draw_piece(const fai_draw *draw, void *out, fa_dtype dtype, int64_t n, fai_mt19937 *g) {
    switch (draw->law) {
    case FAI_LAW_UNIFORM: draw_uniform(draw, out, dtype, n, g); break;
    case FAI_LAW_NORMAL: draw_normal(draw, out, dtype, n, g); break;
    case FAI_LAW_BERNOULLI: draw_bernoulli(draw, out, dtype, n, g); break;
    case FAI_LAW_EXPONENTIAL: draw_exponential(draw, out, dtype, n, g); break;
    case FAI_LAW_INTEGER: draw_integer(draw, out, dtype, n, g); break;
    }
}

/* ---- The block form of the normal law: contiguous tensors of 16 elements and more ---- */

/* n of 16 k. */
static void normal_blocks(const fai_draw *draw, char *out, fa_dtype dtype, int64_t n, fai_mt19937 *g) {
    if (dtype == FA_FLOAT64) {
        uniform_doubles((double *)(void *)out, n, g);
        fai_uniform_to_normal_f64((double *)(void *)out, n, draw->a, draw->b);
    } else if (dtype == FA_FLOAT32) {
        uniform_floats((float *)(void *)out, n, 0.0f, 1.0f, g);
        fai_uniform_to_normal_f32((float *)(void *)out, n, (float)draw->a, (float)draw->b);
    } else {
        float f[PIECE];
        uniform_floats(f, n, 0.0f, 1.0f, g);
        fai_uniform_to_normal_f32(f, n, (float)draw->a, (float)draw->b);
        fai_convert(out, dtype, f, FA_FLOAT32, n);
    }
}

/* A number of elements that is no multiple of 16 ends with a block drawn anew over the last 16, after the rest's own uniform
 * numbers were drawn for nothing (only in the wide types). */
static void normal_contiguous(const fai_draw *draw, char *out, fa_dtype dtype, int64_t n, fai_mt19937 *g) {
    int64_t whole = n / 16 * 16, element = (int64_t)fa_dtype_size(dtype);
    for (int64_t i = 0; i < whole; i += PIECE)
        normal_blocks(draw, out + i * element, dtype, whole - i < PIECE ? whole - i : PIECE, g);
    if (whole == n) return;
    uint32_t unused[32];
    if (dtype == FA_FLOAT32) fai_mt19937_fill(g, unused, n - whole);
    if (dtype == FA_FLOAT64) fai_mt19937_fill(g, unused, 2 * (n - whole));
    normal_blocks(draw, out + (n - 16) * element, dtype, 16, g);
}

/* ---- Any strides ---- */

/* Copies n contiguous elements to the places at, at + 1, ... of the walk over size and stride. */
static void scatter(const fa_tensor *t, int ndim, const int64_t *size, const int64_t *stride, int64_t at, const char *from,
                    int64_t n) {
    size_t element = fa_dtype_size((fa_dtype)t->dtype);
    char *base = fai_host(t);
    int64_t place[FA_MAX_DIMS], offset = 0;
    for (int d = ndim - 1; d >= 0; d--) {
        place[d] = at % size[d];
        at /= size[d];
        offset += place[d] * stride[d];
    }
    for (int64_t i = 0; i < n; i++) {
        memcpy(base + offset * (int64_t)element, from + i * (int64_t)element, element);
        for (int d = ndim - 1; d >= 0; d--) {
            offset += stride[d];
            if (++place[d] < size[d]) break;
            offset -= place[d] * stride[d];
            place[d] = 0;
        }
    }
}

bool fai_draw_cpu(const fai_draw *draw, fa_tensor *t, fai_mt19937 *g) {
    fa_dtype dtype = (fa_dtype)t->dtype;
    int64_t size[FA_MAX_DIMS], stride[FA_MAX_DIMS], element = (int64_t)fa_dtype_size(dtype);
    if (t->numel == 0) return true;
    if (draw->law == FAI_LAW_NORMAL && t->numel >= 16 && FAI_HAS(t, FAI_CONTIGUOUS)) {
        normal_contiguous(draw, fai_host(t), dtype, t->numel, g);
        return true;
    }
    int ndim = fai_draw_order(t, size, stride);
    bool straight = ndim == 0 || (ndim == 1 && stride[0] == 1);
    double piece[PIECE]; /* as wide as the widest element */
    for (int64_t i = 0; i < t->numel; i += PIECE) {
        int64_t some = t->numel - i < PIECE ? t->numel - i : PIECE;
        void *out = straight ? (char *)fai_host(t) + i * element : (char *)piece;
        draw_piece(draw, out, dtype, some, g);
        if (!straight) scatter(t, ndim, size, stride, i, out, some);
    }
    return true;
}

/* ---- Permutations ---- */

static void shuffle(int64_t *r, int64_t n, fai_mt19937 *g) {
    uint32_t words[PIECE];
    for (int64_t i = 0; i < n; i++) r[i] = i;
    for (int64_t i = 0; i < n - 1; i++) {
        if (i % PIECE == 0) fai_mt19937_fill(g, words, n - 1 - i < PIECE ? n - 1 - i : PIECE);
        int64_t k = i + words[i % PIECE] % (uint32_t)(n - i), at_i = r[i];
        r[i] = r[k];
        r[k] = at_i;
    }
}

/* 32 bits would no longer be fair: words of 64, and every value comes in at its place. */
static void shuffle_huge(int64_t *r, int64_t n, fai_mt19937 *g) {
    for (int64_t i = 0; i < n; i++) {
        int64_t z = (int64_t)(fai_mt19937_next64(g) % (uint64_t)(i + 1));
        r[i] = i;
        r[i] = r[z];
        r[z] = i;
    }
}

bool fai_permute_cpu(const char *op, fa_tensor *t, fai_mt19937 *g) {
    int64_t n = t->numel, size[FA_MAX_DIMS], stride[FA_MAX_DIMS];
    if (n == 0) return true;
    bool straight = t->dtype == FA_INT64 && FAI_HAS(t, FAI_CONTIGUOUS);
    size_t bytes = (size_t)n * sizeof(int64_t);
    int64_t *r = straight ? fai_host(t) : fai_alloc(FAI_TAG_OTHER, bytes);
    if (r == NULL) return fai_fail_memory(op, bytes);
    (n >= (int64_t)UINT32_MAX / 20 ? shuffle_huge : shuffle)(r, n, g);
    if (straight) return true;
    int ndim = fai_draw_order(t, size, stride);
    double piece[PIECE];
    for (int64_t i = 0; i < n; i += PIECE) {
        int64_t some = n - i < PIECE ? n - i : PIECE;
        fai_convert(piece, (fa_dtype)t->dtype, r + i, FA_INT64, some);
        scatter(t, ndim, size, stride, i, (const char *)piece, some);
    }
    fai_free(FAI_TAG_OTHER, r, bytes);
    return true;
}
