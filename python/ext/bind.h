/* What the bodies in python/torch.tab may call besides the library. */
#ifndef FAPY_BIND_H
#define FAPY_BIND_H

#include "face.h"

static inline fa_tensor *cast_if(fa_tensor *t, bool given, fa_dtype dtype) { return given ? fa_cast(t, dtype) : t; }
static inline fa_shape pair(fa_shape s) /* one number stands for both directions */
{
    if (s.ndim == 1) s.dim[s.ndim++] = s.dim[0];
    return s;
}
static inline fa_tensor *scaled(fa_tensor *t, bool given, fa_scalar by) { return given ? fa_mul_scalar(t, by) : t; }

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
#define FAPY_DO(name) PyObject *fapy_do_##name(fapy_value *v)
FAPY_DO(add); FAPY_DO(add_in_place); FAPY_DO(sub); FAPY_DO(sub_in_place); FAPY_DO(rsub); FAPY_DO(div); FAPY_DO(div_in_place);
FAPY_DO(where); FAPY_DO(clamp); FAPY_DO(clamp_in_place); FAPY_DO(nan_to_num); FAPY_DO(nan_to_num_in_place); FAPY_DO(round); FAPY_DO(round_in_place);
FAPY_DO(relu); FAPY_DO(relu_in_place); FAPY_DO(gelu); FAPY_DO(sum); FAPY_DO(max); FAPY_DO(min); FAPY_DO(var); FAPY_DO(std); FAPY_DO(norm);
FAPY_DO(view); FAPY_DO(squeeze); FAPY_DO(vstack); FAPY_DO(chunk); FAPY_DO(split); FAPY_DO(tensor_split); FAPY_DO(unbind); FAPY_DO(nonzero);
FAPY_DO(scatter); FAPY_DO(scatter_in_place); FAPY_DO(dropout); FAPY_DO(embedding); FAPY_DO(conv2d); FAPY_DO(max_pool2d); FAPY_DO(arange); FAPY_DO(randint);
FAPY_DO(to); FAPY_DO(cuda); FAPY_DO(type);

#endif
