//! `[message_history]`: how much of what happens to messages is kept, and for how long.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::MessageHistoryConfig;
use super::file::ConfigFile;
use crate::input::duration;
use crate::serve::ServeArgs;

const MEBIBYTE: usize = 1024 * 1024;
const MEBIBYTES_MAX: usize = 65_536;
const KEEP: Duration = Duration::from_secs(3600);
const KEEP_RANGE: RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(30 * 24 * 3600);

pub(super) fn settings(
    file: &ConfigFile,
    args: &ServeArgs,
) -> Result<MessageHistoryConfig, String> {
    Ok(MessageHistoryConfig { memory_bytes: memory_bytes(file, args)?, keep: keep(file)? })
}

fn memory_bytes(file: &ConfigFile, args: &ServeArgs) -> Result<usize, String> {
    let (given, written) = (args.message_history, file.message_history.memory_mebibytes);
    let mebibytes = given.or(written).unwrap_or(0);
    if mebibytes > MEBIBYTES_MAX {
        let setting = match given {
            Some(_) => "--message-history",
            None => "message_history.memory_mebibytes",
        };
        return Err(format!("{setting} is {mebibytes}, allowed is 0 to {MEBIBYTES_MAX}"));
    }
    Ok(mebibytes * MEBIBYTE)
}

fn keep(file: &ConfigFile) -> Result<Duration, String> {
    let keep = file.message_history.keep.unwrap_or(KEEP);
    if !KEEP_RANGE.contains(&keep) {
        let show =
            |span: Duration| duration::show_ms(u64::try_from(span.as_millis()).unwrap_or(u64::MAX));
        let (least, most) = (show(*KEEP_RANGE.start()), show(*KEEP_RANGE.end()));
        return Err(format!(
            "message_history.keep is {}, allowed is {least} to {most}; to record nothing, set memory_mebibytes to 0",
            show(keep)
        ));
    }
    Ok(keep)
}
