/* Statistics of a device's memory, with PyTorch's meanings: what every number counts, the printed table (against one that PyTorch
 * printed), lists of blocks, limits, raw memory. On the fake device of fake_backend.h, 64 MiB large. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "device/inside.h"
#include "fake_backend.h"
#include <facula.h>

#define MIB ((size_t)1 << 20)
static int type;
static fa_device dev(int index) { return fa_device_of_type(type, index); }

static int setup(void **state)
{
    (void)state;
    fa_test_caches(true); /* off at start under a sanitizer */
    type = fai_backend_add(&fake_backend, NULL);
    return type == 0;
}

static int finish(void **state)
{
    (void)state;
    fa_test_caches(false); /* gives all back */
    return 0;
}

static int clean(void **state)
{
    (void)state;
    fa_error_take();
    fa_empty_cache(dev(0));
    return fa_memory_reserved(dev(0)) != 0;
}

static fa_memory_stats stats(void)
{
    fa_memory_stats s;
    assert_true(fa_memory_get_stats(dev(0), &s));
    return s;
}

#define COUNT(c, now, most, ever, gone)                                                                                            \
    do {                                                                                                                           \
        assert_int_equal((c).current, now);                                                                                        \
        assert_int_equal((c).peak, most);                                                                                          \
        assert_int_equal((c).allocated, ever);                                                                                     \
        assert_int_equal((c).freed, gone);                                                                                         \
    } while (0)

static void every_number_counts_what_its_name_says(void **state)
{
    (void)state;
    fa_reset_peak_memory_stats(dev(0));
    fa_reset_accumulated_memory_stats(dev(0));
    fai_buffer *small = fai_buffer_new(dev(0), 1000, "a"), *large = fai_buffer_new(dev(0), 3 * MIB, "b");
    fa_memory_stats s = stats();
    COUNT(s.allocation[FA_POOL_ALL], 2, 2, 2, 0);
    COUNT(s.allocation[FA_POOL_SMALL], 1, 1, 1, 0);
    COUNT(s.allocation[FA_POOL_LARGE], 1, 1, 1, 0);
    COUNT(s.allocated_bytes[FA_POOL_SMALL], 1024, 1024, 1024, 0);
    COUNT(s.requested_bytes[FA_POOL_SMALL], 1000, 1000, 1000, 0);
    COUNT(s.reserved_bytes[FA_POOL_ALL], 22 * MIB, 22 * MIB, 22 * MIB, 0);
    COUNT(s.segment[FA_POOL_ALL], 2, 2, 2, 0);
    COUNT(s.inactive_split[FA_POOL_ALL], 2, 2, 2, 0);
    assert_int_equal(s.inactive_split_bytes[FA_POOL_ALL].current, 22 * MIB - 3 * MIB - 1024);
    fai_buffer_unref(small);
    s = stats();
    COUNT(s.allocation[FA_POOL_ALL], 1, 2, 2, 1);
    COUNT(s.active[FA_POOL_SMALL], 0, 1, 1, 1);
    COUNT(s.active_bytes[FA_POOL_ALL], 3 * MIB, 3 * MIB + 1024, 3 * MIB + 1024, 1024);
    assert_int_equal(s.inactive_split[FA_POOL_SMALL].current, 0); /* the whole segment is free, and could be given back */
    fa_reset_peak_memory_stats(dev(0));
    fa_reset_accumulated_memory_stats(dev(0));
    s = stats();
    COUNT(s.allocation[FA_POOL_ALL], 1, 1, 0, 0);
    fai_buffer_unref(large);
    fa_empty_cache(dev(0));
    s = stats();
    COUNT(s.reserved_bytes[FA_POOL_ALL], 0, 22 * MIB, 0, 22 * MIB);
    assert_int_equal(s.max_split_size, -1);
}

static void retries_and_failures_are_counted(void **state)
{
    (void)state;
    fa_reset_accumulated_memory_stats(dev(0));
    fai_buffer_unref(fai_buffer_new(dev(0), 40 * MIB, "a"));
    fai_buffer *b = fai_buffer_new(dev(0), 50 * MIB, "b"); /* only fits without what is cached */
    assert_non_null(b);
    fa_memory_stats s = stats();
    assert_int_equal(s.num_alloc_retries, 1);
    assert_int_equal(s.num_ooms, 0);
    assert_null(fai_buffer_new(dev(0), 50 * MIB, "c"));
    assert_int_equal(fa_error_take().code, FA_ERR_DEVICE_MEMORY);
    assert_int_equal(stats().num_ooms, 1);
    fai_buffer_unref(b);
    b = fai_buffer_new(dev(0), 50 * MIB, "d"); /* after the error is taken all is as before */
    assert_non_null(b);
    fai_buffer_unref(b);
}

typedef struct names { int n; int64_t sum; bool first; } names;
static void visit(void *context, const char *name, int64_t value)
{
    names *x = context;
    if (x->n++ == 0) x->first = !strcmp(name, "allocation.all.current");
    if (!strcmp(name, "reserved_bytes.large_pool.peak")) x->sum = value;
}

static void the_names_are_pytorchs(void **state)
{
    (void)state;
    names x = {0};
    fai_buffer *b = fai_buffer_new(dev(0), 12 * MIB, "a");
    fa_reset_peak_memory_stats(dev(0));
    fa_memory_stats s = stats();
    fa_memory_visit_stats(&s, visit, &x);
    assert_int_equal(x.n, 9 * 3 * 4 + 2 * 4 + 7);
    assert_true(x.first);
    assert_int_equal(x.sum, 12 * MIB);
    fai_buffer_unref(b);
}

/* The numbers of tests/golden/make_memory_summary.py. */
static void the_table_is_pytorchs(void **state)
{
    (void)state;
    fa_memory_stats s = {0};
    uint64_t *number = (uint64_t *)(void *)&s;
    for (uint64_t n = 1; n <= 9 * 3 * 4 + 2 * 4 + 2; n++) {
        uint64_t modulus = 10;
        for (uint64_t i = 0; i < n % 15; i++) modulus *= 10;
        number[n - 1] = n * 7919 * n * 7919 % modulus;
    }
    static char ours[16384], theirs[16384];
    size_t used = fai_memory_table(&s, FA_CUDA(3), false, ours, sizeof ours);
    used += fai_memory_table(&s, FA_CUDA(3), true, ours + used, sizeof ours - used);
    FILE *file = fopen("tests/golden/memory_summary.txt", "r");
    assert_non_null(file);
    size_t length = fread(theirs, 1, sizeof theirs - 1, file);
    fclose(file);
    assert_int_equal(used, length);
    assert_string_equal(ours, theirs);
    char few[10];
    assert_int_equal(fai_memory_table(&s, FA_CUDA(3), false, few, sizeof few) + fai_memory_table(&s, FA_CUDA(3), true, NULL, 0), used);
    assert_int_equal(strlen(few), sizeof few - 1);
}

static void blocks_are_listed_by_address(void **state)
{
    (void)state;
    fai_buffer *a = fai_buffer_new(dev(0), 600, "first"), *b = fai_buffer_new(dev(0), 512, "second"), *c = fai_buffer_new(dev(0), 30 * MIB, "third");
    fai_buffer_unref(b);
    fa_memory_block block[16];
    size_t n = fa_memory_blocks(dev(0), block, 16), live = 0, bytes = 0;
    assert_int_equal(n, 3);
    for (size_t i = 0; i < n; i++) {
        live += block[i].live;
        bytes += block[i].bytes;
        if (i) assert_true(block[i].address > block[i - 1].address);
        if (!block[i].live) assert_int_equal(block[i].bytes, 2 * MIB - 1024);
        if (block[i].live && block[i].small) {
            assert_string_equal(block[i].op, "first");
            assert_int_equal(block[i].requested, 600);
            assert_int_equal(block[i].segment_bytes, 2 * MIB);
        }
    }
    assert_int_equal(live, 2);
    assert_int_equal(bytes, fa_memory_reserved(dev(0)));
    assert_int_equal(fa_memory_blocks(dev(0), block, 1), 3);
    fai_buffer_unref(a);
    fai_buffer_unref(c);
}

static void a_process_can_limit_itself(void **state)
{
    (void)state;
    assert_true(fa_memory_fraction(dev(0)) == 1);
    assert_true(fa_set_memory_fraction(dev(0), 0.5));
    assert_true(fa_memory_fraction(dev(0)) == 0.5);
    fai_buffer *a = fai_buffer_new(dev(0), 20 * MIB, "a");
    fai_buffer_unref(fai_buffer_new(dev(0), 12 * MIB, "b")); /* 32 MiB: just what is allowed */
    fai_buffer *c = fai_buffer_new(dev(0), 11 * MIB, "c");
    assert_non_null(c);
    assert_null(fai_buffer_new(dev(0), 2 * MIB, "d"));
    fa_error e = fa_error_take();
    assert_int_equal(e.code, FA_ERR_DEVICE_MEMORY);
    assert_non_null(strstr(e.text, "32.00 MiB allowed; "));
    assert_true(fa_set_memory_fraction(dev(0), 1));
    fai_buffer *d = fai_buffer_new(dev(0), 2 * MIB, "d");
    assert_non_null(d);
    assert_false(fa_set_memory_fraction(dev(0), 1.5));
    e = fa_error_take();
    assert_int_equal(e.code, FA_ERR_VALUE);
    assert_non_null(strstr(e.text, "Invalid fraction value:1.5. Allowed range: 0~1"));
    assert_true(fa_set_memory_fraction(dev(0), 0));
    assert_null(fai_buffer_new(dev(0), 20 * MIB, "e"));
    fa_error_take();
    assert_true(fa_set_memory_fraction(dev(0), 1));
    fai_buffer_unref(a);
    fai_buffer_unref(c);
    fai_buffer_unref(d);
}

static void raw_memory_goes_back_by_its_address(void **state)
{
    (void)state;
    uint64_t address = fa_memory_alloc(dev(0), 5000);
    assert_true(address != 0);
    assert_int_equal(fa_memory_allocated(dev(0)), 5120);
    assert_false(fa_memory_free(dev(0), address + 512));
    fa_error e = fa_error_take();
    assert_int_equal(e.code, FA_ERR_RUNTIME);
    assert_non_null(strstr(e.text, "invalid device pointer: 0x"));
    fai_buffer *b = fai_buffer_new(dev(0), 512, "a tensor's");
    assert_false(fa_memory_free(dev(0), b->address)); /* only what fa_memory_alloc gave */
    fa_error_take();
    fai_buffer_unref(b);
    assert_true(fa_memory_free(dev(0), address));
    assert_int_equal(fa_memory_allocated(dev(0)), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, clean)
    const struct CMUnitTest tests[] = {
        TEST(every_number_counts_what_its_name_says), TEST(retries_and_failures_are_counted), TEST(the_names_are_pytorchs),
        TEST(the_table_is_pytorchs),                  TEST(blocks_are_listed_by_address),     TEST(a_process_can_limit_itself),
        TEST(raw_memory_goes_back_by_its_address),
    };
    return cmocka_run_group_tests(tests, setup, finish);
}
