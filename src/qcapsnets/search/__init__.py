"""Search: wordlengths under an accuracy tolerance and a memory budget."""

from qcapsnets.search.answers import Answers, Event
from qcapsnets.search.cost import Cost
from qcapsnets.search.executors import Executor, Processes, Serial
from qcapsnets.search.problem import Problem
from qcapsnets.search.result import Outcome, Step
from qcapsnets.search.scheme import Job, Strategy, run, strategies
from qcapsnets.search.settings import Settings, Tolerance

__all__ = [
    "Answers",
    "Cost",
    "Event",
    "Executor",
    "Job",
    "Outcome",
    "Problem",
    "Processes",
    "Serial",
    "Settings",
    "Step",
    "Strategy",
    "Tolerance",
    "run",
    "strategies",
]
