"""``python -m ackd`` is ``ackd``."""

from ackd.frontends.cli.main import main

main()
