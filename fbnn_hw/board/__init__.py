"""A board that holds a design, real or simulated: classified, taught, compared with the reference."""

from .board import Board

__all__ = ["Board"]
