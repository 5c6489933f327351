"""A small model of text: the next character, from the last eight.

    suite run --dataset "shakespeare_text(80)" --heterogeneity natural --model examples/last_characters.py:make \
        --set participation=0.05

The plays' roles are the clients (docs/data.md says which file to fetch). `char_lstm` reads all 80 characters of a
sample, and takes about a hundred times as long.
"""

import torch
from torch import Tensor, nn

SEEN = 8
"""Characters that the model reads."""
WIDTH = 16
"""Numbers that stand for a character."""


class LastCharacters(nn.Module):
    """An embedding of each of the last characters, one hidden layer, and logits of the next one (Bengio et al. 2003)."""

    def __init__(self, characters: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(characters, WIDTH)
        self.hidden = nn.Linear(SEEN * WIDTH, 128)
        self.output = nn.Linear(128, characters)

    def forward(self, x: Tensor) -> Tensor:
        """Logits (N, characters) of token ids (N, 80)."""
        seen = self.embedding(x[:, -SEEN:].long()).flatten(1)
        return self.output(torch.tanh(self.hidden(seen)))


def make(shape: tuple[int, ...], classes: int) -> nn.Module:
    """Return the model for data of so many classes: here they are the characters."""
    return LastCharacters(classes)
