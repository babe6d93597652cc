/* The kernels that the table names, for one type. Where there is no memory for a field, the C build of the text does the work. */

typedef void N(conv_text)(const fa_plan *plan, char *const *pointers, fa_i64 group);

static void N(by_text)(const fa_plan *plan, char *const *pointers, int direction, N(conv_text) *text) {
    const fa_i64 groups = fa_conv_groups(plan->n, direction);
    for (fa_i64 group = 0; group < groups; group++) text(plan, pointers, group);
}

void FAI_NAME(N(fai_cpu_conv2d))(const fa_plan *plan, char *const *pointers) {
    if (!N(convolve)(plan, pointers, false)) N(by_text)(plan, pointers, 0, N(conv2d));
}

void FAI_NAME(N(fai_cpu_conv2d_input))(const fa_plan *plan, char *const *pointers) {
    if (!N(convolve)(plan, pointers, true)) N(by_text)(plan, pointers, 1, N(conv2d_input));
}

void FAI_NAME(N(fai_cpu_conv2d_weight))(const fa_plan *plan, char *const *pointers) {
    if (!N(convolve_weight)(plan, pointers)) N(by_text)(plan, pointers, 2, N(conv2d_weight));
}
