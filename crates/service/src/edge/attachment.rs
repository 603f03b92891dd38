//! What an edge says to whoever serves one of its receivers: a driver here, or another node behind a link.

use std::sync::Arc;

use domain::{GroupId, ReceiverId};

use crate::leader::{Group, Input};
use crate::peer::{Link, Outgoing};

/// Where a receiver is attached.
#[derive(Clone)]
pub(crate) enum Attachment {
    Here(Arc<Group>),
    There(Link, GroupId),
}

impl Attachment {
    /// False: the driver has no place for it, and is told to serve the receiver no more. Its last word
    /// has the receiver attach anew, with all its credit.
    pub fn credit(&self, receiver: ReceiverId, count: u32) -> bool {
        match self {
            Attachment::Here(group) => {
                self.is_told(group, receiver, Input::Credit { receiver, count })
            }
            Attachment::There(link, group) => {
                link.send(Outgoing::Credit { group: *group, receiver, count });
                true
            }
        }
    }

    /// As [`Attachment::credit`].
    pub fn drain(&self, receiver: ReceiverId) -> bool {
        match self {
            Attachment::Here(group) => self.is_told(group, receiver, Input::Drain { receiver }),
            Attachment::There(link, group) => {
                link.send(Outgoing::Drain { group: *group, receiver });
                true
            }
        }
    }

    fn is_told(&self, group: &Group, receiver: ReceiverId, word: Input) -> bool {
        let is_told = group.tell(word).is_ok();
        if !is_told {
            self.detach(receiver);
        }
        is_told
    }

    pub fn detach(&self, receiver: ReceiverId) {
        match self {
            Attachment::Here(group) => drop(group.tell(Input::Detach { receiver })),
            Attachment::There(link, group) => {
                link.send(Outgoing::Detach { group: *group, receiver });
            }
        }
    }
}
