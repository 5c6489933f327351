"""A paper's file as types: what is known of its experiments, and the numbers that it prints."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from reports.claims.judged import Statement


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

    A number may be `"> 50"` where the text gives a bound, `"~ 99.7"` where it is vague; null: the target was never reached within
    the rounds. One that is `not_run` only keeps its numbers; the reason is shown. `same_as` is the TABLE/ROW of the same
    experiment: numbers that are printed there too, and its statements, count once, there.
    """

    dataset: str | None = None
    model: str | None = None
    heterogeneity: str | None = None
    methods: dict[str, Layer] = {}
    numbers: dict[str, dict[str, int | float | str | None]] = {}
    not_run: str | None = None
    same_as: str | None = None


class PaperTable(Shared):
    """A table or figure of a paper: its methods, rows and claims."""

    source: str
    about: str
    methods: dict[str, PaperMethod] = {}
    rows: dict[str, TableRow]
    claims: list[Statement] = []
    not_run: str | None = None


class Paper(Shared):
    """A paper's file. `drawn` are its data sets whose samples are random, so that each seed draws them anew."""

    paper: str
    cites: str
    drawn: list[str] = []
    tables: dict[str, PaperTable]

    def reason_not_run(self, table: str, row: str) -> str:
        """Return why a row is never run, as the file says; "" for one that can be."""
        return self.tables[table].rows[row].not_run or self.tables[table].not_run or ""

    def same(self, row: TableRow) -> tuple[PaperTable, TableRow] | None:
        """Return the table and row that a row is the same as; None where it is none."""
        if row.same_as is None:
            return None
        table, _, name = row.same_as.partition("/")
        return self.tables[table], self.tables[table].rows[name]
