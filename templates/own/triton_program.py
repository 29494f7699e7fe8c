"""Compiles a function of Triton for a GPU that need not be here: JSON in, JSON out.

Usage: triton_program.py FOLDER        needs Triton, nothing else

FOLDER/request.json has the function, its file in FOLDER, and what it is compiled for; what is left
is FOLDER/reply.json, with the text that Triton's compiler made and what it says of it, or `error`
and the line of the file.

A program of its own, for that executes what the file has at its top, and the compiler may end it.
"""

import base64
import importlib
import inspect
import json
import os
import re
import sys
import traceback
from pathlib import Path


def main(folder: Path) -> None:
    asked = json.loads((folder / "request.json").read_text())
    os.environ.update(
        TRITON_CACHE_DIR=str(folder / "cache"),  # simgen keeps what is made
        TRITON_DISABLE_LINE_INFO="1",
        AMDGCN_USE_BUFFER_OPS="0",  # simulators lack them
        TRITON_DEFAULT_FP_FUSION="1",
        # 3.4 asks ROCm's linker for its version, and links nothing here: any program has one.
        TRITON_HIP_LLD_PATH=sys.executable,
    )
    try:
        reply = compiled(asked, folder)
    except BaseException as error:
        reply = told(error, folder / asked["file"])
    (folder / "reply.json").write_text(json.dumps(reply))


def compiled(asked: dict, folder: Path) -> dict:
    """The text in the language that is asked for, and what a launch of it takes."""
    import triton
    import triton.language
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    if asked["text"] == "llir":
        until_llvm(asked)
    sys.path.insert(0, str(folder))
    module = importlib.import_module(asked["file"].removesuffix(".py"))
    function = getattr(module, asked["entry"])
    names = [name for name, _ in asked["signature"]]
    known = {"tl": triton.language, "triton": triton, **vars(module)}
    constants = {(names.index(name),): eval(text, known) for name, text in asked["constants"]}
    multiples = {(names.index(name),): [["tt.divisibility", 16]] for name in asked["multiples"]}
    source = ASTSource(function, dict(asked["signature"]), constants, multiples)
    options = {"num_warps": asked["warps"], "num_stages": asked["stages"]}
    options["enable_fp_fusion"] = asked["fusion"]
    target = GPUTarget(asked["backend"], asked["arch"], asked["lanes"])
    made = triton.compile(source, target=target, options=options)
    said = made.metadata
    text = made.asm[asked["text"]]
    return {
        "content": portable(text) if asked["text"] == "llir" else text,
        "name": said.name,
        "lds_nbytes": said.shared,
        "warps": said.num_warps,
        "scratch_nbytes": [
            getattr(said, "global_scratch_size", 0) or 0,
            getattr(said, "profile_scratch_size", 0) or 0,
        ],
    }


def until_llvm(asked: dict) -> None:
    """Leave the rest to another compiler: stages behind LLVM's language do nothing."""
    from triton._C import libtriton
    from triton.backends.amd import compiler

    if not asked["matrix"]:
        libtriton.amd.passes.ttgpuir.add_accelerate_matmul = lambda *_: None
    whole = compiler.HIPBackend.add_stages

    def add_stages(self: object, stages: dict, *rest: object) -> None:
        whole(self, stages, *rest)
        stages["amdgcn"] = lambda text, metadata: metadata.update(name=asked["entry"]) or text
        stages["hsaco"] = lambda text, metadata: b""

    compiler.HIPBackend.add_stages = add_stages


def portable(text: str) -> str:
    """LLVM's language for another LLVM, as base64: bits, which it keeps readable, where they can be
    had; the text of a new version has numbers that older ones do not read."""
    from triton._C.libtriton import llvm

    # Simulators give no kernel its arguments in registers, which the firmware of GPUs does.
    text = re.sub(r"\binreg (?=[^\n]*%\d)", "", text)
    raw = llvm.to_bitcode(text, True) if hasattr(llvm, "to_bitcode") else text.encode()
    return base64.b64encode(raw).decode()


def told(error: BaseException, file: Path) -> dict:
    """What is wrong, and in which line of the file."""
    while True:
        inner = error.__cause__ or (error.__context__ if hasattr(error, "node") else None)
        if inner is None or not hasattr(inner, "node"):
            break
        error = inner
    fact = getattr(error, "error_message", None) or str(error)
    if hasattr(error, "node") and not getattr(error, "error_message", None) and error.__cause__:
        fact = str(error.__cause__)
    return {"error": f"{fact or type(error).__name__}", "line": line_of(error, file)}


def line_of(error: BaseException, file: Path) -> int:
    """The line, or 0. A message of the compiler counts from the function that it shows."""
    text = file.read_text()
    shown = getattr(error, "src", None)
    if shown and getattr(error, "node", None) is not None:
        start = text.find(inspect.cleandoc(shown).splitlines()[0])
        if start >= 0:
            return text.count("\n", 0, start) + error.node.lineno
    frames = traceback.extract_tb(error.__traceback__)
    inside = [frame.lineno for frame in frames if frame.filename == str(file)]
    return inside[-1] if inside else 0


if __name__ == "__main__":
    main(Path(sys.argv[1]))
