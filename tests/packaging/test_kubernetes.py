"""The manifests of deploy/kubernetes agree with the server, the client and each other."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from xla_contract.descriptors import EXTENSION_RPCS
from xla_contract.targets import ROUTING_KEY
from xla_server.app.options.settings import ENVIRONMENT_PREFIX, load_settings
from xla_server.rpc.metadata import SESSION_KEY

DIRECTORY = Path(__file__).parents[2] / "deploy" / "kubernetes"
OPEN_SESSION = next(rpc.path for rpc in EXTENSION_RPCS if rpc.name == "OpenSession")


def _loaded(name: str) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all((DIRECTORY / name).read_text()) if each]


MANIFESTS = {
    (each["kind"], each["metadata"]["name"]): each
    for name in ("servers.yaml", "balancer.yaml")
    for each in _loaded(name)
}
SERVER = MANIFESTS["StatefulSet", "xla-servers"]["spec"]["template"]["spec"]
BALANCER = MANIFESTS["Deployment", "xla-balancer"]["spec"]["template"]["spec"]
ENVOY = _loaded("envoy.yaml")[0]["static_resources"]
CLUSTER = ENVOY["clusters"][0]


def _manager() -> dict[str, Any]:
    found = ENVOY["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]
    assert isinstance(found, dict)
    return found


ROUTES = _manager()["route_config"]["virtual_hosts"][0]["routes"]


def _files(value: Any) -> Iterator[str]:
    """The files that a part of Envoy's configuration names."""
    if isinstance(value, dict):
        if isinstance(value.get("filename"), str):
            yield value["filename"]
        for each in value.values():
            yield from _files(each)
    elif isinstance(value, list):
        for each in value:
            yield from _files(each)


def _is_mounted(path: str, pod: Any) -> bool:
    mounts = pod["containers"][0]["volumeMounts"]
    return any(path.startswith(f"{each['mountPath']}/") for each in mounts)


def test_the_server_takes_its_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in SERVER["containers"][0]["env"]:
        monkeypatch.setenv(variable["name"], variable["value"])
        assert variable["name"].startswith(ENVIRONMENT_PREFIX)
    settings = load_settings({})
    port = SERVER["containers"][0]["ports"][0]["containerPort"]
    assert settings.listen == (f"0.0.0.0:{port}", "unix:/tmp/xla-server.socket")
    assert f"unix:{SERVER['containers'][0]['readinessProbe']['exec']['command'][-1][5:]}" in (
        settings.listen
    )
    # All clients share the balancer's connections.
    assert settings.connection_share == 1
    assert SERVER["terminationGracePeriodSeconds"] > settings.grace_seconds
    for file in (settings.tls_cert_file, settings.tls_key_file, settings.token_file):
        assert _is_mounted(file, SERVER)


@pytest.mark.parametrize("pod", [SERVER, BALANCER], ids=["server", "balancer"])
def test_mounts_have_volumes_and_processes_no_rights(pod: Any) -> None:
    template = MANIFESTS["StatefulSet", "xla-servers"]["spec"].get("volumeClaimTemplates", [])
    volumes = {each["name"] for each in pod["volumes"]}
    volumes |= {each["metadata"]["name"] for each in template}
    (container,) = pod["containers"]
    assert {each["name"] for each in container["volumeMounts"]} <= volumes
    assert pod["securityContext"]["runAsNonRoot"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_selectors_name_the_pods() -> None:
    for kind, name in (("StatefulSet", "xla-servers"), ("Deployment", "xla-balancer")):
        spec = MANIFESTS[kind, name]["spec"]
        assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
        service = MANIFESTS["Service", "xla-servers" if kind == "StatefulSet" else "xla"]["spec"]
        assert service["selector"] == spec["template"]["metadata"]["labels"]
    policy = MANIFESTS["NetworkPolicy", "xla-servers"]["spec"]["ingress"][0]["from"][0]
    labels = MANIFESTS["Deployment", "xla-balancer"]["spec"]["selector"]["matchLabels"]
    assert policy["podSelector"]["matchLabels"] == labels


def test_envoy_finds_the_servers_and_its_files() -> None:
    endpoint = CLUSTER["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"]
    service = MANIFESTS["Service", endpoint["address"]["socket_address"]["address"]]["spec"]
    assert service["clusterIP"] == "None"  # All addresses, not one for all.
    assert service["ports"][0]["port"] == endpoint["address"]["socket_address"]["port_value"]
    listening = ENVOY["listeners"][0]["address"]["socket_address"]["port_value"]
    assert listening == BALANCER["containers"][0]["ports"][0]["containerPort"]
    files = list(_files(ENVOY))
    assert len(files) == 3
    assert all(_is_mounted(each, BALANCER) for each in files)


def test_envoy_leads_the_calls_of_a_key_to_one_server() -> None:
    """A call that would have another server's session, or the balancer's own, is refused."""
    assert CLUSTER["lb_policy"] == "RING_HASH"
    opening, calls, health, others = ROUTES
    assert opening["match"]["path"] == OPEN_SESSION
    for route, names in ((opening, {ROUTING_KEY}), (calls, {ROUTING_KEY, SESSION_KEY})):
        assert {each["name"] for each in route["match"]["headers"]} == names
        assert all(each["present_match"] for each in route["match"]["headers"])
        (policy,) = route["route"]["hash_policy"]
        assert policy == {"header": {"header_name": ROUTING_KEY}}
        assert route["route"]["timeout"] == "0s"
    assert health["match"] == {"path": "/grpc.health.v1.Health/Check"}
    assert others == {"match": {"prefix": "/"}, "direct_response": {"status": 401}}


def test_envoy_ends_no_stream_that_is_silent() -> None:
    manager = _manager()
    options = next(iter(CLUSTER["typed_extension_protocol_options"].values()))
    assert manager["stream_idle_timeout"] == "0s"
    assert manager["common_http_protocol_options"]["idle_timeout"] == "0s"
    assert options["common_http_protocol_options"]["idle_timeout"] == "0s"
