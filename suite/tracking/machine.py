"""What of a machine decides the last bits of a run."""

import platform
from pathlib import Path


def processor() -> str:
    """The processor's name; "" where the system does not tell."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def machine() -> dict[str, str]:
    """The processor, and what programs it runs."""
    return {
        "processor": processor() or "unknown",
        "architecture": platform.machine(),
        "system": platform.system(),
        "python": platform.python_version(),
    }
