"""RNN, LSTM, GRU and their cells."""

import math
import numbers
import warnings

from ... import _C
from .. import init
from ..parameter import Parameter
from .module import Module

__all__ = ["RNNBase", "RNN", "LSTM", "GRU", "RNNCellBase", "RNNCell", "LSTMCell", "GRUCell"]

_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


class RNNBase(Module):
    """What RNN, LSTM and GRU share.

    >>> isinstance(nn.LSTM(3, 4), nn.RNNBase)
    True
    """

    __constants__ = [
        "mode",
        "input_size",
        "hidden_size",
        "num_layers",
        "bias",
        "batch_first",
        "dropout",
        "bidirectional",
        "proj_size",
    ]

    def __init__(
        self,
        mode,
        input_size,
        hidden_size,
        num_layers=1,
        bias=True,
        batch_first=False,
        dropout=0.0,
        bidirectional=False,
        proj_size=0,
        device=None,
        dtype=None,
    ):
        super().__init__()
        if mode not in _GATES:
            raise ValueError("Unrecognized RNN mode: " + mode)
        if not isinstance(dropout, numbers.Number) or isinstance(dropout, bool) or not 0 <= dropout <= 1:
            raise ValueError(
                "dropout should be a number in range [0, 1] representing the probability of an element being zeroed"
            )
        if dropout > 0 and num_layers == 1:
            warnings.warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects num_layers"
                f" greater than 1, but got dropout={dropout} and num_layers={num_layers}",
                stacklevel=3,
            )
        if not isinstance(hidden_size, int):
            raise TypeError(f"hidden_size should be of type int, got: {type(hidden_size).__name__}")
        for name, value in (("hidden_size", hidden_size), ("num_layers", num_layers)):
            if value <= 0:
                raise ValueError(f"{name} must be greater than zero")
        if proj_size < 0:
            raise ValueError("proj_size should be a positive integer or zero to disable projections")
        if proj_size >= hidden_size:
            raise ValueError("proj_size has to be smaller than hidden_size")
        self.mode, self.input_size, self.hidden_size, self.num_layers, self.bias = (
            mode,
            input_size,
            hidden_size,
            num_layers,
            bias,
        )
        self.batch_first, self.dropout, self.bidirectional, self.proj_size = (
            batch_first,
            float(dropout),
            bidirectional,
            proj_size,
        )
        self._flat_weights_names, self._all_weights = [], []
        rows, out = _GATES[mode] * hidden_size, proj_size or hidden_size
        for layer in range(num_layers):
            for suffix in ("", "_reverse")[: 2 if bidirectional else 1]:
                width = input_size if layer == 0 else out * (2 if bidirectional else 1)
                shapes = {"weight_ih": (rows, width), "weight_hh": (rows, out)}
                if bias:
                    shapes.update(bias_ih=(rows,), bias_hh=(rows,))
                if proj_size:
                    shapes["weight_hr"] = (proj_size, hidden_size)
                names = [f"{name}_l{layer}{suffix}" for name in shapes]
                for name, shape in zip(names, shapes.values()):
                    setattr(self, name, Parameter(_C.empty(shape, device=device, dtype=dtype)))
                self._flat_weights_names += names
                self._all_weights.append(names)
        self.reset_parameters()

    def reset_parameters(self):
        """Draws the initial values anew."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def flatten_parameters(self):
        """Does nothing: parameters may lie where they like."""

    @property
    def _flat_weights(self):
        return [getattr(self, name) for name in self._flat_weights_names]

    @property
    def all_weights(self):
        """The parameters, a list for each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def extra_repr(self):
        text = f"{self.input_size}, {self.hidden_size}"
        for name, usual in (
            ("proj_size", 0),
            ("num_layers", 1),
            ("bias", True),
            ("batch_first", False),
            ("dropout", 0),
            ("bidirectional", False),
        ):
            value = getattr(self, name)
            if value != usual:
                text += f", {name}={value}"
        return text

    def check_input(self, input, batch_sizes):
        """Its sizes must fit."""
        if not input.dtype.is_floating_point:
            raise ValueError(f"input must have the type {self._flat_weights[0].dtype}, got type {input.dtype}")
        wanted = 2 if batch_sizes is not None else 3
        if input.dim() != wanted:
            raise RuntimeError(f"input must have {wanted} dimensions, got {input.dim()}")
        if self.input_size != input.size(-1):
            raise RuntimeError(f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.size(-1)}")

    def _states_size(self, batch, size):
        return (self.num_layers * (2 if self.bidirectional else 1), batch, size)

    def check_hidden_size(self, hx, expected, msg="Expected hidden size {}, got {}"):
        """The sizes of a state must fit."""
        if tuple(hx.size()) != tuple(expected):
            raise RuntimeError(msg.format(tuple(expected), list(hx.size())))

    def permute_hidden(self, hx, permutation):
        """The states in another order of sequences."""
        return hx if permutation is None else hx.index_select(1, permutation)

    def _states(self, hx, batch):
        """The given states, checked."""
        self.check_hidden_size(hx, self._states_size(batch, self.hidden_size))
        return hx, None

    def _no_batch(self, hx):
        if hx.dim() != 2:
            raise RuntimeError(f"For unbatched 2-D input, hx should also be 2-D but got {hx.dim()}-D tensor")
        return hx.unsqueeze(1)

    def _batch(self, hx):
        if hx.dim() != 3:
            raise RuntimeError(f"For batched 3-D input, hx should also be 3-D but got {hx.dim()}-D tensor")
        return hx

    def _map(self, hx, fn):
        return fn(hx)

    def forward(self, input, hx=None):
        from ..utils.rnn import PackedSequence

        packed = input if isinstance(input, PackedSequence) else None
        sizes, single = None, False
        if packed is not None:
            input, sizes, order, back = packed
            batch = int(sizes[0])
            if hx is not None and order is not None:
                hx = self._map(hx, lambda h: self.permute_hidden(h, order))
        else:
            if input.dim() not in (2, 3):
                raise ValueError(f"{self._get_name()}: Expected input to be 2D or 3D, got {input.dim()}D instead")
            single = input.dim() == 2
            if single:
                input = input.unsqueeze(0 if self.batch_first else 1)
            batch = input.size(0 if self.batch_first else 1)
            if hx is not None:
                hx = self._map(hx, self._no_batch if single else self._batch)
        self.check_input(input, sizes)
        h0, c0 = (None, None) if hx is None else self._states(hx, batch)
        output, *states = _C._rnn(
            self.mode,
            input,
            h0,
            c0,
            self._flat_weights,
            self.num_layers,
            self.bias,
            self.batch_first and packed is None,
            self.dropout,
            self.training,
            self.bidirectional,
            sizes,
        )
        if packed is not None:
            output = PackedSequence(output, sizes, order, back)
            states = [self.permute_hidden(s, back) for s in states]
        elif single:
            output = output.squeeze(0 if self.batch_first else 1)
            states = [s.squeeze(1) for s in states]
        return output, states[0] if len(states) == 1 else tuple(states)


class RNN(RNNBase):
    """RNN(input_size, hidden_size, num_layers=1, nonlinearity='tanh', bias=True, batch_first=False, dropout=0.0, bidirectional=False)

    A plain recurrent network: h' = tanh(W_ih x + b_ih + W_hh h + b_hh). Gives (outputs, last states).

    >>> rnn = nn.RNN(3, 4)
    >>> output, h = rnn(torch.ones(5, 2, 3))
    >>> output.shape, h.shape
    (torch.Size([5, 2, 4]), torch.Size([1, 2, 4]))
    """

    def __init__(
        self,
        input_size,
        hidden_size,
        num_layers=1,
        nonlinearity="tanh",
        bias=True,
        batch_first=False,
        dropout=0.0,
        bidirectional=False,
        device=None,
        dtype=None,
    ):
        if isinstance(nonlinearity, bool):  # the older order, without nonlinearity
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        super().__init__(
            "RNN_" + nonlinearity.upper(),
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            0,
            device,
            dtype,
        )
        self.nonlinearity = nonlinearity


class GRU(RNNBase):
    """GRU(input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0, bidirectional=False)

    A network of gated recurrent units. Gives (outputs, last states).

    >>> gru = nn.GRU(3, 4, num_layers=2)
    >>> output, h = gru(torch.ones(5, 2, 3))
    >>> output.shape, h.shape
    (torch.Size([5, 2, 4]), torch.Size([2, 2, 4]))
    """

    def __init__(
        self,
        input_size,
        hidden_size,
        num_layers=1,
        bias=True,
        batch_first=False,
        dropout=0.0,
        bidirectional=False,
        device=None,
        dtype=None,
    ):
        super().__init__(
            "GRU", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, 0, device, dtype
        )


class LSTM(RNNBase):
    """LSTM(input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0, bidirectional=False, proj_size=0)

    Long short-term memory. Gives (outputs, (last h, last c)).

    >>> lstm = nn.LSTM(3, 4, batch_first=True)
    >>> output, (h, c) = lstm(torch.ones(2, 5, 3))
    >>> output.shape, h.shape, c.shape
    (torch.Size([2, 5, 4]), torch.Size([1, 2, 4]), torch.Size([1, 2, 4]))
    """

    def __init__(
        self,
        input_size,
        hidden_size,
        num_layers=1,
        bias=True,
        batch_first=False,
        dropout=0.0,
        bidirectional=False,
        proj_size=0,
        device=None,
        dtype=None,
    ):
        super().__init__(
            "LSTM", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, proj_size, device, dtype
        )

    def _map(self, hx, fn):
        return fn(hx[0]), fn(hx[1])

    def _no_batch(self, hx):
        if hx.dim() != 2:
            raise RuntimeError(f"For unbatched 2-D input, hx and cx should also be 2-D but got {hx.dim()}-D tensor")
        return hx.unsqueeze(1)

    def _batch(self, hx):
        if hx.dim() != 3:
            raise RuntimeError(f"For batched 3-D input, hx and cx should also be 3-D but got {hx.dim()}-D tensor")
        return hx

    def _states(self, hx, batch):
        h, c = hx
        self.check_hidden_size(
            h, self._states_size(batch, self.proj_size or self.hidden_size), "Expected hidden[0] size {}, got {}"
        )
        self.check_hidden_size(c, self._states_size(batch, self.hidden_size), "Expected hidden[1] size {}, got {}")
        return h, c


class RNNCellBase(Module):
    """What the cells share.

    >>> isinstance(nn.LSTMCell(3, 4), nn.RNNCellBase)
    True
    """

    __constants__ = ["input_size", "hidden_size", "bias"]

    def __init__(self, input_size, hidden_size, bias, num_chunks, device=None, dtype=None):
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        rows = num_chunks * hidden_size
        self.weight_ih = Parameter(_C.empty((rows, input_size), device=device, dtype=dtype))
        self.weight_hh = Parameter(_C.empty((rows, hidden_size), device=device, dtype=dtype))
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, Parameter(_C.empty(rows, device=device, dtype=dtype)) if bias else None)
        self.reset_parameters()

    reset_parameters = RNNBase.reset_parameters

    def extra_repr(self):
        text = f"{self.input_size}, {self.hidden_size}"
        if not self.bias:
            text += f", bias={self.bias}"
        if getattr(self, "nonlinearity", "tanh") != "tanh":
            text += f", nonlinearity={self.nonlinearity}"
        return text

    def _step(self, mode, input, states):
        name = self._get_name()
        if input.dim() not in (1, 2):
            raise ValueError(f"{name}: Expected input to be 1D or 2D, got {input.dim()}D instead")
        single = input.dim() == 1
        for i, state in enumerate(states):
            if state is not None and state.dim() not in (1, 2):
                what = "hidden" if len(states) == 1 else f"hx[{i}]"
                raise ValueError(f"{name}: Expected {what} to be 1D or 2D, got {state.dim()}D instead")
        if single:
            input = input.unsqueeze(0)
        states = [
            (
                _C.zeros(input.size(0), self.hidden_size, dtype=input.dtype, device=input.device)
                if s is None
                else s.unsqueeze(0) if s.dim() == 1 else s
            )
            for s in states
        ]
        result = _C._rnn_cell(
            mode,
            input,
            states[0],
            states[1] if len(states) == 2 else None,
            self.weight_ih,
            self.weight_hh,
            self.bias_ih,
            self.bias_hh,
        )
        if not single:
            return result
        return tuple(r.squeeze(0) for r in result) if isinstance(result, tuple) else result.squeeze(0)


class RNNCell(RNNCellBase):
    """RNNCell(input_size, hidden_size, bias=True, nonlinearity='tanh')

    One step of RNN: the next state of (input, state).

    >>> nn.RNNCell(3, 4)(torch.ones(2, 3)).shape
    torch.Size([2, 4])
    """

    def __init__(self, input_size, hidden_size, bias=True, nonlinearity="tanh", device=None, dtype=None):
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input, hx=None):
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        return self._step("RNN_" + self.nonlinearity.upper(), input, [hx])


class LSTMCell(RNNCellBase):
    """LSTMCell(input_size, hidden_size, bias=True)

    One step of LSTM: the next (h, c) of (input, (h, c)).

    >>> h, c = nn.LSTMCell(3, 4)(torch.ones(2, 3))
    >>> h.shape
    torch.Size([2, 4])
    """

    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None):
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input, hx=None):
        return self._step("LSTM", input, list(hx) if hx is not None else [None, None])


class GRUCell(RNNCellBase):
    """GRUCell(input_size, hidden_size, bias=True)

    One step of GRU: the next state of (input, state).

    >>> nn.GRUCell(3, 4)(torch.ones(2, 3)).shape
    torch.Size([2, 4])
    """

    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None):
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input, hx=None):
        return self._step("GRU", input, [hx])
