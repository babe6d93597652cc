/* A chapter on devices as one program, twin of script 19: ask, choose, move, make the classic mistake, and bring results back.
 *
 *     ./device_chapter
 *     FACULA_SIM=cuda:2 ./device_chapter */
#include <facula.h>

int main(void)
{
    fa_manual_seed(0);
    const bool there = fa_device_is_available(FA_DEVICE_CUDA);
    printf("%s\n", there ? "True" : "False");
    printf("%d\n", fa_device_count(FA_DEVICE_CUDA));
    fa_device_properties gpu;
    if (there && fa_device_get_properties(FA_CUDA(0), &gpu)) printf("%s\n", gpu.name);

    const fa_device device = there ? fa_device_parse("cuda") : FA_CPU;
    printf("%s\n", fa_device_text(device));

    fa_tensor *x = fa_floats(1, 2, 3);
    printf("%s\n", fa_device_text(fa_device_of(x)));
    x = fa_to(x, device);
    printf("%s\n", fa_device_text(fa_device_of(x)));

    /* made there; and a layer, all of whose parameters move */
    fa_tensor *y = fa_randn(FA_SHAPE(3, 4), .device = device);
    fa_module *model = fa_nn_linear(10, 1);
    fa_module_to(model, device);
    (void)y;

    fa_tensor *a = fa_to(fa_randn(FA_SHAPE(3)), device);
    fa_tensor *b = fa_randn(FA_SHAPE(3)); /* forgotten on the CPU */
    fa_tensor *c = fa_add(a, b);
    if (c) printf("%s\n", fa_device_text(fa_device_of(c)));
    else {
        fa_error error = fa_error_take();
        printf("%s: %s\n", error.op, error.text);
    }

    /* the third step of "detach, to the CPU, read" */
    const float *values = fa_data(fa_cpu(fa_detach(x)));
    if (values) printf("[%g. %g. %g.]\n", values[0], values[1], values[2]);
    return fa_finish("device_chapter");
}
