"""What the tests of published image sets share: loading below a root, without a network."""

from pathlib import Path

from trials import datasets


def load(name: str, root: Path, seed: int = 0, clients: int | None = None) -> datasets.Dataset:
    return datasets.parse(name).load(seed, clients, str(root))


def offline(monkeypatch) -> None:
    from trials.datasets.torchvision_import import torchvision

    def fail(*_args, **_given):
        raise OSError("no network")

    monkeypatch.setattr(torchvision.datasets.utils, "download_url", fail)
