"""Stands in for an interactive agent in a terminal: reads a line, works on it, and says when it is done.

Its screens are described by [profiles.stand-in] in terminals.toml.
"""

import re
import subprocess
import termios
import time


def echo(*, on: bool) -> None:
    """While it works it shows no keys, as terminal programs do."""
    settings = termios.tcgetattr(0)
    settings[3] = settings[3] | termios.ECHO if on else settings[3] & ~termios.ECHO
    termios.tcsetattr(0, termios.TCSADRAIN, settings)


def work(message_id: str) -> None:
    print("\n* working\n> ", end="", flush=True)
    subprocess.run(["ackd", "read", message_id], check=True, stdout=subprocess.DEVNULL)
    time.sleep(1)
    subprocess.run(["ackd", "done", message_id], check=True, stdout=subprocess.DEVNULL)
    print("\rit is done")


def main() -> None:
    while True:
        try:
            told = re.findall(r"ackd read (\S+)", input("> "))
            if told:
                echo(on=False)
                work(told[-1])
        except KeyboardInterrupt:
            print("\n(interrupted)")
        except EOFError:
            return
        finally:
            echo(on=True)


if __name__ == "__main__":
    main()
