/* facula demo: trains a small convolutional network on handwritten digits, on any device, and says how well and how fast.
 *
 * The program is the same for every device; only where the time is measured does it wait for the device, so that each part of the
 * work is charged with its own time. */
#include "cli.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TRAIN = 1437, HELD_OUT = 360, PIXELS = 64, BATCH = 32, EPOCHS = 10 };

typedef struct times { double data, forward, backward, step; } times;
typedef struct digits { fa_tensor *images, *labels; } digits;

/* ---- the data ---- */

static bool is_there(const char *path) { return access(path, R_OK) == 0; }

/* Beside the installed program (../share/facula), or in the source tree that the program was built in: some folders up. */
static bool find_data(char *out, size_t n)
{
    char program[PATH_MAX];
    const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length > 0 ? length : 0] = 0;
    for (int up = 0; up < 5; up++) {
        char *slash = strrchr(program, '/');
        if (!slash) break;
        *slash = 0;
        if ((size_t)snprintf(out, n, "%s/share/facula/digits.csv.gz", program) < n && is_there(out)) return true;
        if ((size_t)snprintf(out, n, "%s/data/digits.csv.gz", program) < n && is_there(out)) return true;
    }
    snprintf(out, n, "data/digits.csv.gz");
    return is_there(out);
}

static bool load(const char *path, digits *out)
{
    FA_SCOPE;
    fa_tensor *table = fa_load_csv(path, .device = FA_CPU);
    if (!table) return false;
    if (fa_size(table, 0) < TRAIN + HELD_OUT || fa_size(table, 1) != PIXELS + 1) {
        fa_error_set(FA_ERR_VALUE, "demo",
                     "%s has %lld rows of %lld numbers: %d rows of %d are needed, %d pixels from 0 to 16 and the digit", path,
                     (long long)fa_size(table, 0), (long long)fa_size(table, 1), TRAIN + HELD_OUT, PIXELS + 1, PIXELS);
        return false;
    }
    fa_tensor *pixels = fa_div_scalar(fa_slice(table, 1, 0, PIXELS, 1), 16);
    out->images = fa_keep(fa_contiguous(fa_reshape(pixels, FA_SHAPE(fa_size(table, 0), 1, 8, 8))));
    out->labels = fa_keep(fa_contiguous(fa_cast(fa_select(table, 1, PIXELS), FA_INT64)));
    return !fa_failed();
}

static digits choose(digits all, fa_tensor *order, int64_t from, int64_t to)
{
    fa_tensor *rows = fa_slice(order, 0, from, to, 1);
    return (digits){fa_index_select(all.images, 0, rows), fa_index_select(all.labels, 0, rows)};
}

/* ---- the network ---- */

static fa_module *make_network(void)
{
    return fa_sequential(fa_nn_conv2d(1, 16, 3, .padding = FA_DIMS(1)), fa_nn_batch_norm2d(16), fa_nn_relu(), fa_nn_max_pool2d(2),
                         fa_nn_conv2d(16, 32, 3, .padding = FA_DIMS(1)), fa_nn_batch_norm2d(32), fa_nn_relu(),
                         fa_nn_flatten(), fa_nn_dropout(0.25), fa_nn_linear(512, 10));
}

/* How many rows of scores have their largest value at the label. */
static fa_tensor *count_right(fa_tensor *scores, fa_tensor *labels)
{
    return fa_sum(fa_eq(fa_argmax_dim(scores, 1, false), labels));
}

/* Waits for the device and returns the seconds since *since, which becomes now. */
static double lap(fa_device device, double *since)
{
    fa_synchronize(device);
    const double now = cli_seconds(), passed = now - *since;
    *since = now;
    return passed;
}

/* ---- training ---- */

typedef struct training {
    fa_device device;
    fa_module *net;
    fa_optimizer *optimizer;
    fa_loader *loader;
    times spent;
    double loss;      /* sums over the epoch */
    int64_t seen, right;
} training;

/* One batch; false at the end of the epoch and after an error. */
static bool train_batch(training *t)
{
    FA_SCOPE;
    double since = cli_seconds();
    fa_tensor *batch[2];
    if (!fa_next(t->loader, batch)) return false;
    fa_tensor *x = fa_to(batch[0], t->device), *y = fa_to(batch[1], t->device);
    t->spent.data += lap(t->device, &since);

    fa_tensor *scores = fa_call(t->net, x);
    fa_tensor *loss = fa_cross_entropy(scores, y);
    t->loss += fa_item(loss) * (double)fa_numel(y);
    t->right += fa_item_int(count_right(scores, y));
    t->seen += fa_numel(y);
    t->spent.forward += lap(t->device, &since);

    fa_zero_grad(t->optimizer);
    fa_backward(loss);
    t->spent.backward += lap(t->device, &since);
    fa_step(t->optimizer);
    t->spent.step += lap(t->device, &since);
    return !fa_failed();
}

static bool train(training *t, int epochs)
{
    fa_scheduler *schedule = fa_cosine_lr(t->optimizer, epochs, 0);
    cli_progress progress;
    cli_progress_begin(&progress, epochs, fa_loader_length(t->loader));
    for (int epoch = 1; epoch <= epochs && !fa_failed(); epoch++) {
        t->loss = 0, t->seen = t->right = 0;
        for (int64_t step = 1; train_batch(t); step++)
            cli_progress_show(&progress, epoch, step, t->loss / (double)t->seen, (double)t->right / (double)t->seen);
        fa_schedule_step(schedule);
    }
    cli_progress_end(&progress);
    return !fa_failed();
}

static int64_t test(training *t, digits held_out)
{
    FA_SCOPE;
    FA_NO_GRAD;
    fa_train(t->net, false);
    fa_tensor *x = fa_to(held_out.images, t->device), *y = fa_to(held_out.labels, t->device);
    return fa_item_int(count_right(fa_call(t->net, x), y));
}

/* ---- the command ---- */

/* The device of --device, or the best there is; says so in the first line. False after a message. */
static bool choose_device(const cli_command *command, fa_device *out)
{
    const char *name = cli_get(command, "--device");
    fa_device_properties p;
    *out = name ? fa_device_parse(name) : fa_try_accelerator(0);
    if (!fa_failed() && fa_device_get_properties(*out, &p)) {
        if (out->type != FA_DEVICE_CPU && out->index < 0) out->index = (int16_t)fa_current_device(out->type);
        printf("device: %s (%s)\n", fa_device_text(*out), p.name);
        if (p.simulated) printf("It runs the GPU's code on the CPU, to learn and to test: about ten times as slow as the CPU.\n");
        return true;
    }
    fprintf(stderr, "facula demo: %s\n", fa_error_take().text);
    const char *sim = getenv("FACULA_SIM");
    if (out->type && out->type != FA_DEVICE_CPU && fa_device_count(out->type) == 0 && (!sim || !*sim))
        fprintf(stderr, "Try: FACULA_SIM=%s:2 facula demo --device %s\n", fa_device_text(fa_device_of_type(out->type, -1)), name);
    return false;
}

static void report(const training *t, int64_t right, double seconds)
{
    printf("held-out accuracy: %.1f %% (%lld of %d digits that were used for nothing else)\n", 100.0 * (double)right / HELD_OUT,
           (long long)right, HELD_OUT);
    printf("time: %.2f s (forward %.2f, backward %.2f, step %.2f, data %.2f)\n", seconds, t->spent.forward, t->spent.backward,
           t->spent.step, t->spent.data);
}

static void demo(fa_device device, const char *path, int epochs, int64_t seed)
{
    digits all;
    const double start = cli_seconds();
    fa_manual_seed((uint64_t)seed);
    if (!load(path, &all)) return;
    fa_tensor *order = fa_randperm(TRAIN + HELD_OUT, .device = FA_CPU);
    const digits seen = choose(all, order, 0, TRAIN), held_out = choose(all, order, TRAIN, TRAIN + HELD_OUT);
    training t = {.device = device, .net = make_network()};
    fa_module_to(t.net, device);
    t.optimizer = fa_adamw(t.net, .lr = 3e-3);
    t.loader = fa_loader(fa_tensor_dataset(seen.images, seen.labels), .batch_size = BATCH, .shuffle = true);
    if (fa_failed()) return;
    printf("data: %d digits to learn from, %d held out\nnetwork: %lld parameters\n", TRAIN, HELD_OUT,
           (long long)fa_parameter_numel(t.net));
    fflush(stdout);
    if (!train(&t, epochs)) return;
    const int64_t right = test(&t, held_out);
    if (!fa_failed()) report(&t, right, cli_seconds() - start);
}

static int run(const cli_command *command)
{
    int64_t epochs, seed;
    char found[PATH_MAX];
    if (!cli_number(command, "--epochs", 1, 10000, EPOCHS, &epochs)) return 2;
    if (!cli_number(command, "--seed", 0, INT64_MAX, 0, &seed)) return 2;
    fa_device device;
    if (!choose_device(command, &device)) return 1;
    const char *path = cli_get(command, "--data");
    if (!path && !find_data(found, sizeof found)) {
        fprintf(stderr, "facula demo: digits.csv.gz is neither beside the program (../share/facula) nor in ./data; name it: "
                        "facula demo --data PATH\n");
        return 1;
    }
    demo(device, path ? path : found, (int)epochs, seed);
    return fa_finish("facula demo");
}

static cli_option options[] = {
    {"--device", "NAME", "cpu, cuda, cuda:1, ... (the best there is)", NULL},
    {"--epochs", "N", "passes over the training data (10)", NULL},
    {"--seed", "N", "of all random numbers (0)", NULL},
    {"--data", "PATH", "the digits (digits.csv.gz, installed with the program)", NULL},
    {0},
};
const cli_command cli_demo = {
    .name = "demo",
    .what = "trains a network on handwritten digits",
    .more = "Without a GPU: FACULA_SIM=cuda:2 facula demo --device cuda:1   trains on a simulated one.\n",
    .run = run,
    .options = options,
};
