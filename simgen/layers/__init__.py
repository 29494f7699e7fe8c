"""One file per layer, in rooms where a layer is several: parameters, shapes, operation counts,
launches, reference, tolerance. Importing this package fills `LAYERS`,

May import: ask, errors, ground.
"""

from simgen.layers import activation as activation
from simgen.layers import adam as adam
from simgen.layers import add as add
from simgen.layers import all_reduce as all_reduce
from simgen.layers import attention_sum as attention_sum
from simgen.layers import broadcast as broadcast
from simgen.layers import bypass as bypass
from simgen.layers import cast as cast
from simgen.layers import concat as concat
from simgen.layers import divide as divide
from simgen.layers import dropout as dropout
from simgen.layers import embedding as embedding
from simgen.layers import fused as fused
from simgen.layers import input as input
from simgen.layers import mask as mask
from simgen.layers import multiply as multiply
from simgen.layers import permute as permute
from simgen.layers import piecewise as piecewise
from simgen.layers import rearrange as rearrange
from simgen.layers import reduce_mean as reduce_mean
from simgen.layers import reshape as reshape
from simgen.layers import sgd as sgd
from simgen.layers import slice as slice
from simgen.layers import softmax as softmax
from simgen.layers import subtract as subtract
from simgen.layers.base import LAYERS as LAYERS
from simgen.layers.base import Layer as Layer
from simgen.layers.conv import convolution as convolution
from simgen.layers.loss import cross_entropy as cross_entropy
from simgen.layers.loss import sampled_softmax as sampled_softmax
from simgen.layers.loss import squared_error as squared_error
from simgen.layers.norm import batch_norm as batch_norm
from simgen.layers.norm import layer_norm as layer_norm
from simgen.layers.norm import lrn as lrn
from simgen.layers.norm import rms_norm as rms_norm
from simgen.layers.pool import pooling as pooling
from simgen.layers.product import circulant as circulant
from simgen.layers.product import fully_connected as fully_connected
from simgen.layers.product import gemm as gemm
from simgen.layers.recurrent import recurrent as recurrent
from simgen.layers.sparse import sparse_gemm as sparse_gemm
from simgen.layers.sparse import structured_gemm as structured_gemm
