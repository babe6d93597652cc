/* Derivatives: recording, backward, grad of chosen inputs, hooks, modes, custom functions. */
#ifndef FA_AUTOGRAD_H
#define FA_AUTOGRAD_H

#include "fa_tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

FA_API fa_tensor *fa_requires_grad(fa_tensor *t, bool on); /* leaves only; returns t */
FA_API bool fa_is_requires_grad(const fa_tensor *t);
FA_API bool fa_is_leaf(const fa_tensor *t);
FA_API fa_tensor *fa_grad(const fa_tensor *t);             /* borrowed; NULL if none; not an error */
FA_API bool fa_set_grad(fa_tensor *t, fa_tensor *grad);    /* NULL clears */
FA_API bool fa_retain_grad(fa_tensor *t);
FA_API fa_tensor *fa_detach(fa_tensor *t);                 /* shares memory and version, not the graph */
FA_API fa_tensor *fa_detach_(fa_tensor *t);                /* in place: t becomes a leaf without a gradient; no views; returns t */
FA_API fa_tensor *fa_data_of(fa_tensor *t);                /* torch's .data: shares memory, own version */
FA_API const char *fa_grad_fn_name(const fa_tensor *t);    /* "MulBackward0"; NULL for a leaf */

typedef struct fa_backward_options {
    size_t struct_size;
    fa_tensor *gradient;       /* of the root; default: 1 for a one-element root */
    bool retain_graph;
    bool create_graph;         /* gradients can be differentiated again; implies retain_graph */
    fa_tensor *const *inputs;  /* accumulate into these only */
    int ninputs;
} fa_backward_options;
FA_API bool fa_backward_with(fa_tensor *root, const fa_backward_options *options);

typedef struct fa_grad_options {
    size_t struct_size;
    fa_tensor *const *grad_outputs; /* one per output, NULL entries mean ones for one-element outputs */
    bool retain_graph, create_graph, allow_unused, materialize_grads;
} fa_grad_options;
/* d outputs / d inputs into grads[0 .. ninputs); unused inputs give NULL if allowed. */
FA_API bool fa_grad_of_with(fa_tensor *const *outputs, int noutputs, fa_tensor *const *inputs, int ninputs, fa_tensor **grads,
                            const fa_grad_options *options);
#ifndef __cplusplus
#define fa_backward(root, ...) fa_backward_with((root), &(fa_backward_options){.struct_size = sizeof(fa_backward_options), __VA_ARGS__})
#define fa_grad_of(outputs, noutputs, inputs, ninputs, grads, ...) \
    fa_grad_of_with((outputs), (noutputs), (inputs), (ninputs), (grads), &(fa_grad_options){.struct_size = sizeof(fa_grad_options), __VA_ARGS__})
#endif

/* Modes of this thread; each call returns the old value, to be given back at the end. */
FA_API bool fa_set_grad_enabled(bool on);
FA_API bool fa_is_grad_enabled(void);
FA_API bool fa_set_inference_mode(bool on);
FA_API bool fa_is_inference_mode(void);
FA_API bool fa_set_detect_anomaly(bool on); /* backward stops at the first NaN and names its op */
#if defined(__GNUC__)
static inline void fa_grad_mode_cleanup(const int *was) { (void)fa_set_grad_enabled(*was != 0); }
static inline void fa_inference_cleanup(const int *was) { (void)fa_set_inference_mode(*was != 0); }
#define FA_NO_GRAD __attribute__((cleanup(fa_grad_mode_cleanup), unused)) const int FA_JOIN(fa_grad_was_, __LINE__) = fa_set_grad_enabled(false)
#define FA_INFERENCE_MODE __attribute__((cleanup(fa_inference_cleanup), unused)) const int FA_JOIN(fa_inference_was_, __LINE__) = fa_set_inference_mode(true)
#endif

/* ---- Autocast: mixed precision ----
 * While it is on for a type of device, products and convolutions there compute in float16 or bfloat16, and what needs the range or
 * the digits (losses, norms, exp, sums) in float32, whatever their inputs are; docs/design.md tells how, src/ops/autocast.tab
 * which. Gradients have the types of their parameters. Everything here is this thread's; only a device's type counts. */
typedef struct fa_autocast_options {
    size_t struct_size;
    fa_dtype dtype;      /* FA_FLOAT16 or FA_BFLOAT16; not given: fa_autocast_dtype of the device */
    bool enabled;        /* default true; false: off inside this scope */
    bool cache_enabled;  /* default true: a weight is cast once for each outermost scope */
} fa_autocast_options;
typedef struct fa_autocast { int type; int dtype; bool enabled, cache_enabled; } fa_autocast; /* what a scope hides */
/* Opens a scope; fa_autocast_close ends it. Where there is no such device, or the dtype can't be, it warns and is off. */
FA_API fa_autocast fa_autocast_open(fa_device device, const fa_autocast_options *options);
FA_API void fa_autocast_close(const fa_autocast *was);
FA_API bool fa_is_autocast_enabled(fa_device device);
FA_API bool fa_set_autocast_enabled(fa_device device, bool on);          /* outside scopes; returns what was */
FA_API fa_dtype fa_autocast_dtype(fa_device device);                     /* default: bfloat16 on the CPU, else float16 */
FA_API fa_dtype fa_set_autocast_dtype(fa_device device, fa_dtype dtype); /* returns what was */
FA_API bool fa_is_autocast_cache_enabled(void);
FA_API bool fa_set_autocast_cache_enabled(bool on);                      /* returns what was */
FA_API void fa_clear_autocast_cache(void);
#if defined(__GNUC__) && !defined(__cplusplus)
#define FA_AUTOCAST_DEFAULTS .enabled = true, .cache_enabled = true
/* FA_AUTOCAST_SCOPE(FA_CUDA(-1), .dtype = FA_BFLOAT16);  for the rest of the block. */
#define FA_AUTOCAST_SCOPE(device, ...) \
    __attribute__((cleanup(fa_autocast_close), unused)) const fa_autocast FA_JOIN(fa_autocast_was_, __LINE__) = \
        fa_autocast_open((device), &FA_OPTIONS(fa_autocast_options, FA_AUTOCAST_DEFAULTS, __VA_ARGS__))
#endif

/* Hooks. The hook gets the gradient and returns it, another one, or NULL after an error (fa_error_set). Returns an id > 0. */
typedef fa_tensor *(*fa_grad_hook)(fa_tensor *grad, void *data);
FA_API int fa_register_hook(fa_tensor *t, fa_grad_hook hook, void *data, void (*release)(void *data));
FA_API bool fa_remove_hook(fa_tensor *t, int id);

/* ---- Custom functions ---- */
typedef struct fa_context fa_context; /* what forward leaves for backward */
typedef struct fa_function {
    const char *name;   /* "Clip": shown as grad_fn=<ClipBackward> */
    /* Runs without recording; returns the result. inputs may hold NULL. */
    fa_tensor *(*forward)(fa_context *context, fa_tensor *const *inputs, int ninputs, void *data);
    /* Fills grads[i] for each input that needs one (NULL: zero). Recorded when the caller asked for create_graph. */
    bool (*backward)(fa_context *context, fa_tensor *grad, fa_tensor **grads, int ninputs, void *data);
    void (*release)(void *data); /* when the node dies; may be NULL */
} fa_function;
FA_API fa_tensor *fa_apply(const fa_function *function, fa_tensor *const *inputs, int ninputs, void *data);
FA_API bool fa_save_for_backward(fa_context *context, fa_tensor *t); /* in forward; inputs or results */
FA_API fa_tensor *fa_saved(fa_context *context, int i);              /* in backward, in the order saved; version-checked */
FA_API bool fa_needs_grad(fa_context *context, int input);

#ifdef __cplusplus
}
#endif
#endif
