"""One file per layer. Importing this package fills `LAYERS`."""

from simgen.layers import activation as activation
from simgen.layers import add as add
from simgen.layers import batch_norm as batch_norm
from simgen.layers import bypass as bypass
from simgen.layers import concat as concat
from simgen.layers import convolution as convolution
from simgen.layers import dropout as dropout
from simgen.layers import fully_connected as fully_connected
from simgen.layers import fused as fused
from simgen.layers import gemm as gemm
from simgen.layers import input as input
from simgen.layers import layer_norm as layer_norm
from simgen.layers import lrn as lrn
from simgen.layers import pooling as pooling
from simgen.layers import sgd as sgd
from simgen.layers import slice as slice
from simgen.layers import softmax as softmax
from simgen.layers.base import LAYERS as LAYERS
from simgen.layers.base import Layer as Layer
