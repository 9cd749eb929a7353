"""Losses: scores in, numbers out; no X here."""

from softmargin.losses.multiclass_hinge import CrammerSinger, WestonWatkins

LOSSES: dict[str, WestonWatkins | CrammerSinger] = {loss.name: loss for loss in (WestonWatkins(), CrammerSinger())}

__all__ = ["LOSSES", "CrammerSinger", "WestonWatkins"]
