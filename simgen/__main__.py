"""The command `simgen`, and `python -m simgen`."""

from __future__ import annotations

import gc
import signal


def main() -> None:
    """Entry point. An interruption waits until modules are loaded, or Python tells a traceback."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    gc.set_threshold(100_000)  # what modules make stays: looking through it again finds nothing
    from simgen.cli import main as commands

    commands.main()


if __name__ == "__main__":
    main()
