/* Every operator on a device against the CPU. The same inputs, drawn here, go to both; on the CPU they are contiguous, on the
 * device they lie in memory in several ways. Rows of elementwise.tab are called in all their element types from what the table
 * says of them, everything else by the calls of cases.h in every type in which the CPU takes them. What the CPU refuses is no
 * case; what the device alone refuses as unsupported is counted as absent; any other difference is a failure. */
#include "selftest.h"
#include <facula.h>
#include <math.h>
#include <ops_list.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROWS = sizeof listed_rows / sizeof *listed_rows };
typedef enum layout { CONTIGUOUS, TRANSPOSED, SLICED, BROADCAST, LAYOUTS } layout;
static const char *const layout_names[] = {"contiguous", "transposed", "sliced", "broadcast"};
static const fa_dtype types[] = {FA_FLOAT32, FA_FLOAT64, FA_FLOAT16, FA_BFLOAT16, FA_INT64,
                                 FA_INT32,   FA_INT16,   FA_INT8,    FA_UINT8,    FA_BOOL};
enum { TYPES = sizeof types / sizeof *types };

/* The whole run. */
typedef struct run {
    fa_device device;
    fa_device_properties properties;
    const fa_selftest_options *options;
    fa_selftest_result result, before; /* before: when the family began */
    int operators;                     /* of the family: some are in several */
    fai_text wrong;                    /* names of operators that failed */
    const char *family, *op;           /* the operator that is looked at */
    bool failed, absent, stop;         /* of this operator; stop: an error that is the caller's */
} run;

/* One call: a case, a row of elementwise.tab, or one of more.c. */
typedef struct call {
    int number; /* of the case; -1 */
    const struct listed_row *row;
    const fai_more *more;
    const char *text, *inputs;
    fa_dtype dtype;
    layout layout;
    int n;
    fai_case_input input[FAI_CASE_INPUTS];
    bool derive, random;
} call;

/* ---- the report ---- */

static void say(const run *r, const char *format, ...) FA_PRINTF(2, 3);
static void say(const run *r, const char *format, ...) {
    char line[1600];
    va_list list;
    va_start(list, format);
    vsnprintf(line, sizeof line, format, list);
    va_end(list);
    if (r->options->line) r->options->line(r->options->context, line);
}

/* In another family it failed before. */
static bool is_named(const run *r) {
    const size_t n = strlen(r->op);
    for (const char *at = r->wrong.data; at && *at; at += strspn(at, ", ")) {
        const size_t length = strcspn(at, ",");
        if (length == n && !strncmp(at, r->op, n)) return true;
        at += length;
    }
    return false;
}

static void fail(run *r, const call *c, bool backward, double ulp, double allowed, const char *what) {
    char text[1400];
    r->result.wrong++;
    if (r->failed) return; /* one of each operator is enough to begin with */
    r->failed = true;
    if (!is_named(r)) r->result.failed++, fai_text_add(&r->wrong, r->wrong.length ? ", %s" : "%s", r->op);
    snprintf(text, sizeof text, "%s: %s of %s, %s, inputs %s: %s. The call was %s", r->op, backward ? "gradient" : "result",
             fa_dtype_name(c->dtype), layout_names[c->layout], c->inputs && *c->inputs ? c->inputs : "none", what, c->text);
    say(r, "  WRONG  %s", text);
    const fa_selftest_failure f = {r->op, r->family, c->dtype, layout_names[c->layout], c->inputs ? c->inputs : "", backward,
                                   ulp,   allowed,   text};
    if (r->options->failure) r->options->failure(r->options->context, &f);
}

/* What the device said of a call that the CPU took. */
static void fail_error(run *r, const call *c, bool backward) {
    char what[700];
    const fa_error e = fa_error_take();
    if (e.code == FA_ERR_UNSUPPORTED) {
        r->result.absent += !r->absent;
        r->absent = true;
        return;
    }
    if (e.code == FA_ERR_MEMORY || e.code == FA_ERR_DEVICE_MEMORY || e.code == FA_ERR_INTERRUPTED) {
        fa_error_set(e.code, e.op, "%s", e.text);
        r->stop = true;
        return;
    }
    snprintf(what, sizeof what, "the device says: %.640s", e.code ? e.text : "nothing, and gives no result");
    fail(r, c, backward, NAN, 0, what);
    if (e.code != FA_ERR_DEVICE) return;
    (void)fa_item(fa_zeros(FA_SHAPE(1), .device = r->device));
    r->stop = fa_failed(); /* it is lost, and that error stays */
}

static void check(run *r, const call *c, bool backward, fa_tensor *found, fa_tensor *expected) {
    fai_difference d;
    bool near = false;
    char what[400], here[160], there[160];
    if (r->stop) return;
    r->result.checks++;
    fai_text_shape(here, sizeof here, expected->ndim, expected->size);
    fai_text_shape(there, sizeof there, found->ndim, found->size);
    if (found->dtype != expected->dtype || strcmp(here, there) != 0) {
        snprintf(what, sizeof what, "it is %s %s, on the CPU %s %s", fa_dtype_name((fa_dtype)found->dtype), there,
                 fa_dtype_name((fa_dtype)expected->dtype), here);
        fail(r, c, backward, NAN, 0, what);
    } else if (!fai_compare(found, expected, !c->row, backward, &near, &d)) {
        fail_error(r, c, backward);
    } else if (!near) {
        snprintf(what, sizeof what,
                 "element %lld is %.9g, on the CPU %.9g: %.3g units of the last place apart, and %g are allowed", (long long)d.at,
                 d.found, d.expected, d.ulp, d.allowed);
        fail(r, c, backward, d.ulp, d.allowed, what);
    }
}

/* ---- inputs ---- */

static uint64_t seed;
static double uniform(double low, double high) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return low + (high - low) * (double)(seed >> 11) / 9007199254740992.0;
}

/* The shape that a layout takes the input from. */
static fa_shape leaf_shape(const call *c, int i) {
    const fai_case_input *in = &c->input[i];
    fa_shape s = in->shape;
    if (in->keeps_layout || !s.ndim) return s;
    if (c->layout == SLICED) s.dim[s.ndim - 1] *= 2;
    for (int d = 0; c->layout == TRANSPOSED && d < s.ndim; d++) s.dim[d] = in->shape.dim[s.ndim - 1 - d];
    for (int d = 0; c->layout == BROADCAST && d < s.ndim; d++)
        if (i > 0 && d % 2 == i % 2) s.dim[d] = 1;
    return s;
}

static fa_tensor *lay_out(const call *c, int i, fa_tensor *t) {
    const fai_case_input *in = &c->input[i];
    if (in->keeps_layout || !in->shape.ndim) return t;
    if (c->layout == SLICED) return fa_slice(t, -1, 1, INT64_MAX, 2);
    if (c->layout != TRANSPOSED) return t;
    fa_shape back = {.ndim = in->shape.ndim};
    for (int d = 0; d < back.ndim; d++) back.dim[d] = back.ndim - 1 - d;
    return fa_permute(t, back);
}

/* Apart from each other and in random order, so that equal ones are rare; whole numbers come from the same range. */
static fa_tensor *drawn(fa_shape shape, double low, double high, fa_dtype dtype) {
    fa_tensor *t = fa_empty(shape, .dtype = FA_FLOAT64, .device = FA_CPU);
    if (!t) return NULL;
    const bool is_signed =
        fa_dtype_is_floating(dtype) || dtype == FA_INT64 || dtype == FA_INT32 || dtype == FA_INT16 || dtype == FA_INT8;
    const int64_t n = fa_numel(t);
    double *x = fai_host(t);
    for (int64_t k = 0; k < n; k++) {
        const int64_t other = (int64_t)uniform(0, (double)k + 1);
        double value = low + (high - low) * ((double)k + uniform(0.25, 0.75)) / (double)n;
        if (!is_signed) value = fabs(value);
        if (!fa_dtype_is_floating(dtype)) value = round(value);
        x[k] = x[other];
        x[other] = value;
    }
    return fa_cast(t, dtype);
}

/* ---- one call in both places ---- */

static fa_tensor *run_on(const call *c, fa_device device, fa_tensor *const *x) {
    fai_operand operands[3] = {{0}};
    if (c->more) return c->more->run(device, c->dtype);
    if (!c->row) return fai_case_run(c->number, x, device, c->dtype);
    for (int i = 0; i < c->n; i++) operands[i] = fai_of(x[i]);
    return fai_row(c->row->row, c->n, operands, NULL);
}

/* Leaves on the device, and what is made of them there; the CPU's inputs are contiguous. */
typedef struct side {
    fa_tensor *leaf[FAI_CASE_INPUTS], *x[FAI_CASE_INPUTS], *result, *grad[FAI_CASE_INPUTS];
} side;

static bool make_side(const call *c, fa_device device, fa_tensor *const *values, side *s) {
    const bool derive = c->derive && fa_dtype_is_floating(c->dtype);
    for (int i = 0; i < c->n; i++) {
        s->leaf[i] = device.type == FA_DEVICE_CPU ? fa_clone(values[i]) : fa_to(values[i], device);
        if (s->leaf[i] && derive) fa_requires_grad(s->leaf[i], true);
        s->x[i] = s->leaf[i] ? lay_out(c, i, s->leaf[i]) : NULL;
        if (s->x[i] && device.type == FA_DEVICE_CPU) s->x[i] = fa_contiguous(s->x[i]);
        if (!s->x[i]) return false;
    }
    return true;
}

static bool has_gradient(const side *s) { return s->result && fa_dtype_is_floating(fa_dtype_of(s->result)) && s->result->node; }

static bool derive(const call *c, fa_device device, fa_tensor *weights, side *s) {
    fa_tensor *w = fa_to(weights, device), *sum = w ? fa_sum(fa_mul(s->result, w)) : NULL;
    return sum && fa_grad_of(&sum, 1, s->leaf, c->n, s->grad, .allow_unused = true);
}

/* False: the CPU refuses too. */
static bool on_cpu(run *r, const call *c, fa_tensor *const *values, side *cpu, fa_tensor **weights) {
    if (make_side(c, FA_CPU, values, cpu)) cpu->result = run_on(c, FA_CPU, cpu->x);
    *weights = has_gradient(cpu) ? drawn(fa_shape_of_tensor(cpu->result), -1, 1, fa_dtype_of(cpu->result)) : NULL;
    if (*weights) derive(c, FA_CPU, *weights, cpu);
    if (!fa_failed()) return cpu->result != NULL;
    const fa_code code = fa_error_peek()->code;
    r->stop = code == FA_ERR_MEMORY || code == FA_ERR_INTERRUPTED;
    if (!r->stop) fa_error_take();
    return false;
}

static void compare_sides(run *r, const call *c, side *cpu, side *there, fa_tensor *weights) {
    there->result = run_on(c, r->device, there->x);
    if (!there->result || fa_failed()) {
        fail_error(r, c, false);
        return;
    }
    check(r, c, false, fa_detach(there->result), fa_detach(cpu->result));
    if (!weights || r->stop) return;
    if (!derive(c, r->device, weights, there)) {
        fail_error(r, c, true);
        return;
    }
    for (int i = 0; i < c->n && !r->stop; i++) {
        if (!cpu->grad[i] != !there->grad[i])
            fail(r, c, true, NAN, 0, "there is one in one place only");
        else if (cpu->grad[i])
            check(r, c, true, there->grad[i], cpu->grad[i]);
    }
}

/* What draws random numbers is compared with itself: the same seed, the same numbers. */
static void try_call(run *r, const call *c) {
    FA_SCOPE;
    fa_tensor *values[FAI_CASE_INPUTS] = {NULL}, *weights = NULL;
    side cpu = {.result = NULL}, there = {.result = NULL}, again = {.result = NULL};
    if (c->dtype == FA_FLOAT64 && !r->properties.has_float64) return;
    seed = 12345;
    for (const char *t = c->text; *t; t++) seed = seed * 31 + (unsigned char)*t;
    for (int i = 0; i < c->n; i++) { values[i] = drawn(leaf_shape(c, i), c->input[i].low, c->input[i].high, c->dtype); }
    if (!on_cpu(r, c, values, &cpu, &weights)) return;
    if (!make_side(c, r->device, values, &there)) {
        fail_error(r, c, false);
        return;
    }
    if (c->random) {
        cpu = again;
        weights = NULL;
        if (make_side(c, r->device, values, &cpu)) cpu.result = run_on(c, r->device, cpu.x);
        if (!cpu.result) {
            fail_error(r, c, false);
            return;
        }
    }
    compare_sides(r, c, &cpu, &there, weights);
}

/* ---- operators ---- */

static bool wanted(const run *r, const char *name) { return !r->options->op || strcmp(r->options->op, name) == 0; }

static void begin_operator(run *r, const char *name) {
    r->op = name;
    r->failed = r->absent = false;
    r->operators++;
}

/* Whether this is the first time that an operator is looked at. */
static bool is_new(const char *op, int number) {
    for (int i = 0; i < number; i++)
        if (fai_cases[i].op && !strcmp(fai_cases[i].op, op)) return false;
    for (int k = 0; k < ROWS; k++)
        if (!strcmp(listed_rows[k].name, op)) return false;
    return true;
}

static void run_row(run *r, const struct listed_row *row) {
    bool result, zero;
    const fai_types allowed = fai_row_types(row->row, &result, &zero);
    begin_operator(r, row->name);
    r->result.operators++;
    for (int t = 0; t < TYPES && !r->stop; t++) {
        if (types[t] == FA_BOOL && allowed != FAI_TYPES_ANY && allowed != FAI_TYPES_FLOAT && allowed != FAI_TYPES_INT) continue;
        for (layout l = CONTIGUOUS; l < LAYOUTS && !r->stop; l++) {
            if (l && t && (int)l != 1 + t % (LAYOUTS - 1)) continue; /* all layouts in float32, two in the other types */
            call c = {.number = -1,
                      .row = row,
                      .text = row->name,
                      .inputs = l ? "7x75" : "7x333",
                      .dtype = types[t],
                      .layout = l,
                      .n = row->operands,
                      .derive = row->derivatives != 0};
            for (int i = 0; i < c.n; i++)
                c.input[i] = (fai_case_input){FA_SHAPE(7, l ? 75 : 333), row->low[i], row->high[i], false};
            try_call(r, &c);
        }
    }
}

static void run_case(run *r, int number) {
    const fai_case *k = &fai_cases[number];
    call c = {.number = number,
              .text = k->text,
              .inputs = k->inputs,
              .derive = k->kind != FAI_CASE_FIXED,
              .random = strstr(k->text, "fa_manual_seed(") != NULL};
    c.n = fai_case_inputs(k->inputs, c.input);
    for (int t = 0; t < TYPES && !r->stop; t++) {
        if (types[t] == FA_INT16 || types[t] == FA_INT8 || types[t] == FA_INT32 || (k->kind == FAI_CASE_LARGE && t > 3)) continue;
        c.dtype = types[t];
        for (layout l = CONTIGUOUS; l <= SLICED && !r->stop; l++) {
            if (l && (t || k->kind == FAI_CASE_LARGE) && (int)l != 1 + (number + t) % 2) continue;
            c.layout = l;
            try_call(r, &c);
        }
    }
}

static void run_more(run *r, const fai_more *m) {
    const bool random = strcmp(m->family, "random numbers") == 0;
    begin_operator(r, m->name);
    r->result.operators += is_new(m->name, fai_case_count);
    for (int t = 0; t < (random ? 1 : 2) && !r->stop; t++) {
        const call c = {.number = -1, .more = m, .text = m->name, .inputs = "", .dtype = types[t]};
        try_call(r, &c);
    }
}

/* ---- families ---- */

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* All cases of an operator in this family, so that it is counted once. */
static void run_cases_of(run *r, const char *family, int first) {
    const char *op = fai_cases[first].op, *in = family;
    begin_operator(r, op);
    r->result.operators += is_new(op, first);
    for (int i = first; i < fai_case_count && !r->stop; i++) {
        if (!fai_cases[i].op)
            in = fai_cases[i].text;
        else if (!strcmp(in, family) && !strcmp(fai_cases[i].op, op))
            run_case(r, i);
    }
}

static bool seen_before(const char *family, int at) {
    const char *in = "";
    for (int i = 0; i < at; i++) {
        if (!fai_cases[i].op)
            in = fai_cases[i].text;
        else if (!strcmp(in, family) && !strcmp(fai_cases[i].op, fai_cases[at].op))
            return true;
    }
    return false;
}

static void run_family(run *r, const char *family) {
    const double start = now();
    const char *in = "";
    r->family = family;
    r->before = r->result;
    r->operators = 0;
    for (int k = 0; k < ROWS && !strcmp(family, "elementwise") && !r->stop; k++)
        if (wanted(r, listed_rows[k].name)) run_row(r, &listed_rows[k]);
    for (int i = 0; i < fai_case_count && !r->stop; i++) {
        if (!fai_cases[i].op)
            in = fai_cases[i].text;
        else if (!strcmp(in, family) && wanted(r, fai_cases[i].op) && !seen_before(family, i))
            run_cases_of(r, family, i);
    }
    for (int i = 0; i < fai_more_count && !r->stop; i++)
        if (!strcmp(fai_mores[i].family, family) && wanted(r, fai_mores[i].name)) run_more(r, &fai_mores[i]);
    const fa_selftest_result *all = &r->result, *was = &r->before;
    if (r->operators == 0) return;
    char absent[48] = "";
    if (all->absent > was->absent) snprintf(absent, sizeof absent, ", %d not there", all->absent - was->absent);
    say(r, "  %-26s %3d operators %6lld checks %6.2f s  %s%s", family, r->operators, (long long)(all->checks - was->checks),
        now() - start, all->wrong > was->wrong ? "WRONG" : "ok", absent);
}

static bool first_of_its_name(int at) {
    for (int i = 0; i < at; i++)
        if (!fai_cases[i].op && !strcmp(fai_cases[i].text, fai_cases[at].text)) return false;
    return true;
}

static void run_all(run *r) {
    run_family(r, "elementwise");
    for (int i = 0; i < fai_case_count && !r->stop; i++)
        if (!fai_cases[i].op && first_of_its_name(i)) run_family(r, fai_cases[i].text);
    for (int i = 0; i < fai_more_count && !r->stop; i++)
        if (!i || strcmp(fai_mores[i].family, fai_mores[i - 1].family)) run_family(r, fai_mores[i].family);
}

/* ---- the whole ---- */

static void summarise(run *r, double seconds) {
    const fa_selftest_result *all = &r->result;
    const char *name = fa_device_text(r->device);
    if (all->absent) say(r, "%d operators are not there on %s, and say so", all->absent, name);
    if (all->failed == 0) {
        say(r, "%s: %d operators, %lld checks: all right (%.1f s)", name, all->operators, (long long)all->checks, seconds);
        return;
    }
    say(r, "%s: %d of %d operators are WRONG, in %lld of %lld checks (%.1f s): %.900s", name, all->failed, all->operators,
        (long long)all->wrong, (long long)all->checks, seconds, r->wrong.data ? r->wrong.data : "");
    say(r,
        "Report it to whoever makes the device's driver or plug-in, and to Facula, with the lines above and the output of "
        "'facula info'. One operator alone: facula selftest --device %s --op NAME",
        name);
}

bool fa_selftest_with(fa_device device, fa_selftest_result *result, const fa_selftest_options *options) {
    fa_selftest_options wish = {.struct_size = sizeof wish};
    if (options) memcpy(&wish, options, options->struct_size < sizeof wish ? options->struct_size : sizeof wish);
    run r = {.device = device, .options = &wish};
    if (result) *result = r.result;
    if (fai_refuse_pending("selftest") || !fai_device_resolve(&r.device, "selftest")) return false;
    if (!fa_device_get_properties(r.device, &r.properties)) return false;
    const bool grad = fa_set_grad_enabled(true), inference = fa_set_inference_mode(false), muted = fai_mute(true);
    const double start = now();
    say(&r, "facula %s selftest: %s (%s), against the CPU", fa_version(), fa_device_text(r.device), r.properties.name);
    run_all(&r);
    if (!r.stop && r.result.operators == 0)
        fai_fail(FA_ERR_VALUE, "selftest",
                 "there is no operator '%s' in the tables. Operators are named as their functions in C are, "
                 "without fa_: \"softmax\", \"conv2d\"",
                 r.options->op);
    else if (!r.stop)
        summarise(&r, now() - start);
    fai_text_free(&r.wrong);
    fa_set_grad_enabled(grad);
    fa_set_inference_mode(inference);
    fai_mute(muted);
    if (result) *result = r.result;
    return !r.stop && r.result.failed == 0 && r.result.operators > 0;
}
