"""torch.nn.functional: the functions behind the layers."""
from .. import _C

globals().update({name: f for name, f in vars(_C._nn).items() if not name.startswith("_")})
