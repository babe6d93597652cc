/* Layer and batch normalisation and their derivatives. Elements are contiguous; every operand has a storage dtype of its own.
 * Sums follow ordered.h. per_group = rows (channels, columns) that a group does at once; views of kind none are left out.
 *
 * Layer: x is [rows, width]; mean and rstd = 1 / sqrt(variance + eps) of each row are kept for the derivatives.
 *   layer_norm                  view: y, mean, rstd, x, weight?, bias?       n = rows, width, per_group; f[0] = eps
 *   layer_norm_backward         view: gradient of x, g, x, mean, rstd, weight?   n the same
 *   layer_norm_weight_backward  view: gradient of weight?, of bias?, g, x, mean, rstd; here the columns are what a group sums
 *   groups = ceil(rows or columns / per_group)
 *
 * Batch: x is [batch, channels, space]; a channel's elements are counted k = batch * space + place.
 *   batch_norm_stats      view: mean, rstd, running mean?, running variance?, x    n = channels, batch, space, per_group;
 *                         f[0] = eps, f[1] = momentum. running = (1 - momentum) * running + momentum * new; the running variance
 *                         takes the unbiased one. groups = ceil(channels / per_group)
 *   batch_norm            view: y, x, mean, rstd, weight?, bias?     n = channels, batch, space, -, flags; f[0] = eps
 *                         groups = ceil(elements / 1024)
 *   batch_norm_backward   view: gradient of x?, of weight?, of bias?, g, x, mean, rstd, weight?    n as batch_norm_stats, flags
 *   flags (n[4]): 1 = the operand named rstd is a variance, 2 = mean and variance depend on x (training) */
#include "ordered.h"

FN REAL N(norm_square)(REAL d) { return d * d; }
FN REAL N(norm_rstd)(REAL variance, REAL eps) { return 1 / N(fa_sqrt)(variance + eps); }

#define HAS(k) (P.view[k].kind != FA_VIEW_NONE)
#define OR_ONE(k, i) (HAS(k) ? LOAD_ARG(k, i) : (REAL)1)
#define OR_ZERO(k, i) (HAS(k) ? LOAD_ARG(k, i) : (REAL)0)

KERNEL(N(layer_norm), 256) {
    ORDERED_MEMORY();
    LOCAL(REAL, mean, 16);
    LOCAL(REAL, rstd, 16);
    const fa_i64 rows = P.n[0], width = P.n[1], per_group = P.n[2];
    ORDERED_SUM(mean, width, LOAD_ARG(3, ROW * width + k));
    ITEMS(256) { if (item < per_group) mean[item] /= (REAL)width; }
    BARRIER();
    ORDERED_SUM(rstd, width, N(norm_square)(LOAD_ARG(3, ROW * width + k) - mean[OWNER]));
    ITEMS(256) {
        if (item < per_group) {
            rstd[item] = N(norm_rstd)(rstd[item] / (REAL)width, (REAL)P.f[0]);
            const fa_i64 row = GROUP * per_group + item;
            if (row < rows) {
                STORE_ARG(1, row, mean[item]);
                STORE_ARG(2, row, rstd[item]);
            }
        }
    }
    BARRIER();
    ITEMS(256) {
        if (ROW < rows)
            for (fa_i64 k = item % TEAM; k < width; k += TEAM) {
                const REAL x = (LOAD_ARG(3, ROW * width + k) - mean[OWNER]) * rstd[OWNER];
                STORE_ARG(0, ROW * width + k, x * OR_ONE(4, k) + OR_ZERO(5, k));
            }
    }
}

#define G (LOAD_ARG(1, ROW * width + k) * OR_ONE(5, k))
#define X_HAT ((LOAD_ARG(2, ROW * width + k) - LOAD_ARG(3, ROW)) * LOAD_ARG(4, ROW))

KERNEL(N(layer_norm_backward), 256) {
    ORDERED_MEMORY();
    LOCAL(REAL, sum_g, 16);
    LOCAL(REAL, sum_gx, 16);
    const fa_i64 rows = P.n[0], width = P.n[1], per_group = P.n[2];
    ORDERED_SUM(sum_g, width, G);
    ORDERED_SUM(sum_gx, width, G * X_HAT);
    ITEMS(256) {
        if (ROW < rows) {
            const REAL mean_g = sum_g[OWNER] / (REAL)width, mean_gx = sum_gx[OWNER] / (REAL)width;
            for (fa_i64 k = item % TEAM; k < width; k += TEAM)
                STORE_ARG(0, ROW * width + k, (G - mean_g - X_HAT * mean_gx) * LOAD_ARG(4, ROW));
        }
    }
}

#undef G
#undef X_HAT

KERNEL(N(layer_norm_weight_backward), 256) {
    ORDERED_MEMORY();
    LOCAL(REAL, sum_g, 16);
    LOCAL(REAL, sum_gx, 16);
    const fa_i64 count = P.n[0], rows = P.n[1], per_group = P.n[2]; /* a "row" of the sums is a column */
    ORDERED_SUM(sum_g, count, LOAD_ARG(2, k * rows + ROW));
    ORDERED_SUM(sum_gx, count, LOAD_ARG(2, k * rows + ROW) * ((LOAD_ARG(3, k * rows + ROW) - LOAD_ARG(4, k)) * LOAD_ARG(5, k)));
    ITEMS(256) {
        const fa_i64 column = GROUP * per_group + item;
        if (item < per_group && column < rows) {
            if (HAS(0)) STORE_ARG(0, column, sum_gx[item]);
            if (HAS(1)) STORE_ARG(1, column, sum_g[item]);
        }
    }
}

#define AT(k) (((k) / space * rows + ROW) * space + (k) % space)

KERNEL(N(batch_norm_stats), 256) {
    ORDERED_MEMORY();
    LOCAL(REAL, mean, 16);
    LOCAL(REAL, square, 16);
    const fa_i64 rows = P.n[0], space = P.n[2], count = P.n[1] * space, per_group = P.n[3];
    const REAL momentum = (REAL)P.f[1];
    ORDERED_SUM(mean, count, LOAD_ARG(4, AT(k)));
    ITEMS(256) { if (item < per_group) mean[item] /= (REAL)count; }
    BARRIER();
    ORDERED_SUM(square, count, N(norm_square)(LOAD_ARG(4, AT(k)) - mean[OWNER]));
    ITEMS(256) {
        const fa_i64 c = GROUP * per_group + item;
        if (item < per_group && c < rows) {
            STORE_ARG(0, c, mean[item]);
            STORE_ARG(1, c, N(norm_rstd)(square[item] / (REAL)count, (REAL)P.f[0]));
            if (HAS(2)) STORE_ARG(2, c, (1 - momentum) * LOAD_ARG(2, c) + momentum * mean[item]);
            if (HAS(3)) STORE_ARG(3, c, (1 - momentum) * LOAD_ARG(3, c) + momentum * (square[item] / (REAL)(count - 1)));
        }
    }
}

KERNEL(N(batch_norm), 256) {
    const fa_i64 channels = P.n[0], space = P.n[2], count = channels * P.n[1] * space;
    ITEMS(256) {
        for (int part = 0; part < 4; ++part) {
            const fa_i64 i = GROUP * 1024 + part * 256 + item;
            if (i < count) {
                const fa_i64 c = i / space % channels;
                const REAL rstd = P.n[4] & 1 ? N(norm_rstd)(LOAD_ARG(3, c), (REAL)P.f[0]) : LOAD_ARG(3, c);
                STORE_ARG(0, i, (LOAD_ARG(1, i) - LOAD_ARG(2, c)) * (rstd * OR_ONE(4, c)) + OR_ZERO(5, c));
            }
        }
    }
}

KERNEL(N(batch_norm_backward), 256) {
    ORDERED_MEMORY();
    LOCAL(REAL, sum_g, 16);
    LOCAL(REAL, sum_gx, 16);
    const fa_i64 rows = P.n[0], space = P.n[2], count = P.n[1] * space, per_group = P.n[3];
    const int is_variance = (int)P.n[4] & 1, training = (int)P.n[4] & 2;
    ORDERED_SUM(sum_g, count, LOAD_ARG(3, AT(k)));
    ORDERED_SUM(sum_gx, count, LOAD_ARG(3, AT(k)) * (LOAD_ARG(4, AT(k)) - LOAD_ARG(5, ROW)));
    ITEMS(256) {
        const fa_i64 c = ROW;
        if (c < rows) {
            const REAL rstd = is_variance ? N(norm_rstd)(LOAD_ARG(6, c), (REAL)P.f[0]) : LOAD_ARG(6, c), mean = LOAD_ARG(5, c);
            const REAL factor = rstd * OR_ONE(7, c), mean_g = sum_g[OWNER] / (REAL)count;
            const REAL slope = sum_gx[OWNER] / (REAL)count * (rstd * rstd);
            if (HAS(0))
                for (fa_i64 k = item % TEAM; k < count; k += TEAM) {
                    REAL g = LOAD_ARG(3, AT(k));
                    if (training) g = g - mean_g - (LOAD_ARG(4, AT(k)) - mean) * slope;
                    STORE_ARG(0, AT(k), g * factor);
                }
            if (item % TEAM == 0) {
                if (HAS(1)) STORE_ARG(1, c, sum_gx[OWNER] * rstd);
                if (HAS(2)) STORE_ARG(2, c, sum_g[OWNER]);
            }
        }
    }
}

#undef AT
#undef HAS
#undef OR_ONE
#undef OR_ZERO
