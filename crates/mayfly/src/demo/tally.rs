//! What came of the second act.

use std::fmt;
use std::time::Duration;

use crate::terminal;

/// What should have come, and what came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    pub due: u64,
    pub came: u64,
}

/// What became of the reply queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    /// The clock had passed its time.
    After(Duration),
    Never,
}

#[derive(Clone, Debug, Default)]
pub struct Tally {
    pub published: u64,
    /// By the broker's own counters.
    pub counted: u64,
    pub strong: Share,
    pub blasts: Share,
    pub in_order: Share,
    pub sessions: u64,
    /// Absent where the clock may not be moved.
    pub reply_queue: Option<Gone>,
    pub took: Duration,
}

impl Tally {
    /// Every subscription got what its rule takes, in order, and the reply queue is gone.
    pub fn balances(&self) -> bool {
        let whole = |share: Share| share.due == share.came && share.due > 0;
        self.published == self.counted
            && [self.strong, self.blasts, self.in_order].into_iter().all(whole)
            && self.reply_queue != Some(Gone::Never)
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = |f: &mut fmt::Formatter<'_>, name: &str, share: Share, note: &str| {
            let sign = if share.due == share.came { "=" } else { "≠" };
            let (came, due) = (terminal::count(share.came), terminal::count(share.due));
            writeln!(f, "{name:<34} {came:>7}  {sign} {due} {note}")
        };
        writeln!(f)?;
        let published = Share { due: self.published, came: self.counted };
        row(f, "bulletins on a topic", published, "sent")?;
        row(f, "strong (SQL filter, marked red)", self.strong, "of magnitude 4.5 and more")?;
        row(f, "quarry blasts (correlation filter)", self.blasts, "there were")?;
        let note = format!("sent, in {} sessions", self.sessions);
        row(f, "by network, each in its order", self.in_order, &note)?;
        writeln!(f, "took                                {:.1} s", self.took.as_secs_f64())?;
        match self.reply_queue {
            Some(Gone::After(after)) => writeln!(
                f,
                "the temporary reply queue           deleted itself {:.1} s after its time was over",
                after.as_secs_f64()
            )?,
            Some(Gone::Never) => {
                writeln!(f, "the temporary reply queue           IS STILL THERE")?;
            }
            None => writeln!(f, "the temporary reply queue           goes in five minutes")?,
        }
        write!(
            f,
            "{}",
            if self.balances() {
                "The second act balances."
            } else {
                "THE SECOND ACT DOES NOT BALANCE."
            }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_balances_only_if_everything_came_and_the_reply_queue_went() {
        let share = Share { due: 3, came: 3 };
        let gone = Some(Gone::After(Duration::from_secs(2)));
        let whole = Tally {
            published: 9,
            counted: 9,
            strong: share,
            blasts: share,
            in_order: share,
            sessions: 2,
            reply_queue: gone,
            took: Duration::ZERO,
        };
        assert!(whole.balances());
        assert!(Tally { reply_queue: None, ..whole.clone() }.balances());
        let short = Share { due: 3, came: 2 };
        for broken in [
            Tally { counted: 8, ..whole.clone() },
            Tally { strong: short, ..whole.clone() },
            Tally { blasts: Share::default(), ..whole.clone() },
            Tally { in_order: short, ..whole.clone() },
            Tally { reply_queue: Some(Gone::Never), ..whole.clone() },
        ] {
            assert!(!broken.balances(), "{broken:?}");
            assert!(broken.to_string().contains("DOES NOT BALANCE"));
        }
    }
}
