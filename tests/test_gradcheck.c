/* The derivative of every operator, of the first and the second order, against differences in float64.
 *
 * A case is a function of some tensors. Its results are weighted with random numbers and summed to one number L; the
 * derivative of L along a random direction u is <gradient, u> and, by four values of L on the line, a quotient of fourth order.
 * For the second order the same is done with H = <gradient of L, v>, v random. Each case runs on plain, transposed and sliced
 * inputs; rows of elementwise.tab are taken from the table itself, all others must have a case in src/selftest/cases.h. */
/* test-env: - */
/* test-env: FACULA_SIM=cuda:1 */
/* test-env-opencl: FACULA_OPENCL=cpu */
#include "support/cases.h"
#include <ops_list.h>

enum { LEAVES = MAX_INPUTS + 1, PLAIN = 0, TRANSPOSED, SLICED, LAYOUTS };
static const double STEP = 2e-4, FIRST = 1e-6, SECOND = 1e-5;

typedef struct problem {
    const char *name, *text;      /* the operator; the case, for messages */
    int number;                   /* of the case */
    const struct listed_row *row; /* instead of a case: an elementwise row, perhaps in place */
    bool in_place;
    int n, layout;
    input inputs[MAX_INPUTS];
    int64_t numel[LEAVES]; /* of the inputs, then of the weights of the results */
    fa_shape shape[LEAVES];
    double *x[LEAVES], *u[LEAVES], *v[LEAVES];
} problem;

/* ---- evaluation ---- */

/* Input i at x + step * u, as a leaf: in the shape that the layout takes it from. */
static fa_tensor *leaf(const problem *p, int i, double step) {
    double *values = malloc(sizeof(double) * (size_t)(p->numel[i] + 1));
    for (int64_t k = 0; k < p->numel[i]; k++) values[k] = p->x[i][k] + step * p->u[i][k];
    fa_tensor *t = fa_from_data(values, FA_FLOAT64, p->shape[i], .device = device);
    free(values);
    return fa_requires_grad(t, true);
}

/* The operator's input, as a view of the leaf. */
static fa_tensor *lay_out(const problem *p, int i, fa_tensor *t) {
    const input *in = &p->inputs[i];
    if (in->is_bool) return fa_gt_scalar(t, 0.5);
    if (in->keeps_layout || p->layout == PLAIN || !in->shape.ndim) return t;
    if (p->layout == SLICED) return fa_slice(t, -1, 1, INT64_MAX, 2);
    fa_shape back = {.ndim = in->shape.ndim};
    for (int d = 0; d < back.ndim; d++) back.dim[d] = back.ndim - 1 - d;
    return fa_permute(t, back);
}

static fa_tensor *result(const problem *p, fa_tensor **leaves) {
    fa_tensor *x[MAX_INPUTS] = {NULL};
    fai_operand operands[3];
    for (int i = 0; i < p->n; i++) x[i] = lay_out(p, i, leaves[i]);
    if (!p->row) return run_case(p->number, x);
    for (int i = 0; i < p->n; i++) operands[i] = fai_of(x[i]);
    if (!p->in_place) return fai_row(p->row->row, p->n, operands, NULL);
    operands[0] = fai_of(fa_clone(x[0]));
    return fai_row_in_place(p->row->row, p->n, operands, NULL);
}

static void make_leaves(const problem *p, double step, fa_tensor **leaves) {
    for (int i = 0; i <= p->n; i++) leaves[i] = leaf(p, i, step);
}

static fa_tensor *loss(const problem *p, fa_tensor **leaves) { return fa_sum(fa_mul(result(p, leaves), leaves[p->n])); }

static void gradients(const problem *p, fa_tensor *of, fa_tensor **leaves, fa_tensor **grads, bool graph) {
    if (!fa_grad_of(&of, 1, leaves, p->n + 1, grads, .create_graph = graph, .allow_unused = true, .materialize_grads = true))
        fail_msg("%s: %s: %s", p->name, p->text, fa_error_peek()->text);
}

/* The sum of all products of t's elements with those of `with`. */
static double inner(const problem *p, fa_tensor **t, double *const *with, double *size) {
    double sum = 0;
    *size = 1;
    for (int i = 0; i <= p->n; i++) {
        double *values = malloc(sizeof(double) * (size_t)(p->numel[i] + 1));
        if (!fa_to_data(t[i], values, FA_FLOAT64)) fail_msg("%s: %s: %s", p->name, p->text, fa_error_peek()->text);
        for (int64_t k = 0; k < p->numel[i]; k++) sum += values[k] * with[i][k], *size += fabs(values[k] * with[i][k]);
        free(values);
    }
    return sum;
}

/* H = <gradient of L, v>, with its graph. */
static fa_tensor *slope(const problem *p, fa_tensor **leaves) {
    fa_tensor *grads[LEAVES], *sum = NULL;
    gradients(p, loss(p, leaves), leaves, grads, true);
    for (int i = 0; i <= p->n; i++) {
        fa_tensor *v = fa_from_data(p->v[i], FA_FLOAT64, p->shape[i], .device = device);
        fa_tensor *part = fa_sum(fa_mul(grads[i], v));
        sum = sum ? fa_add(sum, part) : part;
    }
    return sum;
}

static double value(const problem *p, int order, double step) {
    FA_SCOPE;
    fa_tensor *leaves[LEAVES];
    make_leaves(p, step, leaves);
    fa_tensor *of = order == 1 ? loss(p, leaves) : slope(p, leaves);
    if (!of) fail_msg("%s: %s: %s", p->name, p->text, fa_error_peek()->text);
    return fa_item(of);
}

static double difference(const problem *p, int order) {
    const double near = value(p, order, STEP) - value(p, order, -STEP),
                 far = value(p, order, 2 * STEP) - value(p, order, -2 * STEP);
    return (8 * near - far) / (12 * STEP);
}

static void compare(const problem *p, const char *what, double found, double expected, double size, double tolerance) {
    static const char *const layouts[] = {"plain", "transposed", "sliced"};
    if (!(fabs(found - expected) <= tolerance * size))
        fail_msg("%s (%s%s): %s: %s %.12g, difference %.12g", p->name, layouts[p->layout], p->in_place ? ", in place" : "",
                 p->text, what, found, expected);
}

/* The derivatives by fused kernels, by a graph, and of the second order. */
static void check(const problem *p) {
    FA_SCOPE;
    fa_tensor *leaves[LEAVES], *grads[LEAVES];
    double size;
    const double first = difference(p, 1);
    make_leaves(p, 0, leaves);
    gradients(p, loss(p, leaves), leaves, grads, false);
    const double fused = inner(p, grads, p->u, &size);
    compare(p, "derivative", fused, first, size, FIRST);
    gradients(p, loss(p, leaves), leaves, grads, true);
    compare(p, "derivative with a graph", inner(p, grads, p->u, &size), fused, size, 1e-12);
    gradients(p, slope(p, leaves), leaves, grads, false);
    compare(p, "second derivative", inner(p, grads, p->u, &size), difference(p, 2), size, SECOND);
}

/* ---- problems ---- */

static void draw(problem *p, int i, double low, double high) {
    p->numel[i] = 1;
    for (int d = 0; d < p->shape[i].ndim; d++) p->numel[i] *= p->shape[i].dim[d];
    double **const arrays[] = {&p->x[i], &p->u[i], &p->v[i]};
    for (int k = 0; k < 3; k++) *arrays[k] = malloc(sizeof(double) * (size_t)(p->numel[i] + 1));
    const bool is_bool = i < p->n && p->inputs[i].is_bool;
    for (int64_t k = 0; k < p->numel[i]; k++) { /* apart from each other, in random order: no two change places within a step */
        const int64_t other = (int64_t)uniform(0, (double)k + 1);
        p->x[i][k] = p->x[i][other];
        p->x[i][other] = low + (high - low) * ((double)k + uniform(0.25, 0.75)) / (double)p->numel[i];
    }
    for (int64_t k = 0; k < p->numel[i]; k++) {
        p->u[i][k] = is_bool ? 0 : uniform(-1, 1);
        p->v[i][k] = uniform(-1, 1);
    }
}

/* The leaf's shape, from which lay_out makes the input's. */
static fa_shape leaf_shape(const problem *p, int i) {
    const input *in = &p->inputs[i];
    fa_shape s = in->shape;
    if (in->keeps_layout || in->is_bool || !s.ndim) return s;
    if (p->layout == SLICED) s.dim[s.ndim - 1] *= 2;
    if (p->layout == TRANSPOSED)
        for (int d = 0; d < s.ndim; d++) s.dim[d] = in->shape.dim[s.ndim - 1 - d];
    return s;
}

static void run_problem(problem p) {
    seed = 12345;
    for (const char *c = p.text; *c; c++) seed = seed * 31 + (unsigned char)*c;
    fa_tensor *x[MAX_INPUTS];
    for (int i = 0; i < p.n; i++) {
        p.shape[i] = leaf_shape(&p, i);
        draw(&p, i, p.inputs[i].low, p.inputs[i].high);
        x[i] = leaf(&p, i, 0);
    }
    fa_tensor *r = result(&p, x);
    if (!r) fail_msg("%s: %s: %s", p.name, p.text, fa_error_peek()->text);
    p.shape[p.n] = fa_shape_of_tensor(r);
    draw(&p, p.n, -1, 1);
    check(&p);
    for (int i = 0; i <= p.n; i++) free(p.x[i]), free(p.u[i]), free(p.v[i]);
}

/* ---- tests ---- */

static void run_cases(int from, int to) {
    for (int number = from; number < to; number++)
        for (int layout = PLAIN; is_case(number) && layout < LAYOUTS; layout++) {
            FA_SCOPE;
            problem p = {.name = fai_cases[number].op, .text = fai_cases[number].text, .number = number, .layout = layout};
            p.n = parse_inputs(fai_cases[number].inputs, p.inputs);
            run_problem(p);
        }
}

/* In four parts, so that a failure in one does not hide those of the others. */
static void cases_first(void **state) { (void)state, run_cases(0, fai_case_count / 4); }
static void cases_second(void **state) { (void)state, run_cases(fai_case_count / 4, fai_case_count / 2); }
static void cases_third(void **state) { (void)state, run_cases(fai_case_count / 2, fai_case_count * 3 / 4); }
static void cases_last(void **state) { (void)state, run_cases(fai_case_count * 3 / 4, fai_case_count); }

/* Operands of equal and of broadcast shapes. */
static const fa_shape row_shapes[][3] = {
    {{2, {3, 4}}, {2, {3, 4}}, {2, {3, 4}}}, {{2, {2, 3}}, {1, {3}}, {2, {2, 1}}},    {{1, {4}}, {2, {3, 1}}, {0, {0}}},
    {{0, {0}}, {0, {0}}, {0, {0}}},          {{3, {2, 1, 3}}, {2, {4, 1}}, {1, {3}}},
};
enum { ROW_SHAPES = sizeof row_shapes / sizeof *row_shapes, IN_PLACE_SHAPES = 2 };

static void run_row(const struct listed_row *row, int shapes, int layout, bool in_place) {
    FA_SCOPE;
    problem p = {.name = row->name, .text = row->name, .row = row, .in_place = in_place, .n = row->operands, .layout = layout};
    for (int i = 0; i < p.n; i++) {
        const bool is_bool = !(row->derivatives >> i & 1);
        p.inputs[i] = (input){row_shapes[shapes][i], is_bool ? 0 : row->low[i], is_bool ? 1 : row->high[i], false, is_bool};
    }
    run_problem(p);
}

static void rows_checked(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof listed_rows / sizeof *listed_rows; k++)
        for (int shapes = 0; shapes < ROW_SHAPES; shapes++)
            for (int layout = PLAIN; layout < LAYOUTS; layout++)
                if (listed_rows[k].derivatives) run_row(&listed_rows[k], shapes, layout, false);
}

static void rows_in_place(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof listed_rows / sizeof *listed_rows; k++)
        for (int shapes = 0; shapes < IN_PLACE_SHAPES; shapes++)
            if (listed_rows[k].derivatives & 1) run_row(&listed_rows[k], shapes, PLAIN, true);
}

static void every_operator_has_a_case(void **state) {
    (void)state;
    int missing = 0;
    for (size_t k = 0; k < sizeof listed_ops / sizeof *listed_ops; k++) {
        bool found = false;
        for (int i = 0; i < fai_case_count && !found; i++) found = is_case(i) && !strcmp(fai_cases[i].op, listed_ops[k]);
        if (!found) print_error("no case in src/selftest/cases.h: %s\n", listed_ops[k]);
        missing += !found;
    }
    assert_int_equal(missing, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_operator_has_a_case, begin, end),
        cmocka_unit_test_setup_teardown(rows_checked, begin, end),
        cmocka_unit_test_setup_teardown(rows_in_place, begin, end),
        cmocka_unit_test_setup_teardown(cases_first, begin, end),
        cmocka_unit_test_setup_teardown(cases_second, begin, end),
        cmocka_unit_test_setup_teardown(cases_third, begin, end),
        cmocka_unit_test_setup_teardown(cases_last, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
