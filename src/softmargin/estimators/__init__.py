"""What users see: scikit-learn estimators, and ``certify`` for anybody's model."""
