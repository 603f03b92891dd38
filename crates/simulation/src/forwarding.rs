//! Forwarding between groups under everything else that goes wrong: each group's source forwards to
//! the next group's taker, and brings there what transactions send via it (FWD-14), over a road that
//! loses, repeats and delays. A text that was accepted is in one place at any time, and in the end none
//! is on its way (FWD-4).

use std::collections::{BTreeMap, BTreeSet};

use domain::{Arrive, EntityId, Line, Outcome};

use crate::group::{Group, Scene};
use crate::random::Random;
use crate::report::{Broken, Holds};

/// Beyond every entity an operator makes.
const FIRST: u64 = 1 << 40;

/// The entity of a group that forwards.
pub fn source(group: usize) -> EntityId {
    EntityId(FIRST + 2 * group as u64)
}

/// The one that is forwarded to, from the group before.
pub fn taker(group: usize) -> EntityId {
    EntityId(FIRST + 2 * group as u64 + 1)
}

/// Who sent a shipment.
#[derive(Clone, Copy, Debug)]
pub struct Ticket {
    pub group: usize,
    pub node: usize,
    pub epoch: u64,
    pub line: Line,
    pub serial: u64,
    pub count: u32,
}

/// A shipment on the road.
#[derive(Clone, Debug)]
pub struct Shipment {
    pub ticket: Ticket,
    pub to: usize,
    /// The sender's last.
    pub cut: u64,
    pub arrive: Arrive,
}

#[derive(Clone, Debug)]
enum Load {
    Shipment(Shipment),
    Answer(Ticket, Outcome),
}

/// See the file's head.
#[derive(Default)]
pub struct Forwarding {
    road: BTreeMap<(u64, u64), Load>,
    loaded: u64,
    /// The last text sent.
    text: u64,
    /// Those accepted, and how far each group's log was read for them.
    sent: BTreeSet<String>,
    read: Vec<usize>,
    /// The last cut that was begun, and those that not every group has had.
    cut: u64,
    open_cuts: BTreeSet<u64>,
    /// When a group is to be asked for which.
    asks: Vec<(u64, usize, u64)>,
    /// Those that were looked at.
    pub cuts: u64,
}

impl Forwarding {
    pub fn tick(
        &mut self,
        groups: &mut [Group],
        scene: Scene<'_>,
        lost: u32,
        random: &mut Random,
    ) -> Result<(), (u16, Broken)> {
        let lost = if scene.peace { 0 } else { lost };
        let ready: Vec<bool> = groups.iter().map(Group::has_taker).collect();
        for (index, group) in groups.iter_mut().enumerate() {
            let ready = ready[(index + 1) % ready.len()];
            for shipment in group.forward(scene, ready, &mut self.text, random) {
                self.load(Load::Shipment(shipment), scene.now, lost, random);
            }
            for (ticket, outcome) in group.take_answers() {
                self.load(Load::Answer(ticket, outcome), scene.now, lost, random);
            }
        }
        while let Some(first) = self.road.first_entry().filter(|first| first.key().0 <= scene.now) {
            match first.remove() {
                Load::Shipment(shipment) => {
                    groups[shipment.to].take_shipment(&shipment, scene, random)
                }
                Load::Answer(ticket, outcome) => {
                    groups[ticket.group].hear(ticket, &outcome, scene);
                }
            }
        }
        self.begin_cuts(groups, scene, random);
        self.check_cuts(groups).map_err(|broken| (0, broken))?;
        self.check(groups).map_err(|broken| (0, broken))
    }

    /// Whoever makes a cut asks all groups, soon or late, or dies when it has asked some.
    fn begin_cuts(&mut self, groups: &mut [Group], scene: Scene<'_>, random: &mut Random) {
        if !scene.peace && random.chance(20) {
            self.cut += 1;
            self.open_cuts.insert(self.cut);
            for group in 0..groups.len() {
                let delay = if random.chance(500) { random.between(1, 5_000) } else { 0 };
                if random.chance(900) {
                    self.asks.push((scene.now + delay, group, self.cut));
                }
            }
        }
        for (_, group, number) in self.asks.extract_if(.., |(due, ..)| *due <= scene.now) {
            groups[group].ask_for_cut(number);
        }
    }

    /// Once every group has had a cut: all that was sent before it is in it, and nothing twice.
    fn check_cuts(&mut self, groups: &mut [Group]) -> Holds {
        let open: Vec<u64> = self.open_cuts.iter().copied().collect();
        for number in open {
            let (mut sent, mut found) = (BTreeSet::new(), BTreeMap::new());
            let had =
                groups.iter().all(|group| group.as_of_cut(number, &mut sent, &mut found).is_some());
            if !had {
                continue;
            }
            self.open_cuts.remove(&number);
            self.cuts += 1;
            let first_open = self.open_cuts.first().copied().unwrap_or(self.cut + 1);
            groups.iter_mut().for_each(|group| group.forget_cuts(first_open - 1));
            for text in &sent {
                match found.get(text) {
                    None => return Err(broken_cut(format!("{text} is not in cut {number}"))),
                    Some((0..=1, 0..=1)) => (),
                    Some(places) => {
                        let what = format!("{text} is in {places:?} places of cut {number}");
                        return Err(broken_cut(what));
                    }
                }
            }
            if let Some(text) = found.keys().find(|text| !sent.contains(*text)) {
                return Err(broken_cut(format!("{text} came behind cut {number}, and is in it")));
            }
        }
        Ok(())
    }

    fn load(&mut self, load: Load, now: u64, lost: u32, random: &mut Random) {
        if random.chance(lost) {
            return;
        }
        let delay = if random.chance(50) { random.between(50, 5_000) } else { random.below(20) };
        self.loaded += 2;
        if random.chance(lost) {
            self.road.insert((now + random.between(1, 9_000), self.loaded), load.clone());
        }
        self.road.insert((now + delay, self.loaded + 1), load);
    }

    /// Wherever something happened: at most one place has a text to give, and some place has it.
    fn check(&mut self, groups: &[Group]) -> Holds {
        self.read.resize(groups.len(), 0);
        let mut moved = false;
        for (group, read) in groups.iter().zip(&mut self.read) {
            let before = std::mem::replace(read, group.texts_sent(*read, &mut self.sent));
            moved |= before < *read;
        }
        if !moved {
            return Ok(());
        }
        let found = found(groups);
        for text in &self.sent {
            match found.get(text) {
                None => return Err(broken(format!("{text} is lost"))),
                Some((0..=1, 0..=1)) => (),
                Some(places) => return Err(broken(format!("{text} is in {places:?} places"))),
            }
        }
        match found.len() == self.sent.len() {
            true => Ok(()),
            false => Err(broken("something is there that nobody sent".to_owned())),
        }
    }

    /// Whether nothing is on its way that could arrive.
    pub fn is_settled(&self, groups: &[Group], scene: Scene<'_>) -> bool {
        self.road.is_empty() && groups.iter().all(|group| group.has_forwarded(scene))
    }

    /// At the end: nothing is on its way.
    pub fn check_settled(&self, groups: &[Group]) -> Result<(), (u16, Broken)> {
        let found = found(groups);
        match found.iter().find(|(_, (_, away))| *away > 0) {
            Some((text, _)) => Err((0, broken(format!("{text} never arrived")))),
            None => Ok(()),
        }
    }

    /// Texts that were accepted to be forwarded.
    pub fn count(&self) -> u64 {
        self.sent.len() as u64
    }
}

fn found(groups: &[Group]) -> BTreeMap<String, (u32, u32)> {
    let mut found = BTreeMap::new();
    groups.iter().for_each(|group| group.texts(&mut found));
    found
}

fn broken_cut(what: String) -> Broken {
    Broken { invariant: "cuts", source: "FWD-4", what }
}

fn broken(what: String) -> Broken {
    Broken { invariant: "forwarding", source: "FWD-4, TX-12", what }
}
