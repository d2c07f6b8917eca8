"""From what was asked to a plan: options, settings and the choices that are made by rule."""
