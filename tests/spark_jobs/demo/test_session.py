from pathlib import Path

import pytest

from spark_jobs.config.model import Pipeline, SourceSettings, Spark
from spark_jobs.demo import session

OPTIONS = "spark.driver.defaultJavaOptions"


@pytest.mark.parametrize("conf, options", [({}, session._BRIEF), ({OPTIONS: "-Xint"}, "-Xint")])
def test_the_configuration_has_the_last_word(
    conf: dict[str, str], options: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    settings_used: list[Spark] = []
    monkeypatch.setattr(session, "spark_session", settings_used.append)
    settings = Spark(conf={"spark.some": "1", **conf})
    session.brief_session(
        Pipeline(path=tmp_path, lake="x", sources={"shop": SourceSettings(files=tmp_path)}, spark=settings)
    )
    assert [spark.conf for spark in settings_used] == [{"spark.some": "1", OPTIONS: options}]
