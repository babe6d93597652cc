/* Every elementwise row, in every compute type, over many layouts and element types: each instruction set of the CPU gives the
 * same bits as the C build of the device's text, kernels/ew.k.h, which is compiled into this test. */
#include "support/plans.h"
#include "kernels/math.h"

#define TEXT "kernels/ew.k.h"
#include "support/text.h"

static void (*const texts[FAI_COMPUTE_COUNT])(const fa_plan *, char *const *, fa_i64) = {ew_f32, ew_f64, ew_i64};

static void run_text(const fa_plan *plan, char *const *pointers, int compute) {
    for (fa_i64 group = 0; group < (plan->numel + 1023) / 1024; group++) texts[compute](plan, pointers, group);
}

/* One plan: reference once, then each instruction set. */
static void check_plan(operands *o, int row, int compute) {
    char *pointers[8];
    operand_pointers(o, pointers);
    result_clear(o);
    run_text(&o->plan, pointers, compute);
    result_keep(o);
    for (int isa = 0; isa < nisas; isa++) {
        if (!isas[isa].there()) continue;
        result_clear(o);
        isas[isa].kernels[FAI_K_ew_f32 + compute](&o->plan, pointers);
        int64_t where = result_differs(o);
        if (where >= 0) {
            print_plan(&o->plan);
            fail_msg("%s %s on %s: element at byte %lld differs", fai_rows[row].name,
                     (const char *[]){"f32", "f64", "i64"}[compute], isas[isa].name, (long long)where);
        }
    }
}

static void check_row(int row, int compute, int rounds) {
    const fai_row_info *info = &fai_rows[row];
    for (int round = 0; round < rounds; round++) {
        operands o;
        layout_random(&o, 1 + info->noperands, round);
        for (int k = 0; k <= info->noperands; k++) operand_random(&o, k, compute, round);
        o.plan.row = row;
        for (int k = 0; k < 3; k++) {
            o.plan.f[5 + k] = info->params[k] ? info->params[k] : (double)k - 1;
            o.plan.n[5 + k] = (fa_i64)o.plan.f[5 + k];
        }
        check_plan(&o, row, compute);
        operands_free(&o);
    }
}

static void test_every_row(void **state) {
    (void)state;
    int compared = 0;
    for (int row = 0; row < FAI_ROW_COUNT; row++)
        for (int compute = 0; compute < FAI_COMPUTE_COUNT; compute++)
            if (fai_rows[row].computes >> compute & 1) check_row(row, compute, 12), compared++;
    print_message("%d loops compared on", compared);
    for (int isa = 0; isa < nisas; isa++)
        if (isas[isa].there()) print_message(" %s", isas[isa].name);
    print_message("\n");
}

/* Few rows, many layouts: the walker. */
static void test_layouts(void **state) {
    (void)state;
    const int rows[] = {FAI_ROW_positive, FAI_ROW_add, FAI_ROW_where, FAI_ROW_exp, FAI_ROW_lt, FAI_ROW_neg};
    for (int i = 0; i < (int)(sizeof rows / sizeof rows[0]); i++)
        for (int compute = 0; compute < FAI_COMPUTE_COUNT; compute++)
            if (fai_rows[rows[i]].computes >> compute & 1) check_row(rows[i], compute, 400);
}

/* In place: the result's memory is the first operand's. */
static void test_in_place(void **state) {
    (void)state;
    float x[100], expected[100], y[100];
    for (int n = 1; n <= 100; n++)
        for (int isa = 0; isa < nisas; isa++) {
            if (!isas[isa].there()) continue;
            for (int i = 0; i < n; i++) x[i] = (float)i * 0.37f - 9, y[i] = (float)(i % 7) + 0.5f;
            const int rows[] = {FAI_ROW_exp, FAI_ROW_sin, FAI_ROW_fmod, FAI_ROW_add, FAI_ROW_gelu};
            for (int r = 0; r < 5; r++) {
                float z[100];
                memcpy(z, x, sizeof z);
                isas[isa].rows->f32[rows[r]](n, expected, x, y, NULL, NULL, NULL);
                isas[isa].rows->f32[rows[r]](n, z, z, y, NULL, NULL, NULL);
                assert_memory_equal(z, expected, (size_t)n * sizeof(float));
            }
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_row),
        cmocka_unit_test(test_layouts),
        cmocka_unit_test(test_in_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
