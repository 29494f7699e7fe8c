"""Runs a bundle on this machine's GPU with CuPy: the same kernels, data and launches as simulated.

Usage: run.py RESULTS [--past-l1]        needs CuPy and NumPy, nothing else

With --past-l1 no load of global memory is answered by an L1 cache; the PTX that says so is left in
RESULTS too.

Environment:
    SIMGEN_WARMUP   rounds of all launches before the timed ones (0)
    SIMGEN_REPEATS  timed rounds (1); the outputs are those of the first round of all
    SIMGEN_NOISE    more rounds, until the standard deviation of a round's time is at most so many
                    per cent of the mean, or LONGEST seconds have passed (no more)
    SIMGEN_L2       what the L2 cache holds before the timed launches of a step: `left`, what the
                    step before has left (the default); `cold`, other data, written: it goes to
                    memory meanwhile; `clean`, other data, read; `warm`, what it leaves itself

    SIMGEN_COUNTERS `yes`: count what the hardware does, too: all launches run once more under
                    Nsight Compute, each alone and from cold caches
    SIMGEN_NCU      its program, where it is not found

A round after which the clock of the GPU is below SLOWEST of its highest is timed again: so many
rounds at most as are wanted. The measures are NVBench's (its docs/benchmarks.md, cold and batch
measurements; stdrel stopping criterion; throttling detection).

Launches of a kernel that the workload says may be one, are one here, whose work-groups wait for
each other in between (CHAIN, in src/): of its time, each has an equal part. With --past-l1,
counters or queues, or where the GPU does not hold all of its work-groups at once, they are several.

Leaves in RESULTS: outputs.bin, launches.csv (CUDA-event seconds per launch), machine.json, and with
counters ncu.csv. Where it finds a state.bin there, the layers that are marked in it are not run
(tensors/state_file.py).
"""

import contextlib
import csv
import ctypes
import hashlib
import importlib.util
import json
import math
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path

try:
    import cupy
    import numpy as np
    from cupy.cuda import nvrtc
except ImportError:
    fact = f"cuda: {sys.executable} has no CuPy and NumPy"
    cure = "install them (python -m pip install cupy-cuda13x), or set SIMGEN_PYTHON to a Python"
    print(f"simgen: error: {fact}; {cure} that has them", file=sys.stderr)
    raise SystemExit(3) from None

BUNDLE = Path(__file__).resolve().parent.parent
PAGE = 4096
TO_RUN, FINISHED, GIVEN = 0, 1, 3  # marks of steps
# Holds the GPU until the CPU has enqueued a round: without it, the events around a short kernel
# would measure how fast the CPU launches. It leaves the clock's cycles and the nanoseconds.
WAIT = """
extern "C" __global__ void wait(unsigned long long nanoseconds, unsigned long long* counted)
{
    unsigned long long start, now;
    const long long first = clock64();
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
    do
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    while (now - start < nanoseconds);
    counted[0] = clock64() - first;
    counted[1] = now - start;
}
"""
BLOCKING = "with CUDA_LAUNCH_BLOCKING=1 the message names the kernel that did it"
ENQUEUE = 40_000  # nanoseconds that the CPU is given for each launch
CLOCKED = 50_000  # nanoseconds in which the clock is counted after a round
SLOWEST = 0.75  # of the highest clock
LONGEST = 15.0  # seconds that rounds are added for
L2 = ("left", "cold", "clean", "warm")
# Reads zeros, which are to be in the L2 cache.
READ = """
extern "C" __global__ void read(const uint4* from, unsigned long long count, unsigned* found)
{
    unsigned seen = 0;
    unsigned long long i = blockIdx.x * blockDim.x + threadIdx.x;
    for (; i < count; i += gridDim.x * blockDim.x) {
        const uint4 four = from[i];
        seen |= four.x | four.y | four.z | four.w;
    }
    if (seen)
        *found = seen;
}
"""
CHAIN = "CHAIN"  # what the text of a kernel has launches for that are one
OPTIONS = ("--std=c++20", "--fmad=false")  # fused multiply-adds only where the kernel says so
# A user's kernel is compiled as nvcc does it, with subnormals, which CuPy flushes:
DEVICE = "--device-as-default-execution-space"
# and fused, unless it says this, which NVRTC does not know:
FUSED = ("--std=c++20", "--fmad=true")
SEPARATE = re.compile(
    r"^[ \t]*#[ \t]*pragma[ \t]+"
    r"(?:clang[ \t]+fp[ \t]+contract[ \t]*\([ \t]*off|STDC[ \t]+FP_CONTRACT[ \t]+OFF)",
    re.M,
)
# How NVRTC and ptxas begin a line that says an error.
ERROR = re.compile(r"(?:\S.*?[:;] |ptxas )(?:\w+ )?(?:error|fatal)\b[ #\w-]*:")
# What Nsight Compute is asked for (targets/ncu.py has what it means).
COUNTERS = (
    "gpu__time_duration.sum",
    "sm__cycles_elapsed.max",
    "sm__cycles_elapsed.sum",
    "sm__cycles_active.sum",
    "sm__warps_active.sum",
    "smsp__inst_executed.sum",
    "smsp__issue_active.sum",
    "smsp__thread_inst_executed.sum",
    "smsp__thread_inst_executed_pred_on.sum",
    "smsp__warps_eligible.sum",
    *(f"smsp__sass_thread_inst_executed_op_{op}_pred_on.sum" for op in ("ffma", "fadd", "fmul")),
    "smsp__sass_inst_executed_op_shared.sum",
    "smsp__sass_inst_executed_op_global_ld.sum",
    "smsp__sass_inst_executed_op_global_st.sum",
    *(
        f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio"
        for reason in (
            "barrier", "branch_resolving", "dispatch_stall", "drain", "gmma", "imc_miss",
            "lg_throttle", "long_scoreboard", "math_pipe_throttle", "membar", "mio_throttle",
            "misc", "no_instruction", "short_scoreboard", "sleeping", "tex_throttle", "wait",
        )
    ),
    *(f"{cache}__t_sectors{what}.sum" for cache in ("l1tex", "lts")
      for what in ("", "_lookup_hit", "_lookup_miss")),
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
    *(f"l1tex__{what}_op_{way}.sum"
      for what in ("data_pipe_lsu_wavefronts_mem_shared", "t_sectors_pipe_lsu_mem_global")
      for way in ("ld", "st")),
    *(f"lts__t_sectors_op_{way}.sum" for way in ("read", "write")),
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "dram__sectors_read.sum",
    "dram__sectors_write.sum",
    *(f"sm__inst_executed_pipe_{pipe}.avg.pct_of_peak_sustained_elapsed"
      for pipe in ("fma", "xu", "lsu", "cbu")),
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.avg.pct_of_peak_sustained_elapsed",
    *(f"{unit}__throughput.avg.pct_of_peak_sustained_elapsed"
      for unit in ("l1tex", "lts", "dram")),
    "device__attribute_max_threads_per_multiprocessor",
)  # fmt: skip
PROFILERS = ("/usr/local/cuda/bin/ncu", "/opt/nvidia/nsight-compute/*/ncu")
STOPPING = threading.Lock()  # held from the first error on
MODULES: dict = {}  # of users' kernels, by name
COUNTING = "SIMGEN_COUNTING"  # in the environment of the program that the profiler starts


# NVRTC's option -dlcm=cg would leave out the loads from const __restrict__ pointers, ld.global.nc.
LOAD = re.compile(r"\bld\.global(?:\.nc)?(?=(?:\.v[24])?\.[bfsu][0-9]+\b)")


def main(results: Path, past_l1: bool) -> None:
    workload = json.loads((BUNDLE / "workload.json").read_text())
    manifest = json.loads((BUNDLE / "manifest.json").read_text())
    try:
        cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        stop(3, "cuda", f"no usable GPU ({error}); run it on a machine that has one")
    counting = bool(os.environ.get(COUNTING))
    if os.environ.get("SIMGEN_COUNTERS") == "yes" and not counting:
        profile(results)
    buffers = {buffer["name"]: buffer for buffer in workload["buffers"]}
    arena = make_arena(workload, manifest["data"]["id"])
    functions = functions_of(workload, results if past_l1 else None)
    todo = restore(results / "state.bin", workload, buffers, arena)
    steps = [workload["steps"][at] for at in todo]
    launches = [launch for step in steps for launch in step["launches"]]
    if counting:
        count_launches(calls_of(workload, launches, functions, arena.data.ptr, chains=False)[0])
        return
    turns = turns_of(workload["queues"], todo)
    made = [
        calls_of(workload, step["launches"], functions, arena.data.ptr, chains=not turns)
        for step in steps
    ]
    calls = [each for each, _ in made]
    wait = cupy.RawModule(code=WAIT).get_function("wait")
    spans, clock = run_round(calls, wait, turns=turns)
    outputs = arena[workload["outputs_offset"] :].get()
    timed = measure(calls, wait, turns) or ([spans], {"sm_clock": megahertz(clock)})
    outputs.tofile(results / "outputs.bin")
    write_times(results / "launches.csv", launches, np.array(timed[0]), bool(turns))
    (results / "machine.json").write_text(json.dumps(machine() | timed[1]))


def turns_of(queues: list, todo: list[int]) -> list[tuple[int, list[int]]]:
    """(queue, places in `todo` of the steps that it waits for) of each step that is to be run;
    none where there is one queue."""
    places = {step: at for at, step in enumerate(todo)}
    found = []
    for step in todo if queues else ():
        waits = [places[each] for each in queues[step]["after"] if each in places]
        found.append((queues[step]["queue"], waits))
    return found


def profile(results: Path) -> None:
    """Run this program under Nsight Compute, which leaves ncu.csv; the GPU holds nothing yet."""
    found = [Path("/").glob(pattern.lstrip("/")) for pattern in PROFILERS]
    installed = sorted(str(path) for paths in found for path in paths)
    program = os.environ.get("SIMGEN_NCU") or shutil.which("ncu") or (installed or [""])[-1]
    if not program or not shutil.which(program):
        fact = f"{program} is no program" if program else "Nsight Compute is not here"
        stop(3, "ncu", f"{fact}; install it (CUDA has it), name it in SIMGEN_NCU, or leave "
             "--counters out")  # fmt: skip
    log = results / "ncu.csv"
    words = [
        program, "--csv", "--page", "raw", "--print-units", "base", "--print-fp", "--log-file", log,
        "--force-overwrite", "--target-processes", "all", "--profile-from-start", "off",
        "--clock-control", "none", "--metrics", ",".join(COUNTERS), sys.executable, *sys.argv,
    ]  # fmt: skip
    print(f"simgen: counters: {program}", flush=True)
    done = subprocess.run(words, env={**os.environ, COUNTING: "1"}, stdin=subprocess.DEVNULL)
    said = log.read_text(errors="replace") if log.exists() else ""
    if "ERR_NVGPUCTRPERM" in said:
        stop(3, "ncu", "this user may not read the GPU's counters (ERR_NVGPUCTRPERM); ask the "
             "administrator to load the driver with NVreg_RestrictProfilingToAdminUsers=0, or to "
             "run it as root")  # fmt: skip
    errors = [line for line in said.splitlines() if line.startswith("==ERROR==")]
    if done.returncode or errors:
        told = (
            errors[0].removeprefix("==ERROR==").strip()
            if errors
            else f"it ended with {done.returncode}"
        )
        stop(5, "ncu", f"{told}; read log.txt and ncu.csv, or leave --counters out")


def count_launches(calls: list) -> None:
    """All launches once, which the profiler counts; nothing else that runs on the GPU."""
    cupy.cuda.Device().synchronize()
    cupy.cuda.profiler.start()
    for call in calls:
        start(call)
    cupy.cuda.Device().synchronize()
    cupy.cuda.profiler.stop()


def measure(calls: list, wait: cupy.RawKernel, turns: list) -> tuple[list, dict[str, str]] | None:
    """What run_round tells of the launches of each timed round, and what is told of these; None:
    the first round of all is what was asked for."""
    warmup, repeats = count("SIMGEN_WARMUP", 0), max(1, count("SIMGEN_REPEATS", 1))
    noise, l2 = percent("SIMGEN_NOISE"), os.environ.get("SIMGEN_L2") or "left"
    if l2 not in L2:
        stop(2, "SIMGEN_L2", f"{l2!r} is unknown; write one of {', '.join(L2)}")
    if l2 != "left" and turns:
        stop(2, "SIMGEN_L2", f"{l2}: layers run at once in several queues, so there is no moment "
             "before each; leave it out, or build without --queues")  # fmt: skip
    if repeats == 1 and not warmup and noise is None and l2 == "left":
        return None
    for _ in range(warmup):
        run_round(calls, wait, l2, turns)
    rounds, slow = [], 0
    highest = cupy.cuda.Device().attributes.get("ClockRate", 0) * 1e3  # it is in kHz
    end = time.monotonic() + LONGEST
    while len(rounds) < repeats or (noisy(rounds, noise) and time.monotonic() < end):
        spans, clock = run_round(calls, wait, l2, turns)
        if clock < SLOWEST * highest and slow < repeats:
            slow += 1
        else:
            rounds.append((spans, clock))
    clocks = [clock for _, clock in rounds]
    told = {
        "l2": l2,
        "sm_clock": f"{megahertz(float(np.median(clocks)))}, lowest {megahertz(min(clocks))}",
        "slow_rounds_left_out": str(slow),
    }
    return [spans for spans, _ in rounds], told


def noisy(rounds: list, percents: float | None) -> bool:
    """Whether the standard deviation of a round's time is more of the mean than that."""
    totals = [sum(end - start for start, end in spans) for spans, _ in rounds]
    if percents is None:
        return False
    return len(totals) < 3 or np.std(totals, ddof=1) > percents / 100 * np.mean(totals)


def megahertz(clock: float) -> str:
    return f"{clock / 1e6:.0f} MHz"


def functions_of(workload: dict, ptx: Path | None = None) -> dict[str, cupy.RawKernel]:
    """All kernels, compiled side by side, by name."""
    wanted = {}
    for kernel in workload["kernels"]:
        own = own_function, kernel
        wanted[kernel["name"]] = own if kernel.get("source") else (compile_kernel, kernel, ptx)
        if kernel.get("chained") and ptx is None:
            wanted[kernel["name"], CHAIN] = compile_kernel, kernel, None, CHAIN
    # NVRTC and CuPy's calls of it work in as many threads as there are.
    here = cupy.cuda.Device()
    with ThreadPoolExecutor(len(os.sched_getaffinity(0)), initializer=here.use) as pool:
        made = {name: pool.submit(*call) for name, call in wanted.items()}
        try:
            found = {name: each.result() for name, each in made.items()}
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    asking = {kernel["name"]: kernel["lds_nbytes"] for kernel in workload["kernels"]}
    for name, function in found.items():
        nbytes = asking[name if isinstance(name, str) else name[0]]
        if nbytes:
            ask(function, nbytes)
    return found


def calls_of(
    workload: dict, launches: list, functions: dict, arena: int, *, chains: bool = True
) -> tuple[list, list]:
    """(what `start` takes, what must stay as long): launches in an arena at an address."""
    kernels = {kernel["name"]: kernel for kernel in workload["kernels"]}
    buffers = {buffer["name"]: buffer for buffer in workload["buffers"]}
    addresses = [[arena + place for place in places(launch, buffers)] for launch in launches]
    calls, kept, at = [], [], 0  # what chains need
    while at < len(launches):
        launch, args = launches[at], addresses[at]
        kernel = kernels[launch["kernel"]]
        function, block = functions[kernel["name"]], extents(kernel)
        args, count = [np.uint64(address) for address in args], 1
        if kernel.get("source"):
            args = own_arguments(kernel, launch, args)
            check_arguments(function, kernel["name"], [each.nbytes for each in args])
        if chains and (kernel["name"], CHAIN) in functions and joined(launch["grid"]):
            count, strides = chain(launches, addresses, at)
        if kernel["maps"]:
            args.append(tensor_maps(kernel["maps"], addresses[at]))
        if count > 1:
            function = functions[kernel["name"], CHAIN]
            kept += [cupy.asarray(strides), cupy.zeros(launch["grid"][1], np.uint32)]
            args += [*(np.uint64(each.data.ptr) for each in kept[-2:]), np.uint32(count)]
        grid = tuple(launch["grid"])
        if kernel["tiles"]:
            grid = (sharing(kernel["tiles"], grid[0], workload["machine"]["units"]), 1, 1)
        calls.append((function, grid, block, tuple(args), kernel["lds_nbytes"], count))
        at += count
    return calls, kept


def extents(kernel: dict) -> tuple[int, int, int]:
    x, y, z = [*(kernel.get("group") or [kernel["block"] + kernel["movers"]]), 1, 1][:3]
    return x, y, z


def sharing(tiles: int, planned: int, units: int) -> int:
    """Work-groups that share so many tiles: for each unit of this GPU as many as were planned for
    each of so many units; an even number, since there may be pairs, unless 1 is planned."""
    here = count("SIMGEN_UNITS", cupy.cuda.Device().attributes["MultiProcessorCount"])
    return max(min(2, planned), min(tiles, planned * here // units) // 2 * 2)


def own_arguments(kernel: dict, launch: dict, addresses: list) -> list:
    """What a user's kernel takes, in the order of its parameters: addresses, numbers, structures
    with addresses in them. Those of variables of the whole GPU go where its text has them."""
    given = len(addresses) - len(kernel["source"]["variables"])
    values = launch.get("values", ())
    inside = {number for value in values for _, number in value["tensors"]}
    args = [each for number, each in enumerate(addresses[:given]) if number not in inside]
    for value in values:
        words = [value["bits"], *value["more"]]
        for word, number in value["tensors"]:
            words[word] = int(addresses[number])
        raw = b"".join(word.to_bytes(8, "little") for word in words)[: value["nbytes"]]
        kind = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}.get(len(raw))
        of = np.frombuffer(raw, kind or f"V{len(raw)}")[0]
        args.insert(value["at"], of)  # CuPy passes arrays of NumPy by value
    if (held := np.array(addresses[given:], np.uint64)).size:
        place = MODULES[kernel["name"]].get_global("simgen_variables").ptr
        to_device = cupy.cuda.runtime.memcpyHostToDevice
        cupy.cuda.runtime.memcpy(place, held.ctypes.data, held.nbytes, to_device)
    return args


def check_arguments(function: cupy.RawKernel, name: str, given: list[int]) -> None:
    """Compare sizes with what the function takes; drivers before CUDA 12.4 do not tell."""
    driver = ctypes.CDLL("libcuda.so.1")
    if not hasattr(driver, "cuFuncGetParamInfo"):
        return
    sizes, offset, size = [], ctypes.c_size_t(), ctypes.c_size_t()
    place = ctypes.c_void_p(function.kernel.ptr)
    while len(sizes) <= len(given) and not driver.cuFuncGetParamInfo(
        place, ctypes.c_size_t(len(sizes)), ctypes.byref(offset), ctypes.byref(size)
    ):
        sizes.append(size.value)
    if sizes != given:
        fact = f"it takes arguments of {sizes[: len(given) + 1]} bytes, and launches give {given}"
        stop(4, f"kernel {name}", f"{fact}; write args of its types")


def joined(grid: list) -> bool:
    """Whether the GPU holds so many work-groups at once: each unit has one, whatever it takes."""
    return math.prod(grid) <= cupy.cuda.Device().attributes["MultiProcessorCount"]


def chain(launches: list, addresses: list[list[int]], first: int) -> tuple[int, np.ndarray]:
    """How many launches from one on may be one, and how far each argument goes on at every one."""
    alike = lambda at: all(launches[at][k] == launches[first][k] for k in ("kernel", "grid"))  # noqa: E731
    strides, end = None, first + 1
    while end < len(launches) and alike(end):
        further = np.subtract(addresses[end], addresses[end - 1], dtype=np.int64)
        if strides is not None and (further != strides).any():
            break
        strides, end = further, end + 1
    return end - first, strides if strides is not None else np.zeros(0, np.int64)


def places(launch: dict, buffers: dict) -> list[int]:
    """Of a launch's arguments in the arena, in bytes."""
    starts = [buffers[name]["offset"] for name in launch["args"]]
    return [start + more for start, more in zip(starts, launch["offsets"] or [0] * len(starts))]


def make_arena(
    workload: dict, data_id: str, share: dict | None = None, gpu: int = 0
) -> cupy.ndarray:
    """The arena on the GPU: the canary everywhere, then the inputs from data.h5. With a share of
    the workload, one of several GPUs has its rows of them."""
    path = BUNDLE / "data.h5"
    inputs = [buffer for buffer in workload["buffers"] if buffer["role"] == "input"]
    places = {each["name"]: each for each in (share or workload)["buffers"]}
    try:
        with open(path, "rb") as file:
            head = file.read(56)
            table = file.read(16 * (len(inputs) + 1))
    except OSError as error:
        stop(3, path, f"{error.strerror}; build the bundle again")
    if len(head) < 56 or head[:8] != b"simgenD1":
        stop(7, path, "not a data file of simgen; build the bundle again")
    nbytes, entries = struct.unpack("<QQ", head[40:])
    if nbytes != path.stat().st_size or entries != len(inputs) + 1:
        stop(7, path, f"{path.stat().st_size} bytes instead of {nbytes}; build the bundle again")
    if head[8:40].hex() != data_id:
        stop(7, path, "holds the data of another workload; build the bundle again")
    arena = cupy.empty((share or workload)["arena_nbytes"] // 4, dtype=cupy.uint32)
    (canary,) = struct.unpack_from("<Q", table, 16 * len(inputs))
    arena.fill(int(np.memmap(path, dtype="<u4", mode="r", offset=canary, shape=1)[0]))
    for buffer, (offset, size) in zip(inputs, struct.iter_unpack("<QQ", table)):
        place = places[buffer["name"]]
        held = tensor_nbytes(**place["spec"]) if share else size
        offset += gpu * held if held < size else 0
        values = np.memmap(path, dtype="<u4", mode="r", offset=offset, shape=held // 4)
        start = place["offset"] // 4
        arena[start : start + held // 4].set(np.ascontiguousarray(values))
    return arena.view(cupy.uint8)


def tensor_nbytes(shape: list, dtype: str) -> int:
    """In memory. A type's name has its bits; narrow elements are filled up to fours."""
    bits = int(re.search("[0-9]+", dtype)[0])
    held = math.prod(shape) if bits >= 32 else -(-math.prod(shape) // 4) * 4
    return held * bits // 8


def restore(path: Path, workload: dict, buffers: dict, arena: cupy.ndarray) -> list:
    """Indices of the steps to be run; what the others have left, and is read, goes to its place."""
    steps = workload["steps"]
    if not path.exists():
        return [*range(len(steps))]
    with open(path, "rb") as file:
        marks = file.read(64 + len(steps))[64:]
        names = [name for step in steps for _, name in step["writes"]]
        first = min(buffers[name]["offset"] for name in names)
        head = -(-(64 + len(steps)) // PAGE) * PAGE
        for step, mark in zip(steps, marks):
            for _, name in step["writes"] if mark in (FINISHED, GIVEN) else ():
                start, size = buffers[name]["offset"], tensor_nbytes(**buffers[name]["spec"])
                file.seek(head + start - first)
                arena[start : start + size].set(np.frombuffer(file.read(size), np.uint8))
    return [at for at, mark in enumerate(marks) if mark == TO_RUN]


def compile_kernel(kernel: dict, ptx: Path | None, *defined: str) -> cupy.RawKernel:
    """The function; with a folder for its PTX, with loads that miss in L1."""
    name = kernel["name"]
    source = (BUNDLE / "src" / f"{name}.hip").read_text()
    prelude = (BUNDLE / "src" / "prelude.h").read_text()
    whole = source.replace('#include "prelude.h"\n', prelude)
    capability = cupy.cuda.Device().compute_capability
    if kernel["maps"] and capability != "90":
        fact = f"wgmma is of compute capability 9.0, and this GPU has {capability}"
        stop(3, f"kernel {name}", f"{fact}; build with --matrix no, or --plan-for another machine")
    code = f"compute_{capability}" + ("a" if kernel["maps"] else "")
    try:
        if ptx is None and kernel["maps"]:
            with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
                Path(file.name).write_bytes(kept(whole, name, code.replace("compute", "sm")))
                return cupy.RawModule(path=file.name).get_function(name)
        if ptx is None:
            options = (*OPTIONS, *(f"-D{word}" for word in defined))
            return cupy.RawModule(code=whole, options=options).get_function(name)
        path = ptx / f"{name}.ptx"
        path.write_text(LOAD.sub("ld.global.cg", kept(whole, name, code).decode().rstrip("\0")))
        return cupy.RawModule(path=str(path)).get_function(name)
    except cupy.cuda.compiler.CompileException as error:
        stop(5, f"src/{name}.hip", f"NVRTC refuses it ({refusal(error)}); tell simgen's developers")


def own_function(kernel: dict) -> cupy.RawKernel:
    """A user's kernel: PTX as it is, C++ through NVRTC."""
    name, entry = kernel["name"], kernel["source"]["entry"]
    is_ptx = kernel["source"]["language"] == "ptx"
    path = Path(__file__).resolve().parent / "own" / f"{name}.{'ptx' if is_ptx else 'cu'}"
    try:
        if is_ptx:
            function = cupy.RawModule(path=str(path)).get_function(entry)
        else:
            code = path.read_text()
            separate = kernel["source"]["contract"] == "off" or SEPARATE.search(code)
            options = (*(OPTIONS if separate else FUSED), DEVICE, *headers())
            symbol, _, made = kept(code, name, architecture(), options, entry).partition(b"\0")
            with tempfile.NamedTemporaryFile() as file:
                Path(file.name).write_bytes(made)
                MODULES[name] = cupy.RawModule(path=file.name)
                MODULES[name].compile()  # loads it
                function = MODULES[name].get_function(symbol.decode())
        assert function.kernel  # it is loaded when it is asked for
    except cupy.cuda.compiler.CompileException as error:
        wanted = re.findall(r"^#include <(.+)>$", path.read_text(), re.M)
        folders = [option.removeprefix("-I") for option in headers()]
        gone = [
            h for h in wanted if h[-2:] == ".h" and not any(Path(f, h).exists() for f in folders)
        ]
        cure = f"nvidia-cuda-runtime has CUDA's {gone[0]}; install it" if gone else "correct it"
        stop(2, f"kernel {name}", f"NVRTC refuses it ({refusal(error)}); {cure}")
    except cupy.cuda.driver.CUDADriverError as error:
        fact = f"this GPU, of compute capability {cupy.cuda.Device().compute_capability}, does not"
        stop(3, f"kernel {name}", f"{fact} take it ({error}); bring code for it")
    return function


def architecture() -> str:
    """This GPU for NVRTC: machine code, or PTX for the last GPU before it that NVRTC knows."""
    here = int(cupy.cuda.Device().compute_capability)
    known = max((each for each in nvrtc.getSupportedArchs() if each <= here), default=here)
    return f"{'sm' if known == here else 'compute'}_{known}"


def headers() -> list[str]:
    """Options that name folders of CUDA's own headers: of the CUDA that CuPy has, and of wheels."""
    found = importlib.util.find_spec("nvidia")
    wheels = [Path(each) for each in (found.submodule_search_locations if found else None) or ()]
    cuda = cupy.cuda.get_cuda_path()
    folders = [Path(cuda) / "include"] if cuda else []
    major = cupy.cuda.runtime.runtimeGetVersion() // 1000
    for root in wheels:
        folders += [root / f"cu{major}/include", root / "cuda_runtime/include"]
    found = [each for each in folders if (each / "cuda_fp16.h").exists()]
    found += [each / "cccl" for each in found if (each / "cccl").exists()]
    carried = Path(cupy.__file__).parent / "_core/include/cupy/_cccl/libcudacxx"
    return [f"-I{each}" for each in (*found, carried)]


def refusal(error: object) -> str:
    """The first error in a compiler's log, else its last line; warnings come first, and many."""
    lines = [line.rstrip() for line in str(error).splitlines() if line.strip()]
    return next(filter(ERROR.match, lines), lines[-1] if lines else "it says nothing")


def ask(function: cupy.RawKernel, nbytes: int) -> None:
    """Let launches of the function have so much shared memory beside what it declares."""
    device = cupy.cuda.Device()
    most = device.attributes["MaxSharedMemoryPerBlockOptin"]
    if nbytes > most:
        fact = f"takes {nbytes} bytes of shared memory, and this GPU gives {most} to a block"
        stop(
            3, f"kernel {function.name}", f"{fact}; build with --matrix no, or --plan-for this GPU"
        )
    function.max_dynamic_shared_size_bytes = nbytes


def kept(
    source: str, name: str, code: str, options: tuple[str, ...] = OPTIONS, entry: str = ""
) -> bytes:
    """What `compiled` makes, once for each compiler: it lies where CuPy keeps other kernels."""
    key = json.dumps([compiler(), options, source, name, code, *([entry] if entry else ())])
    home = Path(os.environ.get("CUPY_CACHE_DIR") or Path("~/.cupy/kernel_cache").expanduser())
    path = home / f"simgen-{hashlib.sha256(key.encode()).hexdigest()}"
    with contextlib.suppress(OSError):
        content = path.read_bytes()
        if content[:32] == hashlib.sha256(content[32:]).digest():
            return content[32:]
    made = compiled(source, name, code, options, entry)
    with contextlib.suppress(OSError):
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=home, delete=False) as file:
            file.write(hashlib.sha256(made).digest() + made)
        os.replace(file.name, path)
    return made


@lru_cache
def compiler() -> str:
    """NVRTC as it tells of itself in the PTX that it makes: the version to its last number."""
    return compiled("", "none", "compute_90").decode()


def compiled(
    source: str, name: str, code: str, options: tuple[str, ...] = OPTIONS, entry: str = ""
) -> bytes:
    """PTX for a virtual architecture, compute_90; machine code for a real one, sm_90. With an
    entry, as C++ writes it, its symbol before."""
    program = nvrtc.createProgram(source, f"{name}.cu", (), ())
    try:
        if entry:
            nvrtc.addNameExpression(program, entry)
        nvrtc.compileProgram(program, (*options, f"--gpu-architecture={code}"))
        made = (nvrtc.getCUBIN if code.startswith("sm_") else nvrtc.getPTX)(program)
        return f"{nvrtc.getLoweredName(program, entry)}\0".encode() + made if entry else made
    except nvrtc.NVRTCError:
        log = nvrtc.getProgramLog(program)
        raise cupy.cuda.compiler.CompileException(log, source, name, options, "nvrtc") from None
    finally:
        nvrtc.destroyProgram(program)


def tensor_maps(maps: list, args: list[int]) -> object:
    """What the tensor memory accelerator reads, one after the other: an argument of a kernel."""
    driver, whole = ctypes.CDLL("libcuda.so.1"), b""
    for each in maps:
        made = ctypes.create_string_buffer(128 + 64)
        place = ctypes.addressof(made) + 63 & ~63
        given = each, ctypes.c_void_p(place), ctypes.c_void_p(args[each["argument"]])
        status = (windows_map if each["windows"] else tiled_map)(driver, *given)
        if status:
            fact = f"a tensor of {' x '.join(map(str, each['shape']))}: error {status}"
            stop(5, "tensor map", f"{fact} of the driver; tell simgen's developers")
        whole += ctypes.string_at(place, 128)
    return np.frombuffer(whole.ljust(MAPS_NBYTES, b"\0"), f"V{MAPS_NBYTES}")[0]


MAPS_NBYTES = 3 * 128  # TensorMaps of warpgroups.h
DATA_TYPES = {1: 0, 2: 1, 4: 2}  # by bytes: CU_TENSOR_MAP_DATA_TYPE_UINT8, 16, 32
# Not interleaved, rows of 128 bytes swizzled, 256 bytes at a time into L2 (up to 2 % faster than
# 128), zeros beyond extents. Where rows begin between lines, 256 bytes at a time are up to a third
# slower than 128.
HOW = (0, 3, 3, 0)
BETWEEN = (0, 3, 2, 0)
LINE = 128


def tiled_map(driver: ctypes.CDLL, each: dict, place: object, start: object) -> int:
    """CUDA Driver API, cuTensorMapEncodeTiled. Extents and strides begin with the innermost."""
    matrices, rows, columns = each["shape"]
    of_row = columns * each["nbytes"]
    return driver.cuTensorMapEncodeTiled(
        place,
        DATA_TYPES[each["nbytes"]],
        3,
        start,
        (ctypes.c_uint64 * 3)(columns, rows, matrices),
        (ctypes.c_uint64 * 2)(of_row, of_row * rows),
        (ctypes.c_uint32 * 3)(each["box"][1], each["box"][0], 1),
        (ctypes.c_uint32 * 3)(1, 1, 1),
        *(BETWEEN if of_row % LINE else HOW),
    )


def windows_map(driver: ctypes.CDLL, each: dict, place: object, start: object) -> int:
    """The same, cuTensorMapEncodeIm2col: of images, (samples, rows, columns, channels)."""
    (samples, _, channels), windows = each["shape"], each["windows"]
    rows, columns = windows["extents"]
    of_pixel = channels * each["nbytes"]
    return driver.cuTensorMapEncodeIm2col(
        place,
        DATA_TYPES[each["nbytes"]],
        4,
        start,
        (ctypes.c_uint64 * 4)(channels, columns, rows, samples),
        (ctypes.c_uint64 * 3)(of_pixel, of_pixel * columns, of_pixel * columns * rows),
        (ctypes.c_int * 2)(*reversed(windows["first"])),
        (ctypes.c_int * 2)(*reversed(windows["beyond"])),
        each["box"][1],
        each["box"][0],
        (ctypes.c_uint32 * 4)(1, *reversed(windows["strides"]), 1),
        *(BETWEEN if of_pixel % LINE else HOW),
    )


def run_round(
    calls: list, wait: cupy.RawKernel, l2: str = "left", turns: list = ()
) -> tuple[list[tuple[float, float]], float]:
    """Run all launches; seconds from the start of the round to the start and the end of each, by
    events on its stream, and the clock in Hz, behind the last one. `calls` are those of each step,
    `turns` are their streams and the steps that these wait for; none: one stream, in order."""
    device = cupy.cuda.Device()
    launches = sum(map(len, calls))
    events = [cupy.cuda.Event() for _ in range(2 * launches)]
    counted = cupy.zeros(2, np.uint64)
    others = cupy.empty(2 * device.attributes["L2CacheSize"] if l2 == "cold" else 0, np.uint8)
    clean = reading(2 * device.attributes["L2CacheSize"]) if l2 == "clean" else None
    turns = turns or [(0, [])] * len(calls)
    more = max(queue for queue, _ in turns)
    streams = [cupy.cuda.Stream.null, *(cupy.cuda.Stream(non_blocking=True) for _ in range(more))]
    device.synchronize()
    wait((1,), (1,), (np.uint64(min(ENQUEUE * (launches + 1), 1_000_000_000)), counted))
    begun = meet(streams[:1], streams[1:])
    recorded, ended = iter(events), []
    for step, (queue, after) in zip(calls, turns):
        with streams[queue] as stream:
            for each in after:
                stream.wait_event(ended[each])
            if l2 == "cold":
                others.data.memset_async(0, others.nbytes)
            elif clean:
                clean()
            for call in step if l2 == "warm" else ():
                start(call)
            for call in step:
                next(recorded).record()
                start(call)
                next(recorded).record()
            ended.append(cupy.cuda.Event(disable_timing=True))
            ended[-1].record()
    meet(streams[1:], streams[:1])
    wait((1,), (1,), (np.uint64(CLOCKED), counted))
    try:
        cycles, nanoseconds = counted.get().tolist()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        stop(5, "cuda", f"a kernel failed ({error}); {BLOCKING}")
    since = cupy.cuda.get_elapsed_time  # in milliseconds
    starts = [since(begun, event) / 1e3 for event in events[::2]]
    lengths = [since(before, after) / 1e3 for before, after in zip(events[::2], events[1::2])]
    counts = [call[-1] for step in calls for call in step]
    spans = [
        (start + length / count * part, start + length / count * (part + 1))
        for start, length, count in zip(starts, lengths, counts)
        for part in range(count)
    ]
    return spans, cycles / nanoseconds * 1e9


@lru_cache
def reading(nbytes: int) -> Callable[[], None]:
    """What reads so many bytes of its own: then L2 holds some of them, and nothing else."""
    zeros, found = cupy.zeros(nbytes // 16 * 16, np.uint8), cupy.zeros(1, np.uint32)
    read = cupy.RawModule(code=READ).get_function("read")
    return lambda: read((1024,), (256,), (zeros, np.uint64(nbytes // 16), found))


def meet(these: list, those: list) -> object:
    """Those streams go on when these have come so far; an event of the last of these."""
    event = None
    for stream in these:
        event = cupy.cuda.Event()
        event.record(stream)
        for other in those:
            other.wait_event(event)
    return event


def start(call: tuple) -> None:
    function, grid, block, args, lds, count = call
    try:
        more = {"enable_cooperative_groups": True} if count > 1 else {}
        function.kernel(grid, block, args, shared_mem=lds, **more)
    except cupy.cuda.driver.CUDADriverError as error:
        stop(5, f"kernel {function.name}", f"cannot be launched ({error}); {BLOCKING}")


def write_times(path: Path, launches: list, spans: np.ndarray, queues: bool) -> None:
    """One line per launch; `spans` is (rounds, launches, start and end)."""
    seconds = spans[:, :, 1] - spans[:, :, 0]
    elapsed = elapsed_of(spans)
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        times = ["seconds", "seconds_min", "seconds_q1", "seconds_q3", "seconds_max"]
        more = ["elapsed_seconds"] if queues else []
        writer.writerow(["launch", "kernel", *times, *more, "rounds"])
        for at, launch in enumerate(launches):
            median, *others = np.quantile(seconds[:, at], [0.5, 0, 0.25, 0.75, 1])
            own = [elapsed[at]] if queues else []
            values = [f"{t:.9f}" for t in (median, *others, *own)]
            writer.writerow([at, launch["kernel"], *values, len(seconds)])


def elapsed_of(spans: np.ndarray) -> np.ndarray:
    """By how much each launch ended after all that had ended before, in the round whose length is
    the median: the sum is that length. `spans` as in write_times."""
    lengths = spans[:, :, 1].max(axis=1) - spans[:, :, 0].min(axis=1)
    round_ = spans[np.argsort(lengths)[len(lengths) // 2]]
    order = np.argsort(round_[:, 1], kind="stable")
    found = np.zeros(len(round_))
    found[order] = np.diff(round_[order, 1], prepend=round_[:, 0].min())
    return found


def machine() -> dict[str, str]:
    device = cupy.cuda.Device()
    properties = cupy.cuda.runtime.getDeviceProperties(device.id)
    return {
        "gpu": properties["name"].decode(),
        "compute_capability": device.compute_capability,
        "cuda_driver": str(cupy.cuda.runtime.driverGetVersion()),
        "nvrtc": ".".join(str(part) for part in cupy.cuda.nvrtc.getVersion()),
        "cupy": cupy.__version__,
    }


def count(variable: str, default: int) -> int:
    text = os.environ.get(variable, "")
    if text and not text.isdecimal():
        stop(2, variable, f"{text!r} is not a count; write a whole number")
    return int(text or default)


def percent(variable: str) -> float | None:
    text = os.environ.get(variable, "")
    if not text:
        return None
    if not re.fullmatch(r"[0-9]{1,2}(\.[0-9]{1,3})?", text):
        stop(2, variable, f"{text!r} is no number of per cent; write it like 0.5")
    return float(text)


def stop(code: int, place: object, fact: str) -> None:
    if STOPPING.acquire(blocking=False):  # of several threads, the first
        print(f"simgen: error: {place}: {fact}", file=sys.stderr)
    raise SystemExit(code)


if __name__ == "__main__":
    if sys.argv[2:] not in ([], ["--past-l1"]) or len(sys.argv) < 2:
        stop(
            2, "run.py", "not the words it takes; give the results folder, and --past-l1 or nothing"
        )
    main(Path(sys.argv[1]), past_l1=len(sys.argv) > 2)
