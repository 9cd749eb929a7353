"""What talks to scikit-learn: checks of the data, labels, callbacks, warnings, and the one frame of every fit."""
