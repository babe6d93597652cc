/* Pooling over planes of two dimensions, and its derivatives. All tensors are contiguous: [planes, height, width].
 *
 *   n[0] = planes, n[1], n[2] = height and width of the input, n[3], n[4] = of the output, n[5], n[6] = of the window,
 *   n[7], n[8] = stride, n[9], n[10] = padding; maximum: n[11], n[12] = dilation;
 *   mean: n[11] = 1 if padding counts, n[12] = divisor instead of the number of elements, or 0
 *
 *   max_pool2d           view[0] = output, view[1] = int64 indices within a plane or none, view[2] = input
 *   max_pool2d_backward  view[0] = gradient of the input, view[1] = gradient of the output, view[2] = int64 indices
 *   avg_pool2d           view[0] = output, view[1] = input
 *   avg_pool2d_backward  view[0] = gradient of the input, view[1] = gradient of the output
 *
 * An item makes one element; groups = ceil(elements of view[0] / 256). The derivatives gather from the windows that cover an
 * element, rows first, so sums have one order. Of equal maxima the first counts; a NaN wins, the last of several. Planes have
 * fewer than 2^30 elements.
 *
 * Loops over a window stand outside, those over items inside: an item whose window ends earlier adds nothing. */
#include "divide.h"

#ifndef FA_POOL
#define FA_POOL
/* Windows along one side that may hold position x: [first, end). by: the stride. */
FN int pool_first(int x, int window, int stride, fa_divisor by, int padding, int dilation) {
    const int reach = x + padding - (window - 1) * dilation;
    return fa_divide(reach > 0 ? reach + stride - 1 : 0, by);
}
FN int pool_end(int x, int outputs, fa_divisor by, int padding) {
    const int end = fa_divide(x + padding, by) + 1;
    return end < outputs ? end : outputs;
}
/* What a mean's window is divided by. y, x: where it begins, perhaps in the padding. */
FN int pool_divisor(int y, int x, int window_y, int window_x, int height, int width, int padding_y, int padding_x,
                    int padding_counts, int instead) {
    const int y_end = y + window_y < height + padding_y ? y + window_y : height + padding_y;
    const int x_end = x + window_x < width + padding_x ? x + window_x : width + padding_x;
    const int inside = ((y_end < height ? y_end : height) - (y > 0 ? y : 0)) * ((x_end < width ? x_end : width) - (x > 0 ? x : 0));
    return instead ? instead : padding_counts ? (y_end - y) * (x_end - x) : inside;
}
#endif

FN REAL N(pool_divide)(REAL a, REAL b) {
#ifdef FA_F32
    return fa_div_f32(a, b);
#else
    return a / b;
#endif
}

/* Of the field that is written, `rows` x `columns`: the plane, row and column of each item. */
#define POOL_PLACES(rows, columns)                                                                              \
    PRIVATE(int, plane, 256);                                                                                   \
    PRIVATE(int, row, 256);                                                                                     \
    PRIVATE(int, column, 256);                                                                                  \
    const int height = (int)P.n[1], width = (int)P.n[2], oh = (int)P.n[3], ow = (int)P.n[4];                    \
    const int window_y = (int)P.n[5], window_x = (int)P.n[6], stride_y = (int)P.n[7], stride_x = (int)P.n[8];   \
    const int padding_y = (int)P.n[9], padding_x = (int)P.n[10];                                                \
    const int field = (rows) * (columns);                                                                       \
    const fa_i64 from = GROUP * 256, count = P.n[0] * field, plane0 = from / field;                             \
    const int rest = (int)(from - plane0 * field), here = count - from < 256 ? (int)(count - from) : 256;       \
    const fa_divisor by_field = fa_divisor_of((fa_u32)field), by_columns = fa_divisor_of((fa_u32)(columns));    \
    ITEMS(256) {                                                                                                \
        const int passed = fa_divide(rest + item, by_field), place = rest + item - passed * field;              \
        MINE(plane) = passed;                                                                                   \
        MINE(row) = fa_divide(place, by_columns);                                                               \
        MINE(column) = place - MINE(row) * (columns);                                                           \
    }

KERNEL(N(max_pool2d), 256) {
    PRIVATE(REAL, best, 256);
    PRIVATE(int, at, 256);
    POOL_PLACES(oh, ow)
    const int step_y = (int)P.n[11], step_x = (int)P.n[12];
    ITEMS(256) {
        MINE(best) = 0;
        MINE(at) = -1;
    }
    for (int i = 0; i < window_y; ++i)
        for (int j = 0; j < window_x; ++j)
            ITEMS(256) {
                const int y = MINE(row) * stride_y - padding_y + i * step_y, x = MINE(column) * stride_x - padding_x + j * step_x;
                const int inside = (item < here) & ((fa_u32)y < (fa_u32)height) & ((fa_u32)x < (fa_u32)width);
                const int spot = y * width + x;
                const fa_i64 source = (plane0 + MINE(plane)) * height * width + spot;
                const REAL v = inside ? LOAD_ARG(2, source) : 0;
                const int take = inside & ((MINE(at) < 0) | (v > MINE(best)) | (v != v));
                MINE(best) = take ? v : MINE(best);
                MINE(at) = take ? spot : MINE(at);
            }
    ITEMS(256) {
        if (item < here) STORE_ARG(0, from + item, MINE(best));
    }
    if (P.view[1].kind)
        ITEMS(256) {
            if (item < here) ARG(fa_i64, 1)[from + item] = MINE(at);
        }
}

KERNEL(N(max_pool2d_backward), 256) {
    PRIVATE(REAL, sum, 256);
    PRIVATE(int, i0, 256);
    PRIVATE(int, j0, 256);
    POOL_PLACES(height, width)
    const int step_y = (int)P.n[11], step_x = (int)P.n[12];
    const int down = (window_y - 1) * step_y / stride_y + 1, across = (window_x - 1) * step_x / stride_x + 1;
    const fa_divisor by_y = fa_divisor_of((fa_u32)stride_y), by_x = fa_divisor_of((fa_u32)stride_x);
    ITEMS(256) {
        MINE(i0) = pool_first(MINE(row), window_y, stride_y, by_y, padding_y, step_y);
        MINE(j0) = pool_first(MINE(column), window_x, stride_x, by_x, padding_x, step_x);
        MINE(sum) = 0;
    }
    for (int a = 0; a < down; ++a)
        for (int b = 0; b < across; ++b)
            ITEMS(256) {
                const int i = MINE(i0) + a, j = MINE(j0) + b;
                const int i_end = pool_end(MINE(row), oh, by_y, padding_y), j_end = pool_end(MINE(column), ow, by_x, padding_x);
                const int covers = (item < here) & (i < i_end) & (j < j_end);
                const fa_i64 k = (plane0 + MINE(plane)) * oh * ow + i * ow + j, spot = MINE(row) * width + MINE(column);
                const fa_i64 chosen = covers ? ARG(const fa_i64, 2)[k] : -1;
                const REAL g = covers ? LOAD_ARG(1, k) : 0;
                MINE(sum) = chosen == spot ? MINE(sum) + g : MINE(sum);
            }
    ITEMS(256) {
        if (item < here) STORE_ARG(0, from + item, MINE(sum));
    }
}

KERNEL(N(avg_pool2d), 256) {
    PRIVATE(REAL, sum, 256);
    PRIVATE(int, any, 256);
    POOL_PLACES(oh, ow)
    ITEMS(256) {
        MINE(sum) = 0;
        MINE(any) = 0;
    }
    for (int i = 0; i < window_y; ++i)
        for (int j = 0; j < window_x; ++j)
            ITEMS(256) {
                const int y = MINE(row) * stride_y - padding_y + i, x = MINE(column) * stride_x - padding_x + j;
                const int inside = (item < here) & ((fa_u32)y < (fa_u32)height) & ((fa_u32)x < (fa_u32)width);
                const fa_i64 source = (plane0 + MINE(plane)) * height * width + y * width + x;
                const REAL v = inside ? LOAD_ARG(1, source) : 0;
                MINE(sum) = inside ? MINE(sum) + v : MINE(sum);
                MINE(any) |= inside;
            }
    const int padding_counts = (int)P.n[11], instead = (int)P.n[12];
    ITEMS(256) {
        const int size = pool_divisor(MINE(row) * stride_y - padding_y, MINE(column) * stride_x - padding_x, window_y, window_x,
                                      height, width, padding_y, padding_x, padding_counts, instead);
        const REAL mean = N(pool_divide)(MINE(sum), (REAL)size);
        if (item < here) STORE_ARG(0, from + item, MINE(any) ? mean : 0);
    }
}

KERNEL(N(avg_pool2d_backward), 256) {
    PRIVATE(REAL, sum, 256);
    PRIVATE(int, i0, 256);
    PRIVATE(int, j0, 256);
    POOL_PLACES(height, width)
    const int down = (window_y - 1) / stride_y + 1, across = (window_x - 1) / stride_x + 1;
    const int padding_counts = (int)P.n[11], instead = (int)P.n[12];
    const fa_divisor by_y = fa_divisor_of((fa_u32)stride_y), by_x = fa_divisor_of((fa_u32)stride_x);
    ITEMS(256) {
        MINE(i0) = pool_first(MINE(row), window_y, stride_y, by_y, padding_y, 1);
        MINE(j0) = pool_first(MINE(column), window_x, stride_x, by_x, padding_x, 1);
        MINE(sum) = 0;
    }
    for (int a = 0; a < down; ++a)
        for (int b = 0; b < across; ++b)
            ITEMS(256) {
                const int i = MINE(i0) + a, j = MINE(j0) + b;
                const int i_end = pool_end(MINE(row), oh, by_y, padding_y), j_end = pool_end(MINE(column), ow, by_x, padding_x);
                const int covers = (item < here) & (i < i_end) & (j < j_end);
                const fa_i64 k = (plane0 + MINE(plane)) * oh * ow + i * ow + j;
                const int size = pool_divisor(i * stride_y - padding_y, j * stride_x - padding_x, window_y, window_x, height, width,
                                              padding_y, padding_x, padding_counts, instead);
                const REAL g = covers ? LOAD_ARG(1, k) : 0, part = N(pool_divide)(g, (REAL)size);
                MINE(sum) = covers ? MINE(sum) + part : MINE(sum);
            }
    ITEMS(256) {
        if (item < here) STORE_ARG(0, from + item, MINE(sum));
    }
}
#undef POOL_PLACES
