"""`ackd profile`: how each kind of agent's screen is read, and what is typed into it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackd.cli.command_line import Group, argument, for_team
from ackd.cli.errors import NOT_FOUND, Failure
from ackd.cli.output import echo, print_json, printable_lines, say
from ackd.config.model import load_site
from ackd.endpoints.tmux.screen import SHIPPED, BadProfile, Profile, load_profile, shipped_text

if TYPE_CHECKING:
    from ackd.config.site import Site

profile = Group(
    """List and show profiles: how an agent's screen in a tmux pane is read, and which keys tell and wake it.

    ackd knows claude, codex, gemini, opencode and shell. A team's own stand in ackd.toml: [profiles.NAME], from nothing
    or like a known one.
    """
)


@profile.command
@for_team
def list_(site: Site, as_json: bool) -> None:
    """List all profiles, and where each comes from."""
    own = load_site(site).profiles
    rows = {**dict.fromkeys(SHIPPED, "comes with ackd"), **dict.fromkeys(own, "from ackd.toml")}
    if as_json:
        print_json({"profiles": [{"name": name, "shipped": name not in own} for name in rows]})
        return
    for name, where in rows.items():
        say(f"{name}  {where}")


@profile.command
@argument("name", complete="ackd.endpoints.tmux.commands:profile_names")
@for_team
def show(site: Site, as_json: bool, name: str) -> None:
    """Print a profile: one of ackd's own as its file, a team's with every key, inherited ones too."""
    own = load_site(site).profiles
    found = _loaded(name, site)
    if as_json:
        print_json(found.model_dump(mode="json"), indent=2)
    elif name in SHIPPED and name not in own:
        echo(printable_lines(shipped_text(name)).rstrip("\n"))
    else:
        print_json(found.model_dump(mode="json"), indent=2)


def profile_names(site: Site) -> list[str]:
    return [*SHIPPED, *load_site(site).profiles]


def _loaded(name: str, site: Site) -> Profile:
    try:
        return load_profile(name, load_site(site).profiles)
    except BadProfile as bad:
        raise Failure(NOT_FOUND, str(bad), "`ackd profile list` lists them") from None
