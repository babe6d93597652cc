/* A module and a differentiable function of your own, used together with the library's.
 *
 * The module is a residual block: x + scale * inner(x), with a layer inside and a parameter of its own. The function is a step
 * that rounds to -1 or 1; its derivative is 0 almost everywhere, so that it would teach nothing: backward hands the gradient
 * straight through, where |x| <= 1.
 *
 *     ./custom_module
 *     FACULA_SIM=cuda:2 ./custom_module */
#include <facula.h>

/* ---- the function: a forward, which keeps what backward needs, and a backward ---- */

static fa_tensor *step_forward(fa_context *context, fa_tensor *const *inputs, int ninputs, void *data)
{
    (void)ninputs, (void)data;
    fa_tensor *x = inputs[0];
    fa_save_for_backward(context, x);
    return fa_where(fa_lt_scalar(x, 0), fa_full_like(x, -1.0), fa_full_like(x, 1.0));
}

static bool step_backward(fa_context *context, fa_tensor *grad, fa_tensor **grads, int ninputs, void *data)
{
    (void)ninputs, (void)data;
    fa_tensor *near = fa_le_scalar(fa_abs(fa_saved(context, 0)), 1.0);
    grads[0] = fa_mul(grad, fa_cast(near, FA_FLOAT32));
    return grads[0] != NULL;
}

static fa_tensor *step(fa_tensor *x)
{
    static const fa_function function = {.name = "Step", .forward = step_forward, .backward = step_backward};
    return fa_apply(&function, &x, 1, NULL);
}

/* ---- the module: a type with a forward, and what is registered under a name ---- */

static fa_tensor *block_forward(fa_module *self, fa_tensor *const *inputs, int ninputs)
{
    (void)ninputs; /* fa_call(block, x) gives one */
    fa_tensor *x = inputs[0];
    fa_tensor *inner = fa_call(fa_get_module(self, "inner"), x);
    return fa_add(x, fa_mul(fa_get_parameter(self, "scale"), step(inner)));
}

static fa_module *block(int64_t width)
{
    static const fa_module_type type = {.name = "Block", .forward = block_forward};
    fa_module *m = fa_module_new(&type, NULL);
    fa_add_module(m, "inner", fa_nn_linear(width, width));
    fa_add_parameter(m, "scale", fa_full(FA_SHAPE(1), 0.5));
    return m;
}

int main(void)
{
    fa_manual_seed(0);
    const fa_device device = fa_try_accelerator(0);

    fa_tensor *x = fa_floats(-2, -0.5, 0.25, 3);
    fa_requires_grad(x, true);
    fa_tensor *y = step(x);
    fa_print(y);
    fa_backward(fa_sum(y));
    fa_print(fa_grad(x));

    fa_module *net = fa_sequential(block(4), fa_nn_relu(), fa_nn_linear(4, 1));
    fa_module_to(net, device); /* what is registered moves along */
    fa_module_print(net);

    fa_tensor *parameters[8];
    fa_path names[8];
    const int n = fa_parameters(net, parameters, names, 8);
    for (int i = 0; i < n && i < 8; i++) printf("%-16s %d values\n", names[i], (int)fa_numel(parameters[i]));

    fa_optimizer *optimizer = fa_sgd(net, .lr = 0.05);
    fa_tensor *inputs = fa_to(fa_randn(FA_SHAPE(64, 4)), device);
    fa_tensor *wanted = fa_sum_dims(inputs, FA_DIMS(1), true);
    for (int i = 0; i < 101; i++) {
        FA_SCOPE;
        fa_tensor *loss = fa_mse_loss(fa_call(net, inputs), wanted);
        fa_zero_grad(optimizer);
        fa_backward(loss);
        fa_step(optimizer);
        if (i % 50 == 0) printf("step %3d  loss %.4f\n", i, fa_item(loss));
    }
    return fa_finish("custom_module");
}
