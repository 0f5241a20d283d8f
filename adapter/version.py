"""The adapter's version, the same as the relay's it was released with. Owns nothing else."""

VERSION = "0.2.0"
