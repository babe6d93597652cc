/* The kernels that the table names, for one type. Where there is no memory for a field, the C build of the text does the work. */

typedef void N(conv_text)(const fa_plan *plan, char *const *pointers, fa_i64 group);

static void N(by_text)(const fa_plan *plan, char *const *pointers, fa_i64 groups, N(conv_text) *text) {
    for (fa_i64 group = 0; group < groups; group++) text(plan, pointers, group);
}

void FAI_NAME(N(fai_cpu_conv2d))(const fa_plan *plan, char *const *pointers) {
    const fa_i64 *n = plan->n;
    if (!N(convolve)(plan, pointers, false)) N(by_text)(plan, pointers, (n[0] * n[4] * n[7] * n[8] + 255) / 256, N(conv2d));
}

void FAI_NAME(N(fai_cpu_conv2d_input))(const fa_plan *plan, char *const *pointers) {
    const fa_i64 *n = plan->n;
    if (!N(convolve)(plan, pointers, true)) N(by_text)(plan, pointers, (n[0] * n[1] * n[2] * n[3] + 255) / 256, N(conv2d_input));
}

void FAI_NAME(N(fai_cpu_conv2d_weight))(const fa_plan *plan, char *const *pointers) {
    const fa_i64 *n = plan->n;
    if (!N(convolve_weight)(plan, pointers)) N(by_text)(plan, pointers, n[4] * (n[1] / n[15]) * n[5] * n[6], N(conv2d_weight));
}
