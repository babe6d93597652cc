/* Which line of a Python program asked for memory. Noted at each allocation on a device, so it must cost little: a number in a table of
 * code objects and offsets in them, which knows the line from the first time. Frames of the package are passed over. A program that
 * makes code without end fills the table and is not followed any more. */
#include "face.h"
#include <frameobject.h>

enum { SITES = 4096, LOOK = 8192, DEEPEST = 16 };

static struct { PyCodeObject *code; int line; } site[SITES];                 /* holds the code; 0 is nobody's */
static struct { PyCodeObject *code; int offset; uint16_t site; } where[LOOK]; /* a hash table */
static uint32_t nsites = 1;
static char package[512];                                      /* the folder of facula, with a slash at the end */
static size_t package_length;

#if PY_VERSION_HEX >= 0x030B0000
static int offset_in(PyFrameObject *frame) { return PyFrame_GetLasti(frame); }
#elif PY_VERSION_HEX >= 0x030A0000
static int offset_in(PyFrameObject *frame) { return frame->f_lasti * 2; }
#else
static int offset_in(PyFrameObject *frame) { return frame->f_lasti; }
#endif

static bool is_ours(const PyCodeObject *code)
{
    Py_ssize_t n = 0;
    const char *name = PyUnicode_AsUTF8AndSize(code->co_filename, &n);
    if (!name) return PyErr_Clear(), false;
    return package_length && (size_t)n > package_length && !memcmp(name, package, package_length);
}

/* One line has several offsets. */
static uint32_t new_site(PyCodeObject *code, int offset)
{
    const int line = PyCode_Addr2Line(code, offset);
    for (uint32_t i = nsites; i-- > 1;)
        if (site[i].code == code && site[i].line == line) return i;
    if (nsites == SITES) return 0;
    Py_INCREF(code);
    site[nsites].code = code, site[nsites].line = line;
    return nsites++;
}

static uint32_t number_of(PyCodeObject *code, int offset)
{
    static uint32_t used;
    for (size_t at = ((uintptr_t)code >> 4) * 31 + (size_t)offset * 0x9e3779b1u;; at++) {
        const size_t i = at % LOOK;
        if (where[i].code == code && where[i].offset == offset) return where[i].site;
        if (where[i].code) continue;
        if (used >= LOOK / 2) return 0;
        const uint32_t number = new_site(code, offset);
        if (!number) return 0;
        used++;
        where[i].code = code, where[i].offset = offset, where[i].site = (uint16_t)number;
        return number;
    }
}

static uint32_t this_site(void)
{
    if (!PyGILState_Check()) return 0;
    PyFrameObject *frame = PyThreadState_GetFrame(PyThreadState_Get());
    uint32_t found = 0;
    for (int depth = 0; frame && depth < DEEPEST; depth++) {
        PyCodeObject *code = PyFrame_GetCode(frame);
        const bool ours = is_ours(code);
        if (!ours) found = number_of(code, offset_in(frame));
        Py_DECREF(code);
        PyFrameObject *back = ours ? PyFrame_GetBack(frame) : NULL;
        Py_DECREF(frame);
        frame = back;
    }
    Py_XDECREF(frame);
    return found;
}

static void site_text(uint32_t i, char *out, size_t n)
{
    out[0] = 0;
    if (i == 0 || i >= nsites || !PyGILState_Check()) return;
    const char *name = PyUnicode_AsUTF8(site[i].code->co_filename), *slash = name ? strrchr(name, '/') : NULL;
    if (!name) return PyErr_Clear();
    snprintf(out, n, "%s:%d", slash ? slash + 1 : name, site[i].line);
}

static const char *class_name(const void *module) { return Py_TYPE((PyObject *)(uintptr_t)module)->tp_name; }

/* file: of the package's __init__ */
void fapy_site_set_up(const char *folder)
{
    const int n = snprintf(package, sizeof package, "%s/", folder);
    package_length = n > 0 && (size_t)n < sizeof package ? (size_t)n : 0;
    fai_other_face.site = this_site;
    fai_other_face.site_text = site_text;
    fai_other_face.class_name = class_name;
}
