"""What the command line reports of a fit, for a person and as JSON."""
