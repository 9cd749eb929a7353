"""The ground: protocols, certificates, errors, files."""
