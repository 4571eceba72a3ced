"""A module that takes for ever to import."""

while True:
    pass
