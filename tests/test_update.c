/* Every update rule, for float32, float64, float16 and bfloat16 parameters: each instruction set of the CPU gives the same
 * bits as the C build of kernels/optim.k.h, from tables of many parameters; and Adam against its formula. */
#include "support/plans.h"
#include "kernels/math.h"

#define FLOATS_ONLY
#define TEXT "kernels/optim.k.h"
#include "support/text.h"

enum { PARAMETERS = 4, MOST = 40000, TABLES = 5 };
static const int64_t sizes[PARAMETERS] = {3, MOST, 1024, 777};

typedef struct world {
    fa_plan plan;
    fa_table_entry table[TABLES][PARAMETERS];
    char *memory[TABLES][PARAMETERS];
} world;

static void world_make(world *w, int row, int dtype) {
    memset(w, 0, sizeof *w);
    w->plan.row = row;
    w->plan.nviews = 2 + fai_updates[row].nstate;
    w->plan.n[0] = 3;
    w->plan.groups = 3 * PARAMETERS;
    for (int k = 0; k < w->plan.nviews; k++) {
        w->plan.view[k] = (fa_plan_view){
            .kind = FA_VIEW_TABLE, .dtype = dtype, .ndim = 1, .size = {PARAMETERS}, .stride = {1}, .writes = k != 1};
        for (int i = 0; i < PARAMETERS; i++) {
            int64_t bytes = sizes[i] * bytes_of[dtype];
            w->memory[k][i] = malloc((size_t)bytes);
            assert_non_null(w->memory[k][i]);
            w->table[k][i] = (fa_table_entry){(fa_i64)(uintptr_t)w->memory[k][i], bytes};
        }
    }
    for (int h = 0; h < fai_updates[row].nhyper; h++) w->plan.f[h] = (double)any(1000) / 1001;
}

static void world_fill(world *w, uint64_t seed) {
    plans_state = seed;
    for (int k = 0; k < w->plan.nviews; k++)
        for (int i = 0; i < PARAMETERS; i++)
            for (int64_t e = 0; e < sizes[i]; e++) {
                double v = any_value(w->plan.view[k].dtype);
                fa_store_f64(w->memory[k][i], w->plan.view[k].dtype, e, k >= 3 ? fabs(v) : v);
            }
}

static void world_free(world *w) {
    for (int k = 0; k < TABLES; k++)
        for (int i = 0; i < PARAMETERS; i++) free(w->memory[k][i]);
}

static void test_every_rule(void **state) {
    (void)state;
    const int dtypes[] = {FA_T_FLOAT32, FA_T_FLOAT64, FA_T_FLOAT16, FA_T_BFLOAT16};
    for (int row = 0; row < FAI_UPDATE_COUNT; row++)
        for (int d = 0; d < 4; d++) {
            world expected, found;
            const uint64_t seed = (uint64_t)row * 10 + (uint64_t)d + 1;
            plans_state = seed;
            world_make(&expected, row, dtypes[d]);
            plans_state = seed;
            world_make(&found, row, dtypes[d]);
            world_fill(&expected, seed);
            char *pointers[8] = {0}, *others[8] = {0};
            for (int k = 0; k < TABLES; k++) pointers[k] = (char *)expected.table[k], others[k] = (char *)found.table[k];
            for (fa_i64 g = 0; g < expected.plan.groups; g++) (d == 1 ? update_f64 : update_f32)(&expected.plan, pointers, g);
            for (int i = 0; i < nisas; i++) {
                if (!isas[i].there()) continue;
                world_fill(&found, seed);
                isas[i].kernels[FAI_K_update_f32 + (d == 1)](&found.plan, others);
                for (int k = 0; k < found.plan.nviews; k++)
                    for (int p = 0; p < PARAMETERS; p++)
                        if (differs(found.memory[k][p], expected.memory[k][p], dtypes[d],
                                    (size_t)(sizes[p] * bytes_of[dtypes[d]])) >= 0)
                            fail_msg("%s on %s, dtype %d, table %d differs", fai_updates[row].name, isas[i].name, dtypes[d], k);
            }
            world_free(&expected);
            world_free(&found);
        }
}

/* One parameter, one tensor instead of tables: two steps of Adam as its paper has them. */
static void test_adam(void **state) {
    (void)state;
    double p = 0.5, m = 0, v = 0;
    const double g[2] = {0.3, -0.7}, lr = 0.1, beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
    double truth = p, tm = 0, tv = 0;
    for (int step = 1; step <= 2; step++) {
        double grad = g[step - 1];
        fa_plan plan = {.row = FAI_UPDATE_adam, .nviews = 4, .n = {1, 1}, .groups = 1};
        plan.f[0] = lr / (1 - pow(beta1, step)), plan.f[3] = 1 - beta1, plan.f[4] = beta2, plan.f[5] = 1 - beta2, plan.f[6] = eps;
        plan.f[7] = sqrt(1 - pow(beta2, step));
        for (int k = 0; k < 4; k++)
            plan.view[k] = (fa_plan_view){.kind = FA_VIEW_TENSOR, .dtype = FA_T_FLOAT64, .ndim = 1, .size = {1}, .stride = {1}};
        char *pointers[8] = {(char *)&p, (char *)&grad, (char *)&m, (char *)&v};
        fai_cpu_table()[FAI_K_update_f64](&plan, pointers);
        tm = beta1 * tm + (1 - beta1) * grad, tv = beta2 * tv + (1 - beta2) * grad * grad;
        truth -= lr * (tm / (1 - pow(beta1, step))) / (sqrt(tv / (1 - pow(beta2, step))) + eps);
        assert_true(fabs(p - truth) < 1e-12);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_rule), cmocka_unit_test(test_adam)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
