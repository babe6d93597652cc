/* A training step replayed as a graph beside the same step called, on a simulated device: what the host spends until the driver
 * has the work, and the whole, with the waiting.
 *
 *   make programs && FACULA_SIM=cuda:1 build/release/bench/graph
 *
 * The step is the smallest one: Linear(10, 32), ReLU, Linear(32, 1), the mean squared error, backward, SGD. The best of many
 * rounds, in microseconds. */
#include <facula.h>
#include <time.h>

enum { ROUNDS = 200, STEPS = 20 };
typedef struct training {
    fa_module *net;
    fa_optimizer *opt;
    fa_tensor *x, *y;
    fa_graph *graph;
} training;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void step(training *t) {
    FA_SCOPE;
    fa_tensor *loss = fa_mse_loss(fa_call(t->net, t->x), t->y);
    fa_zero_grad(t->opt);
    fa_backward(loss);
    fa_step(t->opt);
}
static void replay(training *t) { fa_graph_replay(t->graph); }

static void measure(const char *name, void (*call)(training *), training *t, fa_device on) {
    double given = 1e18, whole = 1e18;
    for (int round = 0; round < ROUNDS; round++) {
        const double start = now();
        for (int i = 0; i < STEPS; i++) call(t);
        const double queued = (now() - start) / STEPS;
        if (!fa_synchronize(on)) return;
        const double all = (now() - start) / STEPS;
        if (queued < given) given = queued;
        if (all < whole) whole = all;
    }
    printf("%-20s %10.1f %10.1f\n", name, given, whole);
}

int main(void) {
    const fa_device on = fa_accelerator();
    if (!on.type) return fputs("no device: run it with FACULA_SIM=cuda:1\n", stderr), 77;
    fa_scope_open();
    training t = {.net = fa_sequential(fa_nn_linear(10, 32), fa_nn_relu(), fa_nn_linear(32, 1)), .graph = fa_graph_new()};
    fa_module_to(t.net, on);
    t.opt = fa_sgd(t.net, .lr = 0.01);
    t.x = fa_rand(FA_SHAPE(16, 10), .device = on);
    t.y = fa_rand(FA_SHAPE(16, 1), .device = on);
    step(&t);
    printf("%-20s %10s %10s\n", "us a step", "until given", "in all");
    measure("called", step, &t, on);
    fa_graph_begin(t.graph, fa_stream_new(on, 0), 0);
    step(&t);
    fa_graph_end(t.graph);
    printf("%llu launches\n", (unsigned long long)fa_graph_get_facts(t.graph).launches);
    measure("replayed", replay, &t, on);
    fa_scope_close();
    return fa_finish("graph");
}
