"""What a simulator makes of single instructions, compared with what the vendor's manuals say.

`description` reads which instructions there are (simgen_examine/data), `integers` and `floats` say
what each computes, `forms` puts them into all encodings, modifiers and sources, `catalogue` lists
these with those of all other kinds, `assembly` makes kernels of them, `probe` runs these on a
target, and `judging` compares lane by lane; `page` tells of it. `ptx` does so for NVIDIA GPUs.
"""
