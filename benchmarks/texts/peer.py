"""Networks of texts beside PyTorch: one training step, by autograd, from the same data file.

    simgen build language_model --training --target host -o lm && simgen run lm
    python benchmarks/texts/peer.py lm [TARGET]        any Python with torch, numpy and h5py

The same network is written with PyTorch's own layers (nn.LSTM, nn.GRU, functional.embedding,
cross_entropy) and computed in float64 and in float32. Printed are the loss, and for the loss and
the gradient of each parameter how far simgen's result is from that in float64, by the largest
element. It is wrong (exit code 1) where that is more than MORE times the distance of PyTorch's own
float32 and more than LEAST: orders of summation differ, and functions are approximated.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import h5py
import torch
from torch.nn import functional

MORE, LEAST = 16.0, 1e-6
Tensors = dict[str, Any]


def language_model(t: Tensors) -> Any:
    x = functional.embedding(t["words.y"], t["embedding.w"])
    h, _ = recurrent(t, "lstm1", x)
    h, _ = recurrent(t, "lstm2", h)
    return loss(t, functional.linear(h, t["projection.w"], t["projection.b"]))


def seq2seq(t: Tensors) -> Any:
    encoded = functional.embedding(t["source.y"], t["source_words.w"])
    decoded = functional.embedding(t["target.y"], t["target_words.w"])
    for nth in "12":
        encoded, ends = recurrent(t, f"encoder{nth}", encoded)
        decoded, _ = recurrent(t, f"decoder{nth}", decoded, start=ends)
    padding = torch.arange(encoded.shape[1]) >= t["lengths.y"][:, None]
    scores = decoded @ functional.linear(encoded, t["keys.w"]).transpose(1, 2)
    weights = torch.softmax(scores.masked_fill(padding[:, None, :], -torch.inf), dim=-1)
    both = torch.cat([weights @ encoded, decoded], dim=-1)
    attended = torch.tanh(functional.linear(both, t["combined.w"]))
    return loss(t, functional.linear(attended, t["projection.w"], t["projection.b"]))


def aoa_reader(t: Tensors) -> Any:
    states = {}
    for side in ("document", "query"):
        x = functional.embedding(t[f"{side}.y"], t[f"{side}_words.w"])
        names = (f"{side}_forwards", f"{side}_backwards")
        ways = [recurrent(t, name, x, backwards=name.endswith("backwards"))[0] for name in names]
        states[side] = torch.cat(ways, dim=-1)
    matching = states["document"] @ states["query"].transpose(1, 2)
    of_query = torch.softmax(matching, dim=2).mean(dim=1, keepdim=True)
    attention = (torch.softmax(matching, dim=1) * of_query).sum(dim=2)
    meets = t["candidates.y"][:, :, None] == t["document.y"][:, None, :]
    sums = (meets * attention[:, None, :]).sum(dim=2)
    return loss(t, torch.log(sums + t["scores.epsilon"]))


NETWORKS = {f.__name__: f for f in (language_model, seq2seq, aoa_reader)}


def recurrent(
    t: Tensors, name: str, x: Any, backwards: bool = False, start: Any = None
) -> tuple[Any, Any]:
    """A layer of PyTorch with these weights, from (samples, steps, features) and states that it
    starts from: the same, and the states that it ends with."""
    given = {"weight_ih_l0": "w", "weight_hh_l0": "r", "bias_ih_l0": "bw", "bias_hh_l0": "br"}
    w, r = t[f"{name}.w"], t[f"{name}.r"]
    kind = {4: torch.nn.LSTM, 3: torch.nn.GRU}[r.shape[0] // r.shape[1]]
    layer = kind(w.shape[1], r.shape[1], batch_first=True, dtype=w.dtype)
    values = {own: t[f"{name}.{port}"] for own, port in given.items()}
    x = x.flip(1) if backwards else x
    y, ends = torch.func.functional_call(layer, values, (x, start))
    return (y.flip(1) if backwards else y), ends


def loss(t: Tensors, scores: Any) -> Any:
    return functional.cross_entropy(scores.flatten(0, -2), t["loss.labels"].flatten())


def step(network: str, inputs: Tensors, dtype: Any) -> dict[str, Any]:
    """The loss, and the gradient of each parameter, by the names that simgen gives them."""
    t = {
        name: torch.tensor(values, dtype=dtype, requires_grad=True)
        if values.dtype.kind == "f"
        else torch.tensor(values, dtype=torch.int64)
        for name, values in inputs.items()
    }
    made = NETWORKS[network]({**t, "scores.epsilon": 0.001})
    made.backward()
    found = {"loss.y": made.detach()}
    for name, tensor in t.items():
        layer, _, port = name.rpartition(".")
        if tensor.dtype == dtype and tensor.grad is not None:
            found[f"{layer}.d{port}"] = tensor.grad
    return {name: tensor.double().numpy() for name, tensor in found.items()}


def main() -> int:
    bundle = Path(sys.argv[1])
    target = sys.argv[2] if len(sys.argv) > 2 else "host"
    workload = json.loads((bundle / "workload.json").read_text())
    given = {b["name"] for b in workload["buffers"] if b["role"] == "input"}
    with h5py.File(bundle / "data.h5") as file:
        inputs = {name: file[name][...] for name in given}
    exact, rounded = (step(workload["name"], inputs, d) for d in (torch.float64, torch.float32))
    wrong = 0
    with h5py.File(bundle / "results" / target / "results.h5") as results:
        found = results["tensors"]
        print(f"{workload['name']} on {target}, PyTorch {torch.__version__}")
        print(f"loss {float(found['loss.y'][0]):.9g}, PyTorch's {float(exact['loss.y']):.9g}")
        for name, right in exact.items():
            scale = abs(right).max()
            ours = abs(found[name][...].reshape(right.shape) - right).max() / scale
            theirs = abs(rounded[name] - right).max() / scale
            bad = not ours <= max(MORE * theirs, LEAST)
            wrong += bad
            print(f"{name:24} {ours:9.2e}  PyTorch's float32 {theirs:9.2e}{'  WRONG' * bad}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
