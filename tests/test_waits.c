/* Every wait of the library is needed. A shim before the cuda backend, registered as a device type of its own over the simulator,
 * is the latest device that the contract (sys/fa_backend.h) allows: what is queued runs at a wait and not before; a copy reads and
 * writes the host's memory at that time too. A program runs once and notes all that it sees; then, for each wait i, it runs again
 * with wait i left out: the call returns at once, the device has come as far as a seed says, and the host memory that the wait
 * protected belongs to somebody else, so what the late copies read is garbage and what they bring is lost. At some seed the program
 * must see something else, or the device must be given back memory that its queue still uses. A wait at which nothing was
 * queued can't matter and is not counted.
 *
 * test-env: FACULA_SIM=cuda:2
 * test-limit: 300 */
#define _GNU_SOURCE
#include "backends/cuda/cuda.h"
#include "device/inside.h"
#include <dlfcn.h>
#include <facula.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEVICES = 2, SEEDS = 3, NOTES = 4096, MIB = 1 << 20 };

/* ---- the latest device ---- */

typedef struct late_op {
    struct late_op *next;
    enum { COPY, FILL, LAUNCH } what;
    fa_copy_kind kind;
    fa_address address, other, pointers[8];
    void *host; /* NULL: it belongs to somebody else now */
    size_t bytes, plan_bytes;
    int byte, group_size;
    uint64_t groups;
    fa_kernel_handle kernel;
    fa_plan plan;
} late_op;

static const fa_backend *real;
static int (*revive)(const char *faults); /* the simulator's */
static struct {
    late_op *first, **end;
    int count;
} queue[DEVICES];
static int waits, skip; /* so far in this run; which one is left out (0: none) */
static uint64_t seed;
static bool mattered;     /* something was queued at the wait that was left out */
static char notes[NOTES]; /* what the program saw */
static size_t noted;

static void note(const char *format, ...) {
    va_list list;
    va_start(list, format);
    const int n = vsnprintf(notes + noted, NOTES - noted, format, list);
    va_end(list);
    if (n < 0 || (size_t)n >= NOTES - noted) fail_msg("more notes than there is room for");
    noted += (size_t)n;
}

static int push(int device, late_op op) {
    late_op *last = malloc(sizeof *last);
    assert_non_null(last);
    *last = op;
    last->next = NULL;
    if (!queue[device].first) queue[device].end = &queue[device].first;
    *queue[device].end = last;
    queue[device].end = &last->next;
    queue[device].count++;
    return 0;
}

static int run_one(int device, const late_op *op) {
    void *lost = op->what == COPY && op->kind != FA_COPY_WITHIN && !op->host ? malloc(op->bytes) : NULL;
    int code = 0;
    if (lost) memset(lost, 0x7b, op->bytes);
    if (op->what == COPY) code = real->copy(device, NULL, op->kind, op->address, lost ? lost : op->host, op->other, op->bytes);
    if (op->what == FILL) code = real->fill(device, NULL, op->address, op->byte, op->bytes);
    if (op->what == LAUNCH)
        code = real->launch(device, NULL, op->kernel, op->groups, op->group_size, &op->plan, op->plan_bytes, op->pointers);
    const int waited = real->stream_wait(device, NULL);
    free(lost);
    if (!code) code = waited;
    if (code == FA_BACKEND_LOST) { /* an address that was garbage: the device is needed again, and its memory is all there */
        revive(NULL);
        code = FA_BACKEND_FAILED;
    }
    return code;
}

static int run_first(int device, int n) {
    int code = 0;
    for (; n > 0; n--) {
        late_op *op = queue[device].first;
        const int bad = run_one(device, op);
        if (!code) code = bad;
        if (!(queue[device].first = op->next)) queue[device].end = &queue[device].first;
        queue[device].count--;
        free(op);
    }
    return code;
}

static int late_copy(int device, fa_stream_handle stream, fa_copy_kind kind, fa_address address, void *host, fa_address other,
                     size_t bytes) {
    assert_null(stream); /* the library's only queue; a test of several needs one list each */
    return push(device, (late_op){.what = COPY, .kind = kind, .address = address, .host = host, .other = other, .bytes = bytes});
}

static int late_fill(int device, fa_stream_handle stream, fa_address address, int byte, size_t bytes) {
    assert_null(stream);
    return push(device, (late_op){.what = FILL, .address = address, .byte = byte, .bytes = bytes});
}

static int late_launch(int device, fa_stream_handle stream, fa_kernel_handle kernel, uint64_t groups, int group_size,
                       const void *plan, size_t plan_bytes, const fa_address pointers[8]) {
    assert_null(stream);
    late_op op = {.what = LAUNCH, .kernel = kernel, .groups = groups, .group_size = group_size, .plan_bytes = plan_bytes};
    memcpy(&op.plan, plan, plan_bytes);
    memcpy(op.pointers, pointers, sizeof op.pointers);
    return push(device, op);
}

static int late_wait(int device, fa_stream_handle stream) {
    assert_null(stream);
    if (++waits != skip) return run_first(device, queue[device].count);
    const int there = queue[device].count;
    mattered = there > 0;
    const int code = run_first(device, seed ? (int)(seed * 2654435761u % (uint64_t)(there + 1)) : 0);
    for (late_op *op = queue[device].first; op; op = op->next) op->host = NULL;
    return code;
}

static int late_release(int device, fa_address address) {
    if (queue[device].count) note("memory given back under %d queued operations\n", queue[device].count);
    run_first(device, queue[device].count);
    return real->release(device, address);
}

static int late_open(int *count, char *why, size_t n) {
    (void)why, (void)n;
    *count = DEVICES; /* the real one is open */
    return 0;
}
static int no_event(int device, fa_event_handle event) {
    (void)device, (void)event;
    fail_msg("the library waits for events now: this shim has to make them late, too");
    return FA_BACKEND_FAILED;
}
static int no_stream(int device, int priority, fa_stream_handle *out) {
    (void)device, (void)priority, (void)out;
    fail_msg("the library has several queues now: this shim needs a list for each");
    return FA_BACKEND_FAILED;
}

/* ---- the program ---- */

static void note_number(const char *what, fa_tensor *t) {
    const double value = fa_item(t);
    const fa_error e = fa_error_take();
    if (e.code)
        note("%s: %s: %.60s\n", what, e.op, e.text);
    else
        note("%s %.9g\n", what, value);
}

/* Batches from the CPU, an optimizer, the loss read in each step, a parameter printed. */
static void train(fa_device on) {
    FA_SCOPE;
    char text[400];
    fa_manual_seed(3);
    fa_module *net = fa_sequential(fa_nn_linear(4, 8), fa_nn_relu(), fa_nn_linear(8, 3));
    fa_module_to(net, on);
    fa_optimizer *optimizer = fa_adamw(net, .lr = 0.05);
    for (int step = 0; step < 3; step++) {
        FA_SCOPE;
        fa_tensor *x = fa_to(fa_rand(FA_SHAPE(6, 4)), on), *y = fa_to(fa_randint(0, 3, FA_SHAPE(6)), on);
        fa_tensor *loss = fa_cross_entropy(fa_call(net, x), y);
        fa_zero_grad(optimizer);
        fa_backward(loss);
        fa_step(optimizer);
        note_number("loss", fa_detach(loss));
    }
    if (fa_to_text(fa_detach(fa_get_parameter(net, "2.bias")), text, sizeof text) > 0) note("%s\n", text);
    note_number("norm", fa_sum(fa_abs(fa_detach(fa_get_parameter(net, "0.weight")))));
}

/* Memory of the host that is written again as soon as the copy returned; large, and in many pieces. */
static void copies(fa_device on, float *host) {
    FA_SCOPE;
    const int64_t large = 5 * MIB / 4, piece = MIB;
    for (int64_t i = 0; i < large; i++) host[i] = 1;
    fa_tensor *all = fa_from_data(host, FA_FLOAT32, FA_SHAPE(large), .device = on);
    for (int64_t i = 0; i < large; i++) host[i] = 2;
    note_number("large", fa_mean(all));
    fa_tensor *sum = fa_zeros(FA_SHAPE_0D, .device = on);
    for (int k = 0; k < 9; k++) { /* more than is copied aside at once */
        FA_SCOPE;
        host[0] = (float)k;
        fa_add_(sum, fa_select(fa_from_data(host, FA_FLOAT32, FA_SHAPE(piece), .device = on), 0, 0));
    }
    note_number("pieces", sum);
}

/* Memory that is free again, taken again, and given back to the driver while the queue still uses it. */
static void memory(fa_device on) {
    FA_SCOPE;
    fa_tensor *x = fa_full(FA_SHAPE(70000), 3, .device = on, .dtype = FA_FLOAT32), *y = fa_mul(x, x), *large;
    fa_drop(x);
    fa_tensor *z = fa_full(FA_SHAPE(70000), 5, .device = on, .dtype = FA_FLOAT32); /* x's memory */
    large = fa_full(FA_SHAPE(6 * MIB), 1, .device = on, .dtype = FA_FLOAT32);
    fa_tensor *mean = fa_mean(large);
    fa_drop(large);
    fa_empty_cache(on);
    note_number("y", fa_mean(y));
    note_number("z", fa_mean(z));
    note_number("mean", mean);
}

static void between(fa_device one, fa_device other) {
    FA_SCOPE;
    fa_tensor *x = fa_arange(0, 1000, 1, .dtype = FA_FLOAT32, .device = one),
              *there = fa_mul_scalar(fa_to(fa_mul_scalar(x, 2), other), 3);
    note_number("there", fa_sum(there));
    note_number("and back", fa_sum(fa_to(there, one)));
    fa_tensor *places = fa_nonzero(fa_gt_scalar(there, 5900));
    note("%lld places, ", (long long)fa_size(places, 0));
    note_number("the first", fa_select(fa_select(places, 0, 0), 0, 0));
}

/* What only a wait can tell: an index that is not there. */
static void late_errors(fa_device on) {
    FA_SCOPE;
    fa_tensor *x = fa_arange(0, 5, 1, .dtype = FA_FLOAT32, .device = on), *bad = fa_mul_scalar(fa_to(fa_ints(1, 7), on), 1), /* made there: no call knows it */
              *good = fa_to(fa_ints(1, 3), on);
    (void)fa_index_select(x, 0, bad);
    if (fa_synchronize(on)) note("no late error\n");
    const fa_error e = fa_error_take();
    note("%s: %.60s\n", e.op, e.text);
    note_number("selected", fa_sum(fa_index_select(x, 0, good)));
}

/* All of it; or only an index that is not there on one of the devices, left for fa_finish to find. */
static int program(const fa_device *on, int bad_at_the_end, float *host) {
    if (bad_at_the_end < DEVICES) {
        (void)fa_index_select(fa_ones(FA_SHAPE(5), .device = on[bad_at_the_end]), 0,
                              fa_mul_scalar(fa_to(fa_ints(9), on[bad_at_the_end]), 1));
    } else {
        train(on[0]);
        copies(on[1], host);
        memory(on[0]);
        between(on[0], on[1]);
        late_errors(on[0]);
    }
    return fa_finish("test_waits");
}

/* ---- leaving out one wait after the other ---- */

static fa_device on[DEVICES];
static float *host;

static void run(int bad_at_the_end, int without, uint64_t with_seed) {
    const int to = dup(STDERR_FILENO), nowhere = open("/dev/null", O_WRONLY); /* fa_finish prints the error that it finds */
    noted = 0;
    notes[0] = 0;
    waits = 0, skip = without, seed = with_seed, mattered = false;
    dup2(nowhere, STDERR_FILENO);
    const int failed = program(on, bad_at_the_end, host);
    dup2(to, STDERR_FILENO);
    close(to), close(nowhere);
    note("finished with %d\n", failed);
    for (int i = 0; i < DEVICES; i++) run_first(i, queue[i].count);
    (void)fa_error_take();
}

/* At some seed the program sees something else than it should. */
static bool shows(int bad_at_the_end, int wait, const char *expected) {
    bool different = false;
    for (uint64_t s = 0; s < SEEDS && !different; s++) {
        run(bad_at_the_end, wait, s);
        if (!mattered) return true;
        different = strcmp(notes, expected) != 0;
    }
    return different;
}

static void every_wait_is_needed(void **state) {
    (void)state;
    static char expected[NOTES];
    int idle = 0, needed = 0, unseen = 0;
    for (int bad = 0; bad <= DEVICES; bad++) {
        run(bad, 0, 0);
        const int there = waits;
        memcpy(expected, notes, sizeof expected);
        if (bad == DEVICES) print_message("%s", expected);
        assert_null(strstr(expected, "given back"));
        run(bad, 0, 0);
        if (strcmp(notes, expected) != 0 || waits != there)
            fail_msg("the same program sees something else the second time:\n%s", notes);
        for (int i = 1; i <= there; i++) {
            const bool shown = shows(bad, i, expected);
            if (!mattered)
                idle++;
            else if (shown)
                needed++;
            else
                unseen++, print_error("variant %d: without wait %d of %d nothing shows\n", bad, i, there);
        }
    }
    print_message("%d waits left out one by one: %d were needed, at %d nothing was queued\n", needed + idle + unseen, needed,
                  idle);
    assert_int_equal(unseen, 0);
    assert_true(needed > 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_wait_is_needed)};
    if (fa_device_count(FA_DEVICE_CUDA) < DEVICES) return 77;
    static fa_backend late;
    fa_device_properties open_it;
    (void)fa_device_get_properties(FA_CUDA(0), &open_it);
    void *simulator = dlopen("libfacula_sim.so", RTLD_NOW | RTLD_NOLOAD);
    if (!simulator) return 1;
    *(void **)&revive = dlsym(simulator, "facula_sim_faults");
    real = fai_backend_cuda();
    late = *real;
    late.name = "late";
    late.open = late_open;
    late.copy = late_copy;
    late.fill = late_fill;
    late.launch = late_launch;
    late.stream_wait = late_wait;
    late.release = late_release;
    late.event_wait = no_event;
    late.stream_create = no_stream;
    late.copy_between = NULL; /* copies between the devices go through the host, with waits */
    late.host_allocate = NULL, late.host_release = NULL;
    const int type = fai_backend_add(&late, NULL);
    for (int i = 0; i < DEVICES; i++) on[i] = fa_device_of_type(type, i);
    host = malloc(5 * MIB);
    if (!host || !type) return 1;
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(host);
    return failed + fa_finish("test_waits");
}
