/* A step that goes into a graph (fa_graph_begin). What changes from step to step is not in the launch but in memory: the numbers
 * of the rule, as Adam's corrections, are computed by the host for each replay from the steps made so far and the options as they
 * are then, as they would be without a graph. So a replayed step has the same bits, schedules go on, and the count of steps is
 * right in what is saved. */
#include "optim.h"
#include <string.h>

typedef struct fai_captured {
    struct fai_captured *next; /* of the optimizer's guarded ones */
    fai_asked guard;           /* n is 0: the step is made at each replay */
    fa_optimizer *optimizer;
    int group, row, ahead; /* ahead: steps of the same replay that come before */
    bool is_double;
    fai_buffer *numbers;
    int count, member[]; /* numbers of parameters in the group */
} captured;

/* ---- what only the device knows: whether a step is made ---- */

void fai_asked_add(fai_asked *a, fa_tensor *fine) { a->fine[a->n++] = fai_ref(fine); }

void fai_asked_begin(fai_asked *a) {
    a->pending = a->n > 0;
    if (a->pending) a->stream = fa_current_stream(a->fine[0]->device);
}

bool fai_asked_answer(fai_asked *a, bool *finite) {
    FA_SCOPE;
    FAI_CAPTURE_PAUSE(a->fine[0]->device);
    *finite = true;
    if (!fa_stream_wait_stream(fa_current_stream(a->stream.device), a->stream)) return false;
    for (int i = 0; i < a->n; i++) *finite = fa_item(a->fine[i]) != 0 && *finite;
    if (!fa_failed()) a->pending = false;
    return !fa_failed();
}

void fai_asked_end(fai_asked *a) {
    for (int i = 0; i < a->n; i++) fai_unref(a->fine[i]);
    a->n = 0;
}

/* The step that the last replay made, or left out. */
static void count_step(captured *c, bool made) {
    fai_group *g = &c->optimizer->groups[c->group];
    c->optimizer->replayed += made;
    for (int i = 0; made && i < c->count; i++) fai_trained_step(c->optimizer->rule, g, c->row, &g->trained[c->member[i]]);
}

bool fai_captured_settle(fa_optimizer *o) {
    for (captured *c = o->guarded; c; c = c->next) {
        bool finite;
        if (!c->guard.pending) continue;
        if (!fai_asked_answer(&c->guard, &finite)) return false;
        count_step(c, finite);
    }
    return true;
}

/* ---- before and after a replay ---- */

enum { NUMBERS = 8 };

static bool before(void *context) {
    const captured *c = context;
    const fai_group *g = &c->optimizer->groups[c->group]; /* groups may grow in number; these parameters stay */
    double f[NUMBERS] = {0};
    float rounded[NUMBERS];
    fai_trained first;
    const fai_rule *rule = c->optimizer->rule;
    if (!fai_captured_settle(c->optimizer)) return false;
    first = g->trained[c->member[0]];
    if (c->optimizer->refresh && !c->optimizer->refresh(c->optimizer, c->optimizer->refresher)) return false;
    for (int i = 0; i < c->ahead; i++) fai_trained_count(rule, g, c->row, &first);
    rule->numbers(c->row, g->option, fai_updates[c->row].nstate ? first.steps : 0, first.kept, f);
    for (int i = 0; i < NUMBERS; i++) rounded[i] = (float)f[i];
    return fai_copy_to_device(c->numbers, 0, c->is_double ? (const void *)f : rounded, c->is_double ? sizeof f : sizeof rounded,
                              "graph_replay");
}

static void after(void *context, bool started) {
    captured *c = context;
    if (c->guard.n == 0) count_step(c, started);
    else if (started) fai_asked_begin(&c->guard);
}

static void drop(void *context) {
    captured *c = context, **at = &c->optimizer->guarded;
    bool finite;
    if (c->guard.pending && !fa_failed()) {
        if (fai_asked_answer(&c->guard, &finite)) count_step(c, finite);
        else fa_error_take(); /* a lost device does not say */
    }
    while (*at && *at != c) at = &(*at)->next;
    if (*at) *at = c->next;
    fai_asked_end(&c->guard);
    fai_buffer_unref(c->numbers);
    fai_unref(c->optimizer);
    fai_free(FAI_TAG_GRAPH, c, sizeof *c + (size_t)c->count * sizeof *c->member);
}

fa_tensor *fai_captured_numbers(fa_optimizer *o, int group, int row, const fai_batch *b) {
    const int64_t words = NUMBERS;
    if (o->guard && b->ahead)
        return fai_fail(FA_ERR_UNSUPPORTED, "step",
                        "two steps of an optimizer through a gradient scaler in one capture are planned: whether the first is made is known only when it "
                        "runs. Capture one iteration, and replay it twice");
    fa_tensor *numbers = NULL;
    captured *c = fai_calloc(FAI_TAG_GRAPH, sizeof *c + (size_t)b->count * sizeof *c->member);
    if (!c) return fai_fail_memory("step", sizeof *c + (size_t)b->count * sizeof *c->member);
    c->optimizer = fai_ref(o);
    c->group = group, c->row = row, c->ahead = b->ahead, c->count = b->count;
    c->is_double = b->dtype == FA_FLOAT64;
    memcpy(c->member, b->member, (size_t)b->count * sizeof *c->member);
    {
        FAI_CAPTURE_PAUSE(b->device);
        numbers = fai_empty("step", c->is_double ? FA_FLOAT64 : FA_FLOAT32, b->device, 1, &words);
        if (numbers) c->numbers = fai_buffer_ref(numbers->buffer);
    }
    if (!numbers) return drop(c), NULL;
    if (o->guard) {
        fai_asked_add(&c->guard, o->guard);
        c->next = o->guarded;
        o->guarded = c;
    }
    return fai_graph_feed(b->device, &(fai_feed){before, after, drop, c}, "step") ? numbers : NULL;
}

bool fai_captured_hold(const fai_batch *b, const fa_tensor *t, bool writes) {
    return fai_graph_hold(b->device, t->buffer, writes, "step");
}
