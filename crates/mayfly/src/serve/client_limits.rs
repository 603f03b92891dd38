//! The limits of clients, read again when the configuration changes.

use limits::{Ledger, Settings};

use super::ServeArgs;
use super::config::Config;
use super::reload::Reload;

pub struct ClientLimits {
    pub ledger: Ledger,
    /// As they were last read.
    pub known: Settings,
}

impl Reload for ClientLimits {
    fn name(&self) -> &'static str {
        "limits"
    }

    fn reload(&mut self, args: &ServeArgs, _: bool) -> Result<(), String> {
        let read = Config::limits(args)?;
        if read != self.known {
            self.ledger.change(read);
            self.known = read;
            tracing::info!("the limits of clients were read again, and are others now");
        }
        Ok(())
    }
}
