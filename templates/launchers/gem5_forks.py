"""Runs each kernel of a bundle in a process of its own, under gem5.

gem5 executes this in place of apu_se.py, whose path is in `apu_se.path` beside this file, with the
same arguments. apu_se.py makes its machine here once. When it would begin to simulate, this
process forks for each kernel instead: a child leaves out all steps but that of its kernel (by a
state.bin, see tensors/state_file.py), and simulates; what ends one child ends no other.

`forks.json` beside this file:

    jobs    children at a time
    limit   seconds of a processor that a child may take
    id      of the data, as the state has it: hexadecimal
    kernels names, in the order of the steps

Leaves in the folder of the results, for each kernel in NAME/:

    outputs.bin     if the kernel ended
    log.txt         what gem5 said
    ended.json      code: of the child's exit, below 0 a signal's; late: whether it was stopped at
                    the limit; seconds of a processor; and, of one that failed, as far as gem5 can
                    trace what it executes: start, where the kernel's first instruction lies, last,
                    the last one executed, and waves, the last one of each wavefront
"""

import gc
import json
import math
import os
import resource
import shutil
import signal
import sys
import time

import m5

HERE = os.path.dirname(os.path.abspath(__file__))
WAIT = 0.02  # seconds between looks at the children
STUCK = 20  # limits of real time, after which a child that does not compute is stopped
LINKED = "here"  # the path that programs write to: of each child, its own folder
TRACE = "trace.txt"
TO_RUN, LEFT_OUT = 0, 2  # marks of steps

with open(os.path.join(HERE, "forks.json")) as file:
    TOLD = json.load(file)
with open(os.path.join(HERE, "apu_se.path")) as file:
    APU_SE = file.read().rstrip("\n")
RESULTS = os.getcwd()


def begin(number, traced):
    """Makes this process, a child, one that simulates one kernel."""
    kernels = TOLD["kernels"]
    os.chdir(os.path.join(RESULTS, kernels[number]))
    log = os.open(TRACE if traced else "log.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    most = math.ceil(TOLD["limit"]) * (2 if traced else 1)
    resource.setrlimit(resource.RLIMIT_CPU, (most, most + 1))
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    marks = bytearray([LEFT_OUT]) * len(kernels)
    marks[number] = TO_RUN
    with open("state.bin", "wb") as file:
        file.write(b"simgenS1" + bytes.fromhex(TOLD["id"]) + bytes(24) + marks)
    if traced:
        m5.debug.flags["GPUExec"].enable()


class Children:
    """Those that simulate, by process: the kernel's number, when it is late, whether traced."""

    def __init__(self):
        self.running = {}

    def start(self, number, traced=False):
        """True in the child."""
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            begin(number, traced)
            return True
        self.running[pid] = (number, time.monotonic() + STUCK * TOLD["limit"], traced, [False])
        return False

    def wait(self):
        """The next that has ended: its kernel's number, whether it was traced, its code, whether
        it was late, and seconds of a processor."""
        while True:
            for pid, (_, end, _, late) in self.running.items():
                if not late[0] and time.monotonic() > end:
                    late[0] = True
                    os.kill(pid, signal.SIGKILL)
            pid, status, used = os.wait4(-1, os.WNOHANG)
            if pid in self.running:
                number, _, traced, (late,) = self.running.pop(pid)
                code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
                late = late or code == -signal.SIGXCPU
                return number, traced, code, late, used.ru_utime + used.ru_stime
            time.sleep(WAIT)

    def stop(self, *_):
        for pid in self.running:
            os.kill(pid, signal.SIGKILL)
        os._exit(143)


def drive():
    """Simulates all kernels in children; comes back in these alone."""
    kernels = TOLD["kernels"]
    os.symlink("/proc/self/cwd", LINKED)
    for name in kernels:
        os.mkdir(name)
    gc.freeze()
    children = Children()
    signal.signal(signal.SIGTERM, children.stop)
    to_start = [(number, False) for number in reversed(range(len(kernels)))]
    told = {}
    while to_start or children.running:
        if to_start and len(children.running) < TOLD["jobs"]:
            if children.start(*to_start.pop()):
                return
            continue
        number, traced, code, late, seconds = children.wait()
        if traced:
            told[number].update(seen(kernels[number]))
        else:
            told[number] = {"code": code, "late": late, "seconds": seconds}
            if code and not late and "GPUExec" in m5.debug.flags:
                to_start.append((number, True))
                continue
        finish(kernels[number], told.pop(number))
    sys.stdout.flush()
    os._exit(0)


def seen(name):
    """Which instructions were the last ones, of a traced run."""
    start = last = None
    waves = {}
    path = os.path.join(RESULTS, name, TRACE)
    with open(path, errors="replace") as file:
        for line in file:
            before, _, after = line.partition("(pc: ")
            if not after or "Executing inst" not in before:
                continue
            last = int(after.partition(";")[0], 16)
            start = last if start is None else start
            waves[before[before.index("CU") : before.index(" Executing")]] = last
    os.unlink(path)
    return (
        {}
        if start is None
        else {"start": start, "last": last, "waves": sorted(set(waves.values()))}
    )


def finish(name, told):
    """Says how a kernel's child ended; what was left for it alone goes."""
    folder = os.path.join(RESULTS, name)
    if os.path.exists(os.path.join(folder, "state.bin")):
        os.unlink(os.path.join(folder, "state.bin"))
    shutil.rmtree(os.path.join(folder, "fs"), ignore_errors=True)
    with open(os.path.join(folder, "ended.json"), "w") as file:
        json.dump(told, file)


def first(*arguments, **named):
    """What apu_se.py calls to simulate, for the first time."""
    m5.simulate = simulate
    # Statistics of a kernel take gem5 as long as some hundred of its instructions.
    m5.stats.dump = m5.stats.reset = lambda *_: None
    drive()
    return simulate(*arguments, **named)


simulate, m5.simulate = m5.simulate, first
sys.argv[0] = APU_SE
sys.path[0] = os.path.dirname(APU_SE)
code = 0
try:
    with open(APU_SE) as file:
        text = compile(file.read(), APU_SE, "exec")
    exec(text, {"__file__": APU_SE, "__name__": "__m5_main__"})
except SystemExit as ended:
    code = ended.code if isinstance(ended.code, int) else 1 if ended.code else 0
sys.stdout.flush()
sys.stderr.flush()
os._exit(code)
