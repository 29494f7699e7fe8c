"""Files of samples: read, made, given to inputs; and what is none of them, in one line."""

from __future__ import annotations

import gzip
import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from census import census

import simgen as package
from simgen.errors import UsageError
from simgen.ground import resources
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
    found = images.cifar(path, path.read_bytes(), "CIFAR-10")
    assert found.labels[1] == record[0]
    np.testing.assert_array_equal(found.pixels[1, 2], record[-1024:].reshape(32, 32))
    made = values("cifar_quick", path, set={"n": 2})
    assert made["conv1.x"].shape == (2, 3, 32, 32)


def test_words_are_numbered_by_frequency_and_followed_by_their_labels(tmp_path: Path) -> None:
    path, config = tmp_path / "text.txt", tmp_path / "net.dnnmark"
    path.write_text("a b a\nc a b\nd e f a a\n")
    found = filling.read_samples(path)
    assert isinstance(found, texts.Text)
    assert found.told == "a text of 14 words"
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
    found = filling.read_samples(path)
    assert isinstance(found, texts.Pairs)
    first, second = found.sources[:2]
    # Sentences of 20 words at most, with the end of each.
    assert made["lengths.y"].tolist() == [min(20, len(first) + 1)]
    assert made["lengths.y.step2"].tolist() == [min(20, len(second) + 1)]
    with pytest.raises(UsageError, match=r"candidates\.y takes no words"):
        values("aoa_reader", path)


# As the files of these begin (the public ones are far larger).
LAYOUTS = {
    "manythings": (
        "Go.\tVa !\tCC-BY 2.0 (France) Attribution: tatoeba.org #2877272 (CM) & #1158250\n"
        "Hi.\tSalut !\tCC-BY 2.0 (France) Attribution: tatoeba.org #538123 (CM) & #509819 (Aiji)\n",
        [("Go.", "Va !"), ("Hi.", "Salut !")], "columns 1 and 2 of 3",
    ),
    "manythings, with ratings": (
        "Run!\t¡Corre!\tCC-BY 2.0 (France) Attribution: tatoeba.org #906328 \t6\t0\t:v,corre\n",
        [("Run!", "¡Corre!")], "columns 1 and 2 of 6",
    ),
    "Tatoeba, pairs": (
        "1276\tLet's try something.\t2481\tEssayons quelque chose !\n"
        "1277\tI have to go to sleep.\t2482\tJe dois aller dormir.\n",
        [("Let's try something.", "Essayons quelque chose !"),
         ("I have to go to sleep.", "Je dois aller dormir.")], "columns 2 and 4 of 4",
    ),
    "ParaCrawl": (
        "http://a.b/en\thttp://a.b/fr\tA house.\tUne maison.\t.8\n", [("A house.", "Une maison.")],
        "columns 3 and 4 of 5",
    ),
    "some without the last column": (
        "a b\tc d\tCC-BY\ne f\tg\n", [("a b", "c d"), ("e f", "g")], "columns 1 and 2 of 2 to 3",
    ),
    "a tab at the end of each line": ("a\tb\t\nc\td\t\n", [("a", "b"), ("c", "d")],
                                      "columns 1 and 2 of 3"),
    "a heading": ("source\ttarget\na b\tc\n", [("a b", "c")],
                  "without the first line, which names them"),
    "a heading of codes": ("en-US\tde\na b\tc\n", [("a b", "c")],
                           "without the first line, which names them"),
    "no heading of codes": ("it\tit\ngo\tva\n", [("it", "it"), ("go", "va")], ""),
    "a heading over numbers": ("id\ten\tx\tfr\n1\ta b\t7\tc\n", [("a b", "c")],
                               "columns 2 and 4 of 4, without the first line, which names them"),
    "two columns": ("a b\tx\nb a\ty z\n", [("a b", "x"), ("b a", "y z")], ""),
    "Windows": ("\ufeffa\tx\r\nb\ty\r\n", [("a", "x"), ("b", "y")], ""),
}  # fmt: skip
ONE_COLUMN = {
    "Tatoeba": ("1\tcmn\t我們試試看！\n2\tcmn\t我该去了。\n", ["我們試試看！", "我该去了。"], 3),
    "Tatoeba, detailed": ("1\teng\tA b .\tuser1\t2006-01-01 00:00:00\t\\N\n"
                          "2\teng\tC .\tuser2\t\\N\t2008-01-01\n", ["A b .", "C ."], 3),
    "Leipzig": ("1\tA sentence.\n2\tAnother 3.\n", ["A sentence.", "Another 3."], 2),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYOUTS)
def test_pairs_are_found_in_the_usual_columns(tmp_path: Path, name: str) -> None:
    text, pairs, columns = LAYOUTS[name]
    path = tmp_path / "pairs.tsv"
    path.write_text(text)
    found = filling.read_samples(path)
    assert isinstance(found, texts.Pairs)
    sides = (found.sources, found.targets)
    assert [tuple(" ".join(side) for side in pair) for pair in zip(*sides, strict=True)] == pairs
    assert found.told == f"pairs, {len(pairs)} of them" + (f", {columns}" if columns else "")


def test_commas_stand_between_columns_of_a_csv(tmp_path: Path) -> None:
    path = tmp_path / "eng-fra.csv"
    path.write_text(
        'English words/sentences,French words/sentences\n"Hi, you.",Salut\nRun!,Cours !\n'
    )
    found = filling.read_samples(path)
    assert isinstance(found, texts.Pairs)
    assert found.sources == (("Hi,", "you."), ("Run!",))
    assert found.told == "pairs, 2 of them, without the first line, which names them"


@pytest.mark.parametrize("name", ONE_COLUMN)
def test_one_column_of_sentences_is_a_text(tmp_path: Path, name: str) -> None:
    text, lines, column = ONE_COLUMN[name]
    path = tmp_path / "sentences.tsv"
    path.write_text(text)
    found = filling.read_samples(path)
    assert isinstance(found, texts.Text)
    assert " ".join(found.words).removesuffix(" <eos>").split(" <eos> ") == lines
    assert f"column {column} of" in found.told


def test_tabs_within_lines_of_a_text_are_white_space(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("\ta b\nc\td\ne f\ng h\n")
    found = filling.read_samples(path)
    assert isinstance(found, texts.Text)
    assert found.words[:5] == ("a", "b", "<eos>", "c", "d")


CIFAR_100 = [(19, 99, 7), (3, 42, 250), (0, 0, 9)]  # label among 20, label among 100, pixels


def test_cifar_100_has_two_labels(tmp_path: Path) -> None:
    """<1 x coarse label><1 x fine label><3072 x pixel>: the page of the binary version."""
    path = tmp_path / "train.bin"
    path.write_bytes(b"".join(bytes((a, b, *[c] * 3072)) for a, b, c in CIFAR_100))
    found = filling.read_samples(path)
    assert isinstance(found, images.Images)
    assert found.told == "images of 3 x 32 x 32 with labels, 3 of them, as CIFAR-100"
    for classes, column in ((100, 1), (20, 0)):  # a network of 20 classes has the others
        made = values("cifar_quick", path, set={"n": 3, "ip2.num_output": classes})
        assert made["loss.labels"].tolist() == [row[column] for row in CIFAR_100]
        assert (made["conv1.x"][:, 2, 31, 31] * 127.5 + 127.5).round().tolist() == [7, 250, 9]
    unnamed = tmp_path / "train"
    unnamed.write_bytes(path.read_bytes())
    assert filling.read_samples(unnamed).told == found.told
    path.write_bytes(b"".join(bytes((a, 100, *[c] * 3072)) for a, _, c in CIFAR_100))
    with pytest.raises(UsageError, match="label of image 0 is 100, of 100 classes of CIFAR-100"):
        filling.read_samples(path)


def _question(number: int, answer: str = "cat", candidates: str = "dog|bird|cat") -> str:
    story = "".join(f"{at} the dog {number} saw a cat {at} .\n" for at in range(1, 21))
    return f"{story}21 where is the XXXXX ?\t{answer}\t\t{candidates}\n\n"


def test_questions_of_cbtest_fit_the_reader(tmp_path: Path) -> None:
    """cbtest_NE_train.txt: 20 numbered sentences, then question, answer and candidates."""
    path = tmp_path / "cbtest_NE_train.txt"
    path.write_text(_question(7) + _question(8, "dog", "dog|cat"))
    found = filling.read_samples(path)
    assert found.told == "questions, 2 of them, with 3 candidates and documents of up to 160 words"
    made = values("aoa_reader", path, steps=2, set={"document.shape": "1x161"})
    assert made["loss.labels"].tolist() == [2]
    assert made["loss.labels.step2"].tolist() == [0]
    document, query, candidates = (
        made[f"{name}.y"][0] for name in ("document", "query", "candidates")
    )
    dog, bird, cat = candidates[:3]
    assert candidates[3:].tolist() == [0] * 7
    assert bird == 499, "a word that stands in no document"
    assert document[[1, 5]].tolist() == [dog, cat] == [document[9], document[13]]
    assert document[160] == 0, "what follows a document does not count"
    assert query[2] == document[0], "the"
    assert query[:5].tolist() != [0] * 5 == query[5:10].tolist()
    assert (made["document.y.step2"][0] != document).sum() == 20
    with pytest.raises(UsageError, match=r"questions with 3 candidates, but candidates\.y takes 2"):
        values("aoa_reader", path, set={"candidates.shape": "1x2"})
    with pytest.raises(UsageError, match="are no document, question and candidates"):
        values("seq2seq", path)
    path.write_text(_question(7) + _question(8, "fox"))
    with pytest.raises(UsageError, match="line 43 is no question of CBTest"):
        filling.read_samples(path)
    whole = _question(7) + _question(8)
    path.write_text(whole[: whole.rindex("21 ")])
    with pytest.raises(UsageError, match=r"ends before line \d+ has no question; copy it again"):
        filling.read_samples(path)


def test_a_text_does_not_fill_a_source_and_a_target(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("a b c d e f g\n" * 30)
    with pytest.raises(UsageError, match=r"source\.y and target\.y are several inputs of words"):
        values("seq2seq", path)


def test_the_build_says_what_a_file_was_taken_for(simgen: Simgen, tmp_path: Path) -> None:
    path, bundle = tmp_path / "fra.txt", tmp_path / "b"
    path.write_text(LAYOUTS["manythings"][0] * 2)
    words = f"seq2seq --training --data {path}"
    assert f"{path}: pairs, 4 of them, columns 1 and 2 of 3" in simgen(f"show {words}").out
    told = simgen(f"build {words} --target host -o {bundle}").out.splitlines()
    assert f"{path}: pairs, 4 of them, columns 1 and 2 of 3" in told


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
    kinds = {path.name: type(filling.read_samples(path)) for path in folder.iterdir()
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
    ("a.txt", {"a.txt": b"\xff\xff\xff"}, "byte 0 is in no UTF-8 text"),
    ("a.txt", {"a.txt": b" \n"}, "holds no words"),
    ("a.txt", {"a.txt": b""}, "holds nothing; name a text"),
    ("a.txt", {"a.txt": b"some words"}, "a text, but conv1.x takes no words"),
    ("a.txt", {"a.txt": b"a\tb\nc\td\ne\n"}, "line 3 has one column, and 2 of 3 lines have more"),
    ("a.txt", {"a.txt": b"a\tb\nc\t \n"}, "line 2 has nothing in column 2"),
    ("a.txt", {"a.txt": b"a\tb\tc\nd\te\tf\n"}, "of which 1, 2, 3 may be sentences"),
    ("a.txt", {"a.txt": b"1\t2\n3\t4\n"}, "of which none may be sentences"),
    ("a.json", {"a.json": b'{"translation": {"en": "a", "fr": "b"}}\n'}, "JSON or XML"),
    ("a.tmx", {"a.tmx": b"<?xml version='1.0'?>\n<tmx/>\n"}, "JSON or XML"),
    ("fra-eng.zip", {"fra-eng.zip": b"PK\3\4" + bytes(40)}, "a ZIP archive"),
    ("u.txt", {"u.txt": "a b\tc\n".encode("utf-16")}, "a text in UTF-16; write it in UTF-8"),
    ("c.tar", {"c.tar": bytes(257) + b"ustar" + bytes(300)}, "an archive of tar"),
    ("data_batch_1", {"data_batch_1": b"\x80\x02}q\1"}, "take the binary version"),
    ("none", {}, "No such file"),
]  # fmt: skip


@census("name, files, fact", BAD)
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
    done = simgen(f"new data {path} --like mnist --samples 7 --seed 1")
    assert [line.partition(":")[0] for line in done.out.splitlines()] == [
        str(path), str(tmp_path / "x-labels-idx1-ubyte"),
    ]  # fmt: skip
    for words, fact in (("", "say either"), ("--like mnist --bytes 4", "say either"),
                        ("--like minst", "mnist")):  # fmt: skip
        bad = simgen(f"new data {path} {words}")
        assert bad.code == 2
        assert fact in bad.err
        assert bad.err.count("\n") == 1
    assert 'has no "images" in its name' in simgen(f"new data {tmp_path / 'x'} --like mnist").err
