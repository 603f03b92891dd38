//! A table: what a cluster has, what it is to have, and the steps between, or what stands in the way.

use definitions::{Definitions, EntityPath, Found, Options, Parameters, plan};

const PRUNE: Options = Options { prune: true, keep: false };
const KEEP: Options = Options { prune: false, keep: true };
const APPLY: Options = Options { prune: false, keep: false };

/// In TOML, without the line that begins it.
fn read(text: &str) -> Definitions {
    let text = format!("version = 1\n{text}");
    let parsed = definitions::read(&text, "f", &Parameters::default());
    let merged = parsed.and_then(|parsed| definitions::merged(vec![parsed]));
    merged.unwrap_or_else(|problems| panic!("{problems:?}\n{text}"))
}

/// What a cluster has that was made so: everything is told of its entities then.
fn cluster(text: &str) -> Found {
    let mut definitions = read(text);
    let whole = |queue: &mut definitions::EntityDefinition<_>| {
        queue.properties = domain::Patch::of(queue.properties.created());
    };
    definitions.queues.iter_mut().for_each(whole);
    for topic in &mut definitions.topics {
        topic.properties = domain::Patch::of(topic.properties.created());
    }
    for one in &mut definitions.subscriptions {
        one.entity.properties = domain::Patch::of(one.entity.properties.created());
        let default = || {
            let rule = domain::NewRule::default();
            vec![definitions::RuleDefinition { at: String::new(), rule }]
        };
        one.rules.get_or_insert_with(default);
    }
    Found { definitions, ..Found::default() }
}

fn planned(found: &Found, wanted: &str, options: Options) -> Result<Vec<String>, Vec<String>> {
    match plan(&read(wanted), found, options) {
        Ok(plan) => Ok(plan.steps.iter().map(ToString::to_string).collect()),
        Err(problems) => Err(problems.iter().map(ToString::to_string).collect()),
    }
}

fn queue(name: &str, more: &str) -> String {
    format!("[[queues]]\nname = \"{name}\"\n{more}\n")
}

fn topic(name: &str, more: &str) -> String {
    format!("[[topics]]\nname = \"{name}\"\n{more}\n")
}

fn subscription(name: &str, more: &str) -> String {
    format!("[[topics.subscriptions]]\nname = \"{name}\"\n{more}\n")
}

fn rule(name: &str, filter: &str) -> String {
    format!("[[topics.subscriptions.rules]]\nname = \"{name}\"\nfilter = {filter}\n")
}

#[test]
fn a_plan_is_the_steps_from_what_is_there() {
    let rights = |rights: &str| format!("authorization_rules = [{rights}]");
    let listen = "{ name = \"w\", rights = [\"listen\"] }";
    let send = "{ name = \"w\", rights = [\"send\"], primary_key = \"k\" }";
    for (found, wanted, options, expected) in [
        (String::new(), String::new(), APPLY, &[] as &[&str]),
        (String::new(), queue("a", "lock_duration = \"30s\""), APPLY, &["+ queue a"]),
        (queue("a", ""), queue("A", ""), APPLY, &[]),
        (queue("a", ""), queue("a", "lock_duration = \"PT1M\""), APPLY, &[]),
        (
            queue("a", "status = \"disabled\""),
            queue("a", "status = \"active\"\nlock_duration = \"30s\"\nforward_to = \"b\"")
                + &queue("b", ""),
            APPLY,
            &[
                "+ queue b",
                "~ queue a: Status Disabled -> Active, LockDuration 1m -> 30s, ForwardTo none -> b",
            ],
        ),
        // What a file does not say is left; what it takes off goes.
        (
            queue("a", "forward_to = \"b\"\nmax_delivery_count = 3") + &queue("b", ""),
            queue("a", "forward_to = \"\""),
            APPLY,
            &["~ queue a: ForwardTo b -> none"],
        ),
        // FWD-2: destinations first; a circle is closed when all of it is there.
        (
            String::new(),
            queue("a", "forward_to = \"b\"")
                + &queue("b", "forward_dead_letters_to = \"t\"")
                + &topic("t", ""),
            APPLY,
            &["+ topic t", "+ queue b", "+ queue a"],
        ),
        (
            String::new(),
            queue("a", "forward_to = \"b\"") + &queue("b", "forward_to = \"a\""),
            APPLY,
            &["+ queue a", "+ queue b", "~ queue a: ForwardTo none -> b"],
        ),
        // PART-1: room for all partitions is what was asked for.
        (
            queue("a", "enable_partitioning = true\nmax_size_megabytes = 1024"),
            queue("a", "enable_partitioning = true\nmax_size_megabytes = 1024"),
            APPLY,
            &[],
        ),
        (
            queue("a", "enable_partitioning = true\nmax_size_megabytes = 1024"),
            queue("a", "max_size_megabytes = 2048"),
            APPLY,
            &["~ queue a: MaxSizeInMegabytes 16384 -> 32768"],
        ),
        // DUP-3: so is the least window.
        (
            queue("a", "duplicate_detection_window = \"20s\""),
            queue("a", "duplicate_detection_window = \"1s\""),
            APPLY,
            &[],
        ),
        (queue("a", &rights(listen)), queue("a", &rights(listen)), APPLY, &[]),
        (queue("a", &rights(listen)), queue("a", ""), APPLY, &[]),
        (
            queue("a", &rights(listen)),
            queue("a", &rights(send)),
            APPLY,
            &["~ queue a: AuthorizationRules ~ w (listen -> send), ~ w (another key)"],
        ),
        (
            queue("a", &rights(listen)),
            queue("a", &rights("{ name = \"x\", rights = [\"manage\"] }")),
            APPLY,
            &["~ queue a: AuthorizationRules + x (listen, send, manage), - w"],
        ),
        // RULE-2, and rules that are listed are all there are.
        (topic("t", ""), topic("t", "") + &subscription("s", ""), APPLY, &["+ subscription t/s"]),
        (
            topic("t", ""),
            topic("t", "")
                + &subscription("s", "")
                + &rule("one", "\"a = 1\"")
                + &rule("two", "false"),
            APPLY,
            &["+ subscription t/s, rule one: a = 1", "+ rule t/s/two: nothing"],
        ),
        (
            topic("t", ""),
            topic("t", "") + &subscription("s", "rules = []"),
            APPLY,
            &["+ subscription t/s, rule $Default: nothing", "- rule t/s/$Default"],
        ),
        (
            topic("t", "") + &subscription("s", ""),
            topic("t", "") + &subscription("s", "") + &rule("$default", "\"1 = 1\""),
            APPLY,
            &[],
        ),
        (
            topic("t", "") + &subscription("s", "") + &rule("one", "{ subject = \"x\" }"),
            topic("t", "")
                + &subscription("s", "")
                + &rule("One", "{ subject = \"y\" }")
                + &rule("two", "true"),
            APPLY,
            &[
                "~ rule t/s/One: sys.Subject = 'x' -> sys.Subject = 'y'",
                "+ rule t/s/two: everything",
            ],
        ),
        (
            topic("t", "") + &subscription("s", "") + &rule("one", "true"),
            topic("t", "") + &subscription("s", "") + &rule("two", "true"),
            APPLY,
            &["+ rule t/s/two: everything", "- rule t/s/one"],
        ),
        // What is not named stays, unless it is asked for.
        (queue("a", "") + &topic("t", "") + &subscription("s", ""), topic("t", ""), APPLY, &[]),
        (
            queue("a", "")
                + &queue("b", "forward_to = \"a\"")
                + &topic("t", "")
                + &subscription("s", "")
                + &topic("u", "")
                + &subscription("v", ""),
            topic("t", ""),
            PRUNE,
            &["- subscription t/s", "- queue b", "- queue a", "- topic u"],
        ),
        // What is there is left, and what is missing is made.
        (
            queue("a", ""),
            queue("a", "lock_duration = \"30s\"\nrequires_session = true") + &queue("b", ""),
            KEEP,
            &["+ queue b"],
        ),
    ] {
        let steps = planned(&cluster(&found), &wanted, options);
        assert_eq!(
            steps,
            Ok(expected.iter().map(|step| step.to_string()).collect()),
            "{found}{wanted}"
        );
    }
}

/// Once its steps are done, nothing is left: here the cluster is what was wanted.
#[test]
fn what_was_applied_asks_for_nothing() {
    let wanted = queue("a", "forward_to = \"b\"\nmax_delivery_count = 3")
        + &queue("b", "authorization_rules = [{ name = \"w\", rights = [\"send\"] }]")
        + &topic("t", "filter_before_publishing = true")
        + &subscription("s", "status = \"receive-disabled\"")
        + &rule("one", "{ sql = \"a = @p\", parameters = { \"@p\" = 5 } }");
    assert_eq!(planned(&cluster(&wanted), &wanted, PRUNE), Ok(Vec::new()));
}

#[test]
fn everything_that_stands_in_the_way_is_told_before_anything_is_done() {
    for (found, wanted, options, expected) in [
        (
            queue("a", ""),
            queue("a", "requires_session = true"),
            APPLY,
            &[
                "'f': queues[0] (a): RequiresSession false -> true: whether a queue requires sessions is fixed when it is created; delete it first, or give it another name",
            ] as &[&str],
        ),
        (
            topic("a", ""),
            queue("a", ""),
            APPLY,
            &[
                "'f': queues[0] (a): a topic has this name; delete it first, or name the queue otherwise",
            ],
        ),
        (
            String::new(),
            queue("a", "") + &topic("A", ""),
            APPLY,
            &[
                "'f': topics[0]: 'A' is listed before, at 'f': queues[0]; name it otherwise, or list it once",
            ],
        ),
        (
            String::new(),
            queue("a b", "lock_duration = \"1h\"\nforward_to = \"gone\""),
            APPLY,
            &[
                "'f': queues[0] (a b): entity name: ' ' is not a letter, a digit, '.', '-', '_', '~' or '/'",
                "'f': queues[0] (a b): LockDuration is 3600000 ms, allowed is more than 0, up to 5 min",
                "'f': queues[0] (a b): there is no 'gone' to forward to; list it too, or create it first",
            ],
        ),
        (
            queue("b", "") + &queue("a", "forward_to = \"b\""),
            queue("a", ""),
            PRUNE,
            &["'f': queues[0] (a): it forwards to 'b', which would be pruned; list it too"],
        ),
        (
            queue("a", "forward_to = \"b\"") + &queue("b", ""),
            queue("a", "lock_duration = \"1h\""),
            APPLY,
            &[
                "'f': queues[0] (a): LockDuration is 3600000 ms, allowed is more than 0, up to 5 min",
            ],
        ),
        (
            String::new(),
            topic("t", "")
                + &subscription("s", "")
                + &rule("one", "\"a =\"")
                + &rule("One", "true"),
            APPLY,
            &[
                "'f': topics[0].subscriptions[0].rules[0] (one): ",
                "'f': topics[0].subscriptions[0].rules[1] (One): a rule of this name is listed before, at 'f': topics[0].subscriptions[0].rules[0]",
            ],
        ),
        // FWD-1: what both requires sessions and forwards does so from its creation on.
        (
            String::new(),
            queue("a", "forward_to = \"b\"\nrequires_session = true\nenable_partitioning = true")
                + &queue("b", "forward_to = \"a\""),
            APPLY,
            &[
                "'f': queues[0] (a): whether a queue that requires sessions forwards is fixed when it is created",
            ],
        ),
    ] {
        let problems = planned(&cluster(&found), &wanted, options).expect_err(&wanted);
        assert_eq!(problems.len(), expected.len(), "{problems:?}");
        for (problem, expected) in problems.iter().zip(expected) {
            assert!(problem.contains(expected), "{problem}\n{expected}");
        }
    }
}

#[test]
fn messages_that_would_go_are_told() {
    let mut found = cluster(&(queue("a", "") + &queue("b", "")));
    found.messages.insert(EntityPath::queue("A"), 7);
    let plan = plan(&Definitions::default(), &found, PRUNE).expect("a plan");
    let steps: Vec<String> = plan.steps.iter().map(ToString::to_string).collect();
    assert_eq!(steps, ["- queue a, and its 7 messages", "- queue b"]);
    let losses: Vec<u64> = plan.losses().map(|(_, messages)| messages).collect();
    assert_eq!(losses, [7]);
    assert_eq!(plan.summary(), "0 to create, 0 to change, 2 to delete");
}

#[test]
fn what_is_kept_is_told_of() {
    let found = cluster(&queue("a", ""));
    let wanted = read(&queue("a", "lock_duration = \"30s\"\nrequires_session = true"));
    let plan = plan(&wanted, &found, KEEP).expect("a plan");
    assert_eq!(plan.kept, ["queue a: LockDuration 1m -> 30s, RequiresSession false -> true"]);
}
