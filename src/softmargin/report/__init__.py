"""Reports: facts of the machine, and one self-contained HTML page."""

from softmargin.report.machine import machine_facts
from softmargin.report.page import Section, build_page, image, preformatted, table

__all__ = ["Section", "build_page", "image", "machine_facts", "preformatted", "table"]
