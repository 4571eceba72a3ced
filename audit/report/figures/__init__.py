"""Figures drawn from results; the one place of the report that needs Matplotlib.

Each module holds a drawing and the caption that says what to conclude from it.
"""
