"""What a worker process knows about itself. Apart from worker.py, whose imports a loader without workers does not need."""

__all__ = ["get_worker_info", "WorkerInfo"]

current = None  # set in a worker


class WorkerInfo:
    """What get_worker_info() tells: id, num_workers, seed, dataset (this worker's copy).

    >>> torch.utils.data.get_worker_info() is None
    True
    """

    def __init__(self, **facts):
        self.__dict__.update(facts)
        self.__dict__["_keys"] = tuple(facts)

    def __setattr__(self, name, value):
        raise RuntimeError(f"Cannot assign attributes to {type(self).__name__} objects")

    def __repr__(self):
        return f"{type(self).__name__}({', '.join(f'{key}={getattr(self, key)}' for key in self._keys)})"


def get_worker_info():
    """In a worker of a DataLoader: its number, how many there are, its seed and its data set. Elsewhere None.

    >>> torch.utils.data.get_worker_info() is None
    True
    """
    return current
