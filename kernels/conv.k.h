/* Two-dimensional convolution and its two derivatives. All tensors are contiguous; each may have a storage dtype of its own.
 *
 *   n[0] = images, n[1] = input channels, n[2], n[3] = height and width of the input, n[4] = output channels,
 *   n[5], n[6] = height and width of the weight, n[7], n[8] = height and width of the output,
 *   n[9], n[10] = stride, n[11], n[12] = padding, n[13], n[14] = dilation (height, width), n[15] = channel groups
 *
 *   conv2d         view[0] = output [n, o, oh, ow], view[1] = input [n, c, h, w], view[2] = weight [o, c / groups, kh, kw],
 *                  view[3] = bias [o] or none; groups = ceil(elements of the output / 256)
 *   conv2d_input   view[0] = gradient of the input, view[1] = gradient of the output, view[2] = weight, view[3] = bias [c] or
 *                  none (with one it is a transposed convolution); groups = ceil(elements of the input / 256)
 *   conv2d_weight  view[0] = gradient of the weight, view[1] = gradient of the output, view[2] = input; groups = elements of the
 *                  weight
 *
 * The first two give one element to an item, which gathers all that it needs; the last gives one weight to a group, whose items
 * share the positions and add up in a fixed tree. Nothing is scattered, so results are the same in every run. */

FN REAL N(conv_multiply_add)(REAL x, REAL y, REAL sum) {
#ifdef FA_IS_C
    return x * y + sum; /* where fma could be a call of libm */
#else
    return N(fa_fma)(x, y, sum);
#endif
}

KERNEL(N(conv2d), 256) {
    const fa_i64 channels = P.n[1] / P.n[15], height = P.n[2], width = P.n[3], outputs = P.n[4], kh = P.n[5], kw = P.n[6];
    const fa_i64 oh = P.n[7], ow = P.n[8];
    ITEMS(256) {
        const fa_i64 e = GROUP * 256 + item;
        if (e < P.n[0] * outputs * oh * ow) {
            const fa_i64 x = e % ow, y = e / ow % oh, o = e / (ow * oh) % outputs, image = e / (ow * oh * outputs);
            const fa_i64 y0 = y * P.n[9] - P.n[11], x0 = x * P.n[10] - P.n[12];
            const fa_i64 first = image * P.n[1] + o / (outputs / P.n[15]) * channels;
            REAL sum = 0;
            for (fa_i64 c = 0; c < channels; ++c)
                for (fa_i64 i = 0; i < kh; ++i) {
                    const fa_i64 at_y = y0 + i * P.n[13];
                    if (at_y < 0 || at_y >= height) continue;
                    for (fa_i64 j = 0; j < kw; ++j) {
                        const fa_i64 at_x = x0 + j * P.n[14];
                        if (at_x < 0 || at_x >= width) continue;
                        sum = N(conv_multiply_add)(LOAD_ARG(1, ((first + c) * height + at_y) * width + at_x),
                                                   LOAD_ARG(2, ((o * channels + c) * kh + i) * kw + j), sum);
                    }
                }
            if (P.view[3].kind) sum += LOAD_ARG(3, o);
            STORE_ARG(0, e, sum);
        }
    }
}

KERNEL(N(conv2d_input), 256) {
    const fa_i64 channels = P.n[1] / P.n[15], height = P.n[2], width = P.n[3], outputs = P.n[4], kh = P.n[5], kw = P.n[6];
    const fa_i64 oh = P.n[7], ow = P.n[8], share = outputs / P.n[15];
    ITEMS(256) {
        const fa_i64 e = GROUP * 256 + item;
        if (e < P.n[0] * P.n[1] * height * width) {
            const fa_i64 x = e % width, y = e / width % height, c = e / (width * height) % P.n[1],
                         image = e / (width * height * P.n[1]);
            const fa_i64 first = c / channels * share;
            REAL sum = 0;
            for (fa_i64 o = first; o < first + share; ++o)
                for (fa_i64 i = 0; i < kh; ++i) {
                    const fa_i64 down = y + P.n[11] - i * P.n[13], at_y = down / P.n[9];
                    if (down < 0 || at_y >= oh || at_y * P.n[9] != down) continue;
                    for (fa_i64 j = 0; j < kw; ++j) {
                        const fa_i64 right = x + P.n[12] - j * P.n[14], at_x = right / P.n[10];
                        if (right < 0 || at_x >= ow || at_x * P.n[10] != right) continue;
                        sum = N(conv_multiply_add)(LOAD_ARG(1, ((image * outputs + o) * oh + at_y) * ow + at_x),
                                                   LOAD_ARG(2, ((o * channels + c % channels) * kh + i) * kw + j), sum);
                    }
                }
            if (P.view[3].kind) sum += LOAD_ARG(3, c);
            STORE_ARG(0, e, sum);
        }
    }
}

KERNEL(N(conv2d_weight), 256) {
    LOCAL(REAL, part, 256);
    const fa_i64 channels = P.n[1] / P.n[15], height = P.n[2], width = P.n[3], outputs = P.n[4], kh = P.n[5], kw = P.n[6];
    const fa_i64 oh = P.n[7], ow = P.n[8];
    const fa_i64 j = GROUP % kw, i = GROUP / kw % kh, c = GROUP / (kw * kh) % channels, o = GROUP / (kw * kh * channels);
    const fa_i64 from = o / (outputs / P.n[15]) * channels + c;
    ITEMS(256) {
        REAL sum = 0;
        for (fa_i64 e = item; e < P.n[0] * oh * ow; e += 256) {
            const fa_i64 x = e % ow, y = e / ow % oh, image = e / (ow * oh);
            const fa_i64 at_y = y * P.n[9] - P.n[11] + i * P.n[13], at_x = x * P.n[10] - P.n[12] + j * P.n[14];
            if (at_y >= 0 && at_y < height && at_x >= 0 && at_x < width)
                sum = N(conv_multiply_add)(LOAD_ARG(1, ((image * outputs + o) * oh + y) * ow + x),
                                           LOAD_ARG(2, ((image * P.n[1] + from) * height + at_y) * width + at_x), sum);
        }
        part[item] = sum;
    }
    BARRIER();
    for (int step = 128; step > 0; step /= 2) {
        ITEMS(256) {
            if (item < step) part[item] += part[item + step];
        }
        BARRIER();
    }
    ITEMS(256) {
        if (item == 0) STORE_ARG(0, GROUP, part[0]);
    }
}
