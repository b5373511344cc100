"""The standing session: a Spark Connect server on this machine that serves one run after another (``spark.keep``).

Put here: starting it, attaching to it, ending it. Not here: sessions on it, which are as those of any server
(runtime/connect.py), or Spark's settings (runtime/spark_session.py).
"""
