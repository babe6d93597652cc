/* cuDNN's functions for convolutions, as far as the cuda backend calls them; strict as cublaslt.c. Each direction has two algorithms:
 * number 1 is said to be the faster one, wants a workspace and, going backward, is not deterministic; measured, number 0 is the
 * faster one. */
#include "sim.h"
#include "../cuda/vendor.h"
#include <stdlib.h>
#include <string.h>

struct cudnnContext {
    sim_device *device;
    CUstream stream;
};
struct cudnnTensorStruct {
    int type, n, c, h, w;
};
struct cudnnFilterStruct {
    int type, k, c, h, w;
};
struct cudnnConvolutionStruct {
    int pad[2], stride[2], dilation[2], compute, groups, math;
};
enum { FORWARD, DATA, FILTER };
enum { RESULT, FIRST, SECOND, WORKSPACE, VIEWS, WANTS_WORKSPACE = 32768 };

static cudnnStatus_t refuse(const char *what) {
    sim_fail(CUDA_SUCCESS, "simulated cuDNN: %s", what);
    return CUDNN_STATUS_BAD_PARAM;
}

/* ---- objects ---- */

SIM_API size_t cudnnGetVersion(void) { return 90300; }

SIM_API const char *cudnnGetErrorString(cudnnStatus_t status) {
    switch (status) {
    case CUDNN_STATUS_SUCCESS: return "CUDNN_STATUS_SUCCESS";
    case CUDNN_STATUS_NOT_INITIALIZED: return "CUDNN_STATUS_NOT_INITIALIZED";
    case CUDNN_STATUS_BAD_PARAM: return "CUDNN_STATUS_BAD_PARAM";
    case CUDNN_STATUS_NOT_SUPPORTED: return "CUDNN_STATUS_NOT_SUPPORTED";
    case CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED: return "CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED";
    case CUDNN_STATUS_EXECUTION_FAILED: return "CUDNN_STATUS_EXECUTION_FAILED";
    default: return "CUDNN_STATUS unknown";
    }
}

#define MAKE(type, out) \
    (*(out) = calloc(1, sizeof(type)), *(out) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED)
#define DROP(object) (free(object), CUDNN_STATUS_SUCCESS)

SIM_API cudnnStatus_t cudnnCreate(cudnnHandle_t *handle) {
    sim_device *device = sim_current();
    if (!device) return CUDNN_STATUS_NOT_INITIALIZED;
    cudnnStatus_t bad = MAKE(struct cudnnContext, handle);
    if (!bad) (*handle)->device = device;
    return bad;
}
SIM_API cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) { return DROP(handle); }
SIM_API cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
    handle->stream = stream;
    return CUDNN_STATUS_SUCCESS;
}

SIM_API cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t *t) { return MAKE(struct cudnnTensorStruct, t); }
SIM_API cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t t) { return DROP(t); }
SIM_API cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t t, cudnnTensorFormat_t format, cudnnDataType_t type, int n,
                                                 int c, int h, int w) {
    if (format != CUDNN_TENSOR_NCHW || n < 1 || c < 1 || h < 1 || w < 1) return refuse("a tensor of another format, or without elements");
    *t = (struct cudnnTensorStruct){type, n, c, h, w};
    return CUDNN_STATUS_SUCCESS;
}

SIM_API cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t *f) { return MAKE(struct cudnnFilterStruct, f); }
SIM_API cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t f) { return DROP(f); }
SIM_API cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t f, cudnnDataType_t type, cudnnTensorFormat_t format, int k,
                                                 int c, int h, int w) {
    if (format != CUDNN_TENSOR_NCHW || k < 1 || c < 1 || h < 1 || w < 1) return refuse("a filter of another format, or without elements");
    *f = (struct cudnnFilterStruct){type, k, c, h, w};
    return CUDNN_STATUS_SUCCESS;
}

SIM_API cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t *c) {
    cudnnStatus_t bad = MAKE(struct cudnnConvolutionStruct, c);
    if (!bad) (*c)->groups = 1;
    return bad;
}
SIM_API cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t c) { return DROP(c); }
SIM_API cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t c, int pad_h, int pad_w, int stride_h, int stride_w,
                                                      int dilation_h, int dilation_w, cudnnConvolutionMode_t mode,
                                                      cudnnDataType_t compute) {
    if (pad_h < 0 || pad_w < 0 || stride_h < 1 || stride_w < 1 || dilation_h < 1 || dilation_w < 1) return refuse("padding or steps out of range");
    if (mode != CUDNN_CROSS_CORRELATION) return refuse("it turns the filter, which no layer wants");
    const int groups = c->groups, math = c->math;
    *c = (struct cudnnConvolutionStruct){{pad_h, pad_w}, {stride_h, stride_w}, {dilation_h, dilation_w}, compute, groups, math};
    return CUDNN_STATUS_SUCCESS;
}
SIM_API cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t c, cudnnMathType_t math) {
    if (math != CUDNN_DEFAULT_MATH && math != CUDNN_TENSOR_OP_MATH && math != CUDNN_FMA_MATH) return refuse("an unknown math type");
    c->math = math;
    return CUDNN_STATUS_SUCCESS;
}
SIM_API cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t c, int groups) {
    if (groups < 1) return refuse("no groups");
    c->groups = groups;
    return CUDNN_STATUS_SUCCESS;
}

/* ---- choosing ---- */

static int reach(const struct cudnnConvolutionStruct *c, int side, int length, int kernel) {
    const int padded = length + 2 * c->pad[side], needs = c->dilation[side] * (kernel - 1) + 1;
    return padded < needs ? 0 : (padded - needs) / c->stride[side] + 1;
}

static const char *mismatch(cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w, cudnnConvolutionDescriptor_t c,
                            cudnnTensorDescriptor_t y) {
    const int type = x->type;
    if (w->type != type || y->type != type) return "tensors of several types";
    if (type != CUDNN_DATA_FLOAT && type != CUDNN_DATA_DOUBLE && type != CUDNN_DATA_HALF && type != CUDNN_DATA_BFLOAT16) return "an unknown type";
    if (c->compute != (type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT)) return "the compute type does not go with the tensors'";
    if (x->c != w->c * c->groups || w->k % c->groups || y->c != w->k || y->n != x->n) return "channels, groups or images that don't fit";
    if (y->h != reach(c, 0, x->h, w->h) || y->w != reach(c, 1, x->w, w->w)) return "the result's height or width is not what these options make";
    return NULL;
}

static size_t room_of(int algorithm) { return algorithm ? WANTS_WORKSPACE : 0; }

static cudnnStatus_t list(cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w, cudnnConvolutionDescriptor_t c, cudnnTensorDescriptor_t y,
                          int direction, bool measured, int wanted, int *found, fai_dnn_choice *out) {
    const char *wrong = mismatch(x, w, c, y);
    *found = 0;
    if (wrong) return refuse(wrong);
    for (int i = 0; i < 2 && i < wanted; i++) {
        const int algorithm = measured ? i : 1 - i;
        out[i] = (fai_dnn_choice){.algo = algorithm,
                                  .time = measured ? (float)(1 + i) : -1,
                                  .memory = room_of(algorithm),
                                  .determinism = direction == FORWARD || algorithm == 0,
                                  .mathType = c->math};
        *found = i + 1;
    }
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t tell_room(const char *wrong, int algorithm, size_t *bytes) {
    if (wrong) return refuse(wrong);
    if (algorithm != 0 && algorithm != 1) return CUDNN_STATUS_NOT_SUPPORTED;
    *bytes = room_of(algorithm);
    return CUDNN_STATUS_SUCCESS;
}

/* ---- convolving ---- */

static int dtype_of(int type) {
    return type == CUDNN_DATA_HALF       ? FA_T_FLOAT16
           : type == CUDNN_DATA_BFLOAT16 ? FA_T_BFLOAT16
           : type == CUDNN_DATA_FLOAT    ? FA_T_FLOAT32
                                         : FA_T_FLOAT64;
}

/* What one weight connects: out of the plan's numbers. n: images, x's c, h, w, y's c, h, w, kernel h, w, pad, stride, dilation (two
 * each), groups, direction, TF32. Returns the sum for one element of the result, all that it does not depend on walked in order. */
typedef struct walk {
    const fa_i64 *n;
    int type;
    const char *first, *second;
    double sum;
} walk;

static double operand(const walk *s, const char *memory, fa_i64 i) {
    const double v = sim_load(memory, s->type, i);
    return s->n[17] ? sim_tf32(v) : v;
}

/* x[image, channel, i * stride - pad + kernel * dilation]; -1 outside. */
static fa_i64 x_at(const fa_i64 *n, fa_i64 image, fa_i64 channel, fa_i64 oh, fa_i64 ow, fa_i64 kh, fa_i64 kw) {
    const fa_i64 h = oh * n[11] - n[9] + kh * n[13], w = ow * n[12] - n[10] + kw * n[14];
    if (h < 0 || h >= n[2] || w < 0 || w >= n[3]) return -1;
    return ((image * n[1] + channel) * n[2] + h) * n[3] + w;
}

/* Every (x, w, y) that belongs together; those of one result's element are added in this order. */
static void walk_all(const fa_i64 *n, void (*visit)(void *, fa_i64 x, fa_i64 w, fa_i64 y), void *context) {
    const fa_i64 per_group = n[1] / n[15], outs = n[4] / n[15];
    for (fa_i64 image = 0; image < n[0]; image++)
        for (fa_i64 o = 0; o < n[4]; o++)
            for (fa_i64 oh = 0; oh < n[5]; oh++)
                for (fa_i64 ow = 0; ow < n[6]; ow++)
                    for (fa_i64 c = 0; c < per_group; c++)
                        for (fa_i64 k = 0; k < n[7] * n[8]; k++) {
                            const fa_i64 x = x_at(n, image, o / outs * per_group + c, oh, ow, k / n[8], k % n[8]);
                            if (x >= 0) visit(context, x, (o * per_group + c) * n[7] * n[8] + k, ((image * n[4] + o) * n[5] + oh) * n[6] + ow);
                        }
}

typedef struct sums {
    walk w;
    double *of; /* the result's elements */
} sums;

static void add_one(void *context, fa_i64 x, fa_i64 w, fa_i64 y) {
    sums *s = context;
    const fa_i64 at[3][3] = {{y, x, w}, {x, w, y}, {w, x, y}}, *of = at[s->w.n[16]];
    s->of[of[0]] += operand(&s->w, s->w.first, of[1]) * operand(&s->w, s->w.second, of[2]);
}

static void convolve(const fa_plan *plan, char *const *at, fa_i64 group) {
    (void)group;
    const size_t count = (size_t)plan->numel;
    sums s = {{plan->n, plan->view[RESULT].dtype, at[FIRST], at[SECOND], 0}, calloc(count, sizeof *s.of)};
    if (at[WORKSPACE]) memset(at[WORKSPACE], 0xA5, (size_t)plan->view[WORKSPACE].high);
    if (!s.of) abort(); /* a simulated device has no way to tell */
    walk_all(plan->n, add_one, &s);
    for (size_t i = 0; i < count; i++) sim_store(at[RESULT], s.w.type, (fa_i64)i, s.of[i]);
    free(s.of);
}
static const fa_kernel_entry entries[] = {{"cudnnConvolutionForward", "cudnn", 1, convolve, 0},
                                          {"cudnnConvolutionBackwardData", "cudnn", 1, convolve, 0},
                                          {"cudnnConvolutionBackwardFilter", "cudnn", 1, convolve, 0}};

static bool is_one_and_zero(int type, const void *one, const void *zero) {
    if (type == CUDNN_DATA_DOUBLE) return *(const double *)one == 1 && *(const double *)zero == 0;
    return *(const float *)one == 1 && *(const float *)zero == 0;
}

typedef struct call {
    int direction, algorithm;
    cudnnHandle_t handle;
    cudnnTensorDescriptor_t x, y;
    cudnnFilterDescriptor_t w;
    cudnnConvolutionDescriptor_t c;
    const void *one, *zero, *result, *first, *second, *workspace;
    size_t workspace_bytes;
} call;

static cudnnStatus_t run(const call *k) {
    const char *wrong = mismatch(k->x, k->w, k->c, k->y);
    const char *override = getenv("NVIDIA_TF32_OVERRIDE");
    const void *const given[SIM_POINTERS] = {k->result, k->first, k->second, k->algorithm ? k->workspace : NULL};
    CUdeviceptr pointers[SIM_POINTERS];
    const int64_t x = (int64_t)k->x->n * k->x->c * k->x->h * k->x->w, y = (int64_t)k->y->n * k->y->c * k->y->h * k->y->w,
                  w = (int64_t)k->w->k * k->w->c * k->w->h * k->w->w;
    const int64_t counts[3][3] = {{y, x, w}, {x, w, y}, {w, x, y}}, *count = counts[k->direction];
    for (int i = 0; i < SIM_POINTERS; i++) pointers[i] = (CUdeviceptr)(uintptr_t)given[i];
    if (!wrong && (k->algorithm < 0 || k->algorithm > 1)) wrong = "an unknown algorithm";
    if (!wrong && k->handle->device != sim_current()) wrong = "the handle is another device's";
    if (!wrong && k->workspace_bytes < room_of(k->algorithm)) wrong = "the workspace is too small";
    if (!wrong && k->algorithm && pointers[WORKSPACE] % 256) wrong = "the workspace is not aligned to 256 bytes";
    if (!wrong && !is_one_and_zero(k->x->type, k->one, k->zero)) wrong = "the stand-in has only alpha 1 and beta 0";
    for (int i = 0; i < 3 && !wrong; i++)
        if (!pointers[i] || pointers[i] % 16) wrong = "a pointer is not aligned to 16 bytes";
    if (wrong) return refuse(wrong);
    const bool tf32 = k->x->type == CUDNN_DATA_FLOAT && k->c->math != CUDNN_FMA_MATH && !(override && *override == '0');
    fa_plan plan = {.groups = 1,
                    .nviews = VIEWS,
                    .numel = count[0],
                    .n = {k->x->n, k->x->c, k->x->h, k->x->w, k->y->c, k->y->h, k->y->w, k->w->h, k->w->w, k->c->pad[0], k->c->pad[1],
                          k->c->stride[0], k->c->stride[1], k->c->dilation[0], k->c->dilation[1], k->c->groups, k->direction, tf32}};
    for (int i = 0; i < 3; i++) plan.view[i] = sim_span(dtype_of(k->x->type), 0, count[i], i == RESULT);
    if (k->algorithm) plan.view[WORKSPACE] = sim_span(FA_T_FLOAT32, 0, WANTS_WORKSPACE / 4, true);
    return sim_call(&entries[k->direction], k->handle->stream, &plan, pointers) ? CUDNN_STATUS_EXECUTION_FAILED : CUDNN_STATUS_SUCCESS;
}

/* ---- adding a bias ---- */

static void add_bias(const fa_plan *plan, char *const *at, fa_i64 group) {
    (void)group;
    for (fa_i64 i = 0; i < plan->numel; i++) {
        const double bias = sim_load(at[1], plan->view[0].dtype, i / plan->n[1] % plan->n[0]);
        sim_store(at[0], plan->view[0].dtype, i, sim_load(at[0], plan->view[0].dtype, i) + bias);
    }
}

SIM_API cudnnStatus_t cudnnAddTensor(cudnnHandle_t handle, const void *alpha, const cudnnTensorDescriptor_t a_tensor, const void *a,
                                     const void *beta, const cudnnTensorDescriptor_t c_tensor, void *c) {
    static const fa_kernel_entry entry = {"cudnnAddTensor", "cudnn", 1, add_bias, 0};
    const struct cudnnTensorStruct *t = c_tensor, *b = a_tensor;
    const bool wide = t->type == CUDNN_DATA_DOUBLE;
    if (b->n != 1 || b->c != t->c || b->h != 1 || b->w != 1 || b->type != t->type) return refuse("what is added is no row of biases");
    if (wide ? *(const double *)alpha != 1 || *(const double *)beta != 1 : *(const float *)alpha != 1 || *(const float *)beta != 1)
        return refuse("the stand-in adds only with alpha 1 and beta 1");
    const int64_t plane = (int64_t)t->h * t->w, count = (int64_t)t->n * t->c * plane;
    fa_plan plan = {.groups = 1, .nviews = 2, .numel = count, .n = {t->c, plane}};
    const CUdeviceptr pointers[SIM_POINTERS] = {(CUdeviceptr)(uintptr_t)c, (CUdeviceptr)(uintptr_t)a};
    plan.view[0] = sim_span(dtype_of(t->type), 0, count, true);
    plan.view[1] = sim_span(dtype_of(t->type), 0, t->c, false);
    return sim_call(&entry, handle->stream, &plan, pointers) ? CUDNN_STATUS_EXECUTION_FAILED : CUDNN_STATUS_SUCCESS;
}

/* ---- the functions of the three directions ---- */

#define LISTS(Name, Algo, direction, A, a, B, b, C, c)                                                                            \
    SIM_API cudnnStatus_t cudnnGetConvolution##Name##Algorithm_v7(                                                                \
        cudnnHandle_t handle, const A a, const B b, const cudnnConvolutionDescriptor_t conv, const C c, const int wanted,         \
        int *found, cudnnConvolution##Algo##AlgoPerf_t *results) {                                                                \
        (void)handle;                                                                                                             \
        return list(x, w, conv, y, direction, false, wanted, found, results);                                                     \
    }                                                                                                                             \
    SIM_API cudnnStatus_t cudnnFindConvolution##Name##Algorithm(                                                                  \
        cudnnHandle_t handle, const A a, const B b, const cudnnConvolutionDescriptor_t conv, const C c, const int wanted,         \
        int *found, cudnnConvolution##Algo##AlgoPerf_t *results) {                                                                \
        (void)handle;                                                                                                             \
        return list(x, w, conv, y, direction, true, wanted, found, results);                                                      \
    }                                                                                                                             \
    SIM_API cudnnStatus_t cudnnGetConvolution##Name##WorkspaceSize(                                                               \
        cudnnHandle_t handle, const A a, const B b, const cudnnConvolutionDescriptor_t conv, const C c,                           \
        cudnnConvolution##Algo##Algo_t algorithm, size_t *bytes) {                                                                \
        (void)handle;                                                                                                             \
        return tell_room(mismatch(x, w, conv, y), algorithm, bytes);                                                              \
    }                                                                                                                             \
    SIM_API cudnnStatus_t cudnnConvolution##Name(                                                                                 \
        cudnnHandle_t handle, const void *alpha, const A a, const void *first, const B b, const void *second,                     \
        const cudnnConvolutionDescriptor_t conv, cudnnConvolution##Algo##Algo_t algorithm, void *workspace,                       \
        size_t workspace_bytes, const void *beta, const C c, void *result) {                                                      \
        return run(&(call){direction, algorithm, handle, x, y, w, conv, alpha, beta, result, first, second, workspace,            \
                           workspace_bytes});                                                                                     \
    }
LISTS(Forward, Fwd, FORWARD, cudnnTensorDescriptor_t, x, cudnnFilterDescriptor_t, w, cudnnTensorDescriptor_t, y)
LISTS(BackwardData, BwdData, DATA, cudnnFilterDescriptor_t, w, cudnnTensorDescriptor_t, y, cudnnTensorDescriptor_t, x)
LISTS(BackwardFilter, BwdFilter, FILTER, cudnnTensorDescriptor_t, x, cudnnTensorDescriptor_t, y, cudnnFilterDescriptor_t, w)

/* The compiler's proof that these are the functions that the backend calls. */
const fai_cudnn sim_cudnn_check = {
#define FAI_CUDNN(result, member, symbol, args) .member = symbol,
#include "../cuda/libraries.def"
};
