//! Reads of a group, answered by its leader after one read index for all that wait; a deposed
//! leader answers none.

use std::sync::Arc;

use bytes::Bytes;
use domain::{Delivery, EntityId, Key, QueueId, Refusal, Row, Rows, SequenceNumber, Timestamp};
use replication::{ProposeError, Replication};
use tokio::sync::mpsc;

use crate::clock::Clock;
use crate::exchange::{NotRead, Read, ReadAnswer, ReadReply, Received};
use crate::leader::group::Group;

/// Most reads answered after one read index.
const READS_MAX: usize = 256;
/// PEEK-4: most bytes of messages in one answer, though always one message.
const PEEK_BYTES_MAX: u64 = 1024 * 1024;

/// Answers a group's reads until the node ends.
pub(crate) async fn read_for(
    group: Arc<Group>,
    replication: Replication,
    clock: Arc<Clock>,
    mut reads: mpsc::Receiver<(Read, ReadReply)>,
) {
    let mut batch = Vec::new();
    let id = group.id;
    while reads.recv_many(&mut batch, READS_MAX).await > 0 {
        match replication.read_index(id).await {
            Ok(()) => {
                let (rows, batch) = (replication.rows(id), std::mem::take(&mut batch));
                let (group, now) = (group.clone(), clock.now());
                // Reading a backlog may wait for the disk; the runtime's threads must not.
                let answered = tokio::task::spawn_blocking(move || {
                    for (read, reply) in batch {
                        let claim = match &read {
                            Read::Claim(claim) => Some(claim.clone()),
                            _ => None,
                        };
                        let answer = answer(&rows, &|of: &_| rows.bodies(of), now, read);
                        reply.send(Ok(match (claim, answer) {
                            (Some(claim), ReadAnswer::Claimed) => match group.claims.mark(&claim) {
                                Ok(()) => ReadAnswer::Claimed,
                                Err(refusal) => ReadAnswer::Refused(refusal),
                            },
                            (_, answer) => answer,
                        }));
                    }
                });
                if answered.await.is_err() {
                    return;
                }
            }
            Err(error) => {
                let leader = match error {
                    ProposeError::NotLeader { leader } => leader,
                    ProposeError::Busy | ProposeError::Unknown => None,
                };
                batch.drain(..).for_each(|(_, reply)| reply.send(Err(NotRead { leader })));
            }
        }
    }
}

/// Reads the contents of many messages at once.
pub(crate) type Contents<'a> = &'a dyn Fn(&[(EntityId, SequenceNumber)]) -> Vec<Option<Bytes>>;

/// Reads as the rows now stand. `now`: by this node's clock.
pub(crate) fn answer(
    rows: &impl Rows,
    contents: Contents<'_>,
    now: Timestamp,
    read: Read,
) -> ReadAnswer {
    match read {
        Read::Peek { queue, touched: false, .. } if !is_covered(rows, queue.entity, now) => {
            ReadAnswer::Untouched
        }
        Read::Peek { queue, from, count_max, .. } => {
            answered(peek(rows, contents, queue, from, count_max), ReadAnswer::Messages)
        }
        Read::PeekSession { entity, token, from, count_max } => {
            let peeked = domain::peek_session(rows, entity, &token, from, count_max);
            answered(peeked, |found| ReadAnswer::Messages(with_contents(entity, contents, found)))
        }
        Read::SessionState { entity, token } => {
            answered(domain::session_state(rows, entity, &token), ReadAnswer::State)
        }
        Read::Sessions { entity, from, updated_after, count_max } => {
            let page = domain::sessions(rows, entity, from, updated_after, count_max as usize);
            answered(page, ReadAnswer::Sessions)
        }
        Read::Info { entities } => {
            let info = |entity| domain::entity_info(rows, entity);
            ReadAnswer::Info(entities.into_iter().map(info).collect())
        }
        Read::ClockOffset => ReadAnswer::ClockOffset(domain::meta(rows).clock_offset),
        // Who asks for where to forward must not hear that what is still to come is not there (FWD-8).
        Read::Resolve { .. } if domain::is_restoring(rows) => {
            ReadAnswer::Refused(domain::RESTORING)
        }
        Read::Resolve { name } => {
            ReadAnswer::Entries(domain::directory(rows, &name).into_iter().collect())
        }
        Read::Directory { kind, after, prefix, count_max } => {
            let count_max = count_max as usize;
            let page = domain::directory_page(rows, kind, after.as_deref(), &prefix, count_max);
            ReadAnswer::Entries(page)
        }
        Read::Claim(claim) => {
            let at = domain::meta(rows).last_at;
            let held = |token: &_| domain::check_held(rows, claim.queue, *token, at);
            answered(claim.tokens.iter().try_for_each(held), |()| ReadAnswer::Claimed)
        }
        Read::Rule { subscription, name } => {
            ReadAnswer::Rules(domain::rule(rows, subscription, &name).into_iter().collect())
        }
        Read::Rules { subscription, skip, count_max } => {
            match domain::rules(rows, subscription, skip as usize, count_max as usize) {
                Some(rules) => ReadAnswer::Rules(rules),
                None => ReadAnswer::Refused(domain::missing(rows, subscription)),
            }
        }
    }
}

/// Whether a peek of an entity now need not be written down first.
fn is_covered(rows: &impl Rows, entity: EntityId, now: Timestamp) -> bool {
    let now = now.plus(domain::meta(rows).clock_offset);
    domain::is_use_known(rows, entity, now)
        || match rows.get(&Key::Entity(entity)) {
            Some(Row::Entity(row)) => row.properties.status.refuses_receive(),
            _ => true,
        }
}

fn answered<T>(read: Result<T, Refusal>, answer: impl FnOnce(T) -> ReadAnswer) -> ReadAnswer {
    match read {
        Ok(found) => answer(found),
        Err(refusal) => ReadAnswer::Refused(refusal),
    }
}

/// The messages from a number on; none only if there is none, whatever is settled meanwhile: who is
/// told of none does not look further.
fn peek(
    rows: &impl Rows,
    contents: Contents<'_>,
    queue: QueueId,
    mut from: SequenceNumber,
    count_max: u32,
) -> Result<Vec<Received>, Refusal> {
    loop {
        let mut found = domain::peek(rows, queue, from, count_max)?;
        keep_what_fits(&mut found);
        let Some(last) = found.last() else { return Ok(Vec::new()) };
        from = last.sequence.next();
        let messages = with_contents(queue.entity, contents, found);
        if !messages.is_empty() {
            return Ok(messages);
        }
    }
}

/// One at least, however large it is.
fn keep_what_fits(deliveries: &mut Vec<Delivery>) {
    let mut bytes = 0;
    let fits = deliveries.iter().position(|delivery| {
        bytes += u64::from(delivery.size_bytes);
        bytes > PEEK_BYTES_MAX
    });
    deliveries.truncate(fits.unwrap_or(deliveries.len()).max(1));
}

/// Messages found, as many as fit into one answer.
fn with_contents(
    entity: EntityId,
    contents: Contents<'_>,
    mut deliveries: Vec<Delivery>,
) -> Vec<Received> {
    keep_what_fits(&mut deliveries);
    // A copy's body is its topic's.
    let body = |delivery: &Delivery| (delivery.topic.unwrap_or(entity), delivery.body);
    let of: Vec<_> = deliveries.iter().map(body).collect();
    // A message settled since its row was read is left out.
    let pairs = deliveries.into_iter().zip(contents(&of));
    let present = pairs.filter_map(|(delivery, content)| Some((delivery, content?)));
    present.map(|(delivery, content)| Received { delivery, content }).collect()
}
