-- Schema of trace.sqlite3; simgen/reports/pages/trace.py tells what it is for.

PRAGMA application_id = 0x73676e31;
PRAGMA user_version = 4; -- raised when the schema changes

CREATE TABLE bundle (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    workload TEXT NOT NULL,
    planned_for TEXT NOT NULL, -- the machine that tiles, splits and algorithms were chosen for
    digest TEXT NOT NULL, -- SHA-256 of workload.json
    data TEXT NOT NULL, -- identity of data.h5
    seed TEXT NOT NULL -- up to 64 bits without a sign, which INTEGER does not hold
);

CREATE TABLE step ( -- a layer in a pass
    id INTEGER PRIMARY KEY,
    bundle INTEGER NOT NULL REFERENCES bundle,
    position INTEGER NOT NULL, -- from 0
    layer TEXT NOT NULL,
    kind TEXT NOT NULL, -- softmax, pooling, ...
    pass TEXT NOT NULL, -- fwd, bwd, bwd_weight, bwd_data
    type TEXT NOT NULL, -- of the elements of its tensors: f32, f16; several with commas between
    operations INTEGER NOT NULL, -- that the algorithm needs: flops and transcendentals
    bytes INTEGER NOT NULL, -- that it must read and write
    UNIQUE (bundle, position)
);

CREATE TABLE launch ( -- one run of a kernel
    id INTEGER PRIMARY KEY,
    step INTEGER NOT NULL REFERENCES step,
    position INTEGER NOT NULL, -- from 0, in the whole workload; a library's kernels follow, by run
    kernel TEXT NOT NULL,
    invocation INTEGER NOT NULL, -- from 1: which run of this kernel in the workload it is
    work_groups INTEGER, -- NULL of a library's kernel
    work_group_size INTEGER, -- work-items of one
    UNIQUE (step, position)
);
CREATE INDEX launch_of_kernel ON launch (kernel, invocation);

CREATE TABLE run ( -- what a target left of a bundle
    id INTEGER PRIMARY KEY,
    bundle INTEGER NOT NULL REFERENCES bundle,
    target TEXT NOT NULL,
    result TEXT NOT NULL, -- the target, or a point of a sweep, TARGET@OPTION=VALUE,...
    finished TEXT NOT NULL, -- ISO 8601, UTC
    simgen TEXT NOT NULL, -- version
    compiler TEXT NOT NULL,
    UNIQUE (bundle, result)
);

CREATE TABLE property ( -- of a run
    run INTEGER NOT NULL REFERENCES run,
    part TEXT NOT NULL, -- settings (of the target), options (of a sweep), config, machine,
                        -- verdict (of simgen diff, by layer and pass), inferred (launch that did
                        -- not run -> the launch that has its metrics, both by position)
    name TEXT NOT NULL,
    value TEXT NOT NULL, -- text, or JSON
    PRIMARY KEY (run, part, name)
) WITHOUT ROWID;

CREATE TABLE metric ( -- what a target does not count has no row
    run INTEGER NOT NULL REFERENCES run,
    launch INTEGER NOT NULL REFERENCES launch,
    name TEXT NOT NULL,
    value REAL NOT NULL,
    PRIMARY KEY (run, launch, name)
) WITHOUT ROWID;

CREATE TABLE point ( -- of a sweep that this is the store of (simgen report FOLDER); else there is none
    id INTEGER PRIMARY KEY, -- in the order of the sweep
    bundle TEXT NOT NULL,
    result TEXT NOT NULL,
    digest TEXT NOT NULL, -- SHA-256 of the bundle's workload.json
    run INTEGER REFERENCES run, -- NULL: it has not run
    UNIQUE (bundle, result)
);

-- One line for each value, with everything that it belongs to.
CREATE VIEW launch_metric AS
SELECT run.id AS run, bundle.name AS bundle, bundle.workload, bundle.planned_for, run.target, run.result,
    step.position AS step, step.layer, step.kind, step.pass, step.type, launch.position AS launch, launch.kernel, launch.invocation,
    metric.name AS metric, metric.value
FROM metric
    JOIN run ON run.id = metric.run
    JOIN launch ON launch.id = metric.launch
    JOIN step ON step.id = launch.step
    JOIN bundle ON bundle.id = step.bundle;

-- Sums over the launches of a layer and pass.
CREATE VIEW layer_metric AS
SELECT run, bundle, workload, planned_for, target, result, step, layer, kind, pass, type, metric, sum(value) AS value
FROM launch_metric
GROUP BY run, step, metric;

