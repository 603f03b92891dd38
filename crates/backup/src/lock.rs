//! One at a time writes or prunes.
//!
//! Who comes writes an object of its own and lists all: whoever finds another's that lives steps back. So of two that
//! come at once at most one goes on, on any store whose lists show what was written before (S3's do), and no write has
//! to be conditional. Ages are differences of two times of the store, its own object's and the other's: clocks of
//! machines are not asked. Whoever holds the lock writes its object again and again; one that was not written for
//! [`Times::stale`] is deleted, by which its owner knows, if it ever comes back.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use futures::TryStreamExt;
use serde::{Deserialize, Serialize};
use tokio::task::JoinHandle;

use crate::chunk::hex;
use crate::error::Error;
use crate::key::random;
use crate::store::{Listed, Store};

const FOLDER: &str = "locks";
const OBJECT_BYTES_MAX: usize = 4096;
/// Two that came at once both step back, and come again after waits of their own.
const ATTEMPTS: u32 = 5;
const JUST_NOW: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// How often a lock's object is written again.
    pub(crate) refresh: Duration,
    /// Without a sign for so long, its owner is taken for gone. Whoever could not give one for half of it stops.
    pub(crate) stale: Duration,
}

impl Default for Times {
    fn default() -> Times {
        Times { refresh: Duration::from_secs(20), stale: Duration::from_secs(300) }
    }
}

/// Who holds a lock, for whoever waits for it.
#[derive(Serialize, Deserialize)]
struct Holder {
    purpose: String,
    host: String,
    process: u32,
}

pub(crate) struct Lock {
    store: Arc<Store>,
    name: String,
    times: Times,
    /// When its object was last written for certain.
    seen: Arc<Mutex<Seen>>,
    refresher: JoinHandle<()>,
    is_released: bool,
}

/// By both clocks: one stands still while a machine sleeps, and the other is set.
#[derive(Clone, Copy)]
struct Seen(Instant, SystemTime);

impl Seen {
    fn now() -> Seen {
        Seen(Instant::now(), SystemTime::now())
    }

    fn age(self) -> Duration {
        let set = self.1.elapsed().unwrap_or_else(|error| error.duration());
        self.0.elapsed().max(set)
    }
}

impl Lock {
    /// `purpose`: what is told to others meanwhile.
    ///
    /// # Errors
    /// [`Error::Busy`] where another's lives.
    pub(crate) async fn take(
        store: &Arc<Store>,
        purpose: &str,
        times: Times,
    ) -> Result<Lock, Error> {
        let mut attempt = 1;
        loop {
            let lock = Lock::place(store, purpose, times).await?;
            let Some((other, seen)) = lock.rival().await? else { return Ok(lock) };
            let holder = holder(store, &other).await;
            lock.release().await;
            // One that was written just now may step back as well.
            if attempt == ATTEMPTS || seen > JUST_NOW {
                return Err(Error::Busy { at: store.at(), holder, seen, stale: times.stale });
            }
            attempt += 1;
            let [wait, ..] = random()?;
            // A second at most, as locks are refreshed.
            tokio::time::sleep(times.refresh * u32::from(wait) / 5000).await;
        }
    }

    async fn place(store: &Arc<Store>, purpose: &str, times: Times) -> Result<Lock, Error> {
        let name = format!("{FOLDER}/{}.json", hex(&random()?[..16]));
        let seen = Seen::now();
        store.put(&name, Holder::this(purpose)).await?;
        let (store, seen) = (store.clone(), Arc::new(Mutex::new(seen)));
        let refresher = tokio::spawn(refresh(store.clone(), name.clone(), times, seen.clone()));
        Ok(Lock { store, name, times, seen, refresher, is_released: false })
    }

    /// Another's lock that lives, and its age. Those that do not are deleted.
    async fn rival(&self) -> Result<Option<(Listed, Duration)>, Error> {
        let mut all: Vec<Listed> = self.store.list(FOLDER).try_collect().await?;
        let own = all.iter().position(|listed| listed.name == self.name);
        let own =
            own.ok_or_else(|| Error::Missing { at: self.store.at(), object: self.name.clone() })?;
        let at = all.swap_remove(own).at;
        let age = |other: &Listed| at.duration_since(other.at).unwrap_or_default();
        if let Some(living) = all.iter().find(|other| age(other) < self.times.stale) {
            return Ok(Some((living.clone(), age(living))));
        }
        self.store.delete(all.into_iter().map(|other| other.name).collect()).await?;
        Ok(None)
    }

    /// Whether it is still held: to be asked before what must not be done without it.
    ///
    /// # Errors
    /// [`Error::LockLost`] where it may not be.
    pub(crate) async fn check(&self) -> Result<(), Error> {
        if is_current(&self.seen, self.times) && self.store.is_there(&self.name).await? {
            return Ok(());
        }
        Err(Error::LockLost { at: self.store.at() })
    }

    /// Others may come from now on.
    pub(crate) async fn release(mut self) {
        self.is_released = true;
        self.refresher.abort();
        // It goes stale, if it cannot be deleted.
        let _ = self.store.delete(vec![self.name.clone()]).await;
    }
}

/// What was not ended well lets others come too, if it can.
impl Drop for Lock {
    fn drop(&mut self) {
        self.refresher.abort();
        if self.is_released {
            return;
        }
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (store, name) = (self.store.clone(), self.name.clone());
            runtime.spawn(async move { store.delete(vec![name]).await });
        }
    }
}

async fn refresh(store: Arc<Store>, name: String, times: Times, seen: Arc<Mutex<Seen>>) {
    loop {
        tokio::time::sleep(times.refresh).await;
        let begun = Seen::now();
        // Neither is brought back what another deleted, nor what another may be about to.
        match store.is_there(&name).await {
            Ok(true) if is_current(&seen, times) => {}
            Ok(_) => return,
            Err(_) => continue,
        }
        let Ok(Some(object)) = store.find(&name, OBJECT_BYTES_MAX).await else { continue };
        if store.put(&name, object).await.is_ok() {
            *seen.lock().unwrap_or_else(PoisonError::into_inner) = begun;
        }
    }
}

fn is_current(seen: &Mutex<Seen>, times: Times) -> bool {
    seen.lock().unwrap_or_else(PoisonError::into_inner).age() < times.stale / 2
}

/// Who holds a lock, in words.
async fn holder(store: &Store, lock: &Listed) -> String {
    let object = store.find(&lock.name, OBJECT_BYTES_MAX).await.ok().flatten();
    let Some(holder) = object.and_then(|object| serde_json::from_slice::<Holder>(&object).ok())
    else {
        return "another".to_owned();
    };
    // Whoever may write there may write anything.
    let line =
        |text: String| text.chars().filter(|c| !c.is_control()).take(100).collect::<String>();
    format!("'{}' on {} (process {})", line(holder.purpose), line(holder.host), holder.process)
}

impl Holder {
    /// This process, as an object.
    fn this(purpose: &str) -> Vec<u8> {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let host = match host.trim() {
            "" => "a host without a name",
            host => host,
        };
        let holder = Holder {
            purpose: purpose.to_owned(),
            host: host.to_owned(),
            process: std::process::id(),
        };
        serde_json::to_vec(&holder).expect("texts and a number are JSON")
    }
}
