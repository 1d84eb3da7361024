"""The decisions: events in, actions out.

Everything in here is pure. No clock, no chance, no arrays, no MPI, no threads: ids and byte counts
come in as events, orders come out as actions. That is what lets a fuzzer, a simulator with thousands
of tiles and the real runtime drive the very same code.
"""
