"""Binary SVMs with squared hinge loss and an unpenalised bias."""
