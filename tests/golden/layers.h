/* Made by tests/golden/make_layers.py with PyTorch. */

static void layers_give_what_torchs_give(void **state)
{
    (void)state;
    FA_SCOPE;
    fa_manual_seed(0);
    gives(fa_nn_conv1d(4, 4, 3, .groups = 2, .stride = FA_DIMS(2)), FA_SHAPE(2, 4, 7), -9.71210398);
    fa_manual_seed(0);
    gives(fa_nn_conv1d(2, 3, 4, .auto_padding = "same", .padding_mode = "circular"), FA_SHAPE(2, 2, 5), 60.9675016);
    fa_manual_seed(0);
    gives(fa_nn_conv2d(2, 3, FA_DIMS(2, 3), .padding = FA_DIMS(1, 2), .padding_mode = "reflect"), FA_SHAPE(2, 2, 4, 5), -4094.50994);
    fa_manual_seed(0);
    gives(fa_nn_conv2d(2, 3, FA_DIMS(2, 3), .auto_padding = "same"), FA_SHAPE(2, 4, 5), -116.111496);
    fa_manual_seed(0);
    gives(fa_nn_conv2d(2, 2, 3, .auto_padding = "valid", .padding_mode = "replicate"), FA_SHAPE(2, 2, 4, 5), -100.136858);
    fa_manual_seed(0);
    gives(fa_nn_conv3d(2, 3, 2), FA_SHAPE(1, 2, 3, 4, 3), -58.5353327);
    fa_manual_seed(0);
    gives(fa_nn_conv_transpose1d(2, 3, 3, .bias = false), FA_SHAPE(2, 2, 4), -35.8969936);
    fa_manual_seed(0);
    gives(fa_nn_conv_transpose2d(2, 4, 3, .stride = FA_DIMS(2), .output_padding = FA_DIMS(1), .groups = 2), FA_SHAPE(1, 2, 3, 3), 2615.26345);
    fa_manual_seed(0);
    gives(fa_nn_conv_transpose3d(1, 2, 2), FA_SHAPE(1, 2, 3, 2), 163.228467);
    fa_manual_seed(0);
    gives(fa_nn_max_pool1d(2), FA_SHAPE(2, 3, 6), 112.416666);
    fa_manual_seed(0);
    gives(fa_nn_max_pool3d(2, .stride = FA_DIMS(1)), FA_SHAPE(1, 2, 3, 3, 3), 102.296297);
    fa_manual_seed(0);
    gives(fa_nn_avg_pool1d(3, .padding = FA_DIMS(1)), FA_SHAPE(2, 3, 6), 41.0555557);
    fa_manual_seed(0);
    gives(fa_nn_avg_pool3d(2), FA_SHAPE(1, 2, 4, 4, 4), 88.03125);
    fa_manual_seed(0);
    gives(fa_nn_adaptive_avg_pool2d(FA_DIMS(-1, 3)), FA_SHAPE(2, 2, 4, 5), 772.500001);
    fa_manual_seed(0);
    gives(fa_nn_adaptive_max_pool1d(3), FA_SHAPE(2, 2, 7), 52.2142862);
    fa_manual_seed(0);
    gives(fa_nn_lp_pool2d(2, 2), FA_SHAPE(2, 2, 4, 5), 175.10482);
    fa_manual_seed(0);
    gives(fa_nn_zero_pad2d(FA_DIMS(1, 2, 0, 1)), FA_SHAPE(2, 2, 2, 2), 284);
    fa_manual_seed(0);
    gives(fa_nn_constant_pad2d(1, 2.5), FA_SHAPE(2, 2, 2, 2), 4226);
    fa_manual_seed(0);
    gives(fa_nn_reflection_pad1d(2), FA_SHAPE(2, 2, 3), 245.999999);
    fa_manual_seed(0);
    gives(fa_nn_replication_pad2d(1), FA_SHAPE(2, 2, 3, 2), 2086.16667);
    fa_manual_seed(0);
    gives(fa_nn_circular_pad3d(1), FA_SHAPE(1, 2, 2, 3, 2), 7548.66669);
}
