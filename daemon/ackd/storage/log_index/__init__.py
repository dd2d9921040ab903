"""Find lines of the session logs without reading all of them: an index that can be thrown away (README.md).

query: which lines are wanted · pieces: reading a part of one log · index_file: the SQLite file in ``state/`` ·
building: bringing it up to date · search: the answer, from the index and from what it does not cover. Readers use
``LogSearch``; the daemon and the commands that only write never do.
"""

from ackd.storage.log_index.query import LineQuery, is_of_type
from ackd.storage.log_index.search import LogSearch

__all__ = ["LineQuery", "LogSearch", "is_of_type"]
