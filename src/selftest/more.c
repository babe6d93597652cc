/* What the tables of operators do not have: rules of optimizers, and random numbers, which are other ones on each kind of
 * device but have to be the same by seed and of the right moments. */
#include "selftest.h"
#include <facula.h>
#include <math.h>

/* ---- optimizers: three steps of one parameter ---- */

static fa_tensor *parameter(fa_device device, fa_dtype dtype) {
    double values[37];
    for (int i = 0; i < 37; i++) values[i] = sin(i) * 2;
    return fa_requires_grad(fa_to(fa_cast(fa_from_data(values, FA_FLOAT64, FA_SHAPE(37), .device = FA_CPU), dtype), device),
                            true);
}

static fa_tensor *steps(fa_optimizer *optimizer, fa_tensor *p) {
    for (int i = 1; i <= 3 && !fa_failed(); i++) {
        fa_zero_grad(optimizer);
        fa_backward(fa_sum(fa_mul(fa_sin(p), fa_mul_scalar(p, i))));
        fa_step(optimizer);
    }
    return fa_detach(p);
}

#define RULE(name, call)                                                                                                         \
    static fa_tensor *run_##name(fa_device device, fa_dtype dtype) {                                                             \
        fa_tensor *p = parameter(device, dtype);                                                                                 \
        return p ? steps(call, p) : NULL;                                                                                        \
    }
RULE(sgd, fa_sgd_of(&p, 1, .lr = 0.1))
RULE(sgd_momentum, fa_sgd_of(&p, 1, .lr = 0.1, .momentum = 0.9, .nesterov = true))
RULE(adam, fa_adam_of(&p, 1, .lr = 0.1))
RULE(adam_amsgrad, fa_adam_of(&p, 1, .lr = 0.1, .amsgrad = true))
RULE(adamw, fa_adamw_of(&p, 1, .lr = 0.1))
RULE(adamw_amsgrad, fa_adamw_of(&p, 1, .lr = 0.1, .amsgrad = true))
RULE(rmsprop, fa_rmsprop_of(&p, 1))
RULE(rmsprop_momentum, fa_rmsprop_of(&p, 1, .momentum = 0.9))
RULE(rmsprop_centered, fa_rmsprop_of(&p, 1, .centered = true))
RULE(rmsprop_all, fa_rmsprop_of(&p, 1, .centered = true, .momentum = 0.9))
RULE(adagrad, fa_adagrad_of(&p, 1))
RULE(adadelta, fa_adadelta_of(&p, 1))
RULE(adamax, fa_adamax_of(&p, 1))
RULE(nadam, fa_nadam_of(&p, 1))
RULE(nadam_decoupled, fa_nadam_of(&p, 1, .weight_decay = 0.1, .decoupled_weight_decay = true))
RULE(radam, fa_radam_of(&p, 1))
RULE(radam_decoupled, fa_radam_of(&p, 1, .weight_decay = 0.1, .decoupled_weight_decay = true))
RULE(asgd, fa_asgd_of(&p, 1))
RULE(rprop, fa_rprop_of(&p, 1))

/* ---- random numbers: mean and mean square, rounded so that chance does not show, then whether a seed repeats them ---- */

enum { DRAWN = 20000 };

static fa_tensor *draw(int what, fa_device device, fa_dtype dtype) {
    fa_manual_seed(11);
    if (what == 0) return fa_rand(FA_SHAPE(DRAWN), .device = device, .dtype = dtype);
    if (what == 1) return fa_randn(FA_SHAPE(DRAWN), .device = device, .dtype = dtype);
    if (what == 2) return fa_randint(0, 10, FA_SHAPE(DRAWN), .device = device, .dtype = dtype);
    if (what == 3) return fa_randperm(DRAWN, .device = device, .dtype = dtype);
    if (what == 4) return fa_dropout(fa_ones(FA_SHAPE(DRAWN), .device = device, .dtype = dtype), 0.25, true);
    return fa_bernoulli(fa_full(FA_SHAPE(DRAWN), 0.3, .device = device, .dtype = dtype), NULL);
}

static fa_tensor *draw_twice(int what, double scale, fa_device device, fa_dtype dtype) {
    fa_tensor *x = draw(what, device, dtype), *again = draw(what, device, dtype);
    fa_tensor *wide = fa_mul_scalar(fa_cast(x, FA_FLOAT32), 1 / scale);
    fa_tensor *moments[] = {fa_mean(wide), fa_mean(fa_mul(wide, wide)), fa_cast(fa_all(fa_eq(x, again)), FA_FLOAT32)};
    return fa_round(fa_mul_scalar(fa_stack(moments, 3, 0), 8)); /* eighths: what chance does with one seed stays within them */
}
static fa_tensor *run_rand(fa_device device, fa_dtype dtype) { return draw_twice(0, 1, device, dtype); }
static fa_tensor *run_randn(fa_device device, fa_dtype dtype) { return draw_twice(1, 1, device, dtype); }
static fa_tensor *run_randint(fa_device device, fa_dtype dtype) { return draw_twice(2, 10, device, dtype); }
static fa_tensor *run_randperm(fa_device device, fa_dtype dtype) {
    (void)dtype;
    return fa_sort(draw(3, device, FA_INT64), 0, false, NULL);
}
static fa_tensor *run_dropout(fa_device device, fa_dtype dtype) { return draw_twice(4, 1, device, dtype); }
static fa_tensor *run_bernoulli(fa_device device, fa_dtype dtype) { return draw_twice(5, 1, device, dtype); }

#define MORE(family, name) {family, #name, run_##name},
const fai_more fai_mores[] = {
    MORE("optimizers", sgd) MORE("optimizers", sgd_momentum) MORE("optimizers", adam) MORE("optimizers", adam_amsgrad)
        MORE("optimizers", adamw) MORE("optimizers", adamw_amsgrad) MORE("optimizers", rmsprop)
            MORE("optimizers", rmsprop_momentum) MORE("optimizers", rmsprop_centered) MORE("optimizers", rmsprop_all)
                MORE("optimizers", adagrad) MORE("optimizers", adadelta) MORE("optimizers", adamax) MORE("optimizers", nadam)
                    MORE("optimizers", nadam_decoupled) MORE("optimizers", radam) MORE("optimizers", radam_decoupled)
                        MORE("optimizers", asgd) MORE("optimizers", rprop) MORE("random numbers", rand)
                            MORE("random numbers", randn) MORE("random numbers", randint) MORE("random numbers", randperm)
                                MORE("random numbers", dropout) MORE("random numbers", bernoulli)};
const int fai_more_count = sizeof fai_mores / sizeof *fai_mores;
