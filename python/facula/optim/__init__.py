"""Optimizers and schedules of learning rates."""
from .optimizer import Optimizer
from .rules import SGD, ASGD, Adadelta, Adagrad, Adam, Adamax, AdamW, NAdam, RAdam, RMSprop, Rprop, SparseAdam
from .lbfgs import LBFGS
from . import lr_scheduler

__all__ = ["Optimizer", "lr_scheduler", "SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam",
           "ASGD", "Rprop", "SparseAdam", "LBFGS"]
