"""Ranks as threads of this process, that meet as the ranks of an MPI do."""

import threading
from concurrent.futures import ThreadPoolExecutor

PATIENCE = 30.0

here = threading.local()
"""`here.host`: that of the rank whose thread asks."""


class Together:
    """One rank's `allgather`, with the attributes of a transport that the beginning of a run looks at."""

    def __init__(self, rank, shared_rank, table, barrier):
        self.rank, self.shared_rank, self.size = rank, shared_rank, len(table)
        self._table, self._barrier = table, barrier

    def allgather(self, item):
        self._barrier.wait(PATIENCE)
        self._table[self.rank] = item
        self._barrier.wait(PATIENCE)
        return list(self._table)


def together(hosts, function):
    """Call a function with each rank's `Together`; return what it returns, or has raised, by rank."""
    size = len(hosts)
    table, barrier = [None] * size, threading.Barrier(size)
    ends = [
        Together(rank, hosts[:rank].count(host), table, barrier) for rank, host in enumerate(hosts)
    ]  # fmt: skip

    def run(end):
        here.host = hosts[end.rank]
        try:
            return function(end)
        except Exception as error:
            return error

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(run, ends))
