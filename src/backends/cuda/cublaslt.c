/* Matrix products by cuBLASLt, from the plan of kernels/gemm.k.h.
 *
 * cuBLASLt counts by columns, so the plan's C = A B is asked for as C' = B' A': its first matrix is our B, and a matrix of ours whose
 * rows are dense is one of its that is not transposed. A row of biases is its epilogue, a whole matrix to be added its C.
 *
 * What it needs for one kind of product (sizes, strides, types, how pointers are aligned) is made once and kept: descriptors and
 * the algorithm that its heuristic chose. */
#include "cuda.h"
#include "vendor.h"
#include <string.h>

static fai_cublaslt lt;
static uint64_t version(void) { return lt.version(); }
static const fai_cuda_symbol symbols[] = {
#define FAI_CUBLASLT(result, member, symbol, args) {#symbol, offsetof(fai_cublaslt, member)},
#include "libraries.def"
};
/* The four matrices by cuBLASLt's names: D = op(A) op(B) + C. */
enum { A, B, C, D, MATRICES };
static const int view_of[MATRICES] = {2, 1, 3, 0}; /* of the plan */

typedef struct matrix {
    int64_t rows, cols, ld, stride; /* as it lies in memory, by columns; stride: from one of a batch to the next */
    int64_t transposed, alignment;
} matrix;

/* All numbers are 64 bits wide, so that keys can be compared as bytes. */
typedef struct kind {
    int64_t device, type, compute, scale, batch, bias, bias_alignment, adds;
    matrix matrix[MATRICES];
} kind;

typedef struct product {
    fai_cuda_entry entry;
    kind key;
    cublasLtMatmulDesc_t description;
    cublasLtMatrixLayout_t layout[MATRICES];
    cublasLtMatmulAlgo_t algorithm;
} product;

enum { MOST_WORKSPACE = 32 << 20, MOST_WORKSPACE_OLD = 8 << 20 };
static cublasLtHandle_t handles[FAI_CUDA_DEVICES];

/* ---- from the plan to a kind of product ---- */

static int type_of(int dtype) {
    switch (dtype) {
    case FA_T_FLOAT16: return CUDA_R_16F;
    case FA_T_BFLOAT16: return CUDA_R_16BF;
    case FA_T_FLOAT32: return CUDA_R_32F;
    case FA_T_FLOAT64: return CUDA_R_64F;
    default: return -1;
    }
}

/* A matrix of ours with its rows or its columns dense. */
static bool read_matrix(const fa_plan_view *v, int nb, matrix *out) {
    const int64_t rows = v->size[nb], cols = v->size[nb + 1], down = v->stride[nb], right = v->stride[nb + 1];
    const bool by_rows = (right == 1 || cols == 1) && (rows == 1 || down >= cols);
    const bool by_cols = (down == 1 || rows == 1) && (cols == 1 || right >= rows);
    if (by_rows) *out = (matrix){.rows = cols, .cols = rows, .ld = rows == 1 ? cols : down};
    else if (by_cols) *out = (matrix){.rows = rows, .cols = cols, .ld = cols == 1 ? rows : right, .transposed = 1};
    return by_rows || by_cols;
}

/* The one stride that walks all dimensions of the batch; false if there is none. */
static bool fold_batch(const fa_plan_view *v, const fa_i64 *size, int nb, int64_t *out) {
    int64_t count = 1, stride = 0;
    for (int i = nb - 1; i >= 0; i--) {
        if (size[i] == 1) continue;
        if (count == 1) stride = v->stride[i];
        else if (v->stride[i] != stride * count) return false;
        count *= size[i];
    }
    *out = stride;
    return stride >= 0;
}

static int64_t alignment_of(uint64_t address) {
    int64_t alignment = 1;
    while (alignment < 256 && !(address & (uint64_t)alignment)) alignment *= 2;
    return alignment;
}

static bool same_or_none(int64_t found, int64_t wanted, int64_t size) { return size == 1 || found == wanted; }

/* The addend: nothing, a row of biases, or a whole matrix. NULL: fine; else why not. */
static const char *read_addend(const fa_plan *plan, const fa_address pointers[8], kind *key) {
    const fa_plan_view *v = &plan->view[3];
    const int nb = (int)plan->n[5];
    if (v->kind == FA_VIEW_NONE || plan->f[1] == 0) return NULL;
    if (v->kind != FA_VIEW_TENSOR || v->dtype != plan->view[0].dtype) return "the addend is of another type";
    int64_t stride = 0;
    if (!fold_batch(v, plan->view[0].size, nb, &stride)) return "the addend's batch has no common stride";
    const int64_t m = plan->n[0], n = plan->n[1];
    if (stride == 0 && plan->f[1] == 1 && same_or_none(v->stride[nb], 0, m) && same_or_none(v->stride[nb + 1], 1, n)) {
        if (key->type == CUDA_R_64F) return "it adds no biases to float64";
        key->bias = 1;
        key->bias_alignment = alignment_of(pointers[3]);
        return NULL;
    }
    if (!read_matrix(v, nb, &key->matrix[C]) || key->matrix[C].transposed) return "the addend's rows are not dense";
    key->matrix[C].stride = stride;
    key->adds = 1;
    return NULL;
}

/* NULL: fine; else why cuBLASLt is not asked. */
static const char *read_plan(const fa_plan *plan, const fa_address pointers[8], unsigned modes, kind *key) {
    const int nb = (int)plan->n[5];
    const int64_t size[3] = {plan->n[0], plan->n[1], plan->n[2]};
    const bool tf32 = (modes & FA_MATH_MATMUL_TF32) != 0;
    key->type = type_of(plan->view[0].dtype);
    if (!(modes & FA_MATH_MATMUL_LIBRARY)) return "the own kernels are preferred";
    if (key->type < 0 || plan->view[1].dtype != plan->view[0].dtype || plan->view[2].dtype != plan->view[0].dtype)
        return "the matrices are not all of one floating type";
    if (plan->n[3] != 0) return "it does not promise to keep NaN in its relu";
    for (int i = 0; i < 3; i++)
        if (size[i] < 1 || size[i] > INT32_MAX) return size[i] < 1 ? "there is nothing to sum" : "a size is beyond 32 bits";
    if (plan->n[4] > INT32_MAX) return "the batch is beyond 32 bits";
    key->compute = key->type == CUDA_R_64F ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F;
    if (key->type == CUDA_R_32F && tf32) key->compute = CUBLAS_COMPUTE_32F_FAST_TF32;
    key->scale = key->type == CUDA_R_64F ? CUDA_R_64F : CUDA_R_32F;
    key->batch = plan->n[4];
    for (int i = 0; i < MATRICES; i++) {
        if (i == C) continue;
        if (!read_matrix(&plan->view[view_of[i]], nb, &key->matrix[i])) return "neither rows nor columns of a matrix are dense";
        if (!fold_batch(&plan->view[view_of[i]], plan->view[0].size, nb, &key->matrix[i].stride)) return "a batch has no common stride";
    }
    if (key->matrix[D].transposed) return "the result's rows are not dense";
    const char *why = read_addend(plan, pointers, key);
    if (!key->adds) key->matrix[C] = key->matrix[D];
    for (int i = 0; i < MATRICES; i++) key->matrix[i].alignment = alignment_of(pointers[i == C && !key->adds ? 0 : view_of[i]]);
    return why;
}

/* ---- making what one kind needs ---- */

static void destroy(fai_cuda_entry *entry) {
    product *p = (product *)entry;
    if (p->description) lt.product_destroy(p->description);
    for (int i = 0; i < MATRICES; i++)
        if (p->layout[i]) lt.layout_destroy(p->layout[i]);
    fai_free(FAI_TAG_OTHER, p, sizeof *p);
}

static cublasStatus_t make_layout(product *p, int i) {
    const matrix *m = &p->key.matrix[i];
    const int32_t batch = (int32_t)p->key.batch;
    cublasStatus_t bad = lt.layout_create(&p->layout[i], (int)p->key.type, (uint64_t)m->rows, (uint64_t)m->cols, m->ld);
    if (!bad && batch > 1) bad = lt.layout_set(p->layout[i], CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch);
    if (!bad && batch > 1)
        bad = lt.layout_set(p->layout[i], CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &m->stride, sizeof m->stride);
    return bad;
}

static cublasStatus_t set_bias(const product *p, fa_address address) {
    const void *bias = (const void *)(uintptr_t)address;
    return p->key.bias ? lt.product_set(p->description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias) : CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t describe(product *p, fa_address bias) {
    const kind *key = &p->key;
    const int32_t transposed[2] = {key->matrix[A].transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
                                   key->matrix[B].transposed ? CUBLAS_OP_T : CUBLAS_OP_N};
    const uint32_t epilogue = key->bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    cublasStatus_t bad = lt.product_create(&p->description, (int)key->compute, (int)key->scale);
    if (!bad) bad = lt.product_set(p->description, CUBLASLT_MATMUL_DESC_TRANSA, &transposed[0], sizeof transposed[0]);
    if (!bad) bad = lt.product_set(p->description, CUBLASLT_MATMUL_DESC_TRANSB, &transposed[1], sizeof transposed[1]);
    if (!bad) bad = lt.product_set(p->description, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    if (!bad) bad = set_bias(p, bias);
    for (int i = 0; i < MATRICES && !bad; i++) bad = make_layout(p, i);
    return bad;
}

/* What lies in memory less aligned than cuBLASLt takes for granted must be said. Sums of 16-bit results stay in float32. */
static cublasStatus_t wish(const product *p, cublasLtMatmulPreference_t w) {
    static const int attribute[MATRICES] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    int major, minor;
    fai_cuda_capability((int)p->key.device, &major, &minor);
    const uint64_t workspace = major >= 9 ? MOST_WORKSPACE : MOST_WORKSPACE_OLD;
    const uint32_t sums = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    cublasStatus_t bad = lt.wish_set(w, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace);
    if (!bad && (p->key.type == CUDA_R_16F || p->key.type == CUDA_R_16BF))
        bad = lt.wish_set(w, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &sums, sizeof sums);
    for (int i = 0; i < MATRICES && !bad; i++) {
        const uint32_t alignment = (uint32_t)p->key.matrix[i].alignment;
        bad = lt.wish_set(w, attribute[i], &alignment, sizeof alignment);
    }
    return bad;
}

static cublasStatus_t choose(product *p) {
    cublasLtMatmulPreference_t w = NULL;
    cublasLtMatmulHeuristicResult_t found = {.state = CUBLAS_STATUS_NOT_SUPPORTED};
    int count = 0;
    cublasStatus_t bad = lt.wish_create(&w);
    if (!bad) bad = wish(p, w);
    if (!bad)
        bad = lt.choose(handles[p->key.device], p->description, p->layout[A], p->layout[B], p->layout[C], p->layout[D], w, 1, &found,
                        &count);
    if (w) lt.wish_destroy(w);
    if (!bad && count < 1) bad = CUBLAS_STATUS_NOT_SUPPORTED;
    if (!bad) bad = found.state;
    p->algorithm = found.algo;
    p->entry.workspace = found.workspaceSize;
    return bad;
}

static fai_cuda_entry *make(const void *of, const fa_address pointers[8], int *answer) {
    const kind *key = of;
    *answer = handles[key->device] ? CUBLAS_STATUS_SUCCESS : lt.create(&handles[key->device]);
    if (*answer) return NULL;
    product *p = fai_calloc(FAI_TAG_OTHER, sizeof *p);
    *answer = CUBLAS_STATUS_ALLOC_FAILED;
    if (!p) return NULL;
    p->key = *key;
    *answer = describe(p, pointers[3]);
    if (!*answer) *answer = choose(p);
    if (!*answer) return &p->entry;
    destroy(&p->entry);
    return NULL;
}

static void close_handle(int device) {
    if (handles[device]) lt.destroy(handles[device]);
    handles[device] = NULL;
}

static const char *answer(int status) { return lt.status_name(status); }

fai_cuda_vendor fai_cuda_cublaslt = {.name = "cublaslt",
                                     .variable = "FACULA_CUBLAS",
                                     .which = FAI_CUDA_CUBLASLT,
                                     .symbols = symbols,
                                     .nsymbols = sizeof symbols / sizeof symbols[0],
                                     .table = &lt,
                                     .version = version,
                                     .lock = PTHREAD_MUTEX_INITIALIZER,
                                     .key_at = offsetof(product, key),
                                     .key_bytes = sizeof(kind),
                                     .make = make,
                                     .destroy = destroy,
                                     .close = close_handle,
                                     .answer = answer};

/* ---- the doors ---- */

int fai_cuda_product_prepare(int device, const fa_plan *plan, const fa_address pointers[8], unsigned modes, fa_library_call *call) {
    kind key;
    memset(&key, 0, sizeof key);
    key.device = device;
    const char *why = read_plan(plan, pointers, modes, &key);
    return fai_cuda_entry_prepare(&fai_cuda_cublaslt, device, why, &key, pointers, "cublasLtMatmul", call);
}

int fai_cuda_product_run(int device, fa_stream_handle stream, fa_library_call *call, const fa_plan *plan, const fa_address pointers[8],
                         fa_address workspace) {
    const product *p = call->state;
    const double alpha64 = plan->f[0], beta64 = p->key.adds ? plan->f[1] : 0;
    const float alpha32 = (float)alpha64, beta32 = (float)beta64;
    const bool wide = p->key.scale == CUDA_R_64F;
    const void *at[MATRICES];
    int bad = fai_cuda_enter(device);
    if (bad) return bad;
    for (int i = 0; i < MATRICES; i++) at[i] = (const void *)(uintptr_t)pointers[i == C && !p->key.adds ? 0 : view_of[i]];
    cublasStatus_t status = set_bias(p, pointers[3]); /* the launch lock keeps others from the description */
    if (!status)
        status = lt.multiply(handles[device], p->description, wide ? (const void *)&alpha64 : &alpha32, at[A], p->layout[A], at[B],
                             p->layout[B], wide ? (const void *)&beta64 : &beta32, at[C], p->layout[C],
                             (void *)(uintptr_t)pointers[0], p->layout[D], &p->algorithm, (void *)(uintptr_t)workspace,
                             p->entry.workspace, (cudaStream_t)(CUstream)stream);
    call->launches = !status;
    return status ? fai_cuda_vendor_failed("CUDA", lt.status_name(status), call->name) : 0;
}
