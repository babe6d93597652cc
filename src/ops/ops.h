/* Floor 3: operators. What a forward function may use, and how it runs kernels.
 *
 * A row of tensor.tab named `gather` makes fa_gather(...), which checks its inputs (none NULL, one device, no error of an earlier
 * step), calls fai_gather_forward(...) with the same arguments, and records the node. A forward function is plain C: it checks
 * shapes and types, allocates its result by fai_empty (in the current scope), runs kernels, records nothing and returns the
 * result or NULL with an error set. */
#ifndef FAI_OPS_H
#define FAI_OPS_H

#include "../tensor/tensor.h"
#include "kernels_gen.h"
#include <fa_ops.h>

/* ---- run.c: kernels ---- */
/* Starts a plan: no views, zero numbers. Fill plan.n, f, row, numel and groups (device form: groups of work-items to launch). */
void fai_plan_begin(fa_plan *plan);
/* View k (outputs first) describes t: sizes, strides, dtype, span. */
void fai_plan_view(fa_plan *plan, int k, const fa_tensor *t, bool writes);
/* Runs kernel id (FAI_K_...) on the device of operands[0]; operands[k] belongs to view k; NULL where the view is none. On the
 * CPU it is done on return; on other devices it is queued. */
bool fai_fall_back(fa_device device, int kernel, fa_plan *plan, fai_buffer *const buffers[8], const int64_t offsets[8], const char *op, bool pending);
bool fai_run(int kernel, fa_plan *plan, fa_tensor *const *operands, int n, const char *op);
/* FAI_F32, FAI_F64 or FAI_I64: what a kernel computes a dtype in (float16 and bfloat16 in f32, integers in i64). */
static inline int fai_compute(int dtype) { return dtype == FA_FLOAT64 ? FAI_F64 : dtype >= FA_FLOAT16 ? FAI_F32 : FAI_I64; }
static inline int64_t fai_groups(int64_t items, int64_t per_group) { return items <= 0 ? 1 : (items + per_group - 1) / per_group; }
/* Whether all elements of a whole-number tensor lie in [low, high] or are `ignored`, as far as that is known without a wait: true if it
 * isn't, and for the CPU, whose kernels tell at once. If what is known does not fit, the tensor is read; false: the error is made, of
 * this kind, dimension and size (kernels/status.h). */
bool fai_indices_fit(const char *op, fa_tensor *index, int64_t low, int64_t high, int64_t ignored, int kind, int dim, int64_t size);
void fai_note_range(fa_tensor *t, const void *host);          /* t's elements were copied from there just now */
void fai_note_bounds(fa_tensor *t, int64_t low, int64_t high); /* they lie there, by how they were computed just now */
void fai_pass_range(fa_tensor *to, const fa_tensor *from);    /* to's elements are some of from's */
/* After a kernel that may meet a bad index: on the CPU looks at the status words at once and makes the IndexError; on devices the
 * next wait does. status: what fai_status gave. */
fa_tensor *fai_tensor_of_words(const char *op, fai_buffer *buffer, int64_t words); /* int64, over memory that somebody else has */
fa_tensor *fai_status(const char *op, fa_device device);        /* an int64 tensor of the words of kernels/status.h; zeroed on the CPU */
int64_t fai_status_number(const char *op);                      /* what the kernel is to leave there as op */
bool fai_status_ok(const char *op, fa_tensor *status);

/* ---- elementwise.c ---- */
typedef struct fai_operand { fa_tensor *tensor; fa_scalar scalar; } fai_operand; /* tensor NULL: the number */
/* What the table says of a row; indexed by FAI_ROW_<name> (entries of derivatives are empty). */
typedef enum fai_types { FAI_TYPES_FLOAT = 1, FAI_TYPES_NUMBER, FAI_TYPES_ANY, FAI_TYPES_INT, FAI_TYPES_REAL } fai_types;
typedef struct fai_row_grad {
    int loop;                 /* FAI_ROW_<name>_d<operand>: the fused derivative */
    int nreads;
    uint8_t reads[4];         /* its operands after g: 1 x, 2 y, 3 z, 4 the result */
    fa_tensor *(*graph)(const fai_operand *v, const double *params); /* the same as a graph of rows; v: g, x, y, z, r */
    bool identity;            /* it is g itself */
} fai_row_grad;
typedef struct fai_row_api fai_row_api; /* floor 4 adds the node: autograd.h */
fai_types fai_row_types(int row, bool *bool_result, bool *checks_zero);

/* Applies any loop (FAI_ROW_...) with broadcast, without recording; result: its dtype, DEFAULT: by the row's types and promotion. */
fa_tensor *fai_row_raw(const char *op, int loop, int noperands, const fai_operand *operands, const double *params, fa_dtype result);
bool fai_row_into(const char *op, int loop, fa_tensor *out, int noperands, const fai_operand *operands, const double *params);
/* Copies with conversion and broadcast, any layout, same device or not. No version, no record. */
bool fai_copy(const char *op, fa_tensor *to, fa_tensor *from);
fa_tensor *fai_contiguous(const char *op, fa_tensor *t);         /* t itself if it is contiguous */
fa_tensor *fai_cast(const char *op, fa_tensor *t, fa_dtype dtype); /* t itself if it has the dtype */
bool fai_number_fits(const char *op, fa_scalar value, fa_dtype dtype); /* or an error: it would wrap, or become infinite, when written */
bool fai_fill_scalar(const char *op, fa_tensor *t, fa_scalar value);
bool fai_zero(const char *op, fa_tensor *t);

/* ---- matmul.c ---- */
fa_tensor *fai_rows_product(const char *op, fa_tensor *g, fa_tensor *input); /* [..., m] and [..., n]: [m, n], summed over the rows */

/* ---- rules.c: shapes, types, devices ---- */
static inline bool fai_has_shape(const fa_tensor *t, int ndim, const int64_t *size)
{
    if (t->ndim != ndim) return false;
    for (int d = 0; d < ndim; d++)
        if (t->size[d] != size[d]) return false;
    return true;
}
static inline bool fai_same_shape(const fa_tensor *a, const fa_tensor *b) { return fai_has_shape(a, b->ndim, b->size); }
bool fai_broadcast(const char *op, int n, const fa_tensor *const *tensors, int *ndim, int64_t *size); /* torch's sentence on failure */
fa_dtype fai_result_type(int noperands, const fai_operand *operands);   /* torch's promotion with 0-d tensors and numbers */
/* All on one device (NULL entries skipped; 0-dim CPU tensors pass where scalars_pass), else the message with names, shapes, and the
 * line that mends it. */
bool fai_same_device(const char *op, int n, const char *const *names, fa_tensor *const *tensors, bool scalars_pass);
/* The error of an elementwise operator: tensors[odd] is to go where tensors[fits] is. */
void *fai_fail_mixed(const char *op, int n, const char *const *names, fa_tensor *const *tensors, int odd, int fits);
/* The error for whoever finds the mixture itself: sentence begins it; tensors[odd] is to go to `other`. */
void *fai_fail_devices(const char *op, const char *sentence, int n, const char *const *names, fa_tensor *const *tensors, int odd, fa_device other);
bool fai_check_dtype(const char *op, const char *argument, const fa_tensor *t, bool ok, const char *allowed);
/* What tensors broadcast to must be the shape of t, which is written in place. */
bool fai_fits(const char *op, const fa_tensor *t, int n, const fa_tensor *const *tensors);
/* An operand that shares memory with what is written, but not element for element: dense ones are refused, as in torch; of others a
 * copy is read, which takes *operand's place in the current scope. */
bool fai_separate(const char *op, const fa_tensor *written, fa_tensor **operand);
/* An output may not overlap itself (expanded tensors). */
bool fai_check_writable(const char *op, const fa_tensor *t);

/* ---- reduce.c ---- */
typedef struct fai_reduction_api { fai_types types; fa_dtype result; } fai_reduction_api; /* result: what integers become; BOOL: always */
extern const fai_reduction_api fai_reduction_apis[FAI_REDUCE_COUNT];
fa_tensor *fai_reduce_raw(const char *op, int reduction, fa_tensor *x, const bool reduced[FA_MAX_DIMS], bool keepdim, fa_dtype result);
fa_tensor *fai_sum_to(const char *op, fa_tensor *t, int ndim, const int64_t *size); /* undoes a broadcast */

#endif
