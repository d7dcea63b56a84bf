"""What every test relies on: one hypothesis profile, and a Ctrl-C that arrives."""

import signal

from hypothesis import HealthCheck, settings

# No deadlines, since compilation takes seconds; the same examples in every run.
settings.register_profile(
    "cmpe", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("cmpe")

# A suite started in the background of a script inherits an ignored SIGINT, and so would every
# process that its tests start. A Python handler stops that: a new process begins with the default.
signal.signal(signal.SIGINT, signal.default_int_handler)
