"""MultiheadAttention and transformers."""

import copy

from ... import _C
from .. import functional, init
from .container import ModuleList
from .module import Module

__all__ = ["Transformer", "TransformerEncoder", "TransformerDecoder", "TransformerEncoderLayer", "TransformerDecoderLayer"]


def make_attention(Linear, place):
    """MultiheadAttention and the class of its last projection, which stand in torch.nn.modules.activation and linear."""

    class NonDynamicallyQuantizableLinear(Linear):
        pass

    class MultiheadAttention(Module):
        """MultiheadAttention(embed_dim, num_heads, dropout=0.0, bias=True, add_bias_kv=False, add_zero_attn=False, kdim=None, vdim=None, batch_first=False)

        Attention of several heads: gives (output, weights).

        >>> attention = nn.MultiheadAttention(4, num_heads=2, batch_first=True)
        >>> x = torch.ones(2, 3, 4)
        >>> output, weights = attention(x, x, x)
        >>> output.shape, weights.shape
        (torch.Size([2, 3, 4]), torch.Size([2, 3, 3]))
        """

        def __init__(
            self,
            embed_dim,
            num_heads,
            dropout=0.0,
            bias=True,
            add_bias_kv=False,
            add_zero_attn=False,
            kdim=None,
            vdim=None,
            batch_first=False,
            device=None,
            dtype=None,
        ):
            if embed_dim <= 0 or num_heads <= 0:
                raise ValueError(
                    f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and num_heads={num_heads}"
                    " instead"
                )
            if embed_dim % num_heads:
                raise AssertionError("embed_dim must be divisible by num_heads")
            self._make(embed_dim, num_heads, dropout, bias, add_bias_kv, add_zero_attn, kdim, vdim, batch_first)
            if device is not None or dtype is not None:
                self.to(device=device, dtype=dtype)

        def _make(self, embed_dim, num_heads, dropout, bias, add_bias_kv, add_zero_attn, kdim, vdim, batch_first):
            _C._attention_init(
                self, embed_dim, num_heads, float(dropout), bias, add_bias_kv, add_zero_attn, kdim or 0, vdim or 0, batch_first
            )
            self.embed_dim, self.num_heads, self.head_dim, self.dropout = embed_dim, num_heads, embed_dim // num_heads, dropout
            self.kdim, self.vdim = kdim if kdim is not None else embed_dim, vdim if vdim is not None else embed_dim
            self.add_zero_attn, self.batch_first = add_zero_attn, batch_first
            self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
            if not add_bias_kv:
                self.bias_k = self.bias_v = None
            if type(self.out_proj) is Linear:
                self.out_proj.__class__ = NonDynamicallyQuantizableLinear

        def _restore(self, state, parameters):
            _C._layer_blank(True)
            try:
                self._make(
                    state["embed_dim"],
                    state["num_heads"],
                    state["dropout"],
                    parameters.get("in_proj_bias") is not None,
                    "bias_k" in parameters,
                    state["add_zero_attn"],
                    state["kdim"],
                    state["vdim"],
                    state["batch_first"],
                )
            finally:
                _C._layer_blank(False)

        def forward(
            self,
            query,
            key,
            value,
            key_padding_mask=None,
            need_weights=True,
            attn_mask=None,
            average_attn_weights=True,
            is_causal=False,
        ):
            output, weights = _C._attention_call(
                self, query, key, value, key_padding_mask, need_weights, attn_mask, average_attn_weights, is_causal
            )
            return output, weights

    for cls, where in ((MultiheadAttention, "activation"), (NonDynamicallyQuantizableLinear, "linear")):
        cls.__module__, cls.__qualname__ = place + where, cls.__name__
    return MultiheadAttention, NonDynamicallyQuantizableLinear


def _modules():
    from .. import modules

    return modules


def _copies(module, n):
    return ModuleList([copy.deepcopy(module) for _ in range(n)])


def _activation(given):
    if not isinstance(given, str):
        return given
    if given not in ("relu", "gelu"):
        raise RuntimeError(f"activation should be relu/gelu, not {given}")
    return getattr(functional, given)


def _is_causal(mask, size, said):
    """Whether mask hides what comes later, and nothing else; said: the caller knows."""
    if said is not None:
        return said
    if mask is None or mask.dim() < 2 or tuple(mask.shape[-2:]) != (size, size):
        return False
    usual = Transformer.generate_square_subsequent_mask(
        size, device=mask.device, dtype=mask.dtype if mask.dtype.is_floating_point else None
    )
    if not mask.dtype.is_floating_point:
        usual = usual != 0
    return _C.equal(mask if mask.dim() == 2 else mask[0], usual) and mask.dim() == 2


def _float_mask(mask, src):
    """A bool mask as numbers to be added; one on another device stays what it was given as: attention tells of it."""
    if mask is None or mask.dtype.is_floating_point or mask.device != src.device:
        return mask
    return _C.zeros_like(mask, dtype=src.dtype).masked_fill(mask, float("-inf"))


class _Layer(Module):
    def _make(
        self,
        d_model,
        nhead,
        dim_feedforward,
        dropout,
        activation,
        layer_norm_eps,
        batch_first,
        norm_first,
        bias,
        options,
        cross,
    ):
        m = _modules()
        self.self_attn = m.MultiheadAttention(d_model, nhead, dropout=dropout, batch_first=batch_first, bias=bias, **options)
        if cross:
            self.multihead_attn = m.MultiheadAttention(
                d_model, nhead, dropout=dropout, batch_first=batch_first, bias=bias, **options
            )
        self.linear1 = m.Linear(d_model, dim_feedforward, bias=bias, **options)
        self.dropout = m.Dropout(dropout)
        self.linear2 = m.Linear(dim_feedforward, d_model, bias=bias, **options)
        self.norm_first = norm_first
        for i in range(3 if cross else 2):
            setattr(self, f"norm{i + 1}", m.LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **options))
        for i in range(3 if cross else 2):
            setattr(self, f"dropout{i + 1}", m.Dropout(dropout))
        self.activation = _activation(activation)

    def _attend(self, attention, dropout, x, memory, mask, padding, is_causal):
        return dropout(
            attention(x, memory, memory, attn_mask=mask, key_padding_mask=padding, is_causal=is_causal, need_weights=False)[0]
        )

    def _feed(self, x, dropout):
        return dropout(self.linear2(self.dropout(self.activation(self.linear1(x)))))


class TransformerEncoderLayer(_Layer):
    """TransformerEncoderLayer(d_model, nhead, dim_feedforward=2048, dropout=0.1, activation=relu, layer_norm_eps=1e-05, batch_first=False,
    norm_first=False, bias=True)

    Self-attention and a feed-forward network, each with a residual connection and a normalisation.

    >>> layer = nn.TransformerEncoderLayer(d_model=4, nhead=2, batch_first=True)
    >>> layer(torch.ones(2, 3, 4)).shape
    torch.Size([2, 3, 4])
    """

    def __init__(
        self,
        d_model,
        nhead,
        dim_feedforward=2048,
        dropout=0.1,
        activation=functional.relu,
        layer_norm_eps=1e-5,
        batch_first=False,
        norm_first=False,
        bias=True,
        device=None,
        dtype=None,
    ):
        super().__init__()
        self._make(
            d_model,
            nhead,
            dim_feedforward,
            dropout,
            activation,
            layer_norm_eps,
            batch_first,
            norm_first,
            bias,
            {"device": device, "dtype": dtype},
            False,
        )

    def forward(self, src, src_mask=None, src_key_padding_mask=None, is_causal=False):
        padding, mask = _float_mask(src_key_padding_mask, src), _float_mask(src_mask, src)
        x = src
        if self.norm_first:
            y = self.norm1(x)
            x = x + self._attend(self.self_attn, self.dropout1, y, y, mask, padding, is_causal)
            return x + self._feed(self.norm2(x), self.dropout2)
        x = self.norm1(x + self._attend(self.self_attn, self.dropout1, x, x, mask, padding, is_causal))
        return self.norm2(x + self._feed(x, self.dropout2))


class TransformerDecoderLayer(_Layer):
    """TransformerDecoderLayer(d_model, nhead, dim_feedforward=2048, dropout=0.1, activation=relu, layer_norm_eps=1e-05, batch_first=False,
    norm_first=False, bias=True)

    Self-attention, attention to the encoder's result, and a feed-forward network.

    >>> layer = nn.TransformerDecoderLayer(d_model=4, nhead=2, batch_first=True)
    >>> layer(torch.ones(2, 3, 4), torch.ones(2, 5, 4)).shape
    torch.Size([2, 3, 4])
    """

    def __init__(
        self,
        d_model,
        nhead,
        dim_feedforward=2048,
        dropout=0.1,
        activation=functional.relu,
        layer_norm_eps=1e-5,
        batch_first=False,
        norm_first=False,
        bias=True,
        device=None,
        dtype=None,
    ):
        super().__init__()
        self._make(
            d_model,
            nhead,
            dim_feedforward,
            dropout,
            activation,
            layer_norm_eps,
            batch_first,
            norm_first,
            bias,
            {"device": device, "dtype": dtype},
            True,
        )

    def forward(
        self,
        tgt,
        memory,
        tgt_mask=None,
        memory_mask=None,
        tgt_key_padding_mask=None,
        memory_key_padding_mask=None,
        tgt_is_causal=False,
        memory_is_causal=False,
    ):
        own = (tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        other = (memory_mask, memory_key_padding_mask, memory_is_causal)
        x = tgt
        if self.norm_first:
            y = self.norm1(x)
            x = x + self._attend(self.self_attn, self.dropout1, y, y, *own)
            x = x + self._attend(self.multihead_attn, self.dropout2, self.norm2(x), memory, *other)
            return x + self._feed(self.norm3(x), self.dropout3)
        x = self.norm1(x + self._attend(self.self_attn, self.dropout1, x, x, *own))
        x = self.norm2(x + self._attend(self.multihead_attn, self.dropout2, x, memory, *other))
        return self.norm3(x + self._feed(x, self.dropout3))


class TransformerEncoder(Module):
    """TransformerEncoder(encoder_layer, num_layers, norm=None): copies of a layer, one after the other.

    >>> encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, batch_first=True), num_layers=2)
    >>> encoder(torch.ones(2, 3, 4)).shape
    torch.Size([2, 3, 4])
    """

    def __init__(self, encoder_layer, num_layers, norm=None, enable_nested_tensor=True, mask_check=True):
        super().__init__()
        self.layers = _copies(encoder_layer, num_layers)
        self.num_layers, self.norm = num_layers, norm
        self.enable_nested_tensor, self.mask_check = enable_nested_tensor, mask_check

    def forward(self, src, mask=None, src_key_padding_mask=None, is_causal=None):
        first = self.layers[0] if len(self.layers) else None
        batch_first = bool(getattr(getattr(first, "self_attn", None), "batch_first", False))
        padding, mask = _float_mask(src_key_padding_mask, src), _float_mask(mask, src)
        causal = _is_causal(mask, src.size(1 if batch_first and src.dim() == 3 else 0), is_causal)
        for layer in self.layers:
            src = layer(src, src_mask=mask, is_causal=causal, src_key_padding_mask=padding)
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(Module):
    """TransformerDecoder(decoder_layer, num_layers, norm=None): copies of a layer, one after the other.

    >>> decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(4, 2, batch_first=True), num_layers=2)
    >>> decoder(torch.ones(2, 3, 4), torch.ones(2, 5, 4)).shape
    torch.Size([2, 3, 4])
    """

    def __init__(self, decoder_layer, num_layers, norm=None):
        super().__init__()
        self.layers = _copies(decoder_layer, num_layers)
        self.num_layers, self.norm = num_layers, norm

    def forward(
        self,
        tgt,
        memory,
        tgt_mask=None,
        memory_mask=None,
        tgt_key_padding_mask=None,
        memory_key_padding_mask=None,
        tgt_is_causal=None,
        memory_is_causal=False,
    ):
        first = self.layers[0] if len(self.layers) else None
        batch_first = bool(getattr(getattr(first, "self_attn", None), "batch_first", False))
        causal = _is_causal(tgt_mask, tgt.size(1 if batch_first and tgt.dim() == 3 else 0), tgt_is_causal)
        for layer in self.layers:
            tgt = layer(
                tgt,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=causal,
                memory_is_causal=memory_is_causal,
            )
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """Transformer(d_model=512, nhead=8, num_encoder_layers=6, num_decoder_layers=6, dim_feedforward=2048, dropout=0.1, ...)

    An encoder and a decoder: transformer(src, tgt).

    >>> model = nn.Transformer(d_model=4, nhead=2, num_encoder_layers=1, num_decoder_layers=1, batch_first=True)
    >>> model(torch.ones(2, 3, 4), torch.ones(2, 5, 4)).shape
    torch.Size([2, 5, 4])
    """

    def __init__(
        self,
        d_model=512,
        nhead=8,
        num_encoder_layers=6,
        num_decoder_layers=6,
        dim_feedforward=2048,
        dropout=0.1,
        activation=functional.relu,
        custom_encoder=None,
        custom_decoder=None,
        layer_norm_eps=1e-5,
        batch_first=False,
        norm_first=False,
        bias=True,
        device=None,
        dtype=None,
    ):
        super().__init__()
        options = {"device": device, "dtype": dtype}
        LayerNorm = _modules().LayerNorm
        if custom_encoder is None:
            layer = TransformerEncoderLayer(
                d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias, **options
            )
            custom_encoder = TransformerEncoder(
                layer, num_encoder_layers, LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **options)
            )
        self.encoder = custom_encoder
        if custom_decoder is None:
            layer = TransformerDecoderLayer(
                d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias, **options
            )
            custom_decoder = TransformerDecoder(
                layer, num_decoder_layers, LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **options)
            )
        self.decoder = custom_decoder
        self._reset_parameters()
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first

    def _reset_parameters(self):
        for p in self.parameters():
            if p.dim() > 1:
                init.xavier_uniform_(p)

    def forward(
        self,
        src,
        tgt,
        src_mask=None,
        tgt_mask=None,
        memory_mask=None,
        src_key_padding_mask=None,
        tgt_key_padding_mask=None,
        memory_key_padding_mask=None,
        src_is_causal=None,
        tgt_is_causal=None,
        memory_is_causal=False,
    ):
        batched = src.dim() == 3
        if batched and src.size(0 if self.batch_first else 1) != tgt.size(0 if self.batch_first else 1):
            raise RuntimeError("the batch number of src and tgt must be equal")
        if src.size(-1) != self.d_model or tgt.size(-1) != self.d_model:
            raise RuntimeError("the feature number of src and tgt must be equal to d_model")
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        return self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(sz, device=None, dtype=None):
        """0 up to the diagonal, minus infinity above it."""
        return _C.triu(_C.full((sz, sz), float("-inf"), dtype=dtype, device=device), diagonal=1)
