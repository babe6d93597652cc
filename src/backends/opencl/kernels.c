/* From a kernel text to a launch. The text is OpenCL C 1.2 and the driver compiles it; what it made is kept on disk, so that the second
 * start of a program compiles nothing. Division and square root are to be rounded correctly where the device can do that, since results
 * shall have the same bits on every device. */
#include "opencl.h"
#include <limits.h>
#include <string.h>

static void read_log(int device, cl_program program, char *log, size_t n) {
    const fai_opencl_device *d = &fai_opencl_devices[device];
    size_t bytes = 0;
    if (!n || fai_opencl.program_log(program, d->id, CL_PROGRAM_BUILD_LOG, 0, NULL, &bytes) != CL_SUCCESS || bytes < 2) return;
    char *whole = fai_alloc(FAI_TAG_OTHER, bytes);
    if (!whole) return;
    if (fai_opencl.program_log(program, d->id, CL_PROGRAM_BUILD_LOG, bytes, whole, NULL) == CL_SUCCESS)
        snprintf(log, n, "%.*s", (int)bytes, whole);
    fai_free(FAI_TAG_OTHER, whole, bytes);
}

/* ---- compiled programs on disk ---- */

/* PoCL keeps what it compiled itself, and takes two seconds to hand a program out: only where somebody names a folder for it. */
static bool is_cached(const fai_opencl_device *d) {
    char folder[PATH_MAX];
    return d->is_pocl ? fai_cache_is_named() : fai_cache_folder(folder, sizeof folder);
}

/* What the driver made depends on nothing else. */
static fai_cache_key key_of(const fai_opencl_device *d, const char *text, const char *options) {
    static const cl_uint facts[] = {CL_DEVICE_NAME, CL_DEVICE_VENDOR, CL_DEVICE_VERSION, CL_DRIVER_VERSION};
    fai_cache_key key = fai_cache_key_add((fai_cache_key){{0}}, "opencl 1", 8);
    for (size_t i = 0; i < sizeof facts / sizeof facts[0]; i++) {
        char words[256];
        fai_opencl_words(d->id, facts[i], words, sizeof words);
        key = fai_cache_key_add(key, words, strlen(words) + 1);
    }
    key = fai_cache_key_add(key, options, strlen(options) + 1);
    return fai_cache_key_add(key, text, strlen(text));
}

static cl_program load_cached(const fai_opencl_device *d, fai_cache_key key, const char *options) {
    void *image;
    size_t bytes;
    cl_int status = CL_SUCCESS, code = CL_SUCCESS;
    if (!is_cached(d) || !fai_cache_read(key, &image, &bytes)) return NULL;
    const unsigned char *binary = image;
    cl_program program = fai_opencl.program_from_binary(d->context, 1, &d->id, &bytes, &binary, &status, &code);
    if (program && (code != CL_SUCCESS || fai_opencl.program_build(program, 1, &d->id, options, NULL, NULL) != CL_SUCCESS)) {
        fai_opencl.program_release(program);
        program = NULL;
    }
    if (!program) fai_cache_forget(key);
    fai_free(FAI_TAG_OTHER, image, bytes);
    return program;
}

/* A program that can't be handed out or kept is compiled again at the next start, no more. */
static void keep(const fai_opencl_device *d, fai_cache_key key, cl_program program) {
    size_t bytes = 0;
    if (!is_cached(d)) return;
    if (fai_opencl.program_info(program, CL_PROGRAM_BINARY_SIZES, sizeof bytes, &bytes, NULL) != CL_SUCCESS || !bytes) return;
    unsigned char *image = fai_alloc(FAI_TAG_OTHER, bytes);
    if (!image) return;
    if (fai_opencl.program_info(program, CL_PROGRAM_BINARIES, sizeof image, &image, NULL) == CL_SUCCESS)
        fai_cache_write(key, image, bytes);
    fai_free(FAI_TAG_OTHER, image, bytes);
}

/* ---- build ---- */

int fai_opencl_build(int device, const char *name, const char *text, const char *options, fa_program_handle *out, char *log, size_t n) {
    char all[512];
    cl_int code = CL_SUCCESS;
    size_t bytes = strlen(text);
    *out = NULL;
    if (n) log[0] = 0;
    int bad = fai_opencl_enter(device);
    if (bad) return bad;
    const fai_opencl_device *d = &fai_opencl_devices[device];
    snprintf(all, sizeof all, "-cl-std=CL1.2 -DFA_OBJECTS%s%s%s%s %s", d->exact ? " -cl-fp32-correctly-rounded-divide-sqrt" : "",
             d->by_value ? " -DFA_PLAN_BY_VALUE" : "", d->has_float64 ? "" : " -DFA_NO_F64 -cl-single-precision-constant",
             d->is_cpu ? " -DFA_NOT_UNROLLED" : "", options ? options : "");
    const fai_cache_key key = key_of(d, text, all);
    cl_program program = load_cached(d, key, all);
    if (program) return *out = (fa_program_handle)(void *)program, 0;
    program = fai_opencl.program_create(d->context, 1, &text, &bytes, &code);
    if (!program) return fai_opencl_failed(device, code, "opening the program '%s'", name);
    code = fai_opencl.program_build(program, 1, &d->id, all, NULL, NULL);
    if (code == CL_SUCCESS) {
        keep(d, key, program);
        return *out = (fa_program_handle)(void *)program, 0;
    }
    read_log(device, program, log, n);
    fai_opencl.program_release(program);
    return fai_opencl_failed(device, code, "compiling the program '%s'", name);
}

int fai_opencl_unload(int device, fa_program_handle program) {
    cl_int code = fai_opencl.program_release((cl_program)(void *)program);
    return code == CL_SUCCESS ? 0 : fai_opencl_failed(device, code, "unloading a program of device %d", device);
}

/* The objects that tables lead to; NULL: none. */
static cl_int set_objects(cl_kernel kernel, const cl_mem *object) {
    cl_int code = CL_SUCCESS;
    for (cl_uint i = 0; code == CL_SUCCESS && i < FA_PLAN_OBJECTS; i++)
        code = fai_opencl.kernel_argument(kernel, 9 + i, sizeof(cl_mem), object && object[i] ? &object[i] : NULL);
    return code;
}

int fai_opencl_find(int device, fa_program_handle program, const char *kernel, fa_kernel_handle *out) {
    cl_int code = CL_SUCCESS;
    cl_kernel made = fai_opencl.kernel_create((cl_program)(void *)program, kernel, &code);
    if (made) (void)set_objects(made, NULL); /* those that take none refuse them */
    *out = (fa_kernel_handle)(void *)made;
    return made ? 0 : fai_opencl_failed(device, code, "looking for the kernel '%s'", kernel);
}

/* ---- launch ---- */

static void fill_block(const fai_opencl_device *d, fai_opencl_block *block, const fa_plan *plan, const size_t offset[8]) {
    block->plan = *plan;
    for (int i = 0; i < 8; i++) block->offset[i] = (int64_t)offset[i];
    if (d->has_float64) return;
    float narrow[2 * FA_PLAN_FLOATS] = {0}; /* FA_NO_F64 of kernels/plan.h */
    for (int i = 0; i < FA_PLAN_FLOATS; i++) narrow[i] = (float)plan->f[i];
    memcpy(block->plan.f, narrow, sizeof narrow);
}

/* Gets the plan to where the kernel finds it: first argument. */
static cl_int give_plan(const fai_opencl_device *d, fai_opencl_queue *q, cl_kernel kernel, const fa_plan *plan, const size_t offset[8]) {
    if (d->by_value) {
        fai_opencl_block block;
        fill_block(d, &block, plan, offset);
        return fai_opencl.kernel_argument(kernel, 0, sizeof block, &block);
    }
    const unsigned place = q->next++ % FAI_OPENCL_PLANS, half = place / (FAI_OPENCL_PLANS / 2);
    const bool first = place % (FAI_OPENCL_PLANS / 2) == 0, last = (place + 1) % (FAI_OPENCL_PLANS / 2) == 0;
    cl_int code = CL_SUCCESS;
    if (first && q->read[half]) {
        code = fai_opencl.event_wait(1, &q->read[half]);
        fai_opencl.event_release(q->read[half]);
        q->read[half] = NULL;
    }
    fill_block(d, &q->blocks[place], plan, offset);
    if (code == CL_SUCCESS)
        code = fai_opencl.write(q->queue, q->plan, 0, 0, sizeof q->blocks[place], &q->blocks[place], 0, NULL, last ? &q->read[half] : NULL);
    return code == CL_SUCCESS ? fai_opencl.kernel_argument(kernel, 0, sizeof q->plan, &q->plan) : code;
}

static bool has_table(const fa_plan *plan) {
    for (int i = 0; i < FA_PLAN_VIEWS; i++)
        if (plan->view[i].kind == FA_VIEW_TABLE) return true;
    return false;
}

static int find_objects(int device, const fa_plan *plan, cl_mem object[FA_PLAN_OBJECTS]) {
    for (int i = 0; i < FA_PLAN_OBJECTS; i++) {
        const fa_address address = (fa_address)plan->n[FA_PLAN_OBJECTS_AT + i] << FAI_OPENCL_SHIFT;
        size_t offset;
        if (address && !fai_opencl_find_memory(&fai_opencl_devices[device], address, &object[i], &offset))
            return fai_opencl_refused("OpenCL error: a table of a kernel leads to no memory of device %d", device);
    }
    return 0;
}

static int launch_locked(int device, fai_opencl_queue *q, cl_kernel kernel, uint64_t groups, int group_size, const fa_plan *plan,
                         const fa_address pointers[8]) {
    const fai_opencl_device *d = &fai_opencl_devices[device];
    cl_mem object[8] = {NULL}; /* stays so for an operand without elements, whose address is that of no memory and an offset */
    size_t offset[8] = {0}, local = (size_t)group_size, global = (size_t)groups * local;
    for (int i = 0; i < 8; i++)
        if (pointers[i] >> FAI_OPENCL_SHIFT && !fai_opencl_find_memory(d, pointers[i], &object[i], &offset[i]))
            return fai_opencl_refused("OpenCL error: operand %d of a kernel has no memory on device %d", i, device);
    const bool table = has_table(plan);
    cl_mem behind[FA_PLAN_OBJECTS] = {NULL};
    int bad = table ? find_objects(device, plan, behind) : 0;
    if (bad) return bad;
    cl_int code = give_plan(d, q, kernel, plan, offset);
    for (cl_uint i = 0; code == CL_SUCCESS && i < 8; i++)
        code = fai_opencl.kernel_argument(kernel, i + 1, sizeof(cl_mem), object[i] ? &object[i] : NULL);
    if (code == CL_SUCCESS && table) code = set_objects(kernel, behind);
    if (code == CL_SUCCESS) code = fai_opencl.launch(q->queue, kernel, 1, NULL, &global, &local, 0, NULL, NULL);
    if (table) (void)set_objects(kernel, NULL); /* a later launch without tables must not name memory that is gone */
    return code == CL_SUCCESS ? 0 : fai_opencl_failed(device, code, "launching a kernel on device %d", device);
}

int fai_opencl_launch(int device, fa_stream_handle stream, fa_kernel_handle kernel, uint64_t groups, int group_size, const void *plan,
                      size_t plan_bytes, const fa_address pointers[8]) {
    int bad = fai_opencl_enter(device);
    if (bad) return bad;
    if (plan_bytes != sizeof(fa_plan)) return fai_opencl_refused("OpenCL error: a plan of %zu bytes", plan_bytes);
    if (groups == 0) return 0;
    if (groups > INT32_MAX)
        return fai_opencl_refused("OpenCL error: a launch of %llu groups; at most %d", (unsigned long long)groups, INT32_MAX);
    fai_opencl_device *d = &fai_opencl_devices[device];
    pthread_mutex_lock(&d->lock); /* a kernel's arguments are its own state */
    bad = launch_locked(device, fai_opencl_queue_of(device, stream), (cl_kernel)(void *)kernel, groups, group_size, plan, pointers);
    pthread_mutex_unlock(&d->lock);
    return bad;
}
