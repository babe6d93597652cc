/* The rules that all operators share: broadcasting, promotion, one device, and the messages when they are broken. */
#include "ops.h"
#include <stdio.h>
#include <string.h>

bool fai_broadcast(const char *op, int n, const fa_tensor *const *tensors, int *ndim, int64_t *size)
{
    *ndim = 0;
    for (int k = 0; k < n; k++)
        if (tensors[k] && tensors[k]->ndim > *ndim) *ndim = tensors[k]->ndim;
    for (int i = 0; i < *ndim; i++) size[i] = 1;
    int from[FA_MAX_DIMS] = {0}; /* which tensor set the size, for the message */
    for (int k = 0; k < n; k++) {
        const fa_tensor *t = tensors[k];
        if (!t) continue;
        for (int j = 0; j < t->ndim; j++) {
            int i = *ndim - t->ndim + j;
            if (t->size[j] == size[i] || t->size[j] == 1) continue;
            if (size[i] == 1) {
                size[i] = t->size[j];
                from[i] = k;
                continue;
            }
            char a[160], b[160];
            fai_text_shape(a, sizeof a, tensors[from[i]]->ndim, tensors[from[i]]->size);
            fai_text_shape(b, sizeof b, t->ndim, t->size);
            fai_fail(FA_ERR_RUNTIME, op,
                     "The size of tensor a (%lld) must match the size of tensor b (%lld) at non-singleton dimension %d. The shapes are %s and %s: "
                     "counted from the last dimension, two sizes must be equal or one of them 1.",
                     (long long)size[i], (long long)t->size[j], i, a, b);
            return false;
        }
    }
    return true;
}

static int category(int dtype) { return dtype == FA_DTYPE_DEFAULT ? 0 : dtype == FA_BOOL ? 1 : dtype < FA_FLOAT16 ? 2 : 3; }

/* Of two groups the first decides unless the second is of a higher category. */
static int stronger(int first, int second) { return category(second) > category(first) ? second : first; }

fa_dtype fai_result_type(int noperands, const fai_operand *operands)
{
    int dims = FA_DTYPE_DEFAULT, zero = FA_DTYPE_DEFAULT, numbers = FA_DTYPE_DEFAULT;
    for (int k = 0; k < noperands; k++) {
        const fa_tensor *t = operands[k].tensor;
        if (t) {
            int *group = t->ndim > 0 ? &dims : &zero;
            *group = *group ? (int)fa_promote_types((fa_dtype)*group, (fa_dtype)t->dtype) : t->dtype;
        } else {
            int kind = operands[k].scalar.kind;
            int dtype = kind == FA_SCALAR_FLOAT ? fa_default_dtype() : kind == FA_SCALAR_BOOL ? FA_BOOL : FA_INT64;
            numbers = category(dtype) > category(numbers) ? dtype : numbers;
        }
    }
    return (fa_dtype)stronger(stronger(dims, zero), numbers);
}

/* The message that people meet first: torch's sentence, then a line for each tensor, and the line that mends it. */

static const char *argument(const char *op, const char *name)
{
    return fai_other_face.argument ? fai_other_face.argument(fai_tls.called ? fai_tls.called : op, name) : name;
}

/* "torch.cuda.FloatTensor", as convolutions say it */
static void text_type(const fa_tensor *t, char *out, size_t n)
{
    char kind[32];
    snprintf(kind, sizeof kind, "%s", fa_device_text(t->device));
    kind[strcspn(kind, ":")] = 0;
    snprintf(out, n, "torch.%s%s%sTensor", fai_on_cpu(t) ? "" : kind, fai_on_cpu(t) ? "" : ".", fai_dtype_title((fa_dtype)t->dtype));
}

static void text_conv(char *out, size_t n, const char *what, const fa_tensor *input, const fa_tensor *other)
{
    char a[64], b[64];
    text_type(input, a, sizeof a), text_type(other, b, sizeof b);
    snprintf(out, n, "Input type (%s) and %s type (%s) should be the same%s", a, what, b,
             fai_on_cpu(input) ? " or input should be a MKLDNN tensor and weight is a dense tensor" : "");
}

void *fai_fail_devices(const char *op, const char *sentence, int n, const char *const *names, fa_tensor *const *tensors, int odd, fa_device other)
{
    char text[1900], described[300], name[400];
    int length = snprintf(text, sizeof text, "%s", sentence);
    for (int k = 0; k < n && length < 1100; k++) {
        if (!tensors[k]) continue;
        fai_describe(tensors[k], described, sizeof described);
        fai_text_name(tensors[k], name, sizeof name);
        length += snprintf(text + length, sizeof text - (size_t)length, "\n  %s is %s %s%s%s", argument(op, names[k]), described[0] == 'i' ? "an" : "a",
                           described, *name ? ": " : "", name);
    }
    if (length > (int)sizeof text - 400) length = (int)sizeof text - 400;
    length += snprintf(text + length, sizeof text - (size_t)length, "\nMend it: ");
    const char *moved = argument(op, names[odd]);
    if (fai_other_face.cure && fai_other_face.cure(moved, tensors[odd], other, text + length, sizeof text - (size_t)length)) return fai_fail(FA_ERR_RUNTIME, op, "%s", text);
    fai_text_name(tensors[odd], name, sizeof name);
    if (tensors[odd]->owner) snprintf(text + length, sizeof text - (size_t)length, "move the whole module, fa_module_to(module, fa_device_parse(\"%s\")).", fa_device_text(other));
    else snprintf(text + length, sizeof text - (size_t)length, "%s = fa_to(%s, fa_device_parse(\"%s\")).", moved, moved, fa_device_text(other));
    return fai_fail(FA_ERR_RUNTIME, op, "%s", text);
}

/* PyTorch's own first sentence of some operators; false: it is that of all others. */
static bool own_words(const char *op, int n, fa_tensor *const *tensors, char *out, size_t room)
{
    const char *at[3] = {"cpu", "cpu", "cpu"};
    for (int k = 0; k < n && k < 3; k++)
        if (tensors[k]) at[k] = fa_device_text(tensors[k]->device);
    if (strncmp(op, "conv", 4) == 0 && n > 1 && tensors[0] && tensors[1]) {
        const bool bias = fa_device_equal(tensors[0]->device, tensors[1]->device) && n > 2 && tensors[2];
        text_conv(out, room, bias ? "bias" : "weight", tensors[0], tensors[bias ? 2 : 1]);
    } else if (strcmp(op, "grid_sample") == 0) {
        snprintf(out, room, "grid_sampler(): expected input and grid to be on same device, but input is on %s and grid is on %s", at[0], at[1]);
    } else if (strcmp(op, "quantile") == 0 || strcmp(op, "nanquantile") == 0) {
        snprintf(out, room, "%s() q tensor must be on the same device as the input tensor", op);
    } else if (strcmp(op, "scaled_dot_product_attention") == 0) {
        snprintf(out, room, "Expected query, key, and value to have the same device type, but got query.device: %s key.device: %s and value.device: %s instead", at[0], at[1], at[2]);
    } else if (strcmp(op, "masked_fill") == 0) {
        snprintf(out, room, "masked_fill_: Expected inputs to be on same device");
    } else if (strcmp(op, "index_copy") == 0) {
        snprintf(out, room, "index_copy_(): self, index and source expected to be in the same device, but got (self) %s, (index) %s, and (source) %s", at[0], at[1], at[2]);
    } else if (strcmp(op, "take") == 0) {
        snprintf(out, room, "take(): self, index and out expected to be in the same device, but got self.device = %s, index.device = %s, and out.device = %s", at[0], at[1], at[0]);
    } else {
        return false;
    }
    return true;
}

static bool is_elementwise_loss(const char *op)
{
    static const char *const losses[] = {"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "bce_with_logits_loss"};
    for (size_t i = 0; i < sizeof losses / sizeof *losses; i++)
        if (strcmp(op, losses[i]) == 0) return true;
    return false;
}

static void *fail_devices(const char *op, int n, const char *const *names, fa_tensor *const *tensors, int odd, int fits, bool elementwise)
{
    char sentence[600];
    const fa_device at = tensors[odd]->device, other = tensors[fits]->device;
    const bool own = own_words(op, n, tensors, sentence, sizeof sentence);
    if (!own && (elementwise || is_elementwise_loss(op))) {
        int first = odd; /* torch names the first that is not on the CPU, then the other */
        for (int k = n - 1; k >= 0; k--)
            if (tensors[k] && !fai_on_cpu(tensors[k])) first = k;
        const fa_device one = tensors[first]->device, two = fa_device_equal(one, at) ? other : at;
        snprintf(sentence, sizeof sentence, "Expected all tensors to be on the same device, but found at least two devices, %s and %s!",
                 fa_device_text(one), fa_device_text(two));
    } else {
        const size_t used = own ? strlen(sentence) : 0;
        snprintf(sentence + used, sizeof sentence - used, "%sExpected all tensors to be on the same device, but got %s is on %s, different from other tensors on %s.",
                 own ? ". " : "", argument(op, names[odd]), fa_device_text(at), fa_device_text(other));
    }
    return fai_fail_devices(op, sentence, n, names, tensors, odd, other);
}

void *fai_fail_mixed(const char *op, int n, const char *const *names, fa_tensor *const *tensors, int odd, int fits)
{
    return fail_devices(op, n, names, tensors, odd, fits, true);
}

bool fai_same_device(const char *op, int n, const char *const *names, fa_tensor *const *tensors, bool scalars_pass)
{
    int first = -1;
    for (int k = 0; k < n; k++) {
        if (!tensors[k] || (scalars_pass && tensors[k]->ndim == 0 && fai_on_cpu(tensors[k]))) continue;
        if (first < 0) {
            first = k;
        } else if (!fa_device_equal(tensors[k]->device, tensors[first]->device)) {
            /* the one on the CPU is the one that was forgotten */
            bool swap = fai_on_cpu(tensors[first]);
            fail_devices(op, n, names, tensors, swap ? first : k, swap ? k : first, scalars_pass);
            return false;
        }
    }
    return true;
}

bool fai_check_dtype(const char *op, const char *argument, const fa_tensor *t, bool ok, const char *allowed)
{
    if (ok) return true;
    fai_fail(FA_ERR_RUNTIME, op, "argument '%s' must be %s, but it is a tensor of dtype %s. Convert it with fa_cast.", argument, allowed,
             fa_dtype_name((fa_dtype)t->dtype));
    return false;
}

bool fai_check_writable(const char *op, const fa_tensor *t)
{
    if (t->numel <= 1) return true;
    for (int i = 0; i < t->ndim; i++)
        if (t->stride[i] == 0 && t->size[i] > 1) {
            fai_fail(FA_ERR_RUNTIME, op,
                     "unsupported operation: more than one element of the written-to tensor refers to a single memory location. Please clone() the "
                     "tensor before performing the operation.");
            return false;
        }
    return true;
}

bool fai_fits(const char *op, const fa_tensor *t, int n, const fa_tensor *const *tensors)
{
    const fa_tensor *all[4] = {t};
    int64_t size[FA_MAX_DIMS];
    int ndim;
    for (int i = 0; i < n; i++) all[i + 1] = tensors[i];
    if (!fai_broadcast(op, n + 1, all, &ndim, size)) return false;
    if (t->ndim == ndim && memcmp(t->size, size, (size_t)ndim * sizeof *size) == 0) return true;
    char a[160], b[160];
    fai_text_shape(a, sizeof a, t->ndim, t->size);
    fai_text_shape(b, sizeof b, ndim, size);
    fai_fail(FA_ERR_RUNTIME, op, "output with shape %s doesn't match the broadcast shape %s. An in-place op can't make its tensor larger.", a, b);
    return false;
}

static bool same_elements(const fa_tensor *a, const fa_tensor *b)
{
    bool same = a->offset == b->offset && a->ndim == b->ndim && a->dtype == b->dtype;
    for (int i = 0; same && i < a->ndim; i++) same = a->size[i] == b->size[i] && (a->stride[i] == b->stride[i] || a->size[i] == 1);
    return same;
}

bool fai_separate(const char *op, const fa_tensor *written, fa_tensor **operand)
{
    fa_tensor *t = *operand;
    int64_t low, high, from, to;
    if (!t || t->buffer != written->buffer || same_elements(t, written)) return true;
    fai_span(written, &low, &high);
    fai_span(t, &from, &to);
    const int64_t bytes = (int64_t)fa_dtype_size((fa_dtype)t->dtype), wide = (int64_t)fa_dtype_size((fa_dtype)written->dtype);
    if ((t->offset + from) * bytes >= (written->offset + high) * wide || (written->offset + low) * wide >= (t->offset + to) * bytes) return true;
    if (FAI_HAS(t, FAI_CONTIGUOUS) && FAI_HAS(written, FAI_CONTIGUOUS)) {
        fai_fail(FA_ERR_RUNTIME, op,
                 "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory location. Please clone() the "
                 "tensor before performing the operation. (In C: fa_clone.)");
        return false;
    }
    fa_tensor *copy = fai_empty_like(op, t);
    *operand = copy;
    return copy && fai_copy(op, copy, t);
}
