"""Batch normalisation: zero mean and unit variance of each feature, then an affine map.

    forward   mean = sum(x) / M      var = sum((x - mean)^2) / M      r = 1 / sqrt(var + epsilon)
              y = w * (x - mean) * r + b
              new_running_mean = (1 - f) running_mean + f mean                  f = exp_avg_factor
              new_running_var  = (1 - f) running_var  + f var M / (M - 1)
    backward  db = sum(dy)        dw = sum(dy * (x - mean) * r)
              dx = w * r * (dy - db / M - (x - mean) * r * dw / M)

    x, y, dx, dy  (N, C, H, W)     saved_mean, saved_invstd  mean and r

    batchnorm_mode "per_activation"  sums over N:        M = N,      w, b, mean, ... (1, C, H, W)
    batchnorm_mode "spatial"         sums over N, H, W:  M = N H W,  w, b, mean, ... (1, C, 1, 1)

With save_intermediates, forward stores mean and r for backward, which otherwise computes them
again. With batchnorm_statistics "running", mean and var are the constants running_mean and
running_var, and dx is w * r * dy. This is used in inference, and to train a network with frozen
statistics. With M = 1, the variance is 0, and so is the unbiased one.

x, y, dx and dy have the type of the input. w, b, their gradients and all statistics are float32,
and so are the sums.

Source: cudnnBatchNormalizationForwardTraining, -ForwardInference and -Backward; Ioffe and Szegedy,
"Batch Normalization", 2015, algorithms 1 and 2. The variance of a batch that does not fit into one
work-group is put together from those of its chunks: Chan, Golub and LeVeque, "Algorithms for
computing the sample variance", 1983, eq. 2.1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from math import prod, sqrt
from typing import TYPE_CHECKING, ClassVar

from simgen.ground.arrays import np
from simgen.ground.ir import Distribution, Fill, Pass, TensorSpec
from simgen.ground.numerics import exactness
from simgen.ground.numerics.rounding import SECOND_ORDER, TINY, U, float32
from simgen.ground.numerics.spread import Spread
from simgen.layers.base import Choice, Layer, Lowering, Phase, Port, key
from simgen.layers.contract import Contract
from simgen.layers.norm.batch_norm_errors import BatchNormErrors, inverse_root, product
from simgen.layers.norm.batch_norm_kernels import Stages, unbiased
from simgen.layers.norm.batch_norm_spread import Spreads
from simgen.layers.reduction import View

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from simgen.ground.numerics.rounding import Array
    from simgen.layers.base import Tensors

# The data file's x. With statistics from the batch, variances are small, so that epsilon shows.
X_MEAN, X_STD = 1 / 32, 1 / 8
# Where they are given, networks depend on their size, so that those of few features are small. The
# weights of these make up for it and more, for an activation that follows to be saturated.
GIVEN_MEAN, GIVEN_STD = 0.5, 2.0
SMALL_EVERY = 32  # one feature in so many
SMALL_VAR, SMALL_W = 2.0**-12, 2.0**-3
AT_ONCE = 2**22  # elements of a tensor that the reference takes at a time


class BatchNormMode(StrEnum):
    PER_ACTIVATION = "per_activation"
    SPATIAL = "spatial"


class Statistics(StrEnum):
    BATCH = "batch"
    RUNNING = "running"


@dataclass(frozen=True)
class BatchNorm(Layer):
    kind = "bn"
    section = "BatchNorm"
    rank: ClassVar[int | None] = 4
    # Two samples become -1 and 1, whatever they are.
    contract: ClassVar[Contract] = Contract(
        rounds=True, slope_shape=(7, 2, 2, 3), cancelling_batch=2
    )
    parameters = ("w", "b")
    any_float = True
    phases: ClassVar[Mapping[Phase, Mapping[str, str]]] = {
        Phase.INFERENCE: {"batchnorm_statistics": "running"},
        Phase.TRAINING: {"batchnorm_statistics": "batch"},
    }
    sample: ClassVar[Mapping[str, str]] = {
        "n": "100",
        "c": "1000",
        "h": "1",
        "w": "1",
        "batchnorm_mode": "per_activation",
        "save_intermediates": "true",
        "exp_avg_factor": "0.5",
        "epsilon": "1e-5",
    }

    mode: BatchNormMode = key(
        "batchnorm_mode",
        BatchNormMode.PER_ACTIVATION,
        "statistics per activation, or per channel over all pixels",
    )
    save_intermediates: bool = key(
        "save_intermediates", True, "forward stores mean and r for backward"
    )
    exp_avg_factor: float = key(
        "exp_avg_factor", 1.0, "weight of the batch in the running statistics", 0, 1
    )
    # Down to where r^3 of a constant channel, in the backward pass, is far from float32's largest.
    # DNNMark and cuDNN before 9 take 1e-5 at least (BN_MIN_EPSILON).
    epsilon: float = key("epsilon", 1e-5, "constant added to the variance", 1e-12, 1e6)
    statistics: Statistics = key(
        "batchnorm_statistics",
        Statistics.BATCH,
        "statistics of the batch (training), or running statistics (inference)",
    )

    @property
    def factor(self) -> float:
        """exp_avg_factor as float32."""
        return float32(self.exp_avg_factor)

    @property
    def frozen(self) -> bool:
        return self.statistics is Statistics.RUNNING

    @property
    def data_parallel(self) -> bool:  # type: ignore[override]  # of the class in other layers
        """True with given statistics: samples do not depend on each other."""
        return self.frozen

    def parameter(self, x: TensorSpec) -> TensorSpec:
        """Spec of w, of b, and of each statistic."""
        _, c, h, w = x.shape
        shape = (1, c, 1, 1) if self.mode is BatchNormMode.SPATIAL else (1, c, h, w)
        return TensorSpec(shape)

    def view(self, shape: tuple[int, ...]) -> View:
        n, c, *image = shape
        spatial = self.mode is BatchNormMode.SPATIAL
        extents = (n, c, prod(image)) if spatial else (n, c * prod(image), 1)
        return View(*extents, self.machine)

    def work(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[int, int]:
        """Operations per element of x, and per statistic.

        Forward: 6 per element (1 for the mean, 3 for the variance, 2 for y) and 11 per statistic
        (mean, variance, epsilon, scale r, and 7 to update the running ones), with one square root.
        Backward: 9 per element (2 for the normalised x, 3 for the two sums, 4 for dx) and 3 per
        statistic; without saved ones, 3 and 3 more, and the square root.
        Running statistics: forward 3 and 2 with the square root, backward 5 and 3 with it.
        """
        (x,), forward = inputs, direction is Pass.FORWARD
        if self.frozen:
            per_element, per_statistic, roots = (3, 2, 1) if forward else (5, 3, 1)
        elif forward:
            per_element, per_statistic, roots = 6, 11, 1
        else:
            per_element, per_statistic, roots = (9, 3, 0) if self.save_intermediates else (12, 6, 1)
        count = self.parameter(x).size
        return per_element * x.size + per_statistic * count, roots * count

    def ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        (x,) = inputs
        one, view = self.parameter(x), self.view(x.shape)
        stages = self._stages(x, direction)
        parts = TensorSpec((stages.chunks, one.size))
        specs = dict.fromkeys(("x", "y", "dx", "dy"), x)
        fills = _fills(view.elements, self.frozen)
        return (
            *(Port(name, specs.get(name, one), fills[name]) for name in stages.reads),
            *(Port(name, specs.get(name, one)) for name in stages.writes),
            *(
                Port(name, parts if "part" in name else one, scratch=True)
                for name in stages.workspaces
            ),
        )

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        (x,) = inputs
        return self._stages(x, direction).lower()

    def choices(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Choice, ...]:
        if self.frozen and direction is Pass.FORWARD:
            return ()
        view = self.view(inputs[0].shape)
        tiling = view.tiling()
        held = min(tiling.tile, view.elements)  # with images of 7 x 7, some work-items hold none
        what = f"a group has {held} of {view.elements} elements of a feature"
        return (Choice("chunks of a feature", str(tiling.chunks), what),)

    def _stages(self, x: TensorSpec, direction: Pass) -> Stages:
        return Stages(
            view=self.view(x.shape),
            direction=direction,
            factor=self.factor,
            epsilon=float32(self.epsilon),
            frozen=self.frozen,
            kept=self.save_intermediates,
            element=x.dtype,
        )

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        return self._by_features(lambda part: self._reference(part, direction), tensors)

    def tolerance(self, tensors: Tensors, direction: Pass) -> Tensors:
        return self._errors(tensors, direction, BatchNormErrors)

    def spread(self, tensors: Tensors, direction: Pass, tolerance: Tensors) -> Mapping[str, Spread]:
        found = self._errors(tensors, direction, Spreads)
        features = self.view(tensors["x"].shape).features
        return {
            name: Spread(np.minimum(sigma, tolerance[name]), sigma.size // features)
            for name, sigma in found.items()
        }

    def _errors(self, tensors: Tensors, direction: Pass, kind: type[BatchNormErrors]) -> Tensors:
        def bounds(part: Tensors) -> Tensors:
            found = self._tolerance(part, direction, kind)
            # What is exact cannot fall below the smallest normal number either.
            return {n: np.where(b > 0, b * SECOND_ORDER + TINY, 0.0) for n, b in found.items()}

        return self._by_features(bounds, tensors)

    def exact(self, tensors: Tensors, direction: Pass) -> Tensors:
        if direction is not Pass.BACKWARD:
            return {}
        dy, axes = tensors["dy"], self._axes()
        grain = exactness.grain(dy)
        if not grain:
            return {}
        sums, sizes = (t.sum(axis=axes, keepdims=True) for t in (dy, np.abs(dy)))
        return {"db": exactness.settled(sums, sizes, grain)}

    def _by_features(self, method: Callable[[Tensors], Tensors], tensors: Tensors) -> Tensors:
        """`method` on some channels after others: intermediate results stay small."""
        n, c, h, w = tensors["x"].shape
        count = max(1, AT_ONCE // (n * h * w))
        parts = [
            method({name: values[:, at : at + count] for name, values in tensors.items()})
            for at in range(0, c, count)
        ]
        return {name: np.concatenate([part[name] for part in parts], axis=1) for name in parts[0]}

    def _axes(self) -> tuple[int, ...]:
        return (0, 2, 3) if self.mode is BatchNormMode.SPATIAL else (0,)

    def _moments_of(self, tensors: Tensors) -> tuple[Array, Array]:
        """mean and var, as the pass has them; r where it was saved is taken from there."""
        if self.frozen:
            return tensors["running_mean"], tensors["running_var"]
        x = tensors["x"]
        mean = x.mean(axis=self._axes(), keepdims=True)
        return mean, np.square(x - mean).mean(axis=self._axes(), keepdims=True)

    def _statistics_of(self, tensors: Tensors) -> tuple[Array, Array]:
        """mean and r, as a backward pass has them."""
        if "saved_mean" in tensors:
            return tensors["saved_mean"], tensors["saved_invstd"]
        mean, var = self._moments_of(tensors)
        return mean, 1 / np.sqrt(var + float32(self.epsilon))

    def _reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        x, axes = tensors["x"], self._axes()
        if direction is Pass.BACKWARD:
            mean, r = self._statistics_of(tensors)
            dy = tensors["dy"]
            d = x - mean
            db = dy.sum(axis=axes, keepdims=True)
            dw = (dy * d).sum(axis=axes, keepdims=True) * r
            m = x.size // db.size
            inner = dy if self.frozen else dy - db / m - d * (r * dw / m)
            return {"dx": tensors["w"] * r * inner, "dw": dw, "db": db}
        mean, var = self._moments_of(tensors)
        r = 1 / np.sqrt(var + float32(self.epsilon))
        made = {"y": tensors["w"] * r * (x - mean) + tensors["b"]}
        if self.frozen:
            return made
        if self.save_intermediates:
            made |= {"saved_mean": mean, "saved_invstd": r}
        new_var = self.factor * unbiased(x.size // mean.size) * var
        made |= {"new_running_mean": self.factor * mean, "new_running_var": new_var}
        if self.factor < 1:
            made["new_running_mean"] += (1 - self.factor) * tensors["running_mean"]
            made["new_running_var"] += (1 - self.factor) * tensors["running_var"]
        return made

    def _tolerance(self, tensors: Tensors, direction: Pass, kind: type[BatchNormErrors]) -> Tensors:
        errors = kind(self.view(tensors["x"].shape).tiling(), self._axes())
        x, w = tensors["x"], tensors["w"]
        epsilon = float32(self.epsilon)
        if "saved_mean" in tensors:
            mean, r = tensors["saved_mean"], tensors["saved_invstd"]
            mean_error = var_error = r_error = np.zeros_like(mean)
        else:
            mean, var = self._moments_of(tensors)
            mean_error, var_error = (np.zeros_like(mean),) * 2
            if not self.frozen:
                mean_error, var_error = errors.moments(x, var)
            r, r_error = inverse_root(var, var_error, epsilon)
        d = x - mean
        d_error = mean_error + U * (np.abs(d) + mean_error)
        scale_error = product(w, 0.0, r, r_error)
        if direction is Pass.BACKWARD:
            return errors.gradients(tensors, (d, d_error), (r, r_error), scale_error, self.frozen)
        product_error = product(w * r, scale_error, d, d_error)
        y = w * r * d + tensors["b"]
        found = {"y": product_error + U * (np.abs(y) + product_error)}
        if self.frozen:
            return found
        if self.save_intermediates:
            found |= {"saved_mean": mean_error, "saved_invstd": r_error}
        # If the old statistics do not count, any values serve as them.
        keep = 1 - self.factor
        old = [tensors[f"running_{name}"] if keep else new for name, new in
               (("mean", mean), ("var", var))]  # fmt: skip
        scale = self.factor * unbiased(x.size // mean.size)
        return found | {
            "new_running_mean": errors.running(old[0], mean, mean_error, keep, self.factor),
            "new_running_var": errors.running(old[1], var, var_error, keep, scale),
        }


def _fills(elements: int, frozen: bool) -> dict[str, Fill]:
    """Statistics about as a batch of the data file's x would give them."""
    normal = Distribution.NORMAL
    mean, std = (GIVEN_MEAN, GIVEN_STD) if frozen else (X_MEAN, X_STD)
    var, invstd = std**2, 1 / std
    relative = 1 / sqrt(2 * elements)  # relative error of a standard deviation
    found = {
        "x": Fill(normal, mean, std),
        "dy": Fill(normal, 0.0, 1.0),
        "w": Fill(normal, 1.0, 0.25),
        "b": Fill(normal, 0.0, 0.25),
        "running_mean": Fill(normal, mean, std / 4),
        "running_var": Fill(normal, var, var / 8, low=var / 8),
        "saved_mean": Fill(normal, mean, std / sqrt(elements)),
        "saved_invstd": Fill(normal, invstd, invstd * relative, low=invstd / 4),
    }
    if frozen:
        found["running_var"] = replace(found["running_var"], every=SMALL_EVERY, times=SMALL_VAR)
        found["w"] = replace(found["w"], every=SMALL_EVERY, times=SMALL_W)
    return found
