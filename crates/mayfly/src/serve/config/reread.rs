//! What a node reads again of its configuration while it runs: each by itself, as something wrong
//! elsewhere in the file shall not keep a key from being withdrawn. All else is as at the start.

use std::collections::BTreeMap;

use auth::Access;

use super::super::ServeArgs;
use super::{Config, check, read, secret, security};

impl Config {
    /// As [`Config::load`], only of what clients are asked for.
    pub fn access(args: &ServeArgs) -> Result<Access, String> {
        let (file, name) = read(args.config.as_deref())?;
        let secret = secret::secret(&file.security, args);
        let access = secret.and_then(|it| security::access(&file.security, it.as_deref()));
        access.map_err(|told| format!("{name}: {told}"))
    }

    /// As [`Config::load`], only of names of certificates and of the keys they stand for, of which there must
    /// be each in `keys`.
    pub fn mapped_certificates(
        args: &ServeArgs,
        keys: &Access,
    ) -> Result<BTreeMap<String, String>, String> {
        let (file, name) = read(args.config.as_deref())?;
        let rows = security::mapped_certificates(&file.tls.clients.map, keys);
        rows.map_err(|told| format!("{name}: {told}"))
    }

    /// As [`Config::load`], only of what clients may take.
    pub fn limits(args: &ServeArgs) -> Result<limits::Settings, String> {
        let (file, _) = read(args.config.as_deref())?;
        Ok(file.limits.settings())
    }

    /// As [`Config::load`], only of which records are logged.
    pub fn log_filter(args: &ServeArgs) -> Result<String, String> {
        let (file, name) = read(args.config.as_deref())?;
        let log = check::log(&file.log, args);
        Ok(log.map_err(|told| format!("{name}: {told}"))?.filter)
    }
}
