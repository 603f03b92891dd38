"""The .deb and the .tar.gz: what is in them, and what becomes of a machine they are installed on."""

import functools
import gzip
import re
import resource
import signal
import tarfile
import tempfile
from pathlib import Path

from machine import (
    DEPLOY,
    Fresh,
    ensure,
    free_port,
    fresh,
    http,
    need,
    run,
    started,
    wait_for,
)

ROOM = tempfile.TemporaryDirectory(prefix="mayfly-deploy-packages-")
BUILDERS = ("binutils", "dpkg-dev", "xz-utils")


@functools.cache
def made(kind: str, binary: Path) -> Path:
    """The package of this kind, made once for all checks."""
    return packaged(kind, binary, Path(tempfile.mkdtemp(prefix="mayfly-packages-", dir=ROOM.name)))


def packaged(kind: str, binary: Path, room: Path) -> Path:
    need(*BUILDERS, programs=("readelf", "strip", "dpkg-deb", "dpkg-shlibdeps"))
    done = run(DEPLOY / "package.sh", kind, "--binary", binary, "--output", room, within=300)
    return Path(done.stdout.strip().splitlines()[-1])


def the_same_binary_gives_the_same_packages(binary: Path, room: Path) -> None:
    for kind in ("deb", "tar"):
        again = packaged(kind, binary, room)
        ensure(made(kind, binary).read_bytes() == again.read_bytes(), f"the same binary gives another {again.name}")


def the_tarball_runs_where_it_is_unpacked(binary: Path, room: Path) -> None:
    archive = made("tar", binary)
    with tarfile.open(archive) as tar:
        owners = {(member.uid, member.gid) for member in tar}
        ensure(owners == {(0, 0)}, f"owners are {owners}")
        tar.extractall(room, filter="tar") if hasattr(tarfile, "tar_filter") else tar.extractall(room)
    root = room / archive.name.removesuffix(".tar.gz")
    program = root / "bin/mayfly"
    version = run(program, "--version").stdout.split()[1]
    ensure(archive.name.startswith(f"mayfly-{version}-linux-"), f"{archive.name} holds {version}")
    # What it says of itself is what the linker says.
    told = (root / "README").read_text()
    linked = re.findall(r"NEEDED.*\[(.*)\]", run("readelf", "-d", program).stdout)
    for library in linked:
        ensure(library in told, f"README does not say that it is linked to {library}: {told}")
    allowed = {
        "libstdc++.so.6",
        "libgcc_s.so.1",
        "libm.so.6",
        "libc.so.6",
        "ld-linux-x86-64.so.2",
        "ld-linux-aarch64.so.1",
    }
    ensure(set(linked) <= allowed, f"it is linked to {set(linked) - allowed}, too, which not every machine has")
    commands = {page.name for page in (root / "share/man/man1").iterdir()}
    ensure({"mayfly.1", "mayfly-serve.1", "mayfly-queue-create.1"} <= commands, f"pages are {sorted(commands)}")
    port = free_port()
    ports = [f"--{name}=127.0.0.1:{free_port()}" for name in ("grpc", "amqp", "peer")]
    with started(
        program, "serve", "--data-dir", room / "data", f"--http=127.0.0.1:{port}", *ports, log=room / "log"
    ) as node:
        wait_for(lambda: http(f"http://127.0.0.1:{port}/health/ready")[0] == 200, node.text)
        ensure(node.end(signal.SIGTERM) == 0, f"SIGTERM ends it with {node.process.returncode}: {node.text()}")


def the_deb_has_what_debian_asks_for(binary: Path, room: Path) -> None:
    package = made("deb", binary)
    control = run("dpkg-deb", "--field", package).stdout
    for library in ("libc6 (>= ", "libstdc++6 (>= ", "libgcc-s1 (>= "):
        ensure(library in control, f"{library} is no dependency: {control}")
    listed = run("dpkg-deb", "--contents", package).stdout
    for path, mode in (
        ("./usr/bin/mayfly", "-rwxr-xr-x root/root"),
        ("./lib/systemd/system/mayfly.service", "-rw-r--r-- root/root"),
        ("./etc/mayfly/mayfly.toml", "-rw-r----- root/root"),
        ("./usr/share/man/man1/mayfly.1.gz", "-rw-r--r-- root/root"),
        ("./usr/share/man/man1/mayfly-cluster-drain.1.gz", "-rw-r--r-- root/root"),
        ("./usr/share/bash-completion/completions/mayfly", "-rw-r--r-- root/root"),
        ("./usr/share/doc/mayfly/copyright", "-rw-r--r-- root/root"),
    ):
        line = next((line for line in listed.splitlines() if line.endswith(f" {path}")), "")
        ensure(line.startswith(mode), f"{path} is not there as {mode}: {line}")
    run("dpkg-deb", "--extract", package, room / "root")
    # What is left when the formatter has read a page is text: no request that it does not know.
    for page in (room / "root/usr/share/man/man1").iterdir():
        text = gzip.decompress(page.read_bytes()).decode()
        ensure(".SH NAME" in text and "\nSee" not in text[:50], f"{page.name} is no manual page")


def the_unit_holds_what_it_promises(binary: Path, room: Path) -> None:
    need("systemd", programs=("systemd-analyze",))
    unit = (DEPLOY / "package/mayfly.service").read_text()
    # The file it starts need not be on this machine.
    copied = room / "mayfly.service"
    copied.write_text(unit.replace("/usr/bin/mayfly", str(binary)))
    verified = run("systemd-analyze", "verify", "--man=no", copied, code=None)
    ours = [line for line in (verified.stdout + verified.stderr).splitlines() if "mayfly" in line]
    ensure(verified.returncode == 0 and not ours, f"systemd-analyze verify: {ours}")
    judged = run("systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=20", copied, code=None)
    ensure(judged.returncode == 0, f"its exposure is above 2.0: {judged.stdout[-300:]}{judged.stderr[-300:]}")


THREE_LINES = """
listen.any = "0.0.0.0:5671"
security.secret_file = "/etc/mayfly/secret"
tls = { certificate = "/etc/mayfly/node.pem", key = "/etc/mayfly/node.key" }
"""


def a_fresh_debian_runs_it_and_keeps_what_is_its_operators(binary: Path, room: Path) -> None:
    """Installed by apt, configured by three lines, restarted, upgraded, removed, purged, by systemd itself."""
    package = made("deb", binary)
    with fresh() as machine:
        _installed(machine, package)
        _configured(machine)
        _ends_and_starts(machine)
        _limited(machine)
        _upgraded(machine, package, room)
        _removed(machine)


def _installed(machine: Fresh, package: Path) -> None:
    machine.put(package, "/tmp/mayfly.deb")
    # The machine has no network but its own: what the package depends on is there, or this fails.
    machine.shell("apt-get install -y -q ./tmp/mayfly.deb", cwd="/")
    ensure(machine.service("ActiveState") == "active", _journal(machine))
    _ready(machine, "http://127.0.0.1:5300")
    machine.shell("mayfly queue create orders && mayfly send orders hello")
    # It is looked at once a second.
    asked = lambda: machine.run("mayfly", "health", code=None)  # noqa: E731
    wait_for(lambda: asked().returncode == 0, lambda: asked().stderr, within=5)
    owner = machine.shell("stat -c '%U:%a' /var/lib/mayfly /etc/mayfly /var/log/mayfly | tr '\\n' ' '").strip()
    ensure(owner == "mayfly:700 root:750 mayfly:750", f"directories are {owner}")
    ensure(machine.shell("getent passwd mayfly | cut -d: -f7").strip() == "/usr/sbin/nologin", "the user may log in")
    who = machine.shell("stat -c %U /proc/$(systemctl show -p MainPID --value mayfly)")
    ensure(who.strip() == "mayfly", f"it runs as {who}")
    open_to = machine.shell(
        "cat /proc/net/tcp /proc/net/tcp6 | awk '$4==\"0A\"{print $2}' | cut -d: -f1 | sort -u"
    ).split()
    ensure(open_to == ["0100007F"], f"by itself it listens beyond loopback: {open_to}")
    machine.shell(
        "test -s /usr/share/man/man1/mayfly.1.gz && bash -c 'source /usr/share/bash-completion/completions/mayfly'"
    )


def _configured(machine: Fresh) -> None:
    """As the page on installing says it."""
    lines = THREE_LINES.strip().replace("\n", "\\n")
    machine.shell(f"""
        cd /etc/mayfly
        umask 077
        openssl rand -base64 32 > secret
        mayfly cert authority --dir certs && mayfly cert node 1 fresh localhost --dir certs
        cp certs/node-1.pem node.pem && cp certs/node-1.key node.key
        chgrp mayfly secret node.pem node.key && chmod 640 secret node.pem node.key
        cp -p mayfly.toml mayfly.toml.shipped
        printf '{lines}\\n' | cat - mayfly.toml.shipped > mayfly.toml
        chmod 640 mayfly.toml && chgrp mayfly mayfly.toml
        runuser -u mayfly -- mayfly serve --check-config --config mayfly.toml
        systemctl restart mayfly""")
    _ready(machine, "https://127.0.0.1:5300")
    machine.shell(
        """
        export MAYFLY_SECRET_FILE=/etc/mayfly/secret MAYFLY_TLS_CA=/etc/mayfly/certs/authority.pem
        mayfly peek orders --connect https://fresh:5671 | grep -q hello""",
        env=None,
    )
    told = machine.run(
        "mayfly",
        "peek",
        "orders",
        "--timeout",
        "2s",
        "--connect",
        "https://fresh:5671",
        "--tls-ca",
        "/etc/mayfly/certs/authority.pem",
        code=1,
    ).stderr
    ensure("no proof was sent" in told, f"without a secret: {told}")


def _ends_and_starts(machine: Fresh) -> None:
    machine.shell("systemctl stop mayfly")
    ensure(machine.service("ExecMainStatus") == "0", f"SIGTERM: exit code {machine.service('ExecMainStatus')}")
    machine.shell("systemctl start mayfly")
    _ready(machine, "https://127.0.0.1:5300")
    before = machine.service("MainPID")
    machine.shell(f"kill -9 {before}")
    wait_for(lambda: machine.service("MainPID") not in ("0", before), lambda: _journal(machine))
    _ready(machine, "https://127.0.0.1:5300")
    machine.shell("systemctl reload mayfly && systemctl is-active mayfly")
    # A wrong configuration ends with 2, and is not tried again and again.
    machine.shell(
        "sed -i 's/^listen.any = .*/listen.amy = 1/' /etc/mayfly/mayfly.toml; systemctl restart mayfly || true"
    )
    wait_for(lambda: machine.service("ActiveState") == "failed", lambda: _journal(machine))
    tried = (machine.service("ExecMainStatus"), machine.service("NRestarts"))
    ensure(tried[0] == "2", f"a wrong file ends it with {tried[0]}: {_journal(machine)}")
    ensure(machine.service("Result") == "exit-code", machine.service("Result"))
    ensure("unknown key 'amy'" in _journal(machine), f"the journal does not say why: {_journal(machine)}")
    machine.shell(
        "sed -i 's/^listen.amy = .*/listen.any = \"0.0.0.0:443\"/' /etc/mayfly/mayfly.toml; systemctl restart mayfly"
    )
    # A port of root's, without root.
    _ready(machine, "https://127.0.0.1:443")


def _limited(machine: Fresh) -> None:
    pid = machine.service("MainPID")
    status = dict(line.split(":", 1) for line in machine.shell(f"cat /proc/{pid}/status").splitlines())
    limits = machine.shell(f"grep 'Max open files' /proc/{pid}/limits").split()
    # Where this machine itself may open fewer, so may one inside it.
    most = min(65536, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    ensure(limits[3] == str(most), f"it may open {limits[3]} files, and not {most}")
    ensure(status["NoNewPrivs"].strip() == "1" and status["Seccomp"].strip() == "2", f"it is not confined: {status}")
    ensure(int(status["CapEff"], 16) == 1 << 10, f"its capabilities are {status['CapEff']}")
    denied = machine.run("nsenter", f"--target={pid}", "--mount", "touch", "/usr/bin/mine", code=None)
    ensure(denied.returncode != 0 and "Read-only" in denied.stderr, f"/usr can be written: {denied.stderr}")
    if most == 65536:
        ensure("may open" not in _journal(machine), "the node finds too few file handles")


def _upgraded(machine: Fresh, package: Path, room: Path) -> None:
    """A newer package with another default file: the operator's stays, and the node comes back with its data."""
    unpacked = room / "newer"
    run("dpkg-deb", "--raw-extract", package, unpacked)
    control = unpacked / "DEBIAN/control"
    control.write_text(re.sub(r"(?m)^Version: (.*)$", r"Version: \1+newer", control.read_text()))
    shipped = unpacked / "etc/mayfly/mayfly.toml"
    shipped.write_text(shipped.read_text() + "# Something new.\n")
    run("dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "--build", unpacked, room / "newer.deb")
    machine.put(room / "newer.deb", "/tmp/newer.deb")
    before = (machine.service("MainPID"), machine.shell("md5sum /etc/mayfly/mayfly.toml /etc/mayfly/secret"))
    machine.shell("apt-get install -y -q -o Dpkg::Options::=--force-confold ./tmp/newer.deb", cwd="/")
    _ready(machine, "https://127.0.0.1:443")
    after = (machine.service("MainPID"), machine.shell("md5sum /etc/mayfly/mayfly.toml /etc/mayfly/secret"))
    ensure(before[0] != after[0], "the upgrade left the old program running")
    ensure(before[1] == after[1], f"the upgrade changed files of the operator's: {before[1]} {after[1]}")
    peeked = machine.shell(
        "mayfly peek orders --connect https://fresh:443 --secret-file /etc/mayfly/secret "
        "--tls-ca /etc/mayfly/certs/authority.pem"
    )
    ensure("hello" in peeked, "the message is gone after the upgrade")


def _removed(machine: Fresh) -> None:
    machine.shell("apt-get remove -y -q mayfly")
    running = machine.shell("cat /proc/[0-9]*/comm").split()
    ensure("systemd" in running and "mayfly" not in running, f"after its removal there run {running}")
    machine.shell("test -f /etc/mayfly/mayfly.toml && test -d /var/lib/mayfly/log && test ! -e /usr/bin/mayfly")
    told = machine.shell("apt-get purge -y -q mayfly")
    machine.shell("test ! -e /etc/mayfly/mayfly.toml && test ! -e /var/log/mayfly && test -d /var/lib/mayfly/log")
    ensure("/var/lib/mayfly is left" in told, f"nobody says that messages are left: {told}")


def _ready(machine: Fresh, url: str) -> None:
    asked = lambda: machine.run("curl", "-sk", "--max-time", "2", f"{url}/health/ready", code=None).stdout
    wait_for(lambda: '"ready"' in asked(), lambda: f"not ready: {asked()} {_journal(machine)}")


def _journal(machine: Fresh) -> str:
    return machine.run("journalctl", "-u", "mayfly", "-o", "cat", "-n", "30", "--no-pager", code=None).stdout


CHECKS = [
    the_tarball_runs_where_it_is_unpacked,
    the_deb_has_what_debian_asks_for,
    the_unit_holds_what_it_promises,
    a_fresh_debian_runs_it_and_keeps_what_is_its_operators,
    the_same_binary_gives_the_same_packages,
]
