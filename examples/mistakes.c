/* The mistakes that everybody makes once: something was left on the CPU, or on another GPU. Each part makes the mistake,
 * shows what Facula says, and then does it right.
 *
 *     FACULA_SIM=cuda:2 ./mistakes      two simulated GPUs are enough to make them all
 *     ./mistakes                        without any GPU there is one mistake to make: asking for one */
#include <facula.h>

static void show_error(void)
{
    fa_error error = fa_error_take();
    if (error.code != FA_OK) printf("%s: %s\n", error.op, error.text);
}

static void show_device(fa_tensor *t)
{
    if (t) printf("%s\n", fa_device_text(fa_device_of(t)));
    else show_error();
}

static fa_module *small_net(void) { return fa_sequential(fa_nn_linear(10, 20), fa_nn_relu(), fa_nn_linear(20, 1)); }

static void inputs_left_behind(void)
{
    printf("== 10 mismatch: the inputs are on the CPU\n");
    FA_SCOPE;
    const fa_device device = fa_device_parse("cuda");
    fa_module *net = small_net();
    if (!fa_module_to(net, device)) {
        show_error();
        return;
    }
    fa_tensor *x = fa_rand(FA_SHAPE(2, 10)); /* on the CPU, where tensors are born */
    show_device(fa_call(net, x));
    x = fa_to(x, device);
    show_device(fa_call(net, x));
}

static void labels_left_behind(void)
{
    printf("== labels: the labels are on the CPU\n");
    FA_SCOPE;
    const fa_device device = fa_device_parse("cuda");
    fa_module *net = small_net();
    if (!fa_module_to(net, device)) {
        show_error();
        return;
    }
    fa_tensor *x = fa_rand(FA_SHAPE(2, 10), .device = device), *y = fa_rand(FA_SHAPE(2, 1));
    fa_tensor *prediction = fa_call(net, x);
    show_device(fa_mse_loss(prediction, y));
    show_device(fa_mse_loss(prediction, fa_to(y, device)));
}

/* Plain numbers fit every device, and so does a tensor of no dimensions; a tensor with dimensions has to move. */
static void constant_left_behind(void)
{
    printf("== constant: a constant is on the CPU\n");
    FA_SCOPE;
    fa_tensor *x = fa_ones(FA_SHAPE(2, 3), .device = fa_device_parse("cuda"));
    if (!x) {
        show_error();
        return;
    }
    fa_tensor *scale = fa_floats(1, 2, 3);
    show_device(fa_mul(x, scale));
    show_device(fa_mul(x, fa_to(scale, fa_device_of(x))));
    show_device(fa_mul_scalar(x, 2.0));
    show_device(fa_mul(x, fa_full(FA_SHAPE_0D, 2.0)));
}

static void two_gpus(void)
{
    printf("== 15 second_gpu\n");
    FA_SCOPE;
    const fa_device device = fa_device_parse("cuda:1");
    fa_tensor *x = fa_to(fa_rand(FA_SHAPE(2, 3)), device);
    if (!x) {
        show_error();
        return;
    }
    fa_tensor *y = fa_rand(FA_SHAPE(2, 3), .device = device);
    show_device(fa_add(x, y));
    fa_tensor *z = fa_rand(FA_SHAPE(2, 3), .device = FA_CUDA(0));
    show_device(fa_add(x, z));
    show_device(fa_add(x, fa_to(z, device)));
}

int main(void)
{
    fa_manual_seed(0);
    inputs_left_behind();
    labels_left_behind();
    constant_left_behind();
    two_gpus();
    return fa_finish("mistakes");
}
