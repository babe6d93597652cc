/* Around each test: a scope of its own, and no error left over. Included once by a test. */
#ifndef SCOPE_H
#define SCOPE_H

#include <facula.h>
#include <stdio.h>

static int begin(void **state) {
    (void)state;
    fa_scope_open();
    return 0;
}

static int end(void **state) {
    (void)state;
    fa_scope_close();
    if (fa_failed()) fprintf(stderr, "left over: %s\n", fa_error_peek()->text);
    return fa_error_take().code == FA_OK ? 0 : -1;
}

#endif
