"""The pipeline lead: stories through four stages, each stage by a fresh worker.

lead: looks · reports: hears · conduct: carries out · farewells: how workers leave · workers, rooms: where they live ·
endpoint: how they are told · letters: what is written · boxes: what lies in queues · story_facts: lines of the log.
"""

from ackd.runtime.pipeline.making import made
from ackd.runtime.pipeline.tidying import clear_boxes
from ackd.runtime.pipeline.workers import StageWorkers

__all__ = ["StageWorkers", "clear_boxes", "made"]
