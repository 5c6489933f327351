"""Benches that cannot be, as `tests.support.corpus` has them."""

from tests.support.corpus import Row

NO_STUDY = r"unknown study 'smok'\. Did you mean 'smoke'\?"
BOARD = "must be between 3 and --tunings 16"
ROWS = [
    Row(f"bench {words}", f"bench {words}", says)
    for words, says in {
        "sweep --turns 2": "--turns: goes with --pack",
        "sweep --parallel --turns 2": "--turns: goes with --pack",
        "sweep --parallel --pack": "--parallel: goes without --pack and --max-concurrent",
        "sweep --parallel --max-concurrent 1": "--parallel: goes without --pack and --max-concurrent",
        "sweep --study smok": NO_STUDY,
        "replication --board 2": f"--board 2: {BOARD}",
        "replication --board 17": f"--board 17: {BOARD}",
        "replication --algorithms fedavgg": ".*fedavgg.*fedavg.*",
        "ranges --study smok": NO_STUDY,
        "stopping --name none": ".*none.*",
        "stopping": ".*--name.*",
        "engine --workloads 784": ".*784.*",
        "engine --peers fedjaxx": ".*fedjaxx.*fedjax.*",
        "engine --executions batch": ".*batch.*batched.*",
        "engine --device gpu": ".*gpu.*cpu.*",
        "engine --plot a.jpg": ".*a.jpg.*svg.*",
        "scaling --plot a.jpg": ".*a.jpg.*svg.*",
        "latency --study smok": NO_STUDY,
        "watch --study smok": NO_STUDY,
        "memory smok": f"the sweep to be measured failed: .*{NO_STUDY}",
        "memory smoke --max-concurent 2": ".*--max-concurent.*",
    }.items()
]
