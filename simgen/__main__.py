"""`python -m simgen` is `simgen`."""

from simgen.cli.main import main

main()
