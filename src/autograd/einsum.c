/* torch.einsum: an equation of subscripts, "bij,bjk->bik". Operands are taken from left to right; two are contracted by one
 * batched matrix product, whose batch are the subscripts that both have and that are needed later, whose sum are those that
 * nothing needs any more. */
#include "composite.h"

enum { LETTERS = 52, LABELS = LETTERS + FA_MAX_DIMS, OPERANDS = 16 }; /* after the letters the dimensions of "..." */

typedef struct term {
    int n, label[FA_MAX_DIMS];
    fa_tensor *t;
} term;

typedef struct equation {
    term operand[OPERANDS], out;
    int count, ellipsis; /* how many dimensions "..." stands for at most */
    int seen[LABELS];    /* in how many operands' places */
} equation;

static const char *op = "einsum";

static int label_of(char c) { return c >= 'A' && c <= 'Z' ? c - 'A' : c >= 'a' && c <= 'z' ? 26 + c - 'a' : -1; }
static char letter(int label) { return label < 26 ? (char)('A' + label) : label < LETTERS ? (char)('a' + label - 26) : '.'; }
static bool has(const term *t, int label) {
    for (int d = 0; d < t->n; d++)
        if (t->label[d] == label) return true;
    return false;
}

/* ---- reading the equation ---- */

/* One operand's or the result's subscripts from *at on; dots: dimensions of "...", -1 where there is none. */
static bool read_term(const char *text, const char **at, int letters[FA_MAX_DIMS], int *n, int *dots_at) {
    *n = 0, *dots_at = -1;
    for (; **at && **at != ',' && strncmp(*at, "->", 2) != 0; (*at)++) {
        if (**at == ' ') continue;
        if (strncmp(*at, "...", 3) == 0 && *dots_at < 0) {
            *dots_at = *n, *at += 2;
            continue;
        }
        if (label_of(**at) < 0)
            return fai_fail(
                FA_ERR_RUNTIME, op,
                "einsum(): invalid subscript given at index %d in the equation string, subscripts must be in [a-zA-Z]",
                (int)(*at - text));
        if (*n == FA_MAX_DIMS)
            return fai_fail(FA_ERR_RUNTIME, op,
                            "einsum(): more than %d subscripts in a row; a tensor has at most that many dimensions", FA_MAX_DIMS);
        letters[(*n)++] = label_of(**at);
    }
    return true;
}

/* "..." stands for the last of the ellipsis' labels, so that those of all operands are aligned at their ends. */
static bool fill_term(equation *e, term *t, int index, const int *letters, int n, int dots_at) {
    const int more = t->t->ndim - n;
    if (more < 0 || (more > 0 && dots_at < 0))
        return fai_fail(
            FA_ERR_RUNTIME, op,
            "einsum(): the number of subscripts in the equation (%d) %s the number of dimensions (%d) for operand %d%s", n,
            dots_at < 0 ? "does not match" : "is more than", t->t->ndim, index, dots_at < 0 ? " and no ellipsis was given" : "");
    for (int k = 0; k < n + more; k++) {
        const bool dots = dots_at >= 0 && k >= dots_at && k < dots_at + more;
        const int label = dots ? LABELS - more + (k - dots_at) : letters[k < dots_at || dots_at < 0 ? k : k - more];
        t->label[k] = label;
        e->seen[label]++;
    }
    t->n = n + more;
    if (dots_at >= 0 && more > e->ellipsis) e->ellipsis = more;
    return true;
}

static bool read_output(equation *e, const char *text, const char *at) {
    int letters[FA_MAX_DIMS], n, dots_at;
    bool used[LABELS] = {false};
    if (!read_term(text, &at, letters, &n, &dots_at)) return false;
    if (*at) return fai_fail(FA_ERR_RUNTIME, op, "einsum(): the result has one term, but \"%s\" follows it", at);
    if (n + (dots_at >= 0 ? e->ellipsis : 0) > FA_MAX_DIMS)
        return fai_fail(FA_ERR_RUNTIME, op,
                        "einsum(): more than %d subscripts in a row; a tensor has at most that many dimensions", FA_MAX_DIMS);
    for (int k = 0; k <= n; k++) {
        for (int d = 0; k == dots_at && d < e->ellipsis; d++) e->out.label[e->out.n++] = LABELS - e->ellipsis + d;
        if (k == n) break;
        if (!e->seen[letters[k]])
            return fai_fail(FA_ERR_RUNTIME, op,
                            "einsum(): output subscript %c does not appear in the equation for any input operand",
                            letter(letters[k]));
        if (used[letters[k]])
            return fai_fail(FA_ERR_RUNTIME, op, "einsum(): output subscript %c appears more than once in the output",
                            letter(letters[k]));
        used[letters[k]] = true;
        e->out.label[e->out.n++] = letters[k];
    }
    return true;
}

/* Without "->": the ellipsis, then all letters that appear once, in order. */
static bool usual_output(equation *e) {
    int n = e->ellipsis;
    for (int label = 0; label < LETTERS; label++) n += e->seen[label] == 1;
    if (n > FA_MAX_DIMS)
        return fai_fail(FA_ERR_RUNTIME, op,
                        "einsum(): more than %d subscripts in a row; a tensor has at most that many dimensions", FA_MAX_DIMS);
    for (int d = 0; d < e->ellipsis; d++) e->out.label[e->out.n++] = LABELS - e->ellipsis + d;
    for (int label = 0; label < LETTERS; label++)
        if (e->seen[label] == 1) e->out.label[e->out.n++] = label;
    return true;
}

static bool read_equation(equation *e, const char *text, fa_tensor *const *tensors, int n) {
    const char *at = text;
    if (n < 1) return fai_fail(FA_ERR_VALUE, op, "einsum(): must provide at least one operand");
    if (n > OPERANDS) return fai_fail(FA_ERR_RUNTIME, op, "einsum(): %d operands; at most %d are possible", n, OPERANDS);
    for (;;) {
        int letters[FA_MAX_DIMS], count, dots_at;
        if (e->count == n)
            return fai_fail(FA_ERR_RUNTIME, op, "einsum(): fewer operands were provided than specified in the equation");
        e->operand[e->count].t = tensors[e->count];
        if (!read_term(text, &at, letters, &count, &dots_at) ||
            !fill_term(e, &e->operand[e->count], e->count, letters, count, dots_at))
            return false;
        e->count++;
        if (*at != ',') break;
        at++;
    }
    if (e->count < n) return fai_fail(FA_ERR_RUNTIME, op, "einsum(): more operands were provided than specified in the equation");
    return *at ? read_output(e, text, at + 2) : usual_output(e);
}

/* ---- computing ---- */

/* The sizes of a subscript agree, or are 1. */
static bool sizes_agree(const equation *e) {
    int64_t size[LABELS];
    for (int label = 0; label < LABELS; label++) size[label] = 1;
    for (int i = 0; i < e->count; i++)
        for (int d = 0; d < e->operand[i].n; d++) {
            const int label = e->operand[i].label[d];
            const int64_t found = e->operand[i].t->size[d];
            if (found != 1 && size[label] != 1 && found != size[label])
                return fai_fail(
                    FA_ERR_RUNTIME, op,
                    "einsum(): subscript %c has size %lld for operand %d which does not broadcast with previously seen size %lld",
                    letter(label), (long long)found, i, (long long)size[label]);
            if (found != 1) size[label] = found;
        }
    return true;
}

static void forget(term *t, int d) {
    t->n--;
    for (; d < t->n; d++) t->label[d] = t->label[d + 1];
}

/* A subscript that an operand has twice: its diagonal. */
static bool take_diagonals(term *t) {
    for (int a = 0; t->t && a < t->n; a++)
        for (int b = t->n - 1; t->t && b > a; b--) {
            if (t->label[a] != t->label[b]) continue;
            if (t->t->size[a] != t->t->size[b])
                return fai_fail(FA_ERR_RUNTIME, op,
                                "einsum(): subscript %c is repeated for an operand but the sizes don't match, %lld != %lld",
                                letter(t->label[a]), (long long)t->t->size[a], (long long)t->t->size[b]);
            const int label = t->label[a];
            t->t = fa_diagonal(t->t, 0, a, b); /* the diagonal comes last */
            forget(t, b), forget(t, a);
            t->label[t->n++] = label;
            b = t->n; /* dimensions moved: from the start again */
            a = 0;
        }
    return t->t != NULL;
}

/* Whether an operand after i, or the result, has the subscript. */
static bool needed(const equation *e, int i, int label) {
    for (int k = i + 1; k < e->count; k++)
        if (has(&e->operand[k], label)) return true;
    return has(&e->out, label);
}

/* Sums over the subscripts of t that neither other nor anything after operand i has. */
static void sum_alone(const equation *e, term *t, const term *other, int i) {
    fa_shape dims = {.ndim = 0};
    for (int d = 0; d < t->n; d++)
        if (!needed(e, i, t->label[d]) && !(other && has(other, t->label[d]))) dims.dim[dims.ndim++] = d;
    if (!dims.ndim) return;
    t->t = fa_sum_dims(t->t, dims, false);
    for (int k = dims.ndim - 1; k >= 0; k--) forget(t, (int)dims.dim[k]);
}

/* A size of 1 that the other has larger is dropped: the other's stands for both. */
static void drop_ones(term *t, const term *other) {
    for (int d = t->n - 1; t->t && other->t && d >= 0; d--)
        for (int k = 0; k < other->n; k++)
            if (t->label[d] == other->label[k] && t->t->size[d] == 1 && other->t->size[k] != 1) {
                t->t = fa_squeeze_dim(t->t, d);
                forget(t, d);
                break;
            }
}

/* The dimensions of t whose subscripts are in (or not in) other and are needed later (or not), added to order; their product. */
static int64_t collect(const equation *e, const term *t, const term *other, int i, bool shared, bool later, fa_shape *order) {
    int64_t n = 1;
    for (int d = 0; d < t->n; d++)
        if (has(other, t->label[d]) == shared && (!shared || needed(e, i, t->label[d]) == later)) {
            order->dim[order->ndim++] = d;
            n *= t->t->size[d];
        }
    return n;
}

/* The dimensions of t in the order of other's subscripts that are shared. */
static void collect_as(const equation *e, const term *t, const term *other, int i, bool later, fa_shape *order) {
    for (int k = 0; k < other->n; k++)
        for (int d = 0; d < t->n; d++)
            if (t->label[d] == other->label[k] && needed(e, i, t->label[d]) == later) order->dim[order->ndim++] = d;
}

/* a and operand i, contracted into a. */
static bool contract(const equation *e, term *a, term b, int i) {
    drop_ones(a, &b), drop_ones(&b, a);
    sum_alone(e, a, &b, i), sum_alone(e, &b, a, i);
    if (!a->t || !b.t) return false;
    fa_shape left = {.ndim = 0}, right = {.ndim = 0}, shape = {.ndim = 0};
    term r = {.n = 0};
    const int64_t batch = collect(e, a, &b, i, true, true, &left), rows = collect(e, a, &b, i, false, true, &left);
    const int kept = left.ndim;
    const int64_t sum = collect(e, a, &b, i, true, false, &left);
    collect_as(e, &b, a, i, true, &right), collect_as(e, &b, a, i, false, &right);
    const int own = right.ndim;
    const int64_t columns = collect(e, &b, a, i, false, true, &right);
    if (kept + right.ndim - own > FA_MAX_DIMS)
        return fai_fail(FA_ERR_RUNTIME, op,
                        "einsum(): more than %d subscripts in a row; a tensor has at most that many dimensions", FA_MAX_DIMS);
    for (int k = 0; k < kept; k++) r.label[r.n++] = a->label[left.dim[k]], shape.dim[shape.ndim++] = a->t->size[left.dim[k]];
    for (int k = own; k < right.ndim; k++)
        r.label[r.n++] = b.label[right.dim[k]], shape.dim[shape.ndim++] = b.t->size[right.dim[k]];
    fa_tensor *x = fa_reshape(fa_permute(a->t, left), FA_SHAPE(batch, rows, sum));
    fa_tensor *y = fa_reshape(fa_permute(b.t, right), FA_SHAPE(batch, sum, columns));
    r.t = fa_reshape(fa_matmul(x, y), shape);
    *a = r;
    return r.t != NULL;
}

fa_tensor *fai_plain_einsum(const char *text, fa_tensor *const *tensors, int ntensors) {
    equation e = {.count = 0};
    FAI_CALLED(op);
    if (!fai_list_begin(op, "tensors", tensors, ntensors, false)) return NULL;
    if (!text) return fai_fail(FA_ERR_TYPE, op, "argument 'equation' is NULL: a text like \"ij,jk->ik\" is needed");
    if (!read_equation(&e, text, tensors, ntensors) || !sizes_agree(&e)) return NULL;
    FA_SCOPE;
    for (int i = 0; i < e.count; i++)
        if (!take_diagonals(&e.operand[i])) return NULL;
    term r = e.operand[0];
    for (int i = 1; i < e.count; i++)
        if (!contract(&e, &r, e.operand[i], i)) return NULL;
    sum_alone(&e, &r, NULL, e.count);
    fa_shape order = {.ndim = 0};
    for (int k = 0; k < e.out.n; k++)
        for (int d = 0; d < r.n; d++)
            if (r.label[d] == e.out.label[k]) order.dim[order.ndim++] = d;
    fa_tensor *result = fa_permute(r.t, order);
    return fa_keep(result);
}
