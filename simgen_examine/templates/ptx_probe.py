"""Kernels of a probe of PTX on a machine: units of them, each in a process of its own.

    ptx_probe.py JOB.json           run a job; see simgen_examine/conform/ptx/running.py
    ptx_probe.py --device           print the GPU: its name, sm_90, and the driver's version

A unit is a folder with kernels.ptx. Its process writes there `results.bin`, what each kernel left,
one after the other, and to `done` a line for each kernel that ended; what it or its machine says
goes to `log`. It ends with 0, or with REFUSED where the machine does not take the text.

Needs nothing of simgen, nor any package.
"""

import ctypes
import json
import os
import resource
import signal
import sys
import time

REFUSED = 7
STEP = 0.01  # seconds between two looks at processes
LOG_NBYTES = 1 << 20
CAPABILITY = (75, 76)  # attributes of a device: CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_*


class Driver:
    """A GPU, through NVIDIA's driver."""

    def __init__(self, library, log):
        self.cu = ctypes.CDLL(library or "libcuda.so.1")
        self.log = log
        self.check(self.cu.cuInit(0), "cuInit")
        self.device = ctypes.c_int()
        self.check(self.cu.cuDeviceGet(ctypes.byref(self.device), 0), "cuDeviceGet")

    def check(self, code, what):
        if code:
            text = ctypes.c_char_p()
            self.cu.cuGetErrorString(code, ctypes.byref(text))
            said = (text.value or b"").decode()
            raise SystemExit(f"simgen: error: {what}: {said} ({code})")

    def name(self):
        text = ctypes.create_string_buffer(256)
        self.check(self.cu.cuDeviceGetName(text, 256, self.device), "cuDeviceGetName")
        version, parts = ctypes.c_int(), []
        self.check(self.cu.cuDriverGetVersion(ctypes.byref(version)), "cuDriverGetVersion")
        for each in CAPABILITY:
            value = ctypes.c_int()
            code = self.cu.cuDeviceGetAttribute(ctypes.byref(value), each, self.device)
            self.check(code, "cuDeviceGetAttribute")
            parts.append(value.value)
        return {"name": text.value.decode(), "arch": "sm_{}{}".format(*parts),
                "cuda": f"{version.value // 1000}.{version.value % 1000 // 10}"}  # fmt: skip

    def load(self, path, _):
        context = ctypes.c_void_p()
        self.check(self.cu.cuDevicePrimaryCtxRetain(ctypes.byref(context), self.device), "context")
        self.check(self.cu.cuCtxSetCurrent(context), "context")
        with open(path, "rb") as file:
            text = file.read() + b"\0"
        told = ctypes.create_string_buffer(LOG_NBYTES)
        options = (ctypes.c_int * 2)(5, 6)  # CU_JIT_ERROR_LOG_BUFFER, its size
        held = (ctypes.c_void_p * 2)(ctypes.addressof(told), LOG_NBYTES)
        self.module = ctypes.c_void_p()
        code = self.cu.cuModuleLoadDataEx(ctypes.byref(self.module), text, 2, options, held)
        if code:
            print(told.value.decode(errors="replace"), file=self.log, flush=True)
            os._exit(REFUSED)

    def buffer(self, nbytes):
        found = ctypes.c_void_p()
        self.check(self.cu.cuMemAlloc_v2(ctypes.byref(found), ctypes.c_size_t(nbytes)), "memory")
        return found

    def put(self, at, data):
        size = ctypes.c_size_t(len(data))
        self.check(self.cu.cuMemcpyHtoD_v2(at, data, size), "copy")

    def get(self, at, nbytes):
        found = ctypes.create_string_buffer(nbytes)
        self.check(self.cu.cuMemcpyDtoH_v2(found, at, ctypes.c_size_t(nbytes)), "copy")
        return found.raw

    def run(self, kernel, grid, block, arguments):
        function = ctypes.c_void_p()
        code = self.cu.cuModuleGetFunction(ctypes.byref(function), self.module, kernel.encode())
        self.check(code, kernel)
        pointers = (ctypes.c_void_p * len(arguments))(*map(ctypes.addressof, arguments))
        code = self.cu.cuLaunchKernel(function, *grid, *block, 0, None, pointers, None)
        self.check(code or self.cu.cuCtxSynchronize(), kernel)


class GpgpuSim:
    """GPGPU-Sim, through the libcudart.so that it is."""

    def __init__(self, library, log):
        self.log = log
        self.libc = ctypes.CDLL(None)
        # cuLinkAddFile appends to this string where it lies: it has to have room.
        self.room = ctypes.create_string_buffer(b"PTX_JIT_PATH=.", 8192)
        self.libc.putenv(self.room)
        self.cuda = ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
        self.keys = {}

    def load(self, path, arch):
        code = self.cuda.cuLinkAddFile_v2(None, 1, path.encode(), 0, None, None)
        self.libc.fflush(None)
        with open("log", errors="replace") as file:
            said = file.read()
        if code or "yntax error" in said or "   ^\n" in said:
            os._exit(REFUSED)
        # Without what kernels take of a core, a field that nobody set decides whether one runs.
        context = self.cuda["_Z13GPGPU_Contextv"]
        context.restype = ctypes.c_void_p
        told = self.cuda["_ZN13gpgpu_context33gpgpu_ptx_info_load_from_filenameEPKcj"]
        told(ctypes.c_void_p(context()), path.encode(), int(arch.removeprefix("sm_")))

    def buffer(self, nbytes):
        found = ctypes.c_void_p()
        self.cuda.cudaMalloc(ctypes.byref(found), ctypes.c_size_t(nbytes))
        return found

    def put(self, at, data):
        self.cuda.cudaMemcpy(at, data, ctypes.c_size_t(len(data)), 1)

    def get(self, at, nbytes):
        found = ctypes.create_string_buffer(nbytes)
        self.cuda.cudaMemcpy(found, at, ctypes.c_size_t(nbytes), 2)
        return found.raw

    def run(self, kernel, grid, block, arguments):
        name = ctypes.create_string_buffer(kernel.encode())
        self.keys[kernel] = name
        self.cuda["__cudaRegisterFunction"](
            ctypes.c_void_p(1), name, name, name, -1, None, None, None, None, None
        )
        pointers = (ctypes.c_void_p * len(arguments))(*map(ctypes.addressof, arguments))
        self.cuda.cuLaunchKernel(name, *grid, *block, 0, None, pointers, None)
        self.cuda.cudaDeviceSynchronize()


MACHINES = {"cuda": Driver, "gpgpusim": GpgpuSim}


def unit(job, folder):
    """All kernels of a unit, in this process, which ends here."""
    os.chdir(folder)
    log = os.open("log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    with open("kernels.json") as file:
        kernels = json.load(file)
    machine = MACHINES[job["machine"]](job["library"], sys.stderr)
    machine.load("kernels.ptx", job["arch"])
    with open(job["inputs"], "rb") as file:
        inputs = file.read()
    plane = job["plane"]
    kept = job["kept"].to_bytes(4, "little") * (plane // 4)
    given = machine.buffer(plane * job["most_sources"])
    left = machine.buffer(plane * job["most_results"])
    arguments = [ctypes.c_uint64(given.value), ctypes.c_uint64(left.value)]
    now = None
    with open("results.bin", "wb") as results, open("done", "w") as done:
        for each in kernels:
            if now != (each["at"], each["nbytes"]):
                now = each["at"], each["nbytes"]
                if each["nbytes"]:
                    machine.put(given, inputs[each["at"] : each["at"] + each["nbytes"]])
            machine.put(left, kept * each["planes"])
            machine.run(each["name"], each["grid"], each["block"], arguments)
            results.write(machine.get(left, plane * each["planes"]))
            results.flush()
            print(each["name"], file=done, flush=True)
    os._exit(0)


def run(job):
    """All units, so many at a time; of each that makes no progress for `limit` seconds, the end."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if job["machine"] == "gpgpusim":  # linked once, not in each process
        ctypes.CDLL(job["library"], mode=ctypes.RTLD_GLOBAL)
    waiting, running, codes = list(job["units"]), {}, {}
    while waiting or running:
        while waiting and len(running) < job["processes"]:
            folder = waiting.pop(0)
            process = os.fork()
            if process == 0:
                os.setpgid(0, 0)
                try:
                    unit(job, folder)
                except BaseException as error:
                    print(error, file=sys.stderr, flush=True)
                    os._exit(1)
            running[process] = [folder, time.monotonic(), -1]
        time.sleep(STEP)
        for process, state in list(running.items()):
            ended, status = os.waitpid(process, os.WNOHANG)
            if ended:
                codes[state[0]] = os.waitstatus_to_exitcode(status)
                del running[process]
                continue
            try:
                size = os.path.getsize(os.path.join(state[0], "done"))
            except OSError:
                size = -1
            if size != state[2]:
                state[1:] = time.monotonic(), size
            elif time.monotonic() - state[1] > job["limit"]:
                os.kill(process, signal.SIGKILL)
                os.waitpid(process, 0)
                codes[state[0]] = "late"
                del running[process]
    print(json.dumps(codes))


if __name__ == "__main__":
    if sys.argv[1] == "--device":
        print(json.dumps(Driver("", sys.stderr).name()))
    else:
        with open(sys.argv[1]) as job_file:
            run(json.load(job_file))
