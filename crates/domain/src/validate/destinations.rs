//! Where an entity may forward to, by what it is told alone (FWD).

use crate::{QueueProperties, Refusal};

/// FWD-2: what is created does not forward to itself, for it is not there yet.
pub fn new_forwarding(name: &str, properties: &QueueProperties) -> Result<(), Refusal> {
    let destinations = [&properties.forward_to, &properties.forward_dead_letters_to];
    if destinations.into_iter().flatten().any(|to| to.eq_ignore_ascii_case(name)) {
        let why = "an entity cannot forward to itself before it is there; set that by an update";
        return Err(Refusal::InvalidOperation { why });
    }
    Ok(())
}

/// FWD-1: what requires sessions and forwards keeps none, and so neither begins nor ends to forward.
pub fn forwarding_of_sessions(old: &QueueProperties, new: &QueueProperties) -> Result<(), Refusal> {
    match new.requires_session && old.forward_to.is_some() != new.forward_to.is_some() {
        true => {
            let why = "whether a queue that requires sessions forwards is fixed when it is created";
            Err(Refusal::InvalidOperation { why })
        }
        false => Ok(()),
    }
}

/// FWD-1.
pub(super) fn forwards_no_sessions(requires_session: bool, forwards: bool) -> Result<(), Refusal> {
    if requires_session && forwards {
        let why = "what requires sessions cannot be forwarded, unless the queue is partitioned; its dead \
                   letters can";
        return Err(Refusal::InvalidOperation { why });
    }
    Ok(())
}
