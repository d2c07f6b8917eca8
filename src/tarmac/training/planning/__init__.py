"""Making of a plan from a request: options, settings and choices by rule."""
