/* Division of numbers from 0 to 2^31 - 1 by one that is the same for all items: a product and a shift, which vectors and GPUs
 * have, instead of a division. Exact: 2^(31 + shift) / by is rounded up by less than 1, and 2^shift >= by. */
#ifndef FA_DIVIDE
#define FA_DIVIDE

typedef struct fa_divisor { fa_u64 factor; int shift; } fa_divisor;

FN fa_divisor fa_divisor_of(fa_u32 by) { /* 1 <= by < 2^31 */
    fa_divisor d;
    d.shift = 31;
    while (((fa_u64)1 << (d.shift - 31)) < by) ++d.shift;
    d.factor = ((fa_u64)1 << d.shift) / by + 1;
    return d;
}
FN int fa_divide(int x, fa_divisor d) { return (int)(((fa_u64)(fa_u32)x * d.factor) >> d.shift); }

#endif
