//! `[security]` and `[tls]`: who is let in, and how clients know whom they talk to.

use std::collections::BTreeMap;
use std::path::PathBuf;

use auth::{Access, CertificateMap, Issuers, Key, Reach, Rights, resource_path};
use transport::{ClientTrust, Tls};

use super::{ClientCertificates, Config, IssuerConfig, PeerTlsFiles, TlsFiles, file};
use crate::connect::TlsFlags;
use crate::files;

/// Listeners that take plain text without a certificate, and beside TLS if they are told to.
const MAY_BE_PLAIN: [&str; 5] = ["grpc", "http", "amqp", "websocket", "any"];
/// QUOTA-23: of the namespace, and of each entity.
const KEYS_MAX: usize = 12;

/// What clients are asked for. The error is one line.
pub fn access(security: &file::Security, secret: Option<&str>) -> Result<Access, String> {
    let keys = security.key.iter().map(key).collect::<Result<Vec<Key>, String>>()?;
    for (position, key) in keys.iter().enumerate() {
        let Key { name, scope, .. } = key;
        if name == Key::ROOT {
            return Err(format!(
                "[[security.key]] '{name}' is the name of the secret's own key; choose another, or set \
                 security.secret to this key"
            ));
        }
        if keys[..position].iter().any(|other| other.name == *name && other.scope == *scope) {
            return Err(format!("two [[security.key]] of one scope have the name '{name}'"));
        }
        let of_scope = keys.iter().filter(|other| other.scope == *scope).count();
        if of_scope > KEYS_MAX {
            return Err(format!(
                "{of_scope} [[security.key]] have the scope '{scope}', allowed is {KEYS_MAX}"
            ));
        }
    }
    match (security.auth, secret, keys.first()) {
        (Some(file::Auth::Off), _, _) => Ok(Access::Anyone),
        (_, Some(secret), _) => Ok(Access::keys([Key::root(secret)].into_iter().chain(keys))),
        (_, None, Some(key)) => Err(format!(
            "[[security.key]] '{}' is of no use without a secret for the other ports; set \
             security.secret (or MAYFLY_SECRET)",
            key.name
        )),
        (Some(file::Auth::On), None, None) => {
            Err("security.auth is \"on\", which takes a secret; set security.secret (or \
                 MAYFLY_SECRET)"
                .to_owned())
        }
        (None, None, None) => Ok(Access::Anyone),
    }
}

fn key(written: &file::SecurityKey) -> Result<Key, String> {
    let file::SecurityKey { name, key, key_file, rights, scope, .. } = written;
    let told = |why: String| format!("[[security.key]] '{name}': {why}");
    let wrong = |why: &str| Err(told(why.to_owned()));
    if name.is_empty() {
        return Err("a [[security.key]] has an empty name".to_owned());
    }
    let primary = value("key", key, "key_file", key_file).map_err(told)?;
    let Some(primary) = primary else { return wrong("key is missing; set it, or key_file") };
    let file::SecurityKey { secondary_key, secondary_key_file, .. } = written;
    let secondary = value("secondary_key", secondary_key, "secondary_key_file", secondary_key_file);
    let secondary = secondary.map_err(told)?.unwrap_or_default();
    if rights.is_empty() {
        return wrong(
            "rights is empty; name some of listen, send, manage, monitor, operate and inject-faults",
        );
    }
    let rights = self::rights(rights);
    let is_of_cluster = rights.monitor || rights.operate || rights.inject_faults;
    if is_of_cluster && !resource_path(scope).is_empty() {
        return wrong(
            "monitor, operate and inject-faults are rights on the cluster; leave scope out, or them",
        );
    }
    Ok(Key {
        name: name.clone(),
        primary,
        secondary,
        rights,
        scope: resource_path(scope),
        reach: Reach::Below,
        owner: None,
    })
}

/// As they are written.
pub fn rights(written: &[file::Right]) -> Rights {
    written.iter().fold(Rights::default(), |rights, right| {
        rights.with(match right {
            file::Right::Listen => auth::Right::Listen,
            file::Right::Send => auth::Right::Send,
            file::Right::Manage => auth::Right::Manage,
            file::Right::Monitor => auth::Right::Monitor,
            file::Right::Operate => auth::Right::Operate,
            file::Right::InjectFaults => auth::Right::InjectFaults,
        })
    })
}

/// A key as it stands in the configuration, or in the file that is named there.
fn value(
    setting: &str,
    given: &Option<String>,
    file_setting: &str,
    file: &Option<PathBuf>,
) -> Result<Option<String>, String> {
    let value = match (given, file) {
        (Some(_), Some(_)) => {
            return Err(format!("{setting} and {file_setting} are both set; keep one"));
        }
        (None, None) => return Ok(None),
        (Some(value), None) => value.clone(),
        (None, Some(path)) => {
            let text = files::read_private(path);
            text.map_err(|told| format!("{file_setting}: {told}"))?.trim().to_owned()
        }
    };
    if value.is_empty() { Err(format!("the {setting} is empty")) } else { Ok(Some(value)) }
}

/// The files of `[tls]`, which are tried: what is wrong with them is told now.
pub fn tls(written: &file::Tls) -> Result<Option<TlsFiles>, String> {
    let clients = client_certificates(&written.clients)?;
    match (&written.certificate, &written.key) {
        (None, None) if clients.is_some() => {
            Err("tls.clients takes TLS; set tls.certificate and tls.key".to_owned())
        }
        (None, None) => Ok(None),
        (Some(_), None) => {
            Err("tls.key is missing; name the PEM file with the key of tls.certificate".to_owned())
        }
        (None, Some(_)) => {
            Err("tls.certificate is missing; name the PEM file with the certificate of tls.key"
                .to_owned())
        }
        (Some(certificate), Some(key)) => {
            files::check_private(key).map_err(|told| format!("tls.key: {told}"))?;
            let trust = clients.as_ref().map(|clients| clients.trust.clone());
            Tls::load_asking(certificate, key, trust).map_err(|error| format!("tls: {error}"))?;
            let plain = plain(&written.plain)?;
            let (certificate, key) = (certificate.clone(), key.clone());
            Ok(Some(TlsFiles { certificate, key, plain, clients }))
        }
    }
}

/// `[tls.clients]`.
fn client_certificates(written: &file::TlsClients) -> Result<Option<ClientCertificates>, String> {
    let file::TlsClients { authority, revoked, required, map } = written;
    let Some(authority) = authority.clone() else {
        return match (revoked, required, &map[..]) {
            (None, false, []) => Ok(None),
            _ => Err(
                "tls.clients.authority is missing; name the PEM file with whom clients are to be \
                      vouched for by"
                    .to_owned(),
            ),
        };
    };
    let rows = certificate_rows(map)?;
    let trust = ClientTrust { authority, revoked: revoked.clone(), is_required: *required };
    Ok(Some(ClientCertificates { trust, rows }))
}

/// `[[tls.clients.map]]`, whose keys are these.
pub fn mapped_certificates(
    map: &[file::MappedCertificate],
    keys: &Access,
) -> Result<BTreeMap<String, String>, String> {
    let rows = certificate_rows(map)?;
    check_mapped(&rows, keys)?;
    Ok(rows)
}

fn certificate_rows(map: &[file::MappedCertificate]) -> Result<BTreeMap<String, String>, String> {
    let mut rows = BTreeMap::new();
    for file::MappedCertificate { common_name, uri, key } in map {
        let name = match (common_name, uri) {
            (Some(name), None) => CertificateMap::common_name(name),
            (None, Some(uri)) => uri.clone(),
            _ => {
                return Err(format!(
                    "[[tls.clients.map]] of the key '{key}': set one of common_name and uri"
                ));
            }
        };
        if rows.insert(name.clone(), key.clone()).is_some() {
            return Err(format!("two [[tls.clients.map]] name '{name}'; keep one"));
        }
    }
    Ok(rows)
}

fn check_mapped(rows: &BTreeMap<String, String>, keys: &Access) -> Result<(), String> {
    match rows.iter().find(|(_, key)| !keys.has(key)) {
        None => Ok(()),
        Some((name, key)) => Err(format!(
            "[[tls.clients.map]] '{name}': there is no key '{key}'; name a [[security.key]]"
        )),
    }
}

/// Lets tokens of these be proofs beside the keys.
pub fn trust(access: Access, issuers: &[IssuerConfig]) -> Result<Access, String> {
    match (access, issuers.first()) {
        (access, None) => Ok(access),
        (Access::Anyone, Some(IssuerConfig { issuer, .. })) => Err(format!(
            "[[security.issuer]] '{}' is of no use while no proof is asked for; set security.secret (or \
             MAYFLY_SECRET)",
            issuer.name
        )),
        (Access::Keys(ring), Some(_)) => {
            let all = issuers.iter().map(|config| config.issuer.clone());
            Ok(Access::Keys(ring.with_issuers(Issuers::new(all))))
        }
    }
}

/// Certificates of clients stand for keys that there are, and are asked for on all ports if on any.
pub fn check_certificates(config: &Config) -> Result<(), String> {
    let Some(TlsFiles { plain, clients: Some(clients), .. }) = &config.tls else { return Ok(()) };
    if config.access.is_anyone() {
        return Err("tls.clients: certificates stand for keys, and none is asked for; set \
                    security.secret (or MAYFLY_SECRET)"
            .to_owned());
    }
    check_mapped(&clients.rows, &config.access)?;
    match plain.first() {
        Some(port) if clients.trust.is_required => Err(format!(
            "tls.clients.required asks all clients for a certificate, and tls.plain lets them come without \
             TLS; take '{port}' out of it, or leave required out"
        )),
        _ => Ok(()),
    }
}

/// The listeners that go on taking plain text, by their names in `[listen]`.
fn plain(written: &file::PlainText) -> Result<Vec<&'static str>, String> {
    match written {
        file::PlainText::All(true) => Ok(MAY_BE_PLAIN.to_vec()),
        file::PlainText::All(false) => Ok(Vec::new()),
        file::PlainText::Some(names) => {
            let known = |name: &String| MAY_BE_PLAIN.into_iter().find(|known| known == name);
            let wrong = |name: &String| {
                let all = MAY_BE_PLAIN.join(", ");
                format!("tls.plain: '{name}' cannot be plain; name some of {all}, or write true")
            };
            names.iter().map(|name| known(name).ok_or_else(|| wrong(name))).collect()
        }
    }
}

/// `[tls.peer]`, and the number of the node that its certificate names, if it names one. The files are
/// tried: what is wrong with them is told now.
pub fn peer_tls(written: &file::Tls) -> Result<Option<(PeerTlsFiles, Tls)>, String> {
    let file::TlsPeer { certificate, key, authority } = &written.peer;
    let Some(authority) = authority else {
        return match (certificate, key) {
            (None, None) => Ok(None),
            _ => Err(
                "tls.peer.authority is missing; name the PEM file with whom other nodes are to be \
                      vouched for by"
                    .to_owned(),
            ),
        };
    };
    let (certificate, key) = match (certificate, key, &written.certificate, &written.key) {
        (Some(certificate), Some(key), ..) | (None, None, Some(certificate), Some(key)) => {
            (certificate.clone(), key.clone())
        }
        (Some(_), None, ..) => {
            return Err("tls.peer.key is missing; name the PEM file with the key of \
                        tls.peer.certificate"
                .to_owned());
        }
        (None, ..) => {
            return Err("tls.peer.certificate is missing; name the PEM file with this node's \
                        certificate, or set tls.certificate"
                .to_owned());
        }
    };
    files::check_private(&key).map_err(|told| format!("tls.peer.key: {told}"))?;
    let tls = Tls::load_mutual(&certificate, &key, authority);
    let tls = tls.map_err(|error| format!("tls.peer: {error}"))?;
    let authority = authority.clone();
    Ok(Some((PeerTlsFiles { certificate, key, authority }, tls)))
}

/// Whether the certificate for peers is this node's: others would refuse it. A node that is to be told
/// its number is not known yet.
pub fn check_own(config: &Config, tls: &Tls) -> Result<(), String> {
    let Some(own) = config.nodes.get(&config.node).filter(|_| config.node > 0) else {
        return Ok(());
    };
    let shown = tls.own();
    // One that draws the id of its cluster has no peers that could ask.
    let cluster = match (config.cluster_id, shown.node()) {
        (Some(id), _) => format!("{id:032x}"),
        (None, Ok(Some(transport::NodeUri { cluster: Some(cluster), .. }))) => cluster,
        (None, _) => String::new(),
    };
    shown
        .vouches_for(config.node, Some(&own.peer), &cluster)
        .map_err(|why| format!("tls.peer: this is node {}: {why}", config.node))
}

/// Beyond this machine a proof is asked for, unless someone says that none shall be.
pub fn check_open(config: &Config) -> Result<(), String> {
    match config.unguarded().first() {
        Some(address) if !config.insecure => Err(match config.secret {
            Some(_) => format!(
                "{address} is not loopback and security.auth is \"off\"; set it to \"on\", or pass \
                 --insecure"
            ),
            None => format!(
                "{address} is not loopback; set security.secret (or MAYFLY_SECRET), or pass --insecure"
            ),
        }),
        _ if config.insecure => Ok(()),
        _ => check_readable(config),
    }
}

/// Beyond this machine nothing is spoken that others could read.
fn check_readable(config: &Config) -> Result<(), String> {
    match (config.readable_to_clients().first(), config.readable_to_peers()) {
        (Some((_, address)), _) if config.tls.is_none() => Err(format!(
            "{address} is not loopback, and clients would speak plain text there; set tls.certificate and \
             tls.key (mayfly cert makes them), or pass --insecure"
        )),
        (Some((key, address)), _) => Err(format!(
            "{address} is not loopback, and tls.plain lets clients speak plain text there; take '{key}' out of \
             it, or pass --insecure"
        )),
        (None, None) => Ok(()),
        (None, Some(address)) => Err(format!(
            "{address} is not loopback, and nodes would speak plain text there; set tls.peer.authority \
                 (mayfly cert makes what it takes), or pass --insecure"
        )),
    }
}

/// The secret goes to nobody in plain text where nodes speak TLS, and a join token's to nobody beyond this
/// machine.
pub fn check_seeds(config: &Config) -> Result<(), String> {
    let told = match (&config.join_token, &config.secret, &config.peer_tls) {
        _ if config.insecure => None,
        (Some(_), ..) => Some("the join token"),
        (None, Some(_), Some(_)) => Some("the secret"),
        (None, ..) => None,
    };
    let Some(told) = told else { return Ok(()) };
    let seeds = config.join.iter().flatten();
    let are_all = config.join_tls != TlsFlags::default();
    let is_tls = |seed: &str| match seed.split_once("://") {
        Some((scheme, _)) => scheme == "https",
        None => are_all,
    };
    match seeds.filter(|seed| !is_tls(seed)).find(|seed| !is_near(seed)) {
        None => Ok(()),
        Some(seed) => Err(format!(
            "--join {seed} would send {told} in plain text; write https://{seed}, or pass --insecure"
        )),
    }
}

fn is_near(seed: &str) -> bool {
    let host = transport::host_of(seed.trim_start_matches("http://"));
    host.parse::<std::net::IpAddr>().map_or(host == "localhost", |ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(scopes: impl IntoIterator<Item = String>) -> Result<Access, String> {
        let key = |(number, scope): (usize, String)| file::SecurityKey {
            name: format!("key-{number}"),
            key: Some("k".to_owned()),
            key_file: None,
            secondary_key: None,
            secondary_key_file: None,
            rights: vec![file::Right::Send],
            scope,
        };
        let key = scopes.into_iter().enumerate().map(key).collect();
        access(&file::Security { key, ..Default::default() }, Some("secret"))
    }

    #[test]
    fn quota_23_a_scope_has_up_to_12_keys() {
        let of = |scope: &str, count| std::iter::repeat_n(scope.to_owned(), count);
        assert!(keys(of("", 12).chain(of("q", 12))).is_ok());
        // However it is written.
        let told = keys(of("q", 12).chain(of("/Q/", 1))).expect_err("one too many");
        assert_eq!(told, "13 [[security.key]] have the scope 'q', allowed is 12");
    }
}
