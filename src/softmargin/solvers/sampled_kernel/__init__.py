"""Binary kernel SVMs solved on a growing or random sample."""
