/* cuBLASLt's functions, as far as the cuda backend calls them. They take what the library's description says that it takes and
 * refuse everything else: sizes that don't fit, types that don't go together, an algorithm that was chosen for other descriptors,
 * pointers less aligned than was promised, a workspace that is too small. */
#include "sim.h"
#include "../cuda/vendor.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct cublasLtContext {
    sim_device *device;
};
struct fai_lt_product {
    int compute, scale, transposed[2];
    unsigned epilogue;
    const void *bias;
};
struct fai_lt_layout {
    int type, batch;
    uint64_t rows, cols;
    int64_t ld, stride;
};
struct fai_lt_wish {
    uint64_t workspace;
    unsigned sums, alignment[4];
};
enum { A, B, C, D, BIAS, WORKSPACE, VIEWS };
enum { WANTS_WORKSPACE = 65536, LONG_SUM = 64 }; /* sums of that many products want it */

static cublasStatus_t refuse(const char *what) {
    sim_fail(CUDA_SUCCESS, "simulated cuBLASLt: %s", what);
    return CUBLAS_STATUS_INVALID_VALUE;
}

/* ---- objects ---- */

SIM_API size_t cublasLtGetVersion(void) { return 130000; }

SIM_API const char *cublasLtGetStatusName(cublasStatus_t status) {
    switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED: return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
    default: return "CUBLAS_STATUS unknown";
    }
}

#define MAKE(type, out) (*(out) = calloc(1, sizeof(type)), *(out) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED)

SIM_API cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
    sim_device *device = sim_current();
    if (!device) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (MAKE(struct cublasLtContext, handle)) return CUBLAS_STATUS_ALLOC_FAILED;
    (*handle)->device = device;
    return CUBLAS_STATUS_SUCCESS;
}

SIM_API cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
    free(handle);
    return CUBLAS_STATUS_SUCCESS;
}

SIM_API cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *product, cublasComputeType_t compute, cudaDataType_t scale) {
    const bool wide = compute == CUBLAS_COMPUTE_64F;
    if (compute != CUBLAS_COMPUTE_32F && compute != CUBLAS_COMPUTE_32F_FAST_TF32 && !wide) return refuse("an unknown compute type");
    if (scale != (wide ? CUDA_R_64F : CUDA_R_32F)) return refuse("the scale type does not go with the compute type");
    if (MAKE(struct fai_lt_product, product)) return CUBLAS_STATUS_ALLOC_FAILED;
    **product = (struct fai_lt_product){.compute = compute, .scale = scale, .epilogue = CUBLASLT_EPILOGUE_DEFAULT};
    return CUBLAS_STATUS_SUCCESS;
}

SIM_API cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t product) {
    free(product);
    return CUBLAS_STATUS_SUCCESS;
}

typedef struct field {
    int attribute;
    void *at;
    size_t bytes;
} field;

static cublasStatus_t set(const field *fields, int n, int attribute, const void *value, size_t bytes) {
    for (int i = 0; i < n; i++) {
        if (fields[i].attribute != attribute) continue;
        if (fields[i].bytes != bytes) return refuse("an attribute of another size");
        memcpy(fields[i].at, value, bytes);
        return CUBLAS_STATUS_SUCCESS;
    }
    return refuse("an attribute that it does not know");
}

SIM_API cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t p, cublasLtMatmulDescAttributes_t attribute,
                                                      const void *value, size_t bytes) {
    const field fields[] = {{CUBLASLT_MATMUL_DESC_TRANSA, &p->transposed[0], 4},
                            {CUBLASLT_MATMUL_DESC_TRANSB, &p->transposed[1], 4},
                            {CUBLASLT_MATMUL_DESC_EPILOGUE, &p->epilogue, 4},
                            {CUBLASLT_MATMUL_DESC_BIAS_POINTER, &p->bias, 8}};
    return set(fields, 4, attribute, value, bytes);
}

SIM_API cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType type, uint64_t rows, uint64_t cols,
                                                  int64_t ld) {
    if (rows < 1 || cols < 1 || ld < (int64_t)rows) return refuse("a leading dimension below the number of rows");
    if (MAKE(struct fai_lt_layout, layout)) return CUBLAS_STATUS_ALLOC_FAILED;
    **layout = (struct fai_lt_layout){.type = type, .batch = 1, .rows = rows, .cols = cols, .ld = ld};
    return CUBLAS_STATUS_SUCCESS;
}

SIM_API cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
    free(layout);
    return CUBLAS_STATUS_SUCCESS;
}

SIM_API cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t l, cublasLtMatrixLayoutAttribute_t attribute,
                                                        const void *value, size_t bytes) {
    const field fields[] = {{CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &l->batch, 4}, {CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &l->stride, 8}};
    return set(fields, 2, attribute, value, bytes);
}

SIM_API cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *wish) {
    if (MAKE(struct fai_lt_wish, wish)) return CUBLAS_STATUS_ALLOC_FAILED;
    **wish = (struct fai_lt_wish){.sums = 7, .alignment = {256, 256, 256, 256}};
    return CUBLAS_STATUS_SUCCESS;
}

SIM_API cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t wish) {
    free(wish);
    return CUBLAS_STATUS_SUCCESS;
}

SIM_API cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t w, cublasLtMatmulPreferenceAttributes_t attribute,
                                                            const void *value, size_t bytes) {
    const field fields[] = {{CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &w->workspace, 8},
                            {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &w->sums, 4},
                            {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &w->alignment[A], 4},
                            {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &w->alignment[B], 4},
                            {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &w->alignment[C], 4},
                            {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &w->alignment[D], 4}};
    return set(fields, 6, attribute, value, bytes);
}

/* ---- choosing ---- */

static int dtype_of(int type) {
    return type == CUDA_R_16F    ? FA_T_FLOAT16
           : type == CUDA_R_16BF ? FA_T_BFLOAT16
           : type == CUDA_R_32F  ? FA_T_FLOAT32
           : type == CUDA_R_64F  ? FA_T_FLOAT64
                                 : 0;
}

/* NULL: these go together; else what is wrong. */
static const char *mismatch(const struct fai_lt_product *p, const struct fai_lt_layout *const l[4]) {
    const uint64_t m = l[D]->rows, n = l[D]->cols, k = p->transposed[A] ? l[A]->rows : l[A]->cols;
    const bool wide = p->compute == CUBLAS_COMPUTE_64F;
    for (int i = 0; i < 4; i++) {
        if (l[i]->type != l[D]->type || !dtype_of(l[i]->type)) return "matrices of several types";
        if (l[i]->batch != l[D]->batch) return "batches of several sizes";
        if (l[i]->batch > 1 && (i == D || i == C) && l[i]->stride < l[i]->ld * (int64_t)(l[i]->cols - 1) + (int64_t)l[i]->rows &&
            !(i == C && l[i]->stride == 0))
            return "results of a batch overlap";
    }
    if (wide != (l[D]->type == CUDA_R_64F)) return "the matrices' type does not go with the compute type";
    if (p->compute == CUBLAS_COMPUTE_32F_FAST_TF32 && l[D]->type != CUDA_R_32F) return "TF32 is for float32";
    if ((p->transposed[A] ? l[A]->cols : l[A]->rows) != m || (p->transposed[B] ? l[B]->cols : l[B]->rows) != k ||
        (p->transposed[B] ? l[B]->rows : l[B]->cols) != n || l[C]->rows != m || l[C]->cols != n)
        return "sizes that don't fit";
    if (p->epilogue != CUBLASLT_EPILOGUE_DEFAULT && p->epilogue != CUBLASLT_EPILOGUE_BIAS) return "an unknown epilogue";
    if (p->epilogue == CUBLASLT_EPILOGUE_BIAS && (!p->bias || wide)) return "biases without a pointer, or for float64";
    return NULL;
}

/* What an algorithm was chosen for. */
static uint64_t stamp(const struct fai_lt_product *p, const struct fai_lt_layout *const l[4]) {
    uint64_t h = 14695981039346656037u;
    const int own[] = {p->compute, p->scale, p->transposed[0], p->transposed[1], (int)p->epilogue};
    for (size_t i = 0; i < sizeof own; i++) h = (h ^ ((const unsigned char *)own)[i]) * 1099511628211u;
    for (int k = 0; k < 4; k++)
        for (size_t i = 0; i < sizeof *l[k]; i++) h = (h ^ ((const unsigned char *)l[k])[i]) * 1099511628211u;
    return h;
}

SIM_API cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t p, cublasLtMatrixLayout_t a,
                                                      cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                                      cublasLtMatmulPreference_t wish, int wanted,
                                                      cublasLtMatmulHeuristicResult_t results[], int *found) {
    const struct fai_lt_layout *const l[4] = {a, b, c, d};
    const char *wrong = mismatch(p, l);
    *found = 0;
    if (!handle || wanted < 1) return refuse("no handle, or no result wanted");
    if (wrong) return refuse(wrong);
    if (d->type != CUDA_R_32F && d->type != CUDA_R_64F && wish->sums != CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE)
        return refuse("sums of 16-bit results may be rounded in between");
    const uint64_t k = p->transposed[A] ? a->rows : a->cols;
    memset(&results[0], 0, sizeof results[0]);
    results[0].workspaceSize = k >= LONG_SUM && wish->workspace >= WANTS_WORKSPACE ? WANTS_WORKSPACE : 0;
    results[0].algo.data[0] = stamp(p, l);
    results[0].algo.data[1] = results[0].workspaceSize;
    for (int i = 0; i < 4; i++) results[0].algo.data[2 + i] = wish->alignment[i];
    *found = 1;
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- multiplying ---- */

/* n: m, n, k, batch, transposed A, B, TF32; then ld and stride of A, B, C, D. f: alpha, beta. */
static void multiply(const fa_plan *plan, char *const *at, fa_i64 group) {
    const fa_i64 *n = plan->n, *ld = n + 7, *stride = n + 11;
    const int type = plan->view[D].dtype;
    (void)group;
    if (at[WORKSPACE]) memset(at[WORKSPACE], 0xA5, (size_t)plan->view[WORKSPACE].high);
    for (fa_i64 e = 0; e < n[3] * n[0] * n[1]; e++) {
        const fa_i64 i = e % n[0], j = e / n[0] % n[1], batch = e / (n[0] * n[1]);
        double sum = 0;
        for (fa_i64 k = 0; k < n[2]; k++) {
            double a = sim_load(at[A], type, batch * stride[A] + (n[4] ? i * ld[A] + k : k * ld[A] + i));
            double b = sim_load(at[B], type, batch * stride[B] + (n[5] ? k * ld[B] + j : j * ld[B] + k));
            sum += n[6] ? sim_tf32(a) * sim_tf32(b) : a * b;
        }
        sum *= plan->f[0];
        if (plan->f[1] != 0) sum += plan->f[1] * sim_load(at[C], type, batch * stride[C] + j * ld[C] + i);
        if (at[BIAS]) sum += sim_load(at[BIAS], type, i);
        sim_store(at[D], type, batch * stride[D] + j * ld[D] + i, sum);
    }
}
static const fa_kernel_entry entry = {"cublasLtMatmul", "cublaslt", 1, multiply, 0};

static const char *bad_pointers(const cublasLtMatmulAlgo_t *algorithm, const CUdeviceptr *pointers, size_t workspace_bytes) {
    for (int i = 0; i < 4; i++)
        if (!pointers[i] || pointers[i] % algorithm->data[2 + i]) return "a pointer is less aligned than was promised";
    if (workspace_bytes < algorithm->data[1]) return "the workspace is too small";
    if (algorithm->data[1] && (!pointers[WORKSPACE] || pointers[WORKSPACE] % 256)) return "the workspace is not aligned to 256 bytes";
    return NULL;
}

static void describe(const struct fai_lt_product *p, const struct fai_lt_layout *const l[4], fa_plan *plan) {
    const int type = dtype_of(l[D]->type);
    const fa_i64 n[] = {(fa_i64)l[D]->rows, (fa_i64)l[D]->cols, (fa_i64)(p->transposed[A] ? l[A]->rows : l[A]->cols), l[D]->batch,
                        p->transposed[A], p->transposed[B], p->compute == CUBLAS_COMPUTE_32F_FAST_TF32};
    memcpy(plan->n, n, sizeof n);
    for (int i = 0; i < 4; i++) {
        plan->n[7 + i] = l[i]->ld;
        plan->n[11 + i] = l[i]->batch > 1 ? l[i]->stride : 0;
        const int64_t last = plan->n[11 + i] * (l[i]->batch - 1) + l[i]->ld * (int64_t)(l[i]->cols - 1) + (int64_t)l[i]->rows;
        plan->view[i] = sim_span(type, 0, last, i == D);
    }
    if (plan->f[1] == 0) plan->view[C] = (fa_plan_view){.kind = FA_VIEW_NONE};
    if (p->epilogue == CUBLASLT_EPILOGUE_BIAS) plan->view[BIAS] = sim_span(type, 0, (int64_t)l[D]->rows, false);
}

SIM_API cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t p, const void *alpha, const void *a,
                                      cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout, const void *beta,
                                      const void *c, cublasLtMatrixLayout_t c_layout, void *d, cublasLtMatrixLayout_t d_layout,
                                      const cublasLtMatmulAlgo_t *algorithm, void *workspace, size_t workspace_bytes,
                                      cudaStream_t stream) {
    const struct fai_lt_layout *const l[4] = {a_layout, b_layout, c_layout, d_layout};
    const void *const given[SIM_POINTERS] = {a, b, c, d, p->epilogue == CUBLASLT_EPILOGUE_BIAS ? p->bias : NULL,
                                             algorithm->data[1] ? workspace : NULL};
    CUdeviceptr pointers[SIM_POINTERS];
    fa_plan plan = {.groups = 1, .nviews = VIEWS};
    for (int i = 0; i < SIM_POINTERS; i++) pointers[i] = (CUdeviceptr)(uintptr_t)given[i];
    const char *wrong = mismatch(p, l);
    if (!wrong && algorithm->data[0] != stamp(p, l)) wrong = "an algorithm that was chosen for something else";
    if (!wrong) wrong = bad_pointers(algorithm, pointers, workspace_bytes);
    if (!wrong && handle->device != sim_current()) wrong = "the handle is another device's";
    if (!wrong && c == d && memcmp(c_layout, d_layout, sizeof *c_layout)) wrong = "in place, but in another layout";
    if (wrong) return refuse(wrong);
    const bool wide = p->scale == CUDA_R_64F;
    plan.f[0] = wide ? *(const double *)alpha : (double)*(const float *)alpha;
    plan.f[1] = wide ? *(const double *)beta : (double)*(const float *)beta;
    describe(p, l, &plan);
    if (plan.f[1] == 0) pointers[C] = 0;
    if (algorithm->data[1]) plan.view[WORKSPACE] = sim_span(FA_T_FLOAT32, 0, (int64_t)algorithm->data[1] / 4, true);
    return sim_call(&entry, stream, &plan, pointers) ? CUBLAS_STATUS_EXECUTION_FAILED : CUBLAS_STATUS_SUCCESS;
}

/* The compiler's proof that these are the functions that the backend calls. */
const fai_cublaslt sim_cublaslt_check = {
#define FAI_CUBLASLT(result, member, symbol, args) .member = symbol,
#include "../cuda/libraries.def"
};
