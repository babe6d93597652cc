/* Floor 5, data: what loader.c asks of a dataset. */
#ifndef FAI_DATA_H
#define FAI_DATA_H

#include "../autograd/autograd.h"
#include <fa_data.h>

/* ---- dataset.c ---- */
int fai_dataset_fields(const fa_dataset *d);
fa_device fai_dataset_device(const fa_dataset *d); /* where numbers of samples are wanted */
/* Samples begin .. begin + n, or those that index (int64, 1-d) names, each field in one tensor whose first dimension counts the
 * samples. Results of the current scope. */
bool fai_dataset_range(fa_dataset *d, int64_t begin, int64_t n, fa_tensor **fields);
bool fai_dataset_gather(fa_dataset *d, fa_tensor *index, fa_tensor **fields);
bool fai_dataset_check(const char *op, const fa_dataset *d);

#endif
