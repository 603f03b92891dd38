//! Profiles of namespaces: what each of Service Bus's tiers takes and refuses, in one table (QUOTA-0).

use std::fmt;
use std::str::FromStr;

use crate::{Refusal, Span};

/// The tier that a namespace behaves as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Profile {
    /// All that this broker can do.
    #[default]
    SelfHosted,
    Basic,
    Standard,
    /// Of one messaging unit.
    Premium,
}

impl Profile {
    pub const ALL: [Profile; 4] =
        [Profile::SelfHosted, Profile::Basic, Profile::Standard, Profile::Premium];

    /// By which commands and files name it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Profile::SelfHosted => "self-hosted",
            Profile::Basic => "basic",
            Profile::Standard => "standard",
            Profile::Premium => "premium",
        }
    }

    pub const fn limits(self) -> &'static ProfileLimits {
        match self {
            Profile::SelfHosted => &SELF_HOSTED,
            Profile::Basic => &BASIC,
            Profile::Standard => &STANDARD,
            Profile::Premium => &PREMIUM,
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

impl FromStr for Profile {
    type Err = Refusal;

    /// In whatever case.
    fn from_str(name: &str) -> Result<Profile, Refusal> {
        let named = |profile: &Profile| profile.as_str().eq_ignore_ascii_case(name);
        Profile::ALL.into_iter().find(named).ok_or_else(|| Refusal::ArgumentOutOfRange {
            what: "profile",
            value: name.to_owned(),
            allowed: "self-hosted, basic, standard or premium",
        })
    }
}

/// What a namespace of a profile takes, of what profiles differ in. What is the same in all of them, and what the machine
/// itself takes at the most, is in `limits`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProfileLimits {
    /// What the namespace calls itself (ATOM-23), and refusals call it: `Basic`, `Standard` or `Premium`. A program
    /// that keeps to what it knows of that tier finds it here.
    pub sku: &'static str,
    /// QUOTA-35: topics, sessions, duplicate detection, transactions, forwarding, deletion when idle, and batch deletion
    /// (BATCH-9).
    pub has_all_features: bool,
    /// PART-1: whether single entities may be partitioned.
    pub takes_partitioned: bool,
    /// QUOTA-1: most megabytes that an entity may be told to hold; a partitioned one may be told what tells so.
    pub entity_megabytes_max: u32,
    /// QUOTA-3: queues and topics of the namespace; absent: as many as there is room for.
    pub entities_max: Option<u32>,
    /// QUOTA-5, QUOTA-11: of one message, and of a session's state, where an entity is told nothing.
    pub message_kilobytes_default: u32,
    /// What an entity may be told instead, from and to.
    pub message_kilobytes: (u32, u32),
    /// QUOTA-6: bytes of one send, properties and bodies.
    pub batch_bytes_max: usize,
    /// QUOTA-9, TTL-6: the longest that an entity keeps messages, and how long where it is told nothing.
    pub default_ttl_max: Span,
    /// QUOTA-10: messages that one call deletes, where it may at all.
    pub batch_delete_max: u32,
}

const KILOBYTE: usize = 1024;

const SELF_HOSTED: ProfileLimits = ProfileLimits {
    sku: "Standard",
    has_all_features: true,
    takes_partitioned: true,
    entity_megabytes_max: 80 * 1024,
    entities_max: None,
    message_kilobytes_default: 256,
    message_kilobytes: (1, 1024),
    batch_bytes_max: 1024 * KILOBYTE,
    default_ttl_max: Span::MAX,
    batch_delete_max: 4000,
};

const BASIC: ProfileLimits = ProfileLimits {
    sku: "Basic",
    has_all_features: false,
    default_ttl_max: Span::from_secs(14 * 24 * 60 * 60),
    ..STANDARD
};

const STANDARD: ProfileLimits = ProfileLimits {
    sku: "Standard",
    has_all_features: true,
    takes_partitioned: true,
    entity_megabytes_max: 5 * 1024,
    entities_max: Some(10_000),
    message_kilobytes_default: 256,
    message_kilobytes: (256, 256),
    batch_bytes_max: 256 * KILOBYTE,
    default_ttl_max: Span::MAX,
    batch_delete_max: 500,
};

/// Messages of more than a megabyte are none of this broker's yet.
const PREMIUM: ProfileLimits = ProfileLimits {
    sku: "Premium",
    has_all_features: true,
    takes_partitioned: false,
    entity_megabytes_max: 80 * 1024,
    entities_max: Some(1_000),
    message_kilobytes_default: 1024,
    message_kilobytes: (1024, 1024),
    batch_bytes_max: 1024 * KILOBYTE,
    default_ttl_max: Span::MAX,
    batch_delete_max: 4000,
};
