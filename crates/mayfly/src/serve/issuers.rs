//! The keys of issuers of tokens: asked for, or read again from their files.

use openid::{Discovery, Follower};

use super::ServeArgs;
use super::config::{Config, IssuerConfig, IssuerKeys, read_issuer_keys};
use super::reload::Reload;

/// Below the data directory.
const KEPT_IN: &str = "issuers";

/// Has those that are asked for their keys asked, for ever. The error is one line.
pub fn follow(config: &Config) -> Result<(), String> {
    for IssuerConfig { issuer, keys } in &config.issuers {
        let IssuerKeys::Discovery(place) = keys else { continue };
        let dir = config.data_dir.join(KEPT_IN);
        let follower = Follower::new(issuer.clone(), Discovery::new(place)?, &dir);
        tokio::spawn(follower.run());
    }
    Ok(())
}

/// Those whose keys stand in files.
pub struct IssuerFiles(Vec<IssuerConfig>);

impl IssuerFiles {
    /// `None`: there are none.
    pub fn of(config: &Config) -> Option<IssuerFiles> {
        let is_of_file = |config: &&IssuerConfig| matches!(config.keys, IssuerKeys::File(_));
        let files: Vec<_> = config.issuers.iter().filter(is_of_file).cloned().collect();
        (!files.is_empty()).then_some(IssuerFiles(files))
    }
}

impl Reload for IssuerFiles {
    fn name(&self) -> &'static str {
        "keys of issuers"
    }

    fn reload(&mut self, _: &ServeArgs, _: bool) -> Result<(), String> {
        for IssuerConfig { issuer, keys } in &self.0 {
            let IssuerKeys::File(path) = keys else { continue };
            if issuer.replace_keys(read_issuer_keys(path)?) {
                tracing::info!(issuer = %issuer.name, "the keys of an issuer of tokens were read again, and are others now");
            }
        }
        Ok(())
    }
}
