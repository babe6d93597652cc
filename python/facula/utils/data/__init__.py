"""Data sets, the order in which their samples are drawn, and loaders that make batches of them.

A Dataset answers dataset[i] and len(dataset), an IterableDataset is iterated. A DataLoader draws indices from a sampler, collects
samples and collates them into batches, in this process or in workers. Orders are PyTorch's for the same seed.
"""
from .collate import default_collate, default_convert
from .dataloader import DataLoader
from .dataset import (ChainDataset, ConcatDataset, Dataset, IterableDataset, StackDataset, Subset, TensorDataset, random_split)
from .distributed import DistributedSampler
from .info import get_worker_info
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler, SubsetRandomSampler, WeightedRandomSampler

__all__ = ["BatchSampler", "ChainDataset", "ConcatDataset", "DataLoader", "Dataset", "DistributedSampler", "IterableDataset",
           "RandomSampler", "Sampler", "SequentialSampler", "StackDataset", "Subset", "SubsetRandomSampler", "TensorDataset",
           "WeightedRandomSampler", "default_collate", "default_convert", "get_worker_info", "random_split"]
