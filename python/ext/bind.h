/* What the bodies in python/torch.tab may call besides the library. */
#ifndef FAPY_BIND_H
#define FAPY_BIND_H

#include "face.h"
#include <math.h>
#include <string.h>

static inline fa_tensor *cast_if(fa_tensor *t, bool given, fa_dtype dtype) { return given ? fa_cast(t, dtype) : t; }
static inline fa_shape pair(fa_shape s) /* one number stands for both directions */
{
    if (s.ndim == 1) s.dim[s.ndim++] = s.dim[0];
    return s;
}
static inline fa_tensor *written(bool in_place, fa_tensor *x, fa_tensor *result) { return in_place && result ? fa_copy_(x, result) : result; }
static inline fa_tensor *scaled(fa_tensor *t, bool given, fa_scalar by) { return given ? fa_mul_scalar(t, by) : t; }

static inline fa_shape several(fa_shape s, int n) /* one number stands for all n directions */
{
    if (s.ndim == 1) while (s.ndim < n) s.dim[s.ndim++] = s.dim[0];
    return s;
}
/* max_unpool's output_size: the n sides, before which the sizes of batch and channels may stand. */
static inline fa_shape unpooled_size(fa_shape s, int n)
{
    if (s.ndim != n + 2) return s;
    memmove(s.dim, s.dim + 2, n * sizeof *s.dim);
    s.ndim = n;
    return s;
}
/* An operand as a tensor: a number becomes a 0-dimensional one of like's dtype, where like is. */
static inline fa_tensor *tensor_of(fai_operand o, const fa_tensor *like)
{
    if (o.tensor || !like) return o.tensor ? o.tensor : fa_full_with(FA_SHAPE_0D, o.scalar, NULL);
    return fa_full_with(FA_SHAPE_0D, o.scalar, FA_TENSOR_OPTIONS(.dtype = (fa_dtype)like->dtype, .device = like->device));
}
static inline fa_tensor *set_to(fa_tensor *t, fa_tensor *source) { return fai_set_memory(t, source), t; }
fa_tensor *resized(fa_tensor *t, fa_shape size);
fa_tensor *in_format(fa_tensor *t, PyObject *format);      /* t in the memory format, recorded; t itself for NULL, or if it is so already */
fa_tensor *made_in_format(fa_tensor *t, PyObject *format); /* the same for one that was just made */
static inline PyObject *answer(bool yes, uint32_t mark)
{
    fapy_sweep(mark);
    return fa_failed() ? fapy_raise() : PyBool_FromLong(yes);
}
PyObject *values_and_indices(const char *name, fa_tensor *values, fa_tensor *indices, uint32_t mark); /* torch.return_types.name; NULL: a tuple */

typedef fa_tensor *over_all(fa_tensor *x);
static inline fa_tensor *reduce(fa_tensor *x, bool has_dim, fa_shape dim, bool keepdim, bool has_dtype, fa_dtype dtype, over_all *all,
                                fa_tensor *(*dims)(fa_tensor *, fa_shape, bool))
{
    x = cast_if(x, has_dtype, dtype);
    if (!x) return NULL;
    return (has_dim && dim.ndim) || keepdim ? dims(x, dim, keepdim) : all(x);
}
static inline fa_tensor *arg_reduce(fa_tensor *x, bool has_dim, int64_t dim, bool keepdim, over_all *all, fa_tensor *(*along)(fa_tensor *, int64_t, bool))
{
    return has_dim ? along(x, dim, keepdim) : all(x);
}
int64_t implicit_dim(const char *function, const fa_tensor *x, bool given, int64_t dim); /* torch's old guess, with its warning */
fa_generator *generator_of(const fapy_value *v); /* of a Generator object; NULL: the default one */

/* Functions whose arguments mean several things: each does all of its call, from parsed values to the result. */
fa_tensor *logdet(fa_tensor *a);                                       /* linalg.c */
fa_tensor *eigh(fa_tensor *a, const char *part, fa_tensor **vectors); /* linalg.c */
fa_tensor *fai_repeat_interleave_sized(fa_tensor *x, fa_tensor *repeats, int64_t dim, int64_t n); /* src/autograd/shapes.c */
#define FAPY_DO(name) PyObject *fapy_do_##name(fapy_value *v)
FAPY_DO(add); FAPY_DO(add_in_place); FAPY_DO(sub); FAPY_DO(sub_in_place); FAPY_DO(rsub); FAPY_DO(div); FAPY_DO(div_in_place);
FAPY_DO(where); FAPY_DO(clamp); FAPY_DO(clamp_in_place); FAPY_DO(clamp_min); FAPY_DO(clamp_min_in_place); FAPY_DO(clamp_max); FAPY_DO(clamp_max_in_place); FAPY_DO(nan_to_num); FAPY_DO(nan_to_num_in_place); FAPY_DO(round); FAPY_DO(round_in_place);
FAPY_DO(relu); FAPY_DO(relu_in_place); FAPY_DO(gelu); FAPY_DO(sum); FAPY_DO(max); FAPY_DO(min); FAPY_DO(var); FAPY_DO(std); FAPY_DO(norm);
FAPY_DO(view); FAPY_DO(squeeze); FAPY_DO(vstack); FAPY_DO(chunk); FAPY_DO(split); FAPY_DO(tensor_split); FAPY_DO(unbind); FAPY_DO(nonzero);
FAPY_DO(scatter); FAPY_DO(scatter_in_place); FAPY_DO(dropout); FAPY_DO(embedding); FAPY_DO(conv2d); FAPY_DO(max_pool2d); FAPY_DO(arange); FAPY_DO(randint); FAPY_DO(new_tensor); FAPY_DO(tril_indices); FAPY_DO(triu_indices);
FAPY_DO(median); FAPY_DO(nanmedian); FAPY_DO(unique); FAPY_DO(unique_consecutive); FAPY_DO(repeat_interleave); FAPY_DO(rot90); FAPY_DO(cartesian_prod);
FAPY_DO(meshgrid); FAPY_DO(broadcast_tensors); FAPY_DO(tensordot); FAPY_DO(interpolate); FAPY_DO(conv1d); FAPY_DO(conv3d); FAPY_DO(adaptive_avg_pool2d);
FAPY_DO(normal); FAPY_DO(einsum); FAPY_DO(to); FAPY_DO(cuda); FAPY_DO(xpu); FAPY_DO(npu); FAPY_DO(type); FAPY_DO(record_stream); FAPY_DO(svd); FAPY_DO(linalg_svd);

#endif
