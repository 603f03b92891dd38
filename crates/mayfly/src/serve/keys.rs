//! The keys of the configuration, read again when it or their files change.

use std::io;
use std::time::Duration;

use auth::{Access, Key, Keyring};
use tokio::signal::unix::{SignalKind, signal};

use super::ServeArgs;
use super::config::Config;

/// How often the configuration is looked at; it is small.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(5);

/// From now on a hangup asks for files to be read again, where there are such, and ends no node.
pub fn outlive_hangup() -> io::Result<()> {
    // Whatever becomes of who listens: once it is registered, the signal's default is gone.
    signal(SignalKind::hangup()).map(drop)
}

/// Reads for ever, and on SIGHUP. The secret stays what it was at the start, as it is the nodes' too; so
/// does whether keys are asked for at all.
pub async fn keep_fresh(args: ServeArgs, access: Access) {
    let Access::Keys(ring) = access else { return };
    let Ok(mut asked) = signal(SignalKind::hangup()) else { return };
    let mut told = String::new();
    loop {
        let is_asked = tokio::select! {
            _ = asked.recv() => true,
            () = tokio::time::sleep(LOOK_EVERY) => false,
        };
        if is_asked {
            told.clear();
        }
        match read(&args) {
            Ok(keys) => {
                told.clear();
                match exchange(&ring, keys) {
                    0 if is_asked => tracing::info!("keys were read again; they are as they were"),
                    0 => (),
                    changed => tracing::info!(
                        changed,
                        "keys were read again; what was opened with old ones ends"
                    ),
                }
            }
            // Files are replaced one after the other: the next look may find them whole.
            Err(why) if why == told => {}
            Err(why) => {
                tracing::warn!("keys stay as they were: {why}");
                told = why;
            }
        }
    }
}

fn read(args: &ServeArgs) -> Result<Vec<Key>, String> {
    match Config::access(args)? {
        Access::Keys(keys) => Ok(keys.current().to_vec()),
        Access::Anyone => {
            Err("they would not be asked for any more; restart the node for that".into())
        }
    }
}

/// Puts keys in the place of all but the secret; how many came, went or are others.
fn exchange(ring: &Keyring, read: Vec<Key>) -> usize {
    let old = ring.current();
    let is_secret = |key: &&Key| key.name == Key::ROOT;
    let secret = old.iter().filter(is_secret).cloned();
    let new: Vec<Key> =
        secret.chain(read.into_iter().filter(|key| key.name != Key::ROOT)).collect();
    let came = new.iter().filter(|key| !old.contains(key)).count();
    let went = old.iter().filter(|key| !new.contains(key)).count();
    if came + went > 0 {
        ring.replace(new);
    }
    came.max(went)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str, value: &str) -> Key {
        Key { name: name.to_owned(), ..Key::root(value) }
    }

    #[test]
    fn ent_12_all_keys_are_exchanged_but_the_secret() {
        let ring = Keyring::new([Key::root("secret"), key("a", "old"), key("b", "same")]);
        let read = || vec![Key::root("another"), key("a", "new"), key("b", "same")];
        assert_eq!(exchange(&ring, read()), 1);
        let expected = [Key::root("secret"), key("a", "new"), key("b", "same")];
        assert!(ring.current()[..] == expected, "the secret counts from the next start");
        assert_eq!(exchange(&ring, read()), 0, "nothing is told of what stays");
        assert_eq!(exchange(&ring, vec![]), 2);
    }
}
