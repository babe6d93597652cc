/* The layers Conv1d, Conv2d and Conv3d: how the input is padded before fa_conv1d and its kind take it. */
#include "module.h"
#include "../autograd/generated.h"
#include <string.h>

typedef enum auto_padding { GIVEN, SAME, VALID } auto_padding;

static auto_padding padding_of(const fai_convolution_arguments *a)
{
    return strcmp(a->auto_padding, "same") == 0 ? SAME : strcmp(a->auto_padding, "valid") == 0 ? VALID : GIVEN;
}

bool fai_convolution_check(const fa_module *m)
{
    const fai_convolution_arguments *a = m->data;
    if (padding_of(a) != SAME || fai_layer_is(a->stride, 1)) return true;
    return fai_layer_refuse(m->type->name,
                            "padding='same' is not supported for strided convolutions: leave .stride out, or give .padding");
}

/* Each side's padding before and behind, the last side's first: what fa_pad takes. */
static fa_shape both_ends(const fai_convolution_arguments *a)
{
    const int sides = a->kernel_size.ndim;
    fa_shape ends = {.ndim = 2 * sides};
    for (int s = 0; s < sides; s++) {
        const int64_t total = padding_of(a) == SAME ? a->dilation.dim[s] * (a->kernel_size.dim[s] - 1) : 2 * a->padding.dim[s];
        int64_t *at = &ends.dim[2 * (sides - 1 - s)];
        at[0] = padding_of(a) == VALID ? 0 : total / 2;
        at[1] = padding_of(a) == VALID ? 0 : total - total / 2;
    }
    return ends;
}

fa_tensor *fai_convolution_layer(fa_module *m, fa_tensor *x)
{
    enum { WEIGHT, BIAS };
    const fai_convolution_arguments *a = m->data;
    fa_tensor *weight = fai_slot(m, WEIGHT), *bias = fai_slot(m, BIAS);
    const int sides = a->kernel_size.ndim;
    const bool zeros = strcmp(a->padding_mode, "zeros") == 0;
    fa_shape padding = a->padding;
    if (zeros && padding_of(a) == SAME) return fai_conv_same(x, weight, bias, a->dilation, a->groups);
    FA_SCOPE;
    if (!zeros) x = fai_pad(x, both_ends(a), a->padding_mode, 0);
    if (!zeros || padding_of(a) == VALID) padding = fa_shape_of(1, (const int64_t[]){0});
    return fa_keep(sides == 1   ? fai_conv1d(x, weight, bias, a->stride, padding, a->dilation, a->groups)
                   : sides == 2 ? fai_conv2d(x, weight, bias, a->stride, padding, a->dilation, a->groups)
                                : fai_conv3d(x, weight, bias, a->stride, padding, a->dilation, a->groups));
}
