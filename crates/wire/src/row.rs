//! Row values. A value opens with its format; rows that say everything by their key have none, a
//! body is the message's content, which names its own, and a session's state is the client's bytes.

use bytes::Bytes;
use domain::{
    ClusterRow, Counts, DeadlineRow, DocumentRow, DocumentText, EndedCreationRow, EntityRow,
    EntityState, EvaluationError, FaultRuleRow, GroupRow, HiddenEntity, JoinTokenRow, Key,
    Lifetime, LockRow, MatchProgress, MessageRow, Meta, NamespaceIdleRow, NamespaceRow,
    NamespaceState, NodeState, ProducerRow, Profile, RelocationRow, RelocationState, RestoringRow,
    Row, RulePart, ScheduledRow, TokenUse, Unmatched, UnmatchedRow,
};

use crate::codec::{Random, choice, record};
use crate::{Codec, Error, Reader};

/// The format a row's first byte names.
const FORMAT: u8 = 1;

/// A row's value. Its key's table says which variant it is.
pub fn encode_row(row: &Row) -> Vec<u8> {
    let mut out = Vec::with_capacity(match row {
        Row::Body(content) | Row::SessionState(content) => content.len(),
        _ => 64,
    });
    put_row(row, &mut out);
    out
}

/// Appends a row's value to a buffer.
pub fn put_row(row: &Row, out: &mut Vec<u8>) {
    fn put(row: &impl Codec, out: &mut Vec<u8>) {
        out.push(FORMAT);
        row.put(out);
    }
    match row {
        Row::Body(content) => out.extend_from_slice(content),
        Row::Message(row) => put(row, out),
        Row::Lock(row) => put(row, out),
        Row::EntityState(row) => put(row, out),
        Row::Returned | Row::Deadline(None) | Row::DuplicateTime | Row::ProducerSeen => (),
        Row::Deadline(Some(row)) => put(row, out),
        Row::SessionMessage | Row::SessionLocked => (),
        Row::SessionState(state) => out.extend_from_slice(state),
        Row::Subscription | Row::Sweep { topic: None } => (),
        Row::Sweep { topic: Some(topic) } => put(topic, out),
        Row::Meta(row) => put(row, out),
        Row::Entity(row) => put(row, out),
        Row::Scheduled(row) => put(row, out),
        Row::DuplicateId { accepted_at, sequence } => put(&(*accepted_at, *sequence), out),
        Row::Producer(row) => put(row, out),
        Row::Outcome(row) => put(row, out),
        Row::Cluster(row) => put(row, out),
        Row::Directory(row) => put(row, out),
        Row::Node(row) => put(row, out),
        Row::Group(row) => put(row, out),
        Row::Session(row) => put(row, out),
        Row::SessionHeld(row) => put(row, out),
        Row::SessionFree(row) => put(row, out),
        Row::Rule(row) => put(row, out),
        Row::BodyCopies(copies) => put(copies, out),
        Row::Shipment(row) => put(row, out),
        Row::Parked(numbers) => put(numbers, out),
        Row::Arrival(row) => put(row, out),
        Row::NodeState(state) => put(state, out),
        Row::Moves(count) => put(count, out),
        Row::JoinToken(row) => put(row, out),
        Row::Unmatched(row) => put(row, out),
        Row::Founders(directories) => put(directories, out),
        Row::Restoring(row) => put(row, out),
        Row::Relocation(row) => put(row, out),
        Row::FaultRules(rules) => put(rules, out),
        Row::EndedCreations(rows) => put(rows, out),
        Row::Namespace(row) => put(row, out),
        Row::NamespaceIdle(row) => put(row, out),
        Row::Document(row) => put(row, out),
    }
}

/// The row of `key`, from its value. A body or a state is copied, once.
pub fn decode_row(key: &Key, value: &[u8]) -> Result<Row, Error> {
    let mut input = Reader::borrowed(value);
    let row = match key {
        Key::Body(..) => return Ok(Row::Body(Bytes::copy_from_slice(value))),
        Key::SessionState(..) => return Ok(Row::SessionState(Bytes::copy_from_slice(value))),
        Key::Message(..) => Row::Message(take(&mut input)?),
        Key::Lock(..) => Row::Lock(take(&mut input)?),
        Key::EntityState(_) => Row::EntityState(take(&mut input)?),
        Key::Returned(..) => Row::Returned,
        Key::Deadline(..) if input.remaining() == 0 => Row::Deadline(None),
        Key::Deadline(..) => Row::Deadline(Some(take(&mut input)?)),
        Key::DuplicateTime(..) => Row::DuplicateTime,
        Key::Sweep(_) if input.remaining() == 0 => Row::Sweep { topic: None },
        Key::Sweep(_) => Row::Sweep { topic: Some(take(&mut input)?) },
        Key::ProducerSeen(..) => Row::ProducerSeen,
        Key::Meta => Row::Meta(take(&mut input)?),
        Key::Entity(_) => Row::Entity(take(&mut input)?),
        Key::Scheduled(..) => Row::Scheduled(take(&mut input)?),
        Key::DuplicateId(..) => {
            let (accepted_at, sequence) = take(&mut input)?;
            Row::DuplicateId { accepted_at, sequence }
        }
        Key::Producer(_) => Row::Producer(take(&mut input)?),
        Key::Outcome(..) => Row::Outcome(take(&mut input)?),
        Key::Cluster => Row::Cluster(take(&mut input)?),
        Key::Directory(_) => Row::Directory(take(&mut input)?),
        Key::Node(_) => Row::Node(take(&mut input)?),
        Key::Group(_) => Row::Group(take(&mut input)?),
        Key::Session(..) => Row::Session(take(&mut input)?),
        Key::SessionMessage(..) => Row::SessionMessage,
        Key::SessionHeld(..) => Row::SessionHeld(take(&mut input)?),
        Key::SessionFree(..) => Row::SessionFree(take(&mut input)?),
        Key::SessionLocked(..) => Row::SessionLocked,
        Key::Subscription(..) => Row::Subscription,
        Key::Rule(..) => Row::Rule(take(&mut input)?),
        Key::BodyCopies(..) => Row::BodyCopies(take(&mut input)?),
        Key::Shipment(..) => Row::Shipment(take(&mut input)?),
        Key::Parked(..) => Row::Parked(take(&mut input)?),
        Key::Arrival(..) => Row::Arrival(take(&mut input)?),
        Key::NodeState(_) => Row::NodeState(take(&mut input)?),
        Key::Moves(_) => Row::Moves(take(&mut input)?),
        Key::JoinToken(_) => Row::JoinToken(take(&mut input)?),
        Key::Unmatched(..) => Row::Unmatched(take(&mut input)?),
        Key::Founders(_) => Row::Founders(take(&mut input)?),
        Key::Restoring => Row::Restoring(take(&mut input)?),
        Key::Relocation(_) => Row::Relocation(take(&mut input)?),
        Key::FaultRules => Row::FaultRules(take(&mut input)?),
        Key::EndedCreations(_) => Row::EndedCreations(take(&mut input)?),
        Key::Namespace(_) => Row::Namespace(take(&mut input)?),
        Key::NamespaceIdle(_) => Row::NamespaceIdle(take(&mut input)?),
        Key::Document(_) => Row::Document(take(&mut input)?),
    };
    input.finish()?;
    Ok(row)
}

fn take<T: Codec>(input: &mut Reader<'_>) -> Result<T, Error> {
    match input.byte()? {
        FORMAT => T::take(input),
        found => Err(Error::Newer { what: "row", found, newest: FORMAT }),
    }
}

record!(RestoringRow { restore, begun_at, has_ended });
record!(RelocationRow { number, state });
choice!(RelocationState {
    1 => Departing { to, hidden },
    2 => Arriving { hidden },
    3 => Arrived,
    4 => Gone { to },
    5 => ArrivedAt { at },
});
record!(HiddenEntity { row, state });
record!(EntityRow { name, properties, specifics, created_at, updated_at });
record!(EntityState {
    next_sequence,
    fresh_head,
    returned,
    returned_low,
    available,
    dead_letter_deferred,
    transfer_dead_letter_deferred,
    counts,
    size_bytes,
    scheduled_next,
    fixed_next,
    derived_cursor,
    derived_next,
    duplicate_next,
    accessed_at,
    last_use,
    sessions,
    forwarding,
} then unmatched);
record!(Unmatched { count, bytes, head, since });
record!(UnmatchedRow {
    accepted_at,
    size_bytes,
    header_bytes,
    ttl,
    session,
    was_scheduled,
    travel,
    progress,
});
record!(MatchProgress { subscription, order, plain, failed, actions });
record!(EvaluationError { part, text });
choice!(RulePart { 0 => Filter, 1 => Action });
record!(Counts {
    accepted,
    active,
    scheduled,
    deferred,
    dead_lettered,
    completed,
    cancelled,
    expired,
    deleted,
    published,
    transfer,
    transfer_dead_lettered,
    moved,
});
choice!(Lifetime {
    0 => Derived,
    1 => Fixed { ttl, expires_at },
    2 => Inherited { ttl, expires_at },
});
record!(ScheduledRow { due, accepted_at, size_bytes, header_bytes, ttl, session, travel });
record!(DeadlineRow { body, size_bytes });
record!(ProducerRow { first, highest, seen });
record!(ClusterRow { cluster_id, data_groups, replication_factor, next_entity, feature_level });
record!(GroupRow { replicas });
choice!(NodeState { 0 => Draining, 1 => Removed, 2 => Maintenance });
record!(JoinTokenRow { secret_hash, expires_at, node, used });
record!(FaultRuleRow { name, text, added_at, ends_at });
record!(EndedCreationRow { request, ended_at });
impl Codec for DocumentText {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }

    fn take(input: &mut Reader<'_>) -> Result<DocumentText, Error> {
        Codec::take(input).map(DocumentText)
    }
}
record!(DocumentRow { name, text, created_at, modified_at });
choice!(NamespaceState { 0 => Ready, 1 => Deleting });
choice!(Profile { 0 => SelfHosted, 1 => Basic, 2 => Standard, 3 => Premium });
record!(NamespaceIdleRow { request, window, used_until, is_sealed });
record!(TokenUse { node, at, request });

/// The last fields came later: they are absent where they say nothing, and so the row stands at the end of its input.
impl Codec for Meta {
    fn put(&self, out: &mut Vec<u8>) {
        let Meta { last_at, clock_offset, producers, unbroken_since, cut, level } = self;
        last_at.put(out);
        clock_offset.put(out);
        producers.put(out);
        unbroken_since.put(out);
        if (*cut, *level) != (0, 0) {
            cut.put(out);
        }
        if *level != 0 {
            level.put(out);
        }
    }

    fn take(input: &mut Reader<'_>) -> Result<Meta, Error> {
        let mut meta = Meta {
            last_at: Codec::take(input)?,
            clock_offset: Codec::take(input)?,
            producers: Codec::take(input)?,
            unbroken_since: Codec::take(input)?,
            ..Meta::default()
        };
        if input.remaining() > 0 {
            meta.cut = Codec::take(input)?;
        }
        if input.remaining() > 0 {
            meta.level = Codec::take(input)?;
        }
        Ok(meta)
    }
}

/// A nonce is random, hence not a varint.
impl Codec for LockRow {
    fn put(&self, out: &mut Vec<u8>) {
        let LockRow { nonce, until, receiver } = *self;
        Random(nonce).put(out);
        until.put(out);
        receiver.put(out);
    }

    fn take(input: &mut Reader<'_>) -> Result<LockRow, Error> {
        Ok(LockRow {
            nonce: Random::take(input)?.0,
            until: Codec::take(input)?,
            receiver: Codec::take(input)?,
        })
    }
}

/// In the byte of a namespace's state: bits, of which one stored before there were profiles has the first at most.
const DELETING: u8 = 1;
const HAS_PROFILE: u8 = 2;
const CHANGES_PROFILE: u8 = 4;

impl Codec for NamespaceRow {
    fn put(&self, out: &mut Vec<u8>) {
        self.name.put(out);
        self.request.put(out);
        self.created_at.put(out);
        self.modified_at.put(out);
        self.authorization_rules.put(out);
        let profile = Some(self.profile).filter(|profile| *profile != Profile::default());
        let flag = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        out.push(
            flag(self.state == NamespaceState::Deleting, DELETING)
                | flag(profile.is_some(), HAS_PROFILE)
                | flag(self.next_profile.is_some(), CHANGES_PROFILE),
        );
        for profile in [profile, self.next_profile].into_iter().flatten() {
            profile.put(out);
        }
    }

    fn take(input: &mut Reader<'_>) -> Result<NamespaceRow, Error> {
        let name = Codec::take(input)?;
        let request = Codec::take(input)?;
        let created_at = Codec::take(input)?;
        let modified_at = Codec::take(input)?;
        let authorization_rules = Codec::take(input)?;
        let flags = input.byte()?;
        if flags & !(DELETING | HAS_PROFILE | CHANGES_PROFILE) != 0 {
            return Err(Error::corrupt("unknown flag of a namespace"));
        }
        let state = match flags & DELETING != 0 {
            true => NamespaceState::Deleting,
            false => NamespaceState::Ready,
        };
        let mut next = |bit: u8| match flags & bit != 0 {
            true => Profile::take(input).map(Some),
            false => Ok(None),
        };
        let (profile, next_profile) =
            (next(HAS_PROFILE)?.unwrap_or_default(), next(CHANGES_PROFILE)?);
        Ok(NamespaceRow {
            name,
            request,
            created_at,
            modified_at,
            authorization_rules,
            state,
            profile,
            next_profile,
        })
    }
}

/// In the byte that says whether a message is deferred: bits, of which a message stored before there
/// were others has the lowest only.
const DEFERRED: u8 = 1;
const WAS_SCHEDULED: u8 = 2;

impl Codec for MessageRow {
    fn put(&self, out: &mut Vec<u8>) {
        self.body.put(out);
        self.size_bytes.put(out);
        self.header_bytes.put(out);
        let flag = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        out.push(flag(self.deferred, DEFERRED) | flag(self.was_scheduled, WAS_SCHEDULED));
        self.delivery_count.put(out);
        self.enqueued_at.put(out);
        self.lifetime.put(out);
        self.session.put(out);
        self.overlay.put(out);
        self.travel.put(out);
    }

    fn take(input: &mut Reader<'_>) -> Result<MessageRow, Error> {
        let body = Codec::take(input)?;
        let size_bytes = Codec::take(input)?;
        let header_bytes = Codec::take(input)?;
        let flags = input.byte()?;
        if flags & !(DEFERRED | WAS_SCHEDULED) != 0 {
            return Err(Error::corrupt("unknown flag of a message"));
        }
        Ok(MessageRow {
            body,
            size_bytes,
            header_bytes,
            deferred: flags & DEFERRED != 0,
            was_scheduled: flags & WAS_SCHEDULED != 0,
            delivery_count: Codec::take(input)?,
            enqueued_at: Codec::take(input)?,
            lifetime: Codec::take(input)?,
            session: Codec::take(input)?,
            overlay: Codec::take(input)?,
            travel: Codec::take(input)?,
        })
    }
}
