//! Receivers of sessions at a leader: they wait for the next, or come with the one they hold, and are
//! handed its messages.

use domain::{Command, EntityId, ResumeSession, SessionCommand, Timestamp};

use crate::client::Client;
use crate::leader::{Leader, Reply};
use crate::random::Random;

/// What a leader's clock shows, and whether faults have ended.
#[derive(Clone, Copy)]
pub struct Moment {
    pub clock: Timestamp,
    pub peace: bool,
}

/// One client's turn. `finds`: it knows of this leader.
pub fn turn(
    client: &mut Client,
    leader: &mut Leader,
    entities: &[EntityId],
    finds: bool,
    moment: Moment,
    random: &mut Random,
) {
    if entities.is_empty() {
        return;
    }
    let Moment { clock, peace } = moment;
    if finds && client.holder.epoch != leader.epoch && (peace || random.chance(400)) {
        attach(client, leader, entities, clock, random);
    }
    if client.holder.epoch != leader.epoch {
        return;
    }
    let receiver = client.holder.receiver();
    match random.below(1_000) {
        0..300 => leader.credit(receiver, random.below(4) as u32),
        300..310 => leader.drain(receiver),
        310..320 => {
            leader.detach(receiver);
            client.holder.epoch = 0; // It will attach again.
        }
        _ => (),
    }
}

fn attach(
    client: &mut Client,
    leader: &mut Leader,
    entities: &[EntityId],
    clock: Timestamp,
    random: &mut Random,
) {
    leader.detach(client.holder.receiver());
    match client.holder.in_hand.clone() {
        Some(in_hand) => {
            let receiver = client.holder.attach(leader.epoch);
            let (entity, token) = (in_hand.entity, in_hand.token.clone());
            let arrived = client.arrived(entity);
            // LOCK-20: before anything after it is handed out.
            let resume = ResumeSession { entity, token, receiver, arrived };
            let resume = Command::Session(SessionCommand::Resume(resume));
            leader.propose_each(vec![resume], Reply::Nobody, clock, random);
            leader.hold(receiver, in_hand.entity, in_hand.token);
        }
        // Once faults have ended as well: nothing that is free is left over while somebody waits.
        None if random.chance(300) => {
            let receiver = client.holder.attach(leader.epoch);
            leader.engine.accept(receiver, random.pick(entities));
        }
        None => (),
    }
}

/// Those whose hold ended are told.
pub fn tell_lost(leader: &mut Leader, clients: &mut [Client]) {
    for (receiver, _) in leader.engine.take_lost() {
        leader.accounts.remove(&receiver);
        let client = &mut clients[receiver.node as usize];
        if client.holder.receiver() == receiver {
            client.holder.lose();
        }
    }
}
