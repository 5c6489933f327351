"""How long something takes, in words."""


def spell(seconds: float) -> str:
    """Return a time to two digits or so: `40 s`, `12 min`, `3.5 h`."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
