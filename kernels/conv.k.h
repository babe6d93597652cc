/* Two-dimensional convolution and its two derivatives. All tensors are contiguous; each may have a storage dtype of its own.
 *
 *   n[0] = images, n[1] = input channels, n[2], n[3] = height and width of the input, n[4] = output channels,
 *   n[5], n[6] = height and width of the weight, n[7], n[8] = height and width of the output,
 *   n[9], n[10] = stride, n[11], n[12] = padding, n[13], n[14] = dilation (height, width), n[15] = channel groups
 *
 *   conv2d         view[0] = output [n, o, oh, ow], view[1] = input [n, c, h, w], view[2] = weight [o, c / groups, kh, kw],
 *                  view[3] = bias [o] or none
 *   conv2d_input   view[0] = gradient of the input, view[1] = gradient of the output, view[2] = weight, view[3] = bias [c] or
 *                  none (with one it is a transposed convolution)
 *   conv2d_weight  view[0] = gradient of the weight, view[1] = gradient of the output, view[2] = input
 *   groups = fa_conv_groups(n, direction) of conv_groups.h. Planes and filters have fewer than 2^31 elements.
 *
 * All three are matrix products whose one matrix is gathered while it is read. The first two (conv_pull.h) give a place in the
 * image to an item, which makes 16 channels of it; the last gives 8 x 8 weights to a group, whose items share the places and add
 * up in a fixed tree. Nothing is scattered, so results are the same in every run. */
#include "conv_groups.h"
#include "divide.h"

/* Where an item stands: element number `from + item` of all images' planes. CONV_PLACE_SET
 * sets the item's image, counted from that of the group's first item, its place in the plane, and what it sees first. */
#define CONV_PLACE()           \
    PRIVATE(int, image, 256);  \
    PRIVATE(int, rest, 256);   \
    PRIVATE(int, at_y, 256);   \
    PRIVATE(int, at_x, 256)
#define CONV_PLACE_SET(first, plane, width, by_plane, by_width, scale_y, scale_x, shift_y, shift_x)       \
    ITEMS(256) {                                                                                          \
        const int passed = fa_divide((first) + item, by_plane), left = (first) + item - passed * (plane); \
        const int line = fa_divide(left, by_width);                                                       \
        MINE(image) = passed;                                                                             \
        MINE(rest) = left;                                                                                \
        MINE(at_y) = line * (scale_y) + (shift_y);                                                        \
        MINE(at_x) = (left - line * (width)) * (scale_x) + (shift_x);                                     \
    }

#ifndef FA_CONV
#define FA_CONV
/* The row or column of the other field that meets this one, or -1. */
FN int conv_meet(int at, int divisor, fa_divisor by, int size) {
    const int whole = divisor == 1 ? at : at < 0 ? -1 : fa_divide(at, by);
    return (divisor == 1 || whole * divisor == at) && (unsigned)whole < (unsigned)size ? whole : -1;
}

/* Steps through channels, rows and columns of a filter; `channel` is the number of elements passed in channels. */
typedef struct conv_tap { fa_i64 channel; int i, j; } conv_tap;
FN conv_tap conv_next(conv_tap t, int kh, int kw, fa_i64 plane) {
    if (++t.j == kw) {
        t.j = 0;
        if (++t.i == kh) {
            t.i = 0;
            t.channel += plane;
        }
    }
    return t;
}
#endif

FN REAL N(conv_multiply_add)(REAL x, REAL y, REAL sum) {
#if defined(FA_IS_C) && !defined(__FMA__)
    return x * y + sum; /* where fma would be a call of libm */
#else
    return N(fa_fma)(x, y, sum);
#endif
}

/* Loads and stores that try the compute type itself first. */
#ifdef FA_F32
#define CONV_OWN FA_T_FLOAT32
#else
#define CONV_OWN FA_T_FLOAT64
#endif
#define CONV_LOAD(k, i) (P.view[k].dtype == CONV_OWN ? ARG(const REAL, k)[i] : LOAD_ARG(k, i))

#define CONV_KERNEL conv2d
#define CONV_BACK 0
#include "conv_pull.h"
#undef CONV_KERNEL
#undef CONV_BACK
#define CONV_KERNEL conv2d_input
#define CONV_BACK 1
#include "conv_pull.h"
#undef CONV_KERNEL
#undef CONV_BACK

/* 4 x 4 of an item's sums by name, so that every compiler keeps them in registers. */
#define CONV_ROW(DO, i) DO(i, 0) DO(i, 1) DO(i, 2) DO(i, 3)
#define CONV_EACH(DO) CONV_ROW(DO, 0) CONV_ROW(DO, 1) CONV_ROW(DO, 2) CONV_ROW(DO, 3)
#define CONV_TAKE(i, j) REAL sum##i##j = MINE_OF(sum, (r + i) * FA_CONV_COLUMNS + c + j);
#define CONV_KEEP(i, j) MINE_OF(sum, (r + i) * FA_CONV_COLUMNS + c + j) = sum##i##j;
#define CONV_ADD(i, j) sum##i##j = N(conv_multiply_add)(g##i, x##j, sum##i##j);

KERNEL(N(conv2d_weight), 256) {
    LOCAL(REAL, part, FA_CONV_COLUMNS * 256);
    PRIVATES(REAL, g, FA_CONV_LINES, 256);                          /* gradients of 8 output channels at the item's place */
    PRIVATES(REAL, x, FA_CONV_COLUMNS, 256);                        /* what 8 weights meet there */
    PRIVATES(REAL, sum, FA_CONV_LINES * FA_CONV_COLUMNS, 256);
    CONV_PLACE();
    const int height = (int)P.n[2], width = (int)P.n[3], kh = (int)P.n[5], kw = (int)P.n[6];
    const int rows = (int)(P.n[4] / P.n[15]), columns = (int)(P.n[1] / P.n[15]) * kh * kw;
    const int across = (columns + FA_CONV_COLUMNS - 1) / FA_CONV_COLUMNS, down = (rows + FA_CONV_LINES - 1) / FA_CONV_LINES;
    const int column0 = (int)(GROUP % across) * FA_CONV_COLUMNS, row0 = (int)(GROUP / across % down) * FA_CONV_LINES;
    const int lines = rows - row0 < FA_CONV_LINES ? rows - row0 : FA_CONV_LINES;
    const int wide = columns - column0 < FA_CONV_COLUMNS ? columns - column0 : FA_CONV_COLUMNS;
    const fa_i64 part_of = GROUP / across / down, first = part_of * rows + row0;
    const int out_plane = (int)(P.n[7] * P.n[8]), out_width = (int)P.n[8];
    const fa_i64 plane = P.n[2] * P.n[3], places = P.n[0] * out_plane;
    const int stride_y = (int)P.n[9], stride_x = (int)P.n[10], step_y = (int)P.n[13], step_x = (int)P.n[14];
    const int shift_y = -(int)P.n[11], shift_x = -(int)P.n[12];
    const fa_divisor by_plane = fa_divisor_of((fa_u32)out_plane), by_width = fa_divisor_of((fa_u32)out_width);
    conv_tap start;
    start.channel = (part_of * (P.n[1] / P.n[15]) + column0 / (kh * kw)) * plane;
    start.i = column0 / kw % kh;
    start.j = column0 % kw;
    UNROLLED for (int s = 0; s < FA_CONV_LINES * FA_CONV_COLUMNS; ++s)
        ITEMS(256) { MINE_OF(sum, s) = 0; }
    for (fa_i64 from = 0; from < places; from += 256) {
        const fa_i64 image0 = from / out_plane, from_g = (image0 * P.n[4] + first) * out_plane, from_x = image0 * P.n[1] * plane;
        const int here = places - from < 256 ? (int)(places - from) : 256, place0 = (int)(from - image0 * out_plane);
        CONV_PLACE_SET(place0, out_plane, out_width, by_plane, by_width, stride_y, stride_x, shift_y, shift_x)
        UNROLLED for (int r = 0; r < FA_CONV_LINES; ++r) {
            const int end = r < lines ? here : 0;
            ITEMS(256) {
                const fa_i64 at = from_g + (fa_i64)r * out_plane + MINE(image) * P.n[4] * out_plane + MINE(rest);
                MINE_OF(g, r) = item < end ? CONV_LOAD(1, at) : 0;
            }
        }
        conv_tap tap = start;
        UNROLLED for (int c = 0; c < FA_CONV_COLUMNS; ++c) {
            const int end = c < wide ? here : 0;
            ITEMS(256) {
                const int y = MINE(at_y) + tap.i * step_y, z = MINE(at_x) + tap.j * step_x;
                const int inside = (item < end) & ((unsigned)y < (unsigned)height) & ((unsigned)z < (unsigned)width);
                const fa_i64 at = from_x + tap.channel + MINE(image) * P.n[1] * plane + (y * width + z);
                MINE_OF(x, c) = inside ? CONV_LOAD(2, at) : 0;
            }
            tap = conv_next(tap, kh, kw, plane);
        }
        UNROLLED for (int r = 0; r < FA_CONV_LINES; r += 4)
            UNROLLED for (int c = 0; c < FA_CONV_COLUMNS; c += 4)
                if (r < lines && c < wide)
                    ITEMS(256) {
                        const REAL g0 = MINE_OF(g, r), g1 = MINE_OF(g, r + 1), g2 = MINE_OF(g, r + 2), g3 = MINE_OF(g, r + 3);
                        const REAL x0 = MINE_OF(x, c), x1 = MINE_OF(x, c + 1), x2 = MINE_OF(x, c + 2), x3 = MINE_OF(x, c + 3);
                        CONV_EACH(CONV_TAKE)
                        CONV_EACH(CONV_ADD)
                        CONV_EACH(CONV_KEEP)
                    }
    }
    UNROLLED for (int r = 0; r < FA_CONV_LINES; ++r)
        if (r < lines) {
            UNROLLED for (int c = 0; c < FA_CONV_COLUMNS; ++c)
                ITEMS(256) { part[c * 256 + item] = MINE_OF(sum, r * FA_CONV_COLUMNS + c); }
            BARRIER();
            for (int step = 128; step > 0; step /= 2) {
                for (int c = 0; c < FA_CONV_COLUMNS; ++c)
                    ITEMS(step) {
                        if (item < step) part[c * 256 + item] += part[c * 256 + item + step];
                    }
                BARRIER();
            }
            ITEMS(256) {
                if (item < wide) STORE_ARG(0, (first + r) * columns + column0 + item, part[item * 256]);
            }
            BARRIER();
        }
}
#undef CONV_LOAD
#undef CONV_OWN
#undef CONV_PLACE
#undef CONV_PLACE_SET
#undef CONV_ROW
#undef CONV_EACH
#undef CONV_TAKE
#undef CONV_KEEP
#undef CONV_ADD
