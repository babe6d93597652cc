/* A chain of six elementwise operators, fused and one by one, on whichever accelerator is there: y = tanh(relu(a * b + c) * 0.5 - a).
 *
 *   make programs && FACULA_SIM=cuda:1 build/release/bench/fuse       (or FACULA_OPENCL=cpu)
 *
 * The best of many rounds, in microseconds, with the wait at the end; launches as the device counts them. */
#include <facula.h>
#include <time.h>

enum { ROUNDS = 60 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* As Python does: what an operator was given is dropped when its result is there. */
static fa_tensor *then(fa_tensor *operand, fa_tensor *result) {
    fa_drop(operand);
    return result;
}

static fa_tensor *chain(fa_tensor *a, fa_tensor *b, fa_tensor *c) {
    fa_tensor *x = fa_mul(a, b);
    x = then(x, fa_add(x, c));
    x = then(x, fa_relu(x));
    x = then(x, fa_mul_scalar(x, FA_NUM(0.5)));
    x = then(x, fa_sub(x, a));
    return then(x, fa_tanh(x));
}

static void measure(const char *name, fa_fusing fusing, fa_tensor *a, fa_tensor *b, fa_tensor *c) {
    const fa_device on = fa_device_of(a);
    double best = 1e18;
    fa_device_counts before = {0};
    fa_set_fusing(fusing);
    for (int round = 0; round < ROUNDS; round++) {
        FA_SCOPE;
        before = fa_device_get_counts(on);
        const double start = now();
        fa_tensor *y = chain(a, b, c);
        if (!fa_synchronize(on)) return;
        const double time = now() - start;
        if (time < best) best = time;
        fa_drop(y);
    }
    const fa_device_counts after = fa_device_get_counts(on);
    printf("%-12s %12.0f %10d %10d\n", name, best, (int)(after.launches - before.launches), (int)(after.fused - before.fused));
}

int main(void) {
    static const int64_t sizes[] = {1000, 1000000};
    const fa_device on = fa_accelerator();
    if (!on.type) return fputs("no device: run it with FACULA_SIM=cuda:1\n", stderr), 77;
    for (int i = 0; i < 2; i++) {
        FA_SCOPE;
        fa_tensor *a = fa_randn(FA_SHAPE(sizes[i]), .device = on), *b = fa_randn(FA_SHAPE(sizes[i]), .device = on);
        fa_tensor *c = fa_randn(FA_SHAPE(sizes[i]), .device = on);
        printf("%-12lld %12s %10s %10s\n", (long long)sizes[i], "us", "launches", "spared");
        measure("one by one", FA_FUSE_OFF, a, b, c);
        measure("fused", FA_FUSE_ON, a, b, c);
    }
    return fa_finish("fuse");
}
