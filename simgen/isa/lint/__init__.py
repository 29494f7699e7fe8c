"""Machine code of anybody -> what a simulator makes of it, before it runs.

`containers` finds code objects in whatever holds them, `naming` says what their instructions are
called, `tables` what a version of a simulator does with each, and `linting` brings them together.

May import: isa.
"""
