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

#ifndef FA_CONV
#define FA_CONV

/* Where an item stands: element number `from + item` of all images' planes of the given width. */
typedef struct conv_place { fa_i64 image; int rest, y, x; } conv_place;
FN conv_place conv_place_of(fa_i64 image, unsigned rest, unsigned plane, unsigned width) {
    conv_place p;
    p.image = image + rest / plane;
    p.rest = (int)(rest % plane);
    p.y = p.rest / (int)width;
    p.x = p.rest % (int)width;
    return p;
}

/* The row or column of the other field that meets this one, or -1. */
FN int conv_meet(int at, int divisor, int size) {
    if (divisor != 1) {
        const int whole = at / divisor;
        at = at < 0 || whole * divisor != at ? -1 : whole;
    }
    return (unsigned)at < (unsigned)size ? at : -1;
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

KERNEL(N(conv2d_weight), 256) {
    LOCAL(REAL, part, FA_CONV_COLUMNS * 256);
    PRIVATES(REAL, g, FA_CONV_LINES, 256);                          /* gradients of 8 output channels at the item's place */
    PRIVATES(REAL, x, FA_CONV_COLUMNS, 256);                        /* what 8 weights meet there */
    PRIVATES(REAL, sum, FA_CONV_LINES * FA_CONV_COLUMNS, 256);
    PRIVATE(conv_place, place, 256);
    const int height = (int)P.n[2], width = (int)P.n[3], kh = (int)P.n[5], kw = (int)P.n[6];
    const int rows = (int)(P.n[4] / P.n[15]), columns = (int)(P.n[1] / P.n[15]) * kh * kw;
    const int across = (columns + FA_CONV_COLUMNS - 1) / FA_CONV_COLUMNS, down = (rows + FA_CONV_LINES - 1) / FA_CONV_LINES;
    const int column0 = (int)(GROUP % across) * FA_CONV_COLUMNS, row0 = (int)(GROUP / across % down) * FA_CONV_LINES;
    const int lines = rows - row0 < FA_CONV_LINES ? rows - row0 : FA_CONV_LINES;
    const int wide = columns - column0 < FA_CONV_COLUMNS ? columns - column0 : FA_CONV_COLUMNS;
    const fa_i64 part_of = GROUP / across / down, first = part_of * rows + row0;
    const fa_i64 plane = P.n[2] * P.n[3], out_plane = P.n[7] * P.n[8], places = P.n[0] * out_plane;
    const int stride_y = (int)P.n[9], stride_x = (int)P.n[10], step_y = (int)P.n[13], step_x = (int)P.n[14];
    conv_tap start;
    start.channel = (part_of * (P.n[1] / P.n[15]) + column0 / (kh * kw)) * plane;
    start.i = column0 / kw % kh;
    start.j = column0 % kw;
    UNROLLED for (int s = 0; s < FA_CONV_LINES * FA_CONV_COLUMNS; ++s)
        ITEMS(256) { MINE_OF(sum, s) = 0; }
    for (fa_i64 from = 0; from < places; from += 256) {
        const fa_i64 image = from / out_plane, rest = from % out_plane;
        const int here = places - from < 256 ? (int)(places - from) : 256;
        ITEMS(256) {
            MINE(place) = conv_place_of(image, (unsigned)rest + (unsigned)item, (unsigned)out_plane, (unsigned)P.n[8]);
            MINE(place).y = MINE(place).y * stride_y - (int)P.n[11];
            MINE(place).x = MINE(place).x * stride_x - (int)P.n[12];
        }
        UNROLLED for (int r = 0; r < FA_CONV_LINES; ++r)
            ITEMS(256) {
                const fa_i64 at = (MINE(place).image * P.n[4] + first + r) * out_plane + MINE(place).rest;
                MINE_OF(g, r) = r < lines && item < here ? CONV_LOAD(1, at) : 0;
            }
        conv_tap tap = start;
        UNROLLED for (int c = 0; c < FA_CONV_COLUMNS; ++c) {
            ITEMS(256) {
                const int y = conv_meet(MINE(place).y + tap.i * step_y, 1, height);
                const int z = conv_meet(MINE(place).x + tap.j * step_x, 1, width);
                const fa_i64 at = MINE(place).image * P.n[1] * plane + tap.channel + (fa_i64)y * width + z;
                MINE_OF(x, c) = c < wide && item < here && (y | z) >= 0 ? CONV_LOAD(2, at) : 0;
            }
            tap = conv_next(tap, kh, kw, plane);
        }
        UNROLLED for (int s = 0; s < FA_CONV_LINES * FA_CONV_COLUMNS; ++s)
            if (s / FA_CONV_COLUMNS < lines)
                ITEMS(256) {
                    MINE_OF(sum, s) = N(conv_multiply_add)(MINE_OF(g, s / FA_CONV_COLUMNS), MINE_OF(x, s % FA_CONV_COLUMNS),
                                                           MINE_OF(sum, s));
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
