"""For a repository of Spack: packages/py_gpu_simgen/package.py."""

from spack.package import *  # noqa: F403


class PyGpuSimgen(PythonPackage):  # noqa: F405
    """Deep-learning workloads for GPU simulators, and a check of what comes back."""

    license("MIT")
    version("0.2.0")  # noqa: F405

    depends_on("python@3.11:", type=("build", "run"))  # noqa: F405
    depends_on("py-hatchling@1.28:", type="build")  # noqa: F405
    # In place of the package ziglang; AMD GPUs are among its targets.
    depends_on("llvm@22: +clang +lld targets=all", type="run")  # noqa: F405
    for name in (
        "py-click@8.2:",
        "py-h5py@3.12.1:",
        "py-jinja2@3.1:",
        "py-ml-dtypes@0.5:",
        "py-numpy@1.26:",
        "py-platformdirs@4:",
        "py-pyelftools@0.31:",
        "py-rich@13.7:",
    ):
        depends_on(name, type=("build", "run"))  # noqa: F405

    def setup_run_environment(self, env):
        env.set("SIMGEN_CLANG", self.spec["llvm"].prefix.bin.clang)
