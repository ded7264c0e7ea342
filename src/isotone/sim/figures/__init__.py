"""The papers' tables and figures from our own runs: the classes that the daemon runs, in virtual time, no model."""

from isotone.sim.figures.catalogue import FIGURES, Figure, Recipe, figure_named, recipe_named

__all__ = ["FIGURES", "Figure", "Recipe", "figure_named", "recipe_named"]
