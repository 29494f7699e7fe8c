"""Sources of kernels that users bring: read, and cut down to what is for a GPU.

A sample's file has its host program beside its kernels. That is left out: functions that are
neither `__global__` nor `__device__`, variables that are not constant, and includes of the system.
Lines stay where they are, so that what a compiler says of them is said of the user's file.
"""

from __future__ import annotations

import base64
import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from simgen.errors import ConfigError, did_you_mean, printable
from simgen.frontend import ptx_text, triton_text
from simgen.ir import Language, OwnSource
from simgen.layers.own.expression import ExpressionError
from simgen.machine import architectures

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

LANGUAGES = {
    ".hip": Language.HIP, ".cu": Language.HIP, ".cpp": Language.HIP, ".cl": Language.OPENCL,
    ".s": Language.ASSEMBLY, ".co": Language.OBJECT, ".hsaco": Language.OBJECT,
    ".py": Language.TRITON, ".ptx": Language.PTX,
}  # fmt: skip
DEEPEST = 8  # includes in includes
PLAIN_NAME = re.compile(r"[\w./ -]+", re.ASCII)
E_FLAGS = 48  # where in an ELF file of 64 bits; EF_AMDGPU_MACH is its low byte

_INCLUDE = re.compile(r'[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]+)"|<([^>\n]*)>)')
_FOR_GPU = re.compile(r"\b(__global__|__device__|__constant__|__shared__)\b")
_OPENS = re.compile(r'\s*(inline\s+)?namespace\b[^{;=()]*\{|\s*extern\s+"C"\s*\{')
_KEPT = re.compile(
    r"\s*(?:(?:template\s*<[^;{]*>\s*)?(?:struct|class|union)\b|enum\b|using\s+\w+\s*=|typedef\b"
    r"|static_assert\b|(?:static\s+|inline\s+)*(?:constexpr|const)\b|template\s*<[^{;]*>\s*using\b)"
)
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
# What programs fill from the host, or kernels change: `__constant__ float mask[9];`.
_VARIABLE = re.compile(
    r"(?!.*\b(?:const|constexpr)\b[^;]*=)(?:(?:static|extern|inline|volatile)\s+)*"
    r"(?:__device__|__constant__|__managed__)\s[^(){}=;]*?(\w+)\s*(?:\[[^;=]*\]\s*)?(?:=[^;]*)?;",
    re.S,
)
_TARGET = re.compile(r'^\s*\.amdgcn_target\s+"[^"]*-(gfx\w+)', re.M)


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

    def source(self, name: str, arch: object) -> OwnSource:
        """The source of this name; its `entry` is still to be said.

        Raises:
            ConfigError: it cannot be read, or is not what its name says.
        """
        if name not in self._sources:
            self._sources[name] = self._source(name, arch)
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

    def _source(self, name: str, arch: object) -> OwnSource:
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
        whole = self._whole(name, text, 0)
        return OwnSource(
            language, whole if language is Language.OPENCL else kernels_only(whole), "", arch
        )

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
        except ConfigError:
            return False
        return True

    def _whole(self, name: str, text: str, depth: int) -> str:
        """The text with its own includes in it, and without those of the system."""
        lines = []
        for number, line in enumerate(text.split("\n"), 1):
            match = _INCLUDE.match(line)
            if not match:
                lines.append(line)
            elif match[2] is not None or _of_system(match[1]):
                lines.append("")
            else:
                inner = str(PurePosixPath(name).parent / match[1])
                if not self._is_there(inner):  # what only the host program includes
                    lines.append("")
                    continue
                if depth == DEEPEST:
                    raise ConfigError(printable(inner), "includes without end; leave one out")
                found = self._whole(inner, self._text(inner, self.find(inner)), depth + 1)
                lines += [_line(1, inner), found, _line(number + 1, name)]
        return "\n".join(lines)


def kernels_only(text: str) -> str:
    """C++ without what is for the host, line for line.

    Raises:
        ExpressionError: it has variables that are neither a kernel's nor constant.
    """
    for piece in _pieces(text):
        if variable := _VARIABLE.match(_plain(piece)):
            raise ExpressionError(
                f"the source has a variable of the whole GPU, {variable[1]}, which no launcher "
                "fills; pass it as a tensor"
            )
    return "".join(p if _is_kept(p) else "\n" * p.count("\n") for p in _pieces(text))


def _plain(piece: str) -> str:
    """A piece without comments."""
    return re.sub(r"/\*.*?\*/|//[^\n]*", " ", piece, flags=re.S).strip()


def _is_kept(piece: str) -> bool:
    code = _plain(piece)
    if not code or code[0] == "#" or code in ("}", "};") or _OPENS.match(code):
        return True
    if _FOR_GPU.search(code):
        return True
    return bool(_KEPT.match(code)) and "std::" not in code


_TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"([^()\\\s]{0,16})\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
    r"|^[ \t]*#(?:\\\n|[^\n])*|[{}();]",
    re.S | re.M,
)


def _pieces(text: str) -> Iterator[str]:
    """Declarations, definitions and lines of the preprocessor, at file scope and in namespaces."""
    start = braces = parentheses = 0
    for token in _TOKEN.finditer(text):
        word = token[0]
        outside = not braces and not parentheses
        if word.lstrip().startswith("#") and outside:
            yield text[start : token.start()]
            yield word
            start = token.end()
        elif word == "(":
            parentheses += 1
        elif word == ")":
            parentheses = max(parentheses - 1, 0)
        elif word == "{":
            head = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text[start : token.end()], flags=re.S)
            if outside and _OPENS.fullmatch(head):
                yield text[start : token.end()]
                start = token.end()
            else:
                braces += 1
        elif word == "}":
            braces -= 1
            behind = re.match(r"[^;{}()=]*;|\s*=", text[token.end() :]) if braces == 0 else None
            is_type = behind and not re.search(r"\)\s*\w*\s*\{", text[start : token.end()][:2000])
            if braces < 0 or (braces == 0 and not parentheses and not (behind and is_type)):
                braces = max(braces, 0)
                yield text[start : token.end()]
                start = token.end()
        elif word == ";" and outside:
            yield text[start : token.end()]
            start = token.end()
    yield text[start:]


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
