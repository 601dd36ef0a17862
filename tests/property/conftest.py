"""Property tests are judged by what they find, not by the clock: test machines are shared.

The verdict on a commit is a function of the commit, so the examples are the same in every run. To look for new ones:
`pytest tests/property --hypothesis-profile explore`; what it finds becomes an example of its test.
"""

from hypothesis import settings

settings.register_profile("shoal", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=3000, print_blob=True)
settings.load_profile("shoal")
