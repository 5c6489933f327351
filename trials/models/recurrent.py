"""Stacked LSTMs for text. Samples are token ids (length,), as floats like all samples.

FedProx's code (Li et al. 2020) is the source. Two LSTM layers, of which the output at the last
position goes through one fully connected layer. A layer has one bias, as its TensorFlow cells do;
their constant 1 on the forget gate is left out, so that one rule starts all weights.
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from trials.common.errors import UserError
from trials.common.tensors import Tensor
from trials.models.base import (
    Architecture,
    Array,
    Parameters,
    check_tokens,
    dense,
    embedding,
    linear,
    lstm,
)


class StackedLSTM(Architecture):
    """An embedding, two LSTM layers, an output layer."""

    @abstractmethod
    def tokens(self, classes: int) -> int:
        """How many tokens it knows."""

    def check(self, x: Array, classes: int) -> None:
        check_tokens(x, self.tokens(classes))

    def forward(self, p: Mapping[str, Tensor], x: Tensor) -> Tensor:
        h = embedding(x, p["embedding.weight"])
        h = lstm(h, p["lstm1.weight"], p["lstm1.bias"])
        h = lstm(h, p["lstm2.weight"], p["lstm2.bias"])[..., -1, :]
        return linear(h, p["out.weight"], p["out.bias"])


def _stack(
    model: str, shape: tuple[int, ...], classes: int, vocabulary: int, width: int, units: int
) -> Parameters:
    if len(shape) != 1:
        raise UserError(
            f"model {model} needs sequences of token ids (length,), because it reads one token "
            f"after the other; got {shape}"
        )
    return [
        ("embedding.weight", (vocabulary, width)),
        *dense("lstm1", width + units, 4 * units),
        *dense("lstm2", units + units, 4 * units),
        *dense("out", units, classes),
    ]


@dataclass(frozen=True)
class CharLSTM(StackedLSTM):
    """Shakespeare's next character: embedding of width 8, two layers of 100 units.

    Inputs and outputs share an alphabet: the ids are 0..C-1. 132,720 weights with 80 characters.
    """

    summary: ClassVar[str] = "next character (Shakespeare): embedding 8, LSTM 2 x 100"
    batched_up_to: ClassVar[float] = 0

    def parameters(self, shape: tuple[int, ...], classes: int) -> Parameters:
        return _stack("char_lstm", shape, classes, classes, 8, 100)

    def tokens(self, classes: int) -> int:
        return classes


@dataclass(frozen=True)
class SentLSTM(StackedLSTM):
    """Sent140's sentiment: word embedding, two layers of 256 units.

    There the embedding is 300 wide and GloVe's, frozen; here it starts at random and is trained. Ids
    are 0..vocabulary-1, as many as the data set `sent140(vocabulary)` has. The code's linear layer of 30 units between LSTM and output is left out.
    """

    summary: ClassVar[str] = "sentiment of words (Sent140): embedding, LSTM 2 x 256"
    batched_up_to: ClassVar[float] = 0
    vocabulary: int = 10000
    width: int = 300

    def __post_init__(self) -> None:
        if min(self.vocabulary, self.width) < 1:
            raise UserError(
                f"model sent_lstm: vocabulary >= 1 and width >= 1 must hold, "
                f"got {self.vocabulary}, {self.width}"
            )

    def parameters(self, shape: tuple[int, ...], classes: int) -> Parameters:
        return _stack("sent_lstm", shape, classes, self.vocabulary, self.width, 256)

    def tokens(self, classes: int) -> int:
        return self.vocabulary
