from pathlib import Path

from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
from pyiceberg.table.puffin import PuffinFile
from pyroaring import BitMap64

from spark_jobs.delta.deletion_vectors import framed, to_bytes
from spark_jobs.iceberg.puffin import puffin
from spark_jobs.telemetry.product import version


def test_vectors_are_read_by_pyiceberg(tmp_path: Path) -> None:
    rows = {"file:///t/a.parquet": [0, 5, 70_000], "file:///t/ü.parquet": list(range(0, 9000, 3))}
    vectors = [(path, framed(to_bytes(BitMap64(numbers))), len(numbers)) for path, numbers in rows.items()]
    content, blobs = puffin(vectors)
    assert [content[blob.offset : blob.offset + blob.length] for blob in blobs] == [vector for _, vector, _ in vectors]
    assert blobs[0].offset == 4
    opened = PuffinFile(content)
    assert {
        vector.referenced_data_file: vector.to_vector().to_pylist()
        for vector in deletion_vectors_from_puffin_file(opened)
    } == rows
    assert [blob.properties["cardinality"] for blob in opened.footer.blobs] == ["3", "3000"]
    assert [(blob.offset, blob.length) for blob in opened.footer.blobs] == [
        (blob.offset, blob.length) for blob in blobs
    ]


def test_a_file_without_vectors_has_a_footer() -> None:
    content, blobs = puffin([])
    footer = PuffinFile(content).footer
    assert (footer.blobs, blobs) == ([], [])
    assert footer.properties == {"created-by": f"Stratalog version {version()}"}
