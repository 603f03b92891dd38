//! `mayfly backup` on places that this crate's library filled: what is told of backups, of damage, of keys, and what is
//! deleted. In a directory, and in a store that speaks S3.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, ensure};
use backup::{
    Chunk, ChunkId, Cut, Group, Key, Location, Reader, Repository, Retention, Totals, Writer,
};
use mayfly_tests::specification::root;
use mayfly_tests::{ask, mayfly};
use tempfile::TempDir;

/// 2026-11-27T09:15:00Z.
const AT_MS: u64 = 1_795_770_900_000;
/// What `tests/s3/server.py` ends with where it cannot be installed and need not be.
const NOT_INSTALLED: i32 = 77;

/// What the command told on both its outputs.
fn says(words: &[&str], code: i32) -> anyhow::Result<String> {
    let done = Command::new(mayfly()?)
        .arg("backup")
        .args(words)
        .env_remove("MAYFLY_BACKUP_KEY_FILE")
        .output()?;
    let (out, err) = (String::from_utf8(done.stdout)?, String::from_utf8(done.stderr)?);
    ensure!(done.status.code() == Some(code), "{words:?}: {}\n{out}\n{err}", done.status);
    Ok(out + &err)
}

fn texts(round: u64) -> Vec<Vec<u8>> {
    (0..40)
        .map(|chunk| {
            format!("chunk {} ", if chunk < 38 { chunk } else { 100 * round + chunk }).repeat(500)
        })
        .map(String::into_bytes)
        .collect()
}

/// A backup of two groups, of which most does not change from round to round.
async fn back_up(repository: &Repository, round: u64) -> anyhow::Result<()> {
    back_up_again(repository, round, if round == 0 { 40 } else { 2 }).await
}

/// The same, where so many chunks have to be stored.
async fn back_up_again(repository: &Repository, round: u64, stored: u64) -> anyhow::Result<()> {
    let mut writer = Writer::begin(repository).await?;
    let mut groups = vec![Group { id: 1, chunks: Vec::new() }, Group { id: 2, chunks: Vec::new() }];
    for (text, group) in texts(round).into_iter().zip([0, 1].into_iter().cycle()) {
        let chunk = Chunk { id: ChunkId::of(&text), bytes: text.len() as u64, rows: 500 };
        groups[group].chunks.push(chunk);
        if !writer.known().contains(&chunk.id) {
            writer.put(chunk.id, text.into()).await?;
        }
    }
    let cut = Cut {
        taken_at_ms: AT_MS + round * 60_000,
        clock_offset_ms: 0,
        cluster_id: "c".into(),
        version: "0.1.0".into(),
        feature_level: 1,
        cut: round,
        totals: Totals { entities: 2, messages: 20_000, bytes: 5_000_000 },
    };
    let summary = writer.finish(cut, &groups).await?;
    ensure!(summary.stored.chunks == stored, "{summary:?}");
    Ok(())
}

/// Three backups at a place, and what the commands make of them. `key_file`: they are encrypted.
async fn scenario(place: &str, key_file: Option<&Path>) -> anyhow::Result<()> {
    let location: Location = place.parse()?;
    let key = key_file
        .map(|path| Key::parse(&fs::read_to_string(path)?).map_err(anyhow::Error::from))
        .transpose()?;
    let file = key_file.map(|path| path.display().to_string()).unwrap_or_default();
    let flags: &[&str] = if key.is_some() { &["--key-file", &file] } else { &[] };
    let say = |words: &[&str], code| says(&[words, flags].concat(), code);

    let told = say(&["list", place], 1)?;
    ensure!(told.contains("holds no backups: it has no mayfly-backup.json"), "{told}");
    let repository = Repository::create(&location, key.as_ref()).await?;
    ensure!(say(&["list", place], 0)? == "no backups\n", "none yet");
    let told = say(&["verify", place], 1)?;
    ensure!(told.contains("has no backup yet; 'mayfly backup create' makes one"), "{told}");
    for round in 0..3 {
        back_up(&repository, round).await?;
    }
    let told = say(&["list", place], 0)?;
    let names: Vec<&str> = told.lines().skip(1).filter_map(|line| line.split(' ').next()).collect();
    ensure!(
        names == ["2026-11-27T09-17-00Z", "2026-11-27T09-16-00Z", "2026-11-27T09-15-00Z"],
        "{told}"
    );
    ensure!(told.contains("20,000") && told.contains("4.8 MiB"), "{told}");
    let listed: serde_json::Value = serde_json::from_str(&say(&["list", place, "--json"], 0)?)?;
    ensure!(
        listed[0]["taken_at_ms"] == AT_MS + 120_000 && listed[2]["stored_chunks"] == 40,
        "{listed}"
    );
    let told = say(&["verify", place], 0)?;
    ensure!(told.starts_with("2026-11-27T09-17-00Z is whole: 40 chunks, "), "{told}");
    let told = say(&["verify", place, "2026-11-27T09-00-00Z"], 1)?;
    ensure!(told.contains("has no backup '2026-11-27T09-00-00Z'"), "{told}");

    let before = say(&["prune", place, "--keep", "1", "--dry-run"], 0)?;
    ensure!(
        before.contains("2 backups would be deleted, and 4 chunks that no other needs"),
        "{before}"
    );
    let writer = Writer::begin(&repository).await?;
    let told = say(&["prune", place, "--keep", "1"], 1)?;
    ensure!(told.contains("in use by 'mayfly backup create' on "), "{told}");
    writer.abandon().await;
    let after = say(&["prune", place, "--keep-within", "30s"], 0)?;
    ensure!(after == before.replace("would be deleted", "deleted"), "{after}");

    let manifest = repository.manifest(None).await?;
    let (mut reader, mut read) =
        (Reader::new(&repository, &manifest), BTreeMap::<u16, Vec<Vec<u8>>>::new());
    while let Some(chunk) = reader.next().await? {
        read.entry(chunk.group).or_default().push(chunk.bytes.to_vec());
    }
    let (even, odd): (Vec<_>, Vec<_>) =
        texts(2).into_iter().enumerate().partition(|(index, _)| index % 2 == 0);
    let plain =
        |texts: Vec<(usize, Vec<u8>)>| texts.into_iter().map(|(_, text)| text).collect::<Vec<_>>();
    ensure!(read == [(1, plain(even)), (2, plain(odd))].into(), "what was backed up is read");
    Ok(())
}

fn key_file(dir: &TempDir) -> anyhow::Result<std::path::PathBuf> {
    let path = dir.path().join("backup.key");
    says(&["key", path.to_str().context("text")?], 0)?;
    Ok(path)
}

#[tokio::test]
async fn backups_in_a_directory_are_listed_verified_and_pruned() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let place = dir.path().join("plain");
    scenario(place.to_str().context("text")?, None).await?;
    let place = format!("file://{}/sealed", dir.path().display());
    scenario(&place, Some(&key_file(&dir)?)).await
}

#[tokio::test]
async fn damage_is_told_with_the_groups_it_belongs_to() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let place = dir.path().to_str().context("text")?;
    let repository = Repository::create(&place.parse()?, None).await?;
    back_up(&repository, 0).await?;
    let manifest = repository.manifest(None).await?;
    let object = |group: usize| {
        let id = manifest.groups[group].chunks[0].id.to_string();
        format!("chunks/{}/{id}", &id[..2])
    };
    fs::remove_file(dir.path().join(object(0)))?;
    let damaged = dir.path().join(object(1));
    let mut bytes = fs::read(&damaged)?;
    bytes[20] ^= 1;
    fs::write(&damaged, bytes)?;
    let told = says(&["verify", place], 1)?;
    ensure!(told.contains(&format!("{} of group 1: missing\n", object(0))), "{told}");
    ensure!(told.contains(&format!("{} of group 2: damaged: it was changed", object(1))), "{told}");
    ensure!(
        told.contains("2 of 40 chunks of 2026-11-27T09-15-00Z are missing or damaged"),
        "{told}"
    );
    let told = says(&["verify", place, "--json"], 1)?;
    ensure!(
        told.contains("\"fault\": \"missing\"") && told.contains("\"groups\": [\n        2"),
        "{told}"
    );

    ensure!(told.contains("unless the next backup stores them again"), "{told}");
    back_up_again(&repository, 1, 2 + 2).await?;
    let told = says(&["verify", place, "2026-11-27T09-15-00Z"], 0)?;
    ensure!(told.contains("is whole"), "the next backup has mended it: {told}");

    let summary = dir.path().join("backups/2026-11-27T09-15-00Z");
    fs::write(&summary, "{}")?;
    let told = says(&["list", place], 1)?;
    ensure!(told.contains("backups/2026-11-27T09-15-00Z is damaged (it is cut off)"), "{told}");
    let told = says(&["prune", place, "--keep", "1"], 1)?;
    ensure!(told.contains("is damaged"), "{told}");
    Ok(())
}

#[tokio::test]
async fn keys_and_wrong_usage_are_told_in_a_line() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let key = key_file(&dir)?;
    ensure!(key.metadata()?.permissions().mode() & 0o777 == 0o600, "a key is its owner's");
    let (key, place) = (key.to_str().context("text")?, dir.path().join("place"));
    let told = says(&["key", key], 1)?;
    ensure!(told.contains("backup.key' is there already"), "{told}");
    let place = place.to_str().context("text")?;
    Repository::create(&place.parse()?, Some(&Key::parse(&fs::read_to_string(key)?)?)).await?;
    let other = dir.path().join("other.key");
    fs::write(&other, Key::draw()?.to_text())?;
    let other = other.to_str().context("text")?;
    fs::set_permissions(other, fs::Permissions::from_mode(0o644))?;
    let open = says(&["list", place, "--key-file", other], 2)?;
    ensure!(open.contains("--key-file: '") && open.contains("open to everyone"), "{open}");
    fs::set_permissions(other, fs::Permissions::from_mode(0o600))?;
    for (words, code, part) in [
        (
            &["list", place][..],
            1,
            "name the file of its key with --key-file or MAYFLY_BACKUP_KEY_FILE",
        ),
        (&["list", place, "--key-file", other], 1, "is encrypted with another key than this"),
        (&["list", place, "--key-file", "/none"], 2, "--key-file: cannot read '/none'"),
        (
            &["list", "gs://bucket"],
            2,
            "'gs://bucket' is no place for backups: 'gs' is not known; give a directory",
        ),
        (&["verify", place, "yesterday"], 2, "'yesterday' is no name of a backup"),
        (&["prune", place, "--key-file", key], 2, "--keep"),
        (&["prune", place, "--key-file", key, "--keep", "0"], 2, "say which backups to keep"),
    ] {
        let told = says(words, code)?;
        ensure!(told.lines().count() == 1 && told.contains(part), "{words:?}: {told}");
    }
    Ok(())
}

/// A server that ends with this process, however it ends: it reads from a pipe.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// What reads the environment of its process gets one: the test below, by itself.
#[test]
fn backups_in_an_s3_compatible_store_are_listed_verified_and_pruned() -> anyhow::Result<()> {
    let server = root().join("tests/s3/server.py");
    let mut server = Command::new("python3")
        .arg("-B")
        .arg(server)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("python3")?;
    let mut told = String::new();
    BufReader::new(server.stdout.take().context("its output")?).read_line(&mut told)?;
    let Some(address) = told.trim().strip_prefix("ready ").map(str::to_owned) else {
        let status = server.wait()?;
        ensure!(status.code() == Some(NOT_INSTALLED), "{told}: {status}");
        eprintln!("SKIPPED: {}", told.trim());
        return Ok(());
    };
    let _server = Server(server);
    let made = ask(&address, "PUT /mayfly-backups", "", "")?;
    ensure!(made.status == 200, "{}", made.body);
    let within = Command::new(std::env::current_exe()?)
        .args(["--exact", "places::within_an_s3_environment", "--ignored", "--nocapture"])
        .env("AWS_ENDPOINT_URL", format!("http://{address}"))
        .env("AWS_ALLOW_HTTP", "true")
        .env("AWS_REGION", "us-east-1")
        .env("AWS_ACCESS_KEY_ID", "any")
        .env("AWS_SECRET_ACCESS_KEY", "any")
        .output()?;
    let told = String::from_utf8_lossy(&within.stdout);
    ensure!(told.contains("1 passed"), "{told}\n{}", String::from_utf8_lossy(&within.stderr));
    ensure!(within.status.success(), "{told}");
    Ok(())
}

#[tokio::test]
#[ignore = "backups_in_an_s3_compatible_store_are_listed_verified_and_pruned runs it, with a store"]
async fn within_an_s3_environment() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    scenario("s3://mayfly-backups", None).await?;
    let place = "s3://mayfly-backups/some/prefix";
    scenario(place, Some(&key_file(&dir)?)).await?;
    // Prunes of one prefix touch nothing of another.
    let outer = Repository::open(&"s3://mayfly-backups".parse()?, None).await?;
    outer
        .prune(&Retention { keep_last: 1, ..Retention::default() }, false, std::future::pending())
        .await?;
    ensure!(outer.verify(&outer.manifest(None).await?, |_| ()).await?.is_empty(), "whole");
    says(
        &["verify", place, "--key-file", dir.path().join("backup.key").to_str().context("text")?],
        0,
    )?;

    let told = says(&["list", "s3://no-such-bucket/prefix"], 1)?;
    ensure!(
        told.contains("there is no such bucket: make it, or look at its name")
            && told.lines().count() == 1,
        "{told}"
    );
    let run = |name: &str, value: &str| {
        Command::new(mayfly()?)
            .args(["backup", "list", place])
            .env(name, value)
            .output()
            .map_err(anyhow::Error::from)
    };
    for (name, value, part) in [
        ("AWS_ALLOW_HTTP", "false", "an http:// endpoint takes AWS_ALLOW_HTTP=true"),
        ("AWS_ENDPOINT_URL", "http://127.0.0.1:1", "onnect"),
    ] {
        let done = run(name, value)?;
        let told = String::from_utf8(done.stderr)?;
        ensure!(
            done.status.code() == Some(1) && told.lines().count() == 1 && told.contains(part),
            "{told}"
        );
    }
    Ok(())
}
