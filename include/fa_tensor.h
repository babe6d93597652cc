/* Tensors: making them, asking about them, reading them. Operators are in fa_ops.h, derivatives in fa_autograd.h. */
#ifndef FA_TENSOR_H
#define FA_TENSOR_H

#include "fa_stream.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fa_tensor_options {
    size_t struct_size;
    fa_dtype dtype;          /* default: the default dtype; for arange and full inferred, for _like the source's */
    fa_device device;        /* default: the default device; for _like the source's */
    bool requires_grad;
    fa_generator *generator; /* for random numbers; default: the device's */
    bool pin_memory;         /* on the CPU, in memory that the accelerator reads by itself (fa_pin_memory) */
} fa_tensor_options;

#define FA_TENSOR_OPTIONS(...) (&(fa_tensor_options){.struct_size = sizeof(fa_tensor_options), __VA_ARGS__})

/* ---- Making tensors. The macros take options: fa_zeros(FA_SHAPE(2, 3), .dtype = FA_INT64, .device = FA_CUDA(0)) ---- */

FA_API fa_tensor *fa_empty_with(fa_shape shape, const fa_tensor_options *options); /* contents undefined */
FA_API fa_tensor *fa_zeros_with(fa_shape shape, const fa_tensor_options *options);
FA_API fa_tensor *fa_ones_with(fa_shape shape, const fa_tensor_options *options);
FA_API fa_tensor *fa_full_with(fa_shape shape, fa_scalar value, const fa_tensor_options *options);
/* start, start + step, ... below end: ceil((end - start) / step) values; int64 if all three are integers */
FA_API fa_tensor *fa_arange_with(fa_scalar start, fa_scalar end, fa_scalar step, const fa_tensor_options *options);
FA_API fa_tensor *fa_linspace_with(double start, double end, int64_t steps, const fa_tensor_options *options);
/* start, start + step, ... up to and including end, where a step ends there; of the default floating type */
FA_API fa_tensor *fa_range_with(double start, double end, double step, const fa_tensor_options *options);
/* base to the power of steps numbers from start to end */
FA_API fa_tensor *fa_logspace_with(double start, double end, int64_t steps, double base, const fa_tensor_options *options);
/* A window of n values: kind "hann", "hamming" (a - b cos), "blackman", "bartlett" or "kaiser" (a: its beta). periodic: one of n + 1
 * values without the last, as a spectrum wants it; else symmetric. Floating types only. */
FA_API fa_tensor *fa_window_with(const char *kind, int64_t n, bool periodic, double a, double b, const fa_tensor_options *options);
FA_API fa_tensor *fa_eye_with(int64_t rows, int64_t columns, const fa_tensor_options *options);
FA_API fa_tensor *fa_rand_with(fa_shape shape, const fa_tensor_options *options);  /* uniform in [0, 1) */
FA_API fa_tensor *fa_randn_with(fa_shape shape, const fa_tensor_options *options); /* normal, mean 0, variance 1 */
FA_API fa_tensor *fa_randint_with(int64_t low, int64_t high, fa_shape shape, const fa_tensor_options *options); /* [low, high), int64 */
FA_API fa_tensor *fa_randperm_with(int64_t n, const fa_tensor_options *options);   /* a permutation of 0 .. n-1, int64 */
/* Copies numel elements of type `from` out of memory, contiguous in C order. .dtype converts; default: keep `from`. */
FA_API fa_tensor *fa_from_data_with(const void *data, fa_dtype from, fa_shape shape, const fa_tensor_options *options);
/* Uses the memory itself (CPU, contiguous); release(context) is called when no tensor uses it any more; may be NULL. */
FA_API fa_tensor *fa_from_memory(void *data, fa_dtype dtype, fa_shape shape, void (*release)(void *context), void *context);

FA_API fa_tensor *fa_empty_like_with(fa_tensor *like, const fa_tensor_options *options);
FA_API fa_tensor *fa_zeros_like_with(fa_tensor *like, const fa_tensor_options *options);
FA_API fa_tensor *fa_ones_like_with(fa_tensor *like, const fa_tensor_options *options);
FA_API fa_tensor *fa_full_like_with(fa_tensor *like, fa_scalar value, const fa_tensor_options *options);
FA_API fa_tensor *fa_rand_like_with(fa_tensor *like, const fa_tensor_options *options);
FA_API fa_tensor *fa_randn_like_with(fa_tensor *like, const fa_tensor_options *options);
FA_API fa_tensor *fa_randint_like_with(fa_tensor *like, int64_t low, int64_t high, const fa_tensor_options *options); /* of like's dtype */

#ifndef __cplusplus
#define fa_empty(shape, ...) fa_empty_with((shape), FA_TENSOR_OPTIONS(__VA_ARGS__))
#define fa_zeros(shape, ...) fa_zeros_with((shape), FA_TENSOR_OPTIONS(__VA_ARGS__))
#define fa_ones(shape, ...) fa_ones_with((shape), FA_TENSOR_OPTIONS(__VA_ARGS__))
#define fa_full(shape, value, ...) fa_full_with((shape), FA_NUM(value), FA_TENSOR_OPTIONS(__VA_ARGS__))
#define fa_arange(start, end, step, ...) fa_arange_with(FA_NUM(start), FA_NUM(end), FA_NUM(step), FA_TENSOR_OPTIONS(__VA_ARGS__))
#define fa_linspace(start, end, steps, ...) fa_linspace_with((start), (end), (steps), FA_TENSOR_OPTIONS(__VA_ARGS__))
#define fa_range(start, end, step, ...) fa_range_with((start), (end), (step), FA_TENSOR_OPTIONS(__VA_ARGS__))
#define fa_logspace(start, end, steps, base, ...) fa_logspace_with((start), (end), (steps), (base), FA_TENSOR_OPTIONS(__VA_ARGS__))
#define fa_window(kind, n, periodic, a, b, ...) fa_window_with((kind), (n), (periodic), (a), (b), FA_TENSOR_OPTIONS(__VA_ARGS__))
#define fa_eye(rows, columns, ...) fa_eye_with((rows), (columns), FA_TENSOR_OPTIONS(__VA_ARGS__))
#define fa_rand(shape, ...) fa_rand_with((shape), FA_TENSOR_OPTIONS(__VA_ARGS__))
#define fa_randn(shape, ...) fa_randn_with((shape), FA_TENSOR_OPTIONS(__VA_ARGS__))
#define fa_randint(low, high, shape, ...) fa_randint_with((low), (high), (shape), FA_TENSOR_OPTIONS(__VA_ARGS__))
#define fa_randperm(n, ...) fa_randperm_with((n), FA_TENSOR_OPTIONS(__VA_ARGS__))
#define fa_from_data(data, from, shape, ...) fa_from_data_with((data), (from), (shape), FA_TENSOR_OPTIONS(__VA_ARGS__))
#define fa_empty_like(like, ...) fa_empty_like_with((like), FA_TENSOR_OPTIONS(__VA_ARGS__))
#define fa_zeros_like(like, ...) fa_zeros_like_with((like), FA_TENSOR_OPTIONS(__VA_ARGS__))
#define fa_ones_like(like, ...) fa_ones_like_with((like), FA_TENSOR_OPTIONS(__VA_ARGS__))
#define fa_full_like(like, value, ...) fa_full_like_with((like), FA_NUM(value), FA_TENSOR_OPTIONS(__VA_ARGS__))
#define fa_rand_like(like, ...) fa_rand_like_with((like), FA_TENSOR_OPTIONS(__VA_ARGS__))
#define fa_randn_like(like, ...) fa_randn_like_with((like), FA_TENSOR_OPTIONS(__VA_ARGS__))
#define fa_randint_like(like, low, high, ...) fa_randint_like_with((like), (low), (high), FA_TENSOR_OPTIONS(__VA_ARGS__))
/* A 1-d tensor of the values written: fa_floats(1, 2, 3) is float32, fa_ints(1, 2, 3) int64. */
#define fa_floats(...) fa_from_data_with((double[]){__VA_ARGS__}, FA_FLOAT64, FA_SHAPE((int64_t)(sizeof((double[]){__VA_ARGS__}) / sizeof(double))), FA_TENSOR_OPTIONS(.dtype = FA_FLOAT32))
#define fa_ints(...) fa_from_data_with((int64_t[]){__VA_ARGS__}, FA_INT64, FA_SHAPE((int64_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t))), FA_TENSOR_OPTIONS(.dtype = FA_INT64))
#endif

/* ---- Asking. NULL gives 0, an empty shape, FA_DTYPE_DEFAULT, a device that is all zero. ---- */

FA_API int fa_ndim(const fa_tensor *t);
FA_API int64_t fa_numel(const fa_tensor *t);
FA_API int64_t fa_size(const fa_tensor *t, int dim);   /* negative dims count from the end; out of range: error, 0 */
FA_API int64_t fa_stride(const fa_tensor *t, int dim); /* in elements */
FA_API fa_shape fa_shape_of_tensor(const fa_tensor *t);
FA_API fa_dtype fa_dtype_of(const fa_tensor *t);
FA_API fa_device fa_device_of(const fa_tensor *t);
FA_API bool fa_is_contiguous(const fa_tensor *t);
FA_API bool fa_is_channels_last(const fa_tensor *t);   /* rank 4 or 5, and the channels, dimension 1, lie next to each other */
FA_API fa_tensor *fa_channels_last(fa_tensor *x);      /* x made so, with a derivative; x itself if it is; other ranks: FA_ERR_RUNTIME */
FA_API bool fa_is_view(const fa_tensor *t);
FA_API uint32_t fa_version_of(const fa_tensor *t);     /* raised by every in-place op on it or its views */

/* What errors call a tensor: the name given here (NULL or "" takes it away; at most 255 bytes), else where it was registered:
 * "Net.layers.0 (Linear), its parameter weight". fa_tensor_name writes at most n bytes with a final 0 and returns the whole length, 0
 * for a tensor without either. */
FA_API bool fa_tensor_set_name(fa_tensor *t, const char *name);
FA_API size_t fa_tensor_name(const fa_tensor *t, char *text, size_t n);

/* ---- Reading and moving ---- */

FA_API void *fa_data(fa_tensor *t);            /* the first element, on the CPU only; elements lie by fa_stride */
FA_API double fa_item(fa_tensor *t);           /* the only element; waits for the device; 0 after an error */
FA_API int64_t fa_item_int(fa_tensor *t);
FA_API bool fa_to_data(fa_tensor *t, void *data, fa_dtype as); /* writes all elements in C order into data, converted */
FA_API fa_tensor *fa_to(fa_tensor *t, fa_device device);       /* itself if it is there already; differentiable */
FA_API fa_tensor *fa_cpu(fa_tensor *t);
FA_API fa_tensor *fa_cast(fa_tensor *t, fa_dtype dtype);       /* itself if it has that dtype; differentiable */
/* The same without waiting for the copy, where one side is pinned memory of the host; a result on the CPU is. Whoever reads it on
 * the host waits then. t itself may be written by the host again as soon as the copy is done (fa_synchronize), or through fa_data. */
FA_API fa_tensor *fa_to_async(fa_tensor *t, fa_device device);
FA_API fa_tensor *fa_copy_async_(fa_tensor *t, fa_tensor *from);
/* A copy in memory that devices read and write by themselves; itself if it is. On the CPU; needs an accelerator. */
FA_API fa_tensor *fa_pin_memory(fa_tensor *t);
FA_API bool fa_is_pinned(const fa_tensor *t);
/* t is used by work in that stream, of its own device, too: when it is dropped, its memory is given to nobody before the stream is
 * done with what it has by then. Of a tensor on the CPU: nothing to do. */
FA_API bool fa_record_stream(fa_tensor *t, fa_stream stream);

/* ---- Printing, as torch prints ---- */

typedef struct fa_print_options {
    size_t struct_size;
    int precision;      /* 4 */
    int64_t threshold;  /* 1000 */
    int edgeitems;      /* 3 */
    int linewidth;      /* 80 */
    int sci_mode;       /* -1: decided per tensor, 0 never, 1 always */
} fa_print_options;
FA_API void fa_print(fa_tensor *t);                                   /* to stdout, with a newline */
/* Writes at most n bytes with a final 0 and returns the whole length without it, as snprintf does. */
FA_API size_t fa_to_text(fa_tensor *t, char *text, size_t n);
FA_API void fa_set_print_options(const fa_print_options *options);    /* NULL: the defaults */

#ifdef __cplusplus
}
#endif
#endif
