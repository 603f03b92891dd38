"""What larger machines may be expected to do: CPU, device and network per message, fitted."""

from dataclasses import dataclass
from typing import Any

from . import results
from .fit import Fit, fit

KIB = 1024
# Replicas of an entity: the default, where there are nodes enough.
REPLICAS_MAX = 3
# What a machine is planned to be used to.
USED = 0.7
# Assumed of a server, not measured: bytes per second it writes, and sends over its network.
DEVICE_BYTES, NETWORK_BYTES = 1e9, 1.25e9
# Assumed: what each message carries over the network beside its body.
HEADER_BYTES = 150
# Too few observations fit anything.
OBSERVATIONS_MIN = 5


@dataclass(frozen=True)
class PerMessage:
    """CPU in µs."""

    # Of each node, the busiest first: with one queue that is its leader.
    nodes: list[float]
    client: float


def per_message_us(seen: dict[str, Any]) -> PerMessage:
    full = seen["full"]
    measured = max(full["settled_per_second"] * full["measured_seconds"], 1.0)
    nodes = [(node["cpu_seconds"] or 0.0) * 1e6 / measured for node in full["nodes"]]
    client = seen["client_cpu_seconds"] * 1e6 / max(full["settled"], 1)
    return PerMessage(sorted(nodes, reverse=True), client)


@dataclass(frozen=True)
class Observation:
    kib: float
    followers: int
    cpu: PerMessage
    device_bytes: float
    per_second: float


def observations(seen: list[dict[str, Any]]) -> list[Observation]:
    """Those of one queue and the usual consumers: who leads is known, and only bodies and nodes vary."""
    found = []
    for figures in seen:
        point = figures["point"]
        if "failed" in figures or (point["queues"], point["consumers"], point["groups"]) != (
            1,
            4,
            16,
        ):
            continue
        full = figures["full"]
        found.append(
            Observation(
                kib=point["size"] / KIB,
                followers=min(point["nodes"], REPLICAS_MAX) - 1,
                cpu=per_message_us(figures),
                device_bytes=(full["device_bytes_per_message_byte"] or 0.0) * point["size"],
                per_second=full["settled_per_second"],
            )
        )
    return found


@dataclass(frozen=True)
class Model:
    """Per message; µs of CPU, bytes of device. Terms are named by `TERMS`."""

    leader: Fit
    follower: Fit
    client: Fit
    device: Fit

    def leader_us(self, kib: float, followers: int) -> float:
        return self.leader.at([1, kib, followers, followers * kib])

    def servers_us(self, kib: float, followers: int) -> float:
        return self.leader_us(kib, followers) + followers * self.follower.at([1, kib])

    def here(self, kib: float, followers: int, cores: int) -> float:
        """Messages per second if this machine's cores did nothing else, the client's work included."""
        return cores * 1e6 / (self.servers_us(kib, followers) + self.client.at([1, kib]))


def build(observed: list[Observation]) -> Model:
    def of(rows: list[tuple[list[float], float]]) -> Fit:
        rows = [(terms, value) for terms, value in rows if value > 0]
        return fit([terms for terms, _ in rows], [value for _, value in rows])

    def own(o: Observation) -> list[float]:
        return [1, o.kib]

    return Model(
        leader=of(
            [([1, o.kib, o.followers, o.followers * o.kib], o.cpu.nodes[0]) for o in observed]
        ),
        follower=of([(own(o), us) for o in observed for us in o.cpu.nodes[1 : 1 + o.followers]]),
        client=of([(own(o), o.cpu.client) for o in observed]),
        device=of([(own(o), o.device_bytes) for o in observed]),
    )


def expected(model: Model, nodes: int, cores: int, kib: float) -> tuple[float, str]:
    """Messages per second of a whole cluster, and what bounds them."""
    followers = min(nodes, REPLICAS_MAX) - 1
    replicas = followers + 1
    # To each follower, and to the consumer: what the leader sends. It takes in no more.
    sent = (followers + 1) * (kib * KIB + HEADER_BYTES)
    bounds = {
        "CPU": nodes * cores * 1e6 / model.servers_us(kib, followers),
        "device": nodes * DEVICE_BYTES / (replicas * model.device.at([1, kib])),
        "network": nodes * NETWORK_BYTES / sent,
    }
    name = min(bounds, key=bounds.__getitem__)
    return bounds[name] * USED, name


def _formula(terms: list[str], found: Fit) -> str:
    parts = [
        f"{results.number(value)}{f' · {term}' if term else ''}"
        for value, term in zip(found.coefficients, terms, strict=True)
        if value > 0
    ]
    return " + ".join(parts) or "0"


def document(seen: list[dict[str, Any]], cores: int) -> str:
    observed = observations(seen)
    if len(observed) < OBSERVATIONS_MIN or not any(o.followers for o in observed):
        return "Too few points were measured to fit a model."
    model = build(observed)
    own = ["", "KiB"]
    fits = [
        (
            "leader, CPU µs",
            _formula([*own, "followers", "followers · KiB"], model.leader),
            model.leader,
        ),
        ("each follower, CPU µs", _formula(own, model.follower), model.follower),
        ("client, CPU µs", _formula(own, model.client), model.client),
        ("each replica, device bytes", _formula(own, model.device), model.device),
    ]
    fit_rows = [
        [name, formula, str(len(f.errors)), f"{f.error_mean:.0%}", f"{f.error_max:.0%}"]
        for name, formula, f in fits
    ]
    here_rows = [
        [
            f"{results.size(round(o.kib * KIB))}, {o.followers} followers",
            f"{o.per_second:,.0f}",
            f"{model.here(o.kib, o.followers, cores):,.0f}",
            f"{o.per_second / model.here(o.kib, o.followers, cores):.0%}",
        ]
        for o in observed
    ]
    expected_rows = []
    for nodes, each in ((3, 4), (3, 16), (3, 64), (9, 16)):
        cells = [f"{nodes} nodes, {each} cores each"]
        for kib in (0.25, 1, 16, 256):
            rate, bound = expected(model, nodes, each, kib)
            cells.append(f"{rate:,.0f} ({bound})")
        expected_rows.append(cells)
    return f"""\
### A model

Fitted to the {len(observed)} points above that have one queue and four consumers, each at full load, so that
relative errors are small. Per message:

{results.table(["", "fit", "observations", "error, mean", "worst"], fit_rows)}

Whether CPU explains what was measured here: the rate at which the fit says {cores} cores are used up, servers and
client together, beside the rate that was measured. What is missing was spent waiting for the disk, or idle.

{results.table(["", "measured /s", "CPU allows /s", "share"], here_rows)}

What servers with disks and networks of their own may do, clients elsewhere, three replicas of everything,
leaders spread evenly, used to {USED:.0%}; the smallest of three bounds, messages per second of the whole cluster:

{results.table(["", "256 B", "1 KiB", "16 KiB", "256 KiB"], expected_rows)}

Assumed, not measured: {DEVICE_BYTES / 1e9:g} GB/s written and {NETWORK_BYTES / 1e9:g} GB/s sent by each server,
{HEADER_BYTES} bytes beside each body on the network, and that a node's work spreads over its cores, for which many
queues in many groups are needed: what one group can do where cores are plenty, this machine cannot show.
"""
