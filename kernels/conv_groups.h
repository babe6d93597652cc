/* How conv.k.h cuts its work, for the kernels and for those that launch them. */
#ifndef FA_CONV_GROUPS
#define FA_CONV_GROUPS

#define FA_CONV_ROWS 16   /* conv2d, conv2d_input: channels that a group makes, at 256 places */
#define FA_CONV_STEP 8    /*   ... and weights of each that it takes at a time */
#define FA_CONV_LINES 8   /* conv2d_weight: output channels that a group makes */
#define FA_CONV_COLUMNS 8 /*   ... by so many weights of each */

#if !defined(FA_IS_CUDA) && !defined(FA_IS_OPENCL)
/* Work-groups of a launch. n: the plan's integers. direction: 0 conv2d, 1 conv2d_input, 2 conv2d_weight. */
static inline fa_i64 fa_conv_groups(const fa_i64 *n, int direction) {
    const fa_i64 inputs = n[1] / n[15], outputs = n[4] / n[15];
    const fa_i64 rows = direction == 1 ? inputs : outputs, height = direction == 2 ? FA_CONV_LINES : FA_CONV_ROWS;
    const fa_i64 columns = direction == 0   ? n[0] * n[7] * n[8]
                           : direction == 1 ? n[0] * n[2] * n[3]
                                            : inputs * n[5] * n[6];
    const fa_i64 width = direction == 2 ? FA_CONV_COLUMNS : 256;
    return n[15] * ((rows + height - 1) / height) * ((columns + width - 1) / width);
}
#endif

#endif
