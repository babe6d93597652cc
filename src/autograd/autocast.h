/* Autocast at the door of an operator: what the functions made from src/ops/autocast.tab call. */
#ifndef FAI_AUTOCAST_H
#define FAI_AUTOCAST_H

#include "autograd.h"

enum { FAI_CAST_NONE, FAI_CAST_LOWER, FAI_CAST_FLOAT32, FAI_CAST_WIDEST, FAI_CAST_OWN, FAI_CAST_REFUSE };
#define FAI_CASTS(cpu, other) (uint8_t)((cpu) << 4 | (other)) /* a line of the table */
extern const uint8_t fai_row_casts[FAI_ROW_COUNT];          /* of elementwise rows; 0: none */

typedef struct fai_casting {
    uint16_t was;              /* the thread's autocast bits: off while the operator runs */
    bool scoped;               /* a scope holds what was cast */
    fa_tensor **list;          /* the cast list of a `tensors` argument */
    int nlist;
} fai_casting;
/* Exchanges tensors[0 .. n) (NULL entries stay) for what the operator is to compute with. False and an error; fai_cast_end follows
 * in any case, and hands the result through. */
bool fai_cast_begin(fai_casting *c, const char *op, uint8_t casts, fa_tensor **tensors, int n);
bool fai_cast_begin_list(fai_casting *c, const char *op, uint8_t casts, fa_tensor *const **tensors, int n);
fa_tensor *fai_cast_end(fai_casting *c, fa_tensor *result);
bool fai_autocast_usable(fa_device device, fa_dtype dtype); /* false with a warning: it can't be on there */
fa_autocast fai_autocast_begin(fa_device device, const fa_autocast_options *options); /* fa_autocast_open where enabled is known to be right */
void fai_autocast_forget(void); /* the thread's cache of cast weights */

#endif
