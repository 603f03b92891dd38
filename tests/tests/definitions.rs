//! `mayfly definitions` against clusters: what one has comes to another and is the same there, whatever
//! stands in the way is told before anything is done, and what was applied asks for nothing any more.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, ensure};
use client::{Message, SenderOptions};
use mayfly_tests::specification::root;
use mayfly_tests::{Cluster, Settings, mayfly};

/// Every property that has another default than this, and rules of each kind.
const EVERYTHING: &str = r#"
version = 1

[[queues]]
name = "a/b"
status = "send-disabled"
lock_duration = "31s"
requires_session = true
requires_duplicate_detection = true
duplicate_detection_window = "21s"
default_ttl = "1h"
dead_letter_on_expiration = true
auto_delete_on_idle = "3days"
max_size_megabytes = 2048
max_message_size_kilobytes = 512
max_delivery_count = 7
forward_dead_letters_to = "later"
support_ordering = false
enable_batched_operations = false
user_metadata = "kept"
authorization_rules = [
  { name = "worker", rights = ["listen"], primary_key = "key-of-the-worker", secondary_key = "another" },
  { name = "boss", rights = ["manage"] },
]

[[queues]]
name = "later"
enable_partitioning = true
enable_express = true
forward_to = "prices"

[[queues]]
name = "one"
forward_to = "other"

[[queues]]
name = "other"
forward_dead_letters_to = "one"

[[topics]]
name = "prices"
max_size_megabytes = 3072
default_ttl = "2h"
filter_before_publishing = true
enable_subscription_partitioning = true
status = "disabled"

[[topics.subscriptions]]
name = "eur"
dead_letter_on_filter_errors = false
status = "receive-disabled"
forward_to = "later"

[[topics.subscriptions.rules]]
name = "large"
filter = { sql = "amount > @least AND cur = 'EUR'", parameters = { "@least" = { type = "int", value = 5 } } }
action = "SET marked = TRUE"

[[topics.subscriptions.rules]]
name = "equal"
filter = { subject = "price", properties = { n = 3, id = { type = "uuid", value = "01234567-89ab-cdef-0123-456789abcdef" } } }

[[topics.subscriptions]]
name = "none"
rules = []

[[topics.subscriptions]]
name = "all"
requires_session = true
"#;

async fn small() -> anyhow::Result<Cluster> {
    Cluster::start(Settings { nodes: 1, data_groups: 2, ..Settings::default() }).await
}

fn run(cluster: &Cluster, words: &[&str]) -> anyhow::Result<Output> {
    let mut command = Command::new(mayfly()?);
    command.arg("definitions").args(words).args(["--connect", cluster.addresses(1)[0]]);
    Ok(command.current_dir(cluster.dir()).output()?)
}

/// What it says, if it ends with this code.
fn says(cluster: &Cluster, words: &[&str], code: i32) -> anyhow::Result<String> {
    let Output { status, stdout, stderr } = run(cluster, words)?;
    let (out, err) = (String::from_utf8(stdout)?, String::from_utf8(stderr)?);
    ensure!(status.code() == Some(code), "{words:?}: {status}\n{out}\n{err}");
    Ok(out + &err)
}

fn file(cluster: &Cluster, name: &str, text: &str) -> anyhow::Result<()> {
    Ok(fs::write(cluster.dir().join(name), text)?)
}

fn input(name: &str) -> PathBuf {
    root().join("crates/definitions/tests/inputs").join(name)
}

fn shown(path: &Path) -> anyhow::Result<&str> {
    path.to_str().context("a path in UTF-8")
}

/// In both forms, keys and all: the other cluster is told the same, byte for byte.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_cluster_has_comes_to_another_and_is_the_same_there() -> anyhow::Result<()> {
    let (one, other) = (small().await?, small().await?);
    file(&one, "first.toml", EVERYTHING)?;
    let done = says(&one, &["apply", "first.toml"], 0)?;
    ensure!(done.contains("+ queue a/b\n"), "{done}");
    ensure!(says(&one, &["diff", "first.toml"], 0)? == "nothing to change\n", "what was applied");
    for form in ["toml", "json"] {
        let exported = one.dir().join(format!("all.{form}"));
        let path = shown(&exported)?;
        says(&one, &["export", "--secrets", "--format", form, "--output", path], 0)?;
        let mode = fs::metadata(&exported)?.permissions().mode() & 0o777;
        ensure!(mode == 0o600, "{form}: {mode:o}");
        let text = fs::read_to_string(&exported)?;
        ensure!(text.contains("key-of-the-worker"), "{text}");
        ensure!(says(&one, &["diff", path, "--prune"], 0)? == "nothing to change\n", "{form}");
        says(&other, &["apply", path, "--prune"], 0)?;
        ensure!(says(&other, &["diff", path, "--prune"], 0)? == "nothing to change\n", "{form}");
        ensure!(says(&other, &["apply", path], 0)? == "nothing to change\n", "{form}");
        let again = other.dir().join(format!("again.{form}"));
        says(&other, &["export", "--secrets", "--format", form, "-o", shown(&again)?], 0)?;
        ensure!(fs::read_to_string(again)? == text, "{form}: the other cluster has something else");
    }
    let open = says(&other, &["export"], 0)?;
    ensure!(open.contains("name = \"worker\"") && !open.contains("key-of-the-worker"), "{open}");
    Ok(())
}

/// With keys left out, those there stay; a key that is another is said so, and never shown.
#[tokio::test(flavor = "multi_thread")]
async fn ent_11_keys_stay_where_a_file_leaves_them_out() -> anyhow::Result<()> {
    let cluster = small().await?;
    file(&cluster, "all.toml", EVERYTHING)?;
    says(&cluster, &["apply", "all.toml"], 0)?;
    let open = says(&cluster, &["export", "--output", "open.toml"], 0)?;
    ensure!(open == "'open.toml' written\n", "{open}");
    ensure!(says(&cluster, &["apply", "open.toml"], 0)? == "nothing to change\n", "keys stay");
    let client = cluster.client()?;
    let rules = client.get_queue("a/b").await?.properties.and_then(|of| of.authorization_rules);
    let rules = rules.context("it has rules")?.rules;
    ensure!(rules.iter().any(|rule| rule.primary_key == "key-of-the-worker"), "{rules:?}");
    file(&cluster, "rotated.toml", &EVERYTHING.replace("key-of-the-worker", "key-of-tomorrow"))?;
    let told = says(&cluster, &["diff", "rotated.toml"], 2)?;
    ensure!(told.contains("AuthorizationRules ~ worker (another key)"), "{told}");
    ensure!(!told.contains("key-of-"), "{told}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_done_where_something_stands_in_the_way() -> anyhow::Result<()> {
    let cluster = small().await?;
    let client = cluster.client()?;
    client.create_queue("there", Default::default()).await?;
    let wrong = "version = 1\n[[queues]]\nname = \"new\"\n[[queues]]\nname = \"there\"\nrequires_session = true\n\
                 [[queues]]\nname = \"third\"\nforward_to = \"gone\"\n";
    file(&cluster, "wrong.toml", wrong)?;
    for words in [&["apply", "wrong.toml"] as &[&str], &["diff", "wrong.toml"]] {
        let told = says(&cluster, words, 1)?;
        ensure!(
            told.contains("'wrong.toml': queues[1] (there): RequiresSession false -> true"),
            "{told}"
        );
        ensure!(told.contains("'wrong.toml': queues[2] (third): there is no 'gone'"), "{told}");
        ensure!(told.contains("2 problems; nothing was changed"), "{told}");
    }
    file(&cluster, "right.toml", "version = 1\n[[queues]]\nname = \"new\"\n")?;
    let plan = says(&cluster, &["apply", "right.toml", "--dry-run", "--prune"], 0)?;
    ensure!(
        plan == "+ queue new\n- queue there\n1 to create, 0 to change, 1 to delete\n",
        "{plan}"
    );
    ensure!(says(&cluster, &["diff", "right.toml"], 2)?.starts_with("+ queue new\n"), "it differs");
    ensure!(says(&cluster, &["apply", "gone.toml"], 1)?.contains("'gone.toml': "), "no such file");
    let names: Vec<String> = client.list_queues("").await?.into_iter().map(|of| of.name).collect();
    ensure!(names == ["there"], "{names:?}");
    Ok(())
}

/// What files do not name goes where that is asked for, and with messages where that is asked for too.
#[tokio::test(flavor = "multi_thread")]
async fn messages_go_only_where_it_is_said_twice() -> anyhow::Result<()> {
    let cluster = small().await?;
    let client = cluster.client()?;
    client.create_queue("old", Default::default()).await?;
    client.create_topic("t", Default::default()).await?;
    client.create_subscription("t", "s", Default::default(), None).await?;
    client.sender("old", SenderOptions::default()).send(Message::new("hello")).await?;
    file(&cluster, "new.toml", "version = 1\n[[queues]]\nname = \"new\"\n")?;
    let told = says(&cluster, &["apply", "new.toml", "--prune"], 1)?;
    ensure!(told.contains("would delete messages of queue old (1)"), "{told}");
    ensure!(client.get_queue("new").await.is_err(), "nothing was changed");
    let done = says(&cluster, &["apply", "new.toml", "--prune", "--yes"], 0)?;
    ensure!(
        done == "+ queue new\n- queue old, and its message\n- topic t\n3 steps done\n",
        "{done}"
    );
    ensure!(says(&cluster, &["diff", "new.toml", "--prune"], 0)? == "nothing to change\n", "done");
    Ok(())
}

/// What was begun and not ended is gone on with: of a circle one half is there, and of rules the first.
#[tokio::test(flavor = "multi_thread")]
async fn an_apply_that_was_cut_off_is_gone_on_with() -> anyhow::Result<()> {
    let cluster = small().await?;
    file(&cluster, "all.toml", EVERYTHING)?;
    let plan = says(&cluster, &["diff", "all.toml"], 2)?;
    let client = cluster.client()?;
    client.create_queue("one", Default::default()).await?;
    client.create_topic("prices", Default::default()).await?;
    client.create_subscription("prices", "none", Default::default(), None).await?;
    let rest = says(&cluster, &["diff", "all.toml"], 2)?;
    ensure!(rest.contains("- rule prices/none/$Default\n"), "{rest}");
    ensure!(rest.contains("~ queue one: ForwardTo none -> other\n"), "{rest}");
    ensure!(!rest.contains("+ queue one\n") && plan.contains("+ queue one\n"), "{plan}\n{rest}");
    says(&cluster, &["apply", "all.toml"], 0)?;
    ensure!(says(&cluster, &["diff", "all.toml"], 0)? == "nothing to change\n", "all is there");
    Ok(())
}

/// Each form that comes from elsewhere: applied, and then nothing is left to do; and out again as a template.
#[tokio::test(flavor = "multi_thread")]
async fn files_of_azure_and_of_the_emulator_are_applied() -> anyhow::Result<()> {
    let cluster = small().await?;
    let (webshop, nested) = (input("webshop.json"), input("nested-strings.json"));
    let odd = input("emulator-odd.json");
    let given = ["--parameter", "bus=sb-test"];
    // The last two have a queue of the same name, which cannot become the other.
    let emulated = small().await?;
    for (to, path, more) in
        [(&cluster, &webshop, &[] as &[&str]), (&cluster, &nested, &given), (&emulated, &odd, &[])]
    {
        let path = shown(path)?;
        let words: Vec<&str> = ["apply", path].iter().chain(more).copied().collect();
        says(to, &words, 0)?;
        let words: Vec<&str> = ["diff", path].iter().chain(more).copied().collect();
        let told = says(to, &words, 0)?;
        ensure!(told.starts_with("nothing to change\n"), "{path}: {told}");
    }
    let queue = cluster.client()?.get_queue("invoice-jobs").await?.properties.unwrap_or_default();
    ensure!(queue.forward_dead_letters_to.as_deref() == Some("failed"), "{queue:?}");
    ensure!(
        queue.authorization_rules.is_some_and(|rules| rules.rules[0].primary_key.len() > 20),
        "drawn"
    );
    says(&cluster, &["export", "--format", "arm", "--output", "main.json"], 0)?;
    let words = ["apply", "main.json", "--parameter", "namespaceName=n", "--prune"];
    let told = says(&cluster, &words, 0)?;
    ensure!(told.starts_with("nothing to change\n"), "{told}");
    let other = small().await?;
    let path = cluster.dir().join("main.json");
    says(&other, &["apply", shown(&path)?, "--parameter", "namespaceName=n"], 0)?;
    // Keys are drawn anew there, and no template says them.
    let (one, two) = (says(&cluster, &["export"], 0)?, says(&other, &["export"], 0)?);
    ensure!(one == two, "{one}\n{two}");
    Ok(())
}
