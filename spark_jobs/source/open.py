"""Which source a configuration means.

Put here: the choice between kinds of sources. Not here: what any of them does (files.py, server.py).
"""

from spark_jobs import config
from spark_jobs.source import Source
from spark_jobs.source.files import Files
from spark_jobs.source.server import Server


def open_source(name: str, settings: config.Source) -> Source:
    """A source by its configuration; nothing is connected yet."""
    if settings.mysql:
        return Server(name, settings.mysql)
    assert settings.files is not None
    return Files(name, settings.files)
