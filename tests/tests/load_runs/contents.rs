//! What messages hold and what becomes of them: bodies from files, transactions, schedules that are cancelled; and what
//! another AMQP broker does not offer.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::thread;

use anyhow::ensure;
use client::ReceiverOptions;
use mayfly_tests::{Cluster, Settings};

use super::{ONE_AT_A_TIME, ensure_nothing_left, load, number, run, written};

/// Bodies are the lines of a file, each with the stamp behind it.
#[tokio::test(flavor = "multi_thread")]
async fn bodies_are_taken_from_files() -> anyhow::Result<()> {
    let _guard = ONE_AT_A_TIME.lock().await;
    let cluster = Cluster::start(Settings { nodes: 1, ..Settings::default() }).await?;
    let dir = tempfile::tempdir()?;
    fs::write(dir.path().join("orders.ndjson"), "{\"order\":1}\n{\"order\":22}\n")?;
    let file = written(
        dir.path(),
        "[phases]\nwarm_up = \"0s\"\nmeasure = \"1s\"\n[[queues]]\nname = \"bodies\"\n\
         [[producers]]\nto = \"bodies\"\nrate = 50\nbody = \"lines of orders.ndjson\"\n",
    )?;
    let (done, report) = run(&cluster, &file, &["--keep"])?;
    ensure!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    ensure!(number(&report, "/account/acknowledged")? == 50, "{report}");
    let mut receiver = cluster.client()?.receiver("bodies", ReceiverOptions::default());
    let mut found = [0, 0];
    for _ in 0..50 {
        let delivery = receiver.recv().await?;
        let body = &delivery.body()[..delivery.body().len() - 32];
        let lines = [&b"{\"order\":1}"[..], b"{\"order\":22}"];
        let at = lines.iter().position(|line| *line == body);
        found[at.ok_or_else(|| anyhow::anyhow!("{:?}", delivery.body()))?] += 1;
    }
    ensure!(found[0] > 5 && found[1] > 5, "both are drawn: {found:?}");
    Ok(())
}

/// Transactions that are committed and rolled back, and schedules that are kept and cancelled: each is accounted for, and
/// what was taken back does not come.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_taken_back_does_not_come() -> anyhow::Result<()> {
    let _guard = ONE_AT_A_TIME.lock().await;
    let cluster = Cluster::start(Settings { nodes: 1, ..Settings::default() }).await?;
    let dir = tempfile::tempdir()?;
    let file = written(
        dir.path(),
        "thresholds = [\"lost == 0\", \"doubled == 0\", \"errors == 0\", \"rolled_back > 20\", \"cancelled > 20\",\n\
         \"rolled_back_delivered == 0\", \"cancelled_delivered == 0\", \"delivered > 200\"]\n\
         [phases]\nwarm_up = \"500ms\"\nmeasure = \"2s\"\n\
         [[queues]]\nname = \"load-together-{run}\"\n[[queues]]\nname = \"load-later-{run}\"\n\
         [[producers]]\nto = \"load-together-{run}\"\ncount = 2\nrate = 100\ntransaction = 5\nroll_back = \"30%\"\n\
         [[producers]]\nto = \"load-later-{run}\"\nrate = 60\nschedule = \"1s..2s\"\ncancel = \"40%\"\n\
         [[consumers]]\nfrom = \"load-together-{run}\"\n[[consumers]]\nfrom = \"load-later-{run}\"\n",
    )?;
    let over_amqp = ["--protocol", "amqp", "--amqp", cluster.amqp_address(1)];
    for flags in [&[][..], &over_amqp] {
        let (done, report) = run(&cluster, &file, flags)?;
        let said = String::from_utf8_lossy(&done.stdout);
        println!("{said}");
        ensure!(done.status.success(), "{flags:?} {said}");
        let of = |name: &str| number(&report, &format!("/account/{name}"));
        ensure!(of("rolled_back")?.is_multiple_of(5), "whole transactions: {said}");
        let ended = of("acknowledged")? + of("rolled_back")? + of("cancelled")?;
        ensure!(of("sent")? == ended && of("unknown")? == 0 && of("refused")? == 0, "{said}");
        ensure!(of("delivered")? == of("acknowledged")?, "{said}");
        ensure_nothing_left(&cluster).await?;
    }
    Ok(())
}

/// A way to a node on which the node says that it is another product, of a name as long.
fn in_disguise(node: String) -> anyhow::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?.to_string();
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let Ok(server) = TcpStream::connect(&node) else { return };
            let pairs = [(&client, &server), (&server, &client)];
            let [up, down] = pairs.map(|(from, to)| (from.try_clone(), to.try_clone()));
            for (way, is_down) in [(up, false), (down, true)] {
                let (Ok(mut from), Ok(mut to)) = way else { return };
                thread::spawn(move || {
                    let mut bytes = [0; 65536];
                    while let Ok(count @ 1..) = from.read(&mut bytes) {
                        let read = &mut bytes[..count];
                        let at = read.windows(6).rposition(|of| is_down && of == b"mayfly");
                        if let Some(at) = at {
                            read[at..at + 6].copy_from_slice(b"rabbit");
                        }
                        if to.write_all(read).is_err() {
                            return;
                        }
                    }
                    let _ = to.shutdown(std::net::Shutdown::Both);
                });
            }
        }
    });
    Ok(address)
}

/// What only Service Bus has is asked of no other broker: one line with file, line and key, before anything is made.
#[tokio::test(flavor = "multi_thread")]
async fn what_another_broker_lacks_is_told_before_the_run() -> anyhow::Result<()> {
    let _guard = ONE_AT_A_TIME.lock().await;
    let cluster = Cluster::start(Settings { nodes: 1, ..Settings::default() }).await?;
    let dir = tempfile::tempdir()?;
    let other = in_disguise(cluster.amqp_address(1).to_owned())?;
    let flags = ["--protocol", "amqp", "--amqp", &other];
    let queue = "[[queues]]\nname = \"load-lacks-{run}\"\n";
    let producer = format!("{queue}[[producers]]\nto = \"load-lacks-{{run}}\"\n");
    let consumer = format!("{queue}[[consumers]]\nfrom = \"load-lacks-{{run}}\"\n");
    for (text, told) in [
        (format!("{producer}schedule = \"1s\"\n"), ":5: schedule: rabbit at "),
        (format!("{producer}schedule = \"1s\"\n"), "has no scheduled messages"),
        (format!("{producer}batch = 5\n"), ":5: batch: "),
        (format!("{consumer}sessions = true\n"), "has no sessions as Service Bus has them"),
        (format!("{consumer}defer = \"1%\"\n"), ":5: defer: "),
        (
            format!("{queue}[[consumers]]\nfrom = \"load-lacks-{{run}}/$DeadLetterQueue\"\n"),
            ":4: from: rabbit at ",
        ),
    ] {
        let file = written(dir.path(), &text)?;
        let done = load(&cluster, &file, &flags)?.output()?;
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        ensure!(done.status.code() == Some(2), "{told}: {:?} {said}", done.status.code());
        ensure!(said.lines().count() == 1 && said.contains(told), "{told}: {said}");
        ensure_nothing_left(&cluster).await?;
    }
    // Transactions are the standard's: whoever has them may be asked for them.
    let text = format!(
        "[phases]\nwarm_up = \"0s\"\nmeasure = \"1s\"\n{producer}transaction = 2\nrate = 20\n\
         [[consumers]]\nfrom = \"load-lacks-{{run}}\"\n"
    );
    let (done, report) = run(&cluster, &written(dir.path(), &text)?, &flags)?;
    ensure!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    ensure!(number(&report, "/account/delivered")? == 20, "{report}");
    ensure_missing_bodies_are_told(&cluster, dir.path())
}

fn ensure_missing_bodies_are_told(cluster: &Cluster, dir: &Path) -> anyhow::Result<()> {
    let file = written(dir, "[[producers]]\nto = \"q\"\nbody = \"lines of gone.txt\"\n")?;
    let done = load(cluster, &file, &[])?.output()?;
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    ensure!(done.status.code() == Some(2), "{said}");
    ensure!(
        said.contains("load.toml:3: body: cannot read '") && said.contains("gone.txt"),
        "{said}"
    );
    Ok(())
}
