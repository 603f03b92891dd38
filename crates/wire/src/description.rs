//! Descriptions of entities, as one node tells them to another.

use domain::{EntityInfo, Idleness};

use crate::codec::{choice, record};

record!(EntityInfo {
    name,
    properties,
    specifics,
    created_at,
    updated_at,
    accessed_at,
    counts,
    available,
    available_dead_letter,
    available_transfer_dead_letter,
    size_bytes,
    next_sequence,
    last_use,
    idleness,
});
choice!(Idleness { 0 => Never, 1 => Scheduled, 2 => Since { since, due } });
