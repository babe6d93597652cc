/* Around each test of a device's faults: a scope of its own; afterwards nothing fails any more, and no error is left of what did.
 * Included once by a test. */
#ifndef FAULTY_H
#define FAULTY_H

#include "faults.h"

static int begin(void **state) {
    (void)state;
    fa_scope_open();
    return 0;
}

static int end(void **state) {
    (void)state;
    sim_faults(NULL);
    fa_test_caches(true);
    fa_error_take();
    fa_scope_close();
    return 0;
}

#endif
