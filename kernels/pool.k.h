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
 * element, rows first, so sums have one order. Of equal maxima the first counts; a NaN wins, the last of several. */

FN REAL N(pool_divide)(REAL a, REAL b) {
#ifdef FA_F32
    return fa_div_f32(a, b);
#else
    return a / b;
#endif
}

/* Windows along one side that may hold position x: [first, end). */
FN fa_i64 N(pool_first)(fa_i64 x, fa_i64 window, fa_i64 stride, fa_i64 padding, fa_i64 dilation) {
    const fa_i64 reach = x + padding - (window - 1) * dilation;
    return reach <= 0 ? 0 : (reach + stride - 1) / stride;
}
FN fa_i64 N(pool_end)(fa_i64 x, fa_i64 outputs, fa_i64 stride, fa_i64 padding) {
    const fa_i64 end = (x + padding) / stride + 1;
    return end < outputs ? end : outputs;
}

/* What a mean's window is divided by. y, x: where it begins, perhaps in the padding. */
FN REAL N(pool_divisor)(fa_i64 y, fa_i64 x, fa_i64 window_y, fa_i64 window_x, fa_i64 height, fa_i64 width, fa_i64 padding_y,
                        fa_i64 padding_x, fa_i64 padding_counts, fa_i64 instead) {
    fa_i64 y_end = y + window_y < height + padding_y ? y + window_y : height + padding_y;
    fa_i64 x_end = x + window_x < width + padding_x ? x + window_x : width + padding_x;
    const fa_i64 whole = (y_end - y) * (x_end - x);
    if (y_end > height) y_end = height;
    if (x_end > width) x_end = width;
    return (REAL)(instead ? instead : padding_counts ? whole : (y_end - (y > 0 ? y : 0)) * (x_end - (x > 0 ? x : 0)));
}

KERNEL(N(max_pool2d), 256) {
    const fa_i64 height = P.n[1], width = P.n[2], oh = P.n[3], ow = P.n[4];
    ITEMS(256) {
        const fa_i64 e = GROUP * 256 + item;
        if (e < P.n[0] * oh * ow) {
            const fa_i64 x0 = e % ow * P.n[8] - P.n[10], y0 = e / ow % oh * P.n[7] - P.n[9],
                         plane = e / (ow * oh) * height * width;
            REAL best = 0;
            fa_i64 at = -1;
            for (fa_i64 i = 0; i < P.n[5]; ++i)
                for (fa_i64 j = 0; j < P.n[6]; ++j) {
                    const fa_i64 y = y0 + i * P.n[11], x = x0 + j * P.n[12];
                    if (y >= 0 && y < height && x >= 0 && x < width) {
                        const REAL v = LOAD_ARG(2, plane + y * width + x);
                        if (at < 0 || v > best || v != v) {
                            best = v;
                            at = y * width + x;
                        }
                    }
                }
            STORE_ARG(0, e, best);
            if (P.view[1].kind) ARG(fa_i64, 1)[e] = at;
        }
    }
}

KERNEL(N(max_pool2d_backward), 256) {
    const fa_i64 height = P.n[1], width = P.n[2], oh = P.n[3], ow = P.n[4];
    ITEMS(256) {
        const fa_i64 e = GROUP * 256 + item;
        if (e < P.n[0] * height * width) {
            const fa_i64 x = e % width, y = e / width % height, plane = e / (width * height) * oh * ow;
            const fa_i64 y_end = N(pool_end)(y, oh, P.n[7], P.n[9]), x_end = N(pool_end)(x, ow, P.n[8], P.n[10]);
            REAL sum = 0;
            for (fa_i64 i = N(pool_first)(y, P.n[5], P.n[7], P.n[9], P.n[11]); i < y_end; ++i)
                for (fa_i64 j = N(pool_first)(x, P.n[6], P.n[8], P.n[10], P.n[12]); j < x_end; ++j)
                    if (ARG(const fa_i64, 2)[plane + i * ow + j] == y * width + x) sum += LOAD_ARG(1, plane + i * ow + j);
            STORE_ARG(0, e, sum);
        }
    }
}

KERNEL(N(avg_pool2d), 256) {
    const fa_i64 height = P.n[1], width = P.n[2], oh = P.n[3], ow = P.n[4];
    ITEMS(256) {
        const fa_i64 e = GROUP * 256 + item;
        if (e < P.n[0] * oh * ow) {
            const fa_i64 x0 = e % ow * P.n[8] - P.n[10], y0 = e / ow % oh * P.n[7] - P.n[9],
                         plane = e / (ow * oh) * height * width;
            REAL sum = 0;
            int any = 0;
            for (fa_i64 y = y0 > 0 ? y0 : 0; y < y0 + P.n[5] && y < height; ++y)
                for (fa_i64 x = x0 > 0 ? x0 : 0; x < x0 + P.n[6] && x < width; ++x) {
                    sum += LOAD_ARG(1, plane + y * width + x);
                    any = 1;
                }
            if (any)
                sum = N(pool_divide)(sum,
                                     N(pool_divisor)(y0, x0, P.n[5], P.n[6], height, width, P.n[9], P.n[10], P.n[11], P.n[12]));
            STORE_ARG(0, e, sum);
        }
    }
}

KERNEL(N(avg_pool2d_backward), 256) {
    const fa_i64 height = P.n[1], width = P.n[2], oh = P.n[3], ow = P.n[4];
    ITEMS(256) {
        const fa_i64 e = GROUP * 256 + item;
        if (e < P.n[0] * height * width) {
            const fa_i64 x = e % width, y = e / width % height, plane = e / (width * height) * oh * ow;
            const fa_i64 y_end = N(pool_end)(y, oh, P.n[7], P.n[9]), x_end = N(pool_end)(x, ow, P.n[8], P.n[10]);
            REAL sum = 0;
            for (fa_i64 i = N(pool_first)(y, P.n[5], P.n[7], P.n[9], 1); i < y_end; ++i)
                for (fa_i64 j = N(pool_first)(x, P.n[6], P.n[8], P.n[10], 1); j < x_end; ++j)
                    sum += N(pool_divide)(LOAD_ARG(1, plane + i * ow + j),
                                          N(pool_divisor)(i * P.n[7] - P.n[9], j * P.n[8] - P.n[10], P.n[5], P.n[6], height,
                                                          width, P.n[9], P.n[10], P.n[11], P.n[12]));
            STORE_ARG(0, e, sum);
        }
    }
}
