/* The interpreter for pickles: a stack machine whose instructions, a closed list of them, build plain values. There is no
 * instruction here that calls or imports: names become values that say what they are (globals.c), and "reduce" asks a fixed list
 * what such a name makes of its arguments (reduce.c).
 *
 * Every byte of memory is charged to the document's limit before it is taken, the machine recurses nowhere, and what it built is
 * walked once at the end: nothing is nested deeper than DEEPEST, so that whoever walks it later may recurse. */
#include "pickle.h"
#include <string.h>

enum { DEEPEST = 1000, BATCH = 1 << 16 };

void *fai_unpickle_bad(const fai_unpickler *u, const char *format, ...) {
    char text[600];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return fai_fail(FA_ERR_FORMAT, u->values->op,
                    "Weights only load failed. WeightsUnpickler error: %s (%s, byte %llu of its pickle)", text, u->name,
                    (unsigned long long)(u->at - u->begin));
}
#define bad fai_unpickle_bad

/* ---- The program's bytes ---- */

static const uint8_t *take(fai_unpickler *u, uint64_t n) {
    if (n > (uint64_t)(u->end - u->at))
        return bad(u, "Ran out of input: %llu more bytes are needed, %llu are there", (unsigned long long)n,
                   (unsigned long long)(u->end - u->at));
    u->at += n;
    return u->at - n;
}

static bool number(fai_unpickler *u, int bytes, uint32_t *out) {
    const uint8_t *p = take(u, (uint64_t)bytes);
    *out = 0;
    for (int i = 0; p != NULL && i < bytes; i++) *out |= (uint32_t)p[i] << 8 * i;
    return p != NULL;
}

/* ---- The stack ---- */

/* Room for n items of some bytes each, charged to the document. */
static bool grow(fai_unpickler *u, void **array, size_t *room, size_t n, size_t item) {
    size_t more = *room > 0 ? 2 * *room : 64;
    if (n <= *room) return true;
    if (more < n) more = n;
    if (!fai_values_charge(u->values, (more - *room) * item)) return false;
    void *bigger = fai_realloc(FAI_TAG_FILE, *array, *room * item, more * item);
    if (bigger == NULL) return fai_fail_memory(u->values->op, more * item);
    memset((char *)bigger + *room * item, 0, (more - *room) * item);
    *array = bigger;
    *room = more;
    return true;
}

static bool push(fai_unpickler *u, fa_value *v) {
    if (v == NULL || !grow(u, (void **)&u->stack, &u->stack_room, u->depth + 1, sizeof *u->stack)) return false;
    u->stack[u->depth++] = v;
    return true;
}

/* Values beyond the last mark: the others are out of reach. */
static size_t within_reach(const fai_unpickler *u) { return u->depth - (u->nmarks > 0 ? u->marks[u->nmarks - 1] : 0); }

static fa_value *pop(fai_unpickler *u) {
    if (within_reach(u) == 0) return bad(u, "the stack is empty");
    return u->stack[--u->depth];
}

static fa_value *top(fai_unpickler *u) {
    if (within_reach(u) == 0) return bad(u, "the stack is empty");
    return u->stack[u->depth - 1];
}

/* The values since the last mark, which goes. They stay on the stack until the next push. */
static bool pop_mark(fai_unpickler *u, fa_value ***items, size_t *n) {
    if (u->nmarks == 0) return bad(u, "there is no mark on the stack") != NULL;
    size_t begin = u->marks[--u->nmarks];
    *items = u->stack + begin;
    *n = u->depth - begin;
    u->depth = begin;
    return true;
}

/* ---- Instructions. n is the column of the table below. ---- */

static bool protocol(fai_unpickler *u, int n) {
    const uint8_t *p = take(u, (uint64_t)n);
    if (p == NULL || p[0] == 2) return p != NULL;
    return bad(u, "the pickle is of protocol %d; torch.save writes protocol 2", p[0]) != NULL;
}

static bool push_int(fai_unpickler *u, int n) {
    uint32_t i;
    if (!number(u, n, &i)) return false;
    if (i >= 256) return push(u, fa_values_int(u->values, n == 4 ? (int32_t)i : (int64_t)i));
    if (u->small[i] == NULL) u->small[i] = fa_values_int(u->values, i);
    return push(u, u->small[i]);
}

static bool push_long(fai_unpickler *u, int n) {
    uint32_t bytes;
    const uint8_t *p = number(u, n, &bytes) ? take(u, bytes) : NULL;
    return p != NULL && push(u, fa_values_big_int(u->values, p, bytes));
}

static bool push_float(fai_unpickler *u, int n) {
    const uint8_t *p = take(u, (uint64_t)n);
    uint64_t bits = 0;
    double f;
    for (int i = 0; p != NULL && i < n; i++) bits = bits << 8 | p[i];
    memcpy(&f, &bits, sizeof f);
    return p != NULL && push(u, fa_values_float(u->values, f));
}

static bool push_text(fai_unpickler *u, int n) {
    uint32_t bytes;
    const uint8_t *p = number(u, n, &bytes) ? take(u, bytes) : NULL;
    if (p != NULL && !fai_value_is_utf8((const char *)p, bytes)) return bad(u, "a text is no UTF-8") != NULL;
    return p != NULL && push(u, fa_values_text_of(u->values, (const char *)p, bytes));
}

static bool push_none(fai_unpickler *u, int n) { return (void)n, push(u, fa_values_none(u->values)); }
static bool push_bool(fai_unpickler *u, int n) { return push(u, fa_values_bool(u->values, n)); }
static bool push_empty(fai_unpickler *u, int n) { return push(u, fa_values_container(u->values, (fa_value_kind)n)); }

static bool mark(fai_unpickler *u, int n) {
    (void)n;
    if (!grow(u, (void **)&u->marks, &u->marks_room, u->nmarks + 1, sizeof *u->marks)) return false;
    u->marks[u->nmarks++] = u->depth;
    return true;
}

static bool make_tuple(fai_unpickler *u, fa_value *const *items, size_t n) {
    fa_value *v = fa_values_container(u->values, FA_VALUE_TUPLE);
    if (v == NULL || !fai_value_reserve(v, n)) return false;
    if (n > 0) memcpy(v->as.list.items, items, n * sizeof *items);
    v->as.list.n = (uint32_t)n;
    return push(u, v);
}

static bool tuple_to_mark(fai_unpickler *u, int n) {
    fa_value **items;
    size_t count;
    (void)n;
    return pop_mark(u, &items, &count) && make_tuple(u, items, count);
}

static bool tuple(fai_unpickler *u, int n) {
    if (within_reach(u) < (size_t)n) return bad(u, "the stack is empty") != NULL;
    u->depth -= (size_t)n;
    return make_tuple(u, u->stack + u->depth, (size_t)n);
}

static bool append_all(fai_unpickler *u, fa_value *to, fa_value *const *items, size_t n) {
    if (to == NULL) return false;
    if (to->kind != FA_VALUE_LIST)
        return bad(u, "Can only append to lists, but got %s", fa_value_kind_name((fa_value_kind)to->kind)) != NULL;
    if (!fai_value_reserve(to, n)) return false;
    if (n > 0) memcpy(to->as.list.items + to->as.list.n, items, n * sizeof *items);
    to->as.list.n += (uint32_t)n;
    return true;
}

static bool append(fai_unpickler *u, int n) {
    fa_value *item = pop(u);
    (void)n;
    return item != NULL && append_all(u, top(u), &item, 1);
}

static bool appends(fai_unpickler *u, int n) {
    fa_value **items;
    size_t count;
    (void)n;
    return pop_mark(u, &items, &count) && append_all(u, top(u), items, count);
}

static bool put_all(fai_unpickler *u, fa_value *to, fa_value *const *items, size_t n) {
    if (to == NULL) return false;
    if (!fai_value_is_dict(to))
        return bad(u, "Can only set items of dicts, but got %s", fa_value_kind_name((fa_value_kind)to->kind)) != NULL;
    if (n % 2 != 0) return bad(u, "a key has no value") != NULL;
    for (size_t i = 0; i < n; i += 2) {
        if (!fa_value_put(to, items[i], items[i + 1])) return false;
    }
    return true;
}

static bool set_item(fai_unpickler *u, int n) {
    (void)n;
    if (within_reach(u) < 3) return bad(u, "the stack is empty") != NULL;
    u->depth -= 2;
    return put_all(u, top(u), u->stack + u->depth, 2);
}

static bool set_items(fai_unpickler *u, int n) {
    fa_value **items;
    size_t count;
    (void)n;
    return pop_mark(u, &items, &count) && put_all(u, top(u), items, count);
}

static bool memo_put(fai_unpickler *u, int n) {
    uint32_t at;
    fa_value *v = top(u);
    if (v == NULL || !number(u, n, &at) || !grow(u, (void **)&u->memo, &u->memo_room, (size_t)at + 1, sizeof *u->memo))
        return false;
    u->memo[at] = v;
    return true;
}

static bool memo_get(fai_unpickler *u, int n) {
    uint32_t at;
    if (!number(u, n, &at)) return false;
    if (at >= u->memo_room || u->memo[at] == NULL) return bad(u, "Memo value not found at index %u", at) != NULL;
    return push(u, u->memo[at]);
}

/* ---- Names ---- */

/* Up to the end of the line. */
static bool take_name(fai_unpickler *u, char out[256]) {
    size_t left = (size_t)(u->end - u->at);
    const uint8_t *line = memchr(u->at, '\n', left < 256 ? left : 256);
    if (line == NULL || line == u->at)
        return bad(u, "the name of a global is empty, has no end or more than 255 letters") != NULL;
    size_t n = (size_t)(line - u->at);
    memcpy(out, u->at, n);
    out[n] = 0;
    for (size_t i = 0; i < n; i++) {
        if (out[i] <= ' ' || out[i] == 127)
            return bad(u, "the name of a global holds the character %d", (unsigned char)out[i]) != NULL;
    }
    u->at = line + 1;
    return true;
}

typedef struct names {
    char module[256], name[256], full[512];
} names;

static bool take_global(fai_unpickler *u, names *g) {
    if (!take_name(u, g->module) || !take_name(u, g->name)) return false;
    snprintf(g->full, sizeof g->full, "%s.%s", g->module, g->name);
    return true;
}

static bool is_safe(const fai_unpickler *u, const char *full) {
    for (int i = 0; i < u->nsafe_globals; i++) {
        if (u->safe_globals[i] != NULL && strcmp(u->safe_globals[i], full) == 0) return true;
    }
    return false;
}

static bool is_blocked(const char *module) {
    return strcmp(module, "sys") == 0 || strcmp(module, "os") == 0 || strcmp(module, "posix") == 0 || strcmp(module, "nt") == 0;
}

static bool refuse(const fai_unpickler *u, const names *g) {
    const bool builtin = strcmp(g->module, "__builtin__") == 0 || strcmp(g->module, "builtins") == 0;
    const char *said = builtin ? g->name : g->full;
    if (is_blocked(g->module))
        return fai_fail(FA_ERR_FORMAT, u->values->op,
                        "Weights only load failed. Trying to load unsupported GLOBAL %s whose module %s is blocked. (%s)",
                        g->full, g->module, u->name);
    return fai_fail(FA_ERR_FORMAT, u->values->op,
                    "Weights only load failed. WeightsUnpickler error: Unsupported global: GLOBAL %s was not an allowed global "
                    "by default. Please "
                    "use `torch.serialization.add_safe_globals([%s])` or the `torch.serialization.safe_globals([%s])` context "
                    "manager to allowlist "
                    "this global if you trust this class/function. Here nothing that a file names is ever imported or called: an "
                    "allowed global "
                    "becomes an object without behaviour (in C: fa_pt_options.safe_globals). If the file holds a whole module or "
                    "another object, "
                    "load it where its class is, and save its state_dict(). (%s)",
                    said, said, said, u->name);
}

static bool push_global(fai_unpickler *u, int n) {
    names g;
    (void)n;
    if (!take_global(u, &g)) return false;
    const fai_global *known = fai_find_global(g.full);
    if (known == NULL && (is_blocked(g.module) || !is_safe(u, g.full))) return refuse(u, &g);
    if (known != NULL && known->meaning == FAI_NAME_FOREIGN)
        return fai_fail(FA_ERR_UNSUPPORTED, u->values->op, "%s holds what Facula does not have, %s (%s)", u->name, known->why,
                        g.full);
    if (known != NULL && known->meaning == FAI_NAME_DTYPE) return push(u, fa_values_dtype(u->values, known->dtype));
    fa_value *v = fa_values_global(u->values, g.module, g.name);
    if (v != NULL) v->as.global.known = known;
    return push(u, v);
}

static bool reduce(fai_unpickler *u, int n) {
    fa_value *arguments = pop(u), *global = arguments == NULL ? NULL : pop(u);
    (void)n;
    if (global == NULL) return false;
    if (global->kind != FA_VALUE_GLOBAL || arguments->kind != FA_VALUE_TUPLE)
        return bad(u, "Trying to call a %s with a %s; only names with a tuple of arguments can be",
                   fa_value_kind_name((fa_value_kind)global->kind), fa_value_kind_name((fa_value_kind)arguments->kind)) != NULL;
    return push(u, global->as.global.known != NULL ? fai_reduce(u, global, arguments)
                                                   : fa_values_object(u->values, global, arguments, false));
}

static bool new_object(fai_unpickler *u, int n) {
    fa_value *arguments = pop(u), *global = arguments == NULL ? NULL : pop(u);
    (void)n;
    if (global == NULL) return false;
    if (global->kind != FA_VALUE_GLOBAL || arguments->kind != FA_VALUE_TUPLE || global->as.global.known != NULL)
        return bad(u, "Trying to make a new object of %s; only of allowed classes it can be made",
                   global->kind == FA_VALUE_GLOBAL ? global->as.global.name : fa_value_kind_name((fa_value_kind)global->kind)) !=
               NULL;
    return push(u, fa_values_object(u->values, global, arguments, true));
}

static bool build(fai_unpickler *u, int n) {
    fa_value *state = pop(u), *v = state == NULL ? NULL : top(u);
    (void)n;
    if (v == NULL) return false;
    if (v->kind == FA_VALUE_OBJECT) return fa_value_set_state(v, state);
    const bool takes = v->kind == FA_VALUE_ORDERED_DICT || v->kind == FA_VALUE_TENSOR || v->kind == FA_VALUE_PARAMETER;
    if (!takes || state->kind != FA_VALUE_DICT)
        return bad(u,
                   "Can only build Tensor, Parameter, OrderedDict or types allowlisted via `add_safe_globals`, but got %s with a "
                   "%s",
                   fa_value_kind_name((fa_value_kind)v->kind), fa_value_kind_name((fa_value_kind)state->kind)) != NULL;
    return fa_value_set_state(v, state);
}

static bool persistent(fai_unpickler *u, int n) {
    fa_value *id = pop(u);
    (void)n;
    return id != NULL && push(u, u->persistent(u, id));
}

static bool stop(fai_unpickler *u, int n) {
    (void)n;
    u->stopped = true;
    return true;
}

static const struct {
    bool (*run)(fai_unpickler *u, int n);
    int n;
} instructions[256] = {
    [0x80] = {protocol, 1},
    ['.'] = {stop, 0},
    ['K'] = {push_int, 1},
    ['M'] = {push_int, 2},
    ['J'] = {push_int, 4},
    [0x8a] = {push_long, 1},
    ['G'] = {push_float, 8},
    ['X'] = {push_text, 4},
    ['U'] = {push_text, 1},
    ['N'] = {push_none, 0},
    [0x88] = {push_bool, 1},
    [0x89] = {push_bool, 0},
    [')'] = {push_empty, FA_VALUE_TUPLE},
    [']'] = {push_empty, FA_VALUE_LIST},
    ['}'] = {push_empty, FA_VALUE_DICT},
    ['('] = {mark, 0},
    ['t'] = {tuple_to_mark, 0},
    [0x85] = {tuple, 1},
    [0x86] = {tuple, 2},
    [0x87] = {tuple, 3},
    ['a'] = {append, 0},
    ['e'] = {appends, 0},
    ['s'] = {set_item, 0},
    ['u'] = {set_items, 0},
    ['q'] = {memo_put, 1},
    ['r'] = {memo_put, 4},
    ['h'] = {memo_get, 1},
    ['j'] = {memo_get, 4},
    ['c'] = {push_global, 0},
    ['R'] = {reduce, 0},
    [0x81] = {new_object, 0},
    ['b'] = {build, 0},
    ['Q'] = {persistent, 0},
};

/* ---- The whole program ---- */

/* Everything below v, once; a storage is only what tensors are made of, and can't stay. */
static bool check(const fai_unpickler *u, fa_value *v, int depth) {
    if (v == NULL || v->seen) return true;
    v->seen = true;
    if (v->kind == FAI_VALUE_STORAGE)
        return fai_fail(FA_ERR_UNSUPPORTED, u->values->op,
                        "%s holds what Facula does not have, a storage without a tensor: save a tensor of it", u->name);
    if (depth == DEEPEST) return bad(u, "values are nested more than %d deep", DEEPEST) != NULL;
    if (v->kind == FA_VALUE_OBJECT && !(check(u, v->as.object.global, depth + 1) && check(u, v->as.object.arguments, depth + 1)))
        return false;
    if (fai_value_is_list(v) || fai_value_is_dict(v)) {
        for (uint32_t i = 0; i < v->as.list.n; i++) {
            if (!check(u, v->as.list.items[i], depth + 1)) return false;
        }
    }
    return check(u, fa_value_state(v), depth + 1);
}

static bool run(fai_unpickler *u) {
    for (uint64_t steps = 1; !u->stopped; steps++) {
        const uint8_t *op = take(u, 1);
        if (op == NULL || (steps % BATCH == 0 && fai_poll(u->values->op))) return false;
        if (instructions[*op].run == NULL) return bad(u, "Unsupported operand %d", *op) != NULL;
        if (!instructions[*op].run(u, instructions[*op].n)) return false;
    }
    return true;
}

fa_value *fai_unpickle(fai_unpickler *u) {
    fa_value *root = run(u) ? pop(u) : NULL;
    if (root != NULL && !check(u, root, 0)) root = NULL;
    fai_free(FAI_TAG_FILE, u->stack, u->stack_room * sizeof *u->stack);
    fai_free(FAI_TAG_FILE, u->memo, u->memo_room * sizeof *u->memo);
    fai_free(FAI_TAG_FILE, u->marks, u->marks_room * sizeof *u->marks);
    return root;
}

/* ---- Names only ---- */

/* Passes over an instruction's operand. */
static bool skip(fai_unpickler *u, uint8_t op) {
    uint32_t bytes = (uint32_t)instructions[op].n;
    bool (*of)(fai_unpickler * u, int n) = instructions[op].run;
    if (of == push_text || of == push_long) return number(u, (int)bytes, &bytes) && take(u, bytes) != NULL;
    if (of == push_int || of == push_float || of == memo_put || of == memo_get || of == protocol) return take(u, bytes) != NULL;
    return true;
}

bool fai_unpickle_list_globals(fai_unpickler *u, fa_value *list) {
    fa_value *seen = fa_values_container(u->values, FA_VALUE_SET);
    for (names g; seen != NULL;) {
        const uint8_t *op = take(u, 1);
        if (op == NULL) return false;
        if (*op == '.') return true;
        if (instructions[*op].run == NULL) return bad(u, "Unsupported operand %d", *op) != NULL;
        if (*op != 'c' && !skip(u, *op)) return false;
        if (*op != 'c') continue;
        if (!take_global(u, &g)) return false;
        if (fai_find_global(g.full) != NULL || (is_safe(u, g.full) && !is_blocked(g.module))) continue;
        fa_value *name = fa_values_text(u->values, g.full);
        int64_t before = fa_value_length(seen);
        if (!fa_value_append(seen, name)) return false;
        if (fa_value_length(seen) > before && !fa_value_append(list, name)) return false;
    }
    return false;
}
