"""The engine: answers to many, computed together.

In reading order:
    engine: `Engine`, which takes requests and has the thread.
    request: requests, their events and tickets.
    scheduler: whose tokens are computed next.
    pages: keys and values of many texts, and the step that they share.
    block_pool: the blocks of pages.
    drafts: guesses of the next tokens.
"""

from tfn.llm.engine.engine import Engine as Engine
from tfn.llm.engine.request import Event as Event
from tfn.llm.engine.request import Failed as Failed
from tfn.llm.engine.request import Progress as Progress
from tfn.llm.engine.request import Scores as Scores
from tfn.llm.engine.request import Stats as Stats
from tfn.llm.engine.request import Ticket as Ticket
