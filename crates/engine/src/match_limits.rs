//! How much of an entry's matching each of its commands may do (RULE-41).

use domain::{Command, DeadlineKind, EntityId, Fire, ForwardCommand};

use crate::fanout::Fanout;

/// See [`Engine::match_limits`](crate::Engine::match_limits).
pub(crate) fn match_limits(
    fanout: &Fanout,
    commands: &[Command],
    units_max: u64,
) -> Vec<(usize, Command)> {
    let (mut places, mut publishes) = (Vec::new(), false);
    for (place, command) in commands.iter().enumerate() {
        match command {
            Command::Fire(Fire { kind: DeadlineKind::Matching, .. }) => {
                places.push(place);
                publishes = false;
            }
            command if is_publish(fanout, command) => {
                // One for all up to the next topic whose matching goes on.
                if !publishes {
                    places.push(place);
                }
                publishes = true;
            }
            _ => (),
        }
    }
    let share = units_max / places.len().max(1) as u64;
    let limit = || Command::LimitMatching { units_max: share.max(1) };
    places.into_iter().map(|place| (place, limit())).collect()
}

fn is_publish(fanout: &Fanout, command: &Command) -> bool {
    match command {
        Command::Fire(Fire { entity, kind: DeadlineKind::Scheduled, .. }) => {
            fanout.is_topic(*entity)
        }
        Command::Forward(ForwardCommand::Arrive(arrive)) => fanout.is_topic(arrive.destination),
        // An operation of a transaction may be about a topic's subscription; then it publishes nothing.
        command => {
            command.facts().sends_to().is_some_and(|entity: EntityId| fanout.is_topic(entity))
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::Send;

    use super::*;

    const TOPICS: [EntityId; 2] = [EntityId(1), EntityId(2)];

    fn fire(entity: u64, kind: DeadlineKind) -> Command {
        Command::Fire(Fire { entity: EntityId(entity), kind, count_max: 1 })
    }

    fn send(entity: u64) -> Command {
        Command::Send(Send { origin: None, entity: EntityId(entity), messages: Vec::new() })
    }

    /// Each row: commands, and in front of which the units are how many.
    #[test]
    fn rule_41_what_goes_on_and_what_is_published_have_equal_shares() {
        use DeadlineKind::{Fixed, Matching, Scheduled};
        let mut fanout = Fanout::default();
        TOPICS.into_iter().for_each(|topic| fanout.set(topic, 0));
        for (commands, expected) in [
            (vec![Command::Beat, send(9), fire(1, Fixed), fire(9, Scheduled)], vec![]),
            (vec![send(9), send(1), send(2), fire(1, Scheduled)], vec![(1, 100)]),
            (vec![fire(1, Matching), send(9)], vec![(0, 100)]),
            (vec![fire(1, Matching), fire(2, Matching)], vec![(0, 50), (1, 50)]),
            (
                vec![fire(1, Scheduled), fire(2, Matching), send(9), send(1), send(2)],
                vec![(0, 33), (1, 33), (3, 33)],
            ),
        ] {
            let limits = match_limits(&fanout, &commands, 100).into_iter();
            let limits: Vec<_> = limits
                .map(|(place, command)| match command {
                    Command::LimitMatching { units_max } => (place, units_max),
                    other => panic!("{other:?}"),
                })
                .collect();
            assert_eq!(limits, expected, "{commands:?}");
        }
        assert_eq!(match_limits(&fanout, &[send(1)], 0).len(), 1);
    }
}
