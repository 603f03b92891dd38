//! What is read, and what is refused.

use super::*;

const REST: &str = "\n[[invariants]]\nkind = \"completed-once\"\nentity = \"orders\"\n";

fn read(text: &str) -> Result<ExperimentFile, String> {
    ExperimentFile::parse(text, "dir/f.toml", 0x2a, None)
}

#[test]
fn a_file_says_everything_of_an_experiment() {
    let text = r#"
name = "Orders"
seed = 7
lasts = "8s"

[cluster]
nodes = 1

[[queues]]
name = "orders-{run}"
lock_duration = "5s"

[[programs]]
name = "worker"
command = ["python3", "worker.py"]
count = 2
restart = "500ms"
env = { QUEUE = "orders-{run}" }
events = [{ at = "3s", do = "kill", lasts = "1s" }]

[[programs]]
name = "late"
command = "./late.sh | cat"
directory = "other"
start = "never"

[[sends]]
to = "orders-{run}"
count = 50
rate = 20
message_id = "order-{number}"

[[faults]]
name = "lapse"
operation = "receive"
effect = "lapse"

[[node_faults]]
at = "2s"
kind = "partition"
node = 1
direction = "in"
others = "clients"

[[invariants]]
kind = "settled"
entity = "orders-{run}"
within = "10s"

[[invariants]]
kind = "replied"
requests = "orders"
replies = "receipts"
by = "correlation-id"
within = "1s"
"#;
    let file = read(text).expect("it is right");
    assert_eq!((file.seed, file.lasts, file.nodes), (7, Duration::from_secs(8), 1));
    assert_eq!(file.directory, Path::new("dir"));
    let names: Vec<&str> = file.programs.iter().map(|of| of.name.as_str()).collect();
    assert_eq!(names, ["worker-1", "worker-2", "late"]);
    assert_eq!(file.programs[0].env["QUEUE"], "orders-0000002a");
    let late = &file.programs[2];
    assert_eq!(late.words, ["sh", "-c", "./late.sh | cat"]);
    assert_eq!((late.directory.as_path(), late.starts_at), (Path::new("dir/other"), None));
    assert_eq!(
        file.invariants[0].to_string(),
        "every message of orders-0000002a is completed or dead-lettered with a reason within 10s"
    );
    assert_eq!(file.entities.queues[0].name, "orders-0000002a");
    let parsed = |seed| ExperimentFile::parse(text, "f.toml", 1, seed).map(|file| file.seed);
    assert_eq!((parsed(None), parsed(Some(9))), (Ok(7), Ok(9)));
}

#[test]
fn what_is_wrong_is_told_with_file_line_and_key() {
    let worker = "[[programs]]\nname = \"w\"\ncommand = \"true\"\n";
    for (text, told) in [
        (String::new(), "dir/f.toml: nobody sends or receives; write [[programs]] or [[sends]]"),
        (worker.to_owned(), "dir/f.toml: nothing has to hold; write [[invariants]]"),
        (format!("lasts = \"10\"\n{worker}{REST}"), "dir/f.toml:1: lasts: '10' has no unit"),
        (format!("lasts = \"0s\"\n{worker}{REST}"), "dir/f.toml:1: lasts: allowed is more than 0s"),
        (format!("last = 1\n{worker}{REST}"), "dir/f.toml:1: unknown key 'last'"),
        (
            format!("[cluster]\nnodes = 2\n{worker}{REST}"),
            "dir/f.toml:2: cluster.nodes: it is 2, allowed is 1, 3 or 5",
        ),
        (
            format!("{worker}events = [{{ at = \"1s\", do = \"start\", lasts = \"1s\" }}]\n{REST}"),
            "dir/f.toml:4: programs[0].events[0].lasts: only kill, stop and pause last a time",
        ),
        (
            format!("{worker}{worker}{REST}"),
            "dir/f.toml:5: programs[1].name: there is another 'w' in this file",
        ),
        (
            format!("[[programs]]\nname = \"w\"\ncommand = []\n{REST}"),
            "dir/f.toml:3: programs[0].command: it is empty",
        ),
        (
            format!("{worker}[[invariants]]\nkind = \"settled\"\nentity = \"q\"\n"),
            "dir/f.toml:4: invariants[0].within: is missing; write within = \"10s\"",
        ),
        (
            format!("{worker}[[invariants]]\nkind = \"settle\"\nentity = \"q\"\n"),
            "dir/f.toml:5: kind: unknown variant `settle`, expected one of `settled`",
        ),
        (
            format!(
                "{worker}[[invariants]]\nkind = \"waited\"\nentity = \"q\"\nwithin = \"1s\"\nby = \"message-id\"\n"
            ),
            "dir/f.toml:8: invariants[0].by: has no place here; this kind takes entity, within",
        ),
        (
            format!(
                "{worker}[[invariants]]\nkind = \"locks-kept\"\nentity = \"q\"\nprogram = \"x\"\n"
            ),
            "dir/f.toml:7: invariants[0].program: there is no program 'x' in this file",
        ),
        (
            format!(
                "{worker}[[faults]]\nname = \"x\"\noperation = \"send\"\neffect = \"refuse\"\n{REST}"
            ),
            "dir/f.toml:4: faults[0].error: ",
        ),
        (
            format!("{worker}[[node_faults]]\nat = \"1s\"\nkind = \"kill\"\nnode = 4\n{REST}"),
            "dir/f.toml:7: node_faults[0].node: there is no node 4; nodes are 1 to 3",
        ),
        (
            format!("{worker}[[node_faults]]\nat = \"1s\"\nkind = \"upgrade\"\n{REST}"),
            "dir/f.toml:6: node_faults[0].kind: upgrade needs another release's binary",
        ),
        (
            format!(
                "{worker}[[node_faults]]\nat = \"1s\"\nkind = \"kill\"\n[[node_faults]]\nat = \"2s\"\nkind = \"kill\"\n{REST}"
            ),
            "dir/f.toml:8: node_faults[1].at: it begins before the fault before it is over",
        ),
        (
            format!("{worker}{REST}[drawn]\nprograms = [\"x\"]\n"),
            "drawn.programs: there is no program 'x' in this file",
        ),
        (format!("[[queues]]\nname = \"q\"\nlock_durtion = \"5s\"\n{worker}{REST}"), "dir/f.toml:"),
        (
            format!("[[sends]]\nto = \"q\"\ncount = 0\n{REST}"),
            "dir/f.toml:3: sends[0].count: it is 0, allowed is 1 to 1000000",
        ),
        (
            format!("[[sends]]\nto = \"q\"\ncount = 1\nbody = \"{{nmber}}\"\n{REST}"),
            "dir/f.toml:4: body: '{nmber}' is no field; allowed is",
        ),
    ] {
        let error = read(&text).expect_err(&text);
        assert!(error.contains(told) && !error.contains('\n'), "{error}\ninstead of: {told}");
    }
}
