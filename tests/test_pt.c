/* PyTorch's checkpoints: files of PyTorch read and written again byte for byte, round trips through memory, hostile files
 * (tests/corpus/pt, made by tests/corpus/make_pt.py) and some thousand random changes of them, no memory, no disk.
 *
 *     test_pt copy IN OUT      reads a checkpoint and writes it again, for tests/test_pt_torch.py
 *
 * test-env: -
 * test-env: FACULA_SIM=cuda:2
 * test-limit: 300 */
#include "support/faults.h"
#include "support/value_text.h"
#include "io/io.h"
#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LIMIT = 8 << 20, CHANGES = 30000 };
static char folder[64];

static const char *at(const char *name) {
    static char path[4][600];
    static int turn;
    char *out = path[turn++ % 4];
    snprintf(out, sizeof path[0], "%s/%s", folder, name);
    return out;
}

static int begin(void **state) {
    (void)state;
    find_simulator();
    fa_scope_open();
    return 0;
}

static int end(void **state) {
    (void)state;
    fa_scope_close();
    if (fa_failed()) fprintf(stderr, "left over: %s\n", fa_error_peek()->text);
    return fa_error_take().code == FA_OK ? 0 : -1;
}

static int make_folder(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "%s/facula_pt_XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    return mkdtemp(folder) == NULL ? -1 : 0;
}

static int remove_folder(void **state) {
    (void)state;
    DIR *d = opendir(folder);
    for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;)
        if (e->d_name[0] != '.') unlinkat(dirfd(d), e->d_name, 0);
    if (d != NULL) closedir(d);
    return rmdir(folder);
}

typedef struct bytes {
    unsigned char *data;
    size_t n, room;
} bytes;

static bytes read_file(const char *path) {
    struct stat info;
    FILE *f = fopen(path, "rb");
    if (f == NULL || fstat(fileno(f), &info) != 0) fail_msg("%s: %s", path, strerror(errno));
    bytes b = {malloc((size_t)info.st_size + 1), (size_t)info.st_size, (size_t)info.st_size};
    assert_int_equal(fread(b.data, 1, b.n, f), b.n);
    b.data[b.n] = 0;
    fclose(f);
    return b;
}

static bool collect(void *context, const void *data, size_t n) {
    bytes *b = context;
    if (b->n + n > b->room) b->data = realloc(b->data, b->room = 2 * (b->n + n));
    memcpy(b->data + b->n, data, n);
    b->n += n;
    return true;
}

static fa_values *load_bytes(const void *data, size_t n) {
    const fa_reader reader = fa_reader_of_memory(data, n);
    const fa_pt_options options = {.struct_size = sizeof options, .limit = LIMIT, .device = FA_CPU};
    return fa_load_pt_from(&reader, &options);
}

static bytes save_bytes(const fa_value *root) {
    bytes b = {0};
    const fa_writer writer = {&b, collect};
    if (!fa_save_pt_to(&writer, root)) fail_msg("%s", fa_error_peek()->text);
    return b;
}

static void assert_text(const fa_value *v, const char *expected) {
    fai_text text = v == NULL ? (fai_text){0} : text_of_value(v);
    if (text.data == NULL || strcmp(text.data, expected) != 0)
        fail_msg("found    %s\nexpected %s\n%s", text.data == NULL ? "nothing" : text.data, expected,
                 fa_failed() ? fa_error_peek()->text : "");
    fai_text_free(&text);
}

#define assert_error(want_code, want_text)                                                                                       \
    do {                                                                                                                         \
        const fa_error e_ = fa_error_take();                                                                                     \
        if (e_.code != (want_code) || strstr(e_.text, (want_text)) == NULL)                                                      \
            fail_msg("error %d of %s: %s", (int)e_.code, e_.op, e_.text);                                                        \
    } while (0)

/* ---- PyTorch's own files ---- */

static void same_archive(const bytes *a, const bytes *b) {
    static const char id[] = "/.data/serialization_id";
    size_t same = 0;
    while (same + sizeof id < a->n && memcmp(a->data + same, id, strlen(id)) != 0) same++;
    assert_true(same + sizeof id < a->n);
    assert_int_equal(a->n, b->n);
    for (size_t i = 0; i < same; i++)
        if (a->data[i] != b->data[i]) fail_msg("byte %zu of %zu is %02x, PyTorch wrote %02x", i, same, b->data[i], a->data[i]);
}

static void pytorchs_files(void **state) {
    (void)state;
    static const char *const names[] = {"values", "tensors", "checkpoint", "parameters"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        FA_SCOPE;
        char path[100], name[100];
        snprintf(path, sizeof path, "tests/golden/pt/%s.pt", names[i]);
        snprintf(name, sizeof name, "%s.pt", names[i]); /* the folder in the archive has the file's name */
        fa_values *v = fa_load_pt(path, .device = FA_CPU);
        bytes theirs = read_file(path);
        snprintf(path, sizeof path, "tests/golden/pt/%s.txt", names[i]);
        bytes text = read_file(path);
        text.data[text.n - 1] = 0;
        assert_text(fa_values_root(v), (const char *)text.data);
        assert_true(fa_save_pt(at(name), fa_values_root(v)));
        bytes ours = read_file(at(name));
        same_archive(&theirs, &ours);
        assert_text(fa_values_root(fa_load_pt(at(name))), (const char *)text.data);
        free(text.data), free(theirs.data), free(ours.data);
    }
}

static void the_documents_way(void **state) {
    (void)state;
    fa_values *c = fa_load_pt("tests/golden/pt/checkpoint.pt");
    const fa_value *root = fa_values_root(c);
    assert_int_equal(fa_value_int(fa_value_get(root, "epoch")), 5);
    assert_true(fa_value_float(fa_value_get(root, "loss")) == 0.25);
    fa_module *net = fa_sequential(fa_nn_linear(3, 4), fa_nn_batch_norm1d(4), fa_nn_relu(), fa_nn_linear(4, 2));
    assert_true(fa_load_state_dict(net, fa_value_tensors(fa_value_get(root, "model")), true));
    assert_true(fa_item(fa_sum(fa_ne(fa_get_parameter(net, "0.weight"),
                                     fa_value_tensor(fa_value_get(fa_value_get(root, "model"), "0.weight"))))) == 0);
    assert_null(fa_value_get(root, "optimizer"));
    assert_error(FA_ERR_KEY, "'optimizer': there is no such key among 6; there are: \"epoch\", \"loss\", \"model\"");
    assert_null(fa_load("tests/golden/pt/checkpoint.pt"));
    assert_error(FA_ERR_TYPE, "\"epoch\" is of type int, no tensor: this is no state dict; if one lies in it");
}

static void modules_and_tensors_by_ending(void **state) {
    (void)state;
    fa_module *net = fa_sequential(fa_nn_linear(3, 4), fa_nn_batch_norm1d(4)),
              *other = fa_sequential(fa_nn_linear(3, 4), fa_nn_batch_norm1d(4));
    assert_true(fa_module_to(net, device));
    for (int i = 0; i < 4; i++) {
        static const char *const names[] = {"net.pt", "net.pth", "net.safetensors", "net.npz"};
        assert_true(fa_save_module(at(names[i]), net) && fa_load_module(at(names[i]), other));
        fa_tensors *state_dict = fa_load(at(names[i]), .device = device);
        assert_int_equal(fa_tensors_count(state_dict), 7);
        fa_tensor *weight = fa_tensors_get(state_dict, "0.weight");
        assert_true(fa_device_equal(fa_device_of(weight), fa_device_of(fa_get_parameter(net, "0.weight"))));
        assert_true(fa_item(fa_sum(fa_ne(weight, fa_get_parameter(net, "0.weight")))) == 0);
        assert_true(fa_save(at(names[i]), state_dict));
    }
    assert_false(fa_save("net.bin", fa_state_dict(net)));
    assert_error(FA_ERR_VALUE, "the ending must be .pt, .pth, .safetensors or .npz");
    assert_false(fa_save("net.pt", NULL));
    assert_error(FA_ERR_VALUE, "tensors is NULL; make them by fa_tensors_new");
}

/* PyTorch's state of an optimizer goes in, and comes out as it was; the next step is PyTorch's too. */
static void optimizers_state(void **state) {
    (void)state;
    const fa_value *root = fa_values_root(fa_load_pt("tests/golden/pt/checkpoint.pt", .device = FA_CPU));
    fa_module *net = fa_sequential(fa_nn_linear(3, 4), fa_nn_batch_norm1d(4), fa_nn_relu(), fa_nn_linear(4, 2));
    fa_optimizer *adam = fa_adam(net), *sgd = fa_sgd(net, .momentum = 0.5);
    fa_values *values = fa_values_new();
    for (int i = 0; i < 2; i++) {
        fa_value *theirs = fa_value_get(root, i == 0 ? "adam" : "sgd");
        fai_text text = text_of_value(theirs);
        assert_true(fa_load_optimizer_value(i == 0 ? adam : sgd, theirs));
        assert_text(fa_optimizer_value(values, i == 0 ? adam : sgd), text.data);
        fai_text_free(&text);
    }
    assert_true(fa_get_option(sgd, 0, "momentum") == 0.9 && fa_get_option(adam, 0, "lr") == 0.01);
    assert_false(fa_load_optimizer_value(adam, fa_value_get(root, "sgd")));
    assert_error(FA_ERR_VALUE, "\"betas\" is no tuple of two numbers: this is no state of an optimizer as torch.optim or");
    assert_false(fa_load_optimizer_value(adam, root));
    assert_error(FA_ERR_VALUE, "there are no \"state\" and \"param_groups\": this is no state of an optimizer");
    assert_true(fa_get_option(adam, 0, "lr") == 0.01);
}

/* ---- Values of our own ---- */

static fa_value *sample(fa_values *s) {
    fa_value *root = fa_values_container(s, FA_VALUE_DICT), *list = fa_values_container(s, FA_VALUE_LIST);
    fa_tensor *base = fa_reshape(fa_arange(0, 24, 1, .dtype = FA_FLOAT32), FA_SHAPE(4, 6));
    fa_value *tensor = fa_values_tensor(s, base);
    fa_value_set(root, "list", list);
    fa_value_append(list, list);
    fa_value_append(list, root);
    fa_value_append(list, tensor);
    fa_value_append(list, fa_values_tensor(s, fa_transpose(base, 0, 1)));
    fa_value_append(list, tensor);
    fa_value_append(list, fa_values_tensor(s, fa_to(base, device)));
    fa_value_set(root, "again", list);
    fa_value *object = fa_values_object(s, fa_values_global(s, "my.models", "Net"), fa_values_container(s, FA_VALUE_TUPLE), true);
    fa_value_set_state(object, fa_values_container(s, FA_VALUE_DICT));
    fa_value_set(fa_value_state(object), "depth", fa_values_int(s, 3));
    fa_value_set(root, "object", object);
    fa_value_set(root, "class", fa_value_class(object));
    fa_value_set(root, "empty", fa_values_bytes(s, FA_VALUE_BYTES, "", 0));
    fa_value_put(root, fa_values_bool(s, true), fa_values_text_of(s, "a\0b", 3));
    return root;
}

static const char *const allowed[] = {"my.models.Net"};

static void sharing_and_circles(void **state) {
    (void)state;
    fa_value *root = sample(fa_values_new());
    bytes first = save_bytes(root);
    const fa_reader reader = fa_reader_of_memory(first.data, first.n);
    const fa_pt_options options = {.struct_size = sizeof options, .safe_globals = allowed, .nsafe_globals = 1};
    const fa_value *back = fa_values_root(fa_load_pt_from(&reader, &options));
    fai_text text = text_of_value(root);
    assert_text(back, text.data);
    const fa_value *list = fa_value_get(back, "list");
    assert_ptr_equal(list, fa_value_item(list, 0));
    assert_ptr_equal(back, fa_value_item(list, 1));
    assert_ptr_equal(fa_value_item(list, 2), fa_value_item(list, 4));
    assert_ptr_equal(fa_value_tensor(fa_value_item(list, 2))->buffer, fa_value_tensor(fa_value_item(list, 3))->buffer);
    assert_true(fa_device_equal(fa_device_of(fa_value_tensor(fa_value_item(list, 5))),
                                fa_device_of(fa_to(fa_ones(FA_SHAPE(1)), device))));
    assert_true(fa_value_look_up(back, fa_value_key(back, -1)) == fa_value_item(back, -1));
    bytes second = save_bytes(back);
    assert_int_equal(first.n, second.n);
    assert_memory_equal(first.data, second.data, first.n); /* the same values make the same file */
    free(first.data), free(second.data);
    fai_text_free(&text);
}

static bool to_device_1(void *context, const char *location, fa_device *to) {
    ++*(int *)context;
    if (strncmp(location, "cuda", 4) == 0) *to = FA_CUDA(1);
    return true;
}
static bool unwilling(void *context, const char *location, fa_device *to) {
    return (void)context, (void)location, (void)to, false;
}

static void places(void **state) {
    (void)state;
    int asked = 0;
    const bytes file = read_file("tests/corpus/pt/other_place.pt"); /* saved from cuda:7 */
    const fa_reader reader = fa_reader_of_memory(file.data, file.n);
    fa_pt_options options = {.struct_size = sizeof options};
    assert_null(fa_load_pt_from(&reader, &options));
    if (fa_device_count(FA_DEVICE_CUDA) == 0)
        assert_error(
            FA_ERR_RUNTIME,
            "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False. If you are running");
    else
        assert_error(
            FA_ERR_RUNTIME,
            "Attempting to deserialize object on CUDA device 7 but torch.cuda.device_count() is 2. Please use torch.load");
    options.device = FA_CPU;
    assert_true(fa_item(fa_sum(fa_value_tensor(fa_values_root(fa_load_pt_from(&reader, &options))))) == 10);
    options = (fa_pt_options){.struct_size = sizeof options, .map_location = to_device_1, .context = &asked};
    fa_tensor *t = fa_value_tensor(fa_values_root(fa_load_pt_from(&reader, &options)));
    if (fa_device_count(FA_DEVICE_CUDA) == 0)
        assert_int_equal(fa_error_take().code, FA_ERR_RUNTIME);
    else
        assert_true(fa_device_equal(fa_device_of(t), FA_CUDA(1)) && fa_item(fa_sum(t)) == 10);
    assert_int_equal(asked, 1);
    assert_null(fa_load_pt("tests/corpus/pt/tag.pt"));
    assert_error(FA_ERR_RUNTIME,
                 "don't know how to restore data location of torch.storage.UntypedStorage (tagged with foo); say where it goes");
    options.map_location = unwilling;
    assert_null(fa_load_pt_from(&reader, &options));
    assert_error(FA_ERR_FOREIGN, "map_location failed for \"cuda:7\"");
    free(file.data);
}

static void names_that_are_refused(void **state) {
    (void)state;
    fa_values *v = fa_pt_unsafe_globals("tests/corpus/pt/module.pt", NULL);
    assert_text(fa_values_root(v), "list(\"torch.nn.modules.linear.Linear\")");
    static const char *const linear[] = {"torch.nn.modules.linear.Linear", "os.system"};
    const fa_pt_options options = {.struct_size = sizeof options, .safe_globals = linear, .nsafe_globals = 2};
    assert_text(fa_values_root(fa_pt_unsafe_globals("tests/corpus/pt/module.pt", &options)), "list()");
    assert_text(fa_values_root(fa_load_pt_with("tests/corpus/pt/module.pt", &options)),
                "new torch.nn.modules.linear.Linear() with {}");
    assert_null(fa_load_pt_with("tests/corpus/pt/os_system.pt", &options)); /* not even then */
    assert_error(FA_ERR_FORMAT,
                 "Weights only load failed. Trying to load unsupported GLOBAL os.system whose module os is blocked.");
    const bytes file = read_file("tests/corpus/pt/os_system.pt");
    const fa_reader reader = fa_reader_of_memory(file.data, file.n);
    assert_text(fa_values_root(fa_pt_unsafe_globals_from(&reader, &options)), "list(\"os.system\")");
    free(file.data);
}

/* ---- What can't be written ---- */

static bool refuse(void *context, const void *data, size_t n) { return (void)context, (void)data, n < 100; }
static bool lose(void *context, uint64_t offset, void *out, size_t n) { return (void)context, (void)offset, (void)out, n < 10; }

static void not_saved(const fa_value *root, fa_code code, const char *text) {
    bytes b = {0};
    const fa_writer writer = {&b, collect};
    assert_false(fa_save_pt_to(&writer, root));
    assert_error(code, text);
    free(b.data);
}

static void what_cant_be_saved(void **state) {
    (void)state;
    fa_values *s = fa_values_new();
    fa_tensor *t = fa_ones(FA_SHAPE(4));
    fa_value *list = fa_values_container(s, FA_VALUE_LIST), *tuple = fa_values_container(s, FA_VALUE_TUPLE), *deep = list;
    not_saved(NULL, FA_ERR_VALUE, "root is NULL: a value is needed");
    fa_value_append(tuple, list);
    fa_value_append(list, tuple);
    not_saved(tuple, FA_ERR_UNSUPPORTED, "a tuple holds itself, which PyTorch does not read; lists and dicts may");
    for (int i = 0; i < 1001; i++) {
        fa_value *outer = fa_values_container(s, FA_VALUE_LIST);
        fa_value_append(outer, deep);
        deep = outer;
    }
    not_saved(deep, FA_ERR_VALUE, "maximum recursion depth exceeded: values are nested more than 1000 deep");
    unsigned char big[300] = {[299] = 1};
    not_saved(fa_values_big_int(s, big, sizeof big), FA_ERR_UNSUPPORTED, "an int of 300 bytes; PyTorch reads at most 255");
    fa_tensor *ints = fai_view("test", t, 1, (int64_t[]){2}, (int64_t[]){1}, 0),
              *back = fai_view("test", t, 1, (int64_t[]){2}, (int64_t[]){-1}, 3);
    ints->dtype = FA_INT32;
    fa_value *both = fa_values_container(s, FA_VALUE_LIST);
    fa_value_append(both, fa_values_tensor(s, t));
    fa_value_append(both, fa_values_tensor(s, ints));
    not_saved(both, FA_ERR_RUNTIME,
              "Cannot save multiple tensors or storages that view the same data as different types: float32 and int32");
    not_saved(fa_values_tensor(s, back), FA_ERR_UNSUPPORTED,
              "a tensor with a negative stride, which PyTorch does not have; fa_clone it first");
    fa_value *one = fa_values_tensor(s, t);
    assert_false(fa_save_pt_to(&(fa_writer){NULL, refuse}, one));
    assert_error(FA_ERR_FOREIGN, "the writer did not take ");
    assert_false(fa_save_pt_to(NULL, one));
    assert_error(FA_ERR_VALUE, "writer is NULL or has no write function");
    assert_null(fa_load_pt_from(NULL, NULL));
    assert_error(FA_ERR_VALUE, "reader is NULL or has no read function; fa_reader_of_memory makes one of memory");
    assert_null(fa_load_pt_from(&(fa_reader){NULL, 100, lose}, NULL));
    assert_error(FA_ERR_FOREIGN, "the reader could not read 14 bytes at 0");
    assert_false(fa_save_pt("/tmp/", one));
    assert_error(FA_ERR_VALUE, "\" has no name of a file, or one of more than ");
    assert_false(fa_save_pt(at("no/such.pt"), one));
    assert_error(FA_ERR_FILE, "could not make a file in its folder");
}

static void old_file_stays(void **state) {
    (void)state;
    static const fai_file_call calls[] = {FAI_FILE_OPEN, FAI_FILE_WRITE, FAI_FILE_SYNC, FAI_FILE_CLOSE, FAI_FILE_RENAME};
    fa_values *s = fa_values_new();
    assert_true(fa_save_pt(at("t.pt"), fa_values_int(s, 1)));
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        for (int n = 1; n <= (calls[i] == FAI_FILE_WRITE ? 12 : 1); n++) {
            fai_test_fail_file(calls[i], n, ENOSPC);
            const bool saved = fa_save_pt(at("t.pt"), fa_values_tensor(s, fa_ones(FA_SHAPE(3))));
            fai_test_fail_file(calls[i], 0, 0);
            assert_false(saved);
            assert_error(FA_ERR_FILE, "t.pt: could not ");
            assert_text(fa_values_root(fa_load_pt(at("t.pt"))), "1");
        }
    }
    fai_test_short_files(true);
    fa_value *root = sample(s);
    assert_true(fa_save_pt(at("t.pt"), root));
    fai_text text = text_of_value(root);
    assert_text(fa_values_root(fa_load_pt(at("t.pt"), .safe_globals = allowed, .nsafe_globals = 1)), text.data);
    fai_test_short_files(false);
    fai_text_free(&text);
}

/* ---- Hostile files ---- */

static const struct {
    const char *name;
    fa_code code;
    const char *text;
} corpus[] = {
    {"append_to_dict.pt", FA_ERR_FORMAT, "Can only append to lists, but got dict"},
    {"bad_order.pt", FA_ERR_VALUE, "Unknown endianness type: middle"},
    {"bad_version.pt", FA_ERR_FORMAT, "PytorchStreamReader failed: \"version\": it is no number"},
    {"bare_storage.pt", FA_ERR_UNSUPPORTED, "bare_storage.pt holds what Facula does not have, a storage without a tensor: save a t"},
    {"bomb_pickle.pt", FA_ERR_FORMAT, "the values and tensors of the file need more than the limit of 8.00 MiB of memory; if"},
    {"bomb_storage.pt", FA_ERR_FORMAT, "the values and tensors of the file need more than the limit of 8.00 MiB of memory; if"},
    {"build_of_a_list.pt", FA_ERR_FORMAT, "Can only build Tensor, Parameter, OrderedDict or types allowlisted via `add_safe_glob"},
    {"build_with_a_list.pt", FA_ERR_FORMAT, "Can only build Tensor, Parameter, OrderedDict or types allowlisted via `add_safe_glob"},
    {"bytes_in_utf16.pt", FA_ERR_FORMAT, "_codecs.encode has other arguments than torch.save gives it"},
    {"bytes_of_a_snowman.pt", FA_ERR_FORMAT, "a text that stands for bytes has a letter above 255"},
    {"call_of_a_class.pt", FA_ERR_FORMAT, "Trying to call reduce for unrecognized function torch.Tensor"},
    {"call_of_a_list.pt", FA_ERR_FORMAT, "Trying to call a list with a tuple; only names with a tuple of arguments can be"},
    {"call_with_a_list.pt", FA_ERR_FORMAT, "Trying to call a global with a list; only names with a tuple of arguments can be"},
    {"complex_of_texts.pt", FA_ERR_FORMAT, "__builtin__.complex has other arguments than torch.save gives it"},
    {"complex_storage.pt", FA_ERR_UNSUPPORTED, "complex_storage.pt holds what Facula does not have, elements of type complex64: save"},
    {"counter_of_a_list.pt", FA_ERR_FORMAT, "collections.Counter has other arguments than torch.save gives it"},
    {"cut.pt", FA_ERR_FORMAT, "Ran out of input: 2147483647 more bytes are needed, 3 are there"},
    {"damaged_pickle.pt", FA_ERR_FORMAT, "PytorchStreamReader failed: \"data.pkl\": its checksum is 05e19d32, the archive says fd"},
    {"damaged_storage.pt", FA_ERR_FORMAT, "PytorchStreamReader failed: \"data/0\": its checksum is fca024c2, the archive says 8ba7"},
    {"deep_lists.pt", FA_ERR_FORMAT, "values are nested more than 1000 deep"},
    {"deep_tuples.pt", FA_ERR_FORMAT, "the values and tensors of the file need more than the limit of 8.00 MiB of memory; if"},
    {"device_unknown.pt", FA_ERR_RUNTIME, "Expected one of cpu, cuda, ipu, xpu, mkldnn, opengl, opencl, ideep, hip, ve, fpga, ma"},
    {"device_without_name.pt", FA_ERR_FORMAT, "torch.device has other arguments than torch.save gives it"},
    {"dict_of_a_number.pt", FA_ERR_FORMAT, "collections.OrderedDict has other arguments than torch.save gives it"},
    {"dict_of_triples.pt", FA_ERR_FORMAT, "collections.OrderedDict has other arguments than torch.save gives it"},
    {"empty.pt", FA_ERR_FORMAT, "Weights only load failed: Ran out of input: the file is empty"},
    {"endless_name.pt", FA_ERR_FORMAT, "the name of a global is empty, has no end or more than 255 letters"},
    {"eval.pt", FA_ERR_FORMAT, "Unsupported global: GLOBAL eval was not an allowed global by default. Please use `tor"},
    {"expanded.pt", FA_ERR_FORMAT, "a tensor of sizes [2305843009213693952], strides [0] and offset 0 does not lie in its"},
    {"fine.pt", FA_OK, ""},
    {"fine_circle.pt", FA_OK, ""},
    {"fine_dag.pt", FA_OK, ""},
    {"fine_deflated.pt", FA_OK, ""},
    {"fine_empty_beyond.pt", FA_OK, ""},
    {"fine_old_pairs.pt", FA_OK, ""},
    {"fine_untyped.pt", FA_OK, ""},
    {"fine_without_checksums.pt", FA_OK, ""},
    {"frame.pt", FA_ERR_FORMAT, "Unsupported operand 149"},
    {"hidden_storage.pt", FA_ERR_UNSUPPORTED, "hidden_storage.pt holds what Facula does not have, a storage without a tensor: save a"},
    {"id.pt", FA_ERR_FORMAT, "a persistent id is no tuple ('storage', class, key, location, number of elements)"},
    {"id_of_a_module.pt", FA_ERR_FORMAT, "a persistent id is no tuple ('storage', class, key, location, number of elements)"},
    {"id_with_a_class.pt", FA_ERR_FORMAT, "a persistent id is no tuple ('storage', class, key, location, number of elements)"},
    {"impossible_size.pt", FA_ERR_FORMAT, "PytorchStreamReader failed reading zip archive: \"archive/data/0\": 1073741824 bytes ca"},
    {"int_wants_gradient.pt", FA_ERR_RUNTIME, "only Tensors of floating point dtype can require gradients, this one is int64"},
    {"large_key.pt", FA_ERR_UNSUPPORTED, "a key is a tuple of more than 256 items"},
    {"legacy.pt", FA_ERR_UNSUPPORTED, "Weights only load failed: the file is in the format that PyTorch wrote before version"},
    {"list_as_key.pt", FA_ERR_TYPE, "unhashable type: 'list'"},
    {"long_order.pt", FA_ERR_FORMAT, "PytorchStreamReader failed: \"byteorder\": it is neither \"little\" nor \"big\""},
    {"long_version.pt", FA_ERR_FORMAT, "PytorchStreamReader failed: \"version\": it is no number"},
    {"lying_size.pt", FA_ERR_FORMAT, "PytorchStreamReader failed: \"data/0\": the compressed data are damaged (they end too e"},
    {"many_lists.pt", FA_ERR_FORMAT, "the values and tensors of the file need more than the limit of 8.00 MiB of memory; if"},
    {"many_marks.pt", FA_ERR_FORMAT, "the values and tensors of the file need more than the limit of 8.00 MiB of memory; if"},
    {"many_names.pt", FA_OK, ""},
    {"memo.pt", FA_ERR_FORMAT, "Memo value not found at index 5"},
    {"memo_far.pt", FA_ERR_FORMAT, "the values and tensors of the file need more than the limit of 8.00 MiB of memory; if"},
    {"missing_storage.pt", FA_ERR_FORMAT, "PytorchStreamReader failed: failed locating file data/7: file not found"},
    {"module.pt", FA_ERR_FORMAT, "Unsupported global: GLOBAL torch.nn.modules.linear.Linear was not an allowed global b"},
    {"negated.pt", FA_ERR_UNSUPPORTED, "negated.pt holds a conjugated or negative view of a tensor; save t.resolve_neg() or t"},
    {"negative_offset.pt", FA_ERR_FORMAT, "a tensor of sizes [4], strides [1] and offset -1 does not lie in its storage data/0 o"},
    {"negative_size.pt", FA_ERR_FORMAT, "a tensor of sizes [-1], strides [1] and offset 0 does not lie in its storage data/0 o"},
    {"negative_storage.pt", FA_ERR_FORMAT, "PytorchStreamReader failed: \"data/0\": record size (16 bytes) does not match expected"},
    {"negative_stride.pt", FA_ERR_FORMAT, "a tensor of sizes [4], strides [-1] and offset 0 does not lie in its storage data/0 o"},
    {"new_of_a_function.pt", FA_ERR_FORMAT, "Trying to make a new object of collections.OrderedDict; only of allowed classes it ca"},
    {"new_version.pt", FA_ERR_UNSUPPORTED, "PytorchStreamReader failed: Attempted to read a PyTorch file with version 99, but the"},
    {"nine_dimensions.pt", FA_ERR_UNSUPPORTED, "nine_dimensions.pt holds a tensor of 9 dimensions; at most 8 are possible"},
    {"no_folder.pt", FA_ERR_FORMAT, "PytorchStreamReader failed reading zip archive: \"data.pkl\": the first record lies in"},
    {"no_mark.pt", FA_ERR_FORMAT, "there is no mark on the stack"},
    {"no_name.pt", FA_ERR_FORMAT, "the name of a global is empty, has no end or more than 255 letters"},
    {"no_pickle.pt", FA_ERR_FORMAT, "PytorchStreamReader failed: failed locating file data.pkl: file not found"},
    {"no_stop.pt", FA_ERR_FORMAT, "Ran out of input: 1 more bytes are needed, 0 are there"},
    {"no_utf8.pt", FA_ERR_FORMAT, "a text is no UTF-8"},
    {"no_version.pt", FA_ERR_FORMAT, "PytorchStreamReader failed: Expected hasRecord(\"version\") to be true, but got false"},
    {"nothing.pt", FA_ERR_FORMAT, "the stack is empty"},
    {"numpy.pt", FA_ERR_FORMAT, "Unsupported global: GLOBAL numpy._core.multiarray._reconstruct was not an allowed glo"},
    {"odd_items.pt", FA_ERR_FORMAT, "a key has no value"},
    {"offset.pt", FA_ERR_FORMAT, "a tensor of sizes [4], strides [1] and offset 1 does not lie in its storage data/0 of"},
    {"os_system.pt", FA_ERR_FORMAT, "Weights only load failed. Trying to load unsupported GLOBAL os.system whose module os"},
    {"other_place.pt", FA_OK, ""},
    {"outside.pt", FA_ERR_FORMAT, "PytorchStreamReader failed: failed locating file data/../data.pkl: file not found"},
    {"overflow.pt", FA_ERR_FORMAT, "a tensor of sizes [4611686018427387904, 4611686018427387904], strides [0, 0] and offs"},
    {"overflowing_stride.pt", FA_ERR_FORMAT, "a tensor of sizes [3], strides [4611686018427387904] and offset 0 does not lie in its"},
    {"overlap.pt", FA_ERR_FORMAT, "PytorchStreamReader failed reading zip archive: two members of the archive share the"},
    {"parameter_of_nothing.pt", FA_ERR_FORMAT, "torch._utils._rebuild_parameter has other arguments than torch.save gives it"},
    {"protocol.pt", FA_ERR_FORMAT, "the pickle is of protocol 4; torch.save writes protocol 2"},
    {"set_in_list.pt", FA_ERR_FORMAT, "Can only set items of dicts, but got list"},
    {"set_of_a_number.pt", FA_ERR_FORMAT, "__builtin__.set has other arguments than torch.save gives it"},
    {"set_of_lists.pt", FA_ERR_TYPE, "unhashable type: 'list'"},
    {"short_set.pt", FA_ERR_FORMAT, "the stack is empty"},
    {"short_storage.pt", FA_ERR_FORMAT, "PytorchStreamReader failed: \"data/0\": record size (16 bytes) does not match expected"},
    {"size_is_a_number.pt", FA_ERR_FORMAT, "the sizes or strides of a tensor are no tuple"},
    {"size_of_a_list.pt", FA_ERR_FORMAT, "torch.Size has other arguments than torch.save gives it"},
    {"size_of_texts.pt", FA_ERR_FORMAT, "a size or stride of a tensor is no int"},
    {"sparse.pt", FA_ERR_UNSUPPORTED, "sparse.pt holds what Facula does not have, a sparse tensor: make it dense by .to_dens"},
    {"strange_name.pt", FA_ERR_FORMAT, "the name of a global holds the character 27"},
    {"strides_missing.pt", FA_ERR_FORMAT, "a tensor has 1 sizes and 0 strides"},
    {"subclass.pt", FA_ERR_UNSUPPORTED, "subclass.pt holds a tensor of the class collections.OrderedDict; save it as a plain o"},
    {"system.pt", FA_ERR_FORMAT, "Weights only load failed. Trying to load unsupported GLOBAL posix.system whose module"},
    {"tag.pt", FA_OK, ""},
    {"tensor_without_size.pt", FA_ERR_FORMAT, "torch._utils._rebuild_tensor_v2 has other arguments than torch.save gives it"},
    {"tensors_without_end.pt", FA_ERR_FORMAT, "the values and tensors of the file need more than the limit of 8.00 MiB of memory; if"},
    {"text.pt", FA_ERR_FORMAT, "Weights only load failed: the file is no checkpoint of PyTorch: it begins with the by"},
    {"too_large.pt", FA_ERR_FORMAT, "a tensor of sizes [5], strides [1] and offset 0 does not lie in its storage data/0 of"},
    {"torchscript.pt", FA_ERR_UNSUPPORTED, "PytorchStreamReader failed: the file is a TorchScript archive, a program; save the mo"},
    {"truncated.pt", FA_ERR_FORMAT, "PytorchStreamReader failed reading zip archive: failed finding central directory; thi"},
    {"tuple_of_tuples_as_key.pt", FA_ERR_UNSUPPORTED, "a key is a tuple of more than 256 items"},
    {"tuple_of_two.pt", FA_ERR_FORMAT, "the stack is empty"},
    {"two_of_one_name.pt", FA_ERR_FORMAT, "PytorchStreamReader failed reading zip archive: \"version\": the name stands for two re"},
    {"two_types.pt", FA_ERR_FORMAT, "the storage 0 is said to hold elements of two types"},
    {"type_loop.pt", FA_ERR_FORMAT, "torch._tensor._rebuild_from_type_v2 has other arguments than torch.save gives it"},
    {"under_mark.pt", FA_ERR_FORMAT, "Can only build Tensor, Parameter, OrderedDict or types allowlisted via `add_safe_glob"},
    {"v3_other_type.pt", FA_ERR_FORMAT, "a tensor of int64 is to be made of the storage data/0, which holds something else"},
};
enum { NCORPUS = sizeof corpus / sizeof *corpus };

static const char *corpus_path(const char *name) {
    static char path[300];
    snprintf(path, sizeof path, "tests/corpus/pt/%s", name);
    return path;
}

static void every_file_is_known(void **state) {
    (void)state;
    int files = 0;
    DIR *d = opendir("tests/corpus/pt");
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        int i = 0;
        if (e->d_name[0] == '.') continue;
        files++;
        while (i < NCORPUS && strcmp(corpus[i].name, e->d_name) != 0) i++;
        if (i == NCORPUS) fail_msg("the table above does not have %s", e->d_name);
    }
    closedir(d);
    assert_int_equal(files, NCORPUS);
}

static void hostile_files(void **state) {
    (void)state;
    fa_test_caches(false);
    const uint64_t before = fa_host_memory_use().bytes;
    for (int i = 0; i < NCORPUS; i++) {
        {
            FA_SCOPE;
            fa_values *v = fa_load_pt(corpus_path(corpus[i].name), .device = FA_CPU, .limit = LIMIT);
            const fa_error e = fa_error_take();
            if (e.code != corpus[i].code || (v == NULL) != (e.code != FA_OK) || (strstr(e.text, corpus[i].text) == NULL))
                fail_msg("%s: error %d: %s", corpus[i].name, (int)e.code, e.text);
        }
        if (fa_host_memory_use().bytes != before)
            fail_msg("%s: %lld bytes of memory are left", corpus[i].name, (long long)(fa_host_memory_use().bytes - before));
    }
    assert_true(fa_host_memory_use().peak_bytes < LIMIT + LIMIT / 2);
    fa_test_caches(true);
}

static uint64_t random_state = 1;
static uint32_t any(uint32_t below) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33) % below;
}

/* A zero stands for no checksum: else hardly any change would come beyond it. */
static void forget_checksums(bytes *b) {
    for (size_t i = 0; i + 46 < b->n; i++)
        if (memcmp(b->data + i, "PK\1\2", 4) == 0) memset(b->data + i + 16, 0, 4);
}

static void change(bytes *b) {
    static const char instructions[] = "K\x4bM\x4dJNtR)]}(\x85\x86\x87"
                                       "aesuqrhjcb.Q\x80\x81\x88\x89\x8aXU";
    for (int n = 1 + (int)any(4); n > 0 && b->n > 0; n--) {
        const uint32_t i = any((uint32_t)b->n);
        switch (any(6)) {
        case 0: b->data[i] ^= (unsigned char)(1u << any(8)); break;
        case 1: b->data[i] = (unsigned char)any(256); break;
        case 2:
        case 3: b->data[i] = (unsigned char)instructions[any(sizeof instructions - 1)]; break;
        case 4: memset(b->data + i, any(2) ? 0xff : 0, i + 4 < b->n ? 4 : 1); break;
        default:
            if (any(8) == 0)
                b->n = i;
            else
                memmove(b->data + i, b->data + any((uint32_t)b->n - i) + i, 1);
        }
    }
}

/* Nothing but errors and values may come of it, and no memory may stay. */
static void random_changes(void **state) {
    (void)state;
    static const char *const seeds[] = {"tests/golden/pt/tensors.pt", "tests/golden/pt/parameters.pt",
                                        "tests/golden/pt/checkpoint.pt"};
    fa_test_caches(false);
    const uint64_t before = fa_host_memory_use().bytes;
    int loaded = 0;
    for (int i = 0; i < NCORPUS + 3; i++) {
        bytes file = read_file(i < NCORPUS ? corpus_path(corpus[i].name) : seeds[i - NCORPUS]);
        unsigned char *copy = malloc(file.n + 1);
        forget_checksums(&file);
        const int rounds = file.n > 12000 ? 3 : i < NCORPUS ? CHANGES / NCORPUS : CHANGES / 30;
        for (int round = 0; round < rounds; round++) {
            FA_SCOPE;
            memcpy(copy, file.data, file.n);
            bytes changed = {copy, file.n, file.n};
            change(&changed);
            fa_values *v = load_bytes(changed.data, changed.n);
            const fa_error e = fa_error_take();
            if ((v == NULL) != (e.code != FA_OK))
                fail_msg("%s, round %d: %p with error %d", i < NCORPUS ? corpus[i].name : "golden", round, (void *)v, e.code);
            if (e.code != FA_OK && (e.text[0] == 0 || e.op[0] == 0)) fail_msg("an error without words");
            if (v == NULL) continue;
            loaded++;
            fai_text text = text_of_value(fa_values_root(v)); /* all of it can be read */
            fai_text_free(&text);
            bytes again = {0};
            fa_save_pt_to(&(fa_writer){&again, collect}, fa_values_root(v));
            fa_error_take();
            free(again.data);
        }
        free(copy), free(file.data);
    }
    assert_true(loaded > 100);
    assert_int_equal(fa_host_memory_use().bytes, before);
    assert_true(fa_host_memory_use().peak_bytes < 2 * LIMIT);
    fa_test_caches(true);
}

/* ---- No memory ---- */

typedef struct work {
    bytes file;
    fa_value *root;
} work;

static bool begin_saving(void *data) {
    work *w = data;
    w->root = sample(fa_values_new());
    return w->root != NULL && !fa_failed() && fa_synchronize(device);
}
static bool build_and_save(void *data) {
    (void)data;
    const fa_value *root = sample(fa_values_new());
    return !fa_failed() && root != NULL && fa_save_pt(at("fault.pt"), root);
}
static bool save(void *data) { return fa_save_pt(at("fault.pt"), ((work *)data)->root); }
static bool load(void *data) {
    const bytes *b = &((work *)data)->file;
    const fa_reader reader = fa_reader_of_memory(b->data, b->n);
    const fa_pt_options options = {.struct_size = sizeof options, .safe_globals = allowed, .nsafe_globals = 1};
    return fa_load_pt_from(&reader, &options) != NULL && fa_synchronize(device);
}
static bool list_names(void *data) {
    const bytes *b = &((work *)data)->file;
    const fa_reader reader = fa_reader_of_memory(b->data, b->n);
    return fa_pt_unsafe_globals_from(&reader, NULL) != NULL;
}

static void no_memory(void **state) {
    (void)state;
    work ours = {save_bytes(sample(fa_values_new())), NULL}, theirs = {read_file("tests/golden/pt/parameters.pt"), NULL};
    const scenario scenarios[] = {{.name = "build and save", .work = build_and_save},
                                  {.name = "save", .begin = begin_saving, .work = save, .data = &ours},
                                  {.name = "load", .work = load, .data = &ours},
                                  {.name = "load PyTorch's", .work = load, .data = &theirs},
                                  {.name = "names", .work = list_names, .data = &ours}};
    fa_test_caches(false);
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++)
        for (int way = 0; way < (sim_faults ? WAYS : DEVICE_ONCE); way++) fail_everywhere(&scenarios[i], way);
    fa_test_caches(true);
    free(ours.file.data), free(theirs.file.data);
    assert_int_equal(broken, 0);
    assert_true(injected > 200);
}

static int copy_file(const char *from, const char *to) {
    const fa_values *v = fa_load_pt(from);
    fa_save_pt(to, fa_values_root(v));
    return fa_finish("test_pt");
}

int main(int argc, char **argv) {
    if (argc == 4 && strcmp(argv[1], "copy") == 0) return copy_file(argv[2], argv[3]);
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(pytorchs_files),
        TEST(the_documents_way),
        TEST(modules_and_tensors_by_ending),
        TEST(optimizers_state),
        TEST(sharing_and_circles),
        TEST(places),
        TEST(names_that_are_refused),
        TEST(what_cant_be_saved),
        TEST(old_file_stays),
        TEST(every_file_is_known),
        TEST(hostile_files),
        TEST(random_changes),
        TEST(no_memory),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
