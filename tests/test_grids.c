/* grid_sample and affine_grid: what a grid means, places outside and places that are no number, errors. Values of all modes and their
 * derivatives are compared with PyTorch's in test_golden.c. */
/* test-env: - */
/* test-env: FACULA_SIM=cuda:2 */
#include "support/check.h"
#include <fa_functional.h>

static fa_tensor *image(void) {
    return fa_reshape(fa_arange(1, 5, 1., .device = device), FA_SHAPE(1, 1, 2, 2)); /* 1 2; 3 4 */
}
static fa_tensor *at(double x, double y) {
    const double xy[] = {x, y};
    return fa_from_data(xy, FA_FLOAT64, FA_SHAPE(1, 1, 1, 2), .dtype = FA_FLOAT32, .device = device);
}

static void a_grid_names_places(void **state) {
    (void)state;
    CHECK(fa_grid_sample(image(), at(1, -1), .align_corners = true), FA_SHAPE(1, 1, 1, 1), 2);
    CHECK(fa_grid_sample(image(), at(0, 0), .align_corners = true), FA_SHAPE(1, 1, 1, 1), 2.5);
    CHECK(fa_grid_sample(image(), at(-.4, .8), .mode = "nearest"), FA_SHAPE(1, 1, 1, 1), 3);
    CHECK(fa_grid_sample(image(), at(1, 1)), FA_SHAPE(1, 1, 1, 1), 1); /* a quarter of 4: the rest lies outside */
    CHECK(fa_grid_sample(image(), at(9, 9)), FA_SHAPE(1, 1, 1, 1), 0);
    CHECK(fa_grid_sample(image(), at(9, 9), .padding_mode = "border"), FA_SHAPE(1, 1, 1, 1), 4);
    CHECK(fa_grid_sample(image(), at(3, -1), .padding_mode = "reflection", .align_corners = true), FA_SHAPE(1, 1, 1, 1), 1);
    fa_tensor *theta = fa_reshape(fa_eye(2, 3, .device = device), FA_SHAPE(1, 2, 3));
    for (int align = 0; align < 2; align++) /* the grid of no change reads the image as it is */
        CHECK(fa_grid_sample(image(), fa_affine_grid(theta, FA_SHAPE(1, 1, 2, 2), .align_corners = align), .align_corners = align),
              FA_SHAPE(1, 1, 2, 2), 1, 2, 3, 4);
}

static void places_that_are_none(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++) {
        const double wild = (const double[]){NAN, INFINITY, -INFINITY}[i];
        CHECK(fa_grid_sample(image(), at(wild, 0)), FA_SHAPE(1, 1, 1, 1), 0);
        assert_true(fa_item(fa_grid_sample(image(), at(wild, 0), .padding_mode = "border")) > 0);
        assert_true(fa_item(fa_grid_sample(image(), at(1e30, wild), .padding_mode = "reflection", .mode = "nearest")) > 0);
    }
}

static void errors(void **state) {
    (void)state;
    fa_tensor *x = image(), *grid = at(0, 0), *theta = fa_zeros(FA_SHAPE(1, 2, 3), .device = device);
    FAILS(fa_grid_sample(x, grid, .mode = "bicubic"), UNSUPPORTED, "grid_sample: mode 'bicubic' is not in Facula");
    FAILS(fa_grid_sample(x, grid, .mode = "z"), VALUE, "nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: 'z'");
    FAILS(fa_grid_sample(x, grid, .padding_mode = "z"), VALUE, "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', but got: 'z'");
    FAILS(fa_grid_sample(fa_cast(x, FA_FLOAT64), grid), RUNTIME, "grid_sampler(): expected input and grid to have same dtype, but input has float64 and grid has float32");
    FAILS(fa_grid_sample(fa_squeeze_dim(x, 0), grid), RUNTIME, "grid_sampler(): expected 4D or 5D input and grid with same number of dimensions");
    FAILS(fa_grid_sample(x, fa_expand(grid, FA_SHAPE(2, 1, 1, 2))), RUNTIME, "grid_sampler(): expected grid and input to have same batch size");
    FAILS(fa_grid_sample(x, fa_slice(grid, -1, 0, 1, 1)), RUNTIME, "grid_sampler(): expected grid to have size 2 in last dimension");
    FAILS(fa_grid_sample(fa_slice(x, 2, 0, 0, 1), grid), RUNTIME, "grid_sampler(): expected input to have non-empty spatial dimensions");
    FAILS(fa_affine_grid(fa_cast(theta, FA_INT64), FA_SHAPE(1, 1, 2, 2)), VALUE, "Expected theta to have floating point type, but got int64");
    FAILS(fa_affine_grid(theta, FA_SHAPE(1, 1, 2)), UNSUPPORTED, "affine_grid only supports 4D and 5D sizes");
    FAILS(fa_affine_grid(theta, FA_SHAPE(2, 1, 2, 2)), VALUE, "Expected a batch of 2D affine matrices of shape Nx2x3");
    FAILS(fa_affine_grid(theta, FA_SHAPE(1, 1, 0, 2)), VALUE, "Expected non-zero, positive output size");
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {TEST(a_grid_names_places), TEST(places_that_are_none), TEST(errors)};
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : fa_finish("test_grids");
}
