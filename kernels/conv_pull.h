/* The body of conv2d (CONV_BACK 0) and of conv2d_input (CONV_BACK 1), read by conv.k.h. Both write a field, each place of which
 * pulls from another field what the filter lets it see: going forward place y sees y * stride - padding + i * dilation; going
 * back it sees (y + padding - i * dilation) / stride where that is whole.
 *
 * A group makes 16 channels of 256 places: in steps of 8 weights, each item fetches what its place sees, and multiplies it by
 * the weights of all 16 channels, which lie in local memory. */

KERNEL(N(CONV_KERNEL), 256) {
    LOCAL(REAL, weight, FA_CONV_ROWS * FA_CONV_STEP);
    PRIVATES(REAL, x, FA_CONV_STEP, 256);
    PRIVATES(REAL, sum, FA_CONV_ROWS, 256);
    CONV_PLACE();
    const int kh = (int)P.n[5], kw = (int)P.n[6];
    const int inputs = (int)(P.n[1] / P.n[15]), outputs = (int)(P.n[4] / P.n[15]);
#if CONV_BACK
    const int rows = inputs, depth = outputs, own_h = (int)P.n[2], own_w = (int)P.n[3], height = (int)P.n[7], width = (int)P.n[8];
    const int scale_y = 1, scale_x = 1, divisor_y = (int)P.n[9], divisor_x = (int)P.n[10];
    const int shift_y = (int)P.n[11], shift_x = (int)P.n[12], step_y = -(int)P.n[13], step_x = -(int)P.n[14];
    const fa_i64 row_pitch = kh * kw, depth_pitch = (fa_i64)inputs * kh * kw;
#else
    const int rows = outputs, depth = inputs, own_h = (int)P.n[7], own_w = (int)P.n[8], height = (int)P.n[2], width = (int)P.n[3];
    const int scale_y = (int)P.n[9], scale_x = (int)P.n[10], divisor_y = 1, divisor_x = 1;
    const int shift_y = -(int)P.n[11], shift_x = -(int)P.n[12], step_y = (int)P.n[13], step_x = (int)P.n[14];
    const fa_i64 row_pitch = (fa_i64)inputs * kh * kw, depth_pitch = kh * kw;
#endif
    const int steps = depth * kh * kw, down = (rows + FA_CONV_ROWS - 1) / FA_CONV_ROWS;
    const int own_plane = own_h * own_w;
    const fa_i64 plane = (fa_i64)height * width, places = P.n[0] * own_plane;
    const fa_i64 across = (places + 255) / 256, from = GROUP % across * 256, part_of = GROUP / across / down;
    const int row0 = (int)(GROUP / across % down) * FA_CONV_ROWS;
    const int lines = rows - row0 < FA_CONV_ROWS ? rows - row0 : FA_CONV_ROWS;
    const int here = places - from < 256 ? (int)(places - from) : 256;
    const fa_i64 image0 = from / own_plane, filter = part_of * outputs * inputs * kh * kw;
    const fa_i64 x_pitch = depth * P.n[15] * plane, y_pitch = rows * P.n[15] * own_plane; /* from image to image */
    const int place0 = (int)(from - image0 * own_plane);
    const fa_divisor by_plane = fa_divisor_of((fa_u32)own_plane), by_width = fa_divisor_of((fa_u32)own_w);
    const fa_divisor by_y = fa_divisor_of((fa_u32)divisor_y), by_x = fa_divisor_of((fa_u32)divisor_x);
    CONV_PLACE_SET(place0, own_plane, own_w, by_plane, by_width, scale_y, scale_x, shift_y, shift_x)
    UNROLLED for (int r = 0; r < FA_CONV_ROWS; ++r)
        ITEMS(256) { MINE_OF(sum, r) = 0; }
    conv_tap tap;
    tap.channel = part_of * depth * plane;
    tap.i = tap.j = 0;
    for (int k0 = 0; k0 < steps; k0 += FA_CONV_STEP) {
        ITEMS(FA_CONV_ROWS * FA_CONV_STEP) {
            const int r = item / FA_CONV_STEP, k = k0 + item % FA_CONV_STEP;
            if (item < FA_CONV_ROWS * FA_CONV_STEP)
                weight[item] = r < lines && k < steps
                    ? CONV_LOAD(2, filter + (row0 + r) * row_pitch + k / (kh * kw) * depth_pitch + k % (kh * kw)) : 0;
        }
        UNROLLED for (int s = 0; s < FA_CONV_STEP; ++s) {
            const int end = k0 + s < steps ? here : 0;
            const fa_i64 x0 = image0 * x_pitch + tap.channel;
            ITEMS(256) {
                const int y = conv_meet(MINE(at_y) + tap.i * step_y, divisor_y, by_y, height);
                const int z = conv_meet(MINE(at_x) + tap.j * step_x, divisor_x, by_x, width);
                const int inside = (item < end) & ((y | z) >= 0);
                const fa_i64 at = x0 + MINE(image) * x_pitch + (y * width + z);
                MINE_OF(x, s) = inside ? CONV_LOAD(1, at) : 0;
            }
            tap = conv_next(tap, kh, kw, plane);
        }
        BARRIER();
        UNROLLED for (int r = 0; r < FA_CONV_ROWS; ++r)
            if (r < lines)
                ITEMS(256) {
                    REAL add = MINE_OF(sum, r);
                    UNROLLED for (int s = 0; s < FA_CONV_STEP; ++s)
                        add = N(conv_multiply_add)(MINE_OF(x, s), weight[r * FA_CONV_STEP + s], add);
                    MINE_OF(sum, r) = add;
                }
        BARRIER();
    }
    UNROLLED for (int r = 0; r < FA_CONV_ROWS; ++r)
        if (r < lines) {
            const fa_i64 channel = part_of * rows + row0 + r;
            const REAL bias = P.view[3].kind ? CONV_LOAD(3, channel) : 0;
            const fa_i64 to = image0 * y_pitch + channel * own_plane;
            ITEMS(256) {
                const fa_i64 at = to + MINE(image) * y_pitch + MINE(rest);
                const REAL v = MINE_OF(sum, r) + bias;
                if (item < here) STORE_ARG(0, at, v);
            }
        }
}
