/* The helpers of the generated code: the start of an op, lists, reductions' shapes. */
#include "generated.h"
#include <string.h>

bool fai_op_begin(const char *op, int n, const char *const *names, fa_tensor *const *inputs, uint32_t optional)
{
    bool mixed = false;
    const fa_tensor *first = NULL;
    for (int i = 0; i < n; i++) {
        if (!inputs[i]) {
            if (optional >> i & 1) continue;
            return fai_check(op, names[i], NULL);
        }
        if (!first) first = inputs[i];
        mixed |= !fa_device_equal(inputs[i]->device, first->device);
    }
    return !mixed || fai_same_device(op, n, names, inputs, false);
}

bool fai_list_begin(const char *op, const char *name, fa_tensor *const *tensors, int n, bool null_allowed)
{
    const fa_tensor *first = NULL;
    if (n < 0 || (n > 0 && !tensors)) return fai_fail(FA_ERR_TYPE, op, "argument '%s' is a list of %d tensors at NULL", name, n), false;
    for (int i = 0; i < n; i++) {
        if (!tensors[i]) {
            if (null_allowed) continue;
            return fai_check(op, name, NULL);
        }
        if (!first) first = tensors[i];
        if (!fa_device_equal(tensors[i]->device, first->device)) {
            char sentence[300], labels[2][80];
            int at = 0;
            while (tensors[at] != first) at++;
            snprintf(sentence, sizeof sentence, "Expected all tensors to be on the same device, but got %s is on %s, different from other tensors on %s.", name,
                     fa_device_text(tensors[i]->device), fa_device_text(first->device));
            snprintf(labels[0], sizeof labels[0], "%s[%d]", name, at), snprintf(labels[1], sizeof labels[1], "%s[%d]", name, i);
            const bool swap = fai_on_cpu(first); /* the one on the CPU is the one that was forgotten */
            fai_fail_devices(op, sentence, 2, (const char *const[]){labels[0], labels[1]}, (fa_tensor *const[]){(fa_tensor *)(uintptr_t)first, tensors[i]},
                             !swap, swap ? tensors[i]->device : first->device);
            return false;
        }
    }
    return true;
}

bool fai_options_ok(const char *op, size_t given, size_t known)
{
    if (given == known) return true;
    fai_fail(FA_ERR_VALUE, op, "the options have struct_size %zu where %zu is known: use the macro, or set struct_size and build against this library's header", given, known);
    return false;
}

bool fai_any_wants_grad(fa_tensor *const *tensors, int n)
{
    for (int i = 0; i < n; i++)
        if (fai_wants_grad(tensors[i])) return true;
    return false;
}

bool fai_node_inputs(fai_node *node, int first, fa_tensor *const *tensors, int n)
{
    for (int i = 0; i < n; i++)
        if (!fai_node_input(node, first + i, tensors[i], true)) return false;
    return true;
}

bool fai_node_keep_all(fai_node *node, int first, fa_tensor *const *tensors, int n)
{
    for (int i = 0; i < n; i++)
        if (!fai_node_keep(node, first + i, tensors[i], false)) return false;
    return true;
}

bool fai_node_kept_all(fai_node *node, int first, fa_tensor **tensors)
{
    for (int i = first; i < node->nkept; i++) {
        tensors[i - first] = fai_node_kept(node, i);
        if (!tensors[i - first] && node->kept[i].tensor) return false;
    }
    return true;
}

void fai_copy_word(char *to, const char *word, size_t n) { snprintf(to, n, "%s", word ? word : ""); }

/* ---- shapes ---- */

fa_shape fai_meta_shape(const fai_meta *meta) { return fa_shape_of(meta->ndim, meta->size); }

fa_shape fai_inverse_dims(fa_tensor *g, fa_shape dims)
{
    fa_shape inverse = {.ndim = dims.ndim};
    for (int i = 0; i < dims.ndim && i < FA_MAX_DIMS; i++) {
        int64_t from = dims.dim[i] < 0 ? dims.dim[i] + g->ndim : dims.dim[i];
        inverse.dim[from] = i;
    }
    return inverse;
}

fa_shape fai_dims_of(fa_tensor *g, int64_t dim)
{
    (void)g;
    return fa_shape_of(1, &dim);
}

fa_shape fai_channel_dims(fa_tensor *g)
{
    fa_shape dims = {.ndim = 0};
    for (int i = 0; i < g->ndim; i++)
        if (i != 1) dims.dim[dims.ndim++] = i;
    return dims;
}

fa_tensor *fai_zeros_of(fa_tensor *like, fa_shape shape)
{
    return like ? fa_zeros_with(shape, &(fa_tensor_options){.struct_size = sizeof(fa_tensor_options), .dtype = (fa_dtype)like->dtype, .device = like->device}) : NULL;
}

fa_tensor *fai_as_rows(fa_tensor *t)
{
    if (!t || t->ndim == 2) return t;
    int64_t size[2] = {1, t->ndim ? t->size[t->ndim - 1] : 1};
    for (int i = 0; i < t->ndim - 1; i++) size[0] *= t->size[i]; /* not numel / last: rows of no elements are rows too */
    return fa_reshape(t, fa_shape_of(2, size));
}

/* ---- reductions ---- */

fa_tensor *fai_reduction_forward(const char *op, int reduction, fa_tensor *x, fa_shape dims, bool keepdim)
{
    const fai_reduction_api *api = &fai_reduction_apis[reduction];
    bool reduced[FA_MAX_DIMS];
    fa_dtype result = (fa_dtype)x->dtype;
    if (!fai_normalize_dims(op, x, dims, reduced)) return NULL;
    if (api->types == FAI_TYPES_REAL && !fai_is_float(x->dtype))
        return fai_fail(FA_ERR_RUNTIME, op,
                        "%s(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: %s. Convert it first: fa_cast(x, FA_FLOAT32).",
                        op, fai_dtype_title((fa_dtype)x->dtype));
    if (api->result == FA_BOOL || (api->result && !fai_is_float(x->dtype)) || reduction == FAI_REDUCE_count_nonzero) result = api->result;
    if (api->result == FA_BOOL && x->dtype == FA_UINT8) result = FA_UINT8; /* torch's any and all of bytes are bytes */
    if (x->numel == 0 && dims.ndim == 0 && (reduction == FAI_REDUCE_amax || reduction == FAI_REDUCE_amin))
        return fai_fail(FA_ERR_RUNTIME, op, "%s(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' argument.", op);
    return fai_reduce_raw(op, reduction, x, reduced, keepdim, result);
}

/* Which of the input's dimensions were reduced. */
static void reduced_dims(const fai_meta *meta, fa_shape dims, bool reduced[FA_MAX_DIMS])
{
    memset(reduced, dims.ndim == 0, FA_MAX_DIMS * sizeof *reduced);
    for (int i = 0; i < dims.ndim; i++) reduced[dims.dim[i] < 0 ? dims.dim[i] + (meta->ndim ? meta->ndim : 1) : dims.dim[i]] = true;
}

fa_tensor *fai_expand_reduced(fai_node *node, fa_tensor *t, fa_shape dims, bool keepdim)
{
    const fai_meta *meta = &node->metas[0];
    bool reduced[FA_MAX_DIMS];
    fa_shape with_ones = {.ndim = meta->ndim};
    if (!t) return NULL;
    reduced_dims(meta, dims, reduced);
    if (!fai_recording()) { /* the two views in one */
        int64_t stride[FA_MAX_DIMS];
        for (int i = 0, at = 0; i < meta->ndim; i++) {
            stride[i] = reduced[i] ? 0 : t->stride[keepdim ? i : at];
            at += !reduced[i];
        }
        return fai_view("backward", t, meta->ndim, meta->size, stride, t->offset);
    }
    for (int i = 0; i < meta->ndim; i++) with_ones.dim[i] = reduced[i] ? 1 : meta->size[i];
    if (!keepdim && t->ndim != meta->ndim) t = fa_view(t, with_ones);
    return fa_expand(t, fai_meta_shape(meta));
}

double fai_reduced_count(const fai_node *node, fa_shape dims, bool keepdim)
{
    (void)keepdim;
    const fai_meta *meta = &node->metas[0];
    bool reduced[FA_MAX_DIMS];
    double n = 1;
    reduced_dims(meta, dims, reduced);
    for (int i = 0; i < meta->ndim; i++)
        if (reduced[i]) n *= (double)meta->size[i];
    return n;
}
