//! Log entries. The log outlives the binary: a released tag keeps its meaning, a field more is a
//! new variant or a new format of the entry.

use bytes::Bytes;
use domain::{
    Acquire, Admit, CancelScheduled, CatalogCommand, Command, CreateQueue, CreateSubscription,
    CreateTopic, Creation, DeadlineKind, DeleteBatch, Depart, DirectoryRow, DirectoryState,
    Disposition, EntityKind, EntityStatus, Entry, Fire, FireLocks, ForwardCommand, GroupId, Key,
    Leave, NewMessage, NewNamespace, NodeRow, Operation, PutRule, QueueProperties, ReceiveDeferred,
    Refuse, RelocationCommand, RemoveRule, Renew, Restore, Row, Seal, Select, Send, SendVia,
    Settle, Settlement, SubscriptionProperties, TopicCommand, TopicProperties, UpdateQueue,
    UpdateSubscription, UpdateTopic,
};

use crate::authorization::described;
use crate::codec::{choice, put_slice, record};
use crate::key::{GROUP_BYTES, put_key, take_key};
use crate::row::{decode_row, put_row};
use crate::{Codec, Error, Reader};

/// The format an entry's first byte names.
const FORMAT: u8 = 1;

/// Encodes an entry for the log.
pub fn encode_entry(entry: &Entry) -> Bytes {
    let mut out = Vec::with_capacity(32 + entry.commands.iter().map(estimate_bytes).sum::<usize>());
    out.push(FORMAT);
    entry.put(&mut out);
    out.into()
}

/// Decodes an entry. Message contents are slices of `bytes`: they keep all of it in memory.
pub fn decode_entry(bytes: Bytes) -> Result<Entry, Error> {
    let mut input = Reader::new(&bytes);
    match input.byte()? {
        FORMAT => {
            let entry = Entry::take(&mut input)?;
            input.finish()?;
            Ok(entry)
        }
        found => Err(Error::Newer { what: "log entry", found, newest: FORMAT }),
    }
}

/// Enough room for most commands, so that the buffer is allocated once.
fn estimate_bytes(command: &Command) -> usize {
    match command {
        Command::Send(send) => estimate_send_bytes(&send.messages),
        Command::Commit(commit) => {
            let operations = commit.operations.iter();
            operations.fold(64, |sum, operation| {
                sum + match operation {
                    Operation::Send(Send { messages, .. })
                    | Operation::SendVia(SendVia { messages, .. }) => estimate_send_bytes(messages),
                    _ => 64,
                }
            })
        }
        Command::Forward(
            ForwardCommand::Arrive(arrive) | ForwardCommand::ArriveBehind { arrive, .. },
        ) => {
            let messages = arrive.messages.iter();
            64 + messages.map(|arriving| arriving.message.content.len() + 112).sum::<usize>()
        }
        Command::Restore(Restore { rows, .. })
        | Command::Relocate(RelocationCommand::Admit(Admit { rows, .. })) => {
            64 + rows.iter().map(|(_, row)| 64 + content_bytes(row)).sum::<usize>()
        }
        Command::Settle(settle) => 40 + settle.settlements.len() * 20,
        Command::FireLocks(fire) => 8 + fire.locks.len() * 24,
        _ => 64,
    }
}

fn content_bytes(row: &Row) -> usize {
    match row {
        Row::Body(content) | Row::SessionState(content) => content.len(),
        _ => 64,
    }
}

fn estimate_send_bytes(messages: &[NewMessage]) -> usize {
    let texts = |message: &NewMessage| {
        [&message.message_id, &message.session_id, &message.partition_key]
            .into_iter()
            .flatten()
            .map(String::len)
            .sum::<usize>()
    };
    let messages = messages.iter();
    40 + messages.map(|message| message.content.len() + texts(message) + 48).sum::<usize>()
}

record!(Entry { at, seed, commands });
choice!(Command {
    1 => CreateQueue(create),
    2 => UpdateQueue(update),
    3 => DeleteEntity { entity },
    4 => Send(send),
    5 => Acquire(acquire),
    6 => Settle(settle),
    7 => Renew(renew),
    8 => CancelScheduled(cancel),
    9 => ReceiveDeferred(receive),
    10 => DeleteBatch(delete),
    11 => Fire(fire),
    12 => FireLocks(fire),
    13 => Sweep,
    14 => AdvanceClock { by },
    15 => Catalog(command),
    16 => Refuse(refuse),
    17 => RaiseClock { to },
    18 => Session(command),
    20 => Topic(command),
    40 => Forward(command),
    22 => Touch { entity },
    23 => Seal(seal),
    24 => Beat,
    50 => Commit(commit),
    60 => Select(select),
    61 => LimitMatching { units_max },
    62 => Cut { number },
    63 => Restore(restore),
    64 => Relocate(command),
    70 => ReachLevel { level },
});
choice!(TopicCommand {
    1 => Create(create),
    2 => Update(update),
    3 => CreateSubscription(create),
    4 => UpdateSubscription(update),
    5 => PutRule(put),
    6 => RemoveRule(remove),
});

choice!(RelocationCommand { 1 => Depart(depart), 2 => Admit(admit), 3 => Leave(leave) });
record!(Depart { entity, to });
record!(Admit { entity, number, at, cut, rows, is_last });
record!(Leave { entity, number });
record!(Restore { restore, is_last, rows });

/// A row as the database has it, of a group that whoever takes it in says.
impl Codec for (Key, Row) {
    fn put(&self, out: &mut Vec<u8>) {
        let (key, row) = self;
        let mut bytes = Vec::new();
        put_key(GroupId::CATALOG, key, &mut bytes);
        put_slice(&bytes[GROUP_BYTES..], out);
        bytes.clear();
        put_row(row, &mut bytes);
        put_slice(&bytes, out);
    }

    fn take(input: &mut Reader<'_>) -> Result<(Key, Row), Error> {
        let key = take_key(input.slice()?)?;
        let row = decode_row(&key, input.slice()?)?;
        Ok((key, row))
    }
}

record!(CreateTopic { entity, name, properties });
record!(UpdateTopic { origin, entity, properties });
record!(CreateSubscription { entity, topic, name, properties, rule });
record!(UpdateSubscription { origin, entity, properties });
record!(PutRule { origin, entity, rule, replace });
record!(RemoveRule { origin, entity, name });

record!(CreateQueue { entity, name, properties });
record!(UpdateQueue { origin, entity, properties });
record!(Send { origin, entity, messages });
record!(NewMessage {
    content,
    size_bytes,
    header_bytes,
    message_id,
    session_id,
    partition_key,
    ttl,
    scheduled_at,
});
record!(Acquire { queue, receiver, count_max, bytes_max });
record!(Settle { origin, queue, settlements, atomic });
record!(Settlement { token, disposition });
choice!(Disposition {
    1 => Complete,
    2 => Abandon { properties },
    3 => Defer { properties },
    4 => DeadLetter { reason, description, properties },
    5 => Release,
    40 => Withheld,
});
record!(Renew { origin, queue, tokens });
record!(CancelScheduled { origin, entity, numbers });
record!(Select { origin, queue, receiver, numbers });
record!(ReceiveDeferred { origin, queue, receiver, numbers });
record!(DeleteBatch { origin, queue, count_max, before });
record!(Fire { entity, kind, count_max });
record!(FireLocks { locks });
record!(Refuse { origin, refusal });
record!(Seal { entity, idle_since });
choice!(DeadlineKind { 0 => Scheduled, 1 => Fixed, 2 => Derived, 3 => Duplicate, 4 => Matching });

described!(QueueProperties {
    lock_duration,
    max_size_megabytes,
    max_message_size_kilobytes,
    requires_duplicate_detection,
    duplicate_detection_window,
    requires_session,
    default_ttl,
    auto_delete_on_idle,
    dead_letter_on_expiration,
    max_delivery_count,
    status,
    user_metadata;
    enable_batched_operations, authorization_rules;
    forward_to,
    forward_dead_letters_to;
    1 => support_ordering,
    2 => enable_partitioning,
    4 => enable_express,
});
described!(TopicProperties {
    max_size_megabytes,
    max_message_size_kilobytes,
    requires_duplicate_detection,
    duplicate_detection_window,
    default_ttl,
    auto_delete_on_idle,
    status,
    user_metadata;
    enable_batched_operations, authorization_rules;
    support_ordering,
    filter_before_publishing;
    2 => enable_partitioning,
    4 => enable_express,
    8 => enable_subscription_partitioning,
});
record!(SubscriptionProperties {
    lock_duration,
    requires_session,
    default_ttl,
    auto_delete_on_idle,
    dead_letter_on_expiration,
    dead_letter_on_filter_errors,
    max_delivery_count,
    status,
    user_metadata,
    enable_batched_operations,
    forward_to,
    forward_dead_letters_to,
});
choice!(EntityStatus { 0 => Active, 1 => Disabled, 2 => SendDisabled, 3 => ReceiveDisabled });

choice!(CatalogCommand {
    1 => Found { cluster_id, data_groups, replication_factor, nodes },
    2 => Create { request, name, properties },
    3 => Created { name, entity },
    4 => Delete { name },
    5 => Deleted { name, entity },
    6 => SetNode { node, row },
    7 => CreateTopic { request, name, properties },
    8 => CreateSubscription { request, topic, name, properties, rule },
    10 => Seal { name, entity, idle_since },
    11 => Spare { name, entity, idle_since },
    12 => Withdraw { name, entity },
    13 => AddNode { node, row },
    14 => Drain { node, cancel },
    15 => Remove { node, dead },
    16 => MoveReplica { group, from, to, moves },
    17 => CreateJoinToken { id, secret_hash, lasts, node },
    18 => RevokeJoinToken { id },
    19 => Join { token, secret_hash, request, node, row },
    20 => RaiseFeatureLevel { level, nodes },
    21 => SetMaintenance { node, on },
    22 => AddGroups { data_groups, directories },
    23 => OpenGroups { data_groups },
    24 => BeginRestore { restore, taken_at },
    25 => RestoreNames { restore, rows },
    26 => EndRestore { restore, next_entity },
    27 => SetGroup { name, entity, from, group },
    28 => PutFaultRule { name, text, lasts },
    29 => RemoveFaultRules { name },
    30 => CreateNamespace { request, name, authorization_rules },
    31 => UpdateNamespace { request, name, authorization_rules },
    32 => DeleteNamespace { request, name, force },
    33 => NamespaceDeleted { request, name },
    34 => RestoreNamespaces { restore, rows },
    41 => SetNamespaceIdle { request, name, window },
    42 => UseNamespace { request, name, until },
    43 => SealNamespace { request, name },
    44 => DeleteIdleNamespace { request, name },
    35 => CreateNamespaceOf { request, new },
    36 => ChangeProfile { request, name, profile },
    37 => SettleProfile { request, name, profile, fits },
    50 => PutDocument { name, text, is_new },
    51 => RemoveDocument { name },
});
record!(NewNamespace { name, profile, auto_delete_on_idle, authorization_rules });
record!(NodeRow { peer_address, grpc_address, http_address });
record!(DirectoryRow { entity, group, name, kind, request, state });
choice!(DirectoryState { 0 => Creating { what }, 1 => Ready, 2 => Deleting, 3 => Sealing { idle_since } });
choice!(Creation {
    0 => Queue { properties },
    1 => Topic { properties },
    2 => Subscription { topic, properties, rule },
});
choice!(EntityKind { 0 => Queue, 1 => Topic, 2 => Subscription });
