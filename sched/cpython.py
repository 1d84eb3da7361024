"""The public names of CPython's own `sched`, which this package stands in front of.

CPython's file is executed as it is, and under the name `sched` that its classes carry, but is not entered in
`sys.modules`: a pickled `sched.Event` from any Python is then found in this package, and the other way round.
"""

import os
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

_spec = PathFinder.find_spec("sched", [os.path.dirname(os.__file__)])
if _spec is None or _spec.loader is None:
    raise ImportError("this Python lacks its own module sched: reinstall it to use sched.scheduler")
_module = module_from_spec(_spec)
_spec.loader.exec_module(_module)

Event = _module.Event
scheduler = _module.scheduler
