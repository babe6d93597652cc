/* Functions of the user's own: forward without recording, backward from what it saved. */
#include "autograd.h"
#include <string.h>

enum { MAX_SAVED = 8, MAX_INPUTS = 16 };

/* Lives on the stack in forward, then beside the node's params for backward. */
struct fa_context {
    fa_function function; /* by value: the caller's may be gone; name is copied behind it */
    char name[40];
    void *data;
    fai_node_op op;
    fai_node *node;       /* in backward */
    fa_tensor *saved[MAX_SAVED];
    int nsaved, ninputs;
    uint32_t wants;       /* bit i: input i wants a gradient */
};

static bool custom_backward(fai_node *node, fa_tensor *g, fa_tensor **grads)
{
    fa_context *context = node->params;
    context->node = node;
    if (!context->function.backward)
        return fai_fail(FA_ERR_UNSUPPORTED, context->name, "You must implement either the backward or vjp method for your custom autograd.Function to use it with backward mode AD."), false;
    return context->function.backward(context, g, grads, context->ninputs, context->data);
}

static void custom_release(fai_node *node)
{
    fa_context *context = node->params;
    if (context->function.release) context->function.release(context->data);
}

bool fa_save_for_backward(fa_context *context, fa_tensor *t)
{
    if (!context || !fai_check(context->name, "t of fa_save_for_backward", t)) return false;
    if (context->node) return fai_fail(FA_ERR_RUNTIME, context->name, "fa_save_for_backward is for forward; this is backward"), false;
    if (context->nsaved == MAX_SAVED) return fai_fail(FA_ERR_VALUE, context->name, "at most %d tensors can be saved for backward", MAX_SAVED), false;
    context->saved[context->nsaved++] = t;
    return true;
}

fa_tensor *fa_saved(fa_context *context, int i)
{
    if (!context || i < 0 || i >= context->nsaved)
        return fai_fail(FA_ERR_INDEX, context ? context->name : "saved", "saved tensor %d was asked for, but forward saved %d", i, context ? context->nsaved : 0);
    return context->node ? fai_node_kept(context->node, i) : context->saved[i];
}

bool fa_needs_grad(fa_context *context, int input)
{
    if (!context || input < 0 || input >= context->ninputs) return false;
    return context->node ? fai_node_needs(context->node, input) : context->wants >> input & 1;
}

static bool record(fa_context *context, fa_tensor *const *inputs, fa_tensor *result)
{
    fai_node *node = fai_node_new(&fai_accumulate_op, context->ninputs, context->nsaved, sizeof *context);
    if (!node) return false;
    fa_context *own = node->params;
    *own = *context;
    own->op = (fai_node_op){.name = own->name, .backward = custom_backward};
    node->op = &own->op;
    node->custom = true;
    bool ok = true;
    for (int i = 0; i < context->ninputs; i++) ok = ok && fai_node_input(node, i, inputs[i], true);
    for (int i = 0; i < context->nsaved; i++) ok = ok && fai_node_keep(node, i, context->saved[i], context->saved[i] == result);
    if (!ok) return fai_node_unref(node), false;
    own->op.release = custom_release;
    fai_node_finish(node, result);
    return true;
}

static fa_tensor *forward(fa_context *context, fa_tensor *const *inputs)
{
    const bool was_off = fai_tls.grad_off;
    fai_tls.grad_off = true;
    fa_tensor *result = context->function.forward(context, inputs, context->ninputs, context->data);
    fai_tls.grad_off = was_off;
    if (!result && !fa_failed()) fai_fail(FA_ERR_FOREIGN, context->name, "forward returned NULL without saying why (fa_error_set)");
    for (int i = 0; result && i < context->ninputs; i++) /* an input handed through is not the function's own */
        if (result == inputs[i]) result = fai_view(context->name, result, result->ndim, result->size, result->stride, result->offset);
    return result;
}

fa_tensor *fa_apply(const fa_function *function, fa_tensor *const *inputs, int ninputs, void *data)
{
    if (!function || !function->forward) return fai_fail(FA_ERR_TYPE, "apply", "argument 'function' needs a forward");
    fa_context context = {.function = *function, .data = data, .ninputs = ninputs};
    snprintf(context.name, sizeof context.name, "%s", function->name ? function->name : "Function");
    if (ninputs < 0 || ninputs > MAX_INPUTS) return fai_fail(FA_ERR_VALUE, context.name, "%d inputs were given, at most %d are possible", ninputs, MAX_INPUTS);
    for (int i = 0; i < ninputs; i++)
        if (fai_recording() && fai_wants_grad(inputs[i])) context.wants |= 1u << i;
    fa_tensor *result = forward(&context, inputs);
    if (result && context.wants && fai_is_float(result->dtype)) {
        if (!record(&context, inputs, result)) result = NULL;
        else return result;
    }
    if (function->release) function->release(data);
    return result;
}
