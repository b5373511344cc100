"""The Dagster component: a pipeline as a ``defs.yaml``.

Put here: its attributes, its scaffold, and the tables that it asks servers for. Not here: what definitions consist of
(build.py).
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import dagster as dg
from dagster.components.resolved.model import Resolver
from dagster.components.scaffold.scaffold import scaffold_with
from dagster.components.utils.defs_state import DefsStateConfig, DefsStateConfigArgs, ResolvedDefsStateConfig
from dagster.components.utils.translation import TranslationFn, TranslationFnResolver
from pydantic import BaseModel, Field

from assets.catalog import AssetOf
from assets.steps import SourceStep, StepEvents
from dagster_project.alerts import Alert, webhook
from dagster_project.build import Automation, build_defs
from spark_jobs.config import known_tables, project_files
from spark_jobs.config.loader import from_keys, load
from spark_jobs.config.model import Pipeline
from spark_jobs.errors import ConfigError

if TYPE_CHECKING:
    from typing import Self

_INLINE = "pipeline.yaml"


class ScaffoldParams(BaseModel):
    """Parameters of ``dg scaffold defs stratalog.StratalogComponent NAME``; each has a default."""

    pipeline: str | None = Field(None, description="An existing pipeline.yaml; without it, one is written.")
    files: str | None = Field(None, description="A folder of binlog files as the source.")
    host: str = Field("127.0.0.1", description="Host of the MySQL or MariaDB server.")
    port: int = Field(3306, description="Port of the server.")
    user: str = Field("repl", description="Replication user of the server.")


class PipelineScaffolder(dg.Scaffolder[ScaffoldParams]):
    """Writes ``defs.yaml``, a ``pipeline.yaml`` beside it with what git ignores, and an instance in ``dagster``."""

    @classmethod
    def get_scaffold_params(cls) -> type[ScaffoldParams]:
        return ScaffoldParams

    def scaffold(self, request: dg.ScaffoldRequest[ScaffoldParams]) -> None:
        """Write the files that are not there yet, and the component's ``defs.yaml``."""
        params = request.params
        path = request.target_path / "pipeline.yaml"
        if params.pipeline is None and not path.exists():
            path.write_text(_pipeline_text(request.target_path.name, params), encoding="utf-8")
            path.with_name(".gitignore").write_text(project_files.ignored(path), encoding="utf-8")
            if params.files is None and request.project_root:
                project_files.add_variable(request.project_root / ".env", _variable(request.target_path.name))
        if request.project_root:
            project_files.write_instance(request.project_root / "dagster")
        dg.scaffold_component(request, {"pipeline": params.pipeline or path.name, "executor": "in_process"})


def _source_name(name: str) -> str:
    """The name of the source in a folder; names of sources and of variables begin with no digit."""
    source = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return f"source_{source}" if source[0].isdigit() else source


def _variable(name: str) -> str:
    return f"{_source_name(name).upper()}_PASSWORD"


def _pipeline_text(name: str, params: ScaffoldParams) -> str:
    source = _source_name(name)
    if params.files is not None:
        settings = f"    files: {json.dumps(params.files)}\n"
    else:
        server = f"host: {json.dumps(params.host)}, port: {params.port}, user: {json.dumps(params.user)}"
        settings = f'    mysql: {{{server}, password: "${{{_variable(name)}}}"}}\n'
    return (
        "# All keys: stratalog docs configuration. Relative paths count from this folder.\n"
        f'lake: ./lake\nsources:\n  {source}:\n{settings}# tables: ["{source}.*"]\n'
    )


@scaffold_with(PipelineScaffolder)
@dataclass
class StratalogComponent(dg.StateBackedComponent, dg.Resolvable):
    """MySQL or MariaDB binary logs into Delta tables: assets, checks, jobs, sensors and schedules of a pipeline.

    Subclasses may override ``get_asset_spec``, ``execute`` and ``alert``.
    """

    pipeline: Annotated[
        str | Mapping[str, Any],
        Resolver.default(
            description="Path of a pipeline.yaml, relative to this folder, or the keys of one.",
            examples=["pipeline.yaml", {"lake": "./lake", "sources": {"shop": {"files": "./binlogs"}}}],
        ),
    ]
    key_prefix: Annotated[
        str | Sequence[str] | None, Resolver.default(description="Before each asset key.", examples=["mysql"])
    ] = None
    group_name: Annotated[
        str | None, Resolver.default(description="One group for all assets; by default one per source and layer.")
    ] = None
    job_prefix: Annotated[
        str, Resolver.default(description="Before the names of jobs, sensors, schedules and pools.", examples=["erp_"])
    ] = ""
    resource_key: Annotated[
        str | None,
        Resolver.default(description="Key of the resource with Spark sessions; default: job_prefix + spark."),
    ] = None
    translation: (
        Annotated[TranslationFn[AssetOf], TranslationFnResolver[AssetOf](lambda data: {"data": data})] | None
    ) = None
    include_metadata: Annotated[
        Sequence[str],
        Resolver.default(
            description="Patterns of the metadata keys of materializations; all by default.",
            examples=[["rows/*", "dagster/*"]],
        ),
    ] = ("*",)
    automation: Annotated[
        Automation,
        Resolver.default(
            description="What runs from the beginning: off, sensor (after changes), every_5_minutes or daily."
        ),
    ] = "off"
    executor: Annotated[
        Literal["project", "in_process"],
        Resolver.default(
            description="project: the executor that the project has. in_process: of the project, so that the steps of "
            "a run share a Spark session; for a project that sets no other."
        ),
    ] = "project"
    alert_webhook: Annotated[
        str | None,
        Resolver.default(description="Address that alerts are posted to.", examples=["{{ env.ALERTS_URL }}"]),
    ] = None
    defs_state: ResolvedDefsStateConfig = field(default_factory=DefsStateConfigArgs.local_filesystem)

    folder = Path()
    """The folder of defs.yaml."""

    @classmethod
    def load(cls, attributes: BaseModel | None, context: dg.ComponentLoadContext) -> "Self":
        component = super().load(attributes, context)
        component.folder = _folder_of(context)
        return component

    @property
    def defs_state_config(self) -> DefsStateConfig:
        """Storage of the list of tables; its key is that of job_prefix, which two pipelines must not share."""
        name = f"{type(self).__name__}[{self.job_prefix or 'default'}]"
        return DefsStateConfig.from_args(self.defs_state, default_key=name)

    def get_asset_spec(self, spec: dg.AssetSpec, asset: AssetOf) -> dg.AssetSpec:
        """The spec of an asset: override to change its key, group, owners, tags, metadata or automation."""
        return self.translation(spec, asset) if self.translation else spec

    def execute(self, context: dg.OpExecutionContext, step: SourceStep) -> StepEvents:  # noqa: ARG002 - for subclasses
        """Run a step: override for code before and after it, or to change its events."""
        yield from step.events

    def alert(self, alert: Alert) -> None:
        """Receive each alert once: override to send it elsewhere than to ``alert_webhook``."""
        if self.alert_webhook:
            webhook(self.alert_webhook)(alert)

    def write_state_to_path(self, state_path: Path) -> None:
        """Write the list of tables: those that runs have seen, and those that the servers have now."""
        from spark_jobs.operations.observation.discovery import tables_in_scope

        known_tables.add(state_path, tables_in_scope(self._load_pipeline()))

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """The definitions; relative paths count from the folder of the component."""
        self.folder = _folder_of(context)
        return super().build_defs(context)

    def build_defs_from_state(self, context: dg.ComponentLoadContext, state_path: Path | None) -> dg.Definitions:  # noqa: ARG002
        """The definitions; without a state, of the tables that runs have seen."""
        # Alerts have a sensor where there is somebody to be told.
        pipeline = self._load_pipeline()
        is_heard = self.alert_webhook or type(self).alert is not StratalogComponent.alert
        return build_defs(
            pipeline if not isinstance(self.pipeline, str) else pipeline.path,
            executor=dg.in_process_executor if self.executor == "in_process" else None,
            key_prefix=self.key_prefix or (),
            group=self.group_name,
            job_prefix=self.job_prefix,
            resource_key=self.resource_key,
            translation=self.get_asset_spec,
            execute=self.execute,
            include_metadata=self.include_metadata,
            automation=self.automation,
            on_alert=self.alert if is_heard else None,
            tables=known_tables.read(state_path) if state_path else (),
        )

    def _load_pipeline(self) -> Pipeline:
        """The pipeline of the attributes: a file's, or written inline. Raises ConfigError with every problem."""
        if isinstance(self.pipeline, str):
            path = self.folder / self.pipeline
            if not path.is_file():
                raise ConfigError(f"pipeline: {path} is not there; name a pipeline.yaml relative to {self.folder}")
            return load(path)
        return from_keys(self.pipeline, self.folder / _INLINE)


def _folder_of(context: dg.ComponentLoadContext) -> Path:
    """The folder of a component's file."""
    return context.path if context.path.is_dir() else context.path.parent
