/* The C builds of every kernel, as tables. tools/gen_kernels.py writes them (sim_kernels_gen.c, and sim_any.c and sim_own.c, which
 * are compiled for several instruction sets) from kernels.tab; the simulated driver finds kernels in them by name. A function
 * runs one work-group: the caller loops over groups. */
#ifndef FA_KERNEL_TABLE_H
#define FA_KERNEL_TABLE_H

#include <sys/fa_plan.h>

typedef void (*fa_kernel_fn)(const fa_plan *plan, char *const *pointers, fa_i64 group);

typedef struct fa_kernel_entry {
    const char *name;    /* "ew_f32": what cuModuleGetFunction is asked for */
    const char *family;  /* "ew": the program that it comes from */
    int group_size;      /* items of a work-group; a launch with another block size is refused */
    fa_kernel_fn run;    /* NULL in fa_kernel_table: a build's */
    unsigned apart;      /* bit k: the text reads view k by its own type, not as numbers of the compute type */
} fa_kernel_entry;

extern const fa_kernel_entry fa_kernel_table[];
extern const int fa_kernel_table_count;

/* The functions for one instruction set, in the order of fa_kernel_table. Most work is on float32 alone: `own` has the kernels of
 * that instance once more, for launches whose views, those apart left out, are all float32; NULL for others. They are the
 * same text with FA_OWN defined, where loads and stores need not ask for the type. */
typedef struct fa_kernel_build {
    const char *isa; /* as compilers call it, with "sse2" and "generic" for what every machine has */
    const fa_kernel_fn *any, *own;
} fa_kernel_build;

extern const fa_kernel_build fa_kernel_builds[]; /* best first; the last runs everywhere */
extern const int fa_kernel_builds_count;

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
