"""`suite.testing`: the project's own data sets and levels keep their contracts, and breaches are found."""

import re

import pytest

from suite.testing import WrongError, check_dataset, check_partition
from tests.support.commands import document, suite_here
from tests.support.simulations import ROOT
from trials.common.errors import UserError
from trials.heterogeneity import MODIFIERS, PARTITIONS

BROKEN = ROOT / "tests" / "support" / "broken_parts.py"

LEVELS = {
    "dirichlet": "dirichlet(0.3)",
    "dirichlet_by_class": "dirichlet_by_class(0.3)",
    "labels": "labels(3)",
    "shards": "shards(2)",
    "gaussian": "gaussian(mean=20,std=3)",
    "groups": "groups(mean=20)",
    "sizes": "iid+sizes(lognormal(0.3))",
    "system": "iid+system(steps=1..4)",
    "speed": "iid+speed(1)",
    "dropout": "iid+dropout(0.5)",
    "delay": "iid+delay(mean=2,deadline=9)",
}
"""Arguments for what has no defaults that fit 2,000 samples."""


@pytest.mark.parametrize("name", [*PARTITIONS, *MODIFIERS, "shards(2,strict)"])
def test_a_level_keeps_its_contract(name):
    check_partition(LEVELS.get(name, name))


@pytest.mark.parametrize(
    "name",
    ["digits", "synthetic(1,1)", "synthetic_iid", "feddc_synthetic(0.5,0.5)", "sine"],
)
def test_a_data_set_without_files_keeps_its_contract(name):
    check_dataset(name)


BREACHES = {
    (check_dataset, "doubles"): "x must be finite float32",
    (check_dataset, "untested"): "neither all nor none",
    (check_dataset, "classes"): "0 <= y < classes",
    (check_dataset, "chance"): "x differs when it is loaded again",
    (check_partition, "chance"): "equal generators give other parts",
    (check_partition, "twice"): "a sample is given twice",
    (check_partition, "empty"): "gets no sample",
    (check_partition, "idle"): "a whole number of steps, at least 1",
    (check_partition, "silent"): "at least one",
}


@pytest.mark.parametrize(("check", "wrong"), BREACHES)
def test_a_breach_is_said(check, wrong):
    of = {check_dataset: "Data", check_partition: "Parts"}[check]
    if wrong in ("idle", "silent"):
        with pytest.raises(WrongError, match=BREACHES[check, wrong]):
            check(f"iid+{BROKEN}:Steps(fault={wrong})")
        return
    with pytest.raises((WrongError, UserError), match=re.escape(BREACHES[check, wrong])):
        check(f"{BROKEN}:{of}(fault={wrong})")


def test_the_command_checks_what_a_file_has(tmp_path):
    for file, says in {
        "own_dataset.py": "500 samples of shape (2,), 126 to test, born on 10 clients",
        "own_partition.py:Hubs(2)": "5, 12 clients",
    }.items():
        done = suite_here("check", ROOT / "examples" / file, "--json", cwd=tmp_path)
        assert [check["detail"] for check in document(done)["checks"]] == [says]
    broken = suite_here("check", f"{BROKEN}:Parts(fault=twice)", cwd=tmp_path, code=1)
    assert "wrong partition Parts(fault=twice): a sample is given twice" in broken.stdout
