/* The caching allocator against a model of its rules that shares no code with it: random programs of allocations, frees, streams that use
 * each other's memory, waits and empty_cache on two devices. The model knows before each call whether memory is found, where it may
 * lie, what is counted and what the list of blocks says; memory runs out again and again. With PyTorch's options, and without.
 *
 *   test-env: FACULA_SIM=cuda:2 FACULA_SIM_MEMORY=96MiB
 *   test-env: FACULA_SIM=cuda:2 FACULA_SIM_MEMORY=128MiB PYTORCH_ALLOC_CONF=max_split_size_mb:24,roundup_power2_divisions:[4:1,16:2,>:4]
 *   test-env: FACULA_SIM=cuda:1 FACULA_SIM_MEMORY=128MiB PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True,max_split_size_mb:7,x
 *   test-env: FACULA_SIM=cuda:1 FACULA_SIM_MEMORY=128MiB PYTORCH_ALLOC_CONF=garbage_collection_threshold:0.5
 *   test-tags: threads soak */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "device/inside.h"
#include <facula.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((size_t)1 << 20)
enum { STREAMS = 4, BLOCKS = 2048, HELD = 60 };

/* ---- the model ---- */

typedef struct block {
    uint64_t address, segment, need[STREAMS]; /* need: of a waiting one, how far the streams that use it have to come */
    size_t size, asked;
    int stream;
    unsigned users; /* bits of other streams */
    bool small, live, waiting;
} block;

typedef struct model {
    block b[BLOCKS]; /* by address: neighbours in a segment are neighbours here */
    int n;
    uint64_t done[STREAMS], ops[STREAMS], total, retries, ooms;
} model;

static size_t max_split = SIZE_MAX;
static bool divided;

static size_t rounded(size_t bytes) {
    size_t step = 512, floor = 1;
    if (divided && bytes >= 4 * MIB) {
        while (floor * 2 <= bytes) floor *= 2;
        step = floor / (bytes < 16 * MIB ? 2 : 4);
    }
    return (bytes + step - 1) / step * step;
}

static size_t segment_for(size_t size) {
    return size <= MIB ? 2 * MIB : size < 10 * MIB ? 20 * MIB : (size + 2 * MIB - 1) / (2 * MIB) * (2 * MIB);
}

static bool is_free(const block *b) { return !b->live && !b->waiting; }
static void erase(model *m, int at) { memmove(&m->b[at], &m->b[at + 1], (size_t)(--m->n - at) * sizeof m->b[0]); }
static void insert(model *m, int at, block b) {
    assert_true(m->n < BLOCKS);
    memmove(&m->b[at + 1], &m->b[at], (size_t)(m->n++ - at) * sizeof m->b[0]);
    m->b[at] = b;
}

static void merge_all(model *m) {
    for (int i = 0; i + 1 < m->n;) {
        if (is_free(&m->b[i]) && is_free(&m->b[i + 1]) && m->b[i].segment == m->b[i + 1].segment) {
            m->b[i].size += m->b[i + 1].size;
            erase(m, i + 1);
        } else {
            i++;
        }
    }
}

static void settle(model *m) {
    for (int i = 0; i < m->n; i++) {
        if (!m->b[i].waiting) continue;
        bool waits = false;
        for (int s = 0; s < STREAMS; s++) waits |= m->b[i].need[s] > m->done[s];
        m->b[i].waiting = waits;
    }
    merge_all(m);
}

static bool is_whole(const model *m, int i) {
    const uint64_t segment = m->b[i].segment;
    return (i == 0 || m->b[i - 1].segment != segment) && (i + 1 == m->n || m->b[i + 1].segment != segment);
}

/* Bytes given back. Nothing is waited for if there is nothing to gain. */
static size_t give_back(model *m) {
    bool gain = false;
    size_t given = 0;
    for (int i = 0; i < m->n; i++) gain |= m->b[i].waiting || (is_free(&m->b[i]) && is_whole(m, i));
    if (!gain) return 0;
    memcpy(m->done, m->ops, sizeof m->done);
    settle(m);
    for (int i = m->n; i-- > 0;)
        if (is_free(&m->b[i]) && is_whole(m, i)) given += m->b[i].size, erase(m, i);
    return given;
}

static size_t reserved(const model *m) {
    size_t sum = 0;
    for (int i = 0; i < m->n; i++) sum += m->b[i].size;
    return sum;
}

/* The size of the free block that serves best; 0: none does. */
static size_t best(const model *m, int stream, size_t size) {
    size_t found = 0;
    for (int i = 0; i < m->n; i++) {
        const block *b = &m->b[i];
        const bool fits = is_free(b) && b->stream == stream && b->small == (size <= MIB) && b->size >= size;
        if (fits && (!found || b->size < found)) found = b->size;
    }
    return found >= max_split && (size < max_split || found >= size + 20 * MIB) ? 0 : found;
}

/* from: the size of a free block that is there; segment: of a new one; neither: no memory. */
typedef struct forecast { size_t size, from, segment; } forecast;

static forecast foresee(model *m, int stream, size_t bytes) {
    forecast f = {.size = rounded(bytes)};
    settle(m);
    f.size = (f.size + 511) / 512 * 512;
    if ((f.from = best(m, stream, f.size))) return f;
    const size_t segment = segment_for(f.size);
    if (reserved(m) + segment > m->total) {
        m->retries++;
        give_back(m);
        if ((f.from = best(m, stream, f.size))) return f;
    }
    if (reserved(m) + segment <= m->total) f.segment = segment;
    else m->ooms++;
    return f;
}

/* The block at the address becomes live; its rest stays free if it is worth it. */
static void take(model *m, forecast f, uint64_t address, int stream, size_t bytes) {
    int at = 0;
    while (at < m->n && m->b[at].address < address) at++;
    if (f.segment) {
        if (at > 0) assert_true(m->b[at - 1].address + m->b[at - 1].size <= address);
        if (at < m->n) assert_true(address + f.segment <= m->b[at].address);
        insert(m, at, (block){.address = address, .segment = address, .size = f.segment, .stream = stream,
                              .small = f.size <= MIB});
    }
    block *b = &m->b[at];
    assert_true(b->address == address && is_free(b) && b->stream == stream && b->size == (f.segment ? f.segment : f.from));
    const size_t rest = b->size - f.size;
    if (b->small ? rest >= 512 : rest > MIB && f.size < max_split) {
        block r = *b;
        r.address += f.size;
        r.size = rest;
        b->size = f.size;
        insert(m, at + 1, r);
    }
    b->live = true;
    b->asked = bytes;
    b->users = 0;
}

static block *find(model *m, uint64_t address) {
    for (int i = 0; i < m->n; i++)
        if (m->b[i].address == address) return &m->b[i];
    return NULL;
}

static void drop(model *m, uint64_t address) {
    block *b = find(m, address);
    assert_true(b && b->live);
    b->live = false;
    b->waiting = b->users != 0;
    for (int s = 0; s < STREAMS; s++) b->need[s] = b->users >> s & 1 ? m->ops[s] : 0;
    merge_all(m);
}

/* ---- the model and the library ---- */

static void compare_counts(const model *m, fa_device device) {
    fa_memory_stats s;
    uint64_t live = 0, asked = 0, active = 0, bytes = 0, segments = 0, cut = 0, cut_bytes = 0, large = 0;
    for (int i = 0; i < m->n; i++) {
        const block *b = &m->b[i];
        if (b->live) live++, bytes += b->size, asked += b->asked, large += b->size >= max_split;
        active += !is_free(b);
        segments += b->address == b->segment;
        if (is_free(b) && !is_whole(m, i)) cut++, cut_bytes += b->size;
    }
    assert_true(fa_memory_get_stats(device, &s));
    assert_int_equal(s.allocation[FA_POOL_ALL].current, live);
    assert_int_equal(s.allocated_bytes[FA_POOL_ALL].current, bytes);
    assert_int_equal(s.requested_bytes[FA_POOL_ALL].current, asked);
    assert_int_equal(s.active[FA_POOL_ALL].current, active);
    assert_int_equal(s.reserved_bytes[FA_POOL_ALL].current, reserved(m));
    assert_int_equal(s.segment[FA_POOL_ALL].current, segments);
    assert_int_equal(s.inactive_split[FA_POOL_ALL].current, cut);
    assert_int_equal(s.inactive_split_bytes[FA_POOL_ALL].current, cut_bytes);
    assert_int_equal(s.oversize_allocations.current, large);
    assert_int_equal(s.num_alloc_retries, m->retries);
    assert_int_equal(s.num_ooms, m->ooms);
    assert_int_equal(s.max_split_size, max_split == SIZE_MAX ? -1 : (int64_t)max_split);
}

static void compare_blocks(const model *m, fa_device device) {
    static fa_memory_block list[BLOCKS];
    const size_t n = fa_memory_blocks(device, list, BLOCKS);
    assert_int_equal(n, m->n);
    for (size_t i = 0; i < n; i++) {
        const block *b = &m->b[i];
        assert_true(list[i].address == b->address && list[i].bytes == b->size && list[i].segment == b->segment);
        assert_true(list[i].live == !is_free(b) && list[i].small == b->small);
    }
}

typedef struct program {
    model m;
    fa_device device;
    fa_stream stream[STREAMS];
    fai_buffer *held[HELD];
    uint64_t seed;
} program;

static uint64_t draw(program *p, uint64_t below) {
    p->seed ^= p->seed << 13, p->seed ^= p->seed >> 7, p->seed ^= p->seed << 17;
    return (p->seed >> 11) % below;
}

static size_t some_size(program *p) {
    const uint64_t kind = draw(p, 16);
    return 1 + (kind < 7 ? draw(p, 4096) : kind < 11 ? draw(p, 2 * MIB) : kind < 15 ? draw(p, 12 * MIB) : draw(p, 40 * MIB));
}

static void allocate(program *p, fai_buffer **place) {
    const int s = (int)draw(p, STREAMS);
    const size_t bytes = some_size(p);
    const forecast f = foresee(&p->m, s, bytes);
    FA_STREAM_SCOPE(p->stream[s]);
    *place = fai_buffer_new(p->device, bytes, "model");
    if (!f.from && !f.segment) {
        assert_null(*place);
        assert_int_equal(fa_error_take().code, FA_ERR_DEVICE_MEMORY);
        return;
    }
    assert_non_null(*place);
    take(&p->m, f, (*place)->address, s, bytes);
    assert_int_equal((*place)->room, find(&p->m, (*place)->address)->size);
}

static void release(program *p, fai_buffer **place) {
    const uint64_t address = (*place)->address;
    fai_buffer_unref(*place);
    *place = NULL;
    drop(&p->m, address);
}

/* Another stream, or its own, writes to it. */
static void use(program *p, fai_buffer *b) {
    const int s = (int)draw(p, STREAMS);
    block *known = find(&p->m, b->address);
    FA_STREAM_SCOPE(p->stream[s]);
    assert_true(fai_fill(b, 0, 1, 1, "model"));
    p->m.ops[s]++;
    assert_true(fai_buffer_used_by(b, p->stream[s], "model"));
    if (s != known->stream) known->users |= 1u << s;
}

static void one_step(program *p) {
    fai_buffer **place = &p->held[draw(p, HELD)];
    const uint64_t what = draw(p, 64);
    if (what == 0) {
        assert_true(fa_empty_cache(p->device));
        give_back(&p->m);
    } else if (what < 4) {
        const int s = (int)draw(p, STREAMS);
        assert_true(fa_stream_synchronize(p->stream[s]));
        p->m.done[s] = p->m.ops[s];
    } else if (!*place) {
        allocate(p, place);
    } else if (what < 24) {
        use(p, *place);
    } else {
        release(p, place);
    }
    compare_counts(&p->m, p->device);
}

/* The simulator goes on in a thread of its own once it was asked; here what is done is known: what was waited for. */
static int never_done(int device, fa_event_handle event, bool *done) {
    (void)device, (void)event;
    *done = false;
    return 0;
}

static fa_backend patient;
static void be_patient(bool on) {
    static const fa_backend *usual;
    for (int d = 0; d < 2; d++) {
        fai_dev *dev = fai_dev_find(FA_CUDA(d));
        if (!usual) usual = dev->backend;
        patient = *usual;
        patient.event_query = never_done;
        dev->backend = on ? &patient : usual;
    }
}

static void start(program *p, int device, uint64_t seed) {
    uint64_t unused;
    memset(p, 0, sizeof *p);
    p->device = FA_CUDA(device);
    p->seed = seed * 0x9e3779b97f4a7c15u + 1;
    p->stream[0] = fa_default_stream(p->device);
    for (int s = 1; s < STREAMS; s++) p->stream[s] = fa_stream_new(p->device, 0);
    fa_empty_cache(p->device);
    fa_reset_accumulated_memory_stats(p->device);
    assert_true(fa_memory_info(p->device, &unused, &p->m.total));
    assert_int_equal(fa_memory_reserved(p->device), 0);
}

static void end(program *p) {
    compare_blocks(&p->m, p->device);
    for (int i = 0; i < HELD; i++)
        if (p->held[i]) release(p, &p->held[i]);
    fa_empty_cache(p->device);
    give_back(&p->m);
    assert_int_equal(p->m.n, 0);
    compare_counts(&p->m, p->device);
    fa_synchronize(p->device);
}

static bool only_warnings(void) { return fa_device_count(FA_DEVICE_CUDA) < 2; }
static bool collects(void) {
    const char *conf = getenv("PYTORCH_ALLOC_CONF");
    return conf && strstr(conf, "garbage");
}

static void programs_go_as_the_model_says(void **state) {
    (void)state;
    static program p[2];
    const int seeds = getenv("FACULA_SOAK") ? 500 : 12;
    if (only_warnings()) return;
    be_patient(true);
    for (int seed = 1; seed <= seeds; seed++) {
        for (int d = 0; d < 2; d++) start(&p[d], d, (uint64_t)seed * 2 + (uint64_t)d);
        for (int i = 0; i < 1500; i++) {
            one_step(&p[i & 1]);
            if (i % 32 < 2) compare_blocks(&p[i & 1].m, p[i & 1].device);
        }
        for (int d = 0; d < 2; d++) end(&p[d]);
    }
    be_patient(false);
    assert_false(fa_failed());
}

/* There is no segment to give back, but a stream has what it used by now: its memory serves. */
static void a_stream_is_waited_for_before_memory_is_out(void **state) {
    (void)state;
    static program p;
    if (only_warnings() || divided) return;
    start(&p, 0, 1);
    be_patient(true);
    fai_buffer *a = fai_buffer_new(p.device, 9 * MIB, "a"), *b = fai_buffer_new(p.device, 8 * MIB, "b");
    fai_buffer *rest = fai_buffer_new(p.device, p.m.total - 20 * MIB, "rest");
    assert_true(a && b && rest);
    const uint64_t address = a->address;
    {
        FA_STREAM_SCOPE(p.stream[1]);
        assert_true(fai_fill(a, 0, 1, 1, "test") && fai_buffer_used_by(a, p.stream[1], "test"));
    }
    fai_buffer_unref(a);
    a = fai_buffer_new(p.device, 9 * MIB, "again");
    assert_non_null(a);
    assert_true(a->address == address);
    be_patient(false);
    fai_buffer_unref(a);
    fai_buffer_unref(b);
    fai_buffer_unref(rest);
    fa_empty_cache(p.device);
}

/* ---- threads: each finds in its memory what it wrote ---- */

static atomic_int wrong;

static void *in_a_thread(void *number) {
    enum { MOST = 8 };
    fai_buffer *held[MOST] = {0};
    program p = {.seed = (uint64_t)(uintptr_t)number * 0x9e3779b97f4a7c15u, .device = FA_CUDA((int)(uintptr_t)number & 1)};
    const fa_stream own = fa_stream_new(p.device, 0), other = fa_stream_new(p.device, 0);
    const int byte = (int)(uintptr_t)number;
    FA_STREAM_SCOPE(own);
    for (int i = 0; i < 400; i++) {
        fai_buffer **b = &held[draw(&p, MOST)];
        unsigned char seen[64];
        if (*b) {
            if (!fai_copy_to_host(seen, *b, 0, sizeof seen, "thread")) atomic_fetch_add(&wrong, 1);
            for (int k = 0; k < 64; k++) atomic_fetch_add(&wrong, seen[k] != byte);
            if (draw(&p, 3) == 0) fai_buffer_used_by(*b, other, "thread");
            fai_buffer_unref(*b);
            *b = NULL;
        } else if ((*b = fai_buffer_new(p.device, 64 + draw(&p, draw(&p, 8) ? 4096 : 2 * MIB), "thread"))) {
            if (!fai_fill(*b, 0, byte, 64, "thread")) atomic_fetch_add(&wrong, 1);
        }
        if (draw(&p, 40) == 0) fa_empty_cache(p.device);
        fa_error_take(); /* out of memory: others have it */
    }
    for (int i = 0; i < MOST; i++) fai_buffer_unref(held[i]);
    return NULL;
}

static void threads_do_not_share_memory(void **state) {
    (void)state;
    pthread_t thread[6];
    if (only_warnings()) return;
    for (int i = 0; i < 6; i++) assert_int_equal(pthread_create(&thread[i], NULL, in_a_thread, (void *)(uintptr_t)(i + 1)), 0);
    for (int i = 0; i < 6; i++) pthread_join(thread[i], NULL);
    assert_int_equal(atomic_load(&wrong), 0);
    for (int d = 0; d < 2; d++) {
        fa_empty_cache(FA_CUDA(d));
        assert_int_equal(fa_memory_allocated(FA_CUDA(d)) + fa_memory_reserved(FA_CUDA(d)), 0);
    }
}

/* ---- options ---- */

static char warned[2000];
static void keep(const char *op, const char *text) {
    const size_t n = strlen(warned);
    snprintf(warned + n, sizeof warned - n, "%s: %s\n", op, text);
}

static void what_is_left_out_is_told(void **state) {
    (void)state;
    if (!only_warnings() || collects()) return;
    fai_set_warn(keep);
    for (int i = 0; i < 2; i++) fai_buffer_unref(fai_buffer_new(FA_CUDA(0), 1000, "test"));
    fai_set_warn(NULL);
    static const char others[] = "is left out: Facula's allocator has max_split_size_mb, roundup_power2_divisions, "
                                 "garbage_collection_threshold and backend:native of PyTorch's options; the others are planned\n";
    char wanted[2000];
    snprintf(wanted, sizeof wanted,
             "PYTORCH_CUDA_ALLOC_CONF: 'expandable_segments:True' %sPYTORCH_CUDA_ALLOC_CONF: 'max_split_size_mb:7' is left out: a whole number "
             "of MiB above 20 is expected\nPYTORCH_CUDA_ALLOC_CONF: 'x' %s",
             others, others);
    assert_string_equal(warned, wanted);
}

/* With a limit of 64 MiB and a threshold of a half, what is unused for longest goes before more than 32 MiB are taken; without a limit
 * nothing does, by PyTorch's rule. */
static void old_memory_goes_beyond_the_threshold(void **state) {
    (void)state;
    const fa_device device = FA_CUDA(0);
    enum { N = 3 };
    if (!collects()) return;
    for (int limited = 0; limited < 2; limited++) {
        fai_buffer *b[N];
        uint64_t address[N];
        assert_true(fa_empty_cache(device));
        assert_true(fa_set_memory_fraction(device, limited ? 0.5 : 1));
        for (int i = 0; i < N; i++) {
            b[i] = fai_buffer_new(device, (10 + 2 * (size_t)i) * MIB, "old"); /* 10, 12 and 14: segments of their own */
            assert_non_null(b[i]);
            address[i] = b[i]->address;
        }
        const int order[N] = {1, 0, 2}; /* that of 12 MiB is free for longest */
        for (int i = 0; i < N; i++) fai_buffer_unref(b[order[i]]);
        assert_int_equal(fa_memory_reserved(device), 36 * MIB);
        fai_buffer *more = fai_buffer_new(device, 18 * MIB, "more"), *again = fai_buffer_new(device, 10 * MIB, "again");
        assert_non_null(more);
        assert_int_equal(fa_memory_reserved(device), (limited ? 24 + 18 : 36 + 18) * MIB);
        assert_int_equal(again->address, address[0]); /* it stayed */
        fai_buffer_unref(more);
        fai_buffer_unref(again);
    }
    assert_true(fa_set_memory_fraction(device, 1));
}

/* ---- the CPU's, by the same rules ---- */

static void *make_and_drop(void *unused) {
    fai_buffer *b[20];
    for (int i = 0; i < 20; i++) b[i] = fai_buffer_new(FA_CPU, 1000 * (size_t)(i + 1), "thread");
    for (int i = 0; i < 20; i++) fai_buffer_unref(b[i]);
    return unused;
}

static void the_hosts_memory_is_cut_joined_and_given_back(void **state) {
    (void)state;
    fa_memory_stats before, s;
    pthread_t thread;
    fa_empty_cache(FA_CPU);
    assert_true(fa_memory_get_stats(FA_CPU, &before));
    fai_buffer *a = fai_buffer_new(FA_CPU, 3 * MIB, "a"), *b = fai_buffer_new(FA_CPU, 4 * MIB, "b"), *c = fai_buffer_new(FA_CPU, 5 * MIB, "c");
    const uint64_t at = a->address;
    assert_true(b->address == at + 3 * MIB && c->address == at + 7 * MIB); /* of one segment */
    memset((void *)(uintptr_t)at, 1, 12 * MIB);
    assert_true(fa_memory_get_stats(FA_CPU, &s));
    assert_int_equal(s.reserved_bytes[FA_POOL_LARGE].current - before.reserved_bytes[FA_POOL_LARGE].current, 20 * MIB);
    assert_int_equal(s.allocated_bytes[FA_POOL_LARGE].current - before.allocated_bytes[FA_POOL_LARGE].current, 12 * MIB);
    fai_buffer_unref(a);
    fai_buffer_unref(c);
    fai_buffer_unref(b);
    a = fai_buffer_new(FA_CPU, 9 * MIB, "all of them"); /* more than any piece: they are one again */
    assert_int_equal(a->address, at);
    fai_buffer_unref(a);
    assert_int_equal(pthread_create(&thread, NULL, make_and_drop, NULL), 0);
    pthread_join(thread, NULL);
    fa_empty_cache(FA_CPU);
    assert_int_equal(fa_memory_reserved(FA_CPU), before.reserved_bytes[FA_POOL_ALL].current);
    assert_int_equal(fa_memory_allocated(FA_CPU), before.allocated_bytes[FA_POOL_ALL].current); /* nothing is left in the lists of the thread */
}

static int setup(void **state) {
    (void)state;
    fa_test_caches(true); /* off at start under a sanitizer */
    const char *conf = getenv("PYTORCH_ALLOC_CONF");
    divided = conf && !collects();
    if (divided) max_split = 24 * MIB;
    return 0;
}

static int finish(void **state) {
    (void)state;
    fa_test_caches(false); /* gives all back */
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_left_out_is_told),
        cmocka_unit_test(programs_go_as_the_model_says),
        cmocka_unit_test(a_stream_is_waited_for_before_memory_is_out),
        cmocka_unit_test(threads_do_not_share_memory),
        cmocka_unit_test(old_memory_goes_beyond_the_threshold),
        cmocka_unit_test(the_hosts_memory_is_cut_joined_and_given_back),
    };
    return cmocka_run_group_tests(tests, setup, finish);
}
