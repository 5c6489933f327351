"""What is known of a paper's experiments: the files in `search_spaces/papers`, as types."""

from importlib.resources import files
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Number = int | float | str | None
"""A printed number, `"> 50"` where the text gives a bound, `"~ 99.7"` where it is vague; null: the
target was never reached within the rounds."""


class Layer(BaseModel):
    """What a file says at one level (paper, table, method, row); the inner level wins."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    settings: dict[str, Any] = {}
    params: dict[str, Any] = {}
    chosen: dict[str, tuple[Any, Annotated[str, Field(min_length=1)]]] = {}
    readings: list[str] = []


class Shared(Layer):
    """A layer that speaks of all methods. `open`: what has one stated or searched value here though the paper
    leaves it open, so that `--set` may change it as it may what is chosen.
    """

    open: list[str] = []


class PaperMethod(Layer):
    """A column of a table. `search`: values of hyperparameters that all run; the best counts."""

    algorithm: str | None = None
    search: dict[str, list[Any]] = {}


class TableRow(Shared):
    """One experiment: data, model, level, and the printed numbers, metric -> method -> number.

    One that is `not_run` only keeps its numbers; the reason is shown. `same_as` is the TABLE/ROW of the same
    experiment: numbers that are printed there too, and its statements, count once, there.
    """

    dataset: str | None = None
    model: str | None = None
    heterogeneity: str | None = None
    methods: dict[str, Layer] = {}
    numbers: dict[str, dict[str, Number]] = {}
    grids: dict[str, list[Any]] = {}
    not_run: str | None = None
    same_as: str | None = None


class PaperClaim(BaseModel):
    """A statement about two methods: metric(of) - times * metric(to) is <, >, <=, >= `by`, or ~ 0.

    Without a metric it is the row's first. One without `of` is only shown.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    says: str
    metric: str | None = None
    of: str | None = None
    relation: Literal["<", ">", "<=", ">=", "~"] = Field("~", alias="is")
    to: str | None = None
    times: float = 1.0
    by: float = 0.0


class PaperTable(Shared):
    """A table or figure of a paper: its methods, rows and claims."""

    source: str
    about: str
    methods: dict[str, PaperMethod] = {}
    rows: dict[str, TableRow]
    claims: list[PaperClaim] = []
    not_run: str | None = None


class Data(BaseModel):
    """What a data set is, for the cost estimate; `drawn`: its samples are random, so that each seed
    draws them anew.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    samples: int
    test: int
    shape: tuple[int, ...]
    classes: int
    drawn: bool = False


class Paper(Shared):
    """A paper's file: its data and tables."""

    paper: str
    cites: str
    data: dict[str, Data]
    tables: dict[str, PaperTable]

    def same(self, row: TableRow) -> tuple[PaperTable, TableRow] | None:
        """The table and row that a row is the same as; None where it is none."""
        if row.same_as is None:
            return None
        table, _, name = row.same_as.partition("/")
        return self.tables[table], self.tables[table].rows[name]


def paper_names() -> list[str]:
    """The papers there are files of."""
    found = files("search_spaces").joinpath("papers").iterdir()
    return sorted(p.name.removesuffix(".yaml") for p in found if p.name.endswith(".yaml"))
