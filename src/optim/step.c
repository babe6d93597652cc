/* A step: one launch for each batch of parameters with the same dtype, device and age, however many they are. In OpenCL, whose kernels
 * can't follow addresses in memory, those of a batch lie in at most eight memory objects, of which each has many small parameters.
 *
 * First all that may fail is done for all groups: states are made, tables of addresses filled and uploaded. Then the kernels run,
 * so that an error leaves parameters as they were. Batches and their tables are kept: a step like the one before it allocates
 * nothing, and on a device it copies one table, of the addresses, and only if one of them changed. */
#include "optim.h"
#include <string.h>

/* ---- batches ---- */

static size_t batch_bytes(int room) { return (size_t)FAI_RULE_TABLES * (size_t)room * sizeof(fa_table_entry); }

static void drop_tables(fai_batch *b, int room) {
    if (b->device.type != FA_DEVICE_CPU) fai_free(FAI_TAG_OBJECT, b->entries, b->entries ? batch_bytes(room) : 0);
    b->entries = NULL;
    for (int k = 0; k < FAI_RULE_TABLES; k++) fai_unref(b->table[k]), b->table[k] = NULL;
}

void fai_batch_free(fai_batch *b, int room) {
    if (!b) return;
    drop_tables(b, room);
    fai_free(FAI_TAG_OBJECT, b->member, (size_t)room * sizeof *b->member);
    fai_free(FAI_TAG_OBJECT, b, sizeof *b);
}

/* Memory for the tables on the batch's device, and a shadow on the host where that is not the same. */
static bool make_tables(fai_batch *b, int room) {
    const int64_t words = (int64_t)room * (int64_t)(sizeof(fa_table_entry) / sizeof(int64_t)), all = FAI_RULE_TABLES * words;
    FAI_CAPTURE_PAUSE(b->device);
    fa_tensor *whole = fai_empty("step", FA_INT64, b->device, 1, &all);
    if (!whole) return false;
    for (int k = 0; k < FAI_RULE_TABLES; k++) {
        fa_tensor *part = fai_view("step", whole, 1, &words, &(int64_t){1}, k * words);
        if (!part) return drop_tables(b, room), false;
        fai_scope_take(part);
        b->table[k] = part;
    }
    b->entries = fai_on_cpu(whole) ? fai_host(whole) : fai_calloc(FAI_TAG_OBJECT, batch_bytes(room));
    if (!b->entries) return drop_tables(b, room), fai_fail_memory("step", batch_bytes(room));
    if (fai_on_cpu(whole)) memset(b->entries, 0, batch_bytes(room));
    b->changed = true;
    return true;
}

static fai_batch *new_batch(fai_group *g) {
    fai_batch *b = fai_calloc(FAI_TAG_OBJECT, sizeof *b);
    int *member = fai_alloc(FAI_TAG_OBJECT, (size_t)g->n * sizeof *member);
    const size_t old = (size_t)g->nbatches * sizeof b;
    fai_batch **batches = b && member ? fai_realloc(FAI_TAG_OBJECT, g->batches, old, old + sizeof b) : NULL;
    if (!batches) {
        fai_free(FAI_TAG_OBJECT, member, member ? (size_t)g->n * sizeof *member : 0);
        fai_free(FAI_TAG_OBJECT, b, b ? sizeof *b : 0);
        return fai_fail_memory("step", old + sizeof b);
    }
    b->member = member;
    b->device = FA_CPU;
    g->batches = batches;
    return g->batches[g->nbatches++] = b;
}

enum { CHUNK = 1024, MOST_GROUPS = 512, SMALL = 16 * CHUNK };

/* Whether tables of b may lead to these tensors too; then they do. A large parameter goes alone: what finds its memory in a table
 * costs more than a launch then. */
static bool take_objects(fai_batch *b, fa_tensor *const *of, int n) {
    if (fai_device_objects(b->device) != FA_PLAN_OBJECTS) return true;
    if (b->count && (b->most > SMALL || of[0]->numel > SMALL)) return false;
    int64_t object[FA_PLAN_OBJECTS];
    int count = b->nobjects;
    memcpy(object, b->object, sizeof object);
    for (int k = 0; k < n; k++) {
        const int64_t here = (int64_t)(of[k]->buffer->address >> FA_OBJECT_SHIFT);
        int i = 0;
        while (i < count && object[i] != here) i++;
        if (i == FA_PLAN_OBJECTS) return false;
        if (i == count) object[count++] = here;
    }
    memcpy(b->object, object, sizeof object);
    b->nobjects = count;
    return true;
}

/* The batch of this step for t with its n operands, begun if t is its first member. */
static fai_batch *batch_for(fai_group *g, const fai_trained *t, int64_t age, int ahead, fa_tensor *const *of, int n) {
    const fa_tensor *p = t->p;
    for (int i = 0; i < g->used; i++) {
        fai_batch *b = g->batches[i];
        if (b->age == age && b->ahead == ahead && b->dtype == (fa_dtype)p->dtype && fa_device_equal(b->device, p->device) &&
            memcmp(b->kept, t->kept, sizeof b->kept) == 0 && take_objects(b, of, n))
            return b;
    }
    fai_batch *b = g->used < g->nbatches ? g->batches[g->used] : new_batch(g);
    if (!b) return NULL;
    if (!b->entries || !fa_device_equal(b->device, p->device) || fai_capturing(p->device)) { /* a graph keeps tables of its own */
        drop_tables(b, g->n);
        b->device = p->device;
        if (!make_tables(b, g->n)) return NULL;
    }
    b->dtype = (fa_dtype)p->dtype, b->age = age, b->ahead = ahead;
    memcpy(b->kept, t->kept, sizeof b->kept);
    b->count = 0, b->most = 0, b->nobjects = 0;
    take_objects(b, of, n); /* one parameter has no more than a launch may */
    g->used++;
    return b;
}

/* A table for one parameter would cost a copy, and spare nothing where tables are no shortcut. */
static bool uses_tables(const fai_batch *b) {
    const int objects = fai_device_objects(b->device);
    return objects > FA_PLAN_OBJECTS || (objects && b->count > 1);
}

static void set_entry(fai_batch *b, int room, int table, const fa_tensor *t) {
    const int64_t width = (int64_t)fa_dtype_size((fa_dtype)t->dtype);
    const fa_table_entry entry = {(fa_i64)t->buffer->address + t->offset * width, t->numel * width};
    fa_table_entry *at = &b->entries[(size_t)table * (size_t)room + (size_t)b->count];
    if (at->address == entry.address && at->bytes == entry.bytes) return;
    *at = entry;
    b->changed = true;
}

/* ---- what a step needs of each parameter ---- */

/* A state that is there is on the parameter's device in its dtype: both may have changed since the last step. */
static bool ready_state(const char *op, const fai_rule *rule, const double *option, fai_trained *t, int k) {
    fa_tensor *old = t->state[k];
    FAI_CAPTURE_PAUSE(t->p->device); /* a replay does not begin it again */
    if (FAI_LIKELY(old && old->dtype == t->p->dtype && fa_device_equal(old->device, t->p->device))) return true;
    fa_tensor *state = fai_empty(op, (fa_dtype)t->p->dtype, t->p->device, t->p->ndim, t->p->size);
    const double first = rule->initial ? rule->initial(k, option) : 0;
    if (!state || !(old ? fai_copy(op, state, old) : fai_fill_scalar(op, state, fa_scalar_of_float(first)))) return false;
    fai_scope_take(state);
    t->state[k] = state;
    fai_unref(old);
    return true;
}

static bool check_gradient(const fa_tensor *p, const fa_tensor *grad, int i) {
    if (FAI_LIKELY(grad->dtype == p->dtype && fa_device_equal(grad->device, p->device) && grad->numel == p->numel)) return true;
    char a[160], b[160];
    fai_describe(p, a, sizeof a);
    fai_describe(grad, b, sizeof b);
    return fai_fail(
        FA_ERR_RUNTIME, "step",
        "Expected all tensors to be on the same device, of the same dtype and shape: parameter %d is a %s, its gradient a %s. "
        "Clear it by fa_zero_grad and run backward again.",
        i, a, b);
}

/* Puts parameter i of the group into its batch. Layouts other than C order are updated in a copy, which is copied back. */
static bool prepare(const fai_rule *rule, fai_group *g, int row, const int *slot, int i) {
    fai_trained *t = &g->trained[i];
    const int nstate = fai_updates[row].nstate;
    fa_tensor *grad = t->p->grad;
    if (!check_gradient(t->p, grad, i) || !fai_check_writable("step", t->p)) return false;
    for (int k = 0; k < nstate; k++)
        if (!ready_state("step", rule, g->option, t, slot[k])) return false;
    if (rule->begin && t->steps == 0) rule->begin(g->option, t->kept);
    const uint64_t graph = fai_graph_number(t->p->device);
    const int ahead = graph && graph == t->graph ? t->in_graph : 0;
    fa_tensor *of[FAI_RULE_TABLES] = {fai_contiguous("step", t->p)};
    if (!of[0] || !(of[1] = fai_contiguous("step", grad))) return false;
    for (int k = 0; k < nstate; k++) of[2 + k] = t->state[slot[k]];
    fai_batch *b = batch_for(g, t, nstate == 0 ? 0 : rule->ages ? t->steps : t->steps > 0, ahead, of, 2 + nstate);
    if (!b) return false;
    t->work = of[0] == t->p ? NULL : of[0];
    t->grad = of[1];
    for (int k = 0; k < 2 + nstate; k++) set_entry(b, g->n, k, of[k]);
    for (int k = 0; FAI_UNLIKELY(fai_capturing(b->device)) && k < 2 + nstate; k++)
        if (!fai_captured_hold(b, of[k], k != 1)) return false;
    if (t->p->numel > b->most) b->most = t->p->numel;
    b->member[b->count++] = i;
    return true;
}

static bool upload(fai_batch *b, int room) {
    if (!b->changed || !uses_tables(b)) return true;
    const fa_tensor *first = b->table[0];
    FAI_CAPTURE_PAUSE(b->device);
    if (!fai_on_cpu(first) &&
        !fai_copy_to_device(first->buffer, (size_t)first->offset * sizeof(int64_t), b->entries, batch_bytes(room), "step"))
        return false;
    b->changed = false;
    return true;
}

static bool prepare_group(const fai_rule *rule, fai_group *g) {
    const int row = rule->row(g->option);
    int slot[FAI_RULE_STATES];
    fai_rule_slots(rule, row, slot);
    g->used = 0;
    for (int i = 0; i < g->n; i++)
        if (g->trained[i].p->grad && g->trained[i].p->numel && !prepare(rule, g, row, slot, i)) return false;
    for (int i = 0; i < g->used; i++)
        if (!upload(g->batches[i], g->n)) return false;
    return true;
}

/* ---- launches: the plan is described in kernels/optim.k.h ---- */

/* numbers: what a captured step finds its numbers in; NULL: they are in the plan. */
static void begin_plan(const fai_rule *rule, const fai_group *g, int row, fai_batch *b, int64_t elements, fa_tensor *numbers, fa_tensor *guard,
                       fa_plan *plan) {
    fai_plan_begin(plan);
    plan->row = row;
    rule->numbers(row, g->option, b->age, b->kept, plan->f);
    if (numbers) fai_plan_view(plan, 7, numbers, false);
    if (guard) fai_plan_view(plan, 6, guard, false);
    plan->nviews = 2 + fai_updates[row].nstate; /* a view of numbers lies behind them */
    plan->n[0] = fai_groups(elements, CHUNK) < MOST_GROUPS ? fai_groups(elements, CHUNK) : MOST_GROUPS; /* groups a parameter */
    for (int k = 0; k < plan->nviews; k++) {
        plan->view[k].ndim = 1;
        plan->view[k].low = 0;
        plan->view[k].dtype = (int)b->dtype;
        plan->view[k].writes = k != 1;
    }
}

static bool launch(const fai_rule *rule, const fai_group *g, int row, fai_batch *b, fa_tensor *numbers, fa_tensor *guard) {
    fa_plan plan;
    fa_tensor *operand[8] = {[6] = guard, [7] = numbers};
    memcpy(operand, b->table, sizeof b->table);
    begin_plan(rule, g, row, b, b->most, numbers, guard, &plan);
    for (int k = 0; k < plan.nviews; k++) {
        plan.view[k].kind = FA_VIEW_TABLE;
        plan.view[k].size[0] = b->count;
        plan.view[k].high = b->count * (int64_t)sizeof(fa_table_entry);
    }
    for (int k = 0; k < b->nobjects; k++) plan.n[FA_PLAN_OBJECTS_AT + k] = b->object[k];
    plan.groups = plan.n[0] * b->count;
    return fai_run(FAI_K_update_f32 + fai_compute((int)b->dtype), &plan, operand, 8, "step");
}

static bool launch_one(const fai_rule *rule, const fai_group *g, int row, fai_batch *b, const fai_trained *t, fa_tensor *numbers,
                       fa_tensor *guard) {
    fa_tensor *operand[8] = {t->work ? t->work : t->p, t->grad, [6] = guard, [7] = numbers};
    int slot[FAI_RULE_STATES];
    fa_plan plan;
    begin_plan(rule, g, row, b, t->p->numel, numbers, guard, &plan);
    fai_rule_slots(rule, row, slot);
    for (int k = 2; k < plan.nviews; k++) operand[k] = t->state[slot[k - 2]];
    for (int k = 0; k < plan.nviews; k++) {
        plan.view[k].kind = FA_VIEW_TENSOR;
        plan.view[k].size[0] = t->p->numel;
        plan.view[k].stride[0] = 1;
        plan.view[k].high = t->p->numel * (int64_t)fa_dtype_size(b->dtype);
    }
    plan.n[1] = t->p->numel;
    plan.groups = plan.n[0];
    return fai_run(FAI_K_update_f32 + fai_compute((int)b->dtype), &plan, operand, 8, "step");
}

static bool launch_batch(fa_optimizer *o, int group, int row, fai_batch *b) {
    const fai_group *g = &o->groups[group];
    const bool captured = fai_capturing(b->device);
    fa_tensor *numbers = captured ? fai_captured_numbers(o, group, row, b) : NULL;
    if (captured && !numbers) return false;
    if (uses_tables(b)) return launch(o->rule, g, row, b, numbers, o->guard);
    for (int m = 0; m < b->count; m++)
        if (!launch_one(o->rule, g, row, b, &g->trained[b->member[m]], numbers, o->guard)) return false;
    return true;
}

void fai_trained_count(const fai_rule *rule, const fai_group *g, int row, fai_trained *t) {
    if (fai_updates[row].nstate) t->steps++;
    if (rule->advance) rule->advance(g->option, t->steps, t->kept);
}

void fai_trained_step(const fai_rule *rule, const fai_group *g, int row, fai_trained *t) {
    fai_trained_count(rule, g, row, t);
    ++*fai_version(t->p);
}

/* The parameter was written, or will be by a graph: what was updated in a copy comes back. */
static bool finish_batch(const fai_rule *rule, fai_group *g, int row, fai_batch *b) {
    const uint64_t later = fai_graph_number(b->device);
    for (int m = 0; m < b->count; m++) {
        fai_trained *t = &g->trained[b->member[m]];
        if (!later) fai_trained_step(rule, g, row, t);
        else t->graph = later, t->in_graph = b->ahead + 1;
        if (t->work && !fai_copy("step", t->p, t->work)) return false;
    }
    if (later) drop_tables(b, g->n); /* they are the graph's */
    return true;
}

static bool run_group(fa_optimizer *o, int group) {
    fai_group *g = &o->groups[group];
    const int row = o->rule->row(g->option);
    for (int i = 0; i < g->used; i++)
        if (!launch_batch(o, group, row, g->batches[i]) || !finish_batch(o->rule, g, row, g->batches[i])) return false;
    return true;
}

bool fa_step(fa_optimizer *o) {
    if (!fai_optimizer_check("step", o) || fai_refuse_pending("step")) return false;
    FA_SCOPE;
    FA_NO_GRAD;
    for (int k = 0; k < o->ngroups; k++)
        if (!prepare_group(o->rule, &o->groups[k])) return false;
    for (int k = 0; k < o->ngroups; k++)
        if (!run_group(o, k)) return false;
    o->steps++;
    fai_memory_step(o);
    return true;
}
