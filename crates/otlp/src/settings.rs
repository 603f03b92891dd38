//! Where spans and metrics go, as an operator says it.

use std::fmt;

use percent_encoding::percent_decode_str;

/// What a collector is told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    Traces,
    Metrics,
}

/// What an exporter is told.
#[derive(Clone, Debug)]
pub struct Settings {
    pub signal: Signal,
    pub endpoint: Endpoint,
    pub headers: Headers,
    /// `service.name` of everything that is told.
    pub service: String,
    /// `service.instance.id`.
    pub node: u64,
    /// `service.version`.
    pub version: &'static str,
}

impl Signal {
    /// The section of the settings that names its collector.
    pub(crate) fn section(self) -> &'static str {
        match self {
            Signal::Traces => "tracing",
            Signal::Metrics => "metrics",
        }
    }

    /// What a collector takes of it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Signal::Traces => "spans",
            Signal::Metrics => "metrics",
        }
    }

    /// Behind a collector's address, where it takes them (OTLP/HTTP).
    fn path(self) -> &'static str {
        match self {
            Signal::Traces => "/v1/traces",
            Signal::Metrics => "/v1/metrics",
        }
    }
}

/// A collector's address, with the path for a signal or without.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint(String);

impl Endpoint {
    /// The error says what to write instead.
    pub fn parse(text: &str) -> Result<Endpoint, String> {
        let wrong = || {
            format!("'{text}' is no address of a collector; write one like http://localhost:4318")
        };
        let base = text.trim_end_matches('/');
        let url = reqwest::Url::parse(base).map_err(|_| wrong())?;
        // What is a secret goes into a header, which nobody is shown.
        if !url.username().is_empty() || url.password().is_some() {
            return Err(
                "an address of a collector has no user and no password; write them as otlp_headers"
                    .to_owned(),
            );
        }
        let is_whole = matches!(url.scheme(), "http" | "https") && url.has_host();
        match is_whole && url.query().is_none() && url.fragment().is_none() {
            true => Ok(Endpoint(base.to_owned())),
            false => Err(wrong()),
        }
    }

    /// Where a signal is sent. The standard's variables for one signal name its path, and that for all does not.
    pub(crate) fn of(&self, signal: Signal) -> String {
        match self.0.ends_with(signal.path()) {
            true => self.0.clone(),
            false => format!("{}{}", self.0, signal.path()),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What is sent along with every request, as who it is from. Nobody is shown the values.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Headers(Vec<(String, String)>);

impl Headers {
    /// `name=value,…`, as the standard's variable has it, each value percent-encoded where it has to be. The error
    /// repeats no value.
    pub fn parse(text: &str) -> Result<Headers, String> {
        let pairs = text.split(',').map(str::trim).filter(|pair| !pair.is_empty());
        pairs.map(pair).collect::<Result<_, _>>().map(Headers)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &(String, String)> {
        self.0.iter()
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    let wrong = || {
        "a header is no name=value; write them like authorization=Bearer%20…,x-team=…".to_owned()
    };
    let (name, value) = text.split_once('=').ok_or_else(wrong)?;
    let name = name.trim().to_ascii_lowercase();
    let value = percent_decode_str(value.trim()).decode_utf8().map_err(|_| wrong())?;
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    let is_value = |c: char| c == ' ' || c.is_ascii_graphic();
    let fits = !name.is_empty() && name.chars().all(is_token) && value.chars().all(is_value);
    fits.then(|| (name, value.into_owned())).ok_or_else(wrong)
}

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_an_address_without_secrets() {
        for (text, sent_to) in [
            ("http://localhost:4318", Some("http://localhost:4318/v1/traces")),
            ("http://localhost:4318/", Some("http://localhost:4318/v1/traces")),
            ("https://collector.example/otlp", Some("https://collector.example/otlp/v1/traces")),
            ("https://collector.example/v1/traces", Some("https://collector.example/v1/traces")),
            (
                "http://prometheus:9090/v1/metrics",
                Some("http://prometheus:9090/v1/metrics/v1/traces"),
            ),
            ("localhost:4318", None),
            ("grpc://localhost:4317", None),
            ("http://user:word@localhost:4318", None),
            ("http://localhost:4318?key=1", None),
            ("", None),
        ] {
            let parsed = Endpoint::parse(text).ok();
            assert_eq!(
                parsed.map(|endpoint| endpoint.of(Signal::Traces)).as_deref(),
                sent_to,
                "{text}"
            );
        }
    }

    #[test]
    fn headers_are_pairs_and_show_no_value() {
        let headers = Headers::parse("Authorization=Bearer%20abc, x-team = a ,").unwrap();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(headers.0, [pair("authorization", "Bearer abc"), pair("x-team", "a")]);
        assert_eq!(format!("{headers:?}"), r#"["authorization", "x-team"]"#);
        assert_eq!(Headers::parse("").unwrap(), Headers::default());
        for wrong in ["a", "=b", "a b=c", "a=%00", "a=b\nc", "é=b"] {
            assert!(Headers::parse(wrong).is_err(), "{wrong}");
        }
    }
}
