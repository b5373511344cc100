"""Builder of a table's timeline through a range of its log: rows, and between them statements that change the table.

Put here: the order in which a range is gone through, and where it ends. Not here: what one statement changes
(changes.py), which definition rows have (definitions.py, pieces.py), carrying anything out
(engine/silver/silver_plan.py).
"""

from dataclasses import replace

from spark_jobs.binlog import TableDefinition, TableName
from spark_jobs.bronze.scan import RangeScan, key_names, same_key
from spark_jobs.ddl.alter import drops_key
from spark_jobs.ddl.definitions import PRIMARY, column_list, defaults, with_defaults
from spark_jobs.errors import DecodeError, TableStopped
from spark_jobs.log.position import Position, Range
from spark_jobs.silver.table_timeline import DataRange, Ended, SchemaChange, TableContents, TableState, TimelineStep
from spark_jobs.silver.timeline import changes, definitions, statements
from spark_jobs.silver.timeline.columns import lake_columns
from spark_jobs.silver.timeline.inputs import TimelineInputs
from spark_jobs.silver.timeline.pieces import DefinedRange, pieces_of
from spark_jobs.silver.timeline.timeline import Timeline


def steps_of(
    scan: RangeScan, name: TableName, log_range: Range, state: TableState | None, inputs: TimelineInputs
) -> list[TimelineStep]:
    """The table's steps through a range, in order. ``state``: at the range's start; None: silver has no row of it.

    Raises TableStopped where a statement cannot be carried out, or says something else than the rows after it.
    """
    return list(build(scan, name, log_range, state, inputs).steps)


def build(
    scan: RangeScan, name: TableName, log_range: Range, state: TableState | None, inputs: TimelineInputs
) -> TableContents:
    """Contents of a table at the end of a range, of what it has got in it. Raises TableStopped, DecodeError."""
    content, ended = build_until_stopped(scan, name, log_range, state, inputs)
    if ended:
        raise ended.error
    return content


def build_until_stopped(
    scan: RangeScan, name: TableName, log_range: Range, state: TableState | None, inputs: TimelineInputs
) -> tuple[TableContents, Ended | None]:
    """Contents of a table where its timeline ends: at the end of the range, or where it stops before that.

    Where in a range a table stops, and with what rows, does not depend on where the range begins or ends.
    """
    timeline, ended = _through_range(Timeline.begin(scan, name, log_range, inputs, state))
    return timeline.contents(None), ended


def _through_range(timeline: Timeline) -> tuple[Timeline, Ended | None]:
    """The timeline with the steps of the whole range, or of the part before what stops the table."""
    # Statements cut the range into parts, and definitions in the log cut these into pieces.
    log_range = timeline.extent
    events, ended = statements.statements_until_stop(timeline)
    stop = max(ended.at, log_range.start) if ended else log_range.stop
    starts = [log_range.start, *(event.stop for event in events)]
    stops = [*(event.position for event in events), stop]
    parts = [Range(start, max(start, stop)) for start, stop in zip(starts, stops, strict=True)]
    logged = pieces_of(timeline, parts)
    position = log_range.start
    try:
        # What the table is at the range's start.
        history = definitions.history_of(timeline, [piece.definition for pieces in logged for piece in pieces])
        definitions.require_still_unnamed(timeline, parts[0])
        timeline = definitions.label_existing_columns(timeline)
        for at, (part, pieces) in enumerate(zip(parts, logged, strict=True)):
            is_current = history is not None and (bool(history.reason) or part.start <= history.at <= part.stop)
            is_later = history is not None and history.at > part.stop
            timeline = replace(
                timeline, history=history if is_current else None, later_history=history if is_later else None
            )
            # The statement before the part, then its rows.
            if at:
                position = events[at - 1].boundary
                following = (piece.definition for later in logged[at:] for piece in later)
                timeline = replace(timeline, next_rows=next(filter(None, following), None))
                timeline = changes.apply(timeline, events[at - 1], pieces[0].definition)
            position = part.start
            if pieces[0].definition is None:
                timeline = definitions.begin_with_history(timeline)
            defaults_from = None if at else timeline.inputs.first_definition
            for piece in pieces:
                is_last = ended is None and part is parts[-1] and piece is pieces[-1]
                position = piece.range.start
                timeline, stopped = _through_piece(timeline, piece, is_last=is_last, defaults_from=defaults_from)
                if stopped:
                    return timeline, stopped
    except (TableStopped, DecodeError) as error:
        stop_at = error.at if isinstance(error, TableStopped) else None
        return timeline, Ended(stop_at if isinstance(stop_at, Position) else position, error)
    return timeline, ended


def _through_piece(
    timeline: Timeline, piece: DefinedRange, *, is_last: bool, defaults_from: TableDefinition | None
) -> tuple[Timeline, Ended | None]:
    """The timeline with the rows of one definition, or with those before the row that stops the table.

    Raises TableStopped, with the position of the row or statement, where no row of the piece can be taken.
    """
    part, first = piece.range, timeline.inputs.first_row_position
    try:
        if piece.failed:
            raise piece.failed
        if piece.reason:
            _require_following(timeline, piece)
        return _with_rows(timeline, part, piece.definition, is_last=is_last, defaults_from=defaults_from), None
    except (TableStopped, DecodeError) as error:
        # An error without a position stops at the first row of the range, or at its start where that cannot be looked
        # at.
        position = error.at if isinstance(error, TableStopped) else None
        if not isinstance(position, Position):
            is_at_start = piece.reason or not piece.definition
            row = None if is_at_start else first(timeline.name, part, lambda _: True)
            raise _stopped(error, row or part.start) from error
        # The rows before the position can be taken.
        if not (part.start < position < part.stop and piece.definition):
            raise
        before = Range(part.start, position)
        if first(timeline.name, part, lambda _: True) < position:
            timeline = _with_rows(timeline, before, piece.definition, is_last=False, defaults_from=defaults_from)
        return timeline, Ended(position, error)


def _with_rows(
    timeline: Timeline,
    part: Range,
    logged: TableDefinition | None,
    *,
    is_last: bool,
    defaults_from: TableDefinition | None,
) -> Timeline:
    """The timeline with the rows of a range. ``logged``: their definition in the log; None: there is no row."""
    timeline = _without_dropped_index(timeline, part)
    previous = timeline.state.definition
    if logged is None:
        return timeline
    if timeline.state.is_dropped:
        raise TableStopped(
            f"{timeline.name}: rows after {part.start}, but the log has dropped the table and not created it again"
        )
    definition = definitions.complete_definition_of_rows(timeline, logged, part.stop, is_last=is_last)
    definition = with_defaults(definition, defaults_from)
    if previous is not None and not timeline.is_first():
        _require_same(timeline, previous, definition, part)
    state = replace(timeline.state, definition=definition)
    if previous is None and not timeline.is_first():
        keeps = state.is_kept
        state = replace(state, is_kept=False)
        timeline = timeline.with_change(SchemaChange(Range(part.start, part.start), state, keeps=keeps))
    # A statement in between that changed nothing leaves one range of rows.
    steps, added = timeline.steps, DataRange(part, state)
    before = steps[-1] if steps else None
    is_same = isinstance(before, DataRange) and before.state == state
    if isinstance(before, DataRange) and is_same and defaults(before.definition) == defaults(definition):
        steps, added = steps[:-1], DataRange(Range(before.range.start, part.stop), state)
    return replace(timeline, state=state, steps=(*steps, added))


def _require_following(timeline: Timeline, piece: DefinedRange) -> None:
    """Check that rows have the definition of the rows before them.

    Raises TableStopped, also if a run begins with them.
    """
    previous, logged = timeline.state.definition, piece.definition
    assert previous is not None
    assert logged is not None
    definition = definitions.complete_definition(timeline, logged, previous, piece.range.stop, is_last=False)
    _require_same(timeline, previous, definition, piece.range)
    raise TableStopped(str(piece.reason), piece.range.start)


def _without_dropped_index(timeline: Timeline, part: Range) -> Timeline:
    """The timeline without a key, where statements in a part drop its index before the table's first row.

    Raises TableStopped where they drop the index by which rows are identified that are there. Where the log names the
    columns it tells the key, and ``index`` is not known.
    """
    previous = timeline.state.definition
    if previous is None or previous.index in (None, PRIMARY):
        return timeline
    scan, name = timeline.scan, timeline.name
    events = (*scan.indexes(name, part.start), *scan.about(name, part.start))
    # A statement that cannot be read may drop the index. Before the table's first row that costs the key alone.
    for event in filter(lambda event: event.position < part.stop, events):
        try:
            goes = any(drops_key(previous, index) for index in statements.dropped_indexes(timeline, event))
        except DecodeError as error:
            if not timeline.is_first():
                raise timeline.refusal(event, f"is not followed: {error}") from error
            goes = True
        if goes and not timeline.is_first():
            raise timeline.refusal(event, "drops the index by which rows are identified, and is not followed there")
        if goes:
            return timeline.with_definition(replace(previous, key=(), index=None))
    return timeline


def _require_same(timeline: Timeline, previous: TableDefinition, logged: TableDefinition, part: Range) -> None:
    if not same_key(previous, logged):
        raise TableStopped(
            f"{timeline.name}: rows were identified by ({key_names(previous)}) up to {part.start}, and are by "
            f"({key_names(logged)}) after it; a change of the key is not followed"
        )
    if lake_columns(previous) != lake_columns(logged):
        raise TableStopped(
            f"{timeline.name}: its columns differ: up to {part.start} they were ({column_list(previous)}), and rows "
            f"after it have ({column_list(logged)}); no statement of the log says why"
        )


def _stopped(error: TableStopped | DecodeError, at: Position) -> TableStopped | DecodeError:
    """The error with its position in the log, which a DecodeError's own text names more exactly."""
    if isinstance(error, TableStopped):
        return type(error)(str(error), at)
    return TableStopped(str(error), at)
