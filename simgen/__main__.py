"""The command `simgen`, and `python -m simgen`."""

from __future__ import annotations

import signal


def main() -> None:
    """Entry point. An interruption waits until modules are loaded, or Python tells a traceback."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    from simgen.cli import main as commands

    commands.main()


if __name__ == "__main__":
    main()
