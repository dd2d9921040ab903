"""Recovery: what a start finds on disk, what each thing means, in which order it is met, and why that is safe.

Four things outlive a daemon. The queue directories hold the messages. The journal names the messages that the last
daemon had in hand, and is flushed before any file that it explains is moved. The directories of runs (``state/runs/``)
hold the results of commands, and commands that still run. The session logs hold the lines that were written. Receipts
lie in ``receipts/`` until they have been acted on.

| found                                                   | means                                                  |
|---------------------------------------------------------|--------------------------------------------------------|
| in queue/                                               | never claimed: offered                                 |
| in processed/, its run alive or with a result           | the run is adopted, or its result is taken             |
| twice, on two file systems, the same to the byte        | a move was not finished: the copy stays                |
| twice, one file of two names, and the journal has it    | a move was not finished: the new name stays            |
| in processed/, otherwise                                | by its header: offered again, or its timer goes on     |
| the journal has it, something else lies in its place    | overwritten while no daemon ran: withdrawn             |
| the journal has it, the file is in archive/ or dead_letter/ | ended; its line is written if the log lacks it     |
| the journal has it, no file, the directory is intact    | the agent completed it by deleting the file            |
| the journal has it, no file, the directory is another   | lost with its directory: said loudly                   |
| only a log has it, no file                              | ended unnoticed: its line is written (``missing``)     |
| the journal has it for a pool, it lies in its queue     | given back, or it had not left it: nobody has it       |
| the journal has it for a pool, another member has it    | given back: it is the other's                          |

The order (``Recovery.recover``, then ``Recovery.read_backlog``, then ``MissingMessages.fill_in``):

1. Timers wait, and hints of the watcher are held back: a deadline that passed long ago must not be met before the
   answer that lies on disk, and of two copies of a message the one in hand is the older.
2. Moves of two steps (a copy to another file system, a link) are finished, so that nothing is met twice.
3. Messages in hand are met, then answers and messages that receipts name: what they say must be known before anything
   is told again.
4. Receipts are heard before the results of runs, because an agent said them before its run ended.
5. Runs are adopted. Then messages that the journal names and that are nowhere get their end.
6. Timers go on, and work is offered. Waiting mail (``backlog``) is read while the first of it is already delivered.
7. At leisure, the logs of earlier sessions are read for messages whose end nobody wrote down.

It is safe to be interrupted at any point and done again. Nothing here moves a file, except that the old name is
removed where a move had already made the new one. Everything met is fed to the engine as the same events as ever, and
a line is written only if no session before has written it. The journal is compacted only from what was read of it.
"""
