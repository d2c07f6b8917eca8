"""The commands that the pages and the help texts show, taken out of them.

A command begins at the word ``tarmac``: in a block of a page, in an inline code span, or under
``Examples:`` of a help text. A shell's part of the line, such as a redirection, is left out.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from command_line import commands
from doc_pages import PAGES, ROOT, blocks, page_id

# Lists of changes and of commands for other programs show no command to be typed today.
_NO_COMMANDS = {"CHANGELOG.md"}
_SHOWN = {"bash", "console", "dockerfile", "ini", "sh", "text", "yaml"}
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`([^`]+)`")
_PROGRAM = re.compile(
    r"""(?:^|(?<=[\s;|&("'=])|(?<=`))(?:[\w./~-]+/)?tarmac(?:-gpu)?(?= -|\ [a-z]|\ [A-Z]{4,}|$)"""
)
# What a shell puts in place of a part of a line.
_SUBSTITUTION = re.compile(r"\$\(([^()]*)\)")
_ENDS = re.compile(r"^[|&;<>()]+$")
_ASSIGNMENT = re.compile(r"(?:^|\s)([A-Z_]+)=(\S+)(?=\s+(?:[A-Z_]+=\S+\s+)*tarmac)")


@dataclasses.dataclass(frozen=True, order=True)
class Documented:
    """A command as it is shown.

    Attributes:
        page: The page, or the line of the command whose help has it.
        arguments: Its words after ``tarmac``.
        kind: ``help``, ``span``, or the kind of its block: ``console``, ``text``.
        environment: Variables that the line sets before it.
        is_fed: Whether the line gives it something to read.
    """

    page: str
    arguments: tuple[str, ...]
    kind: str
    environment: tuple[tuple[str, str], ...] = ()
    is_fed: bool = False

    @property
    def line(self) -> str:
        return " ".join(("tarmac", *self.arguments))


def commands_of_line(line: str) -> Iterator[tuple[tuple[str, ...], bool]]:
    """Yield the arguments of each ``tarmac`` in a line, and whether something is piped into it."""
    for match in _PROGRAM.finditer(line):
        words = arguments_after(line[match.end() :])
        if words:
            before = line[: match.start()].rstrip()
            is_fed = before.endswith("|") or re.search(r"\s<\s*\S", line[match.end() :]) is not None
            yield tuple(words), is_fed


def arguments_after(text: str) -> list[str] | None:
    """Return the words of a simple command up to where the shell's own begin; None for prose."""
    kept: list[str] = []

    def keep(match: re.Match[str]) -> str:
        kept.append(match[0])
        return f"@{len(kept) - 1}@"

    text = _SUBSTITUTION.sub(keep, text).replace('\\"', '"')
    # A quote that was opened before `tarmac` ends the command as the shell's own words do.
    for cut in (text, *(text[: m.start()] for m in reversed(list(re.finditer("[\"')]", text))))):
        lexer = shlex.shlex(cut, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        try:
            words = list(lexer)
        except ValueError:
            continue
        break
    else:
        return None
    own: list[str] = []
    for word in words:
        if _ENDS.match(word):
            if own and word.startswith(">") and own[-1] == "2":
                own.pop()
            break
        own.append(re.sub(r"@(\d+)@", lambda m: kept[int(m[1])], word))
    return own


def _of_page(page: Path) -> Iterator[Documented]:
    name = page_id(page)
    for block in blocks(page):
        if block.kind not in _SHOWN:
            continue
        for line in block.text.replace("\\\n", " ").splitlines():
            shown = line.strip().removeprefix("$ ")
            if shown.startswith("#"):
                continue
            if block.kind == "yaml":
                shown = shown.partition(" # ")[0]
            environment = tuple(_ASSIGNMENT.findall(shown))
            for words, is_fed in commands_of_line(shown):
                yield Documented(name, words, block.kind, environment, is_fed)
    for span in _SPAN.findall(_FENCE.sub("", page.read_text())):
        for words, is_fed in commands_of_line(" ".join(span.split())):
            yield Documented(name, words, "span", (), is_fed)


def _of_help() -> Iterator[Documented]:
    for line, command, context in commands():
        for row in command.get_help(context).partition("\nExamples:\n")[2].splitlines():
            # Two spaces or more divide a line from what is said of it.
            shown = re.split(r" {2,}", row.strip())[0]
            for words, is_fed in commands_of_line(shown):
                yield Documented(line, words, "help", tuple(_ASSIGNMENT.findall(shown)), is_fed)


def documented() -> list[Documented]:
    """Return each distinct command once; of its places the first whose page is run whole."""
    places = [_of_page(page) for page in PAGES if page.name not in _NO_COMMANDS]
    shown = [command for place in (*places, _of_help()) for command in place]
    order = {"console": 0, "help": 2, "span": 3}
    first: dict[tuple[object, ...], Documented] = {}
    for command in sorted(shown, key=lambda command: order.get(command.kind, 1)):
        key = (command.arguments, command.environment, command.is_fed)
        first.setdefault(key, command)
    return sorted(first.values())


def hints() -> Iterator[Documented]:
    """Yield the commands that messages of the source advise, up to the end of their sentence."""
    for path in sorted((ROOT / "src" / "tarmac").rglob("*.py")):
        if "tarmac " not in path.read_text():
            continue
        for line in (line for text in _messages_of(path) for line in text.splitlines()):
            for advised in re.findall(r"(?:^|: |`)(tarmac [a-z]+ [^`]*)", line):
                sentence = re.split(r"[.,:;](?: |$)", advised)[0]
                for words, _ in commands_of_line(sentence):
                    yield Documented(str(path.relative_to(ROOT)), words, "span")
    for path in sorted((ROOT / "src" / "tarmac").rglob("*.toml")):
        # What failures advise: texts of lists, with remarks behind a hash.
        for advised in re.findall(r'"(tarmac [a-z]+[^"#]*)', path.read_text()):
            for words, _ in commands_of_line(re.sub(r"\{\w+\}", "X", advised)):
                yield Documented(str(path.relative_to(ROOT)), words, "span")


# Programs whose options are none of ours, where a text names them before an option.
_OTHERS = re.compile(
    r"\b(?:pip|uv|docker|podman|apptainer|srun|sbatch|salloc|scancel|squeue|sinfo|torchrun|mpirun|"
    r"kubectl|nvidia-smi|mokutil|wsl|sky|ray (?:start|stop)|ssh|mlflow|check-jsonschema|sudo|curl|"
    r"exec|trap|dcgm-exporter|vllm|sglang|"
    r"long option of)\b"
)
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*[a-z0-9]")


@dataclasses.dataclass(frozen=True, order=True)
class AdvisedOption:
    """An option that a text of the source names.

    Attributes:
        file: Below ``src/tarmac``.
        option: ``--name``.
        command: The command that the text names before it, ``tarmac run``; empty of a lone option.
        text: The line.
    """

    file: str
    option: str
    command: str
    text: str


def advised_options() -> Iterator[AdvisedOption]:
    """Yield the options of Tarmac's that lines of messages name; docstrings are none."""
    root = ROOT / "src" / "tarmac"
    for path in sorted([*root.rglob("*.py"), *root.rglob("*.toml")]):
        text = path.read_text()
        if "--" not in text:
            continue
        texts = [text] if path.suffix == ".toml" else _messages_of(path)
        for line in (line for text in texts for line in text.splitlines() if " " in line):
            for match in _OPTION.finditer(line):
                # Of a line with several programs, the last one before the option takes it.
                before = line[: match.start()]
                ours = [m.end() for m in re.finditer(r"(?<![a-z])tarmac(?: [a-z]+)+", before)]
                others = [m.end() for m in _OTHERS.finditer(before)]
                if others and max(others) > max(ours, default=0):
                    continue
                named = re.findall(r"(?<![a-z])tarmac(?: [a-z]+)+", before)
                file = str(path.relative_to(root))
                yield AdvisedOption(file, match[0], named[-1] if named else "", line.strip())


@functools.cache
def _nodes_of(path: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(path.read_text())))


@functools.cache
def _messages_of(path: Path) -> list[str]:
    """Return the texts of a module's code, without its docstrings."""
    nodes = _nodes_of(path)
    inner = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    inner |= {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    return [text for node in nodes if id(node) not in inner and (text := _text_of(node, inner))]


def unquoted_values() -> Iterator[str]:
    """Yield the paths that advised commands hold as they are, which a space would break."""
    root = ROOT / "src" / "tarmac"
    for path in sorted(root.rglob("*.py")):
        if "tarmac " not in path.read_text():
            continue
        for node in _nodes_of(path):
            if not isinstance(node, ast.JoinedStr):
                continue
            line = ""
            for part in node.values:
                if isinstance(part, ast.Constant):
                    line = (line + str(part.value)).rpartition("\n")[2]
                    continue
                value = ast.unparse(part.value) if isinstance(part, ast.FormattedValue) else ""
                # A sentence that follows the command ends it.
                command = re.search(r"(?<![a-z])tarmac [a-z]+(?: [^.:;(]*)?$", line)
                if command and re.search(r"(^|\.)path$|^(run|uri|directory|origin|output)$", value):
                    yield f"{path.relative_to(root)}:{part.lineno}: {{{value}}}"
                line += "X"


def _text_of(node: ast.AST, parts: set[int]) -> str:
    """Return the text of a string outside of an f-string, values of one as X."""
    if isinstance(node, ast.JoinedStr):
        return "".join(
            str(value.value) if isinstance(value, ast.Constant) else "X" for value in node.values
        )
    is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return str(node.value) if is_text and id(node) not in parts else ""
