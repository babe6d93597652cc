/* EXPECT(code, begins): the error that is pending has this code and a text that begins so; it is taken. Included once by a test. */
#ifndef EXPECT_H
#define EXPECT_H

#include <facula.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>

static void expect_error(int line, fa_code code, const char *begins) {
    const fa_error e = fa_error_take();
    if (e.code != code || strncmp(e.text, begins, strlen(begins)) != 0)
        fail_msg("line %d: got error %d of '%s': %s", line, e.code, e.op, e.text);
}
#define EXPECT(code, begins) expect_error(__LINE__, (code), (begins))

#endif
