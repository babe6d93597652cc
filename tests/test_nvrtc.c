/* Compiles every program text that dispatch can choose with the real NVRTC for four architectures, with the options of the
 * cuda backend, and looks for every kernel in what comes out. Needs no GPU. Skipped where there is no NVRTC.
 *
 *   test-limit: 600 */
#define _GNU_SOURCE
#include "backends/cuda/cuda.h"
#include "device/device.h"
#include <kernels_gen.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const int archs[] = {75, 80, 90, 100};
enum { ARCHS = sizeof archs / sizeof archs[0] };

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void print_log(nvrtcProgram program, const char *family, int arch) {
    size_t bytes = 0;
    fai_cuda_nvrtc.log_size(program, &bytes);
    char *log = calloc(bytes + 1, 1);
    if (log && fai_cuda_nvrtc.log(program, log) == NVRTC_SUCCESS) printf("%s for sm_%d:\n%.4000s\n", family, arch, log);
    free(log);
}

/* A cubin is an ELF file with a section ".text.<name>" for each kernel. */
static int count_kernels(const char *cubin, size_t bytes, const char *family, int *missing) {
    int found = 0;
    for (int k = 0; k < FAI_K_COUNT; k++) {
        char section[128];
        if (strcmp(fai_kernels[k].family, family)) continue;
        int n = snprintf(section, sizeof section, ".text.%s", fai_kernels[k].name);
        if (memmem(cubin, bytes, section, (size_t)n + 1))
            found++;
        else
            printf("FAILED: %s is not in the program '%s'\n", fai_kernels[k].name, family), ++*missing;
    }
    return found;
}

/* Number of kernels in the program; adds to failed. */
static int compile(const fai_program *text, const char *source, int arch, int *failed) {
    nvrtcProgram program = NULL;
    char *cubin = NULL, option[32];
    size_t bytes = 0;
    int found = 0;
    const char *options[] = {"--std=c++17", "--fmad=false", "--prec-div=true", "--prec-sqrt=true", "--diag-suppress=177", option};
    snprintf(option, sizeof option, "-arch=sm_%d", arch);
    if (fai_cuda_nvrtc.create(&program, source, text->family, 0, NULL, NULL) != NVRTC_SUCCESS) {
        ++*failed;
        return 0;
    }
    if (fai_cuda_nvrtc.compile(program, (int)(sizeof options / sizeof options[0]), options) == NVRTC_SUCCESS &&
        fai_cuda_nvrtc.cubin_size(program, &bytes) == NVRTC_SUCCESS && (cubin = malloc(bytes)) &&
        fai_cuda_nvrtc.cubin(program, cubin) == NVRTC_SUCCESS) {
        found = count_kernels(cubin, bytes, text->family, failed);
    } else {
        print_log(program, text->family, arch);
        ++*failed;
    }
    free(cubin);
    fai_cuda_nvrtc.destroy(&program);
    return found;
}

/* ---- two processes, each taking the next text and architecture: NVRTC compiles on one thread ---- */
enum { WORKERS = 2 };
typedef struct shared {
    atomic_int next, kernels, passed, failed;
} shared;

static void work(shared *all) {
    for (int job; (job = atomic_fetch_add(&all->next, 1)) < fai_program_count * ARCHS;) {
        const fai_program *program = &fai_programs[job / ARCHS];
        int failed = 0;
        const double start = seconds();
        char *source = fai_program_text(program, "test");
        const int found = source ? compile(program, source, archs[job % ARCHS], &failed) : 0;
        if (source) fai_free(FAI_TAG_OTHER, source, program->bytes + 1);
        atomic_fetch_add(source && failed == 0 ? &all->passed : &all->failed, 1);
        if (job % ARCHS == 0) atomic_fetch_add(&all->kernels, found);
        printf("%-12s sm_%-4d %5.1f s\n", program->family, archs[job % ARCHS], seconds() - start);
        fflush(stdout);
    }
}

int main(void) {
    char why[512];
    unsetenv("FACULA_SIM"); /* the real one, or none */
    if (!fai_cuda_load_nvrtc(why, sizeof why)) {
        printf("skipped: no NVRTC (%s)\n", why);
        return 77;
    }
    shared *all = mmap(NULL, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) return 1;
    for (int i = 0; i < WORKERS; i++) {
        const pid_t child = fork();
        if (child == 0) work(all), _exit(0);
        if (child < 0) atomic_fetch_add(&all->failed, 1);
    }
    for (int status; wait(&status) > 0;)
        if (status != 0) atomic_fetch_add(&all->failed, 1);
    const int jobs = fai_program_count * ARCHS, passed = atomic_load(&all->passed), missing = FAI_K_COUNT - atomic_load(&all->kernels);
    if (missing) printf("FAILED: %d of %d kernels were not found\n", missing, (int)FAI_K_COUNT);
    const int failed = atomic_load(&all->failed) + (missing != 0) + (passed < jobs && !atomic_load(&all->failed));
    printf("compiled %d of %d kernels for %d architectures\n", (int)FAI_K_COUNT - missing, (int)FAI_K_COUNT, (int)ARCHS);
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
