/* Saving a network and going on later: the parameters, and the optimizer's state so that training continues as if nothing had
 * happened. The files can be read by PyTorch too (safetensors).
 *
 *     ./save_load [folder]
 *     FACULA_SIM=cuda:2 ./save_load     saved from the GPU, loaded wherever the new network is */
#include <facula.h>

static fa_module *make_net(void) { return fa_sequential(fa_nn_linear(4, 8), fa_nn_tanh(), fa_nn_linear(8, 1)); }

static double train(fa_module *net, fa_optimizer *optimizer, fa_tensor *x, fa_tensor *y, int steps)
{
    double last = 0;
    for (int i = 0; i < steps; i++) {
        FA_SCOPE;
        fa_tensor *loss = fa_mse_loss(fa_call(net, x), y);
        fa_zero_grad(optimizer);
        fa_backward(loss);
        fa_step(optimizer);
        last = fa_item(loss);
    }
    return last;
}

/* Wrong files say what is wrong, and leave the network as it was. */
static void load_into_another_shape(const char *file)
{
    FA_SCOPE;
    fa_module *wider = fa_sequential(fa_nn_linear(4, 9), fa_nn_tanh(), fa_nn_linear(9, 1));
    if (!fa_load_module(file, wider)) {
        fa_error error = fa_error_take();
        printf("%s: %s\n", error.op, error.text);
    }
}

int main(int argc, char **argv)
{
    char model[512], state[512];
    snprintf(model, sizeof model, "%s/net.safetensors", argc > 1 ? argv[1] : ".");
    snprintf(state, sizeof state, "%s/optimizer.safetensors", argc > 1 ? argv[1] : ".");
    fa_manual_seed(0);
    const fa_device device = fa_try_accelerator(0);
    fa_tensor *x = fa_to(fa_randn(FA_SHAPE(32, 4)), device);
    fa_tensor *y = fa_sum_dims(fa_mul(x, x), FA_DIMS(1), true);

    fa_module *net = make_net();
    fa_module_to(net, device);
    fa_optimizer *optimizer = fa_adam(net, .lr = 0.01);
    printf("after 50 steps: loss %.4f\n", train(net, optimizer, x, y, 50));
    fa_save_module(model, net);
    fa_save_safetensors(state, fa_optimizer_state(optimizer));

    /* Another network, with other initial values, becomes the same one. */
    fa_module *again = make_net();
    fa_module_to(again, device);
    fa_load_module(model, again);
    fa_optimizer *optimizer_again = fa_adam(again, .lr = 0.01);
    fa_load_optimizer_state(optimizer_again, fa_load_safetensors(state));
    const double a = train(net, optimizer, x, y, 50), b = train(again, optimizer_again, x, y, 50);
    printf("after 50 more: loss %.4f, and the loaded one %s\n", a, a == b ? "the same" : "another");

    fa_tensors *saved = fa_load_safetensors(model, .device = FA_CPU);
    for (int64_t i = 0; i < fa_tensors_count(saved); i++)
        printf("%-10s %d values\n", fa_tensors_name_at(saved, i), (int)fa_numel(fa_tensors_at(saved, i)));
    load_into_another_shape(model);
    remove(model);
    remove(state);
    return fa_finish("save_load");
}
