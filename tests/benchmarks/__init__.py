"""What `make bench` measures; never part of the tests, which assert no times."""
