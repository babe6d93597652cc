/* Every wait of the library is needed. A shim before the cuda backend, registered as a device type of its own over the simulator,
 * is the latest device that the contract (sys/fa_backend.h) allows: what is queued runs when something waits for it and not before; a
 * copy reads and writes the host's memory at that time too. Waits are: the host's for a stream and for an event, a question whether an
 * event has come (left out, the answer is yes), and a stream's for an event. Left out, the call returns at once, the device has come as
 * far as a seed says, and the host memory that a wait for a stream protected belongs to somebody else, so what the late copies read
 * is garbage and what they bring is lost. Then the program must see something else at some seed, or the device must be given back
 * memory that its queues still use.
 *
 * Programs run once and note all that they see. Of the first ones each single wait is left out in turn; a wait at which nothing
 * was queued can't matter. Of all of them each place of the library that waits, known by its callers, is left out altogether: it
 * must show in one program at least.
 *
 * test-env: FACULA_SIM=cuda:2
 * test-env: FACULA_SIM=cuda:2 FACULA_SIM_PEER=off
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

enum { STRICT = 6, DEVICES = 2, LANES = 80, SEEDS = 4, NOTES = 4096, MIB = 1 << 20 };

/* ---- the latest device ---- */

typedef struct mark { /* one record of an event */
    int refs;
    bool done;
    struct lane *lane;
} mark;

typedef struct late_op {
    struct late_op *next;
    enum { COPY, BETWEEN, FILL, LAUNCH, RECORD, WAIT } what;
    fa_copy_kind kind;
    fa_address address, other, pointers[8];
    void *host; /* NULL: it belongs to somebody else now */
    size_t bytes, plan_bytes;
    int byte, group_size, to;
    uint64_t groups;
    fa_kernel_handle kernel;
    mark *mark;
    fa_plan plan;
} late_op;

typedef struct lane { /* a stream */
    int device, count;
    late_op *first, **end;
} lane;

static const fa_backend *real;
static int (*revive)(const char *faults); /* the simulator's */
static lane lanes[LANES];                 /* the first ones are the default streams */
static int nlanes = DEVICES;
static struct { char *memory; size_t bytes; } pinned[64]; /* the library keeps it until the copies are done */
static int waits, skip; /* so far in this run; which one is left out (0: none) */
static int skip_way;    /* or all of one way (0: none) */
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

/* ---- ways of waiting: the host for a stream, for an event, asking for one, a stream for an event; which stream for which ---- */

enum { FOR_STREAM, FOR_EVENT, ASKS, STREAM_FOR_EVENT, KINDS };
enum { ALL = 15, NO_ASKING = ALL & ~(1 << ASKS), ORDER = 1 << STREAM_FOR_EVENT, STREAMS = 2 * DEVICES, WAYS = KINDS * STREAMS * STREAMS };
static const char *const kind_names[KINDS] = {"the host for a stream", "the host for an event", "the host, asking,", "a stream for an event"};
static bool way_mattered[WAYS + 1]; /* something was queued */

static int stream_number(const lane *l) { return l ? 2 * l->device + (l != &lanes[l->device]) : 0; } /* a device's default one, or another */

/* Of every wait: whether it is left out. something: is queued that it waits for. */
static bool left_out(int kind, const lane *who, const lane *for_whom, bool something) {
    const int way = 1 + (kind * STREAMS + stream_number(who)) * STREAMS + stream_number(for_whom);
    if (++waits == skip) mattered = something;
    if (something) way_mattered[way] = true;
    return waits == skip || way == skip_way;
}

static lane *lane_of(int device, fa_stream_handle stream) { return stream ? (lane *)(void *)stream : &lanes[device]; }

static int push(int device, fa_stream_handle stream, late_op op) {
    lane *l = lane_of(device, stream);
    late_op *last = malloc(sizeof *last);
    assert_non_null(last);
    *last = op;
    last->next = NULL;
    if (!l->first) l->end = &l->first;
    *l->end = last;
    l->end = &last->next;
    l->count++;
    return 0;
}

static void drop(mark *m) {
    if (m && --m->refs == 0) free(m);
}

static int run_until(mark *m);

static int run_one(int device, const late_op *op) {
    void *lost = op->what == COPY && op->kind != FA_COPY_WITHIN && !op->host ? malloc(op->bytes) : NULL;
    int code = 0;
    if (op->what == RECORD) op->mark->done = true;
    if (op->what == WAIT) code = run_until(op->mark);
    if (op->what == RECORD || op->what == WAIT) return code;
    if (lost) memset(lost, 0x7b, op->bytes);
    if (op->what == COPY) code = real->copy(device, NULL, op->kind, op->address, lost ? lost : op->host, op->other, op->bytes);
    if (op->what == BETWEEN) code = real->copy_between(device, NULL, op->address, op->to, op->other, op->bytes);
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

static int run_first(lane *l, int n) {
    int code = 0;
    for (; n > 0 && l->first; n--) {
        late_op *op = l->first;
        if (!(l->first = op->next)) l->end = &l->first;
        l->count--;
        const int bad = run_one(l->device, op);
        if (!code) code = bad;
        drop(op->mark);
        free(op);
    }
    return code;
}

static int run_until(mark *m) {
    int code = 0;
    while (!m->done) {
        const int bad = run_first(m->lane, 1);
        if (!code) code = bad;
    }
    return code;
}

static int late_copy(int device, fa_stream_handle stream, fa_copy_kind kind, fa_address address, void *memory, fa_address other,
                     size_t bytes) {
    return push(device, stream, (late_op){.what = COPY, .kind = kind, .address = address, .host = memory, .other = other, .bytes = bytes});
}

static int late_between(int device, fa_stream_handle stream, fa_address from, int to_device, fa_address to, size_t bytes) {
    if (bytes == 0) return real->copy_between(device, NULL, from, to_device, to, 0);
    return push(device, stream, (late_op){.what = BETWEEN, .address = from, .other = to, .to = to_device, .bytes = bytes});
}

static int late_fill(int device, fa_stream_handle stream, fa_address address, int byte, size_t bytes) {
    return push(device, stream, (late_op){.what = FILL, .address = address, .byte = byte, .bytes = bytes});
}

static int late_launch(int device, fa_stream_handle stream, fa_kernel_handle kernel, uint64_t groups, int group_size,
                       const void *plan, size_t plan_bytes, const fa_address pointers[8]) {
    late_op op = {.what = LAUNCH, .kernel = kernel, .groups = groups, .group_size = group_size, .plan_bytes = plan_bytes};
    memcpy(&op.plan, plan, plan_bytes);
    memcpy(op.pointers, pointers, sizeof op.pointers);
    return push(device, stream, op);
}

/* Host memory that this queue's copies were given, but what is pinned. */
static void take_host_memory(lane *l) {
    for (late_op *op = l->first; op; op = op->next) {
        bool kept = false;
        for (size_t i = 0; i < sizeof pinned / sizeof pinned[0]; i++)
            kept |= pinned[i].memory && (char *)op->host >= pinned[i].memory && (char *)op->host < pinned[i].memory + pinned[i].bytes;
        if (!kept) op->host = NULL;
    }
}

static int late_wait(int device, fa_stream_handle stream) {
    lane *l = lane_of(device, stream);
    const int there = l->count;
    if (!left_out(FOR_STREAM, NULL, l, there > 0)) return run_first(l, there);
    const int code = run_first(l, seed ? (int)(seed * 2654435761u % (uint64_t)(there + 1)) : 0);
    take_host_memory(l);
    return code;
}

static int late_release(int device, fa_address address) {
    int queued = 0;
    for (int i = 0; i < nlanes; i++)
        for (const late_op *op = lanes[i].first; op; op = op->next)
            queued += op->what < RECORD && (lanes[i].device == device || (op->what == BETWEEN && op->to == device));
    if (queued) note("memory given back under %d queued operations\n", queued);
    for (int i = 0; i < nlanes && queued; i++) run_first(&lanes[i], lanes[i].count);
    return real->release(device, address);
}

static int late_open(int *count, char *why, size_t n) {
    (void)why, (void)n;
    *count = DEVICES; /* the real one is open */
    return 0;
}

static int late_stream(int device, int priority, fa_stream_handle *out) {
    (void)priority;
    if (nlanes == LANES) return FA_BACKEND_FAILED;
    lanes[nlanes].device = device;
    *out = (fa_stream_handle)(void *)&lanes[nlanes++];
    return 0;
}

/* An event is the place of its last mark. */
static int event_new(int device, fa_event_handle *out) {
    (void)device;
    *out = (fa_event_handle)calloc(1, sizeof(mark *));
    return *out ? 0 : FA_BACKEND_FAILED;
}
static mark **mark_of(fa_event_handle event) { return (mark **)(void *)event; }
static int event_free(int device, fa_event_handle event) {
    (void)device;
    drop(*mark_of(event));
    free(event);
    return 0;
}
static int event_put(int device, fa_event_handle event, fa_stream_handle stream) {
    mark *m = calloc(1, sizeof *m);
    assert_non_null(m);
    *m = (mark){.refs = 2, .lane = lane_of(device, stream)};
    drop(*mark_of(event));
    *mark_of(event) = m;
    return push(device, stream, (late_op){.what = RECORD, .mark = m});
}

static int event_wait(int device, fa_event_handle event) {
    (void)device;
    mark *m = *mark_of(event);
    return !m || left_out(FOR_EVENT, NULL, m->lane, !m->done) ? 0 : run_until(m);
}
static int stream_wait_for(int device, fa_stream_handle stream, fa_event_handle event) {
    mark *m = *mark_of(event);
    if (!m || left_out(STREAM_FOR_EVENT, lane_of(device, stream), m->lane, !m->done)) return 0;
    m->refs++;
    return push(device, stream, (late_op){.what = WAIT, .mark = m});
}
static int event_ask(int device, fa_event_handle event, bool *done) {
    (void)device;
    mark *m = *mark_of(event);
    *done = !m || m->done || left_out(ASKS, NULL, m->lane, true);
    return 0;
}

/* Pins it, and remembers that the library keeps that memory until its copies are done. */
static fa_tensor *pin(fa_tensor *t) {
    fa_tensor *p = fa_pin_memory(t);
    size_t i = 0;
    while (i < sizeof pinned / sizeof pinned[0] - 1 && pinned[i].memory && pinned[i].memory != (char *)fa_data(p)) i++;
    pinned[i].memory = fa_data(p);
    pinned[i].bytes = 4096;
    return p;
}

static int late_pinned(int device, size_t bytes, void **out) {
    const int code = real->host_allocate(device, bytes, out);
    size_t i = 0;
    while (i < sizeof pinned / sizeof pinned[0] - 1 && pinned[i].memory) i++;
    pinned[i].memory = *out;
    pinned[i].bytes = bytes;
    return code;
}

/* The same of a number that is known: with no wait left out it must be that one. */
static void note_right(const char *what, fa_tensor *t, double right) {
    const double value = fa_item(t);
    if (!skip && !skip_way && value != right) fail_msg("%s: %g instead of %g", what, value, right);
    const fa_error e = fa_error_take();
    note("%s %.9g %s\n", what, value, e.op);
}

/* What the program waits for by itself is no wait of the library's. */
static void run_all(void) {
    for (int i = 0; i < nlanes; i++) run_first(&lanes[i], lanes[i].count);
}

/* ---- the programs ---- */

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

/* A copy into memory that is still read there, of memory that is written again behind it; one side or the other comes first. */
static void between(fa_device one, fa_device other, int64_t n) {
    for (int ahead = 0; ahead < 3; ahead++) {
        FA_SCOPE;
        fa_tensor *from = fa_arange(0, (double)n, 1, .dtype = FA_FLOAT32, .device = one), *to = fa_ones(FA_SHAPE(n), .device = other);
        run_all();
        fa_mul_scalar_(from, 2);
        fa_tensor *before = fa_mul_scalar(to, 3);
        fa_copy_(to, from);
        fa_mul_scalar_(from, 0);
        if (ahead == 1) run_first(&lanes[one.index], lanes[one.index].count);
        if (ahead == 2) note_right("the last", fa_select(to, 0, -1), 2 * (double)(n - 1));
        note_right("there", fa_mean(to), (double)(n - 1));
        note_right("before", fa_mean(before), 3);
    }
}

/* ---- streams of one device ---- */

static void order(fa_device on, int way) {
    FA_SCOPE;
    const fa_stream main = fa_default_stream(on), side = fa_stream_new(on, 0);
    fa_tensor *x = fa_full(FA_SHAPE(100), 1, .device = on, .dtype = FA_FLOAT32), *y = NULL;
    run_all();
    fa_mul_scalar_(x, 5);
    fa_event *e = way ? fa_stream_record_event(main) : NULL;
    if (way == 0) fa_stream_wait_stream(side, main);
    if (way == 1) fa_event_wait(e, side);
    if (way == 2) fa_mul_scalar(x, 7), fa_event_synchronize(e); /* something lies behind the event */
    if (way == 3) fa_event_synchronize(e);
    {
        FA_STREAM_SCOPE(side);
        y = fa_add_scalar(x, 1);
        note_right("in the side stream", fa_mean(y), 6);
    }
    fa_drop(e);
}

/* Freed while a side stream reads it. more: than the allocator remembers. */
static void freed(fa_device on, int sides) {
    FA_SCOPE;
    fa_tensor *x = fa_full(FA_SHAPE(5000), 3, .device = on, .dtype = FA_FLOAT32), *y[5], *z;
    fa_stream side[5];
    run_all();
    for (int i = 0; i < sides; i++) {
        side[i] = fa_stream_new(on, 0);
        FA_STREAM_SCOPE(side[i]);
        y[i] = fa_mul_scalar(x, 2);
        fa_record_stream(x, side[i]);
    }
    fa_drop(x);
    z = fa_full(FA_SHAPE(5000), 8, .device = on, .dtype = FA_FLOAT32);
    run_first(&lanes[on.index], lanes[on.index].count);
    for (int i = 0; i < sides; i++) {
        FA_STREAM_SCOPE(side[i]);
        note_right("read in a side stream", fa_mean(y[i]), 6);
    }
    note_right("z", fa_mean(z), 8);
}

/* Backward through a side stream: what comes there, what stays there, and what comes back; the side stream may come first. */
static void backward(fa_device on, bool leaf) {
    static int runs;
    for (int ahead = 0; ahead < 2; ahead++) {
        FA_SCOPE;
        const double k = 1 << ++runs % 7; /* what lies in the memory from the run before is another number */
        const fa_stream side = fa_stream_new(on, 0);
        fa_tensor *x = fa_requires_grad(fa_full(FA_SHAPE(6), 2.0, .device = on), true), *middle, *y, *grad[1];
        run_all();
        {
            FA_STREAM_SCOPE(side);
            middle = fa_mul_scalar(x, 3);
            y = fa_mul(middle, middle);
        }
        run_all();
        fa_tensor *loss = fa_sum(fa_mul_scalar(y, k));
        fa_grad_of((fa_tensor *const[]){loss}, 1, (fa_tensor *const[]){leaf ? x : middle}, 1, grad);
        for (int i = DEVICES; i < nlanes && ahead; i++) run_first(&lanes[i], lanes[i].count);
        note_right("gradient", fa_mean(fa_mul_scalar(grad[0], 1 / k)), leaf ? 36 : 12);
    }
}

/* Memory of gradients that a side stream made and the default one read, when the side stream asks for as much at once. */
static void gradients_memory(fa_device on, bool leaf) {
    FA_SCOPE;
    const fa_stream side = fa_stream_new(on, 0);
    fa_tensor *x = fa_requires_grad(fa_full(FA_SHAPE(5000), 2.0, .device = on), true), *y, *grad[1], *other[6];
    fa_tensor *middle = leaf ? fa_mul_scalar(x, 3) : NULL; /* the gradient of one made in the side stream stays there */
    run_all();
    {
        FA_STREAM_SCOPE(side);
        if (!leaf) middle = fa_mul_scalar(x, 3);
        y = fa_mul(middle, middle);
    }
    run_all();
    fa_tensor *loss = fa_sum(y);
    fa_grad_of((fa_tensor *const[]){loss}, 1, (fa_tensor *const[]){leaf ? x : middle}, 1, grad);
    fa_tensor *twice = fa_mul_scalar(grad[0], 2);
    fa_drop(grad[0]);
    {
        FA_STREAM_SCOPE(side);
        for (int i = 0; i < 6; i++) other[i] = fa_full(FA_SHAPE(5000), 99.0, .device = on);
    }
    for (int i = DEVICES; i < nlanes; i++) run_first(&lanes[i], lanes[i].count);
    note_right("twice the gradient", fa_mean(twice), leaf ? 72 : 24);
    note_right("others", fa_mean(other[5]), 99);
}

/* Copies that do not wait: what they bring, what they read, and whose memory is used again. */
static void queued(fa_device on) {
    FA_SCOPE;
    fa_tensor *x = fa_full(FA_SHAPE(300), 4, .device = on, .dtype = FA_FLOAT32), *there = fa_empty(FA_SHAPE(300), .device = on, .dtype = FA_FLOAT32);
    fa_tensor *host_side = pin(fa_zeros(FA_SHAPE(300), .dtype = FA_FLOAT32)), *again;
    run_all();
    fa_copy_async_(host_side, fa_mul_scalar(x, 2));
    note_right("brought", fa_mean(host_side), 8);
    fa_fill_(host_side, 6);
    fa_copy_async_(there, host_side);
    fa_drop(host_side);
    again = pin(fa_full(FA_SHAPE(300), 1, .dtype = FA_FLOAT32));
    note_right("taken", fa_mean(there), 6);
    note_right("again", fa_mean(again), 1);
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

/* ---- leaving out one wait after the other ---- */

static fa_device on[DEVICES];
static float *host;

/* Each is a program of its own. */
static void bad_at_the_end(int d) { (void)fa_index_select(fa_ones(FA_SHAPE(5), .device = on[d]), 0, fa_mul_scalar(fa_to(fa_ints(9), on[d]), 1)); }
static void training(int d) { train(on[d]); }
static void host_copies(int d) { copies(on[d], host); }
static void memory_again(int d) { memory(on[d]); }
static void small_copy(int d) { between(on[d], on[1 - d], 1000); }
static void large_copy(int d) { between(on[d], on[1 - d], 5 * MIB / 4); } /* in pieces where pinned memory lies between */
static void too_late(int d) { late_errors(on[d]); }
static void ordered(int way) { order(on[0], way); }
static void read_by(int sides) { freed(on[1], sides); }
static void back(int leaf) { backward(on[0], leaf); }
static void used_again(int leaf) { gradients_memory(on[0], leaf); }
static void not_waiting(int d) { queued(on[d]); }
static const struct {
    const char *name;
    void (*run)(int);
    int number;
    int shows; /* kinds of waits that it is about: each must show */
} programs[] = {
    {"bad at the end", bad_at_the_end, 0, ALL},   {"bad at the end", bad_at_the_end, 1, ALL},
    {"training", training, 0, ALL},               {"copies", host_copies, 1, ALL},
    {"memory", memory_again, 0, ALL},             {"late errors", too_late, 0, ALL},
    {"between", small_copy, 0, NO_ASKING},        {"between, large", large_copy, 1, NO_ASKING},
    {"wait_stream", ordered, 0, ALL},             {"event_wait", ordered, 1, ALL},
    {"event_synchronize", ordered, 2, ALL},       {"event_synchronize", ordered, 3, ALL},
    {"freed", read_by, 1, ALL},                   {"freed", read_by, 2, ALL},
    {"freed", read_by, 3, ALL},                   {"freed", read_by, 5, ALL},
    {"backward, inside", back, 0, ORDER},         {"backward, leaf", back, 1, ORDER},
    {"gradients' memory", used_again, 0, 0},      {"gradients' memory", used_again, 1, 0},
    {"queued", not_waiting, 1, ALL},
};
enum { PROGRAMS = sizeof programs / sizeof programs[0] };

static void run(int which, int without, uint64_t with_seed) {
    const int to = dup(STDERR_FILENO), nowhere = open("/dev/null", O_WRONLY); /* fa_finish prints the error that it finds */
    noted = 0;
    notes[0] = 0;
    waits = 0, skip = without, seed = with_seed, mattered = false;
    dup2(nowhere, STDERR_FILENO);
    programs[which].run(programs[which].number);
    if (which >= STRICT) run_all(); /* what fa_finish waits for is the first programs' matter */
    const int failed = fa_finish("test_waits");
    dup2(to, STDERR_FILENO);
    close(to), close(nowhere);
    note("finished with %d\n", failed);
    run_all();
    (void)fa_error_take();
}

/* At some seed the program sees something else than it should. */
static bool shows(int which, int wait, const char *expected) {
    bool different = false;
    for (uint64_t s = 0; s < SEEDS && !different; s++) {
        run(which, wait, s);
        if (wait && !mattered) return true;
        different = strcmp(notes, expected) != 0;
    }
    return different;
}

static void leave_out_each(int which, int there, const char *expected, int *needed, int *idle) {
    for (int i = 1; i <= there; i++) {
        const bool shown = shows(which, i, expected);
        if (!mattered) ++*idle;
        else if (shown) ++*needed;
        else fail_msg("%s: without wait %d of %d nothing shows", programs[which].name, i, there);
    }
}

/* All waits of one way, of those for which something was queued. */
static int leave_out_ways(int which, const char *expected, int *told) {
    int unseen = 0;
    for (int way = 1; way <= WAYS; way++) {
        if (!way_mattered[way] || !(programs[which].shows >> (way - 1) / STREAMS / STREAMS & 1)) continue;
        skip_way = way;
        const bool shown = shows(which, 0, expected);
        skip_way = 0;
        ++*told;
        if (shown) continue;
        unseen++;
        print_error("%s: without the waits of %s (%d for %d) nothing shows\n", programs[which].name, kind_names[(way - 1) / STREAMS / STREAMS],
                    (way - 1) / STREAMS % STREAMS, (way - 1) % STREAMS);
    }
    return unseen;
}

static void every_wait_is_needed(void **state) {
    (void)state;
    static char expected[NOTES];
    int idle = 0, needed = 0, unseen = 0, ways = 0;
    for (int p = 0; p < PROGRAMS; p++) {
        memset(way_mattered, 0, sizeof way_mattered);
        run(p, 0, 0);
        const int there = waits;
        memcpy(expected, notes, sizeof expected);
        assert_null(strstr(expected, "given back"));
        run(p, 0, 0);
        if (strcmp(notes, expected) != 0 || waits != there)
            fail_msg("%s: the same program sees something else the second time:\n%s", programs[p].name, notes);
        if (p < STRICT) leave_out_each(p, there, expected, &needed, &idle);
        else unseen += leave_out_ways(p, expected, &ways);
    }
    print_message("%d single waits were needed, at %d nothing was queued; %d ways of waiting in %d programs, %d do not show when left out\n", needed, idle, ways,
                  PROGRAMS - STRICT, unseen);
    assert_int_equal(unseen, 0);
    assert_true(needed > 15 && ways > 15);
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
    late.stream_create = late_stream;
    late.event_create = event_new;
    late.event_destroy = event_free;
    late.event_record = event_put;
    late.event_wait = event_wait;
    late.event_query = event_ask;
    late.stream_wait_event = stream_wait_for;
    late.copy_between = late_between;
    late.host_allocate = late_pinned;
    late.graph_begin = NULL;
    for (int i = 0; i < DEVICES; i++) lanes[i].device = i;
    const int type = fai_backend_add(&late, NULL);
    for (int i = 0; i < DEVICES; i++) on[i] = fa_device_of_type(type, i);
    fa_test_caches(true); /* else each tensor that goes waits for everything, which hides what is left out */
    host = malloc(5 * MIB);
    if (!host || !type) return 1;
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(host);
    return failed + fa_finish("test_waits");
}
