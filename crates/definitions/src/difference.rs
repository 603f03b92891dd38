//! How an entity that is there differs from what it is to be.

use domain::{
    AuthorizationRule, Described, EntityProperty, Mutability, NewRule, Patch, PropertyValue,
};

use crate::validity::{self, Planned};
use crate::{Change, EntityDefinition, Lists, Problem, RuleDefinition, rule, word};

/// What changes of an entity, how people read it, and what stands in the way.
pub(crate) struct Difference<P> {
    pub patch: Patch<P>,
    pub told: Vec<String>,
    pub problems: Vec<Problem>,
}

/// What is to change of an entity.
pub(crate) fn of<P: Planned>(wanted: &EntityDefinition<P>, found: &Patch<P>) -> Difference<P> {
    let mut difference =
        Difference { patch: Patch::default(), told: Vec::new(), problems: Vec::new() };
    let at = validity::place(&wanted.at, &wanted.name);
    for (property, value) in settled(&wanted.properties, found).given() {
        let was = found.get(property);
        if let PropertyValue::AuthorizationRules(rules) = value {
            let there = match was {
                Some(PropertyValue::AuthorizationRules(there)) => there,
                _ => Vec::new(),
            };
            let goes = wanted.lists == Lists::Whole;
            let (after, told) = authorization(rules, &there, goes);
            if !told.is_empty() {
                difference.told.push(format!("{} {}", property.element, told.join(", ")));
                difference.patch.set(property, PropertyValue::AuthorizationRules(after));
            }
            continue;
        }
        if was.as_ref() == Some(&value) {
            continue;
        }
        let was = was.as_ref().map(word::value).unwrap_or_default();
        let change = format!("{} {was} -> {}", property.element, word::value(&value));
        match property.mutability {
            Mutability::Always => difference.patch.set(property, value),
            Mutability::Never(why) => difference.problems.push(Problem::new(
                &at,
                format!("{change}: {}; delete it first, or give it another name", why(P::KIND)),
            )),
        }
        difference.told.push(change);
    }
    let old = found.applied_to(P::default());
    let new = difference.patch.applied_to(old.clone());
    if difference.problems.is_empty() {
        let checked = validity::check(&new).and_then(|()| old.check_change(&new));
        difference.problems.extend(checked.err().map(|refusal| Problem::new(&at, refusal)));
    }
    difference
}

/// What the given properties come to, in an entity like the one that is there: a partitioned one has
/// room for all its partitions (PART-1).
fn settled<P: Described>(given: &Patch<P>, found: &Patch<P>) -> Patch<P> {
    let mut whole = given.clone();
    for property in EntityProperty::all_of(P::KIND) {
        let is_fixed = matches!(property.mutability, Mutability::Never(_));
        if let Some(value) =
            found.get(property).filter(|_| is_fixed && given.get(property).is_none())
        {
            whole.set(property, value);
        }
    }
    let created = whole.created();
    let mut settled = Patch::default();
    for (property, _) in given.given() {
        if let Some(value) = property.get(&created) {
            settled.set(property, value);
        }
    }
    settled
}

/// The rules to be, and what is another then. A key that is not given stays.
fn authorization(
    wanted: Vec<AuthorizationRule>,
    found: &[AuthorizationRule],
    others_go: bool,
) -> (Vec<AuthorizationRule>, Vec<String>) {
    let mut told = Vec::new();
    for rule in &wanted {
        let rights = word::rights(rule).join(", ");
        match found.iter().find(|old| old.name == rule.name) {
            None => told.push(format!("+ {} ({rights})", rule.name)),
            Some(old) => {
                if old.rights != rule.rights {
                    let were = word::rights(old).join(", ");
                    told.push(format!("~ {} ({were} -> {rights})", rule.name));
                }
                let is_other = |given: &String, is: &String| !given.is_empty() && given != is;
                if is_other(&rule.primary_key, &old.primary_key)
                    || is_other(&rule.secondary_key, &old.secondary_key)
                {
                    told.push(format!("~ {} (another key)", rule.name));
                }
            }
        }
    }
    let others = found.iter().filter(|old| wanted.iter().all(|rule| rule.name != old.name));
    let others: Vec<&AuthorizationRule> = others.collect();
    let mut after = wanted.clone();
    match others_go {
        true => told.extend(others.iter().map(|old| format!("- {}", old.name))),
        false => after.extend(others.into_iter().map(|old| AuthorizationRule {
            name: old.name.clone(),
            rights: old.rights,
            ..AuthorizationRule::default()
        })),
    }
    (after, told)
}

/// What is to be done about the rules of a subscription: first those that are put there, so that
/// nothing is missed meanwhile.
pub(crate) fn rules(
    wanted: &[RuleDefinition],
    found: &[RuleDefinition],
    others_go: bool,
) -> Vec<Change> {
    let named = |rules: &[RuleDefinition], name: &str| -> Option<NewRule> {
        let found = rules.iter().find(|one| one.rule.name.eq_ignore_ascii_case(name));
        found.map(|one| one.rule.clone())
    };
    let mut changes = Vec::new();
    let mut gone = Vec::new();
    for RuleDefinition { rule, .. } in wanted {
        let old = named(found, &rule.name);
        if rule::is_no_default(rule) && !others_go {
            gone.extend(old.map(|old| Change::RemoveRule { name: old.name }));
            continue;
        }
        if old.as_ref().is_some_and(|old| rule::same(old, rule)) {
            continue;
        }
        changes.push(Change::PutRule { rule: Box::new(rule.clone()), replaces: old.map(Box::new) });
    }
    if others_go {
        let others = found.iter().filter(|old| named(wanted, &old.rule.name).is_none());
        changes.extend(others.map(|old| Change::RemoveRule { name: old.rule.name.clone() }));
    }
    changes.extend(gone);
    changes
}
