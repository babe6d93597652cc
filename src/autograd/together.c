/* Functions of several tensors that no row makes: whole comparisons, grids, broadcasting, writing at flat places. */
#include "composite.h"
#include <fa_functional.h>

/* ---- comparing ---- */

bool fa_equal(fa_tensor *a, fa_tensor *b) {
    if (!fai_begin2("equal", "a", a, "b", b)) return false;
    if (!fai_same_shape(a, b)) return false;
    FAI_CALLED("equal");
    FA_NO_GRAD;
    FA_SCOPE;
    return fa_item_int(fa_all(fa_eq(a, b))) != 0;
}

bool fa_allclose(fa_tensor *a, fa_tensor *b, double rtol, double atol, bool equal_nan) {
    FAI_CALLED("allclose");
    FA_NO_GRAD;
    FA_SCOPE;
    fa_tensor *close = fa_isclose(a, b, rtol, atol, equal_nan);
    return close && fa_item_int(fa_all(close)) != 0;
}

/* ---- grids ---- */

static bool check_parts(const char *op, fa_tensor *const *tensors, int n, fa_tensor *const *parts, int room) {
    if (!fai_list_begin(op, "tensors", tensors, n, false)) return false;
    if (!parts || n <= room) return true;
    return fai_fail(FA_ERR_VALUE, op, "argument 'room': there is room for %d parts, but there are %d", room, n);
}

static bool check_grid(fa_tensor *const *tensors, int n, const char *indexing) {
    const char *op = "meshgrid";
    if (n == 0) return fai_fail(FA_ERR_RUNTIME, op, "meshgrid expects a non-empty TensorList");
    if (n > FA_MAX_DIMS) return fai_fail(FA_ERR_RUNTIME, op, "a grid of %d dimensions; a tensor has at most %d", n, FA_MAX_DIMS);
    for (int i = 0; i < n; i++) {
        if (tensors[i]->ndim > 1)
            return fai_fail(FA_ERR_RUNTIME, op,
                            "torch.meshgrid: Expected 0D or 1D tensor in the tensor list but number %d of it has %d dimensions",
                            i, tensors[i]->ndim);
        if (tensors[i]->dtype != tensors[0]->dtype)
            return fai_fail(FA_ERR_RUNTIME, op,
                            "torch.meshgrid expects all tensors to have the same dtype: number %d of the list is %s, "
                            "the first one %s",
                            i, fa_dtype_name((fa_dtype)tensors[i]->dtype), fa_dtype_name((fa_dtype)tensors[0]->dtype));
    }
    if (indexing && (!strcmp(indexing, "ij") || !strcmp(indexing, "xy"))) return true;
    return fai_fail(FA_ERR_RUNTIME, op, "torch.meshgrid: indexing must be one of \"xy\" or \"ij\", but received: %s",
                    indexing ? indexing : "NULL");
}

int fa_meshgrid(fa_tensor *const *tensors, int n, const char *indexing, fa_tensor **parts, int room) {
    if (!check_parts("meshgrid", tensors, n, parts, room) || !check_grid(tensors, n, indexing)) return -1;
    FAI_CALLED("meshgrid");
    const bool swap = indexing[0] == 'x' && n >= 2;
    fa_shape shape = {.ndim = n};
    for (int i = 0; i < n; i++) shape.dim[swap && i < 2 ? 1 - i : i] = tensors[i]->numel;
    for (int i = 0; parts && i < n; i++) {
        FA_SCOPE;
        fa_shape own = {.ndim = n};
        for (int d = 0; d < n; d++) own.dim[d] = d == (swap && i < 2 ? 1 - i : i) ? tensors[i]->numel : 1;
        if (!(parts[i] = fa_keep(fa_expand(fa_reshape(tensors[i], own), shape)))) return -1;
    }
    return n;
}

int fa_broadcast_tensors(fa_tensor *const *tensors, int n, fa_tensor **parts, int room) {
    const char *op = "broadcast_tensors";
    fa_shape shape = {0};
    int ndim;
    if (!check_parts(op, tensors, n, parts, room)) return -1;
    if (!fai_broadcast(op, n, (const fa_tensor *const *)tensors, &ndim, shape.dim)) return -1;
    shape.ndim = ndim;
    for (int i = 0; parts && i < n; i++)
        if (!(parts[i] = fa_expand(tensors[i], shape))) return -1;
    return n;
}

/* ---- writing ---- */

fa_tensor *fa_put_(fa_tensor *t, fa_tensor *index, fa_tensor *src, bool accumulate) {
    const char *op = "put_";
    if (!fai_check(op, "t", t) || fai_refuse_pending(op) || !fai_in_place_check(op, t)) return NULL;
    if (!fai_check(op, "index", index) || !fai_check(op, "src", src)) return NULL;
    if (index->numel != src->numel)
        return fai_fail(FA_ERR_INDEX, op,
                        "put_(): Expected source and index to have the same number of elements, but got source.numel() = %lld, "
                        "index.numel() = %lld",
                        (long long)src->numel, (long long)index->numel);
    FAI_CALLED(op);
    FA_SCOPE;
    const fa_shape flat = FA_SHAPE(-1);
    fa_tensor *places = fa_reshape(index, flat);
    fa_tensor *line = fa_index_put(fa_reshape(t, flat), &places, 1, fa_reshape(src, flat), accumulate);
    return line ? fa_copy_(t, fa_reshape(line, fa_shape_of_tensor(t))) : NULL;
}
