"""The image, and the compose files: built without a daemon, unpacked, and run as a container runtime would run them."""

import contextlib
import json
import os
import shutil
import socket
import sys
import tarfile
import time
from dataclasses import dataclass
from pathlib import Path

from machine import (
    DEPLOY,
    HERE,
    Failed,
    Missing,
    Program,
    ensure,
    go_tool,
    http,
    need,
    need_root,
    run,
    started,
    wait_for,
)

sys.path.insert(0, str(HERE.parent / "sdk"))
import private_network  # noqa: E402

# What it holds, and nothing else: a library more is something to be patched.
ALLOWED = {
    "usr/bin/mayfly",
    "etc/passwd",
    "etc/group",
    "etc/nsswitch.conf",
    "etc/mayfly/mayfly.toml",
    "etc/ssl/certs/ca-certificates.crt",
    "usr/share/doc/mayfly/LICENSE-APACHE",
    "usr/share/doc/mayfly/LICENSE-MIT",
    "usr/lib/libstdc++.so.6",
    "usr/lib/libgcc_s.so.1",
    "usr/lib/libm.so.6",
    "usr/lib/libc.so.6",
    "lib64/ld-linux-x86-64.so.2",
    "lib/ld-linux-aarch64.so.1",
}


@dataclass
class Image:
    root: Path
    # What the image says of how it is run.
    config: dict


def image(binary: Path, room: Path) -> Image:
    need_root()
    need("buildah", "binutils", programs=("buildah", "readelf"))
    room.mkdir(parents=True, exist_ok=True)
    made = run(DEPLOY / "package.sh", "image", "--binary", binary, "--output", room, within=300).stdout.split()
    layout = room / "layout"
    with tarfile.open(made[0]) as tar:
        tar.extractall(layout)
    blob = lambda digest: layout / "blobs" / digest.replace(":", "/")
    index = json.loads((layout / "index.json").read_text())
    manifest = json.loads(blob(index["manifests"][0]["digest"]).read_text())
    config = json.loads(blob(manifest["config"]["digest"]).read_text())
    root = room / "unpacked"
    root.mkdir()
    for layer in manifest["layers"]:
        # With owners and modes, as a runtime unpacks it.
        run(
            "tar",
            "--extract",
            "--gzip",
            "--same-owner",
            "--same-permissions",
            "--numeric-owner",
            "--file",
            blob(layer["digest"]),
            "--directory",
            root,
        )
    docker = json.loads(_member(Path(made[1]), "manifest.json"))[0]
    config["docker"] = json.loads(_member(Path(made[1]), docker["Config"]))["config"]
    return Image(root, config)


def _member(archive: Path, name: str) -> bytes:
    with tarfile.open(archive) as tar:
        return tar.extractfile(name).read()


class Runtime:
    """Containers on a network of this process's own."""

    def __init__(self, image: Image, room: Path, stack: contextlib.ExitStack) -> None:
        self.image, self.room, self.stack = image, room, stack
        self.addresses: dict[str, str] = {}
        run("ip", "link", "add", "bridge", "type", "bridge")
        run("ip", "addr", "add", "10.77.0.1/24", "dev", "bridge")
        run("ip", "link", "set", "bridge", "up")

    def address(self, name: str) -> str:
        return self.addresses.setdefault(name, f"10.77.0.{len(self.addresses) + 10}")

    def command(self, service: dict) -> list[str]:
        config = self.image.config["config"]
        return [*(service.get("entrypoint") or config["Entrypoint"]), *(service.get("command") or config["Cmd"])]

    def start(self, name: str, service: dict, hosts: dict[str, str]) -> Program:
        folder = self.room / f"container-{name}"
        (folder / "room").mkdir(parents=True)
        etc_hosts = folder / "hosts"
        etc_hosts.write_text("127.0.0.1 localhost\n" + "".join(f"{at} {known}\n" for known, at in hosts.items()))
        etc_hosts.chmod(0o644)
        mounts = [f"bind {etc_hosts} /etc/hosts"]
        for volume in service.get("volumes") or []:
            source = volume["source"]
            if volume["type"] == "volume":
                # As a runtime makes it: of the owner and the mode that the image's directory has.
                source = self.room / f"volume-{source}"
                if not source.exists():
                    run("cp", "--archive", f"{self.image.root}{volume['target']}", source)
            ensure(Path(source).exists(), f"{name} mounts {source}, which is not there")
            mounts.append(f"bind {source} {volume['target']}")
        for target in service.get("tmpfs") or []:
            path, _, options = target.partition(":")
            mounts.append(f"tmpfs {path} {options or 'mode=1777'}")
        listed = folder / "mounts"
        listed.write_text("\n".join(mounts) + "\n")
        environment = {
            "PATH": os.environ["PATH"],
            **dict(item.split("=", 1) for item in self.image.config["config"]["Env"]),
        }
        environment["PATH"] = os.environ["PATH"]
        environment |= {key: value for key, value in (service.get("environment") or {}).items() if value is not None}
        user = service.get("user") or self.image.config["config"]["User"]
        program = self.stack.enter_context(
            started(
                "unshare",
                "--mount",
                "--pid",
                "--net",
                "--uts",
                "--ipc",
                "--fork",
                "--kill-child",
                HERE / "container.sh",
                self.image.root,
                folder / "room",
                listed,
                "yes" if service.get("read_only") else "no",
                user,
                *self.command(service),
                log=self.room / f"log-{name}-{time.monotonic_ns()}",
                env=environment,
            )
        )
        program.pid = self._first(program)
        self._connect(name, program.pid)
        return program

    def _first(self, program: Program) -> int:
        children = Path(f"/proc/{program.process.pid}/task/{program.process.pid}/children")
        wait_for(lambda: children.read_text().split(), program.text)
        pid = int(children.read_text().split()[0])
        # In a network of its own, and not yet in the one it came from.
        ours = os.readlink("/proc/self/ns/net")
        wait_for(lambda: os.readlink(f"/proc/{pid}/ns/net") != ours, program.text)
        return pid

    def _connect(self, name: str, pid: int) -> None:
        outer = f"v{pid}"
        run("ip", "link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", str(pid))
        run("ip", "link", "set", outer, "master", "bridge", "up")
        inside = lambda *words: run("nsenter", f"--target={pid}", "--net", "ip", *words)
        inside("link", "set", "lo", "up")
        inside("addr", "add", f"{self.address(name)}/24", "dev", "eth0")
        inside("link", "set", "eth0", "up")

    def execute(self, program: Program, *command: str, code: int | None = 0, **environment: str):
        """As `docker exec` does, of what the image holds."""
        return run(
            "nsenter",
            f"--target={program.pid}",
            "--mount",
            "--net",
            "--pid",
            "--root",
            "--wd=/",
            "--setuid=65532",
            "--setgid=65532",
            *command,
            code=code,
            env={"PATH": os.environ["PATH"], **environment},
        )


def the_image_holds_what_the_binary_needs_and_no_more(binary: Path, room: Path) -> None:
    made = image(binary, room)
    files = {str(path.relative_to(made.root)) for path in made.root.rglob("*") if path.is_file()}
    ensure(files <= ALLOWED, f"it holds {sorted(files - ALLOWED)}, too")
    config = made.config["config"]
    ensure(config["User"] == "65532:65532", f"it runs as {config['User']}")
    ensure(made.config["architecture"] in ("amd64", "arm64"), made.config["architecture"])
    ensure(
        config["Labels"]["org.opencontainers.image.version"] == run(binary, "--version").stdout.split()[1],
        config["Labels"],
    )
    check = made.config["docker"]["Healthcheck"]["Test"]
    ensure(check[:2] == ["CMD", "/usr/bin/mayfly"], f"Docker's health check is {check}")
    for path in made.root.rglob("*"):
        if path.is_symlink():
            continue
        ensure(not path.stat().st_mode & 0o6002, f"{path} is for others to write, or gives their rights away")
        owner = 65532 if str(path).endswith("var/lib/mayfly") else 0
        ensure(path.stat().st_uid == owner, f"{path} is {path.stat().st_uid}'s")
    again = run(
        DEPLOY / "package.sh", "image", "--binary", binary, "--output", room / "again", within=300
    ).stdout.split()
    digest = lambda file: json.loads(_member(file, "index.json"))["manifests"][0]["digest"]
    first = next(room.glob("*.oci.tar"))
    ensure(digest(first) == digest(Path(again[0])), "the same binary gives another image")


def compose_files_run_what_they_say(binary: Path, room: Path) -> None:
    """In a process of its own: it leaves this one's network."""
    need_root()
    tool = go_tool("manifests", source=HERE / "manifests")
    done = run(sys.executable, "-B", __file__, tool, binary, room, within=280, code=None)
    if done.returncode == 77:
        raise Missing(done.stderr.strip())
    ensure(done.returncode == 0, done.stdout + done.stderr[-3000:])
    print(done.stdout, end="")


def _project(tool: Path, folder: Path, **environment: str) -> dict:
    return json.loads(
        run(tool, "compose", folder / "compose.yaml", cwd=folder, env={**os.environ, **environment}).stdout
    )


def _emulator(tool: Path, made: Image, room: Path, runtime: Runtime) -> None:
    folder = DEPLOY / "compose/emulator"
    # As somebody who used the emulator has it.
    project = _project(
        tool,
        folder,
        ACCEPT_EULA="Y",
        MSSQL_SA_PASSWORD="Str0ng!",
        SQL_WAIT_INTERVAL="15",
        CONFIG_PATH="./Config.json",
        EMULATOR_HTTP_PORT="5300",
    )
    service = project["services"]["emulator"]
    published = {(port["target"], port["published"]) for port in service["ports"]}
    ensure(published == {(5672, "5672"), (5300, "5300")}, f"ports are {published}")
    ensure({port["host_ip"] for port in service["ports"]} == {"127.0.0.1"}, "everybody on the network reaches it")
    aliases = service["networks"]["sb-emulator"]["aliases"]
    ensure("sb-emulator" in aliases, f"it is called {aliases}")
    since = time.monotonic()
    program = runtime.start("emulator", service, {})
    at = runtime.address("emulator")
    wait_for(lambda: http(f"http://{at}:5300/health")[0] == 200, program.text, within=30)
    waited = time.monotonic() - since
    check = service["healthcheck"]["test"]
    wait_for(lambda: runtime.execute(program, *check[1:], code=None).returncode == 0, program.text)
    read = runtime.execute(program, "/usr/bin/mayfly", "queue", "list", "--json").stdout
    wait_for(
        lambda: "queue.1" in runtime.execute(program, "/usr/bin/mayfly", "queue", "list", "--json").stdout,
        lambda: f"Config.json's queue is not there: {read}",
    )
    for port in (5672, 5300):
        with socket.create_connection((at, port), timeout=3) as plain:
            plain.sendall(b"AMQP\x03\x01\x00\x00")
            ensure(plain.recv(8) == b"AMQP\x03\x01\x00\x00", f"port {port} takes no AMQP")
        ensure(http(f"http://{at}:{port}/health")[0] == 200, f"port {port} takes no HTTP")
    code = _stop(program)
    ensure(code == 0, f"it ends with {code}: {program.text()[-2000:]}")
    print(f"  the emulator's drop-in is healthy after {waited:.1f} s, as {service['user']} on a read-only root")


def _stop(program: Program, within: float = 30) -> int:
    """As a runtime does: SIGTERM to the container's process 1."""
    os.kill(program.pid, 15)
    return program.process.wait(within)


def _cluster(tool: Path, binary: Path, room: Path, runtime: Runtime) -> None:
    folder = room / "cluster"
    shutil.copytree(DEPLOY / "compose/cluster", folder, ignore=shutil.ignore_patterns("private"))
    environment = {**os.environ, "MAYFLY_BIN": str(binary)}
    run(folder / "prepare.sh", env=environment)
    before = run("sh", "-c", f"cat {folder}/private/secret {folder}/private/certs/*").stdout
    run(folder / "prepare.sh", env=environment)
    ensure(
        before == run("sh", "-c", f"cat {folder}/private/secret {folder}/private/certs/*").stdout,
        "prepare.sh replaces what is there",
    )
    services = _project(tool, folder)["services"]
    published = [port["published"] for service in services.values() for port in service["ports"]]
    ensure(len(set(published)) == len(published) == 9, f"ports are {published}")
    hosts = {name: runtime.address(name) for name in services}
    programs = {name: runtime.start(name, service, hosts) for name, service in services.items()}
    for name, service in services.items():
        test = service["healthcheck"]["test"]
        wait_for(
            lambda: runtime.execute(programs[name], *test[1:], code=None).returncode == 0,
            lambda: (
                f"{name}: {runtime.execute(programs[name], *test[1:], code=None).stderr}{programs[name].text()[-1500:]}"
            ),
            within=60,
        )
    given = [
        "--connect",
        "https://node1:5310,https://node2:5310,https://node3:5310",
        "--tls-ca",
        "/etc/mayfly/authority.pem",
        "--secret-file",
        "/etc/mayfly/secret",
    ]
    inside = lambda *words, code=0: runtime.execute(programs["node1"], "/usr/bin/mayfly", *words, *given, code=code)
    inside("queue", "create", "orders")
    inside("send", "orders", "hello")
    # A node that ends is started again, and is the same.
    code = _stop(programs["node2"])
    ensure(code == 0, f"SIGTERM: it ends with {code}")
    ensure("hello" in inside("peek", "orders").stdout, "without node 2 the message is gone")
    test = services["node2"]["healthcheck"]["test"]
    shutil.rmtree(runtime.room / "container-node2")
    programs["node2"] = runtime.start("node2", services["node2"], hosts)
    wait_for(
        lambda: runtime.execute(programs["node2"], *test[1:], code=None).returncode == 0,
        lambda: programs["node2"].text()[-1500:],
        within=60,
    )
    inside("cluster", "status")
    denied = runtime.execute(
        programs["node1"], "/usr/bin/mayfly", "cert", "authority", "--dir", "/usr/certs", code=None
    )
    ensure(
        denied.returncode == 1 and "Read-only file system" in denied.stderr, f"the root is written to: {denied.stderr}"
    )
    status = Path(f"/proc/{programs['node1'].pid}/status").read_text()
    ensure("CapEff:\t0000000000000000" in status and "NoNewPrivs:\t1" in status, status)
    print("  three nodes with TLS: healthy, a node stopped and started again, its root read-only, no capability")


def main(tool: Path, binary: Path, room: Path) -> None:
    need("iproute2", "util-linux", programs=("ip", "setpriv"))
    private_network.enter({})
    made = image(binary, room / "image")
    with contextlib.ExitStack() as stack:
        runtime = Runtime(made, room, stack)
        _emulator(tool, made, room, runtime)
        _cluster(tool, binary, room, runtime)


CHECKS = [the_image_holds_what_the_binary_needs_and_no_more, compose_files_run_what_they_say]

if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]))
    except (Missing, private_network.Unsupported) as missing:
        print(missing, file=sys.stderr)
        sys.exit(77)
    except Failed as failed:
        sys.exit(f"{failed}")
