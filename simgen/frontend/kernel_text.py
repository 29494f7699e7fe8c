"""Sources of kernels that users bring: read, with their own includes in them."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from simgen.errors import ConfigError, did_you_mean, printable
from simgen.frontend import dialect, kernel_pieces, ptx_text, triton_text
from simgen.ground.ir import (
    CONTRACTS,
    CUDA_WARP,
    NOT_THERE,
    OF_SYSTEM,
    USUAL_CONTRACT,
    Language,
    OwnSource,
)
from simgen.ground.machine import architectures
from simgen.layers.own import expression
from simgen.layers.own.expression import ExpressionError

LANGUAGES = {
    ".hip": Language.HIP, ".cu": Language.HIP, ".cpp": Language.HIP, ".cl": Language.OPENCL,
    ".s": Language.ASSEMBLY, ".co": Language.OBJECT, ".hsaco": Language.OBJECT,
    ".py": Language.TRITON, ".ptx": Language.PTX,
}  # fmt: skip
DEEPEST = 8  # includes in includes
PLAIN_NAME = re.compile(r"[\w./ -]+", re.ASCII)
E_FLAGS = 48  # where in an ELF file of 64 bits; EF_AMDGPU_MACH is its low byte

_INCLUDE = re.compile(r'[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]+)"|<([^>\n]*)>)')
_KERNELS = {
    Language.HIP: re.compile(
        r"__global__\b(?:\s*__launch_bounds__\s*\([^)]*\))?(?:\s+\w+)*?\s+void\s+"
        r"(?:__launch_bounds__\s*\([^)]*\)\s*)?(\w+)\s*\("
    ),
    Language.OPENCL: re.compile(
        r"\b(?:__)?kernel\b(?:\s*__attribute__\s*\(\(.*?\)\)\s*)*\s+void\s+"
        r"(?:__attribute__\s*\(\(.*?\)\)\s*)*(\w+)\s*\("
    ),
    Language.ASSEMBLY: re.compile(r"^\s*\.amdhsa_kernel\s+(\S+)", re.M),
}
_TARGET = re.compile(r'^\s*\.amdgcn_target\s+"[^"]*-(gfx\w+)', re.M)


class OutsideError(ConfigError):
    """A description or source names a file outside of the description's folder."""


class Files:
    """Files that a description names, each read once."""

    def __init__(self, find: Callable[[str], bytes]) -> None:
        """`find` reads a file by its name in the description."""
        self.find = find
        self.found: dict[str, str] = {}
        self._sources: dict[str, OwnSource] = {}

    @classmethod
    def kept(cls, files: Mapping[str, str]) -> Callable[[str], bytes]:
        """What finds files in a text that a bundle keeps."""

        def find(name: str) -> bytes:
            if name not in files:
                raise ConfigError(printable(name), "not in the bundle; build it from its .toml")
            text = files[name]
            return base64.b64decode(text) if _language(name) is Language.OBJECT else text.encode()

        return find

    def source(
        self, name: str, arch: object, defines: tuple[tuple[str, str], ...] = (),
        tensors: Collection[str] = (), contract: object = None,
    ) -> OwnSource:  # fmt: skip
        """The source of this name, under the macros of its build and beside tensors of these names;
        its `entry` is still to be said. `contract`: one of CONTRACTS, if its description has it.

        Raises:
            ConfigError: it cannot be read, or is not what its name says.
            ExpressionError: `contract` is not of its language.
        """
        if name not in self._sources:
            made = self._source(name, arch, defines, tensors)
            self._sources[name] = replace(made, contract=_contract(made.language, contract))
        return self._sources[name]

    def only_entry(self, source: OwnSource, place: str) -> str:
        """The kernel of a source that has one.

        Raises:
            ExpressionError: it has none, or several.
        """
        pattern = _KERNELS.get(source.language)
        names = list(dict.fromkeys(pattern.findall(source.text))) if pattern else []
        if source.language is Language.TRITON:
            names = list(triton_text.functions(source.text))
        if source.language is Language.PTX:
            names = ptx_text.entries(source.text)
        if len(names) != 1:
            have = f"the source has {', '.join(names)}" if names else "the source has none"
            have = "nobody can tell of it" if source.language is Language.OBJECT else have
            raise ExpressionError(f"{place}: no kernel is named, and {have}; write kernel = NAME")
        return str(names[0])

    def check_entry(self, source: OwnSource, entry: str, place: str) -> None:
        """Refuse a kernel that PTX does not have; of other languages a compiler says so.

        Raises:
            ExpressionError: it has others.
        """
        if source.language is Language.PTX:
            there = ptx_text.entries(source.text)
            if entry not in there:
                raise ExpressionError(
                    f"{place}: the PTX has no .entry {printable(entry)}; "
                    f"{did_you_mean(entry, there)}"
                )

    def _source(
        self, name: str, arch: object, defines: tuple[tuple[str, str], ...],
        tensors: Collection[str],
    ) -> OwnSource:  # fmt: skip
        language = _language(name)
        if language is None:
            known = ", ".join(LANGUAGES)
            raise ConfigError(printable(name), f"not a source of kernels; known: {known}")
        if type(arch) is not str or (arch and arch not in architectures()):
            cure = did_you_mean(str(arch), architectures())
            raise ConfigError(printable(name), f"no processor {printable(str(arch))}; {cure}")
        raw = self.find(name)
        if language is Language.OBJECT:
            self.found[name] = text = base64.b64encode(raw).decode()
            return OwnSource(language, text, "", _processor(name, raw))
        text = self._text(name, raw)
        if language is Language.ASSEMBLY:
            told = _TARGET.search(text)
            arch = told[1] if told else arch
            if arch not in architectures():
                cure = (
                    "write it as arch = 'gfx942'"
                    if not arch
                    else did_you_mean(arch, architectures())
                )
                raise ConfigError(printable(name), f"no processor {printable(arch)}; {cure}")
            return OwnSource(language, text, "", arch)
        if language is Language.PTX:
            return OwnSource(language, text, "")
        if language is Language.TRITON:
            return OwnSource(language, triton_text.kernels_only(text), "")
        marked = self._whole(name, text, 0)
        whole = re.sub(rf"^{OF_SYSTEM}.*$", "", marked, flags=re.M)
        if language is Language.OPENCL:
            return OwnSource(language, whole, "", arch, defines=defines)
        kept, variables = kernel_pieces.kernels_only(whole, tensors)
        warp = dialect.warp(name, marked, defines)
        included = re.findall(rf"^{OF_SYSTEM}([\w./]+)$", marked, re.M) if warp == CUDA_WARP else ()
        return OwnSource(
            language, kept, "", arch, variables=variables, defines=defines, warp=warp,
            headers=tuple(dict.fromkeys(included)),
        )  # fmt: skip

    def _text(self, name: str, raw: bytes) -> str:
        try:
            text = raw.decode("utf-8").replace("\r\n", "\n")
        except UnicodeDecodeError:  # names in comments of old files
            text = raw.decode("latin-1").replace("\r\n", "\n")
        if "\0" in text:
            raise ConfigError(printable(name), "not a text file; check the path")
        self.found[name] = text
        return text

    def _is_there(self, name: str) -> bool:
        try:
            self.find(name)
        except OutsideError:
            raise
        except ConfigError:
            return False
        return True

    def _whole(self, name: str, text: str, depth: int) -> str:
        """The text with its own includes in it, and `OF_SYSTEM` in the place of the system's."""
        lines = []
        for number, line in enumerate(text.split("\n"), 1):
            match = _INCLUDE.match(line)
            if not match:
                lines.append(line)
            elif match[2] is not None or _of_system(match[1]):
                lines.append(f"{OF_SYSTEM}{match[1] or match[2]}")
            else:
                inner = str(PurePosixPath(name).parent / match[1])
                if not self._is_there(inner):  # what only the host program includes, perhaps
                    lines.append(f'{NOT_THERE}"{match[1]}"')
                    continue
                if depth == DEEPEST:
                    raise ConfigError(printable(inner), "includes without end; leave one out")
                found = self._whole(inner, self._text(inner, self.find(inner)), depth + 1)
                lines += [_line(1, inner), found, _line(number + 1, name)]
        return "\n".join(lines)


def _contract(language: Language, given: object) -> str:
    """Which multiply-adds become one: as a description says, or the language's compilers do.

    Raises:
        ExpressionError: the description says it of a source that it cannot be said of.
    """
    if given is None:
        return USUAL_CONTRACT.get(language, "")
    if language is Language.TRITON and given in ("fast", "off"):  # enable_fp_fusion
        return "off" if given == "off" else ""
    if language not in USUAL_CONTRACT:
        fact = f"contract is of HIP, CUDA, OpenCL C, and fast or off of Triton; this is {language}"
        raise ExpressionError(f"{fact}; leave it out")
    if given not in tuple(CONTRACTS):
        known = ", ".join(CONTRACTS)
        fact = f"contract is {printable(str(given))}"
        raise ExpressionError(f"{fact}; write one of {known}, in quotes")
    return str(given)


def _of_system(name: str) -> bool:
    """Headers that runtimes bring, written with quotes."""
    return name.startswith(("hip/", "cuda", "device_launch_parameters", "helper_"))


def _line(number: int, name: str) -> str:
    return f'#line {number} "{name}"' if PLAIN_NAME.fullmatch(name) else f"#line {number}"


def _language(name: str) -> Language | None:
    return LANGUAGES.get(PurePosixPath(name).suffix)


def _processor(name: str, raw: bytes) -> str:
    """What a code object is for.

    Raises:
        ConfigError: it is none, or for an unknown one.
    """
    if raw[:5] != b"\x7fELF\x02" or raw[18:20] != b"\xe0\x00" or len(raw) < 64:
        cure = "take one out of its container with clang-offload-bundler"
        raise ConfigError(printable(name), f"not a code object of an AMD GPU; {cure}")
    found = [each for each in architectures().values() if each.elf_machine == raw[E_FLAGS]]
    if not found:
        known = ", ".join(architectures())
        raise ConfigError(printable(name), f"for an unknown processor; known: {known}")
    return found[0].name


_BOUNDS = re.compile(
    r"\b(?:__)?(launch_bounds__|amdgpu_flat_work_group_size|reqd_work_group_size)\s*"
    r"\(((?:[^()]|\([^()]*\))*)\)"
)
_CONSTANT = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+\(?(\d+)[uUlL]*\)?[ \t]*$|"
    r"\b(?:constexpr|const)\s+(?:static\s+)?(?:unsigned\s+)?(?:int|unsigned|size_t|auto)\s+(\w+)"
    r"\s*=\s*(\d+)[uUlL]*\s*;",
    re.M,
)


@dataclass(frozen=True)
class Bounds:
    """The work-groups that a function of a source may have."""

    least: int = 1  # work-items
    most: int | None = None
    exactly: tuple[int, int, int] | None = None
    said: str = ""  # by which attribute


def bounds(source: OwnSource, entry: str) -> Bounds:
    """What is written ahead of the function; what depends on a template's arguments is left out."""
    text = kernel_pieces.plain(source.text)
    name = re.escape(re.sub(r"<.*", "", entry).rpartition("::")[2])
    ahead = (
        re.split("[;}]", text[: each.start()])[-1] for each in re.finditer(rf"\b{name}\s*\(", text)
    )
    head = next(
        (each for each in ahead if re.search(r"\b(?:__global__|(?:__)?kernel)\b", each)), ""
    )
    known: dict[str, int | float] = {
        match[1] or match[3]: int(match[2] or match[4]) for match in _CONSTANT.finditer(source.text)
    }
    known |= {key: int(value) for key, value in source.defines if value.isdecimal()}
    for match in _BOUNDS.finditer(head):
        try:
            numbers = [int(expression.number(each, known)) for each in match[2].split(",")]
        except ExpressionError:
            continue
        said = f"{match[0].split('(')[0].strip()}({match[2].strip()})"
        if match[1] == "reqd_work_group_size" and len(numbers) == 3:
            x, y, z = numbers
            return Bounds(exactly=(x, y, z), said=said)
        if match[1] == "amdgpu_flat_work_group_size" and len(numbers) == 2:
            return Bounds(numbers[0], numbers[1], said=said)
        if match[1] == "launch_bounds__":
            return Bounds(most=numbers[0], said=said)
    return Bounds()
