/* What the cuda backend tells of its opening, for fa_device_why_not. */
#ifndef FAI_CUDA_WHY_H
#define FAI_CUDA_WHY_H

#include "../../base/base.h"

void fai_cuda_why(fai_text *out); /* after the backend was opened */

/* A line of what was tried, and one that says how to mend it. */
void fai_why_step(fai_text *out, bool fine, const char *format, ...) FA_PRINTF(3, 4);
void fai_why_mend(fai_text *out, const char *format, ...) FA_PRINTF(2, 3);

#endif
