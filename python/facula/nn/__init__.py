"""torch.nn: layers, containers, losses; nn.functional, nn.init, nn.utils."""
from .parameter import *
from .parameter import Parameter, is_lazy
from .modules import *
from .modules import Module
from . import functional, modules, parameter
