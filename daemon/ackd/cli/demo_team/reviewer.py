"""An agent in a terminal that hangs in the middle of its first turn, until it is interrupted (Escape, Escape, Ctrl-C).

From then on it does what it is told: says that it has the message, reads it, works, reports.
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


def review(line: str, *, awake: bool) -> None:
    message_id = re.findall(r"ackd read (\S+)", line)[-1]
    print("\n* reviewing the notes\n> ", end="", flush=True)
    if not awake:
        time.sleep(3600)
    subprocess.run(["ackd", "ack", message_id], check=True, stdout=subprocess.DEVNULL)
    message = subprocess.check_output(["ackd", "read", message_id], text=True)
    task_id = re.findall(r"^task_id: *(\S+)", message, re.MULTILINE)[0]
    report = ["./report.sh", task_id, "reviewed, once awake", message_id]
    subprocess.run(report, check=True, stdout=subprocess.DEVNULL)
    print("\rthe notes are fine")


def main() -> None:
    awake = False
    while True:
        try:
            line = input("> ")
            if "ackd read" in line:
                echo(on=False)
                review(line, awake=awake)
        except KeyboardInterrupt:
            print("\n(interrupted)")
            awake = True
        except EOFError:
            return
        finally:
            echo(on=True)


if __name__ == "__main__":
    main()
