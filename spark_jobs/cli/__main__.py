"""``python -m spark_jobs.cli`` is ``stratalog``.

Put here: nothing more. Not here: the console script (__init__.py).
"""

from spark_jobs.cli import main

main()
