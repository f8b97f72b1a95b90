"""Token embeddings and positional encodings (Vaswani et al. 2017, sections 3.4 and 3.5).

Attention ignores the order of its inputs. The positional encoding, added to each embedding, tells the model where a
token is in the sentence.
"""

import math

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional

from dragoman.devices.checks import check_ids, check_sizes
from dragoman.devices.device import sum_type
from dragoman.errors import ConfigError, DataError


def sinusoidal_positions(
    length: int, d_model: int, start: int = 0, device: torch.device | None = None
) -> Float[Tensor, "{length} {d_model}"]:
    """Positional encoding of positions `start` to `start + length - 1` (section 3.5).

    Dimension 2i is sin(pos / 10000^(2i / d_model)), and dimension 2i + 1 is the cosine of the same angle. The numbers
    are computed on demand, so sequences can have any length.

    Parameters
    ----------
    length : int
        Number of positions.
    d_model : int
        Width of the vectors, an even number.
    start : int
        The first position.
    device : torch.device, optional
        Where to create the numbers. By default, torch's default device.

    Returns
    -------
    Tensor
        One row for each position (length, d_model), float32.

    Raises
    ------
    ConfigError
        If `length` or `d_model` is not a whole number, or if `d_model` is odd.
    """
    angles = _angles(length, d_model, start, device)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1).float()


def marian_positions(
    length: int, d_model: int, start: int = 0, device: torch.device | None = None
) -> Float[Tensor, "{length} {d_model}"]:
    """The numbers of `sinusoidal_positions` in Marian's order: all sines, then all cosines.

    Models imported from Marian need this order. tensor2tensor, the paper's own code, uses it too.

    Parameters
    ----------
    length, d_model, start, device
        As for `sinusoidal_positions`.

    Returns
    -------
    Tensor
        One row for each position (length, d_model), float32.
    """
    angles = _angles(length, d_model, start, device)
    return torch.cat((angles.sin(), angles.cos()), dim=-1).float()


def _angles(length: int, d_model: int, start: int, device: torch.device | None) -> Float[Tensor, "T K"]:
    """The angles pos / 10000^(2i / d_model), one for each pair of dimensions: K is d_model / 2.

    Functions are computed in float64 and rounded to float32. The float32 functions of two libraries or machines differ
    in their last bits, and machine code computes the same positions with NumPy.
    """
    check_sizes(0, length=length)
    check_sizes(d_model=d_model)
    if d_model % 2:
        raise ConfigError(f"`d_model` must be even for sinusoidal positions, but is {d_model}.")
    positions = torch.arange(start, start + length, dtype=torch.float32, device=device)
    dimensions = torch.arange(0, d_model, 2, dtype=torch.float32, device=device)
    frequencies = torch.exp((dimensions * (-math.log(10000.0) / d_model)).to(sum_type(positions.device))).float()
    return (positions[:, None] * frequencies).to(sum_type(positions.device))


_POSITIONS = ("sinusoidal", "marian", "learned")


class Embedding(nn.Module):
    """Token ids to vectors: sqrt(d_model) * weight[id] + position, then dropout (sections 3.4, 3.5 and 5.4).

    The weights start from a normal distribution with standard deviation d_model^-0.5. Multiplied by sqrt(d_model), they
    have unit variance, about as large as the sinusoids. As the tied output projection (section 3.4), they give logits
    of about unit variance for normalized states, so training starts from a nearly flat distribution. The paper does
    not describe its initialization.

    Parameters
    ----------
    vocab_size
        Number of rows of the embedding.
    d_model
        Width of the vectors.
    dropout
        Dropout rate of the sum of embedding and position.
    positions
        "sinusoidal" as in the paper, "marian" for the same numbers in Marian's order, or "learned" for one parameter
        vector per position (table 3, row E).
    max_positions
        Number of learned positions. The other two kinds have no limit.

    Raises
    ------
    ConfigError
        If a size is not a whole number above 0, or if the kind of positions is unknown.
    """

    ids_name = "ids"
    """What errors call the ids."""

    def __init__(
        self, vocab_size: int, d_model: int, dropout: float, positions: str = "sinusoidal", max_positions: int = 0
    ) -> None:
        check_sizes(vocab_size=vocab_size, d_model=d_model)
        if positions not in _POSITIONS:
            raise ConfigError(f"`positions` must be one of {', '.join(_POSITIONS)}, but is {positions!r}.")
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocab_size, d_model))
        nn.init.normal_(self.weight, std=d_model**-0.5)
        self.positions: nn.Parameter | None = None
        if positions == "learned":
            check_sizes(max_positions=max_positions)
            self.positions = nn.Parameter(torch.empty(max_positions, d_model))
            nn.init.normal_(self.positions, std=0.1)
        self._compute_positions = marian_positions if positions == "marian" else sinusoidal_positions
        self.dropout = nn.Dropout(dropout)

    def extra_repr(self) -> str:
        """Sizes that `print(model)` shows."""
        positions = self._compute_positions.__name__ if self.positions is None else f"{len(self.positions)} learned"
        return f"{self.weight.size(0)}, {self.weight.size(1)}, positions={positions}"

    def forward(self, ids: Int64[Tensor, "B T"], start: int = 0) -> Float[Tensor, "B T D"]:
        """Embed ids at the positions from `start` on.

        Parameters
        ----------
        ids : (B, T)
            Token ids, int64.
        start : int
            The position of the first token.

        Returns
        -------
        Tensor
            The vectors (B, T, D).

        Raises
        ------
        DataError
            If the ids have another shape or type, are outside the vocabulary, or go beyond the learned positions.
        """
        check_ids(self.ids_name, ids, self.weight)
        tokens = functional.embedding(ids, self.weight) * math.sqrt(self.weight.size(1))
        return self.dropout(tokens + self.table(start, ids.size(1)))  # type: ignore[no-any-return]

    def table(self, start: int, length: int) -> Float[Tensor, "T D"]:
        """Look up or compute the vectors of the positions from `start` on.

        Parameters
        ----------
        start, length : int
            The first position, and the number of positions T.

        Returns
        -------
        Tensor
            The vectors (T, D).

        Raises
        ------
        DataError
            If there are fewer learned positions.
        """
        if self.positions is None:
            d_model = self.weight.size(1)
            return self._compute_positions(length, d_model, start, self.weight.device).to(self.weight.dtype)
        if start + length > self.positions.size(0):
            raise DataError(
                f"`{self.ids_name}` must have at most {self.positions.size(0)} tokens, the learned positions "
                f"(`max_positions`), but has {start + length}."
            )
        return self.positions[start : start + length]
