/* Optimizers and learning-rate schedules. The update rules are rows of src/optim/optim.tab: one fused launch a step. */
#ifndef FA_OPTIM_H
#define FA_OPTIM_H

#include "fa_nn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Options in torch's order, with torch's defaults. */
typedef struct fa_sgd_options {
    size_t struct_size;
    double lr;            /* 1e-3 */
    double momentum;      /* 0 */
    double dampening;     /* 0 */
    double weight_decay;  /* 0 */
    bool nesterov;        /* needs momentum and no dampening */
    bool maximize;
} fa_sgd_options;

typedef struct fa_adam_options { /* Adam and AdamW */
    size_t struct_size;
    double lr;            /* 1e-3 */
    double beta1, beta2;  /* 0.9, 0.999 */
    double eps;           /* 1e-8 */
    double weight_decay;  /* Adam 0, AdamW 0.01 */
    bool amsgrad, maximize;
} fa_adam_options;

#define FA_SGD_DEFAULTS .lr = 1e-3
#define FA_ADAM_DEFAULTS .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8
#define FA_ADAMW_DEFAULTS .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.01

/* Over all parameters of a module. Belongs to the scope and holds the parameters. */
FA_API fa_optimizer *fa_sgd_with(fa_module *module, const fa_sgd_options *options);
FA_API fa_optimizer *fa_adam_with(fa_module *module, const fa_adam_options *options);
FA_API fa_optimizer *fa_adamw_with(fa_module *module, const fa_adam_options *options);
/* Over tensors of your own: leaves that require a gradient. */
FA_API fa_optimizer *fa_sgd_of_with(fa_tensor *const *parameters, int n, const fa_sgd_options *options);
FA_API fa_optimizer *fa_adam_of_with(fa_tensor *const *parameters, int n, const fa_adam_options *options);
FA_API fa_optimizer *fa_adamw_of_with(fa_tensor *const *parameters, int n, const fa_adam_options *options);
FA_API fa_sgd_options fa_sgd_defaults(void);
FA_API fa_adam_options fa_adam_defaults(void);
FA_API fa_adam_options fa_adamw_defaults(void);
#ifndef __cplusplus
#define fa_sgd(module, ...) fa_sgd_with((module), &FA_OPTIONS(fa_sgd_options, FA_SGD_DEFAULTS, __VA_ARGS__))
#define fa_adam(module, ...) fa_adam_with((module), &FA_OPTIONS(fa_adam_options, FA_ADAM_DEFAULTS, __VA_ARGS__))
#define fa_adamw(module, ...) fa_adamw_with((module), &FA_OPTIONS(fa_adam_options, FA_ADAMW_DEFAULTS, __VA_ARGS__))
#define fa_sgd_of(parameters, n, ...) fa_sgd_of_with((parameters), (n), &FA_OPTIONS(fa_sgd_options, FA_SGD_DEFAULTS, __VA_ARGS__))
#define fa_adam_of(parameters, n, ...)                                                                                           \
    fa_adam_of_with((parameters), (n), &FA_OPTIONS(fa_adam_options, FA_ADAM_DEFAULTS, __VA_ARGS__))
#define fa_adamw_of(parameters, n, ...)                                                                                          \
    fa_adamw_of_with((parameters), (n), &FA_OPTIONS(fa_adam_options, FA_ADAMW_DEFAULTS, __VA_ARGS__))
#endif

/* Others, with PyTorch's options under its names; pairs as betas, etas and step_sizes are two numbers here. */
typedef struct fa_rmsprop_options {
    size_t struct_size;
    double lr, alpha, eps, weight_decay, momentum;
    bool centered, maximize;
} fa_rmsprop_options;
#define FA_RMSPROP_DEFAULTS .lr = 1e-2, .alpha = 0.99, .eps = 1e-8

typedef struct fa_adagrad_options {
    size_t struct_size;
    double lr, lr_decay, weight_decay, initial_accumulator_value, eps;
    bool maximize;
} fa_adagrad_options;
#define FA_ADAGRAD_DEFAULTS .lr = 1e-2, .eps = 1e-10

typedef struct fa_adadelta_options {
    size_t struct_size;
    double lr, rho, eps, weight_decay;
    bool maximize;
} fa_adadelta_options;
#define FA_ADADELTA_DEFAULTS .lr = 1.0, .rho = 0.9, .eps = 1e-6

typedef struct fa_adamax_options {
    size_t struct_size;
    double lr, beta1, beta2, eps, weight_decay;
    bool maximize;
} fa_adamax_options;
#define FA_ADAMAX_DEFAULTS .lr = 2e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8

typedef struct fa_nadam_options {
    size_t struct_size;
    double lr, beta1, beta2, eps, weight_decay, momentum_decay;
    bool decoupled_weight_decay, maximize;
} fa_nadam_options;
#define FA_NADAM_DEFAULTS .lr = 2e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .momentum_decay = 4e-3

typedef struct fa_radam_options {
    size_t struct_size;
    double lr, beta1, beta2, eps, weight_decay;
    bool decoupled_weight_decay, maximize;
} fa_radam_options;
#define FA_RADAM_DEFAULTS .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8

typedef struct fa_asgd_options {
    size_t struct_size;
    double lr, lambd, alpha, t0, weight_decay;
    bool maximize;
} fa_asgd_options;
#define FA_ASGD_DEFAULTS .lr = 1e-2, .lambd = 1e-4, .alpha = 0.75, .t0 = 1e6

typedef struct fa_rprop_options {
    size_t struct_size;
    double lr, eta_minus, eta_plus, step_size_min, step_size_max;
    bool maximize;
} fa_rprop_options;
#define FA_RPROP_DEFAULTS .lr = 1e-2, .eta_minus = 0.5, .eta_plus = 1.2, .step_size_min = 1e-6, .step_size_max = 50

FA_API fa_optimizer *fa_rmsprop_with(fa_module *module, const fa_rmsprop_options *options);
FA_API fa_optimizer *fa_rmsprop_of_with(fa_tensor *const *parameters, int n, const fa_rmsprop_options *options);
FA_API fa_rmsprop_options fa_rmsprop_defaults(void);
FA_API fa_optimizer *fa_adagrad_with(fa_module *module, const fa_adagrad_options *options);
FA_API fa_optimizer *fa_adagrad_of_with(fa_tensor *const *parameters, int n, const fa_adagrad_options *options);
FA_API fa_adagrad_options fa_adagrad_defaults(void);
FA_API fa_optimizer *fa_adadelta_with(fa_module *module, const fa_adadelta_options *options);
FA_API fa_optimizer *fa_adadelta_of_with(fa_tensor *const *parameters, int n, const fa_adadelta_options *options);
FA_API fa_adadelta_options fa_adadelta_defaults(void);
FA_API fa_optimizer *fa_adamax_with(fa_module *module, const fa_adamax_options *options);
FA_API fa_optimizer *fa_adamax_of_with(fa_tensor *const *parameters, int n, const fa_adamax_options *options);
FA_API fa_adamax_options fa_adamax_defaults(void);
FA_API fa_optimizer *fa_nadam_with(fa_module *module, const fa_nadam_options *options);
FA_API fa_optimizer *fa_nadam_of_with(fa_tensor *const *parameters, int n, const fa_nadam_options *options);
FA_API fa_nadam_options fa_nadam_defaults(void);
FA_API fa_optimizer *fa_radam_with(fa_module *module, const fa_radam_options *options);
FA_API fa_optimizer *fa_radam_of_with(fa_tensor *const *parameters, int n, const fa_radam_options *options);
FA_API fa_radam_options fa_radam_defaults(void);
FA_API fa_optimizer *fa_asgd_with(fa_module *module, const fa_asgd_options *options);
FA_API fa_optimizer *fa_asgd_of_with(fa_tensor *const *parameters, int n, const fa_asgd_options *options);
FA_API fa_asgd_options fa_asgd_defaults(void);
FA_API fa_optimizer *fa_rprop_with(fa_module *module, const fa_rprop_options *options);
FA_API fa_optimizer *fa_rprop_of_with(fa_tensor *const *parameters, int n, const fa_rprop_options *options);
FA_API fa_rprop_options fa_rprop_defaults(void);
#ifndef __cplusplus
#define fa_rmsprop(module, ...) fa_rmsprop_with((module), &FA_OPTIONS(fa_rmsprop_options, FA_RMSPROP_DEFAULTS, __VA_ARGS__))
#define fa_rmsprop_of(parameters, n, ...) \
    fa_rmsprop_of_with((parameters), (n), &FA_OPTIONS(fa_rmsprop_options, FA_RMSPROP_DEFAULTS, __VA_ARGS__))
#define fa_adagrad(module, ...) fa_adagrad_with((module), &FA_OPTIONS(fa_adagrad_options, FA_ADAGRAD_DEFAULTS, __VA_ARGS__))
#define fa_adagrad_of(parameters, n, ...) \
    fa_adagrad_of_with((parameters), (n), &FA_OPTIONS(fa_adagrad_options, FA_ADAGRAD_DEFAULTS, __VA_ARGS__))
#define fa_adadelta(module, ...) fa_adadelta_with((module), &FA_OPTIONS(fa_adadelta_options, FA_ADADELTA_DEFAULTS, __VA_ARGS__))
#define fa_adadelta_of(parameters, n, ...) \
    fa_adadelta_of_with((parameters), (n), &FA_OPTIONS(fa_adadelta_options, FA_ADADELTA_DEFAULTS, __VA_ARGS__))
#define fa_adamax(module, ...) fa_adamax_with((module), &FA_OPTIONS(fa_adamax_options, FA_ADAMAX_DEFAULTS, __VA_ARGS__))
#define fa_adamax_of(parameters, n, ...) \
    fa_adamax_of_with((parameters), (n), &FA_OPTIONS(fa_adamax_options, FA_ADAMAX_DEFAULTS, __VA_ARGS__))
#define fa_nadam(module, ...) fa_nadam_with((module), &FA_OPTIONS(fa_nadam_options, FA_NADAM_DEFAULTS, __VA_ARGS__))
#define fa_nadam_of(parameters, n, ...) \
    fa_nadam_of_with((parameters), (n), &FA_OPTIONS(fa_nadam_options, FA_NADAM_DEFAULTS, __VA_ARGS__))
#define fa_radam(module, ...) fa_radam_with((module), &FA_OPTIONS(fa_radam_options, FA_RADAM_DEFAULTS, __VA_ARGS__))
#define fa_radam_of(parameters, n, ...) \
    fa_radam_of_with((parameters), (n), &FA_OPTIONS(fa_radam_options, FA_RADAM_DEFAULTS, __VA_ARGS__))
#define fa_asgd(module, ...) fa_asgd_with((module), &FA_OPTIONS(fa_asgd_options, FA_ASGD_DEFAULTS, __VA_ARGS__))
#define fa_asgd_of(parameters, n, ...) \
    fa_asgd_of_with((parameters), (n), &FA_OPTIONS(fa_asgd_options, FA_ASGD_DEFAULTS, __VA_ARGS__))
#define fa_rprop(module, ...) fa_rprop_with((module), &FA_OPTIONS(fa_rprop_options, FA_RPROP_DEFAULTS, __VA_ARGS__))
#define fa_rprop_of(parameters, n, ...) \
    fa_rprop_of_with((parameters), (n), &FA_OPTIONS(fa_rprop_options, FA_RPROP_DEFAULTS, __VA_ARGS__))
#endif

/* One more group with the first group's options; change them by fa_set_option. Returns its number, -1 after an error. */
FA_API int fa_add_group(fa_optimizer *optimizer, fa_tensor *const *parameters, int n);
FA_API int fa_group_count(const fa_optimizer *optimizer);
/* "lr", "momentum", "weight_decay", ... of a group; group -1: of all */
FA_API bool fa_set_option(fa_optimizer *optimizer, int group, const char *name, double value);
FA_API double fa_get_option(const fa_optimizer *optimizer, int group, const char *name);

FA_API bool fa_step(fa_optimizer *optimizer);       /* parameters without a gradient are left alone */
FA_API bool fa_zero_grad(fa_optimizer *optimizer);  /* every .grad becomes NULL */
/* "0.exp_avg", "0.step", ..., "group.0.lr": what is needed to go on as if nothing had happened. Memory is
 * shared with the optimizer, as in a state dict: save it or clone it before the next step. */
FA_API fa_tensors *fa_optimizer_state(fa_optimizer *optimizer);
FA_API bool fa_load_optimizer_state(fa_optimizer *optimizer, const fa_tensors *state);
/* The same in torch.optim's structure, {"state": {0: {...}}, "param_groups": [{...}]}, to be put into a checkpoint (fa_save_pt),
 * or taken from one that PyTorch has written. */
FA_API fa_value *fa_optimizer_value(fa_values *values, fa_optimizer *optimizer);
FA_API bool fa_load_optimizer_value(fa_optimizer *optimizer, const fa_value *state);
/* max_norm: gradients are scaled so that their joint norm is at most this. The norm before it, or -1 after an error. */
FA_API double fa_clip_grad_norm(fa_tensor *const *parameters, int n, double max_norm, double norm_type);

/* ---- Schedules: call fa_schedule_step after each epoch's fa_step. Values as torch's. ---- */
typedef struct fa_scheduler fa_scheduler;
FA_API fa_scheduler *fa_step_lr(fa_optimizer *optimizer, int64_t step_size, double gamma); /* lr * gamma^(epoch / step_size) */
FA_API fa_scheduler *fa_exponential_lr(fa_optimizer *optimizer, double gamma);
FA_API fa_scheduler *fa_cosine_lr(fa_optimizer *optimizer, int64_t t_max, double eta_min);         /* CosineAnnealingLR */
FA_API fa_scheduler *fa_lambda_lr(fa_optimizer *optimizer, double (*factor)(int64_t epoch, void *data), void *data);
FA_API bool fa_schedule_step(fa_scheduler *scheduler);
FA_API double fa_last_lr(const fa_scheduler *scheduler); /* of the first group */
/* Going on after fa_load_optimizer_state, which brings the rates back: a new scheduler with the old one's epoch. */
FA_API int64_t fa_schedule_epoch(const fa_scheduler *scheduler);
FA_API bool fa_schedule_resume(fa_scheduler *scheduler, int64_t epoch);

/* ---- Gradient scaling: the other half of mixed precision with float16 ----
 * The loss is multiplied by a scale before backward, so that small gradients do not vanish in float16; before the step gradients are
 * divided by it again. A step whose gradients are not all finite is left out, and the scale becomes smaller; after growth_interval
 * good steps in a row it grows.
 *
 *     fa_backward(fa_grad_scaler_scale(scaler, loss));
 *     fa_grad_scaler_unscale(scaler, opt);           only where gradients are looked at or clipped before the step
 *     fa_grad_scaler_step(scaler, opt);
 *     fa_grad_scaler_update(scaler);                 once, after the steps of all optimizers
 *
 * All of it may be captured in a graph (fa_graph.h), one iteration in a capture: steps are left out by the device then, and each
 * replay waits for what the one before found. */
typedef struct fa_grad_scaler fa_grad_scaler;
typedef struct fa_grad_scaler_options {
    size_t struct_size;
    double init_scale, growth_factor, backoff_factor; /* 65536, 2, 0.5 */
    int64_t growth_interval;                          /* 2000 */
    bool enabled;                                     /* true; false: every call does what it would without a scaler */
} fa_grad_scaler_options;
#define FA_GRAD_SCALER_DEFAULTS .init_scale = 65536, .growth_factor = 2, .backoff_factor = 0.5, .growth_interval = 2000, .enabled = true
FA_API fa_grad_scaler *fa_grad_scaler_with(const fa_grad_scaler_options *options); /* belongs to the scope */
#ifndef __cplusplus
#define fa_grad_scaler(...) fa_grad_scaler_with(&FA_OPTIONS(fa_grad_scaler_options, FA_GRAD_SCALER_DEFAULTS, __VA_ARGS__))
#endif
FA_API fa_tensor *fa_grad_scaler_scale(fa_grad_scaler *scaler, fa_tensor *loss);       /* loss * scale, recorded */
FA_API bool fa_grad_scaler_unscale(fa_grad_scaler *scaler, fa_optimizer *optimizer);   /* gradients divided in place; waits for nothing */
/* Unscales unless that was done, waits once to learn whether all gradients are finite, and steps if they are. True too where the
 * step was left out: fa_grad_scaler_found_inf tells. */
FA_API bool fa_grad_scaler_step(fa_grad_scaler *scaler, fa_optimizer *optimizer);
FA_API bool fa_grad_scaler_found_inf(const fa_grad_scaler *scaler);                    /* of the last step */
FA_API bool fa_grad_scaler_update(fa_grad_scaler *scaler);
FA_API bool fa_grad_scaler_is_enabled(const fa_grad_scaler *scaler);
/* What is saved and loaded with a training: the values, and the good steps in a row. */
typedef struct fa_grad_scaler_state {
    double scale, growth_factor, backoff_factor;
    int64_t growth_interval, growth_tracker;
} fa_grad_scaler_state;
FA_API fa_grad_scaler_state fa_grad_scaler_get(const fa_grad_scaler *scaler);          /* scale 1 of one that is not enabled */
FA_API bool fa_grad_scaler_set(fa_grad_scaler *scaler, const fa_grad_scaler_state *state);

#ifdef __cplusplus
}
#endif
#endif
