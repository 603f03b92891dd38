//! The near end of a group: what the rest of the node holds to talk to its driver.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use domain::{Command, Effect, EntityId, GroupId, Line, QueueId, ReceiverId, Refusal};
use engine::{Candidate, Carried};
use parking_lot::{Mutex, RwLock};
use replication::{Leadership, LedGroup};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::Instant;

use crate::exchange::{Attach, NotRead, Read, ReadReply, Reply};
use crate::leader::claims::LockClaims;
use crate::leader::entity_tallies::EntityTallies;
use crate::leader::feature_level::FeatureLevel;
use crate::leader::inputs::{InputReceiver, InputSender, inputs};

/// Reads that wait for the group's reader, who answers hundreds after one round to a quorum. More are
/// answered as not done, and come again.
const READS_WAITING_MAX: usize = 16 * 1024;

/// What a driver is told.
pub(crate) enum Input {
    Call {
        command: Command,
        reply: Reply,
    },
    Attach(Attach),
    Credit {
        receiver: ReceiverId,
        count: u32,
    },
    Drain {
        receiver: ReceiverId,
    },
    Detach {
        receiver: ReceiverId,
    },
    /// What forwarding asked for is done, or not; and in which leadership of the driver it was asked.
    Packed {
        epoch: u64,
        queue: QueueId,
        done: bool,
    },
    Carried {
        epoch: u64,
        line: Line,
        serial: u64,
        carried: Carried,
    },
    Leadership(Leadership),
    /// Whether a majority agrees with this node's clock.
    MayStamp(bool),
    /// How many receivers are served here, by entity.
    Consumers(oneshot::Sender<BTreeMap<EntityId, u64>>),
    /// Sends the answer when everything told before is dealt with.
    Stop(oneshot::Sender<()>),
}

impl Input {
    /// Whether it comes from clients, as often as they like, and comes again if it is refused.
    pub fn is_refusable(&self) -> bool {
        match self {
            Input::Call { .. } | Input::Attach(_) | Input::Credit { .. } | Input::Drain { .. } => {
                true
            }
            Input::Detach { .. }
            | Input::Packed { .. }
            | Input::Carried { .. }
            | Input::Leadership(_)
            | Input::MayStamp(_)
            | Input::Consumers(_)
            | Input::Stop(_) => false,
        }
    }
}

/// A group this node holds a replica of.
pub(crate) struct Group {
    pub id: GroupId,
    inputs: InputSender,
    reads: mpsc::Sender<(Read, ReadReply)>,
    /// Effects since the driver last looked, in order; collected while this node leads.
    effects: Mutex<Vec<Effect>>,
    leads: AtomicBool,
    /// Of the leadership that this node has, its term and its begin.
    led: Mutex<Option<(u64, Instant)>>,
    /// Nodes for whose want of disk space nothing is taken in (QUOTA-37); mostly none.
    short_of_space: RwLock<Vec<u64>>,
    /// Set by the timekeeper.
    may_stamp: AtomicBool,
    /// Other voters with whose clocks a majority agrees.
    agreeing: Mutex<BTreeSet<u64>>,
    /// This node's replica has no vote, or is to go: who leads, others know better.
    guest: AtomicBool,
    /// What the driver named as idle since the coordinator last asked.
    idle: Mutex<BTreeMap<EntityId, Candidate>>,
    /// Permits one look at `effects`.
    pub stirred: Notify,
    /// Permits one look at what leaders before left: the driver leads.
    pub took_over: Notify,
    /// Permits one look at what is on its way from here, or was when the driver came to lead.
    pub departing: Notify,
    /// What open transactions wait with, while this node leads.
    pub claims: LockClaims,
    /// The node's.
    pub feature_level: Arc<FeatureLevel>,
}

/// The far ends of a group's queues.
pub(crate) struct Ends {
    pub inputs: InputReceiver,
    pub reads: mpsc::Receiver<(Read, ReadReply)>,
}

impl Group {
    pub fn new(group: GroupId, feature_level: Arc<FeatureLevel>) -> (Group, Ends) {
        let (inputs, inputs_end) = inputs();
        let (reads, reads_end) = mpsc::channel(READS_WAITING_MAX);
        let group = Group {
            id: group,
            inputs,
            reads,
            effects: Mutex::default(),
            leads: AtomicBool::new(false),
            led: Mutex::default(),
            short_of_space: RwLock::default(),
            may_stamp: AtomicBool::new(false),
            agreeing: Mutex::default(),
            guest: AtomicBool::new(false),
            idle: Mutex::default(),
            stirred: Notify::new(),
            took_over: Notify::new(),
            departing: Notify::new(),
            claims: LockClaims::default(),
            feature_level,
        };
        (group, Ends { inputs: inputs_end, reads: reads_end })
    }

    /// Hands something to the driver. Gives it back if the driver has ended with the node, or if too
    /// much of what may be refused waits for it.
    pub fn tell(&self, input: Input) -> Result<(), Input> {
        self.inputs.send(input)
    }

    /// How many receivers are served here, by entity; none while this node does not lead.
    pub async fn consumers(&self) -> BTreeMap<EntityId, u64> {
        let (asked, answer) = oneshot::channel();
        drop(self.tell(Input::Consumers(asked)));
        answer.await.unwrap_or_default()
    }

    /// Hands a read to the group's reader. One that finds no place was not done, and is asked for again;
    /// if the node has ended it is dropped, and so answered.
    pub fn read(&self, read: Read, reply: ReadReply) {
        if let Err(TrySendError::Full((_, reply))) = self.reads.try_send((read, reply)) {
            reply.send(Err(NotRead { leader: None }));
        }
    }

    /// Collecting effects begins before the driver scans the rows: those it sees twice do no harm,
    /// one it missed would.
    pub fn leadership(&self, leadership: Leadership) {
        self.leads.store(matches!(leadership, Leadership::Leader { .. }), Ordering::Release);
        let mut led = self.led.lock();
        *led = match (leadership, *led) {
            (Leadership::Leader { term }, Some(led)) if led.0 == term => Some(led),
            (Leadership::Leader { term }, _) => Some((term, Instant::now())),
            (Leadership::Follower { .. }, _) => None,
        };
        drop(led);
        if !self.leads() {
            self.effects.lock().clear();
            self.idle.lock().clear();
        }
        drop(self.tell(Input::Leadership(leadership)));
    }

    pub fn leads(&self) -> bool {
        self.leads.load(Ordering::Acquire)
    }

    /// Since when this node leads, if it does.
    pub fn led_group(&self) -> Option<LedGroup> {
        let (term, since) = (*self.led.lock())?;
        Some(LedGroup { group: self.id, term, led_ms: since.elapsed().as_millis() as u64 })
    }

    pub fn set_short_of_space(&self, on: Vec<u64>) {
        let mut short = self.short_of_space.write();
        if *short != on {
            tracing::debug!(group = %self.id, nodes = ?on, "short of disk space");
            *short = on;
        }
    }

    /// Why nothing is taken in now, if that is so.
    pub fn want_of_space(&self) -> Option<Refusal> {
        let short = self.short_of_space.read();
        (!short.is_empty()).then(|| Refusal::StorageFull { on: short.clone() })
    }

    /// Whether this node may stamp, and which others. The driver hears of changes only.
    pub fn let_stamp(&self, may: bool, agreeing: BTreeSet<u64>) {
        *self.agreeing.lock() = agreeing;
        if self.may_stamp.swap(may, Ordering::AcqRel) != may {
            drop(self.tell(Input::MayStamp(may)));
        }
    }

    pub fn agreeing(&self) -> BTreeSet<u64> {
        self.agreeing.lock().clone()
    }

    pub fn set_guest(&self, guest: bool) {
        self.guest.store(guest, Ordering::Release);
    }

    pub fn is_guest(&self) -> bool {
        self.guest.load(Ordering::Acquire)
    }

    pub fn may_stamp(&self) -> bool {
        self.may_stamp.load(Ordering::Acquire)
    }

    pub fn applied(&self, effects: Vec<Effect>) {
        if !self.leads() || effects.is_empty() {
            return;
        }
        let mut waiting = self.effects.lock();
        if waiting.is_empty() {
            *waiting = effects;
        } else {
            waiting.extend(effects);
        }
        drop(waiting);
        self.stirred.notify_one();
    }

    pub fn name_idle(&self, candidates: Vec<Candidate>) {
        let named = candidates.into_iter().map(|candidate| (candidate.entity, candidate));
        self.idle.lock().extend(named);
    }

    /// What is idle here, at most so many; it is named again if nothing comes of it.
    pub fn take_idle(&self, count_max: usize) -> Vec<Candidate> {
        let mut idle = self.idle.lock();
        let count = count_max.min(idle.len());
        (0..count).filter_map(|_| idle.pop_first()).map(|(_, candidate)| candidate).collect()
    }

    pub fn take_effects(&self) -> Vec<Effect> {
        std::mem::take(&mut *self.effects.lock())
    }
}

/// The groups this node holds a replica of.
pub(crate) struct Groups {
    groups: RwLock<BTreeMap<GroupId, Arc<Group>>>,
    pub feature_level: Arc<FeatureLevel>,
    /// The node's: what became of a group's messages is not forgotten when the group goes.
    pub tallies: EntityTallies,
    /// Whoever gives a new group its driver.
    created: mpsc::Sender<(Arc<Group>, Ends)>,
}

impl Groups {
    /// `tallied_max`: as [`EntityTallies::new`] has it.
    pub fn new(created: mpsc::Sender<(Arc<Group>, Ends)>, tallied_max: usize) -> Groups {
        let tallies = EntityTallies::new(tallied_max);
        Groups { groups: RwLock::default(), feature_level: Arc::default(), tallies, created }
    }

    pub fn get(&self, group: GroupId) -> Option<Arc<Group>> {
        self.groups.read().get(&group).cloned()
    }

    pub fn get_or_create(&self, group: GroupId) -> Arc<Group> {
        if let Some(group) = self.get(group) {
            return group;
        }
        let mut groups = self.groups.write();
        let group = groups.entry(group).or_insert_with(|| {
            let (group, ends) = Group::new(group, self.feature_level.clone());
            let group = Arc::new(group);
            // Without a receiver the node is ending; what is told to the group is given back.
            drop(self.created.try_send((group.clone(), ends)));
            group
        });
        group.clone()
    }

    /// Forgets a group; its driver ends once it is told to.
    pub fn remove(&self, group: GroupId) -> Option<Arc<Group>> {
        self.groups.write().remove(&group)
    }

    /// In order of group.
    pub fn all(&self) -> Vec<Arc<Group>> {
        self.groups.read().values().cloned().collect()
    }
}
