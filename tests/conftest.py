"""The fixtures, one file an outside thing. Put here: the list. Not here: a fixture."""

pytest_plugins = (
    "tests.fix_cli",
    "tests.fix_durability",
    "tests.fix_hypothesis",
    "tests.fix_kernels",
    "tests.fix_order",
    "tests.fix_summary",
    "tests.fix_spark",
    "tests.fix_store",
    "tests.fix_cluster",
    "tests.fix_yarn",
    "tests.fix_mysql",
    "tests.fix_servers",
    "tests.fix_pipeline",
    "tests.fix_delivery",
    "tests.fix_pair",
    "tests.fix_browser",
    "tests.fix_keeper",
)
