/* Modules: layers, containers, modules of the user's own; parameters by name, moving, state, initialisation. */
#ifndef FA_NN_H
#define FA_NN_H

#include "fa_autograd.h"
#include "fa_functional.h"
#include "fa_io.h"
#include "fa_layers.h" /* fa_nn_linear(in, out, .bias = false) and its kind: made from src/nn/layers.tab */

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Containers ---- */

/* C leaves open in which order arguments are evaluated: where the draws of the initial values matter, make the layers one by one.
 * Children run one after the other; they are named "0", "1", ... The module holds its children. */
FA_API fa_module *fa_sequential_of(fa_module *const *children, int n);
/* Children to be called by the owner. */
FA_API fa_module *fa_module_list_of(fa_module *const *children, int n);
#ifndef __cplusplus
#define fa_sequential(...) fa_sequential_of((fa_module *const[]){__VA_ARGS__}, (int)(sizeof((fa_module *const[]){__VA_ARGS__}) / sizeof(fa_module *)))
#define fa_module_list(...) fa_module_list_of((fa_module *const[]){__VA_ARGS__}, (int)(sizeof((fa_module *const[]){__VA_ARGS__}) / sizeof(fa_module *)))
#endif

/* ---- Modules of your own ---- */

typedef struct fa_module_type {
    const char *name; /* "Net", as it is printed */
    fa_tensor *(*forward)(fa_module *self, fa_tensor *const *inputs, int ninputs);
    void (*describe)(const fa_module *self, char *text, size_t n); /* what stands between the parentheses; may be NULL */
    void (*release)(void *data);                                  /* when the module dies; may be NULL */
} fa_module_type;
FA_API fa_module *fa_module_new(const fa_module_type *type, void *data); /* type must outlive the module */
FA_API void *fa_module_data(const fa_module *module);
/* Registration makes the tensor part of the module: moved, saved, and (parameters) trained with it. NULL keeps the name empty. */
FA_API bool fa_add_parameter(fa_module *module, const char *name, fa_tensor *t); /* sets requires_grad on a floating leaf */
FA_API bool fa_add_buffer(fa_module *module, const char *name, fa_tensor *t, bool persistent);
FA_API bool fa_add_module(fa_module *module, const char *name, fa_module *child);

/* By dotted path: "0.weight", "encoder.layers.1.norm.bias". Borrowed; a path that does not exist is an error with what is there. */
FA_API fa_tensor *fa_get_parameter(fa_module *module, const char *path); /* parameters and buffers */
FA_API fa_module *fa_get_module(fa_module *module, const char *path);
FA_API int fa_child_count(const fa_module *module);
FA_API fa_module *fa_child(fa_module *module, int i); /* borrowed; negative counts from the end */
FA_API const char *fa_module_name(const fa_module *module); /* "Linear" */

/* ---- Using them ---- */

FA_API fa_tensor *fa_call_with(fa_module *module, fa_tensor *const *inputs, int ninputs);
#ifndef __cplusplus
/* fa_call(net, x) or, for modules that take more, fa_call(net, x, mask) */
#define fa_call(module, ...) fa_call_with((module), (fa_tensor *const[]){__VA_ARGS__}, (int)(sizeof((fa_tensor *const[]){__VA_ARGS__}) / sizeof(fa_tensor *)))
#endif
FA_API bool fa_module_to(fa_module *module, fa_device device);      /* all of it or, after an error, none; parameters stay the same objects */
/* Where its first parameter or buffer is; the CPU for a module that has none. */
FA_API fa_device fa_module_device(const fa_module *module);
FA_API bool fa_module_to_dtype(fa_module *module, fa_dtype dtype);  /* floating parameters and buffers */
FA_API fa_module *fa_train(fa_module *module, bool on);             /* recursively; returns the module */
FA_API bool fa_is_training(const fa_module *module);
FA_API void fa_zero_grad_of(fa_module *module);                     /* every parameter's .grad becomes NULL */

/* All parameters, own first, then children in order, each once: fills at most room of them; returns how many there are. names may
 * be NULL; else names[i] is a dotted path of at most 127 bytes. */
typedef char fa_path[128];
FA_API int fa_parameters(fa_module *module, fa_tensor **parameters, fa_path *names, int room);
FA_API int fa_buffers(fa_module *module, fa_tensor **buffers, fa_path *names, int room);
FA_API int64_t fa_parameter_numel(fa_module *module);               /* elements in all parameters */

/* ---- State ---- */

FA_API fa_tensors *fa_state_dict(fa_module *module);                /* parameters and persistent buffers, detached, memory shared */
/* Copies by name, converting dtype and device. strict: missing and unexpected names are errors; other shapes always. Checks
 * everything first: after an error the module is as it was. */
FA_API bool fa_load_state_dict(fa_module *module, const fa_tensors *state, bool strict);
FA_API bool fa_save_module(const char *path, fa_module *module);    /* .pt, .pth, .safetensors or .npz, by the ending */
FA_API bool fa_load_module(const char *path, fa_module *module);

/* ---- Printing, as torch prints a module ---- */
FA_API size_t fa_module_to_text(fa_module *module, char *text, size_t n); /* as snprintf: returns the whole length */
FA_API void fa_module_print(fa_module *module);

/* ---- Initialisation: in place, not recorded; returns t. torch's formulas and draws. ---- */
FA_API fa_tensor *fa_init_uniform(fa_tensor *t, double low, double high);
FA_API fa_tensor *fa_init_normal(fa_tensor *t, double mean, double std);
FA_API fa_tensor *fa_init_constant(fa_tensor *t, double value);
FA_API fa_tensor *fa_init_xavier_uniform(fa_tensor *t, double gain); /* U(-b, b), b = gain sqrt(6 / (fan_in + fan_out)) */
FA_API fa_tensor *fa_init_xavier_normal(fa_tensor *t, double gain);
/* b = gain sqrt(3 / fan), gain of "relu", "leaky_relu" (negative slope a), "linear", ...; mode "fan_in" or "fan_out" */
FA_API fa_tensor *fa_init_kaiming_uniform(fa_tensor *t, double a, const char *mode, const char *nonlinearity);
FA_API fa_tensor *fa_init_kaiming_normal(fa_tensor *t, double a, const char *mode, const char *nonlinearity);
FA_API double fa_init_gain(const char *nonlinearity, double a);

#ifdef __cplusplus
}
#endif
#endif
