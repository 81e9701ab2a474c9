"""What every room builds on: the protocol of a problem, errors, noise, files."""
