"""Forms of jobs: fields that several have, and the form of a step as that of its job.

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


def form_of(step: dg.OpDefinition, name: str) -> dg.ConfigMapping:
    """The form of a step as the configuration of its job: the launchpad shows neither other steps nor resources.

    name: of the step in the job.
    """
    return dg.ConfigMapping(lambda form: {"ops": {name: {"config": form}}}, config_schema=step.config_schema)
