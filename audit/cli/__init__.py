"""The console commands, one file a command; only this room knows Hydra."""
