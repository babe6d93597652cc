/* Tests of floor 0: errors, the memory door, objects and scopes, threads, texts, hashes, element types.
 * test-tags: threads */
#include "base/base.h"
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* A test object that counts how many of its kind live. */
typedef struct thing { fai_object object; int number; struct thing *holds; } thing;
static atomic_int alive;
static int dropped[64], ndropped;

static void destroy_thing(void *object) {
    thing *t = object;
    fai_unref(t->holds);
    if (ndropped < 64) dropped[ndropped++] = t->number;
    atomic_fetch_sub(&alive, 1);
    fai_free(FAI_TAG_OBJECT, t, sizeof *t);
}

static thing *make(int number) {
    thing *t = fai_calloc(FAI_TAG_OBJECT, sizeof *t);
    if (!t) return fai_fail_memory("make", sizeof *t);
    fai_object_init(t, FAI_DATASET);
    t->number = number;
    atomic_fetch_add(&alive, 1);
    return fai_scope_add(t, "make") ? t : NULL;
}

static int setup(void **state) {
    (void)state;
    fai_set_destructor(FAI_DATASET, destroy_thing);
    return 0;
}

static int clean(void **state) {
    (void)state;
    fa_test_fail_allocation(0, false);
    fa_error_take();
    fai_close_all_scopes();
    ndropped = 0;
    return atomic_load(&alive) ? -1 : 0;
}

/* ---- errors ---- */

static void first_error_is_kept_and_later_ones_are_counted(void **state) {
    (void)state;
    assert_false(fa_failed());
    assert_null(fa_error_peek());
    assert_null(fai_fail(FA_ERR_INDEX, "select", "index %d out of range", 5));
    fa_error_set(FA_ERR_VALUE, "other", "second");
    assert_true(fai_refuse_pending("backward"));
    assert_int_equal(fa_error_peek()->later, 2);
    fa_error e = fa_error_take();
    assert_int_equal(e.code, FA_ERR_INDEX);
    assert_string_equal(e.op, "select");
    assert_string_equal(e.text, "index 5 out of range");
    assert_false(fa_failed());
    assert_int_equal(fa_error_take().code, FA_OK);
    assert_false(fai_refuse_pending("backward"));
}

static void long_error_texts_are_cut(void **state) {
    (void)state;
    char *text = malloc(5000);
    memset(text, 'x', 4999);
    text[4999] = 0;
    fai_fail(FA_ERR_VALUE, text, "%s", text);
    fa_error e = fa_error_take();
    assert_int_equal(strlen(e.text), sizeof e.text - 1);
    assert_int_equal(strlen(e.op), sizeof e.op - 1);
    free(text);
}

/* ---- memory ---- */

static void door_keeps_exact_books(void **state) {
    (void)state;
    fa_memory_use before = fa_host_memory_use();
    void *a = fai_alloc(FAI_TAG_TEXT, 100), *b = fai_alloc_aligned(FAI_TAG_DATA, (size_t)5 << 20);
    assert_int_equal((uintptr_t)b % 64, 0);
    a = fai_realloc(FAI_TAG_TEXT, a, 100, 300);
    fa_memory_use now = fa_host_memory_use();
    assert_int_equal(now.bytes - before.bytes, 300 + (5 << 20));
    assert_int_equal(now.blocks - before.blocks, 2);
    assert_true(now.peak_bytes >= now.bytes);
    fai_free(FAI_TAG_TEXT, a, 300);
    fai_free_aligned(FAI_TAG_DATA, b, (size_t)5 << 20);
    fai_free(FAI_TAG_TEXT, NULL, 7);
    assert_int_equal(fa_host_memory_use().bytes, before.bytes);
    assert_int_equal(fa_host_memory_use().blocks, before.blocks);
}

static void nth_allocation_fails(void **state) {
    (void)state;
    fa_test_fail_allocation(2, false);
    void *a = fai_alloc(FAI_TAG_TEXT, 8), *b = fai_alloc(FAI_TAG_TEXT, 8), *c = fai_alloc(FAI_TAG_TEXT, 8);
    assert_non_null(a);
    assert_null(b);
    assert_non_null(c);
    assert_int_equal(fa_test_failed_allocations(), 1);
    fa_test_fail_allocation(1, true);
    assert_null(fai_alloc(FAI_TAG_TEXT, 8));
    assert_null(fai_calloc(FAI_TAG_TEXT, 8));
    assert_null(fai_alloc_aligned(FAI_TAG_TEXT, 8));
    assert_null(fai_realloc(FAI_TAG_TEXT, a, 8, 16));
    assert_int_equal(fa_test_failed_allocations(), 4);
    fa_test_fail_allocation(0, false);
    assert_int_equal(fa_test_failed_allocations(), 0);
    fai_free(FAI_TAG_TEXT, a, 8);
    fai_free(FAI_TAG_TEXT, c, 8);
}

static int drops;
static void count_drop(void) { drops++; }

static void switching_caches_off_drops_them(void **state) {
    (void)state;
    bool before = fai_caches_on();
    fai_on_cache_drop(count_drop);
    fai_on_cache_drop(count_drop); /* twice is once */
    fa_test_caches(false);
    assert_int_equal(drops, 1);
    assert_false(fai_caches_on());
    fa_test_caches(before);
}

/* ---- objects and scopes ---- */

static void scope_releases_newest_first(void **state) {
    (void)state;
    make(0);
    {
        FA_SCOPE;
        make(1);
        make(2);
        make(3);
    }
    assert_int_equal(ndropped, 3);
    assert_int_equal(dropped[0], 3);
    assert_int_equal(dropped[2], 1);
    assert_int_equal(alive, 1);
}

static void kept_objects_live_one_scope_longer(void **state) {
    (void)state;
    fa_scope_open();
    fa_scope_open();
    make(1);
    thing *kept = make(2), *other;
    make(3);
    other = make(4);
    assert_ptr_equal(fa_keep(kept), kept);
    fa_keep(other);
    assert_null(fa_keep(NULL));
    fa_scope_close();
    assert_int_equal(alive, 2);
    fa_drop(other);
    assert_int_equal(alive, 1);
    fa_scope_close();
    assert_int_equal(alive, 0);
}

static void dropping_early_keeps_the_table_small(void **state) {
    (void)state;
    fa_drop(NULL);
    make(0);
    for (int i = 0; i < 100000; i++) {
        thing *a = make(1), *b = make(2);
        fa_drop(a);
        fa_drop(b);
    }
    assert_int_equal(fai_tls.nowned, 1);
    fa_scope_open();
    thing *in = make(5);
    fa_drop(in);
    fa_scope_close();
    assert_int_equal(alive, 1);
}

static void taken_objects_belong_to_the_caller(void **state) {
    (void)state;
    fa_scope_open();
    thing *t = make(1);
    fai_scope_take(t);
    fai_scope_take(NULL);
    fa_scope_close();
    assert_int_equal(alive, 1);
    fa_drop(t); /* a drop of what no scope owns gives the caller's reference back */
    assert_int_equal(alive, 0);
}

static int warned;
static void hear(const char *op, const char *text) { warned += !strcmp(op, "scope_close") && !strcmp(text, "there is no open scope: fa_scope_close was called more often than fa_scope_open; FA_SCOPE closes its own"); }

/* One close too many, one drop too many. */
static void unbalanced_calls_are_told(void **state) {
    (void)state;
    fai_object gone;
    fai_set_warn(hear);
    fa_scope_open();
    fa_scope_close();
    assert_int_equal(warned, 0);
    fa_scope_close();
    assert_int_equal(warned, 1);
    fai_set_warn(NULL);
    fai_object_init(&gone, FAI_DATASET);
    gone.refs = 0;
    fa_drop(&gone);
    const fa_error e = fa_error_take();
    assert_int_equal(e.code, FA_ERR_VALUE);
    assert_string_equal(e.op, "drop");
    assert_non_null(strstr(e.text, "the object was dropped before"));
}

static void an_object_may_be_owned_twice(void **state) {
    (void)state;
    thing *t = make(1);
    fa_scope_open();
    fai_scope_add(fai_ref(t), "same"); /* an op that returns its argument */
    fa_scope_close();
    assert_int_equal(t->object.refs, 1);
    fai_scope_add(fai_ref(t), "same");
    fa_drop(t);
    assert_int_equal(t->object.refs, 1);
    fa_scope_open();
    fai_scope_add(fai_ref(t), "same");
    fa_keep(t);
    fa_scope_close();
    assert_int_equal(t->object.refs, 2);
    fa_drop(t);
    fa_drop(t);
    assert_int_equal(alive, 0);
    assert_int_equal(fai_tls.nowned, 0);
}

static void *drop_elsewhere(void *object) {
    fa_drop(object);
    fai_scope_take(object);
    fa_scope_open();
    fa_drop(object); /* the reference just taken is ours, but its slot is the other thread's: left alone */
    fa_scope_close();
    make(7); /* goes with the thread */
    ((thing *)object)->object.refs--;
    return NULL;
}

static void drop_from_another_thread_is_safe(void **state) {
    (void)state;
    pthread_t thread;
    fa_scope_open();
    thing *t = make(1);
    pthread_create(&thread, NULL, drop_elsewhere, t);
    pthread_join(thread, NULL);
    assert_int_equal(alive, 1);
    assert_int_equal(t->object.refs, 1);
    fa_scope_close();
    assert_int_equal(alive, 0);
}

static void scopes_without_memory_pair_up(void **state) {
    (void)state;
    fai_close_all_scopes(); /* no table: the first open allocates */
    fa_test_fail_allocation(1, false);
    fa_scope_open();
    fa_scope_open();
    assert_int_equal(fa_error_take().code, FA_ERR_MEMORY);
    thing *t = make(1);
    fa_scope_close();
    fa_scope_close();
    assert_int_equal(fai_tls.failed_scopes, 0);
    assert_int_equal(alive, 1);
    fa_scope_open();
    assert_int_equal(fai_tls.nmarks, 1);
    fa_drop(t);
    fa_scope_close();
    fa_scope_close(); /* one too many is ignored */
    fa_scope_close();
}

static void work_with_scopes(void) {
    fa_scope_open();
    thing *first = make(1);
    for (int i = 0; i < 600; i++) {
        FA_SCOPE;
        thing *t = make(i);
        if (t && first) t->holds = fai_ref(first);
        if (i % 2) fa_keep(t);
    }
    fa_scope_close();
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    for (int sticky = 0; sticky < 2; sticky++) {
        uint64_t n = 1, seen = 0;
        for (bool again = true; again; n++) {
            fai_close_all_scopes();
            uint64_t bytes = fa_host_memory_use().bytes;
            fa_test_fail_allocation(n, sticky);
            work_with_scopes();
            again = fa_test_failed_allocations() > 0;
            seen += again;
            fa_test_fail_allocation(0, false);
            assert_int_equal(fa_error_take().code, again ? FA_ERR_MEMORY : FA_OK);
            fai_close_all_scopes();
            assert_int_equal(alive, 0);
            assert_int_equal(fa_host_memory_use().bytes, bytes);
        }
        assert_true(seen > 100);
    }
}

/* ---- threads ---- */

typedef struct sums { int64_t n, grain; _Atomic int64_t pieces; unsigned char *seen; atomic_int small; } sums;

static void mark_piece(void *context, int64_t begin, int64_t end) {
    sums *s = context;
    if (end - begin < s->grain && s->n >= s->grain) atomic_fetch_add(&s->small, 1);
    for (int64_t i = begin; i < end; i++) s->seen[i]++;
    atomic_fetch_add(&s->pieces, 1);
}

static void check_parallel(int64_t n, int64_t grain) {
    sums s = {.n = n, .grain = grain, .seen = calloc(1, (size_t)n + 1)};
    fai_parallel(n, grain, mark_piece, &s);
    for (int64_t i = 0; i < n; i++) assert_int_equal(s.seen[i], 1);
    assert_int_equal(s.small, 0);
    free(s.seen);
}

static void pieces_cover_everything_once(void **state) {
    (void)state;
    static const int64_t n[] = {0, 1, 2, 7, 64, 65, 100, 1000, 1023, 4096, 99999}, grain[] = {0, 1, 3, 64, 1000, 5000};
    for (int threads = 1; threads <= 4; threads++) {
        fa_set_num_threads(threads);
        for (size_t i = 0; i < sizeof n / sizeof *n; i++)
            for (size_t g = 0; g < sizeof grain / sizeof *grain; g++)
                for (int round = 0; round < 20; round++) check_parallel(n[i], grain[g]);
    }
    fa_set_num_threads(0);
    assert_int_equal(fa_error_take().code, FA_ERR_RUNTIME);
}

static void nested(void *context, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) fai_parallel(100, 1, mark_piece, context);
}

static void nested_calls_run_on_the_caller(void **state) {
    (void)state;
    fa_set_num_threads(3);
    sums s = {.grain = 1, .n = 100};
    unsigned char seen[100] = {0};
    s.seen = seen;
    fa_set_num_threads(1);
    fai_parallel(10, 1, nested, &s);
    assert_int_equal(s.pieces, 10);
    assert_int_equal(seen[99], 10);
    fa_set_num_threads(2);
}

static void fail_in_piece(void *context, int64_t begin, int64_t end) {
    (void)context;
    (void)end;
    fai_fail(FA_ERR_VALUE, "piece", "piece at %lld failed", (long long)begin);
}

static void errors_of_workers_reach_the_caller(void **state) {
    (void)state;
    fa_set_num_threads(4);
    for (int i = 0; i < 100; i++) {
        fai_parallel(1000, 1, fail_in_piece, NULL);
        assert_int_equal(fa_error_take().code, FA_ERR_VALUE);
    }
}

static void *run_many(void *unused) {
    (void)unused;
    for (int i = 0; i < 300; i++) check_parallel(1000, 10);
    return NULL;
}

static void several_threads_may_share_the_pool(void **state) {
    (void)state;
    pthread_t thread[3];
    for (int i = 0; i < 3; i++) pthread_create(&thread[i], NULL, run_many, NULL);
    run_many(NULL);
    for (int i = 0; i < 3; i++) pthread_join(thread[i], NULL);
}

static void pool_survives_fork(void **state) {
    (void)state;
    fa_set_num_threads(3);
    check_parallel(1000, 1);
    pid_t child = fork();
    if (child == 0) {
        check_parallel(1000, 1);
        fai_stop_pool();
        _exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    check_parallel(1000, 1);
    fai_stop_pool();
    check_parallel(1000, 1);
}

static bool stop_now(void *data) { return ++*(int *)data == 3; }

static void poll_stops_long_work(void **state) {
    (void)state;
    int asked = 0;
    fa_set_poll(stop_now, &asked);
    assert_false(fai_poll("sum"));
    assert_false(fai_poll("sum"));
    assert_true(fai_poll("sum"));
    assert_int_equal(fa_error_take().code, FA_ERR_INTERRUPTED);
    fa_set_poll(NULL, NULL);
    assert_false(fai_poll("sum"));
}

/* ---- texts and hashes ---- */

static void texts_grow(void **state) {
    (void)state;
    fai_text t = {0};
    for (int i = 0; i < 1000; i++) fai_text_add(&t, "%d,", i);
    assert_int_equal(t.length, strlen(t.data));
    assert_memory_equal(t.data, "0,1,2,", 6);
    char big[500];
    memset(big, 'y', 499);
    big[499] = 0;
    fai_text_add(&t, "<%s>", big);
    fai_text_add_bytes(&t, "end", 3);
    assert_string_equal(t.data + t.length - 4, ">end");
    fai_text_free(&t);
    fa_test_fail_allocation(1, false);
    fai_text_add(&t, "lost");
    fai_text_add(&t, "lost too");
    assert_true(t.failed);
    assert_int_equal(t.length, 0);
    fai_text_free(&t);
}

static void shapes_and_amounts_read_as_in_torch(void **state) {
    (void)state;
    char out[64];
    fai_text_shape(out, sizeof out, 2, (int64_t[]){2, 3});
    assert_string_equal(out, "[2, 3]");
    fai_text_shape(out, sizeof out, 0, NULL);
    assert_string_equal(out, "[]");
    fai_text_shape(out, 5, 2, (int64_t[]){1000, 3});
    assert_string_equal(out, "[100");
    fai_text_bytes(out, sizeof out, (uint64_t)20 << 30);
    assert_string_equal(out, "20.00 GiB");
    fai_text_bytes(out, sizeof out, 1536);
    assert_string_equal(out, "1.50 KiB");
    fai_text_bytes(out, sizeof out, 1000);
    assert_string_equal(out, "1000 bytes");
}

static void hashes(void **state) {
    (void)state;
    assert_int_equal(fai_crc32(0, "123456789", 9), 0xcbf43926u);
    assert_int_equal(fai_crc32(fai_crc32(0, "12345", 5), "6789", 4), 0xcbf43926u);
    unsigned char data[100] = {0};
    uint64_t seen[101];
    for (size_t n = 0; n <= 100; n++) {
        seen[n] = fai_hash(data, n, 1);
        for (size_t m = 0; m < n; m++) assert_true(seen[m] != seen[n]);
    }
    for (int i = 0; i < 800; i++) {
        data[i / 8] ^= (unsigned char)(1 << i % 8);
        assert_true(fai_hash(data, 100, 1) != seen[100]);
        data[i / 8] ^= (unsigned char)(1 << i % 8);
    }
    assert_true(fai_hash(data, 100, 2) != seen[100]);
}

/* ---- element types ---- */

static void promotion_is_torchs(void **state) {
    (void)state;
    static const char table[10][11] = {/* b u8 i8 i16 i32 i64 f2 bf f4 f8, as digits of the enum's order */
        "0123456789", "1133456789", "2323456789", "3333456789", "4444456789",
        "5555556789", "6666666889", "7777778789", "8888888889", "9999999999"};
    for (int a = 0; a < 10; a++)
        for (int b = 0; b < 10; b++)
            assert_int_equal(fa_promote_types((fa_dtype)(a + 1), (fa_dtype)(b + 1)), table[a][b] - '0' + 1);
}

static void names_and_sizes(void **state) {
    (void)state;
    assert_string_equal(fa_dtype_name(FA_BFLOAT16), "bfloat16");
    assert_string_equal(fai_dtype_title(FA_INT64), "Long");
    assert_int_equal(fa_dtype_size(FA_FLOAT64), 8);
    assert_int_equal(fa_dtype_size(FA_DTYPE_DEFAULT), 0);
    fa_set_default_dtype(FA_INT32);
    assert_int_equal(fa_error_take().code, FA_ERR_TYPE);
    fa_set_default_dtype(FA_FLOAT64);
    assert_int_equal(fa_default_dtype(), FA_FLOAT64);
    fa_set_default_dtype(FA_FLOAT32);
    assert_int_equal(FA_SHAPE(2, 3).ndim, 2);
    assert_int_equal(fa_shape_of(2, (int64_t[]){4, 5}).dim[1], 5);
}

static double as_double(fa_dtype type, const void *p) {
    double d;
    fai_convert(&d, FA_FLOAT64, p, type, 1);
    return d;
}

static void casts_are_torchs_on_x86(void **state) {
    (void)state;
    static const struct { double from; fa_dtype to; double expect;
    } c[] = {{300, FA_UINT8, 44},
             {-1, FA_UINT8, 255},
             {NAN, FA_INT32, -2147483648.0},
             {3e9, FA_INT32, -2147483648.0},
             {-1.7, FA_INT64, -1},
             {1.9, FA_INT16, 1},
             {200, FA_INT8, -56},
             {NAN, FA_BOOL, 1},
             {-0.0, FA_BOOL, 0},
             {0.5, FA_BOOL, 1},
             {65520, FA_FLOAT16, INFINITY},
             {65519, FA_FLOAT16, 65504},
             {1e20, FA_INT64, -9223372036854775808.0},
             {5.9604644775390625e-8, FA_FLOAT16, 5.9604644775390625e-8},
             {1.00390625, FA_BFLOAT16, 1.0},
             {1.01171875, FA_BFLOAT16, 1.015625}};
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        char out[8];
        fai_convert(out, c[i].to, &c[i].from, FA_FLOAT64, 1);
        assert_true(as_double(c[i].to, out) == c[i].expect);
    }
    int64_t big = (int64_t)0x123456789abcdef0;
    int32_t low;
    fai_convert(&low, FA_INT32, &big, FA_INT64, 1);
    assert_int_equal(low, (int32_t)0x9abcdef0);
}

static void every_pair_converts_small_numbers_exactly(void **state) {
    (void)state;
    enum { N = 700 };
    double first[N], back[N];
    char a[N * 8], b[N * 8];
    for (int i = 0; i < N; i++) first[i] = i % 100;
    for (fa_dtype from = FA_UINT8; from < FA_DTYPE_COUNT; from++)
        for (fa_dtype to = FA_UINT8; to < FA_DTYPE_COUNT; to++) {
            fai_convert(a, from, first, FA_FLOAT64, N);
            fai_convert(b, to, a, from, N);
            fai_convert(back, FA_FLOAT64, b, to, N);
            assert_memory_equal(back, first, sizeof first);
        }
}

static void half_floats_round_trip(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        float f = fai_half_to_float((uint16_t)h), g = fai_bfloat16_to_float((uint16_t)h);
        if (isnan(f)) assert_true(isnan(fai_half_to_float(fai_float_to_half(f))));
        else assert_int_equal(fai_float_to_half(f), h);
        if (!isnan(g)) assert_int_equal(fai_float_to_bfloat16(g), h);
    }
}

/* ---- the end ---- */

static int finished;
static void note_finish(void) { finished++; }

static void finish_frees_and_reports(void **state) {
    (void)state;
    fai_on_finish(note_finish);
    make(1);
    assert_int_equal(fa_finish("test"), 0);
    assert_int_equal(alive, 0);
    make(2);
    fai_fail(FA_ERR_VALUE, "op", "this line is meant to be printed");
    assert_int_equal(fa_finish("test"), 1);
    assert_int_equal(finished, 2);
    assert_int_equal(alive, 0);
    assert_string_equal(fa_version(), FA_VERSION_TEXT);
}

int main(void) {
#define TEST(name) cmocka_unit_test_teardown(name, clean)
    const struct CMUnitTest tests[] = {
        TEST(first_error_is_kept_and_later_ones_are_counted),
        TEST(long_error_texts_are_cut),
        TEST(door_keeps_exact_books),
        TEST(nth_allocation_fails),
        TEST(switching_caches_off_drops_them),
        TEST(scope_releases_newest_first),
        TEST(kept_objects_live_one_scope_longer),
        TEST(dropping_early_keeps_the_table_small),
        TEST(taken_objects_belong_to_the_caller),
        TEST(unbalanced_calls_are_told), TEST(an_object_may_be_owned_twice),
        TEST(drop_from_another_thread_is_safe),
        TEST(scopes_without_memory_pair_up),
        TEST(every_allocation_may_fail),
        TEST(pieces_cover_everything_once),
        TEST(nested_calls_run_on_the_caller),
        TEST(errors_of_workers_reach_the_caller),
        TEST(several_threads_may_share_the_pool),
        TEST(pool_survives_fork),
        TEST(poll_stops_long_work),
        TEST(texts_grow),
        TEST(shapes_and_amounts_read_as_in_torch),
        TEST(hashes),
        TEST(promotion_is_torchs),
        TEST(names_and_sizes),
        TEST(casts_are_torchs_on_x86),
        TEST(every_pair_converts_small_numbers_exactly),
        TEST(half_floats_round_trip),
        TEST(finish_frees_and_reports),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
