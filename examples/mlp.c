/* A network learns whether a point lies in a circle: data, loader, model, optimizer, training, and the test on points it has
 * never seen.
 *
 *     ./mlp
 *     FACULA_SIM=cuda:2 ./mlp */
#include <facula.h>

/* n points in the square [-1, 1) x [-1, 1), and for each 1 if it lies within the circle of radius 0.8, else 0. */
static void make_points(int64_t n, fa_tensor **points, fa_tensor **labels)
{
    fa_tensor *p = fa_sub_scalar(fa_mul_scalar(fa_rand(FA_SHAPE(n, 2)), 2), 1);
    fa_tensor *distance = fa_sum_dims(fa_mul(p, p), FA_DIMS(1), false);
    *points = p;
    *labels = fa_cast(fa_lt_scalar(distance, 0.64), FA_INT64);
}

/* One pass over the data; returns the mean loss. */
static double train_epoch(fa_module *net, fa_optimizer *optimizer, fa_loader *loader, fa_device device)
{
    double sum = 0;
    fa_tensor *batch[2];
    FA_BATCHES(loader, batch) {
        fa_tensor *x = fa_to(batch[0], device), *y = fa_to(batch[1], device);
        fa_tensor *loss = fa_cross_entropy(fa_call(net, x), y);
        fa_zero_grad(optimizer);
        fa_backward(loss);
        fa_step(optimizer);
        sum += fa_item(loss);
    }
    return sum / (double)fa_loader_length(loader);
}

static double accuracy(fa_module *net, fa_tensor *points, fa_tensor *labels, fa_device device)
{
    FA_SCOPE;
    FA_NO_GRAD;
    fa_tensor *guess = fa_argmax_dim(fa_call(net, fa_to(points, device)), 1, false);
    fa_tensor *right = fa_eq(guess, fa_to(labels, device));
    return fa_item(fa_mean(fa_cast(right, FA_FLOAT32)));
}

int main(void)
{
    fa_manual_seed(0);
    const fa_device device = fa_try_accelerator(0);
    printf("device: %s\n", fa_device_text(device));

    fa_tensor *points, *labels, *new_points, *new_labels;
    make_points(1024, &points, &labels);
    make_points(500, &new_points, &new_labels);
    fa_loader *loader = fa_loader(fa_tensor_dataset(points, labels), .batch_size = 32, .shuffle = true);

    fa_module *net = fa_sequential(fa_nn_linear(2, 32), fa_nn_relu(), fa_nn_linear(32, 32), fa_nn_relu(), fa_nn_linear(32, 2));
    fa_module_to(net, device);
    fa_optimizer *optimizer = fa_adam(net, .lr = 0.01);
    fa_scheduler *schedule = fa_cosine_lr(optimizer, 20, 0);

    for (int epoch = 1; epoch <= 20 && !fa_failed(); epoch++) {
        double loss = train_epoch(net, optimizer, loader, device);
        fa_schedule_step(schedule);
        if (epoch % 5 == 0) printf("epoch %2d  loss %.4f\n", epoch, loss);
    }
    printf("new points, right: %.1f %%\n", 100 * accuracy(net, new_points, new_labels, device));
    return fa_finish("mlp");
}
