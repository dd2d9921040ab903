"""An async worker: one call of a model for each step, and a fresh worker before its context is full.

[agents.writer]
endpoint = "process"
command = ["python3", "worker.py"]
"""

import asyncio
import json

from ackd.worker import Task, run

STEPS = ("read the task", "write the tests", "write the code", "review it")


async def ask_the_model(prompt: str) -> tuple[str, float]:
    """What it answers, and how full its context is by now. Put your agent's command here."""
    agent = await asyncio.create_subprocess_exec("./agent", prompt, stdout=asyncio.subprocess.PIPE)
    printed, _ = await agent.communicate()
    answer = json.loads(printed)
    return answer["text"], answer["context_usage"]


async def work(task: Task) -> None:
    for step in task.steps(STEPS):
        so_far = task.checkpoint.setdefault("answers", [])
        answer, usage = await ask_the_model(f"{step}: {task.body}\nSo far: {so_far}")
        so_far.append(answer)
        if answer.startswith("BLOCKED"):
            task.blocked(answer)
        task.context(usage)
    task.verified(passed=task.checkpoint["answers"][-1] == "approved", output=task.checkpoint["answers"][-1])


if __name__ == "__main__":
    run(work)
