"""Losses: scores in, numbers out; no X here."""

from softmargin.losses.multiclass_hinge import CrammerSinger, WestonWatkins

LOSSES: dict[str, WestonWatkins | CrammerSinger] = {
    "weston_watkins": WestonWatkins(),
    "crammer_singer": CrammerSinger(),
}

__all__ = ["LOSSES", "CrammerSinger", "WestonWatkins"]
