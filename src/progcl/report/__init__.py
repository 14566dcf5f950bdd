"""A run told on one page: `write(story_of(run, data), path)`."""

from progcl.report.page import Story, write
from progcl.report.story import story_of

__all__ = ["Story", "story_of", "write"]
