"""Cases of attention. Recurrent networks and transformers give several results: make_recurrent.py has them."""

import torch
import torch.nn.functional as nnf
from cases import F, H, T, case
from torch.nn.attention import SDPBackend, sdpa_kernel


def attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    with sdpa_kernel(SDPBackend.MATH):  # the others have no second derivative
        return nnf.scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)


def both(*shapes, layouts="ctsM", **more):
    for types in (F, H):
        q, k, v = (T(*s, low=-2, high=2) for s in shapes)
        case("scaled_dot_product_attention", attention, types, layouts, bits=False, near=200.0, query=q, key=k, value=v, **more)


def make(tables):
    del tables
    both((2, 2, 3, 4), (2, 2, 5, 4), (2, 2, 5, 3), layouts="ctsfnM")
    both((2, 2, 4, 3), (2, 2, 4, 3), (2, 2, 4, 3), is_causal=True)
    both((2, 5, 2), (2, 3, 2), (2, 3, 4), is_causal=True, scale=0.3)
    both((3, 2), (4, 2), (4, 2))
    both((2, 1, 2, 3, 2), (2, 3, 2, 4, 2), (2, 3, 2, 4, 2))
    both((1, 4, 3, 2), (1, 2, 3, 2), (1, 2, 3, 2), enable_gqa=True)
    both((2, 2, 3, 2), (2, 2, 4, 2), (2, 2, 4, 2), attn_mask=T(3, 4))
    both((2, 2, 3, 2), (2, 2, 4, 2), (2, 2, 4, 2), attn_mask=T(2, 1, 3, 4, grad=False))
    passes = [1, 0, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1]
    both((2, 2, 3, 2), (2, 2, 4, 2), (2, 2, 4, 2), attn_mask=T(3, 4, dtype="bool", values=passes))
    case("scaled_dot_product_attention", attention, F, "c", bits=False, near=200.0, grad=False, query=T(1, 2, 70, 5), key=T(1, 2, 131, 5),
         value=T(1, 2, 131, 3))

    def drops(query, key, value, dropout_p):
        torch.manual_seed(11)
        return attention(query, key, value, None, dropout_p)

    case("scaled_dot_product_attention", drops, F, "c", bits=False, near=200.0, seed=11, grad=False, query=T(2, 3, 4), key=T(2, 5, 4), value=T(2, 5, 3),
         dropout_p=0.5)
