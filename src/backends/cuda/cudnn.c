/* Convolutions of two dimensions and their gradients by cuDNN 9, from the plan of kernels/conv.k.h: tensors are dense in the order
 * NCHW, so four descriptors say all. A forward convolution with biases is two calls.
 *
 * The algorithm is the first in cuDNN's order (by its heuristic, or by measuring, if that was asked for) that is as deterministic as
 * wanted and needs no more memory than allowed. It is chosen once for each kind of convolution. */
#include "cuda.h"
#include "vendor.h"
#include <string.h>

static fai_cudnn dnn;
static uint64_t version(void) { return dnn.version(); }
static const fai_cuda_symbol symbols[] = {
#define FAI_CUDNN(result, member, symbol, args) {#symbol, offsetof(fai_cudnn, member)},
#include "libraries.def"
};

enum { FORWARD, DATA, FILTER };

/* All numbers are 64 bits wide, so that keys can be compared as bytes. n: as the plan's, the first 16. */
typedef struct kind {
    int64_t device, direction, type, bias, tf32, deterministic, measure, n[16];
} kind;

typedef struct convolution {
    fai_cuda_entry entry;
    kind key;
    cudnnTensorDescriptor_t in, out, bias;
    cudnnFilterDescriptor_t weight;
    cudnnConvolutionDescriptor_t description;
    int algorithm;
} convolution;

enum { ALGORITHMS = 8, ALIGNED = 16 };
#define MOST_WORKSPACE ((size_t)256 << 20)
static cudnnHandle_t handles[FAI_CUDA_DEVICES];

/* ---- from the plan to a kind of convolution ---- */

static int type_of(int dtype) {
    switch (dtype) {
    case FA_T_FLOAT16: return CUDNN_DATA_HALF;
    case FA_T_BFLOAT16: return CUDNN_DATA_BFLOAT16;
    case FA_T_FLOAT32: return CUDNN_DATA_FLOAT;
    case FA_T_FLOAT64: return CUDNN_DATA_DOUBLE;
    default: return -1;
    }
}

static bool fits(double a, double b, double c, double d) { return a * b * c * d <= INT32_MAX; }

/* NULL: fine; else why cuDNN is not asked. */
static const char *read_plan(int direction, const fa_plan *plan, const fa_address pointers[8], unsigned modes, kind *key) {
    const fa_i64 *n = plan->n;
    if (!(modes & FA_MATH_CONV_LIBRARY)) return "the own kernels are preferred";
    key->direction = direction;
    key->type = type_of(plan->view[0].dtype);
    key->bias = direction == FORWARD && plan->view[3].kind == FA_VIEW_TENSOR;
    for (int i = 0; i < 3 + (int)key->bias; i++) {
        if (plan->view[i].dtype != plan->view[0].dtype || key->type < 0) return "the tensors are not all of one floating type";
        if (pointers[i] % ALIGNED) return "a tensor does not begin at a multiple of 16 bytes";
    }
    for (int i = 0; i < 16; i++) {
        if (n[i] > INT32_MAX) return "a size is beyond 32 bits";
        key->n[i] = n[i];
    }
    if (n[0] < 1 || n[1] < 1 || n[4] < 1) return "there is nothing to sum";
    if (!fits((double)n[0], (double)n[1], (double)n[2], (double)n[3]) || !fits((double)n[0], (double)n[4], (double)n[7], (double)n[8]))
        return "a tensor has more than 2147483647 elements";
    key->tf32 = key->type == CUDNN_DATA_FLOAT && (modes & FA_MATH_CONV_TF32);
    key->deterministic = (modes & (FA_MATH_CONV_DETERMINISTIC | FA_MATH_DETERMINISTIC)) != 0;
    key->measure = (modes & FA_MATH_CONV_BENCHMARK) != 0;
    return NULL;
}

/* ---- making what one kind needs ---- */

static void destroy(fai_cuda_entry *entry) {
    convolution *c = (convolution *)entry;
    if (c->in) dnn.tensor_destroy(c->in);
    if (c->out) dnn.tensor_destroy(c->out);
    if (c->bias) dnn.tensor_destroy(c->bias);
    if (c->weight) dnn.filter_destroy(c->weight);
    if (c->description) dnn.conv_destroy(c->description);
    fai_free(FAI_TAG_OTHER, c, sizeof *c);
}

static cudnnStatus_t describe(convolution *c) {
    const int type = (int)c->key.type;
    int n[16];
    for (int i = 0; i < 16; i++) n[i] = (int)c->key.n[i];
    cudnnStatus_t bad = dnn.tensor_create(&c->in);
    if (!bad) bad = dnn.tensor_set(c->in, CUDNN_TENSOR_NCHW, type, n[0], n[1], n[2], n[3]);
    if (!bad) bad = dnn.tensor_create(&c->out);
    if (!bad) bad = dnn.tensor_set(c->out, CUDNN_TENSOR_NCHW, type, n[0], n[4], n[7], n[8]);
    if (!bad && c->key.bias) bad = dnn.tensor_create(&c->bias);
    if (!bad && c->key.bias) bad = dnn.tensor_set(c->bias, CUDNN_TENSOR_NCHW, type, 1, n[4], 1, 1);
    if (!bad) bad = dnn.filter_create(&c->weight);
    if (!bad) bad = dnn.filter_set(c->weight, type, CUDNN_TENSOR_NCHW, n[4], n[1] / n[15], n[5], n[6]);
    if (!bad) bad = dnn.conv_create(&c->description);
    if (!bad)
        bad = dnn.conv_set(c->description, n[11], n[12], n[9], n[10], n[13], n[14], CUDNN_CROSS_CORRELATION,
                           type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT);
    if (!bad) bad = dnn.conv_set_groups(c->description, n[15]);
    return bad;
}

/* How float32 may be multiplied: FMA alone never rounds to TF32. */
static int first_math(const kind *key) {
    if (key->type == CUDNN_DATA_HALF || key->type == CUDNN_DATA_BFLOAT16) return CUDNN_TENSOR_OP_MATH;
    return key->type == CUDNN_DATA_FLOAT && !key->tf32 ? CUDNN_FMA_MATH : CUDNN_DEFAULT_MATH;
}

static cudnnStatus_t list(const convolution *c, fai_dnn_choice *choices, int *count) {
    const cudnnHandle_t h = handles[c->key.device];
    const bool measure = c->key.measure;
    switch (c->key.direction) {
    case FORWARD: return (measure ? dnn.try_forward : dnn.choose_forward)(h, c->in, c->weight, c->description, c->out, ALGORITHMS, count, choices);
    case DATA: return (measure ? dnn.try_data : dnn.choose_data)(h, c->weight, c->out, c->description, c->in, ALGORITHMS, count, choices);
    default: return (measure ? dnn.try_filter : dnn.choose_filter)(h, c->in, c->out, c->description, c->weight, ALGORITHMS, count, choices);
    }
}

static cudnnStatus_t ask_room(const convolution *c, int algorithm, size_t *bytes) {
    const cudnnHandle_t h = handles[c->key.device];
    switch (c->key.direction) {
    case FORWARD: return dnn.room_forward(h, c->in, c->weight, c->description, c->out, algorithm, bytes);
    case DATA: return dnn.room_data(h, c->weight, c->out, c->description, c->in, algorithm, bytes);
    default: return dnn.room_filter(h, c->in, c->out, c->description, c->weight, algorithm, bytes);
    }
}

static cudnnStatus_t choose(convolution *c) {
    fai_dnn_choice choices[ALGORITHMS];
    int count = 0;
    const int math = first_math(&c->key);
    cudnnStatus_t bad = dnn.conv_set_math(c->description, math);
    memset(choices, 0, sizeof choices);
    if (!bad) bad = list(c, choices, &count);
    if (bad) return bad;
    for (int i = 0; i < count && i < ALGORITHMS; i++) {
        size_t bytes = 0;
        if (choices[i].status || (c->key.deterministic && choices[i].determinism != CUDNN_DETERMINISTIC)) continue;
        if (dnn.conv_set_math(c->description, math == CUDNN_FMA_MATH ? math : choices[i].mathType)) continue;
        if (ask_room(c, choices[i].algo, &bytes) || bytes > MOST_WORKSPACE) continue;
        c->algorithm = choices[i].algo;
        c->entry.workspace = bytes;
        return CUDNN_STATUS_SUCCESS;
    }
    return CUDNN_STATUS_NOT_SUPPORTED;
}

static fai_cuda_entry *make(const void *of, const fa_address pointers[8], int *answer) {
    const kind *key = of;
    (void)pointers;
    *answer = handles[key->device] ? CUDNN_STATUS_SUCCESS : dnn.create(&handles[key->device]);
    if (*answer) return NULL;
    convolution *c = fai_calloc(FAI_TAG_OTHER, sizeof *c);
    *answer = CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
    if (!c) return NULL;
    c->key = *key;
    *answer = describe(c);
    if (!*answer) *answer = choose(c);
    if (!*answer) return &c->entry;
    destroy(&c->entry);
    return NULL;
}

static void close_handle(int device) {
    if (handles[device]) dnn.destroy(handles[device]);
    handles[device] = NULL;
}

static const char *answer(int status) { return dnn.status_name(status); }

fai_cuda_vendor fai_cuda_cudnn = {.name = "cudnn",
                                  .variable = "FACULA_CUDNN",
                                  .which = FAI_CUDA_CUDNN,
                                  .symbols = symbols,
                                  .nsymbols = sizeof symbols / sizeof symbols[0],
                                  .table = &dnn,
                                  .version = version,
                                  .lock = PTHREAD_MUTEX_INITIALIZER,
                                  .key_at = offsetof(convolution, key),
                                  .key_bytes = sizeof(kind),
                                  .make = make,
                                  .destroy = destroy,
                                  .close = close_handle,
                                  .answer = answer};

/* ---- the doors ---- */

int fai_cuda_conv_prepare(int device, int direction, const fa_plan *plan, const fa_address pointers[8], unsigned modes,
                          fa_library_call *call) {
    static const char *const names[] = {"cudnnConvolutionForward", "cudnnConvolutionBackwardData", "cudnnConvolutionBackwardFilter"};
    kind key;
    memset(&key, 0, sizeof key);
    key.device = device;
    const char *why = read_plan(direction, plan, pointers, modes, &key);
    return fai_cuda_entry_prepare(&fai_cuda_cudnn, device, why, &key, pointers, names[direction], call);
}

static cudnnStatus_t convolve(const convolution *c, cudnnHandle_t h, const fa_address pointers[8], fa_address workspace, const void *one,
                              const void *zero) {
    const void *const a = (const void *)(uintptr_t)pointers[1], *const b = (const void *)(uintptr_t)pointers[2];
    void *const result = (void *)(uintptr_t)pointers[0], *const room = (void *)(uintptr_t)workspace;
    switch (c->key.direction) {
    case FORWARD: return dnn.run_forward(h, one, c->in, a, c->weight, b, c->description, c->algorithm, room, c->entry.workspace, zero, c->out, result);
    case DATA: return dnn.run_data(h, one, c->weight, b, c->out, a, c->description, c->algorithm, room, c->entry.workspace, zero, c->in, result);
    default: return dnn.run_filter(h, one, c->in, b, c->out, a, c->description, c->algorithm, room, c->entry.workspace, zero, c->weight, result);
    }
}

int fai_cuda_conv_run(int device, fa_stream_handle stream, fa_library_call *call, const fa_address pointers[8], fa_address workspace) {
    static const double one64 = 1, zero64 = 0;
    static const float one32 = 1, zero32 = 0;
    const convolution *c = call->state;
    const bool wide = c->key.type == CUDNN_DATA_DOUBLE;
    const void *one = wide ? (const void *)&one64 : &one32, *zero = wide ? (const void *)&zero64 : &zero32;
    const char *name = call->name;
    int bad = fai_cuda_enter(device);
    if (bad) return bad;
    pthread_mutex_lock(&fai_cuda_cudnn.lock); /* a handle has one stream at a time */
    cudnnStatus_t status = dnn.set_stream(handles[device], (cudaStream_t)(CUstream)stream);
    if (!status) status = convolve(c, handles[device], pointers, workspace, one, zero);
    call->launches = !status;
    if (!status && c->key.bias) {
        name = "cudnnAddTensor";
        status = dnn.add(handles[device], one, c->bias, (const void *)(uintptr_t)pointers[3], one, c->out, (void *)(uintptr_t)pointers[0]);
        call->launches += !status;
    }
    pthread_mutex_unlock(&fai_cuda_cudnn.lock);
    return status ? fai_cuda_vendor_failed("cuDNN", dnn.status_name(status), name) : 0;
}
