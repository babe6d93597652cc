/* No memory, everywhere: for every operator of the tables (forward, both derivatives, in place), every layer, reader and writer,
 * optimizer, loader and a whole training step, the n-th allocation fails for n = 1, 2, ... until the work gets through; once, and
 * from the n-th on; with FACULA_SIM on the host and on the device. After each failure the error says so, inputs hold the same
 * bits, no memory is left behind, and the same work succeeds.
 *
 *     test_faults [name ...]      only the operators of these names
 *
 * test-env: -
 * test-env: FACULA_SIM=cuda:1
 * test-limit: 300 */
#include "base/base.h"
#include "support/calls.h"
#include "support/faults.h"
#include <glob.h>
#include <unistd.h>

static int argc_, stride = 1;
static char **argv_;
static long scenarios;

static long without; /* scenarios that allocate nothing, so that nothing can fail */

static void run_scenario(const scenario *s) {
    const int ways = sim_faults ? WAYS : DEVICE_ONCE;
    bool seen = false;
    scenarios++;
    for (int way = 0; way < ways; way++) seen = fail_everywhere(s, way) || seen;
    if (seen) return;
    without++;
    if (!s->may_need_none) broken++, printf("FAILED %s: nothing was allocated, so nothing failed\n", s->name);
}

/* ---- operators ---- */

typedef struct op_work {
    const golden_case *c;
    const golden_call *call;
    fa_dtype type;
    char layout;
    bool in_place;
    fa_tensor *inputs[GOLDEN_MAX_TENSORS], *leaf, *results[GOLDEN_MAX_TENSORS + 1];
    int nresults;
    bits before, reference; /* of the inputs; of the results when nothing failed */
    bool no_derivative;     /* in place: the derivative reads the old value */
    bool changed;           /* the call itself has succeeded: what it changes is changed */
} op_work;

static bool differentiable(const op_work *w, int i) {
    for (int k = 0; k < w->c->nfirst; k++)
        if (w->c->first[k].at == i) return w->type == FA_FLOAT32 || w->type == FA_FLOAT64;
    return false;
}

static bool op_begin(void *data) {
    op_work *w = data;
    w->changed = false;
    w->nresults = 0;
    w->before.n = 0;
    w->leaf = NULL;
    for (int i = 0; i < w->c->ntensors; i++) {
        w->inputs[i] = w->c->tensors[i].null ? NULL : golden_input(w->c, i, w->type, w->layout, device);
        if (!w->inputs[i] && !w->c->tensors[i].null) return false;
        if (w->inputs[i] && differentiable(w, i) && !fa_requires_grad(w->inputs[i], true)) return false;
    }
    if (w->in_place) { /* of a tensor that is no leaf */
        w->leaf = w->inputs[0];
        if (!(w->inputs[0] = fa_clone(w->leaf))) return false;
    }
    bits_take(&w->before, w->inputs, w->c->ntensors);
    return fa_synchronize(device);
}

static bool derive_again(fa_tensor *const *inputs, int n, fa_tensor *const *grads) {
    fa_tensor *outputs[GOLDEN_MAX_TENSORS], *weights[GOLDEN_MAX_TENSORS], *second[GOLDEN_MAX_TENSORS];
    int m = 0;
    for (int k = 0; k < n; k++) {
        if (!grads[k] || !fa_is_requires_grad(grads[k])) continue;
        outputs[m] = grads[k];
        if (!(weights[m++] = fa_ones_like(grads[k]))) return false;
    }
    return m == 0 || fa_grad_of(outputs, m, inputs, n, second, .grad_outputs = weights, .allow_unused = true);
}

static bool op_work_(void *data) {
    op_work *w = data;
    fa_tensor *second = NULL, *inputs[GOLDEN_MAX_TENSORS], *grads[GOLDEN_MAX_TENSORS];
    int n = 0;
    fa_tensor *out = golden_run(w->c, w->call, w->type, device, w->inputs, &second);
    if (!out) return false;
    w->changed = true;
    w->results[0] = fai_ref(out);
    w->nresults = 1;
    for (int i = 0; i < w->c->ntensors; i++)
        if (w->inputs[i] && differentiable(w, i)) inputs[n++] = i == 0 && w->leaf ? w->leaf : w->inputs[i];
    if (n == 0 || w->no_derivative || !fa_is_requires_grad(out)) return fa_synchronize(device);
    const bool twice = w->c->nsecond > 0 && w->type == FA_FLOAT64;
    fa_tensor *weights = fa_ones_like(out);
    if (!weights || !fa_grad_of(&out, 1, inputs, n, grads, .grad_outputs = &weights, .create_graph = twice, .allow_unused = true))
        return false;
    for (int i = 0; i < n; i++) w->results[w->nresults++] = fai_ref(grads[i]);
    return (!twice || derive_again(inputs, n, grads)) && fa_synchronize(device);
}

static const char *op_damage(void *data) {
    static char text[64];
    op_work *w = data;
    const bool writes = w->in_place || w->c->nchanges > 0;
    const int where = writes && w->changed ? -1 : bits_differ(&w->before, w->inputs);
    snprintf(text, sizeof text, "input %d holds other bits", where);
    return where < 0 ? NULL : text;
}

/* Who does without some memory (a copy that would have been faster) comes to the same bits. */
static const char *op_result(void *data) {
    op_work *w = data;
    if (w->reference.n == 0) bits_take(&w->reference, w->results, w->nresults);
    return bits_differ(&w->reference, w->results) >= 0 ? "other bits than without a failure" : NULL;
}

static void op_end(void *data) {
    op_work *w = data;
    bits_free(&w->before);
    for (int i = 0; i < w->nresults; i++) fai_unref(w->results[i]);
    w->nresults = 0;
}

static void run_op(const golden_case *c, const golden_call *call, fa_dtype type, char layout, bool in_place) {
    char name[96];
    op_work w = {.c = c, .call = call, .type = type, .layout = layout, .in_place = in_place};
    snprintf(name, sizeof name, "%s (line %d) %s layout %c", call->name, c->line, type ? fa_dtype_name(type) : "-", layout);
    if (in_place) {
        FA_SCOPE;
        if (op_begin(&w) && !op_work_(&w))
            w.no_derivative = strstr(fa_error_take().text, "modified by an inplace operation") != NULL;
        op_end(&w);
    }
    const scenario s = {.name = name,
                        .begin = op_begin,
                        .work = op_work_,
                        .end = op_end,
                        .damage = op_damage,
                        .result = c->bits ? op_result : NULL,
                        .data = &w,
                        .may_need_none = in_place || c->op[strlen(c->op) - 1] == '_' || strcmp(call->name, "contiguous") == 0 ||
                                         strstr(call->name, "dropout") != NULL}; /* x itself where nothing is dropped */
    run_scenario(&s);
    bits_free(&w.reference);
}

static bool wanted(const char *op) {
    for (int i = 1; i < argc_; i++)
        if (strcmp(argv_[i], op) == 0) return true;
    return argc_ < 2;
}

static unsigned char covered[2048];
static void cover(const char *name) {
    for (int i = 0; i < golden_call_count() && i < (int)sizeof covered; i++)
        if (strcmp(golden_call_at(i)->name, name) == 0) covered[i] = 1;
}

/* Of each operator three cases in their first type on the CPU, in one layout that is not contiguous, too; on a device one, because
 * each failure there costs many times as much. */
static void run_case(const golden_case *c, int number, const golden_call *call) {
    char in_place[64];
    const bool on_cpu = device.type == FA_DEVICE_CPU, twice = c->ntypes > 1 && c->nsecond > 0 && c->types[1] == FA_FLOAT64;
    if (number >= (on_cpu ? 3 : 1)) return;
    const char first = c->layouts[0], last = c->layouts[strlen(c->layouts) - 1];
    run_op(c, call, c->types[0], first, false);
    if (last != first && on_cpu)
        run_op(c, call, c->types[twice ? 1 : 0], last, false);
    else if (twice && on_cpu)
        run_op(c, call, c->types[1], first, false);
    cover(c->op);
    if (!golden_in_place(c, 0, in_place) || first == 'e') return;
    run_op(c, golden_find_call(in_place), c->types[0], first, true);
    cover(in_place);
}

/* What PyTorch refuses is no work that could succeed. */
static void operators_of(const char *path, int *ops) {
    static golden_case c;
    golden_file file;
    char last[48] = "";
    int number = 0;
    if (!golden_open(&file, path)) {
        broken++;
        printf("FAILED %s can't be read\n", path);
        return;
    }
    for (; golden_next(&file, &c); golden_free(&c)) {
        if (c.refused) continue;
        if (strcmp(last, c.op) != 0) number = 0, ++*ops;
        snprintf(last, sizeof last, "%s", c.op);
        const golden_call *call = golden_find_call(c.op);
        if (call && wanted(c.op) && *ops % stride == 0) run_case(&c, number, call);
        number++;
    }
    golden_free(&c);
    golden_close(&file);
}

static void every_operator(void) {
    glob_t files;
    int ops = 0, left = 0;
    if (glob("tests/golden/*.golden.gz", 0, NULL, &files) != 0) {
        broken++;
        printf("FAILED no tests/golden/*.golden.gz: run from the root of the source\n");
        return;
    }
    for (size_t i = 0; i < files.gl_pathc; i++) operators_of(files.gl_pathv[i], &ops);
    globfree(&files);
    if (argc_ > 1 || stride > 1) return;
    for (int i = 0; i < golden_call_count(); i++) left += !covered[i];
    printf("%d of %d operators have a case\n", golden_call_count() - left, golden_call_count());
}

/* ---- modules, state, optimizers ---- */

static bool make_modules(void *data) {
    (void)data;
    fa_module *all[] = {fa_nn_linear(3, 4),    fa_nn_conv2d(2, 4, 3, .padding = FA_DIMS(1)),
                        fa_nn_batch_norm1d(4), fa_nn_batch_norm2d(4),
                        fa_nn_layer_norm(4),   fa_nn_embedding(5, 3, .padding_idx = 1),
                        fa_nn_dropout(0.5),    fa_nn_max_pool2d(2),
                        fa_nn_avg_pool2d(2),   fa_nn_flatten(),
                        fa_nn_gelu(),          fa_nn_softmax(1)};
    fa_module *net = fa_sequential_of(all, (int)(sizeof all / sizeof *all));
    fa_module *list = fa_module_list(net, fa_nn_relu());
    char text[200];
    return list && fa_module_to(list, device) && fa_state_dict(list) && fa_module_to_text(list, text, sizeof text) > 0 &&
           fa_synchronize(device) && !fa_failed();
}

typedef struct training {
    fa_module *net;
    fa_optimizer *optimizer;
    fa_loader *loader;
    fa_scheduler *scheduler;
    fa_tensor *x, *y, *parameters[BITS_MOST];
    int nparameters;
    bits before;
    bool stepped;
} training;

static fa_module *make_cnn(void) {
    return fa_sequential(fa_nn_conv2d(1, 4, 3, .padding = FA_DIMS(1)), fa_nn_batch_norm2d(4), fa_nn_relu(), fa_nn_max_pool2d(2),
                         fa_nn_flatten(), fa_nn_dropout(0.25), fa_nn_linear(64, 10));
}

static bool make_training(training *t) {
    memset(t, 0, sizeof *t);
    fa_manual_seed(3);
    t->net = make_cnn();
    if (!fa_module_to(t->net, device)) return false;
    t->optimizer = fa_adamw(t->net, .lr = 1e-3);
    t->scheduler = fa_cosine_lr(t->optimizer, 10, 0);
    t->x = fa_to(fa_rand(FA_SHAPE(8, 1, 8, 8)), device);
    t->y = fa_to(fa_randint(0, 10, FA_SHAPE(8)), device);
    t->loader = fa_loader(fa_tensor_dataset(t->x, t->y), .batch_size = 4, .shuffle = true);
    t->nparameters = fa_parameters(t->net, t->parameters, NULL, BITS_MOST);
    return t->loader && t->scheduler && t->nparameters > 0 && !fa_failed();
}

/* One epoch of two batches. */
static bool train(void *data) {
    training *t = data;
    for (;;) {
        FA_SCOPE;
        fa_tensor *batch[2];
        if (!fa_next(t->loader, batch)) break;
        fa_tensor *loss = fa_cross_entropy(fa_call(t->net, batch[0]), batch[1]);
        fa_zero_grad(t->optimizer);
        fa_backward(loss);
        fa_clip_grad_norm(t->parameters, t->nparameters, 1.0, 2.0);
        fa_step(t->optimizer);
        (void)fa_item(loss);
        if (fa_failed()) break;
    }
    if (!fa_failed()) fa_schedule_step(t->scheduler);
    return fa_synchronize(device) && !fa_failed();
}

/* The loader stands in the middle of an epoch after a failure: let it come to the end. */
static void end_of_epoch(void *data) {
    training *t = data;
    fa_tensor *batch[2];
    FA_SCOPE;
    while (fa_next(t->loader, batch)) {}
    fa_zero_grad(t->optimizer);
}

static bool begin_step(void *data) {
    training *t = data;
    fa_zero_grad(t->optimizer);
    fa_backward(fa_cross_entropy(fa_call(t->net, t->x), t->y));
    bits_take(&t->before, t->parameters, t->nparameters);
    t->stepped = false;
    return !fa_failed();
}
static bool step(void *data) {
    training *t = data;
    t->stepped = fa_step(t->optimizer);
    return t->stepped && fa_synchronize(device);
}
static void end_step(void *data) {
    training *t = data;
    fa_zero_grad(t->optimizer);
    bits_free(&t->before);
}
static const char *step_damage(void *data) {
    training *t = data;
    return !t->stepped && bits_differ(&t->before, t->parameters) >= 0 ? "a step that failed changed parameters" : NULL;
}

/* New optimizers of every kind, their first step, their state out and in. */
static bool optimizers(void *data) {
    training *t = data;
    fa_optimizer *all[] = {fa_sgd(t->net, .lr = 0), fa_sgd(t->net, .lr = 0, .momentum = 0.9, .nesterov = true),
                           fa_adam(t->net, .lr = 0), fa_adamw(t->net, .lr = 0, .amsgrad = true)};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (!fa_step(all[i])) return false;
        fa_tensors *state = fa_optimizer_state(all[i]);
        if (!state || !fa_load_optimizer_state(all[i], state)) return false;
    }
    fa_scheduler *schedulers[] = {fa_step_lr(all[0], 2, 0.5), fa_exponential_lr(all[1], 0.9), fa_cosine_lr(all[2], 5, 0)};
    for (int i = 0; i < 3; i++)
        if (!fa_schedule_step(schedulers[i])) return false;
    return fa_synchronize(device);
}

/* ---- files ---- */

static char folder[64];
static const char *in_folder(const char *name) {
    static char path[4][128];
    static int at;
    char *p = path[at++ % 4];
    snprintf(p, sizeof path[0], "%s/%s", folder, name);
    return p;
}

typedef struct files {
    fa_tensors *tensors;
    fa_tensor *one;
    fa_module *net;
    bits before;
    fa_tensor *held[BITS_MOST];
    int nheld;
} files;

static bool make_files(files *f) {
    memset(f, 0, sizeof *f);
    f->one = fa_to(fa_transpose(fa_randn(FA_SHAPE(5, 7)), 0, 1), device);
    f->tensors = fa_tensors_new();
    fa_tensors_add(f->tensors, "a.b", f->one);
    fa_tensors_add(f->tensors, "half", fa_cast(f->one, FA_FLOAT16));
    fa_tensors_add(f->tensors, "whole", fa_to(fa_arange(0, 100, 1), device));
    fa_tensors_set_note(f->tensors, "format", "pt");
    f->net = make_cnn();
    fa_module_to(f->net, device);
    f->nheld = fa_parameters(f->net, f->held, NULL, BITS_MOST);
    FILE *csv = fopen(in_folder("numbers.csv"), "w");
    if (!csv) return false;
    for (int i = 0; i < 40; i++) fprintf(csv, "%d,%d.5,%d\n", i, i * 3, -i);
    return fclose(csv) == 0 && !fa_failed();
}

static bool save_npy(void *data) { return fa_save_npy(in_folder("one.npy"), ((files *)data)->one); }
static bool save_npz(void *data) { return fa_save_npz(in_folder("all.npz"), ((files *)data)->tensors); }
static bool save_packed(void *data) { return fa_save_npz(in_folder("packed.npz"), ((files *)data)->tensors, .compressed = true); }
static bool save_safetensors(void *data) { return fa_save_safetensors(in_folder("all.safetensors"), ((files *)data)->tensors); }
static bool save_module(void *data) { return fa_save_module(in_folder("net.safetensors"), ((files *)data)->net); }

static bool load_npy(void *data) { return (void)data, fa_load_npy(in_folder("one.npy"), .device = device) != NULL; }
static bool load_npz(void *data) { return (void)data, fa_load_npz(in_folder("all.npz"), .device = device) != NULL; }
static bool load_packed(void *data) { return (void)data, fa_load_npz(in_folder("packed.npz"), .device = device) != NULL; }
static bool load_safetensors(void *data) {
    return (void)data, fa_load_safetensors(in_folder("all.safetensors"), .device = device) != NULL;
}
static bool load_csv(void *data) { return (void)data, fa_load_csv(in_folder("numbers.csv"), .device = device) != NULL; }
static bool load_module(void *data) { return fa_load_module(in_folder("net.safetensors"), ((files *)data)->net); }
static bool load_state(void *data) {
    files *f = data;
    return fa_load_state_dict(f->net, fa_state_dict(f->net), true);
}

/* A save that fails leaves the old files as they were: they all load still. */
static const char *files_damage(void *data) {
    FA_SCOPE;
    const bool ok = load_npy(data) && load_npz(data) && load_packed(data) && load_safetensors(data);
    fa_error_take();
    return ok ? NULL : "an old file does not load any more";
}
static bool begin_load(void *data) {
    files *f = data;
    bits_take(&f->before, f->held, f->nheld);
    return true;
}
static void end_load(void *data) { bits_free(&((files *)data)->before); }
static const char *load_damage(void *data) {
    files *f = data;
    return bits_differ(&f->before, f->held) >= 0 ? "a load that failed changed the module" : NULL;
}

/* ---- the rest of the house ---- */

static bool print(void *data) {
    char text[2000];
    files *f = data;
    return fa_to_text(f->one, text, sizeof text) > 0 && !fa_failed();
}

static bool make_random(void *data) {
    (void)data;
    FA_DEVICE_SCOPE(device);
    fa_generator *g = fa_generator_new(device);
    if (!g) return false;
    fa_tensor *all[] = {fa_rand(FA_SHAPE(3, 3), .generator = g), fa_randn(FA_SHAPE(40)),
                        fa_randint(0, 9, FA_SHAPE(4)),           fa_randperm(10),
                        fa_full_like(fa_floats(1, 2), 3),        fa_eye(3, 4)};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!all[i]) return false;
    return fa_synchronize(device);
}

static fa_tensor *twice_forward(fa_context *context, fa_tensor *const *inputs, int n, void *data) {
    (void)n, (void)data;
    return fa_save_for_backward(context, inputs[0]) ? fa_mul(inputs[0], inputs[0]) : NULL;
}
static bool twice_backward(fa_context *context, fa_tensor *grad, fa_tensor **grads, int n, void *data) {
    (void)n, (void)data;
    grads[0] = fa_mul_scalar(fa_mul(grad, fa_saved(context, 0)), FA_NUM(2));
    return grads[0] != NULL;
}
static fa_tensor *halve(fa_tensor *grad, void *data) { return (void)data, fa_mul_scalar(grad, FA_NUM(0.5)); }

/* Hooks, a custom function, views written in place, a retained gradient, accumulation, twice through the same graph. */
static bool graph(void *data) {
    static const fa_function square = {.name = "Square", .forward = twice_forward, .backward = twice_backward};
    (void)data;
    fa_tensor *x = fa_rand(FA_SHAPE(4, 4), .device = device, .requires_grad = true);
    fa_tensor *y = fa_apply(&square, &x, 1, NULL), *z = fa_exp(y);
    if (!y || !z || !fa_retain_grad(z) || !fa_register_hook(y, halve, NULL, NULL)) return false;
    fa_tensor *w = fa_clone(z), *row = fa_select(w, 0, 1);
    if (!fa_mul_(row, fa_select(z, 0, 2)) || !fa_add_scalar_(w, FA_NUM(1))) return false;
    fa_tensor *loss = fa_sum(fa_mul(w, z)), *all[] = {x};
    const bool twice =
        fa_backward(loss, .retain_graph = true) && fa_backward(loss, .create_graph = true, .inputs = all, .ninputs = 1);
    const bool ok = twice && fa_sum(fa_grad(x)) && fa_synchronize(device);
    return fa_set_grad(x, NULL) && fa_set_grad(z, NULL) &&
           ok; /* gradients that can be derived again hold what they are gradients of */
}

static bool get_sample(void *data, int64_t i, fa_tensor **fields) {
    (void)data;
    fields[0] = fa_full(FA_SHAPE(3), (double)i);
    return fields[0] != NULL;
}
static bool load_from_callback(void *data) {
    (void)data;
    fa_dataset *d = fa_dataset_from(10, 1, get_sample, NULL, NULL);
    fa_loader *l = fa_loader(fa_dataset_subset(d, fa_ints(1, 3, 5, 7, 9)), .batch_size = 2, .shuffle = true);
    fa_tensor *batch;
    int n = 0;
    while (l && fa_next(l, &batch)) n++;
    return n == 3 && !fa_failed();
}

static void run_plain(const char *name, bool (*work)(void *), void *data, const char *(*damage)(void *)) {
    const scenario s = {.name = name, .work = work, .data = data, .damage = damage};
    if (wanted(name)) run_scenario(&s);
}

static void everything_else(void) {
    FA_SCOPE;
    training t;
    files f;
    if (!make_training(&t) || !make_files(&f)) {
        broken++;
        printf("FAILED making what the scenarios need: %s\n", fa_error_take().text);
        return;
    }
    run_plain("modules", make_modules, NULL, NULL);
    run_plain("save_npy", save_npy, &f, NULL);
    run_plain("save_npz", save_npz, &f, NULL);
    run_plain("save_packed", save_packed, &f, NULL);
    run_plain("save_safetensors", save_safetensors, &f, NULL);
    run_plain("save_again", save_safetensors, &f, files_damage);
    run_plain("save_module", save_module, &f, NULL);
    run_plain("load_npy", load_npy, &f, NULL);
    run_plain("load_npz", load_npz, &f, NULL);
    run_plain("load_packed", load_packed, &f, NULL);
    run_plain("load_safetensors", load_safetensors, &f, NULL);
    run_plain("load_csv", load_csv, &f, NULL);
    const scenario loads[] = {
        {.name = "load_module", .begin = begin_load, .work = load_module, .end = end_load, .damage = load_damage, .data = &f},
        {.name = "load_state", .begin = begin_load, .work = load_state, .end = end_load, .damage = load_damage, .data = &f},
        {.name = "step",
         .may_need_none = true,
         .begin = begin_step,
         .work = step,
         .end = end_step,
         .damage = step_damage,
         .data = &t},
        {.name = "optimizers", .begin = begin_step, .work = optimizers, .end = end_step, .damage = step_damage, .data = &t},
        {.name = "training", .work = train, .end = end_of_epoch, .data = &t},
    };
    for (size_t i = 0; i < sizeof loads / sizeof *loads; i++)
        if (wanted(loads[i].name)) run_scenario(&loads[i]);
    run_plain("print", print, &f, NULL);
    run_plain("random", make_random, NULL, NULL);
    run_plain("graph", graph, NULL, NULL);
    run_plain("load_from_callback", load_from_callback, NULL, NULL);
}

static void remove_folder(void) {
    static const char *const names[] = {"one.npy", "all.npz", "packed.npz", "all.safetensors", "net.safetensors", "numbers.csv"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) remove(in_folder(names[i]));
    if (rmdir(folder)) broken++, printf("FAILED files are left in %s\n", folder);
}

int main(int argc, char **argv) {
    argc_ = argc, argv_ = argv;
    find_simulator();
    snprintf(folder, sizeof folder, "/tmp/facula_faults_XXXXXX");
    if (!mkdtemp(folder)) return printf("no folder in /tmp\n"), 1;
    fa_test_caches(false);
    everything_else();
    every_operator();
    remove_folder();
    fa_test_caches(true);
    broken += fa_finish("test_faults");
    printf("%ld failures injected in %ld scenarios (%ld more allocate nothing); %ld of them did no harm\n", injected,
           scenarios - without, without, survived);
    printf("%ld passed, %ld failed\n", scenarios > broken ? scenarios - broken : 0, broken);
    return broken > 0 || scenarios == 0;
}
