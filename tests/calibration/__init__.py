"""What `make calibrate` repeats: every estimator on mechanisms with known curves."""
