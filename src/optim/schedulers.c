/* Schedules of the learning rate. Each computes the next rate from the present one, as torch's do: a rate that somebody sets
 * in between goes on from there, and the sequences agree to the last bit. */
#include "optim.h"
#include <math.h>

typedef struct schedule_rule {
    const char *op;
    /* the rate of a group at the scheduler's new epoch; epoch 0 is that of making the scheduler */
    double (*next)(const fa_scheduler *s, double lr, double initial);
} schedule_rule;

struct fa_scheduler {
    fai_object object;
    const schedule_rule *rule;
    fa_optimizer *optimizer;
    int64_t epoch, period; /* period: step_size, t_max */
    double gamma, eta_min;
    double (*factor)(int64_t epoch, void *data);
    void *data;
    uint64_t steps; /* the optimizer's when the scheduler was made */
};

static void destroy_scheduler(void *object) {
    fa_scheduler *s = object;
    fai_unref(s->optimizer);
    fai_free(FAI_TAG_OBJECT, s, sizeof *s);
}

__attribute__((constructor)) static void set_up(void) { fai_set_destructor(FAI_SCHEDULER, destroy_scheduler); }

static double next_step(const fa_scheduler *s, double lr, double initial) {
    (void)initial;
    return s->epoch > 0 && s->epoch % s->period == 0 ? lr * s->gamma : lr;
}

static double next_exponential(const fa_scheduler *s, double lr, double initial) {
    (void)initial;
    return s->epoch > 0 ? lr * s->gamma : lr;
}

/* Follows eta_min + (initial - eta_min) (1 + cos(pi epoch / t_max)) / 2, by the ratio of neighbours; where that is 0 / 0, by the
 * difference. */
static double next_cosine(const fa_scheduler *s, double lr, double initial) {
    const double pi = 3.14159265358979323846, length = (double)s->period, epoch = (double)s->epoch;
    if (s->epoch == 0) return lr;
    if ((s->epoch - 1 - s->period) % (2 * s->period) == 0) return lr + (initial - s->eta_min) * (1 - cos(pi / length)) / 2;
    return (1 + cos(pi * epoch / length)) / (1 + cos(pi * (epoch - 1) / length)) * (lr - s->eta_min) + s->eta_min;
}

static double next_lambda(const fa_scheduler *s, double lr, double initial) {
    (void)lr;
    return initial * s->factor(s->epoch, s->data);
}

static const schedule_rule step_rule = {"step_lr", next_step}, exponential_rule = {"exponential_lr", next_exponential},
                           cosine_rule = {"cosine_lr", next_cosine}, lambda_rule = {"lambda_lr", next_lambda};

static void set_rates(fa_scheduler *s) {
    const int lr = fai_rule_option(s->optimizer->rule, "lr");
    for (int k = 0; k < s->optimizer->ngroups; k++) {
        fai_group *g = &s->optimizer->groups[k];
        if (isnan(g->initial_lr)) g->initial_lr = g->option[lr]; /* also of groups that came later */
        g->option[lr] = s->rule->next(s, g->option[lr], g->initial_lr);
    }
}

static fa_scheduler *make(fa_optimizer *optimizer, fa_scheduler made) {
    const char *op = made.rule->op;
    if (!fai_optimizer_check(op, optimizer) || fai_refuse_pending(op)) return NULL;
    fa_scheduler *s = fai_alloc(FAI_TAG_OBJECT, sizeof *s);
    if (!s) return fai_fail_memory(op, sizeof *s);
    *s = made;
    fai_object_init(s, FAI_SCHEDULER);
    s->optimizer = fai_ref(optimizer);
    s->steps = optimizer->steps;
    if (!fai_scope_add(s, op)) return NULL;
    set_rates(s);
    return s;
}

fa_scheduler *fa_step_lr(fa_optimizer *optimizer, int64_t step_size, double gamma) {
    if (step_size < 1)
        return fai_fail(FA_ERR_VALUE, "step_lr", "step_size must be a positive number of epochs, but got %lld",
                        (long long)step_size);
    return make(optimizer, (fa_scheduler){.rule = &step_rule, .period = step_size, .gamma = gamma});
}

fa_scheduler *fa_exponential_lr(fa_optimizer *optimizer, double gamma) {
    return make(optimizer, (fa_scheduler){.rule = &exponential_rule, .gamma = gamma});
}

fa_scheduler *fa_cosine_lr(fa_optimizer *optimizer, int64_t t_max, double eta_min) {
    if (t_max < 1 || t_max > INT64_MAX / 4)
        return fai_fail(FA_ERR_VALUE, "cosine_lr", "t_max must be a positive number of epochs, but got %lld", (long long)t_max);
    return make(optimizer, (fa_scheduler){.rule = &cosine_rule, .period = t_max, .eta_min = eta_min});
}

fa_scheduler *fa_lambda_lr(fa_optimizer *optimizer, double (*factor)(int64_t epoch, void *data), void *data) {
    if (!factor)
        return fai_fail(FA_ERR_TYPE, "lambda_lr",
                        "argument 'factor' is NULL: a function is needed that gives the factor of an epoch");
    return make(optimizer, (fa_scheduler){.rule = &lambda_rule, .factor = factor, .data = data});
}

static bool check_scheduler(const char *op, const fa_scheduler *s) {
    if (s) return true;
    if (!fa_failed())
        fai_fail(FA_ERR_TYPE, op,
                 "argument 'scheduler' is NULL: a scheduler is needed, from fa_step_lr(optimizer, 30, 0.1) for example");
    return false;
}

bool fa_schedule_step(fa_scheduler *s) {
    if (!check_scheduler("schedule_step", s) || fai_refuse_pending("schedule_step")) return false;
    if (s->epoch == 0 && s->optimizer->steps == s->steps)
        fai_warn("schedule_step",
                 "Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch 1.1.0 and later, you should call "
                 "them in "
                 "the opposite order: `optimizer.step()` before `lr_scheduler.step()`.  Failure to do this will result in "
                 "PyTorch skipping the first "
                 "value of the learning rate schedule. In C: fa_step(optimizer), then fa_schedule_step(scheduler).");
    s->epoch++;
    set_rates(s);
    return true;
}

double fa_last_lr(const fa_scheduler *s) {
    return check_scheduler("last_lr", s) ? s->optimizer->groups[0].option[fai_rule_option(s->optimizer->rule, "lr")] : 0;
}

int64_t fa_schedule_epoch(const fa_scheduler *s) { return s ? s->epoch : 0; }

bool fa_schedule_resume(fa_scheduler *s, int64_t epoch) {
    if (!check_scheduler("schedule_resume", s) || fai_refuse_pending("schedule_resume")) return false;
    if (epoch < 0) return fai_fail(FA_ERR_VALUE, "schedule_resume", "epoch must not be negative, but got %lld", (long long)epoch);
    s->epoch = epoch;
    if (s->rule == &lambda_rule) set_rates(s); /* the others' present rate is part of the optimizer's state */
    return true;
}
