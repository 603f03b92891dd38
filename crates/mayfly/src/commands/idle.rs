//! `list --idle` of queues, topics and subscriptions: who was last used when, what keeps it, and when
//! it will go.

use crate::commands::entity::Entity;
use crate::input::{duration, instant};
use crate::terminal;

/// What idleness has to do with an entity.
#[derive(Clone, Debug, Default)]
pub struct Idleness {
    pub name: String,
    pub window_ms: Option<u64>,
    pub last_use_ms: u64,
    pub idle_since_ms: Option<u64>,
    pub deleted_at_ms: Option<u64>,
    pub scheduled: u64,
}

/// Instants are the cluster's, and `now_ms` is its time.
pub fn list(entities: impl Iterator<Item = Idleness>, now_ms: u64) -> anyhow::Result<()> {
    let row = |idle: Idleness| {
        let goes = match idle.deleted_at_ms {
            Some(at_ms) => instant::show_ms(at_ms),
            None => "-".to_owned(),
        };
        vec![
            idle.name.clone(),
            duration::show_ms(idle.window_ms()),
            instant::show_ms(idle.last_use_ms.min(now_ms)),
            idle.kept_by(now_ms),
            goes,
        ]
    };
    let header = ["name", "delete when idle for", "last use", "kept by", "goes"];
    terminal::line(terminal::table(&header, &[], entities.map(row).collect()))
}

impl Idleness {
    pub fn of(entity: &impl Entity) -> Idleness {
        let at = entity.standing();
        Idleness {
            name: at.name,
            window_ms: at.idle_window_ms,
            last_use_ms: at.last_use_ms,
            idle_since_ms: at.idle_since_ms,
            deleted_at_ms: at.deleted_at_ms,
            scheduled: at.scheduled,
        }
    }

    fn window_ms(&self) -> u64 {
        self.window_ms.unwrap_or(duration::NEVER_MS)
    }

    /// What keeps it from being deleted as idle, in words.
    fn kept_by(&self, now_ms: u64) -> String {
        let Some(since_ms) = self.idle_since_ms else {
            return match self.window_ms() {
                duration::NEVER_MS => "its settings".to_owned(),
                _ => format!("{} scheduled", terminal::count(self.scheduled)),
            };
        };
        if self.last_use_ms > now_ms {
            return "a receiver or a peek".to_owned();
        }
        let due_ms = self.deleted_at_ms.unwrap_or(now_ms);
        match due_ms.checked_sub(now_ms) {
            None | Some(0) => "nothing".to_owned(),
            // Nobody could use it while its group had no leader.
            Some(_) if since_ms > self.last_use_ms => "an outage".to_owned(),
            Some(left_ms) => format!("its last use, {}", left(left_ms)),
        }
    }
}

fn left(ms: u64) -> String {
    format!("for {}", duration::show_ms(ms.div_ceil(1000) * 1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_2_an_entity_says_what_keeps_it() {
        const NOW: u64 = 1_000_000;
        let idle = |last_use_ms, idle: Option<(u64, u64)>| Idleness {
            last_use_ms,
            idle_since_ms: idle.map(|(since, _)| since),
            deleted_at_ms: idle.map(|(_, due)| due),
            ..Idleness::default()
        };
        let temporary = |idle| Idleness { window_ms: Some(300_000), scheduled: 3, ..idle };
        assert_eq!(idle(5, None).kept_by(NOW), "its settings");
        assert_eq!(temporary(idle(5, None)).kept_by(NOW), "3 scheduled");
        for (last_use, since, due, expected) in [
            (NOW + 1, NOW + 1, NOW + 300_001, "a receiver or a peek"),
            (NOW - 60_000, NOW - 60_000, NOW + 240_000, "its last use, for 4m"),
            (NOW - 900_000, NOW - 60_000, NOW + 240_000, "an outage"),
            (NOW - 300_000, NOW - 300_000, NOW, "nothing"),
        ] {
            let idle = temporary(idle(last_use, Some((since, due))));
            assert_eq!(idle.kept_by(NOW), expected);
        }
    }
}
