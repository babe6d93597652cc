/* The golden file's reader and its generator of random numbers. */
#include "golden.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

int64_t golden_numel(fa_shape shape) {
    int64_t n = 1;
    for (int i = 0; i < shape.ndim; i++) n *= shape.dim[i];
    return n;
}

/* ---- numbers ---- */

static int64_t draw(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)(*state >> 40);
}

int golden_draw(char kind, double low, double high, uint64_t seed, int64_t n, double *out) {
    uint64_t state = seed;
    const double steps = fmax(fabs(low), fabs(high)) <= 15 ? 16 : 1;
    if (kind == 'p') {
        for (int64_t i = 0; i < n; i++) out[i] = (double)(i - n / 2);
        for (int64_t i = n - 1; i > 0; i--) {
            const int64_t j = draw(&state) * (i + 1) >> 24;
            const double v = out[i];
            out[i] = out[j], out[j] = v;
        }
        return 0;
    }
    for (int64_t i = 0; i < n; i++) {
        const int64_t r = draw(&state);
        const double uniform = low + (high - low) * ((double)r / 16777216);
        if (kind == 'i') out[i] = low + (double)(r * ((int64_t)(high - low) + 1) >> 24);
        else if (kind == 'u') out[i] = (double)(float)uniform;
        else if (kind == 'g') out[i] = floor(uniform * steps + 0.5) / steps;
        else return -1;
    }
    return 0;
}

/* ---- words of a line ---- */

static char *word(char **at) {
    while (**at == ' ') (*at)++;
    if (!**at) return NULL;
    char *begin = *at;
    while (**at && **at != ' ') (*at)++;
    if (**at) *(*at)++ = 0;
    return begin;
}

static double real(char **at) {
    char *w = word(at);
    return w ? strtod(w, NULL) : NAN;
}

static uint64_t whole(char **at) {
    char *w = word(at);
    return w ? strtoull(w, NULL, 10) : 0;
}

static bool type_of(const char *name, fa_dtype *out) {
    for (int t = FA_BOOL; t < FA_DTYPE_COUNT; t++) {
        if (strcmp(fa_dtype_name((fa_dtype)t), name) == 0) return *out = (fa_dtype)t, true;
    }
    *out = FA_DTYPE_DEFAULT;
    return strcmp(name, "default") == 0 || strcmp(name, "*") == 0;
}

static bool shape_of(char *w, fa_shape *out) {
    memset(out, 0, sizeof *out);
    if (!w) return false;
    if (strcmp(w, "-") == 0) return true;
    for (char *end; out->ndim < FA_MAX_DIMS; w = end + 1) {
        out->dim[out->ndim++] = strtoll(w, &end, 10);
        if (*end != ',') return *end == 0;
    }
    return false;
}

static double *numbers(char **at, int64_t *n) {
    int64_t room = 64;
    double *out = malloc((size_t)room * sizeof *out);
    *n = 0;
    for (char *w; out && (w = word(at));) {
        if (*n == room) {
            double *more = realloc(out, (size_t)(room *= 2) * sizeof *out);
            if (!more) return free(out), NULL;
            out = more;
        }
        out[(*n)++] = strtod(w, NULL);
    }
    return out;
}

/* ---- lines ---- */

static bool read_types(golden_case *c, char *at) {
    char *types = word(&at), *results = word(&at), *rest, *inner;
    if (!types || !results) return false;
    for (char *t = strtok_r(types, ",", &rest); t; t = strtok_r(NULL, ",", &rest)) {
        if (c->ntypes == GOLDEN_MAX_TYPES || !type_of(t, &c->types[c->ntypes++])) return false;
    }
    int i = 0;
    for (char *t = strtok_r(results, ",", &rest); t; t = strtok_r(NULL, ",", &rest), i++) {
        int k = 0;
        for (char *one = strtok_r(t, "+", &inner); one; one = strtok_r(NULL, "+", &inner)) {
            if (i == c->ntypes || k == GOLDEN_MAX_OUT || !type_of(one, &c->results[i][k++])) return false;
        }
    }
    return i == c->ntypes;
}

static bool read_tensor(golden_case *c, char **at) {
    if (c->ntensors == GOLDEN_MAX_TENSORS) return false;
    golden_tensor *t = &c->tensors[c->ntensors++];
    char *type = word(at);
    if (!type || !type_of(type, &t->dtype) || !shape_of(word(at), &t->shape)) return false;
    char *kind = word(at);
    if (!kind) return false;
    t->kind = kind[0];
    if (t->kind == 'v') return (t->values = numbers(at, &t->nvalues)) != NULL;
    t->low = real(at), t->high = real(at), t->seed = whole(at);
    return true;
}

static bool read_plain(golden_spec *a, char **at) {
    char *w = word(at);
    if (!w) return a->kind == 'N' || a->kind == 'O';
    switch (a->kind) {
    case 'I': case 'B': a->i = strtoll(w, NULL, 10); return true;
    case 'F': a->f = strtod(w, NULL); return true;
    case 'S': return shape_of(w, &a->shape);
    case 'D': return type_of(w, &a->dtype);
    case 'X': snprintf(a->text, sizeof a->text, "%s", w); return true;
    case 'V': {
        const double v = real(at);
        a->scalar = *w == 'f' ? fa_scalar_of_float(v) : *w == 'b' ? fa_scalar_of_bool(v != 0) : fa_scalar_of_int((int64_t)v);
        return true;
    }
    default: return false;
    }
}

static bool read_argument(golden_case *c, char *at) {
    char *name = word(&at), *kind = word(&at);
    if (!name || !kind) return false;
    if (strcmp(name, ".") == 0) { /* one of the list before it */
        if (kind[0] == 'T') return read_tensor(c, &at);
        if (c->ntensors == GOLDEN_MAX_TENSORS) return false;
        c->tensors[c->ntensors++].null = true;
        return true;
    }
    if (c->nargs == GOLDEN_MAX_ARGS) return false;
    golden_spec *a = &c->args[c->nargs++];
    snprintf(a->name, sizeof a->name, "%s", name);
    a->kind = kind[0];
    a->first = c->ntensors;
    a->n = a->kind == 'T' ? 1 : a->kind == 'L' ? (int)whole(&at) : 0;
    if (a->kind == 'L') return true;
    return a->kind == 'T' ? read_tensor(c, &at) : read_plain(a, &at);
}

static bool read_values(golden_values *list, int *n, int room, char *at, char kind) {
    if (*n == room) return false;
    golden_values *v = &list[*n];
    v->at = *n;
    if (kind == 'o' && !shape_of(word(&at), &v->shape)) return false;
    if (kind == 'd' || kind == 'h') v->at = (int)whole(&at);
    (*n)++;
    v->values = numbers(&at, &v->n);
    return v->values != NULL;
}

static bool read_change(golden_case *c, char *at) {
    char *name = word(&at);
    if (!name || !read_values(c->changes, &c->nchanges, GOLDEN_MAX_OUT, at, 'm')) return false;
    for (int i = 0; i < c->nargs; i++) {
        if (strcmp(c->args[i].name, name) == 0) return c->changes[c->nchanges - 1].at = i, true;
    }
    return false;
}

static bool read_line(golden_case *c, char kind, char *at) {
    switch (kind) {
    case 't': return read_types(c, at);
    case 'l': snprintf(c->layouts, sizeof c->layouts, "%s", at); return true;
    case 'a': return read_argument(c, at);
    case 'k': c->ulp = real(&at), c->near = real(&at); return true;
    case 'b': return c->bits = true;
    case 'x': return c->refused = true;
    case 'r': c->seed = whole(&at); return c->seeded = true;
    case 'o': return read_values(c->out, &c->nout, GOLDEN_MAX_OUT, at, 'o');
    case 'm': return read_change(c, at);
    case 'd': return read_values(c->first, &c->nfirst, GOLDEN_MAX_TENSORS, at, 'd');
    case 'h': return read_values(c->second, &c->nsecond, GOLDEN_MAX_TENSORS, at, 'h');
    case 'g': {
        char *w = word(&at);
        if (!w) return false;
        c->gkind = w[0], c->glow = real(&at), c->ghigh = real(&at), c->gseed = whole(&at);
        return true;
    }
    default: return false;
    }
}

/* ---- the files ---- */

static char *contents(const char *path) {
    gzFile in = gzopen(path, "rb");
    if (!in) return NULL;
    size_t room = 1 << 20, n = 0;
    char *text = NULL;
    for (int got = 1; got > 0;) {
        char *more = realloc(text, room + 1);
        if (!more) break;
        text = more;
        got = gzread(in, text + n, (unsigned)(room - n));
        if (got == 0) return gzclose(in), text[n] = 0, text;
        n += got > 0 ? (size_t)got : 0;
        if (n == room) room *= 2;
    }
    free(text);
    gzclose(in);
    return NULL;
}

bool golden_open(golden_file *file, const char *pattern) {
    memset(file, 0, sizeof *file);
    return glob(pattern, 0, NULL, &file->all) == 0;
}

static bool open_next(golden_file *file) {
    if (file->next == file->all.gl_pathc) return false;
    free(file->text);
    file->path = file->all.gl_pathv[file->next++];
    file->line = 0;
    file->at = file->text = contents(file->path);
    file->damaged = !file->text;
    return !file->damaged;
}

void golden_close(golden_file *file) {
    free(file->text);
    globfree(&file->all);
}

void golden_free(golden_case *c) {
    for (int i = 0; i < c->ntensors; i++) free(c->tensors[i].values);
    for (int i = 0; i < c->nout; i++) free(c->out[i].values);
    for (int i = 0; i < c->nchanges; i++) free(c->changes[i].values);
    for (int i = 0; i < c->nfirst; i++) free(c->first[i].values);
    for (int i = 0; i < c->nsecond; i++) free(c->second[i].values);
    memset(c, 0, sizeof *c);
}

bool golden_next(golden_file *file, golden_case *c) {
    memset(c, 0, sizeof *c);
    while ((file->at && *file->at) || open_next(file)) {
        char *line = file->at, *end = strchr(line, '\n');
        if (end) *end = 0;
        file->at = end ? end + 1 : line + strlen(line);
        file->line++;
        if (line[0] == '#' || !line[0]) continue;
        if (strcmp(line, ".") == 0) return true;
        if (strncmp(line, "op ", 3) == 0) {
            snprintf(c->op, sizeof c->op, "%s", line + 3);
            c->line = file->line;
        } else if (!read_line(c, line[0], line[1] ? line + 2 : line + 1)) {
            file->damaged = true;
            return false;
        }
    }
    return false;
}
