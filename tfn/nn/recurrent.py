"""Recurrent layers: a state carried along a sequence.

A cell takes the input at one position and the state before it; LSTM and GRU are cells over whole
sequences, whose first axis is time.  The projection of the inputs is one product for all positions,
computed before the loop; the loop is a `scan`, compiled once for all lengths.
"""

# ruff: noqa: F722  (annotations hold shapes)

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from tfn import lax, random
from tfn import numpy as jnp
from tfn._support.validate import integer, rank
from tfn.array import Array
from tfn.errors import ArgumentError
from tfn.nn import initializers
from tfn.nn.functions import sigmoid, tanh
from tfn.nn.layers import Linear
from tfn.nn.module import module
from tfn.random import KeyLike

if TYPE_CHECKING:
    from jaxtyping import Float


class Cell(Protocol):
    """A recurrent cell, as `along` runs it over a sequence."""

    def start(self, batch: tuple[int, ...] = ()) -> Any:
        """Returns the state before the first position."""

    def project(self, x: Array) -> Array:
        """Returns the contribution to the gates of the input at one position, or at all of them."""

    def advance(self, projected: Array, state: Any) -> Any:
        """Returns the next state."""

    def output(self, state: Any) -> Array:
        """Returns the part of a state that is the output."""


def along(
    cell: Cell, xs: Float[Array, "time *batch inputs"], state: Any = None, *, reverse: bool = False
) -> tuple[Float[Array, "time *batch hidden"], Any]:
    """Runs a cell over a sequence, and returns its outputs and the last state.

    Args:
        cell: an LSTMCell, a GRUCell, or another `Cell`.
        xs: the inputs, time first.
        state: before the first position; that of `Cell.start` if None.
        reverse: begin with the last position; outputs keep the order of xs.

    Example:
        >>> cell = GRUCell.init(random.key(0), 3, 4)
        >>> ys, state = along(cell, jnp.ones((7, 2, 3)))
        >>> ys.shape, state.shape
        ((7, 2, 4), (2, 4))
    """

    def body(state: Any, projected: Array) -> tuple[Any, Array]:
        state = cell.advance(projected, state)
        return state, cell.output(state)

    first = cell.start(xs.shape[1:-1]) if state is None else state
    last, ys = lax.scan(body, first, cell.project(xs), reverse=reverse)
    return ys, last


def _weights(
    key: KeyLike, inputs: int, hidden: int, gates: int, dtype: Any
) -> tuple[Linear, Array]:
    """Returns a projection of inputs to all gates, and the weights of the state."""
    first, second = random.split(key)
    states = initializers.lecun_normal()(second, (hidden, gates * hidden), dtype)
    return Linear.init(first, inputs, gates * hidden, dtype=dtype), states


class LSTMState(NamedTuple):
    """The state of an LSTM: its output, and its memory."""

    hidden: Float[Array, "*batch hidden"]
    cell: Float[Array, "*batch hidden"]


@module
class LSTMCell:
    """One step of an LSTM; the gates are input, forget, candidate, output, in this order.

    Source: Hochreiter, Schmidhuber 1997; Gers, Schmidhuber, Cummins 2000 (the forget gate);
    Jozefowicz, Zaremba, Sutskever 2015 (whose bias begins at 1).

    Example:
        >>> cell = LSTMCell.init(random.key(0), 3, 4)
        >>> cell(jnp.ones((2, 3)), cell.start((2,))).hidden.shape
        (2, 4)
    """

    inputs: Linear
    states: Float[Array, "hidden gates"]

    @staticmethod
    def init(key: KeyLike, inputs: int, hidden: int, *, dtype: Any = float) -> LSTMCell:
        """Returns a cell with random weights; biases are 0, but those of the forget gate 1.

        Args:
            key: a key, from which the random weights are drawn.
            inputs: number of features of the input.
            hidden: number of features of the state.
            dtype: floating dtype of the parameters; float32 by default.
        """
        linear, states = _weights(key, inputs, hidden, 4, dtype)
        bias = jnp.zeros((4, hidden), dtype).at[1].set(1.0).reshape(-1)
        return LSTMCell(Linear(linear.weight, bias), states)

    def start(self, batch: tuple[int, ...] = ()) -> LSTMState:
        """Returns a state of zeros."""
        zeros = jnp.zeros((*batch, self.states.shape[0]), self.states.dtype)
        return LSTMState(zeros, zeros)

    def project(self, x: Float[Array, "*batch inputs"]) -> Float[Array, "*batch gates"]:
        """Returns the contribution of x to the gates."""
        return self.inputs(x)

    def advance(self, projected: Float[Array, "*batch gates"], state: LSTMState) -> LSTMState:
        """Returns the next state."""
        gates = projected + state.hidden @ self.states
        write, keep, candidate, read = jnp.split(gates, 4, -1)
        cell = sigmoid(keep) * state.cell + sigmoid(write) * tanh(candidate)
        return LSTMState(sigmoid(read) * tanh(cell), cell)

    def output(self, state: LSTMState) -> Float[Array, "*batch hidden"]:
        """Returns the hidden part of the state."""
        return state.hidden

    def __call__(self, x: Float[Array, "*batch inputs"], state: LSTMState) -> LSTMState:
        """Returns the next state."""
        return self.advance(self.project(x), state)


@module
class GRUCell:
    """One step of a GRU; the gates are reset, update, candidate, in this order.

    The reset gate acts on what the state adds to the candidate, its bias included.

    Source: Cho et al. 2014, arXiv:1406.1078, in the form of version 1.

    Example:
        >>> cell = GRUCell.init(random.key(0), 3, 4)
        >>> cell(jnp.ones((2, 3)), cell.start((2,))).shape
        (2, 4)
    """

    inputs: Linear
    states: Float[Array, "hidden gates"]
    bias: Float[Array, " hidden"]

    @staticmethod
    def init(key: KeyLike, inputs: int, hidden: int, *, dtype: Any = float) -> GRUCell:
        """Returns a cell with random weights and biases of 0.

        Args:
            key: a key, from which the random weights are drawn.
            inputs: number of features of the input.
            hidden: number of features of the state.
            dtype: floating dtype of the parameters; float32 by default.
        """
        linear, states = _weights(key, inputs, hidden, 3, dtype)
        return GRUCell(linear, states, jnp.zeros((hidden,), dtype))

    def start(self, batch: tuple[int, ...] = ()) -> Float[Array, "*batch hidden"]:
        """Returns a state of zeros."""
        return jnp.zeros((*batch, self.states.shape[0]), self.states.dtype)

    def project(self, x: Float[Array, "*batch inputs"]) -> Float[Array, "*batch gates"]:
        """Returns the contribution of x to the gates."""
        return self.inputs(x)

    def advance(
        self, projected: Float[Array, "*batch gates"], state: Float[Array, "*batch hidden"]
    ) -> Float[Array, "*batch hidden"]:
        """Returns the next state."""
        from_state = jnp.split(state @ self.states, 3, -1)
        from_input = jnp.split(projected, 3, -1)
        reset = sigmoid(from_input[0] + from_state[0])
        update = sigmoid(from_input[1] + from_state[1])
        candidate = tanh(from_input[2] + reset * (from_state[2] + self.bias))
        return (1 - update) * candidate + update * state

    def output(self, state: Float[Array, "*batch hidden"]) -> Float[Array, "*batch hidden"]:
        """Returns the whole state."""
        return state

    def __call__(
        self, x: Float[Array, "*batch inputs"], state: Float[Array, "*batch hidden"]
    ) -> Float[Array, "*batch hidden"]:
        """Returns the next state."""
        return self.advance(self.project(x), state)


def _layers(make: Any, key: KeyLike, inputs: int, hidden: int, layers: int, dtype: Any) -> Any:
    """Cells, each of which gets the outputs of the one before it."""
    integer("a recurrent layer", "layers", layers, 1)
    sizes = [inputs] + [hidden] * (layers - 1)
    keys = random.split(key, layers)
    return tuple(make(k, n, hidden, dtype=dtype) for k, n in zip(keys, sizes, strict=True))


def _run(cells: Sequence[Cell], xs: Array, states: Any, reverse: bool) -> tuple[Array, Any]:
    last = []
    states = [None] * len(cells) if states is None else states
    if len(states) != len(cells):
        wanted = f"{len(cells)} layers need a state each"
        raise ArgumentError(wanted, got=f"{len(states)} states", hint="pass those of a call")
    for cell, state in zip(cells, states, strict=True):
        xs, state = along(cell, xs, state, reverse=reverse)
        last.append(state)
    return xs, tuple(last)


@module
class LSTM:
    """Layers of `LSTMCell` over a sequence, (time, batch, inputs).

    Example:
        >>> model = LSTM.init(random.key(0), 3, 4, layers=2)
        >>> ys, states = model(jnp.ones((7, 2, 3)))
        >>> ys.shape, states[-1].cell.shape
        ((7, 2, 4), (2, 4))
    """

    cells: tuple[LSTMCell, ...]

    @staticmethod
    def init(
        key: KeyLike, inputs: int, hidden: int, *, layers: int = 1, dtype: Any = float
    ) -> LSTM:
        """Returns layers with random weights.

        Args:
            key: a key, from which the random weights are drawn.
            inputs: number of features of the input.
            hidden: number of features of the state.
            layers: number of layers, at least 1; each gets the outputs of the one before.
            dtype: floating dtype of the parameters; float32 by default.
        """
        return LSTM(_layers(LSTMCell.init, key, inputs, hidden, layers, dtype))

    def __call__(
        self,
        xs: Float[Array, "time *batch inputs"],
        states: Sequence[LSTMState] | None = None,
        *,
        reverse: bool = False,
    ) -> tuple[Float[Array, "time *batch hidden"], tuple[LSTMState, ...]]:
        """Returns the outputs of the last layer, and the last state of each.

        Args:
            xs: the inputs, time first.
            states: the first state of each layer; zeros if None.
            reverse: begin with the last position; outputs keep the order of xs.
        """
        rank("LSTM", xs, 2)
        return _run(self.cells, xs, states, reverse)


@module
class GRU:
    """Layers of `GRUCell` over a sequence, (time, batch, inputs).

    Example:
        >>> ys, states = GRU.init(random.key(0), 3, 4)(jnp.ones((7, 2, 3)))
        >>> ys.shape
        (7, 2, 4)
    """

    cells: tuple[GRUCell, ...]

    @staticmethod
    def init(key: KeyLike, inputs: int, hidden: int, *, layers: int = 1, dtype: Any = float) -> GRU:
        """Returns layers with random weights.

        Args:
            key: a key, from which the random weights are drawn.
            inputs: number of features of the input.
            hidden: number of features of the state.
            layers: number of layers, at least 1; each gets the outputs of the one before.
            dtype: floating dtype of the parameters; float32 by default.
        """
        return GRU(_layers(GRUCell.init, key, inputs, hidden, layers, dtype))

    def __call__(
        self,
        xs: Float[Array, "time *batch inputs"],
        states: Sequence[Float[Array, "*batch hidden"]] | None = None,
        *,
        reverse: bool = False,
    ) -> tuple[Float[Array, "time *batch hidden"], tuple[Array, ...]]:
        """Returns the outputs of the last layer, and the last state of each.

        Args:
            xs: the inputs, time first.
            states: the first state of each layer; zeros if None.
            reverse: begin with the last position; outputs keep the order of xs.
        """
        rank("GRU", xs, 2)
        return _run(self.cells, xs, states, reverse)
