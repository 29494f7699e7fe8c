"""What memories and units of a simulated machine really do, beside what it is configured to do.

`probes` says which launches of data/rates/rates.toml give which rate, `measuring` runs them on a
target; `keeping` has what was found for reports.

May import: reports.
"""
