"""Which launches are alike, the pieces that a network is cut into, and what is refused."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest
from command_line import CUDA, fails
from handmade import BOTH, lowered

from simgen.running import pieces as running
from simgen.workload import costs, pieces
from simgen.workload.pieces import Warm

RESNET = (("n", "1"), ("h", "32"), ("w", "32"), ("pool5.kernel_size", "1"))


@pytest.fixture(scope="module", name="resnet")
def small_resnet():
    return lowered("resnet18", *RESNET, passes=BOTH)


def key(workload, at):
    launch = workload.launches[at]
    return launch.kernel, launch.grid


def test_each_kernel_is_measured_and_stands_only_for_its_own_launches(resnet):
    survey = pieces.representatives(resnet)
    inferred = dict(survey.inferred)
    firsts = resnet.first_launches
    measured = {
        firsts[at] + i for at in survey.steps for i in range(len(resnet.steps[at].launches))
    }
    assert measured | inferred.keys() == set(range(len(resnet.launches)))
    assert not measured & inferred.keys()
    assert {key(resnet, at) for at in measured} == {key(resnet, at) for at in inferred} | {
        key(resnet, at) for at in measured
    }
    for at, like in inferred.items():
        assert like in measured
        assert like < at
        assert key(resnet, at) == key(resnet, like)
    assert len(survey.steps) < len(resnet.steps) * 0.7
    ran = [launch.kernel for launch in resnet.launches]
    first = {at for at, kernel in enumerate(ran) if kernel not in ran[:at]}
    assert not first & set(inferred.values())  # its instructions were in no cache


def test_a_network_of_different_launches_is_measured_whole():
    lenet = lowered("lenet5")
    survey = pieces.representatives(lenet)
    assert survey == pieces.everything(lenet)
    assert not survey.inferred


def test_instructions_in_no_cache_are_nothing_beside_a_launch_of_minutes():
    vgg = lowered("vgg16", ("n", "1"))
    measured = {vgg.steps[at].layer for at in pieces.representatives(vgg).steps}
    assert {"conv3_1", "conv3_2", "relu1_1", "relu1_2"} <= measured  # both of small launches
    assert not {"conv3_3", "conv4_3", "conv5_3"} & measured


def test_what_is_in_the_cache_and_what_is_not_are_two_things(resnet):
    def of(nbytes):
        machine = replace(resnet.machine, l2_nbytes=nbytes)
        return len(pieces.representatives(replace(resnet, machine=machine)).inferred)

    assert of(0) == of(2**40)  # nothing is in it, or all that was touched before
    assert of(2**18) < of(0)


def reach(workload, steps):
    """What each launch of these steps, run in this order, may find in the L2 cache, and whether its
    kernel has run: step -> [(buffers, bool)]."""
    order, ran, found = [], set(), {}
    for at in steps:
        found[at] = []
        for launch in workload.steps[at].launches:
            near = set()
            for name in launch.args:
                places = [place for place, each in enumerate(order) if name in each]
                later = order[places[-1] + 1 :] if places else []
                between = sum(workload.buffer(other).spec.held for each in later for other in each)
                held = workload.buffer(name).spec.held
                if places and between + held <= workload.machine.l2_nbytes:
                    near.add(name)
            found[at].append((near, launch.kernel in ran))
            order.append(set(launch.args))
            ran.add(launch.kernel)
    return found


@pytest.mark.parametrize("nbytes", [2**18, None])
@pytest.mark.parametrize("jobs", [1, 3])
@pytest.mark.parametrize("warm", list(Warm))
def test_pieces_find_in_caches_what_the_network_does(resnet, jobs, warm, nbytes):
    if nbytes:
        resnet = replace(resnet, machine=replace(resnet.machine, l2_nbytes=nbytes))
    survey = pieces.representatives(resnet)
    cuts = pieces.cut_steps(resnet, survey.steps, warm, jobs)
    assert [at for piece in cuts for at in piece.steps] == list(survey.steps)
    assert len(pieces.cut_steps(resnet, survey.steps, warm, 16)) > len(cuts)
    if warm is Warm.NONE:
        assert not any(piece.warm for piece in cuts)
        return
    network = reach(resnet, range(len(resnet.steps)))
    for piece in cuts:
        assert {at - 1 for at in piece.steps if at} <= {*piece.all}
        here = reach(resnet, piece.all)
        for at in piece.steps[1:]:
            assert here[at] == network[at]
        for (near, known), (wanted, ran) in zip(here[piece.steps[0]], network[piece.steps[0]]):
            assert near >= wanted  # the first step of a piece has nothing that replaces the rest
            assert known == ran
    firsts = [at for piece in cuts for at in piece.steps if at - 1 not in piece.steps and at]
    assert len(cuts) < len(firsts)  # pieces go on where steps are left out


def test_a_layer_that_weighs_most_is_not_run_twice():
    alexnet = lowered("alexnet", ("n", "1"))
    everything = range(len(alexnet.steps))
    cuts = pieces.cut_steps(alexnet, everything, Warm.PREVIOUS, 1)
    assert len(cuts) > 2
    weights = dict(enumerate(map(sum, by_step(alexnet, costs.weights(alexnet)))))
    uncounted = sum(weights[at] for piece in cuts for at in piece.warm)
    assert uncounted < 0.01 * sum(weights.values())


def by_step(workload, values):
    values = iter(values)
    return [[next(values) for _ in step.launches] for step in workload.steps]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--warm none", "--warm: a run of the whole network has the caches that it has"),
        ("--representatives --resume", "--resume: a run by pieces has the inputs of the"),
        ("--representatives --inputs reference", "--inputs: a run by pieces has the inputs"),
        ("--representatives", "--representatives: cuda: "),
    ],
)
def test_what_does_not_go_together_is_told(simgen, monkeypatch, options, words):
    from simgen.targets.cuda import Cuda, NvidiaGpu

    monkeypatch.setattr(NvidiaGpu, "missing", lambda self, bundle=None: [])
    monkeypatch.setattr(Cuda, "whole_only", lambda self: "a run is one process")
    simgen(f"build softmax_fwd {CUDA} -o b")
    fails(simgen(f"run b --on cuda {options}"), 2, words)


def test_processes_take_the_largest_piece_that_waits(resnet, monkeypatch):
    """And a word that is moved weighs as much as many operations."""
    cuts = pieces.cut_steps(resnet, range(len(resnet.steps)), Warm.NONE, 4)
    weights = pieces.weights(resnet, cuts)
    assert len(set(weights.values())) > 2
    busy = [0.0] * 4
    for weight in sorted(weights.values(), reverse=True):
        busy[busy.index(min(busy))] += weight
    assert max(busy) < 1.1 * sum(busy) / 4
    moving = next(at for at, step in enumerate(resnet.steps) if step.layer == "fc1000")
    count = costs.of_step(resnet, resnet.steps[moving]).count
    assert pieces.weights(resnet, [pieces.Piece((), (moving,))]).popitem()[1] > 5 * count.flops
    ran, all_wait = [], threading.Event()

    class Prepared(contextlib.nullcontext):
        def __enter__(self):
            return self

        def starts(self):
            for piece in cuts:
                yield piece, None
            all_wait.set()

    def once(work, piece, start):
        assert all_wait.wait(60)
        ran.append(piece)

    monkeypatch.setattr(running, "_Prepared", lambda work, left: Prepared())
    monkeypatch.setattr(running, "_once", once)
    work = SimpleNamespace(bundle=SimpleNamespace(workload=resnet), cancelled=threading.Event())
    assert running._simulate(work, cuts, 1, None) == []
    assert sorted(ran, key=cuts.index) == cuts
    others = ran[1:]  # the first is taken as it comes
    assert others == sorted(others, key=lambda piece: (-weights[piece], cuts.index(piece)))
