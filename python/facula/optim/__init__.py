"""Optimizers and schedules of learning rates."""
from .optimizer import Optimizer
from . import lr_scheduler

__all__ = ["Optimizer", "lr_scheduler"]
