/* The workloads that bench/compare.py also runs on PyTorch: workloads NAME... prints a line for each: name, best time of one call
 * in microseconds. FACULA_NUM_THREADS threads (default 1 here). `workloads --list` prints the names; --device DEVICE, as the first
 * argument, runs on another than the CPU, waited for at the end of each round. */
#include <facula.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct work {
    fa_module *net;
    fa_optimizer *opt;
    fa_loader *loader;
    fa_tensor *x, *y;
    fa_tensor *(*loss)(fa_tensor *prediction, fa_tensor *target);
    void (*call)(struct work *w);
} work;

static fa_device device; /* the CPU */

/* The time when all that was asked for is done. */
static double now(void)
{
    fa_synchronize(device);
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* As the PyTorch side does: two calls to warm up, then the best mean of a few rounds within 0.6 s. */
static double best(work *w)
{
    w->call(w), w->call(w);
    double start = now();
    w->call(w);
    double once = now() - start, low = 1e9, stop = now() + 0.6;
    int inner = once < 0.02 ? (int)(0.02 / (once > 1e-7 ? once : 1e-7)) : 1;
    while (now() < stop) {
        start = now();
        for (int i = 0; i < inner; i++) w->call(w);
        double mean = (now() - start) / inner;
        if (mean < low) low = mean;
    }
    return low * 1e6;
}

/* ---- calls ---- */

static void train_step(work *w)
{
    FA_SCOPE;
    fa_tensor *loss = w->loss(fa_call(w->net, w->x), w->y);
    fa_zero_grad(w->opt);
    fa_backward(loss);
    fa_step(w->opt);
}
static void forward(work *w) { FA_SCOPE; FA_NO_GRAD; fa_call(w->net, w->x); }
static void add(work *w) { FA_SCOPE; fa_add(w->x, w->y); }
static void softmax(work *w) { FA_SCOPE; fa_softmax(w->x, 1); }
static void transpose(work *w) { FA_SCOPE; fa_contiguous(fa_t(w->x)); }
static void matmul(work *w) { FA_SCOPE; fa_matmul(w->x, w->y); }
static void randn(work *w) { FA_SCOPE; (void)w; fa_randn(FA_SHAPE(1000000)); }
static void gelu(work *w) { FA_SCOPE; fa_gelu(w->x); }
static void exponential(work *w) { FA_SCOPE; fa_exp(w->x); }
static void sum(work *w) { FA_SCOPE; fa_sum(w->x); }
static void epoch(work *w)
{
    fa_tensor *batch[FA_MAX_FIELDS];
    FA_BATCHES(w->loader, batch) {}
}

/* ---- networks ---- */

static fa_tensor *mse(fa_tensor *p, fa_tensor *y) { return fa_mse_loss(p, y); }
static fa_tensor *cross_entropy(fa_tensor *p, fa_tensor *y) { return fa_cross_entropy(p, y); }
static fa_tensor *labels(int64_t n) { return fa_randint(0, 10, FA_SHAPE(n)); }
static fa_module *mlp(int64_t hidden) { return fa_sequential(fa_nn_linear(784, hidden), fa_nn_relu(), fa_nn_linear(hidden, 10)); }

static void use(work *w, void (*call)(work *), fa_tensor *x, fa_tensor *y) { w->call = call, w->x = x, w->y = y; }

static void classify(work *w, fa_module *net, fa_tensor *x)
{
    w->net = net, w->loss = cross_entropy;
    use(w, train_step, x, labels(fa_size(x, 0)));
}

static void template_step(work *w)
{
    w->net = fa_sequential(fa_nn_linear(10, 32), fa_nn_relu(), fa_nn_linear(32, 1));
    w->loss = mse;
    use(w, train_step, fa_rand(FA_SHAPE(16, 10)), fa_rand(FA_SHAPE(16, 1)));
    w->opt = fa_sgd(w->net, .lr = 0.01);
}
static void template_forward(work *w)
{
    w->net = fa_sequential(fa_nn_linear(10, 20), fa_nn_relu(), fa_nn_linear(20, 1));
    use(w, forward, fa_rand(FA_SHAPE(2, 10)), NULL);
}
static void add_3(work *w) { use(w, add, fa_rand(FA_SHAPE(3)), fa_rand(FA_SHAPE(3))); }
static void mlp_sgd(work *w)
{
    classify(w, mlp(256), fa_rand(FA_SHAPE(256, 784)));
    w->opt = fa_sgd(w->net, .lr = 0.01);
}
static void mlp_adam(work *w)
{
    classify(w, mlp(256), fa_rand(FA_SHAPE(256, 784)));
    w->opt = fa_adam(w->net, .lr = 1e-3);
}
/* One step of the training that ggml's example does 114 times: batch 500, 500 hidden, AdamW. */
static void mlp_adamw_500(work *w)
{
    classify(w, mlp(500), fa_rand(FA_SHAPE(500, 784)));
    w->opt = fa_adamw(w->net, .lr = 1e-3);
}
static void lenet(work *w)
{
    fa_module *net = fa_sequential(fa_nn_conv2d(1, 6, 5, .padding = FA_DIMS(2)), fa_nn_sigmoid(), fa_nn_avg_pool2d(2), fa_nn_conv2d(6, 16, 5), fa_nn_sigmoid(),
                                   fa_nn_avg_pool2d(2), fa_nn_flatten(), fa_nn_linear(400, 120), fa_nn_sigmoid(), fa_nn_linear(120, 84), fa_nn_sigmoid(),
                                   fa_nn_linear(84, 10));
    classify(w, net, fa_rand(FA_SHAPE(256, 1, 28, 28)));
    w->opt = fa_sgd(w->net, .lr = 0.01);
}
static void cnn_relu(work *w)
{
    fa_module *net = fa_sequential(fa_nn_conv2d(1, 8, 3, .padding = FA_DIMS(1)), fa_nn_relu(), fa_nn_max_pool2d(2), fa_nn_conv2d(8, 16, 3, .padding = FA_DIMS(1)),
                                   fa_nn_relu(), fa_nn_max_pool2d(2), fa_nn_flatten(), fa_nn_linear(784, 10));
    classify(w, net, fa_rand(FA_SHAPE(500, 1, 28, 28)));
    w->opt = fa_adamw(w->net, .lr = 1e-3);
}
static void softmax_1k(work *w) { use(w, softmax, fa_rand(FA_SHAPE(1024, 1024)), NULL); }
static void transpose_1k(work *w) { use(w, transpose, fa_rand(FA_SHAPE(1024, 1024)), NULL); }
static void matmul_1k(work *w) { use(w, matmul, fa_rand(FA_SHAPE(1024, 1024)), fa_rand(FA_SHAPE(1024, 1024))); }
static void randn_1m(work *w) { use(w, randn, NULL, NULL); }
static void gelu_1m(work *w) { use(w, gelu, fa_rand(FA_SHAPE(1000000)), NULL); }
static void exp_1m(work *w) { use(w, exponential, fa_rand(FA_SHAPE(1000000)), NULL); }
static void sum_10m(work *w) { use(w, sum, fa_rand(FA_SHAPE(10000000)), NULL); }
static void add_10m(work *w) { use(w, add, fa_rand(FA_SHAPE(10000000)), fa_rand(FA_SHAPE(10000000))); }
static void loader(work *w)
{
    w->loader = fa_loader(fa_tensor_dataset(fa_rand(FA_SHAPE(4096, 784)), labels(4096)), .batch_size = 64, .shuffle = true);
    use(w, epoch, NULL, NULL);
}

static const struct { const char *name; void (*set_up)(work *); } works[] = {
    {"template_step", template_step}, {"template_forward", template_forward}, {"add_3", add_3}, {"mlp_sgd", mlp_sgd}, {"mlp_adam", mlp_adam},
    {"mlp_adamw_500", mlp_adamw_500}, {"lenet", lenet}, {"cnn_relu", cnn_relu}, {"softmax_1k", softmax_1k}, {"transpose_1k", transpose_1k},
    {"matmul_1k", matmul_1k}, {"randn_1m", randn_1m}, {"gelu_1m", gelu_1m}, {"exp_1m", exp_1m}, {"sum_10m", sum_10m}, {"add_10m", add_10m}, {"loader", loader},
};

static bool chosen(const char *name, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], name) == 0) return true;
    return argc == 1;
}

int main(int argc, char **argv)
{
    if (!getenv("FACULA_NUM_THREADS")) fa_set_num_threads(1);
    if (argc > 2 && strcmp(argv[1], "--device") == 0) {
        fa_set_default_device(device = fa_device_parse(argv[2]));
        argc -= 2, argv += 2;
    }
    for (size_t i = 0; i < sizeof works / sizeof *works; i++) {
        if (argc == 2 && strcmp(argv[1], "--list") == 0) {
            puts(works[i].name);
        } else if (chosen(works[i].name, argc, argv)) {
            FA_SCOPE;
            work w = {0};
            fa_manual_seed(0);
            works[i].set_up(&w);
            double microseconds = fa_failed() ? 0 : best(&w);
            if (fa_failed()) break;
            printf("%s %.3f\n", works[i].name, microseconds);
            fflush(stdout);
        }
    }
    return fa_finish("workloads");
}
