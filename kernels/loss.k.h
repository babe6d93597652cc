/* Negative log likelihood. Input x is [batch, classes, space], log-probabilities; targets are [batch, space], integers; an
 * element is one target, k = batch * space + place. Its loss is -weight[target] * x[batch, target, place], 0 where target =
 * ignored.
 *
 *   nll_loss            view[0] = the losses [batch, space], or the one joined loss; view[1] = sum of weights (0 without
 *                       reduction); view[2] = x, view[3] = target, view[4] = weight?, view[5] = status
 *                       groups = 1, or ceil(elements / 256) without reduction
 *   nll_loss_backward   view[0] = gradient of x, view[1] = g, view[2] = target, view[3] = weight?, view[4] = sum of weights
 *                       (mean) groups = ceil(elements of x / 1024)
 *   n[0] = batch, n[1] = classes, n[2] = space, n[3] = reduction (0 none, 1 mean by weight, 2 sum), n[4] = the ignored target,
 *   n[5] = op of the report
 *
 * The two sums follow ordered.h. A target out of range is reported and counts as ignored. */
#include "ordered.h"
#include "status.h"

/* Of element k: its class, the weight of a class, and whether it is one that counts. */
#define TARGET(view_) fa_load_i64(ARG(const char, view_), P.view[view_].dtype, k)
#define WEIGHT(view_, c) (P.view[view_].kind != FA_VIEW_NONE ? LOAD_ARG(view_, c) : (REAL)1)
#define IS_CLASS(c) ((c) != P.n[4] && (c) >= 0 && (c) < classes)
#define ELEMENT_WEIGHT (IS_CLASS(TARGET(3)) ? WEIGHT(4, TARGET(3)) : (REAL)0)
#define ELEMENT_X LOAD_ARG(2, (k / space * classes + TARGET(3)) * space + k % space)
#define ELEMENT_LOSS (IS_CLASS(TARGET(3)) ? -(ELEMENT_X * WEIGHT(4, TARGET(3))) : (REAL)0)

KERNEL(N(nll_loss), 256) {
    ORDERED_MEMORY();
    LOCAL(REAL, loss, 16);
    LOCAL(REAL, weight, 16);
    const fa_i64 classes = P.n[1], space = P.n[2], count = P.n[0] * space, rows = 1, per_group = 1;
    ITEMS(256) {
        for (fa_i64 k = GROUP * 256 + item; k < count; k += P.groups * 256) {
            const fa_i64 c = TARGET(3);
            if (c != P.n[4] && !IS_CLASS(c)) report_index(ARG(fa_i64, 5), FA_STATUS_TARGET, c, 1, classes, k, P.n[5]);
            if (P.n[3] == 0) STORE_ARG(0, k, ELEMENT_LOSS);
        }
        if (P.n[3] == 0 && GROUP == 0 && item == 0) STORE_ARG(1, 0, (REAL)0);
    }
    if (P.n[3] != 0) {
        ORDERED_SUM(loss, count, ELEMENT_LOSS);
        ORDERED_SUM(weight, count, ELEMENT_WEIGHT);
        ITEMS(256) {
            if (item == 0) {
                STORE_ARG(0, 0, P.n[3] == 1 ? loss[0] / weight[0] : loss[0]);
                STORE_ARG(1, 0, weight[0]);
            }
        }
    }
}

KERNEL(N(nll_loss_backward), 256) {
    const fa_i64 classes = P.n[1], space = P.n[2], count = P.n[0] * classes * space;
    ITEMS(256) {
        for (int part = 0; part < 4; ++part) {
            const fa_i64 i = GROUP * 1024 + part * 256 + item;
            if (i < count) {
                const fa_i64 k = i / (classes * space) * space + i % space, c = TARGET(2);
                REAL gradient = 0;
                if (i / space % classes == c && IS_CLASS(c)) {
                    gradient = -(WEIGHT(3, c) * LOAD_ARG(1, P.n[3] == 0 ? k : 0));
                    if (P.n[3] == 1) gradient /= LOAD_ARG(4, 0);
                }
                STORE_ARG(0, i, gradient);
            }
        }
    }
}

#undef TARGET
#undef WEIGHT
#undef IS_CLASS
#undef ELEMENT_WEIGHT
#undef ELEMENT_X
#undef ELEMENT_LOSS
