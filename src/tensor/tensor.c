/* Making and describing tensors: the view of a buffer. A tensor is 330 bytes and comes from the thread's free list; only its
 * buffer is counted atomically. */
#include "tensor.h"
#include <fa_autograd.h>
#include <string.h>

enum { FREE_TENSORS = 256 };

typedef struct free_list { fa_tensor *first; int count; } free_list;
static __thread free_list spare __attribute__((tls_model("initial-exec")));

/* The collector's head lies before the tensor. */
static void free_tensor(fa_tensor *t) { fai_free(FAI_TAG_OBJECT, (char *)t - FAI_HEAD, FAI_HEAD + sizeof *t); }

static void drop_spare(void)
{
    while (spare.first) {
        fa_tensor *t = spare.first;
        spare.first = t->base;
        free_tensor(t);
    }
    spare.count = 0;
}

/* Floor 4's share of a tensor's end: node, gradient, hooks. Set once, at load. */
static void (*forget_graph)(fa_tensor *t);
void fai_set_forget_graph(void (*forget)(fa_tensor *t)) { forget_graph = forget; }

static void destroy_tensor(void *object)
{
    fa_tensor *t = object;
    if (t->node || t->grad || t->extra || t->accumulator) forget_graph(t);
    if (FAI_UNLIKELY(t->name != NULL)) fai_free(FAI_TAG_TEXT, t->name, strlen(t->name) + 1);
    fa_tensor *base = t->base;
    if (t->buffer) fai_buffer_unref(t->buffer);
    if (t->cell && --t->cell->refs == 0) fai_free(FAI_TAG_OBJECT, t->cell, sizeof *t->cell);
    if (spare.count < FREE_TENSORS && fai_caches_on()) {
        if (!spare.first) fai_watch_thread();
        t->base = spare.first;
        spare.first = t;
        spare.count++;
    } else {
        free_tensor(t);
    }
    fai_unref(base);
}

__attribute__((constructor)) static void set_up(void)
{
    fai_set_destructor(FAI_TENSOR, destroy_tensor);
    fai_on_cache_drop(drop_spare);
    fai_on_thread_end(drop_spare);
}

static fa_tensor *new_tensor(const char *op)
{
    fa_tensor *t = spare.first;
    if (FAI_LIKELY(t != NULL)) {
        spare.first = t->base;
        spare.count--;
    } else {
        char *block = fai_alloc(FAI_TAG_OBJECT, FAI_HEAD + sizeof *t);
        if (!block) return fai_fail_memory(op, FAI_HEAD + sizeof *t);
        memset(block, 0, FAI_HEAD);
        t = (fa_tensor *)(block + FAI_HEAD);
    }
    fai_object_init(t, FAI_TENSOR);
    t->offset = 0, t->output = 0, t->view_version = 0;
    t->buffer = NULL, t->cell = NULL, t->node = NULL, t->accumulator = NULL, t->grad = NULL, t->base = NULL, t->extra = NULL;
    t->attributes = NULL, t->weak = NULL, t->owner = NULL, t->name = NULL;
    return t;
}

/* numel and whether the sizes make sense; torch's words. */
static bool count_elements(const char *op, int ndim, const int64_t *size, int64_t *numel)
{
    char shape[160];
    if (ndim < 0 || ndim > FA_MAX_DIMS) {
        fai_fail(FA_ERR_RUNTIME, op, "a tensor can have at most %d dimensions here, but %d were asked for. Flatten some of them, or split the work.",
                 FA_MAX_DIMS, ndim);
        return false;
    }
    int64_t n = 1;
    bool plain = true; /* no size negative or so large that a product could overflow */
    for (int i = 0; i < ndim && plain; i++) {
        plain = (uint64_t)size[i] < (1u << 30) && n < (1 << 30);
        n *= plain ? size[i] : 1;
    }
    if (FAI_LIKELY(plain && n < INT64_MAX / 16)) return *numel = n, true;
    n = 1;
    for (int i = 0; i < ndim; i++) {
        if (size[i] < 0) {
            fai_text_shape(shape, sizeof shape, ndim, size);
            fai_fail(FA_ERR_RUNTIME, op, "Trying to create tensor with negative dimension %lld: %s", (long long)size[i], shape);
            return false;
        }
    }
    for (int i = 0; i < ndim; i++)
        if (size[i] == 0) return *numel = 0, true;
    for (int i = 0; i < ndim; i++)
        if (!fai_mul(n, size[i], &n) || n > INT64_MAX / 16) {
            fai_text_shape(shape, sizeof shape, ndim, size);
            fai_fail(FA_ERR_RUNTIME, op, "Storage size calculation overflowed with sizes=%s. No machine holds so many elements.", shape);
            return false;
        }
    *numel = n;
    return true;
}

void fai_contiguous_strides(int ndim, const int64_t *size, int64_t *stride)
{
    int64_t s = 1;
    for (int i = ndim - 1; i >= 0; i--) {
        stride[i] = s;
        s = (int64_t)((uint64_t)s * (uint64_t)(size[i] > 1 ? size[i] : 1)); /* may wrap where another size is 0: nobody follows it */
    }
}

void fai_update_contiguous(fa_tensor *t)
{
    int64_t expected = 1;
    bool contiguous = true;
    for (int i = t->ndim - 1; i >= 0 && contiguous; i--) {
        if (t->size[i] == 1) continue;
        contiguous = t->stride[i] == expected;
        expected = (int64_t)((uint64_t)expected * (uint64_t)t->size[i]);
    }
    if (t->numel == 0 || contiguous) t->object.flags |= FAI_CONTIGUOUS;
    else t->object.flags &= (uint16_t)~FAI_CONTIGUOUS;
}

static fa_tensor *own(fa_tensor *t, const char *op)
{
    return fai_scope_add(t, op) ? t : NULL;
}

/* The sizes are counted. */
static inline fa_tensor *empty(const char *op, fa_dtype dtype, fa_device device, int ndim, const int64_t *size, int64_t numel)
{
    fa_tensor *t = new_tensor(op);
    if (!t) return NULL;
    t->buffer = fai_buffer_new(device, (size_t)numel * fai_dtype_bytes[dtype], op);
    if (!t->buffer) return fai_unref(t), NULL;
    t->numel = numel;
    t->dtype = (uint8_t)dtype, t->ndim = (uint8_t)ndim;
    t->device = t->buffer->device;
    t->object.flags = (uint16_t)(FAI_CONTIGUOUS | (fai_tls.inference ? FAI_INFERENCE : 0));
    for (int i = 0; i < ndim; i++) t->size[i] = size[i];
    fai_contiguous_strides(ndim, size, t->stride);
    return own(t, op);
}

fa_tensor *fai_empty(const char *op, fa_dtype dtype, fa_device device, int ndim, const int64_t *size)
{
    int64_t numel;
    return count_elements(op, ndim, size, &numel) ? empty(op, dtype, device, ndim, size, numel) : NULL;
}

fa_tensor *fai_empty_pinned(const char *op, fa_dtype dtype, fa_device device, int ndim, const int64_t *size)
{
    int64_t numel;
    if (!device.type) device = fa_accelerator();
    if (!device.type) device = FA_CUDA(-1); /* says that there is none */
    if (!count_elements(op, ndim, size, &numel) || !fai_device_resolve(&device, op)) return NULL;
    fai_buffer *buffer = fai_buffer_pinned(device, (size_t)numel * fa_dtype_size(dtype), op);
    fa_tensor *t = buffer ? fai_empty(op, dtype, FA_CPU, 1, &(int64_t){0}) : NULL;
    if (!t) return fai_buffer_unref(buffer), NULL;
    fai_buffer_unref(t->buffer);
    t->buffer = buffer;
    t->numel = numel;
    t->ndim = (uint8_t)ndim;
    for (int i = 0; i < ndim; i++) t->size[i] = size[i];
    fai_contiguous_strides(ndim, size, t->stride);
    return t;
}

/* Sorts dimensions by the strides given, largest outermost. */
void fai_order_like(fa_tensor *t, const int64_t *stride)
{
    int order[FA_MAX_DIMS];
    const int ndim = t->ndim;
    for (int i = 0; i < ndim && i < FA_MAX_DIMS; i++) {
        int at = i;
        while (at > 0 && stride[order[at - 1]] < stride[i]) order[at] = order[at - 1], at--;
        order[at] = i;
    }
    int64_t s = 1;
    for (int k = ndim - 1; k >= 0; k--) {
        t->stride[order[k]] = s;
        s *= t->size[order[k]] > 1 ? t->size[order[k]] : 1;
    }
    fai_update_contiguous(t);
}

fa_tensor *fai_empty_strided(const char *op, fa_dtype dtype, fa_device device, int ndim, const int64_t *size, const int64_t *stride)
{
    fa_tensor *t = fai_empty(op, dtype, device, ndim, size);
    if (t) fai_order_like(t, stride);
    return t;
}

fa_tensor *fai_empty_like(const char *op, const fa_tensor *t)
{
    return empty(op, (fa_dtype)t->dtype, t->device, t->ndim, t->size, t->numel);
}

fa_tensor *fai_view(const char *op, fa_tensor *t, int ndim, const int64_t *size, const int64_t *stride, int64_t offset)
{
    int64_t numel;
    if (!count_elements(op, ndim, size, &numel)) return NULL;
    fa_tensor *v = new_tensor(op);
    if (!v) return NULL;
    v->buffer = fai_buffer_ref(t->buffer);
    v->offset = offset, v->numel = numel;
    v->dtype = t->dtype, v->ndim = (uint8_t)ndim;
    v->device = t->device;
    v->object.flags = t->object.flags & FAI_INFERENCE;
    for (int i = 0; i < ndim; i++) v->size[i] = size[i], v->stride[i] = stride[i];
    fai_update_contiguous(v);
    v->cell = t->cell;
    if (v->cell) v->cell->refs++;
    return own(v, op);
}

void fai_set_memory(fa_tensor *t, const fa_tensor *from)
{
    fai_buffer *old = t->buffer;
    t->buffer = fai_buffer_ref(from->buffer);
    t->offset = from->offset, t->numel = from->numel;
    t->dtype = from->dtype, t->device = from->device, t->ndim = from->ndim;
    memcpy(t->size, from->size, sizeof t->size);
    memcpy(t->stride, from->stride, sizeof t->stride);
    fai_update_contiguous(t);
    fai_buffer_unref(old);
}

void fai_span(const fa_tensor *t, int64_t *low, int64_t *high)
{
    *low = *high = 0;
    if (t->numel == 0) return;
    for (int i = 0; i < t->ndim; i++) {
        int64_t reach = (t->size[i] - 1) * t->stride[i];
        if (reach < 0) *low += reach;
        else *high += reach;
    }
    *high += 1;
}

bool fai_wrap_dim(const char *op, int64_t dim, int ndim, int *out)
{
    int n = ndim > 0 ? ndim : 1;
    if (dim < -n || dim >= n) {
        fai_fail(FA_ERR_INDEX, op, "Dimension out of range (expected to be in range of [%d, %d], but got %lld)", -n, n - 1, (long long)dim);
        return false;
    }
    *out = (int)(dim < 0 ? dim + n : dim);
    return true;
}

bool fai_normalize_dims(const char *op, const fa_tensor *t, fa_shape dims, bool reduced[FA_MAX_DIMS])
{
    if (dims.ndim < 0 || dims.ndim > FA_MAX_DIMS) {
        fai_fail(FA_ERR_VALUE, op, "a list of %d dimensions was given, at most %d are possible", dims.ndim, FA_MAX_DIMS);
        return false;
    }
    memset(reduced, dims.ndim == 0, FA_MAX_DIMS * sizeof *reduced);
    for (int i = 0; i < dims.ndim; i++) {
        int dim;
        if (!fai_wrap_dim(op, dims.dim[i], t->ndim, &dim)) return false;
        if (reduced[dim]) {
            fai_fail(FA_ERR_RUNTIME, op, "dim %d appears multiple times in the list of dims", dim);
            return false;
        }
        reduced[dim] = true;
    }
    return true;
}

bool fai_check(const char *op, const char *argument, const fa_tensor *t)
{
    if (FAI_LIKELY(t != NULL)) return true;
    if (!fa_failed())
        fai_fail(FA_ERR_TYPE, op, "argument '%s' is NULL: a tensor is needed. NULL comes from a call that failed, but no error is pending: was it taken?",
                 argument);
    return false;
}

void fai_describe(const fa_tensor *t, char *out, size_t n)
{
    char shape[160];
    fai_text_shape(shape, sizeof shape, t->ndim, t->size);
    snprintf(out, n, "%s tensor of shape %s on %s", fa_dtype_name((fa_dtype)t->dtype), shape, fa_device_text(t->device));
}

bool fa_record_stream(fa_tensor *t, fa_stream stream)
{
    if (!fai_check("record_stream", "t", t)) return false;
    return fai_on_cpu(t) || fai_buffer_used_by(t->buffer, stream, "record_stream");
}

/* ---- names, for errors ---- */

static void (*path_of)(const fa_tensor *t, char *out, size_t n);
void fai_set_path_of(void (*of)(const fa_tensor *t, char *out, size_t n)) { path_of = of; }

void fai_text_name(const fa_tensor *t, char *out, size_t n)
{
    *out = 0;
    if (t->name) snprintf(out, n, "%s", t->name);
    else if (t->owner && path_of) path_of(t, out, n);
}

bool fa_tensor_set_name(fa_tensor *t, const char *name)
{
    const size_t room = name && *name ? strlen(name) + 1 : 0;
    if (!fai_check("tensor_set_name", "t", t)) return false;
    if (room > 256) return fai_fail(FA_ERR_VALUE, "tensor_set_name", "a tensor's name is at most 255 bytes long, but this one has %zu", room - 1), false;
    char *copy = room ? fai_alloc(FAI_TAG_TEXT, room) : NULL;
    if (room && !copy) return fai_fail_memory("tensor_set_name", room), false;
    if (t->name) fai_free(FAI_TAG_TEXT, t->name, strlen(t->name) + 1);
    t->name = room ? memcpy(copy, name, room) : NULL;
    return true;
}

size_t fa_tensor_name(const fa_tensor *t, char *text, size_t n)
{
    char name[400] = "";
    if (t) fai_text_name(t, name, sizeof name);
    if (text && n) snprintf(text, n, "%s", name);
    return strlen(name);
}

/* ---- asking ---- */

int fa_ndim(const fa_tensor *t) { return t ? t->ndim : 0; }
int64_t fa_numel(const fa_tensor *t) { return t ? t->numel : 0; }
fa_dtype fa_dtype_of(const fa_tensor *t) { return t ? (fa_dtype)t->dtype : FA_DTYPE_DEFAULT; }
bool fa_is_contiguous(const fa_tensor *t) { return t && FAI_HAS(t, FAI_CONTIGUOUS); }

/* Dimensions from the inside out: channels, then the sides, then the batch. Where a size is 1 the stride says nothing. */
bool fa_is_channels_last(const fa_tensor *t) {
    if (!t || (t->ndim != 4 && t->ndim != 5)) return false;
    int64_t expected = 1;
    for (int i = 0; i < t->ndim; i++) {
        const int d = i == 0 ? 1 : i == t->ndim - 1 ? 0 : t->ndim - i;
        if (t->size[d] != 1 && t->stride[d] != expected) return false;
        expected *= t->size[d];
    }
    return true;
}
bool fa_is_view(const fa_tensor *t) { return t && t->base; }
uint32_t fa_version_of(const fa_tensor *t) { return t ? (t->cell ? t->cell->version : t->buffer->version) : 0; }

fa_device fa_device_of(const fa_tensor *t)
{
    fa_device none = {0, 0};
    return t ? t->device : none;
}

int64_t fa_size(const fa_tensor *t, int dim)
{
    int at;
    return t && fai_wrap_dim("size", dim, t->ndim, &at) && at < t->ndim ? t->size[at] : 0;
}

int64_t fa_stride(const fa_tensor *t, int dim)
{
    int at;
    return t && fai_wrap_dim("stride", dim, t->ndim, &at) && at < t->ndim ? t->stride[at] : 0;
}

fa_shape fa_shape_of_tensor(const fa_tensor *t)
{
    return t ? fa_shape_of(t->ndim, t->size) : fa_shape_of(0, NULL);
}
