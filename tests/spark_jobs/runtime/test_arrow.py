"""pyarrow makes arrays without pandas, and has it where it is asked for."""

import subprocess
import sys

PROGRAM = """
import sys
from spark_jobs.runtime.arrow import load_without_pandas
load_without_pandas()
import pyarrow as pa
import pyarrow.compute as pc
table = pa.table({"a": [1, None], "b": pa.array(["x", "y"])})
assert pc.equal(table["a"], pa.scalar(1)).to_pylist() == [True, None]
print("pandas" in sys.modules, *(type(f).__name__ for f in sys.meta_path if "Pandas" in type(f).__name__))
print(table.to_pandas().shape, "pandas" in sys.modules)
import pandas as pd
print(pa.array(pd.Series([1.5, None])).to_pylist(), pa.Table.from_pandas(pd.DataFrame({"a": [1]})).to_pydict())
"""


def test_pandas_is_imported_where_a_frame_is_asked_for_and_not_before() -> None:
    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == ["False", "(2, 2) True", "[1.5, None] {'a': [1]}"]
