/* A GPU's memory is small: what happens when it is full, how to see who has it, and how a training loop keeps it.
 * Twin of script 20.
 *
 *     FACULA_SIM=cuda:2 ./memory
 *     FACULA_SIM=cuda:1 FACULA_SIM_MEMORY=8MiB ./memory      a very small GPU */
#include <facula.h>
#include <inttypes.h>

static void show_error(void)
{
    fa_error error = fa_error_take();
    if (error.code != FA_OK) printf("%s: %s\n", error.op, error.text);
}

static void a_full_gpu(void)
{
    FA_SCOPE;
    const fa_device device = FA_CUDA(0);
    uint64_t free_bytes, total;
    if (!fa_memory_info(device, &free_bytes, &total)) return;
    if (!fa_empty(FA_SHAPE((int64_t)total * 2), .dtype = FA_UINT8, .device = device)) show_error();

    fa_tensor *x = fa_empty(FA_SHAPE(1 << 20), .device = device); /* 4 MiB: the next request works as if nothing had been */
    printf("%" PRIu64 "\n", fa_memory_allocated(device));
    fa_drop(x); /* before its scope ends */
    /* Memory that is given up stays with Facula, ready for the next tensor; fa_empty_cache gives it back to the driver. */
    printf("%" PRIu64 " %s\n", fa_memory_allocated(device), fa_memory_reserved(device) > 0 ? "True" : "False");
    fa_empty_cache(device);
    printf("%" PRIu64 "\n", fa_memory_reserved(device));
}

/* Where no gradient is wanted, none is prepared: the intermediate results go at once. */
static void without_gradients(fa_module *net)
{
    FA_SCOPE;
    FA_NO_GRAD;
    fa_tensor *y = fa_call(net, fa_ones(FA_SHAPE(2, 4)));
    printf("%s\n", fa_is_requires_grad(y) ? "True" : "False");
}

/* Keep the number and not the tensor: a tensor keeps the graph that it came from, with every intermediate result in it. */
static void losses_as_numbers(fa_module *net)
{
    double losses[3];
    for (int i = 0; i < 3; i++) {
        FA_SCOPE;
        losses[i] = fa_item(fa_mean(fa_call(net, fa_ones(FA_SHAPE(2, 4)))));
    }
    printf("%zu losses in %zu bytes\n", sizeof losses / sizeof losses[0], sizeof losses);
}

int main(void)
{
    if (fa_device_is_available(FA_DEVICE_CUDA)) a_full_gpu();
    fa_module *net = fa_nn_linear(4, 1);
    without_gradients(net);
    losses_as_numbers(net);
    return fa_finish("memory");
}
