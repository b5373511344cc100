"""Programs of the tests that are not Python's, all at once: ``python -m tests.services.programs`` in ``make fetch``.

Put here: their list. Not here: how one is built or fetched (gateway.py, azurite.py, google_store.py,
otel_collector.py, grafana_types.py, dbt_environment.py), nor the node of Kubernetes, which its own tests alone need
(cluster/node.py).
"""

import sys

from spark_jobs.errors import ConfigError
from tests.services import azurite, dbt_environment, gateway, google_store, grafana_types, otel_collector

PROGRAMS = (
    gateway.built,
    azurite.installed,
    google_store.installed,
    grafana_types.program,
    otel_collector.built,
    dbt_environment.installed,
)


def main() -> None:
    """Build and fetch what is not there yet. The tests of a program that cannot be had are skipped, and say why."""
    for program in PROGRAMS:
        try:
            sys.stdout.write(f"{program()}\n")
        except ConfigError as error:
            sys.stdout.write(f"{error}\n")


if __name__ == "__main__":
    main()
