//! Every message arrives exactly once and in order, whatever the windows, credits, frame sizes and
//! reads.

use proptest::prelude::*;

use super::*;
use crate::codec::DeliveryState;

#[derive(Clone, Debug)]
struct Plan {
    client: Limits,
    server: Limits,
    credit: u32,
    /// Bytes of each message, per link.
    to_server: Vec<Vec<usize>>,
    to_client: Vec<Vec<usize>>,
    /// How many bytes are carried at a time, in turn.
    reads: Vec<usize>,
}

fn limits() -> impl Strategy<Value = Limits> {
    (512..3000u32, 1..20u32, 1..20u32, 1..9usize, 100..5000usize).prop_map(
        |(frame_bytes_max, incoming_window, unsettled, outgoing, output_bytes_max)| Limits {
            frame_bytes_max,
            incoming_window,
            incoming_unsettled_max: unsettled,
            outgoing_unsettled_max: outgoing,
            output_bytes_max,
            ..Limits::default()
        },
    )
}

fn sizes() -> impl Strategy<Value = Vec<Vec<usize>>> {
    let size = prop_oneof![4 => 0..200usize, 1 => 200..9000usize];
    prop::collection::vec(prop::collection::vec(size, 0..30), 1..4)
}

fn plan() -> impl Strategy<Value = Plan> {
    let reads = prop::collection::vec(1..5000usize, 1..20);
    (limits(), limits(), 1..30u32, sizes(), sizes(), reads).prop_map(
        |(client, server, credit, to_server, to_client, reads)| Plan {
            client,
            server,
            credit,
            to_server,
            to_client,
            reads,
        },
    )
}

/// One direction of one link.
struct Lane {
    sender: LinkId,
    receiver: LinkId,
    sizes: Vec<usize>,
    sent: usize,
    arrived: usize,
    settled: usize,
}

fn content(index: usize, size: usize) -> Vec<u8> {
    (0..size).map(|at| (index * 31 + at) as u8).collect()
}

impl Lane {
    fn fill(&mut self, connection: &mut Connection) {
        while self.sent < self.sizes.len() && connection.room(self.sender) > 0 {
            let payload = content(self.sent, self.sizes[self.sent]);
            connection.send(self.sender, &message(self.sent as u32, payload)).unwrap();
            self.sent += 1;
        }
    }

    fn arrive(&mut self, delivery: &Delivery) {
        let expected = content(self.arrived, self.sizes[self.arrived]);
        assert_eq!(delivery.payload.as_deref(), Ok(&expected[..]), "message {}", self.arrived);
        assert_eq!(delivery.tag.as_bytes(), (self.arrived as u32).to_be_bytes());
        self.arrived += 1;
    }
}

/// Carries at most `bytes` one way.
fn carry(from: &mut Peer, to: &mut Peer, bytes: usize) -> usize {
    from.connection.flush();
    let output = from.connection.output();
    let count = output.chunk().len().min(bytes);
    to.input.extend_from_slice(&output.chunk()[..count]);
    output.advance(count);
    count
}

/// What both owners do with an event: the receiver of a lane settles at once, or asks for it as the SDKs
/// do, and the sender answers.
fn own(peer: &mut Peer, lanes: &mut [Lane], proposes: bool, event: Event) {
    match event {
        Event::Delivery(delivery) => {
            let lane = lanes.iter_mut().find(|lane| lane.receiver == delivery.link).unwrap();
            lane.arrive(&delivery);
            match proposes {
                true => peer.connection.propose(delivery.id, DeliveryState::ACCEPTED).unwrap(),
                false => {
                    peer.connection.settle(delivery.id, DeliveryState::ACCEPTED).unwrap();
                }
            }
        }
        Event::Disposed { id, link, settled, .. } => {
            let lane = lanes.iter_mut().find(|lane| lane.sender == link).unwrap();
            lane.settled += 1;
            if !settled {
                peer.connection.answer(id, DeliveryState::ACCEPTED).unwrap();
            }
        }
        Event::Credit { .. } | Event::Answered { .. } | Event::Settled { .. } => {}
        other => panic!("unexpected {other:?}"),
    }
}

fn exchange(plan: Plan) {
    let mut pair = Pair::opened(plan.client.clone(), plan.server.clone());
    let session = pair.session();
    let (mut up, mut down) = (Vec::new(), Vec::new());
    for (role, all, lanes) in
        [(Role::Sender, &plan.to_server, &mut up), (Role::Receiver, &plan.to_client, &mut down)]
    {
        for (index, sizes) in all.iter().enumerate() {
            let name = format!("{role:?}{index}");
            let (ours, theirs) = pair.link(session, attach(&name, role));
            let (sender, receiver) =
                if role == Role::Sender { (ours, theirs) } else { (theirs, ours) };
            let receiving = match role {
                Role::Sender => &mut pair.server.connection,
                Role::Receiver => &mut pair.client.connection,
            };
            receiving.grant(receiver, plan.credit).unwrap();
            let sizes = sizes.clone();
            lanes.push(Lane { sender, receiver, sizes, sent: 0, arrived: 0, settled: 0 });
        }
    }
    let done = |lanes: &[Lane]| lanes.iter().all(|lane| lane.settled == lane.sizes.len());
    let mut idle = 0;
    for bytes in plan.reads.iter().cycle() {
        up.iter_mut().for_each(|lane| lane.fill(&mut pair.client.connection));
        down.iter_mut().for_each(|lane| lane.fill(&mut pair.server.connection));
        let Pair { client, server, now } = &mut pair;
        let moved = carry(client, server, *bytes) + carry(server, client, *bytes);
        while let Some(event) = server.connection.poll(&mut server.input, *now) {
            own(server, if is_down(&event) { &mut down } else { &mut up }, false, event);
        }
        while let Some(event) = client.connection.poll(&mut client.input, *now) {
            let lanes = if matches!(event, Event::Disposed { .. }) { &mut up } else { &mut down };
            own(client, lanes, true, event);
        }
        idle = if moved == 0 { idle + 1 } else { 0 };
        if idle > 3 {
            break;
        }
    }
    assert!(done(&up), "the server is still owed messages or verdicts");
    assert!(done(&down), "the client is still owed messages or answers");
    assert_eq!(pair.server.connection.registry.incoming.unsettled, 0);
    assert_eq!(pair.client.connection.registry.incoming.unsettled, 0);
}

/// On the server, verdicts are about what goes down to the client.
fn is_down(event: &Event) -> bool {
    matches!(event, Event::Disposed { .. })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn every_message_arrives_once_and_in_order(plan in plan()) {
        exchange(plan);
    }
}

/// CONN-9: a megabyte through the smallest frames and windows there are.
#[test]
fn conn_9_a_large_message_crosses_in_many_frames() {
    let client = Limits { frame_bytes_max: 512, incoming_window: 1, ..Limits::default() };
    exchange(Plan {
        client: client.clone(),
        server: client,
        credit: 1,
        to_server: vec![vec![1 << 20, 10]],
        to_client: vec![vec![1 << 20, 10]],
        reads: vec![100_000],
    });
}
