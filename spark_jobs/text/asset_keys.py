"""Names as parts of asset keys, for Dagster and for what refers to its assets.

Put here: what a name becomes. Not here: Dagster's own keys (assets/keys.py).
"""


def key_part(name: str) -> str:
    """A name as one part of an asset key: Dagster joins the parts with slashes."""
    return name.replace("%", "%25").replace("/", "%2F")


def downstream_key_parts(schema: str, table: str) -> tuple[str, str, str]:
    """The parts of a downstream table's asset key, without a prefix."""
    return "downstream", key_part(schema), key_part(table)
