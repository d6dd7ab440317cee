"""A scheduler of Dask and its workers in this machine, for one test."""

from typing import Any

import pytest


def local_cluster(workers: int) -> Any:
    """Workers of one thread each, in processes of their own, as a context.

    The scheduler's page gets a port of its own: without an address all schedulers ask for the same one,
    and the second of two tests that run at once warns of it.
    """
    distributed = pytest.importorskip("distributed")
    return distributed.LocalCluster(
        n_workers=workers, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0"
    )
