"""What --json prints is of the schema that it names, and an error is JSON too."""

from __future__ import annotations

from pathlib import Path

import pytest

from simgen.cli import answers

jsonschema = pytest.importorskip("jsonschema")

KEYS = {key for name in answers.SHAPES for key in answers.schema(name)["properties"]}
HOST = "softmax_fwd --set n=2 --set c=4 --target host"


def check(told):
    name, _, number = told["schema"].removeprefix("simgen.").partition("/")
    assert number == "1"
    schema = answers.schema(name)
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(told, schema)
    known = schema["properties"]
    assert set(told) <= set(known) or "additionalProperties" in schema, "it tells all keys"
    return told


@pytest.mark.parametrize(
    "line",
    [
        *(f"list {what} --json" for what in ("workloads", "networks", "layers", "targets")),
        *(f"list {what} --json" for what in ("algorithms", "machines", "metrics", "exports")),
        *(f"list {what} --json" for what in ("schemas", "variables")),
        "list deepbench gemm --json",
        "show softmax_fwd --json",
        "show sgd_bwd --json",
        "show lenet5 --as miopen --json",
        "show 'gem5.opt apu_se.py -u8 -c dnnmark_test_fwd_softmax' --json",
        "doctor --for mgpusim --json",
        "cache list --json",
        "cache verify --json",
        "cache clear --json",
    ],
)
def test_what_looks_up(simgen, line):
    done = simgen(line)
    assert (done.code, done.err) == (0, "")
    check(done.json())


def test_what_makes_files(simgen):
    """All that they say they wrote is there; no part of an answer may be anything."""
    for line in (
        "new kernel scale --json",
        "new data m.bin --bytes 4K --json",
        "new data d-images-idx3-ubyte --like mnist --samples 2 --json",
        "new network softmax_fwd --operations 1e4 -o n.dnnmark --json",
    ):
        done = simgen(line)
        assert (done.code, done.err) == (0, "")
        told = check(done.json())
        assert all(Path(file).is_file() for file in told["files"])
    assert told["kinds"]["softmax"]["made"]["operations"] > 0


def test_few_parts_may_be_anything():
    def loose(schema, place):
        if schema == {}:
            yield place
        parts = {**schema.get("properties", {}), "[]": schema.get("items")}
        parts["{}"] = schema.get("additionalProperties")
        parts |= {f"|{n}": each for n, each in enumerate(schema.get("anyOf", ()))}
        for name, each in parts.items():
            if isinstance(each, dict):
                yield from loose(each, f"{place} {name}")

    found = [place for name in answers.SHAPES for place in loose(answers.schema(name), name)]
    assert found == ["bundle config {}", "list rows [] {}"]


def test_the_way_of_a_bundle(simgen, tmp_path):
    def told(line, code=0):
        done = simgen(line)
        assert done.code == code, done.err
        return check(done.json())

    built = told(f"build {HOST} -o b --json")
    assert (built["launches"], built["targets"], built["results"]) == (1, ["host"], [])
    ran = told("run b --on host --json")["results"]
    assert (ran[0]["result"], ran[0]["settings"]["n"], ran[0]["launches"]) == ("host", 2, 1)
    assert ran[0]["seconds"] > 0
    assert told("run b --on host --unless-done --json")["results"] == ran
    assert told("diff b --json")["verdict"] == "same"
    (row,) = told("report b -o page --json")["rows"]
    assert (row["layer"], row["pass"], row["verdict"]) == ("softmax", "fwd", "same")
    assert told("report b --score --json")["scores"][0]["result"] == "host"
    assert told("export b --as csv -o t.csv --json")["output"] == "t.csv"
    assert told("status b --json")["results"][0]["verdicts"] == {"same": 1}
    assert told("show b --json")["schema"] == "simgen.bundle/1"
    points = told("run b --on host --sweep n=1,2 --dry-run --json")["points"]
    assert [each["done"] for each in points] == [False, False]
    swept = told("run b --on host --sweep n=1,2 --json")
    assert [each["settings"]["n"] for each in swept["results"]] == [1, 2]
    again = told(f"build {HOST} --json -o b --run --replace")
    assert again["results"][0]["result"] == "host"
    assert told("quick softmax_fwd --set n=2 -o q --json")["verdict"] == "same"


@pytest.mark.parametrize(
    ("line", "kind", "code"),
    [
        ("diff nowhere --json", "UsageError", 2),
        ("build softmax_fwd --set n=x --json", "ConfigError", 2),
        ("show softmax_fwd --no-such --json", "UsageError", 2),
        ("run b --json", "UsageError", 2),
    ],
)
def test_an_error_is_json_and_a_line(simgen, line, kind, code):
    done = simgen(line)
    told = check(done.json())
    assert (told["kind"], told["exit_code"], done.code) == (kind, code, code)
    assert done.err == f"simgen: error: {told['error']}\n"


def test_what_differs_is_one_answer(simgen, ran):
    from handmade import run_by_hand

    def wrong(tensors):
        tensors["probability.y"][0] += 0.5

    run_by_hand(ran, wrong)
    done = simgen("diff net --json")
    assert (done.code, check(done.json())["verdict"]) == (6, "different")


def test_an_interrupted_command_answers(simgen, ran, monkeypatch):
    from simgen.verdict import judging

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(judging, "judge", interrupted)
    done = simgen("diff net --json")
    assert (check(done.json())["kind"], done.code) == ("Interrupted", 130)


def test_no_number_is_a_text_with_a_unit(simgen):
    (first, *_) = simgen("list machines --json").json()["rows"]
    assert {type(first[key]) for key in ("compute_units", "clock_hz", "dram_bytes_per_second")} <= {
        int, float,
    }  # fmt: skip
    assert all(key == key.lower() and " " not in key for key in KEYS)
