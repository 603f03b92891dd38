//! A network of the kernel's own: each node in a network namespace, all on one bridge, and every
//! direction from one to another a class of traffic that can be hurt. What is lost is lost: TCP sees
//! it, where a proxy only holds back what TCP has acknowledged.
//!
//! It is made with `ip` and `tc` (iproute2), needs root, and is gone with the process that made it; what
//! one that was killed left behind, the next removes. Each node has a second address, which nothing hurts:
//! by it the experiment looks at a node that its clients cannot reach.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::Error;
use crate::proxy::{Condition, Flow};

/// The network for measurements between machines (RFC 2544, appendix C.2.2), of which a part (/24) is
/// taken that no device here has.
const NETWORK: &str = "198.18";
/// Of the host, in the last part: as clients are seen, and as the experiment itself is.
const CLIENTS: u64 = 254;
const EXPERIMENT: u64 = 253;
/// Added to a node's number for its second address.
const UNHURT: u64 = 100;
/// What no class names.
const REST: u64 = 255;
const FULL_SPEED: &str = "10gbit";
/// The queue of a class whose packets arrive.
const HEALTHY: &[&str] = &["pfifo", "limit", "1000"];
/// The names of what is made begin so; a process id and a count follow.
const LINKS: &str = "mfy";
const NAMESPACES: &str = "mayfly-";

/// See the file's head. Dropped, it is removed; all that run in it must have ended.
pub struct Namespaces {
    /// Of this process: several may be there at a time.
    name: String,
    /// The first three parts of all its addresses.
    prefix: String,
    nodes: u64,
    /// Whether the kernel can delay and lose packets (`sch_netem`).
    netem: bool,
    hurt: Mutex<BTreeSet<Flow>>,
}

impl Namespaces {
    /// Makes one for nodes 1 to so many.
    pub fn create(nodes: u64) -> Result<Namespaces, Error> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        remove_those_of_the_dead();
        let name = format!("{}x{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let prefix = unused_prefix()?;
        let mut made = Namespaces { name, prefix, nodes, netem: true, hurt: Mutex::default() };
        made.connect()?;
        // Dropped on the way, it removes what there is by then.
        made.netem = made.shape((1, 0), &["netem", "delay", "1ms"]).is_ok();
        made.shape((1, 0), HEALTHY)?;
        Ok(made)
    }

    fn connect(&self) -> Result<(), Error> {
        let bridge = self.bridge();
        ip(&["link", "add", &bridge, "type", "bridge"])?;
        for last in [CLIENTS, EXPERIMENT] {
            ip(&["addr", "add", &format!("{}/24", self.address(last)), "dev", &bridge])?;
        }
        ip(&["link", "set", &bridge, "up"])?;
        for node in 1..=self.nodes {
            let (inside, outside) = (self.namespace(node), format!("{bridge}n{node}"));
            ip(&["netns", "add", &inside])?;
            let pair = ["link", "add", &outside, "type", "veth", "peer", "name", "eth0"];
            ip(&[pair.as_slice(), &["netns", &inside]].concat())?;
            ip(&["link", "set", &outside, "master", &bridge, "up"])?;
            for last in [node, node + UNHURT] {
                let address = format!("{}/24", self.address(last));
                ip(&["-n", &inside, "addr", "add", &address, "dev", "eth0"])?;
            }
            for device in ["lo", "eth0"] {
                ip(&["-n", &inside, "link", "set", device, "up"])?;
            }
            let (unhurt, source) = (self.address(node + UNHURT), self.address(EXPERIMENT));
            ip(&["route", "add", &unhurt, "dev", &bridge, "src", &source])?;
        }
        for from in 0..=self.nodes {
            self.classify(from)?;
        }
        Ok(())
    }

    /// Sorts what one of them sends by whom it is for.
    fn classify(&self, from: u64) -> Result<(), Error> {
        let rest = format!("{REST:x}");
        self.tc(from, &["qdisc", "add"], &["root", "handle", "1:", "htb", "default", &rest])?;
        for to in (0..=self.nodes).filter(|to| *to != from).chain([REST]) {
            let class = class(to);
            self.tc(from, &["class", "add"], &speed(&class, FULL_SPEED))?;
            if to != REST {
                let address = self.address(last_part(to));
                let filter = ["parent", "1:", "protocol", "ip", "prio", "1", "u32", "match", "ip"];
                let filter = [filter.as_slice(), &["dst", &address, "flowid", &class]].concat();
                self.tc(from, &["filter", "add"], &filter)?;
            }
        }
        Ok(())
    }

    /// Where a node listens; 0 is the host, where clients are.
    pub fn address_of(&self, node: u64) -> String {
        self.address(last_part(node))
    }

    /// Where a node, or the host for a process beside the nodes, is reached whatever is hurt.
    pub fn unhurt_address_of(&self, node: u64) -> String {
        self.address(if node == 0 { EXPERIMENT } else { node + UNHURT })
    }

    /// What a program is to be started with, to run where a node does.
    pub fn wrapper(&self, node: u64) -> Vec<String> {
        ["ip", "netns", "exec", &self.namespace(node)].map(str::to_owned).to_vec()
    }

    /// Sets how one direction is from now on. `Err` within: why this kernel cannot.
    pub fn set(&self, flow: Flow, condition: Condition) -> Result<Result<(), String>, Error> {
        let Condition { delay, jitter, loss, .. } = condition;
        let late = !(delay.is_zero() && jitter.is_zero() && loss == 0.0);
        if late && !self.netem {
            let told = "this kernel has no netem (sch_netem), which delays and loses packets";
            return Ok(Err(told.to_owned()));
        }
        self.hurt.lock().unwrap_or_else(|poison| poison.into_inner()).insert(flow);
        let ms = |duration: std::time::Duration| format!("{}ms", duration.as_millis());
        let (delay, jitter, loss) = (ms(delay), ms(jitter), format!("{:.2}%", loss * 100.0));
        let queue: &[&str] = match (condition.cut, late) {
            (true, _) => &["blackhole"],
            (false, true) => &["netem", "limit", "10000", "delay", &delay, &jitter, "loss", &loss],
            (false, false) => HEALTHY,
        };
        let bits = condition.bytes_per_second.map(|bytes| format!("{}bit", bytes * 8));
        let class = class(flow.1);
        let speed = speed(&class, bits.as_deref().unwrap_or(FULL_SPEED));
        self.tc(flow.0, &["class", "change"], &speed)?;
        self.shape(flow, queue).map(Ok)
    }

    /// All directions are as they should be.
    pub fn heal(&self) -> Result<(), Error> {
        let hurt = std::mem::take(&mut *self.hurt.lock().unwrap_or_else(|it| it.into_inner()));
        for flow in hurt {
            let class = class(flow.1);
            self.tc(flow.0, &["class", "change"], &speed(&class, FULL_SPEED))?;
            self.shape(flow, HEALTHY)?;
        }
        Ok(())
    }

    /// What happens to the packets of a direction in its class.
    fn shape(&self, (from, to): Flow, queue: &[&str]) -> Result<(), Error> {
        let class = class(to);
        self.tc(from, &["qdisc", "replace"], &[&["parent", &class], queue].concat())
    }

    /// `tc` on the device that one of them sends by.
    fn tc(&self, from: u64, what: &[&str], how: &[&str]) -> Result<(), Error> {
        let (namespace, bridge) = (self.namespace(from), self.bridge());
        let inside = ["-n", &namespace];
        let (place, device) = match from {
            0 => (&[][..], bridge.as_str()),
            _ => (&inside[..], "eth0"),
        };
        run("tc", &[place, what, &["dev", device], how].concat())
    }

    fn address(&self, last: u64) -> String {
        format!("{}.{last}", self.prefix)
    }

    fn bridge(&self) -> String {
        format!("{LINKS}{}", self.name)
    }

    fn namespace(&self, node: u64) -> String {
        format!("{NAMESPACES}{}-{node}", self.name)
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        // What is not there need not be removed; with a namespace goes all that is in it.
        for node in 1..=self.nodes {
            let _ = ip(&["netns", "del", &self.namespace(node)]);
        }
        let _ = ip(&["link", "del", &self.bridge()]);
    }
}

fn last_part(node: u64) -> u64 {
    if node == 0 { CLIENTS } else { node }
}

/// The class of what is for one of them.
fn class(to: u64) -> String {
    format!("1:{:x}", if to == REST { REST } else { last_part(to) })
}

/// A class that sends so fast. Its quantum is how much it may send in its turn: a few packets.
fn speed<'a>(class: &'a str, rate: &'a str) -> [&'a str; 9] {
    ["parent", "1:", "classid", class, "htb", "rate", rate, "quantum", "60000"]
}

/// The first three parts of addresses that no device of this machine has.
fn unused_prefix() -> Result<String, Error> {
    let output = Command::new("ip").args(["-o", "-4", "addr", "show"]).output();
    let output = output.map_err(Error::io("`ip` (iproute2)"))?;
    let taken = String::from_utf8_lossy(&output.stdout).into_owned();
    let free = |prefix: &String| !taken.contains(&format!(" {prefix}."));
    // Experiments that begin at one moment do not choose the same.
    let first = std::process::id() % 256;
    let prefix = |step| format!("{NETWORK}.{}", (first + step) % 256);
    (0..256).map(prefix).find(free).ok_or_else(|| {
        Error::Wrong(format!("every network of {NETWORK}.0.0/16 is in use on this machine"))
    })
}

/// Removes what processes left that were killed.
fn remove_those_of_the_dead() {
    let names = |folder: &str| -> Vec<String> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    };
    let is_dead = |name: &str, begins: &str| {
        let maker = name.strip_prefix(begins).and_then(|rest| rest.split_once('x'));
        let maker = maker.filter(|(id, _)| id.parse::<u32>().is_ok());
        maker.is_some_and(|(id, _)| !Path::new("/proc").join(id).exists())
    };
    for name in names("/run/netns").iter().filter(|name| is_dead(name, NAMESPACES)) {
        let _ = ip(&["netns", "del", name]);
    }
    for name in names("/sys/class/net").iter().filter(|name| is_dead(name, LINKS)) {
        let _ = ip(&["link", "del", name]);
    }
}

fn ip(args: &[&str]) -> Result<(), Error> {
    run("ip", args)
}

fn run(program: &str, args: &[&str]) -> Result<(), Error> {
    let told = format!("`{program} {}`", args.join(" "));
    let output =
        Command::new(program).args(args).env_remove("MAYFLY_SECRET").stdin(Stdio::null()).output();
    let output = output.map_err(Error::io(format!("{told} (iproute2)")))?;
    if output.status.success() {
        return Ok(());
    }
    let error = String::from_utf8_lossy(&output.stderr);
    let error = error.lines().next().unwrap_or("failed without a word");
    Err(Error::Cluster(format!("{told}: {error}; network namespaces need root")))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{ErrorKind, Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::time::{Duration, Instant};

    use nix::sched::{CloneFlags, setns};

    use super::*;

    const PORT: u16 = 5310;

    /// Listens where a node does, and sends what it is sent back.
    fn echo(namespaces: &Namespaces, node: u64) {
        let path = Path::new("/run/netns").join(namespaces.namespace(node));
        let (bound, ready) = std::sync::mpsc::channel();
        // A thread of its own: which namespace it is in does not change back.
        std::thread::spawn(move || {
            setns(File::open(path).expect("made"), CloneFlags::CLONE_NEWNET).expect("root may");
            let listener = TcpListener::bind(("0.0.0.0", PORT)).expect("nobody else is there");
            bound.send(()).expect("waited for");
            for stream in listener.incoming() {
                let mut stream = stream.expect("accepted");
                let _ = std::io::copy(&mut stream.try_clone().expect("a handle"), &mut stream);
            }
        });
        ready.recv().expect("it listens");
    }

    fn reach(address: &str) -> std::io::Result<TcpStream> {
        let address = format!("{address}:{PORT}").parse().expect("an address");
        TcpStream::connect_timeout(&address, Duration::from_millis(1_500))
    }

    /// By clients and by the experiment.
    fn reached(namespaces: &Namespaces, node: u64) -> (bool, bool) {
        let by = |address: String| match reach(&address) {
            Ok(_) => true,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::TimedOut, "silence, not a refusal: {error}");
                false
            }
        };
        (by(namespaces.address_of(node)), by(namespaces.unhurt_address_of(node)))
    }

    #[test]
    fn each_direction_is_hurt_by_itself_and_healed() {
        let namespaces = match Namespaces::create(2) {
            Ok(made) => made,
            Err(error) => return eprintln!("skipped: {error}"),
        };
        echo(&namespaces, 1);
        echo(&namespaces, 2);
        let cut = Condition { cut: true, ..Condition::default() };
        for flow in [(0, 1), (1, 0)] {
            namespaces.set(flow, cut).expect("made").expect("every kernel can");
            assert_eq!(reached(&namespaces, 1), (false, true), "{flow:?}");
            assert_eq!(reached(&namespaces, 2), (true, true), "{flow:?}");
            namespaces.heal().expect("made");
            assert_eq!(reached(&namespaces, 1), (true, true), "{flow:?}");
        }

        let slow = Condition { bytes_per_second: Some(64 << 10), ..Condition::default() };
        let took = |node| {
            let mut stream = reach(&namespaces.address_of(node)).expect("reached");
            let begun = Instant::now();
            let mut sending = stream.try_clone().expect("a handle");
            let sent = std::thread::spawn(move || sending.write_all(&[7; 128 << 10]));
            stream.read_exact(&mut [0; 128 << 10]).expect("sent back");
            sent.join().expect("no panic").expect("sent");
            begun.elapsed()
        };
        namespaces.set((1, 0), slow).expect("made").expect("every kernel can");
        let (slowed, other) = (took(1), took(2));
        assert!(slowed > Duration::from_secs(1) && other < slowed / 2, "{slowed:?}, {other:?}");

        let late = Condition { delay: Duration::from_millis(50), ..Condition::default() };
        let told = namespaces.set((1, 0), late).expect("made");
        assert_eq!(told.is_ok(), namespaces.netem, "{told:?}");

        let (bridge, inside) = (namespaces.bridge(), namespaces.namespace(1));
        drop(namespaces);
        assert!(!Path::new("/sys/class/net").join(bridge).exists());
        assert!(!Path::new("/run/netns").join(inside).exists());
    }
}
