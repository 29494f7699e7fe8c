"""Runs a bundle on several GPUs of this machine, which share the batch.

Usage: gpus.py RESULTS [--past-l1]        run.py stands one folder up, shards.json beside it

One process has all GPUs. Each has an arena of its own, with its share of the inputs, and access to
its peers' memory. After a step whose results are sums over the batch, kernels add these up: in a
ring or a tree, whose stages are those of MGPUSim (workload/sharding.py). Each reads a neighbour's
memory, and begins when all GPUs have ended the stage before.

Environment: SIMGEN_WARMUP and SIMGEN_REPEATS, as run.py has them.

Leaves in RESULTS what run.py leaves. The time of a launch is that of the GPU that takes longest;
`all_reduce_seconds` is GPU 0's from the end of the step on all GPUs to the end of the last stage on
all.
"""

import csv
import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import run  # noqa: E402

cupy = run.cupy
GUARD = 4096  # bytes of canary behind each tensor
HOLD = 1_000_000_000  # nanoseconds that the GPUs wait at most until the CPU has enqueued a round
TIMES = ("seconds", "seconds_min", "seconds_q1", "seconds_q3", "seconds_max")
REDUCED = ("launches", "bytes", "bus_bytes", "seconds")


@dataclass(frozen=True)
class Move:
    """A launch of a stage: a kernel on a GPU, whose arguments are (GPU, buffer) of a chunk."""

    gpu: int
    kernel: str
    args: tuple[tuple[int, str], ...]
    chunk: dict


def stages(gpus: int, reduction: dict) -> Iterator[list[Move]]:
    """What the GPUs do, one stage after the other; chunks without elements need no launch."""
    yield from filter(None, (tree if reduction["way"] == "tree" else ring)(gpus, reduction))


def ring(gpus: int, reduction: dict) -> Iterator[list[Move]]:
    part, result = reduction["part"], reduction["result"]
    (sums,) = reduction["partials"]

    def moves(first: int, kernel: str, args: Callable) -> list[Move]:
        found = []
        for gpu in range(gpus):
            chunk = reduction["chunks"][(gpu - first) % gpus]
            if chunk["size"]:
                found.append(Move(gpu, chunk[kernel], args(gpu, (gpu - 1) % gpus), chunk))
        return found

    for at in range(gpus - 1):
        to, theirs = result if at == gpus - 2 else sums, sums if at else part
        yield moves(at + 1, "add", lambda gpu, before: ((gpu, part), (before, theirs), (gpu, to)))  # noqa: B023
    for at in range(gpus - 1):
        yield moves(at, "copy", lambda gpu, before: ((before, result), (gpu, result)))


def tree(gpus: int, reduction: dict) -> Iterator[list[Move]]:
    (chunk,), result = reduction["chunks"], reduction["result"]
    if not chunk["size"]:
        return
    held = dict.fromkeys(range(gpus), reduction["part"])  # where a GPU's sum so far is
    apart, level = 1, 0
    while apart < gpus:
        to = result if 2 * apart >= gpus else reduction["partials"][level]
        found = []
        for near in range(0, gpus - apart, 2 * apart):
            far = near + apart
            args = (near, held[near]), (far, held[far]), (near, to)
            found.append(Move(near, chunk["add"], args, chunk))
            held[near] = to
        yield found
        apart, level = 2 * apart, level + 1
    while apart > 1:
        apart //= 2
        yield [
            Move(near + apart, chunk["copy"], ((near, result), (near + apart, result)), chunk)
            for near in range(0, gpus - apart, 2 * apart)
        ]


@dataclass
class Gpus:
    """All GPUs that take part, and what each of them has."""

    count: int
    shared: dict  # workload.json of a share, with what is to be added up (workload/sharding.py)
    arenas: list = field(default_factory=list)
    functions: list = field(default_factory=list)
    streams: list = field(default_factory=list)
    waits: list = field(default_factory=list)
    canary: np.uint32 = np.uint32(0)

    def __post_init__(self) -> None:
        runtime = cupy.cuda.runtime
        here = runtime.getDeviceCount()
        if here < self.count:
            fact = f"{self.count} GPUs are asked for, and this machine has {here}"
            run.stop(3, "cuda", f"{fact}; take --gpus {here}, or another machine")
        for gpu in range(self.count):
            with cupy.cuda.Device(gpu):
                for peer in range(self.count):
                    if peer == gpu:
                        continue
                    if not runtime.deviceCanAccessPeer(gpu, peer):
                        fact = f"GPU {gpu} cannot read the memory of GPU {peer}"
                        run.stop(3, "cuda", f"{fact}; choose others with CUDA_VISIBLE_DEVICES")
                    runtime.deviceEnablePeerAccess(peer)
                self.streams.append(cupy.cuda.Stream(non_blocking=True))
                wait = cupy.RawModule(code=run.WAIT).get_function("wait")
                self.waits.append((wait, cupy.zeros(2, np.uint64)))

    def each(self) -> Iterator[int]:
        """The GPUs, each with its stream, for what is enqueued meanwhile."""
        for gpu in range(self.count):
            with cupy.cuda.Device(gpu), self.streams[gpu]:
                yield gpu

    def load(self, whole: dict, data_id: str, ptx: Path | None) -> None:
        for gpu in range(self.count):
            with cupy.cuda.Device(gpu):
                self.arenas.append(run.make_arena(whole, data_id, self.shared["workload"], gpu))
        run.BUNDLE = HERE  # whose src/ has the kernels of a share
        for gpu in range(self.count):
            with cupy.cuda.Device(gpu):
                self.functions.append(run.functions_of(self.shared["workload"], ptx))
        self.synchronize()
        behind = slice(-4, None)  # the last tensor's canaries
        self.canary = self.arenas[0][behind].get().view(np.uint32)[0]

    def synchronize(self) -> None:
        for gpu in range(self.count):
            with cupy.cuda.Device(gpu) as device:
                device.synchronize()

    def meet(self) -> None:
        """Nothing that comes now begins before all that came is done, on all GPUs."""
        events = []
        for _ in self.each():
            events.append(cupy.cuda.Event(disable_timing=True))
            events[-1].record()
        for gpu in self.each():
            for other, event in enumerate(events):
                if other != gpu:
                    self.streams[gpu].wait_event(event)

    def calls(self, launches: list) -> list[list]:
        """What `run.start` takes, for each GPU."""
        made = []
        for gpu in self.each():
            place = self.arenas[gpu].data.ptr
            of, functions = self.shared["workload"], self.functions[gpu]
            made.append(run.calls_of(of, launches, functions, place, chains=False)[0])
        return made

    def move(self, move: Move, buffers: dict, kernels: dict) -> None:
        start = 4 * move.chunk["start"]
        args = tuple(
            np.uint64(self.arenas[gpu].data.ptr + buffers[name]["offset"] + start)
            for gpu, name in move.args
        )
        with cupy.cuda.Device(move.gpu), self.streams[move.gpu]:
            function = self.functions[move.gpu][move.kernel]
            function((move.chunk["groups"],), (kernels[move.kernel]["block"],), args)


@dataclass
class Step:
    """A step of a share, ready to be enqueued."""

    name: str
    calls: list[list]  # of each GPU
    after: list[list]
    stages: list[list[Move]]
    nbytes: int  # that are added up on each GPU


def steps_of(gpus: Gpus, buffers: dict) -> list[Step]:
    shared, made = gpus.shared, []
    for at, step in enumerate(shared["workload"]["steps"]):
        sums = shared["reductions"][at]
        made.append(
            Step(
                step["layer"],
                gpus.calls(step["launches"]),
                gpus.calls(shared["afterwards"][at]),
                [stage for each in sums for stage in stages(gpus.count, each)],
                sum(run.tensor_nbytes(**buffers[each["result"]]["spec"]) for each in sums),
            )
        )
    return made


def run_round(gpus: Gpus, steps: list[Step], buffers: dict, kernels: dict) -> list:
    """All of it, once; of each step the seconds of its launches, and of adding up."""
    counted = sum(
        sum(map(len, step.calls)) + sum(map(len, step.after)) + sum(map(len, step.stages))
        for step in steps
    )
    gpus.synchronize()
    for gpu in gpus.each():
        wait, found = gpus.waits[gpu]
        # Each call has two events, and a stage has one of each GPU.
        wait((1,), (1,), (np.uint64(min(2 * run.ENQUEUE * (counted + 1), HOLD)), found))
    gpus.meet()
    recorded = []
    for step in steps:
        events = [timed(calls) for gpu, calls in zip(gpus.each(), step.calls)]
        sums = []
        if step.stages:
            gpus.meet()
            sums.append(mark(gpus))
        for stage in step.stages:
            for move in stage:
                gpus.move(move, buffers, kernels)
            gpus.meet()
        if step.stages:
            sums.append(mark(gpus))
        after = [timed(calls) for gpu, calls in zip(gpus.each(), step.after)]
        recorded.append((events, sums, after))
    try:
        gpus.synchronize()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        run.stop(5, "cuda", f"a kernel failed ({error}); {run.BLOCKING}")
    since = cupy.cuda.get_elapsed_time  # in milliseconds, of two events of a GPU
    longest = lambda events: [max(since(*pair) / 1e3 for pair in each) for each in zip(*events)]  # noqa: E731
    return [
        (longest(events), since(*sums) / 1e3 if sums else None, sum(longest(after)))
        for events, sums, after in recorded
    ]


def mark(gpus: Gpus) -> object:
    with cupy.cuda.Device(0), gpus.streams[0]:
        event = cupy.cuda.Event()
        event.record()
    return event


def timed(calls: list) -> list:
    """Enqueue them on this GPU; the events before and after each."""
    pairs = []
    for call in calls:
        pairs.append((cupy.cuda.Event(), cupy.cuda.Event()))
        pairs[-1][0].record()
        run.start(call)
        pairs[-1][1].record()
    return pairs


def collect(gpus: Gpus, whole: dict, buffers: dict) -> np.ndarray:
    """The outputs of the whole workload, with the canaries behind them as the GPUs have theirs."""
    first = whole["outputs_offset"]
    canary = gpus.canary
    made = np.full((whole["arena_nbytes"] - first) // 4, canary, np.uint32).view(np.uint8)
    for buffer in whole["buffers"]:
        if buffer["role"] != "output":
            continue
        share = buffers[buffer["name"]]
        nbytes, part = (run.tensor_nbytes(**each["spec"]) for each in (buffer, share))
        at = buffer["offset"] - first
        behind = made[at + nbytes : at + nbytes + GUARD]
        for gpu in range(gpus.count):
            start = share["offset"]
            with cupy.cuda.Device(gpu):
                held = gpus.arenas[gpu][start : start + part + GUARD].get()
            if (held[part:].view(np.uint32) != canary).any():
                behind[: held.size - part] = held[part:]
            if part < nbytes:
                made[at + gpu * part : at + (gpu + 1) * part] = held[:part]
            elif gpu == 0:
                made[at : at + part] = held[:part]
            elif (made[at : at + part] != held[:part]).any():
                fact = f"differs between GPU 0 and GPU {gpu}, which compute the same"
                run.stop(5, buffer["name"], f"{fact}; run it with --gpus 1")
    return made


def write_times(path: Path, whole: dict, steps: list[Step], rounds: list, gpus: int) -> None:
    """One line for each launch of the whole workload. A share may have more launches or fewer;
    those without a counterpart count with the last one of their step."""
    reduces = any(step.stages for step in steps)
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        more = [f"all_reduce_{name}" for name in REDUCED] if reduces else []
        writer.writerow(["launch", "kernel", *TIMES, "rounds", *more])
        at = 0
        for nth, (step, whole_step) in enumerate(zip(steps, whole["steps"])):
            names = [launch["kernel"] for launch in whole_step["launches"]]
            seconds = np.zeros((len(rounds), len(names)))
            for row, found in zip(seconds, rounds):
                launches, _, after = found[nth]
                for place, value in enumerate(launches):
                    row[min(place, len(names) - 1)] += value
                row[-1] += after
            sums = [found[nth][1] for found in rounds]
            for place, name in enumerate(names):
                median, *others = np.quantile(seconds[:, place], [0.5, 0, 0.25, 0.75, 1])
                told = [""] * len(more)
                if step.stages and place == len(names) - 1:
                    bus = step.nbytes * 2 * (gpus - 1) / gpus
                    time = f"{np.median(sums):.9f}"
                    told = [sum(map(len, step.stages)), step.nbytes, bus, time]
                values = [f"{value:.9f}" for value in (median, *others)]
                writer.writerow([at, name, *values, len(rounds), *told])
                at += 1


def main(results: Path, past_l1: bool) -> None:
    for variable, usual in (("SIMGEN_NOISE", ""), ("SIMGEN_L2", "left"), ("SIMGEN_COUNTERS", "no")):
        if os.environ.get(variable, "") not in ("", usual):
            run.stop(2, variable, "is for one GPU; leave it out, or take --gpus 1")
    whole = json.loads((run.BUNDLE / "workload.json").read_text())
    manifest = json.loads((run.BUNDLE / "manifest.json").read_text())
    shared = json.loads((HERE / "shards.json").read_text())
    gpus, of = Gpus(shared["gpus"], shared), shared["workload"]
    gpus.load(whole, manifest["data"]["id"], results if past_l1 else None)
    buffers = {each["name"]: each for each in of["buffers"]}
    kernels = {each["name"]: each for each in of["kernels"]}
    steps = steps_of(gpus, buffers)
    rounds = [run_round(gpus, steps, buffers, kernels)]
    collect(gpus, whole, buffers).tofile(results / "outputs.bin")
    warmup, repeats = run.count("SIMGEN_WARMUP", 0), max(1, run.count("SIMGEN_REPEATS", 1))
    if warmup or repeats > 1:
        rounds = [run_round(gpus, steps, buffers, kernels) for _ in range(warmup + repeats)]
    write_times(results / "launches.csv", whole, steps, rounds[-repeats:], gpus.count)
    (results / "machine.json").write_text(json.dumps(run.machine() | {"gpus": gpus.count}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), past_l1=sys.argv[2:] == ["--past-l1"])
