"""Methods of inference: a file each, found by name in one registry."""
