"""Blocks of the shuffle: rows of a unit by the bucket of their key, as Arrow's messages, compressed.

Put here: rows to blocks and back. Not here: how blocks travel (spark_job.py), what is in the rows
(engine/silver/silver_task.py).

A large log has many tasks and many buckets, and so many small blocks: what a block costs beside its bytes is most of
it. So the rows are put into the order of their buckets once, a block is a piece of them that nobody copies, and each
is compressed as a whole. The schema goes along, since a task that gets blocks has not decoded any rows itself.
"""

import struct
from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa

from spark_jobs.delta.value_hash import Hashes
from spark_jobs.engine.jobs import key_hash
from spark_jobs.engine.jobs.spark_job import ShuffleBlock
from spark_jobs.silver import table as silver

_PIECE_ROWS = 1 << 16
_CODEC = "lz4_raw"
_HEADER = struct.Struct("<iii")
"""The window's number, and the bytes of the schema and of the rows before they were compressed."""
_SCHEMAS = 64


def blocks(
    unit: int, buckets: Sequence[int], window: int, rows: pa.Table, columns: silver.Columns
) -> Iterator[ShuffleBlock]:
    """The rows of a unit's window by the bucket of their key; rows of one bucket keep their order.

    columns: what tells rows apart, by which buckets are chosen.
    """
    if len(rows):
        yield from blocks_by(unit, buckets, window, rows, key_hash.row_hashes(rows, columns))


def blocks_by(unit: int, buckets: Sequence[int], window: int, rows: pa.Table, hashes: Hashes) -> Iterator[ShuffleBlock]:
    """The same by hashes of the rows, one each."""
    if len(rows) == 0:
        return
    bucket_numbers = hashes % np.uint64(len(buckets))
    order = np.argsort(bucket_numbers, kind="stable")
    bounds = np.searchsorted(bucket_numbers[order], np.arange(len(buckets) + 1))
    ordered = rows.take(pa.array(order)).combine_chunks()
    schema = _serialized(ordered.schema)
    for bucket, start, stop in zip(buckets, bounds.tolist(), bounds[1:].tolist(), strict=False):
        for batch in ordered.slice(start, stop - start).to_batches(max_chunksize=_PIECE_ROWS):
            yield ShuffleBlock(unit, bucket, _packed(window, schema, batch))


def undivided(unit: int, bucket: int, window: int, rows: pa.Table) -> ShuffleBlock:
    """All rows of a unit's window for one bucket, whatever their keys; also where there are none."""
    rows = rows.combine_chunks()
    batches = rows.to_batches() or [pa.RecordBatch.from_pylist([], schema=rows.schema)]
    return ShuffleBlock(unit, bucket, _packed(window, _serialized(rows.schema), batches[0]))


def rows_of(block: ShuffleBlock) -> tuple[int, pa.RecordBatch]:
    """The window's number, and its rows that a block holds."""
    window, schema_size, size = _HEADER.unpack_from(block.rows)
    start = _HEADER.size + schema_size
    schema = _schema(bytes(block.rows[_HEADER.size : start]))
    message = pa.Codec(_CODEC).decompress(pa.py_buffer(block.rows)[start:], decompressed_size=size)
    return window, pa.ipc.read_record_batch(message, schema)


def _packed(window: int, schema: bytes, batch: pa.RecordBatch) -> bytes:
    message = batch.serialize()
    compressed: bytes = pa.Codec(_CODEC).compress(message, asbytes=True)
    return _HEADER.pack(window, len(schema), message.size) + schema + compressed


@lru_cache(_SCHEMAS)
def _serialized(schema: pa.Schema) -> bytes:
    serialized: bytes = schema.serialize().to_pybytes()
    return serialized


@lru_cache(_SCHEMAS)
def _schema(serialized: bytes) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(serialized))
