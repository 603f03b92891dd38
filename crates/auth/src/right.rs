//! What a key lets its bearers do.

/// One right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    Listen,
    Send,
    Manage,
}

impl Right {
    pub const ALL: [Right; 3] = [Right::Listen, Right::Send, Right::Manage];

    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Right::Listen => "Listen",
            Right::Send => "Send",
            Right::Manage => "Manage",
        }
    }
}

/// Rights of a key, or of a token signed with it. Manage includes the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    pub listen: bool,
    pub send: bool,
    pub manage: bool,
}

impl Rights {
    pub const ALL: Rights = Rights { listen: true, send: true, manage: true };

    pub fn allow(self, right: Right) -> bool {
        match right {
            Right::Listen => self.listen || self.manage,
            Right::Send => self.send || self.manage,
            Right::Manage => self.manage,
        }
    }

    /// These and that one.
    #[must_use]
    pub fn with(mut self, right: Right) -> Rights {
        match right {
            Right::Listen => self.listen = true,
            Right::Send => self.send = true,
            Right::Manage => self.manage = true,
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn err_17_cbs_14_a_right_allows_itself_and_manage_allows_all() {
        use Right::{Listen, Manage, Send};
        let none = Rights::default();
        for (rights, listen, send, manage) in [
            (none, false, false, false),
            (none.with(Listen), true, false, false),
            (none.with(Send), false, true, false),
            (none.with(Listen).with(Send), true, true, false),
            (none.with(Manage), true, true, true),
            (Rights::ALL, true, true, true),
        ] {
            let allowed = Right::ALL.map(|right| rights.allow(right));
            assert_eq!(allowed, [listen, send, manage], "{rights:?}");
        }
    }
}
