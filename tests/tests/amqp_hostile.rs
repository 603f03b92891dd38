//! AMQP clients that break the rules, on real sockets: each is told so, and let go or refused; the
//! node's memory stays bounded; and a client that keeps the rules notices nothing.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use amqp::condition;
use amqp_protocol::codec::{DeliveryState, Disposition, Flow, Role, Tag, Transfer};
use anyhow::{Context, ensure};
use bytes::{Bytes, BytesMut};
use client::Message;
use mayfly_tests::{AmqpClient, Cluster, RawAmqp, Settings};
use message_content::{Body, Neutral};
use rand::{Rng, SeedableRng};

/// Of each kind at a time.
const OF_EACH: usize = 20;
/// More than any answer takes on a busy machine, less than any patience with silence.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);
/// `idle_timeout` as configured; a silent client is closed after twice that.
const IDLE: Duration = Duration::from_secs(10);
/// `Limits::open_ms`: from the first byte to `open`.
const OPEN_WITHIN: Duration = Duration::from_secs(20);
/// What all of them together may add to the node's memory: buffers of kernel and engine for some
/// hundred connections, and what was stored. They claim terabytes.
const GROWTH_KIBIBYTES_MAX: u64 = 256 * 1024;
/// A send, receive and complete of the client that keeps the rules.
const CALM_WITHIN: Duration = Duration::from_secs(15);

/// What one kind of hostile client does to a node's address.
type Attack = fn(&str) -> anyhow::Result<()>;

fn message(bytes: usize) -> Bytes {
    let body = Body::Binary(vec![b'x'; bytes].into());
    Neutral { body, ..Neutral::default() }.to_amqp(&mut BytesMut::new())
}

fn transfer(handle: u32, id: u32, more: bool) -> Transfer {
    let tag = Tag::new(&id.to_be_bytes());
    Transfer {
        handle,
        delivery_id: Some(id),
        delivery_tag: tag,
        message_format: Some(0),
        more,
        ..Transfer::default()
    }
}

fn credit(handle: u32, link_credit: u32) -> Flow {
    Flow {
        next_incoming_id: Some(0),
        incoming_window: u32::MAX,
        outgoing_window: 5_000,
        handle: Some(handle),
        delivery_count: Some(0),
        link_credit: Some(link_credit),
        ..Flow::default()
    }
}

/// The bytes in a frame of AMQP on channel 0.
fn in_frame(body: &[u8]) -> Vec<u8> {
    let mut bytes = u32::try_from(body.len() + 8).unwrap_or(u32::MAX).to_be_bytes().to_vec();
    bytes.extend_from_slice(&[2, 0, 0, 0]);
    bytes.extend_from_slice(body);
    bytes
}

/// Lists in lists, as deep as a frame can hold.
fn nest(depth: usize) -> Vec<u8> {
    let mut bytes = vec![0x45];
    for _ in 0..depth {
        let size = u32::try_from(bytes.len() + 4).unwrap_or(u32::MAX);
        let mut outer = vec![0xd0];
        outer.extend_from_slice(&size.to_be_bytes());
        outer.extend_from_slice(&1u32.to_be_bytes());
        outer.extend_from_slice(&bytes);
        bytes = outer;
    }
    bytes
}

/// A map with one entry.
fn map_of(value: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0xd1];
    bytes.extend_from_slice(&u32::try_from(value.len() + 7).unwrap_or(u32::MAX).to_be_bytes());
    bytes.extend_from_slice(b"\x00\x00\x00\x02\xa1\x01k");
    bytes.extend_from_slice(value);
    bytes
}

/// A flow with these properties; all that comes before them is as it should be.
fn flow_with(properties: &[u8]) -> Vec<u8> {
    let mut fields = vec![0x43; 4];
    fields.extend_from_slice(&[0x40; 6]);
    fields.extend_from_slice(properties);
    let mut body = vec![0x00, 0x53, 0x13, 0xd0];
    body.extend_from_slice(&u32::try_from(fields.len() + 4).unwrap_or(u32::MAX).to_be_bytes());
    body.extend_from_slice(&11u32.to_be_bytes());
    body.extend_from_slice(&fields);
    in_frame(&body)
}

/// Is told of its fault in one word, and hung up on.
fn is_closed_with(raw: &mut RawAmqp, condition: &str) -> anyhow::Result<()> {
    ensure!(raw.hears(condition.as_bytes(), ANSWER_WITHIN)?, "it is not told {condition}");
    ensure!(raw.is_hung_up_on(ANSWER_WITHIN)?, "it is told {condition} and kept");
    Ok(())
}

fn random_bytes(address: &str) -> anyhow::Result<()> {
    let mut rng = rand::rngs::StdRng::seed_from_u64(1);
    for number in 0..2 * OF_EACH {
        let mut bytes = vec![0; 64 * 1024];
        rng.fill_bytes(&mut bytes);
        let mut raw = match number % 2 {
            0 => RawAmqp::connect(address)?,
            _ => {
                // A frame that begins well and goes on at random.
                bytes[..8].copy_from_slice(b"\x00\x00\x80\x00\x02\x00\x00\x00");
                RawAmqp::open(address)?
            }
        };
        raw.say(&bytes)?;
        ensure!(raw.is_hung_up_on(ANSWER_WITHIN)?, "random bytes {number} are listened to");
    }
    Ok(())
}

/// Frames that claim more than there is: their sizes and counts are judged before memory is taken.
fn claims(address: &str) -> anyhow::Result<()> {
    const DECODE: &str = condition::DECODE_ERROR;
    const FRAMING: &str = condition::FRAMING_ERROR;
    // Nulls take no bytes: two thousand million of them fit into any frame.
    let array_of_nulls = b"\xf0\x00\x00\x00\x05\x7f\xff\xff\xff\x40";
    let list_of_nothing = b"\xd0\x00\x00\x00\x04\x7f\xff\xff\xff";
    let table: [(Vec<u8>, &str); 6] = [
        (b"\x7f\xff\xff\xff\x02\x00\x00\x00".to_vec(), FRAMING),
        (b"\x00\x00\x00\x07\x02\x00\x00\x00".to_vec(), FRAMING),
        (flow_with(&map_of(array_of_nulls)), DECODE),
        (flow_with(&map_of(list_of_nothing)), DECODE),
        (flow_with(&map_of(&nest(7_000))), DECODE),
        (flow_with(b"\xd1\x00\x00\x00\x04\xff\xff\xff\xfe"), DECODE),
    ];
    for (bytes, condition) in &table {
        for _ in 0..OF_EACH {
            let mut raw = RawAmqp::open(address)?;
            raw.say(bytes)?;
            let shown = || format!("{:02x?}", &bytes[..bytes.len().min(40)]);
            is_closed_with(&mut raw, condition).with_context(shown)?;
        }
    }
    Ok(())
}

/// Faults of one session or link: that is ended, and the connection serves on.
fn faults_of_a_session(address: &str) -> anyhow::Result<()> {
    let receives = |raw: &mut RawAmqp| raw.attach(0, "prey", Role::Receiver);
    for _ in 0..OF_EACH {
        // The wrong direction: this side is the receiver.
        let mut raw = RawAmqp::open(address)?;
        receives(&mut raw)?;
        raw.frame(&transfer(0, 0, false), &message(10))?;
        ensure!(raw.hears(condition::ERRANT_LINK.as_bytes(), ANSWER_WITHIN)?, "errant link");
        ensure!(!raw.is_hung_up_on(Duration::ZERO)?, "the whole connection pays");

        let mut raw = RawAmqp::open(address)?;
        raw.frame(&credit(7, 1), &[])?;
        let told = condition::UNATTACHED_HANDLE.as_bytes();
        ensure!(raw.hears(told, ANSWER_WITHIN)?, "unattached handle");
    }
    Ok(())
}

/// Four thousand million deliveries in a few bytes, thousands of times over.
fn disposition_ranges(address: &str) -> anyhow::Result<()> {
    let mut raw = RawAmqp::open(address)?;
    raw.attach(0, "prey", Role::Receiver)?;
    for (role, first, last) in [
        (Role::Receiver, 0, u32::MAX),
        (Role::Receiver, 1, 0),
        (Role::Sender, 0, u32::MAX),
        (Role::Receiver, u32::MAX, u32::MAX - 1),
    ] {
        let range = Disposition {
            role,
            first,
            last: Some(last),
            settled: true,
            state: Some(DeliveryState::ACCEPTED),
            batchable: false,
        };
        for _ in 0..5_000 {
            ensure!(raw.frame(&range, &[])?, "a disposition is not taken");
        }
    }
    ensure!(raw.is_served()?, "ranges over nothing wear it out");
    Ok(())
}

/// Beyond the limit bytes are counted and dropped, however many come; the message is still answered,
/// and the link takes the next.
fn messages_too_large(address: &str) -> anyhow::Result<()> {
    const MEBIBYTES: u32 = 64;
    let mut raw = RawAmqp::open(address)?;
    raw.attach(0, "prey", Role::Sender)?;
    raw.forget();
    let piece = vec![b'x'; 64 * 1024];
    for _ in 0..MEBIBYTES * 16 {
        ensure!(raw.frame(&transfer(0, 0, true), &piece)?, "it is cut short");
    }
    ensure!(raw.frame(&transfer(0, 0, false), &piece)?, "it is cut short");
    let told = condition::MESSAGE_SIZE_EXCEEDED.as_bytes();
    ensure!(raw.hears(told, ANSWER_WITHIN)?, "it is not told that it is too large");
    ensure!(raw.is_served()?, "the connection pays");
    Ok(())
}

/// What a message is made of costs that message at most.
fn messages_that_are_none(address: &str) -> anyhow::Result<()> {
    let mut raw = RawAmqp::open(address)?;
    raw.attach(0, "prey", Role::Sender)?;
    let nested = [b"\x00\x53\x74", &map_of(&nest(2_000))[..]].concat();
    let refused = condition::DECODE_ERROR.as_bytes();
    let any_outcome = b"\x00\x53\x15";
    for (id, (payload, answer)) in (0..).zip([
        // Looked at by nobody, so it may be stored.
        (&nested[..], &any_outcome[..]),
        (b"\x00", refused),
        (b"\x00\x53\x75\xb0\xff\xff\xff\xff", refused),
        (b"\x00\x53\x73\xd0\x00\x00\x00\x04\xff\xff\xff\xff", refused),
    ]) {
        raw.forget();
        raw.frame(&transfer(0, id, false), payload)?;
        ensure!(raw.hears(answer, ANSWER_WITHIN)?, "message {id} is not answered as it should be");
    }
    ensure!(raw.is_served()?, "the connection pays");
    Ok(())
}

/// No credit is waited for and no outcome read. Who outruns its credit is told so, and loses the link
/// only; who is made to wait by TCP before that is answered.
fn a_flood(address: &str) -> anyhow::Result<()> {
    const MESSAGES: u32 = 12_000;
    let mut raw = RawAmqp::open(address)?;
    raw.attach(0, "prey", Role::Sender)?;
    let body = message(1024);
    let mut sent = 0;
    while sent < MESSAGES {
        if raw.frame(&transfer(0, sent, false), &body)? {
            sent += 1;
        } else {
            // It was made to wait in the middle of a frame, and cannot go on from there.
            break;
        }
    }
    let outcome = &b"\x00\x53\x15"[..];
    let outran = condition::TRANSFER_LIMIT_EXCEEDED.as_bytes();
    ensure!(raw.hears_any(&[outcome, outran], ANSWER_WITHIN)?, "no answer to {sent} messages");
    // A frame cut short by TCP leaves nothing more to say.
    ensure!(sent < MESSAGES || raw.is_served()?, "the connection pays");
    Ok(())
}

/// Takes all credit there is and reads nothing, while it asks for answers without end.
fn who_never_reads(address: &str) -> anyhow::Result<RawAmqp> {
    let mut raw = RawAmqp::open(address)?;
    raw.attach(0, "full", Role::Receiver)?;
    raw.frame(&credit(0, u32::MAX), &[])?;
    let echo = Flow { echo: true, ..credit(0, u32::MAX) };
    let asked = mayfly_tests::framed(&echo, &[]).repeat(1_000);
    let until = Instant::now() + 2 * ANSWER_WITHIN;
    // The node answers as far as its own limit and the kernel's buffers go, and then reads no more.
    while raw.say(&asked)? {
        ensure!(Instant::now() < until, "the node answers whoever does not read for ever");
    }
    Ok(raw)
}

/// Byte by byte: before the open it has seconds, after that a frame that is never whole is silence.
fn slow_loris(address: &str) -> anyhow::Result<()> {
    // The last byte of the header never comes.
    let header = &amqp_protocol::codec::frame::SASL_HEADER[..7];
    drips(RawAmqp::connect(address)?, header, OPEN_WITHIN)?;
    drips(RawAmqp::open(address)?, &in_frame(&[0; 1_000]), 2 * IDLE)
}

/// Says a byte a second, for as long as the node has patience, and not much longer.
fn drips(mut raw: RawAmqp, bytes: &[u8], patience: Duration) -> anyhow::Result<()> {
    let started = Instant::now();
    let mut bytes = bytes.chunks(1);
    while !raw.is_hung_up_on(Duration::from_secs(1))? {
        if let Some(byte) = bytes.next() {
            raw.say(byte)?;
        }
        ensure!(started.elapsed() < patience + ANSWER_WITHIN, "it goes on for ever");
    }
    // Its patience began a moment before.
    let least = patience / 2 - Duration::from_millis(100);
    ensure!(started.elapsed() > least, "hung up on after {:?}", started.elapsed());
    Ok(())
}

/// Half a frame of the largest size each, and then nothing.
fn half_frames(address: &str) -> anyhow::Result<()> {
    let mut all = Vec::new();
    for _ in 0..OF_EACH {
        let mut raw = RawAmqp::open(address)?;
        let mut bytes = b"\x00\x04\x00\x00\x02\x00\x00\x00".to_vec();
        bytes.resize(128 * 1024, 0);
        ensure!(raw.say(&bytes)?, "half a frame is not taken");
        all.push(raw);
    }
    for raw in &mut all {
        let told = condition::RESOURCE_LIMIT_EXCEEDED.as_bytes();
        ensure!(raw.hears(told, 2 * IDLE + ANSWER_WITHIN)?, "silence is not ended");
        ensure!(raw.is_hung_up_on(ANSWER_WITHIN)?, "silence is told and kept");
    }
    Ok(())
}

/// Sends, receives and completes until it is told to stop; how often, and how long it took at most.
async fn calm(address: &str, stop: &AtomicBool) -> anyhow::Result<(u64, Duration)> {
    let mut amqp = AmqpClient::connect(address).await?;
    let sender = amqp.sender("calm").await?.map_err(|error| anyhow::anyhow!("{error:?}"))?;
    let receiver = amqp.receiver("calm").await?.map_err(|error| anyhow::anyhow!("{error:?}"))?;
    let (mut count, mut slowest) = (0, Duration::ZERO);
    amqp.grant(receiver, 10).await?;
    while !stop.load(Ordering::Relaxed) {
        let started = Instant::now();
        ensure!(amqp.send(sender, 0, message(1024)).await? == DeliveryState::ACCEPTED);
        let delivery = amqp.receive(receiver).await?;
        ensure!(amqp.settle(&delivery, DeliveryState::ACCEPTED).await? == DeliveryState::ACCEPTED);
        slowest = slowest.max(started.elapsed());
        count += 1;
    }
    Ok((count, slowest))
}

fn resident_kibibytes(pid: u32) -> anyhow::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next()).context("no VmRSS")?;
    Ok(number.parse()?)
}

/// Bad input of every kind at the same time.
#[tokio::test(flavor = "multi_thread")]
async fn hostile_clients_harm_nobody() -> anyhow::Result<()> {
    let config = "[amqp]\nidle_timeout = \"10s\"\n";
    let settings = Settings { nodes: 1, data_groups: 2, config, ..Settings::default() };
    let cluster = Cluster::start(settings).await?;
    let native = cluster.client()?;
    for queue in ["calm", "prey", "full"] {
        native.create_queue(queue, Default::default()).await?;
    }
    native.send("full", vec![Message::new(vec![b'x'; 1024]); 900]).await?;

    let (pid, address) = (cluster.pid(1).context("it runs")?, cluster.amqp_address(1));
    let (stop, peak) = (AtomicBool::new(false), AtomicU64::new(0));
    let runtime = tokio::runtime::Handle::current();
    let before = resident_kibibytes(pid)?;
    let (outcomes, calm) = thread::scope(|scope| {
        let calm = scope.spawn(|| runtime.block_on(calm(address, &stop)));
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                peak.fetch_max(resident_kibibytes(pid).unwrap_or(0), Ordering::Relaxed);
                thread::sleep(Duration::from_millis(50));
            }
        });
        let kinds: [(&str, Attack); 10] = [
            ("random bytes", random_bytes),
            ("claims", claims),
            ("faults of a session", faults_of_a_session),
            ("disposition ranges", disposition_ranges),
            ("messages too large", messages_too_large),
            ("messages that are none", messages_that_are_none),
            ("a flood", a_flood),
            ("who never reads", |address| who_never_reads(address).map(drop)),
            ("slow loris", slow_loris),
            ("half frames", half_frames),
        ];
        let running = kinds.map(|(name, run)| (name, scope.spawn(move || run(address))));
        let outcomes = running.map(|(name, running)| (name, running.join()));
        stop.store(true, Ordering::Relaxed);
        (outcomes, calm.join())
    });
    for (name, outcome) in outcomes {
        outcome.map_err(|_| anyhow::anyhow!("{name} panicked"))?.context(name)?;
    }
    let (count, slowest) = calm.map_err(|_| anyhow::anyhow!("the calm client panicked"))??;
    let grown = peak.into_inner().saturating_sub(before);
    println!("memory {before} KiB before, at most {grown} KiB more");
    println!(
        "beside them {count} messages sent, received and completed, the slowest in {slowest:.1?}"
    );
    ensure!(grown < GROWTH_KIBIBYTES_MAX, "{grown} KiB more");
    ensure!(slowest < CALM_WITHIN, "the calm client waited {slowest:?}");
    let log = cluster.node_log(1);
    ensure!(!log.contains("panicked"), "{log}");
    Ok(())
}
