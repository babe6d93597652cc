/* Where things lie in a convolution's field, whatever the element type. conv_real.h tells what a field is. */
#ifndef FAI_CPU_FIELD_H
#define FAI_CPU_FIELD_H

/* How one side (rows or columns) of the field is laid out. */
typedef struct side {
    int64_t phases;      /* the field's sorting: 1 or the stride */
    int64_t before;      /* field index 0 is source index -before */
    int64_t length;      /* indices in one phase of the field */
    int64_t source;      /* the source's length */
} side;

/* Outputs that share their taps: row + step_y * i, col + step_x * j of an output plane. */
typedef struct lattice {
    int64_t row, col, step_y, step_x, rows, cols;
    int64_t positions;   /* numbered through the field's rows */
    int64_t k;           /* taps */
    int64_t *table;      /* of each tap: its distance in the field */
    char *weights;       /* packed: for blocks of rows, [k][rows] */
    char *places;        /* N(place) for each vector of positions */
} lattice;

INLINE int64_t floor_divide(int64_t a, int64_t b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }

/* Indices i of a phase with 0 <= i * phases + phase - before < source. */
INLINE void side_inside(const side *s, int64_t phase, int64_t *first, int64_t *end) {
    int64_t low = -floor_divide(phase - s->before, s->phases),
            high = floor_divide(s->source - 1 + s->before - phase, s->phases) + 1;
    *first = low < 0 ? 0 : low;
    *end = high > s->length ? s->length : high;
}

/* Distance of the element that source channel c holds at field coordinates (y, x), both >= 0. */
INLINE int64_t field_at(const side *sy, const side *sx, int64_t c, int64_t y, int64_t x) {
    const int64_t phase = (c * sy->phases + y % sy->phases) * sx->phases + x % sx->phases;
    return (phase * sy->length + y / sy->phases) * sx->length + x / sx->phases;
}

/* Output channels [o0, o1) of a lattice come in blocks of nearly equal size, at most TILE_ROWS; packing and running agree. */
INLINE int64_t block_of_rows(int64_t done, int64_t total, int64_t most) {
    const int64_t left = total - done, steps = (left + most - 1) / most;
    return (left + steps - 1) / steps;
}

INLINE void *take(char *base, size_t *used, size_t bytes) {
    void *at = base ? base + *used : NULL;
    *used += (bytes + 63) & ~(size_t)63;
    return at;
}

/* Taps of one side that reach outputs i * step + first: how many, and the i-independent field coordinate of each. */
typedef struct taps { int64_t kernel, stride, padding, dilation, lowest; bool back; } taps;
INLINE bool tap_of(const taps *t, int64_t first, int64_t k, int64_t *at) {
    if (!t->back) {
        *at = k * t->dilation;
        return true;
    }
    const int64_t reach = first + t->padding - k * t->dilation, index = floor_divide(reach, t->stride);
    *at = index - t->lowest;
    return index * t->stride == reach;
}

INLINE bool side_is_source(const side *s) { return s->phases == 1 && s->before == 0 && s->length == s->source; }

#endif
