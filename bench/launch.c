/* What an operator costs before the driver gets its launch, and what a cached allocation costs, on a simulated device:
 *
 *   make programs && FACULA_SIM=cuda:1 build/release/bench/launch
 *
 * The simulator runs nothing before somebody waits, so the time of a call is that of the way to the driver and of the simulated
 * driver's own queueing; the waits lie outside the measured time. The best of many rounds, in nanoseconds. */
#include <facula.h>
#include <time.h>

enum { ROUNDS = 200, CALLS = 200 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void allocate(fa_device on, fa_tensor *x) {
    (void)x;
    fa_drop(fa_empty(FA_SHAPE(256), .device = on));
}
static void add(fa_device on, fa_tensor *x) { (void)on, fa_drop(fa_add(x, x)); }
static void relu(fa_device on, fa_tensor *x) { (void)on, fa_drop(fa_relu(x)); }
static void sum(fa_device on, fa_tensor *x) { (void)on, fa_drop(fa_sum(x)); }
static void matmul(fa_device on, fa_tensor *x) { (void)on, fa_drop(fa_matmul(x, x)); }
static void fill(fa_device on, fa_tensor *x) { (void)on, fa_zero_(x); }

static fa_tensor *labels; /* 256 of them */
static int64_t numbers[256];
static void to_device(fa_device on, fa_tensor *x) { (void)x, fa_drop(fa_from_data(numbers, FA_INT64, FA_SHAPE(256), .device = on)); }
static void select_rows(fa_device on, fa_tensor *x) { (void)on, fa_drop(fa_index_select(x, 0, labels)); }
static void copy(fa_device on, fa_tensor *x) { (void)x, (void)on, fa_drop(fa_clone(labels)); }

static double best(void (*call)(fa_device, fa_tensor *), fa_device on) {
    FA_SCOPE;
    fa_tensor *x = fa_zeros(FA_SHAPE(16, 16), .device = on);
    double least = 1e18;
    for (int round = 0; round < ROUNDS; round++) {
        const double start = now();
        for (int i = 0; i < CALLS; i++) call(on, x);
        const double each = (now() - start) / CALLS;
        if (each < least) least = each;
        if (!fa_synchronize(on)) return 0;
    }
    return least;
}

int main(void) {
    static const struct { const char *name; void (*call)(fa_device, fa_tensor *); } table[] = {
        {"empty and drop (a cached allocation)", allocate}, {"zero_ (a fill)", fill}, {"relu", relu}, {"add", add}, {"sum", sum}, {"matmul", matmul},
        {"from_data of 256 int64", to_device}, {"clone of them", copy}, {"index_select by them", select_rows}};
    const fa_device on = fa_accelerator();
    if (!on.type) return fputs("no device: run it with FACULA_SIM=cuda:1\n", stderr), 77;
    fa_scope_open();
    labels = fa_from_data(numbers, FA_INT64, FA_SHAPE(256), .device = on);
    printf("%-40s %8s %8s\n", "ns a call", "default", "side");
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        const double first = best(table[i].call, on);
        FA_STREAM_SCOPE(fa_stream_new(on, 0));
        printf("%-40s %8.0f %8.0f\n", table[i].name, first, best(table[i].call, on));
    }
    fa_scope_close();
    return fa_finish("launch");
}
