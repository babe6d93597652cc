/* Three small kernels with answers that are known beforehand: what the tests of devices launch, and what tells whether a
 * device works at all. They use each thing that kernels need: numbers of the plan, private values across barriers, memory of
 * the work-group, a table of pointers. */
#include "dialect.h"

/* out[i] = f[0] * x[i] for i < numel. Views: out, x (float32). */
KERNEL(selftest_scale, 64) {
    ITEMS(64) {
        fa_i64 i = GROUP * 64 + item;
        if (i < P.numel) ARG(float, 0)[i] = (float)P.f[0] * ARG(const float, 1)[i];
    }
}

/* out[g] = sum of x[64 g .. 64 g + 63], by a tree. Views: out, x (float32). */
KERNEL(selftest_sum, 64) {
    LOCAL(float, part, 64);
    PRIVATE(float, mine, 64);
    ITEMS(64) {
        fa_i64 i = GROUP * 64 + item;
        MINE(mine) = i < P.numel ? ARG(const float, 1)[i] : 0.0f;
        part[item] = MINE(mine);
    }
    BARRIER();
    for (int width = 32; width > 0; width /= 2) {
        ITEMS(64) { if (item < width) MINE(mine) = part[item] + part[item + width]; }
        BARRIER();
        ITEMS(64) { if (item < width) part[item] = MINE(mine); }
        BARRIER();
    }
    ITEMS(64) { if (item == 0) ARG(float, 0)[GROUP] = part[0]; }
}

/* Group g adds f[0] to every float of the g-th entry of the table. Views: the table. */
TABLES_KERNEL(selftest_table, 64) {
    ITEMS(64) {
        for (fa_i64 i = item; i < TABLE_BYTES(0, GROUP) / 4; i += 64) TABLE(float, 0, GROUP)[i] += (float)P.f[0];
    }
}
