"""One hypothesis profile: no deadlines (compilation takes seconds), the same examples every run."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "cmpe", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("cmpe")
