/* A network on a device, and the loop that trains it there: the model, the inputs and the labels all go to the same place.
 *
 *     ./networks
 *     FACULA_SIM=cuda:2 ./networks
 *
 * The last two parts say in the tutorial's own words where the model, the inputs, the parameters and the output are. */
#include <facula.h>

static const char *where(fa_tensor *t) { return fa_device_text(fa_device_of(t)); }

static fa_tensor *first_parameter(fa_module *net)
{
    fa_tensor *first = NULL;
    fa_parameters(net, &first, NULL, 1);
    return first;
}

static fa_device choose(void) { return fa_device_is_available(FA_DEVICE_CUDA) ? fa_device_parse("cuda") : FA_CPU; }

static void net_to_device(void)
{
    printf("== 09 net_to_device\n");
    FA_SCOPE;
    fa_manual_seed(0);
    fa_module *net = fa_sequential(fa_nn_linear(10, 20), fa_nn_relu(), fa_nn_linear(20, 1));
    fa_module_to(net, choose());
    fa_module_print(net);
    printf("%s\n", where(first_parameter(net)));
}

/* Batches come from a dataset in the CPU's memory and move to the device one by one. */
static void training_loop(void)
{
    printf("== 11 training_loop\n");
    FA_SCOPE;
    fa_manual_seed(0);
    fa_module *net = fa_sequential(fa_nn_linear(10, 20), fa_nn_relu(), fa_nn_linear(20, 1));
    fa_dataset *data = fa_tensor_dataset(fa_rand(FA_SHAPE(64, 10)), fa_rand(FA_SHAPE(64, 1)));
    fa_loader *loader = fa_loader(data, .batch_size = 16, .shuffle = true);
    const fa_device device = choose();
    fa_module_to(net, device);
    fa_tensor *batch[2];
    FA_BATCHES(loader, batch) { /* a batch and all that is computed from it end with its round */
        fa_tensor *x = fa_to(batch[0], device), *y = fa_to(batch[1], device);
        fa_tensor *loss = fa_mse_loss(fa_call(net, x), y);
        printf("%s\n", where(loss));
    }
}

static void template(void)
{
    printf("== 12 template\n");
    FA_SCOPE;
    fa_manual_seed(0);
    const fa_device device = choose();

    /* 1. the model */
    fa_module *net = fa_sequential(fa_nn_linear(10, 32), fa_nn_relu(), fa_nn_linear(32, 1));
    fa_module_to(net, device);
    /* 2. the data */
    fa_tensor *x = fa_to(fa_rand(FA_SHAPE(16, 10)), device);
    fa_tensor *y = fa_to(fa_rand(FA_SHAPE(16, 1)), device);
    /* 3. the optimizer */
    fa_optimizer *optimizer = fa_sgd(net, .lr = 0.01);
    /* 4. forward */
    fa_tensor *loss = fa_mse_loss(fa_call(net, x), y);
    /* 5. backward, and one step */
    fa_zero_grad(optimizer);
    fa_backward(loss);
    fa_step(optimizer);

    printf("loss = %.16g\n", fa_item(loss));
    printf("模型所在设备： %s\n", where(first_parameter(net)));
    printf("输入数据所在设备： %s\n", where(x));
}

static void full_example(void)
{
    printf("== 17 full_example\n");
    FA_SCOPE;
    fa_manual_seed(0);
    const fa_device device = choose();
    printf("当前设备： %s\n", fa_device_text(device));
    fa_tensor *x = fa_to(fa_rand(FA_SHAPE(2, 3)), device);
    printf("X 所在设备： %s\n", where(x));
    fa_module *net = fa_sequential(fa_nn_linear(3, 5), fa_nn_relu(), fa_nn_linear(5, 1));
    fa_module_to(net, device);
    printf("模型参数所在设备： %s\n", where(first_parameter(net)));
    fa_tensor *y = fa_call(net, x);
    printf("输出 Y 所在设备： %s\n", where(y));
    printf("移回 CPU 后的设备： %s\n", where(fa_cpu(y)));
}

int main(void)
{
    net_to_device();
    training_loop();
    template();
    full_example();
    return fa_finish("networks");
}
