//! Reads and their answers, byte for byte.

use domain::DirectoryRow;
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
            ReadAnswer::Info(infos) => put!(out, 3, *infos),
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
            3 => ReadAnswer::Info(take(input)?),
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
