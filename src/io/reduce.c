/* What the allowed names make of their arguments: containers, bytes, sizes, devices, and above all tensors. Each checks its
 * arguments itself; a name with others than PyTorch gives it is an error, never a guess. */
#include "pickle.h"
#include "../autograd/autograd.h"
#include <string.h>

#define bad fai_unpickle_bad

/* ---- Arguments ---- */

/* The i-th of a tuple, if there is one and it is of this kind. */
static fa_value *argument(const fa_value *arguments, uint32_t i, int kind) {
    fa_value *v = i < arguments->as.list.n ? arguments->as.list.items[i] : NULL;
    return v != NULL && v->kind == kind ? v : NULL;
}

static uint32_t count(const fa_value *arguments) { return arguments->as.list.n; }

static fa_value *wrong(const fai_unpickler *u, const fa_value *global) {
    return bad(u, "%s has other arguments than torch.save gives it", global->as.global.name);
}

/* A tuple of ints as sizes or strides: at most what a tensor can have. */
static bool sizes(const fai_unpickler *u, const fa_value *v, fa_shape *out) {
    if (v == NULL || (v->kind != FA_VALUE_TUPLE && v->kind != FA_VALUE_SIZE && v->kind != FA_VALUE_LIST))
        return bad(u, "the sizes or strides of a tensor are no tuple") != NULL;
    if (v->as.list.n > FA_MAX_DIMS)
        return fai_fail(FA_ERR_UNSUPPORTED, u->values->op, "%s holds a tensor of %u dimensions; at most %d are possible", u->name,
                        v->as.list.n, FA_MAX_DIMS);
    *out = (fa_shape){.ndim = (int32_t)v->as.list.n};
    for (int d = 0; d < out->ndim; d++) {
        if (v->as.list.items[d]->kind != FA_VALUE_INT) return bad(u, "a size or stride of a tensor is no int") != NULL;
        out->dim[d] = v->as.list.items[d]->as.i;
    }
    return true;
}

/* ---- Tensors ---- */

static fa_value *hold(fai_unpickler *u, fa_tensor *t, bool requires_grad, fa_value_kind kind) {
    if (t != NULL && requires_grad && fa_requires_grad(t, true) == NULL) t = NULL;
    fa_value *v = fai_values_tensor(u->values, t, kind);
    fa_drop(t); /* the document holds it */
    return v;
}

/* (storage, offset, size, stride[, requires_grad, hooks[, dtype or metadata]]) */
static fa_value *make_tensor(fai_unpickler *u, const fa_value *global, const fa_value *arguments) {
    const fa_value *storage = argument(arguments, 0, FAI_VALUE_STORAGE), *offset = argument(arguments, 1, FA_VALUE_INT);
    const fa_value *wants = argument(arguments, 4, FA_VALUE_BOOL), *dtype = argument(arguments, 6, FA_VALUE_DTYPE);
    const bool v3 = global->as.global.known->meaning == FAI_NAME_TENSOR_V3;
    uint32_t n = count(arguments);
    fa_shape size, stride;
    if (storage == NULL || offset == NULL || n < 4 || n == 5 || n > 8 || (n > 4 && wants == NULL) || (v3 && dtype == NULL))
        return wrong(u, global);
    if (!sizes(u, arguments->as.list.items[2], &size) || !sizes(u, arguments->as.list.items[3], &stride)) return NULL;
    if (size.ndim != stride.ndim) return bad(u, "a tensor has %d sizes and %d strides", size.ndim, stride.ndim);
    const fa_value *metadata = n < 7 || v3 ? NULL : arguments->as.list.items[6];
    if (metadata != NULL && (metadata->kind != FA_VALUE_DICT || metadata->as.list.n > 0))
        return fai_fail(FA_ERR_UNSUPPORTED, u->values->op,
                        "%s holds a conjugated or negative view of a tensor; save t.resolve_neg() or t.clone()", u->name);
    return hold(u, u->tensor(u, storage, v3 ? dtype->as.dtype : FA_DTYPE_DEFAULT, offset->as.i, &size, &stride),
                wants != NULL && wants->as.b, FA_VALUE_TENSOR);
}

/* (tensor, requires_grad, hooks[, state]): a tensor of its own on the same memory. */
static fa_value *make_parameter(fai_unpickler *u, const fa_value *global, const fa_value *arguments) {
    const fa_value *data = argument(arguments, 0, FA_VALUE_TENSOR), *wants = argument(arguments, 1, FA_VALUE_BOOL);
    const bool with_state = global->as.global.known->meaning == FAI_NAME_PARAMETER_STATE;
    if (data == NULL || wants == NULL || count(arguments) != (with_state ? 4 : 3)) return wrong(u, global);
    fa_tensor *t = data->as.tensor.t;
    fa_value *v = hold(u, fai_view(u->values->op, t, t->ndim, t->size, t->stride, t->offset), wants->as.b, FA_VALUE_PARAMETER);
    if (v != NULL && with_state && !fa_value_set_state(v, arguments->as.list.items[3])) return NULL;
    return v;
}

/* (function, type, arguments, state): a tensor with attributes. */
static fa_value *make_from_type(fai_unpickler *u, const fa_value *global, const fa_value *arguments) {
    const fa_value *function = argument(arguments, 0, FA_VALUE_GLOBAL), *type = argument(arguments, 1, FA_VALUE_GLOBAL);
    fa_value *inner = argument(arguments, 2, FA_VALUE_TUPLE);
    if (function == NULL || type == NULL || inner == NULL || count(arguments) != 4) return wrong(u, global);
    const fai_global *known = function->as.global.known;
    if (known == NULL || known->meaning < FAI_NAME_TENSOR || known->meaning > FAI_NAME_PARAMETER_STATE) return wrong(u, global);
    if (strcmp(type->as.global.name, "torch.Tensor") != 0 && strcmp(type->as.global.name, "torch.nn.parameter.Parameter") != 0)
        return fai_fail(FA_ERR_UNSUPPORTED, u->values->op,
                        "%s holds a tensor of the class %.200s; save it as a plain one: t.as_subclass(torch.Tensor)", u->name,
                        type->as.global.name);
    fa_value *v = fai_reduce(u, function, inner);
    if (v != NULL && strcmp(type->as.global.name, "torch.Tensor") != 0) v->kind = FA_VALUE_PARAMETER;
    return v != NULL && fa_value_set_state(v, arguments->as.list.items[3]) ? v : NULL;
}

/* ---- Containers ---- */

static fa_value *make_dict(fai_unpickler *u, const fa_value *global, const fa_value *arguments, fa_value_kind kind) {
    fa_value *dict = fa_values_container(u->values, kind);
    const fa_value *pairs = argument(arguments, 0, FA_VALUE_LIST), *other = argument(arguments, 0, FA_VALUE_DICT);
    if (dict == NULL || count(arguments) == 0) return dict;
    if (count(arguments) != 1 || (pairs == NULL || kind == FA_VALUE_COUNTER) == (other == NULL)) return wrong(u, global);
    for (uint32_t i = 0; other != NULL && i < other->as.list.n; i += 2) {
        if (!fa_value_put(dict, other->as.list.items[i], other->as.list.items[i + 1])) return NULL;
    }
    for (uint32_t i = 0; pairs != NULL && i < pairs->as.list.n; i++) {
        const fa_value *pair = pairs->as.list.items[i];
        if (!fai_value_is_list(pair) || pair->as.list.n != 2) return wrong(u, global);
        if (!fa_value_put(dict, pair->as.list.items[0], pair->as.list.items[1])) return NULL;
    }
    return dict;
}

static fa_value *make_set(fai_unpickler *u, const fa_value *global, const fa_value *arguments) {
    fa_value *set = fa_values_container(u->values, FA_VALUE_SET);
    const fa_value *items = argument(arguments, 0, FA_VALUE_LIST);
    if (set == NULL || count(arguments) == 0) return set;
    if (count(arguments) != 1 || items == NULL) return wrong(u, global);
    for (uint32_t i = 0; i < items->as.list.n; i++) {
        if (!fa_value_append(set, items->as.list.items[i])) return NULL;
    }
    return set;
}

static fa_value *make_size(fai_unpickler *u, const fa_value *global, const fa_value *arguments) {
    const fa_value *items = argument(arguments, 0, FA_VALUE_TUPLE);
    fa_value *size = fa_values_container(u->values, FA_VALUE_SIZE);
    if (count(arguments) != 1 || items == NULL) return wrong(u, global);
    for (uint32_t i = 0; size != NULL && i < items->as.list.n; i++) {
        if (items->as.list.items[i]->kind != FA_VALUE_INT) return wrong(u, global);
        if (!fa_value_append(size, items->as.list.items[i])) return NULL;
    }
    return size;
}

/* ---- Bytes, numbers, devices ---- */

static bool is_latin1(const fa_value *v) {
    return v != NULL && (strcmp(v->as.text.data, "latin1") == 0 || strcmp(v->as.text.data, "latin-1") == 0);
}

/* Protocol 2 has no bytes: they are written as a text with one letter for each, to be encoded again. */
static fa_value *encode(fai_unpickler *u, const fa_value *global, const fa_value *arguments, fa_value_kind kind) {
    const fa_value *text = argument(arguments, 0, FA_VALUE_TEXT);
    if (count(arguments) != 2 || text == NULL || !is_latin1(argument(arguments, 1, FA_VALUE_TEXT))) return wrong(u, global);
    fa_value *v = fa_values_bytes(u->values, kind, text->as.text.data, text->as.text.n);
    if (v == NULL) return NULL;
    size_t n = 0;
    for (const uint8_t *p = (const uint8_t *)text->as.text.data, *end = p + text->as.text.n; p < end; p++) {
        unsigned c = *p;
        if (c >= 0x80) {
            if (c > 0xc3) return bad(u, "a text that stands for bytes has a letter above 255");
            c = (c & 3) << 6 | (*++p & 0x3f);
        }
        v->as.text.data[n++] = (char)c;
    }
    v->as.text.n = n;
    v->as.text.data[n] = 0;
    return v;
}

static fa_value *make_bytes(fai_unpickler *u, const fa_value *global, const fa_value *arguments, fa_value_kind kind) {
    const fa_value *bytes = argument(arguments, 0, FA_VALUE_BYTES);
    if (count(arguments) == 0) return fa_values_bytes(u->values, kind, NULL, 0);
    if (count(arguments) == 1 && bytes != NULL) return fa_values_bytes(u->values, kind, bytes->as.text.data, bytes->as.text.n);
    return encode(u, global, arguments, kind);
}

static fa_value *make_complex(fai_unpickler *u, const fa_value *global, const fa_value *arguments) {
    const fa_value *real = argument(arguments, 0, FA_VALUE_FLOAT), *imaginary = argument(arguments, 1, FA_VALUE_FLOAT);
    if (count(arguments) != 2 || real == NULL || imaginary == NULL) return wrong(u, global);
    return fa_values_complex(u->values, real->as.f[0], imaginary->as.f[0]);
}

static fa_value *make_device(fai_unpickler *u, const fa_value *global, const fa_value *arguments) {
    const fa_value *type = argument(arguments, 0, FA_VALUE_TEXT), *index = argument(arguments, 1, FA_VALUE_INT);
    char text[64];
    if (type == NULL || type->as.text.n > 32 || count(arguments) > 2 || (count(arguments) == 2 && index == NULL))
        return wrong(u, global);
    if (index != NULL)
        snprintf(text, sizeof text, "%s:%lld", type->as.text.data, (long long)index->as.i);
    else
        snprintf(text, sizeof text, "%s", type->as.text.data);
    fa_device device = fa_device_parse(text);
    return device.type == 0 ? NULL : fa_values_device(u->values, device);
}

fa_value *fai_reduce(fai_unpickler *u, const fa_value *global, fa_value *arguments) {
    switch (global->as.global.known->meaning) {
    case FAI_NAME_ORDERED_DICT: return make_dict(u, global, arguments, FA_VALUE_ORDERED_DICT);
    case FAI_NAME_COUNTER: return make_dict(u, global, arguments, FA_VALUE_COUNTER);
    case FAI_NAME_SET: return make_set(u, global, arguments);
    case FAI_NAME_COMPLEX: return make_complex(u, global, arguments);
    case FAI_NAME_BYTES: return make_bytes(u, global, arguments, FA_VALUE_BYTES);
    case FAI_NAME_BYTE_ARRAY: return make_bytes(u, global, arguments, FA_VALUE_BYTE_ARRAY);
    case FAI_NAME_ENCODE: return encode(u, global, arguments, FA_VALUE_BYTES);
    case FAI_NAME_SIZE: return make_size(u, global, arguments);
    case FAI_NAME_DEVICE: return make_device(u, global, arguments);
    case FAI_NAME_TENSOR:
    case FAI_NAME_TENSOR_V3: return make_tensor(u, global, arguments);
    case FAI_NAME_PARAMETER:
    case FAI_NAME_PARAMETER_STATE: return make_parameter(u, global, arguments);
    case FAI_NAME_FROM_TYPE: return make_from_type(u, global, arguments);
    default: return bad(u, "Trying to call reduce for unrecognized function %s", global->as.global.name);
    }
}
