"""Command lines of the programs that people time libraries with, as operations and back.

Each module is one program: the options that say what is computed, and those that only say how it is
measured, which are passed over. What an option says that simgen cannot do is refused by its name.

May import: frontend.operation.
"""
