/* Which devices are there, and how a program names them. Read this one first.
 *
 *     ./devices                         on a machine without a GPU: the CPU is all there is
 *     FACULA_SIM=cuda:2 ./devices       with two simulated GPUs: everything below answers as on a machine that has two
 *
 * Each part is the twin of a small Python program; the heading tells which. */
#include <facula.h>

static const char *yes_no(bool yes) { return yes ? "True" : "False"; }

/* Facula keeps the first error until somebody takes it. A program normally looks once, at its end (fa_finish prints it); here
 * the error is the lesson. */
static void show_error(void)
{
    fa_error error = fa_error_take();
    if (error.code != FA_OK) printf("%s: %s\n", error.op, error.text);
}

static void is_available(void)
{
    printf("== 01 is_available\n");
    printf("%s\n", yes_no(fa_device_is_available(FA_DEVICE_CUDA)));
}

static void device_count(void)
{
    printf("== 02 device_count\n");
    printf("%d\n", fa_device_count(FA_DEVICE_CUDA));
}

/* Asking for the name of a GPU that is not there is an error, which says how to get a simulated one. */
static void device_name(void)
{
    printf("== 03 device_name\n");
    fa_device_properties gpu;
    if (fa_device_get_properties(FA_CUDA(0), &gpu)) printf("%s\n", gpu.name);
    else show_error();
}

/* A device is only a name: making one needs no such device. */
static void device_objects(void)
{
    printf("== 05 device_objects\n");
    const char *names[] = {"cuda", "cuda:0", "cuda:1", "cpu"};
    for (int i = 0; i < 4; i++) printf("%s\n", fa_device_text(fa_device_parse(names[i])));
}

/* The i-th GPU if there is one, else the CPU. The library has this too: fa_try_accelerator(i), for every kind of accelerator. */
static fa_device try_gpu(int i)
{
    return fa_device_count(FA_DEVICE_CUDA) >= i + 1 ? FA_CUDA(i) : FA_CPU;
}

static int try_all_gpus(fa_device *devices, int room)
{
    int n = fa_device_count(FA_DEVICE_CUDA);
    for (int i = 0; i < n && i < room; i++) devices[i] = FA_CUDA(i);
    if (n == 0) devices[n++] = FA_CPU;
    return n < room ? n : room;
}

/* As the tutorial shows a device in a list. */
static void print_in_list(fa_device device)
{
    if (device.type == FA_DEVICE_CPU) printf("device(type='cpu')");
    else printf("device(type='cuda', index=%d)", device.index);
}

static void choose(void)
{
    printf("== 16 try_gpu\n");
    fa_device all[8];
    const int n = try_all_gpus(all, 8);
    printf("%s\n", fa_device_text(try_gpu(0)));
    printf("%s\n", fa_device_text(try_gpu(10)));
    printf("[");
    for (int i = 0; i < n; i++) {
        if (i) printf(", ");
        print_in_list(all[i]);
    }
    printf("]\n");
}

/* The same without the word cuda: the accelerator is the first kind of device beside the CPU, whatever it is called. */
static void accelerator(void)
{
    printf("== 18 accelerator\n");
    const fa_device device = fa_accelerator();
    if (device.type == 0) {
        printf("None\n");
        return;
    }
    printf("%s\n", fa_device_text(device));
    printf("%d\n", fa_device_count(device.type));
    fa_tensor *x = fa_randn(FA_SHAPE(3, 3), .device = device);
    fa_synchronize(device); /* work on an accelerator is queued; this waits until all of it is done */
    printf("%s\n", fa_device_text(fa_device_of(x)));
}

int main(void)
{
    is_available();
    device_count();
    device_name();
    device_objects();
    choose();
    accelerator();
    return fa_finish("devices");
}
