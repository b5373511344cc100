"""The manifests in docs/examples/kubernetes: valid by Kubernetes' schemas, of one piece, and without secrets."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from spark_jobs.config.loader import from_keys

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "examples" / "kubernetes"
VERSIONS = ("1.30", "1.37")
"""The oldest and the newest Kubernetes whose schemas are tried."""
MANIFESTS: list[dict[str, Any]] = [
    document
    for path in sorted(FOLDER.glob("*.yaml"))
    for document in yaml.safe_load_all(path.read_text(encoding="utf-8"))
]
CONFIG: dict[str, str] = next(manifest["data"] for manifest in MANIFESTS if manifest["kind"] == "ConfigMap")
POD_TEMPLATE: dict[str, Any] = yaml.safe_load(CONFIG["executor.yaml"])
PIPELINE: dict[str, Any] = yaml.safe_load(CONFIG["pipeline.yaml"])


def label(manifest: dict[str, Any]) -> str:
    return f"{manifest['kind']}-{manifest['metadata'].get('name', 'template')}"


def of_kind(kind: str, name: str | None = None) -> dict[str, Any]:
    (manifest,) = (
        manifest
        for manifest in MANIFESTS
        if manifest["kind"] == kind and name in (None, manifest["metadata"].get("name"))
    )
    return manifest


RUN: dict[str, Any] = of_kind("CronJob")["spec"]["jobTemplate"]["spec"]["template"]
SERVER: dict[str, Any] = of_kind("Deployment", "stratalog-connect")["spec"]["template"]
FOLLOWER: dict[str, Any] = of_kind("Deployment", "stratalog-follow")["spec"]["template"]


def require_valid(manifest: dict[str, Any], version: str) -> None:
    """Raises ValidationError where a version of Kubernetes would not take a manifest."""
    import kubernetes_validate  # takes five seconds, which each process that collects tests would pay

    assert kubernetes_validate.validate(manifest, version, strict=True) == version


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("manifest", [*MANIFESTS, POD_TEMPLATE], ids=label)
def test_the_schema_of_kubernetes_takes_it(manifest: dict[str, Any], version: str) -> None:
    require_valid(manifest, version)


def test_a_wrong_key_is_seen() -> None:
    import kubernetes_validate  # as above

    with pytest.raises(kubernetes_validate.ValidationError):
        require_valid(POD_TEMPLATE | {"specs": {}}, VERSIONS[0])


def test_all_are_in_one_namespace_under_one_account() -> None:
    namespace = of_kind("Namespace")["metadata"]["name"]
    named = [manifest for manifest in MANIFESTS if manifest["kind"] != "Namespace"]
    assert {manifest["metadata"]["namespace"] for manifest in named} == {namespace}
    assert PIPELINE["spark"]["conf"]["spark.kubernetes.namespace"] == namespace
    account = of_kind("ServiceAccount")["metadata"]["name"]
    assert RUN["spec"]["serviceAccountName"] == account == of_kind("RoleBinding")["subjects"][0]["name"]


def test_what_is_named_exists() -> None:
    claims = {of_kind("PersistentVolumeClaim")["metadata"]["name"]}
    maps = {of_kind("ConfigMap")["metadata"]["name"]}
    for pod in (RUN["spec"], SERVER["spec"], FOLLOWER["spec"]):
        volumes = {volume["name"] for volume in pod["volumes"]}
        mounts = [mount for container in pod["containers"] for mount in container["volumeMounts"]]
        assert {mount["name"] for mount in mounts} == volumes
        assert {mount["subPath"] for mount in mounts if "subPath" in mount} <= set(CONFIG)
        assert {
            volume["persistentVolumeClaim"]["claimName"] for volume in pod["volumes"] if "claim" in str(volume)
        } <= (claims)
        assert {volume["configMap"]["name"] for volume in pod["volumes"] if "configMap" in volume} <= maps


@pytest.mark.parametrize(
    "pod",
    [RUN["spec"], SERVER["spec"], FOLLOWER["spec"], POD_TEMPLATE["spec"]],
    ids=["run", "server", "follower", "executor"],
)
def test_no_pod_has_privileges(pod: dict[str, Any]) -> None:
    uid = re.search(r"useradd --uid (\d+)", (ROOT / "Containerfile").read_text())
    assert uid
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["runAsUser"] == int(uid[1])
    (container,) = pod["containers"]
    assert container["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def test_every_pod_may_reach_the_others() -> None:
    policy = of_kind("NetworkPolicy")["spec"]
    labels = policy["podSelector"]["matchLabels"].items()
    assert policy["ingress"] == [{"from": [{"podSelector": policy["podSelector"]}]}]
    for template in (RUN, SERVER, FOLLOWER, POD_TEMPLATE):
        assert labels <= template["metadata"]["labels"].items()


def test_the_pipeline_loads_with_the_variables_of_its_pod(tmp_path: Path) -> None:
    """By the variables that the pod has: some by fieldRef, the others from the Secret that the page creates."""
    page = (ROOT / "docs" / "clusters" / "kubernetes.md").read_text(encoding="utf-8")
    of_secret = set(re.findall(r"^ {4}([A-Z_]+)=…$", page, re.MULTILINE))
    of_pod = {variable["name"] for variable in RUN["spec"]["containers"][0]["env"]}
    variables = dict.fromkeys(of_secret | of_pod, "10.0.0.7")
    pipeline = from_keys(PIPELINE, tmp_path / "pipeline.yaml", variables)
    assert pipeline.spark.conf["spark.driver.host"] == "10.0.0.7"
    references = [value for key, value in pipeline.spark.conf.items() if ".secretKeyRef." in key]
    assert {reference.partition(":")[2] for reference in references} <= of_secret
    assert not re.search(r"(?i)password: (?!\"?\$\{)\S", CONFIG["pipeline.yaml"])


def test_only_the_read_only_files_are_mounted_over_the_state() -> None:
    """pipeline.tables.json and pipeline.failures.json are written beside pipeline.yaml, so their folder is a volume."""
    (container,) = RUN["spec"]["containers"]
    mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    assert container["args"][-1] == "/srv/stratalog/pipeline.yaml"
    assert mounts["/srv/stratalog"] == "state"
    assert PIPELINE["spark"]["conf"]["spark.kubernetes.executor.podTemplateFile"] in mounts


def test_the_follower_s_pod_is_that_of_a_run_that_goes_on() -> None:
    """One process: a second one would lose each race for a commit, and a pod that is replaced ends before the next."""
    deployment = of_kind("Deployment", "stratalog-follow")["spec"]
    assert (deployment["replicas"], deployment["strategy"]) == (1, {"type": "Recreate"})
    assert deployment["selector"]["matchLabels"].items() <= FOLLOWER["metadata"]["labels"].items()
    run, follower = RUN["spec"]["containers"][0], FOLLOWER["spec"]["containers"][0]
    assert [word for word in follower["args"] if word != "--follow"] == run["args"]
    assert {key: value for key, value in follower.items() if key not in ("name", "args")} == {
        key: value for key, value in run.items() if key not in ("name", "args")
    }
