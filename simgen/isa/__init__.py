"""Instruction sets: the assembler and its text, what simulators implement of them, replacements of
what they lack (legalise/), and what they make of anybody's machine code (lint/).

May import: ask, errors, ground.
"""
