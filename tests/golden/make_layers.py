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
