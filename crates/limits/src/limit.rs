//! Each limit: its name, whom it is counted for, its default, and how it is answered.

use std::time::Duration;

/// What an operation on entities or rules costs, where a message costs one (QUOTA-34).
pub const MANAGEMENT_CREDITS: u64 = 10;

/// Whom something is counted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All clients of one protocol.
    Protocol,
    /// All connections of one address; of IPv6, of one /64.
    Address,
    /// All that is proven with one key, whichever of its values and over whatever; where no key is asked for,
    /// everything.
    Key,
    Connection,
    /// Of all nodes together, by the namespace's profile.
    Namespace,
}

/// What a client is told that reaches a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// That it has as much as it may (ERR-10): nothing is to be had before it gives something back.
    Full,
    /// That it is to come again (ERR-11): nothing was done.
    Busy,
    /// Nothing: no more is read from it until there is room.
    Wait,
}

/// Who speaks with a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrontEnd {
    Amqp,
    Http,
    Grpc,
}

impl FrontEnd {
    pub const ALL: [FrontEnd; 3] = [FrontEnd::Amqp, FrontEnd::Http, FrontEnd::Grpc];

    /// As the label `protocol` has it.
    pub fn name(self) -> &'static str {
        match self {
            FrontEnd::Amqp => "amqp",
            FrontEnd::Http => "http",
            FrontEnd::Grpc => "grpc",
        }
    }

    pub(crate) fn place(self) -> usize {
        self as usize
    }
}

macro_rules! limits {
    ($($(#[$doc:meta])* $limit:ident, $name:literal, $scope:ident, $default:literal, $answer:ident, $told:literal;)*) => {
        /// Something that a client may take only so much of.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Limit {
            $($(#[$doc])* $limit),*
        }

        impl Limit {
            pub const ALL: &[Limit] = &[$(Limit::$limit),*];

            /// As metrics have it, and `[limits]` of the configuration, the first one aside.
            pub fn name(self) -> &'static str {
                match self { $(Limit::$limit => $name),* }
            }

            pub fn scope(self) -> Scope {
                match self { $(Limit::$limit => Scope::$scope),* }
            }

            /// In what the name says; 0: any number.
            pub fn default_max(self) -> u64 {
                match self { $(Limit::$limit => $default),* }
            }

            pub fn answer(self) -> Answer {
                match self { $(Limit::$limit => Answer::$answer),* }
            }

            /// What is wrong, as the beginning of a sentence that ends with the number.
            pub(crate) fn told(self) -> &'static str {
                match self { $(Limit::$limit => $told),* }
            }
        }
    };
}

// Each row: the limit, its name, whom it is counted for, its default (0: any number), how it is answered, and
// what is told.
limits! {
    /// QUOTA-13. Each protocol has a setting of its own, which has the default.
    Connections, "connections", Protocol, 0, Full,
        "this node has as many connections as it may";
    /// Half of what AMQP takes in all, so that no address takes all places.
    AddressConnections, "connections_per_address", Address, 10_000, Full,
        "this address has as many connections as it may";
    KeyConnections, "connections_per_key", Key, 10_000, Full,
        "this key has as many connections as it may";
    /// CONN-16.
    ConnectionLinks, "links_per_connection", Connection, 5_000, Full,
        "this connection has as many links as it may";
    ConnectionSessions, "sessions_per_connection", Connection, 5_000, Full,
        "this connection has as many sessions as it may";
    /// QUOTA-8: credits.
    AddressRequests, "requests_per_second_per_address", Address, 0, Busy,
        "this address asks for more in a second than it may";
    /// QUOTA-8: credits.
    KeyRequests, "requests_per_second_per_key", Key, 0, Busy,
        "this key asks for more in a second than it may";
    /// What came and is not stored or answered yet.
    ConnectionBytes, "kibibytes_in_flight_per_connection", Connection, 32_768, Wait,
        "as many KiB of this connection wait to be stored as may";
    KeyBytes, "kibibytes_in_flight_per_key", Key, 524_288, Busy,
        "as many KiB of this key wait to be stored as may";
    KeyEntities, "entities_per_minute_per_key", Key, 0, Busy,
        "this key creates more entities in a minute than it may";
    /// QUOTA-8: credits. Not a setting: each profile has its own.
    NamespaceRequests, "requests_per_second_per_namespace", Namespace, 0, Busy,
        "more is asked for in a second than its profile has";
}

impl Limit {
    pub(crate) fn place(self) -> usize {
        self as usize
    }

    /// For rates: what is granted is granted in so long.
    pub(crate) fn window(self) -> Duration {
        match self {
            Limit::KeyEntities => Duration::from_secs(60),
            _ => Duration::from_secs(1),
        }
    }
}

/// How much of each there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings([u64; Limit::ALL.len()]);

impl Default for Settings {
    fn default() -> Settings {
        let mut settings = Settings([0; Limit::ALL.len()]);
        for limit in Limit::ALL {
            settings.set(*limit, limit.default_max());
        }
        settings
    }
}

impl Settings {
    /// 0: any number.
    pub fn get(&self, limit: Limit) -> u64 {
        self.0[limit.place()]
    }

    pub fn set(&mut self, limit: Limit, max: u64) {
        self.0[limit.place()] = max;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Metrics and settings are told apart by names, and a name says what is counted for whom.
    #[test]
    fn each_limit_has_a_name_that_says_what_it_is() {
        for (place, limit) in Limit::ALL.iter().enumerate() {
            assert_eq!(limit.place(), place, "{limit:?}");
            let of = match limit.scope() {
                Scope::Protocol => "connections",
                Scope::Address => "_per_address",
                Scope::Key => "_per_key",
                Scope::Connection => "_per_connection",
                Scope::Namespace => "_per_namespace",
            };
            assert!(limit.name().ends_with(of), "{limit:?}");
            let is_rate = limit.name().contains("_per_second") || limit.name().contains("_minute");
            assert!(!is_rate || limit.answer() == Answer::Busy, "{limit:?}: a rate is waited for");
        }
    }
}
