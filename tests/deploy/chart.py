"""The Helm chart: linted, rendered over several files of values, read with the types of Kubernetes, cert-manager and
Prometheus' operator, its references followed, and each pod's configuration given to the binary it is for."""

import base64
import re
from pathlib import Path

from machine import DEPLOY, HERE, ensure, go_tool, json_lines, run

CHART = DEPLOY / "helm/mayfly"
HELM = "helm.sh/helm/v3/cmd/helm@v3.22.0"
KUBERNETES = ("1.31.0", "1.35.0")
VALUES = sorted((HERE / "values").glob("*.yaml"))

# Values that cannot be true together, and what is said of them.
REFUSED = {
    "tls.mode=off": "set insecure: true if they shall",
    "tls.mode=maybe": "write secret, certManager or off",
    "insecure=true": "insecure is for tls.mode: off",
    "replicaCount=2": "the cluster was founded by 3 nodes",
    "antiAffinity=medium": "write soft or hard",
    "config=[listen]": "config: [listen…] is written by the chart",
    "tls.mode=secret": "tls.existingSecret names the Secret",
}


def rendered(values: Path | None = None, *more: str, version: str = KUBERNETES[0], name: str = "broker") -> str:
    helm = go_tool("helm", HELM)
    given = ["--values", values] if values else []
    return run(helm, "template", name, CHART, "--namespace", "queues", "--kube-version", version, *given, *more).stdout


def objects(text: str) -> list[dict]:
    done = run(go_tool("manifests", source=HERE / "manifests"), "kubernetes", input=text)
    return json_lines(done.stdout)


def the_chart_is_what_kubernetes_takes(binary: Path, room: Path) -> None:
    helm = go_tool("helm", HELM)
    for values in VALUES:
        linted = run(helm, "lint", CHART, "--strict", "--kube-version", KUBERNETES[0], "--values", values, code=None)
        ensure(linted.returncode == 0, f"{values.name}: {linted.stdout}{linted.stderr}")
        for version in KUBERNETES:
            found = objects(rendered(values, version=version))
            ensure(len(found) >= 6, f"{values.name}: only {[one['kind'] for one in found]}")
            _follow(values.name, found)
    # What decodes strictly is only worth something if a slip does not.
    broken = rendered(VALUES[0]).replace("readOnlyRootFilesystem", "readOnlyRootFilesytem")
    done = run(go_tool("manifests", source=HERE / "manifests"), "kubernetes", input=broken, code=1)
    ensure("readOnlyRootFilesytem" in done.stderr, f"a slip is taken: {done.stderr}")


def _follow(name: str, found: list[dict]) -> None:
    """What one object says of another is so."""
    by_kind: dict[str, dict[str, dict]] = {}
    for one in found:
        by_kind.setdefault(one["kind"], {})[one["metadata"]["name"]] = one
        ensure(
            re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", one["metadata"]["name"]),
            f"{name}: a name {one['metadata']['name']}",
        )
    (stateful,) = by_kind["StatefulSet"].values()
    spec = stateful["spec"]
    labels = spec["template"]["metadata"]["labels"]
    selects = lambda selector: all(labels.get(key) == value for key, value in selector.items())
    ensure(selects(spec["selector"]["matchLabels"]), f"{name}: the StatefulSet does not select its pods")
    headless = by_kind["Service"][spec["serviceName"]]
    ensure(
        headless["spec"]["clusterIP"] == "None" and headless["spec"]["publishNotReadyAddresses"],
        f"{name}: {spec['serviceName']} is not headless",
    )
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    ports = {port["name"] for port in container["ports"]}
    for service in by_kind["Service"].values():
        ensure(selects(service["spec"]["selector"]), f"{name}: a service selects nobody")
        targets = {port["targetPort"] for port in service["spec"]["ports"]}
        ensure(targets <= ports, f"{name}: a service leads to {targets - ports}")
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        ensure(container[probe]["httpGet"]["port"] in ports, f"{name}: {probe} asks a port that is not there")
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    volumes = {volume["name"] for volume in pod["volumes"]} | {
        claim["metadata"]["name"] for claim in spec["volumeClaimTemplates"]
    }
    ensure(mounted == volumes, f"{name}: mounts {mounted}, volumes {volumes}")
    ensure(pod["serviceAccountName"] in by_kind["ServiceAccount"], f"{name}: no account {pod['serviceAccountName']}")
    ensure(
        container["lifecycle"]["preStop"]["sleep"]["seconds"] + 60 < pod["terminationGracePeriodSeconds"],
        f"{name}: killed while it ends",
    )
    confined = container["securityContext"]
    ensure(
        confined["readOnlyRootFilesystem"]
        and not confined["allowPrivilegeEscalation"]
        and confined["capabilities"]["drop"] == ["ALL"]
        and pod["securityContext"]["runAsNonRoot"],
        f"{name}: {confined}",
    )
    for budget in by_kind.get("PodDisruptionBudget", {}).values():
        ensure(selects(budget["spec"]["selector"]["matchLabels"]), f"{name}: the budget is nobody's")
    for policy in by_kind.get("NetworkPolicy", {}).values():
        ensure(selects(policy["spec"]["podSelector"]["matchLabels"]), f"{name}: the network policy is nobody's")
        peers = [rule for rule in policy["spec"]["ingress"] if any(port["port"] == "peer" for port in rule["ports"])]
        ensure(len(peers) == 1 and peers[0]["from"], f"{name}: everybody reaches the port for peers")
        ensure(
            {port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]} <= ports,
            f"{name}: ports of the policy",
        )
    for monitor in by_kind.get("ServiceMonitor", {}).values():
        matched = [
            service
            for service in by_kind["Service"].values()
            if all(
                service["metadata"]["labels"].get(key) == value
                for key, value in monitor["spec"]["selector"]["matchLabels"].items()
            )
        ]
        ensure(
            [one["metadata"]["name"] for one in matched] == [spec["serviceName"]],
            f"{name}: it scrapes {len(matched)} services",
        )
        (endpoint,) = monitor["spec"]["endpoints"]
        ensure(
            endpoint["port"] in {port["name"] for port in headless["spec"]["ports"]},
            f"{name}: it scrapes {endpoint['port']}",
        )
    hosts = {
        f"{stateful['metadata']['name']}-{ordinal}.{spec['serviceName']}.queues.svc"
        for ordinal in range(1, spec["replicas"] + 1)
    }
    for certificate in by_kind.get("Certificate", {}).values():
        if not certificate["spec"].get("isCA"):
            ensure(hosts <= set(certificate["spec"]["dnsNames"]), f"{name}: the certificate is not good for every node")
            ensure(
                {"server auth", "client auth"} <= set(certificate["spec"]["usages"]),
                f"{name}: {certificate['spec']['usages']}",
            )
    (config,) = by_kind["ConfigMap"].values()
    ensure(
        {f"{ordinal}.toml" for ordinal in range(1, spec["replicas"] + 1)} <= set(config["data"]),
        f"{name}: a pod has no file",
    )


def every_pod_of_the_chart_has_a_configuration_a_node_takes(binary: Path, room: Path) -> None:
    for values in VALUES:
        found = objects(rendered(values))
        config = next(one for one in found if one["kind"] == "ConfigMap")["data"]
        certificates = [one for one in found if one["kind"] == "Certificate" and not one["spec"].get("isCA")]
        names = (
            certificates[0]["spec"]["dnsNames"]
            if certificates
            else [f"broker-{n}.broker-nodes.queues.svc" for n in (1, 2)]
        )
        pod = next(one for one in found if one["kind"] == "StatefulSet")["spec"]
        folder = room / values.stem
        _files(binary, folder, names)
        founders = 0
        for ordinal in range(1, pod["replicas"] + 1):
            # At the places the container has them.
            text = (
                config[f"{ordinal}.toml"].replace("/etc/mayfly/", f"{folder}/").replace("/var/lib/mayfly", str(folder))
            )
            file = folder / f"{ordinal}.toml"
            file.write_text(text)
            file.chmod(0o640)
            emulator = []
            if "Config.json" in config:
                (folder / "Config.json").write_text(config["Config.json"])
                emulator = ["--emulator-config", folder / "Config.json"]
            told = run(binary, "serve", "--check-config", "--config", file, *emulator).stdout
            is_founder = f"[[cluster.node]]\nid = {ordinal}\n" in text
            founders += is_founder
            wanted = f"node {ordinal} of " if is_founder else "a node that joins the cluster of http"
            ensure(f"the configuration is right: {wanted}" in told, f"{values.name} {ordinal}: {told}")
        ensure(founders == (1 if values.stem == "secret" else 3), f"{values.name}: {founders} founders")


def _files(binary: Path, folder: Path, names: list[str]) -> None:
    """What Secrets hold: of an authority that knows hosts and no nodes, as cert-manager's are."""
    for place in ("secret", "keys", "tls"):
        (folder / place).mkdir(parents=True)
    for file in ("secret/secret", "secret/password", "keys/orders-worker", "keys/prometheus"):
        (folder / file).write_text(base64.b64encode(file.encode() * 3).decode())
        (folder / file).chmod(0o440)
    tls = folder / "tls"
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    run("openssl", "req", "-x509", *key, "-subj", "/CN=authority", "-keyout", tls / "ca.key", "-out", tls / "ca.crt")
    names = ",".join(f"DNS:{name}" for name in names)
    run(
        "openssl",
        "req",
        "-x509",
        *key,
        "-subj",
        "/CN=broker",
        "-CA",
        tls / "ca.crt",
        "-CAkey",
        tls / "ca.key",
        "-addext",
        f"subjectAltName={names}",
        "-addext",
        "extendedKeyUsage=serverAuth,clientAuth",
        "-addext",
        "basicConstraints=critical,CA:FALSE",
        "-keyout",
        tls / "tls.key",
        "-out",
        tls / "tls.crt",
    )
    (tls / "tls.key").chmod(0o440)


def values_that_cannot_be_true_are_refused(binary: Path, room: Path) -> None:
    helm = go_tool("helm", HELM)
    for value, told in REFUSED.items():
        done = run(helm, "template", "broker", CHART, "--kube-version", KUBERNETES[0], "--set", value, code=None)
        ensure(done.returncode != 0 and told in done.stderr, f"--set {value}: {done.stderr[-300:]}")


def scaling_up_leaves_founders_as_they_are(binary: Path, room: Path) -> None:
    three, five = (objects(rendered(None, "--set", f"replicaCount={count}")) for count in (3, 5))
    of = lambda found, kind: next(one for one in found if one["kind"] == kind)
    before, after = of(three, "ConfigMap")["data"], of(five, "ConfigMap")["data"]
    ensure(all(after[name] == text for name, text in before.items()), "a founder's file changes when others join")
    ensure("join = [" in after["5.toml"] and "[[cluster.node]]" not in after["5.toml"], after["5.toml"])
    templates = [of(found, "StatefulSet")["spec"]["template"] for found in (three, five)]
    ensure(templates[0] == templates[1], "more nodes restart those that are there")


CHECKS = [
    the_chart_is_what_kubernetes_takes,
    every_pod_of_the_chart_has_a_configuration_a_node_takes,
    values_that_cannot_be_true_are_refused,
    scaling_up_leaves_founders_as_they_are,
]
