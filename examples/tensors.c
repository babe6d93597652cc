/* Tensors live on a device. Making them there, moving them there, and bringing results back.
 *
 *     ./tensors
 *     FACULA_SIM=cuda:2 ./tensors */
#include <facula.h>

static void print_device(fa_tensor *t) { printf("%s\n", fa_device_text(fa_device_of(t))); }

static void show_error(void)
{
    fa_error error = fa_error_take();
    if (error.code != FA_OK) printf("%s: %s\n", error.op, error.text);
}

/* "cuda" if there is one, else "cpu": the line that lets one program run everywhere. */
static fa_device choose(void) { return fa_device_is_available(FA_DEVICE_CUDA) ? fa_device_parse("cuda") : FA_CPU; }

static void default_device(void)
{
    printf("== 04 default_device\n");
    FA_SCOPE; /* what is made in this block is given back at its end */
    fa_tensor *x = fa_ints(1, 2, 3);
    print_device(x);
}

static void to_device(void)
{
    printf("== 06 to_device\n");
    FA_SCOPE;
    fa_tensor *x = fa_floats(1, 2, 3);
    x = fa_to(x, choose()); /* x itself if it is there already */
    fa_print(x);
    print_device(x);
}

/* Naming the GPU outright fails where there is none. */
static void cuda_by_name(void)
{
    printf("== 07 cuda_method\n");
    FA_SCOPE;
    fa_tensor *x = fa_to(fa_floats(1, 2, 3), fa_device_parse("cuda"));
    if (x) fa_print(x);
    else show_error();
}

static void create_on_device(void)
{
    printf("== 08 create_on_device\n");
    FA_SCOPE;
    fa_manual_seed(0);
    const fa_device device = choose();
    const float values[] = {1, 2, 3};
    fa_tensor *x = fa_from_data(values, FA_FLOAT32, FA_SHAPE(3), .device = device);
    print_device(x);
    fa_tensor *y = fa_rand(FA_SHAPE(2, 3), .device = device);
    print_device(y);
}

static void back_to_cpu(void)
{
    printf("== 13 back_to_cpu\n");
    FA_SCOPE;
    fa_manual_seed(0);
    fa_tensor *x = fa_rand(FA_SHAPE(3), .device = choose());
    fa_print(fa_cpu(x));
    fa_requires_grad(x, true);
    /* Out of the graph, onto the CPU, then its memory: only there may a program of its own read. */
    const float *values = fa_data(fa_cpu(fa_detach(x)));
    if (values) printf("%.4f %.4f %.4f\n", values[0], values[1], values[2]);
}

/* The host can't read a GPU's memory: fa_data says so. fa_to_data copies, from any device. */
static void reading_rules(void)
{
    printf("== 14 numpy_rules\n");
    FA_SCOPE;
    fa_manual_seed(0);
    fa_tensor *x = fa_rand(FA_SHAPE(3), .device = choose(), .requires_grad = true);
    if (fa_data(fa_detach(x))) printf("read directly\n");
    else show_error();
    float values[3];
    if (fa_to_data(x, values, FA_FLOAT32)) printf("copied %d values\n", (int)fa_numel(x));
}

int main(void)
{
    default_device();
    to_device();
    cuda_by_name();
    create_on_device();
    back_to_cpu();
    reading_rules();
    return fa_finish("tensors");
}
