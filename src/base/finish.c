/* The last call of a program, and the library's version. */
#include "base.h"
#include <stdlib.h>

enum { HOOKS = 16 };

static void (*_Atomic hooks[HOOKS])(void);

const char *fa_version(void) { return FA_VERSION_TEXT; }

void fai_on_finish(void (*finish)(void)) {
    for (int i = 0; i < HOOKS; i++) {
        void (*there)(void) = NULL;
        if (atomic_compare_exchange_strong(&hooks[i], &there, finish) || there == finish) return;
    }
    fputs("facula: more than 16 finish hooks\n", stderr);
    abort(); /* a mistake in the library itself, seen at the first start */
}

static void print_error(const char *program) {
    const fa_error *error = fa_error_peek();
    fprintf(stderr, "%s: %s%s%s\n", program ? program : "facula", error->op, error->op[0] ? ": " : "", error->text);
    if (error->later) fprintf(stderr, "(and %u later error%s)\n", error->later, error->later == 1 ? "" : "s");
}

/* A program that forgot fa_finish would end without a word of its error. Runs when the program ends in the usual way. */
__attribute__((destructor)) static void tell_the_forgotten(void) {
    if (!fa_failed()) return;
    print_error("facula");
    fputs("(nothing asked for this error: let main end with return fa_finish(\"program\"))\n", stderr);
}

/* Devices are waited for first, so that a late error is seen; then everything this thread owns goes, then the caches. */
int fa_finish(const char *program) {
    for (int i = 0; i < HOOKS; i++) {
        void (*finish)(void) = atomic_load(&hooks[i]);
        if (finish) finish();
    }
    bool failed = fa_failed();
    fflush(stdout); /* what was printed before the error stands before it, in a pipe too */
    if (failed) print_error(program);
    fa_error_take();
    fai_close_all_scopes();
    fai_drop_caches();
    fai_stop_pool();
    return failed ? 1 : 0;
}
