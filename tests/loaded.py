"""simgen with its modules loaded once: a process that has them forks itself for each command.

Loading takes most of a short command. Tests of what a command prints and does start this one;
tests of how it starts, is ended or is installed start Python.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import marshal
import os
import pkgutil
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from functools import cache
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parents[1]
LATE = ("h5py", "jinja2", "rich.table", "rich.console", "elftools.elf.elffile")  # loaded when used
# The program `simgen`: it sends its streams, words, folder and environment, and ends as told.
CLIENT = """#!{python} -IS
import _socket, marshal, os, sys
server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
server.connect({path!r})
told = marshal.dumps((sys.argv[1:], os.getcwd(), dict(os.environ)))
streams = b"".join(each.to_bytes(4, sys.byteorder) for each in (0, 1, 2))
rights = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)]
server.sendmsg([len(told).to_bytes(8, "little")], rights)
server.sendall(told)
code = server.recv(1)
os._exit(code[0] if code else 70)
"""


@cache
def program() -> Path:
    """Where the program is, alone in its folder, until this process ends."""
    folder = Path(tempfile.mkdtemp(prefix="loaded-"))
    path, made = folder / "socket", folder / "bin" / "simgen"
    made.parent.mkdir()
    made.write_text(CLIENT.format(python=sys.executable, path=str(path)))
    made.chmod(0o755)
    command = [sys.executable, __file__, str(path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    server = subprocess.Popen(
        command, cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert server.stdout
    assert server.stdout.readline() == b"ready\n"
    atexit.register(server.communicate)  # its input ends, and so does it
    return made


def serve(path: str) -> None:
    """Load all that simgen has, and run commands, until standard input ends."""
    for package in ("simgen", "simgen_examine"):
        for each in pkgutil.walk_packages([str(ROOT / package)], f"{package}."):
            if not each.name.endswith("__main__"):
                with contextlib.suppress(ImportError):  # an extra that is not installed
                    importlib.import_module(each.name)
    for name in LATE:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    if not os.fork():
        os.read(0, 1)
        shutil.rmtree(Path(path).parent, ignore_errors=True)
        os.killpg(0, signal.SIGTERM)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind(path)
    listening.listen()
    os.write(1, b"ready\n")
    while True:
        client, _ = listening.accept()
        if not os.fork():
            listening.close()
            _run(client)
        client.close()


def _run(client: socket.socket) -> NoReturn:
    start, streams, _, _ = socket.recv_fds(client, 8, 3)
    told = b""
    while len(told) < int.from_bytes(start, "little"):
        told += client.recv(1 << 20)
    words, folder, environment = marshal.loads(told)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    sys.argv = ["simgen", *words]
    sys.stdin, sys.stdout, sys.stderr = (
        os.fdopen(number, mode, encoding="utf-8", closefd=False)
        for number, mode in enumerate("rww")
    )
    code: object = 70
    try:
        from simgen.__main__ import main

        main()
        code = 0
    except SystemExit as stopped:
        code = stopped.code or 0
    except BaseException:
        traceback.print_exc()
        code = 1
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    client.send(bytes([code if isinstance(code, int) else 1]))
    os._exit(0)


if __name__ == "__main__":
    os.setpgid(0, 0)
    serve(sys.argv[1])
