/* Copies between views of one element type. */
#ifndef FAI_CPU_COPY_H
#define FAI_CPU_COPY_H

#include "../cpu.h"

/* Row `positive` from view[1] to view[0] without a look at the values. False: the types differ, or the value is a number. */
bool FAI_NAME(fai_cpu_copy)(const fa_plan *plan, char *const *pointers);

#endif
