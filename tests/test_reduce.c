/* Every reduction, in every compute type, over many shapes, layouts and element types: each instruction set of the CPU gives the
 * same bits as the C build of the device's text, whatever the number of threads; and some sums against plain arithmetic. */
#include "support/plans.h"
#include "kernels/math.h"

#define TEXT "kernels/reduce.k.h"
#include "support/text.h"

typedef void text(const fa_plan *, char *const *, fa_i64);
static text *const sums[FAI_COMPUTE_COUNT] = {reduce_f32, reduce_f64, reduce_i64};
static text *const indices[FAI_COMPUTE_COUNT] = {reduce_index_f32, reduce_index_f64, reduce_index_i64};

/* Sizes of kept and reduced dimensions: rows, columns, one large result, and mixtures. */
static void choose_sizes(fa_plan *plan, int round) {
    static const fa_i64 shapes[][5] = {/* kept dimensions, then sizes */
                                       {1, 3, 5000}, {1, 300, 70},  {0, 70000},    {1, 70, 40},  {1, 130, 3000},  {2, 3, 9, 50},
                                       {1, 5, 1},    {0, 1},        {2, 2, 3, 17}, {1, 7, 1024}, {0, 1025},       {1, 2, 16},
                                       {0, 200000},  {1, 20, 2049}, {0, 0},        {1, 4, 0},    {1, 100, 12000}, {3, 2, 2, 33}};
    const fa_i64 *shape = shapes[round % (int)(sizeof shapes / sizeof shapes[0])];
    plan->n[0] = shape[0];
    plan->ndim = 0;
    for (int i = 1; i < 5 && (i <= shape[0] + 1 || shape[i]); i++) plan->view[1].size[plan->ndim++] = shape[i];
    if (plan->ndim == plan->n[0]) plan->view[1].size[plan->ndim++] = 6;
    if (plan->ndim < 5 && any(3) == 0) plan->view[1].size[plan->ndim++] = 1 + any(4); /* two reduced dimensions */
}

static void choose_layout(operands *o, int round) {
    memset(o, 0, sizeof *o);
    o->n = o->plan.nviews = 2;
    choose_sizes(&o->plan, round);
    fa_plan_view *x = &o->plan.view[1], *y = &o->plan.view[0];
    o->plan.numel = o->plan.n[1] = 1;
    x->ndim = o->plan.ndim;
    for (int d = 0; d < o->plan.ndim; d++) *(d < o->plan.n[0] ? &o->plan.numel : &o->plan.n[1]) *= x->size[d];
    /* rows, columns (kept dimensions run fastest), or any order */
    int order[FA_PLAN_DIMS], kind = (int)any(4);
    for (int d = 0; d < o->plan.ndim; d++) order[d] = kind == 1 ? (d + (int)o->plan.n[0]) % o->plan.ndim : d;
    fa_i64 step = kind == 2 ? 2 : 1;
    for (int d = o->plan.ndim - 1; d >= 0; d--) {
        bool dead = kind == 3 && any(3) == 0;
        x->stride[order[d]] = dead ? 0 : kind == 3 && any(2) ? -step : step;
        if (!dead) step *= x->size[order[d]];
    }
    x->kind = y->kind = FA_VIEW_TENSOR;
    y->ndim = 1;
    y->size[0] = o->plan.numel;
    y->stride[0] = 1;
    y->writes = 1;
}

static void compare(operands *o, text *reference, int kernel, const char *what) {
    char *pointers[8], *second = o->memory[2];
    operand_pointers(o, pointers);
    result_clear(o);
    for (fa_i64 group = 0; group < o->plan.numel; group++) reference(&o->plan, pointers, group);
    result_keep(o);
    char *values = malloc(o->bytes[2] + 1);
    assert_non_null(values);
    if (second) memcpy(values, second, o->bytes[2]);
    for (int i = 0; i < nisas * 2; i++) {
        if (!isas[i / 2].there()) continue;
        result_clear(o);
        fa_set_num_threads(i % 2 ? 3 : 1);
        isas[i / 2].kernels[kernel](&o->plan, pointers);
        if (result_differs(o) >= 0 || (second && differs(second, values, o->plan.view[2].dtype, o->bytes[2]) >= 0)) {
            print_plan(&o->plan);
            fail_msg("%s kernel %s on %s with %d threads differs", what, fai_kernels[kernel].name, isas[i / 2].name,
                     i % 2 ? 3 : 1);
        }
    }
    free(values);
}

static void test_every_reduction(void **state) {
    (void)state;
    for (int row = 0; row < FAI_REDUCE_COUNT; row++)
        for (int compute = 0; compute < FAI_COMPUTE_COUNT; compute++)
            for (int round = 0; round < 36 && fai_reduces[row].computes >> compute & 1; round++) {
                operands o;
                choose_layout(&o, round);
                o.plan.row = row;
                operand_random(&o, 0, compute, round % 3);
                operand_random(&o, 1, compute, round % 3);
                compare(&o, sums[compute], FAI_K_reduce_f32 + compute, fai_reduces[row].name);
                operands_free(&o);
            }
}

static void test_places(void **state) {
    (void)state;
    for (int compute = 0; compute < FAI_COMPUTE_COUNT; compute++)
        for (int round = 0; round < 144; round++) {
            operands o;
            choose_layout(&o, round / 2);
            if (o.plan.n[1] == 0) continue;
            operand_random(&o, 0, FAI_I64, 0);
            operand_random(&o, 1, compute, round % 3);
            o.plan.n[3] = round & 1;
            if (round & 2) {
                o.plan.view[2] = o.plan.view[0];
                operand_random(&o, 2, compute, 0);
                o.plan.nviews = 3;
            }
            compare(&o, indices[compute], FAI_K_reduce_index_f32 + compute, "index");
            operands_free(&o);
        }
}

/* The order itself, written down once more: sums of two blocks and a bit. */
static float block_sum(const float *x, int n) {
    float part[16] = {0};
    for (int i = 0; i < n; i++) part[i % 16] += x[i];
    for (int half = 8; half; half /= 2)
        for (int i = 0; i < half; i++) part[i] += part[i + half];
    return part[0];
}

static void test_order(void **state) {
    (void)state;
    static float x[3 * 1024 + 77];
    for (int i = 0; i < 3 * 1024 + 77; i++) x[i] = (float)(any(1 << 20)) * 0.001f - 300;
    float y, expected = (block_sum(x, 1024) + block_sum(x + 1024, 1024)) + (block_sum(x + 2048, 1024) + block_sum(x + 3072, 77));
    fa_plan plan = {.numel = 1, .n = {0, 3 * 1024 + 77}, .row = FAI_REDUCE_sum, .nviews = 2, .ndim = 1};
    plan.view[0] = (fa_plan_view){.kind = FA_VIEW_TENSOR, .dtype = FA_T_FLOAT32};
    plan.view[1] =
        (fa_plan_view){.kind = FA_VIEW_TENSOR, .dtype = FA_T_FLOAT32, .ndim = 1, .size = {3 * 1024 + 77}, .stride = {1}};
    char *pointers[8] = {(char *)&y, (char *)x};
    fai_cpu_table()[FAI_K_reduce_f32](&plan, pointers);
    assert_memory_equal(&y, &expected, sizeof y);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_reduction),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
