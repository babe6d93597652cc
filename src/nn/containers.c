/* Sequential and ModuleList. */
#include "module.h"

/* Linear followed by ReLU is one op: the sum never goes to memory without its maximum with 0. */
static fa_tensor *run_pair(fa_module *linear, fa_tensor *x)
{
    FAI_CALLED("linear");
    return fa_linear_relu(x, fai_slot(linear, 0), fai_slot(linear, 1));
}

static fa_tensor *sequential_forward(fa_module *self, fa_tensor *const *inputs, int ninputs)
{
    fa_tensor *x = fai_layer_input(self, inputs, ninputs);
    for (int i = 0; x && i < self->nentries; i++) {
        fa_module *child = self->entries[i].object, *next = i + 1 < self->nentries ? self->entries[i + 1].object : NULL;
        if (!child) continue;
        if (next && child->type == &fai_layer_Linear && next->type == &fai_layer_ReLU && fai_is_plain(child) && fai_is_plain(next)) {
            x = run_pair(child, x);
            i++;
        } else {
            x = fa_call_with(child, &x, 1);
        }
    }
    return x;
}

static fa_tensor *list_forward(fa_module *self, fa_tensor *const *inputs, int ninputs)
{
    (void)inputs, (void)ninputs;
    return fai_fail(FA_ERR_UNSUPPORTED, self->type->name, "Module [ModuleList] is missing the required \"forward\" function: call its children (fa_child) one by one");
}

static const fa_module_type sequential_type = {.name = "Sequential", .forward = sequential_forward};
static const fa_module_type list_type = {.name = "ModuleList", .forward = list_forward};

static fa_module *container(const fa_module_type *type, fa_module *const *children, int n)
{
    char name[16];
    for (int i = 0; i < n; i++)
        if (!children[i]) return fa_failed() ? NULL : fai_fail(FA_ERR_TYPE, type->name, "child %d is NULL: a module is needed", i);
    fa_module *m = fai_module_make(type, 0);
    for (int i = 0; m && i < n; i++) {
        snprintf(name, sizeof name, "%d", i);
        if (!fa_add_module(m, name, children[i])) return NULL;
    }
    return m;
}

fa_module *fa_sequential_of(fa_module *const *children, int n) { return container(&sequential_type, children, n); }
fa_module *fa_module_list_of(fa_module *const *children, int n) { return container(&list_type, children, n); }
