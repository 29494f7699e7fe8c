"""`python -m simgen` is `simgen`."""

from simgen.cli import main

main()
