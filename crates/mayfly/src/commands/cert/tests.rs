//! What `mayfly cert` makes, and what it refuses to.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use clap::Parser;
use transport::Certificate;

use super::*;

#[derive(Debug, Parser)]
struct CertLine {
    #[command(flatten)]
    args: CertArgs,
}

/// `mayfly cert …` in a directory; what a person is told that it went wrong.
fn cert(dir: &Path, line: &str) -> Result<(), String> {
    let words = line.split_whitespace();
    let place = ["--dir".to_owned(), dir.display().to_string()];
    let place = place.into_iter().filter(|_| !line.starts_with("show"));
    let words = ["cert".to_owned()].into_iter().chain(words.map(str::to_owned)).chain(place);
    let line = CertLine::try_parse_from(words).map_err(|error| error.to_string())?;
    run(line.args).map_err(|error| format!("{error:#}"))
}

fn read(dir: &Path, name: &str) -> Vec<Certificate> {
    Certificate::read_all(&dir.join(name)).expect("it is read")
}

fn cluster_of(lines: &[&str]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    for line in lines {
        cert(dir.path(), line).unwrap_or_else(|told| panic!("{line}: {told}"));
    }
    dir
}

#[test]
fn each_certificate_says_what_it_is_for() {
    let dir = cluster_of(&[
        "authority",
        "node 3 n3.example 10.0.0.3 ::1 *.n3.example",
        "node 4 n4 --cluster 0123456789abcdef0123456789abcdef",
        "client orders-worker",
        "client shop --cluster 0123456789abcdef0123456789abcdef",
    ]);
    for (name, subject, names, usage) in [
        ("authority.pem", "CN=Mayfly authority", "", "authority"),
        (
            "node-3.pem",
            "CN=node-3",
            "n3.example 10.0.0.3 ::1 *.n3.example mayfly://cluster/node/3",
            "server, client",
        ),
        (
            "node-4.pem",
            "CN=node-4",
            "n4 mayfly://0123456789abcdef0123456789abcdef/node/4",
            "server, client",
        ),
        (
            "client-orders-worker.pem",
            "CN=orders-worker",
            "mayfly://cluster/client/orders-worker",
            "client",
        ),
        (
            "client-shop.pem",
            "CN=shop",
            "mayfly://0123456789abcdef0123456789abcdef/client/shop",
            "client",
        ),
    ] {
        let [read] = &read(dir.path(), name)[..] else { panic!("{name}: one") };
        let found = read.names.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        assert_eq!((read.subject.as_str(), found.as_str()), (subject, names));
        assert_eq!(
            (read.issuer.as_str(), read.usage.to_string().as_str()),
            ("CN=Mayfly authority", usage)
        );
        let key = dir.path().join(name).with_extension("key");
        let mode = key.metadata().expect("a key").permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{name}");
        cert(dir.path(), &format!("show {}", dir.path().join(name).display())).expect(name);
    }
}

/// Each row: what was done before, what is done, and what a person is told.
#[test]
fn what_cannot_be_made_is_told_in_a_line_that_says_what_to_do() {
    let long = format!("client {}", "a".repeat(65));
    for (before, line, told) in [
        (&[][..], "node 1 n1", "make an authority with 'mayfly cert authority'"),
        (&[], "client a", "make an authority with 'mayfly cert authority'"),
        (&[], "authority --add", "make an authority with 'mayfly cert authority'"),
        (&[], "authority --retire", "make an authority with 'mayfly cert authority'"),
        (&["authority"], "authority", "pass --add for a second one, or --overwrite"),
        (
            &["authority", "node 1 n1"],
            "node 1 n1",
            "node-1.pem' is there already; pass --overwrite",
        ),
        (&["authority"], "node 1", "required arguments"),
        (&["authority"], "node 0 n1", "0 is not in 1..=65535"),
        (&["authority"], "node 65536 n1", "65536 is not in 1..=65535"),
        (&["authority"], "node 1 n1:5320", "'n1:5320' is no host; write its name or address"),
        (&["authority"], "node 1 https://n1", "is no host"),
        (&["authority"], "node 1 n1 --cluster FF", "'FF' is no id of a cluster"),
        (&["authority"], "node 1 n1 --valid-for 1s", "'1s' is not from 1h to 100years"),
        (&["authority"], "node 1 n1 --valid-for 365", "'365' has no unit"),
        (&["authority"], "client a/b", "'a/b' has more than letters, digits"),
        (&["authority"], "client .a", "has more than letters"),
        (&["authority"], &long, "a name has 1 to 64 letters"),
        (&["authority"], "authority --add --retire", "cannot be used with"),
    ] {
        let dir = cluster_of(before);
        let error = cert(dir.path(), line).expect_err(line);
        assert!(error.contains(told), "{line}: {error}");
    }
}

#[test]
fn nothing_is_replaced_without_being_asked_for() {
    let dir = cluster_of(&["authority", "node 1 n1"]);
    let files = || {
        ["authority.pem", "authority.key", "node-1.pem", "node-1.key"]
            .map(|name| fs::read_to_string(dir.path().join(name)).expect("a file"))
    };
    let before = files();
    for line in ["authority", "node 1 n2"] {
        cert(dir.path(), line).expect_err("it is there");
        assert_eq!(files(), before, "{line}");
    }
    // One of the two is enough.
    fs::remove_file(dir.path().join("node-1.pem")).expect("gone");
    cert(dir.path(), "node 1 n2").expect_err("its key is there");
    cert(dir.path(), "node 1 n2 --overwrite").expect("asked for");
    assert_ne!(files()[3], before[3]);
}

/// What signs is chosen by its key, and nobody outlives whoever vouches for it.
#[test]
fn an_authority_is_followed_by_another() {
    let dir = cluster_of(&["authority --valid-for 48h", "node 1 n1"]);
    let [former] = &read(dir.path(), "authority.pem")[..] else { panic!("one") };
    let [node] = &read(dir.path(), "node-1.pem")[..] else { panic!("one") };
    assert_eq!(node.not_after, former.not_after, "a year was asked");
    cert(dir.path(), "authority --add --name second").expect("another");
    let both = read(dir.path(), "authority.pem");
    assert_eq!((both.len(), &both[1], both[0].subject.as_str()), (2, former, "CN=second"));
    cert(dir.path(), "node 1 n1 --overwrite").expect("anew");
    assert_eq!(read(dir.path(), "node-1.pem")[0].issuer, "CN=second");
    cert(dir.path(), "authority --retire").expect("the former is out");
    assert_eq!(read(dir.path(), "authority.pem"), [both[0].clone()]);
    cert(dir.path(), "client a").expect("it signs");
}

/// Each row: files that are put in the authority's place, and what a person is told.
#[test]
fn what_is_no_authority_signs_nothing() {
    let dir = cluster_of(&["authority", "node 1 n1", "client a"]);
    let other = cluster_of(&["authority"]);
    let text = |dir: &Path, name: &str| fs::read_to_string(dir.join(name)).expect("a file");
    let own = |name: &str| text(dir.path(), name);
    for (certificate, key, told) in [
        (own("authority.pem"), text(other.path(), "authority.key"), "is the private key of no"),
        (own("node-1.pem"), own("node-1.key"), "is no authority's: it may not sign others"),
        (own("authority.pem"), own("authority.pem"), "holds no private key in PEM"),
        (own("authority.key"), own("authority.key"), "is the private key of no certificate"),
        (own("authority.pem").replace("MII", "M!I"), own("authority.key"), "is no PEM file"),
    ] {
        let dir = tempfile::tempdir().expect("a directory");
        fs::write(dir.path().join("authority.pem"), certificate).expect("written");
        fs::write(dir.path().join("authority.key"), key).expect("written");
        let error = cert(dir.path(), "node 1 n1").expect_err(told);
        assert!(error.contains(told) && !error.contains('\n'), "{error}");
    }
}

#[test]
fn a_key_that_does_not_fit_is_told() {
    let dir = cluster_of(&["authority", "node 1 n1", "node 2 n2"]);
    let path = |name: &str| dir.path().join(name).display().to_string();
    let line = format!("show {} --key {}", path("node-1.pem"), path("node-2.key"));
    let told = cert(dir.path(), &line).expect_err("another's");
    assert!(told.contains("node-2.key' is not the private key of '"), "{told}");
    let told =
        cert(dir.path(), &format!("show {}", path("node-1.key"))).expect_err("no certificate");
    assert!(told.contains("node-1.key' holds no certificate"), "{told}");
}

/// What others make of them, where there is openssl.
#[test]
fn openssl_verifies_what_is_made() {
    let dir = cluster_of(&["authority", "node 1 n1.example 10.0.0.1", "client a"]);
    let verify = |purpose: &str, rest: &[&str], name: &str| {
        let authority = dir.path().join("authority.pem");
        let mut openssl = Command::new("openssl");
        openssl.args(["verify", "-x509_strict", "-purpose", purpose, "-CAfile"]).arg(authority);
        openssl.args(rest).arg(dir.path().join(name)).output().map(|ran| ran.status.success())
    };
    for (purpose, rest, name, is_good) in [
        ("sslserver", &["-verify_hostname", "n1.example"][..], "node-1.pem", true),
        ("sslserver", &["-verify_ip", "10.0.0.1"], "node-1.pem", true),
        ("sslserver", &["-verify_hostname", "n2.example"], "node-1.pem", false),
        ("sslclient", &[], "node-1.pem", true),
        ("sslclient", &[], "client-a.pem", true),
        ("sslserver", &[], "client-a.pem", false),
    ] {
        match verify(purpose, rest, name) {
            Err(error) => return eprintln!("openssl is not there: {error}"),
            Ok(found) => assert_eq!(found, is_good, "{purpose} {rest:?} {name}"),
        }
    }
}
