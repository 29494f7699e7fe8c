"""Writes written_programs.json.xz beside it: programs that write into memory that others share, or
that put 0 in place of NaN, as torch.export has them, and what PyTorch computes.

    python tests/data/written_programs.py      # PyTorch 2.15

Each is a function of a tensor `x` and a module with the buffer `cache`.
"""

import io
import json
import lzma
import warnings
import zipfile
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

NODE, TENSOR = ("target", "inputs", "outputs"), ("dtype", "sizes", "strides")
PROGRAMS = {}


def program(made):
    PROGRAMS[made.__name__] = made
    return made


@program
def fill_col(m, x):
    y = x * 1.0
    y[:, 0] = 0
    return y + 1


@program
def mul_col(m, x):
    y = x + 1
    y[:, 0] *= 2
    return y.relu()


@program
def mask_copy(m, x):
    y = x.relu()
    y[:, 2:4].copy_(x[:, 0:2])
    return y * 2


@program
def view_before_relu(m, x):
    y = x * 2
    v = y[:, 1:3]
    y.relu_()
    return v + 1


@program
def base_read_after_view_relu(m, x):
    y = x * 2
    v = y[:, 1:3]
    v.relu_()
    return y + 0


@program
def inplace_plain(m, x):
    y = x + 1
    y.relu_()
    y.mul_(2)
    return y


@program
def old_name(m, x):
    y = x + 1
    z = y.relu_()
    return y + z


@program
def chain_views(m, x):
    y = x * 3
    y.view(2, 2, 6)[1, :, 2:5] = 1
    return y.sigmoid()


@program
def transposed_write(m, x):
    y = x * 3
    y.t()[1] = 2
    return y.tanh()


@program
def kv_slot(m, x):
    cache = torch.zeros(4, 6, 2)
    cache[:, :, 1] = x
    cache[:, :, 0] = x * 2
    return cache.relu()


@program
def split_write(m, x):
    y = x + 0
    a, b, c = y.split(2, dim=1)
    b.mul_(3)
    return y * 1 + torch.cat([c, a, b], 1)


@program
def chunk_add(m, x):
    y = x + 0
    a, b = y.chunk(2, dim=1)
    a.add_(b)
    b.sub_(a)
    return y


@program
def two_views(m, x):
    y = x * 1
    a = y[:, 0:3]
    b = y[:, 2:5]
    a.fill_(1.5)
    b.mul_(2)
    return a * 1 + b


@program
def strided(m, x):
    y = x * 1
    y[:, ::2] = 0
    return y + 1


@program
def neg_index(m, x):
    y = x * 1
    y[:, -1] += 1
    y[-2:] *= 3
    return y + 1


@program
def expand_read(m, x):
    y = x[:, :1] * 1
    e = y.expand(4, 6)
    y.add_(1)
    return e + x


@program
def reshape_alias(m, x):
    y = x * 1
    v = y.reshape(6, 4)
    v[0] = 0
    return y + 1


@program
def reshape_copy(m, x):
    y = x * 1
    v = y.t().reshape(4, 6)
    v[0] = 0
    return y + 1


@program
def flatten_alias(m, x):
    y = x * 1
    v = y.flatten()
    v[3:7] = 0
    return y + 1


@program
def dropout_alias(m, x):
    y = x * 1
    v = functional.dropout(y, 0.5, False)
    v[0] = 0
    return y + 1


@program
def contiguous_alias(m, x):
    y = x * 1
    v = y.contiguous()
    v.neg_()
    return y + 1


@program
def diag_fill(m, x):
    y = x * 1
    y.diagonal().fill_(0)
    return y + 1


@program
def masked_fill_view(m, x):
    y = x * 1
    y[:, 1:].masked_fill_(x[:, 1:] > 0, 0.0)
    return y + 1


@program
def summed(m, x):
    y = x * 1
    y.view(24).cumsum_(0)
    return y + 1


@program
def bool_put(m, x):
    y = x * 1
    y[x > 0] = 0
    return y + 1


@program
def unbind_write(m, x):
    y = x * 1
    y.unbind(0)[1].mul_(4)
    return y + 1


@program
def squeeze_write(m, x):
    y = x * 1
    y.unsqueeze(1).squeeze(1)[1].zero_()
    return y + 1


@program
def narrow_write(m, x):
    y = x * 1
    y.narrow(1, 2, 3).mul_(2)
    return y + 1


@program
def input_write(m, x):
    x[:, 0] = 5
    return x + 1


@program
def buffer_write(m, x):
    m.cache[1:3].copy_(x[1:3])
    return m.cache + x


@program
def buffer_add(m, x):
    m.cache.add_(x)
    return m.cache * 2


@program
def copy_broadcast(m, x):
    y = x * 1
    y[1:3].copy_(x[0])
    return y + 1


@program
def copy_int(m, x):
    y = x * 1
    y[1:3] = torch.arange(6)
    return y + 1


@program
def add_alpha(m, x):
    return torch.add(x, x * 2, alpha=3).relu()


@program
def rsub(m, x):
    return torch.rsub(x, 1.0, alpha=2)


@program
def add_inplace_alpha(m, x):
    y = x * 1
    y[0].add_(y[1], alpha=-2)
    return y + 0


@program
def overlap_shift(m, x):
    y = x * 1
    y[:, 1:] = y[:, :-1].clone()
    return y + 1


@program
def softmax_inplace(m, x):
    y = x.matmul(x.t())
    y[:, 0] = -1e4
    return y.softmax(-1)


@program
def write_after_use(m, x):
    y = x * 1
    z = y + 1
    y[:, 0] = 9
    return z * y


@program
def output_is_written(m, x):
    y = x * 1
    v = y[0]
    y.mul_(2)
    return v


@program
def expand_write(m, x):
    y = x * 1
    s = y.unsqueeze(0).permute(1, 0, 2)[:, 0]
    s[1, 2:] = 4
    return y + 1


@program
def permute3(m, x):
    y = (x * 1).view(2, 2, 6).permute(2, 0, 1)
    y[3] = 1
    y[:, 1, 0] *= 2
    return y + 1


@program
def layer_norm_plain(m, x):
    return functional.layer_norm(x, (6,))


@program
def to_alias(m, x):
    y = x * 1
    v = y.to(torch.float32)
    v[0] = 0
    return y + 1


@program
def hardtanh_view(m, x):
    y = x * 1
    functional.hardtanh_(y[:, 2:], 0.0, 1.0)
    return y + 1


@program
def leaky_view(m, x):
    y = x * 1
    v = y.view(24)
    functional.leaky_relu_(v, 0.2)
    return y + 1


@program
def as_strided_write(m, x):
    y = x * 1
    y.as_strided((2, 3), (6, 1)).zero_()
    return y + 1


@program
def foreach(m, x):
    y = x * 1
    torch._foreach_mul_([y], 2.0)
    return y + 1


@program
def set_data(m, x):
    y = x * 1
    y[1] = x[2]
    y[2] = y[1] * 2
    return y


@program
def residual(m, x):
    """A network with activations in place."""
    y = functional.relu(functional.linear(x, m.weight), inplace=True)
    z = functional.silu(functional.linear(y, m.weight), inplace=True)
    z += y
    return functional.relu(z, inplace=True).flatten(1)


@program
def turned_in_place(m, x):
    y = x * 1
    y.unsqueeze_(1)
    return y + 1


@program
def choice(m, x):
    """Of two that are computed."""
    return torch.where(torch.arange(6) < 3, x * 2, x.relu())


@program
def divided(m, x):
    images = x.view(1, 1, 4, 6)
    return functional.avg_pool2d(images, 3, 1, 1, divisor_override=5).flatten()


@program
def product_of_factors(m, x):
    return torch.addmm(m.weight[0], x, m.weight, beta=0.5, alpha=2)


@program
def window(m, x):
    return functional.max_pool2d(x.view(1, 1, 4, 6), 2, 3, 1, ceil_mode=True).flatten()


@program
def normalised(m, x):
    return functional.batch_norm(x, m.cache[0], m.cache[1] + 1)


@program
def trained(m, x):
    return functional.batch_norm(x, m.cache[0], m.cache[1] + 1, training=True)


@program
def hidden_rows(m, x):
    seen = torch.softmax(torch.where(m.cache > 1.2, x, float("-inf")), -1)
    return seen.masked_fill(torch.isnan(seen), 0.0) @ m.weight


@program
def hidden_rows_as_numbers(m, x):
    return torch.nan_to_num(torch.softmax(torch.where(m.cache > 1.2, x, float("-inf")), -1), 0.0)


class Of(nn.Module):
    def __init__(self, made):
        super().__init__()
        self.made = made
        self.register_buffer("cache", torch.arange(24.0).reshape(4, 6) / 7)
        self.register_buffer("weight", torch.sin(torch.arange(36.0)).reshape(6, 6))

    def forward(self, x):
        return self.made(self, x)


def main():
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    x = torch.randn(4, 6)
    found = {}
    for name, made in PROGRAMS.items():
        exported = torch.export.export(Of(made).eval(), (x.clone(),))
        y = Of(made).eval()(x.clone())
        for end, each in (("", exported), ("_decomposed", exported.run_decompositions())):
            held = io.BytesIO()
            torch.export.save(each, held)
            with zipfile.ZipFile(held) as archive:
                (graph,) = (n for n in archive.namelist() if n.endswith("models/model.json"))
                whole = json.loads(archive.read(graph))["graph_module"]
            graph = whole["graph"]
            kept = {
                "nodes": [{key: node[key] for key in NODE} for node in graph["nodes"]],
                "outputs": graph["outputs"],
                "tensor_values": {
                    name: {key: value[key] for key in TENSOR}
                    for name, value in graph["tensor_values"].items()
                },
            }
            signature = {"input_specs": whole["signature"]["input_specs"]}
            told = {"graph_module": {"graph": kept, "signature": signature}}
            found[name + end] = {"program": told, "y": y.detach().flatten().tolist()}
    text = json.dumps({"x": x.tolist(), "programs": found})
    path = Path(__file__).with_suffix(".json.xz")
    path.write_bytes(lzma.compress(text.encode(), preset=9))


if __name__ == "__main__":
    main()
