"""Reports of results: HTML, Markdown, LaTeX, terminal and figures. Nothing is run for them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
