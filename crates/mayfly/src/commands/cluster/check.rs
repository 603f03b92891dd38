//! `mayfly cluster check`: for scripts and monitoring systems that run commands.

use std::collections::BTreeMap;
use std::fmt;
use std::process::ExitCode;

use client::v1;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::connect::Connect;
use crate::terminal;

/// A replica that is further behind than this would hold its group up if it were needed.
const LAG_MAX: u64 = 10_000;
/// Half of what a clock may be off before nobody agrees with it.
const CLOCK_OFF_MS_MAX: u64 = 250;
const DAY_S: i64 = 24 * 3600;
/// So long before its end a certificate is warned of, where it is not said.
const CERTIFICATE_DAYS: u16 = 14;
/// So long before its end a certificate is critical.
const CERTIFICATE_CRITICAL_DAYS: i64 = 2;

const EXAMPLES: &str = "\
Examples:
  mayfly cluster check                             a line for each thing that was looked at
  mayfly cluster check --certificate-days 30
  mayfly cluster check --json | jq '.checks[] | select(.state != \"ok\")'

Exit codes, as Nagios and its kin have them: 0 all is well, 1 a warning, 2 something is critical (or the
usage is wrong), 3 it is not known, as the cluster does not answer.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct CheckArgs {
    /// Warn of certificates that end within so many days
    #[arg(long, value_name = "DAYS", default_value_t = CERTIFICATE_DAYS)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=3650))]
    certificate_days: u16,
    /// As JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: Connect,
}

/// How something is, the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum CheckState {
    Ok,
    Warning,
    Critical,
}

impl CheckState {
    fn name(self) -> &'static str {
        match self {
            CheckState::Ok => "ok",
            CheckState::Warning => "warning",
            CheckState::Critical => "critical",
        }
    }

    fn code(self) -> u8 {
        match self {
            CheckState::Ok => 0,
            CheckState::Warning => 1,
            CheckState::Critical => 2,
        }
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Check {
    what: &'static str,
    state: CheckState,
    told: String,
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:8}  {:12}  {}", self.state.name(), self.what, self.told)
    }
}

pub async fn run(args: CheckArgs) -> anyhow::Result<ExitCode> {
    const UNKNOWN: u8 = 3;
    let client = args.connect.client()?;
    let status = match client.status(false).await {
        Ok(status) => status,
        Err(error) => {
            terminal::complain(&format!("unknown: the cluster does not answer: {error}"));
            return Ok(ExitCode::from(UNKNOWN));
        }
    };
    let found = checks(&status, Timestamp::now().as_second(), args.certificate_days.into());
    let worst = found.iter().map(|check| check.state).max().unwrap_or(CheckState::Ok);
    match args.json {
        true => terminal::json(&as_json(&found, worst))?,
        false => {
            for check in &found {
                terminal::line(check)?;
            }
        }
    }
    Ok(ExitCode::from(worst.code()))
}

fn as_json(found: &[Check], worst: CheckState) -> Value {
    let shown = |check: &Check| json!({"check": check.what, "state": check.state.name(), "told": check.told});
    let checks: Vec<Value> = found.iter().map(shown).collect();
    json!({"state": worst.name(), "checks": checks})
}

/// As `cluster check --json` shows it, `now_s` seconds after 1970.
pub fn check_as_json(status: &v1::StatusResponse, now_s: i64) -> Value {
    let found = checks(status, now_s, CERTIFICATE_DAYS.into());
    let worst = found.iter().map(|check| check.state).max().unwrap_or(CheckState::Ok);
    as_json(&found, worst)
}

/// What there is to see, `now_s` seconds after 1970.
fn checks(status: &v1::StatusResponse, now_s: i64, certificate_days: i64) -> Vec<Check> {
    let mut found = vec![
        nodes(status),
        leaders(status),
        quorum(status),
        replicas(status),
        disks(status),
        clocks(status),
        certificates(status, now_s, certificate_days),
    ];
    // What the cluster itself finds wrong is never told to be well.
    if found.iter().all(|check| check.state == CheckState::Ok) && !status.wrong.is_empty() {
        found.push(of("cluster", CheckState::Warning, &status.wrong, String::new()));
    }
    found
}

/// `wrong`, if there is any, with that state; else what is well.
fn of(what: &'static str, state: CheckState, wrong: &[String], well: String) -> Check {
    match wrong.is_empty() {
        true => Check { what, state: CheckState::Ok, told: well },
        false => Check { what, state, told: wrong.join("; ") },
    }
}

/// The worse, if there is any of it.
fn worse(what: &'static str, critical: &[String], warning: &[String], well: String) -> Check {
    match critical.is_empty() {
        true => of(what, CheckState::Warning, warning, well),
        false => of(what, CheckState::Critical, critical, well),
    }
}

fn group(id: u32) -> String {
    if id == 0 { "the catalog".to_owned() } else { format!("group {id}") }
}

/// Those that shall be there.
fn expected(status: &v1::StatusResponse) -> impl Iterator<Item = &v1::NodeStatus> {
    status.nodes.iter().filter(|node| node.role() != v1::NodeRole::Removed)
}

fn nodes(status: &v1::StatusResponse) -> Check {
    let silent = expected(status).filter(|node| !node.reachable);
    let silent: Vec<String> =
        silent.map(|node| format!("node {} does not answer", node.id)).collect();
    let count = expected(status).count();
    of("nodes", CheckState::Warning, &silent, format!("all {count} answer"))
}

fn leaders(status: &v1::StatusResponse) -> Check {
    let without = status.groups.iter().filter(|it| it.leader == 0);
    let without: Vec<String> =
        without.map(|it| format!("{} has no leader", group(it.id))).collect();
    let count = status.groups.len();
    of("leaders", CheckState::Critical, &without, format!("all {count} groups have one"))
}

/// How many voters of a group may still go away: below 0 there is no majority.
fn margin(group: &v1::GroupStatus) -> i64 {
    let voters = group.replicas.iter().filter(|it| it.voter).count() as i64;
    let there = group.replicas.iter().filter(|it| it.voter && it.reachable).count() as i64;
    there - (voters / 2 + 1)
}

fn quorum(status: &v1::StatusResponse) -> Check {
    let (mut none, mut narrow) = (Vec::new(), Vec::new());
    for it in &status.groups {
        let voters = it.replicas.iter().filter(|replica| replica.voter).count();
        match margin(it) {
            ..0 => none.push(format!("{} has no majority", group(it.id))),
            // Of one or two voters it is never more.
            0 if voters > 2 => {
                narrow.push(format!("{} stands still if one more node goes away", group(it.id)));
            }
            _ => (),
        }
    }
    let least = status.groups.iter().map(margin).min().unwrap_or(0);
    let well = match least {
        0 => "there is a majority of each group; none outlasts the loss of a node".to_owned(),
        least => format!("each group outlasts the loss of {least} more"),
    };
    worse("quorum", &none, &narrow, well)
}

fn replicas(status: &v1::StatusResponse) -> Check {
    let mut behind: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for it in &status.groups {
        for replica in &it.replicas {
            let v1::ReplicaStatus { node, reachable, lag, voter, .. } = replica;
            let told = match () {
                () if !reachable => format!("that of node {node} is away"),
                () if !voter => format!("that of node {node} has no vote yet"),
                () if *lag > LAG_MAX => format!("that of node {node} is {lag} entries behind"),
                () => continue,
            };
            behind.entry(it.id).or_default().push(told);
        }
    }
    let told = behind.into_iter().map(|(id, of)| format!("{}: {}", group(id), of.join(", ")));
    let told: Vec<String> = told.collect();
    of("replicas", CheckState::Warning, &told, "all are there and keep up".to_owned())
}

fn disks(status: &v1::StatusResponse) -> Check {
    let (mut low, mut near) = (Vec::new(), Vec::new());
    for node in &status.nodes {
        let Some(disk) = &node.disk else { continue };
        let free = terminal::bytes(disk.free_bytes);
        match disk.low {
            true => low.push(format!("node {}: {free} free, less than its reserve", node.id)),
            false if disk.free_bytes < disk.reserve_bytes.saturating_mul(2) => {
                near.push(format!("node {}: {free} free, not twice its reserve", node.id));
            }
            false => (),
        }
    }
    let least = status.nodes.iter().filter_map(|node| node.disk.as_ref());
    let least = least.map(|disk| disk.free_bytes).min();
    let well =
        least.map_or_else(String::new, |free| format!("{} free at least", terminal::bytes(free)));
    worse("disks", &low, &near, well)
}

fn clocks(status: &v1::StatusResponse) -> Check {
    let (mut alone, mut off) = (Vec::new(), Vec::new());
    for node in status.nodes.iter().filter(|node| node.reachable) {
        let offset_ms = node.clock_offset_ms.unwrap_or_default();
        match node.clock_agrees {
            false => alone.push(format!("nobody agrees with that of node {}", node.id)),
            true if offset_ms.unsigned_abs() > CLOCK_OFF_MS_MAX => {
                off.push(format!("that of node {} is {offset_ms} ms off", node.id));
            }
            true => (),
        }
    }
    worse("clocks", &alone, &off, "all agree".to_owned())
}

fn certificates(status: &v1::StatusResponse, now_s: i64, days: i64) -> Check {
    let (mut critical, mut warning) = (Vec::new(), Vec::new());
    let mut first = None;
    for node in &status.nodes {
        for end in &node.certificates {
            let left_days = (end.at_s - now_s).div_euclid(DAY_S);
            first = Some(first.map_or(left_days, |first: i64| first.min(left_days)));
            let whose = format!("that of node {} for {}", node.id, end.r#use);
            match left_days {
                ..0 => critical.push(format!("{whose} has expired")),
                0..CERTIFICATE_CRITICAL_DAYS => {
                    critical.push(format!("{whose} ends within 2 days"))
                }
                left if left < days => warning.push(format!("{whose} ends in {left} days")),
                _ => (),
            }
        }
    }
    let well = match first {
        Some(days) => format!("the first ends in {days} days"),
        None => "there are none".to_owned(),
    };
    worse("certificates", &critical, &warning, well)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_S: i64 = 1_800_000_000;

    fn replica(node: u64) -> v1::ReplicaStatus {
        v1::ReplicaStatus { node, reachable: true, voter: true, ..Default::default() }
    }

    fn healthy() -> v1::StatusResponse {
        let node = |id| v1::NodeStatus {
            id,
            reachable: true,
            clock_agrees: true,
            clock_offset_ms: Some(3),
            disk: Some(v1::DiskStatus { free_bytes: 900, reserve_bytes: 100, low: false }),
            certificates: vec![v1::CertificateEnd {
                r#use: "peers".into(),
                at_s: NOW_S + 90 * DAY_S,
            }],
            ..Default::default()
        };
        let group = |id| v1::GroupStatus {
            id,
            leader: 1,
            replicas: (1..=3).map(replica).collect(),
            ..Default::default()
        };
        v1::StatusResponse {
            nodes: (1..=3).map(node).collect(),
            groups: (0..=1).map(group).collect(),
            ..Default::default()
        }
    }

    type Hurt = fn(&mut v1::StatusResponse);
    type Found<'a> = (&'a str, CheckState, &'a str);

    /// Each row: what is the matter, and what is found beside what is well.
    #[test]
    fn what_is_wrong_is_found_and_how_bad_it_is() {
        let rows: [(Hurt, &[Found]); 10] = [
            (|_| (), &[]),
            (
                |it| {
                    it.nodes[2].reachable = false;
                    it.groups[1].replicas[2].reachable = false;
                },
                &[
                    ("nodes", CheckState::Warning, "node 3 does not answer"),
                    (
                        "quorum",
                        CheckState::Warning,
                        "group 1 stands still if one more node goes away",
                    ),
                    ("replicas", CheckState::Warning, "group 1: that of node 3 is away"),
                ],
            ),
            (
                |it| {
                    it.groups[0].leader = 0;
                    it.groups[0].replicas[1].reachable = false;
                    it.groups[0].replicas[2].reachable = false;
                },
                &[
                    ("leaders", CheckState::Critical, "the catalog has no leader"),
                    ("quorum", CheckState::Critical, "the catalog has no majority"),
                    (
                        "replicas",
                        CheckState::Warning,
                        "the catalog: that of node 2 is away, that of node 3 is away",
                    ),
                ],
            ),
            (
                |it| it.groups[1].replicas[0].lag = 20_000,
                &[(
                    "replicas",
                    CheckState::Warning,
                    "group 1: that of node 1 is 20000 entries behind",
                )],
            ),
            (
                |it| {
                    it.nodes[0].disk =
                        Some(v1::DiskStatus { free_bytes: 50, reserve_bytes: 100, low: true })
                },
                &[("disks", CheckState::Critical, "node 1: 50 B free, less than its reserve")],
            ),
            (
                |it| {
                    it.nodes[0].disk =
                        Some(v1::DiskStatus { free_bytes: 150, reserve_bytes: 100, low: false })
                },
                &[("disks", CheckState::Warning, "node 1: 150 B free, not twice its reserve")],
            ),
            (
                |it| it.nodes[1].clock_agrees = false,
                &[("clocks", CheckState::Critical, "nobody agrees with that of node 2")],
            ),
            (
                |it| it.nodes[1].clock_offset_ms = Some(-400),
                &[("clocks", CheckState::Warning, "that of node 2 is -400 ms off")],
            ),
            (
                |it| it.nodes[1].certificates[0].at_s = NOW_S + 5 * DAY_S,
                &[("certificates", CheckState::Warning, "that of node 2 for peers ends in 5 days")],
            ),
            (
                |it| it.nodes[1].certificates[0].at_s = NOW_S - 1,
                &[("certificates", CheckState::Critical, "that of node 2 for peers has expired")],
            ),
        ];
        for (hurt, expected) in rows {
            let mut status = healthy();
            hurt(&mut status);
            let found = checks(&status, NOW_S, 14);
            let wrong: Vec<Found> = found
                .iter()
                .filter(|check| check.state != CheckState::Ok)
                .map(|check| (check.what, check.state, check.told.as_str()))
                .collect();
            assert_eq!(wrong, expected);
            assert_eq!(found.len(), 7);
        }
    }

    #[test]
    fn what_the_cluster_finds_wrong_by_itself_is_never_told_to_be_well() {
        let status = v1::StatusResponse { wrong: vec!["something".into()], ..healthy() };
        let found = checks(&status, NOW_S, 14);
        assert_eq!(
            found.last().map(|check| (check.what, check.state)),
            Some(("cluster", CheckState::Warning))
        );
    }
}
