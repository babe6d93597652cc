/* Files: round trips, files of NumPy and safetensors, hostile files, faults of the operating system, no memory.
 *
 * test-env: -
 * test-env: FACULA_SIM=cuda:2
 * test-limit: 300 */
#include "io/io.h"
#include <setjmp.h>
#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "golden/files.h"

static char folder[64], name_buffer[4][256];

static int make_folder(void **state) {
    (void)state; /* in memory where there is such a place: the tests wait for the disk some hundred times */
    snprintf(folder, sizeof folder, "%s/facula_io_XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    return mkdtemp(folder) == NULL ? -1 : 0;
}

static int count_files(bool and_delete) {
    int n = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;) {
        if (e->d_name[0] == '.') continue;
        n++;
        if (and_delete) unlinkat(dirfd(d), e->d_name, 0);
    }
    if (d != NULL) closedir(d);
    return n;
}

static int remove_folder(void **state) {
    (void)state;
    count_files(true);
    return rmdir(folder);
}

static int begin(void **state) {
    (void)state;
    fa_scope_open();
    return 0;
}

static int end(void **state) {
    (void)state;
    fa_scope_close();
    fai_test_fail_file(FAI_FILE_OPEN, 0, 0);
    fai_test_short_files(false);
    count_files(true);
    if (fa_failed()) fprintf(stderr, "left over: %s\n", fa_error_peek()->text);
    return fa_error_take().code == FA_OK ? 0 : -1;
}

static const char *in_folder(const char *name) {
    static int next;
    char *out = name_buffer[next++ % 4];
    snprintf(out, 256, "%s/%s", folder, name);
    return out;
}

static const char *put_file(const char *name, const void *data, size_t n) {
    const char *path = in_folder(name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    fclose(f);
    return path;
}

static unsigned char *get_file(const char *path, size_t *n) {
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    *n = (size_t)info.st_size;
    unsigned char *data = malloc(*n + 1);
    FILE *f = fopen(path, "rb");
    assert_int_equal(fread(data, 1, *n, f), *n);
    fclose(f);
    return data;
}

#define assert_error(want_code, want_text)                                                                     \
    do {                                                                                                       \
        fa_error e_ = fa_error_take();                                                                         \
        if (e_.code != (want_code) || strstr(e_.text, (want_text)) == NULL) fail_msg("error %d: %s", (int)e_.code, e_.text); \
    } while (0)

static void assert_values(fa_tensor *t, fa_dtype dtype, int n, const double *want) {
    double got[64];
    assert_non_null(t);
    assert_int_equal(fa_dtype_of(t), dtype);
    assert_int_equal(fa_numel(t), n);
    assert_true(fa_to_data(t, got, FA_FLOAT64));
    for (int i = 0; i < n; i++) assert_true(got[i] == want[i]);
}

static const double counted[] = {0, 1, 2, 3, 4, 5};

static fa_device other_device(void) { return fa_device_is_available(FA_DEVICE_CUDA) ? FA_CUDA(1) : FA_CPU; }

/* ---- Round trips ---- */

static fa_tensor *sample(fa_dtype dtype, fa_shape shape, fa_device device) {
    double value[24];
    int64_t n = 1;
    for (int d = 0; d < shape.ndim; d++) n *= shape.dim[d];
    for (int i = 0; i < 24; i++) value[i] = dtype == FA_BOOL ? i % 3 == 0 : dtype == FA_UINT8 ? i * 9 : i * 2.5 - 20;
    assert_true(n <= 24);
    return fa_to(fa_from_data(value, FA_FLOAT64, shape, .dtype = dtype), device);
}

static void same(fa_tensor *a, fa_tensor *b) {
    double x[24], y[24];
    assert_int_equal(fa_ndim(a), fa_ndim(b));
    for (int d = 0; d < fa_ndim(a); d++) assert_int_equal(fa_size(a, d), fa_size(b, d));
    assert_int_equal(fa_dtype_of(a), fa_dtype_of(b));
    assert_true(fa_to_data(a, x, FA_FLOAT64) && fa_to_data(b, y, FA_FLOAT64));
    assert_memory_equal(x, y, (size_t)fa_numel(a) * sizeof *x);
}

static fa_tensors *all_kinds(bool with_bfloat16, fa_device device) {
    static const fa_shape shapes[] = {{0, {0}}, {1, {5}}, {2, {2, 3}}, {3, {0, 2, 4}}, {4, {2, 1, 3, 4}}};
    fa_tensors *all = fa_tensors_new();
    for (fa_dtype dtype = FA_BOOL; dtype < FA_DTYPE_COUNT; dtype++) {
        if (dtype == FA_BFLOAT16 && !with_bfloat16) continue;
        for (int s = 0; s < 5; s++) {
            char name[64];
            snprintf(name, sizeof name, "layer.%d/%s \"ü\"", s, fa_dtype_name(dtype));
            assert_true(fa_tensors_add(all, name, sample(dtype, shapes[s], device)));
        }
    }
    fa_tensor *matrix = sample(FA_FLOAT32, FA_SHAPE(4, 6), device);
    assert_true(fa_tensors_add(all, "transposed", fai_view("test", matrix, 2, (int64_t[]){6, 4}, (int64_t[]){1, 6}, 0)));
    return all;
}

static void all_same(fa_tensors *a, fa_tensors *b, fa_device device) {
    assert_int_equal(fa_tensors_count(a), fa_tensors_count(b));
    for (int64_t i = 0; i < fa_tensors_count(a); i++) {
        assert_string_equal(fa_tensors_name_at(a, i), fa_tensors_name_at(b, i));
        same(fa_tensors_at(a, i), fa_tensors_at(b, i));
        assert_true(fa_device_equal(fa_device_of(fa_tensors_at(b, i)), device));
    }
}

static void every_dtype_comes_back(void **state) {
    (void)state;
    for (int where = 0; where < 2; where++) {
        FA_SCOPE;
        fa_device device = where == 0 ? FA_CPU : other_device();
        fa_tensors *all = all_kinds(true, FA_CPU), *most = all_kinds(false, device);
        fai_test_short_files(where == 1);
        assert_true(fa_tensors_set_note(all, "key", "text \\ \"quoted\"\n\x01"));
        assert_true(fa_save_safetensors(in_folder("a.safetensors"), all));
        fa_tensors *back = fa_load_safetensors(in_folder("a.safetensors"), .device = device);
        all_same(all, back, device);
        assert_string_equal(fa_tensors_note(back, "key"), "text \\ \"quoted\"\n\x01");
        for (int compressed = 0; compressed < 2; compressed++) {
            assert_true(fa_save_npz(in_folder("a.npz"), most, .compressed = compressed));
            all_same(most, fa_load_npz(in_folder("a.npz"), .device = FA_CPU), FA_CPU);
        }
        for (int64_t i = 0; i < fa_tensors_count(most); i++) {
            assert_true(fa_save_npy(in_folder("a.npy"), fa_tensors_at(most, i)));
            same(fa_tensors_at(most, i), fa_load_npy(in_folder("a.npy"), .device = device));
        }
        assert_int_equal(count_files(false), 3);
    }
}

static void empty_collections_come_back(void **state) {
    (void)state;
    fa_tensors *none = fa_tensors_new();
    assert_true(fa_save_safetensors(in_folder("a"), none) && fa_save_npz(in_folder("b"), none));
    assert_int_equal(fa_tensors_count(fa_load_safetensors(in_folder("a"))), 0);
    assert_int_equal(fa_tensors_count(fa_load_npz(in_folder("b"))), 0);
}

static void one_copy_a_tensor(void **state) {
    (void)state;
    if (!fa_device_is_available(FA_DEVICE_CUDA)) skip();
    const char *path = put_file("a", safetensors, sizeof safetensors);
    uint64_t before = fa_device_get_counts(FA_CUDA(0)).copies_to_device;
    assert_non_null(fa_load_safetensors(path, .device = FA_CUDA(0)));
    assert_int_equal(fa_device_get_counts(FA_CUDA(0)).copies_to_device - before, 3); /* the fourth is empty */
}

/* ---- Files of others ---- */

static void numpys_arrays_load(void **state) {
    (void)state;
    fa_device d = other_device();
    assert_values(fa_load_npy(put_file("a", npy_f4, sizeof npy_f4), .device = d), FA_FLOAT32, 6, counted);
    fa_tensor *fortran = fa_load_npy(put_file("a", npy_i8_fortran, sizeof npy_i8_fortran), .device = d);
    assert_values(fortran, FA_INT64, 6, counted);
    assert_int_equal(fa_stride(fortran, 0), 1);
    assert_int_equal(fa_size(fortran, 0), 2);
    assert_values(fa_load_npy(put_file("a", npy_f8_big_endian, sizeof npy_f8_big_endian), .device = d), FA_FLOAT64, 6, counted);
    assert_values(fa_load_npy(put_file("a", npy_i2_1d, sizeof npy_i2_1d)), FA_INT16, 2, (double[]){-2, 300});
    assert_values(fa_load_npy(put_file("a", npy_bool_0d, sizeof npy_bool_0d)), FA_BOOL, 1, (double[]){1});
    fa_tensor *empty = fa_load_npy(put_file("a", npy_f2_empty, sizeof npy_f2_empty));
    assert_int_equal(fa_size(empty, 1), 4);
    assert_null(fa_load_npy(put_file("a", npy_u4, sizeof npy_u4)));
    assert_error(FA_ERR_UNSUPPORTED, "the array's dtype is '<u4'");
    assert_null(fa_load_npy(put_file("a", npy_struct, sizeof npy_struct)));
    assert_error(FA_ERR_UNSUPPORTED, "structured dtype");
}

static void ours_are_numpys_bytes(void **state) {
    (void)state;
    size_t n;
    assert_true(fa_save_npy(in_folder("a"), fa_load_npy(put_file("b", npy_f4, sizeof npy_f4))));
    unsigned char *data = get_file(in_folder("a"), &n);
    assert_int_equal(n, sizeof npy_f4);
    assert_memory_equal(data, npy_f4, n);
    free(data);
}

static void numpys_archives_load(void **state) {
    (void)state;
    fa_tensors *stored = fa_load_npz(put_file("a", npz_stored, sizeof npz_stored)),
               *deflated = fa_load_npz(put_file("b", npz_deflated, sizeof npz_deflated), .device = other_device());
    assert_values(fa_tensors_get(stored, "a"), FA_FLOAT32, 6, counted);
    assert_values(fa_tensors_get(deflated, "a"), FA_FLOAT32, 6, counted);
    assert_values(fa_tensors_get(deflated, "b"), FA_BOOL, 2, (double[]){1, 0});
    assert_int_equal(fa_numel(fa_tensors_get(deflated, "zeros")), 40000);
    assert_null(fa_tensors_get(stored, "c"));
    assert_error(FA_ERR_KEY, "there is no \"c\"");
}

static void safetensors_load(void **state) {
    (void)state;
    fa_tensors *s = fa_load_safetensors(put_file("a", safetensors, sizeof safetensors), .device = other_device());
    assert_values(fa_tensors_get(s, "weight"), FA_FLOAT32, 6, counted);
    assert_values(fa_tensors_get(s, "bias"), FA_INT64, 2, (double[]){1, -1});
    assert_values(fa_tensors_get(s, "mask"), FA_BOOL, 3, (double[]){1, 0, 1});
    assert_int_equal(fa_size(fa_tensors_get(s, "none"), 1), 2);
    assert_string_equal(fa_tensors_note(s, "format"), "np");
    assert_string_equal(fa_tensors_note(s, "über"), "\"quoted\"\n");
}

/* ---- Damaged files ---- */

typedef enum format { NPY, NPZ, SAFETENSORS } format;

static bool load(format f, const char *path) {
    FA_SCOPE;
    if (f == NPY) return fa_load_npy(path) != NULL;
    return (f == NPZ ? fa_load_npz(path) : fa_load_safetensors(path)) != NULL;
}

static void cut_everywhere(format f, const unsigned char *data, size_t n) {
    for (size_t length = 0; length < n; length++) {
        assert_false(load(f, put_file("cut", data, length)));
        assert_error(FA_ERR_FORMAT, folder);
    }
}

static void truncated_files_are_refused(void **state) {
    (void)state;
    cut_everywhere(NPY, npy_f4, sizeof npy_f4);
    cut_everywhere(NPZ, npz_stored, sizeof npz_stored);
    cut_everywhere(NPZ, npz_deflated, sizeof npz_deflated);
    cut_everywhere(SAFETENSORS, safetensors, sizeof safetensors);
}

/* Every byte, changed in several ways: an error or a tensor, but nothing else. */
static void changed_bytes_do_no_harm(void **state) {
    (void)state;
    static const struct { format f; const unsigned char *data; size_t n;
    } files[] = {{NPY, npy_f4, sizeof npy_f4},
                 {NPZ, npz_stored, sizeof npz_stored},
                 {NPZ, npz_deflated, sizeof npz_deflated},
                 {SAFETENSORS, safetensors, sizeof safetensors}};
    static const unsigned char change[] = {0x01, 0x80, 0xff, 0x10};
    for (size_t k = 0; k < 4; k++) {
        unsigned char *copy = malloc(files[k].n);
        uint64_t live = fa_host_memory_use().bytes;
        for (size_t i = 0; i < files[k].n; i++) {
            for (size_t c = 0; c < sizeof change; c++) {
                memcpy(copy, files[k].data, files[k].n);
                copy[i] ^= change[c];
                bool ok = load(files[k].f, put_file("changed", copy, files[k].n));
                fa_error e = fa_error_take();
                assert_true(ok == (e.code == FA_OK));
                assert_true(e.code == FA_OK || e.code == FA_ERR_FORMAT || e.code == FA_ERR_UNSUPPORTED);
            }
        }
        assert_true(fa_host_memory_use().peak_bytes < live + (4 << 20));
        free(copy);
    }
}

static void npy_header_is(const char *header, const char *error, fa_code code) {
    unsigned char file[600] = "\x93NUMPY\x01";
    size_t n = strlen(header);
    file[8] = (unsigned char)(n & 255);
    file[9] = (unsigned char)(n >> 8);
    memcpy(file + 10, header, n);
    assert_null(fa_load_npy(put_file("bad.npy", file, n + 10)));
    assert_error(code, error);
}

static void hostile_npy_headers(void **state) {
    (void)state;
    npy_header_is("{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 2), }", "larger than any memory",
                  FA_ERR_FORMAT);
    npy_header_is("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999, ), }", "takes 399999999996 bytes, 0 are there",
                  FA_ERR_FORMAT);
    npy_header_is("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999, ), }", "no tuple of sizes",
                  FA_ERR_FORMAT);
    npy_header_is("{'descr': '<f4', 'fortran_order': False, 'shape': (-1, ), }", "no tuple of sizes", FA_ERR_FORMAT);
    npy_header_is("{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1), }", "more than 8 dimensions",
                  FA_ERR_UNSUPPORTED);
    npy_header_is("{'descr': '<f4', 'fortran_order': False, }", "lacks \"shape\"", FA_ERR_FORMAT);
    npy_header_is("{'descr': '<f4', 'descr': '<f4', }", "\"descr\" twice", FA_ERR_FORMAT);
    npy_header_is("{'descr': '<f4', 'evil': 1, }", "\"evil\"", FA_ERR_FORMAT);
    npy_header_is("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", "the array's dtype is '|O'", FA_ERR_UNSUPPORTED);
    npy_header_is("{'descr': '<f4', 'fortran_order': Maybe, 'shape': (1,), }", "neither True nor False", FA_ERR_FORMAT);
    npy_header_is("{'descr': '<f4', 'fortran_order': False, 'shape': (0,), } import os", "something follows", FA_ERR_FORMAT);
    npy_header_is("[]", "no dictionary", FA_ERR_FORMAT);
    assert_null(fa_load_npy(put_file("bad.npy", "PK\x03\x04xxxxxxxxxx", 14)));
    assert_error(FA_ERR_FORMAT, "does not begin with");
}

static void safetensors_header_is(const char *header, size_t data_bytes, const char *error, fa_code code) {
    unsigned char file[1200] = {0};
    size_t n = strlen(header);
    file[0] = (unsigned char)(n & 255);
    file[1] = (unsigned char)(n >> 8);
    memcpy(file + 8, header, n);
    fa_tensors *t = fa_load_safetensors(put_file("bad.safetensors", file, n + 8 + data_bytes));
    if (error == NULL) {
        assert_non_null(t);
        return;
    }
    assert_null(t);
    assert_error(code, error);
}

static void hostile_safetensors_headers(void **state) {
    (void)state;
#define ENTRY(name, dtype, shape, offsets) \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":[" shape "],\"data_offsets\":[" offsets "]}"
    safetensors_header_is("{" ENTRY("a", "F32", "1", "0,4") "}", 4, NULL, FA_OK);
    safetensors_header_is(" { " ENTRY("a\\u00fc\\ud83d\\ude00", "F32", " 1 ", " 0 , 4 ") " } ", 4, NULL, FA_OK);
    safetensors_header_is("{" ENTRY("a", "F32", "1", "0,4") "," ENTRY("b", "U8", "2", "4,6") "}", 6, NULL, FA_OK);
    safetensors_header_is("{" ENTRY("a", "F32", "2", "0,4") "}", 4, "takes 8 bytes, data_offsets give it 4", FA_ERR_FORMAT);
    safetensors_header_is("{" ENTRY("a", "F32", "1", "4,8") "}", 8, "gap at byte 0", FA_ERR_FORMAT);
    safetensors_header_is("{" ENTRY("a", "F32", "1", "0,4") "}", 5, "the tensors take 4 bytes, the file has 5", FA_ERR_FORMAT);
    safetensors_header_is("{" ENTRY("a", "F32", "1", "0,4") "," ENTRY("b", "F32", "1", "2,6") "}", 6, "overlap at byte 2",
                          FA_ERR_FORMAT);
    safetensors_header_is("{" ENTRY("a", "F32", "1", "0,4") "," ENTRY("a", "F32", "1", "4,8") "}", 8, "stands for two tensors",
                          FA_ERR_FORMAT);
    safetensors_header_is("{" ENTRY("a", "F32", "1", "4,0") "}", 4, "data_offsets are [4, 0]", FA_ERR_FORMAT);
    safetensors_header_is("{" ENTRY("a", "F32", "1", "0,8") "}", 4, "the file has 4 bytes of data", FA_ERR_FORMAT);
    safetensors_header_is("{" ENTRY("a", "F32", "1", "-4,0") "}", 4, "whole numbers", FA_ERR_FORMAT);
    safetensors_header_is("{" ENTRY("a", "F32", "1.0", "0,4") "}", 4, "whole numbers", FA_ERR_FORMAT);
    safetensors_header_is("{" ENTRY("a", "F32", "1e0", "0,4") "}", 4, "whole numbers", FA_ERR_FORMAT);
    safetensors_header_is("{" ENTRY("a", "F32", "01", "0,4") "}", 4, "whole numbers", FA_ERR_FORMAT);
    safetensors_header_is("{" ENTRY("a", "F32", "4611686018427387904,4", "0,4") "}", 4, "larger than any memory", FA_ERR_FORMAT);
    safetensors_header_is("{" ENTRY("a", "F32", "18446744073709551616", "0,4") "}", 4, "whole numbers", FA_ERR_FORMAT);
    safetensors_header_is("{" ENTRY("a", "F32", "1,1,1,1,1,1,1,1,1", "0,4") "}", 4, "more than 8 numbers", FA_ERR_UNSUPPORTED);
    safetensors_header_is("{" ENTRY("a", "F8_E4M3", "4", "0,4") "}", 4, "the dtype is \"F8_E4M3\"", FA_ERR_UNSUPPORTED);
    safetensors_header_is("{" ENTRY("a", "F32", "1", "0") "}", 4, "data_offsets has 1 numbers", FA_ERR_FORMAT);
    safetensors_header_is("{" ENTRY("a\\u0000", "F32", "1", "0,4") "}", 4, "no name", FA_ERR_FORMAT);
    safetensors_header_is("{" ENTRY("\xff", "F32", "1", "0,4") "}", 4, "no name", FA_ERR_FORMAT);
    safetensors_header_is("{" ENTRY("\\ud800", "F32", "1", "0,4") "}", 4, "no name", FA_ERR_FORMAT);
    safetensors_header_is("{" ENTRY("a", "F32", "1", "0,4") "} x", 4, "something follows", FA_ERR_FORMAT);
    safetensors_header_is("{\"a\":[[[[[[[[[[[[[[[[", 4, "lacks '{'", FA_ERR_FORMAT);
    safetensors_header_is("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"evil\":[0,4]}}", 4, "\"evil\"", FA_ERR_FORMAT);
    safetensors_header_is("{\"__metadata__\":{\"a\":1}}", 0, "no text in __metadata__", FA_ERR_FORMAT);
    safetensors_header_is("{\"__metadata__\":{},\"__metadata__\":{}}", 0, "twice", FA_ERR_FORMAT);
    safetensors_header_is("", 0, "lacks '{'", FA_ERR_FORMAT);
    assert_null(fa_load_safetensors(put_file("huge", "\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10)));
    assert_error(FA_ERR_FORMAT, "at most 100000000 are allowed");
}

/* ---- The operating system ---- */

static bool save(format f, const char *path) {
    FA_SCOPE;
    fa_tensors *s = fa_tensors_new();
    fa_tensor *t = fa_ones(FA_SHAPE(3, 5));
    if (!fa_tensors_add(s, "a", t) || !fa_tensors_add(s, "b", t)) return false;
    return f == NPY ? fa_save_npy(path, t) : f == NPZ ? fa_save_npz(path, s, .compressed = true) : fa_save_safetensors(path, s);
}

static void faults_leave_the_old_file(void **state) {
    (void)state;
    static const fai_file_call calls[] = {FAI_FILE_OPEN, FAI_FILE_WRITE, FAI_FILE_SYNC, FAI_FILE_RENAME, FAI_FILE_CLOSE};
    for (format f = NPY; f <= SAFETENSORS; f++) {
        for (size_t c = 0; c < sizeof calls / sizeof *calls; c++) {
            for (int n = 1;; n++) {
                const char *path = put_file("kept", "old", 3);
                fai_test_fail_file(calls[c], n, ENOSPC);
                bool ok = save(f, path);
                fai_test_fail_file(calls[c], 0, 0);
                if (ok) {
                    assert_true(n > 1);
                    break;
                }
                fa_error e = fa_error_take();
                assert_int_equal(e.code, FA_ERR_FILE);
                assert_non_null(strstr(e.text, "No space left on device"));
                size_t size;
                unsigned char *data = get_file(path, &size);
                if (strstr(e.text, "the new file is in place") == NULL) assert_true(size == 3 && memcmp(data, "old", 3) == 0);
                free(data);
                assert_int_equal(count_files(false), 1);
            }
        }
    }
    fai_test_fail_file(FAI_FILE_READ, 1, EIO);
    assert_false(load(SAFETENSORS, put_file("a", safetensors, sizeof safetensors)));
    assert_error(FA_ERR_FILE, "Input/output error");
}

static void interrupted_calls_go_on(void **state) {
    (void)state;
    fai_test_short_files(true);
    fai_test_fail_file(FAI_FILE_WRITE, 2, EINTR);
    assert_true(save(NPY, in_folder("a")));
    fai_test_fail_file(FAI_FILE_READ, 2, EINTR);
    assert_true(load(NPY, in_folder("a")));
}

static void places_that_are_none(void **state) {
    (void)state;
    assert_false(save(NPY, folder));
    assert_error(FA_ERR_FILE, "is a folder");
    assert_false(save(NPY, "/dev/null"));
    assert_error(FA_ERR_FILE, "no regular file");
    assert_false(save(NPY, in_folder("none/a")));
    assert_error(FA_ERR_FILE, "No such file or directory");
    assert_false(save(NPY, NULL));
    assert_error(FA_ERR_VALUE, "path is NULL");
    assert_false(load(NPY, in_folder("none")));
    assert_error(FA_ERR_FILE, "No such file or directory");
    assert_false(load(NPZ, folder));
    assert_error(FA_ERR_FILE, "is a folder");
    assert_false(load(NPZ, NULL));
    assert_error(FA_ERR_VALUE, "path is NULL");
    assert_false(fa_save_npy(in_folder("a"), fa_ones(FA_SHAPE(2), .dtype = FA_BFLOAT16)));
    assert_error(FA_ERR_UNSUPPORTED, "t is bfloat16");
    assert_int_equal(count_files(false), 0);
}

static void links_stay_links(void **state) {
    (void)state;
    struct stat info;
    const char *file = put_file("real", "old", 3), *link = in_folder("link");
    chmod(file, 0640);
    assert_int_equal(symlink(file, link), 0);
    assert_true(save(NPY, link));
    assert_int_equal(lstat(link, &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    assert_int_equal(stat(file, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0640);
    assert_true(load(NPY, file));
}

static void pending_errors_stop_saving_but_not_loading(void **state) {
    (void)state;
    fa_tensor *t = fa_ones(FA_SHAPE(2));
    assert_true(fa_save_npy(in_folder("a"), t));
    fa_error_set(FA_ERR_VALUE, "test", "an earlier error");
    assert_false(fa_save_npy(in_folder("b"), t));
    assert_false(fa_save_npz(in_folder("b"), NULL));
    assert_false(fa_save_safetensors(in_folder("b"), NULL));
    assert_int_equal(count_files(false), 1);
    assert_non_null(fa_load_npy(in_folder("a")));
    assert_error(FA_ERR_VALUE, "an earlier error");
}

/* ---- Names ---- */

static void names_are_found(void **state) {
    (void)state;
    fa_tensors *s = fa_tensors_new();
    fa_tensor *t = fa_ones(FA_SHAPE(1));
    char name[32];
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "n%d", i);
        assert_true(fa_tensors_add(s, name, t));
    }
    assert_string_equal(fa_tensors_name_at(s, 777), "n777");
    assert_ptr_equal(fa_tensors_find(s, "n999"), t);
    assert_null(fa_tensors_find(s, "n1000"));
    assert_false(fa_tensors_add(s, "n5", t));
    assert_error(FA_ERR_VALUE, "name \"n5\" is there already");
    assert_null(fa_tensors_at(s, 1000));
    assert_error(FA_ERR_INDEX, "index 1000 is out of range; there are 1000");
    assert_false(fa_tensors_add(s, "x", NULL));
    fa_error_take();
    assert_false(fa_tensors_add(NULL, "x", t));
    assert_error(FA_ERR_VALUE, "tensors is NULL");
    assert_int_equal(fa_tensors_count(s), 1000);
}

static void any_allocation_may_fail(void **state) {
    (void)state;
    put_file("a.npz", npz_deflated, sizeof npz_deflated);
    put_file("a.safetensors", safetensors, sizeof safetensors);
    put_file("a.npy", npy_f4, sizeof npy_f4);
    static const char *const names[] = {"a.npy", "a.npz", "a.safetensors"};
    for (int step = 0; step < 6; step++) {
        format f = (format)(step % 3);
        fa_test_caches(false);
        uint64_t live = fa_host_memory_use().bytes, failures = 0;
        for (uint64_t n = 1;; n++) {
            fa_test_fail_allocation(n, n % 2 == 0);
            bool ok = step < 3 ? load(f, in_folder(names[f])) : save(f, in_folder("saved"));
            uint64_t failed = fa_test_failed_allocations();
            fa_test_fail_allocation(0, false);
            fa_test_caches(false);
            if (failed == 0) {
                assert_true(ok);
                break;
            }
            failures += failed;
            assert_int_equal(fa_error_take().code, FA_ERR_MEMORY);
            if (n > 4) assert_true(fa_host_memory_use().bytes <= live + 8192);
        }
        assert_true(failures > 0);
    }
    fa_test_caches(true);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(every_dtype_comes_back),
        TEST(empty_collections_come_back),
        TEST(one_copy_a_tensor),
        TEST(numpys_arrays_load),
        TEST(ours_are_numpys_bytes),
        TEST(numpys_archives_load),
        TEST(safetensors_load),
        TEST(truncated_files_are_refused),
        TEST(changed_bytes_do_no_harm),
        TEST(hostile_npy_headers),
        TEST(hostile_safetensors_headers),
        TEST(faults_leave_the_old_file),
        TEST(interrupted_calls_go_on),
        TEST(places_that_are_none),
        TEST(links_stay_links),
        TEST(pending_errors_stop_saving_but_not_loading),
        TEST(names_are_found),
        TEST(any_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
