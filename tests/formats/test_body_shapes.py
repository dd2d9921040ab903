"""The quick check must not import pydantic. Its results are tested beside the models."""

from __future__ import annotations

import subprocess
import sys


def test_checking_a_body_and_building_a_message_imports_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "from ackd.formats import body_shapes, ignite, yaml_body\n"
        "assert body_shapes.quick_check('user_goal', yaml_body.load('goal: x'))\n"
        "ignite.build(message_id='a@b', sender='a', to=['b'], date='x', type='user_goal', body='goal: x')\n"
        "print([m for m in ('asyncio', 'anyio', 'pydantic', 'structlog', 'rich', 'email') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "[]\n"


def test_the_codec_alone_does_not_import_yaml() -> None:
    code = "import sys; import ackd.formats.ignite; print('yaml' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "False\n"
