"""What a user asks for, as values: the choices of a build and of a run. Each option is written
once, here. The command line, the keywords of the API, help, pages, completion, printed command
lines and messages derive from it.

May import: errors.
"""
