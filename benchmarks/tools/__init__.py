"""What the scripts of the other folders share."""
