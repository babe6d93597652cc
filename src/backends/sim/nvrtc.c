/* NVRTC's functions. The simulator has no compiler: it knows the texts that it was built from (fa_program_table), and what it
 * "compiles" is the name of one of them. Any other text is refused. */
#include "sim.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char magic[8] = {'F', 'A', 'C', 'S', 'I', 'M', '0', '1'};

struct _nvrtcProgram {
    sim_image image;
    bool compiled;
    char name[64], log[256];
};

static const fa_program_entry *find_program(unsigned long long hash) {
    for (int i = 0; i < fa_program_table_count; i++)
        if (fa_program_table[i].hash == hash) return &fa_program_table[i];
    return NULL;
}

const char *sim_read_image(const void *data, sim_image *out) {
    if (memcmp(data, magic, sizeof magic)) return NULL;
    memcpy(out, data, sizeof *out);
    const fa_program_entry *program = find_program(out->hash);
    return program ? program->family : NULL;
}

SIM_API nvrtcResult nvrtcVersion(int *major, int *minor) {
    *major = 13;
    *minor = 0;
    return NVRTC_SUCCESS;
}

SIM_API const char *nvrtcGetErrorString(nvrtcResult result) {
    switch (result) {
    case NVRTC_SUCCESS: return "NVRTC_SUCCESS";
    case NVRTC_ERROR_OUT_OF_MEMORY: return "NVRTC_ERROR_OUT_OF_MEMORY";
    case NVRTC_ERROR_INVALID_INPUT: return "NVRTC_ERROR_INVALID_INPUT";
    case NVRTC_ERROR_INVALID_PROGRAM: return "NVRTC_ERROR_INVALID_PROGRAM";
    case NVRTC_ERROR_COMPILATION: return "NVRTC_ERROR_COMPILATION";
    default: return "NVRTC_ERROR unknown";
    }
}

SIM_API nvrtcResult nvrtcGetNumSupportedArchs(int *count) {
    *count = 1;
    return NVRTC_SUCCESS;
}

SIM_API nvrtcResult nvrtcGetSupportedArchs(int *archs) {
    archs[0] = SIM_MAJOR * 10 + SIM_MINOR;
    return NVRTC_SUCCESS;
}

SIM_API nvrtcResult nvrtcCreateProgram(nvrtcProgram *out, const char *text, const char *name, int nheaders,
                                       const char *const *headers, const char *const *header_names) {
    (void)headers;
    (void)header_names;
    if (nheaders) return NVRTC_ERROR_INVALID_INPUT;
    nvrtcProgram program = calloc(1, sizeof *program);
    *out = program;
    if (!program) return NVRTC_ERROR_OUT_OF_MEMORY;
    snprintf(program->name, sizeof program->name, "%s", name ? name : "");
    memcpy(program->image.magic, magic, sizeof magic);
    unsigned long long hash = 14695981039346656037u;
    for (const unsigned char *at = (const unsigned char *)text; *at; at++) hash = (hash ^ *at) * 1099511628211u;
    program->image.hash = hash;
    program->image.row = program->image.instance = -1;
    return NVRTC_SUCCESS;
}

SIM_API nvrtcResult nvrtcDestroyProgram(nvrtcProgram *program) {
    free(*program);
    *program = NULL;
    return NVRTC_SUCCESS;
}

/* Takes in the definitions that only leave parts of a text out or make a plan's numbers constant. Any other would make another program
 * of it: that one is returned. */
static const char *read_definitions(sim_image *image, int noptions, const char *const *options) {
    for (int i = 0; i < noptions; i++) {
        long long number;
        int step;
        if (sscanf(options[i], "-DFA_CHAIN=%d", &image->chain) == 1 || sscanf(options[i], "-DFA_VIEWS=%lli", &image->views) == 1) continue;
        if (sscanf(options[i], "-DFA_S%d=%lli", &step, &number) == 2 && step >= 0 && step < 8) {
            image->step[step] = number;
            continue;
        }
        if (sscanf(options[i], "-DFA_ROW=%d", &image->row) == 1 || sscanf(options[i], "-DFA_INSTANCE=%d", &image->instance) == 1)
            continue;
        if (!strncmp(options[i], "-D", 2) || !strncmp(options[i], "--define-macro", 14)) return options[i];
    }
    return NULL;
}

SIM_API nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int noptions, const char *const *options) {
    int number;
    const char *definition = read_definitions(&program->image, noptions, options);
    pthread_mutex_lock(&sim.lock);
    sim.counts.build++;
    bool fail = sim_fault_now(SIM_FAULT_BUILD, &number);
    pthread_mutex_unlock(&sim.lock);
    if (fail)
        snprintf(program->log, sizeof program->log, "%s: injected fault build:%d", program->name, number);
    else if (definition)
        snprintf(program->log, sizeof program->log, "%s: the simulator has only the generic kernels, without %s", program->name,
                 definition);
    else if (!find_program(program->image.hash))
        snprintf(program->log, sizeof program->log,
                 "%s: the simulator needs no compiler and has only its own kernels; this text is not one of them", program->name);
    else
        program->compiled = true;
    sim_fail(CUDA_SUCCESS, "%s", program->compiled ? "" : program->log);
    return program->compiled ? NVRTC_SUCCESS : NVRTC_ERROR_COMPILATION;
}

SIM_API nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t *bytes) {
    *bytes = strlen(program->log) + 1;
    return NVRTC_SUCCESS;
}

SIM_API nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char *log) {
    memcpy(log, program->log, strlen(program->log) + 1);
    return NVRTC_SUCCESS;
}

SIM_API nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t *bytes) {
    *bytes = program->compiled ? sizeof program->image : 0;
    return program->compiled ? NVRTC_SUCCESS : NVRTC_ERROR_INVALID_PROGRAM;
}

SIM_API nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char *cubin) {
    if (!program->compiled) return NVRTC_ERROR_INVALID_PROGRAM;
    memcpy(cubin, &program->image, sizeof program->image);
    return NVRTC_SUCCESS;
}

/* There is no other architecture, so nobody has a use for PTX. */
SIM_API nvrtcResult nvrtcGetPTXSize(nvrtcProgram program, size_t *bytes) {
    (void)program;
    *bytes = 0;
    return NVRTC_ERROR_INVALID_INPUT;
}

SIM_API nvrtcResult nvrtcGetPTX(nvrtcProgram program, char *ptx) {
    (void)program;
    (void)ptx;
    return NVRTC_ERROR_INVALID_INPUT;
}

/* The compiler's proof that these are the functions that the backend calls. */
const fai_nvrtc sim_nvrtc_check = {
    nvrtcVersion,
    nvrtcGetErrorString,
    nvrtcGetNumSupportedArchs,
    nvrtcGetSupportedArchs,
    nvrtcCreateProgram,
    nvrtcDestroyProgram,
    nvrtcCompileProgram,
    nvrtcGetProgramLogSize,
    nvrtcGetProgramLog,
    nvrtcGetCUBINSize,
    nvrtcGetCUBIN,
    nvrtcGetPTXSize,
    nvrtcGetPTX,
};
