//! Backups that are made one after the other while the cluster is hurt.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinHandle;

use crate::cluster::{BackupPlace, Cluster};
use crate::{Clock, Error};

/// From one to the next.
const PAUSE: Duration = Duration::from_secs(3);
/// Attempts when all is healed, should none have come to its end before.
const ATTEMPTS_MAX: u32 = 20;

/// The backups of a cluster. Dropped, none is begun any more.
pub struct Backups {
    place: BackupPlace,
    clock: Clock,
    made: Arc<Mutex<Made>>,
    making: JoinHandle<()>,
}

/// Those there are.
#[derive(Clone, Copy, Debug, Default)]
pub struct Made {
    pub count: u32,
    /// When the last one was asked for that came to its end, of the experiment's clock.
    pub last_begun_ms: Option<u64>,
}

impl Backups {
    pub fn start(cluster: &Cluster, clock: Clock) -> Result<Backups, Error> {
        let (place, made) = (cluster.backup_place()?, Arc::<Mutex<Made>>::default());
        let making = tokio::spawn({
            let (place, made) = (place.clone(), made.clone());
            async move {
                loop {
                    // What a fault breaks off is not listed, and the next one goes on from what is there.
                    let _ = make(&place, clock, &made).await;
                    tokio::time::sleep(PAUSE).await;
                }
            }
        });
        Ok(Backups { place, clock, made, making })
    }

    /// Makes no more of them, and one if there is none yet.
    pub async fn finish(&mut self) -> Result<(BackupPlace, Made), Error> {
        self.making.abort();
        let mut attempts = 0;
        loop {
            let made = *self.made.lock().unwrap_or_else(PoisonError::into_inner);
            if made.count > 0 {
                return Ok((self.place.clone(), made));
            }
            attempts += 1;
            match make(&self.place, self.clock, &self.made).await {
                Err(error) if attempts == ATTEMPTS_MAX => return Err(error),
                Err(_) => tokio::time::sleep(PAUSE).await,
                Ok(()) => (),
            }
        }
    }
}

impl Drop for Backups {
    fn drop(&mut self) {
        self.making.abort();
    }
}

async fn make(place: &BackupPlace, clock: Clock, made: &Mutex<Made>) -> Result<(), Error> {
    let begun_ms = clock.now_ms();
    let place = place.clone();
    let ended = || Error::Cluster("a backup was broken off".to_owned());
    tokio::task::spawn_blocking(move || place.create()).await.map_err(|_| ended())??;
    let mut made = made.lock().unwrap_or_else(PoisonError::into_inner);
    *made = Made { count: made.count + 1, last_begun_ms: Some(begun_ms) };
    Ok(())
}
