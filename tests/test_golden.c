/* Every operator against PyTorch: results, result types, derivatives of first and second order, refusals, over element types and
 * the ways inputs lie in memory, from all files tests/golden/<room>.golden.gz. In-place forms run on the same cases; where an
 * element stands for several they are refused. With FACULA_SIM everything runs on a device too, and what promises equal bits is
 * compared with the CPU bit for bit.
 *
 *     test_golden [op ...]      only these operators, every failure in full; GOLDEN names one file instead of all
 *
 * test-env: -
 * test-env: FACULA_SIM=cuda:1
 * test-env: FACULA_SIM=cuda:1 FACULA_FUSE=on
 * test-env-opencl: FACULA_OPENCL=cpu
 * test-limit: 300 */
#include "base/base.h"
#include "support/calls.h"
#include "support/device.h"
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* One way of running a case. */
typedef struct run {
    const golden_case *c;
    const golden_call *call;
    fa_dtype type;
    int t;               /* index of the type */
    char layout;
    fa_device device;
    bool in_place;
    fa_tensor *tensors[GOLDEN_MAX_TENSORS], *second;
} run;

static long passed, failed;
static golden_file file;
static long failed_of_op;
static char last_op[48];
static int chosen;

/* ---- saying what failed ---- */

static bool fail(const run *r, const char *format, ...) FA_PRINTF(2, 3);
static bool fail(const run *r, const char *format, ...) {
    if (strcmp(last_op, r->c->op) != 0) {
        if (failed_of_op > 3 && !chosen) printf("  %s: %ld more\n", last_op, failed_of_op - 3);
        snprintf(last_op, sizeof last_op, "%s", r->c->op);
        failed_of_op = 0;
    }
    if (++failed_of_op > 3 && !chosen) return false;
    printf("FAILED %s%s (%s:%d) %s layout %c on %s: ", r->c->op, r->in_place ? "_" : "", file.path, r->c->line,
           r->type ? fa_dtype_name(r->type) : "-", r->layout, fa_device_text(r->device));
    va_list list;
    va_start(list, format);
    vprintf(format, list);
    va_end(list);
    printf("\n");
    return false;
}

static bool fail_pending(const run *r, const char *when) {
    const fa_error e = fa_error_take();
    return fail(r, "%s: %s: %s", when, e.op, e.code ? e.text : "failed without an error");
}

/* ---- inputs ---- */

static bool make_inputs(run *r) {
    for (int i = 0; i < r->c->ntensors; i++) {
        r->tensors[i] = r->c->tensors[i].null ? NULL : golden_input(r->c, i, r->type, r->layout, r->device);
        if (!r->tensors[i] && !r->c->tensors[i].null) return fail_pending(r, "making an input");
    }
    return true;
}

static fa_tensor *call(run *r) {
    fa_tensor *out = golden_run(r->c, r->call, r->type, r->device, r->tensors, &r->second);
    if (!out && !fa_failed()) fail(r, "the file's argument names are not those of the row");
    return out;
}

/* ---- comparing ---- */

static int mantissa(fa_dtype t) { return t == FA_FLOAT64 ? 52 : t == FA_FLOAT32 ? 23 : t == FA_BFLOAT16 ? 7 : 10; }
static int least(fa_dtype t) { return t == FA_FLOAT64 ? -1074 : t == FA_FLOAT32 ? -149 : t == FA_BFLOAT16 ? -133 : -24; }
static double largest(fa_dtype t) {
    return t == FA_FLOAT64 ? DBL_MAX : t == FA_FLOAT32 ? FLT_MAX : t == FA_BFLOAT16 ? 3.3895313892515355e38 : 65504;
}
static double epsilon(fa_dtype t) { return t == FA_FLOAT64 ? DBL_EPSILON : FLT_EPSILON; } /* of what it is computed in */

static double unit(fa_dtype type, double at) {
    const int e = at == 0 ? least(type) : ilogb(at) - mantissa(type);
    return ldexp(1, e < least(type) ? least(type) : e);
}

/* Whether got is the truth, within ulp units of its last place and, besides, near. */
static bool close_to(fa_dtype type, double got, double truth, double ulp, double near) {
    if (isnan(truth) || isnan(got)) return isnan(truth) && isnan(got);
    if (!fa_dtype_is_floating(type)) return got == truth;
    const double top = largest(type);
    if (fabs(truth) >= top + unit(type, top) / 2) truth = truth > 0 ? INFINITY : -INFINITY;
    if (isinf(truth) || isinf(got)) return got == truth;
    return fabs(got - truth) <= ulp * unit(type, truth) + near;
}

static bool compare(const run *r, const char *what, fa_tensor *t, fa_dtype type, const double *truth, int64_t n, double ulp,
                    double near) {
    if (fa_numel(t) != n) return fail(r, "%s has %lld elements, expected %lld", what, (long long)fa_numel(t), (long long)n);
    double *got = malloc((size_t)(n + 1) * sizeof *got);
    if (!got || !fa_to_data(t, got, FA_FLOAT64)) return free(got), fail_pending(r, what);
    int64_t worst = -1;
    double most = -1;
    for (int64_t i = 0; i < n; i++) {
        if (close_to(type, got[i], truth[i], ulp, near)) continue;
        const double units = fabs(got[i] - truth[i]) / unit(fa_dtype_is_floating(type) ? type : FA_FLOAT64, truth[i]);
        if (units > most || worst < 0 || isnan(units)) worst = i, most = units;
    }
    if (worst >= 0)
        fail(r, "%s[%lld] is %.17g, expected %.17g (%.3g units of the last place; allowed %g, and %.3g)", what, (long long)worst,
             got[worst], truth[worst], most, ulp, near);
    free(got);
    return worst < 0;
}

static bool check_result(const run *r, int k, fa_tensor *t) {
    const golden_values *v = &r->c->out[k];
    const fa_dtype type = r->c->results[r->t][k];
    char what[24];
    snprintf(what, sizeof what, k ? "second result" : "result");
    if (!t) return fail_pending(r, what);
    if (fa_dtype_of(t) != type) return fail(r, "%s is %s, expected %s", what, fa_dtype_name(fa_dtype_of(t)), fa_dtype_name(type));
    if (!fa_device_equal(fa_device_of(t), r->device)) return fail(r, "%s is on %s", what, fa_device_text(fa_device_of(t)));
    bool same = fa_ndim(t) == v->shape.ndim;
    for (int i = 0; same && i < v->shape.ndim; i++) same = fa_size(t, i) == v->shape.dim[i];
    if (!same) return fail(r, "%s is of another shape than PyTorch's", what);
    const double ulp = type == FA_FLOAT64 && r->c->ulp > 0 ? 2 * r->c->ulp + 4 : r->c->ulp;
    return compare(r, what, t, type, v->values, v->n, ulp, r->c->near * epsilon(type) * (type == FA_FLOAT64 ? 4 : 1));
}

static bool check_forward(run *r) {
    fa_tensor *out = call(r);
    if (!out) return fail_pending(r, "call");
    if (!check_result(r, 0, out) || (r->c->nout > 1 && !check_result(r, 1, r->second))) return false;
    for (int i = 0; i < r->c->nchanges; i++) {
        const golden_values *v = &r->c->changes[i];
        const golden_spec *a = &r->c->args[v->at];
        if (!compare(r, a->name, r->tensors[a->first], r->type, v->values, v->n, 8, r->c->near * epsilon(r->type))) return false;
    }
    return true;
}

/* The first element whose bits differ, -1 if none does. A NaN is a NaN: which of two operands' signs and payloads comes through is the
 * compiler's choice. */
static int64_t first_difference(const char *a, const char *b, fa_dtype type, int64_t n) {
    const size_t each = fa_dtype_size(type);
    for (int64_t i = 0; i < n; i++) {
        double x = 0, y = 0;
        if (memcmp(a + (size_t)i * each, b + (size_t)i * each, each) == 0) continue;
        fai_convert(&x, FA_FLOAT64, a + (size_t)i * each, type, 1);
        fai_convert(&y, FA_FLOAT64, b + (size_t)i * each, type, 1);
        if (x == x || y == y) return i;
    }
    return -1;
}

/* The same bits as on the CPU, for all but float64. */
static bool check_bits(run *r) {
    run cpu = {.c = r->c, .call = r->call, .type = r->type, .t = r->t, .layout = r->layout, .device = FA_CPU};
    r->second = NULL;
    fa_tensor *there = make_inputs(r) ? fa_cpu(call(r)) : NULL, *here = there && make_inputs(&cpu) ? call(&cpu) : NULL;
    if (!there || !here) return fail_pending(r, "comparing bits");
    const size_t bytes = (size_t)fa_numel(here) * fa_dtype_size(fa_dtype_of(here));
    const fa_dtype type = fa_dtype_of(here);
    if (type == FA_FLOAT64 || bytes == 0) return true;
    char *a = malloc(2 * bytes);
    const bool read = a && fa_to_data(there, a, type) && fa_to_data(here, a + bytes, type);
    const int64_t at = read ? first_difference(a, a + bytes, type, fa_numel(here)) : 0;
    double found = 0, expected = 0;
    if (read && at >= 0) {
        fai_convert(&found, FA_FLOAT64, a + (size_t)at * fa_dtype_size(type), type, 1);
        fai_convert(&expected, FA_FLOAT64, a + bytes + (size_t)at * fa_dtype_size(type), type, 1);
    }
    free(a);
    return (read && at < 0) || fail(r, "other bits than on the CPU: element %lld is %.9g, there %.9g", (long long)at, found, expected);
}

/* ---- derivatives ---- */

/* grads[k] belongs to tensor wanted[k]; where PyTorch gives none or zeros, none is right too. */
static bool check_gradients(const run *r, const char *what, const golden_values *truth, int ntruth, const int *wanted, int n,
                            fa_tensor *const *grads, double tolerance) {
    for (int i = 0; i < ntruth; i++) {
        int k = 0;
        while (k < n && wanted[k] != truth[i].at) k++;
        double peak = 0;
        for (int64_t j = 0; j < truth[i].n; j++) peak = fmax(peak, fabs(truth[i].values[j]));
        if (k == n) return fail(r, "the file's %s is of tensor %d, which has none", what, truth[i].at);
        if (!grads[k] && peak == 0) continue;
        if (!grads[k]) return fail(r, "no %s of tensor %d", what, truth[i].at);
        char text[48];
        snprintf(text, sizeof text, "%s of tensor %d", what, truth[i].at);
        const double near = tolerance * fmax(peak, 1e-3);
        if (!compare(r, text, grads[k], fa_dtype_of(grads[k]), truth[i].values, truth[i].n, 1, near)) return false;
    }
    return true;
}

static bool check_second(run *r, const int *wanted, int n, fa_tensor **inputs, fa_tensor **grads) {
    fa_tensor *outputs[GOLDEN_MAX_TENSORS], *w[GOLDEN_MAX_TENSORS], *second[GOLDEN_MAX_TENSORS] = {NULL};
    int m = 0;
    for (int k = 0; k < n; k++) {
        if (!grads[k] || !fa_is_requires_grad(grads[k])) continue;
        outputs[m] = grads[k];
        if (!(w[m] = golden_weights(r->c, grads[k], (r->c->gseed + 1 + (uint64_t)k) & 0xffffffff))) return fail_pending(r, "weights");
        m++;
    }
    if (m > 0 && !fa_grad_of(outputs, m, inputs, n, second, .grad_outputs = w, .allow_unused = true))
        return fail_pending(r, "second derivative");
    return check_gradients(r, "second derivative", r->c->second, r->c->nsecond, wanted, n, second, 1e-10);
}

static bool check_derivatives(run *r) {
    int wanted[GOLDEN_MAX_TENSORS], n = 0;
    fa_tensor *inputs[GOLDEN_MAX_TENSORS], *grads[GOLDEN_MAX_TENSORS] = {NULL};
    if (!make_inputs(r)) return false;
    for (int i = 0; i < r->c->ntensors; i++) {
        bool one = false;
        for (int k = 0; k < r->c->nfirst; k++) one = one || r->c->first[k].at == i;
        if (!one) continue;
        inputs[n] = r->tensors[i];
        wanted[n++] = i;
        if (!fa_requires_grad(r->tensors[i], true)) return fail_pending(r, "requires_grad");
    }
    r->second = NULL;
    fa_tensor *out = call(r), *w = out ? golden_weights(r->c, out, r->c->gseed) : NULL;
    const bool twice = r->c->nsecond > 0 && r->type == FA_FLOAT64;
    if (!w || !fa_grad_of(&out, 1, inputs, n, grads, .grad_outputs = &w, .create_graph = twice, .allow_unused = true))
        return fail_pending(r, "derivative");
    const double tolerance = r->type == FA_FLOAT64 ? 1e-12 : 1e-5;
    if (!check_gradients(r, "derivative", r->c->first, r->c->nfirst, wanted, n, grads, tolerance)) return false;
    return !twice || check_second(r, wanted, n, inputs, grads);
}

/* ---- running ---- */

/* Each kind of check in a scope of its own, with no error left behind. */
static void count(run *r, bool (*check)(run *r)) {
    FA_SCOPE;
    r->second = NULL;
    const bool ok = check(r);
    if (fa_failed()) (void)fa_error_take();
    if (ok) passed++;
    else failed++;
}

static bool forward(run *r) { return make_inputs(r) && check_forward(r); }

/* What PyTorch refuses is refused, with a message; a device tells of a bad index when the result is read. */
static bool refused(run *r) {
    if (!make_inputs(r)) return false;
    if (fa_cpu(call(r))) return fail(r, "PyTorch refuses this, here it gives a result");
    return fa_failed() ? true : fail(r, "refused without an error");
}

static bool in_place(run *r) {
    if (!make_inputs(r)) return false;
    fa_tensor *out = call(r);
    if (!out) return fail_pending(r, "call");
    return check_result(r, 0, out) && check_result(r, 0, r->tensors[0]);
}

static void run_layout(run *r) {
    char name[64];
    if (r->c->refused) {
        count(r, refused);
        return;
    }
    count(r, forward);
    if (r->c->nfirst > 0 && (r->type == FA_FLOAT64 || r->type == FA_FLOAT32)) count(r, check_derivatives);
    if (r->c->bits && r->device.type != FA_DEVICE_CPU) count(r, check_bits);
    if (golden_in_place(r->c, r->t, name)) {
        const golden_call *plain = r->call;
        r->call = golden_find_call(name);
        r->in_place = true;
        count(r, r->layout == 'e' ? refused : in_place);
        r->call = plain;
        r->in_place = false;
    }
}

static void run_case(const golden_case *c, const golden_call *call_of, fa_device device) {
    for (int t = 0; t < c->ntypes; t++) {
        for (const char *layout = c->layouts; *layout; layout++) {
            run r = {.c = c, .call = call_of, .type = c->types[t], .t = t, .layout = *layout, .device = device};
            run_layout(&r);
        }
    }
}

static bool wanted(const char *op, int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], op) == 0) return true;
    }
    return argc < 2;
}

int main(int argc, char **argv) {
    const char *pattern = getenv("GOLDEN") ? getenv("GOLDEN") : GOLDEN_FILES;
    const fa_device device = test_device();
    static golden_case c;
    chosen = argc > 1;
    if (!golden_open(&file, pattern)) return printf("no file %s: run from the root of the source\n", pattern), 1;
    for (; golden_next(&file, &c); golden_free(&c)) {
        const golden_call *call_of = golden_find_call(c.op);
        if (!wanted(c.op, argc, argv) || (c.seeded && device.type != FA_DEVICE_CPU)) continue;
        if (!call_of) {
            if (strcmp(last_op, c.op) != 0) printf("FAILED %s (%s:%d): no such operator in the tables\n", c.op, file.path, c.line);
            snprintf(last_op, sizeof last_op, "%s", c.op);
            failed++;
        } else {
            run_case(&c, call_of, device);
        }
    }
    if (failed_of_op > 3 && !chosen) printf("  %s: %ld more\n", last_op, failed_of_op - 3);
    if (file.damaged) printf("FAILED %s:%d can't be read\n", file.path, file.line), failed++;
    golden_free(&c);
    golden_close(&file);
    failed += fa_finish("test_golden");
    printf("%ld passed, %ld failed\n", passed, failed);
    return failed > 0 || passed == 0;
}
