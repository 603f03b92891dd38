//! The task that keeps an issuer's keys fresh, and says once when it is away.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use auth::{Issuer, KeySet};
use sha2::{Digest, Sha256};
use tokio::time::{Instant, sleep};

use crate::discovery::Discovery;
use crate::metric;

/// Issuers publish a key a day or more before they sign with it.
const FRESH_FOR: Duration = Duration::from_secs(3600);
/// A token's unknown key has them asked for again, no more often than this: anybody can write such a token.
const AGAIN_AFTER: Duration = Duration::from_secs(10);
/// After a failure: first, and at most.
const RETRY_AFTER: Duration = Duration::from_secs(1);
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);
/// How often it is looked whether such a token came.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Keeps the keys of one issuer.
pub struct Follower {
    issuer: Arc<Issuer>,
    discovery: Discovery,
    kept: PathBuf,
    /// It did not answer the last time.
    is_away: bool,
}

impl Follower {
    /// `dir`: where its keys are kept, so that a node starts with them while the issuer is away.
    pub fn new(issuer: Arc<Issuer>, discovery: Discovery, dir: &Path) -> Follower {
        let digest = Sha256::digest(discovery.address().as_bytes());
        let name: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        let kept = dir.join(name).with_extension("json");
        Follower { issuer, discovery, kept, is_away: false }
    }

    /// Keeps them for ever.
    pub async fn run(mut self) {
        self.recall();
        let mut pause = RETRY_AFTER;
        loop {
            let asked_at = Instant::now();
            if self.fetch().await {
                pause = RETRY_AFTER;
                while asked_at.elapsed() < FRESH_FOR {
                    sleep(LOOK_EVERY).await;
                    if asked_at.elapsed() >= AGAIN_AFTER && self.issuer.take_behind() {
                        break;
                    }
                }
            } else {
                sleep(pause).await;
                pause = (pause * 2).min(RETRY_AFTER_MAX);
            }
        }
    }

    /// Takes what was kept, if anything was.
    fn recall(&self) {
        let issuer = &*self.issuer.name;
        let read = match fs::read(&self.kept) {
            Ok(written) => KeySet::parse(&written),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => Err(error.to_string()),
        };
        match read {
            Ok(keys) => drop(self.issuer.replace_keys(keys)),
            Err(why) => {
                let path = self.kept.display();
                tracing::warn!(
                    issuer,
                    why,
                    "the keys that are kept of an issuer cannot be read from '{path}'"
                );
            }
        }
    }

    /// Whether it told them.
    async fn fetch(&mut self) -> bool {
        let issuer = self.issuer.name.clone();
        match self.discovery.keys().await {
            Ok((keys, written)) => {
                metric::fetched(&issuer, now_s());
                let is_other = self.issuer.replace_keys(keys);
                if std::mem::take(&mut self.is_away) {
                    tracing::info!(%issuer, "an issuer of tokens tells its keys again");
                } else if is_other {
                    tracing::info!(%issuer, "an issuer of tokens told its keys");
                }
                if let Err(error) = keep(&self.kept, &written) {
                    tracing::warn!(%issuer, %error, "the keys of an issuer are not kept on disk");
                }
                true
            }
            Err(why) => {
                metric::failed(&issuer);
                if !std::mem::replace(&mut self.is_away, true) {
                    let then = match self.issuer.keys().is_empty() {
                        true => "none of its tokens is good until it does",
                        false => "those it told last count on",
                    };
                    tracing::warn!(%issuer, %why, "an issuer of tokens does not tell its keys; {then}");
                }
                false
            }
        }
    }
}

/// Whole or not at all.
fn keep(path: &Path, written: &[u8]) -> io::Result<()> {
    if fs::read(path).is_ok_and(|known| known == written) {
        return Ok(());
    }
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir)?;
    }
    let new = path.with_extension("new");
    fs::write(&new, written)?;
    fs::rename(&new, path)
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
