"""What an NVIDIA GPU, or a simulator of one, makes of single instructions of PTX.

`description` reads which instructions there are (simgen_examine/data/ptx.json), `integers`,
`floats`, `conversions` and `approximations` say what each computes, `forms`, `memory`, `warps` and
`control` put them into all operands and surroundings, `kernels` writes these as PTX, and `running`
runs them until nothing in them ends the machine any more.
"""
