/* The OpenCL backend on PoCL, device type CPU: memory, copies, queues, events, both ways in which a kernel gets its plan, a
 * training that gives the same numbers as on the CPU, compiled programs kept on disk, a device without float64, and what goes
 * wrong: no loader, one that is too old, no driver, a text that does not compile, no memory, a driver that gives the device up
 * (functions of the driver are replaced for that).
 *
 * test-env: FACULA_OPENCL=cpu
 * test-modes: release debug */
#include "backends/opencl/opencl.h"
#include "device/device.h"
#include "support/scope.h"
#include <facula.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const fa_backend *backend;


static void expect_error(const char *words) {
    const fa_error *e = fa_error_peek();
    if (!e || !strstr(e->text, words)) fail_msg("expected '%s', found '%s'", words, e ? e->text : "no error");
    fa_error_take();
}

static void what_it_is(void **state) {
    (void)state;
    fa_device_properties p;
    assert_true(fa_device_equal(fa_accelerator(), fa_device_parse("opencl")));
    assert_true(fa_device_get_properties(fa_device_parse("opencl:0"), &p));
    assert_true(p.has_float64 && !p.simulated && p.total_memory > 0 && p.name[0]);
    assert_true(strstr(p.driver, "OpenCL") != NULL);
    assert_int_equal(fai_device_objects(fa_device_parse("opencl:0")), FA_PLAN_OBJECTS);
}

static void memory_and_copies(void **state) {
    (void)state;
    fa_address a = 0, b = 0;
    uint64_t before, now, total;
    char out[64] = {0}, in[64];
    for (int i = 0; i < 64; i++) in[i] = (char)i;
    assert_int_equal(backend->memory_info(0, &before, &total), 0);
    assert_int_equal(backend->allocate(0, 1 << 20, &a), 0);
    assert_int_equal(backend->allocate(0, 1 << 20, &b), 0);
    assert_int_equal(backend->memory_info(0, &now, &total), 0);
    assert_int_equal(before - now, 2 << 20);
    assert_int_equal(backend->fill(0, NULL, a, 7, 1 << 20), 0);
    assert_int_equal(backend->copy(0, NULL, FA_COPY_TO_DEVICE, a + 100, in, 0, 32), 0);
    assert_int_equal(backend->copy(0, NULL, FA_COPY_WITHIN, b + 5, NULL, a + 99, 34), 0);
    assert_int_equal(backend->copy(0, NULL, FA_COPY_TO_HOST, b + 5, out, 0, 34), 0);
    assert_int_equal(backend->stream_wait(0, NULL), 0);
    assert_int_equal(out[0], 7);
    assert_memory_equal(out + 1, in, 32);
    assert_int_equal(out[33], 7);
    assert_int_equal(backend->release(0, a), 0);
    assert_int_not_equal(backend->release(0, a), 0);
    assert_int_not_equal(backend->fill(0, NULL, a, 0, 1), 0);
    assert_int_equal(backend->release(0, b), 0);
}

static void refused(int code, const char *words) {
    assert_int_equal(code, FA_BACKEND_FAILED);
    if (!strstr(backend->error_text(), words)) fail_msg("expected '%s', found '%s'", words, backend->error_text());
}

/* What only a mistake above the backend can ask for. */
static void mistakes(void **state) {
    (void)state;
    fa_address a = 0;
    fa_device_properties p;
    fa_plan plan = {.groups = 1};
    fa_kernel_handle kernel = (fa_kernel_handle)(void *)&plan; /* not looked at */
    char byte = 0, wanted[80];
    assert_int_equal(backend->allocate(0, 64, &a), 0);
    snprintf(wanted, sizeof wanted, "OpenCL error: invalid device ordinal: device 64 of %d", fai_opencl_count);
    refused(backend->properties(64, &p), wanted);
    refused(backend->stream_wait(64, NULL), wanted);
    refused(backend->fill(0, NULL, 17, 0, 1), "OpenCL error: memory of device 0 that is none");
    refused(backend->copy(0, NULL, FA_COPY_TO_DEVICE, a + 65, &byte, 0, 1), "OpenCL error: memory of device 0 that is none");
    refused(backend->release(0, a + 1), "OpenCL error: freeing memory of device 0 that is none");
    const fa_address pointers[8] = {a, (fa_address)999 << FAI_OPENCL_SHIFT};
    refused(backend->launch(0, NULL, kernel, 1, 256, &plan, sizeof plan, pointers), "OpenCL error: operand 1 of a kernel has no memory on device 0");
    fa_plan table = {.groups = 1, .view = {[0] = {.kind = FA_VIEW_TABLE}}};
    table.n[FA_PLAN_OBJECTS_AT + 1] = 999;
    refused(backend->launch(0, NULL, kernel, 1, 256, &table, sizeof table, (const fa_address[8]){a}),
            "OpenCL error: a table of a kernel leads to no memory of device 0");
    refused(backend->launch(0, NULL, kernel, 1, 256, &plan, 12, pointers), "OpenCL error: a plan of 12 bytes");
    refused(backend->launch(0, NULL, kernel, 1ull << 31, 256, &plan, sizeof plan, pointers),
            "OpenCL error: a launch of 2147483648 groups; at most 2147483647");
    assert_int_equal(backend->launch(0, NULL, kernel, 0, 256, &plan, sizeof plan, pointers), 0);
    assert_int_equal(backend->release(0, a), 0);
}

static void events(void **state) {
    (void)state;
    fa_stream_handle s = NULL;
    fa_event_handle first = NULL, last = NULL;
    fa_address a = 0;
    float ms = -1;
    bool done = false;
    assert_int_equal(backend->stream_create(0, 0, &s), 0);
    assert_int_equal(backend->event_create(0, &first), 0);
    assert_int_equal(backend->event_create(0, &last), 0);
    refused(backend->event_elapsed(0, first, last, &ms), "OpenCL error: one of the two events was never recorded");
    assert_int_equal(backend->allocate(0, 64 << 20, &a), 0);
    assert_int_equal(backend->event_record(0, first, s), 0);
    assert_int_equal(backend->fill(0, s, a, 1, 64 << 20), 0);
    assert_int_equal(backend->event_record(0, last, s), 0);
    assert_int_equal(backend->stream_wait_event(0, NULL, last), 0);
    assert_int_equal(backend->event_wait(0, last), 0);
    assert_int_equal(backend->event_query(0, last, &done), 0);
    assert_true(done);
    assert_int_equal(backend->event_elapsed(0, first, last, &ms), 0);
    assert_true(ms > 0 && ms < 60e3f);
    assert_int_equal(backend->stream_wait(0, NULL), 0);
    assert_int_equal(backend->event_destroy(0, first), 0);
    assert_int_equal(backend->event_destroy(0, last), 0);
    assert_int_equal(backend->stream_destroy(0, s), 0);
    assert_int_equal(backend->release(0, a), 0);
}

/* The same steps on a device. The children train no convolutions, since each makes PoCL compile its programs again. */
static void train(fa_device device, bool convolves, float losses[6]) {
    fa_manual_seed(3);
    FA_SCOPE;
    fa_module *net = convolves ? fa_sequential(fa_nn_conv2d(1, 4, 3), fa_nn_relu(), fa_nn_flatten(), fa_nn_linear(144, 10))
                               : fa_sequential(fa_nn_flatten(), fa_nn_linear(64, 10));
    fa_tensor *x = fa_to(fa_rand(FA_SHAPE(8, 1, 8, 8)), device), *y = fa_to(fa_randint(0, 10, FA_SHAPE(8)), device);
    assert_true(fa_module_to(net, device));
    fa_optimizer *o = fa_adamw(net, .lr = 1e-2);
    for (int i = 0; i < 6; i++) {
        FA_SCOPE;
        fa_tensor *loss = fa_cross_entropy(fa_call(net, x), y);
        fa_zero_grad(o);
        fa_backward(loss);
        fa_step(o);
        losses[i] = (float)fa_item(loss);
    }
    if (fa_failed()) fail_msg("%s: %s", fa_error_peek()->op, fa_error_peek()->text);
    fa_drop(o);
    fa_drop(net);
}

static void training(void **state) {
    (void)state;
    float cpu[6], here[6];
    train(FA_CPU, true, cpu);
    train(fa_accelerator(), true, here);
    for (int i = 0; i < 6; i++) assert_true(cpu[i] - here[i] < 1e-5f && here[i] - cpu[i] < 1e-5f);
    assert_true(here[5] < here[0]);
}

/* More launches than the ring of plans has places, and nothing that waits between them. */
static void many_launches(void **state) {
    (void)state;
    fa_tensor *x = fa_zeros(FA_SHAPE(5), .device = fa_accelerator());
    for (int i = 0; i < 3 * FAI_OPENCL_PLANS; i++) fa_add_(x, fa_full(FA_SHAPE(1), i, .device = fa_accelerator()));
    double sum = 0;
    for (int i = 0; i < 3 * FAI_OPENCL_PLANS; i++) sum += i;
    float out[5];
    assert_true(fa_to_data(x, out, FA_FLOAT32));
    for (int i = 0; i < 5; i++) assert_true(out[i] == (float)sum);
}

static void faults(void **state) {
    (void)state;
    fa_program_handle program = NULL;
    fa_kernel_handle kernel = NULL;
    fa_address a = 0;
    char log[400];
    assert_int_not_equal(backend->build(0, "bad", "__kernel void f(__global int *p) { p[0] = nothing; }", "", &program, log, sizeof log), 0);
    assert_true(strstr(log, "nothing") != NULL);
    assert_true(strstr(backend->error_text(), "does not compile (-11) while compiling the program 'bad'") != NULL);
    assert_int_equal(backend->build(0, "good", "__kernel void f(__global int *p) { p[0] = 1; }", "", &program, log, sizeof log), 0);
    assert_int_not_equal(backend->find(0, program, "g", &kernel), 0);
    assert_true(strstr(backend->error_text(), "looking for the kernel 'g'") != NULL);
    assert_int_equal(backend->unload(0, program), 0);
    assert_int_equal(backend->allocate(0, (size_t)1 << 50, &a), FA_BACKEND_NO_MEMORY);
    assert_null(fa_zeros(FA_SHAPE((int64_t)1 << 45), .device = fa_accelerator()));
    expect_error("Tried to allocate");
}

/* ---- compiled programs on disk ---- */

static int compiled;
static cl_program (*create)(cl_context, cl_uint, const char **, const size_t *, cl_int *);
static cl_program count_compiled(cl_context context, cl_uint n, const char **text, const size_t *bytes, cl_int *code) {
    compiled++;
    return create(context, n, text, bytes, code);
}
static cl_int refuse_binary(cl_program program, cl_uint what, size_t n, void *out, size_t *bytes) {
    (void)program, (void)what, (void)n, (void)out, (void)bytes;
    return CL_OUT_OF_RESOURCES;
}
static cl_program load_nothing(cl_context c, cl_uint n, const cl_device_id *d, const size_t *bytes, const unsigned char **image, cl_int *status,
                               cl_int *code) {
    (void)c, (void)n, (void)d, (void)bytes, (void)image;
    return *status = *code = CL_INVALID_DEVICE, NULL;
}

/* How often the driver got a text to compile; the program works, however it came. */
static int compiles(int number) {
    char text[96], log[200];
    fa_program_handle program = NULL;
    fa_kernel_handle kernel = NULL;
    const int before = compiled;
    snprintf(text, sizeof text, "__kernel void f(__global int *p) { p[0] = %d; }", number);
    assert_int_equal(backend->build(0, "kept", text, "", &program, log, sizeof log), 0);
    assert_int_equal(backend->find(0, program, "f", &kernel), 0);
    fai_opencl.kernel_release((cl_kernel)(void *)kernel);
    assert_int_equal(backend->unload(0, program), 0);
    return compiled - before;
}

static void programs_are_kept(void **state) {
    (void)state;
    char folder[] = "/tmp/facula_opencl_XXXXXX", command[64];
    const fai_opencl_api real = fai_opencl;
    assert_non_null(mkdtemp(folder));
    create = real.program_create;
    fai_opencl.program_create = count_compiled;
    assert_int_equal(compiles(1), 1);
    assert_int_equal(compiles(1), 1); /* PoCL's own cache serves it; asking it for the program would be slow */
    setenv("FACULA_CACHE", folder, 1);
    assert_int_equal(compiles(1), 1);
    assert_int_equal(compiles(1), 0);
    assert_int_equal(compiles(2), 1); /* another text */
    fai_opencl.program_from_binary = load_nothing; /* a driver that does not take its own binary: it is thrown away */
    assert_int_equal(compiles(1), 1);
    fai_opencl.program_from_binary = real.program_from_binary;
    assert_int_equal(compiles(1), 0);
    fai_opencl.program_info = refuse_binary;
    assert_int_equal(compiles(3) + compiles(3), 2);
    fai_opencl.program_info = real.program_info;
    setenv("FACULA_CACHE", "off", 1);
    assert_int_equal(compiles(1), 1);
    unsetenv("FACULA_CACHE");
    setenv("XDG_CACHE_HOME", folder, 1);
    fai_opencl_devices[0].is_pocl = false; /* another driver's programs are kept without being told to */
    assert_int_equal(compiles(4), 1);
    assert_int_equal(compiles(4), 0);
    fai_opencl_devices[0].is_pocl = true;
    unsetenv("XDG_CACHE_HOME");
    fai_opencl = real;
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

static cl_int gone(cl_command_queue queue) {
    (void)queue;
    return CL_OUT_OF_RESOURCES;
}

static void lost(void **state) {
    (void)state;
    cl_int (*finish)(cl_command_queue) = fai_opencl.finish;
    fa_tensor *x = fa_ones(FA_SHAPE(3), .device = fa_accelerator());
    fai_opencl.finish = gone;
    assert_false(fa_synchronize(fa_accelerator()));
    expect_error("OpenCL error: out of resources (-5) while waiting for device 0");
    assert_null(fa_exp(x));
    expect_error("The driver gave up opencl:0");
    fai_opencl.finish = finish;
    assert_non_null(fa_ones(FA_SHAPE(3), .device = fa_accelerator())); /* it answers again */
}

/* ---- in a process of its own, since the driver is opened once ---- */

static void in_child(const char *variable, const char *value, void (*body)(void)) {
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        setenv(variable, value, 1);
        body();
        fflush(NULL);
        _exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (status) fail_msg("with %s=%s the child ended with status %d", variable, value, status);
}

static const char *wanted_words;
static void is_refused(void) {
    if (fa_zeros(FA_SHAPE(2), .device = fa_device_parse("opencl")) || !fa_failed()) _exit(1);
    if (strstr(fa_error_peek()->text, wanted_words)) return;
    printf("found: %s\n", fa_error_peek()->text);
    fflush(stdout);
    _exit(2);
}

static void without_float64(void) {
    float losses[6];
    train(fa_device_parse("opencl:0"), false, losses);
    if (!(losses[5] < losses[0])) _exit(1);
    if (fa_exp(fa_ones(FA_SHAPE(2), .device = fa_device_parse("opencl"), .dtype = FA_FLOAT64))) _exit(2);
    if (!strstr(fa_error_peek()->text, " has no float64, and this needs it.")) _exit(3);
}
static void trains(void) {
    float losses[6];
    train(fa_device_parse("opencl:0"), false, losses);
    if (!(losses[5] < losses[0])) _exit(1);
}
static void is_not_chosen(void) {
    if (fa_accelerator().type == fa_device_parse("opencl").type) _exit(1);
    if (!fa_ones(FA_SHAPE(2), .device = fa_device_parse("opencl"))) _exit(2);
}

static void refused_alike(const char *variable, const char *value, const char *words) {
    wanted_words = words;
    in_child(variable, value, is_refused);
}

static void others(void **state) {
    (void)state;
    refused_alike("FACULA_OPENCL_LIBRARY", "/nowhere/libOpenCL.so.1", "OpenCL's loader could not be opened");
    refused_alike("FACULA_OPENCL_LIBRARY", "libm.so.6", "libm.so.6 has no function clGetPlatformIDs: it is older than OpenCL 1.2");
    refused_alike("OCL_ICD_VENDORS", "/nowhere", "OpenCL's loader finds no driver (no driver installed)");
    refused_alike("FACULA_OPENCL", "off", "FACULA_OPENCL=off hides OpenCL's devices");
    refused_alike("FACULA_OPENCL", "gpu", "FACULA_OPENCL='gpu' is not understood");
    in_child("FACULA_OPENCL_FLOAT64", "off", without_float64);
    in_child("FACULA_OPENCL_PLAN", "value", trains);
    in_child("FACULA_OPENCL", "", is_not_chosen);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {TEST(others), /* first: no child after the driver is open */
                                       TEST(what_it_is), TEST(memory_and_copies), TEST(mistakes), TEST(events), TEST(training),
                                       TEST(many_launches), TEST(programs_are_kept), TEST(faults), TEST(lost)};
    backend = fai_backend_opencl();
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : fa_finish("test_opencl");
}
