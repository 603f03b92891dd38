//! Entities on several groups, and who brings messages from one to another: what a leader's service
//! does, one step at a time, so that any step can be lost, repeated or late.

use std::collections::BTreeMap;

use domain::{
    Arrive, Arriving, Command, CreateQueue, Destination, EntityId, ForwardCommand, GroupId, Key,
    Line, NewMessage, Outcome, QueueId, QueueProperties, Row, Send, Ship, Shipped, Span,
    SystemProperty, Unpark, UpdateQueue,
};

use crate::support::{EPOCH, Group, content};

/// See the file's head. Entities are named by single letters.
pub struct World {
    pub groups: Vec<Group>,
    pub ids: BTreeMap<String, Destination>,
    next: u64,
}

impl World {
    pub fn new(groups: usize) -> World {
        let groups = (0..groups).map(|_| Group::empty()).collect();
        World { groups, ids: BTreeMap::new(), next: 1 }
    }

    pub fn at(&mut self, ms: u64) -> &mut World {
        self.groups.iter_mut().for_each(|group| group.now = EPOCH.plus(Span(ms)));
        self
    }

    /// An id for a name, on one of the groups in turn.
    pub fn name(&mut self, name: &str) -> Destination {
        let group = GroupId((self.next % self.groups.len() as u64) as u16);
        let of = Destination { entity: EntityId(self.next), group };
        self.next += 1;
        self.ids.insert(name.to_owned(), of);
        of
    }

    /// What has a name now.
    pub fn known(&self, name: &str) -> Option<Destination> {
        self.ids.get(&name.to_ascii_lowercase()).copied()
    }

    pub fn id(&self, name: &str) -> Destination {
        self.ids[name]
    }

    pub fn group(&mut self, of: Destination) -> &mut Group {
        &mut self.groups[usize::from(of.group.0)]
    }

    pub fn apply(&mut self, name: &str, command: Command) -> Outcome {
        let of = self.id(name);
        self.group(of).apply(command)
    }

    pub fn queue(&mut self, name: &str, properties: QueueProperties) {
        let of = self.name(name);
        let (name, properties) = (name.to_owned(), Box::new(properties));
        let create = CreateQueue { entity: of.entity, name, properties };
        assert_eq!(self.group(of).apply(Command::CreateQueue(create)), Outcome::Done);
    }

    pub fn update(&mut self, name: &str, change: impl FnOnce(&mut QueueProperties)) -> Outcome {
        let of = self.id(name);
        let info = domain::entity_info(&self.group(of).rows, of.entity).expect("the queue");
        let mut properties = Box::new(info.properties);
        change(&mut properties);
        let update = UpdateQueue { origin: None, entity: of.entity, properties };
        self.group(of).apply(Command::UpdateQueue(update))
    }

    /// Its name is free.
    pub fn delete(&mut self, name: &str) {
        let of = self.id(name);
        let delete = Command::DeleteEntity { entity: of.entity };
        assert_eq!(self.group(of).apply(delete), Outcome::Done);
        self.ids.remove(name);
    }

    pub fn send(&mut self, name: &str, messages: Vec<NewMessage>) -> Outcome {
        let entity = self.id(name).entity;
        self.apply(name, Command::Send(Send { origin: None, entity, messages }))
    }

    /// The name a queue's messages go to.
    pub fn to(&mut self, source: Destination, queue: QueueId) -> Option<String> {
        let info = domain::entity_info(&self.group(source).rows, queue.entity)?;
        info.properties.forwards(queue.sub).map(str::to_owned)
    }

    /// Packs one shipment, if there is anything to pack.
    pub fn ship(&mut self, source: Destination, queue: QueueId, count_max: u32, again: bool) {
        let Some(to) = self.to(source, queue) else { return };
        let destination = self.known(&to);
        let ship = Ship { queue, to, destination, count_max, bytes_max: u32::MAX, again };
        let outcome = self.group(source).apply(Command::Forward(ForwardCommand::Ship(ship)));
        assert!(matches!(outcome, Outcome::Fired(_)), "{outcome:?}");
    }

    pub fn unpark(&mut self, source: Destination, queue: QueueId, count_max: u32) {
        let unpark = ForwardCommand::Unpark(Unpark { queue, count_max });
        assert_eq!(self.group(source).apply(Command::Forward(unpark)), Outcome::Done);
    }

    /// Shipments of a queue that are not settled, in order.
    pub fn shipments(&mut self, source: Destination, queue: QueueId) -> Vec<u64> {
        let serials = self.group(source).rows.0.keys().filter_map(|key| match key {
            Key::Shipment(of, serial) if *of == queue => Some(*serial),
            _ => None,
        });
        serials.collect()
    }

    /// The shipments of the line that one of them is in, in order.
    fn line(&mut self, source: Destination, queue: QueueId, serial: u64) -> Option<Vec<u64>> {
        let serials = self.shipments(source, queue);
        let rows = &self.group(source).rows;
        let line = |serial: u64| match rows.0.get(&Key::Shipment(queue, serial)) {
            Some(Row::Shipment(row)) => Some(Line::of(queue, row.destination)),
            _ => None,
        };
        let of = line(serial)?;
        Some(serials.into_iter().filter(|serial| line(*serial) == Some(of)).collect())
    }

    /// A shipment as it is brought to its destination, and where that is.
    pub fn arrival(
        &mut self,
        source: Destination,
        queue: QueueId,
        serial: u64,
    ) -> Option<(Destination, Arrive)> {
        let line = self.line(source, queue, serial)?;
        let first = line.first().copied()?;
        let before = line.into_iter().take_while(|before| *before < serial).last();
        let rows = &self.group(source).rows;
        let shipment = domain::shipment(rows, queue, serial)?;
        let messages: Vec<Arriving> = shipment
            .messages
            .into_iter()
            .map(|outgoing| {
                let delivery = &outgoing.delivery;
                let owner = delivery.topic.unwrap_or(queue.entity);
                let Some(Row::Body(content)) = rows.0.get(&Key::Body(owner, delivery.body)) else {
                    panic!("{} has no body", delivery.sequence)
                };
                let mut texts = content::read(content).unwrap_or_default().texts;
                let mut take = |property| texts.remove(&property);
                let overlay = delivery.overlay.as_ref();
                let message = NewMessage {
                    content: content.clone(),
                    size_bytes: delivery.size_bytes,
                    header_bytes: outgoing.header_bytes,
                    message_id: take(SystemProperty::MessageId),
                    session_id: take(SystemProperty::SessionId),
                    partition_key: None,
                    ttl: outgoing.ttl,
                    scheduled_at: overlay.and_then(|overlay| overlay.scheduled_at),
                };
                Arriving { message, travel: outgoing.travel }
            })
            .collect();
        let arrive = Arrive {
            source: queue,
            serial,
            settled_to: first - 1,
            follows: before.unwrap_or_default(),
            destination: shipment.destination.entity,
            count: messages.len() as u32,
            skipped: 0,
            messages,
        };
        Some((shipment.destination, arrive))
    }

    pub fn arrive(&mut self, to: Destination, arrive: Arrive) -> Outcome {
        self.group(to).apply(Command::Forward(ForwardCommand::Arrive(arrive)))
    }

    /// Settles a shipment with what its destination said, if that was all of it.
    pub fn settle(&mut self, source: Destination, queue: QueueId, serial: u64, said: Outcome) {
        let Some(row) = self.group(source).rows.0.get(&Key::Shipment(queue, serial)) else {
            return;
        };
        let Row::Shipment(row) = row else { panic!("{row:?}") };
        let count = row.numbers.len() as u32;
        let Outcome::Arrived { done, refused } = said else { return };
        if done < count {
            return;
        }
        let shipped = ForwardCommand::Shipped(Shipped { queue, serial, refused });
        assert_eq!(self.group(source).apply(Command::Forward(shipped)), Outcome::Done);
    }

    /// Brings the shipments of a queue to where they go, in order, and settles them.
    pub fn carry(&mut self, source: Destination, queue: QueueId) {
        for serial in self.shipments(source, queue) {
            let Some((to, arrive)) = self.arrival(source, queue, serial) else { continue };
            let (count, mut before) = (arrive.count, 0);
            let said = loop {
                match self.arrive(to, arrive.clone()) {
                    Outcome::Arrived { done, .. } if done < count && done > before => before = done,
                    said => break said,
                }
            };
            self.settle(source, queue, serial, said);
        }
    }
}
