"""``python -m stratalog`` is the command ``stratalog``.

Put here: nothing more. Not here: the console script (spark_jobs/cli/__init__.py).
"""

from spark_jobs.cli import main

main()
