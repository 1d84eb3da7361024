"""How messages get from rank to rank. `base` is the contract; `loopback` and `mpi` keep it."""
