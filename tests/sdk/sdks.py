"""The SDKs that are tested, each described once: what runs and what METHODS.md tells follows from it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from environment import (
    Installed,
    install_dotnet,
    install_go,
    install_java,
    install_javascript,
    install_jms,
    install_python,
)
from recorded import DOTNET, Recorded


@dataclass(frozen=True)
class Suite:
    """One run of an SDK's checks, which is a column of METHODS.md."""

    # Of its results.
    name: str
    title: str
    flags: tuple[str, ...] = ()
    # Whether the SDK's failover program counts for this column.
    fails_over: bool = True
    # How the program that makes every kind of call while a node ends is run for it; `None`: it is not.
    ends: tuple[str, ...] | None = None


def _as_it_is(kind: str) -> str:
    return kind


def _as_go_has_it(kind: str) -> str:
    """Functions, all of which make clients, stand under the name of their package."""
    home = {"azservicebus": "Client", "admin": "AdminClient"}
    kind = home.get(kind, kind)
    return f"ServiceBus{kind.replace('Admin', 'Administration')}"


def _of_java(kind: str) -> str:
    kind = kind.removesuffix("Client").removesuffix("Async")
    return f"{kind}Client" if kind == "ServiceBusAdministration" else kind


@dataclass(frozen=True)
class Sdk:
    # Its page is `docs/clients/NAME.md`.
    name: str
    package: str
    # Of the page's examples.
    language: str
    suites: tuple[Suite, ...]
    # May say `NoToolchain`: then the SDK is skipped, and its columns stay as they are written.
    install: Callable[[], Installed]
    # A class by the name it has in most SDKs.
    common: Callable[[str], str] = _as_it_is
    # Whether its client goes from one node to another by itself, and so is told all of them.
    knows_nodes: bool = False
    # Its only suite's results from elsewhere, told where no run has been written.
    recorded: Recorded | None = field(default=None, compare=False)


SDKS = (
    Sdk(
        name="python",
        package="azure-servicebus",
        language="python",
        suites=(
            Suite("sync", "Python", ("--flavour", "sync"), False, ("--flavour", "sync")),
            Suite("async", "Python, async", ("--flavour", "async"), ends=("--flavour", "async")),
        ),
        install=install_python,
    ),
    Sdk(
        name="javascript",
        package="@azure/service-bus",
        language="js",
        suites=(Suite("js", "JS", ends=()),),
        install=install_javascript,
    ),
    Sdk(
        name="go",
        package="azservicebus",
        language="go",
        suites=(Suite("go", "Go", ends=()),),
        install=install_go,
        common=_as_go_has_it,
    ),
    Sdk(
        name="java",
        package="com.azure:azure-messaging-servicebus",
        language="java",
        suites=(
            Suite("java", "Java", ("--flavour", "sync"), ends=()),
            Suite("java-async", "Java, async", ("--flavour", "async"), fails_over=False),
        ),
        install=install_java,
        common=_of_java,
    ),
    Sdk(
        name="dotnet",
        package="Azure.Messaging.ServiceBus",
        language="csharp",
        suites=(Suite("dotnet", ".NET", ("--jobs", "10")),),
        install=install_dotnet,
        recorded=DOTNET,
    ),
    # No SDK of Service Bus, but what Java programs speak to any broker. Its methods are those of
    # JMS, of which it says itself what they need; the checks are by feature.
    Sdk(
        name="jms",
        package="org.apache.qpid:qpid-jms-client",
        language="java",
        suites=(Suite("jms", "JMS"),),
        install=install_jms,
        knows_nodes=True,
    ),
)

# Those that are installed here.
Ready = Mapping[Sdk, Installed]
