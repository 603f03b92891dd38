//! Every rule of the specifications has a test of its name: `ttl_11_…` tests TTL-11. What has none
//! must be listed, with a reason, in `rules-untested.toml`.

use std::collections::{BTreeMap, BTreeSet};

use mayfly_tests::specification::{DOCUMENTS, RuleId, files, read, root, specified};

/// Rules and the functions named for them, `fn ttl_11_…`: tests, since nothing else is called so.
fn tested() -> BTreeMap<RuleId, Vec<String>> {
    let mut rules: BTreeMap<RuleId, Vec<String>> = BTreeMap::new();
    for file in files(&[".rs"]) {
        for line in read(&file).lines().map(str::trim_start) {
            let Some(rest) = line.strip_prefix("async fn ").or_else(|| line.strip_prefix("fn "))
            else {
                continue;
            };
            let name = rest.split('(').next().unwrap_or_default();
            for id in RuleId::all_of_test(name) {
                rules.entry(id).or_default().push(name.to_owned());
            }
        }
    }
    rules
}

/// Rule → reason.
fn excused() -> BTreeMap<RuleId, String> {
    let text = read(&root().join("tests/rules-untested.toml"));
    let table: toml::Table = text.parse().expect("rules-untested.toml in TOML");
    let rules = table["rule"].as_array().expect("[[rule]] entries");
    let mut excused = BTreeMap::new();
    for entry in rules {
        let id = entry["id"].as_str().expect("id");
        let reason = entry["reason"].as_str().expect("reason");
        assert!(reason.len() >= 10, "{id}: give a reason, not '{reason}'");
        let rule = RuleId::split(id).filter(|(_, rest)| rest.is_empty());
        let (rule, _) = rule.unwrap_or_else(|| panic!("'{id}' is not a rule id"));
        assert_eq!(excused.insert(rule, reason.to_owned()), None, "{id} is excused twice");
    }
    excused
}

#[test]
fn every_rule_has_a_test_of_its_name_or_a_reason() {
    let (specified, tested, excused) = (specified(), tested(), excused());
    for (document, least) in DOCUMENTS.into_iter().zip([300, 140, 45]) {
        let rules: Vec<_> = specified.iter().filter(|(_, found)| **found == document).collect();
        let count = rules.iter().filter(|(rule, _)| tested.contains_key(rule)).count();
        println!("{document}: {count} of {} rules have a test of their name", rules.len());
        assert!(rules.len() >= least, "only {} rules were found in {document}", rules.len());
    }
    for (rule, reason) in &excused {
        println!("no test: {rule} ({reason})");
    }

    let show = |rules: Vec<&RuleId>| {
        rules.iter().map(|rule| rule.to_string()).collect::<Vec<_>>().join(", ")
    };
    let has_none = |rule: &&RuleId| !tested.contains_key(rule) && !excused.contains_key(rule);
    let untested = show(specified.keys().filter(has_none).collect());
    let stale = show(excused.keys().filter(|rule| tested.contains_key(rule)).collect());
    let groups: BTreeSet<&str> = specified.keys().map(|rule| rule.group.as_str()).collect();
    let named = tested.keys().filter(|rule| groups.contains(rule.group.as_str()));
    let is_unknown = |rule: &&RuleId| !specified.contains_key(rule);
    let unknown = show(named.chain(excused.keys()).filter(is_unknown).collect());
    assert!(untested.is_empty(), "rules without a test or a reason: {untested}");
    assert!(stale.is_empty(), "excused in rules-untested.toml, yet tested: {stale}");
    assert!(unknown.is_empty(), "specified in none of {DOCUMENTS:?}: {unknown}");
}
