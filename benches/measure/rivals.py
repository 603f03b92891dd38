"""Clusters of other brokers, three nodes each."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from .processes import Servers, free_ports, is_open, wait_until

NODES = 3
NATS_CONFIG = """\
server_name: "127.0.0.1:{client}"
listen: "127.0.0.1:{client}"
jetstream {{
  store_dir: "{directory}/{name}"
  {sync}
}}
cluster {{
  name: compare
  listen: "127.0.0.1:{peer}"
  routes: [{routes}]
}}
"""
# Clustered from the start, and deaf to everything but loopback.
RABBITMQ_CONFIG = """\
cluster_formation.peer_discovery_backend = classic_config
{peers}
cluster_partition_handling = ignore
log.file.level = info
"""


class Rival(Servers):
    """A cluster that has just started."""

    # Addresses for clients.
    nodes: list[str]

    def _ready(self) -> Iterator[bool]:
        raise NotImplementedError

    def __enter__(self) -> Self:
        try:
            wait_until(self, type(self).__name__, self._ready())
        except BaseException:
            self.stop()
            raise
        return self


class Nats(Rival):
    """NATS JetStream. `synced`: every write, before it is acknowledged; else every two minutes, which
    is its default."""

    def __init__(self, directory: Path, server: Path, synced: bool) -> None:
        super().__init__(directory)
        ports = free_ports(2 * NODES)
        clients, peers = ports[:NODES], ports[NODES:]
        self.nodes = [f"127.0.0.1:{port}" for port in clients]
        routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in peers)
        sync = "sync_interval: always" if synced else ""
        for client, peer in zip(clients, peers, strict=True):
            name = f"nats-{client}"
            config = directory / f"{name}.conf"
            config.write_text(
                NATS_CONFIG.format(
                    client=client,
                    peer=peer,
                    directory=directory,
                    name=name,
                    routes=routes,
                    sync=sync,
                )
            )
            self.start(name, [server, "--config", config])
        self._names = [f"nats-{client}" for client in clients]

    def _ready(self) -> Iterator[bool]:
        # The driver waits until the cluster places a stream; here, for its metadata's leader.
        while True:
            logs = [self.log(name) for name in self._names]
            yield any("JetStream cluster new metadata leader" in log for log in logs)


class RabbitMQ(Rival):
    """RabbitMQ from an unpacked tree. Its quorum queues sync what they acknowledge."""

    def __init__(self, directory: Path, root: Path) -> None:
        super().__init__(directory)
        epmd, *ports = free_ports(1 + 2 * NODES)
        self._clients, self._peers = ports[:NODES], ports[NODES:]
        self.nodes = [f"127.0.0.1:{port}" for port in self._clients]
        self._names = [f"r{node}@localhost" for node in range(1, NODES + 1)]
        self._sbin = next((root / "usr/lib/rabbitmq/lib").glob("rabbitmq_server-*")) / "sbin"
        self._prepare()
        self._env = {
            "PATH": f"{root}/usr/lib/erlang/bin:{os.environ['PATH']}",
            "LD_LIBRARY_PATH": f"{root}/usr/lib/x86_64-linux-gnu",
            "LANG": "C.UTF-8",
            "HOME": str(directory),
            "ERL_EPMD_PORT": str(epmd),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_CONFIG_FILE": str(directory / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(directory / "enabled_plugins"),
            "RABBITMQ_MNESIA_BASE": str(directory / "mnesia"),
            "RABBITMQ_LOG_BASE": str(directory / "log"),
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            # One process without a shell around it.
            "RUNNING_UNDER_SYSTEMD": "true",
            # What its guide advises for nodes that share cores: schedulers that do not spin.
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+sbwt none +sbwtdcpu none +sbwtdio none",
        }
        self.start("epmd", [root / "usr/lib/erlang/bin/epmd"], self._env)

    def _prepare(self) -> None:
        cookie = self.directory / ".erlang.cookie"
        cookie.write_text(os.urandom(20).hex())
        cookie.chmod(0o400)
        (self.directory / "enabled_plugins").write_text("[].\n")
        peers = [
            f"cluster_formation.classic_config.nodes.{number} = {name}"
            for number, name in enumerate(self._names, 1)
        ]
        config = RABBITMQ_CONFIG.format(peers="\n".join(peers))
        (self.directory / "rabbitmq.conf").write_text(config)

    def _ready(self) -> Iterator[bool]:
        # One after the other: of nodes that begin together, one may find no cluster and begin another.
        for name, client, peer in zip(self._names, self._clients, self._peers, strict=True):
            own = {
                "RABBITMQ_NODENAME": name,
                "RABBITMQ_NODE_PORT": str(client),
                "RABBITMQ_DIST_PORT": str(peer),
                "RABBITMQ_PID_FILE": str(self.directory / f"{name}.pid"),
            }
            self.start(name, [self._sbin / "rabbitmq-server"], {**self._env, **own})
            # It listens once it serves; to ask it by its own tool starts a whole Erlang each time.
            while not is_open(client):
                yield False
        first = self.directory / f"log/{self._names[0]}.log"
        while True:
            told = first.read_text(errors="replace")
            yield all(f"rabbit on node {other} up" in told for other in self._names[1:])
