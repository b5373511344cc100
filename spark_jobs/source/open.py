"""Source of a configuration, opened.

Put here: the choice between kinds of sources. Not here: what any of them does (files.py, server.py), or which of
several endpoints is read (endpoints.py).
"""

from spark_jobs.config import model as config
from spark_jobs.source.files import Files
from spark_jobs.source.protocol import Source, Switch
from spark_jobs.source.server import Server


def open_source(name: str, settings: config.SourceSettings) -> Source:
    """A source by its configuration, the first one listed of several endpoints; nothing is connected yet."""
    return open_sources(name, settings)[0]


def open_sources(name: str, settings: config.SourceSettings) -> tuple[Source, ...]:
    """A source's endpoints as they are listed, one for a directory; nothing is connected yet."""
    switch = Switch(len(settings.endpoints) > 1, settings.on_new_server)
    if settings.servers:
        return tuple(Server(name, server, switch) for server in settings.servers)
    assert settings.files is not None
    return (Files(name, settings.files, switch),)
