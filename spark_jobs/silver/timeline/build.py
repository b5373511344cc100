"""A table's timeline through a range of its log: its rows, and between them the statements that change the table.

Put here: the order in which a range is gone through, and where it ends. Not here: what one statement changes
(changes.py), which definition rows have (definitions.py, pieces.py), carrying anything out (engine/silver_plan.py).
"""

from dataclasses import replace

from spark_jobs.binlog import TableDefinition, TableName
from spark_jobs.bronze.scan import RangeScan, key_names, same_key
from spark_jobs.ddl.alter import drops_key
from spark_jobs.ddl.definitions import PRIMARY, defaults, listed, with_defaults
from spark_jobs.errors import DecodeError, TableStopped
from spark_jobs.log.position import Position, Range
from spark_jobs.silver.table_timeline import DataRange, Ended, SchemaChange, TableContents, TableState, TimelineStep
from spark_jobs.silver.timeline import changes, definitions, statements
from spark_jobs.silver.timeline.columns import shape
from spark_jobs.silver.timeline.inputs import TimelineInputs
from spark_jobs.silver.timeline.pieces import DefinedRange, pieces_of
from spark_jobs.silver.timeline.progress import TimelineProgress


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
    progress = TimelineProgress.begin(scan, name, log_range, inputs, state)
    ended = _go_through(progress)
    size = progress.rows.size if progress.rows else 0
    steps = progress.steps
    return TableContents(name, None, steps, progress.state, log_range.start, size, progress.skips, scan.xa), ended


def _go_through(progress: TimelineProgress) -> Ended | None:
    """Builds the steps of the whole range, up to what stops the table."""
    # Statements cut the range into parts, and definitions in the log cut these into pieces.
    log_range = progress.extent
    events, ended = statements.changing(progress)
    stop = max(ended.at, log_range.start) if ended else log_range.stop
    starts = [log_range.start, *(event.stop for event in events)]
    stops = [*(event.position for event in events), stop]
    parts = [Range(start, max(start, stop)) for start, stop in zip(starts, stops, strict=True)]
    logged = pieces_of(progress, parts)
    position = log_range.start
    try:
        # What the table is at the range's start.
        history = definitions.history_of(progress, [piece.definition for pieces in logged for piece in pieces])
        definitions.require_still_unnamed(progress, parts[0])
        definitions.label_existing_columns(progress)
        for at, (part, pieces) in enumerate(zip(parts, logged, strict=True)):
            progress.history = (
                history if history and (history.reason or part.start <= history.at <= part.stop) else None
            )
            progress.later_history = history if history and history.at > part.stop else None
            # The statement before the part, then its rows.
            if at:
                position = events[at - 1].boundary
                changes.apply(progress, events[at - 1], pieces[0].definition)
            position = part.start
            if pieces[0].definition is None:
                definitions.begin_with_history(progress)
            for piece in pieces:
                is_last = ended is None and part is parts[-1] and piece is pieces[-1]
                position = piece.range.start
                _piece(progress, piece, is_last=is_last, defaults_from=None if at else progress.inputs.first_definition)
    except (TableStopped, DecodeError) as error:
        stop_at = error.at if isinstance(error, TableStopped) else None
        return Ended(stop_at if isinstance(stop_at, Position) else position, error)
    return ended


def _piece(
    progress: TimelineProgress, piece: DefinedRange, *, is_last: bool, defaults_from: TableDefinition | None
) -> None:
    """The rows of one definition. Raises TableStopped, with the place of the row or statement that stops them."""
    part, first = piece.range, progress.inputs.first_row_position
    try:
        if piece.failed:
            raise piece.failed
        if piece.reason:
            _require_following(progress, piece)
        _add_data_range(progress, part, piece.definition, is_last=is_last, defaults_from=defaults_from)
    except (TableStopped, DecodeError) as error:
        # An error without a position stops at the first row of the range, or at its start where that cannot be looked
        # at.
        position = error.at if isinstance(error, TableStopped) else None
        if not isinstance(position, Position):
            is_at_start = piece.reason or not piece.definition
            row = None if is_at_start else first(progress.name, part, lambda _: True)
            raise _stopped(error, row or part.start) from error
        # What lies before the position can be taken, and is, before the error continues.
        if part.start < position < part.stop and piece.definition:
            before = Range(part.start, position)
            if first(progress.name, part, lambda _: True) < position:
                _add_data_range(progress, before, piece.definition, is_last=False, defaults_from=defaults_from)
        raise


def _add_data_range(
    progress: TimelineProgress,
    part: Range,
    logged: TableDefinition | None,
    *,
    is_last: bool,
    defaults_from: TableDefinition | None,
) -> None:
    _require_index(progress, progress.state.definition, part)
    previous = progress.state.definition
    if logged is None:
        return
    if progress.state.is_dropped:
        raise TableStopped(
            f"{progress.name}: rows behind {part.start}, but the log has dropped the table and not created it again"
        )
    definition = definitions.settle_rows(progress, logged, part.stop, is_last=is_last)
    definition = with_defaults(definition, defaults_from)
    if previous is not None and not progress.is_first():
        _require_same(progress, previous, definition, part)
    state = replace(progress.state, definition=definition)
    if previous is None and not progress.is_first():
        keeps = state.is_kept
        state = replace(state, is_kept=False)
        progress.steps.append(SchemaChange(Range(part.start, part.start), state, keeps=keeps))
    progress.state = state
    before = progress.steps[-1] if progress.steps else None
    is_same = isinstance(before, DataRange) and before.state == state
    if isinstance(before, DataRange) and is_same and defaults(before.definition) == defaults(definition):
        # what stood between changed nothing
        progress.steps[-1] = DataRange(Range(before.range.start, part.stop), state)
    else:
        progress.steps.append(DataRange(part, state))


def _require_following(progress: TimelineProgress, piece: DefinedRange) -> None:
    """Raises TableStopped: rows have another definition than those before, as in a run that begins with them."""
    previous, logged = progress.state.definition, piece.definition
    assert previous is not None
    assert logged is not None
    settled = definitions.settle(progress, logged, previous, piece.range.stop, is_last=False)
    _require_same(progress, previous, settled, piece.range)
    raise TableStopped(str(piece.reason), piece.range.start)


def _require_index(progress: TimelineProgress, previous: TableDefinition | None, part: Range) -> None:
    """Raises TableStopped where statements in a part drop the index by which the table's rows are identified.

    Where the log names its columns it tells the key, and ``index`` is not known.
    """
    if previous is None or previous.index in (None, PRIMARY):
        return
    scan, name = progress.scan, progress.name
    events = (*scan.indexes(name, part.start), *scan.about(name, part.start))
    # A statement that cannot be read may drop the index. Before the table's first row that costs the key alone.
    for event in filter(lambda event: event.position < part.stop, events):
        try:
            goes = any(drops_key(previous, index) for index in statements.dropped_indexes(progress, event))
        except DecodeError as error:
            if not progress.is_first():
                raise progress.refusal(event, f"is not followed: {error}") from error
            goes = True
        if goes and not progress.is_first():
            raise progress.refusal(event, "drops the index by which rows are told apart, and is not followed there")
        if goes:
            progress.state = replace(progress.state, definition=replace(previous, key=(), index=None))
            return


def _require_same(progress: TimelineProgress, previous: TableDefinition, logged: TableDefinition, part: Range) -> None:
    if not same_key(previous, logged):
        raise TableStopped(
            f"{progress.name}: rows were told apart by ({key_names(previous)}) up to {part.start}, and are by "
            f"({key_names(logged)}) behind it; a change of the key is not followed"
        )
    if shape(previous) != shape(logged):
        raise TableStopped(
            f"{progress.name}: its columns differ: up to {part.start} they were ({listed(previous)}), and rows behind "
            f"it have ({listed(logged)}); no statement of the log says why"
        )


def _stopped(error: TableStopped | DecodeError, at: Position) -> TableStopped | DecodeError:
    """The error with its position in the log, which a DecodeError's own text names more exactly."""
    if isinstance(error, TableStopped):
        return type(error)(str(error), at)
    return TableStopped(str(error), at)
