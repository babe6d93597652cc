/* What the user may change of the allocator's rules: PYTORCH_ALLOC_CONF, or PYTORCH_CUDA_ALLOC_CONF as it was called before, with
 * PyTorch's options, `name:value` with commas between. They are for the devices of every kind. What Facula does not do, or can't
 * read, is told once and left out. */
#include "inside.h"
#include <stdlib.h>
#include <string.h>

#define MIB ((size_t)1 << 20)
enum { LEAST_SPLIT = 20 }; /* MiB: shared segments are that large, and are always cut */

fai_alloc_rules fai_rules = {.max_split = SIZE_MAX};
atomic_bool fai_rules_known;

static const char *variable;

static void leave_out(const char *option, size_t n, const char *why) {
    fai_warn(variable, "'%.*s' is left out: %s", (int)n, option, why);
}

static bool is_power_of_two(unsigned long long n) { return n && !(n & (n - 1)); }

/* The number at *at, which goes behind it; 0 if there is none. */
static unsigned long long number(const char **at) {
    char *end = NULL;
    unsigned long long n = **at >= '0' && **at <= '9' ? strtoull(*at, &end, 10) : 0;
    if (end) *at = end;
    return n;
}

/* `4`, or a list as `[256:1,512:2,>:4]`: requests below 256 MiB, below 512 MiB, others. Gives the place behind it, or NULL. */
static const char *read_divisions(const char *at) {
    fai_alloc_rules r = fai_rules;
    unsigned power = 0;
    const bool list = *at == '[';
    do {
        unsigned upto = FAI_SIZES;
        if (list && at[1] == '>') {
            at += 2;
        } else if (list) {
            at++;
            const unsigned long long bound = number(&at);
            if (!is_power_of_two(bound)) return NULL;
            upto = (unsigned)__builtin_ctzll(bound);
        }
        if (list && *at++ != ':') return NULL;
        const unsigned long long n = number(&at);
        if (!is_power_of_two(n) || n > 64) return NULL;
        for (; power < upto && power < FAI_SIZES; power++) r.divisions[power] = (uint8_t)n;
    } while (list && *at == ',');
    if (list && *at++ != ']') return NULL;
    r.divides = true;
    fai_rules = r;
    return at;
}

static const char *end_of(const char *option) {
    int depth = 0;
    for (; *option && (depth || *option != ','); option++) depth += (*option == '[') - (*option == ']' && depth);
    return option;
}

static bool is(const char *name, const char *option, size_t n) { return strlen(name) == n && !strncmp(name, option, n); }

static void read_option(const char *option, size_t n) {
    const char *colon = memchr(option, ':', n), *end = option + n, *at = colon ? colon + 1 : end;
    const size_t name = (size_t)((colon ? colon : end) - option), value = (size_t)(end - at);
    if (is("max_split_size_mb", option, name)) {
        const unsigned long long mib = number(&at);
        if (at != end || mib <= LEAST_SPLIT || mib >> 40) leave_out(option, n, "a whole number of MiB above 20 is expected");
        else fai_rules.max_split = (size_t)mib * MIB;
    } else if (is("roundup_power2_divisions", option, name)) {
        const fai_alloc_rules before = fai_rules;
        if (read_divisions(at) == end) return;
        fai_rules = before;
        leave_out(option, n, "a power of two up to 64 is expected, or a list by MiB as in [256:1,512:2,>:4]");
    } else if (is("garbage_collection_threshold", option, name)) {
        char *last = NULL;
        const double part = value && *at >= '0' && *at <= '9' ? strtod(at, &last) : 0;
        if (last != end || !(part > 0 && part < 1)) leave_out(option, n, "a number above 0 and below 1 is expected");
        else fai_rules.collects = part;
    } else if (!(is("backend", option, name) && is("native", at, value)) &&
               !(is("expandable_segments", option, name) && is("False", at, value))) {
        leave_out(option, n,
                  "Facula's allocator has max_split_size_mb, roundup_power2_divisions, garbage_collection_threshold and backend:native of "
                  "PyTorch's options; the others are planned");
    }
}

static void read_all(void) {
    variable = "PYTORCH_ALLOC_CONF";
    const char *text = getenv(variable);
    if (!text) text = getenv(variable = "PYTORCH_CUDA_ALLOC_CONF");
    while (text && *text) {
        const char *end = end_of(text);
        if (end > text) read_option(text, (size_t)(end - text));
        text = *end ? end + 1 : end;
    }
    atomic_store(&fai_rules_known, true);
}

void fai_rules_read(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_all);
}

/* The next of the steps between two powers of two. */
size_t fai_rules_divided(size_t bytes, size_t unit) {
    if (!bytes) return bytes;
    const unsigned power = 63u - (unsigned)__builtin_clzll(bytes);
    const unsigned place = power < 20 ? 0 : power - 20 < FAI_SIZES ? power - 20 : FAI_SIZES - 1;
    const size_t divisions = fai_rules.divisions[place], step = divisions > 1 ? ((size_t)1 << power) / divisions : unit;
    return divisions > 1 && bytes <= unit * divisions ? (bytes + unit - 1) / unit * unit : (bytes + step - 1) / step * step;
}
