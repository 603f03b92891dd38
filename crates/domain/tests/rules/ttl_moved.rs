//! TTL-28, TTL-29: what becomes of a time to live on its way from one entity to another. One that a
//! message has of its own comes along; one that it had of an entity stays there.

use domain::{
    DeadlineKind, NewMessage, NewRule, QueueProperties, Span, SubQueue, SubscriptionProperties,
    TopicProperties,
};

use crate::forwards::{dead_to, to};
use crate::support::World;
use crate::table::{DAY, HOUR, MINUTE, SECOND, Sent, at, m, ms, queue};
use crate::topic::{rule, says};

/// When the message is moved, ms.
const MOVED: u64 = 2 * HOUR;

/// A way from an entity, whose default is the span, to `b`, which has none.
type Way = fn(&mut World, Span, NewMessage);

const WAYS: [(&str, Way); 9] = [
    ("forwarded", |world, default_ttl, message| {
        world.queue("a", QueueProperties { default_ttl, ..queue() });
        world.at(MOVED - SECOND).send("a", vec![message]);
        world.update("a", |p| p.forward_to = Some("b".into()));
        world.at(MOVED).forward("a");
    }),
    ("scheduled, then forwarded", |world, default_ttl, message| {
        world.queue("a", QueueProperties { default_ttl, ..to("b") });
        world.send("a", vec![message.due(MOVED)]);
        world.at(MOVED).fire("a", DeadlineKind::Scheduled);
        world.forward("a");
    }),
    ("dead-lettered", |world, default_ttl, message| {
        world.queue("a", QueueProperties { default_ttl, ..dead_to("b") });
        world.send("a", vec![message]);
        world.kill("a");
        world.at(MOVED).forward("a");
    }),
    ("expired", |world, default_ttl, message| {
        let dead_letter_on_expiration = true;
        let properties = QueueProperties { default_ttl, dead_letter_on_expiration, ..dead_to("b") };
        world.queue("a", properties);
        world.send("a", vec![message]);
        world.at(MOVED);
        let fired = [DeadlineKind::Fixed, DeadlineKind::Derived].map(|kind| world.fire("a", kind));
        if fired.iter().all(|fired| fired == "fired") {
            world.kill("a"); // It never expires.
        }
        world.forward("a");
    }),
    ("dead-lettered twice on its way", |world, default_ttl, message| {
        world.queue("c", QueueProperties { default_ttl, ..dead_to("b") });
        world.queue("a", QueueProperties { default_ttl, ..dead_to("c") });
        world.send("a", vec![message]);
        world.kill("a");
        world.at(MOVED).forward("a");
        world.kill("c");
        world.forward("c");
    }),
    ("sent via", |world, default_ttl, message| {
        world.queue("a", QueueProperties { default_ttl, ..queue() });
        world.at(MOVED).send_via("a", "b", vec![message]);
        world.transfer("a");
    }),
    ("copied by a topic", |world, default_ttl, message| {
        world.topic("t", TopicProperties { default_ttl, ..TopicProperties::default() });
        let forward_to = Some("b".into());
        let properties = SubscriptionProperties { forward_to, ..SubscriptionProperties::default() };
        world.subscription("t", "s", properties, NewRule::default());
        world.at(MOVED).send("t", vec![message]);
        world.forward("t/s");
    }),
    ("copied and dead-lettered", |world, default_ttl, message| {
        world.topic("t", TopicProperties::default());
        let properties = SubscriptionProperties {
            default_ttl,
            forward_dead_letters_to: Some("b".into()),
            ..SubscriptionProperties::default()
        };
        world.subscription("t", "s", properties, NewRule::default());
        world.send("t", vec![message]);
        world.kill("t/s");
        world.at(MOVED).forward("t/s");
    }),
    ("copied by a rule that fails", |world, default_ttl, message| {
        world.topic("t", TopicProperties { default_ttl, ..TopicProperties::default() });
        let forward_dead_letters_to = Some("b".into());
        let properties =
            SubscriptionProperties { forward_dead_letters_to, ..SubscriptionProperties::default() };
        world.subscription("t", "s", properties, rule("fails", "n / 0 = 1"));
        let NewMessage { ttl, .. } = message;
        world.at(MOVED).send("t", vec![NewMessage { ttl, ..says("n=1") }]);
        world.forward("t/s");
    }),
];

#[test]
fn ttl_28_ttl_29_its_own_comes_along_and_an_entitys_stays_there() {
    let own = ms(10 * MINUTE);
    for (way, go) in WAYS {
        for (ttl, default_ttl) in
            [(Some(own), Span::MAX), (Some(own), ms(HOUR)), (None, ms(HOUR)), (None, Span::MAX)]
        {
            let mut world = World::new(2);
            world.queue("b", queue());
            go(&mut world, default_ttl, NewMessage { ttl, ..m() });
            let told = format!("{way}, of its own {ttl:?}, of the entity {default_ttl:?}");
            assert_eq!(world.look("b"), "1", "{told}");
            let queue = world.main("b");
            let seen = world.peeked(queue, "b").remove(0);
            let expires_at = ttl.map(|ttl| at(MOVED + ttl.0));
            assert_eq!((seen.ttl, seen.expires_at), (ttl, expires_at), "{told}");
            // And so it lives, in an entity without a default.
            world.at(MOVED + DAY);
            for kind in [DeadlineKind::Fixed, DeadlineKind::Derived] {
                world.fire("b", kind);
            }
            let left = if ttl.is_some() { "" } else { "1" };
            assert_eq!(world.look("b"), left, "{told}");
        }
    }
}

/// TTL-18: in the dead-letter queue itself both are told, and a destination with a default has its own.
#[test]
fn ttl_18_ttl_28_a_default_is_information_where_it_was_and_the_next_one_holds_there() {
    let mut world = World::new(2);
    world.queue("b", QueueProperties { default_ttl: ms(MINUTE), ..queue() });
    world.queue("a", QueueProperties { default_ttl: ms(HOUR), ..queue() });
    world.send("a", vec![m()]);
    world.kill("a");
    let dead = world.dead("a");
    let seen = world.peeked(dead, "a").remove(0);
    assert_eq!((seen.ttl, seen.expires_at), (Some(ms(HOUR)), Some(at(HOUR))));
    world.update("a", |p| p.forward_dead_letters_to = Some("b".into()));
    world.at(MOVED).forward("a");
    let domain::Outcome::Acquired { deliveries, .. } = world.take("b", SubQueue::Main) else {
        panic!("not taken")
    };
    let told = (deliveries[0].ttl, deliveries[0].expires_at);
    assert_eq!(told, (Some(ms(MINUTE)), Some(at(MOVED + MINUTE))));
}
