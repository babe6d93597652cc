/* Running sums for other files of this floor: nonzero and sorting count with them. */
#ifndef FAI_SCAN_H
#define FAI_SCAN_H

#include "ops.h"

bool fai_scan(const char *op, fa_tensor *out, fa_tensor *x, int dim, bool product);

#endif
