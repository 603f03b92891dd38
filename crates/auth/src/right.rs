//! What a key lets its bearers do.

/// One right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Right {
    Listen,
    Send,
    Manage,
    /// Read what operators look at: metrics, the details of health, the cluster's status.
    Monitor,
    /// Change the cluster itself: its nodes, leaders and clock.
    Operate,
    /// Have clients meet faults.
    InjectFaults,
}

impl Right {
    pub const ALL: [Right; 6] = [
        Right::Listen,
        Right::Send,
        Right::Manage,
        Right::Monitor,
        Right::Operate,
        Right::InjectFaults,
    ];

    /// Whether it is about the cluster itself, and so never of a namespace's keys (NS-7).
    pub fn is_of_cluster(self) -> bool {
        match self {
            Right::Listen | Right::Send | Right::Manage => false,
            Right::Monitor | Right::Operate | Right::InjectFaults => true,
        }
    }

    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Right::Listen => "Listen",
            Right::Send => "Send",
            Right::Manage => "Manage",
            Right::Monitor => "Monitor",
            Right::Operate => "Operate",
            Right::InjectFaults => "InjectFaults",
        }
    }
}

/// Rights of a key, or of a token signed with it. Manage includes all but Operate, which includes
/// Monitor, and InjectFaults, which nothing includes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    pub listen: bool,
    pub send: bool,
    pub manage: bool,
    pub monitor: bool,
    pub operate: bool,
    pub inject_faults: bool,
}

impl Rights {
    pub const ALL: Rights = Rights {
        listen: true,
        send: true,
        manage: true,
        monitor: true,
        operate: true,
        inject_faults: true,
    };

    pub fn allow(self, right: Right) -> bool {
        match right {
            Right::Listen => self.listen || self.manage,
            Right::Send => self.send || self.manage,
            Right::Manage => self.manage,
            Right::Monitor => self.monitor || self.manage || self.operate,
            Right::Operate => self.operate,
            Right::InjectFaults => self.inject_faults,
        }
    }

    /// These and those.
    #[must_use]
    pub fn and(self, other: Rights) -> Rights {
        Rights {
            listen: self.listen || other.listen,
            send: self.send || other.send,
            manage: self.manage || other.manage,
            monitor: self.monitor || other.monitor,
            operate: self.operate || other.operate,
            inject_faults: self.inject_faults || other.inject_faults,
        }
    }

    /// These and that one.
    #[must_use]
    pub fn with(mut self, right: Right) -> Rights {
        match right {
            Right::Listen => self.listen = true,
            Right::Send => self.send = true,
            Right::Manage => self.manage = true,
            Right::Monitor => self.monitor = true,
            Right::Operate => self.operate = true,
            Right::InjectFaults => self.inject_faults = true,
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn err_17_cbs_14_a_right_allows_itself_and_manage_allows_all_but_to_operate() {
        use Right::{InjectFaults, Listen, Manage, Monitor, Operate, Send};
        let none = Rights::default();
        for (rights, expected) in [
            (none, [false, false, false, false, false, false]),
            (none.with(Listen), [true, false, false, false, false, false]),
            (none.with(Send), [false, true, false, false, false, false]),
            (none.with(Listen).with(Send), [true, true, false, false, false, false]),
            (none.with(Manage), [true, true, true, true, false, false]),
            (none.with(Monitor), [false, false, false, true, false, false]),
            (none.with(Operate), [false, false, false, true, true, false]),
            (none.with(InjectFaults), [false, false, false, false, false, true]),
            (Rights::ALL, [true, true, true, true, true, true]),
        ] {
            let allowed = Right::ALL.map(|right| rights.allow(right));
            assert_eq!(allowed, expected, "{rights:?}");
        }
    }
}
