/* Datasets and loaders: PyTorch's batches, its errors; tables from text, also hostile ones; no memory.
 *
 * test-env: -
 * test-env: FACULA_SIM=cuda:2
 * test-env-opencl: FACULA_OPENCL=cpu */
#include "data/data.h"
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include "golden/loading.h"
#include "support/scope.h"

#define assert_error(want_code, want_text)                                                                                       \
    do {                                                                                                                         \
        fa_error e_ = fa_error_take();                                                                                           \
        assert_int_equal(e_.code, (want_code));                                                                                  \
        if (!strstr(e_.text, (want_text))) fail_msg("found: %s", e_.text);                                                       \
    } while (0)

static fa_device here(void) { return fa_try_accelerator(1); }

/* ---- loaders ---- */

static bool sample(void *data, int64_t i, fa_tensor **fields) {
    (void)data;
    fields[0] = fa_full(FA_SHAPE_0D, i);
    return fields[0] != NULL;
}

/* The same ten samples in three ways. */
static fa_dataset *ten(int kind) {
    fa_tensor *numbers = fa_arange(0, 10, 1, .device = here());
    if (kind == 0) return fa_tensor_dataset(numbers);
    if (kind == 1) return fa_dataset_from(10, 1, sample, NULL, NULL);
    fa_dataset *more = fa_tensor_dataset(fa_arange(-5, 10, 1, .device = here()));
    return fa_dataset_subset(more, fa_arange(5, 15, 1, .device = here()));
}

static int64_t see_epoch(fa_loader *loader, int64_t *seen, int64_t at) {
    for (;;) {
        FA_SCOPE;
        fa_tensor *batch[1];
        if (!fa_next(loader, batch)) break;
        assert_true(fa_to_data(batch[0], seen + at, FA_INT64));
        at += fa_numel(batch[0]);
        seen[at++] = -1;
    }
    assert_false(fa_failed());
    assert_int_equal(fa_loader_position(loader), fa_loader_length(loader));
    seen[at++] = -2;
    return at;
}

static void batches_are_torchs(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof loader_cases / sizeof *loader_cases; k++)
        for (int kind = 0; kind < 3; kind++) {
            FA_SCOPE;
            const loader_case *c = &loader_cases[k];
            int64_t seen[40] = {0}, at = 0;
            fa_manual_seed(0);
            fa_generator *own = c->own ? fa_generator_new(FA_CPU) : NULL;
            if (own) fa_generator_seed(own, 7);
            fa_loader *loader =
                fa_loader(ten(kind), .batch_size = c->size, .shuffle = c->shuffle, .drop_last = c->drop_last, .generator = own);
            assert_non_null(loader);
            for (int epoch = 0; epoch < 2; epoch++) at = see_epoch(loader, seen, at);
            assert_int_equal(at, c->n);
            assert_memory_equal(seen, c->seen, (size_t)at * sizeof *seen);
            assert_true(fa_item(fa_rand(FA_SHAPE(1))) == c->after);
        }
}

static void fields_go_together(void **state) {
    (void)state;
    fa_tensor *x = fa_reshape(fa_arange(0, 24, 1, .dtype = FA_FLOAT32, .device = here()), FA_SHAPE(4, 3, 2));
    fa_dataset *d = fa_tensor_dataset(x, fa_arange(0, 4, 1));
    fa_loader *loader = fa_loader(d, .batch_size = 3, .shuffle = true);
    assert_int_equal(fa_loader_length(loader), 2);
    fa_tensor *batch[2];
    assert_true(fa_next(loader, batch));
    assert_int_equal(fa_loader_position(loader), 1);
    assert_int_equal(fa_size(batch[0], 0), 3);
    assert_int_equal(fa_ndim(batch[0]), 3);
    assert_true(fa_device_equal(fa_device_of(batch[0]), here()) && fa_device_equal(fa_device_of(batch[1]), FA_CPU));
    for (int i = 0; i < 3; i++)
        assert_true(fa_item(fa_select(fa_select(fa_select(batch[0], 0, i), 0, 0), 0, 0)) ==
                    6 * fa_item(fa_select(batch[1], 0, i)));
    /* batches are copies: changing one leaves the data alone */
    fa_loader *straight = fa_loader(d, .batch_size = 4);
    assert_true(fa_next(straight, batch) && fai_fill_scalar("test", batch[0], fa_scalar_of_int(-1)));
    assert_true(fa_item(fa_min(x)) == 0);
    fa_tensor *fields[2];
    assert_true(fa_dataset_get(d, -1, fields));
    assert_true(fa_item(fields[1]) == 3);
    assert_false(fa_dataset_get(d, 4, fields));
    assert_error(FA_ERR_INDEX, "index 4 is out of bounds for dimension 0 with size 4");
}

static int released;
static void release(void *data) { (void)data, released++; }

static bool poor_sample(void *data, int64_t i, fa_tensor **fields) {
    const int kind = *(int *)data;
    if (kind == 0 && i == 2) return fa_error_set(FA_ERR_FILE, "picture", "it is torn"), false;
    if (kind == 1 && i == 2) return false;
    fields[0] = kind == 2 && i == 2 ? NULL : fa_zeros(FA_SHAPE(kind == 3 ? i + 1 : 2));
    return true;
}

static void callbacks_may_fail(void **state) {
    (void)state;
    static const char *const words[] = {"it is torn", "failed on sample 2 without saying why", "left field 0 of sample 2 empty",
                                        "stack expects each tensor to be equal size"};
    static const fa_code codes[] = {FA_ERR_FILE, FA_ERR_FOREIGN, FA_ERR_TYPE, FA_ERR_RUNTIME};
    released = 0;
    for (int kind = 0; kind < 4; kind++) {
        FA_SCOPE;
        fa_loader *loader = fa_loader(fa_dataset_from(4, 1, poor_sample, &kind, release), .batch_size = 2);
        fa_tensor *batch[1] = {NULL};
        const bool first = fa_next(loader, batch);
        assert_true(first == (kind != 3));
        if (first) assert_false(fa_next(loader, batch));
        assert_error(codes[kind], words[kind]);
        assert_int_equal(fa_loader_position(loader), first ? 1 : 0); /* the batch may be asked for again */
    }
    assert_int_equal(released, 4);
    assert_null(fa_dataset_from(4, 0, poor_sample, NULL, release));
    assert_error(FA_ERR_VALUE, "a sample has 1 to 8 fields");
    assert_int_equal(released, 5);
}

static void wrong_arguments(void **state) {
    (void)state;
    fa_tensor *batch[1];
    fa_dataset *d = fa_tensor_dataset(fa_zeros(FA_SHAPE(3))), *empty = fa_tensor_dataset(fa_zeros(FA_SHAPE(0, 2)));
    assert_null(fa_loader(d, .batch_size = 0));
    assert_error(FA_ERR_VALUE, "batch_size should be a positive integer value, but got batch_size=0");
    assert_null(fa_loader(empty, .shuffle = true));
    assert_error(FA_ERR_VALUE, "num_samples should be a positive integer value, but got num_samples=0");
    assert_int_equal(fa_loader_length(fa_loader(empty)), 0);
    assert_false(fa_next(fa_loader(empty), batch));
    assert_false(fa_failed());
    assert_null(fa_loader(NULL));
    assert_error(FA_ERR_TYPE, "argument 'dataset' is NULL");
    assert_false(fa_next(NULL, batch));
    assert_error(FA_ERR_TYPE, "argument 'loader' is NULL");
    assert_null(fa_tensor_dataset(fa_zeros(FA_SHAPE(3)), fa_zeros(FA_SHAPE(4, 1))));
    assert_error(FA_ERR_VALUE, "Size mismatch between tensors");
    assert_null(fa_tensor_dataset(fa_zeros(FA_SHAPE_0D)));
    assert_error(FA_ERR_INDEX, "tensor 0 has no dimension");
    assert_null(fa_dataset_subset(d, fa_ints(0, 3)));
    assert_error(FA_ERR_INDEX, "argument 'indices' holds 3, but the dataset has 3 samples");
    assert_null(fa_dataset_subset(d, fa_zeros(FA_SHAPE(2))));
    assert_error(FA_ERR_TYPE, "argument 'indices' must be a 1-d int64 tensor");
    fa_tensor *nothing = NULL;
    assert_null(fa_dataset_of(&nothing, 1));
    assert_error(FA_ERR_TYPE, "tensors");
    fa_error_set(FA_ERR_VALUE, "test", "something before");
    assert_false(fa_next(fa_loader(d), batch));
    assert_error(FA_ERR_VALUE, "something before");
}

/* ---- tables ---- */

static char path[64];

static void put(const char *bytes, size_t n) {
    strcpy(path, "/tmp/facula-data-XXXXXX");
    const int file = mkstemp(path);
    assert_true(file >= 0 && write(file, bytes, n) == (ssize_t)n);
    close(file);
}

static size_t pack(const char *text, char *out, size_t room) {
    z_stream z = {0};
    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (Bytef *)(uintptr_t)text, z.avail_in = (uInt)strlen(text);
    z.next_out = (Bytef *)out, z.avail_out = (uInt)room;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    deflateEnd(&z);
    return room - z.avail_out;
}

static fa_tensor *load(const char *text, fa_dtype dtype) {
    put(text, strlen(text));
    fa_tensor *t = fa_load_csv(path, .dtype = dtype);
    unlink(path);
    return t;
}

static void tables_are_read(void **state) {
    (void)state;
    int64_t whole[6];
    double real[4];
    fa_tensor *t = load("1,2,3\r\n\n -4 ,5,9223372036854775807", FA_INT64);
    assert_true(t && fa_size(t, 0) == 2 && fa_size(t, 1) == 3 && fa_to_data(t, whole, FA_INT64));
    assert_memory_equal(whole, ((int64_t[]){1, 2, 3, -4, 5, INT64_MAX}), sizeof whole);
    t = load("1.5,-2e3\n.25,1e-3\n", FA_FLOAT64);
    assert_true(t && fa_to_data(t, real, FA_FLOAT64));
    assert_memory_equal(real, ((double[]){1.5, -2000, .25, 1e-3}), sizeof real);
    char packed[400];
    size_t n = pack("a;b\n1;2\n", packed, sizeof packed);
    n += pack("3;4\n", packed + n, sizeof packed - n); /* two members, as `cat a.gz b.gz` makes them */
    put(packed, n);
    t = fa_load_csv(path, .dtype = FA_UINT8, .device = here(), .delimiter = ';', .skip_rows = 1);
    unlink(path);
    assert_true(t && fa_size(t, 0) == 2 && fa_device_equal(fa_device_of(t), here()) && fa_to_data(t, whole, FA_INT64));
    assert_memory_equal(whole, ((int64_t[]){1, 2, 3, 4}), 4 * sizeof *whole);
}

static void digits_are_there(void **state) {
    (void)state;
    if (access("data/digits.csv.gz", R_OK) != 0) skip();
    fa_tensor *t = fa_load_csv("data/digits.csv.gz", .dtype = FA_UINT8);
    assert_non_null(t);
    assert_int_equal(fa_size(t, 0), 1797);
    assert_int_equal(fa_size(t, 1), 65);
    const uint8_t *v = fa_data(t);
    assert_int_equal(v[2], 5);
    assert_int_equal(v[64], 0);
    assert_int_equal(v[1796 * 65 + 64], 8);
    t = fa_load_csv("data/digits.csv.gz", .device = here());
    assert_true(fa_dtype_of(t) == FA_FLOAT32 && fa_item(fa_max(t)) == 16);
}

static void hostile_tables(void **state) {
    (void)state;
    static const struct {
        const char *text;
        fa_dtype dtype;
        fa_code code;
        const char *words;
    } cases[] = {
        {"", FA_FLOAT32, FA_ERR_FORMAT, "there are no numbers in it"},
        {"\n \n", FA_FLOAT32, FA_ERR_FORMAT, "there are no numbers in it"},
        {"1,2\n3\n", FA_FLOAT32, FA_ERR_FORMAT, "line 2 has 1 columns, but the first row has 2"},
        {"1,2\n3,4,5\n", FA_FLOAT32, FA_ERR_FORMAT, "line 2 has more than 2 columns"},
        {"1,,2\n", FA_FLOAT32, FA_ERR_FORMAT, "line 1, column 2: \"\" is empty"},
        {"a,b\n1,2\n", FA_FLOAT32, FA_ERR_FORMAT, "line 1, column 1: \"a\" is no number; lines at the start"},
        {"1,2\n3,4 5\n", FA_FLOAT32, FA_ERR_FORMAT, "line 2, column 2: \"4 5\" is no number"},
        {"1\r2\n", FA_INT64, FA_ERR_FORMAT, "\"1?2\" is no whole number"},
        {"1.5\n", FA_INT32, FA_ERR_FORMAT, "\"1.5\" is no whole number"},
        {"256\n", FA_UINT8, FA_ERR_FORMAT, "does not fit uint8, which holds 0 to 255"},
        {"99999999999999999999\n", FA_INT64, FA_ERR_FORMAT, "does not fit int64"},
        {"\x1b[2J\n", FA_FLOAT32, FA_ERR_FORMAT, "\"?[2J\" is no number"},
        {"1111111111111111111111111111111111111111111111111111111111111111111111111111\n", FA_FLOAT32, FA_ERR_FORMAT,
         "no number is so long"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        assert_null(load(cases[k].text, cases[k].dtype));
        assert_error(cases[k].code, cases[k].words);
    }
    put("1\0\n", 3);
    assert_null(fa_load_csv(path));
    unlink(path);
    assert_error(FA_ERR_FORMAT, "this is no text");
    assert_null(fa_load_csv("/nowhere/at.all"));
    assert_error(FA_ERR_FILE, "/nowhere/at.all: could not open it");
    assert_null(fa_load_csv("/tmp"));
    assert_error(FA_ERR_FILE, "a folder");
    assert_null(fa_load_csv(NULL));
    assert_error(FA_ERR_VALUE, "path is NULL");
    assert_null(fa_load_csv("x", .delimiter = '.'));
    assert_error(FA_ERR_VALUE, "delimiter");
    assert_null(fa_load_csv("x", .skip_rows = -1));
    assert_error(FA_ERR_VALUE, "skip_rows");
}

/* Cut anywhere or with any byte changed, a packed table is an error or (a flag of the header) still the same table. */
static void damaged_packing(void **state) {
    (void)state;
    char good[200], packed[200];
    const size_t n = pack("1,2,3\n4,5,6\n7,8,9\n", good, sizeof good);
    for (size_t cut = 1; cut < n; cut++) {
        put(good, cut);
        assert_null(fa_load_csv(path));
        unlink(path);
        assert_int_equal(fa_error_take().code, FA_ERR_FORMAT);
    }
    for (size_t at = 0; at < n; at++) {
        FA_SCOPE;
        memcpy(packed, good, n);
        packed[at] = (char)(packed[at] ^ 0x11);
        put(packed, n);
        fa_tensor *t = fa_load_csv(path);
        unlink(path);
        if (t)
            assert_true(fa_numel(t) == 9 && fa_item(fa_sum(t)) == 45);
        else
            assert_int_equal(fa_error_take().code, FA_ERR_FORMAT);
    }
}

/* ---- no memory ---- */

static bool whole_work(void) {
    FA_SCOPE;
    fa_tensor *t = fa_load_csv(path, .dtype = FA_INT64), *batch[1];
    fa_dataset *d = t ? fa_tensor_dataset(t) : NULL, *half = d ? fa_dataset_subset(d, fa_ints(2, 0)) : NULL;
    fa_loader *loader = half ? fa_loader(half, .shuffle = true) : NULL;
    for (int i = 0; loader && i < 3; i++)
        if (!fa_next(loader, batch)) return i == 2 && !fa_failed();
    return false;
}

static void no_memory(void **state) {
    (void)state;
    char packed[200];
    int failures = 0;
    put(packed, pack("1,2\n3,4\n5,6\n", packed, sizeof packed));
    fa_test_caches(false);
    for (uint64_t n = 1; n < 500; n++) {
        const uint64_t bytes = fa_host_memory_use().bytes;
        fa_test_fail_allocation(n, false);
        const bool ok = whole_work(), failed = fa_test_failed_allocations() > 0;
        fa_test_fail_allocation(0, false);
        if (!failed) {
            assert_true(ok);
            assert_true(failures > 10);
            unlink(path);
            fa_test_caches(true);
            return;
        }
        if (!ok) failures++, assert_int_equal(fa_error_take().code, FA_ERR_MEMORY);
        assert_int_equal(fa_host_memory_use().bytes, bytes);
    }
    fail_msg("allocations went on failing");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(batches_are_torchs, begin, end),
        cmocka_unit_test_setup_teardown(fields_go_together, begin, end),
        cmocka_unit_test_setup_teardown(callbacks_may_fail, begin, end),
        cmocka_unit_test_setup_teardown(wrong_arguments, begin, end),
        cmocka_unit_test_setup_teardown(tables_are_read, begin, end),
        cmocka_unit_test_setup_teardown(digits_are_there, begin, end),
        cmocka_unit_test_setup_teardown(hostile_tables, begin, end),
        cmocka_unit_test_setup_teardown(damaged_packing, begin, end),
        cmocka_unit_test_setup_teardown(no_memory, begin, end),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return fa_finish("test_data") || failed ? 1 : 0;
}
