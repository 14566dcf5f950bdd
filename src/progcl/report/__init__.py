"""The report of a run on one page: `write_report(load_story(run, data), path)`."""

from progcl.report.page import write_report
from progcl.report.story import Story, load_story

__all__ = ["Story", "load_story", "write_report"]
