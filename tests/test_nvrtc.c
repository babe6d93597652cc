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
static int count_kernels(const char *cubin, size_t bytes, const char *family, const char *only, int *missing) {
    int found = 0;
    for (int k = 0; k < FAI_K_COUNT; k++) {
        char section[128];
        const bool chain = !strncmp(fai_kernels[k].name, "chain_", 6);
        if (only ? strcmp(fai_kernels[k].name, only) != 0 : chain || strcmp(fai_kernels[k].family, family) != 0) continue;
        int n = snprintf(section, sizeof section, ".text.%s", fai_kernels[k].name);
        if (memmem(cubin, bytes, section, (size_t)n + 1))
            found++;
        else
            printf("FAILED: %s is not in the program '%s'\n", fai_kernels[k].name, family), ++*missing;
    }
    return found;
}

/* What makes of the elementwise text the program of one chain, relu(x * y + number): the bits of kernels/ew.k.h. */
static const char *const chain_names[] = {"chain_f32", "chain_f64", "chain_i64"};
static void chain_options(int compute, char words[16][32], const char **options, int *count) {
    static const int types[] = {FA_FLOAT16, FA_FLOAT64, FA_INT32};
    const uint64_t type = (uint64_t)types[compute], none = (uint64_t)8 << 33;
    const uint64_t step[3] = {(uint64_t)FAI_ROW_mul | 1 << 15 | none | type << 37,
                              (uint64_t)FAI_ROW_add | 8 << 10 | 16 << 15 | none | type << 37,
                              (uint64_t)FAI_ROW_relu | 9 << 10 | (uint64_t)2 << 33 | type << 37};
    const uint64_t views = (type | 16) | (type | 48) << 6 | (type | 32) << 12; /* a strided one, a dense one, the result */
    int n = 0;
    snprintf(words[n++], 32, "-DFA_CHAIN=3");
    snprintf(words[n++], 32, "-DFA_INSTANCE=%d", compute);
    snprintf(words[n++], 32, "-DFA_VIEWS=0x%llx", (unsigned long long)views);
    for (int s = 0; s < 8; s++) snprintf(words[n++], 32, "-DFA_S%d=0x%llx", s, (unsigned long long)(s < 3 ? step[s] : 0));
    for (int i = 0; i < n; i++) options[(*count)++] = words[i];
}

/* Number of kernels in the program; adds to failed. chain: a compute type, or -1 for the whole text. */
static int compile(const fai_program *text, const char *source, int arch, int chain, int *failed) {
    nvrtcProgram program = NULL;
    char *cubin = NULL, option[32], words[16][32];
    size_t bytes = 0;
    int found = 0;
    const char *options[32] = {"--std=c++17", "--fmad=false", "--prec-div=true", "--prec-sqrt=true", "--diag-suppress=177", option};
    int noptions = 6;
    if (chain >= 0) chain_options(chain, words, options, &noptions);
    snprintf(option, sizeof option, "-arch=sm_%d", arch);
    if (fai_cuda_nvrtc.create(&program, source, text->family, 0, NULL, NULL) != NVRTC_SUCCESS) {
        ++*failed;
        return 0;
    }
    if (fai_cuda_nvrtc.compile(program, noptions, options) == NVRTC_SUCCESS &&
        fai_cuda_nvrtc.cubin_size(program, &bytes) == NVRTC_SUCCESS && (cubin = malloc(bytes)) &&
        fai_cuda_nvrtc.cubin(program, cubin) == NVRTC_SUCCESS) {
        found = count_kernels(cubin, bytes, text->family, chain < 0 ? NULL : chain_names[chain], failed);
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

#define TEXTS (fai_program_count + FAI_COMPUTE_COUNT)
static int elementwise(void) {
    int i = 0;
    while (strcmp(fai_programs[i].family, "ew") != 0) i++;
    return i;
}

static void work(shared *all) {
    for (int job; (job = atomic_fetch_add(&all->next, 1)) < TEXTS * ARCHS;) {
        const int chain = job / ARCHS - fai_program_count; /* behind all texts: one chain of each compute type */
        const fai_program *program = &fai_programs[chain < 0 ? job / ARCHS : elementwise()];
        int failed = 0;
        const double start = seconds();
        char *source = fai_program_text(program, "test");
        const int found = source ? compile(program, source, archs[job % ARCHS], chain < 0 ? -1 : chain, &failed) : 0;
        if (source) fai_free(FAI_TAG_OTHER, source, program->bytes + 1);
        atomic_fetch_add(source && failed == 0 ? &all->passed : &all->failed, 1);
        if (job % ARCHS == 0) atomic_fetch_add(&all->kernels, found);
        printf("%-12s sm_%-4d %5.1f s\n", chain < 0 ? program->family : chain_names[chain], archs[job % ARCHS], seconds() - start);
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
    const int jobs = TEXTS * ARCHS, passed = atomic_load(&all->passed), missing = FAI_K_COUNT - atomic_load(&all->kernels);
    if (missing) printf("FAILED: %d of %d kernels were not found\n", missing, (int)FAI_K_COUNT);
    const int failed = atomic_load(&all->failed) + (missing != 0) + (passed < jobs && !atomic_load(&all->failed));
    printf("compiled %d of %d kernels for %d architectures\n", (int)FAI_K_COUNT - missing, (int)FAI_K_COUNT, (int)ARCHS);
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
