"""OpenPBS as an executor of Tarmac: ``tarmac run job.yaml --on pbs``."""
