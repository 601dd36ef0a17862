"""Property tests are judged by what they find, not by the clock: test machines are shared."""

from hypothesis import settings

settings.register_profile("shoal", deadline=None)
settings.load_profile("shoal")
