"""The manifests' settings by Spark's Kubernetes scheduler and the image's entry point, with processes as pods.

Put here: what Spark makes of them. Not here: Kubernetes (there is none), or the manifests by themselves (tests/docs).
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.runtime.provision import delta_jars
from spark_jobs.runtime.s3 import s3_jars
from tests.cluster.deployments import Bucket, Deployment, require_no_loss
from tests.cluster.kubernetes import Kubernetes
from tests.cluster.test_standalone import small
from tests.docs.test_kubernetes import CONFIG, PIPELINE, VERSIONS, require_valid
from tests.fix_cluster import KEYS, DeploymentFactory

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.stores, pytest.mark.long]
DRIVER = "stratalog-29391840-xkcd1"


@pytest.fixture
def kubernetes(tmp_path: Path) -> Iterator[Kubernetes]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    with Kubernetes(tmp_path, {"stratalog": KEYS}, {"PATH": path}) as running:
        running.add_driver(DRIVER)
        yield running


@pytest.fixture
def spark(kubernetes: Kubernetes, tmp_path: Path) -> dict[str, Any]:
    """``spark:`` of the ConfigMap, with the addresses, sizes and paths of this machine."""
    template, jars = tmp_path / "executor.yaml", tmp_path / "jars"
    template.write_text(CONFIG["executor.yaml"], encoding="utf-8")
    jars.mkdir()
    for jar in [*delta_jars(), *s3_jars()]:
        (jars / jar.name).symlink_to(jar)
    conf: dict[str, str] = PIPELINE["spark"]["conf"] | small()
    keys = [key for key in conf if ".secretKeyRef." in key]
    conf = {key: value for key, value in conf.items() if key not in keys}
    conf |= {f"spark.kubernetes.executor.secretKeyRef.{name}": f"stratalog:{name}" for name in KEYS}
    conf |= dict.fromkeys(("spark.driver.extraClassPath", "spark.executor.extraClassPath"), f"{jars}/*")
    conf |= {
        "spark.kubernetes.driver.pod.name": DRIVER,
        "spark.kubernetes.executor.podTemplateFile": str(template),
        "spark.kubernetes.executor.apiPollingInterval": "1s",
        "spark.kubernetes.executor.enableApiWatcher": "false",
        "spark.executor.cores": "1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    assert len(keys) == len(KEYS)
    return {"master": f"k8s://{kubernetes.url}", "conf": conf}


def test_a_run_by_pods_of_the_image(
    kubernetes: Kubernetes,
    spark: dict[str, Any],
    deployments: DeploymentFactory,
    stored_lake: Bucket,
    local_demo: Deployment,
    tmp_path: Path,
) -> None:
    deployment = deployments(tmp_path / "demo", spark, is_demo=True, bucket=stored_lake)
    deployment.run("run")
    deployment.close()
    assert deployment.tables() == local_demo.tables()
    assert len(kubernetes.created) == 2
    assert kubernetes.running() == []
    for pod in kubernetes.created:
        require_valid(pod, VERSIONS[-1])
        assert pod["metadata"]["ownerReferences"][0]["name"] == DRIVER
        assert pod["metadata"]["labels"]["app"] == "stratalog"
        assert pod["spec"]["securityContext"]["runAsNonRoot"]
        assert not any(secret in str(pod) for secret in KEYS.values())


def test_a_pod_that_is_lost_costs_no_row(
    kubernetes: Kubernetes,
    spark: dict[str, Any],
    deployments: DeploymentFactory,
    stored_lake: Bucket,
    local_demo: Deployment,
    tmp_path: Path,
) -> None:
    deployment = deployments(tmp_path / "demo", spark, is_demo=True, bucket=stored_lake)

    def harm() -> None:
        for name in kubernetes.running():
            kubernetes.kill(name)

    require_no_loss(deployment, local_demo, "silver", harm)
