//! The keys of the configuration, read again when it or their files change.

use auth::{Access, Key, Keyring};

use super::ServeArgs;
use super::config::Config;
use super::reload::Reload;

/// The secret stays what it was at the start, as it is the nodes' too; so does whether keys are asked for at
/// all.
pub struct Keys(Keyring);

impl Keys {
    /// `None`: none are asked for.
    pub fn of(access: &Access) -> Option<Keys> {
        match access {
            Access::Keys(ring) => Some(Keys(ring.clone())),
            Access::Anyone => None,
        }
    }
}

impl Reload for Keys {
    fn name(&self) -> &'static str {
        "keys"
    }

    fn reload(&mut self, args: &ServeArgs, is_asked: bool) -> Result<(), String> {
        match exchange(&self.0, read(args)?) {
            0 if is_asked => tracing::info!("keys were read again; they are as they were"),
            0 => (),
            changed => {
                tracing::info!(changed, "keys were read again; what was opened with old ones ends")
            }
        }
        Ok(())
    }
}

/// For which of them certificates stand, where clients are asked for some.
pub struct MappedCertificates(Keyring);

impl MappedCertificates {
    /// `None`: no client is asked for a certificate.
    pub fn of(config: &Config) -> Option<MappedCertificates> {
        let clients = config.tls.as_ref()?.clients.as_ref()?;
        let Access::Keys(ring) = &config.access else { return None };
        // A node may take long to know its cluster; until then these are what it compares with.
        ring.map_certificates(clients.rows.clone());
        Some(MappedCertificates(ring.clone()))
    }
}

impl Reload for MappedCertificates {
    fn name(&self) -> &'static str {
        "keys of certificates"
    }

    fn reload(&mut self, args: &ServeArgs, _: bool) -> Result<(), String> {
        let rows = Config::mapped_certificates(args, &Access::Keys(self.0.clone()))?;
        if self.0.map_certificates(rows) {
            tracing::info!(
                "the keys that certificates stand for were read again, and are others now"
            );
        }
        Ok(())
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
