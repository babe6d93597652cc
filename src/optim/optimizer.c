/* The optimizer as an object: its groups, the parameters that it holds, options by name. */
#include "optim.h"
#include <math.h>
#include <string.h>

static void free_group(fai_group *g) {
    for (int i = 0; i < g->n; i++) {
        fai_unref(g->trained[i].p);
        for (int k = 0; k < FAI_RULE_STATES; k++) fai_unref(g->trained[i].state[k]);
    }
    for (int b = 0; b < g->nbatches; b++) fai_batch_free(g->batches[b], g->n);
    fai_free(FAI_TAG_OBJECT, g->batches, (size_t)g->nbatches * sizeof *g->batches);
    fai_free(FAI_TAG_OBJECT, g->trained, (size_t)g->n * sizeof *g->trained);
}

static void destroy_optimizer(void *object) {
    fa_optimizer *o = object;
    for (int i = 0; i < o->ngroups; i++) free_group(&o->groups[i]);
    fai_free(FAI_TAG_OBJECT, o->groups, (size_t)o->ngroups * sizeof *o->groups);
    fai_free(FAI_TAG_OBJECT, o, sizeof *o);
}

__attribute__((constructor)) static void set_up(void) { fai_set_destructor(FAI_OPTIMIZER, destroy_optimizer); }

bool fai_optimizer_check(const char *op, const fa_optimizer *o) {
    if (o) return FAI_LIKELY(!o->guarded) || fa_failed() || fai_captured_settle((fa_optimizer *)(uintptr_t)o);
    if (!fa_failed())
        fai_fail(FA_ERR_TYPE, op,
                 "argument 'optimizer' is NULL: an optimizer is needed, from fa_sgd(net, .lr = 0.1) for example");
    return false;
}

/* ---- groups ---- */

static bool is_trained(const fai_trained *trained, int n, const fa_tensor *p) {
    for (int i = 0; i < n; i++)
        if (trained[i].p == p) return true;
    return false;
}

static bool check_parameters(const char *op, const fa_optimizer *o, fa_tensor *const *parameters, int n) {
    if (n <= 0)
        return fai_fail(FA_ERR_VALUE, op,
                        "optimizer got an empty parameter list. There is nothing to train: has the module any parameters?");
    if (!parameters) return fai_fail(FA_ERR_TYPE, op, "argument 'parameters' is NULL: a list of %d tensors is needed", n);
    for (int i = 0; i < n; i++) {
        fa_tensor *p = parameters[i];
        if (!p) {
            if (!fa_failed())
                fai_fail(FA_ERR_TYPE, op, "optimizer can only optimize Tensors, but one of the params is NULL: number %d of %d",
                         i, n);
            return false;
        }
        if (p->node && !FAI_HAS(p, FAI_RETAIN_GRAD)) {
            char found[160];
            fai_describe(p, found, sizeof found);
            return fai_fail(
                FA_ERR_VALUE, op,
                "can't optimize a non-leaf Tensor. Parameter %d is a %s that an operator made (%s); give the tensor that "
                "it was made from, or a copy of its own: fa_requires_grad(fa_detach(t), true).",
                i, found, fa_grad_fn_name(p));
        }
        for (int k = 0; k < o->ngroups; k++)
            if (is_trained(o->groups[k].trained, o->groups[k].n, p))
                return fai_fail(
                    FA_ERR_VALUE, op,
                    "some parameters appear in more than one parameter group: parameter %d of the new group is in group %d", i,
                    k);
    }
    return true;
}

/* Fills an empty group. A tensor that comes twice is trained once. */
static bool fill_group(const char *op, fai_group *g, fa_tensor *const *parameters, int n) {
    int count = 0;
    for (int i = 0; i < n; i++) {
        bool again = false;
        for (int k = 0; k < i && !again; k++) again = parameters[k] == parameters[i];
        count += !again;
    }
    if (count < n)
        fai_warn(op, "optimizer contains a parameter group with duplicate parameters; in future, this will cause an error; see "
                     "github.com/pytorch/pytorch/issues/40967 for more information");
    g->trained = count ? fai_calloc(FAI_TAG_OBJECT, (size_t)count * sizeof *g->trained) : NULL;
    if (count && !g->trained) return fai_fail_memory(op, (size_t)count * sizeof *g->trained);
    for (int i = 0; i < n; i++)
        if (!is_trained(g->trained, g->n, parameters[i])) g->trained[g->n++].p = fai_ref(parameters[i]);
    return true;
}

static bool append_group(const char *op, fa_optimizer *o, fai_group *g, const double *option) {
    memcpy(g->option, option, sizeof g->option);
    const size_t old = (size_t)o->ngroups * sizeof *g;
    fai_group *groups = fai_realloc(FAI_TAG_OBJECT, o->groups, old, old + sizeof *g);
    if (!groups) {
        free_group(g);
        return fai_fail_memory(op, old + sizeof *g);
    }
    o->groups = groups;
    o->groups[o->ngroups++] = *g;
    return true;
}

static bool add_group(const char *op, fa_optimizer *o, fa_tensor *const *parameters, int n, const double *option) {
    fai_group g = {.initial_lr = NAN};
    return check_parameters(op, o, parameters, n) && fill_group(op, &g, parameters, n) && append_group(op, o, &g, option);
}

fa_optimizer *fai_optimizer_new(const fai_rule *rule) {
    fa_optimizer *o = fai_calloc(FAI_TAG_OBJECT, sizeof *o);
    if (!o) return fai_fail_memory(rule->op, sizeof *o);
    fai_object_init(o, FAI_OPTIMIZER);
    o->rule = rule;
    return fai_scope_add(o, rule->op) ? o : NULL;
}

bool fai_optimizer_add(fa_optimizer *o, fa_tensor *const *parameters, int n, const double *option) {
    fai_group g = {.initial_lr = NAN};
    return fill_group(o->rule->op, &g, parameters, n) && append_group(o->rule->op, o, &g, option);
}

fa_optimizer *fai_optimizer_of(const fai_rule *rule, fa_tensor *const *parameters, int n, const double *option) {
    fa_optimizer *o = rule->check(rule->op, option) ? fai_optimizer_new(rule) : NULL;
    if (o && add_group(rule->op, o, parameters, n, option)) return o;
    fa_drop(o);
    return NULL;
}

fa_optimizer *fai_optimizer_over(const fai_rule *rule, fa_module *module, const double *option) {
    if (!module) {
        if (!fa_failed())
            fai_fail(FA_ERR_TYPE, rule->op,
                     "argument 'module' is NULL: a module is needed; for a list of tensors there is fa_%s_of", rule->op);
        return NULL;
    }
    const int n = fa_parameters(module, NULL, NULL, 0); /* not less than there are: without a list, shared ones count again */
    const size_t bytes = (size_t)n * sizeof(fa_tensor *);
    fa_tensor **parameters = bytes ? fai_alloc(FAI_TAG_OBJECT, bytes) : NULL;
    if (bytes && !parameters) return fai_fail_memory(rule->op, bytes);
    const int count = n ? fa_parameters(module, parameters, NULL, n) : 0;
    fa_optimizer *o = fai_optimizer_of(rule, parameters, count, option);
    fai_free(FAI_TAG_OBJECT, parameters, bytes);
    return o;
}

int fa_add_group(fa_optimizer *o, fa_tensor *const *parameters, int n) {
    if (!fai_optimizer_check("add_group", o) || fai_refuse_pending("add_group")) return -1;
    return add_group("add_group", o, parameters, n, o->groups[0].option) ? o->ngroups - 1 : -1;
}

int fa_group_count(const fa_optimizer *o) { return o ? o->ngroups : 0; }

int fai_rule_pair(const char *option, const char **pair) {
    static const struct {
        const char *option, *pair;
        int part;
    } pairs[] = {{"beta1", "betas", 0},        {"beta2", "betas", 1},        {"eta_minus", "etas", 0}, {"eta_plus", "etas", 1},
                 {"step_size_min", "step_sizes", 0}, {"step_size_max", "step_sizes", 1}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        if (strcmp(option, pairs[i].option) != 0) continue;
        *pair = pairs[i].pair;
        return pairs[i].part;
    }
    return -1;
}

void fai_rule_slots(const fai_rule *rule, int row, int slot[FAI_RULE_STATES]) {
    for (int k = 0, at = 0; k < fai_updates[row].nstate; k++, at = 0) {
        while (strcmp(fai_updates[rule->widest].state[at], fai_updates[row].state[k]) != 0) at++;
        slot[k] = at;
    }
}

/* ---- options ---- */

int fai_rule_option(const fai_rule *rule, const char *name) {
    for (int i = 0; i < FAI_RULE_OPTIONS && rule->option[i]; i++)
        if (strcmp(rule->option[i], name) == 0) return i;
    return -1;
}

/* The option's number; -1 with an error. */
static int find_option(const char *op, const fa_optimizer *o, int group, const char *name) {
    char have[160] = "";
    if (!fai_optimizer_check(op, o)) return -1;
    if (!name) return fai_fail(FA_ERR_TYPE, op, "argument 'name' is NULL: the name of an option is needed"), -1;
    if (group < -1 || group >= o->ngroups)
        return fai_fail(FA_ERR_INDEX, op, "group %d is out of range: there are %d, counted from 0; -1 stands for all", group,
                        o->ngroups),
               -1;
    const int at = fai_rule_option(o->rule, name);
    if (at >= 0) return at;
    for (int i = 0; i < FAI_RULE_OPTIONS && o->rule->option[i]; i++)
        snprintf(have + strlen(have), sizeof have - strlen(have), "%s%s", i ? ", " : "", o->rule->option[i]);
    return fai_fail(FA_ERR_KEY, op, "'%.60s' is no option of %s, which has %s", name, o->rule->name, have), -1;
}

bool fa_set_option(fa_optimizer *o, int group, const char *name, double value) {
    if (fai_refuse_pending("set_option")) return false;
    const int at = find_option("set_option", o, group, name);
    if (at < 0) return false;
    const int begin = group < 0 ? 0 : group, end = group < 0 ? o->ngroups : group + 1;
    for (int i = begin; i < end; i++) { /* all are checked before the first is changed */
        double option[FAI_RULE_OPTIONS];
        memcpy(option, o->groups[i].option, sizeof option);
        option[at] = value;
        if (!o->rule->check("set_option", option)) return false;
    }
    for (int i = begin; i < end; i++) o->groups[i].option[at] = value;
    return true;
}

double fa_get_option(const fa_optimizer *o, int group, const char *name) {
    const int at = find_option("get_option", o, group, name);
    return at < 0 ? 0 : o->groups[group < 0 ? 0 : group].option[at];
}

bool fa_zero_grad(fa_optimizer *o) {
    if (!fai_optimizer_check("zero_grad", o) || fai_refuse_pending("zero_grad")) return false;
    for (int k = 0; k < o->ngroups; k++)
        for (int i = 0; i < o->groups[k].n; i++) {
            fa_tensor *p = o->groups[k].trained[i].p, *grad = p->grad;
            p->grad = NULL;
            fai_unref(grad);
        }
    return true;
}
