/* Optimizers: an object Rule is the library's optimizer beside a Python one, whose param_groups stay plain dicts and lists that
 * programs and schedules change. Each step reads the groups' numbers and looks whether the parameters are still the same; then
 * all groups are one fa_step.
 *
 * What the library keeps for a parameter is shown as the dict `state` only when somebody asks: then each step also looks what was
 * changed in it, and writes what is new. The tensors in it are the library's own. */
#include "face.h"
#include "optim/optim.h"

#define T(o) ((fa_tensor *)(o))

typedef struct rule_object {
    PyObject_HEAD
    const fai_rule *rule;
    fa_optimizer *optimizer;
    PyObject *state;                      /* {parameter: {"step": ..., "exp_avg": ...}} */
    bool shown;                           /* somebody has the dict, or has given it */
    uint64_t replayed;                    /* steps of graphs that the dict knows of */
    PyObject *guard;                      /* of a gradient scaler, in a capture: a bool that the step depends on; NULL: none */
    PyObject *groups;                     /* param_groups that replays read their options from; NULL: no step was captured */
    PyObject *key[FAI_RULE_OPTIONS];      /* the groups' name of each option: "betas" for beta1 and beta2 */
    int part[FAI_RULE_OPTIONS];           /* and its place there; -1: the option is the value itself */
    PyObject *state_key[FAI_RULE_STATES], *kept_key[FAI_RULE_KEPT];
} rule_object;
#define R(o) ((rule_object *)(o))

static PyObject *name_params, *name_step;

/* ---- birth and end ---- */

static const fai_rule *const rules[] = {&fai_rule_sgd,     &fai_rule_adam,     &fai_rule_adamw,  &fai_rule_rmsprop,
                                        &fai_rule_adagrad, &fai_rule_adadelta, &fai_rule_adamax, &fai_rule_nadam,
                                        &fai_rule_radam,   &fai_rule_asgd,     &fai_rule_rprop};

static bool name_options(rule_object *r)
{
    for (int i = 0; i < FAI_RULE_OPTIONS && r->rule->option[i]; i++) {
        const char *pair = NULL;
        r->part[i] = fai_rule_pair(r->rule->option[i], &pair);
        if (!(r->key[i] = PyUnicode_InternFromString(pair ? pair : r->rule->option[i]))) return false;
    }
    for (int k = 0; k < fai_rule_states(r->rule); k++)
        if (!(r->state_key[k] = PyUnicode_InternFromString(fai_updates[r->rule->widest].state[k]))) return false;
    for (int k = 0; k < FAI_RULE_KEPT && r->rule->kept[k]; k++)
        if (!(r->kept_key[k] = PyUnicode_InternFromString(r->rule->kept[k]))) return false;
    return true;
}

static PyObject *rule_make(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    const char *name;
    PyObject *state;
    (void)keywords;
    if (!PyArg_ParseTuple(args, "sO!:Rule", &name, &PyDict_Type, &state)) return NULL;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (strcmp(rules[i]->name, name) != 0) continue;
        rule_object *r = (rule_object *)type->tp_alloc(type, 0);
        if (!r) return NULL;
        r->rule = rules[i];
        r->state = Py_NewRef(state);
        if (!name_options(r)) Py_CLEAR(r);
        return (PyObject *)r;
    }
    return PyErr_Format(PyExc_ValueError, "there is no update rule %s", name);
}

static int rule_traverse(PyObject *self, visitproc visit, void *arg)
{
    const fa_optimizer *o = R(self)->optimizer;
    Py_VISIT(R(self)->state);
    Py_VISIT(R(self)->groups);
    Py_VISIT(R(self)->guard);
    for (int g = 0; o && g < o->ngroups; g++)
        for (int i = 0; i < o->groups[g].n; i++) {
            const fai_trained *t = &o->groups[g].trained[i];
            Py_VISIT((PyObject *)t->p);
            for (int k = 0; k < FAI_RULE_STATES; k++) Py_VISIT((PyObject *)t->state[k]);
        }
    return 0;
}

static int rule_clear(PyObject *self)
{
    fa_optimizer *o = R(self)->optimizer;
    R(self)->optimizer = NULL;
    if (o) o->refresh = NULL; /* a graph may have it for longer */
    fai_unref(o);
    Py_CLEAR(R(self)->state);
    Py_CLEAR(R(self)->groups);
    Py_CLEAR(R(self)->guard);
    return 0;
}

static void rule_dealloc(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    rule_clear(self);
    for (int i = 0; i < FAI_RULE_OPTIONS; i++) Py_XDECREF(R(self)->key[i]);
    for (int k = 0; k < FAI_RULE_STATES; k++) Py_XDECREF(R(self)->state_key[k]);
    for (int k = 0; k < FAI_RULE_KEPT; k++) Py_XDECREF(R(self)->kept_key[k]);
    Py_TYPE(self)->tp_free(self);
}

/* ---- the groups' parameters ---- */

static PyObject *params_of(PyObject *groups, Py_ssize_t g)
{
    PyObject *group = PyList_GET_ITEM(groups, g),
             *params = PyDict_Check(group) ? PyDict_GetItemWithError(group, name_params) : NULL;
    if (params && PyList_Check(params)) return params;
    if (!PyErr_Occurred()) PyErr_Format(PyExc_TypeError, "param_groups[%zd] must be a dict with a list \"params\"", g);
    return NULL;
}

/* The library's groups have the same parameters in the same order. A parameter that comes twice in a group is there once. */
static bool is_same(const fai_group *g, PyObject *params)
{
    int at = 0;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(params); i++) {
        const fa_tensor *p = T(PyList_GET_ITEM(params, i));
        if (at < g->n && g->trained[at].p == p) {
            at++;
            continue;
        }
        bool again = false;
        for (int k = 0; k < at && !again; k++) again = g->trained[k].p == p;
        if (!again) return false;
    }
    return at == g->n;
}

static fai_trained *find_trained(const fa_optimizer *o, const fa_tensor *p)
{
    for (int g = 0; o && g < o->ngroups; g++)
        for (int i = 0; i < o->groups[g].n; i++)
            if (o->groups[g].trained[i].p == p) return &o->groups[g].trained[i];
    return NULL;
}

/* params is a tuple. */
static bool add_tensors(fa_optimizer *o, PyObject *params)
{
    static const double zeros[FAI_RULE_OPTIONS];
    const Py_ssize_t n = PyTuple_GET_SIZE(params);
    fa_tensor **list = PyMem_Malloc(((size_t)n + 1) * sizeof *list);
    bool fine = list || PyErr_NoMemory();
    for (Py_ssize_t i = 0; fine && i < n; i++) {
        list[i] = T(PyTuple_GET_ITEM(params, i));
        fine = fapy_tensor_check((PyObject *)list[i]);
        if (!fine)
            PyErr_Format(PyExc_TypeError, "optimizer can only optimize Tensors, but one of the params is %s",
                         Py_TYPE((PyObject *)list[i])->tp_name);
    }
    fine = fine && fai_optimizer_add(o, list, (int)n, zeros);
    PyMem_Free(list);
    return fine;
}

static bool add_group(fa_optimizer *o, PyObject *params)
{
    PyObject *tuple = PyList_AsTuple(params); /* holds them, whatever a handler of warnings does to the list */
    const bool fine = tuple && add_tensors(o, tuple);
    Py_XDECREF(tuple);
    return fine;
}

/* A new optimizer of the library for the groups as they are now; what was kept for a parameter goes on. */
static bool renew(rule_object *r, PyObject *groups)
{
    const uint32_t mark = FAPY_MARK;
    fa_optimizer *o = fai_optimizer_new(r->rule);
    bool fine = o != NULL;
    for (Py_ssize_t g = 0; fine && g < PyList_GET_SIZE(groups); g++) {
        PyObject *params = params_of(groups, g);
        fine = params && add_group(o, params);
    }
    if (!fine) {
        fapy_sweep(mark);
        if (!PyErr_Occurred()) fapy_raise();
        return false;
    }
    fai_scope_take(o);
    for (int g = 0; g < o->ngroups; g++)
        for (int i = 0; i < o->groups[g].n; i++) {
            fai_trained *to = &o->groups[g].trained[i], *from = find_trained(r->optimizer, to->p);
            if (!from) continue;
            to->steps = from->steps;
            memcpy(to->kept, from->kept, sizeof to->kept);
            for (int k = 0; k < FAI_RULE_STATES; k++) to->state[k] = from->state[k], from->state[k] = NULL;
        }
    fa_optimizer *old = r->optimizer;
    if (old) old->refresh = NULL;
    r->optimizer = o;
    fai_unref(old);
    return true;
}

static bool follow_groups(rule_object *r, PyObject *groups)
{
    fa_optimizer *o = r->optimizer;
    if (!PyList_Check(groups)) return PyErr_SetString(PyExc_TypeError, "param_groups must be a list"), false;
    bool same = o && o->ngroups == PyList_GET_SIZE(groups);
    for (int g = 0; same && g < o->ngroups; g++) {
        PyObject *params = params_of(groups, g);
        if (!params) return false;
        same = is_same(&o->groups[g], params);
    }
    return same || renew(r, groups);
}

/* ---- the groups' options ---- */

/* Numbers of other kinds, tensors of one element among them, may run code of the program. */
static bool number_from(PyObject *o, double *out)
{
    if (PyFloat_CheckExact(o)) return *out = PyFloat_AS_DOUBLE(o), true;
    if (PyBool_Check(o)) return *out = o == Py_True, true;
    Py_INCREF(o);
    *out = PyFloat_AsDouble(o);
    Py_DECREF(o);
    return *out != -1 || !PyErr_Occurred();
}

static bool read_option(const rule_object *r, PyObject *group, int i, double *out)
{
    PyObject *value = PyDict_GetItemWithError(group, r->key[i]);
    if (!value) return PyErr_Occurred() ? false : (PyErr_SetObject(PyExc_KeyError, r->key[i]), false);
    if (r->part[i] < 0) return number_from(value, out);
    PyObject *item = PySequence_GetItem(value, r->part[i]);
    const bool fine = item && number_from(item, out);
    Py_XDECREF(item);
    return fine;
}

static bool read_group(const rule_object *r, PyObject *group, double *option)
{
    bool fine = PyDict_Check(group);
    if (!fine) PyErr_SetString(PyExc_TypeError, "a group of param_groups must be a dict");
    Py_INCREF(group);
    for (int i = 0; fine && i < FAI_RULE_OPTIONS && r->key[i]; i++) fine = read_option(r, group, i, &option[i]);
    Py_DECREF(group);
    return fine;
}

static bool read_options(const rule_object *r, fa_optimizer *o, PyObject *groups)
{
    for (int g = 0; g < o->ngroups; g++) {
        if (g >= PyList_GET_SIZE(groups))
            return PyErr_SetString(PyExc_RuntimeError, "param_groups changed while the optimizer read it"), false;
        if (!read_group(r, PyList_GET_ITEM(groups, g), o->groups[g].option)) return false;
    }
    return true;
}

/* ---- the state as a dict ---- */

static PyObject *number_new(double value)
{
    const uint32_t mark = FAPY_MARK;
    return fapy_take(
        fa_full_with(FA_SHAPE_0D, fa_scalar_of_float(value), FA_TENSOR_OPTIONS(.dtype = FA_FLOAT32, .device = FA_CPU)), mark);
}

/* entry[key] = value, in the tensor that is there. */
static bool write_number(PyObject *entry, PyObject *key, double value)
{
    PyObject *old = PyDict_GetItemWithError(entry, key);
    if (old && fapy_tensor_check(old) && T(old)->dtype == FA_FLOAT32 && fai_on_cpu(T(old)) && T(old)->numel == 1) {
        *(float *)fai_host(T(old)) = (float)value;
        return true;
    }
    PyObject *number = PyErr_Occurred() ? NULL : number_new(value);
    const bool fine = number && !PyDict_SetItem(entry, key, number);
    Py_XDECREF(number);
    return fine;
}

/* A new reference. */
static PyObject *entry_of(PyObject *state, const fa_tensor *p, bool make)
{
    PyObject *entry = Py_XNewRef(PyDict_GetItemWithError(state, (PyObject *)p));
    if (!entry && make && !PyErr_Occurred()) {
        entry = PyDict_New();
        if (entry && PyDict_SetItem(state, (PyObject *)p, entry)) Py_CLEAR(entry);
    }
    if (entry && !PyDict_Check(entry)) {
        PyErr_Format(PyExc_TypeError, "the state of a parameter must be a dict, not %s", Py_TYPE(entry)->tp_name);
        Py_CLEAR(entry);
    }
    return entry;
}

static bool show_in(const rule_object *r, const fai_trained *t, PyObject *entry)
{
    if (r->rule->counts && !write_number(entry, name_step, (double)t->steps)) return false;
    for (int k = 0; k < FAI_RULE_KEPT && r->kept_key[k]; k++)
        if (!write_number(entry, r->kept_key[k], t->kept[k])) return false;
    for (int k = 0; k < FAI_RULE_STATES && r->state_key[k]; k++) {
        PyObject *old = t->state[k] ? PyDict_GetItemWithError(entry, r->state_key[k]) : NULL;
        if (t->state[k] && old != (PyObject *)t->state[k] &&
            (PyErr_Occurred() || PyDict_SetItem(entry, r->state_key[k], (PyObject *)t->state[k])))
            return false;
    }
    return true;
}

/* Of every parameter with steps, made or captured. */
static bool show_each(const rule_object *r, fa_optimizer *o, PyObject *state)
{
    for (int g = 0; g < o->ngroups; g++)
        for (int i = 0; i < o->groups[g].n; i++) {
            const fai_trained *t = &o->groups[g].trained[i];
            const bool any = t->steps || t->graph; /* a captured step has states already */
            PyObject *entry = any ? entry_of(state, t->p, true) : NULL;
            const bool fine = !any || (entry && show_in(r, t, entry));
            Py_XDECREF(entry);
            if (!fine) return false;
        }
    return true;
}

/* Looking into the dict may run code of the program (a tensor's own __hash__): optimizer and state are held meanwhile. */
static bool with_both(rule_object *r, bool (*each)(const rule_object *r, fa_optimizer *o, PyObject *state))
{
    if (!r->optimizer) return true;
    fa_optimizer *o = fai_ref(r->optimizer);
    PyObject *state = Py_NewRef(r->state);
    const bool fine = each(r, o, state);
    fai_unref(o);
    Py_DECREF(state);
    return fine;
}

/* A tensor that the program has put there, as the library keeps it: contiguous, of the parameter's sizes. */
static bool take_tensor(const rule_object *r, fai_trained *t, int k, PyObject *entry)
{
    PyObject *found = PyDict_GetItemWithError(entry, r->state_key[k]);
    if (PyErr_Occurred()) return false;
    if (found == (PyObject *)t->state[k]) return true;
    fa_tensor *state = NULL, *old = t->state[k];
    if (found && !Py_IsNone(found)) {
        if (!fapy_tensor_check(found) || !fai_same_shape(T(found), t->p))
            return PyErr_Format(PyExc_ValueError, "step: state[\"%U\"] of a parameter must be a tensor of the parameter's sizes",
                                r->state_key[k]),
                   false;
        const uint32_t mark = FAPY_MARK;
        state = T(fapy_take(fai_contiguous("step", T(found)), mark));
        if (!state) return false;
    }
    t->state[k] = state;
    fai_unref(old);
    return true;
}

static bool take_number(PyObject *entry, PyObject *key, double *out)
{
    PyObject *found = PyDict_GetItemWithError(entry, key);
    if (!found) return !PyErr_Occurred();
    return number_from(found, out);
}

/* entry: NULL where there is none. */
static bool take_from(const rule_object *r, fai_trained *t, PyObject *entry)
{
    if (!entry || PyDict_GET_SIZE(entry) == 0) { /* nothing was kept, or the program has thrown it away */
        t->steps = 0;
        for (int k = 0; k < FAI_RULE_STATES; k++) fai_unref(t->state[k]), t->state[k] = NULL;
        return true;
    }
    bool any = false;
    fa_tensor *before[FAI_RULE_STATES];
    memcpy(before, t->state, sizeof before);
    for (int k = 0; k < FAI_RULE_STATES && r->state_key[k]; k++) {
        if (!take_tensor(r, t, k, entry)) return false;
        any = any || t->state[k];
    }
    for (int k = 0; k < FAI_RULE_KEPT && r->kept_key[k]; k++)
        if (!take_number(entry, r->kept_key[k], &t->kept[k])) return false;
    const bool same = !memcmp(before, t->state, sizeof before); /* the library's own, which may wait for their first replay */
    double steps = r->rule->counts ? 0 : any ? (t->steps > 0 || same ? (double)t->steps : 1) : 0;
    if (r->rule->counts && !take_number(entry, name_step, &steps)) return false;
    t->steps = (int64_t)steps;
    return true;
}

static bool take_each(const rule_object *r, fa_optimizer *o, PyObject *state)
{
    for (int g = 0; g < o->ngroups; g++)
        for (int i = 0; i < o->groups[g].n; i++) {
            PyObject *entry = entry_of(state, o->groups[g].trained[i].p, false);
            const bool fine = !PyErr_Occurred() && take_from(r, &o->groups[g].trained[i], entry);
            Py_XDECREF(entry);
            if (!fine) return false;
        }
    return true;
}

/* ---- what Python calls ---- */

/* Steps that graphs made meanwhile come into the dict. */
static bool show_replayed(rule_object *r)
{
    if (!r->optimizer) return true;
    if (r->optimizer->guarded && !fai_captured_settle(r->optimizer)) return fapy_raise() != NULL;
    if (r->replayed == r->optimizer->replayed) return true;
    r->replayed = r->optimizer->replayed;
    return !r->shown || with_both(r, show_each);
}

/* The device whose work goes into a graph while parameters of it are stepped; the CPU: none. */
static fa_device captured_device(const fa_optimizer *o)
{
    for (int g = 0; g < o->ngroups; g++)
        if (o->groups[g].n && fai_capturing(o->groups[g].trained[0].p->device)) return o->groups[g].trained[0].p->device;
    return FA_CPU;
}

/* PyTorch's word for an optimizer whose step may be captured; here all may be, so only what says no says no. */
static bool may_capture(const rule_object *r, PyObject *groups)
{
    const fa_optimizer *o = r->optimizer;
    for (int g = 0; g < o->ngroups; g++) {
        PyObject *value = PyDict_GetItemString(PyList_GET_ITEM(groups, g), "capturable");
        if (!value || PyObject_IsTrue(value)) continue;
        return PyErr_Format(PyExc_RuntimeError, "Attempting CUDA graph capture of step() for an instance of %s but param_groups' capturable is False. Make the optimizer with capturable=True",
                            r->rule->name), false;
    }
    return true;
}

/* Replays make steps with the options of then: schedules go on. */
static bool refresh(fa_optimizer *o, void *context)
{
    PyGILState_STATE state = PyGILState_Ensure();
    rule_object *r = context;
    PyObject *groups = Py_NewRef(r->groups);
    Py_INCREF(r);
    const bool fine = read_options(r, o, groups) || fapy_foreign();
    Py_DECREF(r);
    Py_DECREF(groups);
    PyGILState_Release(state);
    return fine;
}

/* An option that the capture itself computes would be read before it is there. */
static bool is_there(const rule_object *r, PyObject *group, fa_device device)
{
    for (int i = 0; i < FAI_RULE_OPTIONS && r->key[i]; i++) {
        PyObject *value = PyDict_GetItemWithError(group, r->key[i]);
        if (!value || !fapy_tensor_check(value) || fai_on_cpu(T(value)) || !fai_graph_writes(device, T(value)->buffer)) continue;
        return PyErr_Format(PyExc_RuntimeError, "step: %U is a tensor that this capture writes before the step, but a replay reads its options before it begins. "
                            "Change %U between replays: each one reads it anew", r->key[i], r->key[i]), false;
    }
    return !PyErr_Occurred();
}

/* What an option's tensor on the device has now is read, in spite of the capture. */
static bool begin_captured(rule_object *r, fa_optimizer *o, PyObject *groups, fa_device device)
{
    for (Py_ssize_t g = 0; g < PyList_GET_SIZE(groups); g++)
        if (!is_there(r, PyList_GET_ITEM(groups, g), device)) return false;
    FAI_CAPTURE_PAUSE(device);
    Py_XSETREF(r->groups, Py_NewRef(groups));
    o->refresh = refresh, o->refresher = r;
    return read_options(r, o, groups);
}

static PyObject *rule_step(PyObject *self, PyObject *groups)
{
    rule_object *r = R(self);
    if (!follow_groups(r, groups) || !show_replayed(r)) return NULL;
    const fa_device device = captured_device(r->optimizer);
    const bool captured = device.type != FA_DEVICE_CPU;
    if (captured && !may_capture(r, groups)) return NULL;
    fa_optimizer *o = fai_ref(r->optimizer);
    const bool options = captured ? begin_captured(r, o, groups, device) : read_options(r, o, groups);
    const bool ready = options && (!r->shown || with_both(r, take_each));
    if (captured) o->guard = T(r->guard);
    const bool fine = ready && fa_step(o);
    o->guard = NULL;
    fai_unref(o);
    if (!fine) return ready ? fapy_raise() : NULL;
    if (r->shown && !with_both(r, show_each)) return NULL;
    Py_RETURN_NONE;
}

static PyObject *get_state(PyObject *self, void *unused)
{
    (void)unused;
    rule_object *r = R(self);
    if (!show_replayed(r)) return NULL;
    if (!r->shown && !with_both(r, show_each)) return NULL;
    r->shown = true;
    return Py_NewRef(r->state);
}

static int set_state(PyObject *self, PyObject *value, void *unused)
{
    (void)unused;
    if (!value || !PyDict_Check(value)) return PyErr_SetString(PyExc_TypeError, "the state of an optimizer must be a dict"), -1;
    Py_XSETREF(R(self)->state, Py_NewRef(value));
    R(self)->shown = true;
    return 0;
}

/* param_groups is another list now: replays read that. */
static PyObject *rule_follow(PyObject *self, PyObject *groups)
{
    if (R(self)->groups) Py_SETREF(R(self)->groups, Py_NewRef(groups));
    Py_RETURN_NONE;
}

/* None: the next steps are made in any case. */
static PyObject *rule_guarded(PyObject *self, PyObject *guard)
{
    if (!Py_IsNone(guard) && !fapy_tensor_check(guard)) return PyErr_SetString(PyExc_TypeError, "guarded: a tensor or None is needed"), NULL;
    Py_XSETREF(R(self)->guard, Py_IsNone(guard) ? NULL : Py_NewRef(guard));
    Py_RETURN_NONE;
}

static PyGetSetDef rule_attributes[] = {{"state", get_state, set_state, "What is kept for each parameter.", NULL}, {0}};
static PyMethodDef rule_methods[] = {{"step", rule_step, METH_O, "step(param_groups)\n--\n\nOne step for all groups."},
                                     {"guarded", rule_guarded, METH_O, "guarded(bool_tensor)\n--\n\nCaptured steps are made only where it is true."},
                                     {"follow", rule_follow, METH_O, "follow(param_groups)\n--\n\nThe list has been replaced."}, {0}};
static PyTypeObject rule_type = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "facula._C._Rule",
                                 .tp_basicsize = sizeof(rule_object),
                                 .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
                                 .tp_new = rule_make,
                                 .tp_dealloc = rule_dealloc,
                                 .tp_traverse = rule_traverse,
                                 .tp_clear = rule_clear,
                                 .tp_methods = rule_methods,
                                 .tp_getset = rule_attributes,
                                 .tp_doc = "The library's optimizer beside a Python one."};

/* _zero_grad(param_groups): every .grad becomes None. */
static PyObject *zero_grad(PyObject *self, PyObject *groups)
{
    (void)self;
    if (!PyList_Check(groups)) return PyErr_SetString(PyExc_TypeError, "param_groups must be a list"), NULL;
    for (Py_ssize_t g = 0; g < PyList_GET_SIZE(groups); g++) {
        PyObject *params = params_of(groups, g);
        if (!params) return NULL;
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(params); i++) {
            PyObject *p = PyList_GET_ITEM(params, i);
            if (!fapy_tensor_check(p)) continue;
            fa_tensor *grad = T(p)->grad;
            T(p)->grad = NULL;
            fai_unref(grad);
        }
    }
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {{"_zero_grad", zero_grad, METH_O, NULL}, {0}};

bool fapy_optim_set_up(PyObject *module)
{
    name_params = PyUnicode_InternFromString("params");
    name_step = PyUnicode_InternFromString("step");
    return name_params && name_step && !PyType_Ready(&rule_type) &&
           !PyModule_AddObjectRef(module, "_Rule", (PyObject *)&rule_type) && !PyModule_AddFunctions(module, functions);
}
