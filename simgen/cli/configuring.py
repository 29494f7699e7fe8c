"""config: defaults of the command line."""

from __future__ import annotations

import click

from simgen.cli import completing
from simgen.cli.answers import answer, json_option
from simgen.errors import UsageError


@click.command()
@click.argument("pairs", nargs=-1, metavar="[KEY=VALUE]...", shell_complete=completing.defaults)
@json_option
def config(pairs: tuple[str, ...], as_json: bool) -> None:
    """Show or set defaults: target, arch, mode, executor.

    A default stands for an option that the command line leaves out. An environment variable comes
    before the file: SIMGEN_TARGET, SIMGEN_ARCH, SIMGEN_MODE, SIMGEN_EXECUTOR. KEY= removes a key.

    \b
    simgen config
    simgen config target=mgpusim mode=timing
    simgen config mode=

    The file is $SIMGEN_CONFIG, else simgen/config.toml in $XDG_CONFIG_HOME or ~/.config. The Python
    API does not read it.
    """
    from simgen.cli import defaults, present

    given = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals:
            raise UsageError(f"{pair!r}: not a default; write KEY=VALUE, such as target=mgpusim")
        given[key.strip()] = text.strip()
    if given:
        defaults.write(given)
    had = defaults.found()
    if as_json:
        rows = {key: {"value": text, "from": place} for key, (text, place) in had.items()}
        answer("config", {"file": str(defaults.path()), "settings": rows})
        return
    print(f"file: {defaults.path()}")
    if had:
        told = [(key, *each) for key, each in had.items()]
        present.table(None, ("default", "value", "from"), told)
    else:
        keys = ", ".join(defaults.DEFAULTS)
        print(f"no defaults are set; simgen config KEY=VALUE sets one of {keys}")
