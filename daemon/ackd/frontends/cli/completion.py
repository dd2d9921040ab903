"""`ackd completion`: the script that makes a shell complete ackd's commands and options."""

from __future__ import annotations

import click

from ackd.frontends.cli.options import json_option, reported


@click.command()
@click.argument("shell", type=click.Choice(["bash", "fish", "zsh"]))
@click.option("--root", hidden=True)
@click.option("--config", hidden=True)
@json_option
def completion(shell: str, as_json: bool, root: str | None, config: str | None) -> None:  # noqa: ARG001 - as everywhere
    """Print the completion script of a shell. For bash: eval "$(ackd completion bash)" in ~/.bashrc."""
    from click.shell_completion import get_completion_class

    from ackd.frontends.cli.group import cli

    with reported():
        kind = get_completion_class(shell)
        assert kind is not None
        script = kind(cli, {}, "ackd", "_ACKD_COMPLETE").source()
        if as_json:
            import json

            script = json.dumps({"shell": shell, "script": script})
        click.echo(script)
