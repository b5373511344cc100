"""Fields that the forms of several jobs have.

Put here: a field, with its description. Not here: a whole form, which stands with its step.
"""

from collections.abc import Sequence

import dagster as dg


def source_field(sources: Sequence[str], name: str) -> dg.Field:
    """The source that a run is about, to be chosen where there are several.

    name: of the choice, unlike that of any other form.
    """
    choice = dg.Enum(name, list(map(dg.EnumValue, sources)))
    if len(sources) > 1:
        return dg.Field(choice, description="The source.")
    return dg.Field(choice, default_value=sources[0], description="The source; there is one.")
