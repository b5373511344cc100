from pathlib import Path

import pytest

from spark_jobs.config.model import Pipeline, Source, Spark
from spark_jobs.demo import session

OPTIONS = "spark.driver.defaultJavaOptions"


@pytest.mark.parametrize("own, options", [({}, session._BRIEF), ({OPTIONS: "-Xint"}, "-Xint")])
def test_the_configuration_has_the_last_word(
    own: dict[str, str], options: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[Spark] = []
    monkeypatch.setattr(session, "spark_session", asked.append)
    settings = Spark(conf={"spark.some": "1", **own})
    session.brief_session(Pipeline(path=tmp_path, lake="x", sources={"shop": Source(files=tmp_path)}, spark=settings))
    assert [one.conf for one in asked] == [{"spark.some": "1", OPTIONS: options}]
