"""What examines simulators: single instructions against the vendors' manuals (conform/), and where
two targets first differ (bisect/). Stands on simgen, which imports nothing of it.
"""

from pathlib import Path

HERE = Path(__file__).resolve().parent  # with data/ and templates/
