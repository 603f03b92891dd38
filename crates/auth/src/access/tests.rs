//! Who is let do what, by what he sends.

use super::*;
use crate::offer::authorization;
use crate::path::Reach;
use crate::right::Rights;
use crate::token::sign;

const NOW_S: u64 = 1_700_000_000;

fn sent(authorization: &str) -> Evidence<'_> {
    Evidence { authorization: Some(authorization), certificate: None }
}

fn key(name: &str, value: &str, right: Right, scope: &str) -> Key {
    let (name, scope) = (name.to_owned(), scope.to_owned());
    Key { name, scope, rights: Rights::default().with(right), ..Key::root(value) }
}

/// Each row: what is sent, and who may send to `q`, or what everybody else is told.
#[test]
fn err_17_what_is_sent_as_authorization_says_who_it_is() {
    let access = Access::keys([
        Key::root("the-secret"),
        key("sender", "sender-key", Right::Send, "q"),
        key("listener", "listener-key", Right::Listen, ""),
        key("elsewhere", "elsewhere-key", Right::Send, "other"),
    ]);
    let own = [Key { reach: Reach::Entity, ..key("shop", "shop-key", Right::Send, "q") }];
    let login = |name: &str, key: &str| authorization(Some(name), key).into_owned();
    let token = |name: &str, key: &str| sign("sb%3A%2F%2Fh", name, key, NOW_S + 60);
    for (given, told) in [
        (login("sender", "sender-key"), "key 'sender'"),
        (token("sender", "sender-key"), "key 'sender'"),
        ("Bearer sender-key".to_owned(), "key 'sender'"),
        ("Bearer the-secret".to_owned(), "key 'RootManageSharedAccessKey'"),
        (login("shop", "shop-key"), "key 'shop' of 'q'"),
        (token("shop", "shop-key"), "key 'shop' of 'q'"),
        ("Bearer shop-key".to_owned(), "key 'shop' of 'q'"),
        ("Bearer listener-key".to_owned(), "key 'listener' has no right 'Send' on 'q'"),
        (login("listener", "listener-key"), "key 'listener' has no right 'Send' on 'q'"),
        (token("listener", "listener-key"), "key 'listener' has no right 'Send' on 'q'"),
        (login("elsewhere", "elsewhere-key"), "key 'elsewhere' has no right 'Send' on 'q'"),
        (
            token("elsewhere", "elsewhere-key"),
            "the token, signed with key 'elsewhere', is for another resource",
        ),
        (token("sender", "guess"), "the token's signature is not that of key 'sender'"),
        (login("sender", "guess"), "the login's key is not that of key 'sender'"),
        (login("nobody", "sender-key"), "no key has the name the token gives"),
        ("Bearer guess".to_owned(), "the bearer token is no key of this cluster"),
        ("Bearer ".to_owned(), "the bearer token is no key of this cluster"),
        (
            "sender-key".to_owned(),
            "the token is neither a shared access signature nor a JSON web token",
        ),
        ("Basic !".to_owned(), "the token lacks a part, or has one that cannot be read: Basic"),
    ] {
        let found = access.permit(sent(&given), "q", &[Right::Send], &own, NOW_S);
        let found = found.map_or_else(|denied| denied.to_string(), |g| g.principal.to_string());
        assert_eq!(found, told, "{given}");
    }
    let nothing = access.permit(Evidence::default(), "q", &[Right::Send], &own, NOW_S);
    assert_eq!(nothing, Err(Denied::Nothing));
    assert_eq!(
        Access::Anyone.permit(Evidence::default(), "", &[Right::Operate], &[], 0),
        Ok(Grant::all())
    );
}

/// A key that has two names is good for what either is.
#[test]
fn err_17_one_key_of_two_names_does_what_either_may() {
    let keys = [key("a", "shared-key", Right::Send, "q"), key("b", "shared-key", Right::Send, "r")];
    let access = Access::keys(keys);
    for (path, name) in [("q", Some("a")), ("r", Some("b")), ("s", None)] {
        let found = access.permit(sent("Bearer shared-key"), path, &[Right::Send], &[], NOW_S);
        assert_eq!(
            found.ok().and_then(|g| g.principal.key_name().map(str::to_owned)).as_deref(),
            name
        );
    }
}

#[test]
fn keys_are_exchanged_in_all_clones_at_once() {
    let access = Access::keys([key("a", "old-key", Right::Send, "")]);
    let (clone, grant) = (access.clone(), access.login("a", "old-key").expect("its key"));
    let Access::Keys(ring) = &access else { unreachable!("made of keys") };
    ring.replace([key("a", "new-key", Right::Listen, "")]);
    assert!(clone.login("a", "old-key").is_none() && clone.login("a", "new-key").is_some());
    assert_eq!(clone.renewed(&grant, &[]), None);
}

/// Each row: a certificate's URI, whether an `Authorization` came as well, and who it is that asks to
/// send to `q`, or what he is told.
#[test]
fn err_17_a_certificate_is_a_proof_where_there_is_no_other() {
    let keys = [
        key("worker", "worker-key", Right::Listen, ""),
        key("worker", "other-key", Right::Send, "q"),
        key("listener", "listener-key", Right::Listen, ""),
    ];
    let access = Access::keys(keys);
    let Access::Keys(ring) = &access else { unreachable!("made of keys") };
    ring.certify(CertificateMap::new(
        String::new(),
        [("spiffe://a/b".to_owned(), "worker".to_owned())],
    ));
    let shown = |uri: &str, expires_at_s| Certified {
        subject: "CN=a".into(),
        common_name: None,
        uris: vec![uri.to_owned()],
        expires_at_s,
    };
    let later = NOW_S + 1;
    for (uri, expires_at_s, authorization, told) in [
        (
            "mayfly://cluster/client/worker",
            later,
            None,
            "certificate 'mayfly://cluster/client/worker' (key 'worker')",
        ),
        ("spiffe://a/b", later, None, "certificate 'spiffe://a/b' (key 'worker')"),
        (
            "mayfly://cluster/client/listener",
            later,
            None,
            "certificate 'mayfly://cluster/client/listener' (key 'listener') has no right 'Send' on 'q'",
        ),
        (
            "mayfly://cluster/client/gone",
            later,
            None,
            "the certificate 'CN=a' stands for the key 'gone', and no [[security.key]] has that name",
        ),
        ("mayfly://cluster/client/worker", NOW_S, None, "the certificate 'CN=a' has expired"),
        (
            "mayfly://cluster/client/worker",
            later,
            Some("Bearer guess"),
            "the bearer token is no key of this cluster",
        ),
        ("mayfly://cluster/client/gone", later, Some("Bearer other-key"), "key 'worker'"),
    ] {
        let shown = shown(uri, expires_at_s);
        let evidence = Evidence { authorization, certificate: Some(&shown) };
        let found = access.permit(evidence, "q", &[Right::Send], &[], NOW_S);
        let found = found.map_or_else(|denied| denied.to_string(), |g| g.principal.to_string());
        assert_eq!(found, told, "{uri}");
    }
    // What is taken out of the configuration ends what was granted by it.
    for name in ["spiffe://a/b", "mayfly://cluster/client/worker"] {
        let grants = access.certified(&shown(name, later), NOW_S).expect("mapped");
        assert_eq!(grants.len(), 2, "one for each key of the name");
        let renewed = |ring: &Keyring| {
            let renewed = grants.iter().map(|grant| Access::Keys(ring.clone()).renewed(grant, &[]));
            renewed.filter(Option::is_some).count()
        };
        assert_eq!(renewed(ring), 2);
        let other = Keyring::new(ring.current().iter().cloned());
        assert_eq!(renewed(&other), if name.starts_with("spiffe") { 0 } else { 2 });
        assert_eq!(renewed(&Keyring::new([])), 0);
    }
}
