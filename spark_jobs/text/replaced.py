"""Small text files that are replaced as a whole, such as those beside pipeline.yaml.

Put here: how one is replaced. Not here: what is in it, or files of the lake (storage/).
"""

import os
from pathlib import Path


def replace_text(path: Path, text: str) -> None:
    """Replace a file's text; a reader sees the old text or the new one. Raises OSError, and then leaves no draft."""
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
