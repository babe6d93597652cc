/* Seeds, devices, memory, threads, printing options: functions about the library and the machine. */
#include "bind.h"

#define FAST(f) (PyCFunction)(void (*)(void))(f), METH_FASTCALL | METH_KEYWORDS

/* ---- Generator: one object with the library's fa_generator ---- */

#define G(o) ((fa_generator *)(o))

static PyObject *generator_make(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"device", NULL};
    PyObject *device = NULL;
    fa_device d = FA_CPU;
    (void)type;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|O:Generator", names, &device)) return NULL;
    if (device && !Py_IsNone(device) && !fapy_device_from(device, "Generator", "device", 1, &d)) return NULL;
    const uint32_t mark = FAPY_MARK;
    return fapy_take(fa_generator_new(d), mark);
}

/* whole: of anything that int() takes, as torch.manual_seed does. */
static bool seed_from(PyObject *seed, bool whole, uint64_t *out)
{
    PyObject *number = whole ? PyNumber_Long(seed) : PyNumber_Index(seed);
    if (!number && !whole && PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyErr_Clear();
        PyErr_Format(PyExc_RuntimeError, "manual_seed expected a long, but got %s", Py_TYPE(seed)->tp_name);
    }
    if (!number) return false;
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(number, &overflow);
    *out = overflow > 0 ? PyLong_AsUnsignedLongLong(number) : (uint64_t)value;
    Py_DECREF(number);
    if (overflow >= 0 && !PyErr_Occurred()) return true;
    PyErr_Clear();
    PyErr_SetString(PyExc_ValueError, "Overflow when unpacking long long: a seed lies between -0x8000_0000_0000_0000 and 0xffff_ffff_ffff_ffff");
    return false;
}

static PyObject *generator_manual_seed(PyObject *self, PyObject *seed)
{
    uint64_t value;
    if (!seed_from(seed, false, &value)) return NULL;
    return fa_generator_seed(G(self), value) ? Py_NewRef(self) : fapy_raise();
}

static PyObject *generator_seed(PyObject *self, PyObject *unused)
{
    uint64_t value;
    (void)unused;
    PyObject *bytes = PyObject_CallMethod(PyImport_ImportModule("os"), "urandom", "i", 8);
    if (!bytes) return NULL;
    memcpy(&value, PyBytes_AS_STRING(bytes), 8);
    Py_DECREF(bytes);
    return fa_generator_seed(G(self), value) ? PyLong_FromUnsignedLongLong(value) : fapy_raise();
}

static PyObject *generator_initial_seed(PyObject *self, PyObject *unused) { (void)unused; return PyLong_FromUnsignedLongLong(fa_initial_seed(G(self))); }
static PyObject *generator_device(PyObject *self, void *unused) { (void)unused; return fapy_device_new(G(self)->device); }
static void generator_dealloc(PyObject *self) { fai_end(self); }

/* The state as a uint8 tensor: all that draws depend on, laid out as PyTorch's, so that each reads the other's. */
typedef struct mt_state {
    uint64_t seed;
    int32_t left, seeded;
    uint64_t next, state[624];
    double normal_x, normal_y, normal_rho;
    int32_t has_normal, unused;
    float next_float;
    int32_t has_float;
} mt_state;
_Static_assert(sizeof(mt_state) == 5056, "PyTorch's size");

static PyObject *generator_get_state(PyObject *self, PyObject *unused)
{
    (void)unused;
    const uint32_t mark = FAPY_MARK;
    const fa_generator *g = G(self);
    const uint64_t both[] = {g->seed, g->offset};
    if (!fai_generator_at_rest(g, "current_seed")) return fapy_raise();
    if (g->device.type != FA_DEVICE_CPU) return fapy_take(fa_from_data_with(both, FA_UINT8, FA_SHAPE(sizeof both), NULL), mark);
    mt_state s = {.seed = g->mt.seed, .left = g->mt.left, .seeded = 1, .next = g->mt.next, .normal_y = g->mt.has_normal ? g->mt.normal : 0,
                  .has_normal = g->mt.has_normal};
    for (int i = 0; i < 624; i++) s.state[i] = g->mt.state[i];
    return fapy_take(fa_from_data_with(&s, FA_UINT8, FA_SHAPE(sizeof s), NULL), mark);
}

static bool mt_from(const mt_state *s, fai_mt19937 *out)
{
    if (s->seeded != 1 || s->left < 1 || s->left > 624 || s->next > 624)
        return PyErr_SetString(PyExc_RuntimeError, "Invalid mt19937 state: take it from get_state()"), false;
    *out = (fai_mt19937){.seed = s->seed, .left = s->left, .next = (uint32_t)s->next, .normal = s->normal_y, .has_normal = s->has_normal != 0};
    for (int i = 0; i < 624; i++) out->state[i] = (uint32_t)s->state[i];
    return true;
}

static PyObject *generator_set_state(PyObject *self, PyObject *state)
{
    fa_generator *g = G(self);
    union { mt_state mt; uint64_t both[2]; } in;
    fai_mt19937 mt = {0};
    const bool cpu = g->device.type == FA_DEVICE_CPU;
    if (!fapy_tensor_check(state) || ((fa_tensor *)state)->dtype != FA_UINT8) return PyErr_SetString(PyExc_TypeError, "RNG state must be a torch.ByteTensor"), NULL;
    const long long bytes = (long long)((fa_tensor *)state)->numel;
    if (cpu && bytes != sizeof in.mt)
        return PyErr_Format(PyExc_RuntimeError, "Expected a CPUGeneratorImplState of size %d but found the input RNG state size to be %lld", (int)sizeof in.mt, bytes);
    if (!cpu && bytes != sizeof in.both) return PyErr_Format(PyExc_RuntimeError, "RNG state is wrong size: %lld bytes, expected %d", bytes, (int)sizeof in.both);
    if (!fai_generator_at_rest(g, "set_state") || !fa_to_data((fa_tensor *)state, &in, FA_UINT8)) return fapy_raise();
    if (cpu && !mt_from(&in.mt, &mt)) return NULL;
    fai_generators_lock();
    if (cpu) g->mt = mt;
    else g->seed = in.both[0], g->offset = in.both[1];
    fai_generators_unlock();
    return Py_NewRef(self);
}

/* Of Philox, a multiple of 4; mt19937 has none. */
static bool has_offset(fa_generator *g)
{
    if (g->device.type != FA_DEVICE_CPU) return true;
    PyErr_SetString(PyExc_RuntimeError, "CPU Generator does not use offset");
    return false;
}

static PyObject *generator_get_offset(PyObject *self, PyObject *unused)
{
    (void)unused;
    if (!fai_generator_at_rest(G(self), "get_offset")) return fapy_raise();
    return has_offset(G(self)) ? PyLong_FromUnsignedLongLong(G(self)->offset) : NULL;
}

static PyObject *generator_set_offset(PyObject *self, PyObject *offset)
{
    uint64_t value;
    if (!has_offset(G(self)) || !seed_from(offset, false, &value)) return NULL;
    if (value % 4) return PyErr_SetString(PyExc_RuntimeError, "offset must be a multiple of 4"), NULL;
    if (!fai_generator_at_rest(G(self), "set_offset")) return fapy_raise();
    fai_generators_lock();
    G(self)->offset = value;
    fai_generators_unlock();
    return Py_NewRef(self);
}

static PyObject *generator_clone_state(PyObject *self, PyObject *unused)
{
    (void)unused;
    const uint32_t mark = FAPY_MARK;
    fa_generator *g = G(self), *copy = fai_generator_at_rest(g, "current_seed") ? fa_generator_new(g->device) : NULL;
    if (copy) {
        fai_generators_lock();
        copy->mt = g->mt, copy->seed = g->seed, copy->offset = g->offset;
        fai_generators_unlock();
    }
    return fapy_take(copy, mark);
}

static PyMethodDef generator_methods[] = {
    {"manual_seed", generator_manual_seed, METH_O, "manual_seed(seed)\n--\n\nStarts the sequence of random numbers that belongs to seed; returns the generator."},
    {"seed", generator_seed, METH_NOARGS, "seed()\n--\n\nSeeds it from the system's randomness; returns the seed."},
    {"initial_seed", generator_initial_seed, METH_NOARGS, "initial_seed()\n--\n\nThe seed that it started from."},
    {"get_state", generator_get_state, METH_NOARGS, "get_state()\n--\n\nAll that further numbers depend on, as a uint8 tensor."},
    {"set_state", generator_set_state, METH_O, "set_state(new_state)\n--\n\nGoes on from what get_state gave."},
    {"get_offset", generator_get_offset, METH_NOARGS, "get_offset()\n--\n\nHow many numbers a device's generator has given, a multiple of 4."},
    {"set_offset", generator_set_offset, METH_O, "set_offset(offset)\n--\n\nA device's generator goes on from there; a multiple of 4."},
    {"clone_state", generator_clone_state, METH_NOARGS, "clone_state()\n--\n\nA new generator that goes on from where this one is."},
    {0}};
static PyGetSetDef generator_attributes[] = {{"device", generator_device, NULL, "Whose numbers it draws.", NULL}, {0}};
PyTypeObject fapy_Generator = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "facula.Generator", .tp_basicsize = sizeof(fa_generator), .tp_flags = Py_TPFLAGS_DEFAULT,
                               .tp_new = generator_make, .tp_dealloc = generator_dealloc, .tp_methods = generator_methods, .tp_getset = generator_attributes,
                               .tp_doc = "Generator(device='cpu')\n--\n\nA source of random numbers with a seed of its own.\n\n"
              ">>> g = torch.Generator().manual_seed(0)\n"
              ">>> torch.rand(2, generator=g)\n"
              "tensor([0.4963, 0.7682])"};

fa_generator *generator_of(const fapy_value *v)
{
    if (!v->given) return NULL;
    if (Py_TYPE(v->as.o) == &fapy_Generator) return G(v->as.o);
    return fai_fail(FA_ERR_TYPE, "generator", "argument 'generator' must be torch.Generator, not %s", Py_TYPE(v->as.o)->tp_name);
}

static PyObject *default_generator(PyObject *self, PyObject *device)
{
    fa_device d = FA_CPU;
    (void)self;
    if (!Py_IsNone(device) && !fapy_device_from(device, "default_generator", "device", 1, &d)) return NULL;
    fa_generator *g = fa_default_generator(d);
    return g ? Py_NewRef(g) : fapy_raise();
}

/* ---- seeds and devices ---- */

static PyObject *manual_seed(PyObject *self, PyObject *seed)
{
    (void)self;
    uint64_t bits;
    if (!seed_from(seed, true, &bits)) return NULL;
    fa_manual_seed(bits);
    return fa_failed() ? fapy_raise() : Py_NewRef(Py_None);
}

static bool device_arg(PyObject *o, const char *function, fa_device *out)
{
    *out = FA_CUDA(-1);
    return !o || Py_IsNone(o) || fapy_device_from(o, function, "device", 1, out);
}

static PyObject *device_count(PyObject *self, PyObject *type)
{
    fa_device d;
    (void)self;
    if (!device_arg(type, "device_count", &d)) return NULL;
    return PyLong_FromLong(fa_device_count(d.type));
}

static PyObject *device_is_there(PyObject *self, PyObject *type)
{
    fa_device d;
    (void)self;
    if (!device_arg(type, "is_available", &d)) return NULL;
    return PyBool_FromLong(fa_device_is_available(d.type));
}

static PyObject *accelerator(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    const fa_device d = fa_accelerator();
    if (!d.type) Py_RETURN_NONE;
    return fapy_device_new(d);
}

static PyObject *device_properties(PyObject *self, PyObject *device)
{
    fa_device d;
    fa_device_properties p;
    (void)self;
    if (!device_arg(device, "get_device_properties", &d)) return NULL;
    if (!fai_device_resolve(&d, "get_device_properties") || !fa_device_get_properties(d, &p)) return fapy_raise();
    char uuid[40];
    fa_device_uuid_text(&p, uuid, sizeof uuid);
    return Py_BuildValue("{s:s,s:K,s:i,s:i,s:i,s:i,s:i,s:O,s:s,s:i,s:i,s:K,s:K,s:K,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:s}", "name", p.name, "total_memory", (unsigned long long)p.total_memory, "multi_processor_count",
                         p.multiprocessors, "max_threads_per_multi_processor", p.threads_per_multiprocessor, "warp_size", p.warp_size, "major", p.major,
                         "minor", p.minor, "simulated", p.simulated ? Py_True : Py_False, "driver", p.driver, "max_threads_per_block", p.threads_per_block,
                         "regs_per_multiprocessor", p.registers_per_multiprocessor, "L2_cache_size", (unsigned long long)p.l2_cache,
                         "shared_memory_per_block", (unsigned long long)p.shared_memory_per_block, "shared_memory_per_multiprocessor",
                         (unsigned long long)p.shared_memory_per_multiprocessor, "clock_rate", p.clock_rate, "memory_clock_rate", p.memory_clock_rate,
                         "memory_bus_width", p.memory_bus_width, "pci_domain_id", p.pci_domain, "pci_bus_id", p.pci_bus, "pci_device_id",
                         p.pci_device, "is_integrated", p.integrated, "is_multi_gpu_board", p.multi_board, "uuid", uuid);
}

/* [(op, device, count, reason), ...] */
static PyObject *fallbacks(PyObject *self, PyObject *unused)
{
    fa_fallback_info info;
    (void)self, (void)unused;
    PyObject *list = PyList_New(0);
    for (int i = 0; list && fa_fallback_get(i, &info); i++) {
        PyObject *row = Py_BuildValue("(sNKs)", info.op, fapy_device_new(info.device), (unsigned long long)info.count, info.reason);
        if (!row || PyList_Append(list, row) < 0) Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

/* (utilization, memory utilization, temperature, power, clock) */
static PyObject *device_sensors(PyObject *self, PyObject *device)
{
    fa_device d;
    fa_device_sensors s;
    (void)self;
    if (!device_arg(device, "get_sensors", &d)) return NULL;
    if (!fa_device_get_sensors(d, &s)) return fapy_raise();
    return Py_BuildValue("(iiiii)", s.utilization, s.memory_utilization, s.temperature, s.power, s.clock);
}

/* can_access_peer(device, peer) */
static PyObject *can_access_peer(PyObject *self, PyObject *args)
{
    PyObject *from, *to;
    fa_device d, peer;
    (void)self;
    if (!PyArg_ParseTuple(args, "OO", &from, &to) || !device_arg(from, "can_access_peer", &d) || !device_arg(to, "can_access_peer", &peer)) return NULL;
    const bool can = fa_device_can_access_peer(d, peer);
    return fa_error_peek() ? fapy_raise() : PyBool_FromLong(can);
}

/* why_not(device): the steps of fa_device_why_not. */
static PyObject *why_not(PyObject *self, PyObject *type)
{
    fa_device d;
    char text[8192];
    (void)self;
    if (!device_arg(type, "why_not", &d)) return NULL;
    return fa_device_why_not(d.type, text, sizeof text) ? PyUnicode_FromString(text) : fapy_raise();
}

/* math_modes(on, off): the modes before; bits of FA_MATH_... */
static PyObject *math_modes(PyObject *self, PyObject *args)
{
    unsigned on, off;
    (void)self;
    if (!PyArg_ParseTuple(args, "II", &on, &off)) return NULL;
    return PyLong_FromUnsignedLong(fa_set_math_modes(on, off));
}

/* Every library of a device type, as a dict. */
static PyObject *libraries(PyObject *self, PyObject *type)
{
    fa_device d;
    fa_library_info info;
    (void)self;
    if (!device_arg(type, "libraries", &d)) return NULL;
    PyObject *list = PyList_New(0);
    for (int i = 0; list && fa_library_get(d.type, i, &info); i++) {
        PyObject *one = Py_BuildValue("{s:s,s:s,s:K,s:O,s:s,s:K,s:K}", "name", info.name, "file", info.file, "version", (unsigned long long)info.version,
                                      "usable", info.usable ? Py_True : Py_False, "why", info.why, "calls", (unsigned long long)info.calls,
                                      "declined", (unsigned long long)info.declined);
        if (!one || PyList_Append(list, one) < 0) Py_CLEAR(list);
        Py_XDECREF(one);
    }
    return list;
}

static PyObject *current_device(PyObject *self, PyObject *type)
{
    fa_device d;
    (void)self;
    if (!device_arg(type, "current_device", &d)) return NULL;
    d.index = -1;
    if (!fai_device_resolve(&d, "current_device")) return fapy_raise();
    return PyLong_FromLong(fa_current_device(d.type));
}

static PyObject *set_current_device(PyObject *self, PyObject *device)
{
    fa_device d;
    (void)self;
    if (!device_arg(device, "set_device", &d)) return NULL;
    if (!fai_device_resolve(&d, "set_device") || !fa_set_current_device(d)) return fapy_raise();
    Py_RETURN_NONE;
}

static PyObject *synchronize(PyObject *self, PyObject *device)
{
    fa_device d;
    (void)self;
    if (!device_arg(device, "synchronize", &d)) return NULL;
    return fa_synchronize(d) ? Py_NewRef(Py_None) : fapy_raise();
}

/* As PyTorch: without an index the one that new tensors would be on, which must be there. */
static PyObject *get_default_device(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    fa_device d = fa_default_device();
    if (d.type != FA_DEVICE_CPU && d.index < 0 && !fai_device_resolve(&d, "get_default_device")) return fapy_raise();
    return fapy_device_new(d);
}

static PyObject *set_default_device(PyObject *self, PyObject *device)
{
    fa_device d = FA_CPU;
    (void)self;
    if (!Py_IsNone(device) && !fapy_device_from(device, "set_default_device", "device", 1, &d)) return NULL;
    fa_set_default_device(d);
    return fa_failed() ? fapy_raise() : Py_NewRef(Py_None);
}

static PyObject *get_default_dtype(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    return fapy_dtype_new(fa_default_dtype());
}

static PyObject *set_default_dtype(PyObject *self, PyObject *dtype)
{
    fa_dtype d;
    (void)self;
    if (Py_TYPE(dtype) != &fapy_Dtype)
        return PyErr_SetString(PyExc_TypeError, "invalid dtype object: only floating-point types are supported as the default type"), NULL;
    if (!fapy_dtype_from(dtype, "set_default_dtype", "d", 1, &d)) return NULL;
    if (!fa_dtype_is_floating(d)) return PyErr_SetString(PyExc_TypeError, "only floating-point types are supported as the default type"), NULL;
    fa_set_default_dtype(d);
    return fa_failed() ? fapy_raise() : Py_NewRef(Py_None);
}

/* ---- types ---- */

static PyObject *promote_types(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    static const fapy_parameter parameters[] = {{"type1", FAPY_DTYPE, 0}, {"type2", FAPY_DTYPE, 0}};
    static const fapy_signature signature = {"promote_types", 2, parameters};
    fapy_value v[2];
    (void)self;
    if (!fapy_parse(&signature, args, n, names, 0, v)) return NULL;
    return fapy_dtype_new(fa_promote_types(v[0].as.dtype, v[1].as.dtype));
}

static int category(fa_dtype d) { return fa_dtype_is_floating(d) ? 2 : d != FA_BOOL; }

static PyObject *can_cast(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    static const fapy_parameter parameters[] = {{"from_", FAPY_DTYPE, 0}, {"to", FAPY_DTYPE, 0}};
    static const fapy_signature signature = {"can_cast", 2, parameters};
    fapy_value v[2];
    (void)self;
    if (!fapy_parse(&signature, args, n, names, 0, v)) return NULL;
    return PyBool_FromLong(category(v[0].as.dtype) <= category(v[1].as.dtype));
}

static PyObject *result_type(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    static const fapy_parameter parameters[] = {{"tensor1", FAPY_TN, 0}, {"tensor2", FAPY_TN, 0}};
    static const fapy_signature signature = {"result_type", 2, parameters};
    fapy_value v[2];
    (void)self;
    if (!fapy_parse(&signature, args, n, names, 0, v)) return NULL;
    return fapy_dtype_new(fai_result_type(2, (const fai_operand[]){v[0].as.operand, v[1].as.operand}));
}

static PyObject *get_num_threads(PyObject *self, PyObject *unused) { (void)self, (void)unused; return PyLong_FromLong(fa_num_threads()); }
static PyObject *set_num_threads(PyObject *self, PyObject *n)
{
    (void)self;
    if (!PyLong_Check(n)) return PyErr_Format(PyExc_TypeError, "set_num_threads expects an int, but got %s", Py_TYPE(n)->tp_name);
    const long threads = PyLong_AsLong(n);
    if (threads <= 0) return PyErr_Occurred() ? NULL : (PyErr_SetString(PyExc_RuntimeError, "expected positive number of threads"), NULL);
    fa_set_num_threads((int)threads);
    Py_RETURN_NONE;
}

/* set_print(precision, threshold, edgeitems, linewidth, sci_mode): all given. */
static PyObject *set_print(PyObject *self, PyObject *args)
{
    (void)self;
    fa_print_options o = {.struct_size = sizeof o};
    long long threshold;
    if (!PyArg_ParseTuple(args, "iLiii", &o.precision, &threshold, &o.edgeitems, &o.linewidth, &o.sci_mode)) return NULL;
    o.threshold = threshold;
    fa_set_print_options(&o);
    return fa_failed() ? fapy_raise() : Py_NewRef(Py_None);
}

static PyObject *instruction_set(PyObject *self, PyObject *unused) { (void)self, (void)unused; return PyUnicode_FromString(fa_instruction_set()); }

/* ---- the self-test ---- */

static void write_line(void *context, const char *text)
{
    if (PyErr_Occurred()) return; /* of a line before */
    PyObject *done = PyObject_CallFunction(context, "s", text);
    Py_XDECREF(done);
}

static PyObject *selftest(PyObject *self, PyObject *args)
{
    PyObject *device, *write;
    const char *op;
    fa_device d = FA_CPU;
    (void)self;
    if (!PyArg_ParseTuple(args, "OzO", &device, &op, &write) || !fapy_device_from(device, "selftest", "device", 1, &d)) return NULL;
    const bool fine = fa_selftest(d, NULL, .op = op, .line = Py_IsNone(write) ? NULL : write_line, .context = write);
    if (PyErr_Occurred()) {
        fa_error_take();
        return NULL;
    }
    return fa_failed() ? fapy_raise() : PyBool_FromLong(fine);
}

PyMethodDef fapy_system_functions[] = {
    {"_default_generator", default_generator, METH_O, NULL},
    {"_manual_seed", manual_seed, METH_O, NULL},
    {"_device_count", device_count, METH_O, NULL},
    {"_device_is_available", device_is_there, METH_O, NULL},
    {"_accelerator", accelerator, METH_NOARGS, NULL},
    {"_device_properties", device_properties, METH_O, NULL},
    {"_fallbacks", fallbacks, METH_NOARGS, NULL},
    {"_device_sensors", device_sensors, METH_O, NULL},
    {"_can_access_peer", can_access_peer, METH_VARARGS, NULL},
    {"_why_not", why_not, METH_O, NULL},
    {"_math_modes", math_modes, METH_VARARGS, NULL},
    {"_libraries", libraries, METH_O, NULL},
    {"_current_device", current_device, METH_O, NULL},
    {"_set_device", set_current_device, METH_O, NULL},
    {"_synchronize", synchronize, METH_O, NULL},
    {"get_default_device", get_default_device, METH_NOARGS, "get_default_device()\n--\n\nWhere new tensors are made."},
    {"set_default_device", set_default_device, METH_O, "set_default_device(device)\n--\n\nNew tensors are made there."},
    {"get_default_dtype", get_default_dtype, METH_NOARGS, "get_default_dtype()\n--\n\nThe type of new floating-point tensors."},
    {"set_default_dtype", set_default_dtype, METH_O, "set_default_dtype(d)\n--\n\nSets the type of new floating-point tensors."},
    {"promote_types", FAST(promote_types), "promote_types(type1, type2)\n--\n\nThe type that operations on both types compute in."},
    {"can_cast", FAST(can_cast), "can_cast(from_, to)\n--\n\nWhether operations may write results of one type into the other: a bool into an integer, an integer into a float."},
    {"result_type", FAST(result_type), "result_type(tensor1, tensor2)\n--\n\nThe type of tensor1 + tensor2; numbers and 0-dim tensors count by their kind alone."},
    {"get_num_threads", get_num_threads, METH_NOARGS, "get_num_threads()\n--\n\nHow many threads compute."},
    {"set_num_threads", set_num_threads, METH_O, "set_num_threads(n)\n--\n\nSets how many threads compute; results do not depend on it."},
    {"_set_print", set_print, METH_VARARGS, NULL},
    {"_selftest", selftest, METH_VARARGS, NULL},
    {"_instruction_set", instruction_set, METH_NOARGS, NULL},
    {0}};
