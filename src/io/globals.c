/* The closed list of names that a checkpoint may hold. They are words with a meaning here, not functions: nothing is looked up
 * by them but this table. */
#include "pickle.h"
#include <string.h>

#define FOREIGN(name, why)                                                                                                       \
    { name, FAI_NAME_FOREIGN, FA_DTYPE_DEFAULT, why }
#define DTYPE(dtype, code, storage)                                                                                              \
    {"torch." dtype, FAI_NAME_DTYPE, code, NULL}, {"torch." storage "Storage", FAI_NAME_STORAGE, code, NULL},                    \
        {"torch." storage "Tensor", FAI_NAME_CLASS, code, NULL}, {                                                               \
        "torch.cuda." storage "Tensor", FAI_NAME_CLASS, code, NULL                                                               \
    }
#define NO_DTYPE(name) FOREIGN("torch." name, "elements of type " name)

static const char sparse[] = "a sparse tensor: make it dense by .to_dense() before it is saved";
static const char quantized[] = "a quantized tensor: call .dequantize() before it is saved";

/* The first of several names of one meaning is the one that is written. */
static const fai_global globals[] = {
    {"torch._utils._rebuild_tensor_v2", FAI_NAME_TENSOR, 0, NULL},
    {"collections.OrderedDict", FAI_NAME_ORDERED_DICT, 0, NULL},
    DTYPE("float32", FA_FLOAT32, "Float"),
    DTYPE("float64", FA_FLOAT64, "Double"),
    DTYPE("float16", FA_FLOAT16, "Half"),
    DTYPE("bfloat16", FA_BFLOAT16, "BFloat16"),
    DTYPE("int64", FA_INT64, "Long"),
    DTYPE("int32", FA_INT32, "Int"),
    DTYPE("int16", FA_INT16, "Short"),
    DTYPE("int8", FA_INT8, "Char"),
    DTYPE("uint8", FA_UINT8, "Byte"),
    DTYPE("bool", FA_BOOL, "Bool"),
    {"torch._utils._rebuild_tensor", FAI_NAME_TENSOR, 0, NULL},
    {"torch._utils._rebuild_tensor_v3", FAI_NAME_TENSOR_V3, 0, NULL},
    {"torch._utils._rebuild_parameter", FAI_NAME_PARAMETER, 0, NULL},
    {"torch._utils._rebuild_parameter_with_state", FAI_NAME_PARAMETER_STATE, 0, NULL},
    {"torch._tensor._rebuild_from_type_v2", FAI_NAME_FROM_TYPE, 0, NULL},
    {"torch.Size", FAI_NAME_SIZE, 0, NULL},
    {"torch.device", FAI_NAME_DEVICE, 0, NULL},
    {"torch.Tensor", FAI_NAME_CLASS, 0, NULL},
    {"torch.nn.parameter.Parameter", FAI_NAME_CLASS, 0, NULL},
    {"torch.storage.UntypedStorage", FAI_NAME_STORAGE, 0, NULL},
    {"torch.UntypedStorage", FAI_NAME_STORAGE, 0, NULL},
    {"collections.Counter", FAI_NAME_COUNTER, 0, NULL},
    {"_codecs.encode", FAI_NAME_ENCODE, 0, NULL},
    {"__builtin__.set", FAI_NAME_SET, 0, NULL},
    {"builtins.set", FAI_NAME_SET, 0, NULL},
    {"__builtin__.complex", FAI_NAME_COMPLEX, 0, NULL},
    {"builtins.complex", FAI_NAME_COMPLEX, 0, NULL},
    {"__builtin__.bytes", FAI_NAME_BYTES, 0, NULL},
    {"builtins.bytes", FAI_NAME_BYTES, 0, NULL},
    {"__builtin__.bytearray", FAI_NAME_BYTE_ARRAY, 0, NULL},
    {"builtins.bytearray", FAI_NAME_BYTE_ARRAY, 0, NULL},
    NO_DTYPE("uint16"),
    NO_DTYPE("uint32"),
    NO_DTYPE("uint64"),
    NO_DTYPE("complex32"),
    NO_DTYPE("complex64"),
    NO_DTYPE("complex128"),
    NO_DTYPE("float8_e4m3fn"),
    NO_DTYPE("float8_e5m2"),
    NO_DTYPE("float8_e4m3fnuz"),
    NO_DTYPE("float8_e5m2fnuz"),
    NO_DTYPE("float8_e8m0fnu"),
    NO_DTYPE("float4_e2m1fn_x2"),
    NO_DTYPE("qint8"),
    NO_DTYPE("qint32"),
    NO_DTYPE("quint8"),
    NO_DTYPE("quint4x2"),
    NO_DTYPE("quint2x4"),
    NO_DTYPE("bits8"),
    NO_DTYPE("bits16"),
    NO_DTYPE("bits1x8"),
    NO_DTYPE("bits2x4"),
    NO_DTYPE("bits4x2"),
    FOREIGN("torch.ComplexFloatStorage", "elements of type complex64: save .real and .imag, or torch.view_as_real"),
    FOREIGN("torch.ComplexDoubleStorage", "elements of type complex128: save .real and .imag, or torch.view_as_real"),
    FOREIGN("torch.QInt8Storage", quantized),
    FOREIGN("torch.QInt32Storage", quantized),
    FOREIGN("torch.QUInt8Storage", quantized),
    FOREIGN("torch.QUInt4x2Storage", quantized),
    FOREIGN("torch.QUInt2x4Storage", quantized),
    FOREIGN("torch._utils._rebuild_qtensor", quantized),
    FOREIGN("torch._utils._rebuild_sparse_tensor", sparse),
    FOREIGN("torch._utils._rebuild_meta_tensor_no_storage", "a tensor on the device meta, which has no elements"),
    FOREIGN("torch._utils._rebuild_nested_tensor", "a nested tensor: save its parts, t.unbind()"),
    FOREIGN("torch._utils._rebuild_wrapper_subclass", "a tensor of a wrapper class: save what it wraps"),
    FOREIGN("torch._utils._rebuild_device_tensor_from_cpu_tensor", "a tensor of another kind of device: save its .cpu()"),
    FOREIGN("torch._utils._rebuild_device_tensor_from_numpy", "a tensor of another kind of device: save its .cpu()"),
    FOREIGN("torch.serialization._get_layout", "a layout of memory, as sparse tensors have"),
    FOREIGN("torch.storage.TypedStorage", "a storage without a tensor: save a tensor of it"),
};

const fai_global *fai_find_global(const char *name) {
    for (size_t i = 0; i < sizeof globals / sizeof *globals; i++) {
        if (strcmp(name, globals[i].name) == 0) return &globals[i];
    }
    return NULL;
}

const char *fai_global_name(fai_meaning meaning, fa_dtype dtype) {
    for (size_t i = 0; i < sizeof globals / sizeof *globals; i++) {
        if (globals[i].meaning == meaning && globals[i].dtype == dtype) return globals[i].name;
    }
    return NULL;
}
