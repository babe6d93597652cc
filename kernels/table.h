/* The C build of every kernel, as a table. tools/gen_kernels.py writes it (sim_kernels_gen.c) from kernels.tab; the simulated
 * driver finds kernels in it by name. Each entry runs one work-group: the caller loops over groups. */
#ifndef FA_KERNEL_TABLE_H
#define FA_KERNEL_TABLE_H

#include <sys/fa_plan.h>

typedef void (*fa_kernel_fn)(const fa_plan *plan, char *const *pointers, fa_i64 group);

typedef struct fa_kernel_entry {
    const char *name;    /* "ew_f32": what cuModuleGetFunction is asked for */
    const char *family;  /* "ew": the program that it comes from */
    int group_size;      /* items of a work-group; a launch with another block size is refused */
    fa_kernel_fn run;
} fa_kernel_entry;

extern const fa_kernel_entry fa_kernel_table[];
extern const int fa_kernel_table_count;

/* The program texts that those kernels were built from, one a family: the simulated compiler takes these and no others. hash is
 * FNV-1a of 64 bits over the bytes of the whole text as build() gets it: h = 14695981039346656037; for each byte,
 * h = (h ^ byte) * 1099511628211 modulo 2^64. */
typedef struct fa_program_entry {
    const char *family;
    unsigned long long hash;
} fa_program_entry;

extern const fa_program_entry fa_program_table[];
extern const int fa_program_table_count;

#endif
