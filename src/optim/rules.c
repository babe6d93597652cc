/* The rules' options, their checks in torch's words, and the numbers that a step gives to its row of optim.tab. */
#include "optim.h"
#include <math.h>
#include <string.h>

/* ---- options: copied so far as the caller's struct goes, which may be an older, shorter one ---- */

#define READ(to, defaults, from)                                                                                                 \
    do {                                                                                                                         \
        (to) = (defaults);                                                                                                       \
        if (from) memcpy(&(to), (from), (from)->struct_size < sizeof(to) ? (from)->struct_size : sizeof(to));                    \
    } while (0)

fa_sgd_options fa_sgd_defaults(void) { return (fa_sgd_options){.struct_size = sizeof(fa_sgd_options), FA_SGD_DEFAULTS}; }
fa_adam_options fa_adam_defaults(void) { return (fa_adam_options){.struct_size = sizeof(fa_adam_options), FA_ADAM_DEFAULTS}; }
fa_adam_options fa_adamw_defaults(void) { return (fa_adam_options){.struct_size = sizeof(fa_adam_options), FA_ADAMW_DEFAULTS}; }

/* NaN is not allowed either. */
bool fai_at_least_0(const char *op, const char *words, const char *option, double value) {
    if (value >= 0) return true;
    return fai_fail(FA_ERR_VALUE, op, "Invalid %s: %g. The option %s must be a number that is not negative.", words, value,
                    option);
}

/* ---- SGD ---- */

enum { SGD_LR, SGD_MOMENTUM, SGD_DAMPENING, SGD_WEIGHT_DECAY, SGD_NESTEROV, SGD_MAXIMIZE };

static bool check_sgd(const char *op, const double *o) {
    if (!fai_at_least_0(op, "learning rate", "lr", o[SGD_LR]) ||
        !fai_at_least_0(op, "momentum value", "momentum", o[SGD_MOMENTUM]) ||
        !fai_at_least_0(op, "weight_decay value", "weight_decay", o[SGD_WEIGHT_DECAY]))
        return false;
    if (o[SGD_NESTEROV] != 0 && (o[SGD_MOMENTUM] <= 0 || o[SGD_DAMPENING] != 0))
        return fai_fail(FA_ERR_VALUE, op,
                        "Nesterov momentum requires a momentum and zero dampening. Found momentum %g and dampening %g; "
                        "give .momentum = 0.9, for example, or leave .nesterov out.",
                        o[SGD_MOMENTUM], o[SGD_DAMPENING]);
    return true;
}

static int row_of_sgd(const double *o) { return o[SGD_MOMENTUM] != 0 ? FAI_UPDATE_sgd_momentum : FAI_UPDATE_sgd; }

/* lr, weight_decay, maximize, then with momentum: momentum, one_minus_dampening, nesterov, first */
static void numbers_of_sgd(int row, const double *o, int64_t steps, const double *kept, double *f) {
    (void)kept;
    f[0] = o[SGD_LR], f[1] = o[SGD_WEIGHT_DECAY], f[2] = o[SGD_MAXIMIZE];
    if (row != FAI_UPDATE_sgd_momentum) return;
    f[3] = o[SGD_MOMENTUM], f[4] = 1 - o[SGD_DAMPENING], f[5] = o[SGD_NESTEROV], f[6] = steps == 0;
}

const fai_rule fai_rule_sgd = {.name = "SGD",
                               .op = "sgd",
                               .option = {"lr", "momentum", "dampening", "weight_decay", "nesterov", "maximize"},
                               .widest = FAI_UPDATE_sgd_momentum,
                               .check = check_sgd,
                               .row = row_of_sgd,
                               .numbers = numbers_of_sgd};

static void options_of_sgd(const fa_sgd_options *given, double *o) {
    fa_sgd_options s;
    READ(s, fa_sgd_defaults(), given);
    o[SGD_LR] = s.lr, o[SGD_MOMENTUM] = s.momentum, o[SGD_DAMPENING] = s.dampening, o[SGD_WEIGHT_DECAY] = s.weight_decay;
    o[SGD_NESTEROV] = s.nesterov, o[SGD_MAXIMIZE] = s.maximize;
}

fa_optimizer *fa_sgd_with(fa_module *module, const fa_sgd_options *options) {
    double o[FAI_RULE_OPTIONS] = {0};
    options_of_sgd(options, o);
    return fai_optimizer_over(&fai_rule_sgd, module, o);
}

fa_optimizer *fa_sgd_of_with(fa_tensor *const *parameters, int n, const fa_sgd_options *options) {
    double o[FAI_RULE_OPTIONS] = {0};
    options_of_sgd(options, o);
    return fai_optimizer_of(&fai_rule_sgd, parameters, n, o);
}

/* ---- Adam and AdamW: the second takes the weights' decay out of the gradient ---- */

enum { ADAM_LR, ADAM_BETA1, ADAM_BETA2, ADAM_EPS, ADAM_WEIGHT_DECAY, ADAM_AMSGRAD, ADAM_MAXIMIZE };

bool fai_check_beta(const char *op, int i, double beta) {
    if (beta >= 0 && beta < 1) return true;
    return fai_fail(FA_ERR_VALUE, op, "Invalid beta parameter at index %d: %.*f. The option beta%d must lie in [0, 1).", i,
                    beta == floor(beta) ? 1 : 6, beta, i + 1);
}

static bool check_adam(const char *op, const double *o) {
    return fai_at_least_0(op, "learning rate", "lr", o[ADAM_LR]) && fai_at_least_0(op, "epsilon value", "eps", o[ADAM_EPS]) &&
           fai_check_beta(op, 0, o[ADAM_BETA1]) && fai_check_beta(op, 1, o[ADAM_BETA2]) &&
           fai_at_least_0(op, "weight_decay value", "weight_decay", o[ADAM_WEIGHT_DECAY]);
}

static int row_of_adam(const double *o) { return o[ADAM_AMSGRAD] != 0 ? FAI_UPDATE_adam_amsgrad : FAI_UPDATE_adam; }
static int row_of_adamw(const double *o) { return o[ADAM_AMSGRAD] != 0 ? FAI_UPDATE_adamw_amsgrad : FAI_UPDATE_adamw; }

/* step_size, weight_decay or decay, maximize, one_minus_beta1, beta2, one_minus_beta2, eps, bias_correction2_sqrt */
static void numbers_of_adam(int row, const double *o, int64_t steps, const double *kept, double *f) {
    (void)kept;
    const bool decoupled = row == FAI_UPDATE_adamw || row == FAI_UPDATE_adamw_amsgrad;
    const double t = (double)(steps + 1);
    f[0] = o[ADAM_LR] / (1 - pow(o[ADAM_BETA1], t));
    f[1] = decoupled ? 1 - o[ADAM_LR] * o[ADAM_WEIGHT_DECAY] : o[ADAM_WEIGHT_DECAY];
    f[2] = o[ADAM_MAXIMIZE];
    f[3] = 1 - o[ADAM_BETA1];
    f[4] = o[ADAM_BETA2];
    f[5] = 1 - o[ADAM_BETA2];
    f[6] = o[ADAM_EPS];
    f[7] = sqrt(1 - pow(o[ADAM_BETA2], t));
}

#define ADAM_OPTIONS                                                                                                             \
    { "lr", "beta1", "beta2", "eps", "weight_decay", "amsgrad", "maximize" }

const fai_rule fai_rule_adam = {.name = "Adam",
                                .op = "adam",
                                .option = ADAM_OPTIONS,
                                .widest = FAI_UPDATE_adam_amsgrad,
                                .ages = true,
                                .counts = true,
                                .check = check_adam,
                                .row = row_of_adam,
                                .numbers = numbers_of_adam};
const fai_rule fai_rule_adamw = {.name = "AdamW",
                                 .op = "adamw",
                                 .option = ADAM_OPTIONS,
                                 .widest = FAI_UPDATE_adamw_amsgrad,
                                 .ages = true,
                                 .counts = true,
                                 .check = check_adam,
                                 .row = row_of_adamw,
                                 .numbers = numbers_of_adam};

static void options_of_adam(const fa_adam_options *given, fa_adam_options defaults, double *o) {
    fa_adam_options a;
    READ(a, defaults, given);
    o[ADAM_LR] = a.lr, o[ADAM_BETA1] = a.beta1, o[ADAM_BETA2] = a.beta2, o[ADAM_EPS] = a.eps;
    o[ADAM_WEIGHT_DECAY] = a.weight_decay, o[ADAM_AMSGRAD] = a.amsgrad, o[ADAM_MAXIMIZE] = a.maximize;
}

fa_optimizer *fa_adam_with(fa_module *module, const fa_adam_options *options) {
    double o[FAI_RULE_OPTIONS] = {0};
    options_of_adam(options, fa_adam_defaults(), o);
    return fai_optimizer_over(&fai_rule_adam, module, o);
}

fa_optimizer *fa_adam_of_with(fa_tensor *const *parameters, int n, const fa_adam_options *options) {
    double o[FAI_RULE_OPTIONS] = {0};
    options_of_adam(options, fa_adam_defaults(), o);
    return fai_optimizer_of(&fai_rule_adam, parameters, n, o);
}

fa_optimizer *fa_adamw_with(fa_module *module, const fa_adam_options *options) {
    double o[FAI_RULE_OPTIONS] = {0};
    options_of_adam(options, fa_adamw_defaults(), o);
    return fai_optimizer_over(&fai_rule_adamw, module, o);
}

fa_optimizer *fa_adamw_of_with(fa_tensor *const *parameters, int n, const fa_adam_options *options) {
    double o[FAI_RULE_OPTIONS] = {0};
    options_of_adam(options, fa_adamw_defaults(), o);
    return fai_optimizer_of(&fai_rule_adamw, parameters, n, o);
}
