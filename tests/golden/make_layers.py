#!/usr/bin/env python3
"""Makes layers.h: for each layer that test_layers.c makes from the seed 0, what PyTorch's gives for the same input, as one number.

Run by hand with a Python that has torch: make_layers.py. A line of LAYERS is the call in C, torch's, and the input's shape."""
import os

import torch
from torch import nn

LAYERS = [
    ("conv1d(4, 4, 3, .groups = 2, .stride = FA_DIMS(2))", nn.Conv1d, (4, 4, 3), {"groups": 2, "stride": 2}, (2, 4, 7)),
    ('conv1d(2, 3, 4, .auto_padding = "same", .padding_mode = "circular")', nn.Conv1d, (2, 3, 4),
     {"padding": "same", "padding_mode": "circular"}, (2, 2, 5)),
    ('conv2d(2, 3, FA_DIMS(2, 3), .padding = FA_DIMS(1, 2), .padding_mode = "reflect")', nn.Conv2d, (2, 3, (2, 3)),
     {"padding": (1, 2), "padding_mode": "reflect"}, (2, 2, 4, 5)),
    ('conv2d(2, 3, FA_DIMS(2, 3), .auto_padding = "same")', nn.Conv2d, (2, 3, (2, 3)), {"padding": "same"}, (2, 4, 5)),
    ('conv2d(2, 2, 3, .auto_padding = "valid", .padding_mode = "replicate")', nn.Conv2d, (2, 2, 3),
     {"padding": "valid", "padding_mode": "replicate"}, (2, 2, 4, 5)),
    ("conv3d(2, 3, 2)", nn.Conv3d, (2, 3, 2), {}, (1, 2, 3, 4, 3)),
    ("conv_transpose1d(2, 3, 3, .bias = false)", nn.ConvTranspose1d, (2, 3, 3), {"bias": False}, (2, 2, 4)),
    ("conv_transpose2d(2, 4, 3, .stride = FA_DIMS(2), .output_padding = FA_DIMS(1), .groups = 2)", nn.ConvTranspose2d, (2, 4, 3),
     {"stride": 2, "output_padding": 1, "groups": 2}, (1, 2, 3, 3)),
    ("conv_transpose3d(1, 2, 2)", nn.ConvTranspose3d, (1, 2, 2), {}, (1, 2, 3, 2)),
    ("max_pool1d(2)", nn.MaxPool1d, (2,), {}, (2, 3, 6)),
    ("max_pool3d(2, .stride = FA_DIMS(1))", nn.MaxPool3d, (2,), {"stride": 1}, (1, 2, 3, 3, 3)),
    ("avg_pool1d(3, .padding = FA_DIMS(1))", nn.AvgPool1d, (3,), {"padding": 1}, (2, 3, 6)),
    ("avg_pool3d(2)", nn.AvgPool3d, (2,), {}, (1, 2, 4, 4, 4)),
    ("adaptive_avg_pool2d(FA_DIMS(-1, 3))", nn.AdaptiveAvgPool2d, ((None, 3),), {}, (2, 2, 4, 5)),
    ("adaptive_max_pool1d(3)", nn.AdaptiveMaxPool1d, (3,), {}, (2, 2, 7)),
    ("lp_pool2d(2, 2)", nn.LPPool2d, (2, 2), {}, (2, 2, 4, 5)),
    ("zero_pad2d(FA_DIMS(1, 2, 0, 1))", nn.ZeroPad2d, ((1, 2, 0, 1),), {}, (2, 2, 2, 2)),
    ("constant_pad2d(1, 2.5)", nn.ConstantPad2d, (1, 2.5), {}, (2, 2, 2, 2)),
    ("reflection_pad1d(2)", nn.ReflectionPad1d, (2,), {}, (2, 2, 3)),
    ("replication_pad2d(1)", nn.ReplicationPad2d, (1,), {}, (2, 2, 3, 2)),
    ("circular_pad3d(1)", nn.CircularPad3d, (1,), {}, (1, 2, 2, 3, 2)),
    ("batch_norm3d(2)", nn.BatchNorm3d, (2,), {}, (2, 2, 2, 2, 2)),
    ("instance_norm1d(2, .affine = true)", nn.InstanceNorm1d, (2,), {"affine": True}, (2, 5)),
    ("instance_norm2d(2, .track_running_stats = true)", nn.InstanceNorm2d, (2,), {"track_running_stats": True}, (2, 2, 3, 3)),
    ("group_norm(2, 4)", nn.GroupNorm, (2, 4), {}, (2, 4, 3)),
    ("rms_norm(FA_DIMS(2, 3))", nn.RMSNorm, ((2, 3),), {}, (4, 2, 3)),
    ("local_response_norm(2, .alpha = 0.5)", nn.LocalResponseNorm, (2,), {"alpha": 0.5}, (2, 4, 3)),
    ("upsample(.scale_factor = FA_FACTORS(2, 1.5))", nn.Upsample, (), {"scale_factor": (2, 1.5)}, (1, 2, 3, 4)),
    ('upsample(.size = FA_DIMS(5), .mode = "linear")', nn.Upsample, (), {"size": 5, "mode": "linear"}, (1, 2, 3)),
    ("upsampling_nearest2d(.scale_factor = FA_FACTORS(2))", nn.UpsamplingNearest2d, (), {"scale_factor": 2}, (1, 2, 3, 4)),
    ("upsampling_bilinear2d(.size = FA_DIMS(4, 5))", nn.UpsamplingBilinear2d, (), {"size": (4, 5)}, (1, 2, 3, 4)),
    ("pixel_shuffle(2)", nn.PixelShuffle, (2,), {}, (1, 8, 2, 3)),
    ("pixel_unshuffle(2)", nn.PixelUnshuffle, (2,), {}, (1, 2, 2, 4)),
    ("channel_shuffle(2)", nn.ChannelShuffle, (2,), {}, (1, 4, 2, 2)),
    ("unfold(2, .padding = FA_DIMS(1))", nn.Unfold, (2,), {"padding": 1}, (1, 2, 3, 3)),
    ("fold(FA_DIMS(3, 3), 2)", nn.Fold, ((3, 3), 2), {}, (1, 8, 4)),
    ("unflatten(1, FA_DIMS(2, 3))", nn.Unflatten, (1, (2, 3)), {}, (2, 6)),
    ("dropout1d(.p = 0.4)", nn.Dropout1d, (0.4,), {}, (6, 3)),
    ("dropout2d()", nn.Dropout2d, (), {}, (3, 4, 2, 2)),
    ("dropout3d(.p = 0.2)", nn.Dropout3d, (0.2,), {}, (5, 2, 2, 2)),
    ("alpha_dropout(.p = 0.3)", nn.AlphaDropout, (0.3,), {}, (5, 4)),
    ("feature_alpha_dropout(.p = 0.3)", nn.FeatureAlphaDropout, (0.3,), {}, (5, 4, 2)),
    ("prelu(.num_parameters = 3, .init = -0.5)", nn.PReLU, (3, -0.5), {}, (2, 3)),
    ("rrelu()", nn.RReLU, (), {}, (2, 3)),
    ("celu(.alpha = 2)", nn.CELU, (2.0,), {}, (2, 3)),
    ("glu(.dim = 0)", nn.GLU, (0,), {}, (2, 3)),
    ("hardshrink()", nn.Hardshrink, (), {}, (2, 3)),
    ("hardsigmoid()", nn.Hardsigmoid, (), {}, (2, 3)),
    ("hardswish()", nn.Hardswish, (), {}, (2, 3)),
    ("log_sigmoid()", nn.LogSigmoid, (), {}, (2, 3)),
    ("softmin(1)", nn.Softmin, (1,), {}, (2, 3)),
    ("softmax2d()", nn.Softmax2d, (), {}, (3, 2, 2)),
    ("softsign()", nn.Softsign, (), {}, (2, 3)),
    ("softshrink(.lambd = 0.25)", nn.Softshrink, (0.25,), {}, (2, 3)),
    ("tanhshrink()", nn.Tanhshrink, (), {}, (2, 3)),
    ("threshold(0.4, 7)", nn.Threshold, (0.4, 7), {}, (2, 3)),
]


def line(c, make, args, options, shape):
    torch.manual_seed(0)
    layer = make(*args, **options)
    n = torch.Size(shape).numel()
    y = layer((torch.arange(n, dtype=torch.float32) / n).reshape(shape)).flatten().double()
    total = (y * torch.arange(1, y.numel() + 1)).sum().item()
    return f"    fa_manual_seed(0);\n    gives(fa_nn_{c}, FA_SHAPE({', '.join(map(str, shape))}), {total:.9g});\n"


def main():
    text = "/* Made by tests/golden/make_layers.py with PyTorch. */\n\nstatic void layers_give_what_torchs_give(void **state)\n{\n"
    text += "    (void)state;\n    FA_SCOPE;\n" + "".join(line(*row) for row in LAYERS) + "}\n"
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "layers.h"), "w") as f:
        f.write(text)


if __name__ == "__main__":
    main()
