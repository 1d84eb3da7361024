"""The core's decisions carried out: on every rank one engine and one worker, on rank 0 the driver too."""
