"""The settings every algorithm of a study shares."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, Strict, model_validator

Number = Strict()  # what else would take true for 1
Whole = Annotated[int, Number, Field(ge=0, lt=2**63)]
Positive = Annotated[int, Number, Field(ge=1, lt=2**63)]
Work = Annotated[int, Number, Field(ge=1, lt=2**31)]
"""Steps or passes of a client in a round, whose product with the steps of a pass has 64 bits."""
Share = Annotated[float, Number, Field(gt=0, le=1)]
Seed = Annotated[int, Number, Field(ge=0, lt=2**32)]
Selection = Literal["without_replacement", "with_replacement", "independent"]
Loss = Literal["cross_entropy", "two_sided", "squared_error", "half_squared_error"]


class Settings(BaseModel):
    """How one federation is run, apart from its algorithm, data, model and heterogeneity.

    Local work is `local_steps` minibatches when given, else `local_epochs` passes over the client's data; a level with
    `+system(...)` replaces both. `data_seed` is what a generated data set (or its test split) is, `partition_seed` how
    samples reach clients; a run's own seed is not a setting. `metric` is what a run is searched and ranked by.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    rounds: Positive = 50
    clients: Positive | None = Field(
        None, description="default: 20, or as many as the data set has"
    )
    participation: Share = 0.5
    selection: Selection = "without_replacement"
    batch_size: Positive | Literal["full"] = 32
    local_epochs: Work = 1
    local_steps: Work | None = None
    lr_decay: Share = Field(1.0, description="round t uses lr * lr_decay^(t-1)")
    momentum: Annotated[float, Number, Field(ge=0, lt=1)] = 0.0
    weight_decay: Annotated[float, Number, Field(ge=0, allow_inf_nan=False)] = 0.0
    clip_norm: Annotated[float, Number, Field(gt=0, allow_inf_nan=False)] | None = Field(
        None, description="longest local step direction, weight decay included, before momentum"
    )
    loss: Loss | None = Field(
        None, description="default: cross_entropy, or squared_error of a regression"
    )
    init: Literal["common", "own", "zeros"] = "common"
    aggregation: Literal["samples", "plain"] = "samples"
    val_fraction: Annotated[float, Number, Field(ge=0, le=0.5)] = 0.1
    dtype: Literal["float32", "float64", "bf16", "tf32"] = Field(
        "float32", description="bf16: layers in bfloat16 (autocast); tf32: a GPU rounds factors"
    )
    execution: Literal["compiled", "batched", "sequential"] | None = Field(
        None, description="default: what is fastest for the model on the device"
    )
    chunk: Positive | None = Field(
        None, description="clients computed at once; default: as many as the memory budget holds"
    )
    eval_every: Positive | None = Field(None, description="rounds; default: a tenth of all rounds")
    fine_tune: Work | None = Field(
        None, description="epochs each client trains the final model before its own test"
    )
    metric: Annotated[
        Literal["pooled", "personal", "macro_f1", "balanced_accuracy", "auc"],
        Field(exclude_if=lambda metric: metric == "pooled"),
    ] = Field(
        "pooled",
        description="personal: each client's own model on its data; the rest: labels weigh alike",
    )
    buffers: Annotated[
        Literal["averaged", "frozen"], Field(exclude_if=lambda buffers: buffers == "averaged")
    ] = Field(
        "averaged",
        description="BatchNorm's running statistics: of all clients, or as they are made",
    )
    score_training: Annotated[bool, Field(exclude_if=lambda score: not score)] = Field(
        False, description="score the model on all training samples too: train_accuracy, ..."
    )
    data_seed: Seed = 0
    partition_seed: Seed = 0

    @model_validator(mode="after")
    def _evaluations(self) -> "Settings":
        if (every := self.eval_every or 0) > self.rounds:
            raise ValueError(f"eval_every <= rounds must hold, but got {every} > {self.rounds}")
        return self

    @property
    def evaluation_gap(self) -> int:
        """Rounds between two evaluations; the last round is always evaluated."""
        return self.eval_every or max(1, self.rounds // 10)
