"""A source of a user, cut into declarations: what is for a GPU, and what a kernel needs of it.

A sample's file has its host program beside its kernels. That is left out: functions that are
neither `__global__` nor `__device__`, variables that are not constant, and includes of the system.
Lines stay where they are, so that what a compiler says of them is said of the user's file.

Variables of the whole GPU (`__constant__ float mask[9];`) have no place that a launcher could fill.
They become types, and `simgen.kernels.own` makes their names stand for tensors.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from simgen.ground.ir import VARIABLE, VARIABLE_TYPE

_QUALIFIERS = "__global__|__device__|__constant__|__shared__"
_FOR_GPU = re.compile(rf"\b({_QUALIFIERS})\b")
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)(?:\([^)\n]*\))?((?:\\\n|[^\n])*)", re.M)
_OPENS = re.compile(r'\s*(inline\s+)?namespace\b[^{;=()]*\{|\s*extern\s+"C"\s*\{')
_CLOSES = ("}", "};")
_TEMPLATE = r"template\s*<[^;{]*>\s*"
_KEPT = re.compile(
    rf"\s*(?:(?:{_TEMPLATE})?(?:struct|class|union)\b|enum\b|using\s+\w+\s*=|typedef\b"
    rf"|static_assert\b|(?:{_TEMPLATE})?(?:static\s+|inline\s+)*(?:constexpr|const)\b"
    rf"|{_TEMPLATE}using\b|using\s+[\w:]+\s*;|namespace\s+\w+\s*=)"
)
_USING = re.compile(r"\s*using\s+namespace\s+([\w:]+)\s*;")
_KNOWN_SPACES = ("cooperative_groups", "nvcuda", "std")  # namespaces that templates/own defines
# What programs fill from the host, or kernels change: `__constant__ float mask[9];`.
_VARIABLE = re.compile(
    r"(?!.*\b(?:const|constexpr)\b[^;]*=)(?:(?:static|extern|inline|volatile)\s+)*"
    r"(?:__device__|__constant__|__managed__)\s"
    r"(?:[^(){}=;]|\b(?:struct|union)\b[^(){}=;]*\{[^{}]*\})*?(\w+)\s*(?:\[[^;=]*\]\s*)?(?:=[^;]*)?;",
    re.S,
)
_QUALIFIER = re.compile(
    r"\b(?:static|extern|inline|volatile|const|__device__|__constant__|__managed__)\b"
)
_TYPES = re.compile(r"\b(?:struct|class|union|enum)\b")
_ATTRIBUTE = re.compile(
    r"\b(?:__align__|alignas|__attribute__|__launch_bounds__|__declspec)\s*"
    r"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
)
_POINTER = re.compile(
    r"[^(={]*\(\s*\*\s*(?:const\s+)?(\w+)\s*(?:\[[^\]]*\]\s*)*\)\s*\("
)  # to a function
_WORD = re.compile(r"[A-Za-z_]\w*")
_BASIC = frozenset(
    (
        "auto", "bool", "char", "class", "const", "constexpr", "double", "enum", "extern", "float",
        "inline", "int", "long", "operator", "short", "signed", "static", "struct", "template",
        "typedef", "typename", "union", "unsigned", "using", "void", "volatile", "__device__",
        "__host__", "__forceinline__", "__inline__", "__restrict__",
    )
)  # fmt: skip
_STRING = re.compile(r'"(?:\\.|[^"\\\n])*"')
_TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"([^()\\\s]{0,16})\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
    r"|^[ \t]*#(?:\\\n|[^\n])*|[{}();]",
    re.S | re.M,
)


def kernels_only(text: str, tensors: Collection[str] = ()) -> tuple[str, tuple[str, ...]]:
    """C++ without what is for the host, line for line, and the names of variables of the whole GPU,
    in whose places types stand now.

    What `__constant__` holds from its source on stays so, unless one of `tensors` has its name.
    """
    for_gpu = _for_gpu(text)
    spaces = {*_KNOWN_SPACES, *re.findall(r"\bnamespace\s+(\w+)\s*\{", text)}
    kept: list[str] = []
    variables: dict[str, None] = {}
    opened = 0  # name spaces
    for piece in _pieces(text):
        code = plain(piece)
        if _VARIABLE.match(code):
            types, names = _types_of(piece)
            if _is_table(code, text):
                pass
            elif (
                "=" not in code
                or "__constant__" not in code
                or not names.keys().isdisjoint(tensors)
            ):
                piece = types
                variables |= names
            else:
                piece = re.sub(r"\b__constant__\b", "const __constant__", piece, count=1)
        opened += bool(_OPENS.match(code)) - (code in _CLOSES)
        closes_nothing = opened < 0  # branches of the preprocessor have braces each
        opened = max(opened, 0)
        kept.append(
            _blank(piece) if closes_nothing or not _is_kept(piece, spaces, for_gpu) else piece
        )
    return "".join(kept), tuple(variables)


def _is_table(code: str, text: str) -> bool:
    """Whether a variable holds addresses of functions."""
    values = code.partition("=")[2]
    return any(
        re.search(rf"\b__device__\b[^;{{}}=]*\b{name}\s*\(", text) for name in _WORD.findall(values)
    )


def _for_gpu(text: str) -> re.Pattern[str]:
    """What says that something is for a GPU: qualifiers, and macros that become one."""
    found = _FOR_GPU
    while True:
        names = [name for name, body in _MACRO.findall(text) if found.search(body)]
        more = re.compile(rf"\b({'|'.join([_QUALIFIERS, *dict.fromkeys(names)])})\b")
        if more == found:
            return found
        found = more


def needed(text: str, entry: str) -> str:
    """What a kernel needs of such a text, line for line: others of its file may need what is not
    here.

    Where names are made by macros, all is kept but what is the host's library's.
    """
    pieces = list(_pieces(text))
    roots = [_is_root(plain(piece)) for piece in pieces]
    codes = [_STRING.sub('""', plain(piece)) for piece in pieces]
    declared = [
        {word.removeprefix(VARIABLE_TYPE) for word in _declares(code)} - _BASIC for code in codes
    ]
    name = re.sub(r"<.*", "", entry).split("::")[-1]
    found = [name in d and "__global__" in c for c, d in zip(codes, declared, strict=True)]
    if not any(found) or "##" in text:
        return "".join(
            p if "std::" not in c or _FOR_GPU.search(c) else _blank(p)
            for p, c in zip(pieces, codes, strict=True)
        )
    kept = [root or is_entry for root, is_entry in zip(roots, found, strict=True)]
    chosen = (c for c, keep in zip(codes, kept, strict=True) if keep)
    words = set(_WORD.findall(entry)).union(*map(_WORD.findall, chosen))
    again = True
    while again:
        again = False
        for at, names in enumerate(declared):
            if not kept[at] and not names.isdisjoint(words):
                kept[at] = again = True
                words.update(_WORD.findall(codes[at]))
    return "".join(p if keep else _blank(p) for p, keep in zip(pieces, kept, strict=True))


def with_variables(text: str, names: Collection[str]) -> tuple[str, tuple[str, ...]]:
    """Such a text in which variables of the whole GPU have names of their own, and those that it
    uses; members, parameters and local variables of the same names stay."""
    used: dict[str, None] = {}
    pieces = list(_pieces(text))
    for name in names:
        own = re.compile(rf"({_STRING.pattern})|(?<![\w.:])(?<!->)((?:(?!std\b)\w*::)*)\b{name}\b")

        def put(found: re.Match[str], to: str = VARIABLE + name) -> str:
            space = found[2].removeprefix("::") if found[2] else ""
            return found[1] or (f"{to}_in({space})" if space else to)

        for at, piece in enumerate(pieces):
            if not _shadows(plain(piece), name):
                pieces[at] = own.sub(put, piece)
                if re.search(rf"\b{VARIABLE}{name}(_in)?\b", plain(pieces[at])):
                    used[name] = None
    return "".join(pieces), tuple(each for each in names if each in used)


def _shadows(code: str, name: str) -> bool:
    """Whether a definition has a parameter, a variable or a member of this name."""
    head, opened, body = code.partition("{")
    ends = rf"{name}\s*[=;,)\[{{:]"
    if not opened:
        return False
    if _TYPES.search(head) and "(" not in head:
        return bool(re.search(rf"[\s*&,]{ends}", body))
    behind = rf"(?:\s*<[^<>;]*>)?[\s*&]+(?:(?:const|__restrict__|__restrict)\s+)*{ends}"
    begins = r"(?:[;{}]|\bfor\s*\()\s*(?!return\b|else\b|case\b|goto\b|delete\b)"
    return bool(
        re.search(rf"[(,][\w\s:]*\w{behind}", head)
        or re.search(rf"{begins}[\w\s:]*\w{behind}", "{" + body)
        or re.search(rf"{begins}[\w:]+[\s*&]+\w+[^;{{}}()]*,\s*[*&]*{ends}", "{" + body)
    )


def plain(piece: str) -> str:
    """A piece without comments."""
    return re.sub(r"/\*.*?\*/|//[^\n]*", " ", piece, flags=re.S).strip()


def _blank(piece: str) -> str:
    return "\n" * piece.count("\n")


def _types_of(piece: str) -> tuple[str, dict[str, None]]:
    """`__constant__ float mask[9] = {...};` as `typedef float simgen_type_mask[9];`; names."""
    body = _QUALIFIER.sub(" ", plain(piece)).rstrip(";")
    first, *more = _between_commas(body)
    declared = [each.split("=")[0].strip() for each in (first, *more)]
    found = [re.search(r"(\w+)\s*((?:\[[^\]]*\]\s*)*)$", each) for each in declared]
    names = dict.fromkeys(each[1] for each in found if each)
    parts = [
        f"{text[: each.start()]}{VARIABLE_TYPE}{each[1]}{each[2]}"
        for text, each in zip(declared, found, strict=True)
        if each
    ]
    return _blank(piece) + f"typedef {' '.join(', '.join(parts).split())};", names


def _between_commas(text: str) -> list[str]:
    parts, depth = [""], 0
    for c in text:
        depth += (c in "([{<") - (c in ")]}>")
        if c == "," and not depth:
            parts.append("")
        else:
            parts[-1] += c
    return parts


def _is_kept(piece: str, spaces: set[str], for_gpu: re.Pattern[str]) -> bool:
    code = plain(piece)
    if not code or code[0] == "#" or code in _CLOSES or _OPENS.match(code):
        return True
    if using := _USING.match(code):
        return using[1] in spaces
    return bool(for_gpu.search(code)) or bool(_KEPT.match(code))


def _is_root(code: str) -> bool:
    """Whether a piece stays, whatever names it."""
    if not code or code[0] == "#" or code in _CLOSES or _OPENS.match(code):
        return True
    return bool(_USING.match(code)) or code.startswith(("namespace", "static_assert"))


def _declares(code: str) -> set[str]:
    """The names by which others may need a piece: too many rather than too few."""
    head, opened, rest = code.partition("{")
    head = _ATTRIBUTE.sub(" ", head)
    tail = rest.rpartition("}")[2]
    if re.search(r"\boperator\b", head):  # needed where its types are
        return {*_WORD.findall(head)}
    without = re.sub(r"^template\s*<.*?>\s*(?=\w)", "", head, flags=re.S)
    if alias := re.match(r"using\s+(?:(\w+)\s*=|[\w:]*?(\w+)\s*;)", without):
        return {alias[1] or alias[2]}
    if not opened and (alias := re.match(r"typedef\b[^(),]*?(\w+)\s*(?:\[[^\]]*\]\s*)*;", without)):
        return {alias[1]}
    if _TYPES.search(without) and "(" not in without:
        inner = _WORD.findall(rest) if "enum" in without else []
        return {*_WORD.findall(without), *inner, *_WORD.findall(tail)}
    if pointer := _POINTER.match(without):
        return {pointer[1]}
    function = re.search(r"(\w+)\s*(?:<[^()]*>\s*)?\(", without)
    if function and "=" not in without[: function.start()] and not without.startswith("typedef"):
        return {function[1]}
    return {*_WORD.findall(code if not opened else f"{head} {tail}")}


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
            behind = re.match(r"[^;{}()=]*[;=]", text[token.end() :]) if braces == 0 else None
            goes_on = behind and not _is_function(plain(text[start : token.end()]))
            if braces < 0 or (braces == 0 and not parentheses and not goes_on):
                braces = max(braces, 0)
                yield text[start : token.end()]
                start = token.end()
        elif word == ";" and outside:
            yield text[start : token.end()]
            start = token.end()
    yield text[start:]


def _is_function(code: str) -> bool:
    """Whether a definition that begins so ends with its brace, and not with a semicolon."""
    head = _ATTRIBUTE.sub(" ", code.partition("{")[0])
    return bool(re.search(r"\)[\w\s]*(?:->[^{]*)?$|\)\s*:[^:]", head))
