from softmargin.features.landmarks import Landmarks as Landmarks
from softmargin.features.landmarks import choose_landmarks as choose_landmarks
from softmargin.features.random_binning import RandomBinning as RandomBinning
