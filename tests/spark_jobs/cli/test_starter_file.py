import re
from pathlib import Path

import pytest
import yaml

from spark_jobs.cli.starter_file import Schema, Starter
from spark_jobs.config.loader import from_keys, load

PASSWORD = {"SHOP_PASSWORD": "p", "AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s"}
SCHEMAS = [Schema("shop", 1, 10), Schema("my shop", 2, 5_000_000), Schema("a*b`c", 3, 0)]


@pytest.mark.parametrize(
    "starter",
    [
        Starter("shop", "./lake"),
        Starter("shop", "s3a://bucket/lake", host="::1", user="r # 'x': \"y\"", port=3307),
        Starter("yes", "./lake", files="./bin logs"),
        Starter("shop", "./lake", schemas=SCHEMAS, remarks=["problem: x\n: y\x07", "GRANT SELECT ON *.* TO 'r'@'%';"]),
    ],
    ids=["least", "odd texts", "files", "answered"],
)
def test_the_file_is_valid_as_it_is(starter: Starter, tmp_path: Path) -> None:
    path = tmp_path / "pipeline.yaml"
    path.write_text(starter.text(), encoding="utf-8")
    pipeline = load(path, PASSWORD)
    (source,) = pipeline.sources.values()
    if starter.files:
        assert source.files == tmp_path / starter.files
    else:
        assert source.mysql
        assert (source.mysql.host, source.mysql.port, source.mysql.user) == (starter.host, starter.port, starter.user)
    for schema in starter.schemas or ():
        assert pipeline.scope.holds(schema.name, "t")


def test_what_is_commented_out_is_valid_too(tmp_path: Path) -> None:
    text = Starter("shop", "./lake").text()
    _, _, rest = text.partition("What follows is optional")
    lines = [line.removeprefix("# ") for line in rest.splitlines() if re.match(r"# (\w+:|  )", line)]
    keys = yaml.safe_load("\n".join(lines))
    assert {"downstream", "retention", "spark", "max_lag"} <= keys.keys()
    from_keys(yaml.safe_load(text) | keys, tmp_path / "pipeline.yaml", PASSWORD)


def test_a_password_is_a_variable_alone() -> None:
    assert re.findall(r"password: (.*)", Starter("shop", "./lake").text()) == ['"${SHOP_PASSWORD}"']
