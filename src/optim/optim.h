/* Floor 5, optimizers: groups of parameters, what is kept for each of them, and the rule that all of them follow.
 *
 * A rule is a row of optim.tab (or several that belong together, as adam and adam_amsgrad) with its options. A step collects the
 * parameters that have a gradient into batches of one dtype, device and age, and gives each batch to one kernel. */
#ifndef FAI_OPTIM_H
#define FAI_OPTIM_H

#include "../autograd/autograd.h"
#include <fa_optim.h>

enum { FAI_RULE_OPTIONS = 8, FAI_RULE_STATES = 3, FAI_RULE_KEPT = 2, FAI_RULE_TABLES = 2 + FAI_RULE_STATES };

typedef struct fai_rule {
    const char *name;                     /* "Adam" */
    const char *op;                       /* "adam": who errors of making one name */
    const char *option[FAI_RULE_OPTIONS]; /* names, in the order of an array of options; NULL after the last */
    int widest;                           /* the row with all states that may be there: FAI_UPDATE_... */
    bool ages;                            /* the numbers of a step depend on how many there were, not only on the first */
    bool counts;                          /* PyTorch's state has the number of steps too, as "step" */
    bool (*check)(const char *op, const double *option);
    int (*row)(const double *option);
    /* The row's hyper numbers; steps: made before. */
    void (*numbers)(int row, const double *option, int64_t steps, const double *kept, double *f);
    double (*initial)(int state, const double *option); /* what fills a state of the widest row at first; NULL: 0 */
    /* Numbers that depend on the options of all steps before, and so are kept for each parameter, rounded to float32 as in
     * PyTorch: their names, what they begin with, and what they become after a step. */
    const char *kept[FAI_RULE_KEPT];
    void (*begin)(const double *option, double *kept);
    void (*advance)(const double *option, int64_t steps, double *kept);
} fai_rule;
extern const fai_rule fai_rule_sgd, fai_rule_adam, fai_rule_adamw, fai_rule_rmsprop, fai_rule_adagrad, fai_rule_adadelta,
    fai_rule_adamax, fai_rule_nadam, fai_rule_radam, fai_rule_asgd, fai_rule_rprop;

/* A parameter and what is kept for it. States are contiguous, on the parameter's device, in its dtype. */
typedef struct fai_trained {
    fa_tensor *p;
    fa_tensor *state[FAI_RULE_STATES]; /* in the order of the widest row; NULL until they are needed */
    int64_t steps;                     /* made with states */
    double kept[FAI_RULE_KEPT];
    uint64_t graph;                    /* the capture that it was stepped in last, and how often there */
    int in_graph;
    fa_tensor *work, *grad;            /* within a step: the copy in C order that is updated instead of p; the gradient in C order */
} fai_trained;

/* One launch: the parameters in it, and their addresses as the kernel reads them, one table for each operand. */
typedef struct fai_batch {
    fa_device device;
    fa_dtype dtype;
    int64_t age;
    int ahead;                         /* steps of the same capture that come before */
    double kept[FAI_RULE_KEPT];
    int count, *member;                /* numbers of parameters in the group */
    fa_table_entry *entries;           /* FAI_RULE_TABLES tables, each with room for the group; on the host */
    fa_tensor *table[FAI_RULE_TABLES]; /* the same, where the kernel finds them */
    bool changed;                      /* since the tables were uploaded */
    int64_t most;                      /* elements of the largest parameter */
    int nobjects;                      /* where tables may lead to a few memory objects only: these */
    int64_t object[FA_PLAN_OBJECTS];
} fai_batch;

typedef struct fai_group {
    fai_trained *trained;
    int n;
    double option[FAI_RULE_OPTIONS];
    double initial_lr;   /* what schedules start from; NaN until there is one */
    fai_batch **batches; /* kept from step to step */
    int nbatches, used;
} fai_group;

struct fa_optimizer {
    fai_object object;
    const fai_rule *rule;
    fai_group *groups;
    int ngroups;
    uint64_t steps, replayed; /* by fa_step; by graphs */
    /* Whoever keeps the options elsewhere brings them here before a replay; NULL: nobody. */
    bool (*refresh)(fa_optimizer *o, void *context);
    void *refresher;
    fa_tensor *guard;                 /* a captured step is made only where this bool of the device is true; NULL: always */
    struct fai_captured *guarded;     /* such steps, whose replays count when the bool is known */
};

/* ---- optimizer.c ---- */
fa_optimizer *fai_optimizer_of(const fai_rule *rule, fa_tensor *const *parameters, int n, const double *option);
fa_optimizer *fai_optimizer_over(const fai_rule *rule, fa_module *module, const double *option);
fa_optimizer *fai_optimizer_new(const fai_rule *rule); /* without groups; belongs to the scope */
/* One more group, which may be empty; parameters are not checked. */
bool fai_optimizer_add(fa_optimizer *o, fa_tensor *const *parameters, int n, const double *option);
bool fai_optimizer_check(const char *op, const fa_optimizer *o); /* not NULL; an error unless one is pending */
int fai_rule_option(const fai_rule *rule, const char *name);     /* its number, or -1 */
/* Options that PyTorch has in pairs: "betas" for beta1 and beta2. The option's place in it, or -1: it stands for itself. */
int fai_rule_pair(const char *option, const char **pair);
void fai_rule_slots(const fai_rule *rule, int row, int slot[FAI_RULE_STATES]); /* where a parameter keeps the row's states */
static inline int fai_rule_states(const fai_rule *rule) { return fai_updates[rule->widest].nstate; }

/* ---- rules.c: checks that rules have in common. NaN is no number either. ---- */
bool fai_at_least_0(const char *op, const char *words, const char *option, double value);
bool fai_check_beta(const char *op, int i, double beta);

/* ---- scaler.c: for optimizers of any kind, known by a key; their gradients are those of parameters[0 .. n) ---- */
bool fai_scaler_unscale(const char *op, fa_grad_scaler *s, const void *key, fa_tensor *const *parameters, int n);
bool fai_scaler_finite(const char *op, fa_grad_scaler *s, const void *key, bool *finite); /* after unscale; waits */
/* In a capture: the bool that the step of the optimizer depends on then; else NULL, which is no error. */
fa_tensor *fai_scaler_guard(const char *op, fa_grad_scaler *s, const void *key);
bool fai_scaler_is_unscaled(const char *op, const fa_grad_scaler *s, const void *key, bool *unscaled); /* false and an error: it stepped already */
void fai_scaler_stepped(fa_grad_scaler *s, const void *key);

/* ---- captured.c: a step that goes into a graph ---- */
/* What the kernel finds its numbers in: filled anew at each replay, which is when the parameters of the batch make their step.
 * NULL and an error. Borrowed from the scope. */
fa_tensor *fai_captured_numbers(fa_optimizer *o, int group, int row, const fai_batch *b);
/* Counts what replays of guarded steps did, which it waits for. */
bool fai_captured_settle(fa_optimizer *o);
/* Bools of a device that tell after a replay whether all gradients were finite. */
enum { FAI_ASKED = 16 };
typedef struct fai_asked {
    fa_tensor *fine[FAI_ASKED];
    int n;
    bool pending;        /* a replay has begun, and nobody has looked yet */
    fa_stream stream;    /* of that replay */
} fai_asked;
void fai_asked_add(fai_asked *a, fa_tensor *fine);
void fai_asked_begin(fai_asked *a);
bool fai_asked_answer(fai_asked *a, bool *finite); /* waits for the replay; a capture under way does not mind */
void fai_asked_end(fai_asked *a);
bool fai_captured_hold(const fai_batch *b, const fa_tensor *t, bool writes); /* the graph keeps what the tables point to */

/* ---- step.c ---- */
void fai_batch_free(fai_batch *batch, int room);
void fai_trained_count(const fai_rule *rule, const fai_group *g, int row, fai_trained *t); /* what a step leaves besides the parameter */
void fai_trained_step(const fai_rule *rule, const fai_group *g, int row, fai_trained *t); /* it was made: what is counted goes on */

#endif
