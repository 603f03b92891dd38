//! What does a message cost codec and engine on the steady path, and does it allocate?
//!
//! Estimate, made before measuring: a transfer frame is some 60 bytes of fields to read and a slice to
//! take, 150 ns; the walk over its sections 30 ns; its share of a disposition nothing. A delivery
//! writes a new header and six annotations, 250 ns, and copies 1 KiB, 50 ns; its settlement is a
//! frame each way, 200 ns. Allocations: none per message; one or two per read of 64 KiB, which holds
//! 60 messages, and as many per 64 KiB of heads.
//!
//! Measured on two shared cores, messages of 1 KiB, the fastest of 2,000 rounds of 500:
//!
//! | path | ns per message | allocations per 1,000 messages |
//! |---|---|---|
//! | in: frame, transfer, sections, verdict | 400 | 0 |
//! | out: head, transfer, verdict of the client, answer | 810 | 0 |
//!
//! Twice the estimate: moving an event and a session's books costs as much as reading the frame. It
//! was taken with both cores busy with other work, so it is an upper bound.
//!
//! `cargo bench -p amqp --bench steady`; under `cargo test` it runs once, small, and holds the
//! allocations to their bound.

#![allow(unsafe_code, reason = "a global allocator that counts is unsafe to implement")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use amqp_protocol::Limits;
use amqp_protocol::codec::{Attach, DeliveryState, Outcome, Role, Tag};
use amqp_protocol::engine::{
    Config, Connection, Event, LinkId, Mechanism, Millis, Outgoing, Payload,
};
use amqp_protocol::message::Message;
use bytes::{Buf, Bytes, BytesMut};
use domain::{Delivery, HeldLock, LockToken, MessageState, SequenceNumber, Span, Timestamp, Value};
use message_content::{Body, Neutral, Shown, deliver};

/// Counts while it is told to.
struct Counting;

static COUNTS: AtomicBool = AtomicBool::new(false);
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is handed to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if COUNTS.load(Ordering::Relaxed) {
            ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Messages of one round; all of them are under way at once.
const ROUND: u32 = 500;
/// Credit: some of it may not be announced anew when a round begins.
const WINDOW: u32 = 2 * ROUND;
/// Messages sent between two flushes.
const TURN: u32 = 32;
const READ_BYTES: usize = 64 * 1024;
const NOW: Millis = Millis(0);
/// Reads and heads take a few allocations per 64 KiB; one per message would be a thousand.
const ALLOCATIONS_PER_1000_MAX: u64 = 120;

struct Bench {
    client: Connection,
    server: Connection,
    to_client: BytesMut,
    to_server: BytesMut,
    limits: Limits,
    /// What was counted: of this round, and of the fastest, since others share the machine.
    spent: Duration,
    fastest: Duration,
    allocations: u64,
    messages: u64,
    digest: u64,
}

fn config() -> Config {
    let limits = Limits::default();
    Config {
        container_id: "bench".into(),
        hostname: None,
        offered_capabilities: Default::default(),
        properties: None,
        limits,
    }
}

fn attach(role: Role) -> Attach {
    match role {
        Role::Sender => Attach::sender("in", "q"),
        Role::Receiver => Attach::receiver("out", "q"),
    }
}

/// The message both paths carry.
fn message() -> Bytes {
    let neutral = Neutral {
        body: Body::Binary(vec![7; 1024].into()),
        message_id: Some("0123456789abcdef0123456789abcdef".into()),
        subject: Some("subject".into()),
        properties: [("key".to_owned(), Value::Int(1)), ("name".to_owned(), Value::Bool(true))]
            .into(),
        ..Neutral::default()
    };
    neutral.to_amqp(&mut BytesMut::new())
}

fn drain(connection: &mut Connection, into: &mut BytesMut) {
    connection.flush();
    let output = connection.output();
    while output.has_remaining() {
        let count = output.chunk().len();
        into.extend_from_slice(output.chunk());
        output.advance(count);
    }
}

impl Bench {
    /// Both opened, and a link of the given role of the client's: its id on each side.
    fn new(role: Role) -> (Bench, LinkId, LinkId) {
        let mut bench = Bench {
            client: Connection::client(config(), Mechanism::Anonymous, NOW),
            server: Connection::server(config(), NOW),
            to_client: BytesMut::new(),
            to_server: BytesMut::new(),
            limits: Limits::default(),
            spent: Duration::ZERO,
            fastest: Duration::MAX,
            allocations: 0,
            messages: 0,
            digest: 0,
        };
        bench.exchange();
        let session = bench.client.begin().expect("a channel");
        bench.exchange();
        let ours = bench.client.attach(session, attach(role)).expect("a session");
        let theirs = bench.exchange().expect("a link");
        match role {
            Role::Sender => bench.server.grant(theirs, WINDOW),
            Role::Receiver => bench.client.grant(ours, WINDOW),
        }
        .expect("a receiver");
        bench.exchange();
        (bench, ours, theirs)
    }

    /// Carries everything both ways; the link the server accepted on the way, if any.
    fn exchange(&mut self) -> Option<LinkId> {
        let mut accepted = None;
        for _ in 0..6 {
            drain(&mut self.client, &mut self.to_server);
            while let Some(event) = self.server.poll(&mut self.to_server, NOW) {
                match event {
                    Event::Login(_) => self.server.login(true),
                    Event::AttachRequested { link, attach, .. } => {
                        self.server.accept(link, attach.reply(1 << 20)).expect("a pending link");
                        accepted = Some(link);
                    }
                    _ => {}
                }
            }
            drain(&mut self.server, &mut self.to_client);
            while self.client.poll(&mut self.to_client, NOW).is_some() {}
        }
        accepted
    }

    fn count(&mut self, messages: u32, work: impl FnOnce(&mut Bench)) {
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        let start = Instant::now();
        COUNTS.store(true, Ordering::Relaxed);
        work(self);
        COUNTS.store(false, Ordering::Relaxed);
        self.spent += start.elapsed();
        self.allocations += ALLOCATIONS.load(Ordering::Relaxed) - before;
        self.messages += u64::from(messages);
    }

    fn end_round(&mut self) {
        self.fastest = self.fastest.min(std::mem::take(&mut self.spent));
    }

    fn report(&self, path: &str) {
        let per_1000 = self.allocations * 1000 / self.messages;
        let ns = self.fastest.as_nanos() / u128::from(ROUND);
        let digest = self.digest;
        println!("{path}: {ns} ns per message, {per_1000} allocations per 1000, digest {digest:x}");
        assert!(per_1000 <= ALLOCATIONS_PER_1000_MAX, "{path}: {per_1000} allocations per 1000");
    }
}

/// A round of what a producer does: counted is all the server does with it.
fn receive_round(bench: &mut Bench, ours: LinkId, message: &Bytes) {
    send_all(&mut bench.client, ours, message);
    let mut sent = BytesMut::new();
    drain(&mut bench.client, &mut sent);
    bench.count(ROUND, |bench| {
        let Bench { server, to_server, to_client, limits, digest, .. } = bench;
        for read in sent.chunks(READ_BYTES) {
            to_server.extend_from_slice(read);
            while let Some(event) = server.poll(to_server, NOW) {
                let Event::Delivery(delivery) = event else { continue };
                let payload = delivery.payload.expect("within the limits");
                let message = Message::parse(payload, limits).expect("a message");
                *digest = digest.wrapping_mul(31).wrapping_add(message.body().len() as u64);
                server.settle(delivery.id, DeliveryState::ACCEPTED).expect("unsettled");
            }
        }
        drain(server, to_client);
    });
    bench.exchange();
}

fn send_all(sender: &mut Connection, link: LinkId, message: &Bytes) {
    for tag in 0..ROUND {
        let outgoing = Outgoing {
            tag: Tag::new(&tag.to_be_bytes()).expect("4 bytes"),
            message_format: 0,
            settled: false,
            state: None,
            payload: Payload::from(message.clone()),
        };
        sender.send(link, &outgoing).expect("room");
    }
}

fn delivery(tag: u32) -> Delivery {
    let token = LockToken { sequence: SequenceNumber(tag.into()), nonce: 1 };
    Delivery {
        topic: None,
        sequence: token.sequence,
        body: token.sequence,
        size_bytes: 0,
        state: MessageState::Active,
        delivery_count: 0,
        enqueued_at: Timestamp(1_700_000_000_000),
        enqueued_sequence: token.sequence,
        dead_letter_source: None,
        scheduled_at: None,
        ttl: Some(Span(60_000)),
        expires_at: Some(Timestamp(1_700_000_060_000)),
        lock: Some(HeldLock { token, until: Timestamp(1_700_000_030_000) }),
        overlay: None,
    }
}

/// A round of what a consumer gets and settles: counted is all the server does for it.
fn send_round(bench: &mut Bench, theirs: LinkId, stored: &Message, scratch: &mut BytesMut) {
    // A buffer that stands for the socket.
    bench.to_client.reserve(ROUND as usize * 1500);
    bench.count(ROUND, |bench| {
        let Bench { server, to_client, limits, .. } = bench;
        for tag in 0..ROUND {
            let delivery = delivery(tag);
            let shown = Shown::PeekLock;
            let payload =
                deliver(stored, &delivery, shown, None, limits, scratch).expect("readable");
            let token = delivery.lock.expect("a lock").token;
            let outgoing = Outgoing {
                tag: amqp::management::tag(token),
                message_format: 0,
                settled: false,
                state: None,
                payload,
            };
            server.send(theirs, &outgoing).expect("room");
            if tag % TURN == TURN - 1 {
                drain(server, to_client);
            }
        }
        drain(server, to_client);
    });
    let mut verdicts = BytesMut::new();
    while let Some(event) = bench.client.poll(&mut bench.to_client, NOW) {
        if let Event::Delivery(delivery) = event {
            let state = DeliveryState::Outcome(Outcome::Accepted);
            bench.client.propose(delivery.id, state).expect("unsettled");
            // One by one, as the SDKs do.
            drain(&mut bench.client, &mut verdicts);
        }
    }
    bench.count(0, |bench| {
        let Bench { server, to_server, to_client, digest, .. } = bench;
        for read in verdicts.chunks(READ_BYTES) {
            to_server.extend_from_slice(read);
            while let Some(event) = server.poll(to_server, NOW) {
                let Event::Disposed { id, state: Some(state), .. } = event else { continue };
                *digest = digest.wrapping_mul(31).wrapping_add(id.id.into());
                server.answer(id, state).expect("unsettled");
            }
        }
        drain(server, to_client);
    });
    bench.exchange();
}

fn main() {
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let rounds = if is_bench { 2_000 } else { 4 };
    let message = message();
    let (mut receiving, ours, _) = Bench::new(Role::Sender);
    // The first rounds fill buffers that later ones use again.
    for round in 0..rounds + 2 {
        if round == 2 {
            (receiving.allocations, receiving.messages) = (0, 0);
        }
        receive_round(&mut receiving, ours, &message);
        receiving.end_round();
    }
    receiving.report("in ");

    let stored = Message::parse(message, &Limits::default()).expect("a message");
    let mut scratch = BytesMut::with_capacity(READ_BYTES);
    let (mut sending, _, theirs) = Bench::new(Role::Receiver);
    for round in 0..rounds + 2 {
        if round == 2 {
            (sending.allocations, sending.messages) = (0, 0);
        }
        send_round(&mut sending, theirs, &stored, &mut scratch);
        sending.end_round();
    }
    sending.report("out");
}
