//! QUOTA-8: a namespace of a tier that throttles gets as much as that, over all nodes together.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::ensure;
use client::v1::{Profile, QueueProperties};
use mayfly_tests::{Cluster, Settings};

use super::{native, new, over_http_of};

const BATCH: u64 = 100;
const PER_SECOND: u64 = 1_000;
const LASTS: Duration = Duration::from_secs(8);

/// What came of batches that were sent.
#[derive(Debug, Default)]
struct Sent {
    taken: AtomicU64,
    refused: AtomicU64,
}

/// Sends batches to one node without a pause; those that are refused are told as Service Bus does.
fn flood(address: &str, host: &str, sent: &Sent) -> anyhow::Result<()> {
    let messages = vec![r#"{"Body":"x"}"#; BATCH as usize].join(",");
    let body = format!("[{messages}]");
    let kind = "Content-Type: application/vnd.microsoft.servicebus.json\r\n";
    let until = Instant::now() + LASTS;
    while Instant::now() < until {
        let (status, answer) = over_http_of(address, host, "POST /q/messages", kind, &body)?;
        match status {
            201 => drop(sent.taken.fetch_add(1, Ordering::Relaxed)),
            429 => {
                let told = answer.to_ascii_lowercase();
                ensure!(told.contains("retry-after: "), "{answer}");
                ensure!(answer.contains("Error code: 50009. Please wait "), "{answer}");
                sent.refused.fetch_add(1, Ordering::Relaxed);
                // Less than is asked for, and more than there is.
                std::thread::sleep(Duration::from_millis(20));
            }
            _ => anyhow::bail!("{status}: {answer}"),
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn quota_41_clients_of_all_nodes_get_what_the_tier_has_and_others_are_not_held_up()
-> anyhow::Result<()> {
    let cluster = Cluster::start(Settings::default()).await?;
    let operator = cluster.client()?;
    for (name, profile) in [("tier", Profile::Standard), ("free", Profile::SelfHosted)] {
        operator.create_namespace_of(new(name, profile)).await?;
        native(&cluster, Some(name), None)?.create_queue("q", QueueProperties::default()).await?;
    }
    let (tier, free) = (Sent::default(), Sent::default());
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let mut floods = Vec::new();
        for id in cluster.ids() {
            let address = cluster.addresses(id)[1];
            let (tier, free) = (&tier, &free);
            floods.push(scope.spawn(move || flood(address, "tier.localhost", tier)));
            floods.push(scope.spawn(move || flood(address, "free.localhost", free)));
        }
        floods.into_iter().try_for_each(|it| it.join().expect("no panic"))
    })?;
    let seconds = begun.elapsed().as_secs_f64();
    let credits = tier.taken.load(Ordering::Relaxed) * BATCH;
    // A second's worth at once, and what three nodes grant before they know of each other.
    let most = (seconds + 4.0) * PER_SECOND as f64;
    ensure!((credits as f64) < most, "{credits} in {seconds} s: {tier:?}");
    ensure!(
        credits as f64 > seconds * 0.6 * PER_SECOND as f64,
        "{credits} in {seconds} s: {tier:?}"
    );
    ensure!(tier.refused.load(Ordering::Relaxed) > 0, "{tier:?}");
    ensure!(free.refused.load(Ordering::Relaxed) == 0, "{free:?}");
    ensure!(
        free.taken.load(Ordering::Relaxed) > tier.taken.load(Ordering::Relaxed),
        "{free:?} {tier:?}"
    );
    let counts = native(&cluster, Some("tier"), None)?.get_queue("q").await?;
    let active = counts.counters.map(|counts| counts.active).unwrap_or_default();
    ensure!(active == credits, "what was refused is not there: {active} of {credits}");
    Ok(())
}
