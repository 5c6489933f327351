"""The settings that all algorithms of a study share."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, Strict, model_validator

Number = Strict()  # without it pydantic would take true for 1
Whole = Annotated[int, Number, Field(ge=0, lt=2**63)]
Positive = Annotated[int, Number, Field(ge=1, lt=2**63)]
Work = Annotated[int, Number, Field(ge=1, lt=2**31)]
"""A client's steps or passes in a round. The bound keeps passes times steps of a pass within 64 bits."""
Share = Annotated[float, Number, Field(gt=0, le=1)]
Seed = Annotated[int, Number, Field(ge=0, lt=2**32)]
Selection = Literal["without_replacement", "with_replacement", "independent"]
Inverse = Annotated[str, Field(pattern=r"^inverse\([1-9]\d{0,8}\)$")]
Flag = Annotated[bool, Number]
Beta = Annotated[float, Number, Field(ge=0, lt=1)]
Loss = Literal["cross_entropy", "two_sided", "squared_error", "half_squared_error"]


def _unless(usual: Any, description: str) -> Any:
    """Return a field with the default `usual`. Records leave out the default, so they equal records from before the field existed."""
    return Field(usual, description=description, exclude_if=lambda value: value == usual)


class Settings(BaseModel):
    """The settings of a federated run apart from its algorithm, data set, model, heterogeneity and seed.

    A client's local work is `local_steps` minibatches if set, else `local_epochs` passes over its data. A heterogeneity
    level with `+system(...)` replaces both. `data_seed` draws a generated data set (or its test split) and the validation
    split; `partition_seed` draws the partition.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    rounds: Positive = Field(50, description="communication rounds")
    clients: Positive | None = Field(
        None, description="number of clients; default: the data set's own number, else 20"
    )
    participation: Share = Field(0.5, description="share of the clients selected each round")
    selection: Selection = Field("without_replacement", description="how clients are drawn")
    batch_size: Positive | Literal["full"] = Field(32, description="samples in a minibatch")
    local_epochs: Work = Field(1, description="passes over a client's data in a round")
    local_steps: Work | None = Field(None, description="minibatches, instead of local_epochs")
    lr_decay: Share | Inverse = Field(
        1.0, description="round t uses lr * lr_decay^(t-1); inverse(t0): lr * t0 / (t0 + t - 1)"
    )
    optimizer: Literal["sgd", "adam", "adamw"] = _unless("sgd", "optimizer of local steps")
    momentum: Beta = Field(0.0, description="momentum of sgd")
    betas: tuple[Beta, Beta] = _unless((0.9, 0.999), "beta1, beta2 of adam and adamw")
    keep_moments: Flag = _unless(
        False, "keep a client's optimizer state until its next round, as Keras does"
    )
    weight_decay: Annotated[float, Number, Field(ge=0, allow_inf_nan=False)] = Field(
        0.0, description="weight decay of local steps"
    )
    clip_norm: Annotated[float, Number, Field(gt=0, allow_inf_nan=False)] | None = Field(
        None, description="maximum norm of a local step's direction (with decay, before momentum)"
    )
    loss: Loss | None = Field(
        None,
        description="training loss; default: cross_entropy, or squared_error for a regression",
    )
    init: Literal["common", "own", "zeros"] = Field(
        "common", description="initial weights: the same for all clients, each client's own, or 0"
    )
    weights: Literal["default", "glorot", "he"] = _unless(
        "default", "how initial weights are drawn: PyTorch's rule, or Glorot's or He's uniform rule"
    )
    aggregation: Literal["samples", "plain"] = Field(
        "samples", description="a client's weight in the mean: its number of samples, or equal"
    )
    val_fraction: Annotated[float, Number, Field(ge=0, le=0.5)] = Field(
        0.1, description="share of the training samples held out for validation"
    )
    dtype: Literal["float32", "float64", "bf16", "tf32"] = Field(
        "float32",
        description="number format; bf16: layers in bfloat16 (autocast); tf32: TF32 products (GPU)",
    )
    execution: Literal["compiled", "batched", "sequential"] | None = Field(
        None, description="how rounds are computed; default: the fastest for model and device"
    )
    chunk: Positive | None = Field(
        None, description="clients computed at once; default: as many as the memory budget holds"
    )
    eval_every: Positive | None = Field(
        None, description="rounds between evaluations; default: a tenth of all"
    )
    fine_tune: Work | None = Field(
        None, description="epochs that each client trains the final model before its own test"
    )
    metric: Literal["pooled", "personal", "macro_f1", "balanced_accuracy", "auc"] = _unless(
        "pooled",
        "score for search and ranking; personal: each client's own model on its own data",
    )
    buffers: Literal["averaged", "frozen"] = _unless(
        "averaged", "BatchNorm's running statistics: averaged over clients, or never updated"
    )
    score_training: Flag = _unless(
        False, "also score the model on all training samples, as train_accuracy"
    )
    data_seed: Seed = Field(0, description="seed of generated data and of the validation split")
    partition_seed: Seed = Field(0, description="seed of the partition to clients")

    @model_validator(mode="after")
    def _evaluations(self) -> "Settings":
        if (every := self.eval_every or 0) > self.rounds:
            raise ValueError(f"eval_every <= rounds must hold, but got {every} > {self.rounds}")
        return self

    @model_validator(mode="after")
    def _momentum_needs_sgd(self) -> "Settings":
        if self.momentum and self.optimizer != "sgd":
            raise ValueError(f"momentum needs optimizer sgd, but {self.optimizer} has betas")
        return self

    def rate(self, lr: float, round_index: int) -> float:
        """Return the learning rate of round `round_index` (from 1) after decay, where `lr` is the rate of round 1."""
        past, decay = round_index - 1, self.lr_decay
        if isinstance(decay, str):
            t0 = int(decay.removeprefix("inverse(").removesuffix(")"))
            return float(lr * t0 / (t0 + past))
        return float(lr * decay**past)

    @property
    def evaluation_gap(self) -> int:
        """Return the number of rounds from one evaluation to the next. The last round is always evaluated."""
        return self.eval_every or max(1, self.rounds // 10)
