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
    PRIVATE(conv_place, place, 256);
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
    const fa_i64 own_plane = (fa_i64)own_h * own_w, plane = (fa_i64)height * width, places = P.n[0] * own_plane;
    const fa_i64 across = (places + 255) / 256, from = GROUP % across * 256, part_of = GROUP / across / down;
    const int row0 = (int)(GROUP / across % down) * FA_CONV_ROWS;
    const int lines = rows - row0 < FA_CONV_ROWS ? rows - row0 : FA_CONV_ROWS;
    const int here = places - from < 256 ? (int)(places - from) : 256;
    const fa_i64 image = from / own_plane, rest = from % own_plane, filter = part_of * outputs * inputs * kh * kw;
    ITEMS(256) {
        MINE(place) = conv_place_of(image, (unsigned)rest + (unsigned)item, (unsigned)own_plane, (unsigned)own_w);
        MINE(place).y = MINE(place).y * scale_y + shift_y;
        MINE(place).x = MINE(place).x * scale_x + shift_x;
    }
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
            ITEMS(256) {
                const int y = conv_meet(MINE(place).y + tap.i * step_y, divisor_y, height);
                const int z = conv_meet(MINE(place).x + tap.j * step_x, divisor_x, width);
                const fa_i64 at = MINE(place).image * (depth * P.n[15]) * plane + tap.channel + (fa_i64)y * width + z;
                MINE_OF(x, s) = k0 + s < steps && item < here && (y | z) >= 0 ? CONV_LOAD(1, at) : 0;
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
            ITEMS(256) {
                const fa_i64 at = (MINE(place).image * (rows * P.n[15]) + channel) * own_plane + MINE(place).rest;
                if (item < here) STORE_ARG(0, at, MINE_OF(sum, r) + bias);
            }
        }
}
