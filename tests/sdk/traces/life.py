"""One message's life, traced by the SDKs themselves: their spans and the broker's are one trace.

    life.py --amqp ADDRESS --port PORT -- COMMAND…

Listens at the port as a collector of OpenTelemetry (OTLP over HTTP), decoded by the protocol's own messages. Sends,
abandons and dead-letters with Python's SDK, runs the command, which does the same with another, and says what is not
as it should be, a line each. With --show prints the traces.
"""

import argparse
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from azure.core.settings import settings
from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusSubQueue
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

WITHIN = 30  # Seconds anything that is waited for may take.
# What the broker tells of one life, whichever SDK it is lived with, in the order in which it ends.
BROKER = [
    "enqueue {queue}",
    "wait {queue}",
    "deliver {queue}: abandoned",
    "settle {queue}: abandon",
    "wait {queue}",
    "deliver {queue}: dead-lettered",
    "settle {queue}: dead_letter",
    "dead-letter {queue}",
    "wait {queue}/$DeadLetterQueue",
    "deliver {queue}/$DeadLetterQueue: completed",
    "settle {queue}/$DeadLetterQueue: complete",
]


@dataclass(frozen=True)
class Span:
    service: str
    trace: str
    id: str
    parent: str
    name: str
    start: int
    end: int
    attributes: dict[str, object]
    links: list[str]

    def told(self) -> str:
        status = self.attributes.get("azure.servicebus.disposition_status")
        outcome = self.attributes.get("mayfly.outcome") if self.name.startswith("deliver") else None
        return f"{self.name}: {status or outcome}" if status or outcome else self.name


class Collector(ThreadingHTTPServer):
    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.spans: list[Span] = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def of_traces(self, service: str) -> dict[str, list[Span]]:
        """The traces that a service began, by their ids."""
        begun = {span.trace for span in self.spans if span.service == service and not span.parent}
        return {trace: [span for span in self.spans if span.trace == trace] for trace in begun}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Collector

    def do_POST(self) -> None:
        body = b"".join(self.parts())
        self.server.spans += spans(ExportTraceServiceRequest.FromString(body))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def parts(self) -> Iterator[bytes]:
        """Of a body whose length is told before, or chunk by chunk."""
        if length := self.headers["content-length"]:
            yield self.rfile.read(int(length))
            return
        while size := int(self.rfile.readline().split(b";")[0], 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()

    def log_message(self, *_: object) -> None:
        """Nothing: what matters is what came."""


def spans(request: ExportTraceServiceRequest) -> Iterator[Span]:
    for resource_spans in request.resource_spans:
        resource = attributes(resource_spans.resource.attributes)
        for span in (span for scope in resource_spans.scope_spans for span in scope.spans):
            yield Span(
                str(resource.get("service.name")), span.trace_id.hex(), span.span_id.hex(),
                span.parent_span_id.hex(), span.name, span.start_time_unix_nano,
                span.end_time_unix_nano, attributes(span.attributes),
                [link.span_id.hex() for link in span.links],
            )  # fmt: skip


def attributes(pairs: object) -> dict[str, object]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}


def live(address: str, queue: str) -> None:
    text = (
        f"Endpoint=sb://{address};SharedAccessKeyName=RootManageSharedAccessKey;"
        "SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;"
    )
    with ServiceBusClient.from_connection_string(text) as client:
        with client.get_queue_sender(queue) as sender:
            sender.send_messages(ServiceBusMessage("x"))
        with client.get_queue_receiver(queue) as receiver:
            for settle in (receiver.abandon_message, receiver.dead_letter_message):
                settle(*receiver.receive_messages(max_message_count=1, max_wait_time=WITHIN))
        dead = ServiceBusSubQueue.DEAD_LETTER
        with client.get_queue_receiver(queue, sub_queue=dead) as receiver:
            [message] = receiver.receive_messages(max_message_count=1, max_wait_time=WITHIN)
            receiver.complete_message(message)


def tree(found: list[Span], parent: str = "", depth: int = 0) -> Iterator[str]:
    known = {span.id for span in found}
    under = [span for span in found if (span.parent if span.parent in known else "") == parent]
    for span in sorted(under, key=lambda span: (span.start, span.end)):
        took = (span.end - span.start) / 1e6
        yield f"{'  ' * depth}{span.service}: {span.told()} ({took:.0f} ms)"
        yield from tree(found, span.id, depth + 1)


def problems(collector: Collector, service: str, queue: str, show: bool) -> Iterator[str]:
    """What is wrong with the one trace that a service began."""
    expected = sorted(line.format(queue=queue) for line in BROKER)
    until = time.monotonic() + WITHIN
    told: list[Span] = []
    found: list[Span] = []
    while time.monotonic() < until and len(told) < len(expected):
        time.sleep(0.1)
        by_trace = collector.of_traces(service).values()
        found = max(by_trace, key=len, default=[])
        told = [span for span in found if span.service == "mayfly"]
    if show:
        print("\n".join(tree(found)), flush=True)
    if sorted(span.told() for span in told) != expected:
        yield f"{service}: the broker tells {sorted(span.told() for span in told)}"
    by_id = {span.id: span for span in found}
    if len(by_id) != len(found):
        yield f"{service}: {len(found)} spans have {len(by_id)} ids"
    of_message = [span.parent for span in told if span.name == f"enqueue {queue}"]
    senders = [by_id[parent] for parent in of_message if parent in by_id]
    if [sender.service for sender in senders] != [service]:
        yield f"{service}: what is enqueued comes under {senders}"
    delivered = [span for span in told if span.name.startswith("deliver")]
    if any(span.links != of_message for span in delivered):
        yield f"{service}: a delivery has no link to what was sent"
    # What the SDK tells of its receiver is linked to the same.
    linked = [s for s in collector.spans if s.service == service and set(of_message) & {*s.links}]
    if not linked:
        yield f"{service}: no span of a receiver has a link to what was sent"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--amqp", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--show", action="store_true")
    parser.add_argument("command", nargs="+")
    args = parser.parse_args()
    collector = Collector(args.port)
    endpoint = f"http://127.0.0.1:{args.port}/v1/traces"

    settings.tracing_implementation = "opentelemetry"
    resource = Resource.create({"service.name": "python"})
    provider = TracerProvider(sampler=ParentBased(TraceIdRatioBased(1.0)), resource=resource)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint)))
    trace.set_tracer_provider(provider)
    with trace.get_tracer("life").start_as_current_span("life"):
        live(args.amqp, "python")
    provider.force_flush()

    command = [*args.command, args.amqp, "javascript", endpoint]
    subprocess.run(command, check=True, timeout=4 * WITHIN)
    wrong = [
        *problems(collector, "python", "python", args.show),
        *problems(collector, "javascript", "javascript", args.show),
    ]
    print("\n".join(f"wrong: {line}" for line in wrong), flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
