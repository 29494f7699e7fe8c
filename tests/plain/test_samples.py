"""Files of samples: read, made, given to inputs; and what is none of them, in one line."""

from __future__ import annotations

import gzip
import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import simgen as package
from simgen import resources
from simgen.errors import UsageError
from simgen.tensors.samples import filling, images, making, texts

if TYPE_CHECKING:
    from pathlib import Path

    from command_line import Simgen

SMALL = {"conv1.num_output": 2, "conv2.num_output": 2, "ip1.num_output": 4}
LANGUAGE = """
[Embedding]\nname=words\nshape=2x3\nvocabulary=6\nfeatures=4\n
[FullyConnected]\nname=fc\nprevious_layer=words\naxis=-1\nnum_output=6\n
[CrossEntropy]\nname=loss\nprevious_layer=fc\naxis=-1\n
"""


def values(workload: Any, path: Path, **options: Any) -> dict[str, Any]:
    plan = package.plan(workload, inference=False, data=path, **options)
    return dict(plan.plan.values)


def test_images_and_labels_go_to_each_step_in_turn(tmp_path: Path) -> None:
    path = tmp_path / "my-images-idx3-ubyte"
    making.write(path, "mnist", 5, seed=3)
    found = images.mnist(path, path.read_bytes())
    assert found.pixels.shape == (5, 1, 28, 28)
    assert 0.1 < (found.pixels > 0).mean() < 0.3, "most is black, as in MNIST"
    made = values("lenet5", path, steps=3, set={"n": 2, **SMALL})
    assert made.keys() == {f"{n}{end}" for n in ("conv1.x", "loss.labels")
                           for end in ("", ".step2", ".step3")}  # fmt: skip
    order = [*range(5), 0]
    for at, end in enumerate(("", ".step2", ".step3")):
        these = order[2 * at : 2 * at + 2]
        scaled = found.pixels[these].astype(np.float64) / 127.5 - 1
        np.testing.assert_allclose(made[f"conv1.x{end}"], scaled, atol=1e-7)
        np.testing.assert_array_equal(made[f"loss.labels{end}"], found.labels[these])


def test_cifar_has_its_label_before_its_colours(tmp_path: Path) -> None:
    path = tmp_path / "some.bin"
    making.write(path, "cifar10", 3, seed=1)
    record = np.frombuffer(path.read_bytes(), np.uint8).reshape(3, -1)[1]
    found = images.cifar(path, path.read_bytes())
    assert found.labels[1] == record[0]
    np.testing.assert_array_equal(found.pixels[1, 2], record[-1024:].reshape(32, 32))
    made = values("cifar_quick", path, set={"n": 2})
    assert made["conv1.x"].shape == (2, 3, 32, 32)


def test_words_are_numbered_by_frequency_and_followed_by_their_labels(tmp_path: Path) -> None:
    path, config = tmp_path / "text.txt", tmp_path / "net.dnnmark"
    path.write_text("a b a\nc a b\nd e f a a\n")
    found = texts.read(path, path.read_bytes())
    assert isinstance(found, texts.Text)
    # a 5 times, the end of a line 3 times, b twice, then c, d; e and f share the last number.
    assert found.ids(6).tolist() == [0, 2, 0, 1, 3, 0, 2, 1, 4, 5, 5, 0, 0, 1]
    config.write_text(LANGUAGE)
    made = values(config, path, steps=2)
    assert made["words.ids"].tolist() == [[0, 2, 0], [1, 4, 5]]
    assert made["loss.labels"].tolist() == [[2, 0, 1], [4, 5, 5]]
    assert made["words.ids.step2"].tolist() == [[1, 3, 0], [5, 0, 0]]


def test_sides_of_pairs_are_padded_and_padding_does_not_count(tmp_path: Path) -> None:
    path, config = tmp_path / "pairs.txt", tmp_path / "net.dnnmark"
    path.write_text("a b\tx\nb a b b\ty z\n")
    config.write_text(LANGUAGE)
    made = values(config, path)
    # <pad>, <eos>, b 4 times, a twice, x; y and z share the last number.
    assert made["words.ids"].tolist() == [[3, 2, 1], [2, 3, 2]]
    assert made["loss.labels"].tolist() == [[4, 1, -100], [5, 5, 1]]


def test_translations_fit_their_network_with_the_lengths_of_their_sources() -> None:
    path = filling.find("translations.txt")
    made = values("seq2seq", path, steps=2)
    assert made.keys() == {
        f"{name}{step}"
        for name in ("source.y", "target.y", "lengths.y", "loss.labels")
        for step in ("", ".step2")
    }
    first, second = texts.read(path, path.read_bytes()).sources[:2]
    # Sentences of 20 words at most, with the end of each.
    assert made["lengths.y"].tolist() == [min(20, len(first) + 1)]
    assert made["lengths.y.step2"].tolist() == [min(20, len(second) + 1)]
    with pytest.raises(UsageError, match=r"candidates\.y takes no words"):
        values("aoa_reader", path)


def test_what_is_made_follows_from_the_seed_and_has_the_statistics(tmp_path: Path) -> None:
    made = [tmp_path / name for name in "abc"]
    for path, seed in zip(made, (1, 1, 2)):
        making.write(path, "text", 300, seed)
    one, same, other = (path.read_bytes() for path in made)
    assert one == same != other
    words = [word for word in one.decode().split() if word in ("w0", "w1", "w9")]
    assert words.count("w0") > words.count("w1") > words.count("w9") > 0


def test_samples_that_come_with_simgen_are_what_they_are_called() -> None:
    folder = resources.folder("data") / filling.SHIPPED
    kinds = {path.name: type(filling.read(path)) for path in folder.iterdir()
             if "labels" not in path.name}  # fmt: skip
    assert kinds == {
        "digits-images-idx3-ubyte.gz": images.Images,
        "words.txt": texts.Text,
        "translations.txt": texts.Pairs,
    }


def _idx(*shape: int) -> bytes:
    return struct.pack(f">HBB{len(shape)}I", 0, 8, len(shape), *shape) + bytes(int(np.prod(shape)))


IMAGES, LABELS = "t-images-idx3", "t-labels-idx1"
BAD: list[tuple[str, dict[str, bytes], str]] = [
    (IMAGES, {IMAGES: _idx(4, 28, 28)}, "No such file"),
    (IMAGES, {IMAGES: _idx(4, 28, 28), LABELS: _idx(3)}, "3 labels for 4 images"),
    (IMAGES, {IMAGES: _idx(4, 28, 28)[:-9], LABELS: _idx(4)}, "copy it again"),
    (IMAGES, {IMAGES: _idx(4, 28, 28)[:7]}, "an idx file of 3 axes"),
    (IMAGES, {IMAGES: _idx(4, 8, 8), LABELS: _idx(4)}, "1x8x8, but conv1.x takes 1x28x28"),
    (IMAGES, {IMAGES: _idx(2, 28, 28), LABELS: _idx(2)[:-2] + b"\x03\x0a"}, "labels[1] is 10"),
    (IMAGES, {IMAGES: _idx(0, 28, 28), LABELS: _idx(0)}, "holds no images"),
    (IMAGES, {IMAGES: b"\0\0\x0d\x03" + bytes(40)}, "begins with 00000d03"),
    (LABELS, {LABELS: _idx(4)}, "name that of the images"),
    ("a.bin", {"a.bin": bytes(3072)}, "no whole records of 3073"),
    ("a.gz", {"a.gz": gzip.compress(_idx(4, 28, 28))[:-20]}, "name a file of images"),
    ("a.txt", {"a.txt": b"\xff\xfe\xff"}, "byte 0 is in no UTF-8 text"),
    ("a.txt", {"a.txt": b" \n"}, "holds no words"),
    ("a.txt", {"a.txt": b""}, "holds nothing; name a text"),
    ("a.txt", {"a.txt": b"some words"}, "a text, but conv1.x takes no words"),
    ("none", {}, "No such file"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "files", "fact"), BAD, ids=[fact for *_, fact in BAD])
def test_what_is_no_file_of_samples_is_one_line(
    tmp_path: Path, name: str, files: dict[str, bytes], fact: str
) -> None:
    for each, content in files.items():
        (tmp_path / each).write_bytes(content)
    with pytest.raises(UsageError, match="--data") as error:
        values("lenet5", tmp_path / name, set={"n": 2, **SMALL})
    assert fact in str(error.value)
    assert "\n" not in str(error.value)


def test_a_short_text_and_other_labels_are_one_line(tmp_path: Path) -> None:
    path, config = tmp_path / "text.txt", tmp_path / "net.dnnmark"
    path.write_text("a b c\n")
    config.write_text(LANGUAGE)
    with pytest.raises(UsageError, match=r"a text of 4 words, too few for 2 samples of 3"):
        values(config, path)
    path.write_text("a b c d e f g h i j k l m n\n")
    with pytest.raises(UsageError, match=r"labels\[\d, \d\] is \d; write 0 to 3"):
        values(config, path, set={"fc.num_output": 4})


def test_the_command_writes_samples(simgen: Simgen, tmp_path: Path) -> None:
    path = tmp_path / "x-images-idx3-ubyte"
    done = simgen(f"data {path} --like mnist --samples 7 --seed 1")
    assert [line.partition(":")[0] for line in done.out.splitlines()] == [
        str(path), str(tmp_path / "x-labels-idx1-ubyte"),
    ]  # fmt: skip
    for words, fact in (("", "say either"), ("--like mnist --bytes 4", "say either"),
                        ("--like minst", "mnist")):  # fmt: skip
        bad = simgen(f"data {path} {words}")
        assert bad.code == 2
        assert fact in bad.err
        assert bad.err.count("\n") == 1
    assert 'has no "images" in its name' in simgen(f"data {tmp_path / 'x'} --like mnist").err
