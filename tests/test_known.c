/* What is known of indices before a launch is true: random programs of factories, copies, views, writes through views, side streams,
 * pinned memory and graphs, and after each step every range that a buffer claims is compared with what is in it. A range that
 * survives a write shows here, as does one that is passed on too far. The other way round, the ranges that the programs of users
 * rely on are there: each of them is asked for by name.
 *
 *   test-env: FACULA_SIM=cuda:2
 *   test-env: FACULA_SIM=cuda:2 FACULA_SIM_FAULTS=launch:400,late:900,late:1500,copy:2000,late:2600
 *   test-env-opencl: FACULA_OPENCL=cpu
 *   test-tags: soak */
#include "support/check.h"
#include <fa_graph.h>

enum { TENSORS = 48, STEPS = 40 };

static fa_tensor *tensor[TENSORS]; /* of a program, whole ones and views */
static int ntensors;
static uint64_t seed;
static fa_device second;           /* the other device, or the same one */
static int ranges, checked;        /* found and compared in all */

static uint64_t draw(uint64_t below) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (seed >> 33) % below;
}
static int64_t value(void) { return (int64_t)draw(40) - 8; }
static fa_tensor *any(void) { return tensor[draw((uint64_t)ntensors)]; }
static fa_tensor *any_line(void) { /* with a dimension */
    fa_tensor *t = any();
    return fa_ndim(t) ? t : fa_reshape(t, FA_SHAPE(1));
}
static fa_dtype any_type(void) { return (fa_dtype[]){FA_INT64, FA_INT64, FA_INT32, FA_UINT8}[draw(4)]; }

static void add(fa_tensor *t) {
    if (t && ntensors < TENSORS) tensor[ntensors++] = t;
}

static fa_tensor *from_host(fa_device on) {
    int64_t x[6];
    for (int i = 0; i < 6; i++) x[i] = value();
    return fa_from_data(x, FA_INT64, draw(2) ? FA_SHAPE(6) : FA_SHAPE(2, 3), .dtype = any_type(), .device = on);
}

static fa_tensor *pinned(void) {
    fa_tensor *t = fa_pin_memory(from_host(FA_CPU));
    fa_tensor *there = t ? fa_to_async(t, device) : NULL;
    if (there && draw(2)) { /* what lies in t is on its way there */
        fa_copy_async_(t, fa_full(fa_shape_of_tensor(t), value(), .dtype = fa_dtype_of(t), .device = device));
        fa_copy_async_(there, t);
    }
    return there;
}

static fa_tensor *picked(fa_tensor *t) {
    const int64_t last = fa_size(t, 0) - 1, index[] = {0, last, last};
    return fa_index_select(t, 0, fa_from_data(index, FA_INT64, FA_SHAPE(3), .device = device));
}

/* ---- steps: of new tensors, of views, of writes ---- */

static fa_tensor *made(uint64_t kind) {
    fa_tensor *places = NULL, *x = fa_randn(FA_SHAPE(2, 3), .device = device);
    switch (kind) {
    case 0: return from_host(device);
    case 1: return fa_full(FA_SHAPE(6), value(), .dtype = any_type(), .device = device);
    case 2: return fa_zeros(FA_SHAPE(2, 3), .dtype = any_type(), .device = device);
    case 3: return fa_randint(-3, 20, FA_SHAPE(2, 3), .device = device);
    case 4: return fa_arange(value(), 60, 9, .dtype = any_type(), .device = device);
    case 5: return fa_randperm(6, .device = device);
    case 6: return fa_argmax_dim(x, 1, draw(2));
    case 7: fa_sort(x, (int64_t)draw(2), draw(2), &places); return places;
    case 8: fa_topk(x, 2, 1, draw(2), &places); return places;
    case 9: fa_cummax(x, 1, &places); return places;
    case 10: return fa_cast(any(), any_type());
    case 11: return fa_to(fa_to(any(), second), device);
    case 12: return picked(any_line());
    case 13: return fa_to(from_host(FA_CPU), device);
    case 14: return pinned();
    default: return fa_clone(any());
    }
}

static fa_tensor *view_of(fa_tensor *t) {
    const int64_t n = fa_size(t, 0);
    switch (fa_ndim(t) ? draw(4) : 0) {
    case 0: return fa_reshape(t, FA_SHAPE(-1));
    case 1: return fa_slice(t, 0, (int64_t)draw((uint64_t)n), n, 1);
    case 2: return fa_transpose(t, 0, -1);
    default: return fa_select(t, 0, (int64_t)draw((uint64_t)n));
    }
}

static void write(fa_tensor *t, uint64_t kind) {
    fa_tensor *flat = fa_full(FA_SHAPE(1), 0, .dtype = FA_INT64, .device = fa_device_of(t));
    switch (kind) {
    case 0: fa_fill_(t, value()); return;
    case 1: fa_add_scalar_(t, FA_NUM(value())); return;
    case 2: fa_zero_(t); return;
    case 3: fa_copy_(t, fa_full(FA_SHAPE(1), value(), .dtype = any_type())); return;
    case 4: fa_random_range_(t, 0, 30, NULL); return;
    case 5: fa_index_fill_scalar_(t, 0, flat, 30 + value()); return;
    case 6: fa_masked_fill_scalar_(t, fa_lt_scalar(t, FA_NUM(5)), 50 + value()); return;
    case 7: fa_copy_(t, fa_mul_scalar(t, FA_NUM(2))); return;
    case 8: fa_index_put_(t, (fa_tensor *const[]){flat}, 1, fa_full(FA_SHAPE(1), value(), .dtype = fa_dtype_of(t), .device = device), false); return;
    default: fa_clamp_max_(t, 60 + value()); return;
    }
}

/* Of work that is done later, and again after other writes. */
static void capture(fa_graph **graph, fa_tensor *t) {
    if (*graph) {
        fa_graph_replay(*graph);
        return;
    }
    const fa_stream stream = fa_stream_new(device, 0);
    fa_tensor *source = fa_full(FA_SHAPE(1), value(), .dtype = fa_dtype_of(t), .device = device);
    fa_synchronize(device);
    *graph = fa_graph_new();
    if (!*graph || !fa_graph_begin(*graph, stream, 0)) return;
    fa_tensor *copy = fa_clone(source); /* lies in the graph's pool */
    fa_copy_(t, copy);
    fa_add_scalar_(t, FA_NUM(3));
    if (draw(2)) fa_fill_(t, value()); /* not before the first replay */
    fa_graph_end(*graph);
    fa_add_scalar_(source, FA_NUM(90));
    add(copy);
}

static void beside(fa_tensor *t) {
    const fa_stream now = fa_current_stream(device), stream = fa_stream_new(device, 0);
    fa_stream_wait_stream(stream, now);
    const fa_stream_before before = fa_stream_enter(stream);
    write(t, draw(10));
    fa_stream_leave(&before);
    fa_stream_wait_stream(now, stream);
    fa_record_stream(t, stream);
}

static void step(fa_graph **graph) {
    const uint64_t kind = draw(40);
    if (kind < 16 || !ntensors) add(made(ntensors ? kind : 0));
    else if (kind < 22) add(view_of(any()));
    else if (kind < 36) write(any_line(), draw(10));
    else if (kind < 38) beside(any_line());
    else capture(graph, any_line());
}

/* ---- the check ---- */

static void check_ranges(int number) {
    for (int k = 0; k < ntensors; k++) {
        const fa_tensor *t = tensor[k];
        const fai_buffer *b = t->buffer;
        int64_t x[64];
        if (!b->ranged || b->ranged != t->dtype || !fai_may_range(b) || fa_numel(t) > 64) continue;
        if (!fa_to_data(tensor[k], x, FA_INT64)) continue; /* a fault of the simulator */
        ranges++;
        const fai_range r = b->range;
        for (int64_t i = 0; i < fa_numel(t); i++, checked++)
            if (x[i] < r.low || x[i] > r.high || (x[i] != r.low && x[i] < r.low2) || (x[i] != r.high && x[i] > r.high2))
                fail_msg("program %d, tensor %d, element %d: %d does not lie in %d (%d) .. (%d) %d", number, k, (int)i, (int)x[i], (int)r.low,
                         (int)r.low2, (int)r.high2, (int)r.high);
    }
}

static void every_range_holds(void **state) {
    (void)state;
    const int programs = getenv("FACULA_SOAK") ? 5000 : 150;
    const bool faults = getenv("FACULA_SIM_FAULTS") != NULL;
    for (int number = 1; number <= programs; number++) {
        FA_SCOPE;
        fa_graph *graph = NULL;
        seed = (uint64_t)number * 977;
        ntensors = 0;
        for (int i = 0; i < STEPS; i++) {
            step(&graph);
            const fa_error e = fa_error_take();
            if (e.code != FA_OK && !faults) fail_msg("program %d, step %d: %s: %s", number, i, e.op, e.text);
            check_ranges(number);
            fa_error_take();
        }
        fa_synchronize(device);
        fa_error_take();
    }
    assert_true(ranges > 20 * programs && checked > ranges);
}

/* ---- what has to be known ---- */

static void is_in(fa_tensor *t, int64_t low, int64_t high, int line) {
    if (!t) fail_msg("line %d: %s", line, fa_error_peek()->text);
    const fai_buffer *b = t->buffer;
    if (device.type == FA_DEVICE_CPU) return;
    if (b->ranged != t->dtype || b->range.low != low || b->range.high != high)
        fail_msg("line %d: type %d, %d .. %d", line, b->ranged, (int)b->range.low, (int)b->range.high);
}
#define IS_IN(t, low, high) is_in((t), (low), (high), __LINE__)
static void is_not_known(fa_tensor *t, int line) {
    if (!t || t->buffer->ranged) fail_msg("line %d", line);
}
#define IS_NOT_KNOWN(t) is_not_known((t), __LINE__)

static void ranges_that_programs_rely_on(void **state) {
    (void)state;
    if (getenv("FACULA_SIM_FAULTS")) return;
    const int64_t numbers[] = {3, 1, 4, 1, 5, 9};
    fa_tensor *host = fa_from_data(numbers, FA_INT64, FA_SHAPE(2, 3)), *x = fa_to(host, device), *places;
    fa_tensor *random = fa_randn(FA_SHAPE(4, 7), .device = device);
    IS_IN(x, 1, 9);
    IS_IN(fa_select(x, 0, 0), 1, 9);
    IS_IN(fa_clone(fa_select(x, 0, 0)), 1, 9);
    IS_IN(fa_cast(x, FA_INT32), 1, 9);
    IS_IN(fa_to(x, second), 1, 9);
    IS_IN(fa_contiguous(fa_t(x)), 1, 9);
    IS_IN(fa_to_async(fa_pin_memory(host), device), 1, 9);
    IS_IN(fa_index_select(x, 1, fa_randperm(3, .device = device)), 1, 9); /* a batch of labels that lie on the device */
    IS_IN(fa_from_data(numbers, FA_INT64, FA_SHAPE(6), .dtype = FA_UINT8, .device = device), 1, 9);
    IS_IN(fa_arange(0, 20, 3, .device = device), 0, 18);
    IS_IN(fa_randint(-3, 20, FA_SHAPE(5), .device = device), -3, 19);
    IS_IN(fa_randperm(12, .device = device), 0, 11);
    IS_IN(fa_zeros(FA_SHAPE(3), .dtype = FA_INT64, .device = device), 0, 0);
    IS_IN(fa_full(FA_SHAPE(3), 7, .dtype = FA_INT64, .device = device), 7, 7);
    IS_IN(fa_argmax_dim(random, 1, false), 0, 6);
    IS_IN(fa_argmin_dim(random, 0, true), 0, 3);
    IS_IN(fa_argmax(random), 0, 27);
    IS_IN((fa_sort(random, 0, false, &places), places), 0, 3);
    IS_IN((fa_topk(random, 2, 1, true, &places), places), 0, 6);
    IS_IN((fa_max_dim(random, 1, false, &places), places), 0, 6);
    IS_NOT_KNOWN(fa_mul_scalar(x, 1));
    IS_NOT_KNOWN(fa_cast(fa_mul_scalar(x, 100), FA_UINT8));
    IS_IN(fa_cast(x, FA_INT32), 1, 9);
    IS_NOT_KNOWN(fa_cast(fa_full(FA_SHAPE(3), 300, .dtype = FA_INT64, .device = device), FA_UINT8)); /* they wrap around */
    fa_fill_(fa_select(x, 0, 1), 2);
    IS_NOT_KNOWN(x);
}

static int both(void **state) {
    const int code = begin(state);
    second = device.type == FA_DEVICE_CUDA ? FA_CUDA(1) : device;
    return code;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(ranges_that_programs_rely_on, both, end),
        cmocka_unit_test_setup_teardown(every_range_holds, both, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : fa_finish("test_known");
}
