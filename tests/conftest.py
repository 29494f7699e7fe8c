"""For all tests: shared modules can be imported, and no test fails because a machine is slow."""

from __future__ import annotations

import signal

import pytest
from hypothesis import settings

pytest.register_assert_rewrite("layer_bundles", "layer_variants", "machine_code")
settings.register_profile("simgen", deadline=None)
settings.load_profile("simgen")

# What a shell starts in the background ignores ^C, and so does what that starts: tests send it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# So does nohup with SIGHUP: pytest goes on, but a program that it starts heeds it (a handler is not
# inherited), and a shell can trap it.
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)
