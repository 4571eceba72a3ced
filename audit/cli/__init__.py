"""The console commands, one file per command; only this room uses Hydra."""
