//! Deliveries of one link, gathered into requests.

use std::collections::VecDeque;

use amqp_protocol::codec::DeliveryState;
use amqp_protocol::engine::{DeliveryId, LinkId};
use domain::{NewMessage, Refusal};
use service::Error;

use super::backlog::Share;
use super::failure;
use super::note::Note;

/// Most messages of one request, and their bytes; a delivery that has more is a request by itself.
const MESSAGES_MAX: usize = 256;
const BYTES_MAX: u64 = 256 * 1024;

/// A delivery: one message, or a batch that is stored entirely or not at all.
pub(super) struct Delivered {
    /// `None`: the client settled it and wants no outcome (MSG-9).
    pub id: Option<DeliveryId>,
    /// Refused at the edge, it is still answered in its turn.
    pub messages: Result<Vec<NewMessage>, Refusal>,
    /// What it takes until it is stored, where nobody else counts it.
    pub share: Option<Share>,
}

/// What the connection is told of one delivery that was a request by itself. `id`: see [`Delivered::id`].
pub(super) fn outcome<T>(link: LinkId, id: Option<DeliveryId>, sent: Result<T, Error>) -> Note {
    let Some(id) = id else { return Note::Stored(link) };
    let state = match sent {
        Ok(_) => DeliveryState::ACCEPTED,
        Err(error) => DeliveryState::rejected(failure::error(&error)),
    };
    Note::Decided(vec![id], state)
}

pub(super) struct Waiting {
    delivered: Delivered,
    /// Not to be gathered with others: it was once, and the request was refused.
    is_alone: bool,
}

/// A request, and what is to be answered when it is.
pub(super) struct Submission {
    pub ids: Vec<Option<DeliveryId>>,
    /// The same again, in case one of them has all refused; empty where there is but one.
    copies: Vec<Vec<NewMessage>>,
    /// Of its deliveries, until it is answered.
    shares: Vec<Share>,
}

impl Waiting {
    pub fn new(delivered: Delivered) -> Waiting {
        Waiting { delivered, is_alone: false }
    }

    /// Whether it can be part of a request that holds so much already.
    fn fits(&self, messages: usize, bytes: u64) -> bool {
        let Ok(more) = &self.delivered.messages else { return false };
        !self.is_alone
            && messages + more.len() <= MESSAGES_MAX
            && bytes + bytes_of(more) <= BYTES_MAX
    }
}

impl Submission {
    pub fn is_gathered(&self) -> bool {
        !self.copies.is_empty()
    }

    /// The deliveries it was gathered of, each to be a request by itself.
    pub fn split(self) -> impl DoubleEndedIterator<Item = Waiting> {
        self.ids.into_iter().zip(self.copies).map(|(id, messages)| Waiting {
            // Few are tried again, and soon.
            delivered: Delivered { id, messages: Ok(messages), share: None },
            is_alone: true,
        })
    }
}

/// The next request: what waits, as far as it fits into one.
pub(super) fn gather(
    waiting: &mut VecDeque<Waiting>,
) -> Option<(Submission, Result<Vec<NewMessage>, Refusal>)> {
    let Waiting { delivered: Delivered { id, messages, share }, is_alone } = waiting.pop_front()?;
    let shares = Vec::from_iter(share);
    let mut submission = Submission { ids: vec![id], copies: Vec::new(), shares };
    let mut all = match messages {
        Ok(messages) => messages,
        Err(refusal) => return Some((submission, Err(refusal))),
    };
    let mut bytes = bytes_of(&all);
    while !is_alone
        && waiting.front().is_some_and(|next| next.fits(all.len(), bytes))
        && let Some(Waiting { delivered, .. }) = waiting.pop_front()
        && let Ok(messages) = delivered.messages
    {
        if submission.copies.is_empty() {
            submission.copies.push(all.clone());
        }
        bytes += bytes_of(&messages);
        all.extend_from_slice(&messages);
        submission.ids.push(delivered.id);
        submission.copies.push(messages);
        submission.shares.extend(delivered.share);
    }
    Some((submission, Ok(all)))
}

fn bytes_of(messages: &[NewMessage]) -> u64 {
    messages.iter().map(|message| u64::from(message.size_bytes)).sum()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn message(size_bytes: u32) -> NewMessage {
        NewMessage {
            content: Bytes::new(),
            size_bytes,
            header_bytes: 0,
            message_id: Some(size_bytes.to_string()),
            session_id: None,
            partition_key: None,
            ttl: None,
            scheduled_at: None,
        }
    }

    /// A delivery of so many messages of so many bytes; none: refused at the edge.
    fn waiting(shapes: &[(usize, u32)]) -> VecDeque<Waiting> {
        let delivered = |&(count, bytes): &(usize, u32)| match count {
            0 => Err(Refusal::NoSession),
            count => Ok(vec![message(bytes); count]),
        };
        let each =
            |shape| Waiting::new(Delivered { id: None, messages: delivered(shape), share: None });
        shapes.iter().map(each).collect()
    }

    /// Messages of each request that is made, 0 for a refusal, and how many deliveries it answers.
    fn gathered(mut waiting: VecDeque<Waiting>) -> Vec<(usize, usize)> {
        let shape = |(submission, messages): (Submission, Result<Vec<NewMessage>, Refusal>)| {
            (messages.map_or(0, |messages| messages.len()), submission.ids.len())
        };
        std::iter::from_fn(|| gather(&mut waiting).map(shape)).collect()
    }

    #[test]
    fn xfer_3_what_waits_is_one_request_as_far_as_it_fits() {
        for (shapes, requests) in [
            (vec![], vec![]),
            (vec![(1, 9)], vec![(1, 1)]),
            (vec![(1, 9); 300], vec![(256, 256), (44, 44)]),
            (vec![(1, 100_000); 5], vec![(2, 2), (2, 2), (1, 1)]),
            (vec![(1, 9), (300, 9), (1, 9)], vec![(1, 1), (300, 1), (1, 1)]),
            (vec![(1, 9), (2, 9), (1, 900_000)], vec![(3, 2), (1, 1)]),
            (vec![(1, 9), (0, 0), (1, 9), (1, 9)], vec![(1, 1), (0, 1), (2, 2)]),
        ] {
            assert_eq!(gathered(waiting(&shapes)), requests, "{shapes:?}");
        }
    }

    /// SEND-3: one delivery's fault is not its neighbours'.
    #[test]
    fn send_3_xfer_3_a_request_that_was_refused_is_tried_by_its_deliveries() {
        let mut waiting = waiting(&[(1, 1), (2, 2), (1, 3), (1, 4)]);
        let last = waiting.pop_back();
        let (submission, _) = gather(&mut waiting).expect("three wait");
        assert!(submission.is_gathered());
        waiting.extend(last);
        submission.split().rev().for_each(|each| waiting.push_front(each));
        let ids =
            |messages: Vec<NewMessage>| messages.into_iter().map(|message| message.message_id);
        let mut order = Vec::new();
        while let Some((submission, messages)) = gather(&mut waiting) {
            assert!(!submission.is_gathered());
            order.push(ids(messages.expect("messages")).flatten().collect::<Vec<_>>());
        }
        assert_eq!(order, [vec!["1"], vec!["2", "2"], vec!["3"], vec!["4"]]);
    }
}
