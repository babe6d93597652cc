/* Floor 2: the view of a buffer. */
#ifndef FAI_TENSOR_H
#define FAI_TENSOR_H

#include "../device/device.h"
#include <fa_tensor.h>

typedef struct fai_node fai_node; /* floor 4; this floor only carries the pointer */

/* A version counter of its own, for .data and for tensors made in inference mode (none). */
typedef struct fai_cell { int32_t refs; uint32_t version; } fai_cell;

/* What few tensors have: hooks, the retained gradient's wish, the base that a view was taken from. */
typedef struct fai_extra fai_extra;

enum { FAI_REQUIRES_GRAD = 1, FAI_CONTIGUOUS = 2, FAI_RETAIN_GRAD = 4, FAI_INFERENCE = 8, FAI_PARAMETER = 16, FAI_MULTI_VIEW = 32,
       FAI_NO_GRAD_VIEW = 128 };

struct fa_tensor {
    fai_object object;          /* flags: the enum above */
    fai_buffer *buffer;
    int64_t offset;             /* elements */
    int64_t numel;
    uint8_t dtype, ndim;
    uint16_t output;            /* which result of its node */
    uint32_t view_version;      /* version of the buffer when node was last made right (views only) */
    fa_device device;
    int64_t size[FA_MAX_DIMS], stride[FA_MAX_DIMS];
    fai_cell *cell;             /* NULL: the buffer's version counts */
    fai_node *node;             /* who made it; NULL for leaves */
    fai_node *accumulator;      /* of a leaf that is in a graph; borrowed */
    fa_tensor *grad;
    fa_tensor *base;            /* of a differentiable view: never a view itself */
    fai_extra *extra;
    void *attributes, *weak;    /* Python's: the attributes that a user set, weak references */
    void *owner;                /* the fa_module that registered it first; that module forgets it before it lets go */
    char *name;                 /* what fa_tensor_set_name gave */
};
enum { FAI_HEAD = 16 };         /* bytes before each tensor, zero: the head that Python's collector wants there */

#define FAI_HAS(t, flag) (((t)->object.flags & (flag)) != 0)
static inline void *fai_host(const fa_tensor *t) { return (char *)fai_buffer_host(t->buffer) + t->offset * fai_dtype_bytes[t->dtype]; }
static inline bool fai_on_cpu(const fa_tensor *t) { return t->device.type == FA_DEVICE_CPU; }
static inline uint32_t *fai_version(fa_tensor *t) { return t->cell ? &t->cell->version : &t->buffer->version; }

/* All of these put the result into the innermost scope and return NULL with an error set on failure. dtype and device must be
 * given (not default), device resolved. Sizes are checked for overflow and negative values. */
fa_tensor *fai_empty(const char *op, fa_dtype dtype, fa_device device, int ndim, const int64_t *size);
fa_tensor *fai_empty_pinned(const char *op, fa_dtype dtype, fa_device device, int ndim, const int64_t *size); /* on the CPU, pinned for device; {0}: for the accelerator */
void fai_order_like(fa_tensor *t, const int64_t *stride); /* a new tensor's strides: dense, in the order of these */
fa_tensor *fai_empty_strided(const char *op, fa_dtype dtype, fa_device device, int ndim, const int64_t *size, const int64_t *stride); /* memory order of strides */
fa_tensor *fai_empty_like(const char *op, const fa_tensor *t);  /* same dtype, device, sizes; contiguous */
/* A view of the same buffer: nothing recorded. offset in elements of the buffer. */
fa_tensor *fai_view(const char *op, fa_tensor *t, int ndim, const int64_t *size, const int64_t *stride, int64_t offset);
/* Set once, at load, by the autograd floor: lets go of node, gradient and hooks when a tensor dies. */
void fai_set_forget_graph(void (*forget)(fa_tensor *t));
void fai_contiguous_strides(int ndim, const int64_t *size, int64_t *stride);
void fai_update_contiguous(fa_tensor *t);
/* t stays the object that everybody knows; its memory, shape and dtype are from's. For modules that move and for `.data = `. */
void fai_set_memory(fa_tensor *t, const fa_tensor *from);
void fai_span(const fa_tensor *t, int64_t *low, int64_t *high); /* elements touched, relative to offset: [low, high) */
/* dim in [-ndim, ndim) -> [0, ndim); false and torch's IndexError otherwise. A 0-d tensor counts as 1-d. */
bool fai_wrap_dim(const char *op, int64_t dim, int ndim, int *out);
bool fai_normalize_dims(const char *op, const fa_tensor *t, fa_shape dims, bool reduced[FA_MAX_DIMS]); /* empty: all */
bool fai_check(const char *op, const char *argument, const fa_tensor *t); /* non-NULL, else false (an error unless one is pending) */
void fai_describe(const fa_tensor *t, char *out, size_t n); /* "float32 tensor of shape [2, 3] on cuda:0" */

/* What people call it: its given name, or where it stands in a module ("Net.layers.0 (Linear), its parameter weight"); "" if it has
 * neither. fai_set_path_of: once, at load, by the floor that knows modules. */
void fai_text_name(const fa_tensor *t, char *out, size_t n);
void fai_set_path_of(void (*path_of)(const fa_tensor *t, char *out, size_t n));

/* ---- print.c ---- */
size_t fai_to_text_as(const char *name, fa_tensor *t, char *out, size_t n); /* fa_to_text with another word than "tensor" */

#endif
