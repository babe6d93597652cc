/* Running kernels: the plan is filled here, the CPU's function or the device's launch is called here, and nowhere else. */
#include "ops.h"
#include "../backends/cpu/cpu.h"
#include "../../kernels/status.h"
#include <string.h>

void fai_plan_begin(fa_plan *plan)
{
    memset(plan, 0, offsetof(fa_plan, view));
    for (int k = 0; k < FA_PLAN_VIEWS; k++) plan->view[k].kind = FA_VIEW_NONE;
    plan->groups = 1;
}

void fai_plan_view(fa_plan *plan, int k, const fa_tensor *t, bool writes)
{
    fa_plan_view *v = &plan->view[k];
    const int64_t bytes = fai_dtype_bytes[t->dtype];
    int64_t low, high;
    v->kind = FA_VIEW_TENSOR;
    v->ndim = t->ndim, v->dtype = t->dtype, v->writes = writes;
    for (int i = 0; i < t->ndim; i++) v->size[i] = t->size[i], v->stride[i] = t->stride[i];
    fai_span(t, &low, &high);
    v->low = low * bytes, v->high = high * bytes;
    if (plan->nviews < k + 1) plan->nviews = k + 1;
}

static bool run_on_device(int kernel, fa_plan *plan, fa_tensor *const *operands, int n, const char *op)
{
    fai_buffer *buffers[8] = {NULL};
    int64_t offsets[8] = {0};
    for (int k = 0; k < FA_PLAN_VIEWS; k++) /* kernels may read the strides of a view that is not there, and use none of it */
        if (plan->view[k].kind == FA_VIEW_NONE) memset(&plan->view[k], 0, sizeof plan->view[k]);
    for (int k = 0; k < n; k++) {
        if (!operands[k] || plan->view[k].kind == FA_VIEW_NONE || plan->view[k].kind == FA_VIEW_SCALAR) continue;
        buffers[k] = operands[k]->buffer;
        offsets[k] = operands[k]->offset * fai_dtype_bytes[operands[k]->dtype];
    }
    const fa_device device = operands[0]->device;
    const bool pending = fai_tls.error_pending;
    if (fai_tls.called) op = fai_tls.called;
    if (FAI_LIKELY(fai_device_launch(device, kernel, plan, buffers, offsets, op))) return FAI_LIKELY(!fai_launches_wait()) || fai_stream_check(device, op);
    return fai_fall_back(device, kernel, plan, buffers, offsets, op, pending);
}

enum { LONG_WORK = 1 << 15 }; /* elements in all tensors: from about 20 us of work on, another language's threads may run meanwhile */

/* Those threads may drop a tensor that the kernel reads: it keeps the buffers, whose counts are atomic. */
static void run_unlocked(fai_cpu_kernel run, fa_plan *plan, fa_tensor *const *operands, int n, char **pointers)
{
    fai_buffer *held[8] = {NULL};
    for (int k = 0; k < n; k++)
        if (operands[k]) held[k] = fai_buffer_ref(operands[k]->buffer);
    void *state = fai_other_face.unlock();
    run(plan, pointers);
    fai_other_face.lock(state);
    for (int k = 0; k < n; k++)
        if (held[k]) fai_buffer_unref(held[k]);
}

bool fai_run(int kernel, fa_plan *plan, fa_tensor *const *operands, int n, const char *op)
{
    if (!fai_on_cpu(operands[0])) return run_on_device(kernel, plan, operands, n, op);
    char *pointers[8] = {NULL};
    int64_t elements = 0;
    for (int k = 0; k < n; k++) {
        if (!operands[k]) continue;
        elements += operands[k]->numel;
        if (plan->view[k].kind != FA_VIEW_SCALAR) pointers[k] = fai_host(operands[k]);
    }
    fai_cpu_kernel run = fai_cpu_table()[kernel];
    if (!run) {
        fai_fail(FA_ERR_UNSUPPORTED, op, "the kernel %s has no form for the CPU", fai_kernels[kernel].name);
        return false;
    }
    if (FAI_UNLIKELY(elements >= LONG_WORK) && fai_other_face.unlock) run_unlocked(run, plan, operands, n, pointers);
    else run(plan, pointers);
    return !fai_halted();
}

fa_tensor *fai_tensor_of_words(const char *op, fai_buffer *buffer, int64_t words)
{
    fa_tensor *t = fai_empty(op, FA_INT64, buffer->device, 1, &(int64_t){0});
    if (!t) return NULL;
    fai_buffer_unref(t->buffer);
    t->buffer = fai_buffer_ref(buffer);
    t->size[0] = t->numel = words;
    return t;
}

fa_tensor *fai_status(const char *op, fa_device device)
{
    const int64_t words = FA_STATUS_WORDS;
    if (device.type == FA_DEVICE_CPU) {
        fa_tensor *t = fai_empty(op, FA_INT64, device, 1, &words);
        if (t) memset(fai_host(t), 0, FA_STATUS_WORDS * sizeof(int64_t));
        return t;
    }
    /* the device's own words, which its waits look at */
    fai_buffer *buffer = fai_device_status(device, op);
    return buffer ? fai_tensor_of_words(op, buffer, words) : NULL;
}

bool fai_status_ok(const char *op, fa_tensor *status)
{
    if (!fai_on_cpu(status)) return fai_check_mode() != FAI_CHECK_NOW || fai_stream_check(status->device, op);
    const int64_t *word = fai_host(status);
    if (!word[0]) return true;
    fai_fail_status(op, word);
    return false;
}

int64_t fai_status_number(const char *op) { return fai_status_op(fai_tls.called ? fai_tls.called : op); }
