/* How much memory the caching allocator needs for what is asked: the traces are those of training programs, made by running them on a device
 * (a simulated one is enough: FACULA_SIM=cuda:1 FACULA_SIM_MEMORY=4GiB fragmentation). For each: bytes that live buffers asked for at the
 * peak, what these have after rounding, what is taken from the driver while there is more than enough, and the least memory in which the
 * trace still runs through, found by halving: that, divided by the live bytes, is what rounding and fragmentation cost. */
#include <facula.h>
#include <stdlib.h>

static fa_device device;
#define MIB ((double)(1 << 20))

static void train(fa_module *net, fa_optimizer *opt, fa_tensor *x, fa_tensor *y)
{
    fa_tensor *loss = fa_cross_entropy(fa_call(net, x), y);
    fa_zero_grad(opt);
    fa_backward(loss);
    fa_step(opt);
}

static fa_module *small_cnn(void)
{
    fa_module *net = fa_sequential(fa_nn_conv2d(3, 8, 3), fa_nn_relu(), fa_nn_max_pool2d(2), fa_nn_conv2d(8, 16, 3, .stride = FA_DIMS(2)), fa_nn_relu(),
                                   fa_nn_flatten(), fa_nn_linear(16 * 7 * 7, 64), fa_nn_relu(), fa_nn_linear(64, 10));
    fa_module_to(net, device);
    return net;
}

static void cnn_steps(int steps, const int *batches, int n)
{
    FA_SCOPE;
    fa_module *net = small_cnn();
    fa_optimizer *opt = fa_adam(net);
    for (int i = 0; i < steps; i++) {
        FA_SCOPE;
        train(net, opt, fa_rand(FA_SHAPE(batches[i % n], 3, 32, 32), .device = device),
              fa_zeros(FA_SHAPE(batches[i % n]), .dtype = FA_INT64, .device = device));
    }
}

static void cnn(void) { cnn_steps(3, (int[]){1024}, 1); }
static void growing(void) { cnn_steps(8, (int[]){64, 96, 144, 216, 324, 486, 729, 1024}, 8); }
static void varying(void) { cnn_steps(10, (int[]){512, 31, 800, 77, 256, 1000, 64, 129, 500, 17}, 10); }

/* A transformer's encoder that learns from sequences of every length; scores of attention grow with its square. */
static void transformer(void)
{
    enum { WORDS = 200, WIDE = 64 };
    FA_SCOPE;
    fa_module *net = fa_sequential(fa_nn_embedding(WORDS, WIDE), fa_nn_transformer_encoder_layer(WIDE, 4, .dim_feedforward = 256, .batch_first = true),
                                   fa_nn_transformer_encoder_layer(WIDE, 4, .dim_feedforward = 256, .batch_first = true), fa_nn_flatten(.start_dim = 0, .end_dim = 1),
                                   fa_nn_linear(WIDE, WORDS));
    fa_module_to(net, device);
    fa_optimizer *opt = fa_adamw(net);
    static const int lengths[] = {128, 17, 90, 33, 120, 64, 5, 101, 77, 128, 49, 12};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        FA_SCOPE;
        const fa_shape words = FA_SHAPE(16, lengths[i]), each = FA_SHAPE(16 * lengths[i]);
        train(net, opt, fa_randint(0, WORDS, words, .device = device), fa_randint(0, WORDS, each, .device = device));
    }
}

/* Two layers of LSTM over sequences of other lengths at each step: what each time step keeps is small and there is much of it. */
static void lstm(void)
{
    FA_SCOPE;
    fa_module *net = fa_nn_lstm(32, 128, .num_layers = 2, .batch_first = true);
    fa_module_to(net, device);
    fa_optimizer *opt = fa_adam(net);
    static const int lengths[] = {60, 8, 100, 31, 77, 16, 100, 50};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        FA_SCOPE;
        fa_zero_grad(opt);
        fa_backward(fa_mean(fa_rnn_call(net, fa_rand(FA_SHAPE(64, lengths[i], 32), .device = device), NULL, NULL, NULL, NULL)));
        fa_step(opt);
    }
}

/* Training, and now and then an evaluation of four times the batch, whose results are kept to the end. */
static void evaluation(void)
{
    FA_SCOPE;
    fa_module *net = small_cnn();
    fa_optimizer *opt = fa_adam(net);
    for (int i = 0; i < 9; i++) {
        if (i % 3 == 2) {
            FA_NO_GRAD;
            fa_call(net, fa_rand(FA_SHAPE(1024 + 256 * i, 3, 32, 32), .device = device));
        } else {
            FA_SCOPE;
            train(net, opt, fa_rand(FA_SHAPE(256, 3, 32, 32), .device = device), fa_zeros(FA_SHAPE(256), .dtype = FA_INT64, .device = device));
        }
    }
}

/* No work, only sizes: 3,000 buffers of 512 bytes to 24 MiB, of which one in two lives on for a while. */
static void mixed(void)
{
    enum { HELD = 48 };
    fa_tensor *held[HELD] = {0};
    uint64_t seed = 88172645463325252u;
    FA_SCOPE;
    for (int i = 0; i < 3000; i++) {
        seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
        const int power = (int)(seed % 16);
        const int64_t floats = (128 + (int64_t)(seed >> 8) % 64) << power;
        fa_tensor **place = &held[seed >> 32 & 1 ? 0 : seed >> 33 & 31];
        fa_drop(*place);
        *place = fa_empty(FA_SHAPE(floats), .device = device);
    }
}

static const struct trace { const char *name; void (*run)(void); } traces[] = {
    {"training a CNN", cnn},       {"growing batches", growing}, {"batches of every size", varying},
    {"transformer, lengths", transformer}, {"LSTM, lengths", lstm},      {"with evaluations", evaluation}, {"mixed sizes", mixed}};

static bool runs_in(const struct trace *t, double bytes, double total)
{
    fa_empty_cache(device);
    fa_set_memory_fraction(device, bytes / total);
    t->run();
    const bool fine = !fa_failed();
    fa_error_take();
    fa_set_memory_fraction(device, 1);
    return fine;
}

static void measure(const struct trace *t)
{
    fa_memory_stats s;
    uint64_t free_bytes, total;
    fa_empty_cache(device);
    fa_reset_peak_memory_stats(device);
    t->run();
    if (fa_failed() || !fa_memory_get_stats(device, &s) || !fa_memory_info(device, &free_bytes, &total)) return;
    const double live = (double)s.allocated_bytes[FA_POOL_ALL].peak, taken = (double)s.reserved_bytes[FA_POOL_ALL].peak;
    double low = live, high = taken;
    while (high - low > 2 * MIB) {
        const double middle = (low + high) / 2;
        if (runs_in(t, middle, (double)total)) high = middle;
        else low = middle;
    }
    printf("| %-22s | %9.1f | %9.1f | %9.1f | %9.1f | %5.2f |\n", t->name, (double)s.requested_bytes[FA_POOL_ALL].peak / MIB, live / MIB, taken / MIB,
           high / MIB, high / live);
    fflush(stdout);
}

int main(void)
{
    device = fa_try_accelerator(0);
    if (fa_device_equal(device, FA_CPU)) {
        fprintf(stderr, "fragmentation: there is no device; FACULA_SIM=cuda:1 gives a simulated one\n");
        return 1;
    }
    printf("| trace                  | asked MiB |  live MiB | taken MiB | least MiB | ratio |\n|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < sizeof traces / sizeof traces[0] && !fa_failed(); i++) measure(&traces[i]);
    return fa_finish("fragmentation");
}
