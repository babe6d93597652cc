/* Every operator of the tables in a capture: replayed with other numbers in its inputs it gives the bits that it gives without a graph, and so do
 * its derivatives. What has to know numbers before it can go on is refused, with its own name in the error; which these are is a list here.
 *
 *   test-env: FACULA_SIM=cuda:1
 *   test-env: FACULA_SIM=cuda:1 FACULA_GRAPHS=list
 *   test-env-opencl: FACULA_OPENCL=cpu
 *   test-limit: 240 */
#include "support/device.h"
#include <setjmp.h>
#include "selftest/selftest.h"
#include <facula.h>
#include <cmocka.h>
#include <ops_list.h>
#include <string.h>

/* They read the device: how large their result is, or what they do, depends on numbers; or LAPACK on the host does the work. */
static const char *const readers[] = {"nonzero", "unique", "unique_dim", "unique_consecutive", "unique_consecutive_dim", "masked_select", "bincount", "combinations", "repeat_interleave_tensor"};

typedef struct subject {
    const char *name, *text;
    int number;                   /* of the case; -1 */
    const struct listed_row *row;
    bool in_place, derive, is_bool;
    int n;
    fai_case_input input[FAI_CASE_INPUTS];
} subject;

static fa_device device;
static fa_stream side;
static int captured, refused, wrong;
static uint64_t seed;

static double uniform(double low, double high) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return low + (high - low) * (double)(seed >> 11) / 9007199254740992.0;
}

static fa_tensor *drawn(const subject *s, int i) {
    const fai_case_input *in = &s->input[i];
    fa_tensor *t = fa_empty(in->shape, .device = FA_CPU);
    for (int64_t k = 0, n = fa_numel(t); k < n; k++) ((float *)fa_data(t))[k] = (float)uniform(in->low, in->high);
    return t;
}

static fa_tensor *run(const subject *s, fa_tensor *const *x) {
    fai_operand operands[3] = {{0}};
    if (!s->row) return fai_case_run(s->number, x, device, FA_FLOAT32);
    for (int i = 0; i < s->n; i++) operands[i] = fai_of(i == 0 && s->in_place ? fa_clone(x[0]) : x[i]);
    return s->in_place ? fai_row_in_place(s->row->row, s->n, operands, NULL) : fai_row(s->row->row, s->n, operands, NULL);
}

/* The result, then the gradients; how many there are. */
static int work(const subject *s, fa_tensor *const *x, fa_tensor **out) {
    fa_manual_seed(3);
    out[0] = run(s, x);
    if (!out[0] || fa_failed()) return 0;
    if (!s->derive || !fa_dtype_is_floating(fa_dtype_of(out[0])) || !out[0]->node) return 1;
    fa_tensor *sum = fa_sum(fa_sin(out[0])); /* weights that depend on the numbers */
    return fa_grad_of(&sum, 1, x, s->n, &out[1], .allow_unused = true) ? 1 + s->n : 0;
}

static bool same_bits(fa_tensor *a, fa_tensor *b) {
    const size_t bytes = (size_t)fa_numel(a) * fa_dtype_size(fa_dtype_of(a));
    fa_tensor *here = fa_cpu(fa_contiguous(fa_detach(a))), *there = fa_cpu(fa_contiguous(fa_detach(b)));
    if (!here || !there || fa_dtype_of(a) != fa_dtype_of(b) || fa_numel(a) != fa_numel(b)) return false;
    return !bytes || !memcmp(fa_data(here), fa_data(there), bytes);
}

static void complain(const subject *s, const char *what) {
    wrong++;
    print_error("%s%s: %s. The call: %s\n", s->name, s->in_place ? "_" : "", what, s->text);
}

static bool reads(const subject *s) {
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++)
        if (!strcmp(s->name, readers[i])) return true;
    return strncmp(s->text, "fa_linalg_", 10) == 0;
}

static void expect_refusal(const subject *s) {
    char named[80];
    const fa_error e = fa_error_take();
    snprintf(named, sizeof named, "'%s", s->name);
    refused++;
    if (!reads(s)) complain(s, e.text);
    else if (!strstr(e.text, "operation not permitted when stream is capturing")) complain(s, e.text);
    else if (strncmp(s->text, "fa_linalg_", 10) && strncmp(e.op, s->name, strlen(e.op))) complain(s, e.op);
}

static void try_subject(const subject *s) {
    FA_SCOPE;
    fa_tensor *x[FAI_CASE_INPUTS] = {NULL}, *other[FAI_CASE_INPUTS] = {NULL}, *out[1 + FAI_CASE_INPUTS] = {NULL}, *again[1 + FAI_CASE_INPUTS] = {NULL};
    seed = 77;
    for (const char *t = s->text; *t; t++) seed = seed * 31 + (unsigned char)*t;
    for (int i = 0; i < s->n; i++) {
        x[i] = fa_to(drawn(s, i), device);
        other[i] = fa_to(drawn(s, i), device);
        if (s->derive) fa_requires_grad(x[i], true), fa_requires_grad(other[i], true);
    }
    const int n = work(s, other, again);
    if (fa_failed()) { /* not in float32, or not on this device */
        fa_error_take();
        return;
    }
    fa_graph *g = fa_graph_new();
    if (!fa_graph_begin(g, side, 0)) fail_msg("%s", fa_error_take().text);
    const int found = work(s, x, out);
    if (fa_failed()) {
        expect_refusal(s);
        fa_graph_reset(g);
        return;
    }
    if (!fa_graph_end(g)) {
        complain(s, fa_error_take().text);
        return;
    }
    captured++;
    if (reads(s)) complain(s, "it can be captured: take it out of the list");
    if (found != n) complain(s, "another number of gradients");
    for (int i = 0; i < s->n; i++) {
        FA_NO_GRAD;
        fa_copy_(x[i], other[i]);
    }
    for (int round = 0; round < 2; round++) { /* what it writes besides its result it begins anew */
        fa_manual_seed(3);
        if (!fa_graph_replay(g)) complain(s, fa_error_take().text);
    }
    for (int i = 0; i < n && i < found; i++)
        if (!out[i] != !again[i] || (out[i] && !same_bits(out[i], again[i]))) complain(s, i ? "another gradient" : "another result");
    if (fa_failed()) complain(s, fa_error_take().text);
}

static void rows_can_be_captured(void **state) {
    (void)state;
    captured = refused = wrong = 0;
    for (size_t k = 0; k < sizeof listed_rows / sizeof *listed_rows; k++) {
        const struct listed_row *row = &listed_rows[k];
        subject s = {.name = row->name, .text = row->name, .number = -1, .row = row, .n = row->operands, .derive = row->derivatives != 0};
        for (int i = 0; i < s.n; i++) s.input[i] = (fai_case_input){FA_SHAPE(3, 5), row->low[i], row->high[i], false};
        try_subject(&s);
        s.in_place = true;
        try_subject(&s);
    }
    assert_int_equal(wrong, 0);
    assert_true(captured > 200 && refused == 0);
}

static void operators_can_be_captured(void **state) {
    (void)state;
    captured = refused = wrong = 0;
    for (int i = 0; i < fai_case_count; i++) {
        const fai_case *c = &fai_cases[i];
        if (!c->op) continue;
        subject s = {.name = c->op, .text = c->text, .number = i, .derive = c->kind != FAI_CASE_FIXED};
        s.n = fai_case_inputs(c->inputs, s.input);
        try_subject(&s);
    }
    assert_int_equal(wrong, 0);
    assert_true(captured > 500 && refused >= (int)(sizeof readers / sizeof *readers));
}

static int setup(void **state) {
    (void)state;
    device = test_device();
    side = fa_stream_new(device, 0);
    return fa_failed() ? -1 : 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_can_be_captured), cmocka_unit_test(operators_can_be_captured)};
    return cmocka_run_group_tests(tests, setup, NULL);
}
