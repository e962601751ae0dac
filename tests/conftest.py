"""Settings of hypothesis, and what every test leaves behind."""

import os

import pytest
from hypothesis import settings

import attnmod as am

pytest.register_assert_rewrite("helpers")

settings.register_profile("default", deadline=None, max_examples=400)
settings.register_profile("ci", deadline=None, max_examples=400, derandomize=True, database=None)
settings.load_profile("ci" if os.environ.get("CI") else "default")


@pytest.fixture
def restored_threads():
    """Lets a test call set_num_threads."""
    before = am.get_num_threads()
    yield
    am.set_num_threads(before)
