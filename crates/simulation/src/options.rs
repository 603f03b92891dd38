//! What kind of life a simulated cluster has.

use clap::ValueEnum;

use crate::bug::Bug;
use crate::random::Random;

/// Sizes and odds. The defaults are what the integration test runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Steps of trouble; then faults end and the cluster is given time to settle.
    pub ticks: u32,
    pub groups: u16,
    /// Nodes; each holds a replica of every group.
    pub nodes: u8,
    pub queues_per_group: u8,
    /// Topics, each with some subscriptions, of which one requires sessions; and queues that do.
    pub topics_per_group: u8,
    pub session_queues_per_group: u8,
    /// Leaders limit the matching of an entry to this at most (RULE-41); 0: they do not.
    pub match_units: u64,
    pub clients_per_group: u8,
    /// Odds in a thousand, per tick.
    pub crash: u32,
    pub step_down: u32,
    /// Odds in a thousand, per packet or proposal.
    pub packet_lost: u32,
    pub proposal_dropped: u32,
    /// Odds in a thousand, per request: sent again although nothing went wrong.
    pub repeat: u32,
    /// Odds in a thousand, per tick: the power goes, of some nodes or all; a disk is wiped, flips a
    /// bit, is cut short; a node is cut off from the others; a wall clock goes wrong or is mended.
    pub power: u32,
    pub wiped: u32,
    pub flipped: u32,
    pub cut: u32,
    pub cut_off: u32,
    pub clock_set: u32,
    /// Odds in a thousand, per client and tick.
    pub client_crash: u32,
    /// Odds in a thousand, per life: disks of a majority are wiped in it.
    pub majority_wiped: u32,
    /// `clock.offset_max`, ms.
    pub clock_offset_ms_max: u64,
    /// Furthest a wall clock is off that is right, ms.
    pub clock_error_ms_max: u64,
    /// Each seed draws faults, their odds and kinds of entities of its own, out of and around these.
    pub swarm: bool,
    /// A mistake to be found.
    pub bug: Option<Bug>,
}

impl Options {
    /// Short, small lives in which much goes wrong with nodes, disks and clocks: for what rests on
    /// agreement rather than on what is agreed.
    pub fn storm() -> Options {
        Options {
            groups: 1,
            queues_per_group: 2,
            clients_per_group: 3,
            crash: 15,
            step_down: 20,
            power: 15,
            wiped: 15,
            flipped: 5,
            cut: 15,
            cut_off: 25,
            clock_set: 40,
            majority_wiped: 100,
            ..Options::default()
        }
    }

    /// Lives of topics and of sessions, in which nodes fall more often than usual.
    pub fn topics() -> Options {
        Options {
            groups: 1,
            queues_per_group: 1,
            topics_per_group: 2,
            session_queues_per_group: 1,
            match_units: 200,
            crash: 10,
            step_down: 10,
            client_crash: 8,
            ..Options::default()
        }
    }

    /// A life drawn around this one: together such lives reach what an even mixture of all faults and
    /// all kinds of entities does not.
    pub(crate) fn drawn(self, random: &mut Random) -> Options {
        let mut odds = |usual: u32| match random.below(4) {
            0 => 0,
            1 => usual,
            2 => usual / 2,
            _ => usual * 3,
        };
        let drawn = Options {
            crash: odds(self.crash),
            step_down: odds(self.step_down),
            packet_lost: odds(self.packet_lost),
            proposal_dropped: odds(self.proposal_dropped),
            repeat: odds(self.repeat),
            power: odds(self.power),
            wiped: odds(self.wiped),
            flipped: odds(self.flipped),
            cut: odds(self.cut),
            cut_off: odds(self.cut_off),
            clock_set: odds(self.clock_set),
            client_crash: odds(self.client_crash),
            ..self
        };
        Options {
            groups: random.between(1, 2) as u16,
            queues_per_group: random.between(1, 3) as u8,
            topics_per_group: random.between(0, 2) as u8,
            session_queues_per_group: random.between(0, 2) as u8,
            match_units: random.pick(&[0, 1, 100, 1000]),
            clients_per_group: random.between(2, 5) as u8,
            ..drawn
        }
    }

    /// What the command line is told to run such a life; none if it cannot be told.
    pub fn flags(&self) -> Option<String> {
        let Options { ticks, nodes, swarm, bug, .. } = *self;
        let lives = [
            (Options::default(), ""),
            (Options::storm(), "--storm "),
            (Options::topics(), "--topics "),
        ];
        let is_like = |life: &Options| Options { ticks, nodes, swarm, bug, ..*life } == *self;
        let (life, flag) = lives.iter().find(|(life, _)| is_like(life))?;
        let mut flags = (*flag).to_owned();
        if ticks != life.ticks {
            flags += &format!("--ticks {ticks} ");
        }
        if nodes != life.nodes {
            flags += &format!("--nodes {nodes} ");
        }
        if swarm {
            flags += "--swarm ";
        }
        if let Some(bug) = bug.and_then(|bug| bug.to_possible_value()) {
            flags += &format!("--bug {} ", bug.get_name());
        }
        Some(flags)
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            ticks: 250,
            groups: 2,
            nodes: 3,
            queues_per_group: 3,
            topics_per_group: 0,
            session_queues_per_group: 0,
            match_units: 0,
            clients_per_group: 5,
            crash: 6,
            step_down: 6,
            packet_lost: 30,
            proposal_dropped: 20,
            repeat: 15,
            power: 3,
            wiped: 3,
            flipped: 3,
            cut: 3,
            cut_off: 6,
            clock_set: 20,
            client_crash: 3,
            majority_wiped: 20,
            clock_offset_ms_max: 500,
            clock_error_ms_max: 20,
            swarm: false,
            bug: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_life_is_told_to_the_command_line() {
        let bug = Some(Bug::VotesBeforeSync);
        for (options, expected) in [
            (Options::default(), Some("")),
            (Options::storm(), Some("--storm ")),
            (Options { nodes: 1, ..Options::topics() }, Some("--topics --nodes 1 ")),
            (Options { nodes: 5, ..Options::storm() }, Some("--storm --nodes 5 ")),
            (
                Options { ticks: 9, bug, ..Options::default() },
                Some("--ticks 9 --bug votes-before-sync "),
            ),
            (Options { swarm: true, ..Options::storm() }, Some("--storm --swarm ")),
            (Options { crash: 999, ..Options::storm() }, None),
        ] {
            assert_eq!(options.flags().as_deref(), expected, "{options:?}");
        }
    }
}
