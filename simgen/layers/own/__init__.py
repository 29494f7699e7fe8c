"""Kernels that a user brings, as one layer: what a file says of them, their reference, its bounds.

The layer is in no config, so `LAYERS` does not have it; `simgen.frontend.network.make_layer` does.

May import: layers.base, layers.elementwise.
"""

from simgen.layers.own.definition import Definition as Definition
from simgen.layers.own.definition import OwnTensor as OwnTensor
from simgen.layers.own.layer import OwnKernel as OwnKernel
