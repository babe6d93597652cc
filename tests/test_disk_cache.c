/* The cache of compiled kernels on disk: what is read is what was written, whatever happened to the files and however many
 * processes are at it; the size limit holds; the second start of a program compiles nothing.
 *
 * test-env: FACULA_SIM=cuda:1 */
#include "base/base.h"
#include "support/faults.h"
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[64];

static fai_cache_key key_of(int number) { return fai_cache_key_add((fai_cache_key){{0}}, &number, sizeof number); }

static void fill(char *out, size_t n, int number) {
    for (size_t i = 0; i < n; i++) out[i] = (char)(i * 7 + (size_t)number * 13);
}

static bool holds(int number, size_t n) {
    void *data;
    size_t bytes;
    char wanted[8192];
    fill(wanted, n, number);
    if (!fai_cache_read(key_of(number), &data, &bytes)) return false;
    bool same = bytes == n && memcmp(data, wanted, n) == 0;
    fai_free(FAI_TAG_OTHER, data, bytes);
    if (!same) fail_msg("entry %d has other bytes", number);
    return same;
}

static void put(int number, size_t n) {
    char data[8192];
    fill(data, n, number);
    fai_cache_write(key_of(number), data, n);
}

static int files(char *last, size_t room) {
    int n = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        if (entry->d_name[0] == '.') continue;
        if (last) snprintf(last, room, "%s/%s", folder, entry->d_name);
        n++;
    }
    if (dir) closedir(dir);
    return n;
}

static void empty_folder(void) {
    char path[400];
    while (files(path, sizeof path) > 0) unlink(path);
}

static int open_folder(void **state) {
    (void)state;
    strcpy(folder, "/tmp/facula_cache_XXXXXX");
    if (!mkdtemp(folder)) return -1;
    return setenv("FACULA_CACHE", folder, 1);
}

static int close_folder(void **state) {
    (void)state;
    empty_folder();
    unsetenv("FACULA_CACHE_SIZE");
    return rmdir(folder);
}

static void written_and_read(void **state) {
    (void)state;
    assert_false(holds(1, 100));
    put(1, 100);
    put(2, 8192);
    assert_true(holds(1, 100) && holds(2, 8192));
    put(1, 300);
    assert_true(holds(1, 300));
    assert_int_equal(files(NULL, 0), 2);
    fai_cache_forget(key_of(1));
    assert_false(holds(1, 300));
    setenv("FACULA_CACHE", "off", 1);
    assert_false(holds(2, 8192));
    put(3, 10);
    assert_false(holds(3, 10));
}

/* Every length, every byte of the head and some of the rest: a miss, and the file is gone. */
static void damaged_files(void **state) {
    (void)state;
    char path[400];
    const size_t whole = 40 + 200;
    put(7, 200);
    assert_int_equal(files(path, sizeof path), 1);
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_size, whole);
    for (size_t at = 0; at < whole; at++) {
        put(7, 200);
        assert_int_equal(truncate(path, (off_t)at), 0);
        assert_false(holds(7, 200));
        assert_int_equal(files(NULL, 0), 0);
        put(7, 200);
        FILE *file = fopen(path, "r+b");
        fseek(file, (long)at, SEEK_SET);
        const int byte = fgetc(file);
        fseek(file, (long)at, SEEK_SET);
        fputc(byte ^ 1 << at % 8, file);
        fclose(file);
        assert_false(holds(7, 200));
        assert_int_equal(files(NULL, 0), 0);
    }
}

static void no_memory(void **state) {
    (void)state;
    void *data;
    size_t bytes;
    put(8, 100);
    fa_test_fail_allocation(1, false);
    assert_false(fai_cache_read(key_of(8), &data, &bytes));
    fa_test_fail_allocation(0, false);
    assert_true(holds(8, 100)); /* it was not the file's fault */
    assert_false(fa_failed());
}

static void size_is_limited(void **state) {
    (void)state;
    setenv("FACULA_CACHE_SIZE", "8KiB", 1);
    for (int i = 0; i < 8; i++) {
        put(i, 1500);
        usleep(11000); /* a file's time may be as coarse as a tick */
        if (i) assert_true(holds(0, 1500)); /* in use */
        usleep(11000);
    }
    assert_true(holds(7, 1500) && holds(0, 1500));
    assert_false(holds(1, 1500));
    assert_int_equal(files(NULL, 0), 5); /* of 1540 bytes */
    put(9, 8192); /* with its head larger than all */
    assert_int_equal(files(NULL, 0), 0);
}

static int work_at_once(int process) {
    unsigned seed = (unsigned)process;
    for (int i = 0; i < 300; i++) {
        const int number = (int)(rand_r(&seed) % 5);
        if (rand_r(&seed) % 3) put(number, 4000);
        else if (rand_r(&seed) % 4 == 0) fai_cache_forget(key_of(number));
        void *data;
        size_t bytes;
        char wanted[4000];
        fill(wanted, sizeof wanted, number);
        if (!fai_cache_read(key_of(number), &data, &bytes)) continue;
        if (bytes != sizeof wanted || memcmp(data, wanted, bytes) != 0) return 1;
        fai_free(FAI_TAG_OTHER, data, bytes);
    }
    return 0;
}

static void eight_processes(void **state) {
    (void)state;
    pid_t child[8];
    for (int i = 0; i < 8; i++)
        if ((child[i] = fork()) == 0) _exit(work_at_once(i));
    for (int i = 0; i < 8; i++) {
        int status;
        waitpid(child[i], &status, 0);
        assert_int_equal(status, 0);
    }
    for (int i = 0; i < 5; i++) put(i, 4000);
    assert_int_equal(files(NULL, 0), 5); /* no halves left */
}

static int programs_compiled(void) {
    find_simulator();
    fa_tensor *x = fa_to(fa_floats(1, 2, 3), device);
    const bool right = fa_item(fa_sum(fa_exp(fa_mul(x, x)))) > 8000;
    return right && sim_count && !fa_failed() ? (int)sim_count("build") : 100;
}

static int compiled_by_another_process(void) {
    int status;
    const pid_t child = fork();
    if (child == 0) _exit(programs_compiled());
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 101;
}

/* A process of the same number was killed as it wrote. */
static void left_by_another(void **state) {
    (void)state;
    char path[128];
    for (int i = 0; i < 20; i++) {
        snprintf(path, sizeof path, "%s/%ld-%d.part", folder, (long)getpid(), i);
        fclose(fopen(path, "w"));
    }
    put(1, 1000);
    assert_true(holds(1, 1000));
}

static void files_may_not_be_so_large(void **state) {
    (void)state;
    int status = -1;
    const pid_t child = fork();
    if (child == 0) {
        const struct rlimit least = {1000, 1000};
        signal(SIGXFSZ, SIG_DFL);
        setrlimit(RLIMIT_FSIZE, &least);
        put(1, 4000);
        put(2, 500);
        _exit(files(NULL, 0) == 1 ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_true(holds(2, 500));
}

static void second_start(void **state) {
    (void)state;
    char path[400];
    const int first = compiled_by_another_process();
    assert_in_range(first, 2, 20);
    assert_int_equal(files(path, sizeof path), first);
    assert_int_equal(compiled_by_another_process(), 0);
    unlink(path);
    assert_int_equal(compiled_by_another_process(), 1);
    unsetenv("FACULA_CACHE");
    assert_int_equal(compiled_by_another_process(), first); /* a simulator's are not kept unasked */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(left_by_another, open_folder, close_folder), /* first: the numbers of files begin with 0 */
        cmocka_unit_test_setup_teardown(written_and_read, open_folder, close_folder),
        cmocka_unit_test_setup_teardown(damaged_files, open_folder, close_folder),
        cmocka_unit_test_setup_teardown(no_memory, open_folder, close_folder),
        cmocka_unit_test_setup_teardown(size_is_limited, open_folder, close_folder),
        cmocka_unit_test_setup_teardown(eight_processes, open_folder, close_folder),
        cmocka_unit_test_setup_teardown(files_may_not_be_so_large, open_folder, close_folder),
        cmocka_unit_test_setup_teardown(second_start, open_folder, close_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
