//! Reads and their answers, byte for byte.

use domain::{DirectoryRow, EntityInfo, Idleness};
use wire::{Codec, Error, Reader};

use super::take;
use crate::exchange::{LockClaim, Read, ReadAnswer, TransactionId};

impl Codec for Read {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Read::Peek { queue, from, count_max, touched } => {
                put!(out, 1, *queue, *from, *count_max, *touched)
            }
            Read::Info { entities } => put!(out, 2, *entities),
            Read::Resolve { name } => put!(out, 3, *name),
            Read::Directory { kind, after, prefix, count_max } => {
                put!(out, 4, *kind, *after, *prefix, *count_max)
            }
            Read::Rules { subscription, skip, count_max } => {
                put!(out, 8, *subscription, *skip, *count_max)
            }
            Read::Rule { subscription, name } => put!(out, 9, *subscription, *name),
            Read::ClockOffset => out.push(10),
            Read::PeekSession { entity, token, from, count_max } => {
                put!(out, 5, *entity, *token, *from, *count_max)
            }
            Read::SessionState { entity, token } => put!(out, 6, *entity, *token),
            Read::Sessions { entity, from, updated_after, count_max } => {
                put!(out, 7, *entity, *from, *updated_after, *count_max)
            }
            Read::Claim(LockClaim { transaction, operation, queue, tokens, settles }) => {
                put!(
                    out,
                    50,
                    transaction.node,
                    transaction.id,
                    *operation,
                    *queue,
                    *tokens,
                    *settles
                )
            }
        }
    }

    fn take(input: &mut Reader<'_>) -> Result<Read, Error> {
        Ok(match input.byte()? {
            1 => {
                let (queue, from) = take(input)?;
                let (count_max, touched) = take(input)?;
                Read::Peek { queue, from, count_max, touched }
            }
            2 => Read::Info { entities: take(input)? },
            3 => Read::Resolve { name: take(input)? },
            4 => Read::Directory {
                kind: take(input)?,
                after: take(input)?,
                prefix: take(input)?,
                count_max: take(input)?,
            },
            5 => Read::PeekSession {
                entity: take(input)?,
                token: take(input)?,
                from: take(input)?,
                count_max: take(input)?,
            },
            6 => Read::SessionState { entity: take(input)?, token: take(input)? },
            7 => Read::Sessions {
                entity: take(input)?,
                from: take(input)?,
                updated_after: take(input)?,
                count_max: take(input)?,
            },
            8 => Read::Rules {
                subscription: take(input)?,
                skip: take(input)?,
                count_max: take(input)?,
            },
            9 => Read::Rule { subscription: take(input)?, name: take(input)? },
            10 => Read::ClockOffset,
            50 => Read::Claim(LockClaim {
                transaction: TransactionId { node: take(input)?, id: take(input)? },
                operation: take(input)?,
                queue: take(input)?,
                tokens: take(input)?,
                settles: take(input)?,
            }),
            _ => return Err(Error::Corrupt { what: "unknown tag of a read" }),
        })
    }
}

impl Codec for ReadAnswer {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            ReadAnswer::Messages(messages) => put!(out, 1, *messages),
            ReadAnswer::Refused(refusal) => put!(out, 2, *refusal),
            ReadAnswer::Untouched => out.push(8),
            ReadAnswer::Info(infos) => {
                out.push(3);
                (infos.len() as u64).put(out);
                for info in infos {
                    out.push(u8::from(info.is_some()));
                    info.iter().for_each(|info| put_info(info, out));
                }
            }
            ReadAnswer::Entries(rows) => put!(out, 4, *rows),
            ReadAnswer::State(state) => put!(out, 5, *state),
            ReadAnswer::Sessions(page) => put!(out, 6, *page),
            ReadAnswer::Rules(rules) => put!(out, 7, *rules),
            ReadAnswer::ClockOffset(offset) => put!(out, 9, *offset),
            ReadAnswer::Claimed => out.push(50),
        }
    }

    fn take(input: &mut Reader<'_>) -> Result<ReadAnswer, Error> {
        Ok(match input.byte()? {
            1 => ReadAnswer::Messages(take(input)?),
            2 => ReadAnswer::Refused(take(input)?),
            3 => {
                let count = input.count()?;
                let info = |_| if take(input)? { take_info(input).map(Some) } else { Ok(None) };
                ReadAnswer::Info((0..count).map(info).collect::<Result<_, _>>()?)
            }
            4 => ReadAnswer::Entries(take::<Vec<DirectoryRow>>(input)?),
            5 => ReadAnswer::State(take(input)?),
            6 => ReadAnswer::Sessions(take(input)?),
            7 => ReadAnswer::Rules(take(input)?),
            8 => ReadAnswer::Untouched,
            9 => ReadAnswer::ClockOffset(take(input)?),
            50 => ReadAnswer::Claimed,
            _ => return Err(Error::Corrupt { what: "unknown tag of a read's answer" }),
        })
    }
}

fn put_info(info: &EntityInfo, out: &mut Vec<u8>) {
    let EntityInfo {
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
    } = info;
    name.put(out);
    properties.put(out);
    specifics.put(out);
    (*created_at, *updated_at).put(out);
    accessed_at.put(out);
    counts.put(out);
    (*available, *available_dead_letter).put(out);
    available_transfer_dead_letter.put(out);
    size_bytes.put(out);
    next_sequence.put(out);
    last_use.put(out);
    match idleness {
        Idleness::Never => out.push(0),
        Idleness::Scheduled => out.push(1),
        Idleness::Since { since, due } => put!(out, 2, (*since, *due)),
    }
}

fn take_info(input: &mut Reader<'_>) -> Result<EntityInfo, Error> {
    let (name, properties) = take(input)?;
    let specifics = take(input)?;
    let (created_at, updated_at) = take(input)?;
    let (accessed_at, counts) = take(input)?;
    let (available, available_dead_letter) = take(input)?;
    let available_transfer_dead_letter = take(input)?;
    let (size_bytes, next_sequence) = take(input)?;
    let last_use = take(input)?;
    let idleness = match input.byte()? {
        0 => Idleness::Never,
        1 => Idleness::Scheduled,
        2 => {
            let (since, due) = take(input)?;
            Idleness::Since { since, due }
        }
        _ => return Err(Error::Corrupt { what: "unknown tag of an entity's idleness" }),
    };
    Ok(EntityInfo {
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
    })
}
