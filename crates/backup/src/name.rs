//! What a backup is called.

use std::fmt::{self, Display};
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// The time of a cut, and its number among those of one second: `2026-11-27T09-15-00Z`, `2026-11-27T09-15-00Z-2`.
/// Colons are no part of it, for file systems and shells. Ordered as the cuts are.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BackupName {
    second: String,
    number: u32,
}

const SECOND: &str = "0000-00-00T00-00-00Z";

impl BackupName {
    /// # Errors
    /// A time that no calendar has.
    pub(crate) fn of(taken_at_ms: u64) -> Result<BackupName, Error> {
        let at =
            i64::try_from(taken_at_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
        let at = at.ok_or(Error::Time { taken_at_ms })?;
        Ok(BackupName { second: at.strftime("%Y-%m-%dT%H-%M-%SZ").to_string(), number: 1 })
    }

    /// The one after it, of the same second.
    pub(crate) fn next(&self) -> BackupName {
        BackupName { second: self.second.clone(), number: self.number + 1 }
    }
}

impl Display for BackupName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.number {
            1 => f.write_str(&self.second),
            number => write!(f, "{}-{number}", self.second),
        }
    }
}

impl FromStr for BackupName {
    type Err = String;

    fn from_str(text: &str) -> Result<BackupName, String> {
        let wrong =
            || format!("'{text}' is no name of a backup; they are like 2026-11-27T09-15-00Z");
        let (second, rest) = text.split_at_checked(SECOND.len()).ok_or_else(wrong)?;
        let fits =
            |(c, like): (char, char)| if like == '0' { c.is_ascii_digit() } else { c == like };
        let number = match rest {
            "" => Some(1),
            _ => rest
                .strip_prefix('-')
                .and_then(|number| number.parse().ok())
                .filter(|number| *number > 1),
        };
        let name = BackupName { second: second.to_owned(), number: number.ok_or_else(wrong)? };
        // One backup, one name: "-02" is none.
        match second.chars().zip(SECOND.chars()).all(fits) && name.to_string() == text {
            true => Ok(name),
            false => Err(wrong()),
        }
    }
}

impl TryFrom<String> for BackupName {
    type Error = String;

    fn try_from(text: String) -> Result<BackupName, String> {
        text.parse()
    }
}

impl From<BackupName> for String {
    fn from(name: BackupName) -> String {
        name.to_string()
    }
}
