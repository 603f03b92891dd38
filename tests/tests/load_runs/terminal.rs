//! What a person sees while a load runs, on a terminal of the test's own.

use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use mayfly_tests::{Cluster, Settings, drawn};
use nix::pty::{Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::tcgetattr;
use nix::unistd::Pid;

use super::{ONE_AT_A_TIME, ensure_nothing_left, load, written};

const SIZE: Winsize = Winsize { ws_row: 30, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
const ENTER: &str = "\u{1b}[?1049h";
const LEAVE: &str = "\u{1b}[?1049l";
const SHOW: &str = "\u{1b}[?25h";

fn file(dir: &std::path::Path, seconds: u32) -> anyhow::Result<std::path::PathBuf> {
    let text = format!(
        "name = \"seen\"\n[phases]\nwarm_up = \"500ms\"\nmeasure = \"{seconds}s\"\n\
         [[queues]]\nname = \"load-seen-{{run}}\"\n\
         [[producers]]\nto = \"load-seen-{{run}}\"\nrate = 200\n\
         [[consumers]]\nfrom = \"load-seen-{{run}}\"\n"
    );
    written(dir, &text)
}

/// On a terminal there are figures on a screen of their own; Ctrl-C gives the terminal back as it was, and the report
/// stands where the command was given.
#[tokio::test(flavor = "multi_thread")]
async fn a_person_sees_figures_and_gets_the_terminal_back() -> anyhow::Result<()> {
    let _guard = ONE_AT_A_TIME.lock().await;
    let cluster = Cluster::start(Settings { nodes: 1, ..Settings::default() }).await?;
    let dir = tempfile::tempdir()?;
    let pty = openpty(Some(&SIZE), None)?;
    let before = tcgetattr(&pty.slave)?;
    let mut command = load(&cluster, &file(dir.path(), 60)?, &[])?;
    let slave = || pty.slave.try_clone().map(Stdio::from);
    command.env("TERM", "xterm-256color");
    let mut running = command.stdin(slave()?).stdout(slave()?).stderr(slave()?).spawn()?;
    drop(command);
    let pieces = drawn::read(pty.master);
    let (mut all, began) = (String::new(), Instant::now());
    let wanted =
        ["seen: gRPC to ", "measure ", "sent/s", "p99.9", "end to end", "backlog", "cores"];
    while !wanted.iter().all(|text| drawn::is_seen(&all, text)) {
        ensure!(began.elapsed() < Duration::from_secs(20), "{}", drawn::plain(&all));
        all += &pieces.recv_timeout(Duration::from_secs(20)).context("nothing is drawn")?;
    }
    ensure!(drawn::is_seen(&all, "Ctrl-C ends the run"), "{}", drawn::plain(&all));
    ensure!(all.contains(ENTER) && !all.contains(LEAVE), "it has a screen of its own");
    kill(Pid::from_raw(running.id().cast_signed()), Signal::SIGINT)?;
    let done = running.wait()?;
    let after = tcgetattr(&pty.slave)?;
    drop(pty.slave);
    all.extend(pieces.iter());
    ensure!(done.code() == Some(130), "{done}");
    ensure!(after == before, "the terminal is set as it was");
    let (screen, rest) = all.split_once(LEAVE).context("the screen is left")?;
    ensure!(drawn::is_seen(screen, "interrupted: what is under way is waited for"), "{screen}");
    ensure!(rest.contains(SHOW), "the cursor is back: {rest}");
    let rest = drawn::plain(rest);
    ensure!(rest.contains("interrupted: what is under way is waited for"), "{rest}");
    ensure!(
        rest.contains("seen: gRPC to ") && rest.contains("checks       nothing lost"),
        "{rest}"
    );
    ensure_nothing_left(&cluster).await
}

/// Where no person looks there is a line a second, and with --quiet none; `--json -` is the report and nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn without_a_terminal_there_are_lines() -> anyhow::Result<()> {
    let _guard = ONE_AT_A_TIME.lock().await;
    let cluster = Cluster::start(Settings { nodes: 1, ..Settings::default() }).await?;
    let dir = tempfile::tempdir()?;
    let file = file(dir.path(), 3)?;
    let done = load(&cluster, &file, &[])?.output()?;
    let told = String::from_utf8_lossy(&done.stderr);
    let lines = told.lines().filter(|line| line.contains("sent/s")).count();
    ensure!((3..=6).contains(&lines), "{told}");
    ensure!(told.contains("measure ") && !told.contains('\u{1b}'), "{told}");
    let done = load(&cluster, &file, &["--quiet", "--json", "-"])?.output()?;
    ensure!(done.stderr.is_empty(), "{}", String::from_utf8_lossy(&done.stderr));
    let report: serde_json::Value = serde_json::from_slice(&done.stdout)?;
    ensure!(report["name"] == "seen", "{report}");
    ensure_nothing_left(&cluster).await
}
