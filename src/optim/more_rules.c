/* Rules beside SGD and Adam: RMSprop, Adagrad, Adadelta, Adamax, NAdam, RAdam, ASGD, Rprop. As in rules.c, each has its options,
 * its checks, and the numbers that a step gives to its row of optim.tab. */
#include "optim.h"
#include <math.h>
#include <string.h>

/* ---- RMSprop ---- */

enum { RMSPROP_LR, RMSPROP_ALPHA, RMSPROP_EPS, RMSPROP_WEIGHT_DECAY, RMSPROP_MOMENTUM, RMSPROP_CENTERED, RMSPROP_MAXIMIZE };

static bool check_rmsprop(const char *op, const double *o) {
    return fai_at_least_0(op, "learning rate", "lr", o[RMSPROP_LR]) &&
           fai_at_least_0(op, "epsilon value", "eps", o[RMSPROP_EPS]) &&
           fai_at_least_0(op, "momentum value", "momentum", o[RMSPROP_MOMENTUM]) &&
           fai_at_least_0(op, "weight_decay value", "weight_decay", o[RMSPROP_WEIGHT_DECAY]) &&
           fai_at_least_0(op, "alpha value", "alpha", o[RMSPROP_ALPHA]);
}

static int row_of_rmsprop(const double *o) {
    if (o[RMSPROP_CENTERED] != 0) return o[RMSPROP_MOMENTUM] > 0 ? FAI_UPDATE_rmsprop_all : FAI_UPDATE_rmsprop_centered;
    return o[RMSPROP_MOMENTUM] > 0 ? FAI_UPDATE_rmsprop_momentum : FAI_UPDATE_rmsprop;
}

static void numbers_of_rmsprop(int row, const double *o, int64_t steps, const double *kept, double *f) {
    (void)row, (void)steps, (void)kept;
    f[0] = o[RMSPROP_LR], f[1] = o[RMSPROP_WEIGHT_DECAY], f[2] = o[RMSPROP_MAXIMIZE];
    f[3] = o[RMSPROP_ALPHA], f[4] = 1 - o[RMSPROP_ALPHA], f[5] = o[RMSPROP_EPS], f[6] = o[RMSPROP_MOMENTUM];
}

const fai_rule fai_rule_rmsprop = {
    .name = "RMSprop",
    .op = "rmsprop",
    .option = {"lr", "alpha", "eps", "weight_decay", "momentum", "centered", "maximize"},
    .widest = FAI_UPDATE_rmsprop_all,
    .counts = true,
    .check = check_rmsprop,
    .row = row_of_rmsprop,
    .numbers = numbers_of_rmsprop,
};

/* ---- Adagrad ---- */

enum { ADAGRAD_LR, ADAGRAD_LR_DECAY, ADAGRAD_WEIGHT_DECAY, ADAGRAD_INITIAL_ACCUMULATOR_VALUE, ADAGRAD_EPS, ADAGRAD_MAXIMIZE };

static bool check_adagrad(const char *op, const double *o) {
    return fai_at_least_0(op, "learning rate", "lr", o[ADAGRAD_LR]) &&
           fai_at_least_0(op, "lr_decay value", "lr_decay", o[ADAGRAD_LR_DECAY]) &&
           fai_at_least_0(op, "weight_decay value", "weight_decay", o[ADAGRAD_WEIGHT_DECAY]) &&
           fai_at_least_0(op, "initial_accumulator_value value", "initial_accumulator_value",
                          o[ADAGRAD_INITIAL_ACCUMULATOR_VALUE]) &&
           fai_at_least_0(op, "epsilon value", "eps", o[ADAGRAD_EPS]);
}

static double initial_of_adagrad(int state, const double *o) { return (void)state, o[ADAGRAD_INITIAL_ACCUMULATOR_VALUE]; }

static void numbers_of_adagrad(int row, const double *o, int64_t steps, const double *kept, double *f) {
    (void)row, (void)kept;
    f[0] = o[ADAGRAD_LR] / (1 + (double)steps * o[ADAGRAD_LR_DECAY]);
    f[1] = o[ADAGRAD_WEIGHT_DECAY], f[2] = o[ADAGRAD_MAXIMIZE], f[3] = o[ADAGRAD_EPS];
}

static int row_of_adagrad(const double *o) { return (void)o, FAI_UPDATE_adagrad; }

const fai_rule fai_rule_adagrad = {
    .name = "Adagrad",
    .op = "adagrad",
    .option = {"lr", "lr_decay", "weight_decay", "initial_accumulator_value", "eps", "maximize"},
    .widest = FAI_UPDATE_adagrad,
    .ages = true,
    .counts = true,
    .check = check_adagrad,
    .row = row_of_adagrad,
    .numbers = numbers_of_adagrad,
    .initial = initial_of_adagrad,
};

/* ---- Adadelta ---- */

enum { ADADELTA_LR, ADADELTA_RHO, ADADELTA_EPS, ADADELTA_WEIGHT_DECAY, ADADELTA_MAXIMIZE };

static bool check_adadelta(const char *op, const double *o) {
    if (!(o[ADADELTA_RHO] >= 0 && o[ADADELTA_RHO] <= 1))
        return fai_fail(FA_ERR_VALUE, op, "Invalid rho value: %g. The option rho must lie in [0, 1].", o[ADADELTA_RHO]);
    return fai_at_least_0(op, "learning rate", "lr", o[ADADELTA_LR]) &&
           fai_at_least_0(op, "epsilon value", "eps", o[ADADELTA_EPS]) &&
           fai_at_least_0(op, "weight_decay value", "weight_decay", o[ADADELTA_WEIGHT_DECAY]);
}

static void numbers_of_adadelta(int row, const double *o, int64_t steps, const double *kept, double *f) {
    (void)row, (void)steps, (void)kept;
    f[0] = o[ADADELTA_LR], f[1] = o[ADADELTA_WEIGHT_DECAY], f[2] = o[ADADELTA_MAXIMIZE];
    f[3] = o[ADADELTA_RHO], f[4] = 1 - o[ADADELTA_RHO], f[5] = o[ADADELTA_EPS];
}

static int row_of_adadelta(const double *o) { return (void)o, FAI_UPDATE_adadelta; }

const fai_rule fai_rule_adadelta = {
    .name = "Adadelta",
    .op = "adadelta",
    .option = {"lr", "rho", "eps", "weight_decay", "maximize"},
    .widest = FAI_UPDATE_adadelta,
    .counts = true,
    .check = check_adadelta,
    .row = row_of_adadelta,
    .numbers = numbers_of_adadelta,
};

/* ---- Adamax ---- */

enum { ADAMAX_LR, ADAMAX_BETA1, ADAMAX_BETA2, ADAMAX_EPS, ADAMAX_WEIGHT_DECAY, ADAMAX_MAXIMIZE };

/* lr, beta1, beta2, eps and weight_decay stand at the same places in the options of Adamax, NAdam and RAdam. */
static bool check_adamax(const char *op, const double *o) {
    return fai_at_least_0(op, "learning rate", "lr", o[ADAMAX_LR]) &&
           fai_at_least_0(op, "epsilon value", "eps", o[ADAMAX_EPS]) && fai_check_beta(op, 0, o[ADAMAX_BETA1]) &&
           fai_check_beta(op, 1, o[ADAMAX_BETA2]) &&
           fai_at_least_0(op, "weight_decay value", "weight_decay", o[ADAMAX_WEIGHT_DECAY]);
}

static void numbers_of_adamax(int row, const double *o, int64_t steps, const double *kept, double *f) {
    (void)row, (void)kept;
    f[0] = o[ADAMAX_LR] / (1 - pow(o[ADAMAX_BETA1], (double)(steps + 1)));
    f[1] = o[ADAMAX_WEIGHT_DECAY], f[2] = o[ADAMAX_MAXIMIZE];
    f[3] = 1 - o[ADAMAX_BETA1], f[4] = o[ADAMAX_BETA2], f[5] = o[ADAMAX_EPS];
}

static int row_of_adamax(const double *o) { return (void)o, FAI_UPDATE_adamax; }

const fai_rule fai_rule_adamax = {
    .name = "Adamax",
    .op = "adamax",
    .option = {"lr", "beta1", "beta2", "eps", "weight_decay", "maximize"},
    .widest = FAI_UPDATE_adamax,
    .ages = true,
    .counts = true,
    .check = check_adamax,
    .row = row_of_adamax,
    .numbers = numbers_of_adamax,
};

/* ---- NAdam ---- */

enum {
    NADAM_LR,
    NADAM_BETA1,
    NADAM_BETA2,
    NADAM_EPS,
    NADAM_WEIGHT_DECAY,
    NADAM_MOMENTUM_DECAY,
    NADAM_DECOUPLED_WEIGHT_DECAY,
    NADAM_MAXIMIZE
};

static bool check_nadam(const char *op, const double *o) {
    return check_adamax(op, o) && fai_at_least_0(op, "momentum_decay value", "momentum_decay", o[NADAM_MOMENTUM_DECAY]);
}

static int row_of_nadam(const double *o) {
    return o[NADAM_DECOUPLED_WEIGHT_DECAY] != 0 ? FAI_UPDATE_nadam_decoupled : FAI_UPDATE_nadam;
}

/* The momentum of a step, counted from 1. */
static double nadam_mu(const double *o, int64_t step) {
    return o[NADAM_BETA1] * (1 - 0.5 * pow(0.96, (double)step * o[NADAM_MOMENTUM_DECAY]));
}

static void begin_nadam(const double *o, double *kept) { (void)o, kept[0] = 1; }
static void advance_nadam(const double *o, int64_t steps, double *kept) { kept[0] = (float)kept[0] * (float)nadam_mu(o, steps); }

static void numbers_of_nadam(int row, const double *o, int64_t steps, const double *kept, double *f) {
    const double mu = nadam_mu(o, steps + 1), next = nadam_mu(o, steps + 2);
    double product[FAI_RULE_KEPT] = {kept[0]};
    advance_nadam(o, steps + 1, product);
    const double wd = o[NADAM_WEIGHT_DECAY];
    f[0] = row == FAI_UPDATE_nadam_decoupled ? 1 - o[NADAM_LR] * wd : wd;
    f[1] = o[NADAM_MAXIMIZE], f[2] = 1 - o[NADAM_BETA1], f[3] = 1 - o[NADAM_BETA2];
    f[4] = 1 - pow(o[NADAM_BETA2], (double)(steps + 1)), f[5] = o[NADAM_EPS];
    f[6] = o[NADAM_LR] * (1 - mu) / (1 - product[0]);
    f[7] = o[NADAM_LR] * next / (1 - product[0] * next);
}

const fai_rule fai_rule_nadam = {
    .name = "NAdam",
    .op = "nadam",
    .option = {"lr", "beta1", "beta2", "eps", "weight_decay", "momentum_decay", "decoupled_weight_decay", "maximize"},
    .widest = FAI_UPDATE_nadam,
    .ages = true,
    .counts = true,
    .check = check_nadam,
    .row = row_of_nadam,
    .numbers = numbers_of_nadam,
    .kept = {"mu_product"},
    .begin = begin_nadam,
    .advance = advance_nadam,
};

/* ---- RAdam ---- */

enum { RADAM_LR, RADAM_BETA1, RADAM_BETA2, RADAM_EPS, RADAM_WEIGHT_DECAY, RADAM_DECOUPLED_WEIGHT_DECAY, RADAM_MAXIMIZE };

static int row_of_radam(const double *o) {
    return o[RADAM_DECOUPLED_WEIGHT_DECAY] != 0 ? FAI_UPDATE_radam_decoupled : FAI_UPDATE_radam;
}

/* The variance's rectification, once there are enough steps to have one. */
static void numbers_of_radam(int row, const double *o, int64_t steps, const double *kept, double *f) {
    const double t = (double)(steps + 1), power = pow(o[RADAM_BETA2], t), most = 2 / (1 - o[RADAM_BETA2]) - 1;
    const double length = most - 2 * t * power / (1 - power), wd = o[RADAM_WEIGHT_DECAY];
    (void)kept;
    f[0] = row == FAI_UPDATE_radam_decoupled ? 1 - o[RADAM_LR] * wd : wd;
    f[1] = o[RADAM_MAXIMIZE], f[2] = 1 - o[RADAM_BETA1], f[3] = o[RADAM_BETA2], f[4] = 1 - o[RADAM_BETA2], f[5] = o[RADAM_EPS];
    f[6] = o[RADAM_LR] / (1 - pow(o[RADAM_BETA1], t));
    f[7] = length > 5;
    if (length > 5)
        f[6] *= sqrt((length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length)) * sqrt(1 - power);
}

const fai_rule fai_rule_radam = {
    .name = "RAdam",
    .op = "radam",
    .option = {"lr", "beta1", "beta2", "eps", "weight_decay", "decoupled_weight_decay", "maximize"},
    .widest = FAI_UPDATE_radam,
    .ages = true,
    .counts = true,
    .check = check_adamax,
    .row = row_of_radam,
    .numbers = numbers_of_radam,
};

/* ---- ASGD ---- */

enum { ASGD_LR, ASGD_LAMBD, ASGD_ALPHA, ASGD_T0, ASGD_WEIGHT_DECAY, ASGD_MAXIMIZE };

static bool check_asgd(const char *op, const double *o) {
    return fai_at_least_0(op, "learning rate", "lr", o[ASGD_LR]) &&
           fai_at_least_0(op, "weight_decay value", "weight_decay", o[ASGD_WEIGHT_DECAY]);
}

/* eta, mu */
static void begin_asgd(const double *o, double *kept) { kept[0] = (float)o[ASGD_LR], kept[1] = 1; }

static void advance_asgd(const double *o, int64_t steps, double *kept) {
    const double t = (double)steps;
    kept[0] = (float)(o[ASGD_LR] / pow(1 + o[ASGD_LAMBD] * o[ASGD_LR] * t, o[ASGD_ALPHA]));
    kept[1] = (float)(1 / fmax(1, t - o[ASGD_T0]));
}

static void numbers_of_asgd(int row, const double *o, int64_t steps, const double *kept, double *f) {
    (void)row, (void)steps;
    f[0] = kept[0], f[1] = o[ASGD_WEIGHT_DECAY], f[2] = o[ASGD_MAXIMIZE], f[3] = 1 - o[ASGD_LAMBD] * kept[0], f[4] = kept[1];
}

static int row_of_asgd(const double *o) { return (void)o, FAI_UPDATE_asgd; }

const fai_rule fai_rule_asgd = {
    .name = "ASGD",
    .op = "asgd",
    .option = {"lr", "lambd", "alpha", "t0", "weight_decay", "maximize"},
    .widest = FAI_UPDATE_asgd,
    .counts = true,
    .check = check_asgd,
    .row = row_of_asgd,
    .numbers = numbers_of_asgd,
    .kept = {"eta", "mu"},
    .begin = begin_asgd,
    .advance = advance_asgd,
};

/* ---- Rprop ---- */

enum { RPROP_LR, RPROP_ETA_MINUS, RPROP_ETA_PLUS, RPROP_STEP_SIZE_MIN, RPROP_STEP_SIZE_MAX, RPROP_MAXIMIZE };

static bool check_rprop(const char *op, const double *o) {
    const double minus = o[RPROP_ETA_MINUS], plus = o[RPROP_ETA_PLUS];
    if (!(minus > 0 && minus < 1 && plus > 1))
        return fai_fail(FA_ERR_VALUE, op, "Invalid eta values: %g, %g. 0 < eta_minus < 1 < eta_plus must hold.", minus, plus);
    return fai_at_least_0(op, "learning rate", "lr", o[RPROP_LR]);
}

/* prev, step_size */
static double initial_of_rprop(int state, const double *o) { return state == 1 ? o[RPROP_LR] : 0; }

static void numbers_of_rprop(int row, const double *o, int64_t steps, const double *kept, double *f) {
    (void)row, (void)steps, (void)kept;
    f[0] = o[RPROP_MAXIMIZE], f[1] = o[RPROP_ETA_MINUS], f[2] = o[RPROP_ETA_PLUS];
    f[3] = o[RPROP_STEP_SIZE_MIN], f[4] = o[RPROP_STEP_SIZE_MAX];
}

static int row_of_rprop(const double *o) { return (void)o, FAI_UPDATE_rprop; }

const fai_rule fai_rule_rprop = {
    .name = "Rprop",
    .op = "rprop",
    .option = {"lr", "eta_minus", "eta_plus", "step_size_min", "step_size_max", "maximize"},
    .widest = FAI_UPDATE_rprop,
    .counts = true,
    .check = check_rprop,
    .row = row_of_rprop,
    .numbers = numbers_of_rprop,
    .initial = initial_of_rprop,
};

/* ---- making them ---- */

typedef struct field {
    size_t at;
    bool is_switch;
} field;

/* options holds the defaults, of so many bytes. */
static void read_options(const void *given, void *options, size_t bytes, const field *fields, int n, double *o) {
    size_t have = 0;
    if (given) memcpy(&have, given, sizeof have);
    memcpy(options, given ? given : options, have < bytes ? have : bytes);
    for (int i = 0; i < n; i++) {
        const char *at = (const char *)options + fields[i].at;
        o[i] = fields[i].is_switch ? *(const bool *)at : *(const double *)at;
    }
}

#define NUMBER(rule, name)                                                                                                       \
    { offsetof(fa_##rule##_options, name), false }
#define SWITCH(rule, name)                                                                                                       \
    { offsetof(fa_##rule##_options, name), true }

/* The three public functions of a rule. */
#define PUBLIC(rule, defaults)                                                                                                   \
    fa_##rule##_options fa_##rule##_defaults(void) {                                                                             \
        return (fa_##rule##_options){.struct_size = sizeof(fa_##rule##_options), defaults};                                      \
    }                                                                                                                            \
    static void options_of_##rule(const fa_##rule##_options *given, double *o) {                                                 \
        fa_##rule##_options options = fa_##rule##_defaults();                                                                    \
        read_options(given, &options, sizeof options, rule##_fields, (int)(sizeof rule##_fields / sizeof(field)), o);            \
    }                                                                                                                            \
    fa_optimizer *fa_##rule##_with(fa_module *module, const fa_##rule##_options *options) {                                      \
        double o[FAI_RULE_OPTIONS] = {0};                                                                                        \
        options_of_##rule(options, o);                                                                                           \
        return fai_optimizer_over(&fai_rule_##rule, module, o);                                                                  \
    }                                                                                                                            \
    fa_optimizer *fa_##rule##_of_with(fa_tensor *const *parameters, int n, const fa_##rule##_options *options) {                 \
        double o[FAI_RULE_OPTIONS] = {0};                                                                                        \
        options_of_##rule(options, o);                                                                                           \
        return fai_optimizer_of(&fai_rule_##rule, parameters, n, o);                                                             \
    }

static const field rmsprop_fields[] = {
    NUMBER(rmsprop, lr), NUMBER(rmsprop, alpha), NUMBER(rmsprop, eps), NUMBER(rmsprop, weight_decay),
    NUMBER(rmsprop, momentum), SWITCH(rmsprop, centered), SWITCH(rmsprop, maximize)};
PUBLIC(rmsprop, FA_RMSPROP_DEFAULTS)

static const field adagrad_fields[] = {
    NUMBER(adagrad, lr), NUMBER(adagrad, lr_decay), NUMBER(adagrad, weight_decay), NUMBER(adagrad, initial_accumulator_value),
    NUMBER(adagrad, eps), SWITCH(adagrad, maximize)};
PUBLIC(adagrad, FA_ADAGRAD_DEFAULTS)

static const field adadelta_fields[] = {
    NUMBER(adadelta, lr), NUMBER(adadelta, rho), NUMBER(adadelta, eps), NUMBER(adadelta, weight_decay),
    SWITCH(adadelta, maximize)};
PUBLIC(adadelta, FA_ADADELTA_DEFAULTS)

static const field adamax_fields[] = {
    NUMBER(adamax, lr), NUMBER(adamax, beta1), NUMBER(adamax, beta2), NUMBER(adamax, eps), NUMBER(adamax, weight_decay),
    SWITCH(adamax, maximize)};
PUBLIC(adamax, FA_ADAMAX_DEFAULTS)

static const field nadam_fields[] = {
    NUMBER(nadam, lr), NUMBER(nadam, beta1), NUMBER(nadam, beta2), NUMBER(nadam, eps), NUMBER(nadam, weight_decay),
    NUMBER(nadam, momentum_decay), SWITCH(nadam, decoupled_weight_decay), SWITCH(nadam, maximize)};
PUBLIC(nadam, FA_NADAM_DEFAULTS)

static const field radam_fields[] = {
    NUMBER(radam, lr), NUMBER(radam, beta1), NUMBER(radam, beta2), NUMBER(radam, eps), NUMBER(radam, weight_decay),
    SWITCH(radam, decoupled_weight_decay), SWITCH(radam, maximize)};
PUBLIC(radam, FA_RADAM_DEFAULTS)

static const field asgd_fields[] = {
    NUMBER(asgd, lr), NUMBER(asgd, lambd), NUMBER(asgd, alpha), NUMBER(asgd, t0), NUMBER(asgd, weight_decay),
    SWITCH(asgd, maximize)};
PUBLIC(asgd, FA_ASGD_DEFAULTS)

static const field rprop_fields[] = {
    NUMBER(rprop, lr), NUMBER(rprop, eta_minus), NUMBER(rprop, eta_plus), NUMBER(rprop, step_size_min),
    NUMBER(rprop, step_size_max), SWITCH(rprop, maximize)};
PUBLIC(rprop, FA_RPROP_DEFAULTS)
