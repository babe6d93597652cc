/* An optimizer's state as named tensors, and back. Parameters are numbered across groups:
 *
 *   "3.exp_avg"         what is kept for parameter 3: its own memory, not a copy
 *   "3.step"            steps made, int64
 *   "group.0.lr"        an option, float64
 *   "group.0.params"    the numbers of the group's parameters, int64
 *   "group.0.initial_lr" what schedulers start from, if there is one */
#include "optim.h"
#include <math.h>
#include <string.h>

#define OP_SAVE "optimizer_state"
#define OP_LOAD "load_optimizer_state"

typedef char entry_name[80];

static const char *state_name(const fai_rule *rule, int k) { return fai_updates[rule->widest].state[k]; }

/* ---- saving ---- */

static bool add_number(fa_tensors *out, const char *name, fa_dtype dtype, const void *value) {
    fa_tensor *t = fai_empty(OP_SAVE, dtype, FA_CPU, 0, NULL);
    if (!t) return false;
    memcpy(fai_host(t), value, fa_dtype_size(dtype));
    return fa_tensors_add(out, name, t);
}

static bool add_trained(fa_tensors *out, const fai_rule *rule, const fai_trained *t, int64_t id) {
    entry_name name;
    if (t->steps == 0) return true;
    for (int k = 0; k < fai_rule_states(rule); k++) {
        snprintf(name, sizeof name, "%lld.%s", (long long)id, state_name(rule, k));
        if (t->state[k] && !fa_tensors_add(out, name, t->state[k])) return false;
    }
    for (int k = 0; k < FAI_RULE_KEPT && rule->kept[k]; k++) {
        snprintf(name, sizeof name, "%lld.%s", (long long)id, rule->kept[k]);
        if (!add_number(out, name, FA_FLOAT64, &t->kept[k])) return false;
    }
    snprintf(name, sizeof name, "%lld.step", (long long)id);
    return add_number(out, name, FA_INT64, &t->steps);
}

static bool add_group_numbers(fa_tensors *out, const fai_rule *rule, const fai_group *g, int group, int64_t first) {
    entry_name name;
    const int64_t n = g->n;
    fa_tensor *ids = fai_empty(OP_SAVE, FA_INT64, FA_CPU, 1, &n);
    if (!ids) return false;
    for (int64_t i = 0; i < n; i++) ((int64_t *)fai_host(ids))[i] = first + i;
    for (int i = 0; i < FAI_RULE_OPTIONS && rule->option[i]; i++) {
        snprintf(name, sizeof name, "group.%d.%s", group, rule->option[i]);
        if (!add_number(out, name, FA_FLOAT64, &g->option[i])) return false;
    }
    snprintf(name, sizeof name, "group.%d.initial_lr", group);
    if (!isnan(g->initial_lr) && !add_number(out, name, FA_FLOAT64, &g->initial_lr)) return false;
    snprintf(name, sizeof name, "group.%d.params", group);
    return fa_tensors_add(out, name, ids);
}

fa_tensors *fa_optimizer_state(fa_optimizer *o) {
    if (!fai_optimizer_check(OP_SAVE, o)) return NULL;
    FA_SCOPE;
    fa_tensors *out = fa_tensors_new();
    int64_t id = 0, first = 0;
    if (!out) return NULL;
    for (int k = 0; k < o->ngroups; k++)
        for (int i = 0; i < o->groups[k].n; i++)
            if (!add_trained(out, o->rule, &o->groups[k].trained[i], id++)) return NULL;
    for (int k = 0; k < o->ngroups; first += o->groups[k++].n)
        if (!add_group_numbers(out, o->rule, &o->groups[k], k, first)) return NULL;
    return fai_return(out);
}

/* ---- loading: all of it is checked and copied before the optimizer is touched ---- */

typedef struct loading {
    const fa_tensors *from;
    const fai_rule *rule;
    int64_t used;      /* names that were found; others are errors */
    fai_group *groups; /* as they will be: options and trained[].state, .steps; p is borrowed */
} loading;

static fa_tensor *find(loading *l, const char *name) {
    fa_tensor *t = fa_tensors_find(l->from, name);
    l->used += t != NULL;
    return t;
}

/* must false: the number may be absent, which leaves value as it is. */
static bool read_number(loading *l, const char *name, bool must, fa_dtype dtype, void *value) {
    fa_tensor *t = find(l, name);
    if (!t && must)
        return fai_fail(FA_ERR_KEY, OP_LOAD, "\"%s\" is missing: the state is not one of %s, or a part of it was lost", name,
                        l->rule->name);
    if (!t) return true;
    if (t->numel != 1)
        return fai_fail(FA_ERR_VALUE, OP_LOAD, "\"%s\" must be one number, but it has %lld elements", name, (long long)t->numel);
    return fa_to_data(t, value, dtype);
}

static bool load_group_numbers(loading *l, fai_group *g, int group) {
    entry_name name;
    snprintf(name, sizeof name, "group.%d.params", group);
    const fa_tensor *ids = find(l, name);
    if (!ids)
        return fai_fail(FA_ERR_VALUE, OP_LOAD, "loaded state dict has a different number of parameter groups: \"%s\" is missing",
                        name);
    if (ids->numel != g->n)
        return fai_fail(FA_ERR_VALUE, OP_LOAD,
                        "loaded state dict contains a parameter group that doesn't match the size of optimizer's group: "
                        "group %d has %lld parameters in the state, %d in the optimizer",
                        group, (long long)ids->numel, g->n);
    for (int i = 0; i < FAI_RULE_OPTIONS && l->rule->option[i]; i++) {
        snprintf(name, sizeof name, "group.%d.%s", group, l->rule->option[i]);
        if (!read_number(l, name, true, FA_FLOAT64, &g->option[i])) return false;
    }
    snprintf(name, sizeof name, "group.%d.initial_lr", group);
    g->initial_lr = NAN;
    return read_number(l, name, false, FA_FLOAT64, &g->initial_lr) && l->rule->check(OP_LOAD, g->option);
}

static bool load_state(loading *l, fai_trained *t, int k, const char *name) {
    char a[160], b[160];
    fa_tensor *from = find(l, name);
    if (!from) return true;
    fai_text_shape(a, sizeof a, from->ndim, from->size);
    fai_text_shape(b, sizeof b, t->p->ndim, t->p->size);
    if (!fai_same_shape(from, t->p))
        return fai_fail(FA_ERR_VALUE, OP_LOAD,
                        "\"%s\" has shape %s, but its parameter has shape %s: the state belongs to another model", name, a, b);
    fa_tensor *state = fai_empty(OP_LOAD, (fa_dtype)t->p->dtype, t->p->device, t->p->ndim, t->p->size);
    if (!state || !fai_copy(OP_LOAD, state, from)) return false;
    fai_scope_take(state);
    t->state[k] = state;
    return true;
}

static bool load_trained(loading *l, fai_trained *t, int64_t id) {
    entry_name name;
    int found = 0;
    for (int k = 0; k < fai_rule_states(l->rule); k++) {
        snprintf(name, sizeof name, "%lld.%s", (long long)id, state_name(l->rule, k));
        if (!load_state(l, t, k, name)) return false;
        found += t->state[k] != NULL;
    }
    for (int k = 0; k < FAI_RULE_KEPT && l->rule->kept[k]; k++) {
        snprintf(name, sizeof name, "%lld.%s", (long long)id, l->rule->kept[k]);
        if (!read_number(l, name, found > 0, FA_FLOAT64, &t->kept[k])) return false;
    }
    snprintf(name, sizeof name, "%lld.step", (long long)id);
    if (!read_number(l, name, found > 0, FA_INT64, &t->steps)) return false;
    if (t->steps >= 0 && ((t->steps > 0) == (found > 0) || (l->rule->initial && found > 0)))
        return true; /* PyTorch's Adagrad has states before the first step */
    return fai_fail(FA_ERR_VALUE, OP_LOAD, "\"%s\" is %lld, but %d states of that parameter are there", name, (long long)t->steps,
                    found);
}

/* A state that the rule always has must come with the others: a missing one would start anew in silence. */
static bool check_whole(const loading *l, const fai_group *g, int64_t first) {
    const int row = l->rule->row(g->option), nstate = fai_updates[row].nstate;
    int slot[FAI_RULE_STATES];
    fai_rule_slots(l->rule, row, slot);
    for (int i = 0; i < g->n; i++)
        for (int k = 0; k < nstate && g->trained[i].steps > 0; k++)
            if (!g->trained[i].state[slot[k]])
                return fai_fail(FA_ERR_KEY, OP_LOAD, "\"%lld.%s\" is missing: a part of the state was lost",
                                (long long)(first + i), state_name(l->rule, slot[k]));
    return true;
}

static bool load_all(loading *l, const fa_optimizer *o) {
    int64_t id = 0;
    for (int k = 0; k < o->ngroups; k++) {
        fai_group *g = &l->groups[k];
        const int64_t first = id;
        if (!load_group_numbers(l, g, k)) return false;
        for (int i = 0; i < g->n; i++)
            if (!load_trained(l, &g->trained[i], id++)) return false;
        if (!check_whole(l, g, first)) return false;
    }
    entry_name more;
    snprintf(more, sizeof more, "group.%d.params", o->ngroups);
    if (fa_tensors_find(l->from, more))
        return fai_fail(FA_ERR_VALUE, OP_LOAD,
                        "loaded state dict has a different number of parameter groups: the optimizer has %d, the state more",
                        o->ngroups);
    if (l->used == fa_tensors_count(l->from)) return true;
    return fai_fail(FA_ERR_KEY, OP_LOAD,
                    "the state holds %lld names that %s of %lld parameters does not know: it is another optimizer's",
                    (long long)(fa_tensors_count(l->from) - l->used), l->rule->name, (long long)id);
}

/* Groups like the optimizer's, without states. */
static bool make_groups(fai_group *groups, const fa_optimizer *o) {
    for (int k = 0; k < o->ngroups; k++) {
        const fai_group *g = &o->groups[k];
        const size_t bytes = (size_t)g->n * sizeof *g->trained;
        groups[k].trained = fai_calloc(FAI_TAG_OBJECT, bytes);
        if (!groups[k].trained) return fai_fail_memory(OP_LOAD, bytes);
        groups[k].n = g->n;
        for (int i = 0; i < g->n; i++) groups[k].trained[i].p = g->trained[i].p;
    }
    return true;
}

static void swap_groups(fai_group *groups, fa_optimizer *o) {
    for (int k = 0; k < o->ngroups; k++) {
        fai_trained *old = o->groups[k].trained;
        o->groups[k].trained = groups[k].trained;
        groups[k].trained = old;
        memcpy(o->groups[k].option, groups[k].option, sizeof groups[k].option);
        o->groups[k].initial_lr = groups[k].initial_lr;
    }
}

bool fa_load_optimizer_state(fa_optimizer *o, const fa_tensors *state) {
    if (!fai_optimizer_check(OP_LOAD, o) || fai_refuse_pending(OP_LOAD)) return false;
    if (!state)
        return fai_fail(FA_ERR_TYPE, OP_LOAD,
                        "argument 'state' is NULL: named tensors are needed, as fa_optimizer_state gives them");
    FA_SCOPE;
    FA_NO_GRAD;
    const size_t bytes = (size_t)o->ngroups * sizeof(fai_group);
    loading l = {.from = state, .rule = o->rule, .groups = fai_calloc(FAI_TAG_OBJECT, bytes)};
    if (!l.groups) return fai_fail_memory(OP_LOAD, bytes);
    const bool ok = make_groups(l.groups, o) && load_all(&l, o);
    if (ok) swap_groups(l.groups, o);
    for (int k = 0; k < o->ngroups; k++) { /* the old states, or after an error the new ones; parameters are the optimizer's */
        fai_group *g = &l.groups[k];
        for (int i = 0; i < g->n; i++)
            for (int s = 0; s < FAI_RULE_STATES; s++) fai_unref(g->trained[i].state[s]);
        fai_free(FAI_TAG_OBJECT, g->trained, (size_t)g->n * sizeof *g->trained);
    }
    fai_free(FAI_TAG_OBJECT, l.groups, bytes);
    return ok;
}
