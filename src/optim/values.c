/* An optimizer's state in the structure that torch.optim gives it, so that checkpoints go both ways:
 *
 *     {"state": {0: {"step": tensor, "exp_avg": tensor, ...}, ...},
 *      "param_groups": [{"lr": 0.001, "betas": (0.9, 0.999), ..., "params": [0, 1]}]}
 *
 * It is made of, and becomes again, the named tensors of state.c, which checks everything and changes nothing before. */
#include "optim.h"
#include <fa_io.h>
#include <math.h>
#include <string.h>

#define OP_SAVE "optimizer_value"
#define OP_LOAD "load_optimizer_value"

typedef char entry_name[80];

/* ---- saving ---- */

/* Options that are numbers here and bools there. */
static bool is_switch(const char *option) {
    static const char *const switches[] = {"nesterov", "maximize", "amsgrad", "centered", "decoupled_weight_decay"};
    for (size_t i = 0; i < sizeof switches / sizeof *switches; i++)
        if (strcmp(option, switches[i]) == 0) return true;
    return false;
}

static bool add_options(fa_values *s, fa_value *group, const fai_rule *rule, const fai_group *g) {
    bool ok = true;
    for (int i = 0; ok && i < FAI_RULE_OPTIONS && rule->option[i]; i++) {
        const char *name = rule->option[i], *pair = NULL;
        const int part = fai_rule_pair(name, &pair);
        if (part == 0) {
            fa_value *both = fa_values_container(s, FA_VALUE_TUPLE);
            ok = fa_value_append(both, fa_values_float(s, g->option[i])) &&
                 fa_value_append(both, fa_values_float(s, g->option[i + 1])) && fa_value_set(group, pair, both);
        } else if (part < 0) {
            ok = fa_value_set(group, name,
                              is_switch(name) ? fa_values_bool(s, g->option[i] != 0) : fa_values_float(s, g->option[i]));
        }
    }
    return ok;
}

/* What PyTorch's optimizers have beside, with its defaults: how steps are computed, which is each library's own affair. */
static bool add_ways(fa_values *s, fa_value *group, const fai_rule *rule) {
    const bool adam = rule == &fai_rule_adam || rule == &fai_rule_adamw;
    const bool fused = adam || rule == &fai_rule_sgd || rule == &fai_rule_adagrad;
    const bool capturable = rule != &fai_rule_sgd && rule != &fai_rule_adagrad;
    return fa_value_set(group, "foreach", fa_values_none(s)) &&
           (!capturable || fa_value_set(group, "capturable", fa_values_bool(s, false))) &&
           fa_value_set(group, "differentiable", fa_values_bool(s, false)) &&
           (!fused || fa_value_set(group, "fused", fa_values_none(s))) &&
           (!adam || fa_value_set(group, "decoupled_weight_decay", fa_values_bool(s, strcmp(rule->name, "AdamW") == 0)));
}

static bool add_group(fa_values *s, fa_value *groups, const fai_rule *rule, const fai_group *g, int64_t first) {
    fa_value *group = fa_values_container(s, FA_VALUE_DICT), *ids = fa_values_container(s, FA_VALUE_LIST);
    bool ok = add_options(s, group, rule, g) && add_ways(s, group, rule);
    ok = ok && (isnan(g->initial_lr) || fa_value_set(group, "initial_lr", fa_values_float(s, g->initial_lr)));
    for (int i = 0; ok && i < g->n; i++) ok = fa_value_append(ids, fa_values_int(s, first + i));
    return ok && fa_value_set(group, "params", ids) && fa_value_append(groups, group);
}

/* A number as a float32 tensor, as there. */
static bool add_single(fa_values *s, fa_value *one, const char *name, double value) {
    return fa_value_set(one, name, fa_values_tensor(s, fa_full(FA_SHAPE_0D, value, .dtype = FA_FLOAT32, .device = FA_CPU)));
}

static bool add_trained(fa_values *s, fa_value *state, const fai_rule *rule, const fai_trained *t, int64_t id) {
    if (t->steps == 0) return true;
    fa_value *one = fa_values_container(s, FA_VALUE_DICT);
    if (rule->counts && !add_single(s, one, "step", (double)t->steps)) return false;
    for (int k = 0; k < FAI_RULE_KEPT && rule->kept[k]; k++)
        if (!add_single(s, one, rule->kept[k], t->kept[k])) return false;
    for (int k = 0; k < fai_rule_states(rule); k++)
        if (t->state[k] && !fa_value_set(one, fai_updates[rule->widest].state[k], fa_values_tensor(s, t->state[k]))) return false;
    return fa_value_length(one) == 0 || fa_value_put(state, fa_values_int(s, id), one);
}

fa_value *fa_optimizer_value(fa_values *s, fa_optimizer *o) {
    if (!fai_optimizer_check(OP_SAVE, o) || !s) return NULL;
    FA_SCOPE;
    fa_value *root = fa_values_container(s, FA_VALUE_DICT), *state = fa_values_container(s, FA_VALUE_DICT);
    fa_value *groups = fa_values_container(s, FA_VALUE_LIST);
    int64_t id = 0, first = 0;
    for (int k = 0; k < o->ngroups; k++)
        for (int i = 0; i < o->groups[k].n; i++)
            if (!add_trained(s, state, o->rule, &o->groups[k].trained[i], id++)) return NULL;
    for (int k = 0; k < o->ngroups; first += o->groups[k++].n)
        if (!add_group(s, groups, o->rule, &o->groups[k], first)) return NULL;
    return fa_value_set(root, "state", state) && fa_value_set(root, "param_groups", groups) ? root : NULL;
}

/* ---- loading ---- */

static bool wrong(const char *what) {
    return fai_fail(FA_ERR_VALUE, OP_LOAD, "%s: this is no state of an optimizer as torch.optim or fa_optimizer_value makes it",
                    what);
}

/* A number, or a tensor of one. */
static bool number_of(const fa_value *v, double *out) {
    const fa_value_kind kind = fa_value_kind_of(v);
    if (kind == FA_VALUE_TENSOR && fa_numel(fa_value_tensor(v)) == 1) return fa_to_data(fa_value_tensor(v), out, FA_FLOAT64);
    if (kind != FA_VALUE_FLOAT && kind != FA_VALUE_INT && kind != FA_VALUE_BOOL) return wrong("a number is none");
    *out = fa_value_float(v);
    return true;
}

static bool add_number(fa_tensors *out, const char *name, double value) {
    return fa_tensors_add(out, name, fa_full(FA_SHAPE_0D, value, .dtype = FA_FLOAT64, .device = FA_CPU));
}

static bool take_option(fa_tensors *out, const fa_value *group, int k, const char *option) {
    entry_name name;
    double value = 0;
    const char *pair = NULL;
    const int part = fai_rule_pair(option, &pair);
    const fa_value *v = fa_value_find(group, part < 0 ? option : pair);
    if (part >= 0) {
        if (fa_value_kind_of(v) != FA_VALUE_TUPLE || fa_value_length(v) != 2)
            return wrong("\"betas\" is no tuple of two numbers");
        v = fa_value_item(v, part);
    }
    if (!v && !is_switch(option)) return true; /* what is missing is told by state.c; older files lack switches */
    snprintf(name, sizeof name, "group.%d.%s", k, option);
    return (!v || number_of(v, &value)) && add_number(out, name, value);
}

static bool take_state(fa_tensors *out, const fa_value *one, int64_t id) {
    entry_name name;
    double steps = 1; /* of rules that don't count them: there was one */
    const fa_value *step = fa_value_find(one, "step");
    if (step && !number_of(step, &steps)) return false;
    bool any = false;
    for (int64_t i = 0; i < fa_value_length(one); i++) {
        const fa_value *key = fa_value_key(one, i), *v = fa_value_item(one, i);
        if (v == step || fa_value_kind_of(v) == FA_VALUE_NONE) continue;
        if (fa_value_kind_of(key) != FA_VALUE_TEXT || fa_value_kind_of(v) != FA_VALUE_TENSOR)
            return wrong("a parameter's state is no tensor");
        snprintf(name, sizeof name, "%lld.%.50s", (long long)id, fa_value_text(key, NULL));
        if (!fa_tensors_add(out, name, fa_value_tensor(v))) return false;
        any = true;
    }
    if (!any && !step) return true;
    snprintf(name, sizeof name, "%lld.step", (long long)id);
    return fa_tensors_add(out, name, fa_full(FA_SHAPE_0D, (int64_t)steps, .dtype = FA_INT64, .device = FA_CPU));
}

static bool take_group(fa_tensors *out, const fai_rule *rule, const fa_value *group, const fa_value *state, int k,
                       int64_t *next) {
    entry_name name;
    const fa_value *ids = fa_value_find(group, "params"), *initial = fa_value_find(group, "initial_lr");
    double lr;
    if (fa_value_kind_of(ids) != FA_VALUE_LIST) return wrong("a group has no list \"params\"");
    for (int i = 0; i < FAI_RULE_OPTIONS && rule->option[i]; i++)
        if (!take_option(out, group, k, rule->option[i])) return false;
    snprintf(name, sizeof name, "group.%d.initial_lr", k);
    if (initial && !(number_of(initial, &lr) && add_number(out, name, lr))) return false;
    const int64_t first = *next, n = fa_value_length(ids);
    for (int64_t i = 0; i < n; i++) { /* parameters count in the order of the groups, whatever their numbers there */
        const fa_value *one = fa_value_look_up(state, fa_value_item(ids, i));
        if (fa_failed() || (one && fa_value_kind_of(one) != FA_VALUE_DICT))
            return fa_failed() ? false : wrong("a parameter's state is no dict");
        if (one && !take_state(out, one, (*next)++)) return false;
        if (!one) ++*next;
    }
    snprintf(name, sizeof name, "group.%d.params", k);
    return fa_tensors_add(out, name, fa_arange(first, first + n, 1, .dtype = FA_INT64, .device = FA_CPU));
}

bool fa_load_optimizer_value(fa_optimizer *o, const fa_value *from) {
    if (!fai_optimizer_check(OP_LOAD, o) || fai_refuse_pending(OP_LOAD)) return false;
    FA_SCOPE;
    FA_NO_GRAD;
    FAI_CALLED(OP_LOAD);
    const fa_value *groups = fa_value_find(from, "param_groups"), *state = fa_value_find(from, "state");
    fa_tensors *out = fa_tensors_new();
    int64_t next = 0;
    if (!out) return false;
    if (fa_value_kind_of(groups) != FA_VALUE_LIST || fa_value_kind_of(state) != FA_VALUE_DICT)
        return wrong("there are no \"state\" and \"param_groups\"");
    for (int64_t k = 0; k < fa_value_length(groups); k++) {
        const fa_value *group = fa_value_item(groups, k);
        if (fa_value_kind_of(group) != FA_VALUE_DICT) return wrong("a group is no dict");
        if (!take_group(out, o->rule, group, state, (int)k, &next)) return false;
    }
    return fa_load_optimizer_state(o, out);
}
