/* The gradient scaler. The scale is a float32 number of the host, so that nothing has to be read back for it; what lies on devices is
 * one bool for each optimizer and device, "all gradients are finite", which the step reads: the only wait.
 *
 * In a capture nothing can be read. The step's kernels look at the bool themselves, gradients are divided by the scale as it lies
 * on the device, and the next scale is computed before the next replay, or when somebody asks: the host reads what the last replay
 * found then, and goes on as without a graph.
 *
 * Optimizers go by a key, their address, since Python's optimizers of any make can be stepped through it too. */
#include "optim.h"
#include "../autograd/generated.h"
#include <math.h>
#include <string.h>

enum { DEVICES = 16 };
typedef enum stage { READY, UNSCALED, STEPPED } stage;
typedef struct entry {
    const void *key;
    stage stage;
    fa_tensor *fine[DEVICES]; /* bools, one on each device that gradients are on */
    int nfine;
    int known;                /* 1: finite, 0: not, -1: not read yet */
} entry;

struct fa_grad_scaler {
    fai_object object;
    fa_grad_scaler_options options;
    float scale;
    int64_t tracker;
    bool used;                /* scale() was called: without it the other calls make no sense */
    bool found_inf;
    fa_tensor *factor;        /* the scale as a tensor, where the last loss was */
    bool captured;            /* a graph reads the factor: it stays where it is, and gets new numbers */
    bool stale;               /* it has not got them yet */
    struct captured *updates; /* that graphs make */
    uint64_t updated;         /* the last capture with one */
    entry *entries;
    int n, room;
};

/* ---- the object ---- */

static void forget_results(fa_grad_scaler *s) {
    for (int i = 0; i < s->n; i++)
        for (int k = 0; k < s->entries[i].nfine; k++) fai_unref(s->entries[i].fine[k]);
    s->n = 0;
}

/* ---- updates that a graph makes ---- */

typedef struct captured {
    struct captured *next;
    fa_grad_scaler *scaler; /* counted */
    fai_asked asked;
} captured;

static void next_scale(fa_grad_scaler *s, bool finite) {
    const float grown = (float)(s->scale * s->options.growth_factor);
    s->tracker = finite ? s->tracker + 1 : 0;
    if (!finite) s->scale = (float)(s->scale * s->options.backoff_factor);
    else if (s->tracker == s->options.growth_interval) {
        if (isfinite(grown)) s->scale = grown;
        s->tracker = 0;
    }
}

/* What replays found counts. */
static bool settle(fa_grad_scaler *s) {
    for (captured *c = s->updates; c; c = c->next) {
        bool finite;
        if (!c->asked.pending) continue;
        if (!fai_asked_answer(&c->asked, &finite)) return false;
        next_scale(s, finite);
        s->found_inf = !finite;
        s->stale = true;
    }
    return true;
}

static bool before_update(void *context) {
    fa_grad_scaler *s = ((captured *)context)->scaler;
    if (!settle(s)) return false;
    if (s->stale && !fai_fill_scalar("graph_replay", s->factor, fa_scalar_of_float(s->scale))) return false;
    s->stale = false;
    return true;
}

static void after_update(void *context, bool started) {
    if (started) fai_asked_begin(&((captured *)context)->asked);
}

static void drop_update(void *context) {
    captured *c = context, **at = &c->scaler->updates;
    if (c->asked.pending && !fa_failed() && !settle(c->scaler)) fa_error_take(); /* a lost device does not say */
    while (*at && *at != c) at = &(*at)->next;
    if (*at) *at = c->next;
    fai_asked_end(&c->asked);
    fai_unref(c->scaler);
    fai_free(FAI_TAG_GRAPH, c, sizeof *c);
}

static bool capture_update(const char *op, fa_grad_scaler *s, fa_device device) {
    captured *c = fai_calloc(FAI_TAG_GRAPH, sizeof *c);
    if (!c) return fai_fail_memory(op, sizeof *c) != NULL;
    c->scaler = fai_ref(s);
    for (int i = 0; i < s->n; i++)
        for (int k = 0; k < s->entries[i].nfine; k++) {
            if (c->asked.n < FAI_ASKED) {
                fai_asked_add(&c->asked, s->entries[i].fine[k]);
                continue;
            }
            drop_update(c);
            return fai_fail(FA_ERR_UNSUPPORTED, op, "more than %d optimizers of one gradient scaler in a capture are planned", FAI_ASKED) != NULL;
        }
    c->next = s->updates;
    s->updates = c;
    s->updated = fai_graph_number(device);
    forget_results(s);
    return fai_graph_feed(device, &(fai_feed){before_update, after_update, drop_update, c}, op);
}

static void destroy_scaler(void *object) {
    fa_grad_scaler *s = object;
    forget_results(s);
    fai_unref(s->factor);
    fai_free(FAI_TAG_OBJECT, s->entries, (size_t)s->room * sizeof *s->entries);
    fai_free(FAI_TAG_OBJECT, s, sizeof *s);
}

__attribute__((constructor)) static void set_up(void) { fai_set_destructor(FAI_SCALER, destroy_scaler); }

static bool check(const char *op, const fa_grad_scaler *s) {
    if (s) return FAI_LIKELY(!s->updates) || fa_failed() || settle((fa_grad_scaler *)(uintptr_t)s);
    if (!fa_failed()) fai_fail(FA_ERR_TYPE, op, "argument 'scaler' is NULL: one from fa_grad_scaler() is needed");
    return false;
}

static bool values_ok(double growth, double backoff) {
    if (!(growth > 1)) return fai_fail(FA_ERR_ASSERTION, "grad_scaler", "The growth factor must be > 1.0. Found %g.", growth) != NULL;
    if (!(backoff < 1)) return fai_fail(FA_ERR_ASSERTION, "grad_scaler", "The backoff factor must be < 1.0. Found %g.", backoff) != NULL;
    return true;
}

fa_grad_scaler *fa_grad_scaler_with(const fa_grad_scaler_options *o) {
    if (!fai_options_ok("grad_scaler", o ? o->struct_size : 0, sizeof *o)) return NULL;
    if (o->enabled && !values_ok(o->growth_factor, o->backoff_factor)) return NULL;
    fa_grad_scaler *s = fai_calloc(FAI_TAG_OBJECT, sizeof *s);
    if (!s) return fai_fail_memory("grad_scaler", sizeof *s);
    fai_object_init(s, FAI_SCALER);
    s->options = *o;
    s->scale = (float)o->init_scale;
    return fai_scope_add(s, "grad_scaler") ? s : NULL;
}

/* The factor is of another scale now. */
static bool change_factor(const char *op, fa_grad_scaler *s, float scale) {
    if (!s->factor || scale == s->scale) return true;
    if (s->captured) {
        FAI_CAPTURE_PAUSE(s->factor->device);
        return fai_fill_scalar(op, s->factor, fa_scalar_of_float(scale));
    }
    fai_unref(s->factor);
    s->factor = NULL;
    return true;
}

bool fa_grad_scaler_is_enabled(const fa_grad_scaler *s) { return s && s->options.enabled; }
bool fa_grad_scaler_found_inf(const fa_grad_scaler *s) { return s && check("grad_scaler_found_inf", s) && s->found_inf; }

fa_grad_scaler_state fa_grad_scaler_get(const fa_grad_scaler *s) {
    if (!check("grad_scaler_get", s)) return (fa_grad_scaler_state){1, 2, 0.5, 2000, 0};
    return (fa_grad_scaler_state){s->options.enabled ? s->scale : 1, s->options.growth_factor, s->options.backoff_factor, s->options.growth_interval, s->tracker};
}

bool fa_grad_scaler_set(fa_grad_scaler *s, const fa_grad_scaler_state *state) {
    if (!check("grad_scaler_set", s) || fai_refuse_pending("grad_scaler_set")) return false;
    if (!state) return fai_fail(FA_ERR_TYPE, "grad_scaler_set", "argument 'state' is NULL: what fa_grad_scaler_get gave is needed") != NULL;
    if (!change_factor("grad_scaler_set", s, (float)state->scale)) return false;
    s->scale = (float)state->scale;
    s->options.growth_factor = state->growth_factor, s->options.backoff_factor = state->backoff_factor;
    s->options.growth_interval = state->growth_interval, s->tracker = state->growth_tracker;
    return true;
}

/* ---- the scaled loss ---- */

fa_tensor *fa_grad_scaler_scale(fa_grad_scaler *s, fa_tensor *loss) {
    if (!check("grad_scaler_scale", s) || !fai_check("grad_scaler_scale", "loss", loss)) return NULL;
    if (!s->options.enabled) return loss;
    const uint64_t graph = fai_graph_number(loss->device);
    if (graph && graph == s->updated)
        return fai_fail(FA_ERR_UNSUPPORTED, "grad_scaler_scale",
                        "a loss that is scaled after update() in the same capture is planned: the next scale is known only when the capture has run. Capture one "
                        "iteration, and replay it twice");
    if (s->stale && s->factor) {
        FAI_CAPTURE_PAUSE(s->factor->device);
        if (!fai_fill_scalar("grad_scaler_scale", s->factor, fa_scalar_of_float(s->scale))) return NULL;
        s->stale = false;
    }
    if (!s->factor || !fa_device_equal(s->factor->device, loss->device)) {
        FA_NO_GRAD;
        FAI_CAPTURE_PAUSE(loss->device);
        fa_tensor *factor = fai_empty("grad_scaler_scale", FA_FLOAT32, loss->device, 0, NULL);
        if (!factor || !fai_fill_scalar("grad_scaler_scale", factor, fa_scalar_of_float(s->scale))) return NULL;
        fai_scope_take(factor);
        fai_unref(s->factor);
        s->factor = factor;
    }
    s->used = true;
    s->captured |= graph != 0;
    return fai_row2(FAI_ROW_mul, fai_of(loss), fai_of(s->factor)); /* a float32 loss stays one, a float16 number becomes one */
}

/* ---- gradients ---- */

static entry *entry_of(const fa_grad_scaler *s, const void *key) {
    for (int i = 0; i < s->n; i++)
        if (s->entries[i].key == key) return &s->entries[i];
    return NULL;
}

static entry *new_entry(const char *op, fa_grad_scaler *s, const void *key) {
    if (s->n == s->room) {
        const size_t old = (size_t)s->room * sizeof *s->entries, bytes = ((size_t)s->room + 4) * sizeof *s->entries;
        entry *more = fai_realloc(FAI_TAG_OBJECT, s->entries, old, bytes);
        if (!more) return fai_fail_memory(op, bytes);
        s->entries = more, s->room += 4;
    }
    entry *e = &s->entries[s->n++];
    *e = (entry){.key = key, .known = -1};
    return e;
}

static bool was_scaled(const char *op, const char *word, const fa_grad_scaler *s) {
    if (s->used) return true;
    return fai_fail(FA_ERR_ASSERTION, op,
                    "Attempted %s but _scale is None.  This may indicate your script did not use scaler.scale(loss or outputs) earlier in the iteration. "
                    "It is the scaled loss that backward is called on.",
                    word) != NULL;
}

/* The bool of that device: true until a gradient there says otherwise. */
static fa_tensor *fine_on(const char *op, entry *e, fa_device device) {
    for (int i = 0; i < e->nfine; i++)
        if (fa_device_equal(e->fine[i]->device, device)) return e->fine[i];
    if (e->nfine == DEVICES) return fai_fail(FA_ERR_UNSUPPORTED, op, "gradients of one optimizer are on more than %d devices, which is planned", DEVICES);
    fa_tensor *fine = fai_empty(op, FA_BOOL, device, 0, NULL);
    if (!fine || !fai_fill_scalar(op, fine, fa_scalar_of_bool(true))) return NULL;
    fai_scope_take(fine);
    return e->fine[e->nfine++] = fine;
}

static bool unscale_one(const char *op, const fa_grad_scaler *s, entry *e, fa_tensor *grad) {
    fai_operand inverse = fai_number((float)(1.0 / (double)s->scale));
    if (grad->dtype == FA_FLOAT16)
        return fai_fail(FA_ERR_VALUE, op,
                        "Attempting to unscale FP16 gradients. Keep parameters in float32 and run the forward pass under autocast: "
                        "their gradients are float32 then.") != NULL;
    FA_SCOPE;
    fa_tensor *fine = fine_on(op, e, grad->device), *finite = fine ? fa_all(fai_row1(FAI_ROW_isfinite, fai_of(grad))) : NULL;
    if (!finite || !fai_row_into(op, FAI_ROW_logical_and, fine, 2, (const fai_operand[]){fai_of(fine), fai_of(finite)}, NULL)) return false;
    if (fai_capturing(grad->device)) { /* 1 / scale as it is at the replay; in float32 it has the same bits */
        if (!s->factor || !fa_device_equal(s->factor->device, grad->device))
            return fai_fail(FA_ERR_UNSUPPORTED, op, "gradients of %s with a loss that was scaled elsewhere are planned for captures: scale the loss there",
                            fa_device_text(grad->device)) != NULL;
        fa_tensor *there = fai_row1(FAI_ROW_reciprocal, fai_of(s->factor));
        if (!there) return false;
        inverse = fai_of(there);
    }
    return fai_row_in_place(FAI_ROW_mul, 2, (const fai_operand[]){fai_of(grad), inverse}, NULL) != NULL;
}

bool fai_scaler_is_unscaled(const char *op, const fa_grad_scaler *s, const void *key, bool *unscaled) {
    const entry *e = entry_of(s, key);
    *unscaled = e && e->stage == UNSCALED;
    if (e && e->stage == STEPPED)
        return fai_fail(FA_ERR_RUNTIME, op, "step() has already been called since the last update(). Each iteration ends with one update() of the scaler.") != NULL;
    return true;
}

bool fai_scaler_unscale(const char *op, fa_grad_scaler *s, const void *key, fa_tensor *const *parameters, int n) {
    entry *e = entry_of(s, key);
    if (!was_scaled(op, strcmp(op, "unscale_") == 0 ? "unscale_" : "step", s)) return false;
    if (e && e->stage == UNSCALED)
        return fai_fail(FA_ERR_RUNTIME, op, "unscale_() has already been called on this optimizer since the last update(). It is for looking at gradients before step(), once an iteration; each iteration ends with one update() of the scaler.") != NULL;
    if (e && e->stage == STEPPED)
        return fai_fail(FA_ERR_RUNTIME, op, "unscale_() is being called after step(). step() unscales by itself; each iteration ends with one update() of the scaler.") != NULL;
    if (!e && !(e = new_entry(op, s, key))) return false;
    FA_NO_GRAD;
    for (int i = 0; i < n; i++)
        if (parameters[i] && parameters[i]->grad && !unscale_one(op, s, e, parameters[i]->grad)) return false;
    e->stage = UNSCALED;
    return true;
}

/* All devices' bools joined on the first one's, read in one wait. */
static bool read_fine(const char *op, entry *e) {
    if (e->known >= 0) return true;
    FA_SCOPE;
    FA_NO_GRAD;
    fa_tensor *all = e->fine[0];
    for (int i = 1; i < e->nfine && all; i++) {
        fa_tensor *here = fa_to(e->fine[i], all->device);
        all = here ? fai_row2(FAI_ROW_logical_and, fai_of(all), fai_of(here)) : NULL;
    }
    if (!all) return false;
    const double value = fa_item(all);
    if (fa_failed()) return false;
    (void)op;
    e->known = value != 0;
    return true;
}

bool fai_scaler_finite(const char *op, fa_grad_scaler *s, const void *key, bool *finite) {
    entry *e = entry_of(s, key);
    if (!e || e->nfine == 0)
        return fai_fail(FA_ERR_ASSERTION, op,
                        "No inf checks were recorded for this optimizer. None of its parameters has a gradient: was backward called on the scaled loss, and does "
                        "the loss depend on them?") != NULL;
    if (!read_fine(op, e)) return false;
    *finite = e->known == 1;
    s->found_inf = !*finite;
    return true;
}

fa_tensor *fai_scaler_guard(const char *op, fa_grad_scaler *s, const void *key) {
    const entry *e = entry_of(s, key);
    if (!e || e->nfine == 0 || !fai_capturing(e->fine[0]->device)) return NULL;
    if (e->nfine == 1) return e->fine[0];
    fai_fail(FA_ERR_DEVICE, op, "gradients of one optimizer are on %d devices, but a graph is of one device: capture a step for each", e->nfine);
    return NULL;
}

void fai_scaler_stepped(fa_grad_scaler *s, const void *key) {
    entry *e = entry_of(s, key);
    if (e) e->stage = STEPPED;
}

/* ---- for the library's own optimizers ---- */

static fa_tensor **parameters_of(const char *op, const fa_optimizer *o, int *n) {
    int count = 0;
    for (int g = 0; g < o->ngroups; g++) count += o->groups[g].n;
    fa_tensor **all = fai_alloc(FAI_TAG_OBJECT, (size_t)(count + 1) * sizeof *all);
    if (!all) return fai_fail_memory(op, (size_t)(count + 1) * sizeof *all);
    *n = 0;
    for (int g = 0; g < o->ngroups; g++)
        for (int i = 0; i < o->groups[g].n; i++) all[(*n)++] = o->groups[g].trained[i].p;
    return all;
}

static bool unscale(const char *op, fa_grad_scaler *s, const fa_optimizer *o) {
    int n = 0;
    fa_tensor **parameters = parameters_of(op, o, &n);
    if (!parameters) return false;
    const bool fine = fai_scaler_unscale(op, s, o, parameters, n);
    fai_free(FAI_TAG_OBJECT, parameters, (size_t)(n + 1) * sizeof *parameters);
    return fine;
}

bool fa_grad_scaler_unscale(fa_grad_scaler *s, fa_optimizer *o) {
    if (!check("unscale_", s) || !fai_optimizer_check("unscale_", o) || fai_refuse_pending("unscale_")) return false;
    return !s->options.enabled || unscale("unscale_", s, o);
}

bool fa_grad_scaler_step(fa_grad_scaler *s, fa_optimizer *o) {
    const char *op = "grad_scaler_step";
    bool unscaled, finite;
    if (!check(op, s) || !fai_optimizer_check(op, o) || fai_refuse_pending(op)) return false;
    if (!s->options.enabled) return fa_step(o);
    if (!fai_scaler_is_unscaled(op, s, o, &unscaled) || !(unscaled || unscale(op, s, o))) return false;
    if ((o->guard = fai_scaler_guard(op, s, o))) {
        finite = fa_step(o);
        o->guard = NULL;
        if (!finite) return false;
    } else if (fa_failed() || !fai_scaler_finite(op, s, o, &finite) || (finite && !fa_step(o)))
        return false;
    fai_scaler_stepped(s, o);
    return true;
}

/* ---- the next scale ---- */

bool fa_grad_scaler_update(fa_grad_scaler *s) {
    const char *op = "grad_scaler_update";
    bool any = false, finite = true;
    if (!check(op, s) || fai_refuse_pending(op)) return false;
    if (!s->options.enabled) return true;
    if (!was_scaled(op, "update", s)) return false;
    for (int i = 0; i < s->n; i++) {
        if (s->entries[i].nfine == 0) continue;
        if (fai_capturing(s->entries[i].fine[0]->device)) return capture_update(op, s, s->entries[i].fine[0]->device);
        if (!read_fine(op, &s->entries[i])) return false;
        any = true, finite = finite && s->entries[i].known == 1;
    }
    if (!any) return fai_fail(FA_ERR_ASSERTION, op, "No inf checks were recorded prior to update. An optimizer's step through the scaler comes before it.") != NULL;
    fa_grad_scaler next = *s;
    next_scale(&next, finite);
    if (!change_factor(op, s, next.scale)) return false;
    s->scale = next.scale, s->tracker = next.tracker;
    forget_results(s);
    return true;
}
