/* For tests of errors: a call is refused with a code and a first sentence; what it was given is as it was; the next call works.
 * Included once by a test, after check.h. */
#ifndef REFUSED_H
#define REFUSED_H

enum { WATCHED_MOST = 32, WATCHED_BYTES = 512 };
static struct watched {
    fa_tensor *tensor;
    uint32_t version;
    unsigned char bytes[WATCHED_BYTES];
} watched[WATCHED_MOST];
static int nwatched;

/* From now on every refusal must leave t as it is; until unwatch. */
static fa_tensor *watch(fa_tensor *t) {
    struct watched *w = &watched[nwatched];
    if (!t || nwatched == WATCHED_MOST || (size_t)fa_numel(t) * fa_dtype_size(fa_dtype_of(t)) > WATCHED_BYTES)
        fail_msg("can't watch tensor %d: %s", nwatched, fa_failed() ? fa_error_peek()->text : "too many, too large or NULL");
    w->tensor = t;
    w->version = fa_version_of(t);
    assert_true(fa_to_data(t, w->bytes, fa_dtype_of(t)));
    nwatched++;
    return t;
}

static void unwatch(void) { nwatched = 0; }

static void still_the_same(const char *text, int line) {
    unsigned char now[WATCHED_BYTES];
    for (int i = 0; i < nwatched; i++) {
        fa_tensor *t = watched[i].tensor;
        const size_t bytes = (size_t)fa_numel(t) * fa_dtype_size(fa_dtype_of(t));
        if (!fa_to_data(t, now, fa_dtype_of(t)) || memcmp(now, watched[i].bytes, bytes) || fa_version_of(t) != watched[i].version)
            fail_msg("line %d: \"%s\" changed tensor %d", line, text, i);
    }
}

static void next_call_works(const char *text, int line) {
    FA_SCOPE;
    fa_tensor *two = fa_add_scalar(fa_ones(FA_SHAPE(2), .device = device), 1.0);
    if (!two || fa_item(fa_sum(two)) != 4)
        fail_msg("line %d: after \"%s\" the next call does not work: %s", line, text,
                 fa_failed() ? fa_error_peek()->text : "wrong sum");
}

static bool gave_nothing_bool(bool r) { return !r; }
static bool gave_nothing_int(int r) { return r <= 0; }
static bool gave_nothing_number(double r) {
    (void)r;
    return true;
}
static bool gave_nothing_pointer(const void *r) { return r == NULL; }

static void check_refused(bool nothing, fa_code code, const char *text, int line) {
    const fa_error e = fa_error_take();
    if (!nothing) fail_msg("line %d: it gave a result", line);
    if (e.code != code || strncmp(e.text, text, strlen(text)))
        fail_msg("line %d: found %d \"%s\", expected %d \"%s\"", line, e.code, e.text, code, text);
    if (!e.op[0]) fail_msg("line %d: no function is named", line);
    still_the_same(text, line);
    next_call_works(text, line);
}

/* The result of a call that failed: NULL, false, or a number that stands for nothing. */
#define REFUSED(call, code, text)                                                                                                \
    check_refused(_Generic((call), bool                                                                                          \
                           : gave_nothing_bool, int                                                                              \
                           : gave_nothing_int, double                                                                            \
                           : gave_nothing_number, int64_t                                                                        \
                           : gave_nothing_number, default                                                                        \
                           : gave_nothing_pointer)(call),                                                                        \
                  FA_ERR_##code, (text), __LINE__)
/* A call that gives nothing back. */
#define REFUSED_VOID(call, code, text) ((call), check_refused(true, FA_ERR_##code, (text), __LINE__))
/* As REFUSED, where the text begins with something that differs, a path for example: it only has to stand in it. */
#define REFUSED_WITH(call, code, text) check_refused_with((const void *)(call), FA_ERR_##code, (text), __LINE__)
__attribute__((unused)) static void check_refused_with(const void *result, fa_code code, const char *text, int line) {
    const fa_error e = fa_error_take();
    if (result || e.code != code || !strstr(e.text, text))
        fail_msg("line %d: found %d \"%s\", expected %d \"%s\"", line, e.code, e.text, code, text);
    still_the_same(text, line);
    next_call_works(text, line);
}

#endif
