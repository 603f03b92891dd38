//! One exchange with an issuer (OpenID Connect Discovery 1.0, "Obtaining OpenID Provider Configuration Information").

use std::error::Error as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use auth::KeySet;
use reqwest::{Certificate, Client, Url};
use serde::Deserialize;
use thiserror::Error;

const WELL_KNOWN: &str = ".well-known/openid-configuration";
const REQUEST_WITHIN: Duration = Duration::from_secs(10);
/// More is not read. The largest directories have some kilobytes.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;

/// Where an issuer is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Below which its configuration stands; `https` it is.
    pub url: String,
    /// Whom its certificate is to be vouched for by, in PEM; absent: by whom the system trusts.
    pub authority: Option<PathBuf>,
    /// Its configuration has to call it so; absent: it may be called otherwise.
    pub name: Option<String>,
}

/// Asks an issuer for its keys.
#[derive(Debug)]
pub struct Discovery {
    client: Client,
    configuration: Url,
    name: Option<String>,
}

/// Why an issuer did not tell its keys. One line.
#[derive(Debug, Error)]
pub(crate) enum NotTold {
    #[error("{what}: {why}")]
    Unreached { what: Url, why: String },
    #[error("{what} answers {status}")]
    Status { what: Url, status: u16 },
    #[error("{what} is longer than {} KiB", ANSWER_BYTES_MAX / 1024)]
    TooLong { what: Url },
    #[error("{what}: {why}")]
    Unread { what: Url, why: String },
    #[error("it calls itself '{told}'; set name to that, if that is whose tokens are meant")]
    OtherName { told: String },
}

/// What of the configuration counts here.
#[derive(Deserialize)]
struct Configuration {
    issuer: String,
    jwks_uri: String,
}

impl Discovery {
    /// # Errors
    /// One line: the URL is none, or the authority's file cannot be read.
    pub fn new(place: &Place) -> Result<Discovery, String> {
        let url = &place.url;
        let base = format!("{}/", url.trim_end_matches('/'));
        let base = Url::parse(&base).map_err(|error| format!("url '{url}': {error}"))?;
        if base.scheme() != "https" {
            return Err(format!("url '{url}': an issuer is asked over https, or not at all"));
        }
        let configuration =
            base.join(WELL_KNOWN).map_err(|error| format!("url '{url}': {error}"))?;
        // There may be one already, and then it is the same.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut client = Client::builder().timeout(REQUEST_WITHIN).https_only(true);
        if let Some(path) = &place.authority {
            client = client.tls_certs_only(certificates(path)?);
        }
        let client = client.build().map_err(|error| format!("url '{url}': {error}"))?;
        Ok(Discovery { client, configuration, name: place.name.clone() })
    }

    pub(crate) fn address(&self) -> &str {
        self.configuration.as_str()
    }

    /// The keys as they are now, and as they were written.
    pub(crate) async fn keys(&self) -> Result<(KeySet, Vec<u8>), NotTold> {
        let written = self.get(self.configuration.clone()).await?;
        let unread = |what: &Url, why: String| NotTold::Unread { what: what.clone(), why };
        let told: Configuration = serde_json::from_slice(&written)
            .map_err(|error| unread(&self.configuration, error.to_string()))?;
        if self.name.as_ref().is_some_and(|name| *name != told.issuer) {
            return Err(NotTold::OtherName { told: told.issuer });
        }
        let set = Url::parse(&told.jwks_uri)
            .map_err(|error| unread(&self.configuration, format!("jwks_uri: {error}")))?;
        let written = self.get(set.clone()).await?;
        let keys = KeySet::parse(&written).map_err(|why| unread(&set, why))?;
        Ok((keys, written))
    }

    async fn get(&self, what: Url) -> Result<Vec<u8>, NotTold> {
        let unreached = |error: reqwest::Error| {
            let mut why = error.source();
            while let Some(deeper) = why.and_then(std::error::Error::source) {
                why = Some(deeper);
            }
            let why = why.map_or_else(|| error.to_string(), ToString::to_string);
            NotTold::Unreached { what: what.clone(), why }
        };
        let mut answer = self.client.get(what.clone()).send().await.map_err(unreached)?;
        let status = answer.status();
        if !status.is_success() {
            return Err(NotTold::Status { what, status: status.as_u16() });
        }
        let mut body = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(unreached)? {
            if body.len() + chunk.len() > ANSWER_BYTES_MAX {
                return Err(NotTold::TooLong { what });
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }
}

fn certificates(path: &Path) -> Result<Vec<Certificate>, String> {
    let told = |why: String| format!("ca_file '{}': {why}", path.display());
    let pem = fs::read(path).map_err(|error| told(error.to_string()))?;
    let found = Certificate::from_pem_bundle(&pem).map_err(|error| told(error.to_string()))?;
    match found.is_empty() {
        true => Err(told("it has no certificate in PEM".to_owned())),
        false => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(url: &str) -> Place {
        Place { url: url.to_owned(), authority: None, name: None }
    }

    #[test]
    fn an_issuer_is_asked_below_its_own_address_and_over_https_only() {
        for (url, asked) in [
            ("https://h", Ok("https://h/.well-known/openid-configuration")),
            ("https://h/", Ok("https://h/.well-known/openid-configuration")),
            ("https://h/realms/shop", Ok("https://h/realms/shop/.well-known/openid-configuration")),
            (
                "https://h:8443/t/v2.0/",
                Ok("https://h:8443/t/v2.0/.well-known/openid-configuration"),
            ),
            ("http://h", Err("over https")),
            ("file:///etc", Err("over https")),
            ("h", Err("url 'h'")),
        ] {
            let found = Discovery::new(&place(url));
            match (found, asked) {
                (Ok(found), Ok(asked)) => assert_eq!(found.configuration.as_str(), asked),
                (Err(told), Err(word)) => assert!(told.contains(word), "{told}"),
                (found, _) => panic!("{url}: {found:?}"),
            }
        }
        let missing = Place { authority: Some("/nowhere/ca.pem".into()), ..place("https://h") };
        assert!(Discovery::new(&missing).is_err_and(|told| told.contains("ca_file '/nowhere")));
    }
}
