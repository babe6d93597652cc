/* Datasets: rows of tensors, samples of a callback, a choice of another dataset's samples. */
#include "data.h"
#include <string.h>

typedef enum dataset_kind { OF_TENSORS, OF_CALLBACK, OF_SUBSET } dataset_kind;

struct fa_dataset {
    fai_object object;
    dataset_kind kind;
    int nfields; /* of a subset: 0, its base knows */
    int64_t length;
    fa_tensor *tensors[FA_MAX_FIELDS];
    fa_get_sample get;
    void *data;
    void (*release)(void *data);
    fa_dataset *base; /* of a subset */
    fa_tensor *indices;
};

static void destroy_dataset(void *object) {
    fa_dataset *d = object;
    for (int k = 0; k < FA_MAX_FIELDS; k++) fai_unref(d->tensors[k]);
    if (d->release) d->release(d->data);
    fai_unref(d->base);
    fai_unref(d->indices);
    fai_free(FAI_TAG_OBJECT, d, sizeof *d);
}

__attribute__((constructor)) static void set_up(void) { fai_set_destructor(FAI_DATASET, destroy_dataset); }

bool fai_dataset_check(const char *op, const fa_dataset *d) {
    if (d) return true;
    if (!fa_failed())
        fai_fail(FA_ERR_TYPE, op, "argument 'dataset' is NULL: a dataset is needed, from fa_tensor_dataset(x, y) for example");
    return false;
}

/* ---- making ---- */

static fa_dataset *make(const char *op, fa_dataset made) {
    fa_dataset *d = fai_alloc(FAI_TAG_OBJECT, sizeof *d);
    if (!d) return fai_fail_memory(op, sizeof *d);
    *d = made;
    fai_object_init(d, FAI_DATASET);
    for (int k = 0; k < FA_MAX_FIELDS; k++) fai_ref(d->tensors[k]);
    fai_ref(d->base);
    fai_ref(d->indices);
    return fai_scope_add(d, op) ? d : NULL;
}

fa_dataset *fa_dataset_of(fa_tensor *const *tensors, int n) {
    const char *op = "tensor_dataset";
    fa_dataset d = {.kind = OF_TENSORS, .nfields = n};
    if (n < 1 || n > FA_MAX_FIELDS || !tensors)
        return fai_fail(FA_ERR_VALUE, op, "a dataset is made of 1 to %d tensors, but got %d", FA_MAX_FIELDS, tensors ? n : 0);
    for (int k = 0; k < n; k++) {
        if (!fai_check(op, "tensors", tensors[k])) return NULL;
        if (tensors[k]->ndim == 0)
            return fai_fail(FA_ERR_INDEX, op, "tensor %d has no dimension that could count samples: its shape is []", k);
        d.tensors[k] = tensors[k];
        if (tensors[k]->size[0] == tensors[0]->size[0]) continue;
        char a[160], b[160];
        fai_text_shape(a, sizeof a, tensors[0]->ndim, tensors[0]->size);
        fai_text_shape(b, sizeof b, tensors[k]->ndim, tensors[k]->size);
        return fai_fail(FA_ERR_VALUE, op,
                        "Size mismatch between tensors: tensor 0 has shape %s, tensor %d %s; the first sizes must be equal, they "
                        "count the samples",
                        a, k, b);
    }
    d.length = tensors[0]->size[0];
    return make(op, d);
}

/* data goes with the dataset, and if there is none, at once. */
fa_dataset *fa_dataset_from(int64_t length, int nfields, fa_get_sample get, void *data, void (*release)(void *data)) {
    const char *op = "dataset_from";
    fa_dataset *d = NULL;
    if (!get)
        fai_fail(FA_ERR_TYPE, op, "argument 'get' is NULL: a function is needed that gives a sample");
    else if (length < 0)
        fai_fail(FA_ERR_VALUE, op, "length must not be negative, but got %lld", (long long)length);
    else if (nfields < 1 || nfields > FA_MAX_FIELDS)
        fai_fail(FA_ERR_VALUE, op, "a sample has 1 to %d fields, but got nfields = %d", FA_MAX_FIELDS, nfields);
    else
        d = make(op, (fa_dataset){.kind = OF_CALLBACK, .nfields = nfields, .length = length, .get = get, .data = data});
    if (d)
        d->release = release;
    else if (release)
        release(data);
    return d;
}

/* All numbers lie within the base: a wrong one is an error here and not in the middle of an epoch. */
static bool check_indices(const fa_dataset *base, fa_tensor *indices) {
    const char *op = "dataset_subset";
    if (indices->dtype != FA_INT64 || indices->ndim != 1) {
        char found[160];
        fai_describe(indices, found, sizeof found);
        return fai_fail(FA_ERR_TYPE, op, "argument 'indices' must be a 1-d int64 tensor, but got a %s", found);
    }
    if (indices->numel == 0) return true;
    const int64_t low = fa_item_int(fa_min(indices)), high = fa_item_int(fa_max(indices));
    if (fa_failed()) return false;
    if (low >= 0 && high < base->length) return true;
    return fai_fail(FA_ERR_INDEX, op, "argument 'indices' holds %lld, but the dataset has %lld samples, counted from 0",
                    (long long)(low < 0 ? low : high), (long long)base->length);
}

fa_dataset *fa_dataset_subset(fa_dataset *base, fa_tensor *indices) {
    if (!fai_dataset_check("dataset_subset", base) || !fai_check("dataset_subset", "indices", indices)) return NULL;
    FA_SCOPE;
    FA_NO_GRAD;
    if (!check_indices(base, indices)) return NULL;
    fa_tensor *own = fa_clone(indices); /* later changes of the caller's must not lead out of the base */
    return own ? fai_return(make("dataset_subset",
                                 (fa_dataset){.kind = OF_SUBSET, .length = indices->numel, .base = base, .indices = own}))
               : NULL;
}

/* ---- asking ---- */

int64_t fa_dataset_length(const fa_dataset *d) { return d ? d->length : 0; }

int fai_dataset_fields(const fa_dataset *d) {
    while (d->kind == OF_SUBSET) d = d->base;
    return d->nfields;
}

fa_device fai_dataset_device(const fa_dataset *d) {
    return d->kind == OF_TENSORS ? d->tensors[0]->device : d->kind == OF_SUBSET ? d->indices->device : FA_CPU;
}

/* ---- one sample ---- */

/* get's fields, all there and of this scope or an outer one. */
static bool call_back(fa_dataset *d, int64_t i, fa_tensor **fields) {
    for (int k = 0; k < d->nfields; k++) fields[k] = NULL;
    if (!d->get(d->data, i, fields)) {
        if (!fa_failed())
            fai_fail(FA_ERR_FOREIGN, "dataset_get",
                     "the dataset's callback failed on sample %lld without saying why (fa_error_set)", (long long)i);
        return false;
    }
    for (int k = 0; k < d->nfields; k++) {
        if (fields[k]) continue;
        if (!fa_failed())
            fai_fail(FA_ERR_TYPE, "dataset_get", "the dataset's callback left field %d of sample %lld empty; it has %d fields", k,
                     (long long)i, d->nfields);
        return false;
    }
    return true;
}

bool fa_dataset_get(fa_dataset *d, int64_t i, fa_tensor **fields) {
    if (!fai_dataset_check("dataset_get", d)) return false;
    const int64_t at = i < 0 ? i + d->length : i;
    if (at < 0 || at >= d->length)
        return fai_fail(FA_ERR_INDEX, "dataset_get", "index %lld is out of bounds for dimension 0 with size %lld", (long long)i,
                        (long long)d->length);
    if (d->kind == OF_CALLBACK) return call_back(d, at, fields);
    if (d->kind == OF_SUBSET) {
        FA_SCOPE;
        const int64_t inner = fa_item_int(fa_select(d->indices, 0, at));
        if (fa_failed() || !fa_dataset_get(d->base, inner, fields)) return false;
        for (int k = 0; k < fai_dataset_fields(d); k++) fai_return(fields[k]);
        return true;
    }
    for (int k = 0; k < d->nfields; k++)
        if (!(fields[k] = fa_select(d->tensors[k], 0, at))) return false;
    return true;
}

/* ---- a batch ---- */

/* Samples of a callback, put one above the other. */
static bool stack_samples(fa_dataset *d, const int64_t *number, int64_t begin, int64_t n, fa_tensor **fields) {
    const size_t bytes = (size_t)d->nfields * (size_t)n * sizeof(fa_tensor *);
    fa_tensor **samples = fai_alloc(FAI_TAG_OBJECT, bytes), *sample[FA_MAX_FIELDS] = {NULL};
    if (!samples) return fai_fail_memory("next", bytes);
    FA_SCOPE;
    bool ok = true;
    for (int64_t i = 0; ok && i < n; i++) {
        ok = call_back(d, number ? number[i] : begin + i, sample);
        for (int k = 0; ok && k < d->nfields; k++) samples[k * n + i] = sample[k];
    }
    for (int k = 0; ok && k < d->nfields; k++) ok = (fields[k] = fai_return(fa_stack(samples + k * n, (int)n, 0))) != NULL;
    fai_free(FAI_TAG_OBJECT, samples, bytes);
    return ok;
}

bool fai_dataset_range(fa_dataset *d, int64_t begin, int64_t n, fa_tensor **fields) {
    if (d->kind == OF_CALLBACK) return stack_samples(d, NULL, begin, n, fields);
    FA_SCOPE;
    if (d->kind == OF_SUBSET) {
        if (!fai_dataset_gather(d->base, fa_narrow(d->indices, 0, begin, n), fields)) return false;
    } else {
        for (int k = 0; k < d->nfields; k++)
            if (!(fields[k] = fa_clone(fa_narrow(d->tensors[k], 0, begin, n)))) return false;
    }
    for (int k = 0; k < fai_dataset_fields(d); k++) fai_return(fields[k]);
    return true;
}

static bool gather_rows(fa_dataset *d, fa_tensor *index, fa_tensor **fields) {
    for (int k = 0; k < d->nfields; k++)
        if (!(fields[k] = fa_index_select(d->tensors[k], 0, fa_to(index, d->tensors[k]->device)))) return false;
    return true;
}

bool fai_dataset_gather(fa_dataset *d, fa_tensor *index, fa_tensor **fields) {
    if (!index) return false;
    FA_SCOPE;
    bool ok;
    if (d->kind == OF_TENSORS)
        ok = gather_rows(d, index, fields);
    else if (d->kind == OF_SUBSET)
        ok = fai_dataset_gather(d->base, fa_index_select(d->indices, 0, fa_to(index, d->indices->device)), fields);
    else {
        fa_tensor *host = fa_contiguous(fa_cpu(index));
        ok = host && stack_samples(d, fai_host(host), 0, host->numel, fields);
    }
    for (int k = 0; ok && k < fai_dataset_fields(d); k++) fai_return(fields[k]);
    return ok;
}
