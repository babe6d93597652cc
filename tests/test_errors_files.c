/* Errors of files, as docs/errors.md lists them: unreadable, unwritable, truncated and hostile ones. Each is refused with its code
 * and sentence; no tensor is changed, no file is left behind, and the next call works. */
#include "support/check.h"
#include "support/refused.h"
#include "io/io.h"
#include <errno.h>
#include <facula.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

static char folder[64], path[160];

static const char *at(const char *name) { return snprintf(path, sizeof path, "%s/%s", folder, name), path; }

static const char *put(const char *name, const void *bytes, size_t n) {
    FILE *f = fopen(at(name), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    return path;
}
static const char *put_text(const char *name, const char *text) { return put(name, text, strlen(text)); }

static size_t get(const char *name, unsigned char *bytes, size_t room) {
    FILE *f = fopen(at(name), "rb");
    assert_non_null(f);
    const size_t n = fread(bytes, 1, room, f);
    fclose(f);
    return n;
}

/* ---- opening and writing ---- */

static void no_such_file(void **state) {
    (void)state;
    watch(counting(FA_SHAPE(2, 3)));
    REFUSED_WITH(fa_load_npy(at("missing.npy")), FILE, "could not open it: No such file or directory");
    REFUSED_WITH(fa_load_npz(at("missing.npz")), FILE, "could not open it: No such file or directory");
    REFUSED_WITH(fa_load_safetensors(at("missing.safetensors")), FILE, "could not open it: No such file or directory");
    REFUSED_WITH(fa_load_csv(at("missing.csv")), FILE, "could not open it: No such file or directory");
    REFUSED(fa_load_npy(NULL), VALUE, "path is NULL; give the name of a file");
    REFUSED_WITH(fa_load_npy(folder), FILE, "is a folder; only regular files can be loaded");
    REFUSED_WITH(fa_load_npy("/dev/null"), FILE, "is no regular file; only regular files can be loaded");
}

static void unwritable(void **state) {
    (void)state;
    fa_tensor *t = watch(counting(FA_SHAPE(2, 3)));
    char name[5000];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = 0;
    REFUSED_WITH(fa_save_npy(at("no/such/folder.npy"), t), FILE,
                 "could not make a file in its folder: No such file or directory");
    REFUSED(fa_save_npy("", t), VALUE, "path is empty; give the name of a file");
    REFUSED(fa_save_npy(NULL, t), VALUE, "path is NULL; give the name of a file");
    REFUSED(fa_save_npy(name, t), FILE, "path has 4999 characters; at most ");
    REFUSED_WITH(fa_save_npy(folder, t), FILE, "is a folder; it would have to be a regular file");
    REFUSED(fa_save_npz("x.npz", NULL), VALUE, "tensors is NULL; make them by fa_tensors_new");
    REFUSED(fa_save_safetensors("x.safetensors", NULL), VALUE, "tensors is NULL; make them by fa_tensors_new");
    REFUSED(fa_save_npy(at("bf16.npy"), fa_cast(t, FA_BFLOAT16)), UNSUPPORTED, "t is bfloat16, which NumPy's files don't have");
    static const struct {
        fai_file_call call;
        const char *text;
    } calls[] = {{FAI_FILE_OPEN, "could not make a file in its folder: "},
                 {FAI_FILE_WRITE, "could not write it: "},
                 {FAI_FILE_SYNC, "could not bring it to the disk: "},
                 {FAI_FILE_CLOSE, "could not close it: "},
                 {FAI_FILE_RENAME, "could not put it in its place: "}};
    assert_true(fa_save_npy(at("t.npy"), t));
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        fai_test_fail_file(calls[i].call, 1, ENOSPC);
        const bool saved = fa_save_npy(at("t.npy"), fa_exp(t));
        fai_test_fail_file(calls[i].call, 0, 0);
        REFUSED_WITH(saved, FILE, calls[i].text);
        FA_SCOPE;
        fa_tensor *back = fa_load_npy(at("t.npy"));
        assert_true(back && fa_item(fa_sum(fa_ne(back, fa_cpu(t)))) == 0); /* the old file is whole */
    }
    fai_test_fail_file(FAI_FILE_SYNC, 2, EIO);
    const bool saved = fa_save_npy(at("t.npy"), t);
    fai_test_fail_file(FAI_FILE_SYNC, 0, 0);
    REFUSED_WITH(saved, FILE,
                 "could not bring its folder to the disk; the new file is in place, but a crash could still undo that: ");
    fai_test_fail_file(FAI_FILE_READ, 1, EIO);
    fa_tensor *read = fa_load_npy(at("t.npy"));
    fai_test_fail_file(FAI_FILE_READ, 0, 0);
    REFUSED_WITH(read, FILE, "could not read it: ");
}

/* ---- .npy ---- */

static const char *npy(const char *header, size_t data) {
    unsigned char bytes[1024] = "\x93NUMPY\x01\x00";
    const size_t n = strlen(header);
    bytes[8] = (unsigned char)n, bytes[9] = (unsigned char)(n >> 8);
    memcpy(bytes + 10, header, n);
    return put("t.npy", bytes, 10 + n + data);
}
#define NPY(header, data, code, text) REFUSED_WITH(fa_load_npy(npy((header), (data))), code, (text))

static void hostile_npy(void **state) {
    (void)state;
    fa_tensor *good = fa_load_npy(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", 8));
    assert_non_null(good);
    watch(good);
    REFUSED_WITH(fa_load_npy(put_text("t.npy", "hello, world")), FORMAT,
                 "this is no .npy file: it does not begin with \\x93NUMPY");
    REFUSED_WITH(fa_load_npy(put_text("t.npy", "\x93NU")), FORMAT, "the data end too early: ");
    REFUSED_WITH(fa_load_npy(put("t.npy", "\x93NUMPY\x09\x00\x02\x00{}", 12)), UNSUPPORTED,
                 "version 9.0 of the format; 1.0, 2.0 and 3.0 are known");
    REFUSED_WITH(fa_load_npy(put("t.npy", "\x93NUMPY\x01\x00\xff\xff{}", 12)), FORMAT,
                 "the header is said to have 65535 bytes; 2 are left");
    NPY("hello", 0, FORMAT, "the header is no dictionary");
    NPY("{1: 2}", 0, FORMAT, "the header is no dictionary of names and values");
    NPY("{'descr' '<f4'}", 0, FORMAT, "the header is no dictionary of names and values");
    NPY("{'name': '<f4'}", 0, FORMAT, "the header has \"name\"; descr, fortran_order and shape are allowed, once each");
    NPY("{'descr': '<f4', 'descr': '<f4'}", 0, FORMAT,
        "the header has \"descr\" twice; descr, fortran_order and shape are allowed");
    NPY("{'descr': '<f4'}", 0, FORMAT, "the header lacks \"fortran_order\"");
    NPY("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} x", 8, FORMAT, "something follows the header's dictionary");
    NPY("{'descr': 4}", 0, FORMAT, "the header's descr is no text");
    NPY("{'descr': [('a', '<f4')]}", 0, UNSUPPORTED, "the array has a structured dtype; a tensor has one type");
    NPY("{'descr': '<c8'}", 0, UNSUPPORTED, "the array's dtype is '<c8'; tensors have b1, u1, i1, i2, i4, i8, f2, f4 and f8");
    NPY("{'fortran_order': 0}", 0, FORMAT, "the header's fortran_order is neither True nor False");
    NPY("{'shape': 3}", 0, FORMAT, "the header's shape is no tuple of sizes from 0 to 2^63 - 1");
    NPY("{'shape': (-1,)}", 0, FORMAT, "the header's shape is no tuple of sizes");
    NPY("{'shape': (99999999999999999999,)}", 0, FORMAT, "the header's shape is no tuple of sizes");
    NPY("{'shape': (1,1,1,1,1,1,1,1,1)}", 0, UNSUPPORTED, "the array has more than 8 dimensions");
    NPY("{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 2)}", 0, FORMAT,
        "an array of shape [9223372036854775807, 2] is larger than any memory");
    NPY("{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}", 8, FORMAT,
        "the data end too early: float32 of shape [3] takes 12 bytes, 8 are there; the file is truncated");
}

/* ---- .safetensors ---- */

static const char *safe(const char *header, size_t data) {
    unsigned char bytes[1024] = {0};
    const size_t n = strlen(header);
    for (int i = 0; i < 8; i++) bytes[i] = (unsigned char)(n >> 8 * i);
    memcpy(bytes + 8, header, n);
    return put("t.safetensors", bytes, 8 + n + data);
}
#define SAFE(header, data, code, text) REFUSED_WITH(fa_load_safetensors(safe((header), (data))), code, (text))
#define F32(shape, offsets)            "{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static void hostile_safetensors(void **state) {
    (void)state;
    assert_non_null(fa_load_safetensors(safe("{\"a\":" F32("[1]", "[0,4]") "}", 4)));
    REFUSED_WITH(fa_load_safetensors(put_text("t.safetensors", "abc")), FORMAT,
                 "the file ends too early: 8 bytes are needed, it has 3");
    REFUSED_WITH(fa_load_safetensors(put("t.safetensors", "\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10)), FORMAT,
                 "the header is said to have 9223372036854775807 bytes; 2 are left");
    SAFE("[]", 0, FORMAT, "the header lacks '{' at byte 8");
    SAFE("{\"a", 0, FORMAT, "the header has no name at byte ");
    SAFE("{\"a\":{\"dtype\":\"C64\"}}", 0, UNSUPPORTED, "the dtype is \"C64\"; tensors have BOOL, U8");
    SAFE("{\"a\":{\"type\":\"F32\"}}", 0, FORMAT, "the header has \"type\"; dtype, shape and data_offsets are needed, once each");
    SAFE("{\"a\":" F32("[1,1,1,1,1,1,1,1,1]", "[0,4]") "}", 4, UNSUPPORTED, "shape has more than 8 numbers");
    SAFE("{\"a\":" F32("[-1]", "[0,4]") "}", 4, FORMAT, "shape holds something else than whole numbers from 0 to 2^63 - 1");
    SAFE("{\"a\":" F32("[1]", "[0]") "}", 4, FORMAT, "data_offsets has 1 numbers; it needs 2");
    SAFE("{\"a\":" F32("[9223372036854775807,2]", "[0,4]") "}", 4, FORMAT,
         "a tensor of shape [9223372036854775807, 2] is larger than any memory");
    SAFE("{\"a\":" F32("[2]", "[0,8]") "}", 4, FORMAT,
         "data_offsets are [0, 8], the file has 4 bytes of data; it is damaged or truncated");
    SAFE("{\"a\":" F32("[1]", "[0,8]") "}", 8, FORMAT, "float32 of shape [1] takes 4 bytes, data_offsets give it 8");
    SAFE("{\"a\":" F32("[1]", "[4,8]") "}", 8, FORMAT,
         "data_offsets leave a gap at byte 0 of the data; tensors must lie side by side");
    SAFE("{\"a\":" F32("[1]", "[0,4]") "}", 8, FORMAT, "the tensors take 4 bytes, the file has 8 bytes of data");
    SAFE("{\"__metadata__\":{},\"__metadata__\":{}}", 0, FORMAT, "the header has \"__metadata__\" twice");
    SAFE("{} x", 0, FORMAT, "something follows the header's JSON at byte ");
    SAFE("{\"a\":" F32("[1]", "[0,4]") ",\"a\":" F32("[1]", "[4,8]") "}", 8, FORMAT, "the name stands for two tensors");
    fa_tensors *noted = fa_tensors_new();
    assert_true(fa_tensors_add(noted, "__metadata__", fa_floats(1)));
    REFUSED(fa_save_safetensors(at("m.safetensors"), noted), VALUE,
            "tensors: the name \"__metadata__\" means something else in this format");
}

/* ---- .npz ---- */

static unsigned char zip[4096];
static size_t zip_bytes;

/* Two arrays, a and b, deflated or stored. */
static void make_zip(bool deflated) {
    FA_SCOPE;
    fa_tensors *ts = fa_tensors_new();
    assert_true(fa_tensors_add(ts, "a", fa_zeros(FA_SHAPE(64))) && fa_tensors_add(ts, "b", fa_floats(3)));
    assert_true(fa_save_npz(at("t.npz"), ts, .compressed = deflated));
    zip_bytes = get("t.npz", zip, sizeof zip);
}

/* The n-th place of a signature, counted from 0. */
static unsigned char *find(const char *signature, int n) {
    for (size_t i = 0; i + 4 <= zip_bytes; i++)
        if (!memcmp(zip + i, signature, 4) && n-- == 0) return zip + i;
    fail_msg("no such place");
    return zip;
}
#define CENTRAL "PK\1\2"
#define LOCAL   "PK\3\4"
#define END     "PK\5\6"
/* Makes the archive anew, changes it at a place, and loads it. */
#define ZIP(deflated, signature, n, offset, value, code, text)                                                                   \
    do {                                                                                                                         \
        make_zip(deflated);                                                                                                      \
        find(signature, n)[offset] = (value);                                                                                    \
        REFUSED_WITH(fa_load_npz(put("t.npz", zip, zip_bytes)), code, (text));                                                   \
    } while (0)

static void hostile_npz(void **state) {
    (void)state;
    make_zip(false);
    assert_non_null(fa_load_npz(at("t.npz")));
    REFUSED_WITH(fa_load_npz(put("t.npz", zip, zip_bytes - 1)), FORMAT,
                 "failed finding central directory; this is no zip archive, or it is truncated: it has no end record");
    ZIP(false, END, 0, 19, 0x7f, FORMAT, "the archive's directory of 2 members is said to lie at byte ");
    ZIP(false, CENTRAL, 0, 0, 'X', FORMAT, "the archive's directory is damaged");
    ZIP(false, CENTRAL, 0, 46, 0, FORMAT, "its name holds a zero character");
    ZIP(false, CENTRAL, 0, 8, 1, UNSUPPORTED, "it is encrypted");
    ZIP(false, CENTRAL, 0, 10, 12, UNSUPPORTED, "it is packed by method 12; 0 (stored) and 8 (deflate) are known");
    ZIP(false, CENTRAL, 0, 24, 7, FORMAT, "it is stored, but has two sizes, ");
    make_zip(false);
    find(CENTRAL, 0)[30] = 4, memset(find(CENTRAL, 0) + 20, 0xff, 4); /* the 64-bit size that this promises is not there */
    memcpy(find(CENTRAL, 0) + 46 + 5, "\1\0\0\0", 4);
    REFUSED_WITH(fa_load_npz(put("t.npz", zip, zip_bytes)), FORMAT, "its 64-bit sizes are damaged");
    ZIP(true, CENTRAL, 0, 26, 0x7f, FORMAT, " bytes can't be made from ");
    ZIP(false, CENTRAL, 0, 45, 0x7f, FORMAT, "its header is said to lie at byte ");
    ZIP(false, LOCAL, 0, 0, 'X', FORMAT, "there is no header at byte 0; the archive is damaged");
    ZIP(false, LOCAL, 1, 29, 0x7f, FORMAT, ", which is more than the archive has");
    ZIP(false, CENTRAL, 0, 16, (unsigned char)(*find(CENTRAL, 0) + 1), FORMAT, "; the data are damaged");
    make_zip(true);
    find(CENTRAL, 0)[20] = 4; /* four bytes of what is packed */
    REFUSED_WITH(fa_load_npz(put("t.npz", zip, zip_bytes)), FORMAT, "the compressed data end too early; the file is damaged");
    make_zip(true);
    memset(find(LOCAL, 0) + 36, 0xff, 8);
    REFUSED_WITH(fa_load_npz(put("t.npz", zip, zip_bytes)), FORMAT, "the compressed data are damaged (");
    make_zip(false);
    memcpy(find(CENTRAL, 1) + 42, find(CENTRAL, 0) + 42, 4); /* b lies where a does */
    memcpy(find(CENTRAL, 1) + 16, find(CENTRAL, 0) + 16, 12);
    REFUSED_WITH(fa_load_npz(put("t.npz", zip, zip_bytes)), FORMAT, "two members of the archive share the bytes at ");
    make_zip(false);
    find(CENTRAL, 1)[46] = 'a';
    REFUSED_WITH(fa_load_npz(put("t.npz", zip, zip_bytes)), FORMAT, "the name stands for two arrays");
}

/* ---- tables ---- */

static const char *gzipped(const char *text, size_t keep, int spoil) {
    unsigned char bytes[512];
    gzFile f = gzopen(at("t.csv.gz"), "wb");
    assert_non_null(f);
    gzputs(f, text);
    assert_int_equal(gzclose(f), Z_OK);
    const size_t n = get("t.csv.gz", bytes, sizeof bytes);
    if (spoil) memset(bytes + spoil, 0xff, 6);
    return put("t.csv.gz", bytes, keep ? keep : n);
}

static void tables(void **state) {
    (void)state;
    char number[700], *end = number;
    for (int i = 0; i < 600; i++) *end++ = '1';
    *end = 0;
    REFUSED_WITH(fa_load_csv(put_text("t.csv", "1,2\n3\n")), FORMAT, "line 2 has 1 columns, but the first row has 2");
    REFUSED_WITH(fa_load_csv(put_text("t.csv", "1,2\n3,4,5\n")), FORMAT,
                 "line 2 has more than 2 columns, as many as the first row has");
    REFUSED_WITH(fa_load_csv(put_text("t.csv", "1,2\n3,four\n")), FORMAT,
                 "line 2, column 2: \"four\" is no number; lines at the start that hold names");
    REFUSED_WITH(fa_load_csv(put_text("t.csv", "1,,2\n")), FORMAT, "line 1, column 2: \"\" is empty: a number is needed");
    REFUSED_WITH(fa_load_csv(put_text("t.csv", number)), FORMAT, "goes on: no number is so long");
    REFUSED_WITH(fa_load_csv(put("t.csv", "1,2\0,3", 6)), FORMAT, "is followed by a zero byte: this is no text");
    REFUSED_WITH(fa_load_csv(put_text("t.csv", "1.5\n"), .dtype = FA_INT64), FORMAT,
                 "is no whole number, as the dtype wants them");
    REFUSED_WITH(fa_load_csv(put_text("t.csv", "300\n"), .dtype = FA_UINT8), FORMAT, "does not fit uint8, which holds 0 to 255");
    REFUSED_WITH(fa_load_csv(put_text("t.csv", "\n\n")), FORMAT, "there are no numbers in it");
    REFUSED(fa_load_csv(at("t.csv"), .dtype = (fa_dtype)99), TYPE, "dtype: there is no element type number 99");
    REFUSED(fa_load_csv(at("t.csv"), .delimiter = '1'), VALUE,
            "delimiter: '1' can't stand between numbers; use ',', ';' or a tab");
    REFUSED(fa_load_csv(at("t.csv"), .skip_rows = -1), VALUE, "skip_rows must not be negative, but got -1");
    const char *text = "1,2,3\n4,5,6\n7,8,9\n";
    assert_non_null(fa_load_csv(gzipped(text, 0, 0)));
    REFUSED_WITH(fa_load_csv(gzipped(text, 16, 0)), FORMAT, "the compressed data end too early; the file is truncated");
    REFUSED_WITH(fa_load_csv(gzipped(text, 0, 10)), FORMAT, "the compressed data are damaged (");
}

static bool stop_now(void *data) { return (void)data, true; }

static void asked_to_stop(void **state) {
    (void)state;
    put_text("t.csv", "1,2\n");
    fa_set_poll(stop_now, NULL);
    fa_tensor *t = fa_load_csv(at("t.csv"));
    fa_set_poll(NULL, NULL);
    REFUSED(t, INTERRUPTED, "interrupted: the poll callback asked to stop");
}

/* ---- named tensors ---- */

static void names(void **state) {
    (void)state;
    fa_tensors *ts = fa_tensors_new();
    fa_tensor *t = watch(counting(FA_SHAPE(2)));
    REFUSED(fa_tensors_get(ts, "a"), KEY, "there is no \"a\": no tensor is there at all");
    assert_true(fa_tensors_add(ts, "a", t));
    REFUSED(fa_tensors_add(ts, "a", t), VALUE, "name \"a\" is there already; every name can stand for one tensor only");
    REFUSED(fa_tensors_get(ts, "b"), KEY, "there is no \"b\" among 1 names, of which the first is \"a\"");
    REFUSED(fa_tensors_at(ts, 1), INDEX, "index 1 is out of range; there are 1");
    REFUSED(fa_tensors_add(ts, NULL, t), VALUE, "name is NULL");
    char *name = malloc(70001);
    memset(name, 'n', 70000);
    name[70000] = 0;
    assert_true(fa_tensors_add(ts, name, t));
    free(name);
    REFUSED(fa_save_npz(at("long.npz"), ts), VALUE, "the name \"nnnnnnnn");
}

/* ---- nothing is left behind ---- */

static int left_behind(void) {
    char command[160];
    snprintf(command, sizeof command, "test $(ls -A %s | grep -cv '^t\\.') -eq 0", folder);
    return system(command);
}

static int begin_files(void **state) {
    unwatch();
    if (!*folder) {
        strcpy(folder, "/tmp/facula-errors-XXXXXX");
        if (!mkdtemp(folder)) return -1;
    }
    return begin(state);
}

static int end_files(void **state) { return left_behind() ? -1 : end(state); }

#define T(f) cmocka_unit_test_setup_teardown(f, begin_files, end_files)

int main(void) {
    const struct CMUnitTest tests[] = {T(no_such_file), T(unwritable), T(hostile_npy),   T(hostile_safetensors),
                                       T(hostile_npz),  T(tables),     T(asked_to_stop), T(names)};
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char command[96];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) || failed;
}
