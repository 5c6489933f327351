"""The settings every algorithm of a study shares."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, Strict, model_validator

Number = Strict()  # what else would take true for 1
Whole = Annotated[int, Number, Field(ge=0, lt=2**63)]
Positive = Annotated[int, Number, Field(ge=1, lt=2**63)]
Work = Annotated[int, Number, Field(ge=1, lt=2**31)]
"""Steps or passes of a client in a round, whose product with the steps of a pass has 64 bits."""
Share = Annotated[float, Number, Field(gt=0, le=1)]
Seed = Annotated[int, Number, Field(ge=0, lt=2**32)]
Selection = Literal["without_replacement", "with_replacement", "independent"]
Inverse = Annotated[str, Field(pattern=r"^inverse\([1-9]\d{0,8}\)$")]
Flag = Annotated[bool, Number]
Beta = Annotated[float, Number, Field(ge=0, lt=1)]
Loss = Literal["cross_entropy", "two_sided", "squared_error", "half_squared_error"]


def _unless(usual: Any, description: str) -> Any:
    """Return the field of a setting that records omit at its usual value, since older records lack it."""
    return Field(usual, description=description, exclude_if=lambda value: value == usual)


class Settings(BaseModel):
    """How one federation is run, apart from its algorithm, data, model and heterogeneity.

    Local work is `local_steps` minibatches when given, else `local_epochs` passes over the client's data; a level with
    `+system(...)` replaces both. `data_seed` draws a generated data set (or its test split), `partition_seed` draws the
    partition; a run's own seed is not a setting. `metric` is what searches and rankings use.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    rounds: Positive = Field(50, description="communication rounds")
    clients: Positive | None = Field(
        None, description="how many; default: 20, or as many as the data set has"
    )
    participation: Share = Field(0.5, description="share of the clients in a round")
    selection: Selection = Field("without_replacement", description="how a round's are drawn")
    batch_size: Positive | Literal["full"] = Field(32, description="samples of a minibatch")
    local_epochs: Work = Field(1, description="passes over a client's data in a round")
    local_steps: Work | None = Field(None, description="minibatches, in place of epochs")
    lr_decay: Share | Inverse = Field(
        1.0, description="round t uses lr * lr_decay^(t-1); inverse(t0): lr * t0 / (t0 + t - 1)"
    )
    optimizer: Literal["sgd", "adam", "adamw"] = _unless("sgd", "of local steps, as torch.optim's")
    momentum: Beta = Field(0.0, description="of sgd")
    betas: tuple[Beta, Beta] = _unless((0.9, 0.999), "of adam and adamw")
    keep_moments: Flag = _unless(
        False, "a client's moments go on in its next round, as Keras keeps them"
    )
    weight_decay: Annotated[float, Number, Field(ge=0, allow_inf_nan=False)] = Field(
        0.0, description="of local steps"
    )
    clip_norm: Annotated[float, Number, Field(gt=0, allow_inf_nan=False)] | None = Field(
        None, description="longest local step direction, weight decay included, before momentum"
    )
    loss: Loss | None = Field(
        None,
        description="what is minimised; default: cross_entropy, or squared_error of a regression",
    )
    init: Literal["common", "own", "zeros"] = Field(
        "common", description="whose initial weights: the same for all, each client's own, or 0"
    )
    weights: Literal["default", "glorot", "he"] = _unless(
        "default", "how initial weights are drawn: PyTorch's, or uniform by Glorot's, He's rule"
    )
    aggregation: Literal["samples", "plain"] = Field(
        "samples", description="clients weigh by their samples, or alike"
    )
    val_fraction: Annotated[float, Number, Field(ge=0, le=0.5)] = Field(
        0.1, description="share of the training samples that validates"
    )
    dtype: Literal["float32", "float64", "bf16", "tf32"] = Field(
        "float32",
        description="precision; bf16: layers in bfloat16 (autocast); tf32: a GPU rounds factors",
    )
    execution: Literal["compiled", "batched", "sequential"] | None = Field(
        None, description="how rounds are computed; default: the fastest for model and device"
    )
    chunk: Positive | None = Field(
        None, description="clients computed at once; default: as many as the memory budget holds"
    )
    eval_every: Positive | None = Field(None, description="in rounds; default: a tenth of all")
    fine_tune: Work | None = Field(
        None, description="epochs each client trains the final model before its own test"
    )
    metric: Literal["pooled", "personal", "macro_f1", "balanced_accuracy", "auc"] = _unless(
        "pooled",
        "what runs are searched and ranked by; personal: each client's model on its own data",
    )
    buffers: Literal["averaged", "frozen"] = _unless(
        "averaged", "BatchNorm's running statistics: of all clients, or as they are made"
    )
    score_training: Flag = _unless(
        False, "score the model on all training samples, too, as train_accuracy"
    )
    data_seed: Seed = Field(0, description="of generated data, and of the validation split")
    partition_seed: Seed = Field(0, description="of who holds which samples")

    @model_validator(mode="after")
    def _evaluations(self) -> "Settings":
        if (every := self.eval_every or 0) > self.rounds:
            raise ValueError(f"eval_every <= rounds must hold, but got {every} > {self.rounds}")
        return self

    @model_validator(mode="after")
    def _of_one_optimizer(self) -> "Settings":
        if self.momentum and self.optimizer != "sgd":
            raise ValueError(f"momentum is sgd's: optimizer {self.optimizer} has betas")
        return self

    def rate(self, lr: float, round_index: int) -> float:
        """Return the learning rate of a round, counted from 1, that begins at `lr`."""
        past, decay = round_index - 1, self.lr_decay
        if isinstance(decay, str):
            first = int(decay.removeprefix("inverse(").removesuffix(")"))
            return float(lr * first / (first + past))
        return float(lr * decay**past)

    @property
    def evaluation_gap(self) -> int:
        """Return the rounds between two evaluations; the last round is always evaluated."""
        return self.eval_every or max(1, self.rounds // 10)
