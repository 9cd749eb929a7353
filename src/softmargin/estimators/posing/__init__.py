"""From settings to a problem and back to a model, without scikit-learn; estimators and command line share it."""
